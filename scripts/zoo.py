"""The zoo of models: imports each from PyTorch, runs it, and writes the tables of `docs/zoo.md`.

python scripts/zoo.py                          # all of them; minutes
python scripts/zoo.py --only BERT Llama        # some
python scripts/zoo.py --slice                  # those that CI runs
python scripts/zoo.py --device vulkan          # on a further device, too
python scripts/zoo.py --device vulkan --jobs 14 --json zoo.json   # in processes; goes on where it stopped
python scripts/zoo.py --page zoo.json          # docs/zoo.md of what was measured
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "zoo")]

from architectures import architectures
from measuring import EXECUTORS, Program, Row, measured
from processes import in_processes
from zoo_library import torch
from zoo_page import LIBRARIES, PAGE, SEVERAL, Measured, line, merged, page

from benchmarks.environment import commit, cpu_field
from openinfer.runtime.devices import device_of
from openinfer.runtime.options import default_threads

WAYS = ("onnx", "torch", "compile")
LAYERS = ("runtime", "dialects", "lowering", "compiler", "tests/zoo")
"""What decides the rows."""


@dataclass(frozen=True)
class Job:
    """One architecture by one way."""

    name: str
    way: str
    executors: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.name} by {self.way} on {' '.join(self.executors)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--slice", action="store_true", help="those that CI runs")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--device", nargs="+", default=[], help="devices beside the CPU")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; 1 by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows are kept here, one by one")
    parser.add_argument(
        "--any-sources", action="store_true", help="rows of FILE stay whatever was edited since"
    )
    parser.add_argument("--page", type=Path, nargs="+", metavar="FILE", help="write docs/zoo.md")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(merged([Measured.read(file) for file in options.page])))
        return 0
    names = [one.name for one in architectures()]
    unknown = sorted(set(options.only) - set(names))
    if unknown:
        parser.error(f"no such models: {', '.join(unknown)}; there are {', '.join(names)}")
    executors = (*EXECUTORS, *options.device)
    jobs = [
        Job(one.name, way, () if way == "compile" else executors)
        for one in architectures()
        for way in options.ways
        if (not options.only or one.name in options.only) and (one.quick or not options.slice)
    ]
    state = state_of(options.device)
    if options.any_sources:
        state["sources"] = SEVERAL
    return measure(jobs, state, options.jobs, options.json)


def measure(jobs: Sequence[Job], state: dict[str, str], processes: int, kept: Path | None) -> int:
    """Measures what the file does not have yet of this state; 1 where something is wrong."""
    found = Measured(state, commit=commit())
    if kept is not None and kept.exists():
        known = Measured.read(kept)
        if state["sources"] == SEVERAL:
            known.state["sources"] = SEVERAL
        if known.state == found.state:
            found = known
        else:
            differ = [name for name in found.state if known.state.get(name) != found.state[name]]
            _say(f"{kept} is of another state ({', '.join(differ)}) and begins anew")
    _say(", ".join(f"{name}: {value}" for name, value in found.state.items()))
    waiting = [job for job in jobs if job.title not in found.done]
    begin = time.monotonic()
    for number, (job, row) in enumerate(in_processes(_measured, waiting, processes, _ended), 1):
        found.add(row)
        found.done.append(job.title)
        if kept is not None:
            found.write(kept)
        program = row.onnx if job.way == "onnx" else row.torch
        shown_by = ["torch.compile"] if job.way == "compile" else job.executors
        if program is not None:
            counted = f"{number}/{len(waiting)} {time.monotonic() - begin:.0f} s {job.way}"
            _say(f"{counted} {line(row, program, shown_by)}")
    wrong = [row for row in found.rows.values() if not row.right]
    for row in wrong:
        for way, program in (("torch.export", row.torch), ("onnx", row.onnx)):
            if program is not None and not program.right:
                _say(f"WRONG {row.name} by {way}: {program.errors} {program.why}")
    _say(f"{len(found.done)} done, {len(wrong)} models of {len(found.rows)} wrong")
    return 1 if wrong else 0


def _ended(job: Job) -> Row:
    program = Program(why={job.way: "the process ended"})
    family = next(one.family for one in architectures() if one.name == job.name)
    row = Row(job.name, family)
    setattr(row, "onnx" if job.way == "onnx" else "torch", program)
    return row


def _measured(job: Job) -> Row:
    torch.set_num_threads(default_threads())
    architecture = next(one for one in architectures() if one.name == job.name)
    return measured(architecture, [job.way], job.executors)


def state_of(devices: Sequence[str]) -> dict[str, str]:
    """What rows must share to stand on one page: sources, libraries, processor and devices."""
    digest = hashlib.sha256()
    for layer in LAYERS:
        for file in sorted((REPOSITORY / layer).rglob("*.py")):
            digest.update(f"{file.relative_to(REPOSITORY)}\n".encode() + file.read_bytes())
    state = {"sources": digest.hexdigest()[:16], "cpu": cpu_field("model name")}
    for name in LIBRARIES:
        try:
            state[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            state[name] = "none"
    for device in devices:
        state[device] = ", ".join(device_of(device).identity() or (device,))
    return state


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
