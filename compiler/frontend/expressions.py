"""Syntax expressions → `Size`, with limits: a size that no person can read is refused.

The product of sums grows like the product of their lengths, so the limits are checked before each
multiplication, not after it.
"""

from __future__ import annotations

from openinfer.compiler.frontend.source import Span
from openinfer.compiler.frontend.syntax import Call, Element, Expr, Name, Number, Product, Sum
from openinfer.runtime.sizes import Size

MAX_OPERATORS = 200
MAX_TERMS = 64
MAX_DEGREE = 16
MAX_DIVISIONS = 16
_MAX_COEFFICIENT = 2**63 - 1


class BadSize(Exception):
    """An expression that is no size: why, and where."""

    def __init__(self, code: str, message: str, span: Span) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.span = span


def to_size(expression: Expr, *, exact: bool = False) -> Size:
    """The canonical size of an expression. Raises BadSize, with `exact` also for a remainder."""
    if _operators(expression) > MAX_OPERATORS:
        raise _too_large(expression.span)
    size, _ = _convert(expression, exact)
    return size


def names_of(expression: Expr) -> list[Name]:
    """All names in an expression, in text order."""
    match expression:
        case Name():
            return [expression]
        case Number():
            return []
        case Sum(terms=terms):
            parts: list[Expr] = [term for _, term in terms]
        case Product(first=first, rest=rest):
            parts = [first, *(factor for _, factor in rest)]
        case Call(arguments=arguments):
            parts = list(arguments)
        case Element(name=name, index=index):
            parts = [name, index]
    return [name for part in parts for name in names_of(part)]


def _too_large(span: Span) -> BadSize:
    return BadSize("OI0121", "this size expression is too large", span)


def _operators(expression: Expr) -> int:
    match expression:
        case Name() | Number():
            return 1
        case Sum(terms=terms):
            return sum(_operators(term) for _, term in terms) + 1
        case Product(first=first, rest=rest):
            return _operators(first) + sum(_operators(factor) for _, factor in rest)
        case Call(arguments=arguments):
            return sum(_operators(argument) for argument in arguments) + 1
        case Element(index=index):
            return _operators(index) + 1


def _convert(expression: Expr, exact: bool) -> tuple[Size, int]:
    """The size, and how deeply divisions and max/min are nested in it."""
    match expression:
        case Name(text=text):
            return Size.name(text), 0
        case Number(value=value):
            return _limited(Size.of(value), expression.span), 0
        case Sum(terms=terms):
            total, depth = Size.of(0), 0
            for sign, term in terms:
                size, inner = _convert(term, exact)
                total = _limited(total + size if sign > 0 else total - size, expression.span)
                depth = max(depth, inner)
            return total, depth
        case Product(first=first, rest=rest):
            total, depth = _convert(first, exact)
            for operator, factor in rest:
                size, inner = _convert(factor, exact)
                depth = max(depth, inner)
                if operator == "*":
                    if len(total.terms) * len(size.terms) > MAX_TERMS * 4:
                        raise _too_large(expression.span)
                    total = _limited(total * size, expression.span)
                    continue
                depth = _deeper(depth, expression.span)
                if size.constant == 0:
                    raise BadSize("OI0305", "a size is divided by zero", factor.span)
                if exact and total.constant is not None and size.constant is not None:
                    if total.constant % size.constant:
                        message = f"{total} / {size} leaves a remainder"
                        raise BadSize("OI0288", message, expression.span)
                total = _limited(total // size, expression.span)
            return total, depth
        case Call(function=function, arguments=arguments):
            converted = [_convert(argument, exact) for argument in arguments]
            depth = _deeper(max(inner for _, inner in converted), expression.span)
            sizes = [size for size, _ in converted]
            return Size.max(*sizes) if function.text == "max" else Size.min(*sizes), depth
        case Element(name=name, span=span):
            message = f"an element of `{name.text}` has no value before the step runs"
            raise BadSize("OI0289", message, span)


def _deeper(depth: int, span: Span) -> int:
    if depth >= MAX_DIVISIONS:
        raise _too_large(span)
    return depth + 1


def _limited(size: Size, span: Span) -> Size:
    if len(size.terms) > MAX_TERMS:
        raise _too_large(span)
    for monomial, coefficient in size.terms:
        if len(monomial) > MAX_DEGREE or abs(coefficient) > _MAX_COEFFICIENT:
            raise _too_large(span)
    return size
