"""Follows `entry` and knows at every statement which values are yielded and which consumers run.

The body of entry becomes a flat list of steps with edges, and the states before each step are
computed until nothing changes. Findings are reported in one last pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AwaitOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    LoopOp,
    ReturnOp,
    ScopeOp,
    YieldOp,
)
from openinfer.lowering.program.accesses import WRITE, Access
from openinfer.lowering.program.check_consumers import Consumer, ConsumerChecks
from openinfer.lowering.program.check_uses import UseChecks
from openinfer.lowering.program.names import walk
from openinfer.lowering.program.places import Place
from openinfer.lowering.program.view import targets_of
from openinfer.runtime.quick_dataclass import dataclass


def check_exchange(checks: UseChecks) -> dict[ReturnOp, list[str]]:
    """All rules of `yield` and `await`.

    A `return` of entry takes back what is still yielded: the result says which values each does.
    """
    flow = _Flow(checks)
    flow.shapes()
    entry = checks.names.blocks.get("entry")
    if entry is None:
        return {}
    yields = [node for node in walk(entry) if isinstance(node, YieldOp)]
    if not yields and not flow.consumers and not any(isinstance(n, AwaitOp) for n in walk(entry)):
        return {}
    flow.follow(entry)
    flow.unused(yields)
    return flow.implied


@dataclass
class _State:
    """What may and must hold before a step."""

    yielded: dict[str, Place] = field(default_factory=dict[str, Place])
    """Values that may be yielded, each with the place of its `yield`."""
    surely: set[str] = field(default_factory=set[str])
    """Those that are yielded on every way here."""
    running: dict[str, Place] = field(default_factory=dict[str, Place])
    """Consumers that may run, with the place of the `yield` that started them."""
    served: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Value and consumer, where the consumer ran with the value since it was yielded."""

    def copy(self) -> _State:
        return _State(dict(self.yielded), set(self.surely), dict(self.running), set(self.served))

    def join(self, other: _State) -> bool:
        """Merges another way to the same step; says whether anything changed."""
        before = (len(self.yielded), len(self.surely), len(self.running), len(self.served))
        self.yielded = {**other.yielded, **self.yielded}
        self.running = {**other.running, **self.running}
        self.surely &= other.surely
        self.served |= other.served
        return before != (
            len(self.yielded), len(self.surely), len(self.running), len(self.served),
        )  # fmt: skip


@dataclass
class _Step:
    """A statement of entry, without its body, and what may follow it."""

    node: Operation
    following: list[int] = field(default_factory=list[int])


def _flatten(nodes: Iterable[Operation], steps: list[_Step]) -> None:
    """Appends the steps of a body; the last one is followed by whatever is appended next."""
    for node in nodes:
        here = len(steps)
        steps.append(_Step(node))
        if not isinstance(node, ReturnOp):
            steps[here].following.append(here + 1)
        if isinstance(node, LoopOp):
            _flatten(node.body.block.ops, steps)
            steps.append(_Step(BarrierOp(), [here]))  # back to the head
            steps[here].following.append(len(steps))
        elif isinstance(node, ScopeOp):
            _flatten(node.body.block.ops, steps)


