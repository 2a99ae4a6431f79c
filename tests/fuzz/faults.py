"""Faults of the world around a program: killed writers, damaged entries, limits of memory and of the disk.

    python tests/fuzz/faults.py --count 1000 --seed 7       every kind, about so many cases each
    python tests/fuzz/faults.py kills --count 5000

Each kind is a function that runs cases in child processes, which are forked from one that has everything
imported, and gives what it found: a crash, an exception that is none of openinfer's, a damaged file that is
accepted, a leftover, a wrong result. A limit may always be met with an error that says so.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import openinfer as oi
from openinfer.runtime.cache import Cache, cache_key
from openinfer.runtime.program_io import load_program

TEXT = """
dynamic { x: f32[B, 64]; }
constant { W: f32[64, 256]; V: f32[256, 64]; }
persistent { n: i32; K(t): f32[4096] @table; }
block entry {
    assign h: f32[B, 256];
    assign y: f32[B, 64];
    assign wide: f32[4096];
    op matmul(x, W) >> h;
    op relu(h) >> h;
    op matmul(h, V) >> y;
    op fill(wide, value=1.0) >> wide;
    cache.write wide >> K[n];
    cache.increment n;
    return y;
}
"""
SMALL = "dynamic { x: f32[B, 64]; } block entry { assign y: f32[B, 64]; op neg(x) >> y; return y; }"
PATIENCE = 120
"""Seconds of a case that count as a hang."""
X = np.ones((2, 64), np.float32)


@dataclass
class Tally:
    """How many cases ran, how they ended, and what should not have been."""

    cases: int = 0
    ends: Counter[str] = field(default_factory=Counter[str])
    findings: list[str] = field(default_factory=list[str])

    def add(self, end: str, *, fine: bool, case: str) -> None:
        self.cases += 1
        self.ends[end] += 1
        if not fine:
            self.findings.append(f"{case}: {end}")


def child(body: Callable[[], object], kill_after: float | None = None) -> str:
    """Runs `body` in a forked process: "ok", the code of its error, or what went wrong."""
    reader, writer = os.pipe()
    number = os.fork()
    if number == 0:
        os.close(reader)
        end = "ok"
        try:
            body()
        except oi.OpenInferError as error:
            end = error.code
        except BaseException as error:
            # Lifted, so that there is room for the report.
            end = f"{type(error).__name__}: {''.join(traceback.format_exception(error))[-1500:]}"
        os.write(writer, end.encode("utf-8", "backslashreplace"))
        os._exit(0)
    os.close(writer)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(number, signal.SIGKILL)
    else:
        limit = time.monotonic() + PATIENCE
        while not os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if time.monotonic() > limit:
                os.kill(number, signal.SIGKILL)
                break
            time.sleep(0.001)
    _, status = os.waitpid(number, 0)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    if kill_after is not None and os.WIFSIGNALED(status):
        return "killed"
    return said if os.WIFEXITED(status) and said else f"died with status {status:#x}"


class Bench:
    """A folder with a package, a program that is compiled, and what it should compute."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        draw = np.random.default_rng(5)
        weights = {
            name: draw.normal(0, 0.1, shape).astype(np.float32)
            for name, shape in (("W", (64, 256)), ("V", (256, 64)))
        }
        self.package = folder / "m.oinf"
        oi.write_oinf(weights, self.package)
        self.model = oi.open_model(self.package)
        self.caching(folder / "cache")
        self.program = oi.compile(TEXT, self.model)
        self.expected = self.run()
        self.files = folder / "files"
        self.files.mkdir()

    def caching(self, folder: Path) -> Cache:
        os.environ["OPENINFER_CACHE_DIR"] = str(folder)
        return Cache(folder, 1 << 30)

    def run(self, program: oi.Program | None = None) -> np.ndarray:
        with (program or self.program).make_executor(threads=1) as executor:
            return np.asarray(executor.run(x=X)["y"])

    def check(self, program: oi.Program | None = None) -> None:
        np.testing.assert_array_equal(self.run(program), self.expected)

    def state(self, steps: int) -> oi.State:
        with self.program.make_executor(threads=1) as executor:
            for _ in range(steps):
                executor.run(x=X)
            return executor.snapshot()


Kind = Callable[[Bench, int, random.Random], Tally]
Case = Callable[[int], None]


