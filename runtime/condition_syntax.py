"""The expressions of breakpoints and of `print`: text to a tree, with a whitelist of everything.

    y.max > 3        step == 4 and l >= 2        any(isnan(h))        K[0, 1..3].mean < 0.5

An expression names variables, loop indices, sizes, `step` (steps finished so far) and `node` (index
of the node that ran). Slots are those of the language: `y[0, 1..3]`, `y[, 2]`, half-open, negative
ones count from the end. Nothing is handed to Python's own evaluator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openinfer.runtime.errors import InputError
from openinfer.runtime.suggest import did_you_mean

FUNCTIONS = (
    "abs",
    "all",
    "any",
    "count",
    "inf",
    "isfinite",
    "isinf",
    "isnan",
    "max",
    "mean",
    "min",
    "nan",
    "rank",
    "shape",
    "size",
    "sqrt",
    "std",
    "sum",
)
"""Callable as `max(y)`; all but the elementwise ones also as `y.max`."""

ELEMENTWISE = ("abs", "isfinite", "isinf", "isnan", "sqrt")
_CONSTANTS = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
_COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
_WORDS = ("and", "or", "not")
_RANGES = ("..", ":")
_LONGEST = 1000
_DEEPEST = 32

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d[\d_]*(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\.|<=|>=|==|!=|//|[-+*/%<>=()\[\].,:]))"
)


@dataclass(frozen=True)
class Number:
    """A literal."""

    value: bool | int | float


@dataclass(frozen=True)
class Name:
    """A variable, loop index, size, `step` or `node`, with the slots written after it."""

    name: str
    slots: tuple[Slot, ...] | None = None


@dataclass(frozen=True)
class Apply:
    """`max(y)`, `-y`, `not y`."""

    function: str
    operand: Node


@dataclass(frozen=True)
class Pick:
    """Slots after something that is no name: `h.shape[0]`."""

    operand: Node
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class Binary:
    """`a + b`, `a < b`, `a and b`."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Slot:
    """One slot between brackets: a single index, or a range whose ends may be missing."""

    start: Node | None
    stop: Node | None = None
    single: bool = False


Node = Number | Name | Apply | Pick | Binary


def parse_condition(text: str) -> Node:
    """The tree of an expression. Raises InputError OI0561 that shows where it goes wrong."""
    return _Parser(text).whole()


def names_of(node: Node) -> Iterator[str]:
    """Every name that an expression uses, in order, repeats included."""
    match node:
        case Name():
            yield node.name
            yield from _slot_names(node.slots or ())
        case Pick():
            yield from names_of(node.operand)
            yield from _slot_names(node.slots)
        case Apply():
            yield from names_of(node.operand)
        case Binary():
            yield from names_of(node.left)
            yield from names_of(node.right)
        case Number():
            return


def _slot_names(slots: Sequence[Slot]) -> Iterator[str]:
    for slot in slots:
        for end in (slot.start, slot.stop):
            if end is not None:
                yield from names_of(end)


