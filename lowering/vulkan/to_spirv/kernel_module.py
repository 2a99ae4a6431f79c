"""What a device kernel is as a module: its buffers, the words that the host passes, its built-in values.

    binding 0       words of 32 bits, those of this launch from `first` on (a push constant)
    binding 1 …     the buffers of the kernel in the order of its arguments

The words of a launch are, for each argument in order: of a buffer where its first element lies in the
binding (in elements; none for an exact one, `lowering/places.py`), then each extent that the type leaves
open; of a number its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FixedBitwidthType,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    VectorType,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu import MMAMatrixType
from openinfer.dialects.spirv.composite_ops import CompositeExtractOp, ConstantOp
from openinfer.dialects.spirv.global_ops import (
    AddressOfOp,
    GlobalVariableOp,
)
from openinfer.dialects.spirv.memory_ops import AccessChainOp, LoadOp
from openinfer.dialects.spirv.structure_ops import (
    EntryPointOp,
    ExecutionModeOp,
    SpirvFuncOp,
    SpirvModuleOp,
    VersionAttr,
)
from openinfer.dialects.spirv.types import (
    ArrayType,
    CooperativeMatrixType,
    PointerType,
    RuntimeArrayType,
    StructType,
)
from openinfer.dialects.spirv.value_ops import VALUE_OPS

VERSION = "v1.3"
"""What Vulkan 1.1 and later take."""
VERSION_OF_TENSORS = "v1.6"
"""What compilers of GLSL write where matrices come from tensors; drivers that know them are later than it."""
PARAMETERS, FIRST = "parameters", "first"


_USES = {"AOp": "MatrixA", "BOp": "MatrixB", "COp": "MatrixAcc"}


def lowered_type(type_: Attribute) -> Attribute:
    """The type of a value in a kernel: an index has 32 bits."""
    if isinstance(type_, MMAMatrixType):
        shape = type_.rows.data, type_.columns.data
        use, scope = _USES[type_.operand.data], type_.scope.data.capitalize()
        return CooperativeMatrixType.of(*shape, type_.element_type, use, scope)
    return i32 if isinstance(type_, IndexType) else type_


def width_of(type_: Attribute) -> int:
    """Bits of a scalar, or of a vector."""
    if isinstance(type_, VectorType):
        return type_.element_count() * width_of(type_.element_type)
    assert isinstance(type_, FixedBitwidthType)
    return type_.bitwidth


def buffer_type(element: Attribute, *, written: bool = True) -> PointerType:
    """A pointer to as many elements as a binding holds. What a kernel only reads, a driver may read earlier
    and by another way."""
    array = RuntimeArrayType(element, IntAttr(width_of(element) // 8))
    decorations = () if written else ("NonWritable",)
    return PointerType.to(StructType.of([array], [0], decorations), "StorageBuffer")


@dataclass(frozen=True)
class Buffer:
    """A buffer, or a view of one, as addresses are computed from it."""

    pointer: SSAValue
    element: Attribute
    first: SSAValue | None
    """Where its first element lies; None for shared memory, which is an array and no binding."""
    dims: tuple[SSAValue | int, ...]
    binding: tuple[str, int] = ("", 0)
    """Name and number."""
    written: bool = True
    """Whether the kernel writes it."""
    coherent: bool = False
    """Whether its workgroups see what others of them have written."""


@dataclass
class KernelModule:
    """The module of one kernel while it is built."""

    name: str
    entry: Block = field(default_factory=Block)
    """The first block of the function: variables, addresses and words stand in it."""
    globals: list[GlobalVariableOp] = field(default_factory=list[GlobalVariableOp])
    capabilities: set[str] = field(default_factory=lambda: {"Shader", "SignedZeroInfNanPreserve"})
    extensions: set[str] = field(default_factory=lambda: {"SPV_KHR_float_controls"})
    constants: dict[IntegerAttr, SSAValue] = field(default_factory=dict[IntegerAttr, SSAValue])
    builtins: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    words: int = 0
    """Words that the host has to pass."""
    matrices: bool = False
    """Whether subgroups, or the workgroup, multiply matrices."""
    tensors: bool = False
    """Whether the workgroup does, and takes them from tensors in memory."""
    functions: list[SpirvFuncOp] = field(default_factory=list[SpirvFuncOp])
    """What its code names."""
    _views: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    _first: SSAValue | None = None
    _parameters: SSAValue | None = None

    def use_matrices(self) -> None:
        """Declares matrices of a subgroup, and Vulkan's memory model, which they ask for: what invocations
        share is not private there, and barriers make it visible."""
        self.matrices = True
        self.capabilities |= {"CooperativeMatrixKHR", "VulkanMemoryModel"}
        self.extensions |= {"SPV_KHR_cooperative_matrix", "SPV_KHR_vulkan_memory_model"}

    def use_dots(self) -> None:
        """Declares products of vectors of four bytes."""
        self.capabilities |= {"DotProduct", "DotProductInput4x8Bit"}
        self.extensions |= {"SPV_KHR_integer_dot_product"}

    def use_tensors(self) -> None:
        """Declares matrices of a workgroup, and tensors in memory."""
        self.use_matrices()
        self.tensors = True
        self.capabilities |= {"TensorAddressingNV", "CooperativeMatrixTensorAddressingNV"}
        self.extensions |= {"SPV_NV_cooperative_matrix2", "SPV_NV_tensor_addressing"}

    def put(self, op: Operation) -> SSAValue:
        """An op of the first block."""
        self.entry.add_op(op)
        return op.results[0]

    def number(self, value: int, type_: IntegerType = i32) -> SSAValue:
        """A constant, once."""
        attribute = IntegerAttr(value, type_)
        if attribute not in self.constants:
            constant = ConstantOp(attribute)
            # In front of everything that may use it.
            first = self.entry.first_op
            if first is None:
                self.entry.add_op(constant)
            else:
                self.entry.insert_op_before(constant, first)
            self.constants[attribute] = constant.res
        return self.constants[attribute]

    def variable(
        self, name: str, type_: PointerType, binding: int | None = None, built_in: str | None = None
    ) -> SSAValue:
        """A global variable, and its address. Functions of the module keep their names: a variable gets
        another one."""
        taken = {one.sym_name.data for one in self.globals}
        while name in taken or name == self.name or name.startswith(f"{self.name}_"):
            name = f"v_{name}"
        place = None if binding is None else (0, binding)
        self.globals.append(made := GlobalVariableOp(name, type_, place, built_in))
        if place is not None:
            # Buffers may lie in one block of memory, and one over the other where a kernel works in place.
            made.attributes["aliased"] = UnitAttr()
        return self.put(AddressOfOp(name, type_))

    def built_in(self, name: str, axis: int) -> SSAValue:
        """A part of a built-in vector of three."""
        if name not in self.builtins:
            whole = PointerType.to(VectorType(i32, [3]), "Input")
            self.builtins[name] = self.put(LoadOp(self.variable(name, whole, built_in=name)))
        return self.put(CompositeExtractOp(self.builtins[name], [axis]))

    def next_word(self) -> SSAValue:
        """The next word that the host passes, as an i32."""
        if self._first is None or self._parameters is None:
            push = PointerType.to(StructType.of([i32], [0]), "PushConstant")
            where = self.variable(FIRST, push)
            self._first = self.put(LoadOp(self.put(AccessChainOp(where, [self.number(0)]))))
            self._parameters = self.variable(PARAMETERS, buffer_type(i32, written=False), 0)
        place = self.put(VALUE_OPS["IAdd"].make(self._first, self.number(self.words)))
        self.words += 1
        pointer = self.put(AccessChainOp(self._parameters, [self.number(0), place]))
        return self.put(LoadOp(pointer))

    def buffer(
        self,
        binding: int,
        type_: MemRefType,
        name: str,
        *,
        exact: bool,
        written: bool,
        coherent: bool = False,
    ) -> Buffer:
        """A buffer that the host binds; `exact`: at its first element; `coherent`: workgroups read what
        others have written."""
        element = type_.element_type
        self.need_storage(element)
        kind = buffer_type(element, written=written)
        pointer = self.variable(f"{name}_{binding}", kind, binding)
        if coherent:
            self.globals[-1].attributes["coherent"] = UnitAttr()
        first = self.number(0) if exact else self.next_word()
        dims = tuple(
            self.next_word() if extent == DYNAMIC_INDEX else extent for extent in type_.get_shape()
        )
        return Buffer(pointer, element, first, dims, (name, binding), written, coherent)

    def words_of(self, buffer: Buffer, count: int) -> SSAValue:
        """The same binding, as words of 32 bits or vectors of `count` of them."""
        name, binding = buffer.binding
        name = f"{name}_{binding}_x{count}"
        if name not in self._views:
            kind = i32 if count == 1 else VectorType(i32, [count])
            view = buffer_type(kind, written=buffer.written)
            self._views[name] = self.variable(name, view, binding)
            if buffer.coherent:
                self.globals[-1].attributes["coherent"] = UnitAttr()
        return self._views[name]

    def shared(self, type_: MemRefType, name: str) -> Buffer:
        """Memory that the invocations of a workgroup share."""
        element = type_.element_type
        if isinstance(element, VectorType):
            # What is written and read as a whole lies in words.
            words = width_of(element) // 32
            element = i32 if words == 1 else VectorType(i32, [words])
        self.need(element)
        count = prod(type_.get_shape())
        pointer = PointerType.to(ArrayType(IntAttr(count), element, IntAttr(0)), "Workgroup")
        known = sum(one.type.storage_class.text == "Workgroup" for one in self.globals)
        variable = self.variable(f"{name}_shared_{known}", pointer)
        return Buffer(variable, element, None, tuple(type_.get_shape()))

    def lane(self, name: str) -> SSAValue:
        """A number that a subgroup gives its invocations, or that it has itself."""
        if name not in self.builtins:
            self.capabilities.add("GroupNonUniform")
            whole = PointerType.to(i32, "Input")
            self.builtins[name] = self.put(LoadOp(self.variable(name, whole, built_in=name)))
        return self.builtins[name]

    def need_storage(self, element: Attribute) -> None:
        """Declares what loads and stores of an element need."""
        if width_of(element) == 8:
            self.capabilities |= {"StorageBuffer8BitAccess"}
            self.extensions |= {"SPV_KHR_8bit_storage"}
        if width_of(element) == 16:
            self.capabilities |= {"StorageBuffer16BitAccess"}
        self.need(element)

    def need(self, type_: Attribute) -> None:
        """Declares what values of a type need."""
        if isinstance(type_, IntegerType) and width_of(type_) in (8, 16, 64):
            self.capabilities.add(f"Int{width_of(type_)}")
        if isinstance(type_, AnyFloat) and width_of(type_) in (16, 64):
            self.capabilities.add(f"Float{width_of(type_)}")

    def finished(self, blocks: Sequence[Block], workgroup: Sequence[int]) -> SpirvModuleOp:
        """The module, with the first block and further ones."""
        # From version 1.4 on all that an entry uses is listed.
        inputs = [
            one.sym_name.data
            for one in self.globals
            if self.tensors or one.type.storage_class.text == "Input"
        ]
        modes = [ExecutionModeOp(self.name, "LocalSize", workgroup)]
        widths = {32} | {w for w in (16, 64) if f"Float{w}" in self.capabilities}
        modes += [
            ExecutionModeOp(self.name, "SignedZeroInfNanPreserve", [width])
            for width in sorted(widths)
        ]
        body = Block(
            [
                *self.globals,
                *self.functions,
                SpirvFuncOp(self.name, Region([self.entry, *blocks])),
                EntryPointOp(self.name, inputs),
                *modes,
            ]
        )
        version = VERSION_OF_TENSORS if self.tensors else VERSION
        needs = VersionAttr.of(version, sorted(self.capabilities), sorted(self.extensions))
        model = "Vulkan" if self.matrices else "GLSL450"
        return SpirvModuleOp(Region(body), needs, memory_model=model, sym_name=self.name)
