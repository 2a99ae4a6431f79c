"""The conversion of one function: the walk over its ops, and what the rules build with.

Integers known at compile time stay Python ints as long as they only feed other integers, so that
static shapes leave no address arithmetic behind. Equal address computations are shared within the
reach of the value: going into a nested region keeps what is known, leaving it forgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    UnitAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.dialects.llvm import GEP_USE_SSA_VAL, FastMathAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, SSAValue

from openinfer.dialects.extensions.llvm import PoisonOp
from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.attributes import dense_i32
from openinfer.lowering.cpu.to_llvm.state import Buffer, Int, State
from openinfer.lowering.cpu.to_llvm.types import POINTER, convert_type
from openinfer.lowering.operations import ops_of
from openinfer.runtime.errors import CompileError
from openinfer.runtime.target import TargetDescription, named_target

Rule = Callable[["Converter", Operation], None]

_NSW = IntegerAttr(1, 32)
_DYNAMIC_GEP = dense_i32([GEP_USE_SSA_VAL])
_NO_WRAP = IntegerAttr(0, 32)
_UNIT = UnitAttr()
_EMPTY_BUNDLES = dense_i32(())
_ALIGNMENTS = {n: IntegerAttr(n, 64) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 4096)}
_NOT_ATOMIC = IntegerAttr(0, 64)
_PREDICATES = {
    name: IntegerAttr(number, 64)
    for number, name in enumerate(
        ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
    )
}
_FAST_MATH_NONE = FastMathAttr(None)
_FAST_MATH: dict[frozenset[FastMathFlag], FastMathAttr] = {frozenset(): _FAST_MATH_NONE}


def fast_math(flags: frozenset[FastMathFlag]) -> FastMathAttr:
    """The `llvm` attribute for a set of fast-math flags."""
    attribute = _FAST_MATH.get(flags)
    if attribute is None:
        attribute = _FAST_MATH[flags] = FastMathAttr(flags)
    return attribute


def fast_math_of(op: Operation) -> FastMathAttr:
    """The fast-math flags of an `arith`, `math` or `vector` op as an `llvm` attribute."""
    attribute = op.properties.get("fastmath")
    if attribute is None:
        return _FAST_MATH_NONE
    return fast_math(attribute.data)  # pyright: ignore[reportAttributeAccessIssue]


def alignment_attribute(alignment: int) -> IntegerAttr[IntegerType]:
    return _ALIGNMENTS.get(alignment) or IntegerAttr(alignment, 64)


class Converter(State):
    """Converts one function. Rules call it; see the module docstring for what it remembers."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        callee_types: Mapping[str, Attribute],
        has_half_conversions: bool = True,
        target: TargetDescription | None = None,
    ) -> None:
        super().__init__()
        self.rules = rules
        self.callee_types = callee_types
        """The `func` type of every function of the module, by name."""
        self.has_half_conversions = has_half_conversions
        """Whether the target turns f16 into f32 and back by an instruction."""
        self.has_fused_multiply_add = has_half_conversions
        """Every target that has the one has the other."""
        self.processor = target if target is not None else named_target("generic")
        """The processor, for what it has instructions for."""

    def convert_block(self, block: Block) -> Operation:
        """Convert all ops of `block` but its terminator, which is returned."""
        rules = self.rules
        ops = ops_of(block)
        if not ops:
            raise CompileError("OI0980", "a block without a terminator cannot be converted")
        last = ops.pop()
        for op in ops:
            self.convert_op(rules, op)
        self.location = last.location
        return last

    def convert_op(self, rules: Mapping[str, Rule], op: Operation) -> None:
        rule = rules.get(op.name)
        if rule is None:
            raise CompileError(
                "OI0980",
                f"'{op.name}' is not allowed at the loops level",
                hint="an earlier pass of the pipeline must have lowered it",
            )
        self.location = op.location
        rule(self, op)

    # Integer arithmetic -------------------------------------------------------------------------

    def add(self, a: Int, b: Int) -> Int:
        if isinstance(a, int):
            if isinstance(b, int):
                return in_word(a + b)
            a, b = b, a
        if b == 0:
            return a
        key = ("add", a, b)
        value = self._shared.get(key)
        if value is None:
            value = self._shared[key] = self._arithmetic(llvm.AddOp, a, self.as_value(b))
        return value

    def subtract(self, a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return in_word(a - b)
        if b == 0:
            return a
        return self.share(
            ("sub", a, b),
            lambda: self._arithmetic(llvm.SubOp, self.as_value(a), self.as_value(b)),
        )

    def multiply(self, a: Int, b: Int) -> Int:
        if isinstance(a, int):
            if isinstance(b, int):
                return in_word(a * b)
            a, b = b, a
        if b == 1:
            return a
        if b == 0:
            return 0
        key = ("mul", a, b)
        value = self._shared.get(key)
        if value is None:
            value = self._shared[key] = self._arithmetic(llvm.MulOp, a, self.as_value(b))
        return value

    def _arithmetic(self, op: type[Operation], a: SSAValue, b: SSAValue) -> SSAValue:
        # Addresses never wrap: with this LLVM may widen and reorder them.
        return self.emit(op, (a, b), i64, {"overflowFlags": _NSW})

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """An integer comparison of scalars."""
        return self.emit(llvm.ICmpOp, (a, b), i1, {"predicate": _PREDICATES[predicate]})

    # Memory -------------------------------------------------------------------------------------

    def element_address(
        self, buffer: Buffer, indices: Sequence[SSAValue], *, inbounds: bool = True
    ) -> SSAValue:
        """The address of one element.

        `inbounds` must be False where the address may lie outside the buffer (a masked access that
        touches nothing).
        """
        position = self.position(buffer, indices)
        return self.address(buffer.pointer, position, buffer.element, inbounds=inbounds)

    def position(self, buffer: Buffer, indices: Sequence[SSAValue]) -> Int:
        """How many elements an element lies behind the buffer's pointer."""
        position = buffer.offset
        for index, stride in zip(indices, buffer.strides):
            position = self.add(position, self.multiply(self.integer(index), stride))
        return position

    def address(
        self, pointer: SSAValue, position: Int, element: Attribute, *, inbounds: bool = True
    ) -> SSAValue:
        """`pointer` moved by `position` elements."""
        if position == 0:
            return pointer
        key = ("gep", pointer, position, element.name, _width(element), inbounds)
        value = self._shared.get(key)
        if value is None:
            value = self._shared[key] = self._gep(pointer, position, element, inbounds)
        return value

    def _gep(self, pointer: SSAValue, position: Int, element: Attribute, inbounds: bool):
        if is_packed(element):
            raise CompileError("OI0980", f"elements of {element} share bytes: one has no address")
        operands = [pointer]
        if isinstance(position, int) and -(2**31) < position < 2**31:
            raw = dense_i32([position])
        else:
            raw = _DYNAMIC_GEP
            operands.append(self.as_value(position))
        properties = {
            "rawConstantIndices": raw,
            "elem_type": convert_type(element),
            "noWrapFlags": _NO_WRAP,
        }
        if inbounds:
            properties["inbounds"] = _UNIT
        return self.emit(llvm.GEPOp, operands, POINTER, properties)

    def load(self, address: SSAValue, type: Attribute, alignment: int) -> SSAValue:
        properties = {"alignment": alignment_attribute(alignment), "ordering": _NOT_ATOMIC}
        return self.emit(llvm.LoadOp, (address,), type, properties)

    def store(
        self, value: SSAValue, address: SSAValue, alignment: int, *, nontemporal: bool = False
    ) -> None:
        properties: dict[str, Attribute] = {
            "alignment": alignment_attribute(alignment),
            "ordering": _NOT_ATOMIC,
        }
        if nontemporal:
            properties["nontemporal"] = _UNIT
        self.emit(llvm.StoreOp, (value, address), None, properties)

    # Vectors, control and calls -----------------------------------------------------------------

    def splat(self, number: int | float, type: Attribute) -> SSAValue:
        """The constant `number` as a scalar, or in all elements of a vector."""
        element = type.element_type if isinstance(type, VectorType) else type
        if not isinstance(type, VectorType):
            if isinstance(element, IntegerType):
                return self.constant(IntegerAttr(number, element), type)  # pyright: ignore
            return self.constant(FloatAttr(float(number), element), type)  # pyright: ignore
        if isinstance(element, IntegerType) and element.bitwidth > 64:
            # xDSL cannot hold the bytes of such a vector.
            return self._spread(self.splat(number, element), type)
        dense = DenseIntOrFPElementsAttr.from_list(type, [number])  # pyright: ignore
        return self.constant(dense, type)

    def constant_vector(self, numbers: Sequence[int], type: VectorType) -> SSAValue:
        dense = DenseIntOrFPElementsAttr.from_list(type, list(numbers))  # pyright: ignore
        return self.constant(dense, type)

    def broadcast(self, scalar: SSAValue, type: VectorType) -> SSAValue:
        """A vector with `scalar` in every element."""
        return self.share(
            ("broadcast", scalar, type.get_shape()), lambda: self._broadcast(scalar, type)
        )

    def _broadcast(self, scalar: SSAValue, type: VectorType) -> SSAValue:
        owner = scalar.owner
        if isinstance(owner, llvm.ConstantOp):
            attribute = owner.value
            assert isinstance(attribute, IntegerAttr | FloatAttr)
            return self.splat(attribute.value.data, type)
        return self._spread(scalar, type)

    def _spread(self, scalar: SSAValue, type: VectorType) -> SSAValue:
        poison = self.share(
            ("poison", type.get_shape(), type.element_type.name, _width(type.element_type)),
            lambda: self.in_entry(PoisonOp.create(result_types=(type,))),
        )
        first = self.emit(llvm.InsertElementOp, (poison, scalar, self.as_value(0)), type)
        zeros = dense_i32([0] * type.get_shape()[0])
        return self.emit(llvm.ShuffleVectorOp, (first, poison), type, {"mask": zeros})

    def branch(self, block: Block, operands: Sequence[SSAValue] = ()) -> None:
        self.append(llvm.BrOp.create(operands=operands, successors=(block,)))

    def branch_if(
        self,
        condition: SSAValue,
        then: Block,
        then_operands: Sequence[SSAValue],
        otherwise: Block,
        else_operands: Sequence[SSAValue],
    ) -> None:
        sizes = dense_i32([1, len(then_operands), len(else_operands)])
        self.append(
            llvm.CondBrOp.create(
                operands=(condition, *then_operands, *else_operands),
                successors=(then, otherwise),
                properties={"operandSegmentSizes": sizes},
            )
        )

    def loop(
        self,
        lower: Int,
        upper: Int,
        step: Int,
        initial: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        compare: str = "slt",
    ) -> Sequence[SSAValue]:
        """A counted loop with carried values; `body` gives their next values. Returns the last
        ones.

        The test stands at the end, behind one at the entry where the loop may run zero times: LLVM
        would turn it round anyhow, and the short pipelines that we use need not.
        """
        types = [value.type for value in initial]
        head, exit = self.new_block([i64, *types]), self.new_block(types)
        first = self.as_value(lower)
        last = self.as_value(upper)
        if isinstance(lower, int) and isinstance(upper, int) and lower < upper:
            self.branch(head, (first, *initial))
        else:
            runs = self.compare(compare, first, last)
            self.branch_if(runs, head, (first, *initial), exit, initial)
        self.enter(head)
        self.multiples.counter(head.args[0], lower, step)
        saved = self.scoped()
        carried = body(head.args[0], head.args[1:])
        following = self._arithmetic(llvm.AddOp, head.args[0], self.as_value(step))
        again = self.compare(compare, following, last)
        self.branch_if(again, head, (following, *carried), exit, carried)
        self.restore(saved)
        self.enter(exit)
        return exit.args

    def call(
        self, name: str, operands: Sequence[SSAValue], result: Attribute | None
    ) -> Sequence[SSAValue]:
        """A direct call; `result` None for no result."""
        properties: dict[str, Attribute] = {
            "callee": SymbolRefAttr(name),
            "fastmathFlags": _FAST_MATH_NONE,
            "CConv": llvm.CallingConventionAttr("ccc"),
            "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
            "op_bundle_sizes": _EMPTY_BUNDLES,
            "operandSegmentSizes": dense_i32([len(operands), 0]),
        }
        op = llvm.CallOp.create(
            operands=operands,
            result_types=() if result is None else (result,),
            properties=properties,
        )
        self.append(op)
        return op.results

    def call_outside(self, name: str, operands: Sequence[SSAValue], result: Attribute) -> SSAValue:
        """A call of a function of the C library, declared on the way."""
        self.needed[name] = llvm.LLVMFunctionType([v.type for v in operands], result)
        return self.call(name, operands, result)[0]


def _width(type: Attribute) -> int:
    return type.bitwidth if isinstance(type, IntegerType) else 0


def in_word(number: int) -> int:
    """As 64 bits compute it. Only code that a check in front of it skips has numbers beyond them."""
    return (number + 2**63) % 2**64 - 2**63
