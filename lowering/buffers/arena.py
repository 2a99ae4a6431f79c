"""Where buffers lie in an arena: greedy placement by lifetimes, with symbolic sizes.

Offsets are expressions. Two buffers that live at the same time are ordered one below the other in a
way that holds for every value of the sizes, so one plan serves them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import THREADS, Size

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""
NOMINAL = 128
"""The value of every run-time size while a plan orders buffers."""
JUDGED = (16, NOMINAL, 1024)
"""The values that plans are compared at: one that is tight for short steps may waste in long ones."""


@dataclass(frozen=True)
class Buffer:
    """A buffer and the first and last operation that touch it, both included."""

    name: str
    size: Size
    """Bytes."""
    first: int
    last: int

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are alive at some operation."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Plan:
    """Offsets of buffers, and the size of the arena that holds them (bytes)."""

    buffers: tuple[Buffer, ...]
    offsets: tuple[Size, ...]
    size: Size


def aligned(size: Size) -> Size:
    """Rounded up to the alignment; exact when every term is a multiple already."""
    if all(coefficient % ALIGNMENT == 0 for _, coefficient in size.terms):
        return size
    if size.constant is not None:
        return Size.of(-(-size.constant // ALIGNMENT) * ALIGNMENT)
    return ((size + (ALIGNMENT - 1)) // ALIGNMENT) * ALIGNMENT


def never_above(a: Size, b: Size) -> bool:
    """Whether a <= b for all sizes that are not negative, as far as two rules tell.

    No term of b - a is negative; or that holds without the rounding of one term of a, where all
    else is a multiple of what the term is rounded to.
    """
    return a is b or _no_negative_term(a, b) or _holds_without_a_rounding(a, b)


def _no_negative_term(a: Size, b: Size) -> bool:
    rest = dict(b.terms)
    for monomial, coefficient in a.terms:
        if rest.pop(monomial, 0) < coefficient:
            return False
    return all(coefficient >= 0 for coefficient in rest.values())


def _holds_without_a_rounding(a: Size, b: Size) -> bool:
    """Whether one term of a is a rounding without which a <= b is plain, and as good.

    c*(x // n) <= m with m a multiple of c is the same as x <= (m / c)*n + n - 1.
    """
    for monomial, c in a.terms:
        if len(monomial) != 1 or monomial[0][0] != "floordiv" or c < 0:
            continue
        x, divisor = monomial[0][1:]
        assert isinstance(x, Size)
        assert isinstance(divisor, Size)
        n = divisor.constant
        if n is None or n <= 0 or c % n:
            continue
        others = [term for term in a.terms if term[0] is not monomial]
        if any(k % c for terms in (others, b.terms) for _, k in terms):
            continue
        rest = dict(b.terms)
        rest[()] = rest.get((), 0) + c // n * (n - 1)
        for terms, factor in ((others, 1), (x.terms, c // n)):
            for other, k in terms:
                rest[other] = rest.get(other, 0) - k * factor
        if all(k >= 0 for k in rest.values()):
            return True
    return False


def _usual(names: Iterable[str], value: int = NOMINAL) -> dict[str, int]:
    return {name: 1 if name == THREADS else value for name in names}


@lru_cache(maxsize=1 << 14)
def _nominal(size: Size) -> int:
    return size.evaluate(_usual(size.names))


def place(buffers: Sequence[Buffer]) -> Plan:
    """The tightest of a few greedy plans: large buffers first, long-lived ones first, in order.

    Large ones first leave the fewest holes; but sizes that no order holds for, scratch against a
    tensor say, block each other's holes, and then long-lived ones belong at the bottom.
    """
    sizes = [_nominal(aligned(b.size)) for b in buffers]
    spans = [b.last - b.first for b in buffers]
    numbers = range(len(buffers))
    orders = (
        sorted(numbers, key=lambda i: (-sizes[i], buffers[i].first, i)),
        sorted(numbers, key=lambda i: (-spans[i], -sizes[i], i)),
        sorted(numbers, key=lambda i: (-spans[i] * sizes[i], buffers[i].first, i)),
        sorted(numbers, key=lambda i: (buffers[i].first, -spans[i], i)),
    )
    names = {name for b in buffers for name in b.size.names}
    judged = [_usual(names, value) for value in (JUDGED if names - {THREADS} else (NOMINAL,))]
    bounds = [(known, live_bytes(buffers, known)) for known in judged]
    best, least = _place(buffers, orders[0]), 0.0
    for number, order in enumerate(orders):
        plan = _place(buffers, order) if number else best
        waste = max(plan.size.evaluate(known) / max(bound, 1) for known, bound in bounds)
        if not number or waste < least:
            best, least = plan, waste
        if least <= 1.0:
            break
    return best


Height = tuple[Size, ...]
"""The largest of some expressions, none of which is above another one for all sizes."""
_GROUND: Height = (Size.of(0),)
MOST = 6
"""Expressions of one height. Each offset is made of others, so they would double and double."""


def _place(buffers: Sequence[Buffer], order: Sequence[int]) -> Plan:
    """Each buffer at the lowest place that is free of those alive with it, in an order."""
    sizes = [aligned(b.size) for b in buffers]
    starts: dict[int, Height] = {}
    ends: dict[int, Height] = {}
    for i in order:
        others = [j for j in starts if buffers[j].overlaps(buffers[i])]
        starts[i] = _lowest(sizes[i], [(starts[j], ends[j]) for j in others])
        ends[i] = _above(starts[i], sizes[i])
    total = _highest(list(ends.values()))
    offsets = tuple(Size.max(*starts[i]) for i in range(len(buffers)))
    return Plan(tuple(buffers), offsets, Size.max(*total))


def _above(height: Height, size: Size) -> Height:
    return tuple(part + size for part in height)


@lru_cache(maxsize=1 << 16)
def _never_higher(a: Height, b: Height) -> bool:
    return all(any(never_above(x, y) for y in b) for x in a)


def _highest(heights: Sequence[Height]) -> Height:
    """The largest of some heights, or a bound of it where it would have too many parts."""
    parts: list[Size] = []
    for part in dict.fromkeys(part for height in heights for part in height):
        if any(never_above(part, other) for other in parts):
            continue
        parts = [other for other in parts if not never_above(other, part)]
        parts.append(part)
    parts.sort(key=_nominal)
    while len(parts) > MOST:
        # The two smallest ones: what is taken too much there is seldom the largest of all.
        joined = _bound(parts[0], parts[1])
        parts = [joined, *(other for other in parts[2:] if not never_above(other, joined))]
        if any(never_above(joined, other) for other in parts[1:]):
            parts = parts[1:]
    return tuple(parts) or _GROUND


def _bound(a: Size, b: Size) -> Size:
    """An expression that is never below either: the larger coefficient of each term."""
    left, right = dict(a.terms), dict(b.terms)
    terms = {m: max(left.get(m, 0), right.get(m, 0)) for m in {**left, **right}}
    total = Size.of(0)
    for monomial, coefficient in terms.items():
        total = total + Size(((monomial, 1),)) * coefficient
    return total


def _lowest(size: Size, taken: Sequence[tuple[Height, Height]]) -> Height:
    """The lowest provable gap for `size` between the ranges in `taken`, else above all of them."""
    ends = dict.fromkeys(end for _, end in taken)
    ranges = [(_peak(low), _peak(high), low, high) for low, high in taken]
    for start in sorted([_GROUND, *ends], key=_peak):
        end = _above(start, size)
        bottom, top = _peak(start), _peak(end)
        # What holds for all sizes holds for the usual ones, and numbers are compared at once.
        if not all(top <= low or high <= bottom for low, high, _, _ in ranges):
            continue
        for number, (low_peak, high_peak, low, high) in enumerate(ranges):
            if top <= low_peak and _never_higher(end, low):
                continue
            if high_peak <= bottom and _never_higher(high, start):
                continue
            # What is in the way here will be in the way of the next place, too.
            ranges.insert(0, ranges.pop(number))
            break
        else:
            return start
    return _highest(list(ends))


def _peak(height: Height) -> int:
    """The height at the usual sizes."""
    return max(_nominal(part) for part in height)


def live_bytes(buffers: Sequence[Buffer], sizes: Mapping[str, int]) -> int:
    """The lower bound of any plan: the largest sum of buffers that are alive together."""
    best = 0
    for moment in {b.first for b in buffers}:
        total = sum(aligned(b.size).evaluate(sizes) for b in buffers if b.first <= moment <= b.last)
        best = max(best, total)
    return best


def overlaps(plan: Plan, sizes: Mapping[str, int]) -> list[tuple[Buffer, Buffer]]:
    """The independent check: pairs that live at the same time and share a byte."""
    spans = [
        (b, o.evaluate(sizes), o.evaluate(sizes) + b.size.evaluate(sizes))
        for b, o in zip(plan.buffers, plan.offsets)
    ]
    wrong: list[tuple[Buffer, Buffer]] = []
    for i, (a, a_low, a_high) in enumerate(spans):
        for b, b_low, b_high in spans[i + 1 :]:
            if a.overlaps(b) and a_low < b_high and b_low < a_high:
                wrong.append((a, b))
    return wrong
