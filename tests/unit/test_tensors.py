"""Taking arrays in: what is borrowed, what is copied, what is refused."""

from __future__ import annotations

import array
import ctypes
import sys
import types
from typing import Any

import numpy as np
import pytest

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError
from openinfer.runtime.tensors import Tensor, as_storage, as_tensor, dtype_of, format_truncated


def pointer(value: np.ndarray) -> int:
    return value.__array_interface__["data"][0]


class Exporter:
    """An array that is reachable through DLPack alone."""

    def __init__(self, inner: np.ndarray) -> None:
        self.inner = inner

    def __dlpack__(self, **options: Any) -> Any:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.inner.__dlpack_device__()


def test_contiguous_arrays_are_borrowed() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert pointer(as_storage(values, "f32")) == pointer(values)
    assert pointer(as_storage(Exporter(values), "f32")) == pointer(values)
    assert pointer(as_storage(values.data, "f32")) == pointer(values)
    assert pointer(as_storage(Tensor(DTYPES["f32"], (2, 3), values), "f32")) == pointer(values)
    values.flags.writeable = False
    assert pointer(as_storage(values, "f32")) == pointer(values)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: np.asfortranarray(a),
        lambda a: a[::-1, ::2],
        lambda a: a.T,
        lambda a: np.broadcast_to(a[:1], (5, a.shape[1])),
        lambda a: a.astype(">f4"),
        lambda a: np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(np.float32).reshape(a.shape),
        lambda a: a[:0],
        lambda a: a[0, 0],
        lambda a: a[0, 0, ...],
        lambda a: a.view(np.recarray),
    ],
)
def test_other_layouts_are_copied_to_c_order(make: Any) -> None:
    given = make(np.arange(24, dtype=np.float32).reshape(4, 6))
    got = as_storage(given, "f32")
    np.testing.assert_array_equal(got, np.asarray(given))
    assert got.flags.c_contiguous
    assert got.flags.aligned
    assert got.dtype == np.float32
    assert got.dtype.isnative
    assert got.shape == np.asarray(given).shape
    assert type(got) is np.ndarray


def test_buffers_of_other_modules() -> None:
    assert as_storage(array.array("f", [1, 2]), "f32").tolist() == [1, 2]
    assert as_storage(b"\x01\x02", "u8").tolist() == [1, 2]
    assert as_storage((ctypes.c_int32 * 2)(5, 6), "i32").tolist() == [5, 6]
    view = np.arange(6, dtype=np.int64).data[::2]
    assert as_storage(view, "i64").tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("value", "dtype", "found"),
    [
        (np.zeros(2), "f32", "float64"),
        (np.zeros(2, np.float32), "bf16", "float32"),
        (np.zeros(2, np.uint16), "bf16", "uint16"),
        (np.zeros(2, np.int64), "i32", "int64"),
        (np.zeros(2, np.uint8), "bool", "uint8"),
        (np.zeros(2, np.uint8), "i4", "uint8"),
        (np.zeros(2, np.complex64), "f32", "complex64"),
        (np.float64(1), "f32", "float64"),
        (Tensor.from_values("f8", [1.0]), "bf16", "f8"),
        (1.5, "i32", "Python float"),
        (1.0, "i32", "Python float"),
        ([True], "i32", "Python bool"),
        (True, "f32", "Python bool"),
    ],
)
def test_no_dtype_is_converted_silently(value: Any, dtype: str, found: str) -> None:
    with pytest.raises(InputError, match=f"x: expected dtype {dtype}, found {found}") as caught:
        as_storage(value, dtype, name="x")
    assert caught.value.code == "OI0541"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "u8"),
        (-1, "u64"),
        (2**64, "u64"),
        ([2**63, -1], "i64"),
        (8, "i4"),
        (0, "t1"),
        (2, "t2"),
        (2, "bool"),
        (1e39, "f32"),
        (70000, "f16"),
        (10**400, "f32"),
        (["a"], "f32"),
        ([1, [2]], "f32"),
        ([None], "f32"),
        (np.array([9], np.int8), "i4"),
        (np.array([2], np.uint8).view(np.bool_), "bool"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, dtype: str) -> None:
    with pytest.raises(InputError) as caught:
        as_storage(value, dtype, name="x")
    assert caught.value.code == "OI0543"
    assert "x" in caught.value.message


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (1, "f32", 1.0),
        (2**70, "f32", 2.0**70),
        (0.1, "f32", np.float32(0.1)),
        (float("inf"), "f16", np.inf),
        ([[1, 2], [3, 4]], "i8", [[1, 2], [3, 4]]),
        ([2**63, 1], "u64", [2**63, 1]),
        ([2**64 - 1], "u64", [2**64 - 1]),
        ([-(2**63)], "i64", [-(2**63)]),
        ([1, 0], "bool", [True, False]),
        (True, "bool", True),
        ([], "i32", []),
        ((1.0, 2), "bf16", [1.0, 2.0]),
        ([-8, 7], "i4", [-8, 7]),
        (np.array([-8, 7], np.int8), "i4", [-8, 7]),
    ],
)
def test_numbers_and_lists_are_converted(value: Any, dtype: str, want: Any) -> None:
    np.testing.assert_array_equal(as_tensor(value, dtype).values(), want)


