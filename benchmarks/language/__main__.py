"""Language models beside llama.cpp, the workload group W7.

python -m benchmarks.language --json benchmarks/results-language-zen4.json --page
python -m benchmarks.language --shapes 15M --types q8_0 --threads 1 --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.environment import describe
from benchmarks.language import page
from benchmarks.language.engines import ENGINES, missing
from benchmarks.language.models import SHAPES, TYPES, model_file
from benchmarks.language.racing import Setting, race, warm
from benchmarks.racing import WorkerError
from benchmarks.suite import bench_folder, scratch_folder
from openinfer.runtime.devices import DEFAULT_DEVICE


def run(options: argparse.Namespace) -> int:
    folder = bench_folder(options.folder)
    absent = {name: reason for name in options.engines if (reason := missing(name))}
    engines = [name for name in options.engines if name not in absent]
    data = _begin(options, absent)
    done = {(row["shape"], row["type"], row["threads"]) for row in data["rows"]}
    status = 0
    with scratch_folder() as scratch:
        if not options.prepare:
            setting = Setting(1, scratch, device=options.device)
            warm(model_file(SHAPES["15M"], "q8_0", folder), engines, setting)
        for threads in options.threads:
            for shape in (SHAPES[name] for name in options.shapes):
                for kind in options.types:
                    if (shape.name, kind, threads) in done or shape.missing(kind):
                        continue
                    start = time.perf_counter()
                    model = model_file(shape, kind, folder)
                    if options.prepare:
                        continue
                    try:
                        row = race(
                            shape,
                            kind,
                            model,
                            engines,
                            setting=Setting(threads, scratch, device=options.device),
                            folder=folder,
                            rounds=options.rounds,
                            seconds=options.seconds,
                            starts=options.starts,
                        )
                    except WorkerError as error:
                        _say(f"error: {shape.name} {kind}, {threads} threads: {error}")
                        data["failed"][f"{shape.name} {kind}, {threads}"] = str(error)[:1000]
                        status = 1
                        continue
                    data["failed"].pop(f"{shape.name} {kind}, {threads}", None)
                    data["rows"].append(row)
                    _write(options.json, data)
                    _say(f"{page.line(row)}  [{time.perf_counter() - start:.0f} s]")
    if options.prepare:
        return 0
    _write(options.json, data)
    print(page.terminal(data), end="")
    if options.page:
        page.write()
    return status


def _begin(options: argparse.Namespace, absent: dict[str, str]) -> dict[str, Any]:
    """An empty result, or with `--resume` what the file holds."""
    fresh: dict[str, Any] = {
        "environment": describe([name for name in options.engines if name not in absent]),
        "device": options.device,
        "rounds": options.rounds,
        "slice": options.seconds,
        "absent": absent,
        "rows": [],
        "failed": {},
    }
    if not options.resume or options.json is None or not options.json.exists():
        return fresh
    old = json.loads(options.json.read_text(encoding="utf-8"))
    if old["environment"]["cpu"] != fresh["environment"]["cpu"] or old["device"] != options.device:
        sys.exit(f"{options.json} was measured on another machine: write to another file")
    # Rows of another commit say which.
    then, now = ({key: d["environment"][key] for key in ("commit", "date")} for d in (old, fresh))
    rows = old["rows"] if then == now else [{**then, **row} for row in old["rows"]]
    return fresh | {"rows": rows, "failed": old["failed"]}


def _write(path: Path | None, data: dict[str, Any]) -> None:
    """The file is whole at any moment."""
    if path is None:
        return
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.language",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = list(ENGINES)
    add("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="default all")
    add("--types", nargs="+", choices=TYPES, default=list(TYPES), help="default all")
    add("--engines", nargs="+", choices=names, default=names, help="default all")
    add("--threads", nargs="+", type=int, default=[1, 2], help="default 1 2")
    add("--rounds", type=int, default=7, help="rounds of a measurement, default 7")
    add("--seconds", type=float, default=1.0, help="of an engine's turn, default 1")
    add("--starts", type=int, default=3, help="starts behind the first one, default 3")
    add("--quick", action="store_true", help="2 rounds of 0.3 s, one start: does everything work?")
    add("--folder", type=Path, help="where the models are kept")
    add("--device", default=DEFAULT_DEVICE, help="of our engine; default cpu")
    add("--prepare", action="store_true", help="write the models and end")
    add("--json", type=Path, metavar="FILE", help="store the results")
    add("--resume", action="store_true", help="go on with the file of --json")
    add("--page", action="store_true", help=f"write {page.PAGE.relative_to(page.ROOT)}")
    options = parser.parse_args(arguments)
    if options.page and options.device != DEFAULT_DEVICE:
        parser.error("the page is about the processor: leave --page out")
    if options.page and (options.json is None or not page.is_committed(options.json)):
        parser.error(
            f"--page is made of benchmarks/{page.STEM}NAME.json: give such a file to --json"
        )
    if options.quick:
        options.rounds, options.seconds, options.starts = 2, 0.3, 1
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
