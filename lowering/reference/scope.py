"""What names stand for while a step runs: values, caches, sizes, indices, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openinfer.dialects.graph import OpOp, RefAttr, VariableOp
from openinfer.dialects.opset import SIZE_KINDS, NameRef, TensorSpec, find
from openinfer.lowering.program.metadata_settings import with_metadata
from openinfer.lowering.program.scalar_settings import converted, number_dtype
from openinfer.lowering.program.view import ProgramView, dtype_of, written_settings
from openinfer.lowering.reference.caches import Base, Cache, Caches
from openinfer.lowering.reference.contents import Contents
from openinfer.runtime.errors import StepError
from openinfer.runtime.sizes import MAX_NUMBER, Size, memory_holds
from openinfer.runtime.storage import AnyArray

Key = tuple[str, tuple[int, ...]]
"""A variable, with the indices of a prefix-table member."""
OPEN = "_"


@dataclass
class StepData:
    """What entry and the consumers of one step share."""

    view: ProgramView
    contents: Contents
    sizes: dict[str, int]
    values: dict[Key, AnyArray]
    caches: Caches
    assigned: dict[str, Base] = field(default_factory=dict[str, Base])
    """The dimensions of temporaries, evaluated where their `assign` stands."""


@dataclass
class Overlay:
    """A consumer's own copies of the values that it awaits."""

    block: str
    names: frozenset[str]
    values: dict[str, AnyArray]
    written: set[str] = field(default_factory=set[str])


