"""How far a correct result may lie from the simulator's: found by running it with small errors.

A compiled program computes the same real numbers in another order, and contracts `a * b + c`. So a
step is simulated a few times more, and each op that may be rounded in another way gets operands and
results that are off by as much as its documented tolerance (`tests/cases/case.py`): two units of
f32, or of f64. What that does to a value, through everything that follows, is what it may be off by.
Integers, moves, comparisons and single correctly rounded operations get no errors, and sums of short
numbers, which are exact in any order, get none either: their results must be equal.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from openinfer.dialects.opset import TensorSpec, find
from openinfer.lowering.reference import interpreter
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray, round_values

MOVES = frozenset(
    "gather scatter concat split slice transpose permute reshape squeeze unsqueeze expand pad flip "
    "gather_elements scatter_elements argsort max_pool1d max_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d multinomial "
    "where filter fill fill_nan_like iota random_uniform one_hot max_pool2d sort topk max_axis "
    "min_axis argmax_axis argmin_axis is_nan is_inf is_neg is_finite eq ne lt le gt ge".split()
)
"""They compute nothing: bits go through as they are."""
ROUNDED = frozenset(
    "neg abs sign mul div recip sqrt min max clamp relu floor ceil round trunc cast quantize "
    "dequantize quantize_blocks dequantize_blocks and or xor not shl shr popcount floor_div rem "
    "floor_mod round_even shift_left shift_right bit_cast".split()
)
"""One correctly rounded operation each, the same everywhere for the same operands."""
SUMS = frozenset(
    "add sub fma matmul einsum sum_axis cumsum conv1d conv2d conv3d conv_transpose2d".split()
)
"""Exact in any order when their operands are short."""
LINEAR = SUMS | {
    *("mean_axis", "avg_pool1d", "avg_pool2d", "avg_pool3d", "fma"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
}
"""The magnitude of a result is bounded by that of the operands' magnitudes."""
OF_OPERAND = frozenset({"gelu", "rfft", "irfft"})
CANCELLING = OF_OPERAND | {"log_softmax", "lstm", "gru"}
"""They end with a difference that may be much smaller than its terms: the logarithm of a sum close
to 1, 1 + erf(x) for negative x, sums over sines that are 0 but for their rounding, cells of gates
that are almost 1. The terms are as large as the first operand, or as 1 and the results."""
PRODUCTS = frozenset({"matmul", "linear", "expert_linear", "einsum", "attention", "lstm", "gru"})
FACTORS = frozenset({"attention", "lstm", "gru"})
"""Ops that multiply operands by what functions give, which may end in 0."""
BF16_UNIT = 2.0**-8
"""What `precision="bf16"` takes from their operands."""
UNITS = {"f32": 2.0**-22, "f64": 2.0**-50}


