"""Names in a program of level `graph`: which an op says, and giving them other names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    LoopOp,
    NameAttr,
    RefAttr,
    SizeAttr,
    SizeBoundOp,
    SizeOp,
    SliceAttr,
    VariableOp,
)
from openinfer.lowering.attributes import PLAIN
from openinfer.runtime.sizes import Size, SizeLike

_NAMED = ("variable", "variables", "parameters")
"""Properties whose texts are names of variables."""


def entry_of(module: ModuleOp) -> BlockOp | None:
    """The block in which a step begins."""
    blocks = (op for op in module.body.ops if isinstance(op, BlockOp))
    return next((block for block in blocks if block.block_name.data == "entry"), None)


def all_ops(module: ModuleOp) -> Iterator[Operation]:
    """Declarations, blocks and nodes, outer ones first."""
    for op in module.walk():
        if op is not module:
            yield op


def mapped(
    value: Attribute,
    variable: Callable[[str], str],
    size: Callable[[Size], Size],
    setting: Callable[[str], str],
) -> Attribute:
    """The attribute with other names: of variables that are used, in sizes, and of bare settings."""
    if type(value) in PLAIN:
        return value

    def inner(one: Attribute) -> Attribute:
        return mapped(one, variable, size, setting)

    match value:
        case RefAttr():
            slots = ArrayAttr([inner(slot) for slot in value.indices])
            return RefAttr(StringAttr(variable(value.variable.data)), slots, value.bracketed)
        case SizeAttr():
            return SizeAttr(size(value.data))
        case SliceAttr():
            return SliceAttr(inner(value.start), inner(value.stop))
        case NameAttr():
            return NameAttr(setting(value.data))
        case ArrayAttr():
            return ArrayAttr([inner(item) for item in value])
        case DictionaryAttr():
            return DictionaryAttr({key: inner(item) for key, item in value.data.items()})
        case _:
            return value


def rename(
    module: ModuleOp, names: Mapping[str, str], blocks: Sequence[BlockOp] | None = None
) -> None:
    """Gives variables, temporaries and what names them other names, in some blocks alone where these are
    given. Sizes of other names stay."""
    if not names:
        return
    sizes: dict[str, SizeLike] = {old: Size.name(new) for old, new in names.items()}

    def variable(name: str) -> str:
        return names.get(name, name)

    for op in all_ops(module) if blocks is None else (o for b in blocks for o in b.walk()):
        rename_in(op, variable, lambda size: size.substitute(sizes))


def rename_in(op: Operation, variable: Callable[[str], str], size: Callable[[Size], Size]) -> None:
    """The same for one op, without what stands in its regions."""
    for key, value in op.properties.items():
        if key in _NAMED and not isinstance(op, SizeOp):
            op.properties[key] = _named(value, variable)
        elif not (isinstance(op, VariableOp) and key == "options" and _plain_options(op)):
            op.properties[key] = mapped(value, variable, size, variable)


def _plain_options(op: VariableOp) -> bool:
    """Whether attributes of a declaration name no other thing of the program."""
    return not {"fixed", "other"} & set(op.options.data)


def _named(value: Attribute, variable: Callable[[str], str]) -> Attribute:
    if isinstance(value, StringAttr):
        return StringAttr(variable(value.data))
    if isinstance(value, ArrayAttr):
        names = cast("ArrayAttr[StringAttr]", value)
        return ArrayAttr([StringAttr(variable(name.data)) for name in names])
    return value


def taken_names(module: ModuleOp, *, temporaries: bool = True) -> set[str]:
    """Every name that the program has for something: variables, temporaries, sizes, indices. Without
    `temporaries` those that all blocks know."""
    found: set[str] = set()
    for op in all_ops(module):
        match op:
            case VariableOp() if temporaries or op.parent_op() is module:
                found.add(op.variable.data)
                found |= {index.data for index in op.indices}
                found |= {name for dim in op.sizes for name in dim.names}
            case AssignOp():
                if temporaries:
                    found.add(op.variable.data)
                found |= {name for dim in op.sizes for name in dim.names}
            case SizeOp():
                found.add(op.size.data)
            case SizeBoundOp():
                parts = (op.low, op.size, op.high)
                found |= {n for part in parts if part is not None for n in part.data.names}
            case LoopOp():
                found |= {op.index.data, *op.start.data.names, *op.stop.data.names}
            case BlockOp() if op.parameters is not None and temporaries:
                # Nothing declares its temporaries.
                found |= {*op.parameter_names, *written_names(op)}
            case _:
                pass
    return found


def read_names(op: Operation) -> set[str]:
    """The names whose value an op, or what stands in it, may need; those of settings and sizes, too."""
    found: set[str] = set()

    def variable(name: str) -> str:
        found.add(name)
        return name

    def size(value: Size) -> Size:
        found.update(value.names)
        return value

    for one in op.walk():
        written = {"outputs", "target"} if not isinstance(one, VariableOp) else set[str]()
        for key, value in one.properties.items():
            if key in _NAMED and not isinstance(one, AssignOp | VariableOp):
                _named(value, variable)
            elif key not in written:
                mapped(value, variable, size, variable)
            elif isinstance(value, RefAttr):
                mapped(value.indices, variable, size, variable)
    return found


def written_names(op: Operation) -> set[str]:
    """The names that an op, or what stands in it, writes."""
    found: set[str] = set()
    for one in op.walk():
        writes = getattr(one, "writes", None)
        if writes is not None:
            found |= {ref.variable.data for ref in writes()}
    return found


def first_uses(ops: Iterable[Operation], read: set[str], written: set[str]) -> None:
    """Adds what statements read before they write it, and what they write."""
    for op in ops:
        if isinstance(op, LoopOp):
            first_uses(op.body.block.ops, read, written)
        elif not isinstance(op, AssignOp):
            read |= read_names(op) - written
            written |= written_names(op)


def fresh(stem: str, taken: set[str]) -> str:
    """A name that is free, which it takes: `stem`, or with a number behind it."""
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}{'_' if stem[-1].isdigit() else ''}{number}"
    taken.add(name)
    return name
