"""Where a variable's first content comes from, read off a bound graph module."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from openinfer.dialects.graph import (
    NameAttr,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    VariableOp,
)
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)(?:\s*\+\s*([0-9]{1,9}))?\}")
"""`{l}`, or `{l + 1}`, in a pattern."""

FREE_PLACES = 1 << 16
PLACES_PER_TENSOR = 64
"""A family may reach over `FREE_PLACES` places, or over so many for each tensor that it has, if that is
more: all of them are listed when a program is compiled, and the name of one tensor sets their number."""


@dataclass
class Bindings:
    """What a bound module says of its package."""

    sizes: dict[str, int] = field(default_factory=dict[str, int])
    tensors: dict[str, PackageTensorOp] = field(default_factory=dict[str, PackageTensorOp])
    values: dict[str, Attribute] = field(default_factory=dict[str, Attribute])

    @staticmethod
    def of(module: ModuleOp) -> Bindings:
        found = Bindings()
        for op in module.body.ops:
            if isinstance(op, PackageSizeOp):
                found.sizes[op.size.data] = op.value.data.evaluate({})
            elif isinstance(op, PackageTensorOp):
                found.tensors[op.tensor.data] = op
            elif isinstance(op, PackageValueOp):
                found.values[op.entry.data] = op.value
        return found


def package_name(variable: VariableOp) -> str:
    """The name that the variable has in the package: `@ref`, else its own."""
    reference = variable.option("ref")
    return reference.data if isinstance(reference, StringAttr) else variable.variable.data


def stored_dtype(variable: VariableOp) -> str | None:
    """What `@dtype` says that the package holds, or None."""
    stored = variable.option("dtype")
    return stored.data if isinstance(stored, NameAttr) else None


def pattern_of(variable: VariableOp) -> str | None:
    """The `@pattern` text of a prefix table, or None."""
    pattern = variable.option("pattern")
    return pattern.data if isinstance(pattern, StringAttr) else None


def member_name(pattern: str, indices: dict[str, int]) -> str:
    """The tensor of one member: every `{index}` replaced by its number, `{index + 1}` by the next one."""
    return PLACEHOLDER.sub(lambda m: str(indices[m.group(1)] + int(m.group(2) or 0)), pattern)


def family_extents(pattern: str, order: list[str], names: Iterable[str]) -> list[int]:
    """How far each index of a prefix table reaches in a package: largest number found + 1."""
    extents = [0] * len(order)
    for name in names:
        found = member_indices(pattern, name)
        if found is not None:
            for i, index in enumerate(order):
                extents[i] = max(extents[i], found[index] + 1)
    return extents


def family_firsts(pattern: str, order: list[str], names: Iterable[str]) -> list[int]:
    """Where each index of a prefix table begins in a package: the smallest number found, 0 without any."""
    members = [found for name in names if (found := member_indices(pattern, name)) is not None]
    return [min((found[index] for found in members), default=0) for index in order]


def family_members(
    pattern: str, order: list[str], names: Iterable[str]
) -> list[tuple[tuple[int, ...], str]]:
    """The tensors that a package has of a prefix table, each behind its place, row-major in its indices."""
    found = ((member_indices(pattern, name), name) for name in names)
    return sorted((tuple(at[i] for i in order), name) for at, name in found if at is not None)


def sparse_family(variable: VariableOp, names: Iterable[str]) -> tuple[str, str] | None:
    """What is wrong with a prefix table whose tensors lie too far from each other, and the fix; else None.

    Whoever makes a list of all places of a family asks this first.
    """
    pattern = pattern_of(variable)
    if pattern is None:
        return None
    order = [i.data for i in variable.indices]
    members = family_members(pattern, order, names)
    extents = [max(numbers) + 1 for numbers in zip(*(place for place, _ in members))]
    places, most = math.prod(extents), max(FREE_PLACES, PLACES_PER_TENSOR * len(members))
    if places <= most:
        return None
    _, farthest = max(members, key=lambda member: max(member[0]))
    reach = ", ".join(f"{index} in 0..{extent}" for index, extent in zip(order, extents))
    return (
        f"the model has {len(members)} of the {places} members of {variable.variable.data} for {reach}, "
        f"where at most {most} may be; {farthest!r} reaches farthest",
        f"number the tensors one after another, or give those that {pattern!r} should not mean another name",
    )


def member_indices(pattern: str, name: str) -> dict[str, int] | None:
    """The member that a tensor is of a prefix table; None for one that its pattern does not mean."""
    compiled, places = _compiled(pattern)
    match = compiled.fullmatch(name)
    if match is None:
        return None
    found: dict[str, int] = {}
    for number, (index, offset) in zip(match.groups(), places):
        value = int(number) - offset
        if value < 0 or found.setdefault(index, value) != value:
            return None
    return found


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> tuple[re.Pattern[str], list[tuple[str, int]]]:
    """What names of a pattern look like, and the index and offset of each number in them."""
    expression = ""
    places: list[tuple[str, int]] = []
    position = 0
    for match in PLACEHOLDER.finditer(pattern):
        expression += re.escape(pattern[position : match.start()]) + "(0|[1-9][0-9]{0,8})"
        places.append((match.group(1), int(match.group(2) or 0)))
        position = match.end()
    return re.compile(expression + re.escape(pattern[position:])), places


def solve_dims(
    dims: tuple[Size, ...], shape: tuple[int, ...], sizes: dict[str, int]
) -> dict[str, int]:
    """Sizes that a tensor's shape fixes: dimensions that are one name without a value yet."""
    found: dict[str, int] = {}
    for dim, extent in zip(dims, shape):
        name = dim.single_name
        if name is not None and name not in sizes and name not in found:
            found[name] = extent
    return found
