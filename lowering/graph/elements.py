"""What a tensor of one element says: a scalar, an index, a truth."""

from __future__ import annotations

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnrealizedConversionCastOp,
    i1,
)
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.dialects.extensions.arith import IndexCastOp, IndexCastUIOp
from openinfer.lowering.graph.index_arithmetic import LARGEST_WORD
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scope import Problem
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(eq=False)
class Elements:
    """Reads the only element of tensors."""

    builder: StepBuilder
    requirements: Requirements

    def of(self, value: SSAValue) -> SSAValue:
        """The only element of a tensor; the step fails where it has more, or none."""
        b, kind = self.builder, value.type
        assert isinstance(kind, TensorType)
        count = Size.of(1)
        for dim in nn.dims_of(value):
            count = count * dim
        if count.constant != 1:
            self.requirements.at_most(count, Size.of(1), "one")
            self.requirements.at_most(Size.of(1), count, "one")
            first = [b.constant(0)] * len(kind.get_shape())
            return b.add(tensor.ExtractOp(value, first, kind.element_type))
        if kind.get_shape():
            value = b.add(nn.ReshapeOp([value], [TensorType(kind.element_type, [])]))
        return b.add(tensor.ExtractOp(value, [], kind.element_type))

    def truth(self, value: SSAValue, text: str) -> SSAValue:
        """The element as `i1`: not zero is true. `text` is what the program says."""
        element = self.of(value)
        kind = element.type
        if kind == i1:
            return element
        if not isinstance(kind, IntegerType):
            raise Problem(
                "OI0306",
                f"the condition {text} is {kind}, not a bool or an integer",
                "compare it: `op ne(x, zero) >> c`",
            )
        element = self._signless(element)
        zero = arith.ConstantOp(IntegerAttr(0, IntegerType(kind.width.data)))
        return self.builder.compare(element, "ne", self.builder.add(zero))

    def index(self, value: SSAValue, name: str) -> SSAValue:
        """The integer that a variable holds as an index, cut to the largest that there is."""
        b, element = self.builder, self.of(value)
        kind = element.type
        if not isinstance(kind, IntegerType):
            raise Problem("OI0306", f"{name} is not an integer scalar")
        plain = self._signless(element)
        if kind.signedness.data is not Signedness.UNSIGNED:
            return b.add(IndexCastOp(plain, IndexType()))
        index = b.add(IndexCastUIOp(plain, IndexType()))
        if kind.width.data < 64:
            return index
        # Half of these numbers would be negative as an index.
        return b.add(arith.MinUIOp(index, b.constant(LARGEST_WORD)))

    def number(self, value: SSAValue) -> SSAValue:
        """The index that a tensor of one i64 holds."""
        return self.builder.add(IndexCastOp(self.of(value), IndexType()))

    def require(self, flag: SSAValue, kind: str, shown: SSAValue | None = None) -> None:
        """The step fails with a row of `runtime/devices/failures.py` where a bool is false.

        `flag` and the integer that the message shows are tensors of one element.
        """
        zero = number = self.builder.constant(0)
        if shown is not None:
            number = self.number(shown)
        self.builder.fail_unless(self.of(flag), kind, number, zero)

    def _signless(self, element: SSAValue) -> SSAValue:
        """An integer as `arith` takes it: the type says nothing of a sign."""
        kind = element.type
        assert isinstance(kind, IntegerType)
        if kind.signedness.data is Signedness.SIGNLESS:
            return element
        plain = IntegerType(kind.width.data)
        return self.builder.add(UnrealizedConversionCastOp.get([element], [plain]))
