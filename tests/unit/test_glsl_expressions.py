"""Expressions as text: parentheses where they are needed, numbers that are the same when they are read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openinfer.lowering.emit.expressions import (
    Expression,
    binary,
    chain,
    conditional,
    float_number,
    float_text,
    name,
    number,
    product_of,
    sum_of,
    unary,
)
from openinfer.lowering.emit.names import Names

A, B, C = name("a"), name("b"), name("c")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (binary("-", A, binary("-", B, C)), "a - (b - c)"),
        (binary("-", binary("-", A, B), C), "a - b - c"),
        (binary("*", binary("+", A, B), C), "(a + b) * c"),
        (binary("/", A, binary("*", B, C)), "a / (b * c)"),
        (sum_of(A, binary("-", B, C)), "a + b - c"),
        (product_of(A, binary("/", B, C)), "a * (b / c)"),
        (product_of(product_of(A, B), C), "a * b * c"),
        (unary("-", unary("-", A)), "-(-a)"),
        (binary("-", A, unary("-", B)), "a - -b"),
        (unary("!", binary("<", A, B)), "!(a < b)"),
        (binary("==", binary("<", A, B), C), "(a < b) == c"),
        (chain("|", binary("&", A, B), C), "(a & b) | c"),
        (chain("|", chain("|", A, B), C), "a | b | c"),
        (binary("<<", sum_of(A, B), C), "(a + b) << c"),
        (conditional(A, B, conditional(B, A, C)), "a ? b : b ? a : c"),
        (conditional(A, conditional(B, A, C), B), "a ? (b ? a : c) : b"),
        (binary("+", conditional(A, B, C), A), "(a ? b : c) + a"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parentheses(expression: Expression, text: str) -> None:
    assert expression.text == text


def test_numbers_of_indices_are_computed() -> None:
    assert sum_of(number(2), number(3)).text == "5"
    assert sum_of(A, number(0)).text == "a"
    assert sum_of(A, number(-4)).text == "a - 4"
    assert product_of(A, number(1)).text == "a"
    assert product_of(A, number(0)).text == "0"
    assert number(-(2**31)).text == "int(0x80000000u)"


def test_floats_are_the_same_when_they_are_read() -> None:
    rng = np.random.default_rng(1)
    for value in rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32):
        if np.isfinite(value):
            assert np.float32(float(float_text(float(value), 32))) == value
    assert float_number(1.0, 32).text == "1.0"
    assert float_number(0.5, 16).text == "0.5hf"
    assert float_number(-math.inf, 32).text == "-INFINITY"
    assert float_number(-0.0, 32).text == "-0.0"


def test_names_are_legal_and_unique() -> None:
    names = Names()
    found = [
        names.new(wanted) for wanted in ("x", "x", "float", "a.b", "2", "gl_x", "a__b", "first")
    ]
    assert found == ["x", "x_1", "float_", "a_b", "v2", "vgl_x", "a_b_1", "first_"]
