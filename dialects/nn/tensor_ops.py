"""Data movement and elementwise operations of `nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.attributes import dims_of
from openinfer.dialects.nn.base import NNOp
from openinfer.runtime.sizes import SizeLike

I64Array = DenseArrayBase.constr(i64)


@irdl_op_definition
class SizeOp(IRDLOperation):
    """The value of a size expression in this step: `%n = nn.size "B*L"`."""

    name = "nn.size"
    size = prop_def(SizeAttr)
    value = result_def(IndexType())
    traits = traits_def(Pure())

    def __init__(self, size: SizeLike) -> None:
        super().__init__(properties={"size": SizeAttr.of(size)}, result_types=[IndexType()])

    @classmethod
    def parse(cls, parser: Parser) -> SizeOp:
        return cls(parser.parse_str_literal())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(str(self.size.data))


@irdl_op_definition
class ThreadOp(IRDLOperation):
    """The number of the thread that runs this, from 0: `%t = nn.thread`."""

    name = "nn.thread"
    value = result_def(IndexType())
    assembly_format = "attr-dict"
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class MemberOp(IRDLOperation):
    """One member of a weight family: `%w = nn.member %W[%l] : tensor<6x4x4xf32> -> tensor<4x4xf32>`."""

    name = "nn.member"
    family = operand_def()
    indices = var_operand_def(IndexType())
    member = result_def()
    assembly_format = "$family `[` $indices `]` attr-dict `:` type($family) `->` type($member)"
    traits = traits_def(Pure())

    def __init__(
        self, family: SSAValue, indices: Sequence[SSAValue | Operation], member: Attribute
    ) -> None:
        super().__init__(operands=[family, indices], result_types=[member])

    def verify_(self) -> None:
        family, member = self.family.type, self.member.type
        if not isinstance(family, TensorType | MemRefType):
            raise VerifyException("nn.member: the family is a tensor or a memref")
        assert isinstance(member, TensorType | MemRefType)
        if family.get_shape()[len(self.indices) :] != member.get_shape():
            raise VerifyException("nn.member: the indices leave another shape than the member's")


@irdl_op_definition
class CheckIndexOp(IRDLOperation):
    """The index when it lies in `0..bound`, else 0, and the step fails with `node`."""

    name = "nn.check_index"
    index = operand_def(IndexType())
    bound = prop_def(IntegerAttr)
    node = prop_def(IntegerAttr)
    checked = result_def(IndexType())
    assembly_format = "$index `below` $bound `node` $node attr-dict"
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, index: SSAValue, bound: int, node: int) -> None:
        super().__init__(
            operands=[index],
            properties={"bound": int_setting(bound), "node": int_setting(node)},
            result_types=[IndexType()],
        )


@irdl_op_definition
class ElementwiseOp(NNOp):
    """One function of each element: `nn.elementwise(%a, %b) {kind = "add"}`.

    `kind` is a row of the elementwise table in `dialects/opset.py`; inputs broadcast NumPy-style.
    """

    name = "nn.elementwise"
    kind = prop_def(StringAttr)
    settings = opt_prop_def(DictionaryAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 3)

    def check(self) -> None:
        rank = len(dims_of_shape(self.output))
        for value in self.inputs:
            if len(dims_of_shape(value)) > rank:
                raise VerifyException(f"nn.elementwise {self.kind}: an input outranks the result")


def dims_of_shape(value: SSAValue) -> tuple[int, ...]:
    """The static shape, -1 for run-time sizes."""
    assert isinstance(value.type, TensorType | MemRefType), value.type
    return value.type.get_shape()


@irdl_op_definition
class FillOp(NNOp):
    """A tensor of one value: `nn.fill() {value = 0.0 : f32}`; also every `@init`."""

    name = "nn.fill"
    value = prop_def(Attribute)
    ARITY: ClassVar[tuple[int, int | None]] = (0, 0)


@irdl_op_definition
class IotaOp(NNOp):
    """0, 1, 2, … along `axis`."""

    name = "nn.iota"
    axis = prop_def(IntegerAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (0, 0)


@irdl_op_definition
class ReshapeOp(NNOp):
    """The same elements in another shape; a view."""

    name = "nn.reshape"

    def check(self) -> None:
        if self.on_buffers:
            return
        source, target = _count(self.inputs[0]), _count(self.output)
        if source != target:
            raise VerifyException(f"nn.reshape: {source} elements do not fill {target}")


def _count(value: SSAValue) -> object:
    from openinfer.runtime.sizes import Size

    total = Size.of(1)
    for size in dims_of(value):
        total = total * size
    return total


@irdl_op_definition
class TransposeOp(NNOp):
    """`result[i…] = input[…]` with result dimension `d` being input dimension `permutation[d]`."""

    name = "nn.transpose"
    permutation = prop_def(I64Array)

    def check(self) -> None:
        order = self.permutation.get_values()
        if sorted(order) != list(range(len(dims_of_shape(self.inputs[0])))):
            raise VerifyException("nn.transpose: not a permutation of the dimensions")


@irdl_op_definition
class BroadcastOp(NNOp):
    """The input stretched NumPy-style to the shape of the result."""

    name = "nn.broadcast"


@irdl_op_definition
class SliceOp(NNOp):
    """`result[i] = input[start + i*step]` in each dimension; starts are size expressions."""

    name = "nn.slice"
    starts = prop_def(ArrayAttr[SizeAttr])
    steps = prop_def(I64Array)

    def check(self) -> None:
        rank = len(dims_of_shape(self.inputs[0]))
        if len(self.starts) != rank or len(self.steps.get_values()) != rank:
            raise VerifyException("nn.slice: one start and one step for each dimension")


@irdl_op_definition
class ConcatOp(NNOp):
    """The inputs one after the other along `axis`."""

    name = "nn.concat"
    axis = prop_def(IntegerAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, None)


@irdl_op_definition
class GatherOp(NNOp):
    """`result[…, j…, …] = table[…, indices[j…], …]` along `axis`; every index is checked.

    An index outside the table makes the step fail with `node` (a row of the node table).
    """

    name = "nn.gather"
    axis = prop_def(IntegerAttr)
    node = opt_prop_def(IntegerAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (2, 2)
    # A check has to run although nobody reads the values.
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class PackOp(NNOp):
    """Matrix `[K, N]` (`[N, K]` when transposed) → panels `[ceil(N / tile), K, tile]`, zero-padded.

    What the matmul kernel reads in one stream; leading dimensions are kept.
    """

    name = "nn.pack"
    tile = prop_def(IntegerAttr)
    transposed = opt_prop_def(StringAttr)


@irdl_op_definition
class ObserveOp(IRDLOperation):
    """Shows a value of the program to the host after a node: `nn.observe %t {node = 3 : i64}`."""

    name = "nn.observe"
    value = operand_def()
    node = prop_def(IntegerAttr)
    output = prop_def(StringAttr)
    assembly_format = "$value $node $output attr-dict `:` type($value)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, value: SSAValue, node: int, output: str) -> None:
        super().__init__(
            operands=[value],
            properties={"node": IntegerAttr(node, i64), "output": StringAttr(output)},
        )


@irdl_op_definition
class ViewOp(IRDLOperation):
    """The same contiguous bytes with another shape: `nn.view %a [%B] : memref<…> to memref<…>`.

    Operands give the run-time sizes of the result, in order.
    """

    name = "nn.view"
    source = operand_def(MemRefType)
    sizes = var_operand_def(IndexType())
    view = result_def(MemRefType)
    assembly_format = "$source `[` $sizes `]` attr-dict `:` type($source) `to` type($view)"
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, sizes: Sequence[SSAValue], view: Attribute) -> None:
        super().__init__(operands=[source, sizes], result_types=[view])


@irdl_op_definition
class PublishOp(IRDLOperation):
    """The buffer that the host reads as a result after the step; it lives until the end."""

    name = "nn.publish"
    buffer = operand_def(MemRefType)
    output = prop_def(StringAttr)
    assembly_format = "$buffer $output attr-dict `:` type($buffer)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, buffer: SSAValue, output: str) -> None:
        super().__init__(operands=[buffer], properties={"output": StringAttr(output)})


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Nothing is moved, fused or reused across it."""

    name = "nn.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()


def int_setting(value: int) -> IntegerAttr:
    """A 64-bit integer setting."""
    return IntegerAttr(value, i64)


def ints_setting(values: Sequence[int]) -> DenseArrayBase:
    """An array of 64-bit integers."""
    return DenseArrayBase.from_list(i64, list(values))
