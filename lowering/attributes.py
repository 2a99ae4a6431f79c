"""Attributes that lowered code is full of, each made once: making one checks it, which costs more
than the op that it stands on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute

INDEX = IndexType()

PLAIN = frozenset({StringAttr, IntegerAttr, FloatAttr})
"""Classes of attributes that name nothing: what looks for names need not look into them."""


@lru_cache(maxsize=4096)
def index_attribute(value: int) -> IntegerAttr[IndexType]:
    """A number of type `index`."""
    return IntegerAttr(value, INDEX)


@lru_cache(maxsize=256)
def vector_of(element: Attribute, lanes: int) -> VectorType:
    """A vector of one dimension."""
    return VectorType(element, [lanes])


def vector_like(kind: VectorType, element: Attribute) -> VectorType:
    """A vector of other elements, as long as one of this type."""
    shape = kind.shape.data
    return vector_of(element, shape[0].data) if len(shape) == 1 else VectorType(element, kind.shape)


@lru_cache(maxsize=4096)
def text_attribute(text: str) -> StringAttr:
    """A text."""
    return StringAttr(text)


@lru_cache(maxsize=1024)
def i32_attribute(value: int) -> IntegerAttr[IntegerType]:
    """A number of type i32."""
    return IntegerAttr(value, i32)


@lru_cache(maxsize=4096)
def i64_attribute(value: int) -> IntegerAttr[IntegerType]:
    """A number of type i64."""
    return IntegerAttr(value, i64)


def dense_i32(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """An array of i32."""
    return _dense(i32, tuple(values))


def dense_i64(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """An array of i64."""
    return _dense(i64, tuple(values))


@lru_cache(maxsize=4096)
def _dense(kind: IntegerType, values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(kind, values)
