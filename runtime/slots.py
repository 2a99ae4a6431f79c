"""The frame of a step: what each of the 8-byte words holds that its native code is called with."""

from __future__ import annotations

from enum import StrEnum

from openinfer.runtime.quick_dataclass import dataclass


class SlotKind(StrEnum):
    """What a slot holds; a buffer's is its address, unless the kind says otherwise."""

    INPUT = "input"
    HELD = "held"
    """A persistent value that does not grow."""
    EXTENT = "extent"
    """How long an axis of such a variable is, where that is known at run time."""
    WEIGHT = "weight"
    DEVICE_WEIGHT = "device_weight"
    """The same, where the kernels of the device read it."""
    DEVICE_HELD = "device_held"
    """A persistent value that does not grow, in the memory of the device."""
    ERRORS = "errors"
    DEVICE_ERRORS = "device_errors"
    """The record of errors that kernels of the device write; zeros when a step begins."""
    DEVICE_COUNTS = "device_counts"
    """Numbers of 32 bits that workgroups count each other with; zeros between two kernels."""
    SECTION_ERRORS = "section_errors"
    CELLS = "cells"
    """The extents of states, and the sizes that the step itself fixes."""
    STATE = "state"
    STATE_LENGTH = "state_length"
    DEVICE_STATE = "device_state"
    DEVICE_STATE_LENGTH = "device_state_length"
    COUNTS = "counts"
    """The extents of each matrix of a state that is a table of them."""
    COUNTS_LENGTH = "counts_length"
    MARKS = "marks"
    """Which entries of a state are there."""
    MARKS_LENGTH = "marks_length"
    LOG = "log"
    """What undoes the writes of a step that fails."""
    LOG_LENGTH = "log_length"
    DEVICE_LOG = "device_log"
    """What it says of states of the device: the bytes are there, at the same places."""
    DEVICE_LOG_LENGTH = "device_log_length"
    ARENA = "arena"
    ARENA_LENGTH = "arena_length"
    DEVICE_ARENA = "device_arena"
    DEVICE_ARENA_LENGTH = "device_arena_length"
    SIZE = "size"
    """The value of a run-time size."""
    POLL = "poll"
    TRACE = "trace"
    CALLS = "calls"
    """What the step asked of the device."""
    TEAM = "team"
    JOB = "job"
    """What the step hands out to the team."""
    TICKET = "ticket"
    THREAD = "thread"


OF_VARIABLE = frozenset(
    {SlotKind.INPUT, SlotKind.HELD, SlotKind.DEVICE_HELD, SlotKind.EXTENT},
)
OF_WEIGHT = frozenset({SlotKind.WEIGHT, SlotKind.DEVICE_WEIGHT})
OF_STATE = frozenset(
    {
        SlotKind.STATE,
        SlotKind.STATE_LENGTH,
        SlotKind.DEVICE_STATE,
        SlotKind.DEVICE_STATE_LENGTH,
        SlotKind.COUNTS,
        SlotKind.COUNTS_LENGTH,
        SlotKind.MARKS,
        SlotKind.MARKS_LENGTH,
    }
)
_NAMED = OF_VARIABLE | OF_STATE | {SlotKind.SIZE}
_NUMBERED = OF_WEIGHT | {SlotKind.EXTENT, SlotKind.JOB}

THERE: dict[SlotKind, SlotKind] = {
    SlotKind.HELD: SlotKind.DEVICE_HELD,
    SlotKind.STATE: SlotKind.DEVICE_STATE,
}
"""What a persistent variable is, to what it is in the memory of the device."""
ON_DEVICE = frozenset(
    {
        SlotKind.DEVICE_WEIGHT,
        SlotKind.DEVICE_ARENA,
        SlotKind.DEVICE_ERRORS,
        SlotKind.DEVICE_LOG,
        *THERE.values(),
    }
)
"""Buffers in the memory of the device."""

LENGTH_OF = {
    SlotKind.STATE: SlotKind.STATE_LENGTH,
    SlotKind.DEVICE_STATE: SlotKind.DEVICE_STATE_LENGTH,
    SlotKind.COUNTS: SlotKind.COUNTS_LENGTH,
    SlotKind.MARKS: SlotKind.MARKS_LENGTH,
    SlotKind.LOG: SlotKind.LOG_LENGTH,
    SlotKind.DEVICE_LOG: SlotKind.DEVICE_LOG_LENGTH,
    SlotKind.ARENA: SlotKind.ARENA_LENGTH,
    SlotKind.DEVICE_ARENA: SlotKind.DEVICE_ARENA_LENGTH,
}
"""The kind of the slot behind a buffer that only the runtime knows the length of."""


@dataclass(frozen=True)
class Slot:
    """One word of the frame. Raises ValueError for a kind without its name or number, or with others'."""

    kind: SlotKind
    name: str = ""
    """The variable or the run-time size; empty where one slot is of this kind."""
    number: int = -1
    """The axis of an extent, the number of a weight, the words of a job; else -1."""

    def __post_init__(self) -> None:
        for what, found, kinds in (
            ("name", self.name != "", _NAMED),
            ("number", self.number >= 0, _NUMBERED),
        ):
            if found != (self.kind in kinds):
                raise ValueError(f"a slot {self.kind} has {'a' if found else 'no'} {what}")
