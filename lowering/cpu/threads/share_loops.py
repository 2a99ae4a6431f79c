"""The threads of a step: every loop that may be split is cut into chunks that threads take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import MemoryEffectKind, get_effects

from openinfer.dialects import nn
from openinfer.lowering.cpu.threads.fork_kernels import fork_step, one_by_one
from openinfer.lowering.cpu.threads.outline_rounds import step_of
from openinfer.lowering.cpu.threads.scalar_chunks import is_closed, is_scalar, scalar_chunks
from openinfer.lowering.cpu.threads.team import TEAM, THREADS, Team, team_functions
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import as_attribute, read_rows
from openinfer.lowering.kernels.builder import TOGETHER, LoopBuilder
from openinfer.lowering.kernels.packed_loops import writes_own_bytes
from openinfer.lowering.kernels.units import is_elsewhere, retype
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.lowering.step_arguments import add_arguments
from openinfer.runtime.slots import Slot, SlotKind

_SHARED = (
    (Slot(SlotKind.TEAM), TEAM),
    (Slot(SlotKind.TICKET), i64),
    (Slot(SlotKind.THREAD), IndexType()),
)
"""What a step is called with by each thread of a team."""


@dataclass(frozen=True)
class ShareLoops(ModulePass):
    """Cuts parallel loops into chunks; the threads of a step all run it and take chunks by ticket.

    Before:
        scf.for %i = %lo to %hi step %s { … } {openinfer.parallel}
    After:
        scf.for %k = 0 to %chunks {
          %mine = func.call @openinfer_team_take(%team, %ticket, %next, %share, %thread)
          scf.if %mine { scf.for %i = … to … step %s { … }
                         func.call @openinfer_team_done(%team, %thread) } }
        func.call @openinfer_team_wait(%team, %next, %thread)

    Every chunk of a step has a number, its ticket, and belongs to the share of a thread, which begins
    with its own share: the same rounds are for the same thread in every step. A loop starts when all
    chunks before it are done; the step waits for chunks, never for threads. What is not a parallel
    loop and writes memory is a chunk of its own, and so is a loop whose rounds may write into one byte
    of a packed buffer, and the scalar code of the step between two calls (`scalar_chunks`). Results do
    not depend on the number of threads: chunks do not change any sum.

    A step that looks at its data, or that holds sections, is run by one thread, and the others help
    with its large kernels and its sections (`fork_kernels`).

    Requires: schedules and sizes lowered.
    Leaves: no `nn.sections`.
    """

    name: ClassVar[str] = "share-loops"

    alone: bool = False
    """Whether the thread that calls a step does all of it: the host half of a device's step."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is None or self.alone or Facts.of(op).observed:
            _flatten(op)
            _alone(op)
            return
        if not _shareable(step):
            _fork(op, step)
            return
        called: dict[str, FuncOp] = {}
        for inner in operations_of(step):
            if isinstance(inner, CallOp):
                name = inner.callee.string_value()
                called[name] = functions[name]
        for kernel in called.values():
            _share_kernel(kernel)
        _share_step(step)
        _lengthen_frame(op, [slot for slot, _ in _SHARED])
        op.body.block.add_ops(team_functions())


def _flatten(module: ModuleOp) -> None:
    for op in operations_of(module):
        if type(op) is nn.SectionsOp:
            one_by_one(op)


def _fork(module: ModuleOp, step: FuncOp) -> None:
    """The lead alone runs the step; the team helps with kernels and sections that are worth it."""
    before = len(step.body.block.args)
    shared = fork_step(module, step, TEAM)
    for kernel in shared:
        _share_kernel(kernel)
        if is_elsewhere(kernel):
            continue
        end = kernel.body.block.last_op
        assert isinstance(end, ReturnOp)
        team = Team(kernel.body.block.args[-3], kernel.body.block.args[-1])
        # A job is over when all of its chunks are done, also those that others took.
        team.wait(LoopBuilder(InsertPoint.before(end)), end.arguments[0])
    _alone(module)
    added = nn.slots_of(step)[before:]
    if added:
        _lengthen_frame(module, added)
    if shared:
        module.body.block.add_ops(team_functions())


def _lengthen_frame(module: ModuleOp, added: Sequence[Slot | None]) -> None:
    frame = read_rows(module, "frame", Slot)
    nn.update_interface(module, {"frame": as_attribute([*frame, *added])})


def _alone(module: ModuleOp) -> None:
    """Without a team there is one thread, number 0."""
    for op in [o for o in operations_of(module) if type(o) is nn.ThreadOp]:
        zero = arith.ConstantOp(IntegerAttr(0, IndexType()))
        Rewriter.replace_op(op, [zero], [zero.result])


