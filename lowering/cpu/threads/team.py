"""What shared code asks of the team of threads that runs it (`lowering/cpu/team.ll`)."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, i1, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.runtime.microarchitecture import DEFAULT
from openinfer.runtime.quick_dataclass import dataclass

TEAM = MemRefType(i64, [64])
"""The counters that the threads of an executor share."""
WAIT, TAKE, DONE = "openinfer_team_wait", "openinfer_team_take", "openinfer_team_done"
CHUNKS, THREADS = 57, 58
"""The counters that hold how many chunks a loop has at most, and how many threads there are."""


@dataclass(frozen=True)
class Team:
    """The team's counters, and the thread that runs the code."""

    counters: SSAValue
    thread: SSAValue
    each: int = DEFAULT.chunks
    """Chunks of a loop for each thread, where there are several."""

    def wait(self, build: LoopBuilder, ticket: SSAValue) -> None:
        """Until all chunks below a ticket are done."""
        build.do(CallOp(WAIT, [self.counters, ticket, self.thread], []))

    def take(
        self, build: LoopBuilder, ticket: SSAValue, following: SSAValue, share: SSAValue
    ) -> SSAValue:
        """Whether this thread does a chunk of a share; `following` is the ticket behind the loop."""
        operands = [self.counters, ticket, following, share, self.thread]
        return build.insert(CallOp(TAKE, operands, [i1]))

    def done(self) -> CallOp:
        """What a thread says behind a chunk."""
        return CallOp(DONE, [self.counters, self.thread], [])

    def chunks(self, build: LoopBuilder) -> SSAValue:
        """How many chunks a loop has at most: what the runtime says, unless another number was measured
        of the processor."""
        usual = self.number(build, CHUNKS)
        if self.each == DEFAULT.chunks:
            return usual
        threads = self.number(build, THREADS)
        several = build.compare("sgt", threads, 1)
        return build.insert(arith.SelectOp(several, build.mul(threads, self.each), usual))

    def number(self, build: LoopBuilder, place: int) -> SSAValue:
        """One of the counters that never change."""
        value = build.insert(memref.LoadOp.get(self.counters, [build.index(place)]))
        return build.insert(arith.IndexCastOp(value, IndexType()))


def team_functions() -> list[Operation]:
    """Declarations of what the code calls."""
    return [
        FuncOp.external(WAIT, [TEAM, i64, IndexType()], []),
        FuncOp.external(TAKE, [TEAM, i64, i64, IndexType(), IndexType()], [i1]),
        FuncOp.external(DONE, [TEAM, IndexType()], []),
    ]
