"""What a step tells its host: indices out of bounds, and values that are watched."""

from __future__ import annotations

from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ArrayAttr, IndexType, ModuleOp, StringAttr, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.lowering.step_arguments import StepArguments
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.slots import SlotKind

OBSERVER = "openinfer_observe"
"""The host's function that a watched program calls: (node, output, address)."""
_LOWERED = frozenset({nn.CheckIndexOp, nn.ObserveOp, nn.TakeErrorsOp, nn.BarrierOp, nn.KeepOp})


@dataclass(frozen=True)
class LowerChecks(ModulePass):
    """An index out of bounds is recorded and replaced by 0; a watched value is shown to the host.

    Before:
        %j = nn.check_index %i below 6 node 3
    After:
        %ok = arith.cmpi ult, %i, %c6 : index
        scf.if %ok {} else { memref.store %node, %errors[%c0] … }
        %j = arith.select %ok, %i, %c0 : index

    What kernels of the device have noted (`nn.take_errors`) is copied into the step's own record.

    Requires: `plan-memory`.
    Leaves: no `nn` operation in `@step`.
    """

    name: ClassVar[str] = "lower-checks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        watched = False
        for function in list(op.body.ops):
            if not isinstance(function, FuncOp):
                continue
            for inner in operations_of(function):
                if type(inner) not in _LOWERED:
                    continue
                if isinstance(inner, nn.CheckIndexOp):
                    _check(function, inner)
                elif isinstance(inner, nn.ObserveOp):
                    _observe(op, inner)
                    watched = True
                elif isinstance(inner, nn.TakeErrorsOp):
                    _take(inner)
                elif isinstance(inner, nn.BarrierOp | nn.KeepOp):
                    Rewriter.erase_op(inner)
        declared = any(isinstance(f, FuncOp) and f.sym_name.data == OBSERVER for f in op.body.ops)
        if watched and not declared:
            index = IndexType()
            op.body.block.add_op(FuncOp.external(OBSERVER, [index, index, index], []))


def error_record(function: FuncOp) -> SSAValue:
    """The argument that takes the first failure of a step: node + 1, index, bound."""
    found = StepArguments(function).get(SlotKind.ERRORS)
    if found is None:
        raise ValueError(f"@{function.sym_name.data} has no error record")
    return found


def _check(function: FuncOp, op: nn.CheckIndexOp) -> None:
    build = LoopBuilder(InsertPoint.before(op))
    errors = error_record(function)
    bound = op.bound.value.data
    inside = build.compare("ult", op.index, bound)

    def record() -> None:
        empty = build.insert(arith.CmpiOp(build.load(errors, [0]), build.constant(0, i64), "eq"))

        def first() -> None:
            number = build.constant(1 + op.node.value.data, i64)
            build.store(number, errors, [0])
            build.store(build.insert(arith.IndexCastOp(op.index, i64)), errors, [1])
            build.store(build.constant(bound, i64), errors, [2])

        build.when(empty, first)

    build.when(build.insert(arith.XOrIOp(inside, build.constant(1, inside.type))), record)
    checked = build.insert(arith.SelectOp(inside, op.index, build.index(0)))
    Rewriter.replace_op(op, [], [checked])


def _take(op: nn.TakeErrorsOp) -> None:
    build = LoopBuilder(InsertPoint.before(op))
    first = build.load(op.source, [0])

    def take() -> None:
        for word in range(4):
            build.store(build.load(op.source, [word]), op.target, [word])

    none = build.constant(0, i64)
    build.when(build.insert(arith.CmpiOp(first, none, "ne")), take)
    Rewriter.erase_op(op)


def _observe(module: ModuleOp, op: nn.ObserveOp) -> None:
    names = nn.interface_of(module).get("watched")
    known = (
        [n.data for n in names if isinstance(n, StringAttr)] if isinstance(names, ArrayAttr) else []
    )
    if op.output.data not in known:
        known.append(op.output.data)
    nn.update_interface(module, {"watched": ArrayAttr([StringAttr(n) for n in known])})
    build = LoopBuilder(InsertPoint.before(op))
    address = build.insert(memref.ExtractAlignedPointerAsIndexOp.get(op.value))
    node = build.index(op.node.value.data)
    output = build.index(known.index(op.output.data))
    call: Operation = CallOp(OBSERVER, [node, output, address], [])
    give_location(op.location, call)
    Rewriter.replace_op(op, [call], [])
