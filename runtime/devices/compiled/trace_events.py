"""What a traced step writes down, and how it becomes events.

The code appends an entry for every stamp (`lowering/cpu/trace.mlir`): its number, a value, and the
clock. The manifest says what each number means. A step of a plain build writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.errors import Location
from openinfer.runtime.manifest import BlockRow, CallRow, Manifest, NodeRow, StampRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size
from openinfer.runtime.trace import Event

_CONTROL = frozenset(("Loop", "Branch", "Return", "Assign", "Barrier", "Dep", "Yield", "Await"))

Entries = NDArray[np.int64]
"""Rows of (stamp, value, seconds, nanoseconds). A stamp below 0 is a call of the device (`device_entry`)."""


class DeviceCall(NamedTuple):
    """A call of the device, in nanoseconds of the clock of the host."""

    row: CallRow
    waits: bool
    """Whether a barrier stands in front of it."""
    asked: int
    """When the step asked for it."""
    start: int
    duration: int


def device_entry(
    row: int, waits: bool, asked: int, start: int, duration: int
) -> tuple[int, int, int, int]:
    """The entry of a `DeviceCall`; `row` is its number in the manifest."""
    return (-1 - row, 2 * duration + waits, start, asked)


class DeviceCalls:
    """The calls of the device in a step, in order."""

    def __init__(self, entries: Iterable[Sequence[int]], rows: Sequence[CallRow]) -> None:
        self._left = deque(
            DeviceCall(rows[-1 - stamp], bool(value & 1), asked, start, value >> 1)
            for stamp, value, start, asked in entries
            if stamp < 0
        )

    def until(self, time: int) -> list[DeviceCall]:
        """Those that were asked for before a time, and were not given yet."""
        found: list[DeviceCall] = []
        while self._left and self._left[0].asked < time:
            found.append(self._left.popleft())
        return found

    def rest(self) -> list[DeviceCall]:
        """All others."""
        left, self._left = list(self._left), deque()
        return left


TRACED_THREADS = 1
"""How many threads run a traced step."""


@dataclass(frozen=True)
class Growths:
    """How often memory grew since the step before, the steps' own allocations being none."""

    arena: int = 0
    """The arena of temporaries, when a run-time size grew."""
    state: int = 0
    """Persistent variables, and what undoes their changes."""

    @property
    def settings(self) -> dict[str, object]:
        """As an event shows them: only those that happened."""
        shown = {"arena_growths": self.arena, "state_growths": self.state}
        return {name: count for name, count in shown.items() if count}


@dataclass
class _Frame:
    """A block that is being executed."""

    block: str
    turns: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    """Loop node → its index name and value."""


class Place:
    """Where a step is: blocks inside each other, and the iterations of their loops."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = []

    @property
    def block(self) -> str:
        """The innermost block; empty outside of all."""
        return self._frames[-1].block if self._frames else ""

    def move(self, stamp: StampRow, value: int) -> None:
        """Takes note of a stamp."""
        if stamp.phase == "enter":
            self._frames.append(_Frame(stamp.what))
        elif stamp.phase == "exit" and self._frames:
            self._frames.pop()
        elif stamp.phase == "turn" and self._frames:
            self._frames[-1].turns[stamp.nodes[0]] = (stamp.what, value)

    def edges(
        self, row: NodeRow, sizes: Mapping[str, int]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What a node reads and writes here, with the loop indices around it filled in."""
        turns = self._frames[-1].turns if self._frames else {}
        # Inner loops hide outer ones of the same index.
        indices = dict(turns[loop] for loop in row.loops if loop in turns)
        known = {**sizes, **indices}
        reads, writes = (
            tuple(_filled(name, known) for name in names) for names in (row.params, row.output)
        )
        return reads, writes


