"""Sizes that a program defines: `size head = hidden / heads;` stands for the expression wherever it is named.

When a program meets its package the expressions are put in. A division of a definition comes out even:
where its numbers are known then, that is checked then, else before each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    NameAttr,
    OpOp,
    RefAttr,
    SizeAttr,
    SizeBoundOp,
    SizeOp,
    SliceAttr,
    VariableOp,
)
from openinfer.lowering.attributes import PLAIN
from openinfer.lowering.locations import location_of
from openinfer.runtime.errors import Diagnostic, ProgramError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

MAX_TERMS, MAX_DEGREE, MAX_DIVISIONS = 64, 16, 16
"""As large as one expression may be that a person writes (`docs/language.md`, limits)."""


class TooLargeError(Exception):
    """An expression is larger than that once the definitions in it are put in."""


def definitions(module: ModuleOp) -> dict[str, SizeOp]:
    """The definitions of a program by name, of two with one name the first."""
    found: dict[str, SizeOp] = {}
    for op in module.body.ops:
        if isinstance(op, SizeOp):
            found.setdefault(op.size.data, op)
    return found


def cycle_of(name: str, defined: Mapping[str, SizeOp]) -> list[str]:
    """The names by which a definition leads back to itself, itself first and last; empty if it does not."""
    came_from: dict[str, str] = {}
    todo = [name]
    while todo:
        here = todo.pop()
        for used in sorted(defined[here].value.data.names & defined.keys()):
            if used == name:
                path = [here]
                while path[-1] != name:
                    path.append(came_from[path[-1]])
                return [*reversed(path), name]
            if used not in came_from:
                came_from[used] = here
                todo.append(used)
    return []


def expressions(defined: Mapping[str, SizeOp]) -> dict[str, Size]:
    """What each definition stands for, in names that are not defined.

    Those that depend on themselves, divide by 0 or are too large are left out.
    """
    found: dict[str, Size] = {}
    todo = dict.fromkeys(name for name in defined if not cycle_of(name, defined))
    while todo:
        ready = [n for n in todo if not (defined[n].value.data.names & todo.keys())]
        for name in ready:
            del todo[name]
            try:
                found[name] = put_in(defined[name].value.data, found)
            except (TooLargeError, ZeroDivisionError):
                continue
        if not ready:
            break
    return found


def put_in(size: Size, values: Mapping[str, Size]) -> Size:
    """The expression with what names stand for. Raises TooLargeError, ZeroDivisionError.

    A product is refused before it is made: it may have as many terms as those of its factors multiplied.
    """
    return _put_in(size, values)[0]


def _put_in(size: Size, values: Mapping[str, Size]) -> tuple[Size, int]:
    """The expression, and how deeply divisions and max/min are nested in it."""
    if size.names.isdisjoint(values):
        return size, _depth(size)
    total, deepest = Size.of(0), 0
    for monomial, coefficient in size.terms:
        product = Size.of(coefficient)
        for atom in monomial:
            if atom[0] == "name":
                name = str(atom[1])
                factor = values.get(name, Size.name(name))
                depth = _depth(factor)
            else:
                parts = [_put_in(part, values) for part in atom[1:] if isinstance(part, Size)]
                operands, depth = [part for part, _ in parts], 1 + max(d for _, d in parts)
                match atom[0]:
                    case "floordiv":
                        factor = operands[0] // operands[1]
                    case "max":
                        factor = Size.max(*operands)
                    case _:
                        factor = Size.min(*operands)
            deepest = max(deepest, depth)
            if len(product.terms) * len(factor.terms) > 4 * MAX_TERMS:
                raise TooLargeError
            product = _limited(product * factor)
        total = _limited(total + product)
    if deepest > MAX_DIVISIONS:
        raise TooLargeError
    return total, deepest


def _limited(size: Size) -> Size:
    if len(size.terms) > MAX_TERMS or any(len(monomial) > MAX_DEGREE for monomial, _ in size.terms):
        raise TooLargeError
    return size


def _depth(size: Size) -> int:
    operands = [part for m, _ in size.terms for atom in m for part in atom[1:]]
    return max((1 + _depth(part) for part in operands if isinstance(part, Size)), default=0)


# Where the program meets its package.


def has_definitions(module: ModuleOp) -> bool:
    """Whether something is left to put in: a definition is used, or a bound of `@fixed` is a name."""
    return any(
        isinstance(op, SizeOp) or (isinstance(op, VariableOp) and named_bounds(op))
        for op in module.body.ops
    )


def named_bounds(op: VariableOp) -> list[str]:
    """The indices whose bound in `@fixed` is no number."""
    fixed = op.option("fixed")
    entries = fixed.data if isinstance(fixed, DictionaryAttr) else {}
    return [index for index, bound in entries.items() if not isinstance(bound, IntegerAttr)]


def put_definitions_in(module: ModuleOp, known: Mapping[str, int]) -> None:
    """Puts what sizes stand for where they are named. Changes the module; `known` are sizes with a value.

    Raises ProgramError for an expression that becomes too large.
    """
    values = expressions(definitions(module))
    problems: list[Diagnostic] = []
    for op in module.walk():
        if isinstance(op, SizeBoundOp):
            continue  # Messages say it as it is written.
        try:
            _put_into(op, values, known)
        except TooLargeError:
            problems.append(
                Diagnostic(
                    "OI0121",
                    "a size expression is too large once the sizes that it names are put in",
                    location_of(op),
                    hint="use a shorter expression",
                )
            )
    if problems:
        raise ProgramError(problems)


def _put_into(op: Operation, values: Mapping[str, Size], known: Mapping[str, int]) -> None:
    for key, attribute in op.properties.items():
        if isinstance(op, OpOp) and key == "settings":
            new = _in_attribute(attribute, values, known)
        elif isinstance(op, VariableOp) and key == "options":
            new = _in_options(op, values, known)
        else:
            new = _in_attribute(attribute, values, None)
        if new is not attribute:
            op.properties[key] = new


def _in_options(
    op: VariableOp, values: Mapping[str, Size], known: Mapping[str, int]
) -> DictionaryAttr:
    """The options of a declaration: a size may stand in `@fixed`."""
    if not named_bounds(op):
        return op.options
    fixed = op.options.data["fixed"]
    numbers = {**values, **{n: Size.of(v) for n, v in known.items() if n not in values}}
    return DictionaryAttr({**op.options.data, "fixed": _in_attribute(fixed, numbers, known)})


def _in_attribute(
    attribute: Attribute, values: Mapping[str, Size], known: Mapping[str, int] | None
) -> Attribute:
    """With `known` a bare name is a size, too, as it is in settings."""
    if type(attribute) in PLAIN:
        return attribute
    match attribute:
        case SizeAttr(data=size):
            if size.names.isdisjoint(values):
                return attribute
            try:
                return _value(put_in(size, values), known)
            except ZeroDivisionError:
                return attribute  # Reported when all sizes are known.
        case NameAttr(data=name) if known is not None and name in values:
            return _value(values[name], known)
        case ArrayAttr(data=items):
            new = [_in_attribute(item, values, known) for item in items]
            return attribute if _same(new, items) else ArrayAttr(new)
        case DictionaryAttr(data=entries):
            new = [_in_attribute(item, values, known) for item in entries.values()]
            same = _same(new, tuple(entries.values()))
            return attribute if same else DictionaryAttr(dict(zip(entries, new)))
        case RefAttr():
            indices = _in_attribute(attribute.indices, values, known)
            if indices is attribute.indices:
                return attribute
            return RefAttr(attribute.variable, indices, attribute.bracketed)  # pyright: ignore[reportArgumentType]
        case SliceAttr(start=start, stop=stop):
            new = [_in_attribute(bound, values, known) for bound in (start, stop)]
            return attribute if _same(new, (start, stop)) else SliceAttr(*new)
        case _:
            return attribute


def _same(new: list[Attribute], old: tuple[Attribute, ...]) -> bool:
    return all(a is b for a, b in zip(new, old))


def _value(size: Size, known: Mapping[str, int] | None) -> Attribute:
    """A size where it stands; in a setting a number, as soon as it is known."""
    if known is None:
        return SizeAttr(size)
    try:
        number = size.substitute(known).constant
    except ZeroDivisionError:
        number = None
    if number is not None:
        return IntegerAttr(number, i64)
    name = size.single_name
    return NameAttr(name) if name is not None else SizeAttr(size)


# Values.


@dataclass(frozen=True)
class Quotient:
    """A division in a definition: it must come out even."""

    left: Size
    right: Size
    definition: SizeOp


def quotients(module: ModuleOp) -> Iterator[Quotient]:
    """The divisions in the definitions of a program that is bound."""
    for op in definitions(module).values():
        for left, right in _divided(op.value.data):
            yield Quotient(left, right, op)


def _divided(size: Size) -> Iterator[tuple[Size, Size]]:
    for monomial, _ in size.terms:
        for atom in monomial:
            operands = [part for part in atom[1:] if isinstance(part, Size)]
            if atom[0] == "floordiv":
                yield operands[0], operands[1]
            for part in operands:
                yield from _divided(part)


def defined_values(module: ModuleOp, sizes: Mapping[str, int]) -> dict[str, int]:
    """The definitions that have a value with these sizes."""
    found: dict[str, int] = {}
    for name, op in definitions(module).items():
        try:
            value = op.value.data.substitute(sizes).constant
        except ZeroDivisionError:
            continue  # Reported at its place.
        if value is not None:
            found[name] = value
    return found


def definition_problems(
    module: ModuleOp, known: Mapping[str, int], given: Mapping[str, int]
) -> list[Diagnostic]:
    """Definitions that contradict the package (`known`) or the caller, or that divide with a remainder."""
    found: list[Diagnostic] = []
    sizes = {**known, **given}
    values = defined_values(module, sizes)
    for name, op in definitions(module).items():
        if name in sizes and values.get(name) != sizes[name]:
            text = str(op.value.data)
            here = f"{text} = {values[name]}" if name in values else text
            here = text if values.get(name) == op.value.data.constant is not None else here
            who = f"{sizes[name]} was given" if name in given else f"{sizes[name]} in the model"
            found.append(
                Diagnostic(
                    "OI0287",
                    f"size `{name}` is {here} in the program, but {who}",
                    location_of(op),
                    hint="remove the definition, or give it another name",
                )
            )
    for quotient in quotients(module):
        try:
            left, right = (s.substitute(sizes).constant for s in (quotient.left, quotient.right))
        except ZeroDivisionError:
            continue
        if left is None or not right or left % right == 0:
            continue
        found.append(remainder(quotient, left, right))
    return found


def remainder(quotient: Quotient, left: int, right: int) -> Diagnostic:
    """A division that does not come out even."""
    op = quotient.definition
    shown = f"{left} / {right}" if quotient.left.names | quotient.right.names else ""
    text = f"{quotient.left}/{quotient.right}"
    return Diagnostic(
        "OI0288",
        f"size `{op.size.data}`: {text}{f' = {shown}' if shown else ''} leaves a remainder",
        location_of(op),
        hint="use sizes that divide; to round down, write the expression where it is used",
    )
