"""Storage and value arrays: every bit pattern of the narrow types, every rounding boundary."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import (
    find_invalid,
    round_values,
    storage_dtype,
    to_storage,
    to_values,
    value_range,
)

NARROW = ["bf16", "f8", "f8e4m3"]
PACKED = [row.name for row in DTYPES.values() if row.packed]


def every_code(name: str) -> np.ndarray:
    row = DTYPES[name]
    return np.arange(1 << row.bits, dtype=row.storage)


def decode(name: str) -> np.ndarray:
    codes = every_code(name)
    if name == "f16":
        codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):  # widening a signalling NaN
        return to_values(DTYPES[name], codes, codes.shape).astype(np.float64)


def exact_value(name: str, code: int) -> float:
    """The value of a bit pattern, from the definition of the format."""
    if name == "bf16":
        return struct.unpack("<f", struct.pack("<I", code << 16))[0]
    if name == "f8":
        return struct.unpack("<e", struct.pack("<H", code << 8))[0]
    sign = -1.0 if code & 0x80 else 1.0
    exponent, fraction = (code >> 3) & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0**-9
    return sign * (1 + fraction / 8) * 2.0 ** (exponent - 7)


@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_decodes_to_its_definition(name: str) -> None:
    got = decode(name)
    want = np.array([exact_value(name, int(code)) for code in every_code(name)])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_survives_a_round_trip(name: str) -> None:
    codes = every_code(name)
    values = to_values(DTYPES[name], codes, codes.shape)
    back = to_storage(DTYPES[name], values)
    nan = np.isnan(values)
    np.testing.assert_array_equal(back[~nan], codes[~nan])
    assert np.isnan(to_values(DTYPES[name], back, codes.shape)[nan]).all()
    assert back.dtype == codes.dtype


@pytest.mark.parametrize("name", [*NARROW, "f16"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_every_boundary_rounds_to_nearest_even(name: str, sign: float) -> None:
    positive = decode(name)[: 1 << (DTYPES[name].bits - 1)]
    finite = positive[np.isfinite(positive)]
    low, high = finite[:-1], finite[1:]
    middle = (low + high) / 2
    even = np.where(np.arange(low.size) % 2 == 0, low, high)

    def rounded(values: np.ndarray) -> np.ndarray:
        return round_values(DTYPES[name], sign * values).astype(np.float64)

    np.testing.assert_array_equal(rounded(middle), sign * even)
    np.testing.assert_array_equal(rounded(np.nextafter(middle, -np.inf)), sign * low)
    np.testing.assert_array_equal(rounded(np.nextafter(middle, np.inf)), sign * high)
    np.testing.assert_array_equal(rounded(finite), sign * finite)


@pytest.mark.parametrize("name", NARROW)
def test_float32_input_rounds_as_float64_input_does(name: str) -> None:
    generator = np.random.default_rng(7)
    bits = generator.integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    single = bits.view(np.float32)
    with np.errstate(invalid="ignore"):
        double = single.astype(np.float64)
    np.testing.assert_array_equal(
        round_values(DTYPES[name], single), round_values(DTYPES[name], double)
    )


@pytest.mark.parametrize(
    ("name", "largest", "first_over", "over"),
    [
        ("f16", 65504.0, 65520.0, math.inf),
        ("bf16", float.fromhex("0x1.fep127"), float.fromhex("0x1.ffp127"), math.inf),
        ("f8", 57344.0, 61440.0, math.inf),
        ("f8e4m3", 448.0, math.nextafter(464.0, 1e9), math.nan),
    ],
)
def test_overflow(name: str, largest: float, first_over: float, over: float) -> None:
    values = np.array([largest, math.nextafter(first_over, 0), first_over, 1e300, math.inf])
    got = round_values(DTYPES[name], values)
    np.testing.assert_array_equal(got, [largest, largest, over, over, over])
    np.testing.assert_array_equal(round_values(DTYPES[name], -values), -got)


def test_known_roundings_of_f8() -> None:
    got = round_values(DTYPES["f8"], np.array([1.9, 3.9, 0.999, 61440.0], dtype=np.float32))
    np.testing.assert_array_equal(got, [2.0, 4.0, 1.0, math.inf])


def test_f64_to_bf16_is_rounded_once() -> None:
    # Just above a tie: rounding to float32 first would land on the tie and then go down.
    value = 1 + 2.0**-8 + 2.0**-40
    assert round_values(DTYPES["bf16"], value) == 1 + 2.0**-7


def test_large_integers_are_rounded_once() -> None:
    value = (1 << 62) + (1 << 54) + 1  # above the tie between two bf16 neighbours by one
    expected = float((1 << 62) + (1 << 55))
    assert round_values(DTYPES["bf16"], np.int64(value)) == expected
    assert round_values(DTYPES["bf16"], np.int64(-value)) == -expected
    assert round_values(DTYPES["bf16"], np.uint64(value)) == expected
    assert round_values(DTYPES["bf16"], np.int64(value - 1)) == float(1 << 62)


@pytest.mark.parametrize("name", [*NARROW, "f16", "f32", "f64"])
def test_nan_and_signed_zero_are_kept(name: str) -> None:
    got = round_values(DTYPES[name], np.array([math.nan, -0.0, -1e-300]))
    assert np.isnan(got[0])
    assert np.signbit(got[1])
    assert got[2] == (0.0 if name != "f64" else -1e-300)
    assert np.signbit(got[2])
    payload = np.array([0x7F800001, 0xFFFFFFFF], dtype=np.uint32).view(np.float32)
    stored = to_storage(DTYPES[name], payload)
    assert np.isnan(to_values(DTYPES[name], stored, (2,))).all()


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 9, 16, 31])
def test_packed_round_trip(name: str, count: int) -> None:
    row = DTYPES[name]
    low, high = value_range(row) or (0, 0)
    values = np.random.default_rng(count).integers(low, high + 1, count).astype(row.value)
    if name == "t1":
        values = np.where(values < 0, -1, 1).astype(np.int8)
    stored = to_storage(row, values)
    assert stored.dtype == np.uint8
    assert stored.shape == (row.nbytes(count),)
    got = to_values(row, stored, (count,))
    assert got.dtype == np.dtype(row.value)
    np.testing.assert_array_equal(got, values)
    if count * row.bits % 8:
        assert stored[-1] >> (count * row.bits % 8) == 0  # tail padded with zeros


@pytest.mark.parametrize(
    ("name", "values", "data"),
    [
        ("i4", [-8, -1, 0, 1, 7], "f81007"),
        ("i2", [-2, -1, 0, 1, 1], "4e01"),
        ("i1", [0, -1, -1, 0, 0, -1, 0, 0, -1], "2601"),
        ("u4", [0, 9, 15], "900f"),
        ("u2", [0, 1, 2, 3, 3], "e403"),
        ("u1", [1, 0, 1, 1], "0d"),
        ("t2", [-1, 0, 1, -1, 0], "d300"),
        ("t1", [-1, 1, 1, -1], "06"),
        ("bf16", [1.25, -2.0], "a03f00c0"),
        ("f8", [0.5, 2.0, -4.0], "3840c4"),
    ],
)
def test_bytes_are_those_of_the_format(name: str, values: list[float], data: str) -> None:
    row = DTYPES[name]
    stored = to_storage(row, np.array(values, dtype=row.value))
    assert stored.tobytes().hex() == data
    np.testing.assert_array_equal(to_values(row, bytes.fromhex(data), (len(values),)), values)


@pytest.mark.parametrize("name", [n for n, row in DTYPES.items() if row.storage == row.value])
def test_types_of_numpy_are_not_copied(name: str) -> None:
    row = DTYPES[name]
    if row.packed:
        return
    array = np.zeros((2, 3), dtype=row.storage)
    assert to_values(row, array, (2, 3)).base is not None
    assert np.shares_memory(to_values(row, array, (3, 2)), array)
    assert np.shares_memory(to_storage(row, array), array)


def test_shapes_and_scalars() -> None:
    for name in ("f32", "bf16", "i4", "f8e4m3"):
        row = DTYPES[name]
        stored = to_storage(row, np.ones((2, 3), dtype=row.value))
        assert to_values(row, stored, (3, 2)).shape == (3, 2)
        scalar = to_storage(row, np.array(1, dtype=row.value))
        assert to_values(row, scalar, ()).shape == ()
        assert (
            to_values(row, to_storage(row, np.ones((0, 3))[:, :0].astype(row.value)), (0,)).size
            == 0
        )


def test_strided_and_swapped_arrays() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(to_storage(DTYPES["f32"], array.T), array.T)
    assert to_storage(DTYPES["f32"], array.T).flags.c_contiguous
    swapped = array.astype(">f4")
    np.testing.assert_array_equal(to_values(DTYPES["f32"], swapped, (3, 4)), array)
    np.testing.assert_array_equal(to_storage(DTYPES["bf16"], array.T[::2]).shape, (2, 3))


def test_wrong_sizes_and_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="takes 24 bytes, got 8"):
        to_values(DTYPES["f32"], bytes(8), (2, 3))
    with pytest.raises(ValueError, match="cannot be stored"):
        to_storage(DTYPES["i32"], np.ones(3))
    with pytest.raises(ValueError, match="no float dtype"):
        round_values(DTYPES["i32"], np.ones(3))


def test_invalid_patterns_are_found() -> None:
    flags = np.array([0, 1, 2], dtype=np.uint8)
    assert find_invalid(DTYPES["bool"], flags.view(np.bool_), 3) is not None
    assert find_invalid(DTYPES["bool"], flags[:2].view(np.bool_), 2) is None
    assert find_invalid(DTYPES["t2"], np.array([0b11_00_01_10], np.uint8), 4) is not None
    assert find_invalid(DTYPES["t2"], np.array([0b11_00_01_11], np.uint8), 4) is None
    # The tail of the last byte is no value.
    assert find_invalid(DTYPES["t2"], np.array([0b10_00_01_11], np.uint8), 3) is None


def test_value_ranges() -> None:
    assert value_range(DTYPES["i4"]) == (-8, 7)
    assert value_range(DTYPES["u64"]) == (0, 2**64 - 1)
    assert value_range(DTYPES["t1"]) == (-1, 1)
    assert value_range(DTYPES["bool"]) == (0, 1)
    assert value_range(DTYPES["f32"]) is None
    assert storage_dtype(DTYPES["bf16"]) == np.dtype("<u2")
