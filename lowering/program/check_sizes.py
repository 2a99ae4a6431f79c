"""Sizes of a program against the values that they have: names that nobody uses, impossible values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute

from openinfer.dialects.graph import (
    AssignOp,
    NameAttr,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    SizeAttr,
    SizeOp,
    VariableOp,
)
from openinfer.lowering.attributes import PLAIN
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.sources import package_name
from openinfer.runtime.errors import Diagnostic, InputError
from openinfer.runtime.sizes import MAX_SIZE, Size, memory_holds
from openinfer.runtime.suggest import did_you_mean

_BOUND = (PackageSizeOp, PackageTensorOp, PackageValueOp)


def merge_sizes(
    module: ModuleOp, known: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """The sizes of the package and those of the caller.

    Raises InputError when a given size is no possible one, contradicts the package, or is named
    nowhere in the program.
    """
    for name, value in given.items():
        if name in known and known[name] != value:
            raise InputError(
                "OI0520",
                f"size {name} is {known[name]} in the model but {value} was given",
                hint=f"leave {name} out of the sizes, or use another model",
            )
    merged = {**known, **given}
    for name, value in merged.items():
        if not 0 <= value <= MAX_SIZE:
            what = "negative" if value < 0 else "more than any memory holds"
            raise InputError(
                "OI0521", f"size {name} = {value} is {what}", hint="give a number from 0 to 2^48"
            )
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        named = _named(module)
        for name in unknown:
            if name not in named:
                raise InputError(
                    "OI0523", f"the program names no size {name}", hint=_near(name, module)
                )
    return merged


def impossible_sizes(module: ModuleOp, sizes: Mapping[str, int]) -> list[Diagnostic]:
    """What cannot be with these sizes: divisions by zero, tensors that no memory holds."""
    found: list[Diagnostic] = []
    for op in module.walk():
        for size in _sizes(op):
            try:
                size.substitute(sizes)
            except ZeroDivisionError:
                text = f"{size} divides by zero ({_values(size, sizes)})"
                hint = "give another size, or divide by something else"
                found.append(Diagnostic("OI0305", text, location_of(op), hint=hint))
                break
        else:
            if isinstance(op, VariableOp | AssignOp) and _too_large(op, sizes):
                shown = ", ".join(str(dim) for dim in op.sizes)
                values = "; ".join(_values(d, sizes) for d in op.sizes if d.names)
                text = (
                    f"no memory holds {op.variable.data}[{shown}]{f' ({values})' if values else ''}"
                )
                found.append(Diagnostic("OI0305", text, location_of(op), hint="use smaller sizes"))
    return found


def _too_large(op: VariableOp | AssignOp, sizes: Mapping[str, int]) -> bool:
    extents = [dim.substitute(sizes).constant for dim in op.sizes]
    known = [extent for extent in extents if extent is not None]
    return not memory_holds(known)


def _values(size: Size, sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {sizes[name]}" for name in sorted(size.names) if name in sizes)


def _named(module: ModuleOp) -> set[str]:
    """Every name that stands where a size may stand, and what variables are linked to."""
    found: set[str] = set()
    for op in module.walk():
        found |= {name for size in _sizes(op) for name in size.names}
        if isinstance(op, VariableOp):
            found.add(package_name(op))
        elif isinstance(op, SizeOp):
            found.add(op.size.data)
    return found


def _near(name: str, module: ModuleOp) -> str:
    dims = {
        name
        for op in module.walk()
        if isinstance(op, VariableOp | AssignOp)
        for dim in op.sizes
        for name in dim.names
    }
    guess = did_you_mean(name, sorted(_named(module) | dims)).rstrip()
    return guess or f"sizes of the program: {', '.join(sorted(dims)) or 'none'}"


def _sizes(op: Operation) -> Iterator[Size]:
    """Every size expression of an op, bare names of settings among them."""
    if isinstance(op, _BOUND):
        return
    for attribute in (*op.properties.values(), *op.attributes.values()):
        if type(attribute) not in PLAIN:
            yield from _in_attribute(attribute)


def _in_attribute(attribute: Attribute) -> Iterator[Size]:
    match attribute:
        case SizeAttr():
            yield attribute.data
            return
        case NameAttr():
            yield Size.name(attribute.data)
            return
        case ArrayAttr():
            inner = attribute.data
        case DictionaryAttr():
            inner = attribute.data.values()
        case ParametrizedAttribute():
            inner = attribute.parameters
        case _:
            return
    for item in inner:
        if type(item) not in PLAIN:
            yield from _in_attribute(item)
