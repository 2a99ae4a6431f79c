"""What a compiled program takes, gives and keeps, as rows that can be read and asked."""

from __future__ import annotations

from collections.abc import Iterable

from openinfer.runtime.manifest import Manifest, VariableRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.size_bounds import SizeBoundRow
from openinfer.runtime.tables import Rows

_VALUE_HEADINGS = ("name", "type")
_SIZE_HEADINGS = ("size", "value", "from")


@dataclass(frozen=True)
class ValueRow:
    """A variable of a program: `x: f32[B, 64]`, `K(l, t): f32[4, 4]`."""

    name: str
    memory: str
    """"dynamic", "volatile", "constant", "persistent", or "temporary"."""
    dtype: str
    dims: tuple[str, ...]
    """Each a number, or an expression over sizes that inputs or the step fix."""
    indices: tuple[str, ...] = ()
    """Names of the indices that select an entry."""

    @property
    def type(self) -> str:
        """The type as a program writes it: `f32[B, 64]`, `i32` for a scalar."""
        return f"{self.dtype}[{', '.join(self.dims)}]" if self.dims else self.dtype

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The dimensions, numbers as such: `("B", 64)`."""
        return tuple(int(dim) if dim.isdecimal() else dim for dim in self.dims)

    def cells(self) -> tuple[str, str]:
        """Name with indices, and type."""
        indices = f"({', '.join(self.indices)})" if self.indices else ""
        return (f"{self.name}{indices}", self.type)

    def __str__(self) -> str:
        return ": ".join(self.cells())


@dataclass(frozen=True)
class SizeRow:
    """A named size of a program."""

    name: str
    value: int | None
    """None for one that inputs fix, step by step."""
    source: str
    """"fixed" when it was compiled, else "inputs"."""
    bounds: tuple[str, ...] = ()
    """What the program says that it may be: `1 <= L <= 512`."""

    def cells(self) -> tuple[str, str, str]:
        """Name, value or bounds, source."""
        value = ", ".join(self.bounds) if self.value is None else str(self.value)
        return (self.name, value, self.source)

    def __str__(self) -> str:
        bounds = f" ({', '.join(self.bounds)})" if self.bounds else ""
        return f"{self.name}{bounds}" if self.value is None else f"{self.name} = {self.value}"


def inputs_of(manifest: Manifest) -> Rows[ValueRow]:
    """The variables that a caller gives, in the order of the text."""
    rows = [_row(row) for row in manifest.variables if row.memory == "dynamic"]
    return Rows.of(_VALUE_HEADINGS, rows)


def outputs_of(manifest: Manifest) -> Rows[ValueRow]:
    """What `run` gives, in that order."""
    variables = {row.name: row for row in manifest.variables}
    rows = [_row(variables[name]) for name in manifest.returns or manifest.outputs]
    return Rows.of(_VALUE_HEADINGS, rows)


def state_of(manifest: Manifest) -> Rows[ValueRow]:
    """The persistent variables, caches with the indices of their entries."""
    axes = {row.name: () if row.open else tuple(row.axes) for row in manifest.states}
    rows = [
        _row(row, axes.get(row.name, ()))
        for row in manifest.variables
        if row.memory == "persistent"
    ]
    return Rows.of(_VALUE_HEADINGS, rows)


def sizes_of(manifest: Manifest) -> Rows[SizeRow]:
    """The sizes with a value, then those that inputs fix."""
    fixed = [SizeRow(name, value, "fixed") for name, value in manifest.sizes.items()]
    free = [
        SizeRow(name, None, "inputs", bounds_of(name, manifest.bounds))
        for name in manifest.runtime_sizes
    ]
    return Rows.of(_SIZE_HEADINGS, [*fixed, *free])


def bounds_of(name: str, rows: Iterable[SizeBoundRow]) -> tuple[str, ...]:
    """The bounds that a size has a part in, as they are written."""
    return tuple(row.text for row in rows if name in row.names)


def _row(row: VariableRow, axes: tuple[str, ...] = ()) -> ValueRow:
    return ValueRow(row.name, row.memory, row.dtype, tuple(row.dims), axes or tuple(row.indices))