def together(bench: Bench, count: int, draw: random.Random) -> Tally:
    """Processes that compile the same program into one empty cache: one entry, all right."""
    tally = Tally()
    del draw  # All processes do the same.
    place = bench.folder / "shared"
    cache = bench.caching(place)
    writers: list[int] = []
    for _ in range(count):
        number = os.fork()
        if number == 0:
            try:
                with oi.compile(SMALL).make_executor(threads=1) as executor:
                    np.testing.assert_array_equal(np.asarray(executor.run(x=X)["y"]), -X)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        writers.append(number)
    for number in writers:
        _, status = os.waitpid(number, 0)
        tally.add(f"status {status}", fine=status == 0, case="together")
    # Beside it lie the objects of kernels that programs share, in a folder of the same kind.
    names = [path.name for path in place.rglob("*") if path.is_file()]
    names = [name for name in names if name not in {o.name for o in place.glob("kernels/*.oic")}]
    entries = cache.entries()
    whole = len(names) == len(entries) == 1 and cache.get(entries[0].key) is not None
    tally.add("one whole entry" if whole else f"{names}", fine=whole, case="together")
    return tally


def kills(bench: Bench, count: int, draw: random.Random) -> Tally:
    """`kill -9` while a file is written again and again: it is the old one or the new one, nothing stays."""
    tally = Tally()
    states = [bench.state(1), bench.state(9)]
    cache = bench.caching(bench.files)
    bench.files.chmod(0o700)
    key = cache_key("killed")
    payloads = [bytes([n]) * (100_000 * n + 5) for n in (1, 2)]

    def snapshots(n: int) -> None:
        states[n].save(bench.files / "state")

    def packages(n: int) -> None:
        oi.write_oinf({"a": np.full(200_000 + n, n, np.float32)}, bench.files / "p.oinf")

    def programs(n: int) -> None:
        bench.program.save(bench.files / "p.oip", embed_weights=bool(n))

    def entries(n: int) -> None:
        if not cache.put(key, payloads[n]):
            raise AssertionError("not stored")

    def read_all() -> None:
        if (bench.files / "state").exists():
            assert oi.State.load(bench.files / "state") in states
        if (bench.files / "p.oinf").exists():
            values = oi.open_model(bench.files / "p.oinf").read("a")
            assert values.size - 200_000 in (0, 1)
            assert (values == values.size - 200_000).all()
        if (bench.files / "p.oip").exists():
            bench.check(load_program(bench.files / "p.oip", bench.model))
        assert cache.get(key) in (None, *payloads)
        assert cache.statistics.damaged == 0

    for case in range(count):
        writer = draw.choice([snapshots, packages, programs, entries])

        def forever(write: Callable[[int], None] = writer) -> None:
            turn = 0
            while True:
                write(turn % 2)
                turn += 1

        end = child(forever, kill_after=draw.uniform(0.001, 0.05))
        tally.add(f"{writer.__name__} {end}", fine=end == "killed", case=f"kill {case}")
        end = child(read_all)
        if end != "ok":
            tally.findings.append(f"after kill {case} of {writer.__name__}: {end}")
        # Whoever writes next takes away what was left.
        entries(case % 2)
        known = {"state", "p.oinf", "p.oip", f"{key}.oic"}
        rest = {path.name for path in bench.files.iterdir()} - known
        if rest:
            tally.findings.append(f"after kill {case} of {writer.__name__}: {rest} stay")
    return tally


def compilations(bench: Bench, count: int, draw: random.Random) -> Tally:
    """`kill -9` in a compilation: the next one is right, and the cache holds whole entries only."""
    tally = Tally()
    place = bench.folder / "compiling"
    cache = bench.caching(place)
    longest = 0.6
    for case in range(count):
        started = time.monotonic()
        end = child(
            lambda: oi.compile(TEXT, oi.open_model(bench.package)),
            kill_after=draw.uniform(0, longest),
        )
        longest = max(0.1, min(longest, 1.5 * (time.monotonic() - started)))
        tally.add(end, fine=end in ("killed", "ok"), case=f"compile {case}")
        if case % 10 == 9:
            end = child(lambda: bench.check(oi.compile(TEXT, oi.open_model(bench.package))))
            leftovers = [p.name for p in place.rglob("*") if p.is_file() and p.suffix != ".oic"]
            if end != "ok" or leftovers or any(cache.get(e.key) is None for e in cache.entries()):
                tally.findings.append(f"after {case} killed compilations: {end}, {leftovers}")
            cache.clear()
    return tally


