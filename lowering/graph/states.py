"""What survives a step, as the program declares it: plain values, tables, growing matrices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr

from openinfer.dialects.graph import VariableOp
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class State:
    """A persistent variable. Growing axes are the table indices, then the auto-dim ones.

    With dimensions that only a step knows all dimensions are axes, behind one that says whether they
    are settled: its extent is 0 or 1. Dimensions that name scalars have their values in facts of the
    state, behind one that says whether a step has touched it.
    """

    name: str
    number: int
    """Position among all persistent variables."""
    dtype: str
    dims: tuple[Size, ...]
    """As declared: of an entry, or of a matrix with all counts 0."""
    table: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    scalar_dims: tuple[int, ...] = ()
    """The dimensions that name scalar variables: the first step that touches it fixes them."""

    @property
    def plain(self) -> bool:
        """Whether nothing of it grows."""
        return not self.table and not self.auto and not self.open

    @property
    def open(self) -> bool:
        """Whether a step gives it a shape: what is written, or scalars that dimensions name."""
        return not self.auto and (bool(self.scalar_dims) or self.waits)

    @property
    def waits(self) -> bool:
        """Whether what is written gives it a shape."""
        return any(dim.single_name == "_" for dim in self.dims)

    @property
    def settled(self) -> int:
        """With open dimensions: the axis that says whether there is a shape."""
        return len(self.table)

    @property
    def axes(self) -> tuple[str, ...]:
        if self.open:
            return (*self.table, "settled", *(str(axis) for axis in range(len(self.dims))))
        return (*self.table, *self.auto)

    @property
    def entry(self) -> tuple[Size, ...]:
        """The dimensions behind the growing axes."""
        return () if self.auto or self.open else self.dims

    def base(self, axis: int) -> Size:
        """The extent of a growing axis at the start."""
        name = self.axes[axis]
        if self.open and axis >= self.settled:
            return self._declared(axis) or Size.of(0)
        if axis >= len(self.table):
            place = axis - len(self.table)
            return Size.of(0) if place in self.scalar_dims else self.dims[place]
        return Size.of(self.fixed.get(name, 0))

    def fact(self, dim: int | None = None) -> int:
        """In place of an axis: whether a step has touched it, or the value of a dimension."""
        return len(self.axes) + (0 if dim is None else 1 + self.scalar_dims.index(dim))

    def limit(self, axis: int) -> Size | None:
        """The largest extent of a growing axis; None without a fixed bound."""
        name = self.axes[axis]
        if self.open and axis >= self.settled:
            return Size.of(1) if axis == self.settled else self._declared(axis)
        if name not in self.fixed or axis - len(self.table) in self.scalar_dims:
            return None
        bound = Size.of(self.fixed[name])
        return bound + self.base(axis) if axis >= len(self.table) else bound

    def _declared(self, axis: int) -> Size | None:
        """The dimension that an axis stands for; None for an open one, or for none."""
        place = axis - self.settled - 1
        if place < 0 or place in self.scalar_dims or self.dims[place].single_name == "_":
            return None
        return self.dims[place]

    def row(self, **others: Any) -> StateRow:
        """As an entry of `nn.interface`; what a state does not know of itself is given."""
        limits = [self.limit(axis) for axis in range(len(self.axes))]
        return StateRow(
            name=self.name,
            dtype=self.dtype,
            axes=list(self.axes),
            tables=len(self.table),
            base=[str(self.base(axis)) for axis in range(len(self.axes))],
            limits=["" if limit is None else str(limit) for limit in limits],
            entry=[str(dim) for dim in self.entry],
            fixed=dict(self.fixed),
            open=self.open,
            dynamic_axes=list(self.scalar_dims),
            **others,
        )


def state_of(
    variable: VariableOp, number: int, static: Mapping[str, int], runtime: Collection[str]
) -> State | None:
    """The state that a declaration makes; None for other memory kinds.

    `static` are sizes with a value, `runtime` those that inputs fix; other names are scalars.
    """
    if variable.memory.data != "persistent":
        return None
    names = [i.data for i in variable.indices]
    option = variable.option("auto_dim")
    auto = tuple(
        a.data
        for a in (option.data if isinstance(option, ArrayAttr) else ())
        if isinstance(a, StringAttr)
    )
    bounds = variable.option("fixed")
    fixed = {
        key: value.value.data
        for key, value in (bounds.data.items() if isinstance(bounds, DictionaryAttr) else ())
        if isinstance(value, IntegerAttr)
    }
    dims = tuple(d.substitute(static) for d in variable.sizes)
    dtype = ALIASES.get(variable.dtype.data, variable.dtype.data)
    table = tuple(n for n in names if n not in auto)
    known = {*runtime, "_"}
    dynamic = tuple(axis for axis, dim in enumerate(dims) if dim.names - known)
    return State(variable.variable.data, number, dtype, dims, table, auto, fixed, dynamic)
