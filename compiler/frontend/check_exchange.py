"""Follows `entry` and knows at every statement which values are yielded and which consumers run.

The body of entry becomes a flat list of steps with edges, and the states before each step are
computed until nothing changes. Findings are reported in one last pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from openinfer.compiler.frontend import syntax
from openinfer.compiler.frontend.accesses import WRITE, Access, accesses
from openinfer.compiler.frontend.check_consumers import (
    Consumer,
    check_access,
    check_consumers,
    check_pair,
    find_consumers,
    touched_by,
)
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.symbols import Symbols
from openinfer.compiler.frontend.syntax import walk


def check_exchange(symbols: Symbols, report: Report) -> dict[syntax.Return, syntax.Await]:
    """All rules of `yield` and `await`.

    A `return` of entry takes back what is still yielded: the result says with which `await` each
    does.
    """
    consumers = find_consumers(symbols)
    check_consumers(symbols, consumers, report)
    entry = symbols.blocks.get("entry")
    if entry is None:
        return {}
    yields = [node for node in walk(entry.body) if isinstance(node, syntax.Yield)]
    awaits = [node for node in walk(entry.body) if isinstance(node, syntax.Await)]
    if not yields and not awaits and not consumers:
        return {}
    flow = _Flow(symbols, consumers, report)
    flow.follow(entry)
    _check_unused(yields, consumers, flow.started, report)
    return flow.implied


def _check_unused(
    yields: Sequence[syntax.Yield],
    consumers: Mapping[str, Consumer],
    started: set[str],
    report: Report,
) -> None:
    """Consumers that never run, and yielded values that nobody awaits."""
    yielded = {name.text for node in yields for name in node.names}
    for consumer in consumers.values():
        missing = [name for name in consumer.awaited.names if name.text not in yielded]
        for name in missing:
            report.error(
                "OI0265",
                name.span,
                f"block `{consumer.name}` awaits `{name.text}`, which `entry` never yields",
                fix=f"write `yield {name.text};` in entry, or remove the block",
            )
        if not missing and consumer.name not in started:
            report.error(
                "OI0265",
                consumer.awaited.span,
                f"block `{consumer.name}` never runs: its values are never yielded together",
                fix="yield all of them before the first `await`",
            )
    awaited = {value for consumer in consumers.values() for value in consumer.values}
    for node in yields:
        for name in node.names:
            if name.text not in awaited:
                report.warning(
                    "OI0268",
                    name.span,
                    f"`{name.text}` is yielded, but no block awaits it",
                    fix=f"start a block with `await {name.text};`, or remove the name",
                )


@dataclass
class _State:
    """What may and must hold before a step."""

    yielded: dict[str, syntax.Name] = field(default_factory=dict[str, syntax.Name])
    """Values that may be yielded, each with its `yield`."""
    surely: set[str] = field(default_factory=set[str])
    """Those that are yielded on every way here."""
    running: dict[str, syntax.Name] = field(default_factory=dict[str, syntax.Name])
    """Consumers that may run, with the `yield` that started them."""
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

    node: syntax.Node
    following: list[int] = field(default_factory=list[int])


def _flatten(nodes: Sequence[syntax.Node], steps: list[_Step]) -> None:
    """Appends the steps of a body; the last one is followed by whatever is appended next."""
    for node in nodes:
        here = len(steps)
        steps.append(_Step(node))
        if not isinstance(node, syntax.Return):
            steps[here].following.append(here + 1)
        if isinstance(node, syntax.Loop):
            _flatten(node.body, steps)
            steps.append(_Step(syntax.Barrier(node.span), [here]))  # back to the head
            steps[here].following.append(len(steps))
        elif isinstance(node, syntax.Scope):
            _flatten(node.body, steps)


class _Flow:
    """The states of entry."""

    def __init__(self, symbols: Symbols, consumers: Mapping[str, Consumer], report: Report) -> None:
        self.symbols = symbols
        self.consumers = consumers
        self.report = report
        self.started: set[str] = set()
        self.implied: dict[syntax.Return, syntax.Await] = {}
        self.wrong: set[str] = set()
        """Values with a finding that explains later ones."""
        self.called: dict[str, Mapping[str, Mapping[str, syntax.Name]]] = {}

    def follow(self, entry: syntax.Block) -> None:
        steps: list[_Step] = []
        _flatten(entry.body, steps)
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

    def advance(self, node: syntax.Node, state: _State) -> None:
        """The state behind a node."""
        if isinstance(node, syntax.Yield):
            for name in node.names:
                state.yielded.setdefault(name.text, name)
                state.surely.add(name.text)
            for consumer in self.starting(node, state):
                self.started.add(consumer.name)
                state.running.setdefault(consumer.name, node.names[0])
                state.served |= {(value, consumer.name) for value in consumer.values}
        elif isinstance(node, syntax.Await):
            names = {name.text for name in node.names}
            for name in names:
                state.yielded.pop(name, None)
            state.surely -= names
            state.served = {pair for pair in state.served if pair[0] not in names}
            for consumer in self.consumers.values():
                if consumer.values & names:
                    state.running.pop(consumer.name, None)

    def starting(self, node: syntax.Yield, state: _State) -> Iterator[Consumer]:
        """The consumers whose last missing value a `yield` gives."""
        names = {name.text for name in node.names}
        for consumer in self.consumers.values():
            if consumer.values & names and consumer.values <= state.yielded.keys():
                yield consumer

    def check(self, node: syntax.Node, state: _State) -> None:
        """Reports what a node must not do in a state."""
        match node:
            case syntax.Yield():
                self.check_yield(node, state)
            case syntax.Await(names=names):
                for name in names:
                    self.check_await(name, state)
            case syntax.Branch():
                targets = [t.text for t in (node.then_block, node.else_block) if t is not None]
                if state.yielded:
                    for target in targets:
                        self.check_call(node, target, state)
            case syntax.Return():
                self.check_return(node, state)
            case _:
                pass
        if not isinstance(node, syntax.Yield | syntax.Await):
            reported: set[str] = set()
            for access in accesses(node, self.symbols):
                name = access.name.text
                if name not in reported and self.check_touch(access, "entry", state):
                    reported.add(name)

    def check_yield(self, node: syntax.Yield, state: _State) -> None:
        for name in node.names:
            if first := state.yielded.get(name.text):
                self.wrong.add(name.text)
                again = "again" if first.span == name.span else "twice"
                self.report.error(
                    "OI0261",
                    name.span,
                    f"`{name.text}` is yielded {again} before it is awaited",
                    fix=f"write `await {name.text};` before it",
                    notes=[("first yielded here", first.span)],
                )
        names = {name.text for name in node.names}
        after = state.copy()
        self.advance(node, after)
        for consumer in self.starting(node, after):
            for value in sorted(consumer.values - names):
                if (value, consumer.name) in state.served:
                    self.report.error(
                        "OI0261",
                        node.span,
                        f"consumer `{consumer.name}` would run again with the same `{value}`",
                        fix=f"write `await {value};` before it, and yield it anew",
                        notes=[("it was yielded here", state.yielded[value].span)],
                    )
        running = [self.consumers[name] for name in after.running]
        for position, left in enumerate(running):
            for right in running[position + 1 :]:
                check_pair(left, right, node.span, self.report)
            for value in after.yielded:
                written = left.touched.get(value, {}).get(WRITE)
                if written is not None and value not in left.values:
                    self.report.error(
                        "OI0264",
                        written.span,
                        f"consumer `{left.name}` writes `{value}`, which is yielded, without "
                        "awaiting it",
                        fix=f"add `{value}` to its `await` and `yield`",
                        notes=[("it is yielded here", after.yielded[value].span)],
                    )

    def check_await(self, name: syntax.Name, state: _State) -> None:
        if name.text in state.surely or name.text in self.wrong:
            return
        self.wrong.add(name.text)
        maybe = state.yielded.get(name.text)
        self.report.error(
            "OI0262",
            name.span,
            f"`{name.text}` is awaited, but not yielded on every way to here"
            if maybe
            else f"`{name.text}` is awaited, but not yielded before",
            fix="yield and await a value in the same loop"
            if maybe
            else f"write `yield {name.text};` before it",
            notes=[("it is yielded here", maybe.span)] if maybe else (),
        )

    def check_return(self, node: syntax.Return, state: _State) -> None:
        """What is still yielded when entry returns comes back there, unless it is a result."""
        results = {name.text for name in node.names}
        names = [n for n in state.yielded.values() if n.text not in self.wrong | results]
        for name in names:
            self.report.warning(
                "OI0266",
                node.span,
                f"`{name.text}` is still yielded when entry returns, which awaits it",
                fix=f"write `await {name.text};` before it",
            )
        if names:
            written = tuple(syntax.Name(name.text, node.span) for name in names)
            self.implied[node] = syntax.Await(written, node.span)

    def check_call(self, node: syntax.Branch, target: str, state: _State) -> None:
        """What a called block touches, entry touches."""
        if target in self.consumers:
            return
        if target not in self.called:
            self.called[target] = touched_by(self.symbols, [target])
        for kinds in self.called[target].values():
            for kind, place in kinds.items():
                self.check_touch(Access(place, kind), f"block `{target}`", state)

    def check_touch(self, access: Access, who: str, state: _State) -> bool:
        """One access of entry, or of a block that it calls; says whether it is wrong."""
        name = access.name
        if first := state.yielded.get(name.text):
            self.report.error(
                "OI0249",
                name.span,
                f"{who} touches `{name.text}`, which is yielded and not yet awaited",
                fix=f"write `await {name.text};` before it, or use a copy",
                notes=[("it is yielded here", first.span)],
            )
            return True
        return any(
            check_access(access, self.consumers[consumer], who, started.span, self.report)
            for consumer, started in state.running.items()
        )
