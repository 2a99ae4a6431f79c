"""Sizes of an export: SymPy expressions over symbols become sizes of the language."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.runtime.sizes import Size


class Symbols:
    """The sizes that an export's symbols stand for."""

    def __init__(self) -> None:
        self._sizes: dict[str, Size] = {}

    def knows(self, symbol: str) -> bool:
        return symbol in self._sizes

    def size_of(self, symbol: str) -> Size:
        """What a symbol that is known is."""
        return self._sizes[symbol]

    def define(self, symbol: str, size: Size) -> None:
        """Says what a symbol is from now on."""
        self._sizes.setdefault(symbol, size)

    def size(self, value: Any) -> Size:
        """An int or a SymInt as a size. Raises Refused for what no size can say."""
        if isinstance(value, int):
            return Size.of(value)
        return self.of_expression(expression_of(value))

    def dims(self, value: Any) -> tuple[Size, ...]:
        """The shape of a tensor of the export."""
        return tuple(self.size(extent) for extent in value.shape)

    def of_expression(self, expression: Any) -> Size:
        """A SymPy expression of integers as a size."""
        if expression.is_Integer:
            return Size.of(int(expression))
        if expression.is_Symbol:
            return self._symbol(str(expression))
        rule = _RULES.get(type(expression).__name__)
        if rule is None:
            raise Refused(
                f"the size {expression} has no form in the language",
                "compute it from + - * / min max",
            )
        return rule(self, expression.args)

    def _symbol(self, name: str) -> Size:
        if name in self._sizes:
            return self._sizes[name]
        if name.startswith(("u", "zuf")):
            raise Refused(
                "the size of its result depends on data",
                "keep the full size and mask what is not wanted (torch.where)",
            )
        raise Refused(f"the size {name} is that of no input")


def expression_of(value: Any) -> Any:
    """The SymPy expression of a SymInt, SymFloat or number."""
    node = getattr(value, "node", None)
    if node is not None:
        return node.expr
    from sympy import sympify  # pyright: ignore

    return sympify(value)


def _product(symbols: Symbols, arguments: Any) -> Size:
    """A product; one with a fraction, as `s0 * 1/2`, is a division that comes out even."""
    total, divisor = Size.of(1), 1
    for one in arguments:
        if one.is_Rational and not one.is_Integer:
            total, divisor = total * int(one.p), divisor * int(one.q)
        else:
            total = total * symbols.of_expression(one)
    return total // divisor if divisor != 1 else total


def _sum(symbols: Symbols, arguments: Any) -> Size:
    total = Size.of(0)
    for one in arguments:
        total = total + symbols.of_expression(one)
    return total


def _power(symbols: Symbols, arguments: Any) -> Size:
    base, exponent = arguments
    if not exponent.is_Integer or not 0 <= int(exponent) <= 8:
        raise Refused(f"the size {base}**{exponent} has no form in the language")
    total = Size.of(1)
    for _ in range(int(exponent)):
        total = total * symbols.of_expression(base)
    return total


def _quotient(symbols: Symbols, arguments: Any) -> Size:
    left, right = (symbols.of_expression(one) for one in arguments)
    return left // right


def _remainder(symbols: Symbols, arguments: Any) -> Size:
    left, right = (symbols.of_expression(one) for one in arguments)
    return left - right * (left // right)


def _modular(symbols: Symbols, arguments: Any) -> Size:
    """`(base // divisor) % modulus`."""
    base, divisor, modulus = (symbols.of_expression(one) for one in arguments)
    quotient = base // divisor
    return quotient - modulus * (quotient // modulus)


def _largest(symbols: Symbols, arguments: Any) -> Size:
    return Size.max(*(symbols.of_expression(one) for one in arguments))


def _smallest(symbols: Symbols, arguments: Any) -> Size:
    return Size.min(*(symbols.of_expression(one) for one in arguments))


def _scaled(symbols: Symbols, expression: Any) -> tuple[Size, int]:
    """`1.5 * ToFloat(s)` as numerator and denominator."""
    kind = type(expression).__name__
    if kind == "ToFloat":
        return symbols.of_expression(expression.args[0]), 1
    if expression.is_Number:
        number = Fraction(float(expression)).limit_denominator(1 << 12)
        if abs(float(number) - float(expression)) > 1e-12 * abs(float(expression)):
            raise Refused(f"the factor {expression} of a size is no small fraction")
        return Size.of(number.numerator), number.denominator
    if kind in ("Mul", "FloatTrueDiv", "IntTrueDiv"):
        numerator, denominator = Size.of(1), 1
        for place, one in enumerate(expression.args):
            above, below = _scaled(symbols, one)
            if place and kind != "Mul":
                if not above.constant:
                    raise Refused(f"the size {expression} has no form in the language")
                sign = 1 if above.constant > 0 else -1
                above, below = Size.of(sign * below), sign * above.constant
            numerator, denominator = numerator * above, denominator * below
        return numerator, denominator
    return symbols.of_expression(expression), 1


def _truncated(symbols: Symbols, arguments: Any) -> Size:
    numerator, denominator = _scaled(symbols, arguments[0])
    return numerator // denominator


def _ceiled(symbols: Symbols, arguments: Any) -> Size:
    numerator, denominator = _scaled(symbols, arguments[0])
    return (numerator + denominator - 1) // denominator


_RULES: dict[str, Callable[[Symbols, Any], Size]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "Mod": _remainder,
    "PythonMod": _remainder,
    "ModularIndexing": _modular,
    "Max": _largest,
    "Min": _smallest,
    "TruncToInt": _truncated,
    "FloorToInt": _truncated,
    "CeilToInt": _ceiled,
}
