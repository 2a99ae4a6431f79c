"""Products of quantised tensors become products of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from openinfer.dialects.graph import LiteralAttr, Operand, OpOp, RefAttr
from openinfer.dialects.ops.base import TensorSpec
from openinfer.lowering.graph.imports.drop_dead import drop_dead
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.patterns import shortest
from openinfer.lowering.graph.imports.quantized_leaves import (
    Codes,
    Leaf,
    Weight,
    content_of,
    leaf_of,
    number_in,
    weight_of,
)
from openinfer.lowering.graph.imports.uses import Array, kind, settings_of, written_settings

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
MOST_PRODUCTS = 1 << 16
"""Products in a sum of at most 2^31: each is at most 2^14, and corrections are as large again."""
SCALES_AGREE = 1e-6
"""How far the scale of a bias may be from the product of the others: a rounding of f32."""

Call = tuple[str, list[Operand], dict[str, Any]]
"""An op that is to be made: name, operands, settings."""


@dataclass(frozen=True)
class RecognizeQuantizedLinear(ModulePass):
    """Makes `linear`, `matmul` and convolutions of dequantised tensors products of i8, added up in i32.

    Before:
        graph.op dequantize(q, s, z) -> (x)     // q: u8
        graph.op dequantize(v, t, 0) -> (w)     // v: i8, a weight
        graph.op linear(x, w) -> (u)
        graph.op quantize(u, r, y) -> (p)
    After:
        graph.op linear(q, v, c) {acc = i32} -> (n)
        graph.op cast(n) {to = f32} -> (f)
        graph.op mul(f, 0.125) -> (u)           // s * t / r
        graph.op quantize(u, 1.0, y) -> (p)

    Codes of u8 become codes of i8 that are 128 less, and so do their zero points: the tensor stays the same.
    c is the bias less the zero point of x times the sums of the weight. All of it is exact in i32, and what
    follows is what `QLinearMatMul` and `QLinearConv` define: the sum as f32, times one factor, rounded. The
    floats that it replaces round every product and every sum of a row, and divide by r instead: codes
    differ by one where a value lies that close to a half.

    Products of integers that are centred already, `sub(cast(q), z)`, become the same. Known zero points
    are numbers; what is dequantised and quantised again with the same numbers goes.

    Requires: level `graph`, as a reader of a foreign model writes it; constants not folded.
    Leaves: products of two activations; scales or zero points that are no constants, but for the zero point
        of the left operand of an integer product; a weight with zero points in a convolution; sums of
        more than 65536 products. Each of them stays as it was.
    """

    name: ClassVar[str] = "recognize-quantized-linear"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        editor = Editor(op)
        for one in editor.uses.ops():
            _round_trip(editor, one)
        for one in editor.uses.ops():
            _zero_point(editor, one)
        codes = Codes(editor)
        for one in editor.uses.ops():
            if one.parent is not None and kind(one) in ("linear", "matmul", *CONVOLUTIONS):
                found = _Product.of(codes, one)
                if found is not None:
                    found.replace()
        codes.move_readers()
        if editor.changed:
            drop_dead(editor)


MOVES = ("reshape", "transpose", "squeeze", "unsqueeze", "slice")
"""Ops that hand elements on as they are."""


def _round_trip(editor: Editor, op: OpOp) -> None:
    """quantize(move(dequantize(q, s, z)), s, z): move(q)"""
    uses = editor.uses
    if op.parent is None or kind(op) != "quantize":
        return
    value, moves = op.inputs.data[0], list[OpOp]()
    while (move := uses.definition(value, *MOVES)) is not None:
        moves.append(move)
        value = move.inputs.data[0]
    inner = uses.definition(value, "dequantize")
    if inner is None or settings_of(inner).get("axis") is not None:
        return
    outer, own = op.inputs.data[1:], inner.inputs.data[1:]
    if len(outer) != len(own) or settings_of(op).get("axis") is not None:
        return
    if not all(_equal(editor, a, b) for a, b in zip(outer, own)):
        return
    source = uses.spec(inner.inputs.data[0])
    if source is None or source.dtype != settings_of(op)["dtype"]:
        return
    codes = inner.inputs.data[0]
    assert isinstance(codes, RefAttr)
    if not moves:
        editor.alias(op, codes)
        return
    for move in reversed(moves[1:]):
        codes = editor.insert(op, kind(move), [codes], written_settings(move))
    editor.redefine(op, kind(moves[0]), [codes], written_settings(moves[0]))


def _zero_point(editor: Editor, op: OpOp) -> None:
    """dequantize(q, s, z) of a known z: dequantize(q, s, 3), or dequantize(q, s) for zeros; so of quantize"""
    if op.parent is None or kind(op) not in ("dequantize", "quantize") or len(op.inputs.data) != 3:
        return
    *others, zero = op.inputs.data
    known = content_of(editor.uses, zero)
    if known is None or isinstance(zero, LiteralAttr):
        return
    if not known.any():
        editor.redefine(op, kind(op), others, written_settings(op))
    elif known.size == 1:
        number = literal(int(known.reshape(())))
        editor.redefine(op, kind(op), [*others, number], written_settings(op))


def _equal(editor: Editor, a: Operand, b: Operand) -> bool:
    if a == b:
        return editor.uses.stable(a)
    one, two = content_of(editor.uses, a), content_of(editor.uses, b)
    return one is not None and two is not None and one.size == 1 and np.array_equal(one, two)


@dataclass
class _Product:
    """A product of an activation and a weight whose codes are known."""

    codes: Codes
    op: OpOp
    left: Leaf
    weight: Weight
    bias: Operand | None
    rest: Operand | None = None
    """A bias that is no integer: it is added behind the scales."""
    spec: TensorSpec | None = None

    @staticmethod
    def of(codes: Codes, op: OpOp) -> _Product | None:
        uses = codes.editor.uses
        settings = settings_of(op)
        if settings.get("transpose_a") or settings.get("acc") is not None:
            return None
        x, w = op.inputs.data[:2]
        left = leaf_of(uses, x)
        if left is None:
            return None
        outputs = 0
        if kind(op) == "matmul" and not settings.get("transpose_b"):
            outputs = 1
        weight = weight_of(uses, w, outputs)
        if weight is None or weight.count > MOST_PRODUCTS:
            return None
        if (left.scale is None) != (weight.scale is None):
            return None
        spec = uses.spec(x)
        if kind(op) not in CONVOLUTIONS and (weight.rank != 2 or spec is None or spec.rank < 2):
            return None
        found = _Product(codes, op, left, weight, (*op.inputs.data, None)[2])
        return found if found.is_known() else None

    def is_known(self) -> bool:
        """Whether all numbers are there that the integers are computed with."""
        convolution = kind(self.op) in CONVOLUTIONS
        zero = self.left.zero_number
        if convolution and (self.weight.zero.any() or not self._pads()):
            return False
        if zero is None and (self.left.scale is not None or (convolution and any(self._padding()))):
            return False
        if self.left.scale is None:
            return self.bias is None
        scale = self.left.scale_number
        return scale is not None and bool(np.isfinite(scale * self._weight_scales()).all())

    def _weight_scales(self) -> Array:
        assert self.weight.scale is not None
        return self.weight.scale

    def _pads(self) -> bool:
        """Whether padding is numbers, or there is none."""
        padding: Any = settings_of(self.op).get("padding")
        numbers = padding if isinstance(padding, tuple) else (padding,)
        return padding == "valid" or all(isinstance(one, int) for one in numbers)

    def _padding(self) -> list[int]:
        """Before and behind each axis of a convolution, before the next one."""
        padding: Any = settings_of(self.op).get("padding", 0)
        axes = int(kind(self.op)[4])
        if padding == "valid":
            return [0] * (2 * axes)
        each = [padding] * axes if isinstance(padding, int) else [int(one) for one in padding]
        return [one for one in each for _ in range(2)] if len(each) == axes else each

    # What it becomes

    def replace(self) -> None:
        """Makes the product one of integers, with what scales it."""
        self.spec = self.codes.editor.uses.spec(self.op.outputs.data[0])
        assert self.spec is not None
        calls, scaled = self._calls()
        if self.left.scale is None:
            self._finish(self.op, calls)
            return
        after = self._after()
        if after is None or not scaled:
            factors = self._factors(None)
            self._finish(self.op, [*calls, *self._scaled(factors)])
            return
        # All of the scales are one factor.
        scale = number_in(self.codes.editor.uses, after.inputs.data[1])
        assert scale is not None
        self._finish(self.op, [*calls, *self._scaled(self._factors(scale))])
        settings = written_settings(after)
        operands = [after.inputs.data[0], literal(1.0), *after.inputs.data[2:]]
        self.codes.editor.redefine(after, "quantize", operands, settings)

    def _finish(self, op: OpOp, calls: list[Call]) -> None:
        """Makes some ops, each of which reads the one before as its first operand where that is missing."""
        editor = self.codes.editor
        *before, (name, operands, settings) = calls
        value: RefAttr | None = None
        for one, given, chosen in before:
            value = editor.insert(op, one, given if value is None else [value, *given], chosen)
        made = editor.redefine(
            op, name, operands if value is None else [value, *operands], settings
        )
        assert made is not None

    def _calls(self) -> tuple[list[Call], bool]:
        """The product in i32, and whether it has all of the bias."""
        op, weight = self.op, self.weight
        x = self.codes.signed(self.left.codes)
        w = self.codes.weight(weight)
        settings = {**written_settings(op), "acc": "i32"}
        zero = self.left.zero_number
        if zero is not None:
            zero -= self.left.shift
        whole, rest = self._bias_codes()
        added = np.zeros(weight.outputs, np.int64) if whole is None else whole
        if zero:
            added = added - zero * weight.sums
            x = self._padded(x, zero, settings)
        calls: list[Call] = []
        name = kind(op)
        operands: list[Operand] = [x, w]
        takes_bias = name != "matmul"
        if takes_bias and added.any():
            operands.append(self._constant(_wrapped(added), "bias"))
        calls.append((name, operands, settings))
        if not takes_bias and added.any():
            calls.append(("add", [self._constant(_wrapped(added), "bias")], {}))
        if zero is None:
            calls.append(("sub", [self._moved_sums()], {}))
        if weight.zero.any():
            calls.append(("sub", [self._weight_zero(x, zero)], {}))
        if rest is not None:
            self.rest = rest
        return calls, rest is None

    def _scaled(self, factors: Array) -> list[Call]:
        """The sum as a float."""
        calls: list[Call] = [("cast", [], {"to": "f32"})]
        channels = kind(self.op) in CONVOLUTIONS
        assert self.spec is not None
        spread = self.spec.rank - 2 if channels else 0
        if factors.size == 1:
            calls.append(("mul", [literal(shortest(float(factors.reshape(()))))], {}))
        else:
            shape = [factors.size, *[1] * spread]
            calls.append(("mul", [self._constant(factors.reshape(shape), "scale")], {}))
        if self.rest is not None:
            rest: Operand = self.rest
            if spread and isinstance(rest, RefAttr):
                shape = [self.weight.outputs, *[1] * spread]
                rest = self.codes.editor.insert(self.op, "reshape", [rest], {"shape": shape})
            calls.append(("add", [rest], {}))
        return calls

    def _factors(self, result: float | None) -> Array:
        """What the sum counts, in f32 as the operators define it: both scales, over that of the result."""
        scale = self.left.scale_number
        assert scale is not None
        factors = np.float32(scale) * self._weight_scales().astype(np.float32)
        return (factors / np.float32(result) if result is not None else factors).astype(np.float32)

    def _bias_codes(self) -> tuple[Array | None, Operand | None]:
        """(a bias in units of the sum, or None; what is left to be added as a float)."""
        uses, bias = self.codes.editor.uses, self.bias
        if bias is None:
            return None, None
        inner = uses.definition(bias, "dequantize")
        if inner is None:
            return None, bias
        found = leaf_of(uses, bias)
        numbers = uses.content(inner.inputs.data[0])
        parameters = list(inner.inputs.data[1:])
        scales = content_of(uses, parameters[0]) if parameters else None
        zero = np.zeros(1) if found is None or found.zero is None else content_of(uses, found.zero)
        spec = uses.spec(inner.inputs.data[0])
        if numbers is None or scales is None or zero is None or zero.any() or spec is None:
            return None, bias
        if spec.dtype != "i32" or numbers.shape != (self.weight.outputs,):
            return None, bias
        if not np.allclose(scales.reshape(-1), self._factors(None), rtol=SCALES_AGREE, atol=0):
            return None, bias
        return numbers.astype(np.int64), None

    def _after(self) -> OpOp | None:
        """The op that quantises the result, which nobody else reads; a `relu` may stand before it."""
        uses = self.codes.editor.uses
        result = self.op.outputs.data[0]
        for _ in range(2):
            if not uses.read_once(result):
                return None
            (reader,) = uses.readers[result.variable.data]
            if not isinstance(reader, OpOp) or reader.parent is not self.op.parent:
                return None
            if kind(reader) == "quantize" and reader.inputs.data[0] == result:
                settings = settings_of(reader)
                parameters = list(reader.inputs.data[1:])
                known = bool(parameters) and settings.get("axis") is None
                scale = number_in(uses, parameters[0]) if known else None
                return reader if scale is not None and scale > 0 else None
            if kind(reader) != "relu":
                return None
            result = reader.outputs.data[0]
        return None

    # Parts

    def _padded(self, x: Operand, zero: int, settings: dict[str, Any]) -> Operand:
        """x with its padding, whose elements are the code of 0; `settings` have none any more."""
        spec = self.codes.editor.uses.spec(x)
        if kind(self.op) not in CONVOLUTIONS or spec is None:
            return x
        each = self._padding()
        if not any(each):
            return x
        for name in ("padding", "pads"):
            settings.pop(name, None)
        outer = [0] * (spec.rank - len(each) // 2)
        given = {"pads": [*outer, *each[::2], *outer, *each[1::2]], "value": zero}
        return self.codes.editor.insert(self.op, "pad", [x], given)

    def _moved_sums(self) -> Operand:
        """The zero point of x, which the run computes, times the sums of the weight."""
        editor = self.codes.editor
        zero = self.left.zero
        assert zero is not None
        wide = editor.insert(self.op, "cast", [zero], {"to": "i32"})
        if self.left.shift:
            wide = editor.insert(self.op, "sub", [wide, literal(self.left.shift)])
        assert self.spec is not None
        spread = [1] * (self.spec.rank - 2) if kind(self.op) in CONVOLUTIONS else []
        sums = _wrapped(self.weight.sums).reshape([self.weight.outputs, *spread])
        return editor.insert(self.op, "mul", [wide, self._constant(sums, "sums")])

    def _weight_zero(self, x: Operand, zero: int | None) -> Operand:
        """The zero points of the weight times the sum of a row of x less its own."""
        editor, op = self.codes.editor, self.op
        wide = editor.insert(op, "cast", [x], {"to": "i32"})
        rows = editor.insert(op, "sum_axis", [wide], {"axes": [-1], "keepdims": True})
        moved: Operand = rows
        if zero is None:
            assert self.left.zero is not None
            own = editor.insert(op, "cast", [self.left.zero], {"to": "i32"})
            if self.left.shift:
                own = editor.insert(op, "sub", [own, literal(self.left.shift)])
            all_zeros = editor.insert(op, "mul", [own, literal(self.weight.count)])
            moved = editor.insert(op, "sub", [rows, all_zeros])
        elif zero:
            moved = editor.insert(op, "sub", [rows, literal(zero * self.weight.count)])
        zeros = self.weight.zero
        if (zeros == zeros[0]).all():
            return editor.insert(op, "mul", [moved, literal(int(zeros[0]))])
        return editor.insert(op, "mul", [moved, self._constant(_wrapped(zeros), "zeros")])

    def _constant(self, array: Array, what: str) -> RefAttr:
        """A constant that is named after the weight."""
        return self.codes.constant(array, self.weight.codes, what)


def _wrapped(values: Array) -> Array:
    """Modulo 2^32, as sums of i32 are."""
    return values.astype(np.int64).astype(np.int32)
