"""The pass `block-sums`: long sums of floats go in blocks, so that their error does not grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, VectorType, f64
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocaOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from openinfer.lowering.attributes import INDEX
from openinfer.lowering.cpu.schedules.product import at_entry
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels import builder
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.inserted import in_place_of
from openinfer.lowering.kernels.long_sums import (
    ANY,
    LONG_PRODUCTS,
    PRODUCTS,
    Lengths,
    two_sum,
)
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    element_type,
    resize_float,
    select,
)
from openinfer.lowering.kernels.sum_chains import (
    UNKNOWN,
    Chain,
    constant_of,
    rounds_of,
    sums_of,
)
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.lowering.places import is_device_kernel


@dataclass(frozen=True)
class BlockSums(ModulePass):
    """
    Turn loops that add up many floats into loops over blocks, whose sums are joined in f64.

    Before:
        %s = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (f32) {
          … %new = arith.addf %old, %x : f32  scf.yield %new : f32 }

    After:
        %s = scf.if %short -> (f32) { … the loop as it was … } else {
        %v = scf.for %b = %c0 to %n step %c56 iter_args(%first = %zero) -> (f32) {
          %part = scf.for %k = %b to %end step %c1 iter_args(%old = %first) -> (f32) { … }
          … scf.if %more { … %sum = arith.addf %so_far, %wide : f64
                           memref.store %sum, %room[%c0] : memref<1xf64> … } }
        … arith.truncf %whole : f64 to f32 … }

    The sum of the blocks waits in memory, of f64 as a sum and what rounding took from it; the loop of a
    block is the loop that was there. Where only the run knows the length, the loop as it was stands beside
    the blocks, for short sums. A loop around a loop whose rounds only the
    run knows counts additions instead. So the error of a sum depends on the block, not on its length;
    the order is the same for every number of threads.

    Requires: schedules lowered to loops; not yet shared among threads.
    Leaves: sums known to be short, of integers, all sums of strict mathematics. What schedules noted
    on their loops for this pass goes.
    """

    name: ClassVar[str] = "block-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strict = Facts.of(op).strict_math
        for function in op.body.ops:
            if isinstance(function, FuncOp) and not function.is_declaration:
                if not strict and not is_device_kernel(function):
                    _Function(function).rewrite()
                for inner in operations_of(function):
                    if inner.attributes:
                        for note in (builder.SUMS, builder.BESIDE, builder.ROUNDS):
                            inner.attributes.pop(note, None)


@dataclass(frozen=True)
class _Plan:
    """A loop that is to go in blocks."""

    loop: scf.ForOp
    sums: dict[int, Chain]
    lengths: Lengths

    @property
    def counts(self) -> bool:
        """Whether additions are counted, because only the run knows how many a round makes."""
        return any(chain.loops for chain in self.sums.values())

    @property
    def each(self) -> int:
        """Additions in a round, where that is known."""
        return max(chain.known for chain in self.sums.values())

    def places(self, buffer: SSAValue, at: int) -> list[_Place]:
        """Where the blocks of the sums wait, from a place of a buffer on."""
        found: list[_Place] = []
        for number in self.sums:
            kind = self.loop.iter_args[number].type
            lanes = kind.get_shape()[0] if isinstance(kind, VectorType) else None
            found.append(_Place(buffer, at, element_type(kind), lanes))
            at += found[-1].size
        return found

    @property
    def size(self) -> int:
        return sum(place.size for place in self.places(self.loop.lb, 0))


_LENGTHS = {"products": PRODUCTS, "long products": LONG_PRODUCTS}


def _plan(loop: scf.ForOp) -> _Plan | None:
    sums = sums_of(loop)
    if not sums or not constant_of(loop.step):
        return None
    notes = {inner.attributes.get(builder.SUMS) for inner in operations_of(loop)}
    if StringAttr("marks") in notes:
        return None
    lengths = next((_LENGTHS[note.data] for note in notes if isinstance(note, StringAttr)), ANY)
    beside = loop.attributes.get(builder.BESIDE)
    if isinstance(beside, IntegerAttr):
        lengths = Lengths(max(lengths.block, lengths.most // beside.value.data), lengths.block)
    plan = _Plan(loop, sums, lengths)
    rounds = rounds_of(loop)
    if plan.counts or rounds is None or rounds * plan.each > plan.lengths.most:
        return plan
    return None


@dataclass
class _Function:
    """The loops of one function, and the memory where their blocks wait."""

    function: FuncOp

    def rewrite(self) -> None:
        plans = [
            p for op in operations_of(self.function) if type(op) is scf.ForOp and (p := _plan(op))
        ]
        if not plans:
            return
        ends: dict[Operation, int] = {}
        for plan in plans:
            # Behind what the loops around it need.
            start, parent = 0, plan.loop.parent_op()
            while parent is not None and not start:
                start = ends.get(parent, 0)
                parent = parent.parent_op()
            ends[plan.loop] = start + plan.size
        room = AllocaOp.get(f64, alignment=64, shape=[max(ends.values())])
        give_location(self.function.location, room)
        buffer = at_entry(LoopBuilder(InsertPoint.at_start(self.function.body.blocks[0])), room)
        for plan in plans:
            places = plan.places(buffer, ends[plan.loop] - plan.size)
            with in_place_of(plan.loop) as replace:
                replace((_counted if plan.counts else _blocked)(plan, places))
            if plan.counts:
                plan.loop.detach()
                plan.loop.erase()


@dataclass(frozen=True)
class _Place:
    """Where the sum of the blocks of one value waits, as f64; of f64, what rounding took from it lies
    behind it."""

    buffer: SSAValue
    at: int
    kind: Attribute
    """The element type of the value."""
    lanes: int | None

    @property
    def size(self) -> int:
        lanes = self.lanes or 1
        return 2 * lanes if self.kind == f64 else lanes

    def keep(self, b: LoopBuilder, value: SSAValue, first: SSAValue) -> None:
        """Adds the sum of a block to what waits; nothing does when it is the first."""
        for part, total in enumerate(self._sums(b, value, first)):
            self._store(b, total, part)

    def whole(self, b: LoopBuilder, value: SSAValue) -> SSAValue:
        """What waits with the sum of the last block."""
        total, *errors = self._sums(b, value)
        for error in errors:
            # Of a sum that is not finite the error is no number.
            zero = b.constant(0.0, error.type)
            nothing = b.insert(arith.SubfOp(error, error))
            finite = compare_floats(b, "oeq", nothing, zero)
            total = select(b, finite, b.insert(arith.AddfOp(total, error)), total)
        return resize_float(b, total, self.kind)

    def _sums(
        self, b: LoopBuilder, value: SSAValue, first: SSAValue | None = None
    ) -> list[SSAValue]:
        wide = resize_float(b, value, f64)
        old = self._load(b, 0, first)
        if self.kind != f64:
            return [b.made(arith.AddfOp, (old, wide), old.type)]
        total, error = two_sum(b, old, wide)
        errors = self._load(b, 1, first)
        return [total, b.made(arith.AddfOp, (errors, error), errors.type)]

    def _load(self, b: LoopBuilder, part: int, first: SSAValue | None) -> SSAValue:
        """What waits; what changes no sum instead when it is the first."""
        at = [self.at + part * (self.lanes or 1)]
        old = (
            b.load(self.buffer, at) if self.lanes is None else b.vload(self.buffer, at, self.lanes)
        )
        if first is None:
            return old
        return b.made(arith.SelectOp, (first, b.constant(-0.0, old.type), old), old.type)

    def _store(self, b: LoopBuilder, value: SSAValue, part: int) -> None:
        if self.lanes is None:
            b.store(value, self.buffer, [self.at + part])
        else:
            b.vstore(value, self.buffer, [self.at + part * self.lanes])


def _keep(
    b: LoopBuilder, places: Sequence[_Place], values: Sequence[SSAValue], first: SSAValue
) -> list[SSAValue]:
    """Puts the sums of a block away; what the next one starts from changes nothing that is added."""
    for place, value in zip(places, values, strict=True):
        place.keep(b, value, first)
    return [b.constant(-0.0, value.type) for value in values]


def _whole(b: LoopBuilder, places: Sequence[_Place], values: Sequence[SSAValue]) -> list[SSAValue]:
    return [place.whole(b, value) for place, value in zip(places, values, strict=True)]


def _blocked(plan: _Plan, places: Sequence[_Place]) -> Sequence[SSAValue]:
    """A loop over blocks of rounds around the loop, or beside it where it may be short; its final values."""
    loop, lengths = plan.loop, plan.lengths
    b = LoopBuilder(InsertPoint.after(loop))
    step = constant_of(loop.step)
    assert step is not None
    start, stop = (_known(value) for value in (loop.lb, loop.ub))
    length = b.minus(stop, start)
    span = max(1, lengths.block // plan.each) * step
    numbers, inits = list(plan.sums), list(loop.iter_args)

    def chosen(values: Sequence[SSAValue]) -> list[SSAValue]:
        return [values[n] for n in numbers]

    def others(values: Sequence[SSAValue], new: Sequence[SSAValue]) -> list[SSAValue]:
        """All carried values, with new ones for the sums."""
        changed = dict(zip(numbers, new, strict=True))
        return [changed.get(n, value) for n, value in enumerate(values)]

    def block(first: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        end = b.index(b.minimum(b.add(first, span), b.index(stop)))
        loop.detach()
        loop.operands = [first, end, loop.step, *carried]
        b.do(loop)
        values = chosen(loop.results)

        def keep() -> list[SSAValue]:
            return _keep(b, places, values, b.compare("eq", first, start))

        more = b.compare("slt", end, stop)
        types = [value.type for value in values]
        return others(loop.results, b.when(more, keep, lambda: values, types))

    def in_blocks() -> list[SSAValue]:
        results = b.reduce(start, stop, span, inits, block, hint="block")
        return others(results, _whole(b, places, chosen(results)))

    single = lengths.most // plan.each * step
    if isinstance(length, int) or not single:
        return in_blocks()

    def at_once() -> Sequence[SSAValue]:
        b.do(whole)
        return whole.results

    # The loop as it was, beside one in blocks: what a short sum costs is one comparison.
    whole = loop.clone()
    short = b.compare("sle", length, single)
    return b.when(short, at_once, in_blocks, [result.type for result in loop.results])


def _known(value: SSAValue) -> Index:
    number = constant_of(value)
    return value if number is None else number


def _counted(plan: _Plan, places: Sequence[_Place]) -> Sequence[SSAValue]:
    """The loop, which puts its sums away when enough has been added to them; its final values."""
    loop, lengths = plan.loop, plan.lengths
    old = loop.body.block
    end = old.last_op
    assert isinstance(end, scf.YieldOp)
    numbers, yielded = list(plan.sums), list(end.operands)
    count = old.insert_arg(INDEX, len(old.args))
    blocks = old.insert_arg(INDEX, len(old.args))
    b = LoopBuilder(InsertPoint.before(end))
    values = [yielded[n] for n in numbers]
    here = b.add(count, _additions(b, plan, old))

    def keep() -> list[SSAValue]:
        new = _keep(b, places, values, b.compare("eq", blocks, 0))
        return [*new, b.index(0), b.index(1)]

    types = [*(value.type for value in values), INDEX, INDEX]
    full = b.compare("sge", here, lengths.block)
    *new, counted, begun = b.when(full, keep, lambda: [*values, here, blocks], types)
    changed = dict(zip(numbers, new, strict=True))
    final = [changed.get(n, value) for n, value in enumerate(yielded)]
    b.do(scf.YieldOp(*final, counted, begun))
    end.detach()
    end.erase()
    b = LoopBuilder(InsertPoint.before(loop))
    zero = b.index(0)
    body = loop.detach_region(loop.body)
    made = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, zero, zero], Region())
    made.detach_region(made.body)
    made.add_region(body)
    made.attributes.update(loop.attributes)
    b.do(made)
    *results, _, begun = made.results
    sums = [results[n] for n in numbers]
    many = b.compare("ne", begun, 0)
    types = [value.type for value in sums]
    whole = b.when(many, lambda: _whole(b, places, sums), lambda: sums, types)
    changed = dict(zip(numbers, whole, strict=True))
    return [changed.get(n, value) for n, value in enumerate(results)]


def _additions(b: LoopBuilder, plan: _Plan, block: Block) -> Index:
    """How many additions a round of the loop has made, or so many that its block is full."""
    enough = plan.lengths.block
    loops = dict(one for chain in plan.sums.values() for one in chain.loops)
    total: Index = plan.each
    for loop, each in loops.items():
        step = constant_of(loop.step)
        if each >= min(enough, UNKNOWN) or loop.parent is not block or not step:
            total = b.plus(total, enough)
            continue
        rounds = b.minus(_known(loop.ub), _known(loop.lb))
        rounds = rounds if step == 1 else b.floordiv(b.maximum(b.plus(rounds, step - 1), 0), step)
        # Clipped first: the number of rounds may be close to the largest one.
        rounds = b.maximum(b.minimum(rounds, enough), 0)
        total = b.plus(total, b.times(rounds, each))
    return total