def _shareable(step: FuncOp) -> bool:
    """Whether every thread can follow the step without reading what another one may overwrite."""
    allowed = (
        CallOp,
        ReturnOp,
        scf.ForOp,
        scf.YieldOp,
        memref.ViewOp,
        memref.LoadOp,
        memref.StoreOp,
        memref.CopyOp,
        memref.CollapseShapeOp,
        memref.ExpandShapeOp,
        nn.SubviewOp,
        nn.StampOp,
    )
    ops = operations_of(step)
    if not all(isinstance(op, allowed) or is_scalar(op) for op in ops if op is not step):
        return False
    blocks = [block for op in ops for region in op.regions for block in region.blocks]
    return all(is_closed(chunk) for block in blocks for chunk in scalar_chunks(block))


def _writes(op: Operation) -> bool:
    """Whether an op may change memory."""
    if isinstance(op, memref.StoreOp | memref.CopyOp | CallOp):
        return True
    if op.regions:
        return any(
            _writes(inner) for region in op.regions for b in region.blocks for inner in b.ops
        )
    if op.name in ("vector.store", "vector.maskedstore"):
        return True
    effects = get_effects(op)
    return effects is not None and any(e.kind == MemoryEffectKind.WRITE for e in effects)


def _may_share(loop: scf.ForOp) -> bool:
    """Whether rounds of a loop may run on several threads; elements that share a byte may not be
    written by two of them."""
    return "openinfer.parallel" in loop.attributes and writes_own_bytes(loop)


def _chunks_each(function: FuncOp) -> int:
    return Facts.of(function).target.measured.chunks


def _share_kernel(kernel: FuncOp) -> None:
    """Adds team, first ticket and thread to a kernel; it gives back the ticket after its last."""
    if is_elsewhere(kernel):
        retype(kernel, [TEAM, i64, IndexType()], [i64])
        return
    block = kernel.body.block
    count = len(block.args)
    team = block.insert_arg(TEAM, count)
    base = block.insert_arg(i64, count + 1)
    thread = block.insert_arg(IndexType(), count + 2)
    team.name_hint, base.name_hint, thread.name_hint = "team", "ticket", "thread"
    for op in [o for o in operations_of(kernel) if type(o) is nn.ThreadOp]:
        Rewriter.replace_op(op, [], [thread])
    last = _share_block(block, Team(team, thread, _chunks_each(kernel)), base, wait_first=True)
    end = block.last_op
    assert isinstance(end, ReturnOp)
    Rewriter.replace_op(end, [ReturnOp(last)], [])
    kernel.update_function_type()


def _share_block(block: Block, team: Team, base: SSAValue, *, wait_first: bool) -> SSAValue:
    """Cuts the ops of a kernel's body; gives the ticket that follows."""
    ops = list(block.ops)
    ticket = base
    if wait_first and ops:
        team.wait(LoopBuilder(InsertPoint.before(ops[0])), ticket)
    effects = [op for op in ops if not isinstance(op, ReturnOp | scf.YieldOp) and _writes(op)]
    if any(op.results for op in effects):
        # Others need the value of a loop that writes too, so no thread may skip it: one does all.
        return _whole(ops, team, ticket)
    for op in effects:
        build = _behind(op)
        if isinstance(op, scf.ForOp) and _may_share(op):
            ticket = _loop_chunks(build, op, team, ticket)
        elif isinstance(op, CallOp) and (step := step_of(op)) is not None:
            ticket = _call_chunks(build, op, step, team, ticket)
        elif isinstance(op, scf.ForOp) and TOGETHER in op.attributes:
            ticket = _rounds(build, op, team, ticket)
        elif isinstance(op, scf.IfOp) and _same_for_all(op):
            ticket = _choice(build, op, team, ticket)
        else:
            ticket = _single(build, op, team, ticket)
        if op is not effects[-1]:
            team.wait(build, ticket)
    return ticket


def _same_for_all(op: scf.IfOp) -> bool:
    """Whether all threads choose alike, whenever they come by: nothing is read from memory."""
    if op.results:
        return False
    waiting, seen = [op.cond], set[SSAValue]()
    while waiting:
        value = waiting.pop()
        if value in seen or not isinstance(value.owner, Operation):
            continue
        seen.add(value)
        if value.owner.regions or not (
            value.owner.name.startswith("arith.") or isinstance(value.owner, memref.DimOp)
        ):
            return False
        waiting += value.owner.operands
    return True


