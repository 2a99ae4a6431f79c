"""What a watched build shows while it runs: one event for each node, with the values it gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from openinfer.runtime.devices.compiled.trace_events import (
    Place,
    TraceReader,
    block_event,
    node_event,
    with_cache,
)
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.manifest import Manifest
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.storage import AnyArray, element_count
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event
from openinfer.runtime.variables import VariableInfo

NO_OUTPUT = -1
"""In place of the number of an output: a stamp (`lowering/host/lower_stamps.py`)."""

Show = Callable[[str, int, Mapping[str, int], "list[str] | None"], Tensor]
"""A copy of the value of a variable at an address, given all sizes and its dimensions."""


@dataclass
class Shown:
    """One node of the step that was watched."""

    event: Event
    values: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    """What it gave, by name."""


class Handed:
    """What `entry` has yielded: each consumer begins with it, whatever another one has written."""

    def __init__(self, manifest: Manifest) -> None:
        self._consumers = {
            row.block for row in manifest.nodes if row.kind == "Await" and row.block != "entry"
        }
        self._values: dict[str, Tensor | None] = {}

    def follow(self, event: Event, live: dict[str, Tensor]) -> None:
        """Takes note of an event, and puts what a consumer finds into the values that live."""
        if event.kind == "Yield" and event.block_name == "entry":
            self._values.update({name: live.get(name) for name in event.params})
        elif event.kind == "BlockEnter" and event.block_name in self._consumers:
            for name, value in self._values.items():
                if value is None:
                    live.pop(name, None)
                else:
                    live[name] = value


def start_numbers(
    variables: Mapping[str, VariableInfo], value: Callable[[str], Tensor | AnyArray]
) -> dict[str, int]:
    """The whole numbers that a step may name in an index and that have a value before it."""
    found: dict[str, int] = {}
    for name, info in variables.items():
        if info.memory not in ("dynamic", "constant", "persistent") or info.indices:
            continue
        if all(dim.constant == 1 for dim in info.dims) and DTYPES[info.dtype].kind != "float":
            found[name] = _number(value(name))
    return found


def _number(value: Tensor | AnyArray) -> int:
    values = value.values() if isinstance(value, Tensor) else value
    return int(values.reshape(-1)[0])


class Watcher:
    """Takes what the code shows; `seen` holds all of it when the step is over."""

    def __init__(
        self,
        manifest: Manifest,
        show: Show,
        sizes: Callable[[], dict[str, int]],
        step: int,
        numbers: Mapping[str, int],
    ) -> None:
        """`sizes` gives all sizes of the step, those included that it has fixed so far.

        `numbers` are the scalars that have a value when the step starts (`start_numbers`).
        """
        self._start = dict(numbers)
        self._numbers = dict(numbers)
        self.seen: list[Shown] = []
        self._manifest = manifest
        self._reader = TraceReader(manifest)
        self._show = show
        self._sizes = sizes
        self._step = step
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._place = Place()
        self._clock = time.perf_counter_ns()

    def clear(self) -> None:
        """The step starts again."""
        self.seen.clear()
        self._shapes.clear()
        self._numbers = dict(self._start)
        self._place = Place()
        self._clock = time.perf_counter_ns()

    def record(self, node: int, output: int, value: int) -> None:
        """What the code calls: a node, one of its outputs and its address, or a stamp."""
        now = time.perf_counter_ns()
        if output == NO_OUTPUT:
            self._stamp(node, value, now)
        else:
            self._value(node, self._manifest.watched[output], value, now)
        self._clock = time.perf_counter_ns()

    def _stamp(self, number: int, value: int, now: int) -> None:
        stamp = self._manifest.stamps[number]
        self._place.move(stamp, value)
        if stamp.phase in ("enter", "exit"):
            block = self._reader.blocks.get(stamp.what)
            self.seen.append(Shown(block_event(block, stamp, now, self._step)))
        elif stamp.phase != "turn" and stamp.nodes[0] in self._reader.nodes:
            self.seen.append(Shown(self._event(stamp.nodes[0], self._sizes(), now, 0)))

    def _value(self, node: int, shown: str, address: int, now: int) -> None:
        sizes = self._sizes()
        dims = self._manifest.watched_dims.get(f"{node} {shown}")
        name = shown.partition("#")[0]
        tensor = self._show(name, address, sizes, dims)
        self._shapes[name] = tensor.shape
        event = self._event(node, sizes, self._clock, now - self._clock)
        if element_count(tensor.shape) == 1 and not tensor.dtype.is_float:
            self._numbers[name] = _number(tensor)
        last = self.seen[-1] if self.seen else None
        if last is not None and last.event.node_index == node:
            if name not in last.values:
                # Another output of the same node, or the value of one that was passed.
                spent = last.event.duration_ns + event.duration_ns
                start = last.event.start_ns
                last.event = replace(event, start_ns=start, duration_ns=spent)
                last.values[name] = tensor
                return
        self.seen.append(Shown(event, {name: tensor}))

    def _event(self, node: int, sizes: Mapping[str, int], start: int, duration: int) -> Event:
        row = self._reader.nodes[node]
        params, output = self._place.edges(row, {**self._numbers, **sizes})
        shapes = self._reader.shapes((*params, *output), sizes)
        if row.kind == "Assign":
            # What its block has left in it when it ran before is gone.
            for name in output:
                self._shapes.pop(name, None)
        shapes.update({n: self._shapes[n] for n in (*params, *output) if n in self._shapes})
        shapes = with_cache(row, params, output, shapes)
        dtypes = self._reader.dtypes(shapes)
        return node_event(
            row, dtypes, shapes, start, duration, params=params, output=output, step=self._step
        )