def damage(bench: Bench, count: int, draw: random.Random) -> Tally:
    """Entries of the cache with a changed byte, cut off or lengthened: compiled anew and replaced."""
    tally = Tally()
    place = bench.folder / "damaged"
    bench.caching(place)
    oi.compile(TEXT, bench.model)
    (path,) = place.glob("*.oic")
    whole = path.read_bytes()
    for case in range(count):
        how = draw.choice(["flip", "cut", "lengthen", "zeros"])
        spot = draw.randrange(len(whole)) if draw.random() < 0.5 else draw.randrange(200)
        data = bytearray(whole)
        if how == "flip":
            data[spot] ^= 1 << draw.randrange(8)
        elif how == "cut":
            del data[spot:]
        elif how == "zeros":
            data[spot : spot + 64] = bytes(min(64, len(data) - spot))
        else:
            data += bytes([draw.randrange(256)]) * (spot + 1)
        if bytes(data) == whole:
            continue
        path.write_bytes(data)
        if case % 20 == 0:
            end = child(lambda: bench.check(oi.compile(TEXT, oi.open_model(bench.package))))
            fine = end == "ok" and path.read_bytes() == whole
        else:
            found = Cache(place, 1 << 30).get(path.stem)
            end, fine = ("refused", True) if found is None else ("accepted", False)
            fine &= not path.exists()
        tally.add(f"{how}: {end}", fine=fine, case=f"damage {case} at {spot}")
    return tally


