"""Size expressions become arithmetic on the run-time sizes that a function is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import byte_size
from openinfer.lowering.interface import as_attribute
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.units import KernelFacts, is_elsewhere, retype
from openinfer.lowering.operations import operations_of
from openinfer.lowering.state_layout import layout_of
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import LENGTH_OF, OF_VARIABLE, Slot, SlotKind


@dataclass(frozen=True)
class LowerSizes(ModulePass):
    """Gives each function the sizes that it needs as arguments and computes expressions of them.

    Before:
        %n = nn.size "B*L"
    After:
        func.func @step(…, %B: index, %L: index) …
          %n = arith.muli %B, %L : index

    Requires: `plan-memory`.
    Leaves: no `nn.size`; the order of everything that the caller of `@step` passes, as the entry
        `frame` of `nn.interface`.
    """

    name: ClassVar[str] = "lower-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if "frame" in nn.interface_of(op):
            return
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        sizes = {name: _sizes(f) for name, f in functions.items()}
        needs = {name: _names(found) for name, found in sizes.items()}
        elsewhere = {name: f for name, f in functions.items() if is_elsewhere(f)}
        for name, function in elsewhere.items():
            needs[name] = list(KernelFacts.of(function).sizes)
            retype(function, [IndexType()] * len(needs[name]))
        step = functions.get("step")
        if step is not None:
            for call in [o for o in operations_of(step) if type(o) is CallOp]:
                wanted = needs.get(call.callee.string_value(), [])
                if wanted:
                    given = [nn.SizeOp(name) for name in wanted]
                    operands = [*call.arguments, *(s.value for s in given)]
                    new = CallOp(call.callee, operands, [])
                    new.location = call.location
                    new.attributes.update(call.attributes)
                    Rewriter.replace_op(call, [*given, new], [])
            sizes["step"] = _sizes(step)
            needs["step"] = _names(sizes["step"])
        for name, function in functions.items():
            if not function.is_declaration:
                dynamic = layout_of(op).dynamic_sizes if name == "step" else ()
                _lower(function, sizes[name], needs[name], dynamic, step=name == "step")
        if step is not None:
            nn.update_interface(
                op, {"frame": as_attribute(_frame(step)), "weight_bytes": _weight_bytes(step)}
            )


def _sizes(function: FuncOp) -> list[nn.SizeOp]:
    return [op for op in operations_of(function) if type(op) is nn.SizeOp]


def _names(sizes: Sequence[nn.SizeOp]) -> list[str]:
    return sorted({name for op in sizes for name in op.size.data.names})


def _lower(
    function: FuncOp,
    sizes: Sequence[nn.SizeOp],
    names: list[str],
    dynamic: Sequence[str],
    *,
    step: bool,
) -> None:
    block = function.body.block
    names = [name for name in names if name not in dynamic]
    if step:
        wanted = [(Slot(SlotKind.SIZE, name), IndexType()) for name in names]
        arguments = add_arguments(function, wanted)
    else:
        arguments = [block.insert_arg(IndexType(), len(block.args)) for _ in names]
        for name, argument in zip(names, arguments):
            argument.name_hint = name
    values: dict[str, SSAValue] = dict(zip(names, arguments))
    settled = [o for o in sizes if o.size.data.names.isdisjoint(dynamic)]
    moving = [o for o in sizes if not o.size.data.names.isdisjoint(dynamic)]
    if settled:
        # Size ops go away: the anchor is the first op that stays.
        first = next(op for op in block.ops if not isinstance(op, nn.SizeOp))
        emit = _Arithmetic(LoopBuilder(InsertPoint.before(first)), values)
        for op in settled:
            Rewriter.replace_op(op, [], [emit.value(op.size.data)])
    cells = StepArguments(function).get(SlotKind.CELLS)
    for op in moving:
        assert cells is not None
        build = LoopBuilder(InsertPoint.before(op))
        here = dict(values)
        for name in sorted(op.size.data.names & set(dynamic)):
            word = build.load(cells, [dynamic.index(name)])
            here[name] = build.insert(arith.IndexCastOp(word, IndexType()))
        Rewriter.replace_op(op, [], [_Arithmetic(build, here).value(op.size.data)])
    function.update_function_type()


class _Arithmetic:
    """Emits each expression once, at the function's start."""

    def __init__(self, build: LoopBuilder, values: dict[str, SSAValue]) -> None:
        self.build = build
        self.values = values
        self.known: dict[Size, SSAValue] = {}

    def value(self, size: Size) -> SSAValue:
        if size not in self.known:
            self.known[size] = self._emit(size)
        return self.known[size]

    def _emit(self, size: Size) -> SSAValue:
        total: SSAValue | None = None
        for monomial, coefficient in size.terms:
            product: SSAValue | None = None
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self.build.mul(product, factor)
            if product is None:
                product = self.build.index(coefficient)
            elif coefficient != 1:
                product = self.build.mul(product, coefficient)
            total = product if total is None else self.build.add(total, product)
        return total if total is not None else self.build.index(0)

    def _atom(self, atom: tuple[object, ...]) -> SSAValue:
        kind, *operands = atom
        if kind == "name":
            return self.values[str(operands[0])]
        values = [self.value(s) for s in operands if isinstance(s, Size)]
        if kind == "floordiv":
            return self.build.insert(arith.FloorDivSIOp(values[0], values[1]))
        choose = arith.MaxSIOp if kind == "max" else arith.MinSIOp
        total = values[0]
        for value in values[1:]:
            total = self.build.insert(choose(total, value))
        return total


def _frame(step: FuncOp) -> list[Slot]:
    """What each 8-byte slot of the caller's frame holds, in order.

    A buffer takes a slot for its address and one for each of its run-time sizes.
    """
    found: list[Slot] = []
    for argument, slot in zip(step.body.block.args, nn.slots_of(step)):
        if slot is None:
            continue
        found.append(slot)
        if slot.kind in LENGTH_OF:
            found.append(Slot(LENGTH_OF[slot.kind], slot.name))
        elif slot.kind in OF_VARIABLE and isinstance(argument.type, MemRefType):
            for axis, extent in enumerate(argument.type.get_shape()):
                if extent == DYNAMIC_INDEX:
                    found.append(Slot(SlotKind.EXTENT, slot.name, axis))
    return found


def _weight_bytes(step: FuncOp) -> ArrayAttr[Attribute]:
    """Bytes of each weight argument."""
    found: list[Attribute] = []
    for argument, slot in zip(step.body.block.args, nn.slots_of(step)):
        if slot is not None and slot.kind == SlotKind.WEIGHT:
            kind = argument.type
            assert isinstance(kind, MemRefType)
            dims = [Size.of(extent) for extent in kind.get_shape()]
            found.append(IntegerAttr(byte_size(kind.element_type, dims).evaluate({}), i64))
    return ArrayAttr(found)
