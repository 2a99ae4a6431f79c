"""Places at which a step stops: a block, op, line or node, a condition, or several of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from openinfer.runtime.conditions import Condition
from openinfer.runtime.errors import InputError, Location
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.outline import FORMS, Outline
from openinfer.runtime.step_values import COUNTERS
from openinfer.runtime.suggest import did_you_mean
from openinfer.runtime.trace import Event


@dataclass(frozen=True)
class Breakpoint:
    """Where to stop: at nodes that fit everything that is given.

    A step stops after the node has run, so that its outputs can be looked at. With `block` alone
    (or with `when`), it stops where the block is entered. With `when` alone, it stops after the
    node that made the condition true.
    """

    block: str | None = None
    op: str | None = None
    """An op (`matmul`) or another form (`cache.read`, `loop`, `yield`)."""
    line: int | str | None = None
    """12, "12" or "decode.oi:12"; the file may be given by the end of its path."""
    node: int | None = None
    """Index of the node, as events show it."""
    when: str | None = None
    """An expression (`y.max > 3`) that must hold."""
    once: bool = False
    """Goes away after the first stop."""

    def __post_init__(self) -> None:
        """Raises InputError OI0561 or OI0563 when nothing, or something impossible, is asked."""
        if all(v is None for v in (self.block, self.op, self.line, self.node, self.when)):
            raise InputError(
                "OI0563",
                "a breakpoint needs a block, op, line, node or condition",
                hint='write Breakpoint(line=12) or Breakpoint(op="matmul", when="y.max > 3")',
            )
        if self.node is not None and self.node < 0:
            raise InputError("OI0563", f"node {self.node}: nodes are numbered from 0")
        _ = self.place, self.condition

    @cached_property
    def place(self) -> tuple[str, int] | None:
        """File (empty: any) and line of a line breakpoint."""
        if self.line is None:
            return None
        file, _, number = str(self.line).rpartition(":")
        if not number.strip().isdecimal() or int(number) < 1:
            raise InputError(
                "OI0563", f"{self.line!r} is no line", hint='write 12 or "decode.oi:12"'
            )
        return file, int(number)

    @cached_property
    def condition(self) -> Condition | None:
        """The condition, parsed."""
        return None if self.when is None else Condition(self.when)

    @property
    def is_anywhere(self) -> bool:
        """Whether it has a condition and no place."""
        return all(v is None for v in (self.block, self.op, self.line, self.node))

    @property
    def text(self) -> str:
        """`line 12 if y.max > 3`."""
        parts = [
            f"{name} {value}"
            for name, value in (
                ("block", self.block),
                ("op", self.op),
                ("line", self.line),
                ("node", self.node),
                ("if", self.when),
            )
            if value is not None
        ]
        return " ".join(parts)

    def at(
        self,
        event: Event,
        block: str,
        *,
        entered: Collection[str],
        places: Iterable[Location | None] = (),
    ) -> bool:
        """Whether the place fits to an event in a block.

        `entered` are the blocks of which the event is the first, `places` where these stand, or calls of
        them.
        """
        if self.block is not None:
            alone = self.op is None and self.line is None and self.node is None
            if self.block not in entered if alone else self.block != block:
                return False
        if self.op is not None and self.op not in (event.op_name, FORMS.get(event.kind)):
            return False
        if self.node is not None and event.node_index != self.node:
            return False
        if self.place is not None:
            if not any(_is_at(self.place, where) for where in (event.location, *places)):
                return False
        return event.kind != "BlockExit"

    def check(self, executor: BaseExecutor, outline: Outline | None) -> None:
        """Raises InputError OI0563 for a place, OI0562 for a name, that the program lacks."""
        if outline is not None:
            if self.block is not None:
                _known(self.block, outline.blocks, "block")
            if self.op is not None:
                _known(self.op, outline.forms, "op")
            if self.node is not None and self.node >= len(outline.nodes):
                last = len(outline.nodes) - 1
                raise InputError("OI0563", f"there is no node {self.node}; the last one is {last}")
            if self.place is not None:
                self._check_place(self.place, outline)
        if self.condition is not None:
            check_names(self.condition, executor, outline)

    def _check_place(self, place: tuple[str, int], outline: Outline) -> None:
        if any(_is_at(place, location) for location in outline.places()):
            return
        lines = outline.lines()
        near = sorted(lines, key=lambda line: abs(line - place[1]))[:3]
        shown = ", ".join(str(line) for line in sorted(near))
        raise InputError(
            "OI0563",
            f"nothing runs at line {self.line}",
            hint=f"lines nearby with nodes: {shown}" if near else None,
        )


def _is_at(place: tuple[str, int], location: Location | None) -> bool:
    file, line = place
    if location is None or location.line != line:
        return False
    return not file or location.file == file or location.file.endswith(f"/{file}")


def _known(name: str, names: Iterable[str], what: str) -> None:
    listed = sorted(names)
    if name in listed:
        return
    guess = did_you_mean(name, listed)
    raise InputError(
        "OI0563",
        f"the program has no {what} {name}",
        hint=f"{guess}{what}s: {', '.join(listed) or 'none'}",
    )


def check_names(condition: Condition, executor: BaseExecutor, outline: Outline | None) -> None:
    """Raises InputError OI0562 for a name that can have no value in this program."""
    loops: Iterable[str] = outline.loop_names if outline is not None else ()
    known = {*executor.variables, *executor.sizes, *loops, *COUNTERS}
    if outline is not None:
        known |= outline.call_names
    for info in executor.variables.values():
        known |= {name for dim in info.dims for name in dim.names}
    for name in sorted(condition.names - known):
        guess = did_you_mean(name, sorted(known))
        hint = f"{guess}variables: {', '.join(executor.variables) or 'none'}"
        raise InputError(
            "OI0562",
            f"expression `{condition.text}`: no variable, size or loop index is named {name}",
            hint=hint,
        )
