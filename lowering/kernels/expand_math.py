"""The pass `expand-math`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    ModuleOp,
    VectorType,
    f32,
    f64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.math import CosOp, Exp2Op, SinOp
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsolatedFromAbove

from openinfer.dialects.extensions.arith import ExtFOp, TruncFOp
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.circular import CIRCULAR
from openinfer.lowering.kernels.expansions import EXPANSIONS, OF_HALF, Expansion
from openinfer.lowering.kernels.expansions_f64 import OF_F64
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.kernels.lanes import Constants, Lanes
from openinfer.lowering.kernels.numeric import resize_float, widen
from openinfer.lowering.kernels.remainders import remainder
from openinfer.lowering.kernels.turns import sine
from openinfer.lowering.operations import operations_of
from openinfer.lowering.places import is_device_kernel


@dataclass(frozen=True)
class ExpandMath(ModulePass):
    """
    Replace exp, exp2, expm1, erf, erfc, tanh, log, log2, log1p, sin, cos, tan, atan and atan2 of f32 by
    polynomials.

    Before:
        %y = math.exp %x : vector<16xf32>

    After:
        %0 = arith.cmpf olt, %c89, %x : vector<16xf32>
        %1 = arith.select %0, %c89, %x : vector<16xi1>, vector<16xf32>
        ...
        %y = arith.mulf %p, %power : vector<16xf32>

    Half-width floats are widened to f32 and the result is narrowed; f64 and other functions stay,
    for the C library; a device has polynomials for some functions of f64, too, and computes the remainder of
    floats (`arith.remf`) in whole numbers. With `strict_math` no
    function is approximated: all are computed in f64 by the C library and rounded, which is within 0.51
    units of the last place of f32.

    Requires: `math` ops on floats or 1-D vectors of them, inside functions. Leaves: no call where
    a vector of f32 goes through one of these functions; constants stand at the start of each
    function, once each.
    """

    name: ClassVar[str] = "expand-math"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strict = Facts.of(op).strict_math
        for function in op.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _expand_function(function, strict=strict)


def _expand_function(function: FuncOp, *, strict: bool) -> None:
    if is_device_kernel(function):
        for op in [op for op in operations_of(function) if op.name == REMAINDER]:
            _expand_remainder(op)
    if strict:
        for op in [op for op in operations_of(function) if op.name in ROUNDED]:
            _compute_in_f64(op)
        return
    for op in [op for op in operations_of(function) if op.name == TANGENT]:
        _divide_turns(op)
    found = [op for op in operations_of(function) if op.name in EXPANSIONS or op.name in CIRCULAR]
    homes: dict[Block, Constants] = {}
    device = is_device_kernel(function)
    for op in found:
        if device and _has_instruction(op):
            continue
        home = _home_of(op)
        constants = homes.setdefault(home, {})
        if device and op.name in TURNS:
            _expand_turns(op)
        elif device and op.name in OF_F64 and isinstance(op.results[0].type, Float64Type):
            _expand_f64(op, home, constants)
        elif device and op.name in OF_HALF and _becomes_half(op.results[0]):
            _expand(op, home, constants, OF_HALF[op.name])
        else:
            _expand(op, home, constants)


def _home_of(op: Operation) -> Block:
    """Where constants of an op stand: at the start of its function, or of what sees nothing around itself."""
    region = op.parent_region()
    while region is not None:
        around = region.parent_op()
        if around is None or around.has_trait(IsolatedFromAbove):
            return region.blocks[0]
        region = around.parent_region()
    raise AssertionError("an op stands in a function")


def _has_instruction(op: Operation) -> bool:
    """Whether a device has a function, and the kernel is content with its accuracy (`fastmath<afn>`)."""
    return isinstance(op, Exp2Op) and FastMathFlag.APPROX_FUNC in op.fastmath.data


def _becomes_half(value: SSAValue) -> bool:
    """Whether a value is f32, and only products of it are used, as f16."""
    if not isinstance(value.type, Float32Type) or not value.uses.get_length():
        return False
    return all(
        isinstance(user.results[0].type, Float16Type)
        if isinstance(user, arith.TruncFOp)
        else isinstance(user, arith.MulfOp) and _becomes_half(user.result)
        for user in (use.operation for use in value.uses)
    )


TURNS = {"math.sin": 0, "math.cos": 1}
"""The functions of an angle, by the quarter turns that they are ahead of the sine."""
REMAINDER = "arith.remf"
"""What no instruction of a device computes exactly."""
TANGENT = "math.tan"
"""The quotient of both."""


def _divide_turns(op: Operation) -> None:
    """A tangent of a float that is not f64 as the sine of an f32 over its cosine."""
    kind = op.results[0].type
    element = kind.element_type if isinstance(kind, VectorType) else kind
    if not isinstance(element, Float32Type | Float16Type | BFloat16Type):
        return
    with keep_location(op):
        b = LoopBuilder(InsertPoint.before(op))
        x = widen(b, op.operands[0])
        quotient = b.insert(arith.DivfOp(b.insert(SinOp(x)), b.insert(CosOp(x))))
        result = resize_float(b, quotient, element)
    result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [result])


def _expand_turns(op: Operation) -> None:
    """A function of an angle on a device, which has no C library, and need not have f64."""
    with keep_location(op):
        b = LoopBuilder(InsertPoint.before(op))
        kind = op.results[0].type
        result = resize_float(b, sine(b, widen(b, op.operands[0]), TURNS[op.name]), kind)
    result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [result])


def _expand_remainder(op: Operation) -> None:
    """A remainder of floats on a device; narrow ones in f32, where it is exact, too."""
    with keep_location(op):
        b = LoopBuilder(InsertPoint.before(op))
        x, y = (widen(b, operand) for operand in op.operands)
        result = resize_float(b, remainder(b, x, y), op.results[0].type)
    result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [result])


def _expand_f64(op: Operation, home: Block, constants: Constants) -> None:
    """A function of f64 on a device, which has no C library."""
    lanes = Lanes(op, op.results[0].type, home, constants)
    result = OF_F64[op.name](lanes, *op.operands)
    result.name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, [], [result])


def _expand(
    op: Operation, home: Block, constants: Constants, expansion: Expansion | None = None
) -> None:
    """`expansion`: of f32, another one than usual."""
    type = op.operands[0].type
    element = type.element_type if isinstance(type, VectorType) else type
    if op.name in CIRCULAR:
        # Of half-width floats the library's, which widens them itself.
        if not isinstance(element, Float32Type):
            return
        result = CIRCULAR[op.name](op, home, constants)
    elif isinstance(element, Float32Type):
        lanes = Lanes(op, type, home, constants)
        result = (expansion or EXPANSIONS[op.name])(lanes, *op.operands)
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


ROUNDED = frozenset(
    f"math.{name}"
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "powf", "cbrt", "rsqrt", "erf"),
        "erfc",
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
)
"""The functions whose results are no floats in general: what strict mathematics rounds once."""


def _compute_in_f64(op: Operation) -> None:
    """The op on operands in f64, its result rounded to f32 and from there to what it was."""
    type = op.results[0].type
    element = type.element_type if isinstance(type, VectorType) else type
    if not isinstance(element, Float32Type | Float16Type | BFloat16Type):
        return
    block = op.parent
    assert block is not None

    def like(kind: Attribute) -> Attribute:
        return VectorType(kind, type.shape) if isinstance(type, VectorType) else kind

    def insert(new: Operation) -> SSAValue:
        new.location = op.location
        block.insert_op_before(new, op)
        return new.results[0]

    def resized(value: SSAValue, kinds: Sequence[Attribute]) -> SSAValue:
        for kind in kinds:
            wider = op_bits(value.type) < op_bits(kind)
            value = insert((ExtFOp if wider else TruncFOp)(value, like(kind)))
        return value

    narrow = [] if isinstance(element, Float32Type) else [f32]
    operands = [resized(operand, [*narrow, f64]) for operand in op.operands]
    wide = op.create(operands=operands, result_types=[like(f64)], properties=op.properties)
    result = resized(insert(wide), [f32, *([element] if narrow else [])])
    result.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(result)
    block.erase_op(op)


def op_bits(type: Attribute) -> int:
    """The bits of a float, or of an element of a vector of them."""
    element = type.element_type if isinstance(type, VectorType) else type
    assert isinstance(element, AnyFloat)
    return element.bitwidth


def _expand_widened(op: Operation, wide: Attribute, lanes: Lanes) -> SSAValue:
    block = op.parent
    assert block is not None
    widened = [arith.ExtFOp(operand, wide) for operand in op.operands]
    block.insert_ops_before(widened, op)
    result = EXPANSIONS[op.name](lanes, *(value.result for value in widened))
    narrowed = arith.TruncFOp(result, op.operands[0].type)
    block.insert_op_before(narrowed, op)
    return narrowed.result
