"""Element types of `nn` tensors: from the dtype table to IR types and back.

| dtype | on tensors of level `nn` | in memory and in kernels |
|---|---|---|
| floats | `f64` … `bf16`, `f8E5M2`, `f8E4M3FN` | the same |
| `i64` … `i2`, `u64` … `u1` | `iN`, `uiN` | `iN`: signs are in the ops |
| `i1` | `si1`: `i1` is a truth value | `i1` |
| `bool` | `i1` | `i8` of 0 or 1 |
| `bitset`, `t2`, `t1` | `!nn.dtype<bitset>` … | `i8`, `i2`, `i1` |
| `q8_0` … (weights in blocks) | `!nn.block<q8_0>` … | bytes, as `#nn.blocks` lays them |

Integers of less than a byte are packed in memory: element `k` of a buffer of `iN` lies at bit
`k * N`, least significant bit first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    FixedBitwidthType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

_OWN_TYPES = ("bitset", "t2", "t1")


@irdl_attr_definition
class DtypeType(ParametrizedAttribute, TypeAttribute):
    """`!nn.dtype<t1>`: a dtype that no builtin type stands for."""

    name = "nn.dtype"
    dtype: StringAttr

    @classmethod
    def of(cls, dtype: str) -> DtypeType:
        return cls(StringAttr(dtype))

    def verify(self) -> None:
        if self.dtype.data not in _OWN_TYPES:
            raise VerifyException(
                f"!nn.dtype<{self.dtype.data}>: expected one of {', '.join(_OWN_TYPES)}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [StringAttr(parser.parse_identifier())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.dtype.data)


_FLOATS: dict[str, Attribute] = {
    "f64": f64,
    "f32": f32,
    "f16": f16,
    "bf16": bf16,
    "f8": Float8E5M2Type(),
    "f8e4m3": Float8E4M3FNType(),
}
_FLOAT_NAMES: dict[type[Attribute], str] = {
    Float64Type: "f64",
    Float32Type: "f32",
    Float16Type: "f16",
    BFloat16Type: "bf16",
    Float8E5M2Type: "f8",
    Float8E4M3FNType: "f8e4m3",
}


def element_type(dtype: str) -> Attribute:
    """The element type of `nn` tensors of a dtype."""
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    if dtype == "bool":
        return i1
    if dtype in _OWN_TYPES:
        return DtypeType.of(dtype)
    row = DTYPES[dtype]
    if row.kind == "uint":
        return IntegerType(row.bits, Signedness.UNSIGNED)
    return IntegerType(row.bits, Signedness.SIGNED if row.bits == 1 else Signedness.SIGNLESS)


def dtype_name(element: Attribute) -> str:
    """The dtype of an element type made by `element_type`. Raises TypeError for any other."""
    if type(element) in _FLOAT_NAMES:
        return _FLOAT_NAMES[type(element)]
    if isinstance(element, DtypeType):
        return element.dtype.data
    if not isinstance(element, IntegerType):
        raise TypeError(f"{element} is no element type of a tensor")
    if element == i1:
        return "bool"
    unsigned = element.signedness.data is Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{element.width.data}"


def memory_type(element: Attribute) -> Attribute:
    """What an element of a tensor is in memory and in kernels (see the table above)."""
    if isinstance(element, DtypeType):
        return IntegerType(DTYPES[element.dtype.data].bits)
    if element == i1:
        return i8
    if isinstance(element, IntegerType):
        return IntegerType(element.width.data)
    return element


def is_packed(element: Attribute) -> bool:
    """Whether several elements of a memory type share a byte."""
    return isinstance(element, IntegerType) and element.bitwidth in (1, 2, 4)


def byte_size(element: Attribute, dims: Sequence[Size]) -> Size:
    """Bytes of a contiguous buffer of a memory type; the last byte of packed ones may be partly used."""
    assert isinstance(element, FixedBitwidthType)
    count = Size.of(1)
    for dim in dims:
        count = count * dim
    if not is_packed(element):
        return count * (element.bitwidth // 8)
    bits = count * element.bitwidth
    if all(coefficient % 8 == 0 for _, coefficient in bits.terms):
        return bits // 8
    return (bits + 7) // 8


def whole_bytes(element: Attribute, dims: Sequence[Size]) -> bool:
    """Whether buffers of these dimensions fill their last byte whatever their sizes are."""
    assert isinstance(element, FixedBitwidthType)
    bits = Size.of(element.bitwidth)
    for dim in dims:
        bits = bits * dim
    return all(coefficient % 8 == 0 for _, coefficient in bits.terms)