class Scope:
    """The names as entry sees them, or a consumer with an overlay."""

    def __init__(self, step: StepData, overlay: Overlay | None = None) -> None:
        self.step = step
        self.view = step.view
        self.overlay = overlay
        self.indices: dict[str, int] = {}
        """Indices of the loops around the node that runs."""

    # Values

    def read(self, ref: RefAttr) -> AnyArray:
        """The value array of a use."""
        return self.value(ref.variable.data, tuple(self.size(s) for s in ref.sizes))

    def value(self, name: str, indices: tuple[int, ...] = ()) -> AnyArray:
        """The present value of a variable; its first content when nothing has touched it."""
        op = self.view.declaration(name)
        if op is None:
            raise StepError("OI0603", f"{name} is not declared")
        if isinstance(op, VariableOp) and op.memory.data == "persistent":
            return self.plain_cache(op).whole()
        found = self._load(name, indices)
        if found is not None:
            return found
        if any(dim.single_name == OPEN for dim in op.sizes):
            raise StepError(
                "OI0602",
                f"{name} has an open dimension and was not written yet",
                hint="write it before it is read",
            )
        base = self.step.assigned.get(name) or self.base(op.sizes)
        shape = tuple(extent for extent in base if extent is not None)
        if isinstance(op, VariableOp):
            array = self.step.contents.first(op, indices, shape)
        else:
            array = self.step.contents.zeros(dtype_of(op), shape)
        self._store(name, indices, array)
        return array

    def write(self, ref: RefAttr, array: AnyArray, dtype: str) -> None:
        """Stores a result; its shape must be the declared one, evaluated now.

        A temporary keeps the shape that it had where its `assign` stands.
        """
        name = ref.variable.data
        op = self.view.declaration(name)
        if op is None:
            raise StepError("OI0603", f"{name} is not declared")
        wanted = self.step.assigned.get(name) or self.base(op.sizes)
        fits = len(wanted) == array.ndim and all(
            w is None or w == n for w, n in zip(wanted, array.shape)
        )
        if not fits:
            declared = ", ".join(str(d) for d in op.sizes)
            raise StepError(
                "OI0602",
                f"{ref.text} is declared {dtype}[{declared}] = "
                f"{['_' if w is None else w for w in wanted]}, the value has shape "
                f"{list(array.shape)}",
                hint="declare the output with the shape that the op gives",
            )
        self._store(name, tuple(self.size(s) for s in ref.sizes), array)
        if self.overlay is not None:
            self.overlay.written.add(name)

    def scalar(self, ref: RefAttr) -> int:
        """The one element of a bool or integer variable."""
        array = self.read(ref)
        if array.size != 1:
            raise StepError(
                "OI0605",
                f"{ref.text} has shape {list(array.shape)} where one element is needed",
                hint="a condition is a bool or integer of one element",
            )
        return int(array.reshape(-1)[0])

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of a value that is there, None for anything else."""
        op = self.view.declaration(name)
        if isinstance(op, VariableOp) and op.memory.data == "persistent":
            found = self.cache_now(op).entries.get(())
        else:
            found = self._load(name, ())
        return None if found is None else found.shape

    def _load(self, name: str, indices: tuple[int, ...]) -> AnyArray | None:
        if self.overlay is not None and name in self.overlay.names:
            return self.overlay.values.get(name)
        return self.step.values.get((name, indices))

    def _store(self, name: str, indices: tuple[int, ...], array: AnyArray) -> None:
        if self.overlay is not None and name in self.overlay.names:
            self.overlay.values[name] = array
        else:
            self.step.values[(name, indices)] = array

    # Caches

    def cache(self, op: VariableOp) -> Cache:
        """The cache of a persistent variable, for a node that touches it."""
        base = self._declared(op.sizes)
        cache = self.step.caches.touch(op, base)
        self.step.caches.check_shape(op, base)
        return cache

    def plain_cache(self, op: VariableOp) -> Cache:
        """The cache of a persistent variable that is read by its name."""
        cache = self.cache(op)
        if not cache.plain:
            raise StepError(
                "OI0602",
                f"{cache.name} is no plain value",
                hint=f"read it with `cache.read {cache.name}[…] >> …;`",
            )
        return cache

    def cache_now(self, op: VariableOp) -> Cache:
        """The cache of a persistent variable as it is, only to look at."""
        return self.step.caches.find(op)

    # Numbers

    def base(self, dims: Sequence[Size]) -> Base:
        """The extents of a declaration now, None for `_`. Raises StepError for a negative one."""
        extents = self._declared(dims)
        if not memory_holds(extent for extent in extents if extent is not None):
            raise StepError("OI0604", "not enough memory", hint="use smaller sizes")
        return extents

    def _declared(self, dims: Sequence[Size]) -> Base:
        """The extents of a declaration now, also where no memory holds them."""
        extents = tuple(None if d.single_name == OPEN else self._extent(d) for d in dims)
        for dim, extent in zip(dims, extents):
            if extent is not None and extent < 0:
                raise StepError("OI0603", f"dimension {dim} is {extent}")
        return extents

    def _extent(self, dim: Size) -> int:
        """A dimension now; one over sizes alone may be any number, of which memory is the bound."""
        if dim.names <= self.step.sizes.keys() and not dim.names & self.indices.keys():
            try:
                return dim.evaluate(self.step.sizes)
            except ZeroDivisionError:
                pass
        return self.size(dim)

    def size(self, size: Size, counts: Mapping[str, int] | None = None) -> int:
        """The value of a size expression over sizes, loop indices and integer scalars.

        `counts` are what other names stand for: the auto indices of a matrix.
        """
        if size.constant is not None and abs(size.constant) <= MAX_NUMBER:
            return size.constant
        values = {name: self.number(name, str(size), counts) for name in size.names}
        try:
            return size.evaluate_within(values, MAX_NUMBER)
        except OverflowError as error:
            raise StepError(
                "OI0611",
                f"`{size}` leads to {error}, a number beyond 2^62 - 1",
                hint="count in smaller numbers: indices, bounds and amounts lie between -(2^62 - 1) "
                "and 2^62 - 1",
            ) from None
        except ZeroDivisionError:
            shown = ", ".join(f"{n} = {v}" for n, v in sorted(values.items()))
            raise StepError("OI0603", f"{size} divides by zero ({shown})") from None

    def number(self, name: str, where: str, counts: Mapping[str, int] | None = None) -> int:
        """The integer that a name stands for: loop index, size, scalar variable, else a count."""
        if name in self.indices:
            return self.indices[name]
        if name in self.step.sizes:
            return self.step.sizes[name]
        if self.view.declaration(name) is not None:
            return self.scalar(RefAttr.of(name))
        if counts is not None and name in counts:
            return counts[name]
        raise StepError("OI0603", f"{name} in `{where}` has no value")

    def means(self, name: str) -> bool:
        """Whether a name in an expression stands for something by itself."""
        known = name in self.indices or name in self.step.sizes
        return known or self.view.declaration(name) is not None

    def name_of(self, ref: RefAttr) -> str:
        """The use as a trace shows it: `W[l=0]`."""
        if not ref.indices.data:
            return ref.variable.data
        slots = [self.text_of(size) for size in ref.sizes]
        return f"{ref.variable.data}[{', '.join(slots)}]"

    def text_of(self, size: Size) -> str:
        """An index with its value: `l=0`; one that names counts of a matrix as it is written."""
        if size.constant is not None or not all(self.means(name) for name in size.names):
            return str(size)
        return f"{size}={self.size(size)}"

    # Settings

    def evaluated(self, node: OpOp) -> dict[str, object]:
        """The settings of a node with every name and size replaced by its value."""
        spec = find(node.op_name.data)
        written = with_metadata(spec, written_settings(node), self._metadata)
        found: dict[str, object] = {}
        for name, value in written.items():
            setting = spec.setting(name) if spec else None
            dtype = setting is not None and setting.kind in ("dtype", "dtypes")
            found[name] = value if dtype else self._plain(value)
            if setting is not None and setting.kind in SIZE_KINDS:
                self._check_numbers(value, found[name])
            if setting is not None and setting.name == "shape":
                self._check_shape(value, found[name])
            if isinstance(value, NameRef) and spec is not None and setting is not None:
                dtypes = [self.dtype_of_ref(ref) for ref in node.reads()]
                computed = number_dtype(spec, dtypes, written)
                found[name] = converted(setting, found[name], computed)
        return found

    def _check_numbers(self, written: object, value: object) -> None:
        """A size that a bare name gives is a number as one that an expression gives."""
        if isinstance(written, tuple) and isinstance(value, tuple):
            for name, number in zip(written, value):
                self._check_numbers(name, number)
        elif isinstance(written, NameRef) and isinstance(value, int) and abs(value) > MAX_NUMBER:
            self.size(Size.name(written.name))

    def _check_shape(self, written: object, value: object) -> None:
        """A dimension that the step computes is none that is left open: -1 is negative there."""
        if isinstance(written, tuple) and isinstance(value, tuple):
            for dim, extent in zip(written, value):
                self._check_shape(dim, extent)
        elif isinstance(written, Size | NameRef) and isinstance(value, int) and value < 0:
            raise StepError("OI0603", f"dimension {written} is {value}")

    def _metadata(self, name: str) -> object | None:
        """A metadata entry, unless the name means something else of the program here."""
        return None if self.means(name) else self.view.metadata(name)

    def declared_now(self, ref: RefAttr) -> TensorSpec:
        """What an output is declared as, with the sizes that hold now; `_` stays a name."""
        op = self.view.declaration(ref.variable.data)
        base = self.step.assigned.get(ref.variable.data)
        if base is None:
            base = self.base(op.sizes) if op is not None else ()
        known = tuple(Size.name(OPEN) if n is None else Size.of(n) for n in base)
        return TensorSpec(self.dtype_of_ref(ref), known)

    def dtype_of_ref(self, ref: RefAttr) -> str:
        """The declared dtype of a use. Raises StepError when it is not declared."""
        op = self.view.declaration(ref.variable.data)
        if op is None:
            raise StepError("OI0603", f"{ref.variable.data} is not declared")
        return dtype_of(op)

    def _plain(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(self._plain(item) for item in value)
        if isinstance(value, Size):
            return self.size(value)
        if isinstance(value, NameRef):
            return self._named(value.name)
        return value

    def _named(self, name: str) -> object:
        """What a bare name in a setting stands for now."""
        if name in self.indices:
            return self.indices[name]
        op = self.view.declaration(name)
        if op is not None:
            array = self.value(name)
            if array.size != 1:
                raise StepError("OI0605", f"{name} has shape {list(array.shape)}, not one element")
            return array.reshape(-1)[0].item()
        if name in self.step.sizes:
            return self.step.sizes[name]
        value = self.view.metadata(name)
        if isinstance(value, bool | int | float | str):
            return value
        raise StepError("OI0603", f"{name} has no value")
