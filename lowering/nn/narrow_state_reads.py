"""A slice that holds one entry is read as that entry, which is a view of the state's own memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from openinfer.dialects import nn
from openinfer.lowering.rewriting import rewrite
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class NarrowStateReads(ModulePass):
    """Drops the axes of a read that were checked to have length 1.

    Before:
        %a = nn.state_read "K"[%l, %t] kept [0, 1] : tensor<?x?x8xf32, #nn.dims<K.1, K.2, 8>>
        %b = nn.cast_dims %a : … to tensor<1x?x8xf32, #nn.dims<1, K.2, 8>>
    After:
        %a = nn.state_read "K"[%l, %t] kept [1] : tensor<?x8xf32, #nn.dims<K.2, 8>>
        %b = nn.reshape(%a) : … -> tensor<1x?x8xf32, #nn.dims<1, K.2, 8>>

    Requires: level `nn`.
    Leaves: reads whose kept axes may be longer, that something else reads too, or with anything but
        sizes and checks between the read and what names its dimensions; the last kept axis.
    """

    name: ClassVar[str] = "narrow-state-reads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, _Narrow())


class _Narrow(RewritePattern):
    """cast_dims(read of l..n) = reshape(read of l) where n - l was checked to be 1"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.CastDimsOp, rewriter: PatternRewriter) -> None:
        read = op.source.owner
        if not isinstance(read, nn.StateReadOp) or not op.source.has_one_use():
            return
        if not _only_checks_between(read, op):
            return
        kept = list(read.kept.get_values())
        before, after = nn.dims_of(op.source), nn.dims_of(op.result)
        one = Size.of(1)
        dropped = [n for n in range(len(kept) - 1) if after[n] == one]
        if not dropped:
            return
        kind = read.value.type
        result = op.result.type
        assert isinstance(kind, TensorType)
        assert isinstance(result, TensorType)
        element = kind.element_type
        rest = [dim for n, dim in enumerate(before) if n not in dropped]
        # Not before the check: a slice that is empty may begin behind the last entry.
        narrow = nn.StateReadOp(
            read.state.data,
            list(read.offsets),
            [axis for n, axis in enumerate(kept) if n not in dropped],
            nn.tensor_type(element, rest),
        )
        named = [dim for n, dim in enumerate(after) if n not in dropped]
        new: list[Operation] = [narrow]
        value = narrow.value
        if named != rest:
            cast = nn.CastDimsOp(value, nn.tensor_type(element, named))
            new.append(cast)
            value = cast.result
        new.append(nn.ReshapeOp([value], [result]))
        rewriter.replace(op, new)
        rewriter.erase(read)


def _only_checks_between(first: Operation, last: Operation) -> bool:
    between = first.next_op
    while between is not None and between is not last:
        if not isinstance(between, nn.SizeOp | nn.RequireOp | nn.DefineSizeOp):
            if not between.name.startswith("arith."):
                return False
        between = between.next_op
    return between is last
