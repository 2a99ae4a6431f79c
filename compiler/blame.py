"""Which op a failure speaks of: for messages that name a place instead of printing the module."""

from __future__ import annotations

from types import TracebackType

from xdsl.ir import Operation

from openinfer.lowering.locations import location_of
from openinfer.lowering.rewriting import op_summary


def describe(op: Operation) -> str:
    """`file:line:col: 'name' (operand types) -> (result types)`, without place if it has none."""
    where = location_of(op)
    return f"{where}: {op_summary(op)}" if where else op_summary(op)


def unverified_op(module: Operation) -> Operation | None:
    """The innermost op that does not verify by itself, None when all do."""
    for op in module.walk(region_first=True):
        try:
            op.verify(verify_nested_ops=False)
        except Exception:
            return op
    return None


def blamed_op(error: BaseException) -> Operation | None:
    """The op that the innermost frames of a failure worked on, None when they held none.

    xDSL's exceptions do not carry the op; the frames of its walker and verifier do.
    """
    found: Operation | None = None
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        names = trace.tb_frame.f_locals
        for name in ("op", "self"):
            candidate = names.get(name)
            if isinstance(candidate, Operation) and candidate.name != "builtin.module":
                found = candidate
                break
        trace = trace.tb_next
    return found
