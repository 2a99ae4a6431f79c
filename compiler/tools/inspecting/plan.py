"""The arena plan of the compiled program, as data and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openinfer.compiler.api import compile
from openinfer.compiler.tools.progress import waiting
from openinfer.compiler.tools.running import check_available
from openinfer.runtime.plan import lower_bound, nominal_sizes
from openinfer.runtime.sizes import THREADS, Size

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program


def compiled_program(
    graph: Graph,
    package: Package | None,
    sizes: Mapping[str, int],
    device: str,
    *,
    fallback: bool = True,
) -> Program:
    """The compiled program, from the cache when it is there. Raises what `compile` raises."""
    check_available(device, "leave out --plan and --kernels")
    with waiting(f"compiling {graph.file}"):
        return compile(graph, package, device, sizes, fallback=fallback)


def plan_json(program: Program) -> dict[str, Any]:
    """Buffers by offset, the arena and its lower bound, weights; sizes that a step fixes are 128."""
    manifest = program.manifest
    nominal = nominal_sizes(manifest)
    known = {THREADS: 1, **nominal}
    buffers = [
        {
            "name": row.name,
            "offset": Size.of(row.offset).evaluate(known),
            "bytes": Size.of(row.size).evaluate(known),
            "size": row.size,
            "first": row.first,
            "last": row.last,
            "memory": row.memory,
        }
        for row in manifest.plan
    ]
    buffers.sort(key=lambda row: (row["offset"], row["first"]))
    return {
        "buffers": buffers,
        "arena": manifest.arena,
        "arena_bytes": Size.of(manifest.arena).evaluate(known),
        "lower_bound": lower_bound(manifest, known),
        "device_arena": manifest.device_arena,
        "device_arena_bytes": Size.of(manifest.device_arena).evaluate(known),
        "device_lower_bound": lower_bound(manifest, known, "device"),
        "runtime_sizes": {name: nominal[name] for name in manifest.runtime_sizes},
        "weight_bytes": sum(row.held for row in manifest.weights),
    }
