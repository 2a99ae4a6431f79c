"""openinfer beside other runtimes: `openinfer bench` in a checkout runs this.

python -m benchmarks.suite --help
python -m benchmarks.suite --json benchmarks/results.json --ablate --page
python -m benchmarks.suite --only mlp-1 matvec-f32 --peers onnxruntime --threads 1 --no-start
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import page, report, startup, target_page
from benchmarks.choices import Choices, chosen
from benchmarks.doubts import absent, doubts
from benchmarks.environment import describe
from benchmarks.instruction_sets import HOST
from benchmarks.peers import PEERS
from benchmarks.racing import Pool, WorkerError, prepare, race
from benchmarks.workloads import WORKLOADS
from openinfer.compiler.tools.commands import bench
from openinfer.compiler.tools.report import UsageError, guard


def run(args: argparse.Namespace) -> int:
    """Measures what the options say. Raises UsageError and UnsupportedError for bad ones."""
    if args.list:
        print(listing())
        return 0
    if args.page and args.json is None:
        raise UsageError("--page shows what the file of --json holds", "name it: --json FILE")
    choices = chosen(args)
    if args.ablate and choices.target != HOST:
        raise UsageError("--ablate compiles for this processor", "leave --target out")
    if args.page and choices.target not in (HOST, *target_page.TITLES):
        raise UsageError(f"the page has no part for {choices.target}", "leave --page out")
    data, own = _begin(args, choices)
    folder = bench_folder(args.folder)
    status = 0
    with scratch_folder() as scratch:
        for threads in choices.threads:
            device, fallback = choices.device, choices.fallback
            with Pool(folder, scratch, threads, choices.target, device, fallback=fallback) as pool:
                for row in _races(args, choices, data, pool):
                    _keep(data, row | {"target": data["environment"]["target"]} | own)
                    _write(args.json, data)
        if args.prepare:
            return 0
        _write(args.json, data)
        status = 1 if data["failed"] else 0
        if args.ablate:
            from benchmarks.ablation import ablate

            for table in ablate(choices, folder, scratch, _say, data.get("ablation")):
                data["ablation"] = table | own
                _write(args.json, data)
        if choices.start and "start" not in data:
            _say("compiling and starting …")
            try:
                data["start"] = startup.measure(folder, 1 if args.quick else 5) | own
            except WorkerError as error:
                _say(f"error: {error}")
                status = 1
            _write(args.json, data)
    print(report.terminal(data), end="")
    if args.markdown is not None:
        args.markdown.write_text(report.markdown(data), encoding="utf-8")
    if args.page:
        page.write(data, args.json)
    if args.plot is not None:
        from benchmarks.plot import draw

        draw(data, args.plot)
    return status


def _races(
    args: argparse.Namespace, choices: Choices, data: dict[str, Any], pool: Pool
) -> Iterator[dict[str, Any]]:
    """The rows that are not there yet, one by one; what fails on our side is noted in `failed`."""
    done = set() if args.again else {(row["name"], row["threads"]) for row in data["rows"]}
    for workload in choices.workloads:
        if (workload.name, pool.threads) in done:
            continue
        start = time.perf_counter()
        workload.write_package(pool.folder)
        peers = choices.peers_of(workload)
        try:
            if args.prepare:
                ready = prepare(pool, workload, peers)
                _say(f"{workload.name}: {', '.join(ready.setup)}")
                for peer, reason in ready.missing.items():
                    _say(f"  not {peer}: {reason}")
                continue
            row = race(pool, workload, peers, rounds=choices.rounds, seconds=choices.seconds)
        except WorkerError as error:
            _say(f"error: {error}")
            data["failed"][f"{workload.name}, {pool.threads}"] = str(error)[:1000]
            continue
        data["failed"].pop(f"{workload.name}, {pool.threads}", None)
        _say(f"{report.line(row)}  [{time.perf_counter() - start:.0f} s]")
        for text in (*doubts([row]), *absent(row)):
            _say(f"  {text}")
        yield row


def _begin(args: argparse.Namespace, choices: Choices) -> tuple[dict[str, Any], dict[str, Any]]:
    """An empty result, or with `--resume` and `--again` what the file holds, when it is of the same
    setting; and what its new rows say of themselves: commit and date where the file has others."""
    peers = sorted({peer for row in choices.workloads for peer in choices.peers_of(row)})
    data: dict[str, Any] = {
        "environment": describe(peers, choices.target),
        "device": choices.device,
        "held": None if choices.target == HOST else choices.target,
        "rounds": choices.rounds,
        "slice": choices.seconds,
        "absent": choices.absent,
        "rows": [],
        "failed": {},
    }
    option = "--again" if args.again else "--resume"
    if not (args.resume or args.again):
        return data, {}
    if args.json is None:
        raise UsageError(f"{option} goes on with the file of --json", "name it: --json FILE")
    if not args.json.exists():
        return data, {}
    old = json.loads(args.json.read_text(encoding="utf-8"))
    same = ("rounds", "slice", "held", "device")
    fixed = ("cpu", "flags", "target")
    differing = [key for key in same if old.get(key, data[key]) != data[key]]
    differing += [
        key for key in fixed if old.get("environment", {}).get(key) != data["environment"][key]
    ]
    if differing:
        raise UsageError(
            f"{args.json} was measured with another {', another '.join(differing)}",
            f"measure anew without {option}, or write to another file",
        )
    versions = old["environment"]["versions"] | data["environment"]["versions"]
    now, then = data["environment"], old["environment"]
    # The file keeps its own; rows of another commit say which.
    kept = {key: then[key] for key in ("commit", "date", "note") if key in then}
    old["environment"] = now | {"versions": versions} | kept
    old["absent"] = data["absent"]
    own = {key: now[key] for key in ("commit", "date")}
    return old, {} if own.items() <= kept.items() else own


def _keep(data: dict[str, Any], row: dict[str, Any]) -> None:
    """Puts a row where the file has an older one, else at its end."""
    key = (row["name"], row["threads"])
    for place, old in enumerate(data["rows"]):
        if (old["name"], old["threads"]) == key:
            data["rows"][place] = row
            return
    data["rows"].append(row)


def _write(path: Path | None, data: dict[str, Any]) -> None:
    """The file is whole at any moment."""
    if path is None:
        return
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


@contextmanager
def scratch_folder() -> Generator[Path]:
    """A folder for this run, with an empty cache of compiled programs in it."""
    name = "OPENINFER_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="openinfer-bench-") as folder:
        os.environ[name] = str(Path(folder) / "cache")
        try:
            yield Path(folder)
        finally:
            del os.environ[name]
            if before is not None:
                os.environ[name] = before


def bench_folder(given: Path | None) -> Path:
    """Where weights and peers' own files are kept from run to run."""
    if given is None:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        given = Path(cache) / "openinfer-bench"
    given.mkdir(parents=True, exist_ok=True)
    return given.resolve()


def listing() -> str:
    """Workloads and peers by name."""
    lines = ["workloads:"]
    lines += [f"  {row.group}  {row.name:22} {row.title}" for row in WORKLOADS.values()]
    lines.append("peers:")
    for peer in PEERS.values():
        reason = peer.missing()
        state = (peer.version() or "a checkout") if reason is None else f"not here: {reason}"
        lines.append(f"  {peer.name:16} {peer.title:16} {state}")
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suite",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    bench.add_arguments(parser)
    parser.add_argument("--traceback", action="store_true", help="show Python tracebacks")
    options = parser.parse_args(arguments)
    return guard(lambda: run(options), traceback=options.traceback)


if __name__ == "__main__":
    sys.exit(main())
