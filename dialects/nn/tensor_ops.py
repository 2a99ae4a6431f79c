"""Operations of `nn` that move elements: shapes, order, cutting, joining, choosing, packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    f32,
    i8,
    i64,
)
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryWriteEffect

from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.block_types import BlockType
from openinfer.dialects.nn.checks import (
    Dim,
    Dims,
    element,
    expect_axis,
    expect_element,
    expect_floats,
    expect_plain_integers,
    expect_shape,
    fits,
    plus,
    refuse,
    same,
    shape_of,
    stretches,
    text,
    times,
)
from openinfer.dialects.nn.layouts import BlocksAttr, LayoutAttr, PairsAttr, QuadsAttr
from openinfer.runtime.sizes import Size

I64Array = DenseArrayBase.constr(i64)


def _moves(op: NNOp) -> tuple[Dims, Dims]:
    """Shapes of the first input and the result, whose elements must be of one type."""
    source, output = op.inputs[0], op.output
    expect_element(op, "the result", element(output), element(source))
    return shape_of(source), shape_of(output)


@irdl_op_definition
class ReshapeOp(NNOp):
    """The same elements in another shape; a view."""

    name = "nn.reshape"
    checked = opt_prop_def(UnitAttr)
    """That the elements fill the result was checked by the step."""

    def check(self) -> None:
        source, target = _moves(self)
        if self.checked is not None:
            return
        if source != target and not fits(times(source), times(target)):
            refuse(self, f"{times(source)} elements do not fill {times(target)}")


@irdl_op_definition
class TransposeOp(NNOp):
    """`result[i…] = input[…]` with result dimension `d` being input dimension `permutation[d]`."""

    name = "nn.transpose"
    permutation = prop_def(I64Array)

    def check(self) -> None:
        source, target = _moves(self)
        order = self.permutation.get_values()
        if sorted(order) != list(range(len(source))):
            refuse(
                self,
                f"not a permutation of the dimensions: {list(order)} for an input {text(source)}",
            )
        expect_shape(self, "the result", target, tuple(source[d] for d in order))


@irdl_op_definition
class BroadcastOp(NNOp):
    """The input stretched NumPy-style to the shape of the result."""

    name = "nn.broadcast"

    def check(self) -> None:
        source, target = _moves(self)
        if not stretches(source, target):
            refuse(
                self,
                f"the input has shape {text(source)}, "
                f"expected one that broadcasts to the result's {text(target)}",
            )


@irdl_op_definition
class SliceOp(NNOp):
    """`result[i] = input[start + i*step]` in each dimension; starts are size expressions."""

    name = "nn.slice"
    starts = prop_def(ArrayAttr[SizeAttr])
    steps = prop_def(I64Array)

    def check(self) -> None:
        source, target = _moves(self)
        starts, steps = [s.data for s in self.starts], self.steps.get_values()
        rank = len(source)
        if len(starts) != rank or len(steps) != rank:
            refuse(
                self,
                f"one start and one step for each dimension: expected {rank}, "
                f"found {len(starts)} and {len(steps)}",
            )
        if len(target) != rank:
            refuse(self, f"the result has {len(target)} dimensions, expected {rank}")
        for axis, cut in enumerate(zip(starts, steps, target, source)):
            self._check_axis(axis, *cut)

    def _check_axis(self, axis: int, start: Size, step: int, count: Dim, extent: Dim) -> None:
        """What is provable: the first and the last element lie inside; steps may go backwards."""
        if step == 0:
            refuse(self, f"the step of axis {axis} is 0")
        if count is None or extent is None:
            return
        # An axis that is or may be empty may start at the very end.
        filled = isinstance(count, int) and count > 0
        ends = [(start, Size.of(extent) - int(filled))]
        if count != 0:
            ends.append((start + (count - 1) * step, Size.of(extent) - 1))
        for end, most in ends:
            room = (most - end).constant
            if (end.constant or 0) < 0 or (room is not None and room < 0):
                refuse(
                    self,
                    f"{count} elements from {start} by {step} do not lie within axis {axis} of "
                    f"size {extent}",
                )


@irdl_op_definition
class ConcatOp(NNOp):
    """The inputs one after the other along `axis` (-1: the last)."""

    name = "nn.concat"
    axis = prop_def(IntegerAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, None)

    def check(self) -> None:
        target, kind = shape_of(self.output), element(self.output)
        axis = expect_axis(self, self.axis.value.data, len(target), from_end=True)
        parts: list[Dim] = []
        for number, value in enumerate(self.inputs):
            expect_element(self, f"input {number}", element(value), kind)
            dims = shape_of(value)
            part = dims[axis] if len(dims) > axis else None
            if not same(dims, (*target[:axis], part, *target[axis + 1 :])):
                refuse(
                    self,
                    f"input {number} has shape {text(dims)}, expected the result's {text(target)} "
                    f"but for axis {axis}",
                )
            parts.append(part)
        total = plus(parts)
        if not fits(total, target[axis]):
            refuse(self, f"axis {axis} of the result is {target[axis]}, expected {total}")


@irdl_op_definition
class GatherOp(NNOp):
    """`result[…, j…, …] = table[…, indices[j…], …]` along `axis`; every index is checked.

    An index outside the table makes the step fail with `node` (a row of the node table). `errors` is the
    error record of the step, where there is one. Indices are signed,
    unless there is `unsigned_indices`.

    Rows of a table in blocks are unpacked to f32. Such a table is `[N, K]` of `!nn.block`, or in memory
    `[N, bytes]` with the name of its format in `block`; `axis` is 0.
    """

    name = "nn.gather"
    axis = prop_def(IntegerAttr)
    block = opt_prop_def(StringAttr)
    node = opt_prop_def(IntegerAttr)
    unsigned_indices = opt_prop_def(UnitAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (2, 2)
    SCRATCH: ClassVar[tuple[str, ...]] = ("errors",)
    # A check has to run although nobody reads the values.
    traits = traits_def(MemoryWriteEffect())

    def check(self) -> None:
        table, target = self._table()
        indices = shape_of(self.inputs[1])
        if not isinstance(element(self.inputs[1]), IntegerType):
            refuse(self, f"the indices are {element(self.inputs[1])}, expected integers")
        if self.unsigned_indices is not None:
            expect_plain_integers(self, "unsigned_indices", self.inputs[1:])
        axis = self.axis.value.data
        expect_axis(self, axis, len(table))
        if self.node is not None and self.node.value.data < 0:
            refuse(self, f"node {self.node.value.data} is no row of the node table")
        expect_shape(self, "the result", target, (*table[:axis], *indices, *table[axis + 1 :]))
        for record in self.scratch:
            if element(record) != i64 or not same(shape_of(record), (4,)):
                refuse(self, f"the error record is {record.type}, expected memref<4xi64>")

    def _table(self) -> tuple[Dims, Dims]:
        """The shapes of the table, in elements, and of the result."""
        kind = element(self.inputs[0])
        in_blocks = isinstance(kind, BlockType)
        if not in_blocks and self.block is None:
            return _moves(self)
        table = shape_of(self.inputs[0])
        if len(table) != 2 or self.axis.value.data != 0:
            refuse(self, f"a table in blocks is [N, K] and has axis 0, found {text(table)}")
        if in_blocks is (self.block is not None):
            refuse(self, f"a table of {kind} does not name its blocks a second time")
        expect_element(self, "the result", element(self.output), f32)
        if self.block is not None:
            expect_element(self, "a table of bytes", kind, i8)
            row = table[1]
            block = BlockType.of(self.block.data).format
            if not isinstance(row, int) or row % block.nbytes:
                refuse(self, f"rows of {row} bytes are no whole blocks of {block.nbytes}")
            table = (table[0], row // block.nbytes * block.elements)
        return table, shape_of(self.output)


@irdl_op_definition
class CheckIndicesOp(NNOp):
    """Makes the step fail with `node` where an index is not in `0..bound`; `outs` is its error record.

    It stands on buffers only, in front of a gather or scatter that the device computes and that has no
    record. The host runs it, or the device, with a record of its own. Indices are signed, unless there is
    `unsigned_indices`.
    """

    name = "nn.check_indices"
    bound = prop_def(SizeAttr)
    node = opt_prop_def(IntegerAttr)
    unsigned_indices = opt_prop_def(UnitAttr)

    def check(self) -> None:
        if not self.on_buffers:
            refuse(self, "it stands on buffers only")
        if not isinstance(element(self.inputs[0]), IntegerType):
            refuse(self, f"the indices are {element(self.inputs[0])}, expected integers")
        if self.unsigned_indices is not None:
            expect_plain_integers(self, "unsigned_indices", self.inputs)
        if self.node is not None and self.node.value.data < 0:
            refuse(self, f"node {self.node.value.data} is no row of the node table")
        expect_element(self, "the error record", element(self.output), i64)
        expect_shape(self, "the error record", shape_of(self.output), (4,))


@irdl_op_definition
class PackOp(NNOp):
    """Matrix `[K, N]` (`[N, K]` when transposed) in a layout; leading dimensions are kept.

    In `#nn.pairs` the elements are rounded to bf16. What becomes `#nn.blocks` is rows of bytes, `[N, bytes]`,
    and transposed.
    """

    name = "nn.pack"
    layout = prop_def(LayoutAttr)
    transposed = opt_prop_def(StringAttr)

    def check(self) -> None:
        source, target = shape_of(self.inputs[0]), shape_of(self.output)
        if isinstance(self.layout, PairsAttr):
            expect_floats(self, self.inputs)
        if isinstance(self.layout, QuadsAttr):
            expect_element(self, "the input", element(self.inputs[0]), i8)
        expected = self.layout.element(element(self.inputs[0]))
        expect_element(self, "the result", element(self.output), expected)
        if len(source) < 2:
            refuse(self, f"the input has shape {text(source)}, expected two dimensions or more")
        depth, columns = source[-2:] if self.transposed is None else source[:-3:-1]
        if isinstance(self.layout, BlocksAttr):
            block = self.layout.format
            expect_element(self, "the input", element(self.inputs[0]), i8)
            if self.transposed is None or not isinstance(depth, int) or depth % block.nbytes:
                refuse(self, f"{text(source)} are no rows of blocks of {block.nbytes} bytes")
            depth = depth // block.nbytes * block.elements
        expect_shape(self, "the result", target, self.layout.shape((*source[:-2], depth, columns)))


def int_setting(value: int) -> IntegerAttr:
    """A 64-bit integer setting."""
    return IntegerAttr(value, i64)


def ints_setting(values: Sequence[int]) -> DenseArrayBase:
    """An array of 64-bit integers."""
    return DenseArrayBase.from_list(i64, list(values))
