"""The pass `split-kernels`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from openinfer.lowering.cpu.threads.outlining import (
    captured,
    entry_of,
    inside_of,
    may_move,
    passed,
    rename,
)
from openinfer.lowering.kernels.units import put_in_unit, unit_of
from openinfer.lowering.locations import give_location
from openinfer.lowering.places import is_device_kernel

LARGE = 2000
"""Ops of a kernel from which on it is split."""
LEAST = 600
"""Ops of a branch from which on it becomes a function."""


@dataclass(frozen=True)
class SplitKernels(ModulePass):
    """
    Makes functions of the large branches of very large kernels, so that several processors compile them.

    Before:
        func.func private @attention_0(%x) { scf.if %many { … %x … } else { … %x … } }
    After:
        func.func private @attention_0(%x) {
          scf.if %many { func.call @attention_0_part0(%x) } else { func.call @attention_0_part1(%x) }
        }

    A branch that holds large branches is left where these are most of it.

    Requires: the loops of the program are shared (`share-loops`).
    Leaves: the level as it was.
    """

    name: ClassVar[str] = "split-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.body.ops):
            if not isinstance(function, FuncOp) or function.sym_visibility is None:
                continue
            if is_device_kernel(function):
                # A device takes a kernel whole.
                continue
            found: list[Region] = []
            size, _ = _branches(function.body, found)
            for number, branch in enumerate(found if size >= LARGE else ()):
                name = f"{function.sym_name.data}_part{number}"
                part = _outline(branch, name)
                put_in_unit(part, unit_of(function))
                op.body.block.add_op(part)


def _branches(region: Region, found: list[Region]) -> tuple[int, int]:
    """Finds the branches inside of a region that are to be functions; none is inside of another.

    Gives the ops of the region, and how many of them are in such branches.
    """
    size, covered = 0, 0
    for block in region.blocks:
        for op in block.ops:
            size += 1
            for inner in op.regions:
                mark = len(found)
                ops, moved = _branches(inner, found)
                size += ops
                if (
                    ops >= LEAST
                    and 3 * moved < 2 * ops
                    and isinstance(op, scf.IfOp)
                    and not op.results
                    and _may_move(inner.block)
                ):
                    found[mark:] = [inner]
                    moved = ops
                covered += moved
    return size, covered


def _may_move(block: Block) -> bool:
    ops = inside_of(block)
    return may_move(ops, captured(block, ops))


def _outline(branch: Region, name: str) -> FuncOp:
    """The function of a branch, which is left with a call of it."""
    block = branch.block
    ops = inside_of(block)
    used = captured(block, ops)
    entry, build = entry_of(used, [])
    rename(ops, used, entry, build)
    end = block.last_op
    assert isinstance(end, scf.YieldOp)
    moved = [op for op in block.ops if op is not end]
    place = moved[0].location
    for op in moved:
        op.detach()
        build.do(op)
    build.do(ReturnOp())
    call = CallOp(name, passed(used), [])
    give_location(place, call)
    block.insert_op_before(call, end)
    function = FuncOp(name, ([a.type for a in entry.args], []), Region(entry), "private")
    give_location(place, function)
    return function
