"""What must hold of sizes: checked before a step runs where that can be, else by the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from xdsl.ir import SSAValue

from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
from openinfer.lowering.graph.scope import Problem, Scope
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.lowering.program.size_bounds import never_negative
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Rows = dict[tuple[str, str, str], int]
"""Nodes by what they need: low, high, kind."""


@dataclass(eq=False)
class Requirements:
    """Has the step, or who calls it, check what sizes must satisfy."""

    builder: StepBuilder
    sizes: DynamicSizes
    runtime: frozenset[str]
    """Sizes that inputs fix."""
    index: Callable[[Size, Scope, str], SSAValue]
    """The value of a size in a scope, with what it means where a number of it is too large."""
    ranges: Mapping[str, tuple[int, int | None]]
    """The least and the most that sizes of inputs may be, where the program bounds them."""
    rows: Rows = field(default_factory=dict[tuple[str, str, str], int])
    """What sizes of the inputs must satisfy before the step runs at all."""

    def at_most(self, low: Size, high: Size, kind: str = "bound", node: int | None = None) -> None:
        """The step may run only where low <= high; known violations were reported before.

        `kind` is a row of `runtime/devices/failures.py`. What every step needs, and first of all, is
        checked before it runs.
        """
        if (high - low).nonnegative:
            return
        if kind == "bound" and never_negative(high - low, self.ranges):
            return
        b = self.builder
        names = low.names | high.names
        if names <= self.runtime and b.runs_always:
            self.rows.setdefault((str(low), str(high), kind), b.node if node is None else node)
            return
        unknown = sorted(names - self.sizes.known)
        if unknown:
            raise Problem(
                "OI0712",
                f"a bound names {unknown[0]}, which has no value here",
                "run it with the simulator",
            )
        # Whatever is compared with what there is in memory cannot be too large in another way.
        left = self.index(low, Scope(), kind)
        right = self.index(high, Scope(), kind)
        holds = b.compare(left, "sle", right)
        shown = (right, left) if kind == "negative-size" else (left, right)
        b.fail_unless(holds, kind, *shown)

    def not_negative(self, dims: Sequence[Size]) -> None:
        """No dimension over sizes of the inputs is negative."""
        for dim in dims:
            if dim.names and dim.names <= self.runtime:
                self.at_most(Size.of(0), dim, "negative-size")

    def equal(self, a: Size, b: Size, scope: Scope) -> None:
        """The step fails where two sizes differ."""
        left, right = self.index(a, scope, "number"), self.index(b, scope, "number")
        self.builder.require(left, "eq", right, "shape")
