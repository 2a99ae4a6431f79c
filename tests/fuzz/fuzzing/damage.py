"""Damaged input for every reader: texts, packages, graph JSON, snapshots, compiled programs.

A case is a whole input that a drawn program gives, and a few changes to it, both by the seed. The
reader must refuse it with an error of its own, or read something that it can write again.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import struct
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save
from test_oinf_fuzz import FIELDS, gguf_sample, oinf_sample, old_oinf_sample, read_all
from test_parser_fuzz import Grower, check_text, damage, noise

import openinfer as oi
from fuzzing import damaged_onnx, damaged_pt2
from fuzzing.generate import generate
from fuzzing.isolate import isolated
from fuzzing.mend import mend
from fuzzing.runs import simulated
from fuzzing.tree import Program
from openinfer.compiler.api import compile as compile_program
from openinfer.compiler.graph_json.read import parse_json
from openinfer.compiler.graph_json.write import module_json
from openinfer.runtime.packages.oinf_writer import to_oinf_bytes
from openinfer.runtime.state import State

BATCH = 100
"""Cases of one process."""
MEMORY = 4 << 30
"""Bytes of addresses that a batch may take: far more than its inputs need."""
SOURCES = 40
"""Programs that inputs are made of; each is damaged in many ways."""


@dataclass
class Damaged:
    """What came out of many cases of one kind."""

    kind: str
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    """"read", or "refused"."""
    defects: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def text(self) -> str:
        lines = [
            f"{self.kind}: {self.cases} cases, "
            + ", ".join(f"{name} {n}" for name, n in self.outcomes.most_common())
            + f"; defects: {len(self.defects)}"
        ]
        lines += [f"  seed {seed}: {why}" for seed, why in self.defects]
        return "\n".join(lines) + "\n"


def fuzz_damage(kind: str, first: int, count: int | None, seconds: float | None = None) -> Damaged:
    """Tries so many cases, or as many as fit in that time.

    A process that dies or hangs is a finding for the case that it was at.
    """
    found = Damaged(kind)
    PREPARED.get(kind, _nothing)()
    seed, begun = first, time.monotonic()
    while (count is None or seed < first + count) and (
        seconds is None or time.monotonic() - begun < seconds
    ):
        stop = seed + BATCH if count is None else min(seed + BATCH, first + count)
        with _Progress() as progress:
            begin = seed
            work = partial(_batch, kind, begin, stop, progress.path)
            try:
                outcomes, defects = isolated(work)
            except (RuntimeError, TimeoutError, AssertionError) as error:
                seed = progress.seed(begin)
                found.defects.append((seed, f"{type(error).__name__}: {error}"[:600]))
                found.cases += seed + 1 - begin
                seed += 1
                continue
        found.outcomes.update(outcomes)
        found.defects += defects
        found.cases += stop - seed
        seed = stop
    return found


def _nothing() -> None:
    pass


class _Progress:
    """A file with the case that a process is at."""

    def __enter__(self) -> _Progress:
        self.folder = tempfile.TemporaryDirectory(prefix="oidamage")
        self.path = Path(self.folder.name) / "seed"
        return self

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()

    def seed(self, first: int) -> int:
        return int(self.path.read_text()) if self.path.exists() else first


def _batch(
    kind: str, first: int, stop: int, progress: Path, _: Path
) -> tuple[Counter[str], list[tuple[int, str]]]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    outcomes: Counter[str] = Counter()
    defects: list[tuple[int, str]] = []
    folder = progress.parent / "files"
    folder.mkdir(exist_ok=True)
    for seed in range(first, stop):
        progress.write_text(str(seed))
        try:
            outcomes["read" if KINDS[kind](seed, folder) else "refused"] += 1
        except BaseException:
            # Also what pytest raises for a failure, which is no Exception.
            defects.append((seed, " | ".join(traceback.format_exc().splitlines()[-6:])[:900]))
    return outcomes, defects


# Changes


def damaged(data: bytes, chance: random.Random) -> bytes:
    """A few bytes lost, doubled or changed, in front more often than behind."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        reach = len(data) if chance.random() < 0.5 else min(len(data), 400)
        at = chance.randrange(max(reach - 8, 1))
        match chance.randrange(7):
            case 0:
                data = data[:at]
            case 1:
                data = _put(data, at, bytes([data[at] ^ 1 << chance.randrange(8)] if data else []))
            case 2:
                data = _put(data, at, bytes([chance.randrange(256)]))
            case 3:
                value = chance.choice((*FIELDS, len(data), at))
                data = _put(data, at, struct.pack("<Q", value & (1 << 64) - 1))
            case 4:
                data = _put(data, at, struct.pack("<I", chance.choice(FIELDS) & 0xFFFFFFFF))
            case 5:
                source, size = chance.randrange(len(data) + 1), chance.randrange(1, 40)
                data = _put(data, at, data[source : source + size])
            case _:
                piece = data[at : at + chance.randrange(1, 20)]
                data = data[:at] + (piece * 2 if chance.random() < 0.5 else b"") + data[at:]
    return data


