"""How an op that computes a value is written and typed: a form, which many ops share.

    Form("%0, %1 dict : A, B", "C A A -> A")

The syntax lists what stands behind the op's name: operands `%0`, properties that are printed as
`<Subgroup>` (`<scope>`) or `"Subgroup"` (`"scope"`), the dictionary of attributes, words, and types by
variable. Braces hold what may be absent: one property, or one operand. The signature gives the type
of each operand and of the result. A variable is a capital letter that says what it may be, and a number
where there are several; others are made of variables (`_made`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType, i1, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, opt_result_def, var_operand_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.spirv.enums import EnumAttr
from openinfer.dialects.spirv.types import (
    CooperativeMatrixType,
    PointerType,
    StructType,
    TensorLayoutType,
    TensorViewType,
    element_of,
    member_of,
)

_TOKEN = re.compile(r'\{[^}]*\}|%\d+|<\w+>|"\w+"|->|[A-Z]\d?(?![a-z])|\w+|[^\s\w]')
_PART = re.compile(r'<(\w+)>|"(\w+)"|%(\d+)')


def _is_float(type_: Attribute) -> bool:
    return isinstance(element_of(type_), AnyFloat)


def _is_integer(type_: Attribute) -> bool:
    return isinstance(element_of(type_), IntegerType) and not _is_truth(type_)


def _is_truth(type_: Attribute) -> bool:
    return element_of(type_) == i1


_MAY_BE: Mapping[str, tuple[str, Callable[[Attribute], bool]]] = {
    "B": ("a truth value or a vector of them", _is_truth),
    "F": ("a float, or a vector or matrix of them", _is_float),
    "I": ("an integer, or a vector or matrix of them", _is_integer),
    "L": ("a tensor layout", lambda t: isinstance(t, TensorLayoutType)),
    "M": ("a cooperative matrix", lambda t: isinstance(t, CooperativeMatrixType)),
    "P": ("a pointer", lambda t: isinstance(t, PointerType)),
    "S": ("a scalar", lambda t: isinstance(t, IntegerType | AnyFloat)),
    "T": ("any type", lambda t: True),
    "V": ("a vector", lambda t: isinstance(t, VectorType)),
    "W": ("a tensor view", lambda t: isinstance(t, TensorViewType)),
}
"""What a variable stands for, by its letter."""


def truth_like(type_: Attribute) -> Attribute:
    """i1, or a vector of it with the shape of another."""
    return VectorType(i1, type_.get_shape()) if isinstance(type_, VectorType) else i1


def _pointee(type_: Attribute) -> Attribute:
    return type_.pointee if isinstance(type_, PointerType) else type_


def _member(type_: Attribute) -> Attribute:
    return member_of(type_, 0) or type_


_MADE: Mapping[str, Callable[[Attribute], Attribute]] = {
    "element": element_of,
    "first": _member,
    "pair": lambda type_: StructType.of([type_, type_]),
    "pointee": _pointee,
    "truth": truth_like,
}
_FIXED: Mapping[str, Attribute] = {"i1": i1, "i32": i32, "ballot": VectorType(i32, [4])}


def _made(text: str, bound: Mapping[str, Attribute]) -> Attribute | None:
    """The type that a part of a signature says; None where its variable is not known."""
    if text in _FIXED:
        return _FIXED[text]
    name, _, variable = text.rstrip(")").rpartition("(")
    known = bound.get(variable)
    return known if known is None or not name else _MADE[name](known)


@dataclass(frozen=True)
class Form:
    """The syntax and the signature of ops."""

    syntax: str
    signature: str
    tokens: tuple[str, ...] = field(init=False)
    operands: tuple[str, ...] = field(init=False)
    result: str | None = field(init=False)
    least: int = field(init=False)
    """Operands that are never absent."""

    def __post_init__(self) -> None:
        operands, arrow, result = self.signature.partition("->")
        put = object.__setattr__
        put(self, "tokens", tuple(_TOKEN.findall(self.syntax)))
        put(self, "operands", tuple(operands.split()))
        put(self, "result", result.strip() if arrow else None)
        put(self, "least", len(self.operands) - len(re.findall(r"\{[^}]*%", self.syntax)))

    def bind(self, types: Sequence[Attribute], result: Attribute | None) -> dict[str, Attribute]:
        """The variables by what stands for them. Raises VerifyException."""
        pairs = list(zip(self.operands, types))
        if self.result is not None and result is not None:
            pairs.append((self.result, result))
        bound: dict[str, Attribute] = {}
        for variable, type_ in pairs:
            if variable[0] in _MAY_BE and variable.isalnum():
                if bound.setdefault(variable, type_) != type_:
                    raise VerifyException(f"has {type_} where {bound[variable]} is expected")
                what, fits = _MAY_BE[variable[0]]
                if not fits(type_):
                    raise VerifyException(f"has {type_} where {what} is expected")
        for text, type_ in pairs:
            wanted = _made(text, bound)
            if wanted is not None and type_ != wanted:
                raise VerifyException(f"has {type_} where {wanted} is expected")
        return bound


class FormOp(IRDLOperation):
    """An op of a form."""

    FORM: ClassVar[Form]
    ENUMS: ClassVar[Mapping[str, type[EnumAttr]]] = {}
    """Its properties."""

    arguments = var_operand_def()
    res = opt_result_def()

    def verify_(self) -> None:
        form = self.FORM
        if not form.least <= len(self.operands) <= len(form.operands):
            raise VerifyException(
                f"'{self.name}' has {len(self.operands)} operands, expected {len(form.operands)}"
            )
        if (form.result is None) != (not self.results):
            raise VerifyException(f"'{self.name}' has {len(self.results)} results")
        try:
            form.bind(self.operand_types, self.res.type if self.res is not None else None)
        except VerifyException as error:
            raise VerifyException(f"'{self.name}' {error}") from None
        self.verify_more()

    def verify_more(self) -> None:
        """What an op asks beyond its form."""

    @classmethod
    def make(
        cls,
        *operands: SSAValue | Operation,
        result: Attribute | None = None,
        attributes: Mapping[str, Attribute] = {},
        **properties: str | EnumAttr,
    ) -> Self:
        """An op of operands; its result type where they do not say it; properties by name."""
        values = [SSAValue.get(operand) for operand in operands]
        form = cls.FORM
        if form.result is not None and result is None:
            bound = form.bind([value.type for value in values], None)
            result = _made(form.result, bound)
            assert result is not None, f"{cls.name} needs its result type"
        return cls.build(
            operands=[values],
            result_types=[[result] if result is not None else []],
            properties={
                name: cls.ENUMS[name].of(value) if isinstance(value, str) else value
                for name, value in properties.items()
            },
            attributes=dict(attributes),
        )

    def print(self, printer: Printer) -> None:
        bound = self.FORM.bind(self.operand_types, self.res.type if self.res is not None else None)
        text = _Text(printer)
        for token in self.FORM.tokens:
            part = _PART.search(token)
            if part is None:
                if token == "dict":
                    printer.print_op_attributes(self.attributes)
                    text.apart = True
                elif token in bound:
                    text.put("")
                    printer.print_attribute(bound[token])
                else:
                    text.put(token)
                continue
            angle, quoted, number = part.groups()
            if number is not None:
                if int(number) >= len(self.operands):
                    continue
                front, _, behind = token.strip("{}").partition(f"%{number}")
                text.put(front.strip())
                printer.print_operand(self.operands[int(number)])
                text.apart = True
                if behind.strip():
                    text.put(behind.strip())
            elif (value := self.properties.get(angle or quoted)) is not None:
                named = cast(EnumAttr, value).text
                if token.startswith("{,"):
                    text.put(",")
                text.put(f"<{named}>" if angle else f'"{named}"')

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return _Parsing(cls, parser).op()


class _Text:
    """Puts words one behind the other as MLIR does."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer
        self.apart = True

    def put(self, word: str) -> None:
        """A word, or (empty) what the caller prints next."""
        if self.apart and word not in {",", "[", "]", ")"}:
            self.printer.print_string(" ")
        self.printer.print_string(word)
        self.apart = not word.endswith(("[", "("))


