"""Panels that stream from memory: where few rows meet them, lines are asked for ahead of their use.

A row meets each element of a panel once, so the time of a product with one or two rows is that of
the stream, and what counts is how much of it is under way. With more rows there is time to fetch the
next panel while the tiles of this one are computed: each of them asks for its share of it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
from openinfer.lowering.interface import input_count, read_weights
from openinfer.lowering.loops.builder import Index, LoopBuilder
from openinfer.lowering.loops.numeric import element_type
from openinfer.lowering.loops.packing import Matrix
from openinfer.lowering.loops.target import bits_of

LINE = 64
"""Bytes of a cache line."""
FEW_ROWS = 2
"""With more of them the multiplications take longer than the stream."""

NEAR_BYTES = 12 << 20
"""Weights of a step up to here are taken to lie in the caches when the next step reads them."""


def bytes_ahead(kind: Attribute, row_bytes: int) -> int:
    """How far ahead of its use a panel of elements `kind`, of rows of so many bytes, is asked for.

    Measured against the same loops without. f32 from the L3 cache: 0.86 to 0.95 of the time at any
    distance (`worth_asking` knows when); where a row is one line only, as with AVX2, 2048 bytes take
    0.83 to 0.93 of the time of 512. f16 and bf16 from memory: 1.11 to 1.16 at 512 bytes, 0.91 at 4096
    and 8192. i8 at 8192 bytes: 0.87 of the time at 2048, 0.96 of that at 4096.
    """
    if bits_of(kind) < 32:
        return 8192
    return 512 if row_bytes > LINE else 2048


def worth_asking(build: LoopBuilder, kind: Attribute, row_bytes: int) -> bool:
    """Whether one or two rows are computed faster when panels of `kind` are asked for ahead.

    Narrow elements: always, widening them leaves time; rows of one line, as with AVX2, too. Else while
    all weights of the step stay in the caches. Where some have to come from memory the processor
    fetches ahead by itself, and asking takes more from the cache than it brings: 1.1 to 1.3 of the time
    with 14 to 50 MB of weights, 1.00 to 1.02 with 270 MB and more, on 32 MiB of L3 cache.
    """
    if bits_of(kind) < 32 or row_bytes <= LINE:
        return True
    parent: Operation | None = build.builder.insertion_point.block.parent_op()
    while parent is not None and not isinstance(parent, ModuleOp):
        parent = parent.parent_op()
    return parent is None or weight_bytes(parent) <= NEAR_BYTES


def weight_bytes(module: ModuleOp) -> int:
    """Bytes of the weight arguments of `@step` on buffers; 0 of a module without it."""
    for function in module.body.ops:
        if isinstance(function, FuncOp) and function.sym_name.data == "step":
            first, count = input_count(module), len(read_weights(module))
            return sum(_bytes_of(a.type) for a in function.body.block.args[first : first + count])
    return 0


def _bytes_of(kind: Attribute) -> int:
    if not isinstance(kind, MemRefType) or DYNAMIC_INDEX in kind.get_shape():
        return 0
    return prod(kind.get_shape()) * bits_of(kind.element_type) // 8


def steps_per_line(panels: Matrix) -> int:
    """How many steps of the contraction read one cache line of a panel."""
    return max(1, LINE // _row_bytes(panels))


def _row_bytes(panels: Matrix) -> int:
    return max(1, panels.kind.get_shape()[-1] * bits_of(element_type(panels.buffer)) // 8)


def ask_ahead(build: LoopBuilder, panels: Matrix, panel: Index, k: SSAValue) -> None:
    """Prefetches what step k reads of `[panel, k, column]`, some steps later.

    Behind a panel lies the next one, so the last steps ask for its beginning. Nothing is asked for
    where that is not `worth_asking`.
    """
    kind = element_type(panels.buffer)
    bits = bits_of(kind)
    row_bytes = _row_bytes(panels)
    if not worth_asking(build, kind, row_bytes):
        return
    there = build.add(k, max(1, bytes_ahead(kind, row_bytes) // row_bytes))
    for offset in range(0, row_bytes, LINE):
        place = panels.at(panel, there, offset * 8 // bits)
        build.do(PrefetchOp(panels.buffer, [build.index(i) for i in place]))


def share_of_next(
    build: LoopBuilder,
    panels: Matrix,
    following: Index,
    depth: Index,
    tile: Index,
    tiles: Index,
    *,
    start: Index = 0,
) -> Callable[[SSAValue], None]:
    """A function that prefetches, in step k of tile number `tile` of `tiles`, some of a panel.

    That is the `following` one, which is computed when all tiles of this one are done: `depth`
    steps of it, from `start` on.

    All tiles together ask for all of it, and for some of it twice where tiles do not divide a row of
    it: what a step asks for is a whole number of elements. A panel of more tiles than a row has
    elements is fetched by the first of them, one element in each step. Measured against the same
    loops without, 8 rows and more: 0.71 of the time of a model whose weights come from memory with
    16 rows, 0.95 with 128; 0.97 for weights in the L3 cache; 1.01 for weights in the L2 cache.
    """
    width = panels.kind.get_shape()[-1]
    line = LINE * 8 // bits_of(element_type(panels.buffer))
    if isinstance(tiles, int):
        shared = max(1, min(tiles, width))
        each: Index = -(-width // shared)
        offsets = range(0, max(each, 1), line)
    else:
        # Without rows there is no tile, but what is divided here may have been moved out of their loop.
        shared = build.maximum(build.minimum(tiles, width), 1)
        rounded_up = build.minus(build.add(shared, width), 1)
        each = build.minimum(build.floordiv(rounded_up, shared), line)
        offsets = range(1)
    part = depth // shared if isinstance(depth, int) and isinstance(shared, int) else None
    part = build.floordiv(depth, shared) if part is None else part
    first = build.plus(start, build.mul(build.minimum(tile, build.minus(shared, 1)), part))

    def ask(k: SSAValue) -> None:
        column = build.mul(k, each)
        for offset in offsets:
            place = panels.at(following, first, build.plus(column, offset))
            build.do(PrefetchOp(panels.buffer, [build.index(i) for i in place]))

    return ask