def _put(data: bytes, at: int, patch: bytes) -> bytes:
    return data[:at] + patch + data[at + len(patch) :]


def mutated(data: Any, chance: random.Random) -> Any:
    """A copy of a JSON value with something lost, doubled, renamed or replaced."""
    data = copy.deepcopy(data)
    holder: Any = data
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = chance.choice(keys)
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.15:
            break
        holder = inner
    wrong: list[Any] = [None, 0, -1, 1.5, True, "", "x", "f32", [], {}, [[]], 2**63, -(2**70)]
    wrong += ["N", "N * N", "1 / 0", "\ud800", "a" * 300, 1e308]
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[chance.choice(["name", "kind", "op", "zzz", "inputs"])] = holder.pop(key)
        case 2 if isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        case _:
            holder[key] = chance.choice(wrong)
    return data


# Kinds


@cache
def source(number: int) -> Program:
    """A legal program."""
    seed = 7_000_000 + number
    with tempfile.TemporaryDirectory() as folder:
        while True:
            mended = mend(generate(seed), Path(folder))
            if mended is not None:
                return mended.program
            seed += 1000


def _text(seed: int, folder: Path) -> bool:
    chance = random.Random(f"text {seed}")
    match seed % 4:
        case 0:
            text = noise(chance)
        case 1:
            text = damage(Grower(seed // 4).program(), chance)
        case _:
            text = damage(source(seed % SOURCES).text, chance)
    return check_text(text)


def _oinf(seed: int, folder: Path) -> bool:
    whole = (oinf_sample, old_oinf_sample, lambda: to_oinf_bytes(source(seed % SOURCES).content))
    return _package(whole[seed % 3](), seed, folder / "model.oinf")


def _safetensors(seed: int, folder: Path) -> bool:
    chance = np.random.default_rng(seed % SOURCES)
    dtypes = ("f4", "f8", "f2", "i8", "i4", "i2", "i1", "u1", "?")
    tensors = {
        f"t{n}": np.zeros(chance.integers(0, 5, chance.integers(0, 4)), chance.choice(dtypes))
        for n in range(int(chance.integers(1, 6)))
    }
    data = save(tensors, metadata={"format": "pt"})
    return _package(data, seed, folder / "model.safetensors")


def _gguf(seed: int, folder: Path) -> bool:
    return _package(gguf_sample(), seed, folder / "model.gguf")


def _index(seed: int, folder: Path) -> bool:
    """The index of a model in two files, changed as JSON or as bytes."""
    chance = random.Random(f"index {seed}")
    folder = folder / "sharded"
    folder.mkdir(exist_ok=True)
    tensors = {f"t{n}": np.arange(n, dtype=np.float32) for n in range(4)}
    names = ("model-1.safetensors", "model-2.safetensors")
    for number, name in enumerate(names):
        if not (folder / name).exists():
            part = {k: v for k, v in tensors.items() if v.size % 2 == number}
            (folder / name).write_bytes(save(part))
    places = {key: names[value.size % 2] for key, value in tensors.items()}
    index: Any = {"metadata": {"total_size": 24, "kind": "x"}, "weight_map": places}
    data = json.dumps(index).encode()
    if seed % 2:
        data = damaged(data, chance)
    else:
        data = json.dumps(mutated(index, chance)).encode("utf-8", "surrogatepass")
    path = folder / "model.safetensors.index.json"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return read_all(path, seed % 4 == 0)


def _package(data: bytes, seed: int, path: Path) -> bool:
    # A new file each time: a mapping may still show the old one.
    path.unlink(missing_ok=True)
    path.write_bytes(damaged(data, random.Random(f"package {seed}")))
    return read_all(path, seed % 4 == 0)


@cache
def _json_of(number: int) -> str:
    return oi.graph(source(number).text).to_json(indent=None)


def _json(seed: int, folder: Path) -> bool:
    chance = random.Random(f"json {seed}")
    text = _json_of(seed % SOURCES)
    if seed % 3:
        data = json.loads(text)
        for _ in range(chance.choice((1, 1, 2, 3))):
            data = mutated(data, chance)
        text = json.dumps(data)
    else:
        text = damage(text, chance)
    result = parse_json(text, "damaged.json")
    assert (result.module is None) == bool(result.errors), text
    assert all(d.location is not None for d in result.errors), text
    result.render()
    if result.module is None:
        return False
    assert parse_json(module_json(result.module)).module is not None, text
    return True


@cache
def _snapshot(number: int) -> tuple[Program, bytes]:
    """A program with state, and the file of its state after some steps."""
    while True:
        program = source(number)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            state = _state_of(program, folder)
            if any(value.entries for value in state.values()):
                state.save(folder / "state")
                return program, (folder / "state").read_bytes()
        number += SOURCES


def _state_of(program: Program, folder: Path) -> State:
    """The state behind all steps of a program."""
    with simulated(program, folder)() as executor:
        for step in program.steps:
            if step.action == "run":
                with suppress(oi.OpenInferError):
                    executor.run(**step.inputs)
        return executor.snapshot()


def _state(seed: int, folder: Path) -> bool:
    program, data = _snapshot(seed % SOURCES)
    path = folder / "state"
    path.unlink(missing_ok=True)
    path.write_bytes(damaged(data, random.Random(f"state {seed}")))
    try:
        state = State.load(path)
    except oi.ArtefactError as error:
        if error.code != "OI0811":
            raise
        return False
    with simulated(program, folder)() as executor:
        before = executor.snapshot()
        try:
            executor.restore(state)
        except oi.InputError:
            assert executor.snapshot() == before
            return False
        state.save(folder / "again")
        assert State.load(folder / "again") == state
    return True


@cache
def _compiled(number: int) -> tuple[bytes, oi.Package | None]:
    while True:
        program = source(number)
        folder = Path(tempfile.mkdtemp(prefix="oidamage"))
        model = program.package(folder)
        try:
            compile_program(program.text, model).save(folder / "program.oip")
        except oi.OpenInferError:
            number += SOURCES
            continue
        return (folder / "program.oip").read_bytes(), model


def _oip(seed: int, folder: Path) -> bool:
    data, model = _compiled(seed // BATCH % 20)
    changed = damaged(data, random.Random(f"oip {seed}"))
    path = folder / "program.oip"
    path.unlink(missing_ok=True)
    path.write_bytes(changed)
    try:
        oi.load(path, model)
    except oi.ArtefactError:
        return False
    assert changed == data, "damage was not found"
    return True


KINDS: dict[str, Callable[[int, Path], bool]] = {
    "text": _text,
    "oinf": _oinf,
    "safetensors": _safetensors,
    "gguf": _gguf,
    "index": _index,
    "json": _json,
    "state": _state,
    "oip": _oip,
    "onnx": damaged_onnx.check,
    "pt2": damaged_pt2.check,
}
PREPARED = {"onnx": damaged_onnx.prepare, "pt2": damaged_pt2.prepare}
"""What processes of a kind share, made before they fork."""
NEEDED = {"onnx": "onnx", "pt2": "torch"}
"""Libraries that a kind needs, beside those of all tests."""