def _choice(build: LoopBuilder, op: scf.IfOp, team: Team, ticket: SSAValue) -> SSAValue:
    """Both branches in shares of their own; the choice gives the ticket behind the one taken."""
    regions: list[Region] = []
    for region in (op.true_region, op.false_region):
        op.detach_region(region)
        if not region.blocks:
            region.add_block(Block([scf.YieldOp()]))
        block = region.block
        end = block.last_op
        assert isinstance(end, scf.YieldOp)
        last = _share_block(block, team, ticket, wait_first=False)
        Rewriter.replace_op(end, [scf.YieldOp(last)], [])
        regions.append(region)
    choice = scf.IfOp(op.cond, [i64], regions[0], regions[1])
    give_location(op.location, choice)
    build.do(choice)
    op.detach()
    op.erase()
    return choice.results[0]


def _rounds(build: LoopBuilder, op: scf.ForOp, team: Team, ticket: SSAValue) -> SSAValue:
    """All threads go through the rounds, each of which is shared; the loop carries the ticket."""
    region = op.body
    op.detach_region(region)
    block = region.block
    carried = block.insert_arg(i64, len(block.args))
    carried.name_hint = "ticket"
    last = _share_block(block, team, carried, wait_first=True)
    end = block.last_op
    assert isinstance(end, scf.YieldOp)
    Rewriter.replace_op(end, [scf.YieldOp(last)], [])
    loop = scf.ForOp(op.lb, op.ub, op.step, [ticket], region)
    give_location(op.location, loop)
    build.do(loop)
    op.detach()
    op.erase()
    return loop.results[0]


def _whole(ops: list[Operation], team: Team, ticket: SSAValue) -> SSAValue:
    """All ops of a kernel, up to its return, as one share."""
    inside = [op for op in ops if not isinstance(op, ReturnOp | scf.YieldOp)]
    build = _behind(inside[-1])
    for op in inside:
        op.detach()
    return _guarded(build, team, ticket, inside)


def _behind(op: Operation) -> LoopBuilder:
    """Builds where an op stands that is about to move: in front of what follows it."""
    following = op.next_op
    assert following is not None
    return LoopBuilder(InsertPoint.before(following))


def _guarded(build: LoopBuilder, team: Team, ticket: SSAValue, inside: list[Operation]) -> SSAValue:
    """Ops as one chunk, of the lead's share; gives the ticket that follows."""
    following = _add(build, ticket, build.constant(1, i64))
    mine = team.take(build, ticket, following, build.index(0))
    block = Block([*inside, team.done(), scf.YieldOp()])
    build.do(scf.IfOp(mine, [], Region(block), Region()))
    return following


def _single(build: LoopBuilder, op: Operation, team: Team, ticket: SSAValue) -> SSAValue:
    op.detach()
    return _guarded(build, team, ticket, [op])


def _add(build: LoopBuilder, a: SSAValue, b: SSAValue) -> SSAValue:
    return build.insert(arith.AddiOp(a, b))


def _loop_chunks(build: LoopBuilder, op: scf.ForOp, team: Team, ticket: SSAValue) -> SSAValue:
    """The loop as chunks, each a loop over a range."""

    def rounds(low: SSAValue, high: SSAValue) -> Operation:
        region = op.body
        op.detach_region(region)
        return scf.ForOp(low, high, op.step, [], region)

    ticket = _chunks(build, (op.lb, op.ub, op.step), rounds, op, team, ticket)
    op.detach()
    op.erase()
    return ticket


def _call_chunks(
    build: LoopBuilder, op: CallOp, step: int, team: Team, ticket: SSAValue
) -> SSAValue:
    """A call that does all rounds as chunks, each a call that does a range of them."""
    *passed, low, high = op.arguments

    def rounds(low: SSAValue, high: SSAValue) -> Operation:
        return CallOp(op.callee, [*passed, low, high], [])

    ticket = _chunks(build, (low, high, build.index(step)), rounds, op, team, ticket)
    op.detach()
    op.erase()
    return ticket


