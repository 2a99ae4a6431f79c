"""Products with matrices that indices choose."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, f32, f64, i8, i32
from xdsl.irdl import irdl_op_definition, opt_prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.block_types import BlockType
from openinfer.dialects.nn.checks import (
    Dim,
    Dims,
    element,
    expect_element,
    expect_floats,
    expect_shape,
    fits,
    refuse,
    shape_of,
    text,
)
from openinfer.dialects.nn.layouts import BlocksAttr, LayoutAttr
from openinfer.dialects.nn.row_ops import row_elements


@irdl_op_definition
class ExpertMatmulOp(NNOp):
    """`result[t, s] = w[chosen[t, s]] · x[t, s]`, for k choices s of each position t.

    Inputs: x `[T, k, K]`, or `[T, 1, K]` with one row for all choices; w `[E, N, K]`; chosen `[T, k]`, i32,
    each in 0..E. The result `[T, k, N]` is f32 or f64, what products are added up in. Scratch on buffers,
    i32: the `pairs` of a position and a choice, those of one expert behind those of the one before, and
    the `ends` of these runs.

    A weight in blocks, of `!nn.block` or with the layout `#nn.blocks`, counts with its unpacked values. With
    `precision = "q8"` x is rows of `nn.quantize_rows`, as in `nn.matmul`.
    """

    name = "nn.expert_matmul"
    layout = opt_prop_def(BlocksAttr)
    precision = opt_prop_def(StringAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (3, 3)
    SCRATCH: ClassVar[tuple[str, ...]] = ("pairs", "ends")

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 1 else None

    @property
    def in_bytes(self) -> bool:
        """Whether x is rows of `nn.quantize_rows`."""
        return self.precision is not None

    def check(self) -> None:
        x, w, chosen = map(shape_of, self.inputs)
        for name, dims, rank in (
            ("x", x, 3),
            ("w", w, 3 if self.layout is None else 4),
            ("chosen", chosen, 2),
        ):
            if len(dims) != rank:
                refuse(self, f"{name} has shape {text(dims)}, expected {rank} dimensions")
        expect_element(self, "chosen", element(self.inputs[2]), i32)
        if element(self.output) not in (f32, f64):
            refuse(self, f"the result is {element(self.output)}, expected f32 or f64")
        if not fits(x[0], chosen[0]) or not (x[1] == 1 or fits(x[1], chosen[1])):
            refuse(self, f"x has shape {text(x)}, chosen {text(chosen)}: rows and choices differ")
        if self.in_bytes:
            expect_element(self, "x of precision q8", element(self.inputs[0]), i8)
            x = (*x[:2], row_elements(x[2]))
            if x[2] is None:
                refuse(self, "x of precision q8 is no rows of nn.quantize_rows")
        else:
            expect_floats(self, self.inputs[:1])
        columns = self._check_weight(x, w)
        expect_shape(self, "the result", shape_of(self.output), (*chosen, columns))
        for value in self.scratch:
            expect_element(self, "the scratch buffer", element(value), i32)

    def _check_weight(self, x: Dims, w: Dims) -> Dim:
        """The rows of each matrix."""
        kind = element(self.inputs[1])
        if self.layout is None and not isinstance(kind, BlockType):
            expect_floats(self, self.inputs[1:2])
            if self.in_bytes:
                refuse(self, "precision q8 is for matrices in blocks")
            if not fits(x[2], w[2]):
                refuse(self, f"x has {x[2]} features and w takes {w[2]}")
            return w[1]
        if self.precision is not None and self.precision.data != "q8":
            refuse(self, f"precision {self.precision.data!r} is unknown, expected 'q8'")
        where = kind if isinstance(kind, BlockType) else self.layout
        assert where is not None
        block = where.format
        if not isinstance(x[2], int) or x[2] % block.elements:
            refuse(
                self,
                f"x has {x[2]} features, expected a multiple of the {block.elements} elements of a block",
            )
        if self.layout is None:
            if not fits(x[2], w[2]):
                refuse(self, f"x has {x[2]} features and w takes {w[2]}")
            return w[1]
        if isinstance(kind, BlockType):
            refuse(self, f"matrices of {kind} do not lie in {self.layout}")
        expect_element(self, f"w in {self.layout}", kind, i8)
        # Panels do not say how much of the last one is padding.
        columns = shape_of(self.output)[-1]
        expected = self.layout.shape((w[0], x[2], columns))
        expect_shape(self, f"w in {self.layout}", w, expected)
        return columns
