"""The code of one invocation: loops, conditions and accesses to buffers as SPIR-V."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu import (
    OF_DEVICE,
    OF_SUBGROUP,
    ShuffleOp,
    is_shared,
)
from openinfer.dialects.extensions.gpu_tensors import MatrixYieldOp
from openinfer.dialects.extensions.memref import ATOMIC_KINDS
from openinfer.dialects.nn import DotBytesOp
from openinfer.dialects.spirv.composite_ops import ConstantOp
from openinfer.dialects.spirv.control_flow_ops import (
    BranchConditionalOp,
    BranchOp,
    LoopOp,
    MergeOp,
    SelectionOp,
)
from openinfer.dialects.spirv.control_flow_ops import ReturnOp as SpirvReturnOp
from openinfer.dialects.spirv.memory_ops import AccessChainOp, LoadOp, StoreOp, VariableOp
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.dialects.spirv.value_ops import VALUE_OPS
from openinfer.lowering.facts import Facts
from openinfer.lowering.locations import location_of
from openinfer.lowering.places import exact_arguments
from openinfer.lowering.vulkan.to_spirv.kernel_arguments import is_written
from openinfer.lowering.vulkan.to_spirv.kernel_module import (
    Buffer,
    KernelModule,
    lowered_type,
    width_of,
)
from openinfer.lowering.vulkan.to_spirv.subgroup_matrices import OF_MATRICES, build_matrices
from openinfer.lowering.vulkan.to_spirv.tensors import OF_TENSORS, Tensors
from openinfer.lowering.vulkan.to_spirv.value_conversions import Values
from openinfer.lowering.vulkan.to_spirv.wide_values import components, vector_of, with_type
from openinfer.runtime.errors import CompileError

_BUILT_IN: dict[type[Operation], str] = {
    gpu.BlockIdOp: "WorkgroupId",
    gpu.GridDimOp: "NumWorkgroups",
    gpu.ThreadIdOp: "LocalInvocationId",
}
_OF_SUBGROUP: dict[type[Operation], str] = {
    gpu.LaneIdOp: "SubgroupLocalInvocationId",
    gpu.SubgroupIdOp: "SubgroupId",
}
_SHUFFLES = {
    "xor": ("GroupNonUniformShuffleXor", "GroupNonUniformShuffle"),
    "idx": ("GroupNonUniformShuffle", "GroupNonUniformShuffle"),
}
"""The instruction of each mode, and what it needs."""
_UPDATES = {ATOMIC_KINDS.index("addi"): "AtomicIAdd"}
_OF_BUFFERS = "AcquireRelease|UniformMemory"
"""What an atomic update, or a barrier, of the device orders."""
MOST_UNROLLED = 16
"""Turns of a loop that is to be unrolled."""
WIDE_SUBGROUP = 16
"""Invocations of a subgroup where that pays. Drivers that compute on the processor, whose subgroups are
smaller, take longer for it and gain nothing."""


def kernel_module(function: FuncOp, workgroup: Sequence[int]) -> tuple[SpirvModuleOp, int]:
    """The module of a kernel, and how many words a launch passes to it.

    Raises CompileError OI0935 for an op that has no conversion.
    """
    subgroup = Facts.of(function).device_description.subgroup
    kernel = KernelModule(function.sym_name.data)
    if any(isinstance(op, OF_TENSORS) for op in function.walk()):
        kernel.use_tensors()
    elif any(isinstance(op, OF_MATRICES) for op in function.walk()):
        kernel.use_matrices()
    body = _Body(kernel, kernel.entry, unrolls=subgroup >= WIDE_SUBGROUP)
    body.function(function)
    return body.kernel.finished([], workgroup), body.kernel.words


class _Body:
    def __init__(self, kernel: KernelModule, first: Block, *, unrolls: bool) -> None:
        """`first`: of the function that is built; `unrolls`: short loops are to be unrolled."""
        self.kernel, self.unrolls = kernel, unrolls
        self.first = self.block = first
        self.values: dict[SSAValue, SSAValue] = {}
        self.buffers: dict[SSAValue, Buffer] = {}
        self.wide: dict[SSAValue, list[SSAValue]] = {}
        """The elements of what is loaded or stored in one access."""
        self.arithmetic = Values(kernel, self.put)
        self.tensors = Tensors(self)

    def inner(self, block: Block) -> _Body:
        """What builds another function of the module, which begins with a block."""
        return _Body(self.kernel, block, unrolls=self.unrolls)

    def put(self, op: Operation) -> SSAValue:
        """Inserts an op where the kernel is being built."""
        self.block.add_op(op)
        return op.results[0]

    def function(self, function: FuncOp) -> None:
        """Arguments, then the code."""
        binding, exact = 0, exact_arguments(function)
        told = any(OF_DEVICE in op.attributes for op in function.walk())
        for number, argument in enumerate(function.body.block.args):
            if isinstance(argument.type, MemRefType):
                binding += 1
                name = argument.name_hint or "buffer"
                self.buffers[argument] = self.kernel.buffer(
                    binding,
                    argument.type,
                    name,
                    exact=number in exact,
                    written=(written := is_written(argument)),
                    coherent=written and told,
                )
            else:
                word, type_ = self.kernel.next_word(), lowered_type(argument.type)
                assert type_ == i32, "what the host passes has 32 bits"
                self.values[argument] = word
        self.ops(function.body.block)
        self.block.add_op(SpirvReturnOp())

    def ops(self, block: Block) -> None:
        """The ops of a block."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """One op, where the kernel is being built."""
        if isinstance(op, scf.ForOp):
            self.loop(op)
        elif isinstance(op, scf.IfOp):
            self.condition(op)
        elif isinstance(op, memref.LoadOp):
            pointer = self.element(op.memref, op.indices)
            found = self.put(LoadOp(pointer, self.access(op.memref)))
            if isinstance(kind := op.res.type, VectorType):
                # What is read and written as a whole lies in words.
                count = width_of(kind) // 32
                words = components(self.arithmetic, found, count)
                self.wide[op.res] = with_type(self.arithmetic, words, kind.element_type)
            self.values[op.res] = found
        elif isinstance(op, memref.StoreOp):
            pointer = self.element(op.memref, op.indices)
            if op.value in self.wide:
                words = with_type(self.arithmetic, self.wide[op.value], i32)
                self.values[op.value] = vector_of(self.arithmetic, words)
            access = self.access(op.memref)
            self.block.add_op(StoreOp(pointer, self.values[op.value], access))
        elif isinstance(op, DotBytesOp):
            self.values[op.result] = self.dot(op)
        elif isinstance(op, OF_MATRICES):
            build_matrices(self, op)
        elif isinstance(op, OF_TENSORS):
            self.tensors.build(op)
        elif isinstance(op, vector.LoadOp):
            self.wide[op.result] = self.load_wide(op)
        elif isinstance(op, vector.StoreOp):
            self.store_wide(op)
        elif isinstance(op, vector.ExtractOp):
            self.values[op.result] = self.wide[op.vector][_lane(op.static_position)]
        elif isinstance(op, vector.BroadcastOp):
            count = self.count_of(op.vector)
            self.wide[op.vector] = [self.values[op.source]] * count
        elif isinstance(op, vector.InsertOp):
            self.wide[op.result] = found = list(self.wide[op.dest])
            found[_lane(op.static_position)] = self.values[op.source]
        elif isinstance(op, memref.DimOp):
            self.values[op.result] = self.dim(op)
        elif isinstance(op, memref.CollapseShapeOp):
            self.buffers[op.result] = self.collapsed(op)
        elif isinstance(op, memref.AllocaOp) and is_shared(op.memref.type):
            assert isinstance(op.memref.type, MemRefType)
            name = op.memref.name_hint or "memory"
            self.buffers[op.memref] = self.kernel.shared(op.memref.type, name)
        elif isinstance(op, gpu.BarrierOp):
            self.barrier(op)
        elif isinstance(op, memref.AtomicRMWOp):
            self.values[op.result] = self.updated(op)
        elif isinstance(op, ShuffleOp):
            self.values[op.shuffled] = self.shuffled(op)
        elif type(op) in _OF_SUBGROUP:
            self.values[op.results[0]] = self.kernel.lane(_OF_SUBGROUP[type(op)])
        elif type(op) in _BUILT_IN:
            dimension = op.properties["dimension"]
            assert isinstance(dimension, gpu.DimensionAttr)
            axis = list(gpu.DimensionEnum).index(dimension.data)
            self.values[op.results[0]] = self.kernel.built_in(_BUILT_IN[type(op)], axis)
        elif not isinstance(op, ReturnOp | scf.YieldOp | MatrixYieldOp):
            operands = [self.values[value] for value in op.operands]
            value = self.arithmetic.convert(op, operands) if len(op.results) == 1 else None
            if value is None:
                place = location_of(op)
                raise CompileError(
                    "OI0935",
                    f"{f'{place}: ' if place else ''}{op.name} has no conversion to SPIR-V",
                )
            self.values[op.results[0]] = value

    # Buffers

    def times(self, a: SSAValue | int, b: SSAValue | int) -> SSAValue | int:
        """A product, of numbers where both are."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.arithmetic.op("IMul", self.value(a), self.value(b))

    def value(self, number: SSAValue | int) -> SSAValue:
        if not isinstance(number, int):
            return number
        if self.first is self.kernel.entry:
            return self.kernel.number(number)
        # Another function does not see what stands in the kernel's.
        return self.put(ConstantOp(IntegerAttr(number, i32)))

    def place(self, buffer: Buffer, indices: Sequence[SSAValue]) -> SSAValue:
        """The number of an element of a buffer, from where its binding begins."""
        place: SSAValue | int = 0
        for index, extent in zip(indices, buffer.dims, strict=True):
            moved = 0 if place == 0 else self.times(place, extent)
            here = self.values[index]
            place = here if moved == 0 else self.arithmetic.op("IAdd", self.value(moved), here)
        if buffer.first is None:
            return self.value(place)
        if place == 0:
            return buffer.first
        return self.arithmetic.op("IAdd", buffer.first, self.value(place))

    def element(self, memory: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """The address of an element."""
        buffer = self.buffers[memory]
        place = self.place(buffer, indices)
        if buffer.first is None:
            return self.put(AccessChainOp(buffer.pointer, [place]))
        return self.put(AccessChainOp(buffer.pointer, [self.value(0), place]))

    def access(self, memory: SSAValue) -> str | None:
        """How memory is accessed, other than plainly: shared memory in Vulkan's memory model, where others
        see what is not private, behind a barrier."""
        shared = self.buffers[memory].first is None
        return "NonPrivatePointer" if shared and self.kernel.matrices else None

    # Neighbours in one access: words of 32 bits, which elements are taken out of

    @staticmethod
    def count_of(value: SSAValue) -> int:
        """Elements of a vector."""
        assert isinstance(value.type, VectorType)
        return value.type.element_count()

    def address_of(
        self, memory: SSAValue, indices: Sequence[SSAValue], count: int
    ) -> tuple[SSAValue, int]:
        """The address of `count` neighbours, and how many words they are."""
        buffer = self.buffers[memory]
        words = count * width_of(buffer.element) // 32
        place = self.place(buffer, indices)
        shift = self.kernel.number(count.bit_length() - 1)
        place = self.arithmetic.op("ShiftRightLogical", place, shift)
        pointer = self.kernel.words_of(buffer, words)
        return self.put(AccessChainOp(pointer, [self.kernel.number(0), place])), words

    def load_wide(self, op: vector.LoadOp) -> list[SSAValue]:
        address, count = self.address_of(op.base, op.indices, self.count_of(op.result))
        words = components(self.arithmetic, self.put(LoadOp(address)), count)
        return with_type(self.arithmetic, words, self.buffers[op.base].element)

    def store_wide(self, op: vector.StoreOp) -> None:
        address, _ = self.address_of(op.base, op.indices, self.count_of(op.vector))
        words = with_type(self.arithmetic, self.wide[op.vector], i32)
        self.block.add_op(StoreOp(address, vector_of(self.arithmetic, words)))

    def dot(self, op: DotBytesOp) -> SSAValue:
        """A sum and a product of vectors of bytes."""
        self.kernel.use_dots()
        pair = [vector_of(self.arithmetic, self.wide[value]) for value in (op.a, op.b)]
        name = "SDot" if op.unsigned is None else "UDot"
        found = self.put(VALUE_OPS[name].make(*pair, result=i32))
        return self.arithmetic.op("IAdd", self.values[op.sum], found)

    def dim(self, op: memref.DimOp) -> SSAValue:
        axis = op.index.owner
        assert isinstance(axis, arith.ConstantOp)
        assert isinstance(axis.value, IntegerAttr)
        return self.value(self.buffers[op.source].dims[axis.value.value.data])

    def collapsed(self, op: memref.CollapseShapeOp) -> Buffer:
        """A view in which neighbouring axes are one."""
        buffer = self.buffers[op.src]
        dims: list[SSAValue | int] = []
        for group in op.reassociation:
            extent: SSAValue | int = 1
            for axis in group.data:
                extent = self.times(extent, buffer.dims[axis.value.data])
            dims.append(extent)
        return replace(buffer, dims=tuple(dims))

    # What invocations do together

    def barrier(self, op: gpu.BarrierOp) -> None:
        """All invocations of the workgroup, or of the subgroup, have come here, and see what the others wrote
        to shared memory."""
        scope = memory = "Subgroup" if OF_SUBGROUP in op.attributes else "Workgroup"
        semantics = "AcquireRelease|WorkgroupMemory"
        if OF_DEVICE in op.attributes:
            memory, semantics = "Device", f"{_OF_BUFFERS}|WorkgroupMemory"
        if self.kernel.matrices:
            semantics += "|MakeAvailable|MakeVisible"
        self.block.add_op(
            VALUE_OPS["ControlBarrier"].make(
                execution_scope=scope,
                memory_scope=memory,
                memory_semantics=semantics,
            )
        )

    def updated(self, op: memref.AtomicRMWOp) -> SSAValue:
        """What an element of a buffer was before an update that no other invocation comes into."""
        name = _UPDATES[op.kind.value.data]
        pointer, value = self.element(op.memref, op.indices), self.values[op.value]
        made = VALUE_OPS[name].make(pointer, value, memory_scope="Device", semantics=_OF_BUFFERS)
        return self.put(made)

    def shuffled(self, op: ShuffleOp) -> SSAValue:
        """What another invocation of the subgroup has."""
        name, capability = _SHUFFLES[op.mode.data.value]
        self.kernel.capabilities |= {"GroupNonUniform", capability}
        operands = self.values[op.value], self.values[op.offset]
        return self.put(VALUE_OPS[name].make(*operands, execution_scope="Subgroup"))

    # Control flow

    def within(self, block: Block, build: Callable[[], None]) -> None:
        """Builds in another block."""
        outer, self.block = self.block, block
        build()
        self.block = outer

    def variables(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Memory for values of the types of others."""
        found = [VariableOp(kind) for value in values for kind in _kept_types(value)]
        self.first.add_ops(found)
        return [one.res for one in found]

    def store_all(self, variables: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        """Neighbours are kept as words."""
        kept: list[SSAValue] = []
        for value in values:
            if value in self.wide:
                kept += with_type(self.arithmetic, self.wide[value], i32)
            else:
                kept.append(self.values[value])
        for variable, value in zip(variables, kept, strict=True):
            self.block.add_op(StoreOp(variable, value))

    def load_all(self, values: Sequence[SSAValue], variables: Sequence[SSAValue]) -> None:
        """Gives values what is kept for them."""
        left = iter(variables)
        for value in values:
            found = [self.put(LoadOp(next(left))) for _ in _kept_types(value)]
            if isinstance(value.type, VectorType):
                self.wide[value] = with_type(self.arithmetic, found, value.type.element_type)
            else:
                (self.values[value],) = found

    def branch_body(self, block: Block, kept: Sequence[SSAValue]) -> None:
        """The ops of a region's block; what it yields goes into variables."""
        self.ops(block)
        last = block.last_op
        assert isinstance(last, scf.YieldOp)
        self.store_all(kept, last.operands)

    def condition(self, op: scf.IfOp) -> None:
        kept = self.variables(op.results)
        header, then, merge = Block(), Block(), Block([MergeOp()])
        blocks = [header, then, merge]
        otherwise = merge
        if op.false_region.blocks:
            otherwise = Block()
            blocks.insert(2, otherwise)
        header.add_op(BranchConditionalOp(self.values[op.cond], then, otherwise))

        def side(block: Block, region: Region) -> None:
            def build() -> None:
                self.branch_body(region.block, kept)
                self.block.add_op(BranchOp(merge))

            self.within(block, build)

        side(then, op.true_region)
        if otherwise is not merge:
            side(otherwise, op.false_region)
        self.block.add_op(SelectionOp(Region(blocks)))
        self.load_all(op.results, kept)

    def loop(self, op: scf.ForOp) -> None:
        first, last, step = (self.values[v] for v in (op.lb, op.ub, op.step))
        kept = self.variables(op.results)
        self.store_all(kept, op.iter_args)
        entry, header, body = Block(), Block(arg_types=[i32]), Block()
        more, merge = Block(), Block([MergeOp()])
        entry.add_op(BranchOp(header, [first]))
        place = header.args[0]

        def test() -> None:
            inside = self.arithmetic.op("SLessThan", place, last)
            self.block.add_op(BranchConditionalOp(inside, body, merge))

        def work() -> None:
            block = op.body.block
            self.values[block.args[0]] = place
            self.load_all(block.args[1:], kept)
            self.branch_body(block, kept)
            self.block.add_op(BranchOp(more))

        def go_on() -> None:
            following = self.arithmetic.op("IAdd", place, step)
            self.block.add_op(BranchOp(header, [following]))

        self.within(header, test)
        self.within(body, work)
        self.within(more, go_on)
        control = "Unroll" if self.unrolls and 1 < _turns(op) <= MOST_UNROLLED else "None"
        if any(isinstance(one, OF_TENSORS) for one in op.walk()):
            # What a driver does best with stands in a turn already.
            control = "DontUnroll"
        self.block.add_op(LoopOp(Region([entry, header, body, more, merge]), control))
        self.load_all(op.results, kept)


def _kept_types(value: SSAValue) -> list[Attribute]:
    """The types of what is kept of a value."""
    if isinstance(value.type, VectorType):
        words = value.type.element_count() * width_of(value.type.element_type) // 32
        return [i32] * words
    return [lowered_type(value.type)]


def _turns(loop: scf.ForOp) -> int:
    """How often a loop runs, 0 where only the step knows."""
    numbers: list[int] = []
    for bound in (loop.lb, loop.ub, loop.step):
        owner = bound.owner
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
            return 0
        numbers.append(owner.value.value.data)
    first, last, step = numbers
    return max(0, -(-(last - first) // step))


def _lane(place: DenseArrayBase[IntegerType]) -> int:
    """The number of an element in a vector."""
    (lane,) = place.get_values()
    return int(lane)
