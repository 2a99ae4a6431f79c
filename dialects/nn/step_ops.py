"""Operations of `nn` that are no tensor functions: sizes, members, checks, views, the host."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
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
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.checks import (
    element,
    expect_element,
    expect_shape,
    fits,
    refuse,
    shape_of,
    times,
)
from openinfer.dialects.nn.elements import is_packed
from openinfer.dialects.nn.tensor_ops import int_setting
from openinfer.runtime.sizes import SizeLike


@op_definition
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


@op_definition
class FromIndexOp(IRDLOperation):
    """An index as a tensor of one element: `%t = nn.from_index %i : tensor<i64>`."""

    name = "nn.from_index"
    index = operand_def(IndexType())
    value = result_def(TensorType)
    assembly_format = "$index attr-dict `:` type($value)"
    traits = traits_def(Pure())

    def __init__(self, index: SSAValue) -> None:
        super().__init__(operands=[index], result_types=[TensorType(i64, [])])

    def verify_(self) -> None:
        expect_element(self, "the result", element(self.value), i64)
        expect_shape(self, "the result", shape_of(self.value), ())


@op_definition
class ThreadOp(IRDLOperation):
    """The number of the thread that runs this, from 0: `%t = nn.thread`."""

    name = "nn.thread"
    value = result_def(IndexType())
    assembly_format = "attr-dict"
    traits = traits_def(Pure())

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@op_definition
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
        family, member = shape_of(self.family), shape_of(self.member)
        count = len(self.indices)
        if not 1 <= count <= len(family):
            refuse(self, f"{count} indices for a family {self.family.type}")
        expect_shape(self, "the member", member, family[count:])
        expect_element(self, "the member", element(self.member), element(self.family))


@op_definition
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

    def verify_(self) -> None:
        for what, number in (("bound", self.bound.value.data), ("node", self.node.value.data)):
            if number < 0:
                refuse(self, f"{what} {number} is negative")


@op_definition
class TakeErrorsOp(IRDLOperation):
    """What kernels of the device have noted is what the step fails with, if they have noted something.

    nn.take_errors %device_errors, %errors : memref<4xi64>, memref<4xi64>
    """

    name = "nn.take_errors"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    assembly_format = "$source `,` $target attr-dict `:` type($source) `,` type($target)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, source: SSAValue, target: SSAValue) -> None:
        super().__init__(operands=[source, target])

    def verify_(self) -> None:
        for what, record in (("source", self.source), ("target", self.target)):
            expect_element(self, f"the {what}", element(record), i64)
            expect_shape(self, f"the {what}", shape_of(record), (4,))


@op_definition
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


@op_definition
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

    def verify_(self) -> None:
        source, view = shape_of(self.source), shape_of(self.view)
        expect_element(self, "the view", element(self.view), element(self.source))
        unknown = sum(dim is None for dim in view)
        if len(self.sizes) != unknown:
            refuse(self, f"{len(self.sizes)} sizes for the view's {unknown} run-time dimensions")
        if not fits(times(source), times(view)):
            refuse(self, f"{times(source)} elements seen as {times(view)}")


@op_definition
class SubviewOp(IRDLOperation):
    """One part of a buffer along its first dimension: `nn.subview %x[%n] : memref<…> to memref<…>`.

    `[N, …]` gives `[1, …]`, as contiguous as the whole. The type says no offset, which that of
    `memref.subview` would: kernels take contiguous buffers. The index is less than N.
    """

    name = "nn.subview"
    source = operand_def(MemRefType)
    index = operand_def(IndexType())
    view = result_def(MemRefType)
    assembly_format = "$source `[` $index `]` attr-dict `:` type($source) `to` type($view)"
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, index: SSAValue, view: Attribute) -> None:
        super().__init__(operands=[source, index], result_types=[view])

    def verify_(self) -> None:
        source, view = shape_of(self.source), shape_of(self.view)
        expect_element(self, "the part", element(self.view), element(self.source))
        if is_packed(element(self.source)):
            refuse(self, f"a part of {self.source.type} may begin within a byte")
        if not source or None in source[1:]:
            refuse(self, f"parts of {self.source.type} are of no known size")
        expect_shape(self, "the part", view, (1, *source[1:]))


@op_definition
class TransferOp(IRDLOperation):
    """Copies a buffer from the memory of one machine to that of the other.

    nn.transfer "to_device" %x, %t bytes <"16*N"> : memref<?x4xf32> to memref<?x4xf32>
    """

    name = "nn.transfer"
    direction = prop_def(StringAttr)
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    nbytes = prop_def(SizeAttr)
    assembly_format = (
        "$direction $source `,` $target `bytes` $nbytes attr-dict "
        "`:` type($source) `to` type($target)"
    )
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, direction: str, source: SSAValue, target: SSAValue, nbytes: SizeLike
    ) -> None:
        super().__init__(
            operands=[source, target],
            properties={"direction": StringAttr(direction), "nbytes": SizeAttr.of(nbytes)},
        )

    def verify_(self) -> None:
        if self.direction.data not in ("to_device", "to_host"):
            refuse(self, f"direction {self.direction.data!r} is neither to_device nor to_host")
        expect_element(self, "the target", element(self.target), element(self.source))
        if not fits(times(shape_of(self.source)), times(shape_of(self.target))):
            refuse(self, f"{self.source.type} does not fill {self.target.type}")


@op_definition
class PublishOp(IRDLOperation):
    """The buffer that the host reads as a result after the step; it lives until the end."""

    name = "nn.publish"
    buffer = operand_def(MemRefType)
    output = prop_def(StringAttr)
    assembly_format = "$buffer $output attr-dict `:` type($buffer)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, buffer: SSAValue, output: str) -> None:
        super().__init__(operands=[buffer], properties={"output": StringAttr(output)})


@op_definition
class KeepOp(IRDLOperation):
    """The value is computed although nobody reads it: `nn.keep %h : tensor<4xf32>`."""

    name = "nn.keep"
    value = operand_def()
    assembly_format = "$value attr-dict `:` type($value)"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])


@op_definition
class BarrierOp(IRDLOperation):
    """Nothing is moved, fused or reused across it."""

    name = "nn.barrier"
    assembly_format = "attr-dict"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self) -> None:
        super().__init__()
