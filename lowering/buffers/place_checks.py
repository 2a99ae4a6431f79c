"""Which machine looks at the indices of a gather or scatter of the device: the one that has them.

Before:
    func.call @reduce_0(%x, %k)
    func.call @check_indices_0(%k, %errors) {openinfer.place = "host"}
    func.call @gather_0(%table, %k, %y)
After:
    func.call @reduce_0(%x, %k)
    func.call @check_indices_0_there(%k, %device_errors)
    func.call @gather_0(%table, %k, %y)
    …
    nn.take_errors %device_errors, %errors

Indices that the device computes, or keeps from step to step, are looked at there: the host waits for none of
them. What is wrong goes into a record of the device, which holds the first failure as the host's does. At the
end of the step, in front of what the host commits, it is moved to the host together with the results.

Indices that were looked at already, for the same bound, are not looked at again.

Where the host has checks of its own, one of the device runs only if the host has noted nothing yet. So what
the device has noted came before what the host has noted, whenever both did: it is the first in call order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import machine_of, memory_of, root_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.locations import give_location
from openinfer.lowering.places import DEVICE, PLACE
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import Slot, SlotKind

THERE = "_there"
"""What the names of checks of the device end with."""
Written = Callable[[Operation], Sequence[int]]
"""The operands that an op writes, by number."""
_Seen = dict[tuple[SSAValue, Size, bool], SSAValue]
"""Indices, bound, and whether they have no sign; their roots."""


def checks_of(step: FuncOp, functions: dict[str, FuncOp]) -> list[CallOp]:
    """The calls that look at indices."""
    return [
        op
        for op in step.walk()
        if isinstance(op, CallOp) and _check_in(functions[op.callee.string_value()]) is not None
    ]


def place_checks(
    step: FuncOp, functions: dict[str, FuncOp], checks: Sequence[CallOp], written: Written
) -> list[FuncOp]:
    """Moves checks to the device; the functions that are new.

    Requires: the buffers and states of device kernels marked, mirrors not made.
    """
    computed = _computed_there(step, written)
    moved = [call for call in checks if _is_there(root_of(call.operands[0]), computed)]
    if not moved:
        return []
    errors = StepArguments(step).of(SlotKind.ERRORS)
    (record,) = add_arguments(step, [(Slot(SlotKind.DEVICE_ERRORS), errors.type)])
    names = {call.callee.string_value() for call in moved}
    repeated = _Repeated(functions, moved, written).of(step.body.block, {})
    made: dict[str, FuncOp] = {}
    calls: list[CallOp] = []
    for call in moved:
        if call in repeated:
            Rewriter.erase_op(call)
            continue
        name = call.callee.string_value()
        if name not in made:
            made[name] = _function_there(functions[name])
        calls.append(_call_there(call, made[name].sym_name.data, record))
    if errors.uses or any(isinstance(op, nn.CheckIndexOp) for op in step.walk()):
        for call in calls:
            _if_none_noted(call, errors)
    _drop_unused(step, names)
    _take_at_end(step, record, errors)
    return list(made.values())


def _check_in(function: FuncOp) -> nn.CheckIndicesOp | None:
    """The check that a function is the kernel of."""
    if function.is_declaration:
        return None
    return next((op for op in function.body.ops if isinstance(op, nn.CheckIndicesOp)), None)


def _computed_there(step: FuncOp, written: Written) -> set[SSAValue]:
    """The buffers that the device writes; what is copied to its memory the host has elsewhere, if at all."""
    found: set[SSAValue] = set()
    for op in step.walk():
        if isinstance(op, memref.CopyOp) or machine_of(op) == DEVICE:
            found |= {
                root_of(op.operands[number])
                for number in written(op)
                if isinstance(op.operands[number].type, MemRefType)
            }
    return found


def _is_there(root: SSAValue, computed: set[SSAValue]) -> bool:
    """Whether the device has what a buffer holds, and the host would have to wait for it."""
    if memory_of(root) != DEVICE:
        return False
    # A persistent value, or a part of one, has it from an earlier step.
    return (
        isinstance(root, BlockArgument)
        or isinstance(root.owner, nn.StateViewOp)
        or root in computed
    )


class _Repeated:
    """Checks that say nothing: one in front of them has looked at the same indices, for the same bound."""

    def __init__(
        self, functions: dict[str, FuncOp], checks: Sequence[CallOp], written: Written
    ) -> None:
        self.functions, self.checks, self.written = functions, set(checks), written

    def of(self, block: Block, seen: _Seen) -> set[CallOp]:
        """Those of a block; `seen` are the indices that were looked at in front of it, with their roots."""
        found: set[CallOp] = set()
        for op in block.ops:
            if op.regions:
                # A loop may run several times, or not at all.
                for inner in op.walk():
                    self._forget(inner, seen)
                for region in op.regions:
                    for body in region.blocks:
                        found |= self.of(body, dict(seen))
            elif isinstance(op, CallOp) and op in self.checks:
                key = self._key(op)
                if key in seen:
                    found.add(op)
                seen[key] = root_of(op.operands[0])
            else:
                self._forget(op, seen)
        return found

    def _key(self, call: CallOp) -> tuple[SSAValue, Size, bool]:
        check = _check_in(self.functions[call.callee.string_value()])
        assert check is not None
        return call.operands[0], check.bound.data, check.unsigned_indices is not None

    def _forget(self, op: Operation, seen: _Seen) -> None:
        """What an op writes is looked at anew, and so is what a size bounds that it fixes."""
        changed = {
            root_of(op.operands[number])
            for number in self.written(op)
            if op not in self.checks and isinstance(op.operands[number].type, MemRefType)
        }
        size = op.size.data if isinstance(op, nn.DefineSizeOp) else None
        for key, root in list(seen.items()):
            if root in changed or size in key[1].names:
                del seen[key]


def _function_there(function: FuncOp) -> FuncOp:
    """The same check as a kernel of the device."""
    made = function.clone()
    made.properties["sym_name"] = StringAttr(function.sym_name.data + THERE)
    for old, new in zip(function.body.block.args, made.body.block.args):
        new.name_hint = old.name_hint
    check = _check_in(made)
    assert check is not None
    check.attributes.pop(PLACE, None)
    block = function.parent_block()
    assert block is not None
    block.insert_op_after(made, function)
    return made


def _call_there(call: CallOp, name: str, record: SSAValue) -> CallOp:
    indices, _ = call.operands
    there = CallOp(name, [indices, record], [])
    there.attributes.update({k: v for k, v in call.attributes.items() if k != PLACE})
    give_location(call.location, there)
    Rewriter.replace_op(call, [there], [])
    return there


def _if_none_noted(call: CallOp, errors: SSAValue) -> None:
    """Runs a check where the host has noted no failure in front of it."""
    with keep_location(call):
        b = LoopBuilder(InsertPoint.after(call))
        none = b.insert(arith.CmpiOp(b.load(errors, [0]), b.constant(0, i64), "eq"))
        call.detach()
        b.when(none, lambda: b.do(call))


def _take_at_end(step: FuncOp, record: SSAValue, errors: SSAValue) -> None:
    """Tells the host what is noted, behind all results and in front of what it commits."""
    ops = list(step.body.block.ops)
    end = next((op for op in ops if isinstance(op, nn.CommitOp)), ops[-1])
    take = nn.TakeErrorsOp(record, errors)
    give_location(end.location, take)
    LoopBuilder(InsertPoint.before(end)).do(take)


def _drop_unused(step: FuncOp, names: set[str]) -> None:
    """Erases functions that nobody calls any more."""
    module = step.parent_op()
    assert isinstance(module, ModuleOp)
    called = {op.callee.string_value() for op in module.walk() if isinstance(op, CallOp)}
    for function in list(module.body.ops):
        if isinstance(function, FuncOp) and function.sym_name.data in names - called:
            Rewriter.erase_op(function)
