"""The nodes of a program in text order, and where among them a step stands.

Events say which node ran. What they do not say (which loops are around it, which turn of a loop
this is, who called the block) follows from the order of events and from the outline. It works for
streams of events with gaps: compiled programs tell of nodes that compute, not of loops or blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from openinfer.runtime.errors import Location
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size
from openinfer.runtime.trace import Event

ENTRY = "entry"
"""The block that a step begins with."""

FORMS: Mapping[str, str] = {
    "Assign": "assign",
    "Await": "await",
    "Barrier": "barrier",
    "Branch": "branch",
    "CacheDecrement": "cache.decrement",
    "CacheIncrement": "cache.increment",
    "CacheRead": "cache.read",
    "CacheReset": "cache.reset",
    "CacheWrite": "cache.write",
    "Dep": "dep",
    "Loop": "loop",
    "Return": "return",
    "Scope": "scope",
    "Transfer": "transfer",
    "Yield": "yield",
}
"""Kind of event → the form as a person writes it."""


@dataclass(frozen=True)
class Call:
    """A call of a block with parameters, whose statements stand in its place."""

    block: str
    text: str
    """`conv(x, "layer1.0", stride=2)`."""
    location: Location | None
    arguments: tuple[tuple[str, str], ...] = ()
    """Each parameter of the block, and what it is given, as the call writes it."""

    def __str__(self) -> str:
        """`conv(x, "layer1.0", stride=2) at line 21`."""
        return f"{self.text} at line {self.location.line}" if self.location else self.text


@dataclass(frozen=True)
class OutlineNode:
    """A node of the program text, loops and scopes included."""

    index: int
    """Running number; a loop or scope comes before its body."""
    uuid: str
    kind: str
    op: str
    """Name of the op; empty for another form."""
    block: str
    text: str
    location: Location | None
    loops: tuple[int, ...] = ()
    """Indices of the loops around it, outermost first."""
    parents: tuple[int, ...] = ()
    """Indices of the loops and scopes around it, outermost first."""
    bounds: tuple[str, Size, Size] | None = None
    """Of a loop: index name, start, stop."""
    calls: tuple[Call, ...] = ()
    """The calls of blocks with parameters that it stands in, outermost first."""

    @property
    def form(self) -> str:
        """`matmul`, `cache.read`, `loop`: what a breakpoint by op names."""
        return self.op or FORMS.get(self.kind, self.kind.lower())


@dataclass(frozen=True)
class OwnName:
    """What a variable or the index of a loop in a block with parameters is called in one call of it."""

    calls: tuple[Call, ...]
    """The call, behind those that it stands in."""
    name: str
    """As the block writes it."""
    stands_for: str
    first: int
    """The node from which on it is so."""


@dataclass(frozen=True)
class Outline:
    """All nodes of a program in text order, and where its blocks stand."""

    nodes: tuple[OutlineNode, ...]
    """The node at place i has the index i."""
    blocks: Mapping[str, Location | None]
    own_names: tuple[OwnName, ...] = ()
    """In text order."""
    by_uuid: Mapping[str, OutlineNode] = field(init=False, compare=False, repr=False)
    first_of: Mapping[str, tuple[Call, ...]] = field(init=False, compare=False, repr=False)
    """By uuid of a node: the calls of blocks with parameters that begin with it."""
    _own: Mapping[tuple[tuple[Call, ...], str], Sequence[OwnName]] = field(
        init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_uuid", {node.uuid: node for node in self.nodes})
        first: dict[tuple[Call, ...], str] = {}
        for node in self.nodes:
            if node.calls and node.kind not in ("Assign", "Scope"):
                for depth in range(len(node.calls)):
                    first.setdefault(node.calls[: depth + 1], node.uuid)
        begins: dict[str, tuple[Call, ...]] = {}
        for calls, uuid in first.items():
            begins[uuid] = (*begins.get(uuid, ()), calls[-1])
        object.__setattr__(self, "first_of", begins)
        own: dict[tuple[tuple[Call, ...], str], list[OwnName]] = {}
        for row in self.own_names:
            own.setdefault((row.calls, row.name), []).append(row)
        object.__setattr__(self, "_own", own)

    def own_name(self, name: str, calls: tuple[Call, ...], node: int) -> str:
        """What a name that is no parameter stands for at a node which such calls are around."""
        rows = [row for row in self._own.get((calls, name), ()) if row.first <= node]
        return rows[-1].stands_for if rows else name

    @property
    def call_names(self) -> frozenset[str]:
        """The names that blocks with parameters have for themselves: parameters, variables, loop indices."""
        calls = {call for node in self.nodes for call in node.calls}
        given = {name for call in calls for name, _ in call.arguments}
        return frozenset(given | {row.name for row in self.own_names})

    @property
    def loop_names(self) -> frozenset[str]:
        """Names of all loop indices."""
        return frozenset(node.bounds[0] for node in self.nodes if node.bounds is not None)

    @property
    def forms(self) -> frozenset[str]:
        """Everything that a breakpoint by op can name."""
        return frozenset(node.form for node in self.nodes)

    def lines(self) -> list[int]:
        """Line numbers on which a node or a block begins, sorted."""
        return sorted({place.line for place in self.places() if place.line > 0})

    def places(self) -> list[Location]:
        """Where nodes, blocks, and calls of blocks with parameters stand."""
        found = [node.location for node in self.nodes] + list(self.blocks.values())
        found += [call.location for node in self.nodes for call in node.calls]
        return [place for place in found if place is not None]


@dataclass
class Frame:
    """A block that is being executed."""

    block: str
    node: OutlineNode | None = None
    """Its node that ran last."""
    event: Event | None = None
    values: dict[int, int | None] = field(default_factory=lambda: {})
    """Value of the index of each loop around `node`, by the loop's node index; None: unknown."""
    stops: dict[int, int | None] = field(default_factory=lambda: {})
    """Where each of these loops ends."""
    left: bool = False
    """Its end was told: it goes with the next event."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of blocks with parameters that `node` stands in, outermost first."""
        return self.node.calls if self.node is not None else ()


