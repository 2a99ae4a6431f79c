"""What the names in a block with parameters stand for in one call of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    BlockOp,
    CallOp,
    LiteralAttr,
    NameAttr,
    RefAttr,
    SizeAttr,
    SliceAttr,
)
from openinfer.dialects.graph.syntax import number_attribute
from openinfer.lowering.program.places import Part, Places
from openinfer.lowering.program.report import Report
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size, SizeLike

BRACES = re.compile(r"\{([^{}]*)\}")


def arguments_of(call: CallOp, block: BlockOp) -> dict[str, Attribute]:
    """What a call, which gives all that the block needs, gives each parameter."""
    found = dict(block.defaults.data) if block.defaults is not None else {}
    found |= dict(zip(block.parameter_names, call.inputs))
    return found | dict(call.settings.data)


@dataclass
class CallNames:
    """The parameters, temporaries and constants of a block, in a call of it. An argument that is none for a
    use of its parameter is reported (OI0275)."""

    report: Report
    places: Places
    call: CallOp
    block: BlockOp
    counted: Collection[str] = ()
    """The indices of the loops around the call, and the sizes of the program."""
    definitions: Mapping[str, Size] = field(default_factory=dict[str, Size])
    """What the sizes that the program defines stand for, in names that it does not."""
    arguments: dict[str, Attribute] = field(init=False)
    locals: dict[str, str] = field(default_factory=dict[str, str])
    sizes: dict[str, SizeLike] = field(default_factory=dict[str, SizeLike])
    """What parameters and indices of loops are in sizes."""
    families: dict[str, RefAttr] = field(default_factory=dict[str, RefAttr])
    """The constants of the block, and how they are used here."""

    def __post_init__(self) -> None:
        self.arguments = arguments_of(self.call, self.block)
        for name, value in self.arguments.items():
            size = _as_size(value)
            if size is not None:
                self.sizes[name] = size

    def value(
        self,
        value: Attribute,
        node: Operation,
        part: Part,
        *,
        operand: bool = False,
        texts: bool = False,
    ) -> Attribute:
        """The attribute with what parameters and temporaries are here."""
        match value:
            case RefAttr():
                return self.reference(value, node, part, literal=operand, texts=texts)
            case SizeAttr():
                return SizeAttr(self.size(value.data, node, part))
            case SliceAttr():
                start = self.value(value.start, node, (*part, "start"))
                return SliceAttr(start, self.value(value.stop, node, (*part, "stop")))
            case NameAttr():
                return self._setting(value, texts)
            case ArrayAttr():
                items = enumerate(value)
                return ArrayAttr([self.value(item, node, (*part, i)) for i, item in items])
            case DictionaryAttr():
                return DictionaryAttr(
                    {k: self.value(v, node, (*part, k)) for k, v in value.data.items()}
                )
            case StringAttr() if texts:
                return StringAttr(self.text(value.data, node, part))
            case _:
                return value

    def _setting(self, value: NameAttr, texts: bool) -> Attribute:
        """A bare name in a setting: a parameter, a temporary, or something of the program."""
        name = value.data
        if name in self.arguments:
            found = self.arguments[name]
            if isinstance(found, LiteralAttr):
                return found.value
            if isinstance(found, RefAttr) and not texts:
                if not found.bracketed.data:
                    return NameAttr(found.variable.data)
                self._wrong(name, "a setting names variables without indices")
                return value
            return found
        if name in self.sizes:
            return NameAttr(str(self.sizes[name]))
        return NameAttr(self.locals.get(name, name))

    def number(self, operand: Attribute) -> Size | None:
        """What a parameter is that an op takes, where the call gives an index, a size or an expression; None
        for a variable and for a plain number."""
        if not isinstance(operand, RefAttr) or operand.bracketed.data:
            return None
        name = operand.variable.data
        size = _as_size(self.arguments[name]) if name in self.arguments else None
        if size is None or size.constant is not None:
            return None
        if size.single_name is not None and size.single_name not in self.counted:
            return None
        if not _divides_by_numbers(size.substitute(self.definitions)):
            # Where an op divides by 0, it gives 0.
            self._wrong(name, "an expression that is an operand divides by numbers only")
        return size

    def whole_number(self, operand: Attribute) -> Size | None:
        """What a parameter is that an op takes, where the call gives a plain whole number; else None."""
        if not isinstance(operand, RefAttr) or operand.bracketed.data:
            return None
        given = self.arguments.get(operand.variable.data)
        size = None if given is None else _as_size(given)
        return size if size is not None and size.constant is not None else None

    def reference(
        self, ref: RefAttr, node: Operation, part: Part, *, literal: bool, texts: bool = False
    ) -> Attribute:
        """The use of a variable. A parameter may be a number where one may stand."""
        name = ref.variable.data
        slots = [self.value(slot, node, (*part, i)) for i, slot in enumerate(ref.indices)]
        bracketed = bool(ref.bracketed.data)
        if name in self.families:
            family = self.families[name]
            return RefAttr.of(family.variable.data, [*family.indices, *slots], bracketed=bracketed)
        if name not in self.arguments:
            return RefAttr.of(self.locals.get(name, name), slots, bracketed=bracketed)
        value = self.arguments[name]
        if isinstance(value, NameAttr):
            value = RefAttr.of(value.data)
        if isinstance(value, RefAttr):
            if not bracketed:
                return value
            if value.bracketed.data:
                self._wrong(name, "it has an index already")
            return RefAttr.of(value.variable.data, slots, bracketed=True)
        if texts and not bracketed:
            return value.value if isinstance(value, LiteralAttr) else value
        if literal and not bracketed:
            if isinstance(value, LiteralAttr):
                return value
            if isinstance(value, IntegerAttr | FloatAttr):
                return LiteralAttr(value)  # pyright: ignore[reportUnknownArgumentType]
            if isinstance(value, SizeAttr) and value.data.constant is not None:
                return LiteralAttr(number_attribute(value.data.constant))
            self._wrong(name, "an operand is a variable or a number")
        else:
            self._wrong(name, "a variable stands here")
        return RefAttr.of(name, slots, bracketed=bracketed)

    def size(self, size: Size, node: Operation, part: Part) -> Size:
        for name in size.names & self.arguments.keys():
            if name not in self.sizes:
                self._wrong(name, "a size is made of whole numbers, sizes and integer variables")
        renamed = {old: Size.name(new) for old, new in self.locals.items()}
        return size.substitute({**renamed, **self.sizes})

    def text(self, text: str, node: Operation, part: Part) -> str:
        """A text with what stands in braces written out."""

        def written(match: re.Match[str]) -> str:
            inner = match[1]
            value = self.arguments.get(inner.strip())
            if isinstance(value, StringAttr):
                return value.data
            if inner.strip() in self.arguments and inner.strip() not in self.sizes:
                self._wrong(inner.strip(), "a text or a number stands in the braces")
                return match[0]
            try:
                size = Size.of(inner).substitute(self.sizes)
            except (ValueError, ZeroDivisionError):
                return match[0]
            return f"{{{size}}}" if size.constant is None else str(size.constant)

        return BRACES.sub(written, text)

    def _wrong(self, name: str, what: str) -> None:
        """Reports an argument that is none for a use of its parameter."""
        call, block = self.call, self.block
        if name in call.settings.data:
            part: Part = ("settings", name)
        elif name in block.parameter_names[: len(call.inputs)]:
            part = ("inputs", block.parameter_names.index(name))
        else:
            part = ()
        self.report.error(
            "OI0275",
            self.places.of(call, part),
            f"`{name}` of block `{block.block_name.data}` is given what it cannot be: {what}",
            fix=f"give `{name}` something else, or use it in another way in the block",
            notes=[("the block", self.places.of(block, ("name",)))],
        )


def around(op: Operation) -> Iterator[Operation]:
    """The ops that an op stands in, innermost first."""
    outer = op.parent_op()
    while outer is not None:
        yield outer
        outer = outer.parent_op()


def _as_size(value: Attribute) -> Size | None:
    """An argument in an expression; None for one that is no number."""
    match value:
        case LiteralAttr():
            return _as_size(value.value)
        case IntegerAttr() if getattr(value.type, "bitwidth", 0) != 1:
            return Size.of(value.value.data)
        case SizeAttr():
            return value.data
        case NameAttr():
            return Size.name(value.data)
        case RefAttr() if not value.bracketed.data:
            return Size.name(value.variable.data)
        case _:
            return None


def _divides_by_numbers(size: Size) -> bool:
    atoms = [atom for monomial, _ in size.terms for atom in monomial if atom[0] != "name"]
    parts = [part for atom in atoms for part in atom[1:] if isinstance(part, Size)]
    good = all(atom[0] != "floordiv" or Size.of(cast("Size", atom[2])).constant for atom in atoms)
    return good and all(_divides_by_numbers(part) for part in parts)


def names_between_braces(text: str) -> list[str]:
    """The names in the braces of a text."""
    return [name for inner in BRACES.findall(text) for name in _identifiers(inner)]


def mentioned(values: Iterable[Attribute]) -> Iterator[str]:
    """The names in arguments."""
    for value in values:
        match value:
            case RefAttr():
                yield value.variable.data
                yield from mentioned(value.indices)
            case SizeAttr():
                yield from value.data.names
            case SliceAttr():
                yield from mentioned((value.start, value.stop))
            case NameAttr():
                yield value.data
            case ArrayAttr():
                yield from mentioned(value)
            case StringAttr():
                yield from names_between_braces(value.data)
            case _:
                pass


def _identifiers(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)
