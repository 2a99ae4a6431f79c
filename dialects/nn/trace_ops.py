"""The operation of `nn` by which a step says where it is: in traced and in watched builds."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from openinfer.dialects.late_syntax import op_definition
from openinfer.dialects.nn.checks import refuse

PHASES = ("enter", "exit", "node", "pass", "turn", "size", "begin", "end")


@op_definition
class StampOp(IRDLOperation):
    """The step comes to a point: `nn.stamp "begin" "matmul_0" [4, 5]`.

    phase   | name   | nodes             | value
    --------|--------|-------------------|----------------------------
    "enter" | block  |                   |               the step enters a block
    "exit"  | block  |                   |               … and leaves it
    "node"  |        | one               |               it comes to a node that kernels compute
    "pass"  |        | one               |               … to any other node
    "turn"  | index  | the loop          | its index     … to the next round of a loop
    "size"  | size   |                   | it            … to where the step fixes a size
    "begin" | kernel | that it computes  |               a kernel begins
    "end"   | kernel | that it computes  |               … and has ended

    `thread` is the number of the thread that comes here; None: there is one thread.
    """

    name = "nn.stamp"
    phase = prop_def(StringAttr)
    what = prop_def(StringAttr)
    nodes = prop_def(DenseArrayBase.constr(i64))
    value = opt_operand_def(IndexType())
    thread = opt_operand_def(IndexType())
    assembly_format = "$phase $what $nodes (`value` $value^)? (`thread` $thread^)? attr-dict"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        phase: str,
        what: str,
        nodes: Sequence[int] = (),
        value: SSAValue | None = None,
        thread: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[value, thread],
            properties={
                "phase": StringAttr(phase),
                "what": StringAttr(what),
                "nodes": DenseArrayBase.from_list(i64, list(nodes)),
            },
        )

    @property
    def numbers(self) -> tuple[int, ...]:
        """The nodes."""
        return tuple(self.nodes.get_values())

    def verify_(self) -> None:
        phase = self.phase.data
        if phase not in PHASES:
            refuse(self, f"phase {phase!r} is none of {', '.join(PHASES)}")
        if phase in ("node", "pass", "turn") and len(self.numbers) != 1:
            refuse(self, f"phase {phase!r} speaks of {len(self.numbers)} nodes, not of one")
        if (phase in ("turn", "size")) != (self.value is not None):
            refuse(self, "a value goes with the phases 'turn' and 'size', and with no other")
