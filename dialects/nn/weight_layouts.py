"""A weight lies in memory as its row says, and whoever reads it says the same."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.memref import ViewOp
from xdsl.ir import Attribute, BlockArgument, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.slots import slots_of
from openinfer.dialects.nn.step_ops import MemberOp
from openinfer.runtime.slots import SlotKind


def check_weight_layouts(module: ModuleOp, rows: ArrayAttr[Attribute], first: int) -> None:
    """Raises VerifyException unless ops of `nn` read each weight of `@step` in the layout of its row.

    `first` is the number of the first weight argument where arguments are tensors; on buffers each
    argument says what it is.
    """
    functions = {op.sym_name.data: op for op in module.body.ops if isinstance(op, FuncOp)}
    step = functions.get("step")
    if step is None or not step.body.blocks:
        return
    for number, argument in _weights(step, first):
        row = rows.data[number] if number < len(rows) else None
        if isinstance(row, DictionaryAttr):
            _check_weight(functions, row, argument)


def _weights(step: FuncOp, first: int) -> Iterator[tuple[int, BlockArgument]]:
    """Each weight argument of the step, and the number of its row."""
    arguments = step.body.block.args
    if step.arg_attrs is None:
        yield from enumerate(arguments[first:])
        return
    for argument, slot in zip(arguments, slots_of(step)):
        if slot is not None and slot.kind == SlotKind.WEIGHT:
            yield slot.number, argument


def _check_weight(
    functions: dict[str, FuncOp], row: DictionaryAttr, argument: BlockArgument
) -> None:
    expected = row.data.get("layout")
    for use in _reads(functions, argument, set()):
        op = use.operation
        if isinstance(op, NNOp) and op.layout_at(use.index) != expected:
            found = op.layout_at(use.index)
            raise VerifyException(
                f"nn.interface: the weight {row.data.get('variable')} lies as {_said(expected)}, "
                f"{op.name} reads it as {_said(found)}"
            )


def _said(layout: Attribute | None) -> str:
    return "the package has it" if layout is None else str(layout)


def _reads(functions: dict[str, FuncOp], value: SSAValue, seen: set[SSAValue]) -> Iterator[Use]:
    """The uses of a weight: of its members, of views of it, and in the kernels that are called."""
    if value in seen:
        return
    seen.add(value)
    for use in value.uses:
        op = use.operation
        if isinstance(op, MemberOp | ViewOp):
            yield from _reads(functions, op.results[0], seen)
        elif isinstance(op, CallOp):
            callee = functions.get(op.callee.string_value())
            if callee is not None and callee.body.blocks:
                yield from _reads(functions, callee.body.block.args[use.index], seen)
        else:
            yield use
