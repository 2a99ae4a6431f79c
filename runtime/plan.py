"""The memory plan as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping

from openinfer.runtime.manifest import Manifest
from openinfer.runtime.sizes import THREADS, Size

ALIGNMENT = 64
NOMINAL = 128


def nominal_sizes(manifest: Manifest) -> dict[str, int]:
    """128 for each size that a plan counts with: those of the inputs, and the bounds of late ones."""
    bounds = [f"bound.{late}" for late in manifest.late]
    return dict.fromkeys([*manifest.runtime_sizes, *bounds], NOMINAL)


def lower_bound(manifest: Manifest, sizes: Mapping[str, int]) -> int:
    """Bytes that no plan can go below: the largest sum of buffers that are alive together."""
    known = {THREADS: 1, **sizes}
    rows = [(row.first, row.last, _aligned(row.size, known)) for row in manifest.plan]
    moments = {first for first, _, _ in rows}
    return max(
        (sum(size for first, last, size in rows if first <= m <= last) for m in moments),
        default=0,
    )


def _aligned(text: str, sizes: Mapping[str, int]) -> int:
    return -(-Size.of(text).evaluate(sizes) // ALIGNMENT) * ALIGNMENT


def plan_table(manifest: Manifest, sizes: Mapping[str, int]) -> str:
    """Offset, bytes and lifetime of every buffer, the arena and its lower bound."""
    known = {THREADS: 1, **nominal_sizes(manifest), **sizes}
    rows = [
        (Size.of(r.offset).evaluate(known), Size.of(r.size).evaluate(known), r)
        for r in manifest.plan
    ]
    rows.sort(key=lambda row: (row[0], row[2].first))
    width = max([len(r.name) for r in manifest.plan] + [6])
    lines = [f"{'buffer':{width}} {'offset':>12} {'bytes':>12} {'first':>6} {'last':>6}  size"]
    for offset, size, row in rows:
        lines.append(
            f"{row.name:{width}} {offset:12} {size:12} {row.first:6} {row.last:6}  {row.size}"
        )
    arena = Size.of(manifest.arena).evaluate(known)
    bound = lower_bound(manifest, known)
    shown = ", ".join(f"{name} = {known[name]}" for name in manifest.runtime_sizes)
    if manifest.late:
        shown += f"{', ' * bool(shown)}{NOMINAL} for what only the step knows"
    ratio = f", {arena / bound:.3f} times it" if bound else ""
    lines.append(
        f"arena {arena} bytes, lower bound {bound} bytes{ratio}" + (f" ({shown})" if shown else "")
    )
    return "\n".join(lines)
