"""The pass `partition-kernels`: who may lower which kernel is known before the first of them is lowered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DYNAMIC_INDEX, DictionaryAttr, MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from openinfer.dialects.nn import AttentionOp, ProductsOp, SizeOp
from openinfer.dialects.nn.layouts import BlocksAttr
from openinfer.lowering.kernels.units import UNITS, put_in_unit
from openinfer.lowering.operations import operations_of
from openinfer.runtime.blocks import BLOCKS

COSTS = {"nn.attention": 500, "nn.conv": 700, "nn.matmul": 550, "nn.products": 900}
"""Ops of the loops that an op becomes, about."""
OTHERS = 100
"""The same of all other ops on buffers."""
ATTENTION = 8000
"""The same of attention with a number of queries that only the run knows: one and many differ."""
BLOCKS_OF_32, SUPER_BLOCKS = 850, 2400
"""The same of a product with one weight in blocks of 32 elements, or of 256."""
WORTH = 2500
"""Ops of kernels from which on another process is worth its start."""
BESIDE = 3300
"""What the first process does besides kernels (the step and its text), in ops of a kernel."""


@dataclass(frozen=True)
class PartitionKernels(ModulePass):
    """
    Puts kernels into codegen units of about equal work, which several processes may lower.

    Before:
        func.func private @matmul_0(%x, %w, %y) { nn.matmul(%x, %w) outs(%y) … }
        func.func private @matmul_1(%x, %w, %y) { nn.matmul(%x, %w) outs(%y) … }

    After:
        func.func private @matmul_0(%x, %w, %y) attributes {openinfer.unit = 1 : i64} { … }
        func.func private @matmul_1(%x, %w, %y) attributes {openinfer.unit = 3 : i64} { … }

    What a kernel costs is estimated by its ops; the largest goes to the unit with the least to do. Small
    kernels of a unit share a module for LLVM, so that code is the same whoever makes it.

    Requires: `outline-kernels`.
    Leaves: unit 0, which has the step and what does not stand alone; programs that are not worth it.
    """

    name: ClassVar[str] = "partition-kernels"

    worth: int | None = None
    """Ops of kernels, about, from which on there are units; None takes `WORTH`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, FuncOp) and f.body.blocks]
        bodies = {function.sym_name.data for function in functions}
        costs = {f: _cost(f) for f in functions if _stands_alone(f, bodies)}
        if sum(costs.values()) < (WORTH if self.worth is None else self.worth):
            return
        # Of n processes, number p takes units p, p + n, …: two take every other unit, four one each.
        for number, half in enumerate(_divided(costs, 2, BESIDE)):
            chosen = {function: costs[function] for function in half}
            parts = _divided(chosen, UNITS // 2, 0 if number else BESIDE)
            for unit, part in enumerate(parts):
                for function in part:
                    put_in_unit(function, number + 2 * unit)


def _divided(costs: Mapping[FuncOp, int], parts: int, first: int) -> list[list[FuncOp]]:
    """Functions in parts of about equal cost, of which the first one has something to do already."""
    found: list[list[FuncOp]] = [[] for _ in range(parts)]
    loads = [first] + [0] * (parts - 1)
    for function in sorted(costs, key=lambda f: (-costs[f], f.sym_name.data)):
        least = loads.index(min(loads))
        found[least].append(function)
        loads[least] += costs[function]
    return found


def _cost(function: FuncOp) -> int:
    ops = [o for o in function.body.block.ops if not isinstance(o, ConstantOp | SizeOp | ReturnOp)]
    return sum(_cost_of(op) for op in ops)


def _cost_of(op: Operation) -> int:
    if isinstance(op, AttentionOp):
        queries = op.layouts.data[0].data.index("l")
        query = op.operands[0].type
        assert isinstance(query, MemRefType)
        if query.get_shape()[queries] == DYNAMIC_INDEX:
            return ATTENTION
    parts = op.parts.data if isinstance(op, ProductsOp) else [DictionaryAttr(op.properties)]
    layouts = [part.data.get("layout") for part in parts]
    blocks = [layout.block.data for layout in layouts if isinstance(layout, BlocksAttr)]
    if blocks:
        return sum(BLOCKS_OF_32 if BLOCKS[b].elements == 32 else SUPER_BLOCKS for b in blocks)
    return COSTS.get(op.name, OTHERS)


def _stands_alone(function: FuncOp, bodies: Collection[str]) -> bool:
    """Whether a function is a kernel that needs no other function of the program, and none of its data."""
    if function.sym_visibility is None or function.sym_visibility.data != "private":
        return False
    for op in operations_of(function):
        if isinstance(op, memref.GetGlobalOp):
            return False
        if isinstance(op, CallOp) and op.callee.string_value() in bodies:
            return False
    return True
