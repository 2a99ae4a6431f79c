"""Size expressions: one canonical form, whichever way a size was written."""

from __future__ import annotations

import random

import pytest

from openinfer.runtime.sizes import Size


def size(text: str) -> Size:
    return Size.of(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("(H + 2 - 3)//2 + 1", "(H + 1)//2"),
        ("(2*H + 3)//2", "H + 1"),
        ("(5*H)//2", "2*H + H//2"),
        ("(4*H*W - 4)//4", "H*W - 1"),
        ("(H - 7)//3", "(H + 2)//3 - 3"),
        ("(3*D + D)//2", "2*D"),
    ],
)
def test_quotients_by_a_number_are_equal_when_their_values_are(left: str, right: str):
    assert size(left) == size(right)
    assert str(size(left)) == str(size(right))


def test_quotients_that_differ_stay_apart():
    assert size("H//2") != size("(H + 1)//2")
    assert size("H//2 + H//2") != size("H")
    assert size("H//W + 1") == size("1 + H//W")


def test_reduced_quotients_have_the_value_of_the_whole():
    draw = random.Random(3)
    for _ in range(500):
        a, b, c = (draw.randint(-20, 20) for _ in range(3))
        divisor = draw.randint(1, 9)
        whole = size("H") * a + size("H*W") * b + c
        quotient = whole // divisor
        values = {"H": draw.randint(0, 30), "W": draw.randint(0, 9)}
        assert quotient.evaluate(values) == whole.evaluate(values) // divisor
        assert size(str(quotient)) == quotient
        assert quotient.substitute(values).constant == quotient.evaluate(values)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("floordiv(N, 2)", "N/2"),
        ("N/2 + 1", "N/2 + 1"),
        ("3*(N/2)", "3*(N/2)"),
        ("1 - N/2*M", "-(N/2)*M + 1"),
        ("0 - N/M", "-(N/M)"),
        ("(N + 1)/M", "(N + 1)/M"),
        ("max(N/M, 2)/(M + 1)", "(max(N/M, 2))/(M + 1)"),
    ],
)
def test_sizes_print_as_the_language_writes_them(text: str, shown: str):
    assert size(str(size(text))) == size(text)
    assert str(size(text)) == shown


@pytest.mark.parametrize(
    ("text", "unit", "known"),
    [
        ("64*((4*R + 63)//64) + 128*N", 64, True),
        ("8*N", 16, False),
        ("max(64*N, 32*M) + 96", 32, True),
        ("max(64*N, 32*M) + 96", 64, False),
        ("4*min(16*N, 48)", 64, True),
        ("3*max(64*N, M)", 64, False),
        ("N//2*2", 2, True),
    ],
)
def test_multiples_that_are_known(text: str, unit: int, known: bool):
    assert Size.of(text).is_multiple_of(unit) is known
