"""How long the lead of a team works alone after a step whose threads waited: `team.ll` by itself."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import llvmlite.binding as llvm
import pytest

from openinfer.lowering.cpu.team_text import STEP, team_text
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)
LOST, ALONE, PATIENCE, LENGTH, TALLIES = 49, 50, 51, 56, 60
FRAME, SOLO = 64, 80
LONG = 1 << 24
"""Cycles of a step above which one step is alone, not the time of many."""


@dataclass
class Lead:
    """The lead of a team without workers, whose steps last and lose what they are told to."""

    words: ctypes.Array[ctypes.c_int64]
    call: Callable[[], None]
    next: list[int]

    def step(self, lasts: int, lost: int = LONG // 2) -> int:
        """How many times what was lost the lead stays alone behind a step; both in cycles."""
        self.words[ALONE] = 0
        self.words[SOLO + 2] = 256  # runs that come before a trial alone
        self.next[:] = [lasts, lost]
        self.call()
        return self.words[PATIENCE]


_CYCLES = """
declare i64 @llvm.readcyclecounter()
define i64 @cycles() { %c = call i64 @llvm.readcyclecounter()  ret i64 %c }
"""


@pytest.fixture
def lead() -> Iterator[Lead]:
    text = team_text([STEP], ["openinfer_team_wait"])
    assert text is not None
    step_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    words = (ctypes.c_int64 * 256)()
    words[LENGTH], words[TALLIES] = 4, SOLO
    frame = (ctypes.c_int64 * 8)()
    following = [0, 0]

    def step(_: int) -> None:
        begin = cycles()
        while cycles() - begin < following[0]:
            pass
        words[LOST] = following[1]

    told = step_type(step)
    declarations = {**text.declarations}
    declarations.pop(STEP)
    lines = [
        *declarations.values(),
        f"declare void @{STEP}(ptr)",
        text.functions,
        _CYCLES.split("\n")[2],
    ]
    module = llvm.parse_assembly("\n".join([*lines, "attributes #0 = { nounwind }"]))
    llvm.add_symbol(STEP, ctypes.cast(told, ctypes.c_void_p).value)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        cycles = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address("cycles"))
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
            engine.get_function_address("openinfer_lead")
        )
        yield Lead(
            words, lambda: entry(ctypes.addressof(frame), ctypes.addressof(words)), following
        )


def test_many_short_steps(lead: Lead):
    lead.step(0, 0)
    assert [lead.step(0) for _ in range(7)] == [8, 16, 32, 64, 128, 256, 256]
    assert lead.words[ALONE] > 0


def test_one_long_step_at_first(lead: Lead):
    assert [lead.step(LONG, 1 << 28) for _ in range(4)] == [1, 2, 4, 8]


def test_a_step_without_waits_ends_it(lead: Lead):
    lead.step(LONG, 1 << 28)
    assert lead.step(LONG, 0) == 0
    assert lead.words[ALONE] == 0
    assert lead.step(LONG, 1 << 28) == 1


def test_what_takes_longer_alone_goes_on_sharing(lead: Lead):
    lead.words[SOLO] = 1 << 40
    assert lead.step(LONG, 1 << 28) == 0
