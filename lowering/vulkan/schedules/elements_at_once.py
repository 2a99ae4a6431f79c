"""`linalg.generic` without reductions: an invocation computes neighbouring elements, in accesses of 16 bytes.

Before:
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : memref<?x32xf32>) outs(%y : memref<?x32xf32>) { … arith.negf … }

After:
    %four = vector.load %x[%i] : memref<?xf32>, vector<4xf32>
    %a = vector.extract %four[0] : f32 from vector<4xf32>
    …
    vector.store %results, %y[%i] : memref<?xf32>, vector<4xf32>

The last elements of a result whose length is no multiple go one by one.

Requires: what the kernel touches begins at a multiple of 16 bytes in all its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from xdsl.ir import SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.nest import Access
from openinfer.lowering.kernels.nest_loops import NestEmitter
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    grid_for,
    numbered,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.wide import (
    BYTES,
    is_multiple,
    is_width,
    load_wide,
    store_wide,
    width,
)

SIZE = 256
"""Invocations of a workgroup."""


def lanes_of(emitter: NestEmitter, aligned: Collection[int]) -> int:
    """How many neighbours an invocation computes: as many as fit the widest access; 1 where that is not
    possible. `aligned`: the accesses that begin at a multiple."""
    nest = emitter.nest
    if emitter.reductions or not emitter.parallel:
        return 1
    dim = emitter.parallel[-1]
    moving = [(n, a) for n, a in enumerate(nest.accesses) if a.kind is not None and a.uses(dim)]
    if not moving or not all(a.has_unit_stride(dim) and n in aligned for n, a in moving):
        return 1
    lanes = BYTES * 8 // max(width(a.value) for _, a in moving)
    if lanes < 2 or not all(is_width(a.value, lanes) for _, a in moving):
        return 1
    # Lines that all begin at a multiple, or a single line.
    whole = all(is_multiple(a.value, lanes) for _, a in moving)
    return lanes if whole or len(emitter.parallel) == 1 else 1


def elements_at_once(
    b: LoopBuilder,
    emitter: NestEmitter,
    lanes: int,
    results: Callable[[LoopBuilder, HostValue], Index],
) -> Grid:
    """The kernel; `results` counts the elements of the result, on the host."""
    nest, parallel = emitter.nest, list(emitter.parallel)
    dim = parallel[-1]
    extents = [nest.extents[d].value(b) for d in parallel]
    pieces = [*extents[:-1], b.ceil_div(extents[-1], lanes)]

    def some(number: SSAValue) -> None:
        for d, place in zip(parallel, split(b, number, pieces)):
            emitter.at[d] = place
        start = b.mul(b.index(_known(emitter.at[dim])), lanes)
        whole = isinstance(extents[-1], int) and extents[-1] % lanes == 0
        if whole:
            _piece(emitter, dim, start, lanes)
            return

        def rest() -> None:
            b.loop(start, extents[-1], 1, one_by_one, hint="i")

        def one_by_one(at: SSAValue) -> None:
            emitter.at[dim] = at
            emitter.scalar_point()

        inside = b.compare("ule", b.add(start, lanes), extents[-1])
        b.when(inside, lambda: _piece(emitter, dim, start, lanes), rest)

    numbered(b, product(b, pieces), some, SIZE)

    # With several lines, each is a multiple of `lanes`.
    return Grid(
        lambda host, value_of: grid_for(host, host.ceil_div(results(host, value_of), lanes), SIZE),
        SIZE,
    )


def _known(index: Index | None) -> Index:
    assert index is not None
    return index


def _piece(emitter: NestEmitter, dim: int, start: SSAValue, lanes: int) -> None:
    """The elements from `start` on."""
    b, nest = emitter.b, emitter.nest
    emitter.at[dim] = start

    def load(access: Access) -> list[SSAValue]:
        if access.kind is None or not access.uses(dim):
            return [emitter.load(access)] * lanes
        return load_wide(b, access.value, access.at(b, emitter.at), lanes)

    inputs = [load(access) for access in nest.inputs]
    outputs = [
        load(access) if read else [access.value] * lanes
        for access, read in zip(nest.outputs, emitter.kernel.reads_output)
    ]
    places = [access.at(b, emitter.at) for access in nest.outputs]
    found: list[list[SSAValue]] = [[] for _ in nest.outputs]
    for lane in range(lanes):
        emitter.at[dim] = b.add(start, lane)
        values = emitter.compute([each[lane] for each in inputs], [each[lane] for each in outputs])
        for kept, value in zip(found, values):
            kept.append(value)
    for access, place, kept in zip(nest.outputs, places, found):
        store_wide(b, kept, access.value, place)
