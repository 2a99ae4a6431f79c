"""Quantised operands of products: where their codes are, what scales and zero points they have."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import StringAttr

from openinfer.dialects.graph import Operand, OpOp, RefAttr
from openinfer.lowering.graph.imports.canonicalize_graph import TRANSPOSES
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.patterns import shortest
from openinfer.lowering.graph.imports.tensors import tensors
from openinfer.lowering.graph.imports.uses import Array, Uses, kind, settings_of, written_settings

HALF = 128
"""What codes of u8 are less than those of i8 that mean the same."""
MOVES = ("reshape", "transpose", "squeeze", "unsqueeze", "slice", "max_pool2d")
"""Ops that choose among elements by their order or place: those of moved codes are moved ones."""


@dataclass(frozen=True)
class Leaf:
    """An activation: `(codes - zero) * scale`, one scale and zero point for all of it."""

    codes: RefAttr
    dtype: str
    zero: Operand | None
    zero_number: int | None
    """Where it is known; of the codes as they are."""
    scale: Operand | None
    """None for integers that no scale belongs to."""
    scale_number: float | None

    @property
    def shift(self) -> int:
        """How much less the codes of i8 are."""
        return HALF if self.dtype == "u8" else 0


@dataclass(frozen=True)
class Weight:
    """A constant: its codes as i8, its zero points and scales along the axis of outputs."""

    codes: RefAttr
    values: Array
    moved: bool
    """Whether the model has them as u8."""
    zero: Array
    """Of the codes as i8, int64, one for all or one for each output."""
    scale: Array | None
    sums: Array
    """The sum of the codes of each output, int64."""

    @property
    def outputs(self) -> int:
        return self.sums.size

    @property
    def count(self) -> int:
        """How many products each output has."""
        return self.values.size // max(1, self.outputs)

    @property
    def rank(self) -> int:
        return self.values.ndim


def content_of(uses: Uses, operand: Operand) -> Array | None:
    """The elements of a small constant, or of what a cast to integers and a reshape make of one."""
    while (op := uses.definition(operand, "cast", "reshape")) is not None:
        operand = op.inputs.data[0]
    return uses.content(operand)


def number_in(uses: Uses, operand: Operand) -> float | None:
    """The one number that an operand holds."""
    found = content_of(uses, operand)
    return float(found.reshape(())) if found is not None and found.size == 1 else None


def leaf_of(uses: Uses, value: Operand) -> Leaf | None:
    """The codes behind a dequantised value, or behind integers less their zero point."""
    op = uses.definition(value, "dequantize", "sub", "cast")
    if op is None:
        return None
    if kind(op) == "dequantize":
        return _dequantised(uses, op)
    zero: Operand | None = None
    if kind(op) == "sub":
        value, moved = op.inputs.data
        zero = moved
        cast = uses.definition(moved, "cast")
        if cast is not None:
            zero = cast.inputs.data[0]
        found = uses.definition(value, "cast")
        if found is None:
            return None
        op = found
    return _centred(uses, op, zero)


def _dequantised(uses: Uses, op: OpOp) -> Leaf | None:
    settings, codes = settings_of(op), op.inputs.data[0]
    spec = uses.spec(codes)
    if spec is None or not isinstance(codes, RefAttr) or settings.get("dtype") != "f32":
        return None
    scale = op.inputs.data[1] if len(op.inputs.data) > 1 else None
    zero = op.inputs.data[2] if len(op.inputs.data) > 2 else None
    if scale is None or settings.get("zero_point") is not None or spec.dtype not in CODES:
        return None
    number = 0 if zero is None else _whole(uses, zero)
    return Leaf(codes, spec.dtype, zero, number, scale, number_in(uses, scale))


CODES = ("u8", "i8", "i32")


def _centred(uses: Uses, op: OpOp, zero: Operand | None) -> Leaf | None:
    codes = op.inputs.data[0]
    spec, result = uses.spec(codes), uses.spec(op.outputs.data[0])
    if spec is None or result is None or not isinstance(codes, RefAttr):
        return None
    if result.dtype != "i32" or spec.dtype not in ("u8", "i8"):
        return None
    number = 0 if zero is None else _whole(uses, zero)
    if number is None and zero is not None:
        own = uses.spec(zero)
        if own is None or own.dtype != spec.dtype or any(d.constant != 1 for d in own.dims):
            return None
    return Leaf(codes, spec.dtype, zero, number, None, None)


def _whole(uses: Uses, operand: Operand) -> int | None:
    number = number_in(uses, operand)
    return int(number) if number is not None else None


def weight_of(uses: Uses, value: Operand, outputs: int) -> Weight | None:
    """A constant weight; `outputs` is its axis of results."""
    op = uses.definition(value, "dequantize", "sub", "cast", *TRANSPOSES)
    if op is None or kind(op) not in ("dequantize", "sub", "cast"):
        return None
    if kind(op) == "dequantize":
        parameters = [content_of(uses, one) for one in op.inputs.data[1:]]
        settings, codes = settings_of(op), op.inputs.data[0]
        if not parameters or settings.get("dtype") != "f32":
            return None
        if settings.get("zero_point") is not None or any(one is None for one in parameters):
            return None
        scale, zero = (*parameters, np.zeros(1, np.int64))[:2]
        axis = settings.get("axis")
    else:
        zero, scale, axis = np.zeros(1, np.int64), None, None
        if kind(op) == "sub":
            value, moved = op.inputs.data
            found = uses.definition(value, "cast")
            zero = content_of(uses, moved)
            if found is None or zero is None:
                return None
            zero, op = zero.reshape(-1), found
        result = uses.spec(op.outputs.data[0])
        codes = op.inputs.data[0]
        if result is None or result.dtype != "i32":
            return None
    values = _stored(uses, codes)
    if values is None or zero is None or not isinstance(codes, RefAttr) or not values.size:
        return None
    count = values.shape[outputs] if values.ndim > outputs else 0
    for one in (scale, zero):
        if one is not None and one.size not in (1, count):
            return None
        if one is not None and one.size > 1 and axis is not None and axis % values.ndim != outputs:
            return None
    zeros, moved_codes = zero.reshape(-1).astype(np.int64), values.dtype == np.uint8
    if moved_codes:
        values = (values.astype(np.int16) - HALF).astype(np.int8)
        zeros = zeros - HALF
    others = tuple(axis for axis in range(values.ndim) if axis != outputs)
    sums = values.sum(axis=others, dtype=np.int64).reshape(-1)
    own = None if scale is None else scale.reshape(-1).astype(np.float32)
    return Weight(codes, values, moved_codes, zeros, own, sums)


def _stored(uses: Uses, operand: Operand) -> Array | None:
    """The codes of a weight of any size."""
    if not isinstance(operand, RefAttr) or operand.indices.data or not uses.stable(operand):
        return None
    variable = uses.variables.get(operand.variable.data)
    if variable is None or variable.memory.data != "constant":
        return None
    if variable.dtype.data not in ("i8", "u8"):
        return None
    ref = variable.option("ref")
    found = tensors().get(ref.data) if isinstance(ref, StringAttr) else None
    values = uses.content(operand) if found is None else np.asarray(found)
    return values if values is not None and values.dtype.name in ("int8", "uint8") else None


@dataclass
class Codes:
    """Codes of u8 as codes of i8, each made once."""

    editor: Editor
    made: dict[str, RefAttr] = field(default_factory=dict[str, RefAttr])
    weights: dict[tuple[str, str], RefAttr] = field(default_factory=dict[tuple[str, str], RefAttr])

    def signed(self, codes: RefAttr) -> RefAttr:
        """Codes less 128, where they are u8."""
        uses = self.editor.uses
        spec, name = uses.spec(codes), codes.variable.data
        assert spec is not None
        if spec.dtype == "i8":
            return codes
        if name not in self.made:
            self.made[name] = self._quantised(codes) or self._moved(codes) or self._less(codes)
        return self.made[name]

    def _quantised(self, codes: RefAttr) -> RefAttr | None:
        """The same float as i8."""
        editor, uses = self.editor, self.editor.uses
        op = uses.definition(codes, "quantize")
        if op is None or settings_of(op).get("axis") is not None or len(op.inputs.data) < 2:
            return None
        scale: Operand = op.inputs.data[1]
        number = number_in(uses, scale)
        if number is not None:
            scale = literal(shortest(number))
        settings = {**written_settings(op), "dtype": "i8"}
        settings.pop("to", None)
        if "zero_point" in settings:
            return None
        if len(op.inputs.data) == 2:
            zero: Operand = literal(-HALF)
        elif (known := number_in(uses, op.inputs.data[2])) is not None:
            zero = literal(int(known) - HALF)
        else:
            wide = editor.insert(op, "cast", [op.inputs.data[2]], {"to": "i32"})
            less = editor.insert(op, "sub", [wide, literal(HALF)])
            zero = editor.insert(op, "cast", [less], {"to": "i8"})
        return editor.insert(op, "quantize", [op.inputs.data[0], scale, zero], settings)

    def _moved(self, codes: RefAttr) -> RefAttr | None:
        op = self.editor.uses.definition(codes, *MOVES)
        if op is None:
            return None
        inner = op.inputs.data[0]
        spec = self.editor.uses.spec(inner)
        if not isinstance(inner, RefAttr) or spec is None or spec.dtype != "u8":
            return None
        return self.editor.insert(op, kind(op), [self.signed(inner)], written_settings(op))

    def _less(self, codes: RefAttr) -> RefAttr:
        """Codes that come from elsewhere."""
        editor = self.editor
        writers = editor.uses.writers[codes.variable.data]
        block = next(iter(editor.uses.blocks()))
        first = block.body.block.first_op
        assert first is not None
        before = writers[0].next_op if writers else first
        assert before is not None
        wide = editor.insert(before, "cast", [codes], {"to": "i32"})
        less = editor.insert(before, "sub", [wide, literal(HALF)])
        return editor.insert(before, "cast", [less], {"to": "i8"})

    def weight(self, weight: Weight) -> RefAttr:
        """The codes of a weight as i8."""
        if not weight.moved:
            return weight.codes
        return self.constant(weight.values, weight.codes, "i8")

    def constant(self, array: Array, weight: RefAttr, what: str) -> RefAttr:
        """A constant that is named after a weight."""
        key = (weight.variable.data, what)
        if key not in self.weights or what != "i8":
            variable = self.editor.uses.variables[weight.variable.data]
            ref = variable.option("ref")
            name = ref.data if isinstance(ref, StringAttr) else weight.variable.data
            self.weights[key] = self.editor.constant(
                array, stem=f"{weight.variable.data}_{what}", ref=f"{name}.{what}"
            )
        return self.weights[key]

    def move_readers(self) -> None:
        """Who else reads the codes as u8 reads those as i8, so that they are not made twice."""
        editor = self.editor
        for name, signed in self.made.items():
            for reader in dict.fromkeys(editor.uses.readers[name]):
                if not isinstance(reader, OpOp) or kind(reader) != "dequantize":
                    continue
                self._move(reader, signed)

    def _move(self, reader: OpOp, signed: RefAttr) -> None:
        uses, operands = self.editor.uses, list(reader.inputs.data)
        settings = written_settings(reader)
        if "axis" in settings or "zero_point" in settings or len(operands) < 2:
            return
        zero = number_in(uses, operands[2]) if len(operands) > 2 else 0.0
        if zero is None:
            return
        scale = number_in(uses, operands[1])
        first: Operand = operands[1] if scale is None else literal(shortest(scale))
        moved: list[Operand] = [signed, first, literal(int(zero) - HALF)]
        self.editor.redefine(reader, "dequantize", moved, settings)
