"""THE dtype table: one row per element type, every other module looks here.

A *storage* array holds the bytes as a package does: one NumPy element per value, or packed bytes for
sub-byte types. A *value* array holds what the reference semantics compute with: bf16 and f8 values
are kept as float32 (exactly representable, rounded after each op), sub-byte integers as int8/uint8.

`DTYPES` are the dtypes of the language. What a package may hold, `PACKAGE_DTYPES`, are those and the block
formats of GGUF, whose values are float32: `@dtype(q8_0)` unpacks them when they are loaded.
"""

from __future__ import annotations

from openinfer.runtime.blocks import BLOCKS, BlockFormat
from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class DType:
    """One element type."""

    name: str
    bits: int
    """Bits of a value; those of a block format are a mean, rounded up."""
    kind: str
    """"float", "int", "uint", "bool", "bitset", "ternary" or "block"."""
    storage: str
    """NumPy dtype name of the stored element; "uint8" for packed sub-byte types."""
    value: str
    """NumPy dtype name of the reference value."""
    oinf_id: int | None
    """Type id in `.oinf` files, None when the format has none."""
    safetensors: str | None
    """Type name in `.safetensors` headers, None when the format has none."""
    ir: str
    """Spelling of the element type in IR."""
    json: str
    """Spelling in graph JSON."""
    gguf_id: int | None = None
    """Type id in `.gguf` files, None when the format has none."""
    block: BlockFormat | None = None
    """How values lie in bytes, where neighbours of a row share a block."""

    @property
    def packed(self) -> bool:
        """True when several values share a byte."""
        return self.bits < 8 and self.block is None

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def nbytes(self, count: int) -> int:
        """Bytes of `count` values, sub-byte types packed without padding between rows.

        Of a block format `count` is that of whole blocks.
        """
        if self.block is not None:
            return count // self.block.elements * self.block.nbytes
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


_ROWS = (
    #     name    bits kind      storage    value     id    safetensors ir      json   gguf
    DType("f64", 64, "float", "float64", "float64", 11, "F64", "f64", "F64", 28),
    DType("f32", 32, "float", "float32", "float32", 10, "F32", "f32", "F32", 0),
    DType("f16", 16, "float", "float16", "float16", 9, "F16", "f16", "F16", 1),
    DType("bf16", 16, "float", "uint16", "float32", 16, "BF16", "bf16", "BF16", 30),
    DType("f8", 8, "float", "uint8", "float32", 17, "F8_E5M2", "f8E5M2", "F8"),
    DType("f8e4m3", 8, "float", "uint8", "float32", None, "F8_E4M3", "f8E4M3FN", "F8E4M3"),
    DType("i64", 64, "int", "int64", "int64", 4, "I64", "i64", "I64", 27),
    DType("i32", 32, "int", "int32", "int32", 3, "I32", "i32", "I32", 26),
    DType("i16", 16, "int", "int16", "int16", 2, "I16", "i16", "I16", 25),
    DType("i8", 8, "int", "int8", "int8", 1, "I8", "i8", "I8", 24),
    DType("i4", 4, "int", "uint8", "int8", 18, None, "i4", "I4"),
    DType("i2", 2, "int", "uint8", "int8", 19, None, "i2", "I2"),
    DType("i1", 1, "int", "uint8", "int8", 20, None, "si1", "I1"),
    DType("u64", 64, "uint", "uint64", "uint64", 8, "U64", "ui64", "U64"),
    DType("u32", 32, "uint", "uint32", "uint32", 7, "U32", "ui32", "U32"),
    DType("u16", 16, "uint", "uint16", "uint16", 6, "U16", "ui16", "U16"),
    DType("u8", 8, "uint", "uint8", "uint8", 5, "U8", "ui8", "U8"),
    DType("u4", 4, "uint", "uint8", "uint8", 21, None, "ui4", "U4"),
    DType("u2", 2, "uint", "uint8", "uint8", 22, None, "ui2", "U2"),
    DType("u1", 1, "uint", "uint8", "uint8", 23, None, "ui1", "U1"),
    DType("bool", 8, "bool", "bool", "bool", 12, "BOOL", "i1", "Bool"),
    DType("bitset", 8, "bitset", "uint8", "uint8", 13, None, "!nn.dtype<bitset>", "Bitset"),
    DType("t2", 2, "ternary", "uint8", "int8", 24, None, "!nn.dtype<t2>", "T2"),
    DType("t1", 1, "ternary", "uint8", "int8", 25, None, "!nn.dtype<t1>", "T1"),
)

DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
BLOCK_DTYPES: dict[str, DType] = {
    name: DType(
        name,
        bits=-(-8 * block.nbytes // block.elements),
        kind="block",
        storage="uint8",
        value="float32",
        oinf_id=None,
        safetensors=None,
        ir=f"!nn.block<{name}>",
        json=name.upper(),
        gguf_id=block.gguf_id,
        block=block,
    )
    for name, block in BLOCKS.items()
}
PACKAGE_DTYPES: dict[str, DType] = DTYPES | BLOCK_DTYPES
BY_OINF_ID: dict[int, DType] = {row.oinf_id: row for row in _ROWS if row.oinf_id is not None}
BY_SAFETENSORS: dict[str, DType] = {row.safetensors: row for row in _ROWS if row.safetensors}
BY_GGUF_ID: dict[int, DType] = {
    row.gguf_id: row for row in PACKAGE_DTYPES.values() if row.gguf_id is not None
}
ALIASES: dict[str, str] = {"f8e5m2": "f8", "float8e5m2": "f8"}


def dtype(name: str) -> DType:
    """The dtype called `name` (aliases included). Raises KeyError when there is none."""
    return DTYPES[ALIASES.get(name, name)]
