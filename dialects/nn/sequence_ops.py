"""Operations of `nn` over sequences: recurrent layers and Fourier transforms."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, UnitAttr, f32, f64
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.base import NNOp
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
    stretches,
    text,
    times,
)
from openinfer.runtime.sizes import Size

NORMS = ("backward", "forward", "ortho")


class RecurrentOp(NNOp):
    """Common to the recurrent layers: `gates` parts of `fed[t] + w_hh @ h` decide the next state.

    Inputs: fed `[T, B, gates*H]`, the input's part of all steps with its biases; the first states
    `[B, H]`; w_hh `[gates*H, H]`; then what the layer needs besides. Results: y `[T, B, H]`, all
    hidden states, and the last states. With `reverse` time runs backwards. Scratch: the `states`
    `[threads, parts, H]` and parts of gates.
    """

    reverse = opt_prop_def(UnitAttr)
    SCRATCH: ClassVar[tuple[str, ...]] = ("states",)
    GATES: ClassVar[int] = 0
    STATES: ClassVar[int] = 0
    PARTS: ClassVar[int] = 0
    """Rows of scratch: hidden parts of the gates, then states."""

    def check(self) -> None:
        fed, weight = shape_of(self.inputs[0]), shape_of(self.inputs[1 + self.STATES])
        if len(fed) != 3 or len(weight) != 2:
            refuse(
                self,
                f"the fed part {text(fed)} is [T, B, {self.GATES}*H] and the weight {text(weight)} "
                f"is [{self.GATES}*H, H]",
            )
        hidden = weight[1]
        rows = times((self.GATES, hidden))
        expect_shape(self, "the fed part", fed, (None, None, rows))
        expect_shape(self, "the weight", weight, (rows, hidden))
        state: Dims = (fed[1], hidden)
        for value in self.inputs[1 : 1 + self.STATES]:
            expect_shape(self, "a first state", shape_of(value), state)
        results = self.outs if self.outs else self.result
        expect_shape(self, "the result", shape_of(results[0]), (*fed[:2], hidden))
        for value in results[1 : 1 + self.STATES]:
            expect_shape(self, "a last state", shape_of(value), state)
        for value in self.scratch:
            expect_shape(self, "the scratch buffer", shape_of(value), (None, self.PARTS, hidden))
            if element(value) not in (f32, f64):
                refuse(self, f"the scratch buffer has elements {element(value)}, not f32 or f64")
        expect_floats(self, (*self.inputs, *results, *self.scratch))
        self.check_rest(rows)

    def check_rest(self, rows: Dim) -> None:
        """The inputs behind the weight."""


@irdl_op_definition
class LstmOp(RecurrentOp):
    """`i, f, g, o = fed[t] + w_hh @ h`; `c = σ(f)·c + σ(i)·tanh(g)`; `h = σ(o)·tanh(c)`.

    Inputs: fed, h, c, w_hh. Results: y, h, c.
    """

    name = "nn.lstm"
    ARITY: ClassVar[tuple[int, int | None]] = (4, 4)
    OUTPUTS: ClassVar[int] = 3
    GATES: ClassVar[int] = 4
    STATES: ClassVar[int] = 2
    PARTS: ClassVar[int] = 6


@irdl_op_definition
class GruOp(RecurrentOp):
    """`r, z, n` are the parts of `a = fed[t]` and `b = w_hh @ h + b_hh`.

    `n = tanh(a_n + σ(a_r + b_r)·b_n)`; `h = (1 - z)·n + z·h` with `z = σ(a_z + b_z)`. Inputs: fed,
    h, w_hh, optionally b_hh `[3*H]`. Results: y, h.
    """

    name = "nn.gru"
    ARITY: ClassVar[tuple[int, int | None]] = (3, 4)
    OUTPUTS: ClassVar[int] = 2
    GATES: ClassVar[int] = 3
    STATES: ClassVar[int] = 1
    PARTS: ClassVar[int] = 4

    def check_rest(self, rows: Dim) -> None:
        for value in self.inputs[3:]:
            expect_shape(self, "the bias", shape_of(value), (rows,))


class FourierOp(NNOp):
    """Common to the transforms: `n` real samples, and which direction is divided by n.

    Scratch: a `table` of the cosines and sines of all n-th parts of a turn `[2, n]`, and `rows`, for each
    thread one and a copy of it `[threads, 4, n]`.
    """

    n = prop_def(SizeAttr)
    norm = prop_def(StringAttr)
    SCRATCH: ClassVar[tuple[str, ...]] = ("table", "rows")

    def check(self) -> None:
        if self.norm.data not in NORMS:
            refuse(self, f"unknown norm {self.norm.data!r}, expected one of {', '.join(NORMS)}")
        length = self.n.data
        if length.constant is not None and length.constant < 1:
            refuse(self, f"{length} samples are no signal")
        expect_floats(self, (*self.inputs, *self.outs, *self.scratch, *self.result))
        self.check_shapes(length if length.constant is None else length.constant)
        wanted: tuple[Dims, ...] = ((2, None), (None, 4, None))
        for value, dims in zip(map(self.room, self.SCRATCH), wanted):
            if value is None:
                continue
            expect_shape(self, "a scratch buffer", shape_of(value), dims)

    def check_shapes(self, length: int | Size) -> None:
        """Shapes of the input and the result for so many samples."""


@irdl_op_definition
class RfftOp(FourierOp):
    """Rows of reals `[…, N]`, cut or padded to n, to their bins `[…, n/2 + 1, 2]`."""

    name = "nn.rfft"

    def check_shapes(self, length: int | Size) -> None:
        source, target = shape_of(self.inputs[0]), shape_of(self.output)
        bins = length // 2 + 1
        if not source:
            refuse(self, "x is a scalar, expected a last axis")
        expect_shape(self, "the result", target, (*source[:-1], bins, 2))


@irdl_op_definition
class IrfftOp(FourierOp):
    """Bins `[…, M, 2]`, cut or padded to n/2 + 1, to rows of reals `[…, n]`."""

    name = "nn.irfft"

    def check_shapes(self, length: int | Size) -> None:
        source, target = shape_of(self.inputs[0]), shape_of(self.output)
        if len(source) < 2 or not fits(source[-1], 2):
            refuse(self, f"x has shape {text(source)}, expected bins of two numbers")
        expect_shape(self, "the result", target, (*source[:-2], length))


@irdl_op_definition
class RotaryOp(NNOp):
    """Pairs of elements along the last axis, turned by angles: `a·cos − b·sin`, `b·cos + a·sin`.

    Inputs: x `[…, 2*P]`; cosine and sine of the angles, which broadcast to `[…, P]`. The halves of the axis
    are the pairs' first and second elements, with `interleaved` neighbours are. Computed in the
    element type of the angles, rounded once.
    """

    name = "nn.rotary"
    interleaved = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (3, 3)

    def check(self) -> None:
        x, *angles = self.inputs
        source = shape_of(x)
        if not source or (isinstance(source[-1], int) and source[-1] % 2):
            refuse(self, f"x has shape {text(source)}, expected pairs along the last axis")
        expect_floats(self, (*self.inputs, self.output))
        expect_shape(self, "the result", shape_of(self.output), source)
        for name, value in zip(("the cosine", "the sine"), angles):
            dims = shape_of(value)
            pairs = (*source[:-1], source[-1] // 2 if isinstance(source[-1], int) else None)
            if dims != pairs and not stretches(dims, pairs):
                refuse(
                    self,
                    f"{name} has shape {text(dims)}, expected one that broadcasts to {text(pairs)}",
                )
            expect_element(self, name, element(value), element(angles[0]))
            if element(value) not in (f32, f64):
                refuse(self, f"{name} has elements {element(value)}, not f32 or f64")


OPS: tuple[type[NNOp], ...] = (LstmOp, GruOp, RfftOp, IrfftOp, RotaryOp)
