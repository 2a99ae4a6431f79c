"""Types, constants and names in LLVM IR text."""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
)
from xdsl.dialects.llvm import (
    LLVMArrayType,
    LLVMFunctionType,
    LLVMPointerType,
    LLVMStructType,
    LLVMVoidType,
)
from xdsl.ir import Attribute

from openinfer.runtime.errors import CompileError

# bf16 is its bits. LLVM moves its own `bfloat` as f32 where it likes, in selects, phis, short vectors and
# masked accesses, and goes back by a call of a function that no library need have.
_FLOATS = {BFloat16Type: "i16", Float16Type: "half", Float32Type: "float", Float64Type: "double"}
_MANGLED_FLOATS = {BFloat16Type: "i16", Float16Type: "f16", Float32Type: "f32", Float64Type: "f64"}

DEVICE_CODE = "spirv.module"
"""An op that may stand beside functions for LLVM: kernels of a device, which others write. It is known by
name, for the dialect takes long to import and few programs have it."""

_PLAIN_NAME = re.compile(r"[A-Za-z_.$-][A-Za-z0-9_.$-]*")


def type_text(type: Attribute) -> str:
    """`vector<16xf32>` as `<16 x float>`; raises CompileError (OI0981) for what LLVM has not.

    `vector<16xbf16>` is `<16 x i16>`; a float op on it is one that LLVM refuses.
    """
    if isinstance(type, IntegerType):
        return f"i{type.bitwidth}"
    if type.__class__ in _FLOATS:
        return _FLOATS[type.__class__]  # pyright: ignore[reportArgumentType]
    if isinstance(type, LLVMPointerType):
        return "ptr"
    if isinstance(type, VectorType):
        return f"<{type.get_shape()[0]} x {type_text(type.element_type)}>"
    if isinstance(type, LLVMArrayType):
        return f"[{type.size.data} x {type_text(type.type)}]"
    if isinstance(type, LLVMStructType):
        return "{ " + ", ".join(type_text(member) for member in type.types) + " }"
    if isinstance(type, LLVMVoidType):
        return "void"
    if isinstance(type, LLVMFunctionType):
        inputs = [type_text(argument) for argument in type.inputs]
        if type.is_variadic:
            inputs.append("...")
        return f"{type_text(type.output)} ({', '.join(inputs)})"
    raise CompileError("OI0981", f"type {type} cannot be written as LLVM IR")


def mangled_type(type: Attribute) -> str:
    """The suffix by which an intrinsic names a type: `v16f32`, `i64`, `p0`."""
    if isinstance(type, IntegerType):
        return f"i{type.bitwidth}"
    if type.__class__ in _MANGLED_FLOATS:
        return _MANGLED_FLOATS[type.__class__]  # pyright: ignore[reportArgumentType]
    if isinstance(type, LLVMPointerType):
        return "p0"
    if isinstance(type, VectorType):
        return f"v{type.get_shape()[0]}{mangled_type(type.element_type)}"
    raise CompileError("OI0981", f"no intrinsic works on {type}")


def integer_text(value: int, type: IntegerType) -> str:
    if type.bitwidth == 1:
        return "true" if value else "false"
    return str(value)


def float_text(value: float, type: Attribute) -> str:
    """A float literal that means exactly `value`.

    Short decimals where they are exact, else the bits: LLVM refuses a decimal that would be
    rounded.
    """
    if isinstance(type, BFloat16Type):
        return str(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    if isinstance(type, Float16Type):
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if isinstance(type, Float32Type) and not math.isnan(value):
        value = struct.unpack("<f", struct.pack("<f", value))[0]
    if math.isfinite(value):
        short = repr(value)
        if "e" not in short and len(short) < 16 and Decimal(short) == Decimal(value):
            return short
    # A float is written by the bits of the double that equals it.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def number_text(value: float, type: Attribute) -> str:
    """One element of a constant."""
    if isinstance(type, IntegerType):
        return integer_text(int(value), type)
    return float_text(value, type)


def constant_text(value: Attribute, type: Attribute) -> str:
    """The literal of `llvm.mlir.constant`, without its type."""
    if isinstance(value, IntegerAttr):
        if isinstance(type, IntegerType):
            return integer_text(value.value.data, type)
        return float_text(float(value.value.data), type)
    if isinstance(value, FloatAttr):
        return float_text(value.value.data, type)
    if isinstance(value, DenseIntOrFPElementsAttr) and isinstance(type, VectorType | LLVMArrayType):
        return _dense_text(value, type)
    raise CompileError("OI0981", f"constant {value} of type {type} cannot be written as LLVM IR")


def _dense_text(value: DenseIntOrFPElementsAttr, type: VectorType | LLVMArrayType) -> str:
    is_vector = isinstance(type, VectorType)
    element = type.element_type if is_vector else type.type
    count = type.get_shape()[0] if is_vector else type.size.data
    spelled = type_text(element)
    if value.is_splat():
        first = number_text(value.get_values()[0], element)  # pyright: ignore[reportArgumentType]
        if is_vector:
            return f"splat ({spelled} {first})"
        numbers = [first] * count
    else:
        numbers = [number_text(v, element) for v in value.iter_values()]  # pyright: ignore
    opening, closing = "<>" if is_vector else "[]"
    return opening + ", ".join(f"{spelled} {number}" for number in numbers) + closing


def symbol_text(name: str) -> str:
    """A global name with its `@`, quoted where LLVM needs that."""
    return "@" + (name if _PLAIN_NAME.fullmatch(name) else string_text(name))


def string_text(text: str) -> str:
    """A string literal; everything but plain ASCII is escaped."""
    plain = [
        chr(byte) if 0x20 <= byte < 0x7F and byte not in (0x22, 0x5C) else f"\\{byte:02X}"
        for byte in text.encode()
    ]
    return f'"{"".join(plain)}"'


class Names:
    """Unique local names within one function."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def fresh(self, hint: str | None, default: str) -> str:
        """`%hint`, or `%hint.1` and so on where it is taken."""
        base = hint if hint is not None and _PLAIN_NAME.fullmatch(hint) else default
        number = self._taken.get(base)
        if number is None:
            self._taken[base] = 0
            return base
        while True:
            number += 1
            candidate = f"{base}.{number}"
            if candidate not in self._taken:
                break
        self._taken[base] = number
        self._taken[candidate] = 0
        return candidate


class NumberedNames(Names):
    """Names that say nothing but their order: the same for every program with an equal function."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def fresh(self, hint: str | None, default: str) -> str:
        """`%v0`, `%v1` and so on."""
        self._count += 1
        return f"v{self._count - 1}"
