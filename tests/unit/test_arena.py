"""The arena planner: no two living buffers share a byte, at any value of the run-time sizes."""

from __future__ import annotations

import random

import pytest

from openinfer.lowering.buffers.arena import (
    ALIGNMENT,
    Buffer,
    Plan,
    aligned,
    live_bytes,
    never_above,
    overlaps,
    place,
)
from openinfer.runtime.sizes import THREADS, Size

VALUES = [
    {"N": n, "M": m} for n, m in ((1, 1), (1, 512), (2, 3), (7, 1), (16, 16), (128, 128), (999, 5))
]
ZERO = {"N": 0, "M": 0}


def buffer(size: Size | int | str, first: int, last: int) -> Buffer:
    return Buffer(f"b{first}", Size.of(size), first, last)


def drawn(seed: int) -> list[Buffer]:
    """Random lifetimes; sizes that are constant, linear, quadratic, cut off or divided."""
    chance = random.Random(seed)
    sizes = [
        "4",
        "64",
        "100",
        "4*N",
        "64*N",
        "384*N*M",
        "4*N*N",
        "4*M + 4*N",
        "4*N - 4",
        "64*N - 64",
    ]
    sizes += ["4*floordiv(N + 1, 2)", "256*max(N, M)", "4*N*M + 12"]
    found: list[Buffer] = []
    for number in range(chance.randint(1, 24)):
        first = chance.randrange(30)
        last = min(29, first + chance.choice([0, 1, 1, 2, 3, 10, 29]))
        size = Size.of(chance.choice(sizes)) * chance.choice([1, 1, 2, 3])
        found.append(Buffer(f"b{number}", size, first, last))
    return found


def check(plan: Plan, values: dict[str, int]) -> None:
    assert overlaps(plan, values) == []
    total = plan.size.evaluate(values)
    for item, offset in zip(plan.buffers, plan.offsets):
        start = offset.evaluate(values)
        assert start >= 0
        assert start % ALIGNMENT == 0
        assert start + item.size.evaluate(values) <= total
    assert total >= live_bytes(plan.buffers, values)
    assert total <= sum(aligned(b.size).evaluate(values) for b in plan.buffers)


@pytest.mark.parametrize("seed", range(60))
def test_random_plans_hold_for_all_sizes(seed: int) -> None:
    plan = place(drawn(seed))
    for values in VALUES:
        check(plan, values)
    if not any("-" in str(b.size) for b in plan.buffers):
        check(plan, ZERO)


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_the_buffers_changes_no_guarantee(seed: int) -> None:
    buffers = drawn(seed)
    random.Random(seed).shuffle(buffers)
    for values in VALUES:
        check(place(buffers), values)


def test_a_chain_needs_two_places() -> None:
    chain = [buffer("16*N", i, i + 1) for i in range(12)]
    plan = place(chain)
    for values in VALUES:
        assert plan.size.evaluate(values) == live_bytes(chain, values)


def test_constant_sizes_reach_the_bound_where_lifetimes_nest() -> None:
    nested = [buffer(1024 * (i + 1), i, 20 - i) for i in range(8)]
    plan = place(nested)
    assert plan.size.constant == live_bytes(nested, {})


def test_dead_buffers_give_their_place_to_later_ones() -> None:
    plan = place([buffer("64*N*M", 0, 1), buffer("64*N*M", 2, 3), buffer("64*N", 2, 3)])
    assert str(plan.offsets[0]) == str(plan.offsets[1]) == "0"
    assert str(plan.size) == "64*M*N + 64*N"


def test_touching_at_one_operation_is_living_together() -> None:
    # The operation reads the one and writes the other.
    plan = place([buffer(64, 0, 4), buffer(64, 4, 9)])
    assert plan.size.constant == 128


def test_a_gap_is_used_where_it_fits_for_every_size() -> None:
    # b leaves a hole of 128*N.
    a, b, c = buffer("256*N", 0, 9), buffer("128*N", 0, 3), buffer("64*N", 0, 9)
    for size in ("128*N", "64*N", "64*M"):
        buffers = [a, b, c, buffer(size, 5, 9)]
        plan = place(buffers)
        for values in VALUES:
            check(plan, values)
            if "N" in size:
                assert plan.size.evaluate(values) == live_bytes(buffers, values)


