"""Cache nodes as `nn` operations: slots become offsets, lengths, growth and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
)
from openinfer.lowering.graph.late_dims import LateDims
from openinfer.lowering.graph.states import State
from openinfer.lowering.graph.variable_values import (
    Index,
    Problem,
    Scope,
    VariableValues,
    fill_value,
)
from openinfer.runtime.sizes import MAX_NUMBER, Size

Slot = SizeAttr | SliceAttr
Lengths = Sequence[tuple[int, SSAValue]]
"""The axes of a table that a slice selects of, with how many entries."""
FULL = SliceAttr(StringAttr(""), StringAttr(""))


@dataclass
class Place:
    """A part of a state: an offset for each growing axis, and the sizes of the axes that stay."""

    offsets: list[SSAValue]
    kept: list[int]
    dims: list[Size]


def translate_cache(t: VariableValues, op: Operation, scope: Scope) -> bool:
    """Translates a cache node; False for any other node."""
    match op:
        case CacheReadOp():
            value = _Access(t, op.source, scope).read()
            t.write(op.target, value, scope)
            t.watch(t.value_of(op.target.variable.data, scope), op, op.target)
        case CacheWriteOp():
            value = t.read(op.source, scope)
            access = _Access(t, op.target, scope)
            access.write(value)
            alone = not access.state.table and not access.state.auto
            t.watch(value, op, op.target if alone else op.source)
        case CacheStepOp():
            _step(t, op, scope)
        case CacheResetOp():
            access = _Access(t, op.target, scope)
            access.reset()
            if access.state.plain:
                t.watch(t.value_of(access.name, scope), op, op.target)
        case _:
            return False
    return True


def open_value(t: VariableValues, name: str, scope: Scope) -> SSAValue:
    """The value of a variable with open dimensions, as its last write left it."""
    return _Access(t, RefAttr.of(name), scope).read()


def _step(t: VariableValues, op: CacheStepOp, scope: Scope) -> None:
    name = op.variable.data
    value = t.value_of(name, scope)
    amount = op.amount.data.substitute(t.facts.static).constant
    kind = value.type
    assert isinstance(kind, TensorType)
    element = kind.element_type
    # The amount is not rounded to a narrow float before it is added.
    narrow = isinstance(element, AnyFloat) and element.bitwidth < 32
    wide = nn.with_element(kind, f32) if narrow else kind
    if amount is not None and abs(amount) <= MAX_NUMBER:
        by = t.add(nn.FillOp([], [wide], properties={"value": fill_value(amount, wide)}))
    else:
        by = _amount(t, op, wide, scope)
    value = _cast(t, value, wide)
    new = t.add(nn.ElementwiseOp([value, by], [wide], properties={"kind": StringAttr("add")}))
    new = _cast(t, new, kind)
    new.name_hint = name
    _Access(t, RefAttr.of(name), scope).write(new)
    t.watch(new, op, RefAttr.of(name))


def _cast(t: VariableValues, value: SSAValue, kind: TensorType[Attribute]) -> SSAValue:
    if value.type == kind:
        return value
    return t.add(nn.ElementwiseOp([value], [kind], properties={"kind": StringAttr("cast")}))


def _amount(
    t: VariableValues, op: CacheStepOp, kind: TensorType[Attribute], scope: Scope
) -> SSAValue:
    """An amount that only the step knows, in the type of what it is added to; integers wrap."""
    number = t.add(nn.FromIndexOp(t.counted(op.amount.data, scope)))
    single = nn.tensor_type(kind.element_type, [])
    if number.type != single:
        properties: dict[str, Attribute] = {"kind": StringAttr("cast")}
        if isinstance(kind.element_type, IntegerType):
            properties["settings"] = DictionaryAttr({"saturate": IntegerAttr(0, i1)})
        number = t.add(nn.ElementwiseOp([number], [single], properties=properties))
    return number if number.type == kind else t.add(nn.BroadcastOp([number], [kind]))


class _Access:
    """One use of a state with its slots."""

    def __init__(self, t: VariableValues, ref: RefAttr, scope: Scope) -> None:
        self.t = t
        self.ref = ref
        self.scope = scope
        self.name = ref.variable.data
        state = t.facts.states.get(self.name)
        if state is None:
            raise Problem("OI0716", f"{ref.text}: {self.name} is not persistent")
        self.state = state
        t.touch(self.name)
        slots: list[Slot] = [s for s in ref.indices if isinstance(s, Slot)]
        count = len(state.table)
        missing = count - len(slots[:count])
        self.table = [*slots[:count], *[FULL] * missing]
        self.auto = slots[count:]
        self.now = LateDims(t, state, scope)
        self.now.touch()

    # The three kinds of use

    def read(self) -> SSAValue:
        if self.state.plain:
            return self.t.value_of(self.name, self.scope)
        if self.state.waits:
            extent = self.t.add(nn.ExtentOp(self.name, [], self.state.settled))
            number = self.t.constant_index(self.t.facts.number_of(self.name))
            self._require("sge", extent, 1, "unwritten", number, extent)
        elif self.state.open:
            self.now.load()
        place = self.place(writes=False)
        element = self.t.tensor_type(self.state.dtype, ()).element_type
        kind = nn.tensor_type(element, [*place.dims, *self.state.entry])
        value = self.t.add(nn.StateReadOp(self.name, place.offsets, place.kept, kind))
        if self.t.facts.resets_entries(self.name):
            # What is read is there from now on, also when nobody looks at it.
            self.t.insert(nn.KeepOp(value))
        return value

    def write(self, value: SSAValue) -> None:
        t = self.t
        if self.state.plain:
            t.write(RefAttr.of(self.name), value, self.scope)
            return
        if self.state.open:
            self._write_open(value)
            return
        place = self.place(writes=True)
        wanted = [*place.dims, *self.state.entry]
        have = nn.dims_of(value)
        element = t.tensor_type(self.state.dtype, ()).element_type
        if nn.element_of(value) != element or len(have) != len(wanted):
            shown = nn.tensor_type(element, wanted)
            raise Problem("OI0312", f"{self.ref.text} takes {shown}, the value is {value.type}")
        fits: SSAValue | None = None
        for a, b in zip(have, wanted):
            if a == b:
                continue
            if not t.late.is_late(a) and not t.late.is_late(b):
                shown = nn.tensor_type(element, wanted)
                raise Problem("OI0312", f"{self.ref.text} takes {shown}, the value is {value.type}")
            left, right = t.index_value(a, self.scope), t.index_value(b, self.scope)
            same = t.add(arith.CmpiOp(left, right, "eq"))
            t.insert(nn.RequireOp(same, "shape", left, right, t.node))
            fits = same if fits is None else t.add(arith.AndIOp(fits, same))
        kind = nn.tensor_type(element, wanted)

        def store() -> None:
            stored = value if value.type == kind else t.add(nn.CastDimsOp(value, kind))
            t.insert(nn.StateWriteOp(stored, self.name, place.offsets, place.kept, t.node))

        if fits is None:
            store()
        else:
            self._when(fits, store)

    def _write_open(self, value: SSAValue) -> None:
        """A write gives open dimensions their extents: each one, or in a table the first one."""
        t, state = self.t, self.state
        place = self.place(writes=True)
        wanted, have = place.dims, nn.dims_of(value)
        element = t.tensor_type(state.dtype, ()).element_type
        leading = len(wanted) - len(state.dims)
        free = {leading + i for i, dim in enumerate(state.dims) if dim.single_name == "_"}
        shown = [Size.name("_") if i in free else dim for i, dim in enumerate(wanted)]
        fits = nn.element_of(value) == element and len(have) == len(wanted)
        for i, (a, b) in enumerate(zip(have, wanted)):
            late = t.late.is_late(a) or t.late.is_late(b)
            fits = fits and (a == b or late or i in free)
        if not fits:
            kind = nn.tensor_type(element, shown)
            raise Problem("OI0312", f"{self.ref.text} takes {kind}, the value is {value.type}")
        settled = t.add(nn.ExtentOp(self.name, [], state.settled))
        fresh = t.add(arith.CmpiOp(settled, t.constant_index(0), "eq"))
        for i, (a, b) in enumerate(zip(have, wanted)):
            length = t.index_value(a, self.scope)
            if i in free:
                axis = state.settled + 1 + i - leading
                if state.table:
                    extent = t.add(nn.ExtentOp(self.name, [], axis))
                    same = t.add(arith.CmpiOp(length, extent, "eq"))
                    same = t.add(arith.OrIOp(same, fresh))
                    t.insert(nn.RequireOp(same, "shape", length, extent, t.node))
                t.insert(nn.SetExtentOp(self.name, axis, length, t.node))
            elif a != b:
                other = t.index_value(b, self.scope)
                same = t.add(arith.CmpiOp(length, other, "eq"))
                t.insert(nn.RequireOp(same, "shape", length, other, t.node))
        self._grow(state.settled, (), t.constant_index(1))
        t.insert(nn.StateWriteOp(value, self.name, place.offsets, place.kept, t.node))

    def reset(self) -> None:
        if self.state.plain:
            variable = self.t.facts.variables[self.name]
            self.scope.values[self.name] = self.t.first_content(variable)
            return
        prefix: list[SSAValue] = []
        for axis, slot in enumerate(self.table):
            if isinstance(slot, SizeAttr):
                number = self._number(slot)
                self._require("sge", number, 0, "negative", number, self._axis_number(axis))
                limit = self.state.limit(axis)
                if limit is not None:
                    need = self.t.add(arith.AddiOp(number, self.t.constant_index(1)))
                    bound = self.t.index_value(limit, self.scope)
                    self._require("sle", need, bound, "fixed", need, self._axis_number(axis))
                prefix.append(number)
        self.t.insert(nn.StateResetOp(self.name, prefix, self.t.node))
        if not prefix:
            self.now.keep()

    # Slots

    def place(self, *, writes: bool) -> Place:
        place = Place([], [], [])
        lengths: list[tuple[int, SSAValue]] = []
        for axis, slot in enumerate(self.table):
            if isinstance(slot, SizeAttr):
                place.offsets.append(self._single(axis, slot))
            else:
                start, length, size = self._range(axis, slot, (), grows=True)
                place.offsets.append(start)
                place.kept.append(axis)
                place.dims.append(size)
                lengths.append((axis, length))
        if self.state.auto:
            self._matrix(place, lengths, writes=writes)
        elif self.state.open:
            self._open_dims(place, writes=writes)
        return place

    def _open_dims(self, place: Place, *, writes: bool) -> None:
        """All of every dimension; a write says itself how long the open ones are."""
        t = self.t
        place.offsets.append(t.constant_index(0))
        for position, dim in enumerate(self.now.dims()):
            axis = self.state.settled + 1 + position
            if dim.single_name == "_" and not writes:
                dim = t.late.define(self.name, t.add(nn.ExtentOp(self.name, [], axis)), self.scope)
            place.offsets.append(t.constant_index(0))
            place.kept.append(axis)
            place.dims.append(dim)

    def _single(self, axis: int, slot: SizeAttr) -> SSAValue:
        """The entry is there afterwards; its number, cut to what there is memory for."""
        number = self._number(slot)
        self._require("sge", number, 0, "negative", number, self._axis_number(axis))
        need = self.t.add(arith.AddiOp(number, self.t.constant_index(1)))
        safe = self._grow(axis, (), need)
        return self.t.add(arith.SubiOp(safe, self.t.constant_index(1)))

    def _range(
        self,
        axis: int,
        slot: SliceAttr,
        entry: Sequence[SSAValue],
        *,
        grows: bool,
        lengths: Lengths = (),
    ) -> tuple[SSAValue, SSAValue, Size]:
        """Start and length of a slice, cut to what there is memory for, and the length as a size.

        `lengths` are those of the table slices that select the entry, the first one of several.
        """
        t = self.t
        key: object = None
        extent: SSAValue | None = None
        begin: SSAValue | None = None
        raw: SSAValue | None = None
        if isinstance(slot.start, SizeAttr):
            begin = self._number(slot.start, entry)
        if isinstance(slot.stop, SizeAttr):
            raw = self._number(slot.stop, entry)
        if begin is not None:
            self._require("sge", begin, 0, "slice-start", begin, self._axis_number(axis))
        if raw is not None and isinstance(slot.stop, SizeAttr):
            constant = slot.stop.data.substitute(t.facts.static).constant
            if constant is not None and constant >= 0:
                stop = raw
            else:
                extent = self._extent(axis, entry, lengths)
                behind = t.add(arith.CmpiOp(raw, t.constant_index(0), "slt"))
                counted = t.add(arith.AddiOp(extent, raw))
                stop = t.add(arith.SelectOp(behind, counted, raw))
                self._require("sge", stop, 0, "slice-end", raw, extent, axis=axis)
            if constant is None or constant >= 0:
                key = self._key(slot)
            self._in_order(axis, begin, stop)
            if grows:
                end = self._grow(axis, entry, stop)
            else:
                if extent is None:
                    extent = self._extent(axis, entry, lengths)
                self._require("sle", stop, extent, "position", stop, extent, axis=axis)
                end = self._clamp(stop, extent)
        else:
            end = self._extent(axis, entry, lengths)
            self._in_order(axis, begin, end)
        start = t.constant_index(0) if begin is None else self._clamp(begin, end)
        length = t.add(arith.SubiOp(end, start))
        size = t.late.define(self.name, length, self.scope, key)
        return start, length, size

    def _in_order(self, axis: int, begin: SSAValue | None, stop: SSAValue) -> None:
        """A slice ends where it starts, or behind; said before anything grows for it."""
        if begin is not None:
            self._require("sle", begin, stop, "slice-order", begin, stop, axis=axis)

    def _key(self, slot: SliceAttr) -> object:
        """Equal bounds that do not depend on an extent give equal lengths."""
        t = self.t
        assert isinstance(slot.stop, SizeAttr)
        start = slot.start.data if isinstance(slot.start, SizeAttr) else Size.of(0)
        names = start.names | slot.stop.data.names
        if names & set(self.state.auto):
            return None
        marks: list[object] = []
        for name in sorted(names - t.late.known - t.facts.static.keys()):
            index = self.scope.indices.get(name)
            marks.append((name, index.value if index else t.value_of(name, self.scope)))
        return ("length", start, slot.stop.data, tuple(marks))

    def _matrix(self, place: Place, lengths: Lengths, *, writes: bool) -> None:
        """The slots of the matrix of an entry, or of all entries of a table slice."""
        count = len(self.state.table)
        entry = list(place.offsets)
        grows = bool(self.auto) and all(isinstance(s, SizeAttr) for s in self.auto)
        needs: list[SSAValue] = []
        if self.state.late:
            self._each(entry, lengths, self._start)
        if grows:
            needs = self._needs(None if lengths else entry)

            def grow(entry: Sequence[SSAValue]) -> None:
                # Each entry has counts of its own.
                own = self._needs(entry) if lengths else needs
                for position, need in enumerate(own):
                    self._grow(count + position, entry, need)

            self._each(entry, lengths, grow)
            self._as_if_grown(lengths, needs)
        slots = [FULL] * len(self.state.auto) if grows or not self.auto else list(self.auto)
        slots += [FULL] * (len(self.state.auto) - len(slots))
        for position, slot in enumerate(slots):
            axis = count + position
            if isinstance(slot, SizeAttr):
                place.offsets.append(self._line(axis, slot, entry, lengths, writes=writes))
                continue
            if lengths and slot == FULL:
                least = needs[position] if grows else None
                place.offsets.append(self.t.constant_index(0))
                extent = self._extent(axis, entry, lengths, least)
                place.dims.append(self.t.late.define(self.name, extent, self.scope))
                place.kept.append(axis)
                continue
            start, _, size = self._range(axis, slot, entry, grows=False, lengths=lengths)
            place.offsets.append(start)
            place.kept.append(axis)
            place.dims.append(size)
        if lengths:
            self._each_alike(entry, lengths, slots)

    def _needs(self, entry: Sequence[SSAValue] | None) -> list[SSAValue]:
        """How far the axes of a matrix are to reach, by the numbers in its slots; without an entry
        how far those of a new one would."""
        found: list[SSAValue] = []
        for axis, slot in enumerate(self.auto, len(self.state.table)):
            assert isinstance(slot, SizeAttr)
            number = self._number(slot, entry)
            if entry is not None:
                self._require("sge", number, 0, "negative", number, self._axis_number(axis))
            found.append(self.t.add(arith.AddiOp(self._base(axis), number)))
        return found

    def _as_if_grown(self, lengths: Lengths, needs: Sequence[SSAValue]) -> None:
        """Where a slice of a table has no entry, numbers that no entry could take fail all the same."""
        if not lengths:
            return
        t = self.t
        zero, count = t.constant_index(0), lengths[0][1]
        for _, length in lengths[1:]:
            count = t.add(arith.MuliOp(count, length))
        some = t.add(arith.CmpiOp(count, zero, "ne"))

        def require(predicate: str, a: SSAValue, b: SSAValue, kind: str, axis: int) -> None:
            holds = t.add(arith.CmpiOp(a, b, predicate))
            holds = t.add(arith.OrIOp(holds, some))
            t.insert(nn.RequireOp(holds, kind, a, self._axis_number(axis), t.node))

        for axis, need in enumerate(needs, len(self.state.table)):
            number = t.add(arith.SubiOp(need, self._base(axis)))
            if not t.never_negative(number):
                require("sge", number, zero, "negative", axis)
            limit = self.state.limit(axis)
            if limit is not None:
                require("sle", need, t.index_value(limit, self.scope), "fixed", axis)

    def _base(self, axis: int) -> SSAValue:
        """The extent of an axis of a matrix that has not grown."""
        late = self.now.values.get(axis - len(self.state.table))
        return self.t.index_value(self.state.base(axis), self.scope) if late is None else late

    def _start(self, entry: Sequence[SSAValue]) -> None:
        """A matrix is as large as scalars say that it is at the start."""
        for position, extent in self.now.values.items():
            axis = len(self.state.table) + position
            self.t.insert(nn.GrowOp(self.name, entry, axis, extent, self.t.node))

    def _extent(
        self,
        axis: int,
        entry: Sequence[SSAValue],
        lengths: Lengths = (),
        least: SSAValue | None = None,
    ) -> SSAValue:
        """The extent of an axis of an entry; where table slices select none, what one would have."""
        t = self.t
        extent = t.add(nn.ExtentOp(self.name, entry, axis))
        if lengths and least is None:
            least = self._base(axis)
        for _, length in lengths:
            assert least is not None
            some = t.add(arith.CmpiOp(length, t.constant_index(0), "sgt"))
            extent = t.add(arith.SelectOp(some, extent, least))
        return extent

    def _line(
        self,
        axis: int,
        slot: SizeAttr,
        entry: Sequence[SSAValue],
        lengths: Lengths,
        *,
        writes: bool,
    ) -> SSAValue:
        """One row or column; a write may append it."""
        t = self.t
        number = self._number(slot, entry)
        extent = self._extent(axis, entry, lengths)
        one = t.constant_index(1)
        limit = t.add(arith.AddiOp(extent, one)) if writes else extent
        inside = t.add(arith.CmpiOp(number, limit, "ult"))
        place = axis_number(self.state, axis)
        t.insert(nn.RequireOp(inside, "position", number, extent, t.node, place))
        safe = t.add(arith.SelectOp(inside, number, t.constant_index(0)))
        if not writes:
            return safe
        grown = self._grow(axis, entry, t.add(arith.AddiOp(safe, one)))
        return t.add(arith.SubiOp(grown, one))

    def _each_alike(
        self,
        entry: Sequence[SSAValue],
        lengths: Lengths,
        slots: Sequence[Slot],
    ) -> None:
        """What the slots select of each matrix is there, and lies where it lies in the first one.

        Matrices may differ beyond that: `C[0..4, 0..1]` needs a first row of each and no more.
        """
        t = self.t
        axes = list(enumerate(slots, len(self.state.table)))
        first = [self._reached(axis, slot, entry) for axis, slot in axes]
        begins = [(axis, slot.start, self._number(slot.start, entry))
                  for axis, slot in axes
                  if isinstance(slot, SliceAttr) and isinstance(slot.start, SizeAttr)
                  and slot.start.data.names & set(self.state.auto)]  # fmt: skip

        def inside(entry: Sequence[SSAValue]) -> None:
            for axis, slot in axes:
                if isinstance(slot, SliceAttr) and not isinstance(slot.stop, SizeAttr):
                    continue
                extent = t.add(nn.ExtentOp(self.name, entry, axis))
                reached = self._reached(axis, slot, entry)
                if isinstance(slot, SizeAttr):
                    holds = t.add(arith.CmpiOp(reached, extent, "ult"))
                    place = axis_number(self.state, axis)
                    t.insert(nn.RequireOp(holds, "position", reached, extent, t.node, place))
                else:
                    self._require("sge", reached, 0, "slice-end", reached, extent, axis=axis)
                    self._require("sle", reached, extent, "position", reached, extent, axis=axis)
            for axis, start, _ in begins:
                begin = self._number(start, entry)
                self._require("sge", begin, 0, "slice-start", begin, self._axis_number(axis))
                stop = self._reached(axis, slots[axis - len(self.state.table)], entry)
                self._require("sle", begin, stop, "slice-order", begin, stop, axis=axis)

        def alike(entry: Sequence[SSAValue]) -> None:
            for (axis, slot), wanted in zip(axes, first):
                reached = self._reached(axis, slot, entry)
                self._require("eq", reached, wanted, "stack", reached, wanted, axis=axis)
            for axis, start, wanted in begins:
                begin = self._number(start, entry)
                self._require("eq", begin, wanted, "stack", begin, wanted, axis=axis)

        self._each(entry, lengths, inside)
        self._each(entry, lengths, alike)

    def _reached(self, axis: int, slot: Slot, entry: Sequence[SSAValue]) -> SSAValue:
        """The line that a slot selects of the matrix of an entry, or the end of what it selects."""
        t = self.t
        if isinstance(slot, SizeAttr):
            return self._number(slot, entry)
        if not isinstance(slot.stop, SizeAttr):
            return t.add(nn.ExtentOp(self.name, entry, axis))
        raw = self._number(slot.stop, entry)
        constant = slot.stop.data.substitute(t.facts.static).constant
        if constant is not None and constant >= 0:
            return raw
        behind = t.add(arith.CmpiOp(raw, t.constant_index(0), "slt"))
        counted = t.add(arith.AddiOp(t.add(nn.ExtentOp(self.name, entry, axis)), raw))
        return t.add(arith.SelectOp(behind, counted, raw))

    def _each(
        self,
        entry: Sequence[SSAValue],
        lengths: Lengths,
        body: Callable[[Sequence[SSAValue]], None],
    ) -> None:
        """For every entry of the table slices."""
        if not lengths:
            body(entry)
            return
        (axis, length), *rest = lengths
        t = self.t
        block = Block(arg_types=[IndexType()])
        zero, one = t.constant_index(0), t.constant_index(1)
        t.insert(scf.ForOp(zero, length, one, [], Region(block)))
        outer, t.builder = t.builder, Builder(InsertPoint.at_end(block))
        moved = list(entry)
        moved[axis] = t.add(arith.AddiOp(entry[axis], block.args[0]))
        self._each(moved, rest, body)
        t.insert(scf.YieldOp())
        t.builder = outer

    # Numbers

    def _number(self, slot: SizeAttr, entry: Sequence[SSAValue] | None = ()) -> SSAValue:
        """The value of an index; an auto index that means nothing else is its present count in the
        matrix of an entry, 0 without one."""
        t = self.t
        size = slot.data.substitute(t.facts.static)
        counts = {
            name
            for name in size.names & set(self.state.auto)
            if name not in self.scope.indices
            and name not in t.facts.variables
            and name not in t.late.known
        }
        if not counts:
            return t.counted(size, self.scope)
        inner = self.scope.nested()
        for name in counts:
            if entry is None:
                inner.indices[name] = Index(t.constant_index(0))
                continue
            axis = self.state.axes.index(name)
            extent = t.add(nn.ExtentOp(self.name, entry, axis))
            base = self._base(axis)
            inner.indices[name] = Index(t.add(arith.SubiOp(extent, base)))
        return t.counted(size, inner)

    def _grow(self, axis: int, entry: Sequence[SSAValue], need: SSAValue) -> SSAValue:
        bound = self.state.fixed.get(self.state.axes[axis])
        if bound is not None and axis - len(self.state.table) in self.now.values:
            most = self.t.add(arith.AddiOp(self._base(axis), self.t.constant_index(bound)))
            self._require("sle", need, most, "fixed", need, self._axis_number(axis))
        return self.t.add(nn.GrowOp(self.name, entry, axis, need, self.t.node))

    def _clamp(self, value: SSAValue, high: SSAValue) -> SSAValue:
        t = self.t
        low = t.add(arith.MaxSIOp(value, t.constant_index(0)))
        return t.add(arith.MinSIOp(low, high))

    def _require(
        self,
        predicate: str,
        a: SSAValue,
        b: SSAValue | int,
        kind: str,
        *shown: SSAValue,
        axis: int | None = None,
    ) -> None:
        """The step fails unless it holds; `axis` is named where the numbers shown do not say it."""
        t = self.t
        place = None if axis is None else axis_number(self.state, axis)
        if b == 0 and predicate == "sge" and t.never_negative(a):
            return
        right = t.constant_index(b) if isinstance(b, int) else b
        holds = t.add(arith.CmpiOp(a, right, predicate))
        t.insert(nn.RequireOp(holds, kind, shown[0], shown[1], t.node, place))

    def _axis_number(self, axis: int) -> SSAValue:
        """State and axis as one number, for a message."""
        return self.t.constant_index(axis_number(self.state, axis))

    def _when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        t = self.t
        block = Block()
        t.insert(scf.IfOp(condition, [], Region(block), Region()))
        outer, t.builder = t.builder, Builder(InsertPoint.at_end(block))
        body()
        t.insert(scf.YieldOp())
        t.builder = outer


def axis_number(state: State, axis: int) -> int:
    """State and axis in one number."""
    return state.number * 64 + axis


def result_type(t: VariableValues, state: State, dims: Sequence[Size]) -> TensorType[Attribute]:
    """The tensor type of a part of a state."""
    return t.tensor_type(state.dtype, [*dims, *state.entry])
