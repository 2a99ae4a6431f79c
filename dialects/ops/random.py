"""Random numbers that depend on a seed and a position alone.

The generator is SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: "Fast splittable pseudorandom number
generators", OOPSLA 2014), read at any place: element i of a tensor is output i of the sequence that
starts at the mixed seed, so elements need no order. Its top bits, as many as the significand of the
dtype has, are the fraction u, and `low + u * (high - low)` is computed in f32, or f64 for f64.

`multinomial` compares integers, so that every device draws the same: what stands for a probability p is its
weight `p / max p`, divided in f32 (f64 for f64), times 2**WEIGHT_BITS and cut to an integer. With T the sum
of a row's weights and r the output of the generator at the sample's row-major position, the sample is the
first index up to which the weights add up to more than `floor(r * T / 2**64)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from openinfer.dialects.ops.base import (
    FLOATS,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_size,
    as_sizes,
    not_negative,
)

GAMMA: Final = 0x9E3779B97F4A7C15
"""What the state of the generator grows by."""
STEPS: Final[tuple[tuple[int, int | None], ...]] = (
    (30, 0xBF58476D1CE4E5B9),
    (27, 0x94D049BB133111EB),
    (31, None),
)
"""Shifts and factors of the mixing function; the last step only shifts."""
SIGNIFICANDS: Final = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8": 3, "f8e4m3": 4}
"""Bits of the significand of each float dtype, the leading one included."""


WEIGHT_BITS: Final = 38
"""The largest weight of a row is 2 to that power."""
MOST_CHOICES: Final = 1 << 24
"""How many weights there may be, so that their sum is an i64."""


def _multinomial(
    operands: Sequence[TensorSpec], settings: Mapping[str, object]
) -> list[TensorSpec]:
    (x,) = operands
    if x.rank < 1:
        raise ShapeError(f"the probabilities are {x}", "they are `[…, K]`, a row for each draw")
    choices = x.dims[-1].constant
    if choices is not None and not 1 <= choices <= MOST_CHOICES:
        raise ShapeError(
            f"there are {choices} probabilities in a row of {x}", f"use 1 to {MOST_CHOICES}"
        )
    samples = as_size(settings["samples"], "samples")
    not_negative([samples], "samples")
    return [TensorSpec("i64", (*x.dims[:-1], samples))]


def _uniform(operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> list[TensorSpec]:
    declared = settings.get("declared")
    spec = declared[0] if isinstance(declared, tuple) and declared else None
    dtype = settings["dtype"]
    if dtype is None:
        dtype = spec.dtype if isinstance(spec, TensorSpec) else "f32"
    if dtype not in FLOATS:
        raise OpDTypeError(f"random_uniform does not give {dtype}", f"use {', '.join(FLOATS)}")
    low, high = settings["low"], settings["high"]
    if isinstance(low, int | float) and isinstance(high, int | float) and not low <= high:
        raise SettingError("high", f"high={high} lies below low={low}")
    shape = settings["shape"]
    if shape is not None:
        sizes = as_sizes(shape, "shape")
        not_negative(sizes, "shape")
        return [TensorSpec(str(dtype), sizes)]
    if not isinstance(spec, TensorSpec) or any(d.single_name == "_" for d in spec.dims):
        raise ShapeError(
            "the shape of random_uniform is that of its output, which is not declared",
            "declare the output with all its dimensions, or give `shape=[…]`",
        )
    return [TensorSpec(str(dtype), spec.dims)]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "random_uniform",
        (),
        _uniform,
        "Numbers from `low` on and below `high` (rounding may reach it), spread evenly: a function "
        "of the seed and of the element's row-major position, the same on every device and for "
        "every number of threads. The shape is that of the declared output.",
        "random",
        FLOATS,
        (
            Setting("seed", "int", 0, "another seed gives other numbers"),
            Setting("low", "float", 0.0, "the smallest number", ("min",)),
            Setting("high", "float", 1.0, "the end of the range", ("max",)),
            Setting("shape", "ints", None, "the shape; default that of the declared output"),
            Setting("dtype", "dtype", None, "the dtype; default that of the declared output"),
        ),
    ),
    OpSpec(
        "multinomial",
        ("probabilities",),
        _multinomial,
        "`samples` indices into each row of the probabilities `[…, K]`, drawn with replacement, as i64: a "
        "function of the seed and of the sample's row-major position, the same on every device. A row need "
        "not add up to 1; what is not above 0 (NaN too) or below about 2**-38 of the largest one is never "
        "drawn, and a row that has nothing else gives -1.",
        "random",
        FLOATS,
        (
            Setting("samples", "size", 1, "draws for each row", ("num_samples", "sample_size")),
            Setting("seed", "int", 0, "another seed gives other indices"),
        ),
    ),
)