def test_sizes_that_do_not_compare_block_no_holes() -> None:
    # A layer: a value that stays, wide and narrow ones, and scratch for each thread.
    layer = [
        buffer("256*N", 0, 12),
        buffer(f"64*N*{THREADS}", 3, 3),
        buffer(f"4096*{THREADS}", 3, 3),
        buffer("256*N", 3, 5),
        buffer("256*N", 5, 8),
        buffer("1024*N", 8, 10),
    ]
    plan = place(layer)
    for threads in (1, 4):
        for n in (1, 16, 128, 512):
            values = {"N": n, THREADS: threads}
            check(plan, values)
    values = {"N": 128, THREADS: 1}
    assert plan.size.evaluate(values) == live_bytes(layer, values)


def test_the_checker_finds_what_is_wrong() -> None:
    good = place([buffer("4*N", 0, 2), buffer("4*N", 1, 3), buffer("4*N", 5, 6)])
    bad = Plan(good.buffers, (Size.of(0),) * 3, good.size)
    found = overlaps(bad, {"N": 100})
    assert [(a.first, b.first) for a, b in found] == [(0, 1)]
    assert overlaps(bad, {"N": 0}) == []


def test_nothing_to_place() -> None:
    assert place([]).size.constant == 0
    assert live_bytes([], {}) == 0


def test_alignment() -> None:
    assert aligned(Size.of(1)).constant == 64
    assert aligned(Size.of(64)).constant == 64
    assert str(aligned(Size.of("128*N"))) == "128*N"
    rounded = aligned(Size.of("4*N"))
    assert [rounded.evaluate({"N": n}) for n in (0, 1, 16, 17)] == [0, 64, 64, 128]


def test_comparison_holds_for_every_value() -> None:
    assert never_above(Size.of("N"), Size.of("N + M"))
    assert never_above(Size.of(3), Size.of("N + 3"))
    assert not never_above(Size.of("N"), Size.of("M"))
    assert not never_above(Size.of(1), Size.of("N"))


def test_rounding_up_stays_below_multiples() -> None:
    ten, lines = aligned(Size.of("40*N")), Size.of("2048*N")
    assert never_above(ten, lines)
    assert never_above(ten + 64 * Size.of("N"), lines)
    assert never_above(ten * 3, Size.of("192*N"))
    assert not never_above(ten * 3, Size.of("128*N"))
    assert not never_above(ten, Size.of("40*N"))
    assert not never_above(ten, Size.of("64*M"))
    assert not never_above(ten + 32, lines)
    assert not never_above(aligned(Size.of("40*N + 4")), lines)
    # Two roundings: one is taken away at most.
    assert not never_above(ten + aligned(Size.of("24*N")), Size.of("64*N"))


@pytest.mark.parametrize("seed", range(40))
def test_never_above_is_true(seed: int) -> None:
    chance = random.Random(seed)
    found = 0
    for _ in range(60):
        a, b = (
            sum(
                (
                    aligned(
                        Size.of(f"{chance.choice([4, 12, 40, 64])}*N + {chance.choice([0, 0, 4])}")
                    )
                    * chance.choice([1, 2])
                    for _ in range(chance.randint(1, 2))
                ),
                Size.of(f"{64 * chance.randint(0, 3)}*N + {32 * chance.randint(0, 2)}*M"),
            )
            for _ in range(2)
        )
        if never_above(a, b):
            found += 1
            assert all(
                a.evaluate({"N": n, "M": m}) <= b.evaluate({"N": n, "M": m})
                for n in range(20)
                for m in (0, 1, 7)
            )
    assert found


@pytest.mark.parametrize("value", [16, 128, 512, 1024, 4096])
def test_a_plan_that_is_tight_for_short_steps_is_so_for_long_ones(value: int) -> None:
    # The end of a decode step: scratch of attention as long as a cache, then a wide product.
    buffers = [buffer(8192, 0, 9), buffer(8192, 1, 2), buffer(8192, 2, 3), buffer("64*N", 2, 2)]
    buffers += [buffer(4096, 2, 2), buffer(8192, 3, 8), buffer(8192, 5, 6), buffer(22528, 6, 7)]
    buffers += [buffer(22528, 7, 8), buffer(8192, 9, 9)]
    plan = place(buffers)
    values = {"N": value, "M": 1}
    check(plan, values)
    assert plan.size.evaluate(values) == live_bytes(buffers, values)
