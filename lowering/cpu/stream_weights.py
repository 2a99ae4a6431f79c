"""Says of products whose weights no cache holds from one step to the next that they are streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.cpu.vector_width import bits_of
from openinfer.lowering.facts import Facts


@dataclass(frozen=True)
class StreamWeights(ModulePass):
    """Marks the products of a step whose laid-out weights fill more than half of the last cache.

    Before:
        %w = nn.member %W_packed[%l] : tensor<3x64x2048x32xf32> -> tensor<64x2048x32xf32>
        %y = nn.matmul(%x, %w) {layout = #nn.panels<32>} : …
    After:
        %y = nn.matmul(%x, %w) {layout = #nn.panels<32>, streamed} : …

    Those are 48 MiB, where the cache has 32. All weights of a step count together, each once, with
    all members of its family. Half, since others share the cache, and it holds what the step computes,
    too: where it has 32 MiB, weights of 12 MB stay in it, those of 20 MB do not (measured). Another part
    where `runtime/microarchitecture.py` says so.

    Requires: layouts chosen. The size of the cache is that of the target.
    Leaves: programs with fewer weights; products whose right operand is no constant.
    """

    name: ClassVar[str] = "stream-weights"

    cache: int = 0
    """Bytes of the last cache; 0 takes that of the target."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Facts.of(op).target
        room = (self.cache or target.last_cache) * target.measured.kept
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                found = dict(_constant_products(function))
                weights = dict.fromkeys(found.values())
                if 100 * sum(map(_nbytes, weights)) > room:
                    for product in found:
                        product.properties["streamed"] = UnitAttr()


def _constant_products(function: FuncOp) -> Iterator[tuple[nn.MatmulOp, BlockArgument]]:
    """Each product with a laid-out weight, and the argument that holds them."""
    for op in function.walk():
        if isinstance(op, nn.MatmulOp) and op.layout is not None:
            right = op.right
            root = right.owner.family if isinstance(right.owner, nn.MemberOp) else right
            if isinstance(root, BlockArgument) and root.block is function.body.block:
                yield op, root


def _nbytes(weights: SSAValue) -> int:
    """Bytes of all members; 0 of dimensions that only the run knows."""
    count = 1
    for dim in nn.dims_of(weights):
        count *= dim.constant or 0
    return count * bits_of(nn.element_of(weights)) // 8
