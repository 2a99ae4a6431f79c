"""Products with matrices that indices choose."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import f32, f64, i32
from xdsl.irdl import irdl_op_definition

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    element,
    expect_element,
    expect_floats,
    expect_shape,
    fits,
    refuse,
    shape_of,
    text,
)


@irdl_op_definition
class ExpertMatmulOp(NNOp):
    """`result[t, s] = w[chosen[t, s]] · x[t, s]`, for k choices s of each position t.

    Inputs: x `[T, k, K]`, or `[T, 1, K]` with one row for all choices; w `[E, N, K]`; chosen `[T, k]`, i32,
    each in 0..E. The result `[T, k, N]` is f32 or f64, what products are added up in. Scratch on buffers,
    i32: the `pairs` of a position and a choice, those of one expert behind those of the one before, and
    the `ends` of these runs.
    """

    name = "nn.expert_matmul"
    ARITY: ClassVar[tuple[int, int | None]] = (3, 3)
    SCRATCH: ClassVar[tuple[str, ...]] = ("pairs", "ends")

    def check(self) -> None:
        x, w, chosen = map(shape_of, self.inputs)
        for name, dims, rank in (("x", x, 3), ("w", w, 3), ("chosen", chosen, 2)):
            if len(dims) != rank:
                refuse(self, f"{name} has shape {text(dims)}, expected {rank} dimensions")
        expect_floats(self, (*self.inputs[:2], self.output))
        expect_element(self, "chosen", element(self.inputs[2]), i32)
        if element(self.output) not in (f32, f64):
            refuse(self, f"the result is {element(self.output)}, expected f32 or f64")
        if not fits(x[0], chosen[0]) or not (x[1] == 1 or fits(x[1], chosen[1])):
            refuse(self, f"x has shape {text(x)}, chosen {text(chosen)}: rows and choices differ")
        if not fits(x[2], w[2]):
            refuse(self, f"x has {x[2]} features and w takes {w[2]}")
        expect_shape(self, "the result", shape_of(self.output), (*chosen, w[1]))
        for value in self.scratch:
            expect_element(self, "the scratch buffer", element(value), i32)
