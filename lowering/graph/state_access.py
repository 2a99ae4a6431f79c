"""Cache nodes: reads, writes, steps and resets of persistent variables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
    SizeAttr,
)
from openinfer.lowering.graph.contents import filled, tensor_type
from openinfer.lowering.graph.scope import Problem, Scope
from openinfer.lowering.graph.state_axes import StateAxes
from openinfer.lowering.graph.state_dims import StateDims
from openinfer.lowering.graph.state_slots import FULL, MatrixSlots, Place, Slot, Slots
from openinfer.runtime.sizes import MAX_NUMBER, Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.step import Step


def translate_cache(step: Step, op: Operation, scope: Scope) -> bool:
    """Translates a cache node; False for any other node."""
    variables, show = step.variables, step.stamps.value
    match op:
        case CacheReadOp():
            variables.write(op.target, StateAccess(step, op.source, scope).read(), scope)
            show(variables.value_of(op.target.variable.data, scope), op, op.target)
        case CacheWriteOp():
            value = variables.read(op.source, scope)
            access = StateAccess(step, op.target, scope)
            access.write(value)
            alone = not access.state.table and not access.state.auto
            show(value, op, op.target if alone else op.source)
        case CacheStepOp():
            ref = RefAttr.of(op.variable.data)
            value = _stepped(step, op, scope)
            StateAccess(step, ref, scope).write(value)
            show(value, op, ref)
        case CacheResetOp():
            access = StateAccess(step, op.target, scope)
            access.reset()
            if access.state.plain:
                show(variables.value_of(access.name, scope), op, op.target)
        case _:
            return False
    return True


def stored_value(step: Step, name: str, scope: Scope) -> SSAValue:
    """The value of a variable with open dimensions, as its last write left it."""
    return StateAccess(step, RefAttr.of(name), scope).read()


def _stepped(step: Step, op: CacheStepOp, scope: Scope) -> SSAValue:
    """The value of a variable with the amount added."""
    name, b = op.variable.data, step.builder
    value = step.variables.value_of(name, scope)
    amount = op.added.substitute(step.facts.static).constant
    kind = value.type
    assert isinstance(kind, TensorType)
    element = kind.element_type
    # The amount is not rounded to a narrow float before it is added.
    narrow = isinstance(element, AnyFloat) and element.bitwidth < 32
    wide = nn.with_element(kind, f32) if narrow else kind
    if amount is not None and abs(amount) <= MAX_NUMBER:
        by = b.add(filled(amount, wide))
    else:
        by = _amount(step, op, wide, scope)
    value = _cast(step, value, wide)
    new = b.add(nn.ElementwiseOp([value, by], [wide], properties={"kind": StringAttr("add")}))
    new = _cast(step, new, kind)
    new.name_hint = name
    return new


def _cast(step: Step, value: SSAValue, kind: TensorType[Attribute]) -> SSAValue:
    if value.type == kind:
        return value
    properties = {"kind": StringAttr("cast")}
    return step.builder.add(nn.ElementwiseOp([value], [kind], properties=properties))


def _amount(step: Step, op: CacheStepOp, kind: TensorType[Attribute], scope: Scope) -> SSAValue:
    """An amount that only the step knows, in the type of what it is added to; integers wrap."""
    b = step.builder
    number = b.add(nn.FromIndexOp(step.values.count(op.added, scope)))
    single = nn.tensor_type(kind.element_type, [])
    if number.type != single:
        properties: dict[str, Attribute] = {"kind": StringAttr("cast")}
        if isinstance(kind.element_type, IntegerType):
            properties["settings"] = DictionaryAttr({"saturate": IntegerAttr(0, i1)})
        number = b.add(nn.ElementwiseOp([number], [single], properties=properties))
    return number if number.type == kind else b.add(nn.BroadcastOp([number], [kind]))


class StateAccess:
    """One use of a state with its slots."""

    def __init__(self, step: Step, ref: RefAttr, scope: Scope) -> None:
        self._step = step
        self._ref = ref
        self._scope = scope
        self.name = ref.variable.data
        state = step.facts.states.get(self.name)
        if state is None:
            raise Problem("OI0716", f"{ref.text}: {self.name} is not persistent")
        self.state = state
        step.variables.touch(self.name)
        written: list[Slot] = [s for s in ref.indices if isinstance(s, Slot)]
        count = len(state.table)
        missing = count - len(written[:count])
        self._table = [*written[:count], *[FULL] * missing]
        self._axes = StateAxes(step, state, scope)
        self._dims = StateDims(self._axes)
        self._slots = Slots(self._axes)
        self._matrices = MatrixSlots(self._axes, self._slots, written[count:])
        self._element = tensor_type(state.dtype, ()).element_type
        self._dims.touch()

    # The three kinds of use

    def read(self) -> SSAValue:
        """The value of what the slots select."""
        step, state, b = self._step, self.state, self._step.builder
        if state.plain:
            return step.variables.value_of(self.name, self._scope)
        if state.waits:
            extent = self._axes.present([], state.settled)
            number = b.constant(step.facts.number_of(self.name))
            written = b.compare(extent, "sge", b.constant(1))
            b.fail_unless(written, "unwritten", number, extent)
        elif state.open:
            self._dims.load()
        place = self._place(writes=False)
        kind = nn.tensor_type(self._element, [*place.dims, *state.entry])
        value = b.add(nn.StateReadOp(self.name, place.offsets, place.kept, kind))
        if step.facts.resets_entries(self.name):
            # What is read is there from now on, also when nobody looks at it.
            b.insert(nn.KeepOp(value))
        return value

    def write(self, value: SSAValue) -> None:
        """What the slots select has another value from here on."""
        if self.state.plain:
            self._step.variables.write(RefAttr.of(self.name), value, self._scope)
        elif self.state.open:
            self._write_open(value)
        else:
            self._write_part(value)

    def _write_part(self, value: SSAValue) -> None:
        b = self._step.builder
        place = self._place(writes=True)
        wanted = [*place.dims, *self.state.entry]
        kind = nn.tensor_type(self._element, wanted)
        have = nn.dims_of(value)
        if nn.element_of(value) != self._element or len(have) != len(wanted):
            raise self._refusal(wanted, value)
        fits: SSAValue | None = None
        for own, want in zip(have, wanted):
            if own == want:
                continue
            if not self._either_dynamic(own, want):
                raise self._refusal(wanted, value)
            left, right = self._axes.index(own), self._axes.index(want)
            same = b.compare(left, "eq", right)
            b.fail_unless(same, "shape", left, right)
            fits = same if fits is None else b.add(arith.AndIOp(fits, same))

        def store() -> None:
            self._store(value if value.type == kind else b.add(nn.CastDimsOp(value, kind)), place)

        if fits is None:
            store()
        else:
            b.when(fits, store)

    def _write_open(self, value: SSAValue) -> None:
        """A write gives open dimensions their extents: each one, or in a table the first one."""
        axes, state, b = self._axes, self.state, self._step.builder
        place = self._place(writes=True)
        wanted, have = place.dims, nn.dims_of(value)
        leading = len(wanted) - len(state.dims)
        free = {leading + i for i, dim in enumerate(state.dims) if dim.single_name == "_"}
        fits = nn.element_of(value) == self._element and len(have) == len(wanted)
        for i, (own, want) in enumerate(zip(have, wanted)):
            fits = fits and (own == want or self._either_dynamic(own, want) or i in free)
        if not fits:
            shown = [Size.name("_") if i in free else dim for i, dim in enumerate(wanted)]
            raise self._refusal(shown, value)
        settled = axes.present([], state.settled)
        fresh = b.compare(settled, "eq", b.constant(0))
        for i, (own, want) in enumerate(zip(have, wanted)):
            length = axes.index(own)
            if i in free:
                axis = state.settled + 1 + i - leading
                if state.table:
                    extent = axes.present([], axis)
                    same = b.compare(length, "eq", extent)
                    same = b.add(arith.OrIOp(same, fresh))
                    b.fail_unless(same, "shape", length, extent)
                axes.set(axis, length)
            elif own != want:
                b.require(length, "eq", axes.index(want), "shape")
        axes.grow(state.settled, (), b.constant(1))
        self._store(value, place)

    def _either_dynamic(self, a: Size, b: Size) -> bool:
        return self._step.sizes.is_dynamic(a) or self._step.sizes.is_dynamic(b)

    def _store(self, value: SSAValue, place: Place) -> None:
        b = self._step.builder
        b.insert(nn.StateWriteOp(value, self.name, place.offsets, place.kept, b.node))

    def _refusal(self, dims: list[Size], value: SSAValue) -> Problem:
        """The value has another type than what is written."""
        kind = nn.tensor_type(self._element, dims)
        return Problem("OI0312", f"{self._ref.text} takes {kind}, the value is {value.type}")

    def reset(self) -> None:
        """What the slots select is as it was before the first step."""
        axes, step, b = self._axes, self._step, self._step.builder
        if self.state.plain:
            variable = step.facts.variables[self.name]
            self._scope.values[self.name] = step.contents.first(variable)
            return
        prefix: list[SSAValue] = []
        for axis, slot in enumerate(self._table):
            if isinstance(slot, SizeAttr):
                number = axes.number(slot)
                axes.require_natural(number, "negative", axis)
                limit = self.state.limit(axis)
                if limit is not None:
                    need = b.add(arith.AddiOp(number, b.constant(1)))
                    axes.require_fixed(need, axes.index(limit), axis)
                prefix.append(number)
        b.insert(nn.StateResetOp(self.name, prefix, b.node))
        if not prefix:
            self._dims.keep()

    # What the slots select

    def _place(self, *, writes: bool) -> Place:
        place = Place()
        lengths: list[tuple[int, SSAValue]] = []
        for axis, slot in enumerate(self._table):
            if isinstance(slot, SizeAttr):
                place.offsets.append(self._slots.entry(axis, slot))
            else:
                start, length, size = self._slots.slice(axis, slot, (), grows=True)
                place.keep(axis, start, size)
                lengths.append((axis, length))
        if self.state.auto:
            self._matrices.select(place, lengths, writes=writes)
        elif self.state.open:
            self._open_dims(place, writes=writes)
        return place

    def _open_dims(self, place: Place, *, writes: bool) -> None:
        """All of every dimension; a write says itself how long the open ones are."""
        step, b = self._step, self._step.builder
        place.offsets.append(b.constant(0))
        for axis, dim in enumerate(self._dims.symbolic(), self.state.settled + 1):
            if dim.single_name == "_" and not writes:
                extent = self._axes.present([], axis)
                dim = step.sizes.define(self.name, extent, self._scope)
            place.keep(axis, b.constant(0), dim)
