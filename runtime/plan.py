"""The memory plan as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openinfer.runtime.manifest import Manifest
from openinfer.runtime.sizes import THREADS, Size
from openinfer.runtime.tables import html_table

ALIGNMENT = 64
NOMINAL = 128


def nominal_sizes(manifest: Manifest) -> dict[str, int]:
    """128 for each size that a plan counts with: those of the inputs, where the program lets them be so
    much, and the bounds of dynamic ones."""
    bounds = [f"bound.{size}" for size in manifest.dynamic_sizes]
    found = dict.fromkeys([*manifest.runtime_sizes, *bounds], NOMINAL)
    for row in manifest.bounds:
        high = Size.of(row.high or NOMINAL).substitute(manifest.sizes).constant
        if row.size in found and high is not None:
            found[row.size] = min(found[row.size], high)
    return found


def lower_bound(manifest: Manifest, sizes: Mapping[str, int], memory: str = "host") -> int:
    """Bytes that no plan of a memory can go below: the largest sum of buffers that are alive together."""
    known = {THREADS: 1, **sizes}
    rows = [
        (row.first, row.last, _aligned(row.size, known))
        for row in manifest.plan
        if row.memory == memory
    ]
    moments = {first for first, _, _ in rows}
    return max(
        (sum(size for first, last, size in rows if first <= m <= last) for m in moments),
        default=0,
    )


def _aligned(text: str, sizes: Mapping[str, int]) -> int:
    return -(-Size.of(text).evaluate(sizes) // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, repr=False)
class Plan:
    """The memory plan of a step; `str(plan)` is its table."""

    manifest: Manifest
    sizes: Mapping[str, int]
    """Of a step; those that are missing count 128."""

    def __str__(self) -> str:
        return plan_table(self.manifest, self.sizes)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        known = {THREADS: 1, **nominal_sizes(self.manifest), **self.sizes}
        rows = sorted(
            (
                row.memory,
                Size.of(row.offset).evaluate(known),
                row.first,
                (row.name, Size.of(row.size).evaluate(known), row.last, row.size),
            )
            for row in self.manifest.plan
        )
        cells = [
            (name, memory, str(offset), str(count), str(first), str(last), size)
            for memory, offset, first, (name, count, last, size) in rows
        ]
        arena = str(self).rsplit("\n", 1)[-1]
        return html_table(_HEADINGS, cells, arena)


_HEADINGS = ("buffer", "memory", "offset", "bytes", "first", "last", "size")


def plan_table(manifest: Manifest, sizes: Mapping[str, int]) -> str:
    """For each memory: offset, bytes and lifetime of every buffer, the arena and its lower bound."""
    arenas = {"host": manifest.arena}
    if any(row.memory == "device" for row in manifest.plan):
        arenas["device"] = manifest.device_arena
    known = {THREADS: 1, **nominal_sizes(manifest), **sizes}
    tables = [_table(manifest, memory, arena, known) for memory, arena in arenas.items()]
    return "\n\n".join(tables)


def _table(manifest: Manifest, memory: str, text: str, known: Mapping[str, int]) -> str:
    rows = [
        (Size.of(r.offset).evaluate(known), Size.of(r.size).evaluate(known), r)
        for r in manifest.plan
        if r.memory == memory
    ]
    rows.sort(key=lambda row: (row[0], row[2].first))
    width = max([len(row.name) for _, _, row in rows] + [6])
    lines = [f"{'buffer':{width}} {'offset':>12} {'bytes':>12} {'first':>6} {'last':>6}  size"]
    for offset, size, row in rows:
        lines.append(
            f"{row.name:{width}} {offset:12} {size:12} {row.first:6} {row.last:6}  {row.size}"
        )
    arena = Size.of(text).evaluate(known)
    bound = lower_bound(manifest, known, memory)
    shown = ", ".join(f"{name} = {known[name]}" for name in manifest.runtime_sizes)
    if manifest.dynamic_sizes:
        shown += f"{', ' * bool(shown)}{NOMINAL} for what only the step knows"
    ratio = f", {arena / bound:.3f} times it" if bound else ""
    name = "arena" if memory == "host" else "arena of the device"
    lines.append(
        f"{name} {arena} bytes, lower bound {bound} bytes{ratio}" + (f" ({shown})" if shown else "")
    )
    return "\n".join(lines)