@contextmanager
def noisy(
    seed: int, scale: float = 1.0, *, bf16: bool = False, device: bool = False
) -> Generator[None]:
    """Inside of it, simulators compute with errors of `scale` times the documented tolerance.

    With `bf16`, operands of products are off by as much as rounding them to it does. With `device`,
    convolutions may leave padding out, also where a weight is infinite or NaN (`docs/vulkan.md`).
    """
    random = np.random.default_rng(seed)
    # Some runs have the same everywhere, so that no kind is left to chance.
    unsure = (np.nan, np.inf, -np.inf, 0.0)
    position = seed % (len(unsure) + 3)
    one_kind = unsure[position] if position < len(unsure) else None

    def with_errors(
        name: str,
        inputs: Sequence[AnyArray],
        dtypes: Sequence[str],
        settings: Mapping[str, object] | None = None,
        out_dtypes: Sequence[str] | None = None,
        *,
        outputs: int = 1,
        declared: Sequence[TensorSpec] | None = None,
    ) -> list[AnyArray]:
        def plain(arrays: Sequence[AnyArray], kinds: Sequence[str], out: Any) -> list[AnyArray]:
            return evaluate(name, arrays, kinds, settings, out, outputs=outputs, declared=declared)

        spec = find(name)
        assert spec is not None
        floats = out_dtypes is not None and all(DTYPES[d].is_float for d in out_dtypes)
        if not floats or spec.name in MOVES:
            return plain(inputs, dtypes, out_dtypes)
        assert out_dtypes is not None
        coarse = bf16 and spec.name in PRODUCTS and "f64" not in dtypes
        if spec.name in ROUNDED or (spec.name in SUMS and not coarse and _short(inputs, dtypes)):
            return [_any_nan(a, random) for a in plain(inputs, dtypes, out_dtypes)]
        wide = "f64" if "f64" in dtypes and "f32" not in _accumulators(settings) else "f32"
        unit = UNITS[wide] * scale
        moved: list[AnyArray] = []
        kinds: list[str] = []
        for array, dtype in zip(inputs, dtypes):
            if not DTYPES[dtype].is_float:
                moved.append(array)
                kinds.append(dtype)
                continue
            kind = "f64" if dtype == "f64" else "f32"
            off = BF16_UNIT * scale if coarse else unit
            if coarse and random.random() < 0.5:
                # Not only near: the largest numbers become infinite, and the smallest 0.
                array = np.asarray(round_values(DTYPES["bf16"], array))
            moved.append(_moved(array.astype(DTYPES[kind].value), off, random))
            kinds.append(kind)
        wider = ["f64" if d == "f64" else "f32" for d in out_dtypes]
        found = plain(moved, kinds, wider)
        found = [_moved(array, unit, random) for array in found]
        if spec.name in CANCELLING:
            # As many units of what is taken away as others have of their result.
            terms = moved[:1] if spec.name in OF_OPERAND else [*found, np.ones(1)]
            size = unit * max(_largest(array) for array in terms)
            found = [a + (size * random.uniform(-1, 1, a.shape)).astype(a.dtype) for a in found]
        # Comparisons ask whether a value is just 1, say, which few errors of this size give by chance.
        found = [_snapped(a, unit, random) for a in found]
        if spec.name not in LINEAR:
            # Functions may end in 0 where the exact value has no full digits any more.
            found = [_or_nothing(a, random) for a in found]
        if spec.name == "silu":
            # A factor below the smallest normal number may be 0, and is multiplied by the operand.
            found = [_flushed(a, moved[0], random) for a in found]
        if spec.name == "attention":
            # So may be the weight of each key, and is multiplied by the key's value.
            most = np.float64(moved[1].shape[-2] * _largest(moved[2]))
            found = [_flushed(a, most, random) for a in found]
        if spec.name in FACTORS and not all(np.isfinite(a).all() for a in moved):
            # The weight of an infinite value may be too small for f32, and 0 times infinity is NaN; so
            # may be the state that meets an infinite recurrent weight, which a gate can hide.
            hidden = spec.name != "attention"
            unsure = [(hidden | ~np.isfinite(a)) & (random.random(a.shape) < 0.5) for a in found]
            found = [np.where(u, np.nan, a) for u, a in zip(unsure, found)]
            found = [a.astype(DTYPES[w].value) for a, w in zip(found, wider)]
        if spec.name == "prod_axis" and np.isinf(moved[0]).any():
            # The product of the other factors may be 0 in one order, and 0 times infinity is NaN.
            small = plain(
                [np.where(np.isinf(moved[0]), 1, np.fmin(np.abs(moved[0]), 1))], kinds, wider
            )
            gone = np.abs(small[0]) < (2.0**-1022 if wider[0] == "f64" else 2.0**-125)
            gone &= random.random(gone.shape) < 0.5
            found = [np.where(gone, np.nan, found[0]).astype(found[0].dtype)]
        if any(_huge(array, kind) for array, kind in zip(moved, kinds)):
            # Sums may leave the range of their dtype on the way, in one order and not in another.
            # An einsum multiplies two of its operands first, and which ones nothing says.
            if spec.name in LINEAR and not (spec.name == "einsum" and len(moved) > 2):
                bounds = plain([_magnitude(a) for a in moved], kinds, wider)
            else:
                bounds = [np.full(a.shape, np.inf) for a in found]
            found = [_unsure(a, b, random, one_kind, wide) for a, b in zip(found, bounds)]
        if device and spec.name.startswith("conv") and not np.isfinite(moved[1]).all():
            bounds = [np.where(np.isfinite(a), 0, np.inf) for a in found]
            found = [_unsure(a, b, random, one_kind, wide) for a, b in zip(found, bounds)]
        return [_any_nan(_rounded(d, a), random) for a, d in zip(found, out_dtypes)]

    interpreter.evaluate = with_errors
    try:
        yield
    finally:
        interpreter.evaluate = evaluate


