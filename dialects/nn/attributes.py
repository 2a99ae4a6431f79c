"""Attributes of the `nn` dialect, and the tensor types that carry symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr, TensorType
from xdsl.ir import Attribute, Data, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from openinfer.dialects.graph import parse_size, print_size
from openinfer.runtime.sizes import Size, SizeLike


@irdl_attr_definition
class DimsAttr(Data[tuple[Size, ...]]):
    """`#nn.dims<B, L, 384>`: what each dimension of a tensor is, as size expressions.

    It is the encoding of a tensor type with run-time sizes, so that two `?` are known to be equal
    exactly when their expressions are.
    """

    name = "nn.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Size, ...]:
        return tuple(
            parser.parse_comma_separated_list(
                AttrParser.Delimiter.ANGLE, lambda: parse_size(parser)
            )
        )

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, lambda size: print_size(printer, size))


def tensor_type(element: Attribute, dims: Sequence[SizeLike]) -> TensorType[Attribute]:
    """The tensor type of `dims`; symbolic ones become `?` and a `#nn.dims` encoding."""
    return _tensor_type(element, tuple([Size.of(d) for d in dims]))


@lru_cache(maxsize=1024)
def _tensor_type(element: Attribute, sizes: tuple[Size, ...]) -> TensorType[Attribute]:
    shape = [DYNAMIC_INDEX if s.constant is None else s.constant for s in sizes]
    encoding = DimsAttr(sizes) if DYNAMIC_INDEX in shape else NoneAttr()
    return TensorType(element, shape, encoding)


def dims_of(value: SSAValue | Attribute) -> tuple[Size, ...]:
    """The sizes of a tensor (value or type). Raises TypeError for a `?` without an encoding."""
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, TensorType | MemRefType), kind
    if isinstance(kind, TensorType) and isinstance(kind.encoding, DimsAttr):
        return kind.encoding.data
    shape = kind.get_shape()
    if DYNAMIC_INDEX in shape:
        raise TypeError(f"{kind} has run-time sizes but no #nn.dims encoding")
    return tuple(Size.of(s) for s in shape)


def element_of(value: SSAValue | Attribute) -> Attribute:
    """The element type of a tensor or memref."""
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, TensorType | MemRefType), kind
    return kind.get_element_type()


def with_element(kind: TensorType[Attribute], element: Attribute) -> TensorType[Attribute]:
    """The same shape with another element type."""
    return TensorType(element, kind.shape.data, kind.encoding)
