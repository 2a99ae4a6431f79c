"""Codegen units: kernels that one process compiles, and what stands in their place in another one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from openinfer.dialects import nn
from openinfer.lowering.kernels.builder import PARALLEL
from openinfer.lowering.operations import operations_of

UNIT = "openinfer.unit"
"""Of a function: the number of its codegen unit. One without it is in unit 0, with the step."""
UNITS = 4
"""So many there are, whatever a machine has: code does not depend on who makes which of them."""
ELSEWHERE = "openinfer.elsewhere"
"""Of a declaration: the function has a body, in another process. It is one of the program's own, not one of
those that come from outside."""
_SIZES = "openinfer.sizes"


def unit_of(function: Operation) -> int:
    """The number of a function's codegen unit."""
    number = function.attributes.get(UNIT)
    return number.value.data if isinstance(number, IntegerAttr) else 0


def put_in_unit(function: Operation, number: int) -> None:
    """Says the number, where it is not that of the step."""
    if number:
        function.attributes[UNIT] = IntegerAttr(number, i64)


@dataclass(frozen=True)
class KernelFacts:
    """What callers of a kernel must know of its loops."""

    sizes: tuple[str, ...]
    """Those that it must be given, in their order."""
    parallel: bool
    """Whether threads may share one of its loops."""

    @staticmethod
    def of(kernel: FuncOp) -> KernelFacts:
        """Those of a kernel that is loops, with its sizes still inside; of a declaration what it was told."""
        ops = operations_of(kernel)
        names = {name for op in ops if type(op) is nn.SizeOp for name in op.size.data.names}
        told = kernel.attributes.get(_SIZES)
        if isinstance(told, ArrayAttr):
            names.update(name.data for name in told if isinstance(name, StringAttr))
        return KernelFacts(tuple(sorted(names)), any(PARALLEL in op.attributes for op in ops))


def facts_of(module: ModuleOp, units: Collection[int]) -> dict[str, KernelFacts]:
    """Those of all kernels of some units, by name."""
    return {
        function.sym_name.data: KernelFacts.of(function)
        for function in module.ops
        if isinstance(function, FuncOp) and unit_of(function) in units
    }


def tell(module: ModuleOp, facts: Mapping[str, KernelFacts]) -> None:
    """Takes down what another process has found of its kernels, on their declarations."""
    for function in module.ops:
        if isinstance(function, FuncOp) and (found := facts.get(function.sym_name.data)):
            function.attributes[_SIZES] = ArrayAttr([StringAttr(name) for name in found.sizes])
            if found.parallel:
                function.attributes[PARALLEL] = UnitAttr()


def is_elsewhere(function: Operation) -> bool:
    """Whether another process has the body of a function."""
    return ELSEWHERE in function.attributes


def leave_out(module: ModuleOp, units: Collection[int], but: str = "") -> None:
    """Takes the bodies of some units' functions out of a module, `but` one; declarations stay in their
    places."""
    for function in list(module.ops):
        if isinstance(function, FuncOp) and function.body.blocks and unit_of(function) in units:
            if function.sym_name.data == but:
                continue
            type = function.function_type
            declared = FuncOp.external(function.sym_name.data, [*type.inputs], [*type.outputs])
            declared.attributes.update(function.attributes)
            declared.attributes[ELSEWHERE] = UnitAttr()
            module.body.block.insert_op_before(declared, function)
            function.detach()


def retype(
    declared: FuncOp, more: Sequence[Attribute], outputs: Sequence[Attribute] | None = None
) -> None:
    """Gives a declaration more arguments, and other results."""
    type = declared.function_type
    new = type.outputs if outputs is None else outputs
    declared.properties["function_type"] = FunctionType.from_lists([*type.inputs, *more], [*new])
