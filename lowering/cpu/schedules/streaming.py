"""Panels that stream from memory: where few rows meet them, lines are prefetched.

A row meets each element of a panel once, so the time of a product with one or two rows is that of
the stream, and what counts is how much of it is under way. With more rows there is time to fetch the
next panel while the tiles of this one are computed: each of them prefetches its share of it.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.memref import PrefetchOp
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import element_type
from openinfer.runtime.microarchitecture import Microarchitecture

LINE = 64
"""Bytes of a cache line."""
KEPT, USED_ONCE = 3, 0
"""Localities of a prefetch: for all caches; into the nearest one, and out of it past the others."""
FEW_ROWS = 2
"""With more of them the multiplications take longer than the stream."""


def prefetch_distance(
    kind: Attribute, row_bytes: int, measured: Microarchitecture, *, streamed: bool = False
) -> int | None:
    """How many bytes ahead a panel of elements `kind` is prefetched, with `row_bytes` in a row; None:
    not at all.

    The defaults of `measured`, against the same loops without. f32: from the L3 cache 0.86 of the time at 512
    bytes (a Zen 5's row has a later `ahead`, 2048: 0.82 to 0.99 of that); 0.99 with 12 MB of weights, 1.2
    with 17 to 21 MB, 1.4 with 25 MB, 1.2 with 50 MB of them and 1.02 with 268 MB (one thread,
    32 MiB of L3 cache): the processor's own prefetcher runs further ahead in code without prefetches. Where a
    row is one line only, as with AVX2, 2048 bytes take 0.91 of the time of 512 from memory, 0.83 to 0.93 from
    the L3 cache. f16 and bf16 from memory: 1.11 to 1.16 at
    512 bytes, 0.91 at 4096 and 8192. i8 at 8192 bytes: 0.87 of the time at 2048, 0.96 of that at 4096.
    """
    if bits_of(kind) < 32:
        return measured.ahead_narrow or None
    if row_bytes <= LINE:
        return measured.ahead_line or None
    return (measured.ahead_streamed if streamed else measured.ahead) or None


def steps_per_line(panels: Matrix) -> int:
    """How many steps of the contraction read one cache line of a panel."""
    return max(1, LINE // _row_bytes(panels))


def _row_bytes(panels: Matrix) -> int:
    return max(1, panels.kind.get_shape()[-1] * bits_of(element_type(panels.buffer)) // 8)


def prefetch_panel(
    build: LoopBuilder,
    panels: Matrix,
    panel: Index,
    k: SSAValue,
    measured: Microarchitecture,
    *,
    streamed: bool = False,
) -> None:
    """Prefetches what step k reads of `[panel, k, column]`, some steps later.

    Behind a panel lies the next one, so the last steps prefetch its beginning. Lines of narrow
    `streamed` panels are marked as used once (`locality<0>`), so that they push nothing else out of
    the last cache: 0.76 to 0.84 of the time for 268 MB of bf16 with two threads, 0.95 with one.
    """
    kind = element_type(panels.buffer)
    bits = bits_of(kind)
    row_bytes = _row_bytes(panels)
    distance = prefetch_distance(kind, row_bytes, measured, streamed=streamed)
    if distance is None:
        return
    locality = USED_ONCE if streamed and bits < 32 else KEPT
    there = build.add(k, max(1, distance // row_bytes))
    for offset in range(0, row_bytes, LINE):
        place = [build.index(i) for i in panels.at(panel, there, offset * 8 // bits)]
        build.do(PrefetchOp(panels.buffer, place, locality=locality))


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
