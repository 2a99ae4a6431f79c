"""Races of W7: each engine with a model in a process of its own, in turns, by the rules of
`benchmarks/rounds.py`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.engines import OURS, PEER
from benchmarks.language.models import Shape
from benchmarks.limits import read_name
from benchmarks.racing import ROOT, Child, Worker, WorkerError, environment
from benchmarks.rounds import LIMITS, collect
from openinfer.runtime.devices import DEFAULT_DEVICE

KINDS = ("decode", "128", "512")
"""A step of one token, and prompts of so many."""
ALLOWED = {"f16": 2e-2, "q8_0": 5e-2, "q4_0": 5e-2, "q4_k": 5e-2}
"""How far logits of two engines may differ, relative to the largest: both round the left operands of
products to 8 bits, or to f16, each in its own way."""


@dataclass(frozen=True)
class Setting:
    """What an engine is started with."""

    threads: int
    scratch: Path
    """A folder of this run."""
    cache: str = "cache"
    """Where, in it, compiled programs are kept."""
    device: str = DEFAULT_DEVICE
    """Of our engine; the other ones compute on the processor."""


class Process(Child):
    """A process with an engine and a model."""

    def __init__(self, engine: str, model: Path, setting: Setting) -> None:
        """Ends when the first token is there; `first` says what that took. Raises WorkerError."""
        scratch = setting.scratch
        own = environment(scratch, setting.threads)
        own["OPENINFER_CACHE_DIR"] = str(scratch / setting.cache)
        # Python finds byte code, as after an installation, also where the environment forbids to write it.
        own.pop("PYTHONDONTWRITEBYTECODE", None)
        own["PYTHONPYCACHEPREFIX"] = str(scratch / "bytecode")
        command = [
            *(sys.executable, "-m", "benchmarks.language.worker"),
            *(engine, str(model), str(setting.threads), setting.device),
        ]
        super().__init__(engine, command, own, scratch, ROOT)
        try:
            self.first = self.answer()
        except WorkerError:
            self.close()
            raise


def race(
    shape: Shape,
    kind: str,
    model: Path,
    engines: Sequence[str],
    *,
    setting: Setting,
    folder: Path,
    rounds: int,
    seconds: float,
    starts: int,
) -> dict[str, Any]:
    """The record of a model, a type and a number of threads: the same fields for every engine."""
    size, threads, scratch = model.stat().st_size, setting.threads, setting.scratch
    setting = replace(setting, cache=f"{model.stem}-{threads}")
    record: dict[str, Any] = {
        **{"shape": shape.name, "type": kind, "threads": threads, "bytes": size},
        **{"engines": {}, "missing": {}},
    }
    first = _starts(model, engines, setting, starts, record["missing"])
    running: dict[str, Process] = {}
    limits = Worker(LIMITS, folder, threads, scratch)
    try:
        for engine in first:
            running[engine] = Process(engine, model, setting)
        record["difference"] = _difference(running, scratch, kind, record["missing"])
        limits.ask(prepare="", answer="", options={"reads": [size]})
        for engine, process in running.items():
            record["engines"][engine] = {**first[engine], "memory": process.first["memory"]}
        reads: list[float] = []
        for what in KINDS:

            def ask(name: str, what: str = what) -> Mapping[str, Any]:
                if name == LIMITS:
                    return limits.ask(measure=seconds)
                return running[name].ask(measure=what, seconds=seconds)

            found = collect(
                ask, list(running), rounds, [OURS, PEER], f"{model.stem}, {threads}, {what}"
            )
            reads += [each.rates[read_name(size)] for each in found.kept]
            for engine in running:
                kept = found.of(engine)
                middles = [statistics.median(each.times[engine]) for each in kept]
                others = [
                    statistics.median(each.times[PEER]) if PEER in each.times else None
                    for each in kept
                ]
                ratios = [other / own for other, own in zip(others, middles) if other is not None]
                here = engine != OURS or setting.device == DEFAULT_DEVICE
                shares = [
                    size / own / each.rates[read_name(size)] for own, each in zip(middles, kept)
                ]
                record["engines"][engine][what] = {
                    "tokens": (1 if what == "decode" else int(what)) / statistics.median(middles),
                    "rounds": middles,
                    "ratio": statistics.median(ratios) if ratios else None,
                    **({"share": statistics.median(shares)} if here and what == "decode" else {}),
                }
        record["read"] = statistics.median(reads)
    finally:
        for process in running.values():
            process.close()
        limits.close()
    return record


def warm(model: Path, engines: Sequence[str], setting: Setting) -> None:
    """Starts each engine once, which leaves byte code behind. Engines that cannot start are told later."""
    for engine in engines:
        try:
            Process(engine, model, replace(setting, cache="warm")).close()
        except WorkerError:
            pass


def _starts(
    model: Path,
    engines: Sequence[str],
    setting: Setting,
    count: int,
    missing: dict[str, str],
) -> dict[str, dict[str, float]]:
    """Seconds from the start of Python to the first token: with an empty cache, and with what that
    start left there, the median of some. All of them find the file in the system's memory."""
    with open(model, "rb") as file:
        while file.read(1 << 24):
            pass
    found: dict[str, list[float]] = {}
    loads: dict[str, list[float]] = {}
    for _ in range(count + 1):
        for engine in engines:
            if engine in missing:
                continue
            try:
                process = Process(engine, model, setting)
            except WorkerError as error:
                if engine == OURS:
                    raise WorkerError(f"{engine}, {model.stem}: {error}") from None
                missing[engine] = " ".join(str(error).split())[:300]
                continue
            found.setdefault(engine, []).append(process.first["first_token"])
            loads.setdefault(engine, []).append(process.first["load"])
            process.close()
    return {
        engine: {
            "first_start": times[0],
            "second_start": statistics.median(times[1:]),
            "load": statistics.median(loads[engine][1:]),
        }
        for engine, times in found.items()
        if engine not in missing
    }


def _difference(
    running: Mapping[str, Process], scratch: Path, kind: str, missing: dict[str, str]
) -> float | None:
    """How far our logits behind the prompt lie from the peer's. Raises WorkerError beyond `ALLOWED`."""
    found = {}
    for engine, process in running.items():
        path = scratch / f"{engine}.logits.npy"
        process.ask(logits=str(path))
        found[engine] = np.load(path).reshape(-1).astype(np.float64)
    if len(found) < 2:
        return None
    off = float(np.abs(found[OURS] - found[PEER]).max() / np.abs(found[PEER]).max())
    if not off <= ALLOWED[kind]:
        raise WorkerError(f"logits are {off:.1e} off, {ALLOWED[kind]:.0e} is allowed")
    return off