def _chunks(
    build: LoopBuilder,
    bounds: tuple[SSAValue, SSAValue, SSAValue],
    rounds: Callable[[SSAValue, SSAValue], Operation],
    op: Operation,
    team: Team,
    ticket: SSAValue,
) -> SSAValue:
    """Ranges of whole iterations, of about the same length, this thread's own ones first.

    `bounds` are those of all iterations, and the step; `rounds` makes the op that does some of them, in
    the place of `op`.

    Of n chunks on t threads, chunk c is in the share c·t / n, rounded down.
    """
    one = build.index(1)
    lower, upper, step = bounds
    span = build.insert(arith.MaxSIOp(build.sub(upper, lower), build.index(0)))
    trips = build.floordiv(build.sub(build.add(span, step), one), step)
    chunks = build.insert(arith.MinSIOp(trips, team.chunks(build)))
    threads = team.number(build, THREADS)
    before = build.add(build.mul(team.thread, chunks), build.sub(threads, one))
    first = build.floordiv(before, threads)
    after = _add(build, ticket, build.insert(arith.IndexCastOp(chunks, i64)))
    block = Block(arg_types=[IndexType()])
    block.args[0].name_hint = "turn"
    inner = LoopBuilder(InsertPoint.at_end(block))
    turned = inner.add(first, block.args[0])
    over = inner.compare("sge", turned, chunks)
    chunk = inner.insert(arith.SelectOp(over, inner.sub(turned, chunks), turned))
    chunk.name_hint = "chunk"
    share = inner.floordiv(inner.mul(chunk, threads), chunks)
    number = inner.insert(arith.IndexCastOp(chunk, i64))
    mine = team.take(inner, _add(inner, ticket, number), after, share)
    body = Block()
    work = LoopBuilder(InsertPoint.at_end(body))

    def start(number: SSAValue) -> SSAValue:
        trip = work.floordiv(work.mul(number, trips), chunks)
        return work.add(lower, work.mul(trip, step))

    low = start(chunk)
    high = work.insert(arith.MinSIOp(upper, start(work.add(chunk, 1))))
    inside = rounds(low, high)
    give_location(op.location, inside)
    work.do(inside)
    work.do(team.done())
    work.do(scf.YieldOp())
    inner.do(scf.IfOp(mine, [], Region(body), Region()))
    inner.do(scf.YieldOp())
    build.do(scf.ForOp(build.index(0), chunks, one, [], Region(block)))
    return after


def _share_step(step: FuncOp) -> None:
    """Threads tickets through the calls and loops of the step; at the end all chunks are done."""
    block = step.body.block
    counters, ticket, thread = add_arguments(step, _SHARED)
    team = Team(counters, thread)
    last = _thread_through(block, team, ticket)
    end = block.last_op
    assert isinstance(end, ReturnOp)
    build = LoopBuilder(InsertPoint.before(end))
    team.wait(build, last)
    Rewriter.replace_op(end, [ReturnOp(last)], [])
    step.update_function_type()


def _thread_through(block: Block, team: Team, ticket: SSAValue) -> SSAValue:
    chunks = {op: chunk for chunk in scalar_chunks(block) for op in chunk}
    for op in list(block.ops):
        if chunk := chunks.get(op):
            if op is chunk[-1]:
                build = _behind(op)
                team.wait(build, ticket)
                for inner in chunk:
                    inner.detach()
                ticket = _guarded(build, team, ticket, chunk)
        elif isinstance(op, CallOp):
            call = CallOp(op.callee, [*op.arguments, team.counters, ticket, team.thread], [i64])
            give_location(op.location, call)
            call.attributes.update(op.attributes)
            Rewriter.replace_op(op, [call], [])
            ticket = call.res[0]
        elif isinstance(op, memref.CopyOp):
            build = _behind(op)
            team.wait(build, ticket)
            ticket = _single(build, op, team, ticket)
        elif isinstance(op, scf.ForOp):
            ticket = _loop(op, team, ticket)
        elif isinstance(op, nn.StampOp):
            if op.phase.data in ("begin", "end"):
                # The clock of a kernel runs while any thread is at it.
                team.wait(LoopBuilder(InsertPoint.before(op)), ticket)
            stamp = nn.StampOp(op.phase.data, op.what.data, op.numbers, op.value, team.thread)
            Rewriter.replace_op(op, [stamp], [])
    return ticket


def _loop(op: scf.ForOp, team: Team, ticket: SSAValue) -> SSAValue:
    """The loop with the ticket as a carried value."""
    body = op.body.block
    carried = body.insert_arg(i64, 1)
    carried.name_hint = "ticket"
    last = _thread_through(body, team, carried)
    end = body.last_op
    assert isinstance(end, scf.YieldOp)
    Rewriter.replace_op(end, [scf.YieldOp(last)], [])
    region = op.body
    op.detach_region(region)
    loop = scf.ForOp(op.lb, op.ub, op.step, [ticket], region)
    give_location(op.location, loop)
    Rewriter.replace_op(op, [loop], [])
    return loop.res[0]
