"""Operations of `nn` on what survives a step, and on sizes that only the step knows.

A state is an array with growing axes in front: the indices of a table, then the dimensions of an
auto-dim matrix. Its memory is dense up to a capacity of each growing axis; an extent says how far an
axis is in use. Everything outside the extents holds the initial content.

Where dimensions name scalars, facts count on from the axes: whether a step has touched the state, then
the value of each such dimension. They are read and set like extents, but there is no memory for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.checks import element, expect_element, refuse, shape_of
from openinfer.dialects.nn.tensor_ops import int_setting

I64Array = DenseArrayBase.constr(i64)


def _ints(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, list(values))


@op_definition
class DefineSizeOp(IRDLOperation):
    """Gives a dynamic size its value, from here on: `nn.define_size "step.0" = %n node 3`."""

    name = "nn.define_size"
    size = prop_def(StringAttr)
    value = operand_def(IndexType())
    node = prop_def(IntegerAttr)
    assembly_format = "$size `=` $value `node` $node attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, size: str, value: SSAValue, node: int) -> None:
        super().__init__(
            operands=[value], properties={"size": StringAttr(size), "node": int_setting(node)}
        )


@op_definition
class RequireOp(IRDLOperation):
    """The step fails with `node` and two numbers when the condition does not hold.

    `kind` is a row of `runtime/devices/failures.py`, which makes the message. `axis` is the state and
    the axis of it that the message names, where the numbers do not say it.
    """

    name = "nn.require"
    condition = operand_def(i1)
    first = operand_def(IndexType())
    second = operand_def(IndexType())
    kind = prop_def(StringAttr)
    node = prop_def(IntegerAttr)
    axis = opt_prop_def(IntegerAttr)
    assembly_format = (
        "$condition `else` $kind $first `,` $second `node` $node (`axis` $axis^)? attr-dict"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        condition: SSAValue,
        kind: str,
        first: SSAValue,
        second: SSAValue,
        node: int,
        axis: int | None = None,
    ) -> None:
        properties: dict[str, Attribute | None] = {
            "kind": StringAttr(kind),
            "node": int_setting(node),
            "axis": None if axis is None else int_setting(axis),
        }
        super().__init__(operands=[condition, first, second], properties=properties)


@op_definition
class ExtentOp(IRDLOperation):
    """How far an axis of a state is in use: `%e = nn.extent "K"[] axis 1`.

    The dimensions of a matrix have an extent for each entry of its table; the operands name it. A
    number behind the axes is a fact.
    """

    name = "nn.extent"
    state = prop_def(StringAttr)
    entry = var_operand_def(IndexType())
    axis = prop_def(IntegerAttr)
    extent = result_def(IndexType())
    assembly_format = "$state `[` $entry `]` `axis` $axis attr-dict"
    traits = traits_def(MemoryReadEffect())

    def __init__(self, state: str, entry: Sequence[SSAValue], axis: int) -> None:
        super().__init__(
            operands=[list(entry)],
            properties={"state": StringAttr(state), "axis": int_setting(axis)},
            result_types=[IndexType()],
        )


@op_definition
class GrowOp(IRDLOperation):
    """An axis is in use up to `need` at least: `%n = nn.grow "K"[] axis 1 to %need node 3`.

    The result is `need`, cut to what there is memory for: the step fails otherwise, and is run
    again with more memory, or reports that a fixed bound was exceeded.
    """

    name = "nn.grow"
    state = prop_def(StringAttr)
    entry = var_operand_def(IndexType())
    axis = prop_def(IntegerAttr)
    need = operand_def(IndexType())
    node = prop_def(IntegerAttr)
    safe = result_def(IndexType())
    assembly_format = "$state `[` $entry `]` `axis` $axis `to` $need `node` $node attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, state: str, entry: Sequence[SSAValue], axis: int, need: SSAValue, node: int
    ) -> None:
        super().__init__(
            operands=[list(entry), need],
            properties={
                "state": StringAttr(state),
                "axis": int_setting(axis),
                "node": int_setting(node),
            },
            result_types=[IndexType()],
        )


@op_definition
class SetExtentOp(IRDLOperation):
    """An axis is in use up to just `to` from here on: `nn.set_extent "P" axis 1 to %n node 3`.

    A number behind the axes is a fact that has this value from here on.
    """

    name = "nn.set_extent"
    state = prop_def(StringAttr)
    axis = prop_def(IntegerAttr)
    to = operand_def(IndexType())
    node = prop_def(IntegerAttr)
    assembly_format = "$state `axis` $axis `to` $to `node` $node attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, state: str, axis: int, to: SSAValue, node: int) -> None:
        super().__init__(
            operands=[to],
            properties={
                "state": StringAttr(state),
                "axis": int_setting(axis),
                "node": int_setting(node),
            },
        )


def _check_places(op: Operation, offsets: Sequence[SSAValue], kept: Sequence[int]) -> None:
    if list(kept) != sorted(set(kept)) or any(not 0 <= k < len(offsets) for k in kept):
        refuse(op, f"kept axes {list(kept)} of {len(offsets)}")


@op_definition
class StateReadOp(IRDLOperation):
    """A part of a state: `%k = nn.state_read "K"[%l, %a] kept [1] : tensor<?x8xf32, …>`.

    There is an offset for each growing axis. A kept axis gives a dimension of the result, from its
    offset on; the others are at their offset only. The dimensions of an entry follow.
    """

    name = "nn.state_read"
    state = prop_def(StringAttr)
    offsets = var_operand_def(IndexType())
    kept = prop_def(I64Array)
    value = result_def()
    assembly_format = "$state `[` $offsets `]` `kept` $kept attr-dict `:` type($value)"
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self, state: str, offsets: Sequence[SSAValue], kept: Sequence[int], value: Attribute
    ) -> None:
        super().__init__(
            operands=[list(offsets)],
            properties={"state": StringAttr(state), "kept": _ints(kept)},
            result_types=[value],
        )

    def verify_(self) -> None:
        kept = self.kept.get_values()
        _check_places(self, self.offsets, kept)
        if len(shape_of(self.value)) < len(kept):
            refuse(self, f"{len(kept)} kept axes in a result of type {self.value.type}")


@op_definition
class StateWriteOp(IRDLOperation):
    """Stores a part of a state: `nn.state_write "K"[%l, %t] kept [] node 3 = %k : tensor<8xf32>`."""

    name = "nn.state_write"
    value = operand_def()
    state = prop_def(StringAttr)
    offsets = var_operand_def(IndexType())
    kept = prop_def(I64Array)
    node = prop_def(IntegerAttr)
    assembly_format = (
        "$state `[` $offsets `]` `kept` $kept `node` $node `=` $value attr-dict `:` type($value)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        state: str,
        offsets: Sequence[SSAValue],
        kept: Sequence[int],
        node: int,
    ) -> None:
        super().__init__(
            operands=[value, list(offsets)],
            properties={
                "state": StringAttr(state),
                "kept": _ints(kept),
                "node": int_setting(node),
            },
        )

    def verify_(self) -> None:
        _check_places(self, self.offsets, self.kept.get_values())


@op_definition
class StateResetOp(IRDLOperation):
    """Entries are as at the start again: `nn.state_reset "K"[%l]`, all that start with the indices."""

    name = "nn.state_reset"
    state = prop_def(StringAttr)
    prefix = var_operand_def(IndexType())
    node = prop_def(IntegerAttr)
    assembly_format = "$state `[` $prefix `]` `node` $node attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, state: str, prefix: Sequence[SSAValue], node: int) -> None:
        super().__init__(
            operands=[list(prefix)],
            properties={"state": StringAttr(state), "node": int_setting(node)},
        )


@op_definition
class CommitOp(IRDLOperation):
    """What a persistent variable holds when the step ends well: `nn.commit %v "h" : tensor<4xf32>`.

    All commits of a step happen together, after everything else.
    """

    name = "nn.commit"
    value = operand_def()
    state = prop_def(StringAttr)
    assembly_format = "$value $state attr-dict `:` type($value)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, value: SSAValue, state: str) -> None:
        super().__init__(operands=[value], properties={"state": StringAttr(state)})


class _SameValueOp(IRDLOperation):
    """A value with other words for its sizes."""

    source = operand_def()
    result = result_def()
    assembly_format = "$source attr-dict `:` type($source) `to` type($result)"
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        expect_element(self, "the result", element(self.result), element(self.source))
        if len(shape_of(self.source)) != len(shape_of(self.result)):
            refuse(self, f"{self.source.type} is no {self.result.type}")


@op_definition
class CastDimsOp(_SameValueOp):
    """The same value, its sizes said in other words: `nn.cast_dims %v : tensor<…> to tensor<…>`.

    That they are equal was checked before it.
    """

    name = "nn.cast_dims"


@op_definition
class LoosenOp(_SameValueOp):
    """A value as a body hands it on: `nn.loosen %v : tensor<…> to tensor<…>`.

    The result names sizes that have no value of their own, only a bound: where it is handed to says
    with `nn.settle` what they are there. Only what ends a body, or starts a loop, uses it.
    """

    name = "nn.loosen"


@op_definition
class SettleOp(_SameValueOp):
    """A value that was handed on, with its sizes: `nn.settle %v : tensor<…> to tensor<…>`."""

    name = "nn.settle"


@op_definition
class StateViewOp(IRDLOperation):
    """The memory of entries that lie together: `%k = nn.state_view "K"[%l, %a] [%n] : memref<?x8xf32>`.

    The second list gives the run-time sizes of the result.
    """

    name = "nn.state_view"
    state = prop_def(StringAttr)
    offsets = var_operand_def(IndexType())
    sizes = var_operand_def(IndexType())
    view = result_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = "$state `[` $offsets `]` `[` $sizes `]` attr-dict `:` type($view)"
    traits = traits_def(Pure())

    def __init__(
        self, state: str, offsets: Sequence[SSAValue], sizes: Sequence[SSAValue], view: Attribute
    ) -> None:
        super().__init__(
            operands=[list(offsets), list(sizes)],
            properties={"state": StringAttr(state)},
            result_types=[view],
        )


@op_definition
class StatePlaceOp(IRDLOperation):
    """The memory of entries that the step is about to write, all of them:
    `%k = nn.state_place "K"[%l, %a] [] node 3 : memref<8xf32>`.

    What was there goes to the undo log first. The second list gives the run-time sizes of the result.
    """

    name = "nn.state_place"
    state = prop_def(StringAttr)
    offsets = var_operand_def(IndexType())
    sizes = var_operand_def(IndexType())
    node = prop_def(IntegerAttr)
    view = result_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$state `[` $offsets `]` `[` $sizes `]` `node` $node attr-dict `:` type($view)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        state: str,
        offsets: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
        node: int,
        view: Attribute,
    ) -> None:
        super().__init__(
            operands=[list(offsets), list(sizes)],
            properties={"state": StringAttr(state), "node": int_setting(node)},
            result_types=[view],
        )


@op_definition
class StateLoadOp(IRDLOperation):
    """Copies a part of a state into a buffer: `nn.state_load "K"[%l, %a] kept [0] to %b : memref<…>`."""

    name = "nn.state_load"
    state = prop_def(StringAttr)
    offsets = var_operand_def(IndexType())
    kept = prop_def(I64Array)
    target = operand_def(MemRefType)
    assembly_format = (
        "$state `[` $offsets `]` `kept` $kept `to` $target attr-dict `:` type($target)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, state: str, offsets: Sequence[SSAValue], kept: Sequence[int], target: SSAValue
    ) -> None:
        super().__init__(
            operands=[list(offsets), target],
            properties={"state": StringAttr(state), "kept": _ints(kept)},
        )


@op_definition
class LeaveIfOp(IRDLOperation):
    """The step ends here when the condition holds: `nn.leave_if %failed`."""

    name = "nn.leave_if"
    condition = operand_def(i1)
    assembly_format = "$condition attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition])


OPS = (
    StateViewOp,
    StatePlaceOp,
    StateLoadOp,
    LeaveIfOp,
    DefineSizeOp,
    RequireOp,
    ExtentOp,
    GrowOp,
    SetExtentOp,
    StateReadOp,
    StateWriteOp,
    StateResetOp,
    CommitOp,
    CastDimsOp,
    LoosenOp,
    SettleOp,
)
"""What the dialect registers."""
