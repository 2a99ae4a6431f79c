"""Kernels that were written by hand for an H200, timed beside ours: words in a folder that is not part of
the project. What each is given stands here; their results are not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.vulkan.chains import Drawn
from benchmarks.vulkan.raw import Dispatch, Memory, RawDevice
from openinfer.runtime.devices.vulkan.driver import PhysicalDevice
from openinfer.runtime.errors import OpenInferError

SUBGROUP = 32
"""What they were written for."""
HALF, SINGLE = 2, 4
LEAST, MOST = 7, 200
Groups = tuple[int, int, int]


@dataclass(frozen=True)
class Given:
    """A buffer of a kernel."""

    count: int
    """Of numbers."""
    nbytes: int = HALF
    """Of a number; whole numbers of 4 bytes are zeros."""
    scale: float = 1.0
    turns: int = 1
    """So many of them take turns: weights that follow each other."""


@dataclass(frozen=True)
class Prototype:
    """A kernel and what it is given."""

    file: str
    """How the name of its file begins."""
    groups: Groups
    given: Sequence[Given]
    addressed: bool = True
    """Whether it finds its buffers by address, else they are bound."""
    links: int = 24
    """How many stand behind each other."""
    words: Sequence[int] = ()
    entry: str = "main"
    fill: Callable[[RawDevice, list[list[Memory]]], None] | None = field(default=None)
    """Writes what is no drawn number."""


def _square(size: int, groups: int, file: str, nbytes: int = HALF) -> Prototype:
    given = (
        Given(size * size, nbytes),
        Given(size * size, nbytes, size**-0.5),
        Given(size * size, SINGLE),
    )
    return Prototype(file, (groups, 1, 1), given, addressed=False, links=8)


def _rows(file: str, groups: Groups, inner: int, outer: int, *, norm: bool = False) -> Prototype:
    """128 rows: operand, weights, bias, result, residual, then what a layer norm reads and writes."""
    wide = Given(128 * outer)
    given = [
        Given(128 * inner),
        Given(inner * outer, HALF, inner**-0.5, 6),
        Given(outer),
        wide,
        wide,
    ]
    if norm:
        given += [Given(inner), Given(inner), Given(128 * inner)]
    return Prototype(file, groups, given)


_LAYER = ((3072, 2048), (2048, 2048), (16384, 2048), (2048, 8192))
_STAGES = (*_LAYER * 16, (128256, 2048))
"""Matrix-vector products behind each other: rows and columns."""
_UNIT, _SUBGROUPS, _WORKGROUPS = 512, 16, 128
_REGION = 131072
"""Words of a region of the vector that goes from stage to stage; there are five."""


def _stages(device: RawDevice, given: list[list[Memory]]) -> None:
    """The table of stages: where weights begin, rows of a workgroup, binary logarithm of the units of a row,
    rounds; behind the last one a stage that is only looked ahead to. The vector is zeros."""
    table = np.zeros((len(_STAGES) + 1, 4), np.uint32)
    start = 0
    for number, (count, width) in enumerate(_STAGES):
        units = width // _UNIT
        own = count // _WORKGROUPS
        table[number] = start, own, units.bit_length() - 1, -(-own * units // _SUBGROUPS)
        start += count * width // 8
    table[-1] = 0, 1, 2, 1 << 30
    given[1][0] = device.filled(table.nbytes, table)


def _persistent() -> Prototype:
    weights = sum(count * width for count, width in _STAGES)
    return Prototype(
        "pers3_128x512_d7_blk_tag",
        (_WORKGROUPS, 1, 1),
        # The last round of a workgroup reads behind its rows.
        (
            Given(weights + (1 << 20), HALF, 0.02),
            Given(4 * (len(_STAGES) + 1), SINGLE, 0),
            Given(5 * _REGION, SINGLE, 0),
            Given(4, SINGLE, 0),
            Given(4, SINGLE, 0),
        ),
        links=1,
        words=(len(_STAGES),),
        fill=_stages,
    )


def _one_query(file: str, keys: int, groups: Groups) -> Prototype:
    """Queries, keys, values, result; what parts of the keys have found, and how many parts are done."""
    held = Given(8 * keys * 64)
    parts = Given(64 * 32 * 66, SINGLE, 0)
    given = (Given(32 * 64), held, held, Given(32 * 64), parts, Given(1024, SINGLE, 0))
    return Prototype(file, groups, given)


TABLE: Mapping[str, Prototype] = {
    "cm2_4096": _square(4096, 32 * 16, "cm2_4096_128x256x32_"),
    "cm2_6144_t": _square(6144, 48 * 32, "cm2_6144_128x192x64_"),
    "khr_6144_n": _square(6144, 48 * 32, "khr_6144_128x192x64_"),
    "khr_6144_t": _square(6144, 32 * 48, "khr_6144_192x128x64_"),
    "f32_4096": _square(4096, 32 * 32, "f32_4096_128x128x8_", SINGLE),
    "gemv_4096": Prototype(
        "gemv_4096x4096_",
        (4096, 1, 1),
        (Given(4096 * 4096, HALF, 1 / 64, 24), Given(4096), Given(4096, SINGLE)),
        links=48,
    ),
    "s3_384": _rows("s3_128x384x384_", (24, 4, 1), 384, 384),
    "s3_1536": _rows("s3_128x384x1536_", (24, 4, 1), 1536, 384),
    "s4_1152": _rows("s4_128x1152x384_", (25, 4, 1), 384, 1152, norm=True),
    "s4_1536": _rows("s4_128x1536x384_", (25, 4, 1), 384, 1536, norm=True),
    "att2": Prototype(
        "att2_s4", (96, 1, 1), (Given(128 * 1152), Given(128 * 384), Given(128, SINGLE, 0))
    ),
    "attB": Prototype("attB_Wo_W4_64x64_tl", (256, 1, 1), (Given(512 * 3072), Given(512 * 2048))),
    "aC2_512": _one_query("aC2_T512_", 512, (1, 32, 1)),
    "aC2_4096": _one_query("aC2_T4096_", 4096, (8, 16, 1)),
    "pers3": _persistent(),
}
"""By the names that rows have for them."""


def found(folder: Path, prototype: Prototype) -> Path | None:
    """The file with the words of a prototype."""
    return next(iter(sorted(folder.glob(f"{prototype.file}*.spv"))), None)


def timed(
    physical: PhysicalDevice, folder: Path, names: Sequence[str], seconds: float
) -> dict[str, dict[str, Any]]:
    """Seconds of a link of each, or why there are none."""
    if physical.description.subgroup != SUBGROUP:
        reason = f"it was written for subgroups of {SUBGROUP} invocations"
        return {name: {"absent": reason} for name in names}
    times: dict[str, dict[str, Any]] = {}
    for name in names:
        path = found(folder, TABLE[name])
        if path is None:
            times[name] = {"absent": f"no file {TABLE[name].file}*.spv"}
            continue
        try:
            with RawDevice(physical) as device:
                times[name] = measured(device, TABLE[name], path.read_bytes(), seconds)
        except (OpenInferError, LookupError) as error:
            times[name] = {"error": f"{type(error).__name__}: {error}"}
    return times


def measured(
    device: RawDevice, prototype: Prototype, words: bytes, seconds: float
) -> dict[str, Any]:
    """Seconds of a link, from commands that have all of them."""
    drawn = Drawn(1)
    given = [[_memory(device, one, drawn) for _ in range(one.turns)] for one in prototype.given]
    if prototype.fill is not None:
        prototype.fill(device, given)
    kernel = device.kernel(words, prototype.entry)
    dispatches: list[Dispatch] = []
    for link in range(prototype.links):
        memories = [turns[link % len(turns)] for turns in given]
        bound = () if prototype.addressed else memories
        addressed = memories if prototype.addressed else ()
        dispatches.append(Dispatch(kernel, prototype.groups, addressed, bound, prototype.words))
    commands = device.record(dispatches)
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        device.seconds(commands)
    times: list[float] = []
    end = time.perf_counter() + seconds / 2
    while len(times) < LEAST or (time.perf_counter() < end and len(times) < MOST):
        times.append(device.seconds(commands) / prototype.links)
    return {"seconds": median(times), "least": min(times), "steps": len(times)}


def _memory(device: RawDevice, given: Given, drawn: Drawn) -> Memory:
    count = min(given.count, 1 << 22)
    numbers = drawn.array(f"f{given.nbytes}", count, scale=given.scale)
    return device.filled(given.count * given.nbytes, numbers)
