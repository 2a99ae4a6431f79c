"""Kernels that stand beside each other are one kernel, which is started once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.buffers.uses import DEVICE, VIEWS, machine_of, root_of
from openinfer.lowering.demands import Demands, demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.hints import absorb_hints
from openinfer.lowering.locations import absorb_nodes, give_location

_BETWEEN = (*VIEWS, memref.AllocOp, arith.ConstantOp, arith.AddiOp, arith.MuliOp, nn.SizeOp)
"""Ops that touch no memory, which kernels may be moved behind."""


@dataclass(frozen=True)
class JoinCalls(ModulePass):
    """Starts kernels together that follow each other and do not use what the others write.

    Before:
        func.call @matvec_0(%h, %wv, %v) : …
        %q = memref.alloc() …
        func.call @matvec_1(%h, %wq, %q) : …
    After:
        %q = memref.alloc() …
        func.call @matvecs_0(%h, %wv, %v, %wq, %q) : …

    The function has the ops of both; `lower-device-kernels` gives each of them workgroups of its own.

    Requires: buffers placed, and not planned.
    Leaves: kernels that the machine does not start together (`Demands.starts_together`), that a barrier, a
        hint, a transfer or a state stands between; watched builds.
    """

    name: ClassVar[str] = "join-calls"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is None or Facts.of(op).observed:
            return
        joined = _Joined(op, functions)
        blocks = [b for o in step.walk() for r in o.regions for b in r.blocks]
        for group in [group for block in blocks for group in _groups(block, joined)]:
            joined.join(group)
        called = {o.callee.string_value() for o in op.walk() if isinstance(o, CallOp)}
        for name in joined.taken - called:
            functions[name].detach()
            functions[name].erase()


class _Joined:
    """The functions that there are, and those of several kernels."""

    def __init__(self, module: ModuleOp, functions: dict[str, FuncOp]) -> None:
        self.module, self.functions = module, functions
        self.demands: Demands = demands_of(module)
        self.taken: set[str] = set()
        """Those whose kernels others have."""
        self._made: dict[tuple[object, ...], str] = {}

    def kernel_of(self, call: CallOp) -> nn.NNOp | None:
        """The op of the kernel that is called; None where that is no whole-tensor op, or must be apart."""
        function = self.functions[call.callee.string_value()]
        found = [op for op in function.body.ops if isinstance(op, nn.NNOp)]
        if len(found) != 1 or NO_FUSE in found[0].attributes:
            return None
        return found[0]

    def fits(self, calls: Sequence[CallOp]) -> bool:
        """Whether some calls are one, of which the last is new."""
        kernels = [kernel for call in calls if (kernel := self.kernel_of(call)) is not None]
        if len(kernels) < len(calls) or not self.demands.starts_together(kernels):
            return False
        *others, last = calls
        return not any(self._meet(one, last) or self._meet(last, one) for one in others)

    def _meet(self, one: CallOp, other: CallOp) -> bool:
        """Whether a kernel writes what another one uses."""
        used = {_memory(value) for value in _buffers(other.operands)}
        return any(_memory(value) in used for value in self._written(one))

    def _written(self, call: CallOp) -> list[SSAValue]:
        kernel = self.kernel_of(call)
        assert kernel is not None
        arguments = self.functions[call.callee.string_value()].body.block.args
        return [v for v, a in zip(call.operands, arguments) if a in kernel.written]

    def join(self, calls: Sequence[CallOp]) -> None:
        """One call, in the place of the last."""
        operands = list(dict.fromkeys(value for call in calls for value in call.operands))
        names = [call.callee.string_value() for call in calls]
        places = [[operands.index(value) for value in call.operands] for call in calls]
        key = tuple((name, *own) for name, own in zip(names, places))
        if key not in self._made:
            self._made[key] = self._function(names, places, operands)
        *_, last = calls
        block = last.parent_block()
        assert block is not None
        new = CallOp(self._made[key], operands, [])
        give_location(last.location, new)
        absorb_nodes(new, *calls)
        absorb_hints(new, *calls)
        block.insert_op_before(new, last)
        for call in calls:
            call.detach()
            call.erase()
        self.taken.update(names)

    def _function(
        self, names: Sequence[str], places: Sequence[Sequence[int]], operands: Sequence[SSAValue]
    ) -> str:
        """A function of several kernels."""
        block = Block(arg_types=[value.type for value in operands])
        for name, own in zip(names, places):
            source = self.functions[name].body.block
            mapping: dict[SSAValue, SSAValue] = {}
            for argument, place in zip(source.args, own):
                mapping[argument] = block.args[place]
                block.args[place].name_hint = argument.name_hint
            for op in source.ops:
                if not isinstance(op, ReturnOp):
                    block.add_op(copy := op.clone(mapping))
                    mapping.update(zip(op.results, copy.results))
        block.add_op(ReturnOp())
        base = names[0].rpartition("_")[0]
        count = sum(1 for known in self._made.values() if known.startswith(f"{base}s_"))
        name = f"{base}s_{count}"
        kernel = FuncOp(name, ([a.type for a in block.args], []), Region(block), "private")
        first = self.functions[names[0]]
        give_location(first.location, kernel)
        self.module.body.block.insert_op_before(kernel, first)
        return name


def _groups(block: Block, joined: _Joined) -> Iterator[list[CallOp]]:
    """Calls of a block that may be one, two of them or more."""
    group: list[CallOp] = []
    for op in [*block.ops, None]:
        if isinstance(op, _BETWEEN) or (isinstance(op, nn.StampOp) and op.phase.data == "node"):
            continue
        is_kernel = isinstance(op, CallOp) and machine_of(op) == DEVICE
        if group and isinstance(op, CallOp) and is_kernel and joined.fits([*group, op]):
            group.append(op)
            continue
        if len(group) > 1:
            yield group
        group = [op] if isinstance(op, CallOp) and is_kernel else []


def _buffers(values: Sequence[SSAValue]) -> list[SSAValue]:
    return [value for value in values if isinstance(value.type, MemRefType)]


def _memory(value: SSAValue) -> SSAValue | str:
    """What two buffers have in common that may overlap."""
    root = root_of(value)
    owner: Operation | Block = root.owner
    if isinstance(owner, nn.StateViewOp | nn.StatePlaceOp):
        return owner.state.data
    return root