class _Parsing:
    """Reads one op by the tokens of its form."""

    def __init__(self, cls: type[FormOp], parser: Parser) -> None:
        self.cls, self.parser = cls, parser
        self.operands: dict[int, UnresolvedOperand] = {}
        self.bound: dict[str, Attribute] = {}
        self.properties: dict[str, Attribute] = {}
        self.attributes: dict[str, Attribute] = {}

    def op(self) -> Any:
        """The op that stands here."""
        place = self.parser.pos
        for token in self.cls.FORM.tokens:
            self.token(token)
        form = self.cls.FORM
        values: list[SSAValue] = []
        for number, operand in sorted(self.operands.items()):
            type_ = _made(form.operands[number], self.bound)
            if type_ is None:
                self.parser.raise_error(f"'{self.cls.name}' lacks a type", place)
            values.append(self.parser.resolve_operand(operand, type_))
        results: list[Attribute] = []
        if form.result is not None:
            result = _made(form.result, self.bound)
            if result is None:
                self.parser.raise_error(f"'{self.cls.name}' lacks the type of its result", place)
            results.append(result)
        return self.cls.build(
            operands=[values],
            result_types=[results],
            properties=self.properties,
            attributes=self.attributes,
        )

    def token(self, token: str) -> None:
        """Reads what a token stands for."""
        parser = self.parser
        part = _PART.search(token)
        if part is not None:
            self.part(token, *part.groups())
        elif token == "dict":
            self.attributes = parser.parse_optional_attr_dict()
        elif token[0] in _MAY_BE and token.isalnum():
            self.bound[token] = parser.parse_type()
        elif token.isidentifier():
            parser.parse_keyword(token)
        else:
            parser.parse_punctuation(cast(Any, token))

    def part(self, token: str, angle: str | None, quoted: str | None, number: str | None) -> None:
        """Reads an operand or a property, which may be absent in braces."""
        parser, optional = self.parser, token.startswith("{")
        if number is not None:
            words = token.strip("{}").partition(f"%{number}")
            for word in (_TOKEN.findall(words[0]), None, _TOKEN.findall(words[2])):
                if word is None:
                    self.operands[int(number)] = parser.parse_unresolved_operand()
                    continue
                for one in word:
                    if optional and one.isidentifier():
                        if not parser.parse_optional_keyword(one):
                            return
                    else:
                        parser.parse_punctuation(one)
            return
        name = angle or quoted or ""
        kind = self.cls.ENUMS[name]
        if token.startswith("{,") and not parser.parse_optional_punctuation(","):
            return
        if angle:
            self.properties[name] = kind(kind.parse_parameter(parser))
        else:
            self.properties[name] = kind.parse_text(parser, parser.parse_str_literal())