def disk(bench: Bench, count: int, draw: random.Random) -> Tally:
    """A file that may not grow beyond a limit: an error with a code, the old file as it was."""
    tally = Tally()
    state = bench.state(9)
    place = bench.folder / "full"
    place.mkdir()
    cache = bench.caching(place / "cache")
    writers: dict[str, Callable[[], object]] = {
        "state": lambda: state.save(place / "state"),
        "p.oinf": lambda: oi.write_oinf(bench.model, place / "p.oinf"),
        "p.oip": lambda: bench.program.save(place / "p.oip", embed_weights=True),
        "trace": lambda: bench.program.make_executor(threads=1).save_trace(place / "trace"),
        "compiled": lambda: bench.check(oi.compile(TEXT, oi.open_model(bench.package))),
    }
    for name in writers:
        if name != "compiled":
            (place / name).write_bytes(b"old")

    for case in range(count):
        name = draw.choice(list(writers) if case % 10 == 0 else list(writers)[:4])
        limit = draw.choice([0, 1, 64, draw.randrange(200_000)])

        def limited(name: str = name, limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            writers[name]()

        end = child(limited)
        codes = {"ok", "OI0401", "OI0801", "OI0811", "OI0554"}
        fine = end in codes
        if name != "compiled":
            if end != "ok":
                fine &= (place / name).read_bytes() == b"old"
            (place / name).write_bytes(b"old")
        else:
            fine &= end == "ok" and all(
                cache.get(entry.key) is not None for entry in cache.entries()
            )
        fine &= {path.name for path in place.iterdir()} <= {*writers, "cache"}
        tally.add(f"{name}: {end}", fine=fine, case=f"limit {limit} of {name}")
    return tally


def _used() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def memory(bench: Bench, count: int, draw: random.Random) -> Tally:
    """An address space that ends soon: an error with a code, and state as it was."""
    tally = Tally()
    state = bench.state(2000)
    saved = bench.folder / "limited-state"
    state.save(saved)
    wide = np.ones((120_000, 64), np.float32)

    def small(extra: int) -> None:
        ctypes.CDLL(None).malloc_trim(0)  # What was freed would be room beyond the limit.
        resource.setrlimit(resource.RLIMIT_AS, (_used() + extra, resource.RLIM_INFINITY))

    def free() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def guarded(make: Callable[[], oi.Executor], act: Callable[[oi.Executor], object]) -> Case:
        def case(extra: int) -> None:
            executor = make()
            executor.run(x=X)
            before = executor.snapshot()
            small(extra)
            try:
                act(executor)
            except BaseException:
                free()
                assert executor.snapshot() == before, "the state has changed"
                executor.run(x=X)
                raise

        return case

    def compiled() -> oi.Executor:
        return bench.program.make_executor(threads=1)

    def simulated() -> oi.Executor:
        return oi.Simulator(TEXT, bench.model).make_executor()

    def reading(extra: int) -> None:
        small(extra)
        oi.State.load(saved)

    def copying(extra: int) -> None:
        small(extra)
        oi.open_model(bench.package, copy=True).read("W")

    kinds: dict[str, Case] = {
        "step": guarded(compiled, lambda executor: executor.run(x=wide)),
        "simulated step": guarded(simulated, lambda executor: executor.run(x=wide)),
        "snapshot": guarded(compiled, lambda executor: [executor.snapshot() for _ in range(9)]),
        "restore": guarded(compiled, lambda executor: executor.restore(state)),
        "restore a file": guarded(compiled, lambda executor: executor.restore(saved)),
        "restore simulated": guarded(simulated, lambda executor: executor.restore(state)),
        "read a snapshot": reading,
        "copy a package": copying,
    }
    # NumPy's products keep memory of their own, and end the process where they get none.
    simulated().run(x=wide)
    for _ in range(count):
        name = draw.choice(list(kinds))
        extra = int(2 ** draw.uniform(12, 27))
        end = child(partial(kinds[name], extra))
        fine = end in ("ok", "OI0604", "OI0812", "OI0813", "OI0811", "OI0415", "OI0401")
        tally.add(f"{name}: {end}", fine=fine, case=f"{extra} bytes")
    return tally


def descriptors(bench: Bench, count: int, draw: random.Random) -> Tally:
    """No further files may be opened: an error with a code, or the work is done without the cache."""
    tally = Tally()
    kinds: dict[str, Callable[[], object]] = {
        "open": lambda: oi.open_model(bench.package),
        "copy": lambda: oi.open_model(bench.package, copy=True),
        "load": lambda: oi.State.load(bench.folder / "none"),
        "save": lambda: oi.write_oinf(bench.model, bench.folder / "few.oinf"),
        "step": lambda: bench.check(),
        "compile": lambda: bench.check(oi.compile(TEXT, bench.model)),
    }
    for act in kinds.values():
        with suppress(oi.OpenInferError):
            act()  # Python needs descriptors to import what is used for the first time.
    for _ in range(count):
        name = draw.choice(list(kinds))
        spare = draw.randrange(4)

        def few(name: str = name, spare: int = spare) -> None:
            highest = max(int(n) for n in os.listdir("/proc/self/fd"))
            held = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
            for handle in held:
                os.close(handle)
            limit = highest + 1 + spare
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            while True:  # Gaps below the limit are filled.
                try:
                    held.append(os.open("/dev/null", os.O_RDONLY))
                except OSError:
                    break
            for handle in held[-spare:] if spare else []:
                os.close(handle)
            kinds[name]()

        end = child(few)
        fine = end in ("ok", "OI0401", "OI0811", "OI0801", "OI0514")
        if name == "compile" and "Too many open files" in end:
            # The compiler could not read files of its own: Python's error says so.
            end, fine = "OSError", True
        tally.add(f"{name}: {end}", fine=fine, case=f"{spare} descriptors")
    return tally


def forks(bench: Bench, count: int, _: random.Random) -> Tally:
    """A program that was loaded, and has run, goes on in forked processes and in their parent."""
    tally = Tally()
    with bench.program.make_executor(threads=1) as executor:
        executor.run(x=X)
        for number in range(count):

            def both(executor: oi.Executor = executor) -> None:
                np.testing.assert_array_equal(np.asarray(executor.run(x=X)["y"]), bench.expected)
                bench.check()

            end = child(both)
            tally.add(end, fine=end == "ok", case=f"fork {number}")
        end = "ok" if np.asarray(executor.fetch("n")) == 1 else "the parent's state has changed"
        tally.add(end, fine=end == "ok", case="parent")
    return tally


KINDS: dict[str, tuple[Kind, int]] = {
    "together": (together, 10),
    "kills": (kills, 1),
    "compilations": (compilations, 4),
    "damage": (damage, 1),
    "disk": (disk, 1),
    "memory": (memory, 1),
    "descriptors": (descriptors, 1),
    "forks": (forks, 2),
}
"""Each kind, and by how much fewer of its cases are run, since they take longer."""


def run_kind(name: str, count: int, seed: int) -> Tally:
    """About `count` cases of one kind, in a folder of their own."""
    kind, cost = KINDS[name]
    before = os.environ.get("OPENINFER_CACHE_DIR")
    folder = Path(tempfile.mkdtemp(prefix="openinfer-faults-"))
    try:
        return kind(Bench(folder), max(count // cost, 2), random.Random(seed))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if before is None:
            os.environ.pop("OPENINFER_CACHE_DIR", None)
        else:
            os.environ["OPENINFER_CACHE_DIR"] = before


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("kinds", nargs="*", default=list(KINDS), help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    found = 0
    for name in args.kinds:
        started = time.monotonic()
        tally = run_kind(name, args.count, args.seed)
        seconds = time.monotonic() - started
        lines = [f"{name}: {tally.cases} cases in {seconds:.0f} s, {len(tally.findings)} findings"]
        lines += [f"    {times:5} {end[:200]}" for end, times in sorted(tally.ends.items())]
        lines += [f"  FOUND {finding}" for finding in tally.findings[:20]]
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
        found += len(tally.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
