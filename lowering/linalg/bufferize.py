"""Tensors become buffers: one new buffer for each result, copies wherever meaning needs them.

This pass is only correct, not thrifty: `elide-copies` takes away the copies that nobody needs and
`plan-memory` gives the buffers their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.dialects.extensions.memref import CopyOp
from openinfer.dialects.nn.elements import byte_size, whole_bytes
from openinfer.lowering.fusing import NO_FUSE
from openinfer.lowering.interface import input_count, strings
from openinfer.lowering.linalg.scratch import scratch_of
from openinfer.lowering.locations import give_location
from openinfer.lowering.memory.state_layout import layout_of
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Bufferize(ModulePass):
    """Gives every tensor a buffer; operations write into destinations.

    Before:
        %y = nn.softmax(%x) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
        func.return %y : tensor<4xf32>
    After:
        %y = memref.alloc() : memref<4xf32>
        nn.softmax(%x) outs(%y) {axis = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
        nn.publish %y "y" : memref<4xf32>

    Requires: level `linalg`.
    Leaves: no tensors. Families are bytes, members are views of them; what the step returns is
        published; `prepare` functions write their result into their last argument.
    """

    name: ClassVar[str] = "bufferize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outputs = strings(op, "outputs")
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and not function.is_declaration:
                _Bufferizer(op, function, outputs).run()


def buffer_type(value: SSAValue | Attribute) -> MemRefType[Attribute]:
    """The contiguous buffer that holds a tensor."""
    kind = value.type if isinstance(value, SSAValue) else value
    assert isinstance(kind, TensorType)
    return MemRefType(kind.element_type, kind.get_shape())


class _Bufferizer:
    def __init__(self, module: ModuleOp, function: FuncOp, outputs: list[str]) -> None:
        self.module = module
        self.function = function
        self.outputs = outputs
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.dims: dict[SSAValue, tuple[Size, ...]] = {}
        """Sizes of each buffer that stands for a tensor."""
        self.buffers_of_arguments: list[SSAValue] = []
        self.dead: list[Operation] = []
        self.current: Operation | None = None
        self.errors: SSAValue | None = None

    def run(self) -> None:
        block = self.function.body.block
        roles = self._arguments(block)
        self.block(block)
        for op in reversed(self.dead):
            op.detach()
            op.erase()
        for argument in [a for a in block.args if isinstance(a.type, TensorType)]:
            block.erase_arg(argument)
        kind = FunctionType.from_lists([a.type for a in block.args], [])
        self.function.properties["function_type"] = kind
        if roles:
            self.function.properties["arg_attrs"] = ArrayAttr(
                [DictionaryAttr({"openinfer.arg": StringAttr(role)}) for role in roles]
            )

    def _arguments(self, block: Block) -> list[str]:
        """A buffer argument for each tensor argument, then the error record of a step."""
        step = self.function.sym_name.data == "step"
        inputs = strings(self.module, "inputs")
        held = strings(self.module, "held")
        count = input_count(self.module)
        roles: list[str] = []
        originals = list(block.args)
        for number, old in enumerate(originals):
            assert isinstance(old.type, TensorType)
            members = [u.operation for u in old.uses if isinstance(u.operation, nn.MemberOp)]
            kind: MemRefType[Attribute] = buffer_type(old)
            if members:
                kind = MemRefType(IntegerType(8), [_family_bytes(members[0])])
            new = block.insert_arg(kind, len(block.args))
            new.name_hint = old.name_hint
            self.buffers[old] = new
            self.buffers_of_arguments.append(new)
            self.dims[new] = nn.dims_of(old)
            if step:
                roles.append(_role(number, inputs, held, count))
        if step:
            self.errors = block.insert_arg(MemRefType(i64, [4]), len(block.args))
            self.errors.name_hint = "errors"
            roles.append("errors")
            self._state_arguments(block, roles)
        return roles

    def _state_arguments(self, block: Block, roles: list[str]) -> None:
        """The memory of growing states, the cells, the undo log."""
        layout = layout_of(self.module)
        if not layout.needed:
            return
        wanted: list[tuple[str, MemRefType[Attribute]]] = [
            ("cells", MemRefType(i64, [layout.count]))
        ]
        octets = MemRefType(IntegerType(8), [DYNAMIC_INDEX])
        for name, place in layout.states.items():
            wanted.append((f"state {name}", octets))
            if place.counted:
                wanted.append((f"counts {name}", MemRefType(i64, [DYNAMIC_INDEX])))
            if place.marks:
                wanted.append((f"marks {name}", octets))
        if layout.states:
            wanted.append(("log", octets))
        for role, kind in wanted:
            argument = block.insert_arg(kind, len(block.args))
            argument.name_hint = role.replace(" ", "_")
            roles.append(role)

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            rule = _RULES.get(type(op))
            if rule is None and isinstance(op, nn.NNOp):
                rule = _destination
            if rule is None:
                continue
            self.current = op
            rule(self, op)

    # Emission

    def insert(self, op: Operation) -> Operation:
        """Inserts in front of the op that is being replaced."""
        assert self.current is not None
        give_location(self.current.location, op)
        block = self.current.parent_block()
        assert block is not None
        block.insert_op_before(op, self.current)
        return op

    def value(self, op: Operation) -> SSAValue:
        return self.insert(op).results[0]

    def index(self, number: int) -> SSAValue:
        return self.value(arith.ConstantOp(IntegerAttr(number, IndexType())))

    def size(self, size: Size) -> SSAValue:
        if size.constant is not None:
            return self.index(size.constant)
        return self.value(nn.SizeOp(size))

    def allocate(self, element: Attribute, dims: Sequence[Size], hint: str | None) -> SSAValue:
        """A new buffer."""
        dynamic = [self.value(nn.SizeOp(d)) for d in dims if d.constant is None]
        shape = [DYNAMIC_INDEX if d.constant is None else d.constant for d in dims]
        buffer = self.value(memref.AllocOp.get(element, None, shape, dynamic))
        buffer.name_hint = hint
        self.dims[buffer] = tuple(dims)
        return buffer

    def allocate_for(self, value: SSAValue) -> SSAValue:
        kind = buffer_type(value)
        return self.allocate(kind.element_type, nn.dims_of(value), value.name_hint)

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer of a tensor; other values stand for themselves."""
        if not isinstance(value.type, TensorType):
            return value
        if value not in self.buffers and isinstance(value.owner, tensor.EmptyOp):
            self.buffers[value] = self.allocate_for(value)
        return self.buffers[value]

    def define(self, old: SSAValue, buffer: SSAValue) -> None:
        self.buffers[old] = buffer
        self.dims[buffer] = nn.dims_of(old)

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        self.insert(CopyOp(source, target))

    def retire(self, op: Operation) -> None:
        self.dead.append(op)


def byte_size_of(value: SSAValue) -> int:
    """Bytes of a tensor whose sizes are all known."""
    kind = buffer_type(value)
    return byte_size(kind.element_type, nn.dims_of(value)).evaluate({})


def _family_bytes(op: nn.MemberOp) -> int:
    """Bytes of all members; each one begins with a byte of its own."""
    extents = nn.dims_of(op.family)[: len(op.indices)]
    return prod(d.evaluate({}) for d in extents) * byte_size_of(op.member)


def _role(number: int, inputs: Sequence[str], held: Sequence[str], count: int) -> str:
    """What an argument of the step is: inputs, then persistent values, then weights."""
    if number < len(inputs):
        return f"input {inputs[number]}"
    return f"held {held[number - len(inputs)]}" if number < count else f"weight {number - count}"


Rule = Callable[[_Bufferizer, Operation], None]


def _attributes(op: Operation) -> dict[str, Attribute]:
    """What is still to be obeyed: nothing is fused any more."""
    return {k: v for k, v in op.attributes.items() if k != NO_FUSE}


def _destination(b: _Bufferizer, op: Operation) -> None:
    """An `nn` op writes into new buffers, and gets its scratch."""
    assert isinstance(op, nn.NNOp)
    inputs = [b.buffer(v) for v in op.inputs]
    outs = [b.allocate_for(v) for v in op.result]
    for old, new in zip(op.result, outs):
        b.buffers[old] = new
    for element, dims in scratch_of(op):
        outs.append(b.allocate(element, dims, "scratch"))
    if isinstance(op, nn.GatherOp | nn.ScatterOp) and b.errors is not None:
        outs.append(b.errors)
    properties = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"}
    body: Region | None = None
    if op.body:
        body = op.body[0]
        op.detach_region(body)
    new_op = type(op)(inputs, [], outs, properties, body)
    new_op.attributes.update(_attributes(op))
    b.insert(new_op)
    b.retire(op)


def _generic(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, linalg.GenericOp)
    inputs = [b.buffer(v) for v in op.inputs]
    outs = [_initial(b, v) for v in op.outputs]
    region = op.body
    op.detach_region(region)
    new = linalg.GenericOp(
        inputs, outs, region, op.indexing_maps, op.iterator_types, [], op.doc, op.library_call
    )
    new.attributes.update(_attributes(op))
    b.insert(new)
    for old, buffer in zip(op.res, outs):
        b.define(old, buffer)
    b.retire(op)


def _initial(b: _Bufferizer, value: SSAValue) -> SSAValue:
    """The destination that starts as `value`: its own buffer when nobody else reads it."""
    if isinstance(value.owner, tensor.EmptyOp):
        return b.allocate_for(value)
    source = b.buffer(value)
    owner, user = value.owner, b.current
    assert user is not None
    # In another block, a loop say, the next round would start from what this one leaves.
    if value.has_one_use() and isinstance(owner, linalg.FillOp | linalg.GenericOp):
        if owner.parent_block() is user.parent_block():
            return source
    target = b.allocate_for(value)
    b.copy(source, target)
    return target


def _fill(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, linalg.FillOp)
    target = b.allocate_for(op.res[0])
    b.insert(linalg.FillOp(list(op.inputs), [target], []))
    b.define(op.res[0], target)
    b.retire(op)


def _reshape(b: _Bufferizer, op: Operation) -> None:
    """The same bytes seen with another shape: flattened, then cut anew."""
    assert isinstance(op, nn.ReshapeOp)
    source = b.buffer(op.inputs[0])
    target = buffer_type(op.result[0])
    sizes = nn.dims_of(op.result[0])
    view = b.value(nn.ViewOp(source, _dynamic(b, sizes), target))
    view.name_hint = op.result[0].name_hint
    b.define(op.result[0], view)
    b.retire(op)


def _dynamic(b: _Bufferizer, dims: Sequence[Size]) -> list[SSAValue]:
    return [b.value(nn.SizeOp(d)) for d in dims if d.constant is None]


def _member(b: _Bufferizer, op: Operation) -> None:
    """A member starts at its number times the size of a member."""
    assert isinstance(op, nn.MemberOp)
    family = b.buffer(op.family)
    extents = [d.evaluate({}) for d in nn.dims_of(op.family)][: len(op.indices)]
    number: SSAValue | None = None
    for index, extent in zip(op.indices, extents):
        if number is None:
            number = index
        else:
            scaled = b.value(arith.MuliOp(number, b.index(extent)))
            number = b.value(arith.AddiOp(scaled, index))
    assert number is not None
    offset = b.value(arith.MuliOp(number, b.index(byte_size_of(op.member))))
    view = b.value(memref.ViewOp(family, offset, [], buffer_type(op.member)))
    view.name_hint = op.member.name_hint
    b.define(op.member, view)
    b.retire(op)


def _extract(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, tensor.ExtractOp)
    loaded = b.value(memref.LoadOp.get(b.buffer(op.tensor), list(op.indices)))
    op.result.replace_all_uses_with(loaded)
    b.retire(op)


def _observe(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.ObserveOp)
    b.insert(nn.ObserveOp(b.buffer(op.value), op.node.value.data, op.output.data))
    b.retire(op)


def _keep_value(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.KeepOp)
    b.insert(nn.KeepOp(b.buffer(op.value)))
    b.retire(op)


def _loop(b: _Bufferizer, op: Operation) -> None:
    """Carried tensors live in buffers made before the loop; each round ends by filling them."""
    assert isinstance(op, scf.ForOp)
    carried: list[SSAValue] = []
    for initial, argument in zip(op.iter_args, op.body.block.args[1:]):
        target = b.allocate_for(argument)
        _hand_on(b, initial, b.buffer(initial), target)
        carried.append(target)
        b.define(argument, target)
    body = op.body.block
    b.block(body)
    b.current = body.last_op
    assert isinstance(b.current, scf.YieldOp)
    _assign_together(b, list(b.current.operands), carried)
    Rewriter.replace_op(b.current, [scf.YieldOp()], [])
    b.current = op
    for result, buffer in zip(op.res, carried):
        b.define(result, buffer)
    region = op.body
    op.detach_region(region)
    new = scf.ForOp(op.lb, op.ub, op.step, [], region)
    b.insert(new)
    # Erased last: the ops inside that use the old arguments are retired, not gone yet.
    for argument in list(body.args[1:]):
        placeholder = tensor.EmptyOp([], TensorType(i64, []))
        b.insert(placeholder)
        argument.replace_all_uses_with(placeholder.tensor)
        b.dead.insert(0, placeholder)
        body.erase_arg(argument)
    b.retire(op)


def _assign_together(
    b: _Bufferizer, values: Sequence[SSAValue], targets: Sequence[SSAValue]
) -> None:
    """All targets take their values at once: a value that lies in another target is saved."""
    saved: list[SSAValue] = []
    for value, own in zip(values, targets):
        source = b.buffer(value)
        root = root_of(source)
        if root in targets and root is not own:
            element = source.type
            assert isinstance(element, MemRefType)
            copy = b.allocate(element.element_type, b.dims[source], "saved")
            b.copy(source, copy)
            saved.append(copy)
        else:
            saved.append(source)
    for value, source, target in zip(values, saved, targets):
        # A view of the target holds the value already.
        if root_of(source) is not target:
            _hand_on(b, value, source, target)


def _hand_on(b: _Bufferizer, value: SSAValue, source: SSAValue, target: SSAValue) -> None:
    """Copies a value to where it is handed on; a loosened one keeps its own shape there."""
    if isinstance(value.owner, nn.LoosenOp):
        kind = source.type
        assert isinstance(kind, MemRefType)
        target = b.value(nn.ViewOp(target, _dynamic(b, b.dims[source]), kind))
    b.copy(source, target)


def root_of(buffer: SSAValue) -> SSAValue:
    """The buffer that a chain of views looks at."""
    while isinstance(buffer.owner, nn.ViewOp | memref.ViewOp):
        buffer = buffer.owner.source
    return buffer


def _branch(b: _Bufferizer, op: Operation) -> None:
    """Both sides write into buffers made before the branch."""
    assert isinstance(op, scf.IfOp)
    targets = [b.allocate_for(result) for result in op.output]
    regions: list[Region] = []
    for region in (op.true_region, op.false_region):
        if region.blocks:
            block = region.block
            b.block(block)
            b.current = block.last_op
            if isinstance(b.current, scf.YieldOp):
                for value, target in zip(b.current.operands, targets):
                    _hand_on(b, value, b.buffer(value), target)
                Rewriter.replace_op(b.current, [scf.YieldOp()], [])
            b.current = op
        regions.append(region)
    for result, target in zip(op.output, targets):
        b.define(result, target)
    condition = op.cond
    for region in regions:
        op.detach_region(region)
    b.insert(scf.IfOp(condition, [], regions[0], regions[1]))
    b.retire(op)


_STATE_CHANGES = (nn.GrowOp, nn.SetExtentOp, nn.StateWriteOp, nn.StateResetOp)


def _sections(b: _Bufferizer, op: Operation) -> None:
    """Each section fills buffers made before all of them."""
    assert isinstance(op, nn.SectionsOp)
    targets = [b.allocate_for(result) for result in op.values]
    rest = list(targets)
    for region in op.bodies:
        b.block(region.block)
        end = b.current = region.block.last_op
        assert isinstance(end, nn.EndSectionOp)
        for value in end.operands:
            b.copy(b.buffer(value), rest.pop(0))
        Rewriter.replace_op(end, [nn.EndSectionOp()], [])
    b.current = op
    for result, target in zip(op.values, targets):
        b.define(result, target)
    regions = list(op.bodies)
    for region in regions:
        op.detach_region(region)
    made = nn.SectionsOp([n.data for n in op.names], regions, [])
    if any(isinstance(o, _STATE_CHANGES) for o in made.walk()):
        # They share the undo log, and extents may grow by reading.
        made.attributes["openinfer.serial"] = UnitAttr()
    b.insert(made)
    b.retire(op)


def _return(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, ReturnOp)
    step = b.function.sym_name.data == "step"
    published: set[SSAValue] = set()
    for number, value in enumerate(op.arguments):
        source = b.buffer(value)
        root = root_of(source)
        if not step:
            block = b.function.body.block
            target = block.insert_arg(buffer_type(value), len(block.args))
            target.name_hint = "result"
            b.copy(source, target)
            continue
        if not isinstance(root.owner, memref.AllocOp) or root in published:
            # An input, a weight or another result's buffer: the caller gets a copy of its own.
            copy = b.allocate_for(value)
            b.copy(source, copy)
            source = root = copy
        published.add(root)
        b.insert(nn.PublishOp(source, b.outputs[number]))
    if step:
        _keep(b)
    b.insert(ReturnOp())
    b.retire(op)


def _keep(b: _Bufferizer) -> None:
    """Persistent values take what was committed, all at once and after all results."""
    commits = _commits(b)
    held = strings(b.module, "held")
    inputs = len(strings(b.module, "inputs"))
    own = {name: b.buffers_of_arguments[inputs + i] for i, name in enumerate(held)}
    saved: list[tuple[SSAValue, str]] = []
    for source, name in commits:
        root = root_of(source)
        if root in own.values() and root is not own[name]:
            kind = source.type
            assert isinstance(kind, MemRefType)
            copy = b.allocate(kind.element_type, b.dims[source], "saved")
            b.copy(source, copy)
            source = copy
        saved.append((source, name))
    for source, name in saved:
        b.insert(nn.CommitOp(source, name))


def _commit(b: _Bufferizer, op: Operation) -> None:
    """Collected until the end: what is committed may be read until then."""
    b.retire(op)


def _cast_dims(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.CastDimsOp)
    source = b.buffer(op.source)
    target = buffer_type(op.result)
    if source.type == target:
        b.buffers[op.result] = source
    else:
        view = b.value(nn.ViewOp(source, _dynamic(b, nn.dims_of(op.result)), target))
        view.name_hint = op.result.name_hint
        b.buffers[op.result] = view
        b.dims[view] = nn.dims_of(op.result)
    b.retire(op)


def _loosen(b: _Bufferizer, op: Operation) -> None:
    """The buffer as it is: who takes the value over copies it."""
    assert isinstance(op, nn.LoosenOp)
    b.buffers[op.result] = b.buffer(op.source)
    b.retire(op)


def _settle(b: _Bufferizer, op: Operation) -> None:
    """A view with the sizes that hold now."""
    assert isinstance(op, nn.SettleOp)
    sizes = nn.dims_of(op.result)
    view = b.value(nn.ViewOp(b.buffer(op.source), _dynamic(b, sizes), buffer_type(op.result)))
    view.name_hint = op.result.name_hint
    b.define(op.result, view)
    b.retire(op)


def _state_read(b: _Bufferizer, op: Operation) -> None:
    """A view of the state's own memory where the part lies together and stays as it is; a copy else."""
    assert isinstance(op, nn.StateReadOp)
    kept = list(op.kept.get_values())
    offsets = list(op.offsets)
    dims = nn.dims_of(op.value)
    element = buffer_type(op.value).element_type
    together = not kept or (kept == [len(offsets) - 1] and whole_bytes(element, dims[1:]))
    if together and not _changes_meanwhile(op):
        kind = buffer_type(op.value)
        view = b.value(nn.StateViewOp(op.state.data, offsets, _dynamic(b, dims), kind))
        view.name_hint = op.value.name_hint
        b.define(op.value, view)
    else:
        target = b.allocate_for(op.value)
        b.insert(nn.StateLoadOp(op.state.data, offsets, kept, target))
        b.define(op.value, target)
    b.retire(op)


_SAME_BUFFER = (nn.CastDimsOp, nn.LoosenOp, nn.SettleOp, nn.ReshapeOp)
"""What gives another type to a buffer."""


def _changes_meanwhile(op: nn.StateReadOp) -> bool:
    """Whether a state may be written between a read and the last use of what was read."""
    block = op.parent_block()
    assert block is not None
    order = {inner: i for i, inner in enumerate(block.ops)}
    last = -1
    pending: list[SSAValue] = [op.value]
    while pending:
        for use in pending.pop().uses:
            holder: Operation | None = use.operation
            while holder is not None and holder.parent_block() is not block:
                holder = holder.parent_op()
            if holder is None:
                return True
            last = max(last, order[holder])
            # The same buffer under another type, or handed on as what a body gives.
            if isinstance(use.operation, _SAME_BUFFER):
                pending.append(use.operation.results[0])
    for holder in list(block.ops)[order[op] + 1 : last + 1]:
        for inner in holder.walk():
            if isinstance(inner, nn.StateWriteOp | nn.StateResetOp):
                if inner.state.data == op.state.data:
                    return True
    return False


def _state_write(b: _Bufferizer, op: Operation) -> None:
    assert isinstance(op, nn.StateWriteOp)
    kept = list(op.kept.get_values())
    node = op.node.value.data
    b.insert(nn.StateWriteOp(b.buffer(op.value), op.state.data, list(op.offsets), kept, node))
    b.retire(op)


def _commits(b: _Bufferizer) -> list[tuple[SSAValue, str]]:
    return [
        (b.buffer(op.value), op.state.data)
        for op in b.function.walk()
        if isinstance(op, nn.CommitOp) and isinstance(op.value.type, TensorType)
    ]


def _empty(b: _Bufferizer, op: Operation) -> None:
    b.retire(op)


_RULES: dict[type[Operation], Rule] = {
    linalg.GenericOp: _generic,
    linalg.FillOp: _fill,
    nn.ReshapeOp: _reshape,
    nn.MemberOp: _member,
    nn.ObserveOp: _observe,
    nn.KeepOp: _keep_value,
    nn.CommitOp: _commit,
    nn.CastDimsOp: _cast_dims,
    nn.LoosenOp: _loosen,
    nn.SettleOp: _settle,
    nn.StateReadOp: _state_read,
    nn.StateWriteOp: _state_write,
    tensor.ExtractOp: _extract,
    tensor.EmptyOp: _empty,
    scf.ForOp: _loop,
    scf.IfOp: _branch,
    nn.SectionsOp: _sections,
    ReturnOp: _return,
}
