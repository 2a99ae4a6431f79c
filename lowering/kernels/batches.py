"""Loops over leading dimensions, and the place of an operand whose leading dimensions broadcast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openinfer.lowering.kernels.builder import Index, LoopBuilder


def over_batches(
    build: LoopBuilder, extents: Sequence[Index], body: Callable[[tuple[Index, ...]], None]
) -> None:
    """A loop for each extent, all of them parallel; `body` gets one index for each."""

    def nest(done: tuple[Index, ...]) -> None:
        if len(done) == len(extents):
            body(done)
            return
        extent = extents[len(done)]
        if extent == 1:
            nest((*done, build.index(0)))
            return
        build.loop(0, extent, 1, lambda i: nest((*done, i)), parallel=True, hint="b")

    nest(())


def broadcast_place(
    build: LoopBuilder, shape: Sequence[int], place: Sequence[Index]
) -> tuple[Index, ...]:
    """The index into leading dimensions `shape` that broadcasts to `place`, NumPy-style."""
    own = place[len(place) - len(shape) :]
    return tuple(build.index(0) if size == 1 else i for size, i in zip(shape, own))
