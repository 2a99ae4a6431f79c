"""Checks of caches: how persistent variables are declared, and every node that touches them.

The frontend says most of this of a text, with better places; a module that comes another way, from
IR or JSON, is checked here too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AwaitOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
    VariableOp,
    YieldOp,
)
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.locations import location_of
from openinfer.lowering.reference.check_declarations import OPEN
from openinfer.lowering.reference.check_references import ReferenceChecks
from openinfer.lowering.reference.program import auto_indices, dtype_of, fixed_bounds
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

Dims = list[Size | None]
"""A shape as far as it is known before a run."""


class CacheChecks(ReferenceChecks):
    """Persistent variables, and what yields."""

    # Declarations

    def cache_declaration(self, op: VariableOp) -> None:
        """Indices and attributes must fit: table indices first, then those of `@auto_dim`."""
        name, indices = op.variable.data, tuple(i.data for i in op.indices)
        auto, is_table = auto_indices(op), op.option("table") is not None
        problem = None
        if op.memory.data != "persistent":
            if is_table or auto or fixed_bounds(op):
                problem = "OI0252", f"{name} is {op.memory.data}, only persistent memory grows"
        elif set(auto) - set(indices) or len(set(auto)) != len(auto):
            problem = "OI0257", f"@auto_dim of {name} names what is no index of it"
        elif auto and len(auto) != len(op.sizes):
            problem = "OI0257", f"@auto_dim of {name} does not name an index for each dimension"
        elif set(fixed_bounds(op)) - set(indices):
            problem = "OI0257", f"@fixed of {name} names what is no index of it"
        elif indices[len(indices) - len(auto) :] != auto:
            problem = "OI0255", f"the indices of @auto_dim are not the last ones of {name}"
        elif is_table != (len(indices) > len(auto)):
            problem = "OI0255", f"@table of {name} does not fit its indices"
        elif auto and any(OPEN in dim.names for dim in op.sizes):
            problem = "OI0305", f"{name} grows, so `_` cannot be one of its dimensions"
        if problem is not None:
            form = "X(l, i): f32[D] @table @auto_dim(i)"
            self.report(*problem, op, f"declare it like `{form}` in persistent memory")

    # Nodes

    def cache(self, node: CacheReadOp | CacheWriteOp | CacheStepOp | CacheResetOp) -> None:
        """A cache node."""
        match node:
            case CacheReadOp():
                op, target = self.persistent(node.source, node), self.target(node.target, node)
                if op is not None and target is not None:
                    self.moved(node, op, node.source, node.target.text, target)
            case CacheWriteOp():
                source, op = self.reference(node.source, node), self.persistent(node.target, node)
                if op is not None and self.writable(op, node) and source is not None:
                    self.moved(node, op, node.target, node.source.text, source)
            case CacheStepOp():
                op = self.persistent(RefAttr.of(node.variable.data), node)
                if op is not None:
                    self.counted(op, node)
            case CacheResetOp():
                op = self.persistent(node.target, node)
                if op is not None:
                    self.resettable(op, node)

    def yielded(self, node: YieldOp | AwaitOp) -> None:
        """`yield` and `await` name plain values of the step."""
        for name in node.names:
            if not self.known(name, node):
                continue
            variable = self.view.variables.get(name)
            if variable is None:
                continue
            if variable.indices.data or variable.memory.data == "persistent":
                self.report(
                    "OI0267",
                    f"{name} cannot be yielded",
                    node,
                    "read it into a temporary first",
                    ("declared here", location_of(variable)),
                )

    def persistent(self, ref: RefAttr, node: Operation) -> VariableOp | None:
        """The variable of a cache use, or None after reporting why it is none."""
        name = ref.variable.data
        if not self.known(name, node):
            return None
        op = self.view.declaration(name)
        if not isinstance(op, VariableOp) or op.memory.data != "persistent":
            self.report(
                "OI0221",
                f"cache.* works on persistent variables, {name} is none",
                node,
                "declare it in persistent memory",
                ("declared here", location_of(op)),
            )
            return None
        indices = [i.data for i in op.indices]
        if len(ref.indices) > len(indices):
            form = f"{name}[{', '.join(indices)}]" if indices else name
            self.report("OI0230", f"{ref.text}: {name} is used as {form}", node)
            return None
        auto = auto_indices(op)
        for position, slot in enumerate(ref.indices):
            inner = position >= len(indices) - len(auto)
            for bound in _bounds(slot):
                self.slot_names(bound, auto if inner else (), node, ref)
            if isinstance(slot, SizeAttr) and (_known(slot.data, self.view.sizes) or 0) < 0:
                self.report(
                    "OI0309", f"{ref.text}: an index cannot be {slot.data}", node,
                    "indices count from 0",
                )  # fmt: skip
        return op

    def slot_names(self, size: Size, auto: Sequence[str], node: Operation, ref: RefAttr) -> None:
        """Names in a slot; an auto index that is nothing else stands for its present count."""
        for name in sorted(size.names - set(auto)):
            self.size_names(Size.name(name), node, f"the slots of {ref.text}")

    def selected(self, op: VariableOp, ref: RefAttr) -> Dims:
        """The shape that slots select: lengths of slices, then the dimensions of an entry."""
        auto, slots = auto_indices(op), list(ref.indices)
        count = len(op.indices) - len(auto)
        table = slots[:count]
        dims: Dims = [self.length(slot) for slot in table if isinstance(slot, SliceAttr)]
        dims += [None] * (count - len(table))
        if not auto:
            return dims + [self.settled(dim) for dim in op.sizes]
        inner = slots[count:]
        singles = sum(isinstance(slot, SizeAttr) for slot in inner)
        kept = len(auto) if singles in (0, len(auto)) else len(auto) - singles
        return dims + [None] * kept

    def length(self, slot: SliceAttr) -> Size | None:
        """How many entries a slice has, when only its text says so."""
        start = slot.start.data if isinstance(slot.start, SizeAttr) else Size.of(0)
        stop = slot.stop.data if isinstance(slot.stop, SizeAttr) else None
        low = _known(start, self.view.sizes)
        high = None if stop is None else _known(stop, self.view.sizes)
        if low is None or high is None or not 0 <= low <= high:
            return None
        return Size.of(high - low)

    def settled(self, dim: Size) -> Size | None:
        """A declared dimension that is the same in the whole step, None for any other."""
        dim = dim.substitute(self.view.sizes)
        return dim if dim.names <= self.view.input_sizes else None

    def moved(
        self, node: Operation, op: VariableOp, ref: RefAttr, other: str, spec: TensorSpec
    ) -> None:
        """Both sides of a read or write must have one dtype, and shapes that may be equal."""
        dtype, dims = dtype_of(op), self.selected(op, ref)
        lead = len(dims) - (0 if auto_indices(op) else len(op.sizes))
        shown = f"{dtype}[{', '.join('_' if d is None else str(d) for d in dims)}]"
        differ = False
        for axis, (a, dim) in enumerate(zip(dims, spec.dims)):
            b = self.settled(dim)
            if a is None or b is None or a == b:
                continue
            # Lengths of slices are compared in the step, unless both are numbers.
            differ = differ or axis >= lead or None not in (a.constant, b.constant)
        if dtype != spec.dtype or len(dims) != len(spec.dims) or differ:
            self.report(
                "OI0312",
                f"the cache gives or takes {shown}, but {other} is {spec}",
                node,
                "both sides have one dtype and shape",
            )

    def writable(self, op: VariableOp, node: CacheWriteOp) -> bool:
        """Whether a write names one place: an entry, one slice, a matrix, or one line of it."""
        auto, slots = auto_indices(op), list(node.target.indices)
        count = len(op.indices) - len(auto)
        table = slots[:count]
        slices = count - sum(isinstance(slot, SizeAttr) for slot in table)
        if slices > (0 if auto else 1):
            self.report(
                "OI0234",
                f"{node.target.text}: a write takes single indices"
                + ("" if auto else " and at most one slice"),
                node,
                "write in a loop",
            )
            return False
        inner = slots[count:]
        singles = sum(isinstance(slot, SizeAttr) for slot in inner)
        ranges = any(isinstance(slot, SliceAttr) and _bounds(slot) for slot in inner)
        whole = not inner or singles == len(auto)
        if not whole and (ranges or singles != 1):
            self.report(
                "OI0236",
                f"{node.target.text}: a write stores a whole matrix, one row or one column",
                node,
                "read the matrix, change it with ops, and write the whole",
            )
            return False
        return True

    def counted(self, op: VariableOp, node: CacheStepOp) -> None:
        """Increments work on numbers of whole bytes."""
        name, row = op.variable.data, DTYPES[dtype_of(op)]
        if op.indices.data or any(self.settled(d) != Size.of(1) for d in op.sizes):
            self.report(
                "OI0222",
                f"{name} is no scalar: it cannot be counted",
                node,
                "use an op and cache.write",
                ("declared here", location_of(op)),
            )
        elif not (row.is_float or row.is_integer) or row.packed:
            self.report(
                "OI0223",
                f"{name} is {row}: it cannot be counted",
                node,
                "count in an integer of 8 bits or more, or in a float",
                ("declared here", location_of(op)),
            )

    def resettable(self, op: VariableOp, node: CacheResetOp) -> None:
        """A reset names all, an entry, or the first indices of entries."""
        slots = list(node.target.indices)
        count = len(op.indices) - len(auto_indices(op))
        if len(slots) > count or any(isinstance(slot, SliceAttr) for slot in slots):
            self.report(
                "OI0235",
                f"{node.target.text}: a reset takes the whole, or single table indices",
                node,
                f"cache.reset {op.variable.data};",
            )


def _bounds(slot: Attribute) -> list[Size]:
    """The expressions in a slot."""
    parts = [slot.start, slot.stop] if isinstance(slot, SliceAttr) else [slot]
    return [part.data for part in parts if isinstance(part, SizeAttr)]


def _known(size: Size, sizes: dict[str, int]) -> int | None:
    return size.substitute(sizes).constant