def _filled(name: str, known: Mapping[str, int]) -> str:
    """`W[l]` as `W[l=0]`, `K[0..n]` as `K[0..3]`."""
    base, bracket, rest = name.partition("[")
    if not bracket:
        return name
    slots: list[str] = []
    for slot in _split(rest.removesuffix("]")):
        start, dots, stop = slot.partition("..")
        if dots:
            slots.append(f"{_number(start, known)}..{_number(stop, known)}")
        else:
            value = _number(slot, known)
            slots.append(value if value == slot else f"{slot}={value}")
    return f"{base}[{', '.join(slots)}]"


def _split(text: str) -> list[str]:
    """The slots between commas that stand in no parentheses."""
    slots, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            slots.append("")
        else:
            slots[-1] += char
    return [slot.strip() for slot in slots]


def _number(text: str, known: Mapping[str, int]) -> str:
    """The value of an index where it is known, else the index as it is written."""
    try:
        size = Size.of(text) if text else None
        if size is None or not size.names <= known.keys():
            return text
        return str(size.evaluate(known))
    except (ValueError, ZeroDivisionError):
        return text


class TraceReader:
    """Turns entries into events."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.nodes = {row.index: row for row in manifest.nodes}
        self.blocks = {row.name: row for row in manifest.blocks}
        self.variables = {row.name: row for row in manifest.variables}
        self.dynamic = frozenset(manifest.dynamic_sizes)
        self._written: dict[str, tuple[int, ...]] = {}

    def events(
        self,
        entries: Entries,
        sizes: Mapping[str, int],
        step: int,
        growths: Growths | None = None,
    ) -> list[Event]:
        """The events of one step; `sizes` are all its sizes.

        The event that enters the step says in its settings how many threads ran it, and where memory grew
        before or in it.
        """
        found: list[Event] = []
        place = Place()
        begun: dict[tuple[str, tuple[int, ...]], int] = {}
        # Sizes that the step fixes on its way, and the shapes of what it has written with them.
        sizes, self._written = dict(sizes), {}
        listed = entries.tolist()
        calls = DeviceCalls(listed, self.manifest.calls)
        for number, value, seconds, nanoseconds in listed:
            if number < 0:
                break
            stamp = self.manifest.stamps[number]
            now = seconds * 1_000_000_000 + nanoseconds
            place.move(stamp, value)
            match stamp.phase:
                case "enter" | "exit":
                    found.append(block_event(self.blocks.get(stamp.what), stamp, now, step))
                case "turn":
                    pass
                case "size":
                    sizes[stamp.what] = value
                case "begin":
                    begun[stamp.what, tuple(stamp.nodes)] = now
                case "end":
                    start = begun.pop((stamp.what, tuple(stamp.nodes)), now)
                    found += self._work(calls, stamp, place, sizes, start, now, step)
                case _:
                    found += [self._node(n, place, sizes, now, step) for n in stamp.nodes]
        # What results needed is behind the last kernel, and within the step.
        left = [event for call in calls.rest() for event in self._call(call, "entry", step)]
        found[len(found) - 1 : len(found) - 1] = left
        if found:
            said = {"threads": TRACED_THREADS, **(growths.settings if growths is not None else {})}
            found[0] = replace(found[0], settings={**found[0].settings, **said})
        return found

    def _work(
        self,
        calls: DeviceCalls,
        stamp: StampRow,
        place: Place,
        sizes: Mapping[str, int],
        begun: int,
        now: int,
        step: int,
    ) -> Iterator[Event]:
        """A kernel: where the device has run it, with its name and time there, behind what it did before."""
        for call in calls.until(begun):
            yield from self._call(call, place.block, step)
        own = calls.until(now)
        if not own:
            yield self._kernel(stamp, place, sizes, begun, now - begun, step)
            return
        for call in own:
            yield from self._barrier(call, place.block, step)
        start, end = own[0].start, own[-1].start + own[-1].duration
        event = self._kernel(stamp, place, sizes, start, end - start, step)
        # Of several kernels for the same nodes the step has chosen one.
        yield replace(
            event, lane="device", kernel=own[0].row.kernel if len(own) == 1 else stamp.what
        )

    def _call(self, call: DeviceCall, block: str, step: int) -> Iterator[Event]:
        """A transfer between host and device, or what else no stamp speaks of."""
        yield from self._barrier(call, block, step)
        event = self._of_device("Transfer", call, block, step)
        text = f"{call.row.kernel}: {', '.join(call.row.buffers)}"
        yield replace(
            event,
            op_name=call.row.kernel,
            kernel=call.row.kernel,
            description=text,
            duration_ns=call.duration,
        )

    def _barrier(self, call: DeviceCall, block: str, step: int) -> Iterator[Event]:
        if call.waits:
            event = self._of_device("Barrier", call, block, step)
            text = f"before {call.row.kernel}"
            yield replace(event, op_name="memory barrier", description=text)

    def _of_device(self, kind: str, call: DeviceCall, block: str, step: int) -> Event:
        """What stands in no program."""
        known = self.blocks.get(block)
        uuid = known.uuid if known else ""
        return Event(kind, block, -1, uuid, start_ns=call.start, step=step, lane="device")

    def _node(
        self, number: int, place: Place, sizes: Mapping[str, int], now: int, step: int
    ) -> Event:
        """A node that no kernel computes: it is passed, or is a view, or was known beforehand."""
        row = self.nodes[number]
        params, output = place.edges(row, sizes)
        shapes = self._shapes([row], params, output, sizes)
        shapes = with_cache(row, params, output, shapes)
        return node_event(
            row, self.dtypes(shapes), shapes, now, 0, params=params, output=output, step=step
        )

    def _kernel(
        self,
        stamp: StampRow,
        place: Place,
        sizes: Mapping[str, int],
        start: int,
        duration: int,
        step: int,
    ) -> Event:
        """A kernel: one event for all its nodes, named after the last of them."""
        rows = [self.nodes[number] for number in stamp.nodes]
        if not rows:
            block = self.blocks.get(place.block)
            return Event(
                "Transfer",
                place.block,
                -1,
                block.uuid if block else "",
                op_name=stamp.what,
                description=f"compiled: {stamp.what}",
                start_ns=start,
                duration_ns=duration,
                kernel=stamp.what,
                step=step,
            )
        working = [row for row in rows if row.kind not in _CONTROL] or rows
        params, output = _outside([place.edges(row, sizes) for row in working])
        shapes = self._shapes(working, params, output, sizes)
        if len(working) == 1:
            shapes = with_cache(working[0], params, output, shapes)
        return node_event(
            working[-1],
            self.dtypes(shapes),
            shapes,
            start,
            duration,
            params=params,
            output=output,
            step=step,
            kernel=stamp.what,
            group=working,
        )

    def _shapes(
        self,
        rows: Sequence[NodeRow],
        params: Sequence[str],
        output: Sequence[str],
        sizes: Mapping[str, int],
    ) -> dict[str, tuple[int, ...]]:
        """The shapes of what nodes read and write, those included that only the step knows."""
        names = (*params, *output)
        found = self.shapes(names, sizes)
        found.update({name: self._written[name] for name in params if name in self._written})
        for row in rows:
            for name in row.output:
                key = f"{row.index} {name}"
                # Where a block is called with several sizes, nothing says which ones these are.
                several = f"{key}#1" in self.manifest.watched_dims
                dims = self.manifest.watched_dims.get(key)
                if dims is None:
                    continue
                exact = None if several else _evaluated(map(Size.of, dims), sizes)
                found.pop(name, None)
                self._written.pop(name, None)
                if exact is not None:
                    found[name] = self._written[name] = exact
        return {name: found[name] for name in names if name in found}

    def shapes(self, names: Iterable[str], sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of variables and members of prefix tables, where the declaration says them."""
        found: dict[str, tuple[int, ...]] = {}
        for name in names:
            base, bracket, _ = name.partition("[")
            row = self.variables.get(base)
            if row is None or (bracket and not row.members):
                continue
            dims = [Size.of(dim) for dim in self.manifest.shapes.get(base, row.dims)]
            # What only the step knows is another number at another place of the step.
            dynamic = any(dim.names & self.dynamic for dim in dims)
            shape = None if dynamic else _evaluated(dims, sizes)
            if shape is not None:
                found[name] = shape
        return found

    def dtypes(self, names: Iterable[str]) -> dict[str, str]:
        """The dtypes of variables."""
        return {name: self.variables[name.partition("[")[0]].dtype for name in names}


