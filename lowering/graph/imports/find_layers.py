"""Which statements are the same layer again and again.

First by their heads alone: stretches where line k and line k + p do the same, for every period p. Then by
what they read: a line of a layer reads what stands at the same place of its own layer (`within`), of the
layer before it (`carried`), or what was there before the first one (`before`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from openinfer.dialects.graph import LiteralAttr, RefAttr, SizeAttr, SliceAttr
from openinfer.lowering.graph.imports.lines import Lines, Reading, lines_saved
from openinfer.runtime.sizes import Size

_NUMBER = re.compile(r"(?<![0-9A-Za-z])(\d+)(?![0-9A-Za-z])|(?<=[A-Za-z_])(\d+)(?=\.|$)")
_TRIED = 60
"""So many stretches are looked at in a part of a program."""
Relation = tuple[str, object]


@dataclass
class Run:
    """Equal layers, one after the other."""

    start: int
    """Line at which the first begins."""
    period: int
    count: int
    relations: list[list[Relation]]
    """For each line of a layer, and each of its operands: where it comes from, in all but the first layer."""
    initial: dict[tuple[int, int], Reading] = field(default_factory=dict[tuple[int, int], Reading])
    """What the first layer reads where others read (line, result) of the layer before."""
    prefix: str = ""
    """Path of the modules without their number: `encoder.layer`, with the sign before the number."""

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count

    def place(self, layer: int, line: int) -> int:
        return self.start + layer * self.period + line


def find_run(lines: Lines) -> Run | None:
    """The run that saves most lines, if one is worth a loop."""
    for start, period, length in _stretches(lines)[:_TRIED]:
        best: Run | None = None
        for turn, prefix in _turns(lines, start, period, length):
            for run in _runs(lines, start + turn, period, (length - turn) // period):
                run.prefix = prefix
                if _worth(lines, run) and (best is None or _rank(run) > _rank(best)):
                    best = run
            if best is not None and prefix:
                break
        if best is not None:
            return best
    return None


def _rank(run: Run) -> tuple[int, int]:
    return run.count, -len(run.initial)


def _worth(lines: Lines, run: Run) -> bool:
    saved = lines_saved(lines, run.start, run.period, run.count) - 2 * len(run.initial)
    least = 1 if run.prefix else 8  # What no module tells apart may be equal by chance.
    return saved >= least and (run.count >= 3 or saved >= 20)


def _stretches(lines: Lines) -> list[tuple[int, int, int]]:
    """(start, period, length) where lines repeat, those that save most first."""
    known: dict[object, int] = {}
    keys = np.array([known.setdefault(line.head, len(known)) for line in lines.lines])
    weight = np.concatenate(
        [[0], np.cumsum([1 + lines.weights_of(place) for place in range(len(keys))])]
    )
    found: list[tuple[int, int, int, int]] = []
    for period in range(1, len(keys) // 2 + 1):
        equal = np.concatenate([[False], keys[:-period] == keys[period:], [False]])
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist()):
            length = stop - start + period
            if length >= 2 * period:
                saved = int(weight[start + length] - weight[start + period])
                found.append((-saved, period, start, length))
    return [(start, period, length) for _, period, start, length in sorted(found)]


def _turns(lines: Lines, start: int, period: int, length: int) -> Iterator[tuple[int, str]]:
    """At which of the lines layers may begin: where the number in the paths of modules changes, first."""
    slack = range(min(period, length - 2 * period + 1))
    aligned = [(turn, _prefix(lines, start + turn, period, length - turn)) for turn in slack]
    for turn, prefix in aligned:
        if prefix:
            yield turn, prefix
    for turn, prefix in aligned:
        if not prefix:
            yield turn, ""


def _prefix(lines: Lines, start: int, period: int, length: int) -> str:
    """What stands before the number that tells the layers apart, the same for all lines of a layer."""
    count = length // period
    found: Counter[str] = Counter()
    paths = [
        [lines.lines[start + layer * period + j].module for j in range(period)]
        for layer in range(count)
    ]
    for one, other in zip(paths[0], paths[1]):
        found.update(_differing(one, other))
    for prefix, _ in found.most_common():
        numbers = [
            {number for path in layer if (number := number_behind(path, prefix)) is not None}
            for layer in paths
        ]
        if len({len(layer) for layer in numbers}) == 1 and numbers[0] and _follow(numbers):
            return prefix
    return ""


def number_behind(path: str, prefix: str) -> int | None:
    """The number of a path behind `prefix`: of `encoder.layer.3.norm` behind `encoder.layer.` it is 3."""
    if not path.startswith(prefix):
        return None
    match = re.match(r"(\d+)(?=\.|$)", path[len(prefix) :])
    return int(match.group()) if match else None


def _differing(one: str, other: str) -> Iterator[str]:
    """What stands before the first number that two paths do not share, if only numbers differ."""
    for match in _NUMBER.finditer(one):
        prefix = one[: match.start()]
        mine, theirs = number_behind(one, prefix), number_behind(other, prefix)
        if mine is not None and theirs is not None and mine != theirs:
            yield prefix
            return


def _follow(numbers: Sequence[set[int]]) -> bool:
    """Whether each layer has numbers behind those of the layer before it; two for layers that alternate."""
    return all(max(one) < min(other) for one, other in pairwise(numbers))


# What they read


def _runs(lines: Lines, start: int, period: int, count: int) -> Iterator[Run]:
    """The maximal runs of equal layers among `count` of them."""
    if not all(line.repeatable for line in lines.lines[start : start + period]):
        return
    layer = 0
    while layer < count - 1:
        run = _longest(lines, start + layer * period, period, count - layer)
        if run.count > 1:
            yield run
        layer += max(run.count, 1)


def _longest(lines: Lines, start: int, period: int, most: int) -> Run:
    """The longest run that begins at a line."""
    run = Run(start, period, 1, [])
    first = _relations(lines, run, 0)
    while run.count < most and not _leaves(lines, run):
        relations = _relations(lines, run, run.count)
        if relations is None or first is None:
            break
        if run.count == 1:
            initial = _initial(first, relations)
            if initial is None or not _slots_fit(lines, run, 1):
                break
            run.relations, run.initial = relations, initial
        elif relations != run.relations or not _slots_fit(lines, run, run.count):
            break
        run.count += 1
    return run


def _relations(lines: Lines, run: Run, layer: int) -> list[list[Relation]] | None:
    """Where each operand of a layer comes from; None where a loop has no way to say it."""
    begin = run.place(layer, 0)
    found: list[list[Relation]] = []
    for line in lines.lines[begin : begin + run.period]:
        row: list[Relation] = []
        for reading in line.readings:
            relation = _relation(lines, run, begin, layer, reading)
            if relation is None:
                return None
            row.append(relation)
        found.append(row)
    return found


def _relation(lines: Lines, run: Run, begin: int, layer: int, reading: Reading) -> Relation | None:
    if isinstance(reading, LiteralAttr):
        return ("literal", None)
    name = reading.variable.data
    if name in lines.constants:
        return ("constant", None)
    place = lines.defined.get(name)
    if place is None or place < run.start:
        return ("before", name)
    result = lines.lines[place].writes.index(name)
    if begin <= place < begin + run.period:
        return ("within", (place - begin, result))
    if layer and begin - run.period <= place < begin:
        return ("carried", (place - begin + run.period, result))
    return None


def _initial(
    first: list[list[Relation]], second: list[list[Relation]]
) -> dict[tuple[int, int], Reading] | None:
    """What the first layer has instead of values of a layer before it; None where the two differ else."""
    found: dict[tuple[int, int], Reading] = {}
    for row, other in zip(first, second):
        for mine, theirs in zip(row, other):
            if mine == theirs:
                continue
            if mine[0] != "before" or theirs[0] != "carried":
                return None
            key = theirs[1]
            value = RefAttr.of(str(mine[1]))
            assert isinstance(key, tuple)
            if found.setdefault(key, value) != value:  # pyright: ignore[reportUnknownArgumentType, reportArgumentType]
                return None
    carried = {r[1] for row in second for r in row if r[0] == "carried"}
    return found if carried == found.keys() else None


def _leaves(lines: Lines, run: Run) -> bool:
    """Whether the last layer has values that others need than itself and the next one."""
    begin = run.place(run.count - 1, 0)
    after = begin + 2 * run.period
    for line in lines.lines[begin : begin + run.period]:
        for name in line.writes:
            if name in lines.escaping or any(r >= after for r in lines.readers.get(name, ())):
                return True
    return False


# Numbers in indices


def _slots_fit(lines: Lines, run: Run, layer: int) -> bool:
    """Whether indices of the layer go on as those of the layers before it: `K[0, ]`, `K[1, ]`."""
    for j in range(run.period):
        for k, reading in enumerate(lines.lines[run.place(layer, j)].readings):
            if not isinstance(reading, RefAttr) or not reading.indices.data:
                continue
            history = [lines.lines[run.place(i, j)].readings[k] for i in range(layer + 1)]
            if steps_of(history) is None:
                return False
    return True


def slot_sizes(reading: Reading) -> list[Size | None]:
    """The sizes in the indices of a use, in their order; None for what is left out."""
    found: list[Size | None] = []
    if isinstance(reading, RefAttr):
        for slot in reading.indices:
            match slot:
                case SizeAttr():
                    found.append(slot.data)
                case SliceAttr():
                    for bound in (slot.start, slot.stop):
                        found.append(bound.data if isinstance(bound, SizeAttr) else None)
                case _:
                    found.append(None)
    return found


def steps_of(history: list[Reading]) -> list[int] | None:
    """By how much each size in an index grows from layer to layer; None where that differs."""
    rows = [slot_sizes(reading) for reading in history]
    if any(len(row) != len(rows[0]) for row in rows):
        return None
    steps: list[int] = []
    for column in zip(*rows):
        if any(size is None for size in column):
            if any(size is not None for size in column):
                return None
            steps.append(0)
            continue
        sizes = [size for size in column if size is not None]
        differences = {(b - a).constant for a, b in pairwise(sizes)}
        if len(differences) != 1 or None in differences:
            return None
        step = differences.pop()
        assert step is not None
        steps.append(step)
    return steps
