"""Types of GLSL, and the extensions that they need."""

from __future__ import annotations

from typing import Final

from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute

from openinfer.dialects.extensions.gpu import MMAMatrixType

_FLOATS: Final = {"f16": "float16_t", "f32": "float", "f64": "double"}
_INTEGERS: Final = {1: "bool", 8: "int8_t", 16: "int16_t", 32: "int", 64: "int64_t"}
_PREFIXES: Final = {
    **{"float": "vec", "float16_t": "f16vec", "double": "dvec", "int": "ivec", "uint": "uvec"},
    **{"int8_t": "i8vec", "int16_t": "i16vec", "int64_t": "i64vec", "bool": "bvec"},
}
_EXPLICIT: Final = "GL_EXT_shader_explicit_arithmetic_types"
_EXTENSIONS: Final = {
    "float16_t": (f"{_EXPLICIT}_float16",),
    "int8_t": (f"{_EXPLICIT}_int8",),
    "int16_t": (f"{_EXPLICIT}_int16",),
    "int64_t": (f"{_EXPLICIT}_int64",),
}
_USES: Final = {"AOp": "gl_MatrixUseA", "BOp": "gl_MatrixUseB", "COp": "gl_MatrixUseAccumulator"}
MATRICES: Final = (
    "GL_KHR_cooperative_matrix",
    "GL_KHR_memory_scope_semantics",
)
OF_WORKGROUP: Final = "GL_NV_cooperative_matrix2"


def type_of(kind: Attribute) -> str | None:
    """The name of a scalar or of a matrix; None for one that shaders do not have."""
    match kind:
        case IndexType():
            return "int"
        case IntegerType():
            return _INTEGERS.get(kind.width.data)
        case MMAMatrixType():
            shape = f"{kind.rows.data}, {kind.columns.data}"
            use = _USES[kind.operand.data]
            scope = f"gl_Scope{kind.scope.data.capitalize()}"
            return f"coopmat<{type_of(kind.element_type)}, {scope}, {shape}, {use}>"
        case _:
            return _FLOATS.get(kind.name) if isinstance(kind, AnyFloat) else None


def unsigned(kind: str) -> str:
    """The same integer without a sign."""
    return f"u{kind}"


def vector_type(scalar: str, count: int) -> str:
    """A vector of 2 to 4 scalars; of one the scalar itself."""
    return scalar if count == 1 else f"{_PREFIXES[scalar]}{count}"


def extensions_of(scalar: str) -> tuple[str, ...]:
    """What a shader has to declare that computes with a type."""
    if scalar.startswith("coopmat"):
        inner, _, scope = scalar.removeprefix("coopmat<").partition(", ")
        more = (OF_WORKGROUP,) if scope.startswith("gl_ScopeWorkgroup") else ()
        return (*MATRICES, *more, *extensions_of(inner))
    return _EXTENSIONS.get(scalar, ())


def storage_extensions(kind: Attribute) -> tuple[str, ...]:
    """What a shader has to declare that has a buffer of a type."""
    return {8: ("GL_EXT_shader_8bit_storage",), 16: ("GL_EXT_shader_16bit_storage",)}.get(
        width_of(kind), ()
    )


def width_of(kind: Attribute) -> int:
    """Bits of a scalar, or of a vector."""
    if isinstance(kind, VectorType):
        return kind.element_count() * width_of(kind.element_type)
    if isinstance(kind, IndexType):
        return 32
    assert isinstance(kind, FixedBitwidthType)
    return kind.bitwidth


def is_float(kind: Attribute) -> bool:
    """Whether values of a type are floats."""
    return isinstance(kind, AnyFloat)
