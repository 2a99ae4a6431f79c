"""Operations of `nn` with an index for each element: gather_elements, scatter_elements."""

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
    text,
)

SCATTER_MODES = ("set", "add", "mul", "min", "max")


class ElementIndexOp(NNOp):
    """Common to both: indices in the shape of what is read or written, each along its own line of x.

    A line holds the elements of x that differ along `axis` only. The other extents of the indices are at
    most those of x. Every index is checked: one outside makes the step fail with `node` (a row of the
    node table). `errors` is the error record of the step, where there is one. Indices are signed, unless
    there is `unsigned_indices`.
    """

    axis = prop_def(IntegerAttr)
    node = opt_prop_def(IntegerAttr)
    unsigned_indices = opt_prop_def(UnitAttr)
    SCRATCH: ClassVar[tuple[str, ...]] = ("errors",)
    # A check has to run although nobody reads the values.
    traits = traits_def(MemoryWriteEffect())

    def check(self) -> None:
        x, indices = shape_of(self.inputs[0]), shape_of(self.inputs[1])
        expect_element(self, "the result", element(self.output), element(self.inputs[0]))
        if not isinstance(element(self.inputs[1]), IntegerType):
            refuse(self, f"the indices are {element(self.inputs[1])}, expected integers")
        if self.unsigned_indices is not None:
            expect_plain_integers(self, "unsigned_indices", self.inputs[1:2])
        axis = expect_axis(self, self.axis.value.data, len(x))
        if self.node is not None and self.node.value.data < 0:
            refuse(self, f"node {self.node.value.data} is no row of the node table")
        if len(indices) != len(x):
            refuse(self, f"the indices have shape {text(indices)}, expected the rank of {text(x)}")
        for place, (found, most) in enumerate(zip(indices, x)):
            if place == axis or not isinstance(found, int) or not isinstance(most, int):
                continue
            if found > most:
                refuse(self, f"the indices {text(indices)} have more lines than x {text(x)}")
        for record in self.scratch:
            if element(record) != i64 or not same(shape_of(record), (4,)):
                refuse(self, f"the error record is {record.type}, expected memref<4xi64>")


@irdl_op_definition
class GatherElementsOp(ElementIndexOp):
    """`result[i…, j, k…] = x[i…, indices[i…, j, k…], k…]`, j along `axis`. Inputs: x, indices."""

    name = "nn.gather_elements"
    ARITY: ClassVar[tuple[int, int | None]] = (2, 2)

    def check(self) -> None:
        super().check()
        expect_shape(self, "the result", shape_of(self.output), shape_of(self.inputs[1]))


@irdl_op_definition
class ScatterElementsOp(ElementIndexOp):
    """`result = x; result[i…, indices[i…, j, k…], k…] = join(that, updates[i…, j, k…])`, j in order.

    Inputs: x, indices, updates in the shape of the indices. `mode` says how an update joins what is
    there; for an index outside nothing is written. Integers of min and max are signed, unless there is
    `unsigned`.
    """

    name = "nn.scatter_elements"
    mode = prop_def(StringAttr)
    unsigned = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (3, 3)

    def check(self) -> None:
        super().check()
        expect_element(self, "updates", element(self.inputs[2]), element(self.inputs[0]))
        if self.mode.data not in SCATTER_MODES:
            refuse(
                self, f"unknown mode {self.mode.data!r}, expected one of {', '.join(SCATTER_MODES)}"
            )
        if self.unsigned is not None:
            expect_plain_integers(self, "unsigned", self.inputs[:1])
        expect_shape(self, "updates", shape_of(self.inputs[2]), shape_of(self.inputs[1]))
        expect_shape(self, "the result", shape_of(self.output), shape_of(self.inputs[0]))