def _evaluated(dims: Iterable[Size], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    """The shape, where all that it names is known and it can be one."""
    known = list(dims)
    if not all(dim.names <= sizes.keys() for dim in known):
        return None
    try:
        shape = tuple(dim.evaluate(sizes) for dim in known)
    except ZeroDivisionError:
        return None
    return shape if min(shape, default=0) >= 0 else None


def _outside(
    rows: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a group of nodes reads from outside, and what it gives that it does not read itself."""
    params: dict[str, None] = {}
    pending: dict[str, None] = {}
    for reads, writes in rows:
        for name in reads:
            if name in pending:
                del pending[name]
            else:
                params[name] = None
        for name in writes:
            pending[name] = None
    # What a node overwrites after reading it stays: it is what the group gives in the end.
    last = rows[-1][1]
    return tuple(params), tuple(dict.fromkeys((*pending, *last)))


def with_cache(
    row: NodeRow,
    params: Sequence[str],
    output: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[int, ...]]:
    """The shapes in order, with that of the part of a cache that was read or written."""
    found = dict(shapes)
    if row.kind in ("CacheRead", "CacheWrite") and len(params) == len(output) == 1:
        inside, outside = params[0], output[0]
        if row.kind == "CacheWrite":
            inside, outside = outside, inside
        if outside in found:
            found[inside] = found[outside]
    return {name: found[name] for name in (*params, *output) if name in found}


def _place(row: NodeRow | BlockRow | None) -> Location | None:
    return Location(row.file, row.line, row.column) if row is not None and row.file else None


def block_event(row: BlockRow | None, stamp: StampRow, now: int, step: int = 0) -> Event:
    """The entering or leaving of a block."""
    return Event(
        "BlockEnter" if stamp.phase == "enter" else "BlockExit",
        stamp.what,
        -1,
        row.uuid if row is not None else "",
        description=f"block {stamp.what}",
        start_ns=now,
        location=_place(row),
        step=step,
    )


def node_event(
    row: NodeRow,
    dtypes: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    start: int,
    duration: int,
    *,
    params: Sequence[str] | None = None,
    output: Sequence[str] | None = None,
    step: int = 0,
    kernel: str = "",
    group: Sequence[NodeRow] = (),
) -> Event:
    """The event of a node, or of a group of nodes that a kernel computes, called after its last."""
    several = len(group) > 1
    parts = [part for part in group if part.op]
    name = "+".join(part.op for part in parts) if several and parts else row.op
    if kernel and row.kind in _CONTROL:
        # Values that a loop or a branch hands on.
        name = kernel
    settings: dict[str, Any] = dict(row.settings)
    if several:
        settings = {
            f"{part.op}.{key}": value for part in parts for key, value in part.settings.items()
        }
    return Event(
        kind="Transfer" if kernel and row.kind in _CONTROL else row.kind,
        block_name=row.block,
        node_index=row.index,
        node_uuid=row.uuid,
        op_name=name,
        description="; ".join(part.text for part in group) if several else row.text,
        params=tuple(row.params if params is None else params),
        output=tuple(row.output if output is None else output),
        shapes=shapes,
        dtypes=dtypes,
        settings=settings,
        start_ns=start,
        duration_ns=duration,
        location=_place(row),
        nodes=tuple(part.uuid for part in group),
        indices=tuple(part.index for part in group),
        places=tuple(place for part in group if (place := _place(part)) is not None),
        kernel=kernel,
        scope=row.scope,
        calls=tuple(row.calls),
        step=step,
    )
