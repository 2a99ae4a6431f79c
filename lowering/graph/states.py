"""What survives a step, as the program declares it: plain values, tables, growing matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute

from openinfer.dialects.graph import VariableOp
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class State:
    """A persistent variable. Growing axes are the table indices, then the auto-dim ones."""

    name: str
    number: int
    """Position among all persistent variables."""
    dtype: str
    dims: tuple[Size, ...]
    """As declared: of an entry, or of a matrix with all counts 0."""
    table: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def plain(self) -> bool:
        """Whether nothing of it grows."""
        return not self.table and not self.auto

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.table, *self.auto)

    @property
    def entry(self) -> tuple[Size, ...]:
        """The dimensions behind the growing axes."""
        return () if self.auto else self.dims

    def base(self, axis: int) -> Size:
        """The extent of a growing axis at the start."""
        name = self.axes[axis]
        if axis >= len(self.table):
            return self.dims[axis - len(self.table)]
        return Size.of(self.fixed.get(name, 0))

    def limit(self, axis: int) -> Size | None:
        """The largest extent of a growing axis; None without a fixed bound."""
        name = self.axes[axis]
        if name not in self.fixed:
            return None
        bound = Size.of(self.fixed[name])
        return bound + self.base(axis) if axis >= len(self.table) else bound

    def row(self, extra: Mapping[str, Attribute]) -> DictionaryAttr:
        """As an entry of `nn.interface`."""
        limits = [self.limit(axis) for axis in range(len(self.axes))]
        return DictionaryAttr(
            {
                "name": StringAttr(self.name),
                "dtype": StringAttr(self.dtype),
                "axes": _texts(self.axes),
                "tables": IntegerAttr(len(self.table), i64),
                "base": _texts(self.base(axis) for axis in range(len(self.axes))),
                "limits": _texts("" if limit is None else limit for limit in limits),
                "entry": _texts(self.entry),
                "fixed": DictionaryAttr(
                    {key: IntegerAttr(bound, i64) for key, bound in self.fixed.items()}
                ),
                **extra,
            }
        )


def _texts(values: object) -> ArrayAttr[StringAttr]:
    assert hasattr(values, "__iter__")
    return ArrayAttr([StringAttr(str(v)) for v in values])  # pyright: ignore


def state_of(variable: VariableOp, number: int, static: Mapping[str, int]) -> State | None:
    """The state that a declaration makes; None for other memory kinds."""
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
    return State(variable.variable.data, number, dtype, dims, table, auto, fixed)
