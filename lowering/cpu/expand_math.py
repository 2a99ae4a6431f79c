"""The pass `expand-math`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, ModuleOp, VectorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.expansions import EXPANSIONS
from openinfer.lowering.cpu.lanes import Lanes


@dataclass(frozen=True)
class ExpandMath(ModulePass):
    """
    Replace exp, exp2, expm1, erf, tanh, log, log2 and log1p of f32 by polynomials in `arith`.

    Before:
        %y = math.exp %x : vector<16xf32>

    After:
        %0 = arith.cmpf olt, %c89, %x : vector<16xf32>
        %1 = arith.select %0, %c89, %x : vector<16xi1>, vector<16xf32>
        ...
        %y = arith.mulf %p, %power : vector<16xf32>

    Half-width floats are widened to f32 and the result is narrowed; f64 and other functions stay,
    for the C library.

    Requires: `math` ops on floats or 1-D vectors of them, inside functions. Leaves: no call where
    a vector of f32 goes through one of these functions; constants stand at the start of each
    function, once each.
    """

    name: ClassVar[str] = "expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _expand_function(function)


def _expand_function(function: FuncOp) -> None:
    found = [op for op in function.walk() if op.name in EXPANSIONS]
    constants: dict[tuple[Attribute, str], SSAValue] = {}
    home = function.body.blocks[0]
    for op in found:
        _expand(op, home, constants)


def _expand(op: Operation, home: Block, constants: dict[tuple[Attribute, str], SSAValue]) -> None:
    type = op.operands[0].type
    element = type.element_type if isinstance(type, VectorType) else type
    if isinstance(element, Float32Type):
        lanes = Lanes(op, type, home, constants)
        result = EXPANSIONS[op.name](lanes, op.operands[0])
    elif isinstance(element, Float16Type | BFloat16Type):
        wide = VectorType(f32, type.shape) if isinstance(type, VectorType) else f32
        result = _expand_widened(op, wide, Lanes(op, wide, home, constants))
    else:
        return
    block = op.parent
    assert block is not None
    result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    block.erase_op(op)


def _expand_widened(op: Operation, wide: Attribute, lanes: Lanes) -> SSAValue:
    block = op.parent
    assert block is not None
    widened = arith.ExtFOp(op.operands[0], wide)
    block.insert_op_before(widened, op)
    result = EXPANSIONS[op.name](lanes, widened.result)
    narrowed = arith.TruncFOp(result, op.operands[0].type)
    block.insert_op_before(narrowed, op)
    return narrowed.result
