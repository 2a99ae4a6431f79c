"""`linalg.generic` whose inputs lie the other way: a workgroup turns a tile of them in shared memory.

    32 x 32 elements of an input come in the order in which they lie in memory
    the workgroup waits
    32 x 32 results are computed and stored in the order in which those lie

Before:
    linalg.generic {indexing_maps = [(d0, d1) -> (d1, d0), #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x64xf32>) outs(%y : memref<64x?xf32>) { … }

After:
    memref.store (memref.load %x[%j, %i]), %turned[%column, %row]
    gpu.barrier
    memref.store (memref.load %turned[%column, %row]), %y[%i, %j]

An invocation reads neighbours and writes neighbours of those of the invocations beside it, where one for each
element would read or write a line of memory for every element.

Requires: no reduction; results that nobody reads before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import FixedBitwidthType, MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.nest import Access
from openinfer.lowering.kernels.nest_loops import NestEmitter
from openinfer.lowering.kernels.numeric import element_type
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    packed_bits,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import both
from openinfer.lowering.vulkan.schedules.wide import width
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup, barrier, shared_buffer

SIDE = 32
"""Rows and columns of a tile: neighbours of one cache line and more, whatever they are."""
SIZE = 256
"""Invocations of a workgroup."""
FEWEST = 16
"""Rows or columns of which a tile would be mostly empty."""

Extents = Callable[[LoopBuilder, HostValue], Sequence[Index]]
"""The extents of the parallel dimensions, in the order of the result, on the host."""


@dataclass(frozen=True)
class Turn:
    """Which inputs of a nest lie the other way."""

    along: int
    """The dimension along which they have neighbours in memory."""
    inputs: tuple[int, ...]


def turn_of(b: LoopBuilder, emitter: NestEmitter) -> Turn | None:
    """What is to be turned; None where nothing is, or where tiles do not pay."""
    nest = emitter.nest
    if emitter.reductions or len(emitter.parallel) < 2 or any(emitter.kernel.reads_output):
        return None
    across = emitter.parallel[-1]
    if not all(out.has_unit_stride(across) for out in nest.outputs):
        return None
    found: dict[int, list[int]] = {}
    for number, access in enumerate(nest.inputs):
        if access.kind is None or not access.uses(across) or access.has_unit_stride(across):
            continue
        along = next((d for d in emitter.parallel[:-1] if access.has_unit_stride(d)), None)
        if along is None or packed_bits(access.value):
            return None
        found.setdefault(along, []).append(number)
    if len(found) != 1:
        return None
    ((along, inputs),) = found.items()
    extents = [nest.extents[d].static for d in (along, across)]
    if any(extent is not None and extent < FEWEST for extent in extents):
        return None
    taken = sum(SIDE * (SIDE + 1) * width(nest.inputs[n].value) // 8 for n in inputs)
    fits = taken <= b.facts.device_description.shared_memory
    return Turn(along, tuple(inputs)) if fits else None


def by_turning(b: LoopBuilder, emitter: NestEmitter, turn: Turn, outside: Extents) -> Grid:
    """The kernel."""
    nest, parallel = emitter.nest, emitter.parallel
    group = Workgroup(b, SIZE)
    tiles = {
        number: shared_buffer(b, _element(nest.inputs[number]), [SIDE, SIDE + 1], "turned")
        for number in turn.inputs
    }
    sides = (turn.along, parallel[-1])
    extents = [nest.extents[d].value(b) for d in parallel]
    column, row = b.rem(group.thread, SIDE), b.floordiv(group.thread, SIDE)

    def tile(number: SSAValue) -> None:
        firsts: dict[int, SSAValue] = {}
        for d, place in zip(parallel, split(b, number, _tiles(b, parallel, sides, extents))):
            emitter.at[d] = place
            if d in sides:
                firsts[d] = b.mul(place, SIDE)

        def each(near: int, far: int, work: Callable[[SSAValue], None]) -> None:
            """`work` with the row of a tile whose columns are neighbours along `near`."""
            for start in range(0, SIDE, SIZE // SIDE):
                line = b.add(row, start)
                places = {near: b.add(firsts[near], column), far: b.add(firsts[far], line)}
                limits = [
                    b.compare("ult", places[d], extent)
                    for d, extent in zip(parallel, extents)
                    if d in sides and not (isinstance(extent, int) and extent % SIDE == 0)
                ]
                for d, place in places.items():
                    emitter.at[d] = place
                if limits:
                    b.when(both(b, limits), lambda line=line: work(line))
                else:
                    work(line)

        def read(line: SSAValue) -> None:
            for one, buffer in tiles.items():
                b.store(emitter.load(nest.inputs[one]), buffer, [line, column])

        def write(line: SSAValue) -> None:
            inputs = [
                b.load(tiles[n], [column, line]) if n in tiles else emitter.load(access)
                for n, access in enumerate(nest.inputs)
            ]
            found = emitter.compute(inputs, [access.value for access in nest.outputs])
            for access, value in zip(nest.outputs, found):
                b.store(value, access.value, access.at(b, emitter.at))

        along, across = sides
        each(along, across, read)
        barrier(b)
        each(across, along, write)

    each_group(b, product(b, _tiles(b, parallel, sides, extents)), tile)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return groups_for(
            host, product(host, _tiles(host, parallel, sides, outside(host, value_of)))
        )

    return Grid(groups, SIZE)


def _tiles(
    b: LoopBuilder, parallel: Sequence[int], sides: Sequence[int], extents: Sequence[Index]
) -> list[Index]:
    """Tiles along the two sides, elements along the other dimensions."""
    return [b.ceil_div(n, SIDE) if d in sides else n for d, n in zip(parallel, extents)]


def _element(access: Access) -> FixedBitwidthType:
    assert isinstance(access.value.type, MemRefType)
    element = element_type(access.value)
    assert isinstance(element, FixedBitwidthType)
    return element
