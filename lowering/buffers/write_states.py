"""Values that a state takes are computed where it keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.buffers.uses import VIEWS, bytes_of, positions, root_of, users
from openinfer.lowering.demands import demands_of
from openinfer.lowering.interface import read_rows
from openinfer.lowering.locations import give_location
from openinfer.lowering.step_arguments import slot_of
from openinfer.runtime.manifest import StateRow
from openinfer.runtime.slots import Slot, SlotKind

_NUMBERS = (nn.SizeOp, nn.ExtentOp, nn.GrowOp, nn.RequireOp, nn.StatePlaceOp)
"""What says where in a state a value goes, and whether it may: it works with numbers of the host."""
_WORK = (memref.AllocOp, memref.CopyOp, linalg.GenericOp, linalg.FillOp, nn.StampOp, *VIEWS)
"""What such numbers may be computed before, as may be ops of `nn` that cannot fail."""


@dataclass(frozen=True)
class WriteStates(ModulePass):
    """Lets a kernel write a value into the state that takes it, instead of a copy behind the kernel.

    Before:
        linalg.generic … outs(%k) { … }
        %n = nn.grow "K"[] axis 1 to %need node 3
        nn.state_write "K"[%i, %n] kept [] node 3 = %k : memref<8xf32>
    After:
        %n = nn.grow "K"[] axis 1 to %need node 3
        %k = nn.state_place "K"[%i, %n] [] node 3 : memref<8xf32>
        linalg.generic … outs(%k) { … }

    What says where the value goes, and with it the copy into the undo log, moves up as far as it may: on a
    device that copy waits for nobody, and whoever writes there does not wait for it alone.

    Requires: buffers, copies elided, constants prepared; buffers not reused.
    Leaves: machines that keep no states (`Demands.holds_states`): kernels of the CPU want buffers that begin
        at a multiple of a cache line; values that somebody else reads, that an input or a constant is, that
        several ops write or none of this block; packed elements; parts of a state that do not lie together;
        what a size of the step, a loop or another check stands in front of; a state that somebody uses
        between the kernel and the write.
    """

    name: ClassVar[str] = "write-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not demands_of(op).holds_states:
            return
        axes = {row.name: len(row.axes) for row in read_rows(op, "states", StateRow)}
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                for write in [o for o in function.walk() if isinstance(o, nn.StateWriteOp)]:
                    _write_in_place(write, axes[write.state.data])


def _write_in_place(write: nn.StateWriteOp, axes: int) -> None:
    value, block = write.value, write.parent_block()
    made = root_of(value).owner
    if block is None or not isinstance(made, memref.AllocOp) or made.parent_block() is not block:
        return
    if not _lies_together(write, axes) or not _holds_all(value, made):
        return
    writer = _only_writer(made.memref, write, block)
    if writer is None or not _is_left_alone(write.state.data, writer, write):
        return
    first, numbers = _what_moves(write)
    order = positions(block)
    if order[writer] < order[first]:
        return
    for number in numbers:
        number.detach()
        block.insert_op_before(number, first)
    _replace(write, made, block, first)


def _lies_together(write: nn.StateWriteOp, axes: int) -> bool:
    """Whether a value is one entry, or entries one behind the other, without gaps."""
    kind = write.value.type
    assert isinstance(kind, MemRefType)
    return not is_packed(kind.element_type) and list(write.kept.get_values()) in ([], [axes - 1])


def _holds_all(value: SSAValue, made: memref.AllocOp) -> bool:
    """Whether a value is the whole of a buffer, of sizes that are known by name."""
    view = value
    while view is not made.memref:
        if not isinstance(view.owner, nn.ViewOp):
            return False
        view = view.owner.source
    sizes = [*made.dynamic_sizes]
    if isinstance(value.owner, nn.ViewOp):
        sizes += value.owner.sizes
    if not all(isinstance(size.owner, nn.SizeOp) for size in sizes):
        return False
    return bytes_of(value) == bytes_of(made.memref)


def _only_writer(buffer: SSAValue, write: nn.StateWriteOp, block: Block) -> Operation | None:
    """The kernel that fills a buffer, where nobody but it and the write of the state use the buffer."""
    found = list(dict.fromkeys(user for user in users(buffer) if user is not write))
    if len(found) != 1 or found[0].parent_block() is not block:
        return None
    (op,) = found
    if isinstance(op, nn.NNOp):
        written, read = op.written, [v for v in op.operands if v not in op.written]
    elif isinstance(op, linalg.GenericOp):
        written, read = tuple(op.outputs), list(op.inputs)
    else:
        return None
    filled = [root_of(v) for v in written].count(buffer) == 1
    return op if filled and buffer not in [root_of(v) for v in read] else None


def _is_left_alone(state: str, writer: Operation, write: nn.StateWriteOp) -> bool:
    """Whether nobody looks at a state from the kernel on until a value is written there."""
    op: Operation | None = writer
    while op is not None and op is not write:
        for inner in op.walk():
            if isinstance(inner, nn.StateWriteOp | nn.StateLoadOp | nn.StateResetOp):
                if inner.state.data == state:
                    return False
            if any(_is_of(operand, state) for operand in inner.operands):
                return False
        op = op.next_op
    return op is write


def _is_of(value: SSAValue, state: str) -> bool:
    if not isinstance(value.type, MemRefType):
        return False
    root = root_of(value).owner
    return isinstance(root, nn.StateViewOp | nn.StatePlaceOp) and root.state.data == state


def _what_moves(write: nn.StateWriteOp) -> tuple[Operation, list[Operation]]:
    """The first op that the place of a value may be said before, and what of the ops behind it says it."""
    numbers: list[Operation] = []
    stays: list[Operation] = []
    first: Operation = write
    op = write.prev_op
    while op is not None:
        if isinstance(op, _NUMBERS) or op.name.startswith("arith."):
            numbers.insert(0, op)
        elif isinstance(op, _WORK) or (isinstance(op, nn.NNOp) and not _may_fail(op)):
            stays.append(op)
            first = op
        else:
            break
        op = op.prev_op
    given = {result for staying in stays for result in staying.results}
    late = [n for n, o in enumerate(numbers) if any(v in given for v in o.operands)]
    if not late:
        return first, numbers
    # A number that is computed from what stays: what is in front of it stays, too.
    return _behind(numbers[late[-1]], write), numbers[late[-1] + 1 :]


def _behind(op: Operation, write: nn.StateWriteOp) -> Operation:
    """The first op behind another one that is no number."""
    following = op.next_op
    while following is not None and following is not write:
        if not isinstance(following, _NUMBERS) and not following.name.startswith("arith."):
            return following
        following = following.next_op
    return write


def _may_fail(op: nn.NNOp) -> bool:
    """Whether an op notes a failure, behind which nothing fails any more."""
    given = [v for v in op.operands if isinstance(v, BlockArgument)]
    slots = [slot_of(v) for v in given if isinstance(v.owner.parent_op(), FuncOp)]
    return Slot(SlotKind.ERRORS) in slots


def _replace(write: nn.StateWriteOp, made: memref.AllocOp, block: Block, first: Operation) -> None:
    """The place in the state for the buffer of a value."""
    value = write.value
    sizes = value.owner.sizes if isinstance(value.owner, nn.ViewOp) else made.dynamic_sizes
    node = write.node.value.data
    own = _again(sizes, block, first)
    place = nn.StatePlaceOp(write.state.data, list(write.offsets), own, node, value.type)
    view = nn.ViewOp(place.view, _again(made.dynamic_sizes, block, first), made.memref.type)
    give_location(write.location, place, view)
    block.insert_ops_before([place, view], first)
    place.view.name_hint, view.view.name_hint = value.name_hint, made.memref.name_hint
    made.memref.replace_all_uses_with(view.view)
    for op in (write, made):
        op.detach()
        op.erase()


def _again(sizes: Sequence[SSAValue], block: Block, first: Operation) -> list[SSAValue]:
    """The same sizes, asked for in front of an op."""
    found: list[SSAValue] = []
    for size in sizes:
        assert isinstance(size.owner, nn.SizeOp)
        copy = size.owner.clone()
        block.insert_op_before(copy, first)
        found.append(copy.results[0])
    return found
