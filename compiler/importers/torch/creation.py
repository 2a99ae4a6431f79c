"""Handlers of tensors made of nothing: ranges, constants, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import REFUSALS, Call, handles, number_of
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size

_RANDOM = ("a result that is random", "give the numbers as an input of the module")
for _name in (
    "rand rand_like randn randn_like randint randint_like randperm bernoulli normal normal_functional "
    "multinomial uniform exponential rrelu_with_noise rrelu_with_noise_functional poisson"
).split():
    REFUSALS[f"aten.{_name}"] = _RANDOM


def _number(call: Call, name: str, default: int = 0) -> Any:
    """A bound of a range: a number, or a size."""
    raw = call.raw(name)
    if raw is None:
        return default
    meta = call.reader.meta(raw)
    return meta if isinstance(meta, int | float) else call.reader.size(raw)


@handles("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(call: Call) -> Value:
    """`start + step * i`; how many there are is the shape of the result."""
    call.skip("end", "dtype")
    overload = str(call.node.target)
    start = 0 if overload.endswith("default") else _number(call, "start")
    step = _number(call, "step", 1) if overload.endswith("start_step") else 1
    if isinstance(step, Size):
        raise Refused("a range whose step is a size", "multiply a range of step 1")
    g, dtype, shape = call.g, call.dtype, list(call.dims)
    settings: dict[str, Any] = {} if dtype == "i64" else {"dtype": dtype}
    if all(isinstance(one, int) for one in (start, step)):
        settings |= {
            name: value
            for name, value in (("start", start), ("step", step))
            if value != _PLAIN[name]
        }
        found = g.op("iota", shape=shape, **settings)
        if isinstance(start, int) and start >= 0 and step >= 0:
            call.reader.nonnegative.add(found.name)
        if (start, step) == (0, 1):
            call.reader.counting[found.name] = (0, found.dims[0])
        return found
    found = g.op("iota", shape=shape, **settings)
    if step != 1:
        found = g.op("mul", found, number_of(step, dtype))
    if isinstance(start, Size):
        return g.op("add", found, call.reader.size_value(start, dtype))
    return found if start == 0 else g.op("add", found, number_of(start, dtype))


_PLAIN = {"start": 0, "step": 1}


@handles("aten.linspace.default")
def linspace(call: Call) -> Value:
    start, end = float(call.number("start")), float(call.number("end"))
    steps = call.integer("steps")
    call.skip("dtype")
    values = np.linspace(start, end, steps)
    return call.reader.constant(_typed(values, call.dtype))


def _typed(values: Any, dtype: str) -> Any:
    from openinfer.runtime.tensors import Tensor

    return Tensor.from_values(dtype, values)


def filled(call: Call, value: bool | int | float) -> Value:
    """The result's shape, full of one number."""
    return call.expand(call.reader.scalar(number_of(value, call.dtype), call.dtype), call.dims)


@handles("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(call: Call) -> Value:
    call.skip("self", "size", "dtype")
    value = call.operand("fill_value", call.dtype)
    if isinstance(value, Value):
        return call.expand(call.cast(value, call.dtype), call.dims)
    return filled(call, value)


@handles("aten.fill.Scalar", "aten.fill.Tensor")
def fill(call: Call) -> Value:
    call.skip("self")
    value = call.operand("value", call.dtype)
    if isinstance(value, Value):
        return call.expand(call.cast(value, call.dtype), call.dims)
    return filled(call, value)


@handles(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.zero.default",
    # What an empty tensor holds is undefined, so zeros will do.
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty_permuted.default",
    "aten.new_empty_strided.default",
    "aten.empty_strided.default",
)
def zeros(call: Call) -> Value:
    call.skip("self", "size", "dtype", "physical_layout", "stride")
    return filled(call, 0)


@handles("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(call: Call) -> Value:
    call.skip("self", "size", "dtype")
    return filled(call, 1)


@handles("aten.scalar_tensor.default")
def scalar_tensor(call: Call) -> Value:
    call.skip("dtype")
    value = call.operand("s", call.dtype)
    return value if isinstance(value, Value) else call.reader.scalar(value, call.dtype)


@handles("aten.eye.default", "aten.eye.m")
def eye(call: Call) -> Value:
    """Ones where the row is the column."""
    call.skip("n", "m", "dtype")
    rows, columns = call.dims
    g = call.g
    row = g.op("iota", shape=[rows, 1], axis=0)
    return call.cast(g.op("eq", row, g.op("iota", shape=[columns])), call.dtype)


@handles("aten.hann_window.default", "aten.hann_window.periodic")
def hann_window(call: Call) -> Value:
    return _cosine_window(call, 0.5)


@handles("aten.hamming_window.default", "aten.hamming_window.periodic")
def hamming_window(call: Call) -> Value:
    return _cosine_window(call, 0.54)


def _cosine_window(call: Call, alpha: float) -> Value:
    """`alpha - (1 - alpha) * cos(2 pi i / n)`; a window that is not periodic has n - 1 instead."""
    call.skip("dtype")
    length = call.integer("window_length")
    periodic = call.flag("periodic") if "periodic" in str(call.node.target) else True
    count = length if periodic else length - 1
    angles = 2 * np.pi * np.arange(length) / max(count, 1)
    values = np.ones(length) if length == 1 else alpha - (1 - alpha) * np.cos(angles)
    if call.dtype not in FLOATS:
        raise Refused("a window of integers")
    return call.reader.constant(_typed(values, call.dtype))


@handles("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(call: Call) -> Value:
    rows, columns, offset = (call.integer(name) for name in ("row", "col", "offset"))
    call.skip("dtype")
    upper = "triu" in str(call.node.target)
    found = (np.triu_indices if upper else np.tril_indices)(rows, offset, columns)
    return call.reader.constant(_typed(np.stack(found), call.dtype))
