"""Constants of the `.oinf` format, shared by reader and writer.

Little-endian. Header, size table, metadata table, tensor index, data; sections and payloads start
at multiples of 8, entries inside a table are packed. Version 2 added the two quantisation fields
at the end of each tensor entry.
"""

from __future__ import annotations

MAGIC = b"OINF\0"
HEADER = "<5s6I5Q"
"""magic, version, flags, three counts, reserved, four section offsets, file size."""
HEADER_SIZE = 69
HEADER_FIELDS = (
    "magic",
    "version",
    "flags",
    "n_sizevars",
    "n_metadata",
    "n_tensors",
    "reserved",
    "offset_sizevars",
    "offset_metadata",
    "offset_tensors",
    "offset_data",
    "file_size",
)
VERSION = 2

SIZE_ENTRY_MIN = 16
METADATA_ENTRY = "<IIQQ"
METADATA_ENTRY_MIN = 32
TENSOR_ENTRY_MIN = 36
"""Smallest tensor entry of version 1: an 8-byte name, three u32, two u64."""

HAS_DATA = 1
HAS_QUANT = 2

TYPE_BITSET = 13
TYPE_STRING = 14
TYPE_ARRAY = 15

QUANT = "<4I4Q"
"""scheme, scale_mode, zp_mode, reserved, scale_axis, scale_count, zp_axis, zp_count."""
QUANT_SIZE = 48
SCHEMES = {1: "symmetric", 2: "asymmetric"}
MODES = {1: "per_tensor", 2: "per_channel"}
