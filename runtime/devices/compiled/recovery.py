"""What happens when a step fails: everything is put back, and said, or the step gets what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from openinfer.runtime.devices.base import Team
from openinfer.runtime.devices.compiled.state import CompiledState
from openinfer.runtime.devices.failures import FAILURES, PLACE
from openinfer.runtime.errors import StepError
from openinfer.runtime.manifest import BEFORE, Manifest, NodeRow
from openinfer.runtime.size_bounds import check_bounds
from openinfer.runtime.sizes import Size

_INDICES = {"gather": 1, "scatter": 1, "gather_elements": 1, "scatter_elements": 1, "one_hot": 0}
"""Which operand holds the indices."""


class Asked(NamedTuple):
    """What a step needs more memory for: a row of `FAILURES`, its two numbers, and the node as a text."""

    kind: str
    a: int
    b: int
    where: str


class Recovery:
    """The error record of a context, and how the state gets over what it says."""

    def __init__(
        self,
        manifest: Manifest,
        state: CompiledState,
        team: Team | None,
    ) -> None:
        self.errors = np.zeros(4, np.int64)
        self.words: Any = memoryview(cast(Any, self.errors))
        """The same numbers; the first one is not 0 where the last step has failed."""
        self._manifest = manifest
        self._variables = {row.name: row for row in manifest.variables}
        self._state = state
        self._team = team
        self.moved = False
        """Whether memory of the state has moved as a step failed for good: slots are to be filled in anew."""

    def undo(self, kept: int | None = None) -> None:
        """Puts back what the failed step changed; once more from the start, where that was ended. `kept` is
        how much of the undo log the device has kept, where that has failed."""
        self._quiesce()
        self._state.undo(kept)
        self.errors[:] = 0

    def _quiesce(self) -> None:
        if self._team is not None:
            self._team.quiesce()

    def put_back(self, sizes: Mapping[str, int]) -> Asked:
        """Puts back what the failed step changed, and gives what it asks for; `sizes` are all its sizes.

        Raises the StepError of a step that asks for no memory.
        """
        node, a, b, kind = (int(v) for v in self.errors)
        self.moved = False
        self._quiesce()
        where, kind = divmod(kind, PLACE) if kind >= 0 else (0, kind)
        name = list(FAILURES)[kind]
        failure = FAILURES[name]
        # What it says of the state is true before that is put back.
        place = ""
        if name == "index" and where:
            place, where = self._position(node - 1, where - 1, sizes), 0
        message = "" if failure.memory else self._state.describe(name, a, b, place, where)
        self.undo()
        if failure.memory:
            return Asked(name, a, b, self.where(node - 1))
        self.moved = self._state.give_up()
        raise StepError(
            failure.code,
            f"{self.where(node - 1)}: {message}",
            hint=failure.hint.format(a=a, b=b) or None,
        )

    def provide(self, asked: Asked, lay_out: Callable[[], object]) -> None:
        """Gives a step the memory that it asked for; `lay_out` then makes its frame anew.

        Raises StepError where there is none, or no more than the limit.
        """
        state = self._state
        bounds = dict(state.dynamic_capacity)
        try:
            state.provide(asked.kind, asked.a, asked.b)
            lay_out()
        except StepError as error:
            state.give_up()
            said = f"{asked.where}: {error.message}"
            raise StepError(error.code, said, hint=error.hint) from error
        except (MemoryError, ValueError) as error:
            state.dynamic_capacity.update(bounds)
            state.give_up()
            said = f"{asked.where}: not enough memory"
            raise StepError("OI0604", said, hint="use smaller sizes") from error

    def check_requirements(self, sizes: Mapping[str, int]) -> None:
        """Raises StepError where run-time sizes are none that the program can run with."""
        check_bounds(self._manifest.bounds, sizes)
        for row in self._manifest.requires:
            low, high = Size.of(row.low), Size.of(row.high)
            if low.evaluate(sizes) <= high.evaluate(sizes):
                continue
            names = sorted(low.names | high.names)
            shown = ", ".join(f"{name} = {sizes[name]}" for name in names)
            what = f"bound {low} must not exceed {high}"
            if row.kind == "negative-size":
                what = f"dimension {high} must not be negative"
            elif row.kind == "parts":
                what = f"an axis of {low} must divide into equal parts"
            elif row.kind == "one":
                what = f"{high if low.constant == 1 else low} elements stand where one is needed"
            elif row.kind == "remainder":
                what = f"{low} divides with a remainder, {high} is not {low}"
            elif row.kind == "squeezed":
                what = FAILURES[row.kind].message
            raise StepError(
                FAILURES[row.kind].code,
                f"{self.where(row.node)}: {what}, but {shown}",
                hint="give inputs of another size",
            )

    def where(self, node: int) -> str:
        """A node as messages begin with it."""
        if node == BEFORE:
            return "before the first node"
        rows = {row.index: row for row in self._manifest.nodes}
        row = rows.get(node)
        return _node_text(row) if row is not None else f"node {node}"

    def _position(self, node: int, number: int, sizes: Mapping[str, int]) -> str:
        """Which one of the indices of a node it is, with its number where their shape is not known here;
        empty where the indices are no operand."""
        found = next((row for row in self._manifest.nodes if row.index == node), None)
        operand = _INDICES.get(found.op) if found is not None else None
        if found is None or operand is None or operand >= len(found.params):
            return ""
        row = self._variables.get(found.params[operand])
        dims = [Size.of(dim) for dim in row.dims] if row is not None else []
        if row is None or any(dim.names - sizes.keys() for dim in dims):
            return f" at position {number} of the indices in order"
        place: list[int] = []
        for dim in reversed(dims):
            number, index = divmod(number, max(dim.evaluate(sizes), 1))
            place.insert(0, index)
        return f" at position {place} of the indices"


def _node_text(row: NodeRow) -> str:
    place = f"{row.file}:{row.line}:{row.column}: " if row.file else ""
    return f"{place}node {row.index} in {row.around}: {row.text}"
