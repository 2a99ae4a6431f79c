"""Values of an ONNX graph while it is read: tensors of the program, or contents that are known.

Shapes are arithmetic in ONNX: `Shape`, `Gather`, `Mul`, `Concat`, `Reshape`. An item may hold its content,
numbers or sizes of the program (`[B, L, 384]`), and becomes a tensor only where an op reads it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.dialects.ops.base import NameRef
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import dtype_of

Array = np.ndarray[Any, Any]
Number = int | Size


@dataclass(eq=False)
class Item:
    """A value of the ONNX graph. `content` is an array of numbers, or of `Size` and int objects."""

    name: str
    dtype: str
    dims: tuple[Size, ...]
    content: Array | None = None
    tensor: Value | None = None
    make: Callable[[Item], Value] | None = field(default=None, repr=False)
    """Writes the tensor, once it is needed."""
    fold: Callable[[], Array | None] | None = field(default=None, repr=False)
    """Computes the content of what only constants went into, once it is needed."""
    inputs: frozenset[str] = frozenset()
    """Inputs of the model that the value depends on."""
    weight: bool = False
    """Whether it is an initializer of the model."""

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def value(self) -> Value:
        """The item as a tensor of the program."""
        if self.tensor is None:
            assert self.make is not None
            self.tensor = self.make(self)
        return self.tensor

    @property
    def symbolic(self) -> bool:
        """Whether the content has sizes in it."""
        return self.content is not None and self.content.dtype == object

    def known(self) -> Array | None:
        """The content, computed if constants alone went into it; None for what only a step knows."""
        if self.content is None and self.fold is not None:
            self.content = self.fold()
            self.fold = None
        return self.content

    def numbers(self) -> Array | None:
        """The content where it is plain numbers."""
        content = self.known()
        return None if content is None or content.dtype == object else content


def of_value(name: str, value: Value, inputs: frozenset[str] = frozenset()) -> Item:
    """An item for a tensor of the program."""
    return Item(name, value.dtype, value.dims, None, value, inputs=inputs)


def of_content(name: str, content: Array, dtype: str, make: Callable[[Item], Value]) -> Item:
    """An item whose content is known."""
    dims = tuple(Size.of(extent) for extent in content.shape)
    return Item(name, dtype, dims, content, None, make)


def sizes_array(values: Sequence[Number]) -> Array:
    """A vector of sizes: an array of numbers if all of them are numbers."""
    return tidy(_objects(list(values)))


def _objects(values: list[Number]) -> Array:
    array = np.empty(len(values), object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def tidy(array: Array, dtype: str = "i64") -> Array:
    """An array of objects as one of numbers where no size is left in it."""
    if array.dtype != object:
        return array
    flat: list[Any] = [number_of(one) for one in array.reshape(-1)]
    if any(isinstance(one, Size) for one in flat):
        result = np.empty(array.shape, object)
        result.reshape(-1)[:] = flat
        return result
    return np.array(flat, numpy_dtype(dtype)).reshape(array.shape)


def number_of(value: Any) -> Any:
    """A size that is a number, as one."""
    if isinstance(value, Size) and value.constant is not None:
        return value.constant
    return value.item() if isinstance(value, np.generic) else value


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of NumPy, or of ml_dtypes, that holds the values of one of ours as ONNX gives them."""
    return np.dtype(_NUMPY.get(dtype) or DTYPES[dtype].value)


_NUMPY: dict[str, Any] = {}


def use_ml_dtypes() -> None:
    """Makes NumPy know the narrow floats and integers; ONNX brings the package."""
    import ml_dtypes

    _NUMPY.update(
        bf16=ml_dtypes.bfloat16,
        f8=ml_dtypes.float8_e5m2,
        f8e4m3=ml_dtypes.float8_e4m3fn,
        i4=ml_dtypes.int4,
        u4=ml_dtypes.uint4,
        i2=ml_dtypes.int2,
        u2=ml_dtypes.uint2,
    )


def our_dtype(array: Array) -> str | None:
    """What we call the dtype of an array; None for one that we lack."""
    named = {"int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2"}.get(array.dtype.name)
    if named:
        return named
    row = dtype_of(array)
    return row.name if row is not None else None


def write_content(g: GraphWriter, item: Item, ref: str) -> Value:
    """The content of an item as a tensor of the program."""
    content = item.content
    assert content is not None
    if content.dtype != object:
        return g.weight(ref, content, item.dtype, content.shape)
    parts = [_write_size(g, one, item.dtype) for one in content.reshape(-1)]
    joined = g.op("concat", *parts, axis=0) if len(parts) > 1 else parts[0]
    return joined if item.rank == 1 else g.op("reshape", joined, shape=list(content.shape))


def _write_size(g: GraphWriter, value: Number, dtype: str) -> Value:
    """A size as a tensor of one element: integer arithmetic on the sizes of inputs."""
    size = Size.of(value)
    total: Value | None = None
    for monomial, coefficient in size.terms:
        term: Value | None = None
        for atom in monomial:
            factor = _write_atom(g, atom, dtype)
            term = factor if term is None else g.op("mul", term, factor)
        if term is None:
            term = g.op("iota", shape=[1], start=coefficient, dtype=dtype)
        elif coefficient != 1:
            term = g.op("mul", term, coefficient)
        total = term if total is None else g.op("add", total, term)
    return g.op("iota", shape=[1], dtype=dtype) if total is None else total


def _write_atom(g: GraphWriter, atom: tuple[object, ...], dtype: str) -> Value:
    kind, *parts = atom
    if kind == "name":
        return g.op("iota", shape=[1], start=NameRef(str(parts[0])), dtype=dtype)
    operands = [_write_size(g, part, dtype) for part in parts if isinstance(part, Size)]
    result = operands[0]
    for operand in operands[1:]:
        result = g.op("floor_div" if kind == "floordiv" else str(kind), result, operand)
    return result
