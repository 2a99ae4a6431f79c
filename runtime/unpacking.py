"""The values of blocks: what the bytes of each row of `BLOCKS` mean, in NumPy, as f32.

The operations and their order are those of ggml, so that every value is equal to its, bit for bit. A
function takes blocks as uint8 [n, bytes of a block] and gives f32 [n, elements of a block].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.blocks import E2M1, IQ4, BlockFormat

Bytes = NDArray[Any]
Values = NDArray[Any]

_IQ4, _E2M1 = np.array(IQ4, np.float32), np.array(E2M1, np.float32)


def unpacked(block: BlockFormat, data: Bytes) -> Values:
    """The f32 values of whole blocks, one after the other; `data` has one dimension."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _UNPACK[block.name](data.reshape(-1, block.nbytes)).reshape(-1)


def _half(blocks: Bytes, at: int) -> Values:
    """The f16 at a byte of each block, [n, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    """[…, k] bytes as […, 2 k] codes: all low nibbles, then all high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _bits(packed: Bytes) -> Bytes:
    """The 32 bits of four bytes, least significant first, [n, 32]."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")


def _fields(packed: Bytes, bits: int) -> Bytes:
    """[…, k] bytes as […, 8 / bits, k] codes: the lowest bits of all bytes first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    return (packed[..., None, :] >> shifts) & np.uint8((1 << bits) - 1)


def _signed(codes: Bytes, offset: int) -> Values:
    return (codes.astype(np.int16) - np.int16(offset)).astype(np.float32)


def _q4_0(b: Bytes) -> Values:
    return _half(b, 0) * _signed(_nibbles(b[:, 2:]), 8)


def _q4_1(b: Bytes) -> Values:
    return _half(b, 0) * _nibbles(b[:, 4:]).astype(np.float32) + _half(b, 2)


def _q5_0(b: Bytes) -> Values:
    return _half(b, 0) * _signed(_nibbles(b[:, 6:]) | _bits(b[:, 2:6]) << 4, 16)


def _q5_1(b: Bytes) -> Values:
    codes = _nibbles(b[:, 8:]) | _bits(b[:, 4:8]) << 4
    return _half(b, 0) * codes.astype(np.float32) + _half(b, 2)


def _q8_0(b: Bytes) -> Values:
    return _half(b, 0) * b[:, 2:].view(np.int8).astype(np.float32)


def _q2_k(b: Bytes) -> Values:
    scales = b[:, :16]
    d = _half(b, 80) * (scales & 15).astype(np.float32)
    m = _half(b, 82) * (scales >> 4).astype(np.float32)
    codes = _fields(b[:, 16:80].reshape(-1, 2, 32), 2).reshape(-1, 16, 16)
    return d[..., None] * codes.astype(np.float32) - m[..., None]


def _q3_k(b: Bytes) -> Values:
    packed = b[:, 96:108]
    low = np.concatenate([packed[:, :8] & 15, packed[:, :8] >> 4], axis=1)
    high = _fields(packed[:, 8:], 2).reshape(-1, 16)
    d = _half(b, 108) * _signed(low | high << 4, 32)
    codes = _fields(b[:, 32:96].reshape(-1, 2, 32), 2).reshape(-1, 16, 16)
    mask = _fields(b[:, :32], 1).reshape(-1, 16, 16)
    return d[..., None] * _signed(codes | mask << 2, 4)


def _scales_and_minima(b: Bytes) -> tuple[Values, Values]:
    """d·S and dmin·M of the eight sub-blocks of `q4_k` and `q5_k`, [n, 8] each."""
    low, middle, high = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6) << 4], axis=1)
    minima = np.concatenate([middle & 63, (high >> 4) | (middle >> 6) << 4], axis=1)
    return _half(b, 0) * scales.astype(np.float32), _half(b, 2) * minima.astype(np.float32)


def _q4_k(b: Bytes) -> Values:
    d, m = _scales_and_minima(b)
    codes = _nibbles(b[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return d[..., None] * codes.astype(np.float32) - m[..., None]


def _q5_k(b: Bytes) -> Values:
    d, m = _scales_and_minima(b)
    low = _nibbles(b[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    codes = low | _fields(b[:, 16:48], 1) << 4
    return d[..., None] * codes.astype(np.float32) - m[..., None]


def _q6_k(b: Bytes) -> Values:
    low = _nibbles(b[:, :128].reshape(-1, 2, 64)).reshape(-1, 16, 16)
    high = _fields(b[:, 128:192].reshape(-1, 2, 32), 2).reshape(-1, 16, 16)
    scales = np.ascontiguousarray(b[:, 192:208]).view(np.int8).astype(np.float32)
    d = _half(b, 208) * scales
    return d[..., None] * _signed(low | high << 4, 32)


def _iq4_nl(b: Bytes) -> Values:
    return _half(b, 0) * _IQ4[_nibbles(b[:, 2:])]


def _iq4_xs(b: Bytes) -> Values:
    high = np.ascontiguousarray(b[:, 2:4]).view("<u2")
    shifts = np.arange(0, 16, 2, dtype=np.uint16)
    upper = ((high >> shifts) & np.uint16(3)).astype(np.uint8)
    lower = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], axis=-1).reshape(-1, 8)
    d = _half(b, 0) * _signed(lower | upper << 4, 32)
    return d[..., None] * _IQ4[_nibbles(b[:, 8:].reshape(-1, 8, 16))]


def _mxfp4(b: Bytes) -> Values:
    # Half of 2^(e - 127), since the table holds twice the values; no normal number for e < 2.
    exponent = b[:, :1].astype(np.uint32)
    small = np.uint32(0x200000) << (exponent & np.uint32(1))
    bits = np.where(exponent < 2, small, (exponent - np.uint32(1)) << np.uint32(23))
    return bits.astype(np.uint32).view(np.float32) * _E2M1[_nibbles(b[:, 1:])]


_UNPACK: dict[str, Callable[[Bytes], Values]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "iq4_nl": _iq4_nl,
    "iq4_xs": _iq4_xs,
    "mxfp4": _mxfp4,
}
