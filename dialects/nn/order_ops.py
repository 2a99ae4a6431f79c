"""Operations of `nn` that choose or order along an axis: scatter, sort, cumsum."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr, i64
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryWriteEffect

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    element,
    expect_axis,
    expect_element,
    expect_plain_integers,
    expect_shape,
    refuse,
    same,
    shape_of,
)

SCATTER_MODES = ("set", "add", "min", "max")


@irdl_op_definition
class ScatterOp(NNOp):
    """`result = x; result[…, indices[j…], …] = join(result[…], updates[…, j…, …])`, j in order.

    Inputs: x, indices, updates. `mode` says how an update joins what is there. Every index is
    checked: one outside makes the step fail with `node` (a row of the node table), and nothing is
    written for it. `errors` is the error record of the step, where there is one. Integers
    of min and max are signed, unless there is `unsigned`, and indices unless there is `unsigned_indices`.
    """

    name = "nn.scatter"
    axis = prop_def(IntegerAttr)
    mode = prop_def(StringAttr)
    node = opt_prop_def(IntegerAttr)
    unsigned = opt_prop_def(UnitAttr)
    unsigned_indices = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (3, 3)
    SCRATCH: ClassVar[tuple[str, ...]] = ("errors",)
    # A check has to run although nobody reads the values.
    traits = traits_def(MemoryWriteEffect())

    def check(self) -> None:
        x, indices, updates = (shape_of(value) for value in self.inputs)
        kind = element(self.inputs[0])
        if not isinstance(element(self.inputs[1]), IntegerType):
            refuse(self, f"the indices are {element(self.inputs[1])}, expected integers")
        expect_element(self, "updates", element(self.inputs[2]), kind)
        expect_element(self, "the result", element(self.output), kind)
        if self.mode.data not in SCATTER_MODES:
            refuse(
                self, f"unknown mode {self.mode.data!r}, expected one of {', '.join(SCATTER_MODES)}"
            )
        if self.unsigned is not None:
            expect_plain_integers(self, "unsigned", self.inputs[:1])
        if self.unsigned_indices is not None:
            expect_plain_integers(self, "unsigned_indices", self.inputs[1:2])
        axis = expect_axis(self, self.axis.value.data, len(x))
        if self.node is not None and self.node.value.data < 0:
            refuse(self, f"node {self.node.value.data} is no row of the node table")
        expect_shape(self, "updates", updates, (*x[:axis], *indices, *x[axis + 1 :]))
        expect_shape(self, "the result", shape_of(self.output), x)
        for record in self.scratch:
            if element(record) != i64 or not same(shape_of(record), (4,)):
                refuse(self, f"the error record is {record.type}, expected memref<4xi64>")


@irdl_op_definition
class SortOp(NNOp):
    """The first values along `axis` in ascending (`descending`) order, and their positions as i64.

    Both results have the shape of the input but for `axis`, where they may be shorter. Equal values
    keep their order, NaN is larger than all numbers. Scratch, but where few of many
    are chosen: `home` and `away`, i64 in the shape of the input. Integers are
    signed, unless there is `unsigned`.
    """

    name = "nn.sort"
    axis = prop_def(IntegerAttr)
    descending = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(UnitAttr)
    OUTPUTS: ClassVar[int] = 2
    SCRATCH: ClassVar[tuple[str, ...]] = ("home", "away")

    def check(self) -> None:
        source = shape_of(self.inputs[0])
        if self.unsigned is not None:
            expect_plain_integers(self, "unsigned", self.inputs)
        values, positions = self.outs or self.result
        expect_element(self, "the first result", element(values), element(self.inputs[0]))
        expect_element(self, "the second result", element(positions), i64)
        axis = expect_axis(self, self.axis.value.data, len(source))
        found = shape_of(values)
        count = found[axis] if len(found) > axis else None
        if isinstance(count, int) and isinstance(size := source[axis], int) and count > size:
            refuse(self, f"{count} values of axis {axis}, which has {size}")
        expected = (*source[:axis], count, *source[axis + 1 :])
        expect_shape(self, "the first result", found, expected)
        expect_shape(self, "the second result", shape_of(positions), expected)
        for value in self.scratch:
            expect_element(self, "the scratch buffer", element(value), i64)
            expect_shape(self, "the scratch buffer", shape_of(value), source)


@irdl_op_definition
class CumsumOp(NNOp):
    """The sum of the elements up to each position of `axis`, one after the other, or their `product`.

    `exclusive` leaves out the element at the position, `reverse` begins at the end of the axis. Sums
    are made in the element type, so that of narrow floats is to be widened before.
    """

    name = "nn.cumsum"
    axis = prop_def(IntegerAttr)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)
    product = opt_prop_def(UnitAttr)

    def check(self) -> None:
        source = shape_of(self.inputs[0])
        expect_axis(self, self.axis.value.data, len(source))
        expect_element(self, "the result", element(self.output), element(self.inputs[0]))
        expect_shape(self, "the result", shape_of(self.output), source)
