"""The element types of ONNX and ours."""

from __future__ import annotations

from typing import Final

ELEMENT_TYPES: Final[dict[int, str]] = {
    1: "f32",
    2: "u8",
    3: "i8",
    4: "u16",
    5: "i16",
    6: "i32",
    7: "i64",
    9: "bool",
    10: "f16",
    11: "f64",
    12: "u32",
    13: "u64",
    16: "bf16",
    17: "f8e4m3",
    19: "f8",
    21: "u4",
    22: "i4",
    25: "u2",
    26: "i2",
}
"""`TensorProto.DataType` → dtype."""

NUMBERS: Final[dict[str, int]] = {name: number for number, name in ELEMENT_TYPES.items()}
"""dtype → `TensorProto.DataType`."""

FOREIGN: Final[dict[int, str]] = {
    8: "STRING",
    14: "COMPLEX64",
    15: "COMPLEX128",
    18: "FLOAT8E4M3FNUZ",
    20: "FLOAT8E5M2FNUZ",
    23: "FLOAT4E2M1",
    24: "FLOAT8E8M0",
    27: "FLOAT6E2M3",
    28: "FLOAT6E3M2",
}
"""What only ONNX has."""