class _Parser:
    """Recursive descent; one method for each level of binding, loosest first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        """Kind, text and column of each token."""
        self.place = 0
        self.depth = 0
        if len(text) > _LONGEST:
            raise self.wrong(f"it is longer than {_LONGEST} characters", 0)
        position = 0
        while position < len(text) and not text[position:].isspace():
            found = _TOKEN.match(text, position)
            if found is None:
                column = position + len(text[position:]) - len(text[position:].lstrip())
                raise self.wrong(f"{text[column]!r} means nothing here", column)
            kind = str(found.lastgroup)
            self.tokens.append((kind, found[kind], found.start(kind)))
            position = found.end()

    def wrong(self, what: str, column: int | None = None, hint: str | None = None) -> InputError:
        if column is None:
            ended = self.place >= len(self.tokens)
            column = len(self.text) if ended else self.tokens[self.place][2]
        usual = "write for example `y.max > 3`, `step == 4` or `any(isnan(h))`"
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return InputError(
            "OI0561", f"expression `{shown}`, column {column + 1}: {what}", hint=hint or usual
        )

    # Tokens

    def peek(self) -> str:
        """The next token, empty at the end."""
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def accept(self, *signs: str) -> str:
        """Takes the next token when it is one of these; else gives an empty text."""
        found = self.peek()
        if found not in signs:
            return ""
        self.place += 1
        return found

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            found = self.peek()
            raise self.wrong(f"expected `{sign}`" + (f", found `{found}`" if found else ""))

    # Levels

    def whole(self) -> Node:
        if not self.tokens:
            raise self.wrong("it is empty", 0)
        node = self.either()
        if self.peek() == "=":
            raise self.wrong("comparing is written `==`")
        if self.peek():
            raise self.wrong(f"`{self.peek()}` is left over")
        return node

    def either(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong(f"it is nested deeper than {_DEEPEST}")
        node = self.both()
        while self.accept("or"):
            node = Binary("or", node, self.both())
        self.depth -= 1
        return node

    def both(self) -> Node:
        node = self.negated()
        while self.accept("and"):
            node = Binary("and", node, self.negated())
        return node

    def negated(self) -> Node:
        times = 0
        while self.accept("not"):
            times += 1
        node = self.compared()
        if times:
            node = Apply("not", node)
        return Apply("not", node) if times and times % 2 == 0 else node

    def compared(self) -> Node:
        left = self.total()
        node: Node | None = None
        while sign := self.accept(*_COMPARISONS):
            right = self.total()
            link = Binary(sign, left, right)
            # 0 < x < 3 means 0 < x and x < 3, element by element.
            node = link if node is None else Binary("&", node, link)
            left = right
        return left if node is None else node

    def total(self) -> Node:
        node = self.product()
        while sign := self.accept("+", "-"):
            node = Binary(sign, node, self.product())
        return node

    def product(self) -> Node:
        node = self.signed()
        while sign := self.accept("*", "//", "/", "%"):
            node = Binary(sign, node, self.signed())
        return node

    def signed(self) -> Node:
        negative = False
        while sign := self.accept("-", "+"):
            negative ^= sign == "-"
        node = self.suffixed()
        return Apply("-", node) if negative else node

    def suffixed(self) -> Node:
        node = self.primary()
        while True:
            if self.accept("."):
                node = Apply(self.property_name(), node)
            elif self.peek() == "[":
                node = Pick(node, self.slots())
            else:
                return node

    def property_name(self) -> str:
        kind, name, column = self.take("a property")
        known = [f for f in FUNCTIONS if f not in ELEMENTWISE]
        if kind != "name" or name not in known:
            raise self.wrong(f"`.{name}` is no property", column, _near(name, known, "properties"))
        return name

    def primary(self) -> Node:
        kind, text, column = self.take("a value")
        if kind == "number":
            return Number(_number(text))
        if text == "(":
            node = self.either()
            self.expect(")")
            return node
        if kind != "name" or text in _WORDS:
            raise self.wrong(f"expected a value, found `{text}`", column)
        if self.accept("("):
            if text not in FUNCTIONS:
                hint = _near(text, FUNCTIONS, "functions")
                raise self.wrong(f"there is no function `{text}`", column, hint)
            node = self.either()
            self.expect(")")
            return Apply(text, node)
        if self.peek() == "[":
            return Name(text, self.slots())
        if text in _CONSTANTS:
            return Number(_CONSTANTS[text])
        return Name(text)

    def slots(self) -> tuple[Slot, ...]:
        self.expect("[")
        found: list[Slot] = []
        while not self.accept("]"):
            found.append(self.slot())
            if self.peek() != "]":
                self.expect(",")
                if self.peek() == "]":
                    found.append(Slot(None))
        return tuple(found)

    def slot(self) -> Slot:
        """`2`, `1..3`, `..3`, `1..`, `..`, or nothing; `1:3` as in NumPy is the same as `1..3`."""
        if self.peek() in (",", "]"):
            return Slot(None)
        start = None if self.peek() in _RANGES else self.total()
        if not self.accept(*_RANGES):
            return Slot(start, single=True)
        stop = None if self.peek() in (",", "]") else self.total()
        return Slot(start, stop)

    def take(self, wanted: str) -> tuple[str, str, int]:
        if self.place >= len(self.tokens):
            raise self.wrong(f"expected {wanted}, the text ends")
        self.place += 1
        return self.tokens[self.place - 1]


def _number(text: str) -> int | float:
    if text.replace("_", "").isdigit():
        value = int(text)
        # Larger ones fit no integer of the language; as floats they still compare as they should.
        return value if value < 1 << 64 else float(text)
    return float(text)


def _near(name: str, known: Sequence[str], what: str) -> str:
    return f"{did_you_mean(name, known, quote='`')}{what}: {', '.join(known)}"
