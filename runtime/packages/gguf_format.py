"""Numbers of the `.gguf` format: types of values and of tensors, limits."""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
HEADER: Final = "<4sIqq"
"""Magic, version, number of tensors, number of keys."""
HEADER_SIZE: Final = 24

STRING: Final = 8
ARRAY: Final = 9
BOOL: Final = 7
VALUES: Final[dict[int, tuple[str, str, int]]] = {
    0: ("u8", "<B", 1),
    1: ("i8", "<b", 1),
    2: ("u16", "<H", 2),
    3: ("i16", "<h", 2),
    4: ("u32", "<I", 4),
    5: ("i32", "<i", 4),
    6: ("f32", "<f", 4),
    BOOL: ("bool", "<B", 1),
    10: ("u64", "<Q", 8),
    11: ("i64", "<q", 8),
    12: ("f64", "<d", 8),
}
"""Numbers and bools of the metadata: our dtype, `struct` layout, bytes."""

KEY_ENTRY_MIN: Final = 14
"""Bytes of the shortest entry of metadata: length and one byte of the key, type, one byte of value."""
TENSOR_ENTRY_MIN: Final = 25
"""Bytes of the shortest entry of a tensor: length and one byte of the name, rank, type, offset."""
TEXT_LIMIT: Final = 1 << 26
"""Bytes of the longest text outside of an array."""
NAME_LIMIT: Final = 63
"""Bytes of the longest name of a tensor."""
RANK_LIMIT: Final = 4
DEFAULT_ALIGNMENT: Final = 32

REMOVED: Final = frozenset({4, 5, 31, 32, 33, 36, 37, 38})
"""Ids of types that files may not have any more."""
OTHERS: Final[dict[int, tuple[str, int, int]]] = {
    9: ("q8_1", 32, 36),
    15: ("q8_k", 256, 292),
    16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98),
    19: ("iq1_s", 256, 50),
    21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82),
    29: ("iq1_m", 256, 56),
    34: ("tq1_0", 256, 54),
    35: ("tq2_0", 256, 66),
    40: ("nvfp4", 64, 36),
    41: ("q1_0", 128, 18),
}
"""Types that openinfer shows and does not compute with: name, elements and bytes of a block."""
