"""What a package holds besides plain arrays, for reading and for writing.

The same classes describe content in both directions: a reader returns `ScalarValue`, `Bitset`,
`QuantParams` and so on, and the writer takes them (`oinf_writer.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.dtypes import DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.tensors import Tensor


@dataclass(frozen=True)
class SizeVar:
    """A named size: an integer >= 0."""

    value: int


@dataclass(frozen=True)
class ScalarValue:
    """A metadata number or bool.

    `dtype` is a dtype, its name, or None: then the writer takes the smallest integer type that
    fits, f32 for a float. Readers always fill it.
    """

    value: bool | int | float
    dtype: DType | str | None = None

    def __repr__(self) -> str:
        return f"ScalarValue({self.value!r}, {self.dtype})"


class Bitset:
    """A metadata bit array of any length."""

    def __init__(self, bits: Iterable[bool | int]) -> None:
        self.bits: NDArray[np.bool_] = np.array([bool(bit) for bit in bits], dtype=np.bool_)

    @staticmethod
    def from_bytes(data: bytes | memoryview, count: int) -> Bitset:
        """`count` bits from bytes, least significant bit first."""
        result = Bitset(())
        raw = np.frombuffer(data, dtype=np.uint8)
        result.bits = np.unpackbits(raw, count=count, bitorder="little").astype(np.bool_)
        return result

    def to_bytes(self) -> bytes:
        """The bits packed, least significant bit first, the last byte padded with zeros."""
        return np.packbits(self.bits, bitorder="little").tobytes()

    def __len__(self) -> int:
        return self.bits.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bitset) and np.array_equal(self.bits, other.bits)

    def __hash__(self) -> int:
        return hash((len(self), self.to_bytes()))

    def __repr__(self) -> str:
        shown = "".join("1" if bit else "0" for bit in self.bits[:64])
        return f"Bitset({shown}{'…' if len(self) > 64 else ''})"


MetadataValue: TypeAlias = ScalarValue | str | Bitset | Tensor
"""A metadata entry: a number or bool, a text, a bit array, or an array."""


@dataclass(frozen=True, eq=False)
class QuantScale:
    """Scales of a quantised tensor: one, or one per index of `axis`.

    The two constructors raise PackageError OI0412 for what are no numbers.
    """

    mode: str
    """"per_tensor" or "per_channel"."""
    axis: int
    values: NDArray[np.float32]

    @staticmethod
    def per_tensor(value: float) -> QuantScale:
        return QuantScale("per_tensor", 0, _scales([value]))

    @staticmethod
    def per_channel(axis: int, values: Sequence[float] | NDArray[Any]) -> QuantScale:
        return QuantScale("per_channel", axis, _scales(values))


@dataclass(frozen=True, eq=False)
class QuantZeroPoint:
    """Zero points of an asymmetrically quantised tensor.

    One for a scale per tensor, or one per index of the scale's axis (0 for a scale per tensor).
    """

    mode: str
    axis: int
    values: NDArray[np.int32]

    @staticmethod
    def per_tensor(value: int) -> QuantZeroPoint:
        return QuantZeroPoint("per_tensor", 0, _zero_points([value]))

    @staticmethod
    def per_channel(axis: int, values: Sequence[int] | NDArray[Any]) -> QuantZeroPoint:
        return QuantZeroPoint("per_channel", axis, _zero_points(values))


@dataclass(frozen=True, eq=False)
class QuantParams:
    """How a tensor was quantised: `real = scale * (stored - zero_point)`."""

    scheme: str
    """"symmetric" or "asymmetric"."""
    scale: QuantScale
    zero_point: QuantZeroPoint | None = None

    def problem(self, shape: Sequence[int]) -> str | None:
        """Why these parameters do not fit a tensor of `shape`, or None when they do."""
        if self.scheme not in ("symmetric", "asymmetric"):
            return f"scheme must be symmetric or asymmetric, found {self.scheme!r}"
        wrong = _layout_problem("scale", self.scale, shape)
        if wrong or self.zero_point is None:
            return wrong
        if self.scheme == "symmetric":
            return "symmetric quantisation has no zero_point"
        if self.zero_point.mode == "per_tensor" and self.scale.mode != "per_tensor":
            return "a per_tensor zero_point needs a per_tensor scale"
        if self.zero_point.axis != self.scale.axis:
            return f"zero_point must have the axis of scale, {self.scale.axis}"
        return _layout_problem("zero_point", self.zero_point, shape)


def _scales(values: Any) -> NDArray[np.float32]:
    try:
        array = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise _no_numbers("scales", values) from error
    if array.ndim != 1:
        raise _no_numbers("scales", values)
    return array


def _zero_points(values: Any) -> NDArray[np.int32]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise _no_numbers("zero points", values) from error
    limits = np.iinfo(np.int32)
    whole = array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)
    if not whole or (array.size and not (limits.min <= array.min() and array.max() <= limits.max)):
        raise _no_numbers("zero points", values, "whole numbers of 32 bits")
    return array.astype(np.int32)


def _no_numbers(what: str, values: Any, wanted: str = "numbers") -> PackageError:
    return PackageError(
        "OI0412", f"{what} {values!r:.60} are no list of {wanted}", hint=f"give {wanted}"
    )


def _layout_problem(
    field: str, part: QuantScale | QuantZeroPoint, shape: Sequence[int]
) -> str | None:
    count = part.values.size
    if part.mode == "per_tensor":
        if part.axis != 0 or count != 1:
            return f"per_tensor {field} takes axis 0 and one value, found {part.axis} and {count}"
    elif part.mode == "per_channel":
        if not 0 <= part.axis < len(shape):
            return f"{field} axis {part.axis} is outside the shape {list(shape)}"
        if count != shape[part.axis]:
            return f"{field} takes {shape[part.axis]} values for axis {part.axis}, found {count}"
    else:
        return f"{field} mode must be per_tensor or per_channel, found {part.mode!r}"
    return None


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """A tensor to write: data with an optional dtype, name and quantisation record.

    `data` is an array, a nested list or a `Tensor`; with `dtype` its values are converted on
    purpose, without it a list takes the NumPy dtype of its elements (floats: f64).
    """

    data: Any
    dtype: DType | str | None = None
    name: str | None = None
    quant: QuantParams | None = None


@dataclass(frozen=True, eq=False)
class UninitializedTensor:
    """A tensor that is declared without data."""

    dtype: DType | str
    shape: tuple[int, ...]
    name: str | None = None
    quant: QuantParams | None = None
