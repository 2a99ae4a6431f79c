"""Angles of rotary embeddings: a position times a frequency, however an export arranges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openinfer.dialects.graph import LiteralAttr, Operand, OpOp
from openinfer.dialects.ops.layout import permutation
from openinfer.lowering.graph.imports.forms import Integer
from openinfer.lowering.graph.imports.formulas import index
from openinfer.lowering.graph.imports.index_functions import IndexFunctions
from openinfer.lowering.graph.imports.uses import Array, kind, settings_of
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Angle:
    """`position * frequencies[place along the axis]`."""

    position: Size
    """Over places, as `index_functions.py` writes them."""
    frequencies: Array
    """One number, or one for each place along `axis`, as f64."""
    axis: int | None = None


def angle(functions: IndexFunctions, operand: Operand, depth: int = 16) -> Angle | None:
    """The angle that an operand holds; None for what is no such product."""
    uses = functions.uses
    if isinstance(operand, LiteralAttr):
        return Angle(Size.of(1), np.asarray(operand.number, np.float64))
    content, spec = uses.content(operand), uses.spec(operand)
    if spec is None or depth == 0:
        return None
    if content is not None and content.dtype.kind == "f":
        return _frequencies(content)
    op = uses.definition(operand)
    if op is None or len(op.outputs.data) != 1:
        return None
    name, settings = kind(op), settings_of(op)
    if name == "cast":
        size = functions.integer(op.inputs.data[0])
        if size is not None:
            return Angle(size, np.asarray(1.0))
        return angle(functions, op.inputs.data[0], depth - 1)
    if name == "iota" and spec.rank == 1:
        return Angle(settings["start"] + settings["step"] * index(0), np.asarray(1.0))
    if name in ("mul", "matmul"):
        return _product(functions, op, depth)
    if name == "einsum" and settings["equation"].replace(" ", "") == "i,j->ij":
        parts = [angle(functions, one, depth - 1) for one in op.inputs]
        if parts[0] is None or parts[1] is None:
            return None
        return _joined(parts[0], _moved(functions, parts[1], {0: index(1)}))
    if name == "concat":
        return _repeated(functions, op, settings["axis"] % spec.rank, depth)
    source = uses.dims(op.inputs.data[0]) if op.inputs.data else None
    places = None if source is None else _places(op, name, source, spec.dims)
    if places is None:
        return None
    inner = angle(functions, op.inputs.data[0], depth - 1)
    return None if inner is None else _moved(functions, inner, places)


def _places(
    op: OpOp, name: str, before: Sequence[Size], after: Sequence[Size]
) -> dict[int, Size] | None:
    """Where the axes of an operand stand in the result of an op that only arranges."""
    if name in ("transpose", "permute"):
        order = permutation(len(before), settings_of(op))
        return {old: index(new) for new, old in enumerate(order)}
    if name == "expand":
        return stretch(before, len(after))
    if name in ("reshape", "unsqueeze", "squeeze"):
        old = [axis for axis, dim in enumerate(before) if dim.constant != 1]
        new = [axis for axis, dim in enumerate(after) if dim.constant != 1]
        if [before[axis] for axis in old] != [after[axis] for axis in new]:
            return None
        return {axis: Size.of(0) for axis in range(len(before))} | {
            a: index(b) for a, b in zip(old, new)
        }
    return None


def stretch(dims: Sequence[Size], rank: int) -> dict[int, Size]:
    """Where the axes of an operand stand in a shape that it is stretched to."""
    lead = rank - len(dims)
    return {
        axis: Size.of(0) if dim.constant == 1 else index(axis + lead)
        for axis, dim in enumerate(dims)
    }


def _frequencies(content: Array) -> Angle | None:
    axes = [axis for axis, extent in enumerate(content.shape) if extent != 1]
    if len(axes) > 1:
        return None
    values = content.reshape(-1).astype(np.float64)
    if not axes:
        return Angle(Size.of(1), values.reshape(()))
    return Angle(Size.of(1), values, axes[0])


def _moved(functions: IndexFunctions, found: Angle, places: Mapping[int, Size]) -> Angle | None:
    form = functions.substitute(Integer(found.position), places)
    assert isinstance(form, Integer)
    if found.axis is None:
        return replace(found, position=form.value)
    name = places.get(found.axis, index(found.axis)).single_name
    if name is None:
        return None
    return Angle(form.value, found.frequencies, int(name[1:]))


def _joined(left: Angle | None, right: Angle | None) -> Angle | None:
    """The product of two."""
    if left is None or right is None:
        return None
    if left.axis is not None and right.axis is not None:
        return None
    axis = left.axis if left.axis is not None else right.axis
    return Angle(left.position * right.position, left.frequencies * right.frequencies, axis)


def _product(functions: IndexFunctions, op: OpOp, depth: int) -> Angle | None:
    uses = functions.uses
    rank = len(uses.dims(op.outputs.data[0]) or ())
    parts: list[Angle | None] = []
    for place, operand in enumerate(op.inputs):
        dims = uses.dims(operand) or ()
        found = angle(functions, operand, depth - 1)
        if found is None:
            return None
        places = stretch(dims, rank)
        if kind(op) == "matmul":
            settings: dict[str, Any] = settings_of(op)
            inner = len(dims) - (1 if place == 0 else 2)
            if len(dims) < 2 or settings["transpose_a"] or settings["transpose_b"]:
                return None
            if dims[inner].constant != 1:
                return None
        parts.append(_moved(functions, found, places))
    return _joined(parts[0], parts[1])


def _repeated(functions: IndexFunctions, op: OpOp, axis: int, depth: int) -> Angle | None:
    """The same position with one part of the frequencies behind the other."""
    parts: list[Angle] = []
    for operand in op.inputs:
        found, dims = angle(functions, operand, depth - 1), functions.uses.dims(operand)
        if found is None or dims is None:
            return None
        if found.axis is None and dims[axis].constant == 1:
            found = Angle(found.position, found.frequencies.reshape(1), axis)
        if found.axis != axis or (parts and found.position != parts[0].position):
            return None
        parts.append(found)
    return replace(parts[0], frequencies=np.concatenate([one.frequencies for one in parts]))


def base_of(frequencies: Array) -> float | None:
    """The base whose `base ** (-2 * i / dims)` these are, each verified to 1e-5; None without one."""
    count = len(frequencies)
    if count == 0 or (frequencies <= 0).any():
        return None
    exponents = np.arange(count) / count
    if count == 1:
        return 10000.0 if abs(frequencies[0] - 1) < 1e-6 else None
    found = float(frequencies[-1] ** (-1 / exponents[-1]))
    for base in (float(round(found, -1)), float(round(found)), found):
        if base > 0 and np.allclose(base**-exponents, frequencies, rtol=1e-5, atol=0):
            return base
    return None