@pytest.mark.parametrize("value", [object(), "text", None, {1: 2}, iter([1])])
def test_things_that_are_no_array(value: Any) -> None:
    with pytest.raises(InputError) as caught:
        as_storage(value, "f32", name="x")
    assert caught.value.code in ("OI0544", "OI0541")


def test_an_exporter_that_fails_is_named() -> None:
    class Broken(Exporter):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("needs a gradient")

    with pytest.raises(InputError, match="Broken: needs a gradient"):
        as_storage(Broken(np.zeros(2)), "f64")


def test_shapes_are_checked() -> None:
    values = np.zeros((2, 3), np.float32)
    assert as_storage(values, "f32", (2, None)).shape == (2, 3)
    for shape in [(3, 2), (2,), (2, 3, 1), ()]:
        with pytest.raises(InputError, match="expected shape") as caught:
            as_storage(values, "f32", shape)
        assert caught.value.code == "OI0542"
    with pytest.raises(InputError, match=r"expected shape \[_, 4\], found \[2\]"):
        as_storage([1, 2], "i4", (None, 4))


def test_torch_types_come_in_by_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeTensor(Exporter):
        dtype = "torch.bfloat16"

        def contiguous(self) -> FakeTensor:
            return self

        def view(self, kind: str) -> Exporter:
            assert kind == "int16"
            return Exporter(self.inner.view(np.int16))

    FakeTensor.__module__ = "torch"
    module = types.ModuleType("torch")
    module.int16 = "int16"  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "torch", module)
    bits = np.array([0x3FA0, 0xC000], dtype=np.uint16)
    tensor = as_tensor(FakeTensor(bits), "bf16")
    assert tensor.values().tolist() == [1.25, -2.0]
    assert pointer(tensor.storage) == pointer(bits)
    with pytest.raises(InputError, match="found bf16"):
        as_tensor(FakeTensor(bits), "f16")


def test_tensor_of_each_dtype() -> None:
    for row in DTYPES.values():
        ones = np.full((2, 3), -1 if row.name == "i1" else 1, dtype=row.value)
        tensor = Tensor.from_values(row, ones)
        assert tensor.shape == (2, 3)
        assert tensor.nbytes == row.nbytes(6) == tensor.storage.nbytes
        np.testing.assert_array_equal(tensor.numpy(), ones)
        assert np.asarray(tensor).dtype == np.dtype(row.value)
        assert repr(tensor).startswith(f"Tensor({row}[2, 3] {{")
        if row.storage == row.value and not row.packed:
            assert np.shares_memory(tensor.numpy(), tensor.storage)
            assert dtype_of(tensor.storage) == (row if row.kind != "bitset" else DTYPES["u8"])


def test_from_values_converts_on_purpose() -> None:
    assert Tensor.from_values("i8", np.array([1.0, 2.0])).storage.tolist() == [1, 2]
    assert Tensor.from_values("bf16", np.array([1e300])).values().tolist() == [np.inf]
    assert Tensor.from_values("f8e5m2", 1.9).values() == 2.0
    for bad in (np.array([1.5]), np.array([128.0]), np.array([np.nan]), np.array([-129])):
        with pytest.raises(InputError, match="no value of i8"):
            Tensor.from_values("i8", bad)
    with pytest.raises(InputError, match="2147483648"):
        Tensor.from_values("i32", np.array([2.0**31]))
    with pytest.raises(InputError, match="unknown dtype"):
        Tensor.from_values("q9", [1])
    with pytest.raises(InputError, match="must be uint8 of shape"):
        Tensor(DTYPES["i4"], (3,), np.zeros(3, np.uint8))


def test_array_protocol_of_tensor() -> None:
    tensor = Tensor.from_values("bf16", [1.5, 2.5])
    assert np.asarray(tensor, dtype=np.float64).tolist() == [1.5, 2.5]
    assert np.array(tensor).tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="without a copy"):
        np.array(tensor, copy=False)
    plain = Tensor.from_values("f32", [1.5])
    assert np.shares_memory(np.array(plain, copy=False), plain.storage)


@pytest.mark.parametrize("dtype", ["bf16", "f8e5m2", "f8e4m3", "i4", "t1", "bool", "f32", "i64"])
def test_array_protocol_without_axes(dtype: str) -> None:
    tensor = Tensor.from_values(dtype, 1)
    for found in (tensor.values(), np.asarray(tensor), np.array(tensor, dtype=np.float64)):
        assert type(found) is np.ndarray
        assert found.shape == ()
        assert found == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros(0), "{}"),
        (np.float32(1), "{1}"),
        ([1, 2, 3, 4], "{1, 2, 3, 4}"),
        (np.arange(8), "{0, 1, 2, 3, 4, 5, 6, 7}"),
        (np.arange(9), "{0, 1 ... 7, 8}"),
        (np.arange(10).reshape(2, 5).T, "{0, 5 ... 4, 9}"),
        # Small and large numbers keep their digits: a softmax is not all zeros.
        (np.array([0.00012345, 1e-30, 123456.0, 0.25]), "{0.0001234, 1e-30, 1.235e+05, 0.25}"),
        (np.array([True, False]), "{true, false}"),
        (np.array([np.nan, -np.inf, 1.005]), "{nan, -inf, 1.005}"),
        (Tensor.from_values("i4", [-8, 7]), "{-8, 7}"),
    ],
)
def test_short_form(value: Any, text: str) -> None:
    assert format_truncated(value) == text
