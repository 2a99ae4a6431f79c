"""Whether two runs of a program agree, as far as rounding lets them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from fuzzing.runs import Seen, Value
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray

MARGIN = 8.0
"""The errors of the noisy runs are samples; a correct result lies within this many of them."""
_LARGEST = {
    **{"f64": 1.79e308, "f32": 3.4e38, "f16": 65504.0, "bf16": 3.38e38},
    **{"f8": 57344.0, "f8e4m3": 448.0},
}


SUBNORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126, "bf16": 2.0**-126}
"""The smallest numbers with all digits."""
BEFORE = re.compile("must not exceed|must not be negative")
"""Sizes that no node can take are found before the step runs; the simulator may meet another error
on its way to that node."""


class Unstable(Exception):
    """The noisy runs take other ways than the simulator: nothing can be compared from here on."""


def difference(
    number: int, want: Seen, others: Sequence[Seen], have: Seen, *, iterated: bool = False
) -> str | None:
    """Why a step differs from the simulator's, or None.

    `others` are noisy runs of the step. Raises Unstable where they do not say what is right.
    """
    if any(o.code != want.code for o in others):
        raise Unstable(f"step {number}: {want.code or 'no error'} or {[o.code for o in others]}")
    if have.code == "OI0609" != want.code:
        # The entries of a table lie side by side, each with room for the largest one, and a table that
        # is empty along one index has room for one entry of it.
        raise Unstable(f"step {number}: {have.message}")
    if want.code == "OI0604" and not have.code:
        # Nobody reads the value that no memory holds, so compiled programs never make it.
        raise Unstable(f"step {number}: {want.message}")
    if have.code != want.code and not (want.code and BEFORE.search(have.message)):
        return (
            f"step {number}: {have.code or 'no error'} ({have.message}) instead of "
            f"{want.code or 'no error'} ({want.message})"
        )
    if iterated and not want.code:
        if any(o.nodes != want.nodes for o in others):
            raise Unstable(f"step {number}: other nodes")
        if have.nodes != want.nodes:
            pairs = [(n, have.nodes.get(b, [])) for b, n in want.nodes.items()]
            left, right = next((p for p in pairs if p[0] != p[1]), ([], []))
            return f"step {number}: nodes {_first_pair(left, right)}"
    for name, extents in want.extents.items():
        if any(o.extents.get(name) != extents for o in others):
            raise Unstable(f"step {number}: extents of {name}")
        if have.extents.get(name) != extents and any(k.startswith(f"{name}[") for k in want.values):
            return f"step {number}: {name} reaches {have.extents.get(name)}, not {extents}"
    for name, value in want.values.items():
        found = have.values.get(name)
        if found is None and "[" in name:
            # Entries that nobody has touched are in no snapshot of one and in that of the other.
            continue
        seen = [o.values.get(name) for o in others]
        why = _difference(value, seen, found)
        if why is not None:
            return f"step {number}: {name}: {why}"
    return None


def other_bits(number: int, want: Seen, have: Seen) -> str | None:
    """Why two runs of one build differ in a bit, or None; NaN is NaN."""
    if want.code != have.code:
        return (
            f"step {number}: {have.code or 'no error'} ({have.message}) instead of "
            f"{want.code or 'no error'} ({want.message})"
        )
    for name, value in want.values.items():
        found = have.values.get(name)
        if found is None:
            # What `run` gives is less than what can be fetched.
            continue
        if isinstance(value, str) or isinstance(found, str):
            if value != found:
                return f"step {number}: {name}: {_short(found)} instead of {_short(value)}"
            continue
        if (value.dtype, value.array.shape) != (found.dtype, found.array.shape):
            return f"step {number}: {name}: {_short(found)} instead of {_short(value)}"
        same = value.array == found.array
        if value.array.dtype.kind == "f" or DTYPES[value.dtype].is_float:
            with np.errstate(all="ignore"):
                nan = np.isnan(value.array) & np.isnan(found.array)
                same = nan | (same & (np.signbit(value.array) == np.signbit(found.array)))
        if not same.all():
            place = tuple(int(i) for i in np.argwhere(~same)[0])
            return (
                f"step {number}: {name}: {found.array[place]!r} instead of "
                f"{value.array[place]!r} at {list(place)}, {int((~same).sum())} differ"
            )
    shown = {n: e for n, e in have.extents.items() if want.extents.get(n, e) != e}
    return f"step {number}: other extents {shown}" if shown else None


def _first_pair(left: Sequence[object], right: Sequence[object]) -> str:
    for a, b in zip(left, right):
        if a != b:
            return f"{b} instead of {a}"
    return f"{len(right)} instead of {len(left)}"


def _difference(
    want: Value | str, others: Sequence[Value | str | None], have: Value | str | None
) -> str | None:
    if isinstance(want, str) or isinstance(have, str) or have is None:
        if any(isinstance(o, Value) == isinstance(want, str) for o in others):
            raise Unstable("a value is there or not")
        # Why there is no value may be said in other words.
        nothing = isinstance(want, str) and not isinstance(have, Value)
        return None if nothing else f"{_short(have)} instead of {_short(want)}"
    noise: list[AnyArray] = []
    for other in others:
        if not isinstance(other, Value) or other.array.shape != want.array.shape:
            raise Unstable("other shapes")
        noise.append(other.array)
    if (want.dtype, want.array.shape) != (have.dtype, have.array.shape):
        return f"{_short(have)} instead of {_short(want)}"
    wrong = _wrong(want.dtype, want.array, noise, have.array)
    if not wrong.any():
        return None
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{have.array[place]!r} instead of {want.array[place]!r} at {list(place)} of "
        f"{want.dtype}{list(want.array.shape)}, {int(wrong.sum())} of {want.array.size} differ, "
        f"noise {[float(n[place]) - float(want.array[place]) for n in noise]}"
    )


def _short(value: Value | str | None) -> str:
    if isinstance(value, Value):
        return f"{value.dtype}{list(value.array.shape)}"
    return str(value)


def _wrong(dtype: str, want: AnyArray, noise: Sequence[AnyArray], have: AnyArray) -> AnyArray:
    """Where a value is not what it may be."""
    with np.errstate(all="ignore"):
        if not DTYPES[dtype].is_float:
            steady = np.ones(want.shape, bool)
            for other in noise:
                steady &= other == want
            return steady & (want != have)
        exact, found = want.astype(np.float64), have.astype(np.float64)
        samples = [n.astype(np.float64) for n in noise]
        kinds = [_kind(s) for s in (exact, *samples)]
        steady = np.ones(want.shape, bool)
        for kind in kinds[1:]:
            steady &= kind == kinds[0]
        finite = kinds[0] == 0
        other = steady & ~finite & (_kind(found) != kinds[0])
        off = np.zeros(want.shape)
        for sample in samples:
            off = np.maximum(off, np.abs(sample - exact))
        off = np.where(np.isfinite(off), off, 0)
        share = np.where(finite & (off > 0), off / np.maximum(np.abs(exact), 1e-300), 0)
        rated = share[share > 0]
        typical = float(np.quantile(rated, 0.9)) if rated.size else 0.0
        allowed = MARGIN * (off + typical * np.abs(exact))
        if rated.size:
            # Functions may end in 0 where the exact value has no full digits any more.
            allowed += SUBNORMAL.get(dtype, 0.0)
        far = np.abs(found - exact) > allowed
        far |= ~np.isfinite(found)
        edge = np.abs(exact) + allowed > 0.999 * _LARGEST[dtype]
        return other | (steady & finite & far & ~(edge & (allowed > 0)))


def _kind(array: AnyArray) -> AnyArray:
    """0 finite, 1 and -1 infinite, 2 NaN."""
    found = np.where(np.isnan(array), 2, np.where(np.isinf(array), np.sign(array), 0))
    return np.nan_to_num(found, nan=2).astype(np.int8)
