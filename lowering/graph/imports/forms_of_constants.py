"""The functions that constants hold: a line, a triangle, or one number."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.graph.imports.forms import Boolean, Choice, Form, Integer, number_form
from openinfer.lowering.graph.imports.formulas import Formula, at_least, index, negation
from openinfer.lowering.graph.imports.uses import Array
from openinfer.runtime.sizes import Size

FARTHEST = 1 << 40
"""What is larger is no place in a tensor, and sums of such numbers might not fit into 64 bits."""


def form_of_content(array: Array) -> Form | None:
    """Of the elements of a constant: a line, a triangle, or one number."""
    if array.dtype.kind not in "biuf" or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    if bool((array == first).all()):
        return number_form(first.item())
    if array.dtype.kind in "iu":
        return _line(array)
    if array.dtype.kind == "b":
        found = _triangle_of(array)
        return None if found is None else Boolean(found)
    values = np.unique(array)
    if len(values) != 2 or 0 not in values:
        return None
    found = _triangle_of(array == 0)
    other = float(values[0] if values[1] == 0 else values[1])
    return None if found is None else Choice(found, 0.0, other)


def _line(array: Array) -> Form | None:
    """start + step * place along each axis, verified for every element; none of numbers beyond FARTHEST."""
    if any(abs(int(one)) > FARTHEST for one in (array.min(), array.max())):
        return None
    total = Size.of(int(array[(0,) * array.ndim]))
    expected = np.full(array.shape, array[(0,) * array.ndim], np.int64)
    for axis, extent in enumerate(array.shape):
        if extent < 2:
            continue
        second = tuple(int(a == axis) for a in range(array.ndim))
        step = int(array[second]) - int(array[(0,) * array.ndim])
        total = total + step * index(axis)
        shape = [extent if a == axis else 1 for a in range(array.ndim)]
        expected = expected + step * np.arange(extent).reshape(shape)
    return Integer(total) if bool((expected == array).all()) else None


def _triangle_of(array: Array) -> Formula | None:
    """column <= row + c, or the opposite, the same in all matrices."""
    if array.ndim < 2:
        return None
    rows, columns = array.shape[-2:]
    matrices = array.reshape(-1, rows, columns)
    seen = matrices[0]
    if not bool((matrices == seen).all()):
        return None
    row, column = index(array.ndim - 2), index(array.ndim - 1)
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    for lower in (True, False):
        wanted = seen if lower else ~seen
        edge = int(distance[wanted].max()) if wanted.any() else None
        if edge is not None and bool((wanted == (distance <= edge)).all()):
            found = at_least(row + edge, column)
            return found if lower else negation(found)
    return None
