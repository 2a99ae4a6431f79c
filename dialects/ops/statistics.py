"""Reductions that are made of others: spread, log of a sum of powers, truth of some or all elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    NUMBERS,
    Infer,
    OpSpec,
    Setting,
    SettingError,
    TensorSpec,
    as_bool,
    as_int,
    normal_axes,
)
from openinfer.dialects.ops.reduce import AXES, KEEP, reduced_dims

_CORRECTION = Setting(
    "correction",
    "int",
    1,
    "what is taken off the number of elements that the sum is divided by: 0 for all of a population",
    aliases=("ddof",),
)


def _reduced(result: str | None = None) -> Infer:
    def infer(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
        (x,) = operands
        axes = normal_axes(settings["axes"], x.rank)
        if not axes:
            raise SettingError("axes", "axes is empty", "name at least one axis: `axes=[-1]`")
        if "correction" in settings:
            as_int(settings["correction"], "correction")
        dims = reduced_dims(x, axes, as_bool(settings["keepdims"], "keepdims"))
        return [TensorSpec(result or x.dtype, dims)]

    return infer


def _of_floats(name: str, doc: str, *settings: Setting) -> OpSpec:
    return OpSpec(name, ("x",), _reduced(), doc, "reduce", FLOATS, (AXES, KEEP, *settings))


def _of_truths(name: str, doc: str) -> OpSpec:
    dtypes = (*NUMBERS, "bool")
    return OpSpec(name, ("x",), _reduced("bool"), doc, "reduce", dtypes, (AXES, KEEP))


SPECS: tuple[OpSpec, ...] = (
    _of_floats(
        "logsumexp",
        "`log(sum(exp(x)))` over axes, from the largest element on, so that nothing overflows; -inf of "
        "nothing.",
    ),
    _of_floats(
        "var",
        "`sum((x - mean) * (x - mean)) / (n - correction)` over axes of n elements; NaN where n is 0, and "
        "what is not above the correction divides by 0.",
        _CORRECTION,
    ),
    _of_floats("std", "The square root of `var`.", _CORRECTION),
    _of_truths("any", "Whether an element over axes is not 0; NaN counts as true."),
    _of_truths("all", "Whether no element over axes is 0; NaN counts as true."),
)