class _Flow(ConsumerChecks):
    """The states of entry."""

    def __init__(self, checks: UseChecks) -> None:
        super().__init__(checks)
        self.started: set[str] = set()
        self.implied: dict[ReturnOp, list[str]] = {}
        self.wrong: set[str] = set()
        """Values with a finding that explains later ones."""
        self.called: dict[str, Mapping[str, Mapping[str, Place]]] = {}

    def unused(self, yields: Sequence[YieldOp]) -> None:
        """Consumers that never run, and yielded values that nobody awaits."""
        yielded = {name for node in yields for name in node.names}
        for consumer in self.consumers.values():
            awaited = consumer.awaited
            missing = [(i, name) for i, name in enumerate(awaited.names) if name not in yielded]
            for position, name in missing:
                self.report.error(
                    "OI0265",
                    self.places.of(awaited, ("names", position)),
                    f"block `{consumer.name}` awaits `{name}`, which `entry` never yields",
                    fix=f"write `yield {name};` in entry, or remove the block",
                )
            if not missing and consumer.name not in self.started:
                self.report.error(
                    "OI0265",
                    self.places.of(awaited),
                    f"block `{consumer.name}` never runs: its values are never yielded together",
                    fix="yield all of them before the first `await`",
                )
        awaited = {value for consumer in self.consumers.values() for value in consumer.values}
        for node in yields:
            for position, name in enumerate(node.names):
                if name not in awaited:
                    self.report.warning(
                        "OI0268",
                        self.places.of(node, ("names", position)),
                        f"`{name}` is yielded, but no block awaits it",
                        fix=f"start a block with `await {name};`, or remove the name",
                    )

    def follow(self, entry: BlockOp) -> None:
        steps: list[_Step] = []
        _flatten(entry.body.block.ops, steps)
        states: dict[int, _State] = {0: _State()}
        todo = [0]
        while todo:
            number = todo.pop()
            if number >= len(steps):
                continue
            state = states[number].copy()
            self.advance(steps[number].node, state)
            for following in steps[number].following:
                if following not in states:
                    states[following] = state.copy()
                    todo.append(following)
                elif states[following].join(state):
                    todo.append(following)
        for number, step in enumerate(steps):
            if number in states:
                self.check(step.node, states[number])

    def advance(self, node: Operation, state: _State) -> None:
        """The state behind a node."""
        if isinstance(node, YieldOp):
            for position, name in enumerate(node.names):
                state.yielded.setdefault(name, self.places.of(node, ("names", position)))
                state.surely.add(name)
            for consumer in self.starting(node, state):
                self.started.add(consumer.name)
                state.running.setdefault(consumer.name, self.places.of(node, ("names", 0)))
                state.served |= {(value, consumer.name) for value in consumer.values}
        elif isinstance(node, AwaitOp):
            names = set(node.names)
            for name in names:
                state.yielded.pop(name, None)
            state.surely -= names
            state.served = {pair for pair in state.served if pair[0] not in names}
            for consumer in self.consumers.values():
                if consumer.values & names:
                    state.running.pop(consumer.name, None)

    def starting(self, node: YieldOp, state: _State) -> Iterator[Consumer]:
        """The consumers whose last missing value a `yield` gives."""
        names = set(node.names)
        for consumer in self.consumers.values():
            if consumer.values & names and consumer.values <= state.yielded.keys():
                yield consumer

    def check(self, node: Operation, state: _State) -> None:
        """Reports what a node must not do in a state."""
        match node:
            case YieldOp():
                self.check_yield(node, state)
                return
            case AwaitOp():
                for position, name in enumerate(node.names):
                    self.check_await(name, self.places.of(node, ("names", position)), state)
                return
            case BranchOp():
                for target in targets_of(node) if state.yielded else ():
                    self.check_call(target, state)
            case ReturnOp():
                self.check_return(node, state)
            case _:
                pass
        if not state.yielded and not state.running:
            return
        reported: set[str] = set()
        for access in self.accesses.of(node):
            if access.name not in reported and self.check_touch(access, "entry", state):
                reported.add(access.name)

    def check_yield(self, node: YieldOp, state: _State) -> None:
        for position, name in enumerate(node.names):
            if first := state.yielded.get(name):
                where = self.places.of(node, ("names", position))
                self.wrong.add(name)
                again = "again" if first == where else "twice"
                self.report.error(
                    "OI0261",
                    where,
                    f"`{name}` is yielded {again} before it is awaited",
                    fix=f"write `await {name};` before it",
                    notes=[("first yielded here", first)],
                )
        names = set(node.names)
        after = state.copy()
        self.advance(node, after)
        for consumer in self.starting(node, after):
            for value in sorted(consumer.values - names):
                if (value, consumer.name) in state.served:
                    self.report.error(
                        "OI0261",
                        self.places.of(node),
                        f"consumer `{consumer.name}` would run again with the same `{value}`",
                        fix=f"write `await {value};` before it, and yield it anew",
                        notes=[("it was yielded here", state.yielded[value])],
                    )
        running = [self.consumers[name] for name in after.running]
        for position, left in enumerate(running):
            for right in running[position + 1 :]:
                self.pair(left, right, node)
            for value in after.yielded:
                written = left.touched.get(value, {}).get(WRITE)
                if written is not None and value not in left.values:
                    self.report.error(
                        "OI0264",
                        written,
                        f"consumer `{left.name}` writes `{value}`, which is yielded, without "
                        "awaiting it",
                        fix=f"add `{value}` to its `await` and `yield`",
                        notes=[("it is yielded here", after.yielded[value])],
                    )

    def check_await(self, name: str, where: Place, state: _State) -> None:
        if name in state.surely or name in self.wrong:
            return
        self.wrong.add(name)
        maybe = state.yielded.get(name)
        self.report.error(
            "OI0262",
            where,
            f"`{name}` is awaited, but not yielded on every way to here"
            if maybe
            else f"`{name}` is awaited, but not yielded before",
            fix="yield and await a value in the same loop"
            if maybe
            else f"write `yield {name};` before it",
            notes=[("it is yielded here", maybe)] if maybe else (),
        )

    def check_return(self, node: ReturnOp, state: _State) -> None:
        """What is still yielded when entry returns comes back there, unless it is a result."""
        names = [name for name in state.yielded if name not in self.wrong | set(node.names)]
        for name in names:
            self.report.warning(
                "OI0266",
                self.places.of(node),
                f"`{name}` is still yielded when entry returns, which awaits it",
                fix=f"write `await {name};` before it",
            )
        if names:
            self.implied[node] = names

    def check_call(self, target: str, state: _State) -> None:
        """What a called block touches, entry touches."""
        if target in self.consumers:
            return
        if target not in self.called:
            self.called[target] = self.touched_by([target])
        for name, kinds in self.called[target].items():
            for kind, where in kinds.items():
                self.check_touch(Access(name, where, kind), f"block `{target}`", state)

    def check_touch(self, access: Access, who: str, state: _State) -> bool:
        """One access of entry, or of a block that it calls; says whether it is wrong."""
        name = access.name
        if first := state.yielded.get(name):
            self.report.error(
                "OI0249",
                access.where,
                f"{who} touches `{name}`, which is yielded and not yet awaited",
                fix=f"write `await {name};` before it, or use a copy",
                notes=[("it is yielded here", first)],
            )
            return True
        return any(
            self.access(access, self.consumers[consumer], who, started)
            for consumer, started in state.running.items()
        )
