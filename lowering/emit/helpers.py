"""Functions that GLSL lacks, or leaves open where the compiler's ops do not.

A shader that calls one has its text, for the type that it calls it with.
"""

from __future__ import annotations

import re
from typing import Final

HELPERS: Final[dict[str, str]] = {
    "maximum": """\
// The larger one; NaN if one of them is.
T maximum(T a, T b) {
    return isnan(a) ? a : isnan(b) ? b : max(a, b);
}""",
    "minimum": """\
// The smaller one; NaN if one of them is.
T minimum(T a, T b) {
    return isnan(a) ? a : isnan(b) ? b : min(a, b);
}""",
    "max_number": """\
// The larger one; the other one if one of them is NaN.
T max_number(T a, T b) {
    return isnan(a) ? b : isnan(b) ? a : max(a, b);
}""",
    "min_number": """\
// The smaller one; the other one if one of them is NaN.
T min_number(T a, T b) {
    return isnan(a) ? b : isnan(b) ? a : min(a, b);
}""",
    "remainder": """\
// What is left of a division that rounds toward zero.
T remainder(T a, T b) {
    return a - b * (a / b);
}""",
    "remainder_float": """\
// What is left of a division that rounds toward zero, with the sign of the first operand.
T remainder_float(T a, T b) {
    return a - b * trunc(a / b);
}""",
    "round_away": """\
// To the nearest whole number, halves away from zero.
T round_away(T x) {
    const T whole = trunc(x);
    return abs(x - whole) < T(0.5) ? whole : whole + sign(x);
}""",
    "power": """\
// pow() of GLSL is open for negative bases.
T power(T x, T y) {
    if (y == T(0.0) || x == T(1.0)) {
        return T(1.0);
    }
    const T size = pow(abs(x), y);
    if (x >= T(0.0)) {
        return size;
    }
    const bool whole = trunc(y) == y;
    const bool odd = whole && trunc(y * T(0.5)) != y * T(0.5);
    return odd ? -size : whole || isinf(x) || isinf(y) ? size : T(NAN);
}""",
    "copy_sign": """\
// The size of a with the sign of b.
T copy_sign(T a, T b) {
    const bool negative = b < T(0.0) || (b == T(0.0) && T(1.0) / b < T(0.0));
    return negative ? -abs(a) : abs(a);
}""",
    "log_of_1_plus": """\
// log(1 + x), also where x is small.
T log_of_1_plus(T x) {
    const T y = T(1.0) + x;
    return y == T(1.0) || isinf(y) ? x : log(y) * x / (y - T(1.0));
}""",
    "exp_minus_1": """\
// exp(x) - 1, also where x is small.
T exp_minus_1(T x) {
    if (abs(x) < T(0.5)) {
        const T y = tanh(x * T(0.5));
        return T(2.0) * y / (T(1.0) - y);
    }
    return exp(x) - T(1.0);
}""",
    "erfc": """\
// What the error function lacks to 1 (Numerical Recipes, erfcc).
T erfc(T x) {
    const float z = abs(float(x));
    const float t = 1.0 / (1.0 + 0.5 * z);
    float p = 0.17087277;
    p = p * t - 0.82215223;
    p = p * t + 1.48851587;
    p = p * t - 1.13520398;
    p = p * t + 0.27886807;
    p = p * t - 0.18628806;
    p = p * t + 0.09678418;
    p = p * t + 0.37409196;
    p = p * t + 1.00002368;
    p = p * t - 1.26551223;
    const float tail = t * exp(p - z * z);
    return T(x >= T(0.0) ? tail : 2.0 - tail);
}""",
    "erf": """\
// The error function, by its series where x is small.
T erf(T x) {
    if (abs(x) >= T(1.0)) {
        return T(1.0) - erfc(x);
    }
    const float a = float(x);
    float term = a;
    float sum = a;
    for (int n = 1; n < 12; n++) {
        term *= -a * a / float(n);
        sum += term / float(2 * n + 1);
    }
    return T(1.1283792 * sum);
}""",
}


BEFORE: Final = {"erf": "erfc"}
"""The functions that others call."""


def helper_text(name: str, scalar: str) -> str:
    """A function for one type."""
    return re.sub(r"\bT\b", scalar, HELPERS[name])


def needs_nan(name: str) -> bool:
    """Whether the text of a function names NaN."""
    return "NAN" in HELPERS[name]