Number = Callable[[str], int | None]
"""The integer that a size or scalar variable stands for now; None when nobody knows."""


class Position:
    """Follows the events of one step: stack of blocks, and turns of their loops."""

    def __init__(self, outline: Outline | None, number: Number) -> None:
        """Without an outline, loops are not known and nodes have no place in the text."""
        self.outline = outline
        self.frames: list[Frame] = []
        """Innermost last; empty before the first event."""
        self._number = number
        self.told = False
        """Whether this stream of events tells of entering blocks."""

    @property
    def depth(self) -> tuple[int, int]:
        """How deep the step is in blocks, those with parameters included, and in loops of the innermost
        one that is no such block."""
        if not self.frames:
            return (0, 0)
        node = self.frames[-1].node
        blocks = sum(1 + len(frame.calls) for frame in self.frames)
        return (blocks, len(node.loops) if node is not None else 0)

    @property
    def calls(self) -> tuple[tuple[int, Call], ...]:
        """The calls of blocks with parameters that the step stands in, outermost first, each with the
        number of the frame."""
        return tuple((n, call) for n, frame in enumerate(self.frames) for call in frame.calls)

    @property
    def indices(self) -> dict[str, int | None]:
        """The loop indices in scope, by name; an inner one hides an outer one of its name."""
        return self.indices_of(self.frames[-1]) if self.frames else {}

    def indices_of(self, frame: Frame) -> dict[str, int | None]:
        """The loop indices in scope in a frame."""
        found: dict[str, int | None] = {}
        for loop, value in frame.values.items():
            bounds = self.outline.nodes[loop].bounds if self.outline is not None else None
            if bounds is not None:
                found[bounds[0]] = value
        return found

    def meaning(self, name: str, depth: int | None = None) -> tuple[str, int]:
        """What a name stands for: a block with parameters has names of its own.

        `depth` counts the calls of such blocks around the place that is meant; without it, it is that of
        the node that ran last. Gives the name of a variable, loop index or size, or the argument of a call
        that is none, `n + 1` or `"layer1.0"`, and the depth at which that is written.
        """
        node = self.frames[-1].node if self.frames else None
        if self.outline is None or node is None:
            return name, 0
        calls = node.calls[:depth]
        while calls:
            argument = dict(calls[-1].arguments).get(name)
            if argument is None:
                break
            name, calls = argument, calls[:-1]
            if not argument.isidentifier():
                return argument, len(calls)
        return self.outline.own_name(name, calls, node.index), len(calls)

    def update(self, event: Event) -> None:
        """Takes note of the next event."""
        if event.kind == "BlockEnter":
            self.told = True
            self._drop_left()
            self.frames.append(Frame(event.block_name, event=event))
            return
        if event.kind == "BlockExit":
            self._drop_left()
            frame = self._frame(event)
            frame.left, frame.event = True, event
            frame.node, frame.values, frame.stops = None, {}, {}
            return
        self._drop_left()
        frame = self._frame(event)
        node = self.outline.by_uuid.get(event.node_uuid) if self.outline is not None else None
        if node is not None:
            self._turn(frame, node)
        frame.node, frame.event = node, event

    def _drop_left(self) -> None:
        while self.frames and self.frames[-1].left:
            self.frames.pop()

    def _frame(self, event: Event) -> Frame:
        """The frame of an event: the innermost of its block, else a new one."""
        if not self.frames and event.block_name != ENTRY:
            # Nobody told how the block came to run: entry called it, by whichever way.
            self.frames.append(Frame(ENTRY))
        for depth in range(len(self.frames), 0, -1):
            if self.frames[depth - 1].block == event.block_name:
                del self.frames[depth:]
                return self.frames[-1]
        self.frames.append(Frame(event.block_name))
        return self.frames[-1]

    def _turn(self, frame: Frame, node: OutlineNode) -> None:
        """Brings the loop indices of a frame to those of its next node."""
        kept = [loop for loop in node.loops if loop in frame.values]
        if frame.node is not None and node.index <= frame.node.index:
            # Back in the text: a loop around both took its next turn, the innermost that can.
            while kept and not self._has_next(frame, kept[-1]):
                kept.pop()
            if kept:
                value = frame.values[kept[-1]]
                frame.values[kept[-1]] = None if value is None else value + 1
        frame.values = {loop: frame.values[loop] for loop in kept}
        frame.stops = {loop: frame.stops[loop] for loop in kept}
        for loop in node.loops[len(kept) :]:
            self._enter(frame, loop)

    @staticmethod
    def _has_next(frame: Frame, loop: int) -> bool:
        value, stop = frame.values[loop], frame.stops[loop]
        return value is None or stop is None or value + 1 < stop

    def _enter(self, frame: Frame, loop: int) -> None:
        assert self.outline is not None
        bounds = self.outline.nodes[loop].bounds
        assert bounds is not None
        known = self.indices_of(frame)
        frame.values[loop] = self._evaluated(bounds[1], known)
        frame.stops[loop] = self._evaluated(bounds[2], known)

    def _evaluated(self, size: Size, known: Mapping[str, int | None]) -> int | None:
        values: dict[str, int] = {}
        for name in size.names:
            value = known[name] if name in known else self._number(name)
            if value is None:
                return None
            values[name] = value
        try:
            return size.evaluate(values)
        except ZeroDivisionError:
            return None


def nearest_line(lines: Sequence[int], wanted: int) -> int | None:
    """The first of the sorted lines that is not before the wanted one."""
    return next((line for line in lines if line >= wanted), None)
