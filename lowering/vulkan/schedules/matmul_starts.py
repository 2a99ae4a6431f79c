"""Where a product's epilogue goes when its sums are one matrix: what they begin with, and a function of each.

A matrix of sums can begin as a bias or a residual, which costs no access behind the sums, and a function of
elements can end it, which sees nothing of memory:

    x·w + b + r, gelu(x·w + b)              x·w begins as b + r; gelu of each element

Sums are not rounded to f16 between the parts of an epilogue whose result is f16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float16Type, Float32Type, IndexType, MemRefType, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu_tensors import MatrixYieldOp
from openinfer.dialects.nn import YieldOp
from openinfer.lowering.kernels.epilogue import Epilogue, Extra

_FLOATS = (Float16Type, Float32Type)


@dataclass(frozen=True)
class Ends:
    """An epilogue in two parts."""

    starts: tuple[Extra, ...] = ()
    """What is added to the sums."""
    body: tuple[Operation, ...] = ()
    """What a function of each element computes, constants first."""
    given: frozenset[SSAValue] = field(default_factory=frozenset[SSAValue])
    """The values that stand for the element there."""
    last: SSAValue | None = None
    """What it gives; None where there is no function."""

    def function(self) -> Region:
        """The body of `gpu.matrix_map`, of elements of f32."""
        assert self.last is not None
        block = Block(arg_types=[IndexType(), IndexType(), f32])
        *_, element = block.args
        values: dict[SSAValue, SSAValue] = {}

        def value_of(old: SSAValue) -> SSAValue:
            if old in values:
                return values[old]
            assert old in self.given
            if old.type == f32:
                return element
            narrow = arith.TruncFOp(element, old.type)
            block.add_op(narrow)
            values[old] = narrow.result
            return narrow.result

        for op in self.body:
            operands = [value_of(operand) for operand in op.operands]
            copy = type(op).create(
                operands=operands,
                result_types=[result.type for result in op.results],
                properties=dict(op.properties),
                attributes=dict(op.attributes),
                location=op.location,
            )
            block.add_op(copy)
            values.update(zip(op.results, copy.results, strict=True))
        last = value_of(self.last)
        if last.type != f32:
            wide = arith.ExtFOp(last, f32)
            block.add_op(wide)
            last = wide.result
        block.add_op(MatrixYieldOp(last))
        return Region(block)


def ends_of(epilogue: Epilogue) -> Ends | None:
    """The parts of an epilogue; None where it reads more than sums can begin with, or later."""
    if epilogue.body is None:
        return Ends()
    return _Reading(epilogue).ends()


class _Reading:
    """Follows the sum through the body, as long as something is added to it."""

    def __init__(self, epilogue: Epilogue) -> None:
        assert epilogue.body is not None
        assert isinstance(epilogue.output.type, MemRefType)
        total, *others = epilogue.body.args
        self.ops = list(epilogue.body.ops)
        self.result = epilogue.output.type.element_type
        self.rank = epilogue.rank
        self.sums: set[SSAValue] = {total}
        self.extras: dict[SSAValue, Extra] = dict(zip(others, epilogue.extras, strict=True))
        self.starts: list[Extra] = []
        self.rounded = False

    def ends(self) -> Ends | None:
        """The parts, if there are no others."""
        constants: list[Operation] = []
        rest: list[Operation] = []
        last: SSAValue | None = None
        for op in self.ops:
            if isinstance(op, arith.ConstantOp):
                constants.append(op)
            elif isinstance(op, YieldOp):
                (last,) = op.operands
            elif not self._is_start(op):
                rest.append(op)
        assert last is not None
        if self.rounded and not isinstance(self.result, Float16Type):
            return None
        if last in self.sums:
            return Ends(tuple(self.starts)) if not rest else None
        known = self.sums | {one for op in (*constants, *rest) for one in op.results}
        plain = all(not op.regions and set(op.operands) <= known for op in rest)
        if not plain or last not in known or not isinstance(last.type, _FLOATS):
            return None
        if any(not isinstance(one.type, _FLOATS) for one in self.sums):
            return None
        return Ends(tuple(self.starts), (*constants, *rest), frozenset(self.sums), last)

    def _is_start(self, op: Operation) -> bool:
        """Whether an op only rounds or widens the sum, or adds to it; it is taken then."""
        if isinstance(op, arith.TruncFOp | arith.ExtFOp):
            value, made = op.input, op.result
            if not isinstance(made.type, _FLOATS):
                return False
            if value in self.sums:
                self.rounded |= isinstance(op, arith.TruncFOp)
                self.sums.add(made)
                return True
            if value in self.extras and isinstance(op, arith.ExtFOp):
                self.extras[made] = self.extras[value]
                return True
            return False
        if not isinstance(op, arith.AddfOp):
            return False
        for total, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            extra = self.extras.get(other)
            if total in self.sums and extra is not None and self._can_start(extra):
                self.starts.append(extra)
                self.sums = {op.result}
                return True
        return False

    def _can_start(self, extra: Extra) -> bool:
        """Whether a part of an operand is a matrix, or a row of one."""
        assert isinstance(extra.buffer.type, MemRefType)
        if not isinstance(extra.buffer.type.element_type, _FLOATS):
            return False
        row, column = self.rank - 2, self.rank - 1
        if not extra.axes or extra.axes[-1] != ("dim", column):
            return False
        front = extra.axes[:-1]
        return ("dim", row) not in front or front[-1] == ("dim", row)


def is_row(extra: Extra, rank: int) -> bool:
    """Whether all rows of a result take the same of an operand."""
    return not extra.follows(rank - 2)


def place_of(
    extra: Extra, batch: Sequence[SSAValue], row: SSAValue, column: SSAValue
) -> list[SSAValue | int]:
    """Where the part of an operand begins that belongs to a part of the result."""
    at = [*batch, row, column]
    return [at[n] if kind == "dim" else n for kind, n in extra.axes]
