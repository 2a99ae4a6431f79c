"""The interface of a program as the entries of `nn.interface`: what `@step` takes and gives, by name.

`graph-to-nn` writes it, passes that change arguments keep it true, and the runtime's manifest is
read from it when code is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute

from openinfer.dialects.nn import interface_of, update_interface


@dataclass(frozen=True)
class Weight:
    """One weight argument of `@step`."""

    variable: str
    sources: tuple[str, ...]
    """Tensors of the package, for a family all members in row-major order."""
    members: tuple[int, ...] = ()
    """Extents of the indices of a family; empty for a single tensor."""
    prepare: str | None = None
    """The function that lays a member out when the program is loaded."""


def strings(module: ModuleOp, key: str) -> list[str]:
    """A list of names among the module's attributes."""
    value = interface_of(module).get(key)
    if value is None:
        return []
    assert isinstance(value, ArrayAttr)
    return [item.data for item in value if isinstance(item, StringAttr)]


def input_count(module: ModuleOp) -> int:
    """How many arguments of `@step` are inputs or persistent values; weights follow them."""
    return len(strings(module, "inputs")) + len(strings(module, "held"))


def read_weights(module: ModuleOp) -> list[Weight]:
    """The weight arguments of `@step`, in order."""
    rows = interface_of(module).get("weights")
    found: list[Weight] = []
    for row in rows if isinstance(rows, ArrayAttr) else ():
        assert isinstance(row, DictionaryAttr)
        prepare = row.data.get("prepare")
        found.append(
            Weight(
                _text(row.data["variable"]),
                tuple(_text(s) for s in _items(row.data["sources"])),
                tuple(_number(n) for n in _items(row.data.get("members", ArrayAttr([])))),
                _text(prepare) if prepare is not None else None,
            )
        )
    return found


def write_weights(module: ModuleOp, weights: Sequence[Weight]) -> None:
    """Sets the weight rows of a module."""
    update_interface(module, {"weights": ArrayAttr([weight_row(w) for w in weights])})


def weight_row(weight: Weight) -> DictionaryAttr:
    """A weight as an attribute."""
    entry: dict[str, Attribute] = {
        "variable": StringAttr(weight.variable),
        "sources": ArrayAttr([StringAttr(s) for s in weight.sources]),
    }
    if weight.members:
        entry["members"] = ArrayAttr([IntegerAttr(n, i64) for n in weight.members])
    if weight.prepare is not None:
        entry["prepare"] = StringAttr(weight.prepare)
    return DictionaryAttr(entry)


def _items(value: Attribute) -> tuple[Attribute, ...]:
    assert isinstance(value, ArrayAttr)
    return value.data


def _text(value: Attribute) -> str:
    assert isinstance(value, StringAttr)
    return value.data


def _number(value: Attribute) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data


def variable_dims(module: ModuleOp, name: str) -> list[str]:
    """The dimensions of a variable, as texts of size expressions. Raises KeyError."""
    rows = interface_of(module).get("variables")
    for row in rows if isinstance(rows, ArrayAttr) else ():
        assert isinstance(row, DictionaryAttr)
        if _text(row.data["name"]) == name:
            return [_text(d) for d in _items(row.data["dims"])]
    raise KeyError(name)
