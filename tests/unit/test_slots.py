"""The slots of a step's frame: every kind in the IR, in JSON, and as a program uses it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from both_executors import agree
from xdsl.parser import Parser

import openinfer as oi
from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import SlotAttr
from openinfer.runtime.rows import plain_data, row_of
from openinfer.runtime.slots import OF_WEIGHT, Slot, SlotKind

NUMBERED = OF_WEIGHT | {SlotKind.EXTENT, SlotKind.JOB}
WITH_LENGTH = "state device_state counts marks".split()
NAMED = {
    SlotKind(kind) for kind in ["input", "held", "device_held", "extent", "size", *WITH_LENGTH]
} | {SlotKind(f"{kind}_length") for kind in WITH_LENGTH}

NAMED_LIKE_KINDS = """
dynamic { weight: f32[N, 4]; }
persistent { log: f32[4]; cells: i32; state(l, errors): f32[4] @table; }
block entry {
  assign size: f32[N, 4];
  assign extent: f32[4];
  assign arena: f32[cells + 1, 4];
  op mul(weight, weight) >> size;
  op sum_axis(size, axes=[0], keepdims=false) >> extent;
  op add(log, extent) >> extent;
  cache.write extent >> log;
  cache.write log >> state[0, cells];
  cache.read state[0, 0..cells + 1] >> arena;
  cache.increment cells;
  return arena, log;
}
"""


@pytest.mark.parametrize("kind", SlotKind)
@pytest.mark.parametrize("name", ["x", "weight", "a b 1", 'say "x" > 2 \\', "bound.out.1"])
@pytest.mark.parametrize("number", [0, 12])
def test_every_slot_comes_back(kind: SlotKind, name: str, number: int) -> None:
    slot = Slot(kind, name if kind in NAMED else "", number if kind in NUMBERED else -1)
    attribute = SlotAttr(slot)
    assert Parser(make_context(), str(attribute)).parse_attribute() == attribute
    assert row_of(Slot, plain_data(slot)) == slot
    assert row_of(Slot, json.loads(json.dumps(plain_data(slot)))) == slot


@pytest.mark.parametrize("kind", SlotKind)
def test_a_kind_has_its_name_and_number_and_no_others(kind: SlotKind) -> None:
    with pytest.raises(
        ValueError, match=f"a slot {kind} has {'no' if kind in NAMED else 'a'} name"
    ):
        Slot(kind, "" if kind in NAMED else "x", 0 if kind in NUMBERED else -1)
    with pytest.raises(ValueError, match="number"):
        Slot(kind, "x" if kind in NAMED else "", -1 if kind in NUMBERED else 0)


def test_variables_may_be_called_as_kinds_are() -> None:
    steps = [{"weight": np.full((n, 4), n, np.float32)} for n in (2, 3, 3, 1)]
    agree(NAMED_LIKE_KINDS, [*steps, "reset", *steps])
    frame = oi.compile(NAMED_LIKE_KINDS).manifest.frame
    assert Slot(SlotKind.HELD, "log") in frame
    assert {Slot(SlotKind.INPUT, "weight"), Slot(SlotKind.EXTENT, "weight", 0)} < set(frame)
    assert {Slot(SlotKind.STATE, "state"), Slot(SlotKind.LOG)} < set(frame)