def _accumulators(settings: Mapping[str, object] | None) -> tuple[str, ...]:
    acc = (settings or {}).get("acc")
    return tuple(str(a) for a in acc) if isinstance(acc, tuple | list) else (str(acc),)


def _rounded(dtype: str, array: AnyArray) -> AnyArray:
    return np.asarray(round_values(DTYPES[dtype], array)).astype(DTYPES[dtype].value)


def _moved(array: AnyArray, unit: float, random: np.random.Generator) -> AnyArray:
    """Each element off by at most `unit`, relative."""
    with np.errstate(all="ignore"):
        off = 1 + unit * random.uniform(-1, 1, array.shape)
        found = (array.astype(np.float64) * off).astype(array.dtype)
    return np.where(np.isfinite(array), found, array)


def _snapped(array: AnyArray, unit: float, random: np.random.Generator) -> AnyArray:
    """The nearest whole number, at times, for what lies within the tolerance of it."""
    with np.errstate(all="ignore"):
        whole = np.rint(array)
        near = np.abs(array - whole) <= unit * np.fmax(np.abs(whole), 1)
    return np.where(near & (random.random(array.shape) < 0.3), whole, array).astype(array.dtype)


def _or_nothing(array: AnyArray, random: np.random.Generator) -> AnyArray:
    """0, at times, for what is below the smallest normal number; `exp` of f32 is 0 below 2^-125.5."""
    tiny = 2.0**-1022 if array.dtype == np.float64 else 2.0**-125.5
    gone = (np.abs(array) < tiny) & (random.random(array.shape) < 0.5)
    return np.where(gone, np.zeros_like(array), array)


def _flushed(
    array: AnyArray, factor: AnyArray | np.float64, random: np.random.Generator
) -> AnyArray:
    """Each element off by at most the smallest normal number times `factor`."""
    tiny = 2.0**-1022 if array.dtype == np.float64 else 2.0**-125
    size = tiny * np.where(np.isfinite(factor), np.abs(factor), 0)
    return array + (size * random.uniform(-1, 1, array.shape)).astype(array.dtype)


def _huge(array: AnyArray, dtype: str) -> bool:
    limit = {"f32": 1e15, "f64": 1e120}.get(dtype)
    if limit is None:
        return False
    with np.errstate(all="ignore"):
        return bool((np.isfinite(array) & (np.abs(array) > limit)).any())


def _largest(array: AnyArray) -> float:
    return float(np.max(np.abs(array), initial=0, where=np.isfinite(array)))


def _magnitude(array: AnyArray) -> AnyArray:
    return np.where(np.isfinite(array), np.abs(array), 0).astype(array.dtype)


def _unsure(
    array: AnyArray,
    bound: AnyArray,
    random: np.random.Generator,
    one_kind: float | None,
    wide: str,
) -> AnyArray:
    """`one_kind`, or anything at times, where what is computed on the way may leave the range of its
    dtype, `wide`: in one order it is infinite, and then NaN once it meets another infinity or a zero; in
    another it stays."""
    limit = 1e307 if array.dtype == np.float64 and wide == "f64" else 1e37
    with np.errstate(all="ignore"):
        leaves = ~(np.abs(bound) < limit)
    if one_kind is not None:
        return np.where(leaves, one_kind, array).astype(array.dtype)
    other = random.choice([np.nan, np.inf, -np.inf, 0.0], array.shape)
    return np.where(leaves & (random.random(array.shape) < 0.7), other, array).astype(array.dtype)


def _any_nan(array: AnyArray, random: np.random.Generator) -> AnyArray:
    """NaN with any sign: nothing says which one an operation gives."""
    unsure = np.isnan(array)
    if not unsure.any():
        return array
    return np.where(unsure & (random.random(array.shape) < 0.5), -array, array)


def _short(inputs: Sequence[AnyArray], dtypes: Sequence[str]) -> bool:
    """Whether all sums of products of the operands are exact, in any order."""
    bits = 0.0
    terms = 1
    for array, dtype in zip(inputs, dtypes):
        if not DTYPES[dtype].is_float or array.size == 0:
            continue
        values = array.astype(np.float64)
        if not np.isfinite(values).all():
            return False
        for grain in range(0, 7, 2):
            if np.array_equal(np.round(values * 2.0**grain), values * 2.0**grain):
                bits += grain + np.log2(max(1.0, float(np.abs(values).max())))
                break
        else:
            return False
        terms = max(terms, array.size)
    return bits + np.log2(terms) < 23
