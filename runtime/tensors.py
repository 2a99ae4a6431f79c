"""Tensors of every dtype, and the one place where arrays from outside are taken in.

NumPy has no bf16, f8 or packed types; `Tensor` carries those (and any other) as storage with a
dtype and a logical shape. `as_tensor` and `as_storage` accept what callers have (NumPy arrays,
`Tensor`, numbers and nested lists, DLPack exporters, anything with the buffer protocol) without a
copy where the bytes already lie as needed, and never convert a dtype silently.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from openinfer.runtime import dlpack
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.errors import InputError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import (
    AnyArray,
    block_problem,
    clear_tail,
    element_count,
    find_invalid,
    stored_shape,
    to_storage,
    to_values,
    value_range,
)

_BITS_VIEW = {"bf16": np.uint16, "f8": np.uint8, "f8e4m3": np.uint8}
# Names that ml_dtypes and torch give to types that NumPy itself lacks.
_FOREIGN = {
    "bfloat16": "bf16",
    "float8_e5m2": "f8",
    "float8_e4m3fn": "f8e4m3",
    **{f"int{bits}": f"i{bits}" for bits in (2, 4)},
    **{f"uint{bits}": f"u{bits}" for bits in (2, 4)},
}
_NATIVE = {
    np.dtype(row.storage): row.name
    for row in DTYPES.values()
    if row.storage == row.value and not row.packed and row.kind != "bitset"
}


@dataclass(frozen=True, eq=False, repr=False)
class Tensor:
    """A value of any dtype: storage plus logical shape.

    `storage` has the dtype's storage type and `shape`; packed dtypes have 1-D packed uint8, block formats
    rows of bytes.
    Raises InputError when the storage does not fit dtype and shape.
    """

    dtype: DType
    shape: tuple[int, ...]
    storage: AnyArray

    def __post_init__(self) -> None:
        problem = block_problem(self.dtype, self.shape)
        if problem:
            raise InputError("OI0542", problem, hint="blocks lie along the last axis")
        stored = stored_shape(self.dtype, self.shape)
        if self.storage.shape != stored or self.storage.dtype != np.dtype(self.dtype.storage):
            raise InputError(
                "OI0542",
                f"storage of {self.dtype}{list(self.shape)} must be {self.dtype.storage} of shape "
                f"{list(stored)}, found {self.storage.dtype} of shape {list(self.storage.shape)}",
                hint="build it from values with Tensor.from_values(dtype, array)",
            )

    @staticmethod
    def from_values(dtype: DType | str, values: Any, *, name: str = "value") -> Tensor:
        """The tensor for an array, number or nested list of values, converted on purpose.

        Floats are rounded once to nearest even. Raises InputError for values that an integer,
        bool or ternary dtype cannot hold, and for a list that is ragged or not numeric.
        """
        row = _row(dtype)
        array = _numeric(values, row, name)
        if not row.is_float:
            array = _checked_integers(array, row, name)
        return Tensor(row, array.shape, _stored(row, array))

    @property
    def size(self) -> int:
        """Number of elements."""
        return element_count(self.shape)

    @property
    def nbytes(self) -> int:
        """Number of stored bytes."""
        return self.dtype.nbytes(self.size)

    def values(self) -> AnyArray:
        """The value array of shape `shape`; shares memory for dtypes that NumPy has."""
        return to_values(self.dtype, self.storage, self.shape)

    def numpy(self) -> AnyArray:
        """The same as `values()`: zero-copy for NumPy's own dtypes, widened for others."""
        return self.values()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        array = self.values()
        if copy is False and not np.shares_memory(array, self.storage):
            raise ValueError(f"{self.dtype} values cannot be given without a copy")
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> object:
        """A DLPack capsule that shares the storage: `torch.from_dlpack(tensor)`, bf16 and f8 included.

        `options` are those of the protocol (`stream`, `max_version`, `dl_device`, `copy`). Raises
        BufferError for a packed dtype, which DLPack cannot describe.
        """
        return dlpack.exported(self.dtype, self.storage, options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Memory of the processor."""
        return (1, 0)

    def __repr__(self) -> str:
        shape = ", ".join(str(extent) for extent in self.shape)
        return f"Tensor({self.dtype}[{shape}] {format_truncated(self)})"


def dtype_of(value: Any) -> DType | None:
    """The dtype of a `Tensor` or array as it stands, None when our table has no such type."""
    if isinstance(value, Tensor):
        return value.dtype
    found: Any = getattr(value, "dtype", None)
    if not isinstance(found, np.dtype):
        return None
    name = _NATIVE.get(found.newbyteorder("="), _FOREIGN.get(found.name))
    return DTYPES[name] if name else None


def as_tensor(
    value: Any,
    dtype: DType | str,
    *,
    name: str = "value",
    shape: Sequence[int | None] | None = None,
) -> Tensor:
    """Take `value` in as a tensor of `dtype`; `shape`, with None for any extent, is checked.

    C-contiguous, aligned arrays of the right dtype are borrowed, not copied; strided, Fortran-order
    and byte-swapped ones are copied to C order. Numbers and nested lists are converted when the
    dtype can represent them. Packed dtypes take their value arrays (int8, uint8) with a range
    check. Raises InputError for a wrong dtype or shape, or a value that is no array.
    """
    row = _row(dtype)
    if isinstance(value, bool | int | float | list | tuple) and not isinstance(value, np.generic):
        tensor = _from_python(cast(Any, value), row, name)
    else:
        found = value if isinstance(value, Tensor) else _outside(value, name)
        tensor = _taken(found, row, name, torch=_is_torch(value))
    if shape is not None:
        _check_shape(tensor, shape, name)
    problem = find_invalid(row, tensor.storage, tensor.size)
    if problem:
        raise InputError("OI0543", f"{name}: {problem}", hint="build it with Tensor.from_values")
    return tensor


def taken(value: Any, *, name: str = "value") -> Tensor:
    """An array from outside as a tensor of the dtype that it has; see `as_tensor` for what is borrowed.

    A torch tensor that needs a gradient is taken without it. Raises InputError for what is no array, lies
    in other memory than the processor's, or has a dtype that our table lacks.
    """
    if _is_torch(value) and getattr(value, "requires_grad", False):
        value = value.detach()
    found = value if isinstance(value, Tensor) else _outside(value, name)
    row = dtype_of(found)
    if row is None:
        raise InputError(
            "OI0541",
            f"{name}: there is no dtype for {getattr(found, 'dtype', type(found).__name__)}",
            hint=f"known dtypes: {', '.join(DTYPES)}",
        )
    return as_tensor(found, row, name=name)


def is_array(value: object) -> bool:
    """Whether a value is an array of this or another library, as opposed to a number or a list."""
    return isinstance(value, np.ndarray | Tensor) or (
        hasattr(value, "__dlpack__") and not isinstance(value, np.generic)
    )


def as_storage(
    value: Any,
    dtype: DType | str,
    shape_hint: Sequence[int | None] | None = None,
    *,
    name: str = "value",
) -> AnyArray:
    """The storage array of `as_tensor`: C-contiguous, aligned, native byte order."""
    return as_tensor(value, dtype, name=name, shape=shape_hint).storage


def format_truncated(value: Any) -> str:
    """Short form of an array: all values when at most eight, else the first two and last two.

    Floats have four significant digits: `{0.0001234, 1 ... 9, 1.25e+20}`.
    """
    array: AnyArray = value.values() if isinstance(value, Tensor) else np.asarray(value)
    flat = array.flat
    if array.size <= 8:
        return "{" + ", ".join(_short(flat[i]) for i in range(array.size)) + "}"
    first, last = (", ".join(_short(flat[i]) for i in pair) for pair in ((0, 1), (-2, -1)))
    return "{" + f"{first} ... {last}" + "}"


def _short(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.4g}"
    return str(value).lower() if isinstance(value, bool | np.bool_) else str(value)


def _row(dtype: DType | str) -> DType:
    if isinstance(dtype, DType):
        return dtype
    try:
        return find_dtype(dtype)
    except KeyError:
        raise InputError(
            "OI0541", f"unknown dtype {dtype!r}", hint=f"known dtypes: {', '.join(DTYPES)}"
        ) from None


def _wrong_dtype(name: str, row: DType, found: str, *, torch: bool = False) -> InputError:
    if torch:
        hint = _torch_hint(row)
    elif row.packed or row.name in _BITS_VIEW:
        hint = f'convert it on purpose: Tensor.from_values("{row}", array)'
    elif row.kind == "bool":
        hint = "convert it on purpose: array != 0"
    else:
        hint = f"convert it on purpose: array.astype(numpy.{row.storage})"
    return InputError("OI0541", f"{name}: expected dtype {row}, found {found}", hint=hint)


def _torch_hint(row: DType) -> str:
    """How a torch tensor of another dtype is converted; torch itself is not asked."""
    kinds = {"bf16": "bfloat16", "f8": "float8_e5m2", "f8e4m3": "float8_e4m3fn"}
    kind = kinds.get(row.name, row.storage)
    if row.packed:
        return f'convert it on purpose: Tensor.from_values("{row}", tensor.detach().cpu().numpy())'
    return f"convert it on purpose: tensor.to(torch.{kind}), or use tensor.detach().cpu().numpy()"


def _is_torch(value: Any) -> bool:
    """Whether a value is a torch tensor, by the module of its class."""
    return type(value).__module__.partition(".")[0] == "torch"


def _check_shape(tensor: Tensor, expected: Sequence[int | None], name: str) -> None:
    same = len(expected) == len(tensor.shape) and all(
        want is None or want == have for want, have in zip(expected, tensor.shape)
    )
    if not same:
        wanted = ", ".join("_" if extent is None else str(extent) for extent in expected)
        raise InputError(
            "OI0542",
            f"{name}: expected shape [{wanted}], found {list(tensor.shape)}",
            hint="reshape the array, or change the declaration",
        )


def _stored(row: DType, array: AnyArray) -> AnyArray:
    return np.require(to_storage(row, array), dtype=row.storage, requirements=["C", "A"])


def _numeric(values: Any, row: DType, name: str) -> AnyArray:
    """`values` as an array of numbers; Python integers keep their exact value."""
    try:
        array: AnyArray = np.asarray(values)
        if not isinstance(values, np.ndarray) and (
            array.dtype.kind == "O" or (array.dtype.kind == "f" and not row.is_float)
        ):
            # NumPy turns integers that fit no common type into floats: look at them one by one.
            exact: AnyArray = np.asarray(values, dtype=object)
            if row.is_float and all(isinstance(x, int | float) for x in exact.flat):
                array = exact.astype(np.float64)
            elif all(isinstance(x, int) for x in exact.flat):
                unsigned = all(x >= 0 for x in exact.flat)
                array = exact.astype(np.uint64 if unsigned else np.int64)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(
            "OI0543",
            f"{name}: no array of {row} can be made of it: {error}",
            hint="give numbers, nested in lists of equal length",
        ) from None
    if array.dtype.kind not in "fiub":
        raise InputError(
            "OI0543",
            f"{name}: expected numbers for {row}, found elements of type {array.dtype}",
            hint="give numbers, nested in lists of equal length",
        )
    return array


def _checked_integers(array: AnyArray, row: DType, name: str) -> AnyArray:
    """Integers or integral floats that `row` can hold. Raises InputError for any other."""
    if array.size == 0:
        return array.astype(row.value)
    low, high = value_range(row) or (0, 0)
    bad: AnyArray
    if array.dtype.kind == "f":
        # high + 1 is a power of two for the wide types, so the comparison is exact.
        bad = ~((array >= low) & (array < float(high) + 1) & (array == np.floor(array)))
    else:
        bad = np.zeros(array.shape, dtype=bool)
        if int(array.min()) < low or int(array.max()) > high:
            bad = np.asarray([not low <= int(x) <= high for x in array.flat]).reshape(array.shape)
    if row.name == "t1":
        bad = bad | (array == 0)
    if bad.any():
        value = array[bad].flat[0]
        allowed = "-1 or 1" if row.name == "t1" else f"an integer in {low}..{high}"
        raise InputError(
            "OI0543",
            f"{name}: {value} is no value of {row}, which takes {allowed}",
            hint="scale, round or clip the values first",
        )
    return array.astype(row.value)


def _from_python(value: Any, row: DType, name: str) -> Tensor:
    array = _numeric(value, row, name)
    if array.size and array.dtype.kind == "b" and row.kind != "bool":
        raise _wrong_dtype(name, row, "Python bool")
    if array.size and array.dtype.kind == "f" and not row.is_float:
        raise _wrong_dtype(name, row, "Python float")
    tensor = Tensor.from_values(row, array, name=name)
    if row.is_float:
        lost: AnyArray = np.isfinite(array.astype(np.float64)) & ~np.isfinite(tensor.values())
        if lost.any():
            raise InputError(
                "OI0543",
                f"{name}: {array[lost].flat[0]} is too large for {row}",
                hint="use a wider dtype, or write inf",
            )
    return tensor


def _taken(found: Tensor | AnyArray, row: DType, name: str, *, torch: bool) -> Tensor:
    """A tensor or array from outside as `row`, sharing memory when it lies as storage does."""
    if isinstance(found, Tensor):
        if found.dtype != row:
            raise _wrong_dtype(name, row, str(found.dtype), torch=torch)
        storage = np.require(found.storage, requirements=["C", "A"])
        return Tensor(row, found.shape, clear_tail(row, storage, found.size))
    array = found
    foreign = _FOREIGN.get(array.dtype.name)
    if row.packed:
        if foreign == row.name or array.dtype == np.dtype(row.value):
            return Tensor.from_values(row, array.astype(row.value, copy=False), name=name)
        raise _wrong_dtype(name, row, str(array.dtype), torch=torch)
    if row.name in _BITS_VIEW:
        if foreign != row.name:
            raise _wrong_dtype(name, row, str(array.dtype), torch=torch)
        array = np.asarray(array, order="C").view(_BITS_VIEW[row.name])
    elif array.dtype.newbyteorder("=") != np.dtype(row.storage):
        raise _wrong_dtype(name, row, str(array.dtype), torch=torch)
    storage = np.require(array, dtype=row.storage, requirements=["C", "A"])
    return Tensor(row, storage.shape, storage)


def _outside(value: Any, name: str) -> Tensor | AnyArray:
    """An array from outside, sharing its memory. Raises InputError when `value` is none."""
    if value is None:
        raise InputError(
            "OI0544",
            f"{name}: expected an array, found None",
            hint="give a NumPy array, a Tensor, a number or a list; leave out what was inserted "
            "before",
        )
    if isinstance(value, np.ndarray):
        return np.asarray(cast(AnyArray, value))  # as the base class: a matrix would stay 2-D
    try:
        if not isinstance(value, np.generic) and hasattr(value, "__dlpack__"):
            return _from_torch(value) or _from_dlpack(value)
        if isinstance(value, np.generic) or hasattr(value, "__array__"):
            return np.asarray(value)
        if not isinstance(value, str):
            return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise InputError(
            "OI0544",
            f"{name}: cannot take the memory of {kind}: {error}",
            hint="give tensor.detach().cpu().numpy()"
            if _is_torch(value)
            else "give a NumPy array, or an array in CPU memory that needs no gradient",
        ) from None
    raise InputError(
        "OI0544",
        f"{name}: expected an array, found {type(value).__qualname__}",
        hint="give a NumPy array, a Tensor, a number, a list, or an object with DLPack",
    )


def _from_dlpack(value: Any) -> Tensor | AnyArray:
    """What another library exports; a `Tensor` where NumPy lacks its type."""
    array, dtype = dlpack.imported(value)
    return array if dtype is None else Tensor(dtype, array.shape, array)


def _from_torch(value: Any) -> Tensor | None:
    """A torch tensor of a type that not every torch exports, by its bits; None for any other."""
    torch: Any = sys.modules.get("torch")
    kind = _FOREIGN.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    if torch is None or not _is_torch(value) or kind not in _BITS_VIEW:
        return None
    plain = torch.int16 if kind == "bf16" else torch.uint8
    bits: AnyArray = np.from_dlpack(value.contiguous().view(plain))
    return Tensor(DTYPES[kind], bits.shape, bits.view(_BITS_VIEW[kind]))
