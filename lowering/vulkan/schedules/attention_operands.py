"""What the kernels of attention read and write, and what hides keys from queries."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Mask, Sight
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import wide_type
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.wide import common_lanes


class Attended:
    """The operands of an attention, with its extents."""

    def __init__(self, b: LoopBuilder, op: AttentionOp) -> None:
        self.b, self.op = b, op
        layouts = [layout.data for layout in op.layouts]
        self.q, self.k, self.v = (Heads(v, n) for v, n in zip(op.inputs[:3], layouts))
        self.out = Heads(op.outs[0], layouts[3])
        assert isinstance(self.out.buffer.type, MemRefType)
        self.stored = self.out.buffer.type.element_type
        self.kind = wide_type(self.stored)
        self.depth = b.dim(self.q.buffer, 3)
        self.lanes = common_lanes(op, (self.q.buffer, self.k.buffer))
        self.columns = b.dim(self.v.buffer, 3)
        self.mask = Mask(b, op.mask, self.kind) if op.mask is not None else None
        self.sight = Sight(
            b,
            op.causal is not None,
            self._window(),
            rows_of(op, b.dim(self.q.buffer, self.q.axis("l"))),
            b.dim(self.k.buffer, self.k.axis("l")),
        )
        self.hidden = Hidden(b, self.mask, self.sight)

    @property
    def query_count(self) -> Index:
        return self.sight.query_count

    def _window(self) -> Index | None:
        """How many keys a query sees, when that is limited."""
        if self.op.window is not None:
            return self.op.window.value.data
        if self.op.reach is None:
            return None
        return self.b.insert(IndexCastOp(self.b.load(self.op.reach, []), IndexType()))

    def extents(self, b: LoopBuilder, out: SSAValue) -> tuple[Index, Index, Index]:
        """Batches, heads and queries of a result."""
        batches, heads, queries = (b.dim(out, self.out.axis(name)) for name in "bhl")
        return batches, heads, queries

    def group_of(self, head: SSAValue) -> Index:
        """The head of keys and values that a head of queries uses."""
        b = self.b
        heads, groups = (b.dim(h.buffer, h.axis("h")) for h in (self.q, self.k))
        if isinstance(heads, int) and heads == groups:
            return head
        return b.floordiv(head, b.floordiv(heads, groups))
