"""Where a variable's first content comes from, read off a bound graph module."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from openinfer.dialects.graph import (
    NameAttr,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    VariableOp,
)
from openinfer.runtime.sizes import Size

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")


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
    """The tensor of one member: every `{index}` replaced by its number."""
    return _PLACEHOLDER.sub(lambda m: str(indices[m.group(1)]), pattern)


def family_extents(pattern: str, order: list[str], names: Iterable[str]) -> list[int]:
    """How far each index of a prefix table reaches in a package: largest number found + 1."""
    expression = ""
    seen: set[str] = set()
    position = 0
    for match in _PLACEHOLDER.finditer(pattern):
        expression += re.escape(pattern[position : match.start()])
        name = match.group(1)
        expression += f"(?P={name})" if name in seen else f"(?P<{name}>0|[1-9][0-9]{{0,8}})"
        seen.add(name)
        position = match.end()
    expression += re.escape(pattern[position:])
    compiled = re.compile(expression)
    extents = [0] * len(order)
    for name in names:
        if match := compiled.fullmatch(name):
            for i, index in enumerate(order):
                extents[i] = max(extents[i], int(match.group(index)) + 1)
    return extents


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
