"""What the kernels of attention read and write, and what hides keys from queries."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import IndexType, MemRefType
from xdsl.ir import SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import AttentionOp
from openinfer.lowering.kernels.attention_sight import Heads, Hidden, Mask, Sight
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import wide_type
from openinfer.lowering.vulkan.schedules.forms import rows_of
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    groups_for,
    product,
    split,
)
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

    def each_block(
        self,
        queries: int,
        threads: int,
        emit: Callable[[tuple[SSAValue, SSAValue], SSAValue], None],
    ) -> Grid:
        """A kernel whose workgroups, of so many `threads`, take `queries` neighbours of a head each:
        `emit(place, first)` with the batch and the head, and the first query."""
        b, out = self.b, self.out.buffer

        def blocks(host: LoopBuilder, out: SSAValue) -> list[Index]:
            """Blocks of queries, batches, heads."""
            batches, heads, count = self.extents(host, out)
            return [host.ceil_div(count, queries), batches, heads]

        def one(number: SSAValue) -> None:
            extents = blocks(b, out)
            block, batch, head = split(b, number, extents)
            # The last queries see most of the keys, and begin first.
            block = b.sub(b.index(b.minus(extents[0], 1)), block)
            emit((batch, head), b.mul(block, queries))

        each_group(b, product(b, blocks(b, out)), one)

        def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
            return groups_for(host, product(host, blocks(host, value_of(out))))

        return Grid(groups, threads)

    def group_of(self, head: SSAValue) -> Index:
        """The head of keys and values that a head of queries uses."""
        b = self.b
        heads, groups = (b.dim(h.buffer, h.axis("h")) for h in (self.q, self.k))
        if isinstance(heads, int) and heads == groups:
            return head
        return b.floordiv(head, b.floordiv(heads, groups))
