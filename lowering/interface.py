"""The interface of a program as the entries of `nn.interface`: what `@step` takes and gives, by name.

`graph-to-nn` writes it, passes that change arguments keep it true, and the runtime's manifest is
read from it when code is made. Its rows are the dataclasses of `runtime/manifest.py`: a row is a
dictionary of the fields that differ from their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i1,
)
from xdsl.ir import Attribute

from openinfer.dialects.graph import NameAttr, SizeAttr
from openinfer.dialects.nn import (
    BlocksAttr,
    LayoutAttr,
    PairsAttr,
    PanelsAttr,
    QuadsAttr,
    SlotAttr,
    TilesAttr,
    WinogradAttr,
    interface_of,
    update_interface,
)
from openinfer.lowering.attributes import i64_attribute, text_attribute
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.rows import row_of
from openinfer.runtime.slots import Slot

Row = TypeVar("Row")


@dataclass(frozen=True)
class Weight:
    """One weight argument of `@step`."""

    variable: str
    """Empty for a constant that `prepare` makes."""
    sources: tuple[str, ...]
    """Tensors of the package, for a family all members in row-major order; none for such a constant, and an
    empty text for a member that no step reads."""
    members: tuple[int, ...] = ()
    """Extents of the indices of a family; empty for a single tensor."""
    layout: PanelsAttr | PairsAttr | QuadsAttr | BlocksAttr | TilesAttr | WinogradAttr | None = None
    """How a member lies in memory; None: as in the package."""
    prepare: str | None = None
    """The function that lays a member out when the program is loaded."""
    formats: tuple[str, ...] = ()
    """The dtypes of the tensors in the package, where all of them are f16 or block formats, and the variable
    is f32: one where all share it, else one for each. `keep-blocks` and `keep-narrow` look at it."""
    block: str | None = None
    """The block format that the argument keeps, or is laid out from: no value is unpacked; None: values."""
    dtype: str | None = None
    """The dtype that its values are read in; None: that of the variable."""


def as_attribute(value: object) -> Attribute:
    """A row, or a value of one, as an attribute; attributes stay as they are."""
    match value:
        case Attribute():
            return value
        case bool():
            return IntegerAttr(int(value), i1)
        case int():
            return i64_attribute(value)
        case float():
            return FloatAttr(value, f64)
        case str():
            return text_attribute(value)
        case Slot():
            return SlotAttr(value)
        case list() | tuple():
            return ArrayAttr([as_attribute(item) for item in value])  # pyright: ignore[reportUnknownVariableType]
        case Mapping():
            return DictionaryAttr({str(name): as_attribute(item) for name, item in value.items()})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _ if is_dataclass(value):
            return DictionaryAttr(
                {
                    field.name: as_attribute(item)
                    for field in fields(value)
                    for item in (getattr(value, field.name),)
                    if item != field.default
                    and (field.default_factory is MISSING or item != field.default_factory())
                }
            )
        case _:
            raise TypeError(f"{value!r} is no value of a row")


def as_data(value: Attribute) -> Any:
    """What `row_of` reads: the opposite of `as_attribute`; names and sizes are their texts, slots are
    themselves, layouts stay."""
    match value:
        case IntegerAttr():
            return bool(value.value.data) if value.type == i1 else value.value.data
        case FloatAttr():
            return value.value.data
        case LayoutAttr():
            return value
        case StringAttr() | NameAttr() | SlotAttr():
            return value.data
        case SizeAttr():
            return str(value.data)
        case ArrayAttr():
            return [as_data(item) for item in value]
        case DictionaryAttr():
            return {name: as_data(item) for name, item in value.data.items()}
        case _:
            raise TypeError(f"{value} is no value of a row")


def read_rows(module: ModuleOp, key: str, kind: type[Row]) -> list[Row]:
    """The rows of an entry. Raises ValueError that names what does not fit."""
    rows = interface_of(module).get(key, ArrayAttr([]))
    return row_of(dict[str, list[kind]], {key: as_data(rows)})[key]


def strings(module: ModuleOp, key: str) -> list[str]:
    """An entry that is a list of names."""
    return read_rows(module, key, str)


def input_count(module: ModuleOp) -> int:
    """How many arguments of `@step` are inputs or persistent values; weights follow them."""
    return len(strings(module, "inputs")) + len(strings(module, "held"))


def read_weights(module: ModuleOp) -> list[Weight]:
    """The weight arguments of `@step`, in order."""
    return read_rows(module, "weights", Weight)


def write_weights(module: ModuleOp, weights: Sequence[Weight]) -> None:
    """Sets the weight rows of a module."""
    update_interface(module, {"weights": as_attribute(weights)})


def variable_dims(module: ModuleOp, name: str) -> list[str]:
    """The dimensions of a variable, as texts of size expressions. Raises KeyError."""
    rows = interface_of(module).get("variables")
    for row in rows if isinstance(rows, ArrayAttr) else ():
        if isinstance(row, DictionaryAttr) and row.data["name"] == text_attribute(name):
            return as_data(row.data["dims"])
    raise KeyError(name)
