"""The text of one kernel: what its invocations do, statement by statement.

A value that is used once is written where it is used, unless something in between could change it; others
become variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, MemRefType, VectorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu import (
    OF_DEVICE,
    OF_SUBGROUP,
    ShuffleOp,
    SubgroupMmaComputeOp,
    SubgroupMmaConstantMatrixOp,
    SubgroupMmaElementwiseOp,
    SubgroupMmaLoadMatrixOp,
    SubgroupMmaStoreMatrixOp,
    is_shared,
)
from openinfer.dialects.extensions.gpu_tensors import MatrixYieldOp, TensorStoreOp
from openinfer.dialects.extensions.memref import ATOMIC_KINDS, AtomicRMWOp
from openinfer.dialects.nn import DotBytesOp
from openinfer.lowering.emit.expressions import (
    Expression,
    binary,
    call,
    component,
    element,
    name,
    number,
    product_of,
    sum_of,
)
from openinfer.lowering.emit.operations import ROWS, TWICE, constant, hint_of
from openinfer.lowering.emit.shader import Buffer, Shader, no_text
from openinfer.lowering.emit.tensors import ROLLED, STATEMENTS, is_of_tensors, last_of
from openinfer.lowering.emit.types import is_float, vector_type, width_of
from openinfer.lowering.locations import location_of
from openinfer.lowering.places import KNOWN_BLOCK_SIZE, exact_arguments

LONGEST = 64
"""Characters of a value that is written inside of another."""
_BUILT_IN: dict[type[Operation], str] = {
    gpu.BlockIdOp: "gl_WorkGroupID",
    gpu.GridDimOp: "gl_NumWorkGroups",
    gpu.ThreadIdOp: "gl_LocalInvocationID",
}
_OF_SUBGROUP: dict[type[Operation], str] = {
    gpu.LaneIdOp: "gl_SubgroupInvocationID",
    gpu.SubgroupIdOp: "gl_SubgroupID",
}
_SHUFFLES = {"xor": "subgroupShuffleXor", "idx": "subgroupShuffle"}
_UPDATES = {ATOMIC_KINDS.index("addi"): "atomicAdd"}
_ELEMENTWISE = {"addf": "+", "mulf": "*", "subf": "-"}
_WRITING = (
    memref.StoreOp,
    AtomicRMWOp,
    vector.StoreOp,
    gpu.BarrierOp,
    ShuffleOp,
    SubgroupMmaStoreMatrixOp,
    TensorStoreOp,
)
Lines = Mapping[tuple[str, int], str]
"""What the program says at a line of a file."""


def kernel_text(function: FuncOp, lines: Lines) -> str:
    """The shader of a kernel. Raises UnsupportedError OI0765 for an op that has no text."""
    sizes = function.attributes[KNOWN_BLOCK_SIZE]
    assert isinstance(sizes, DenseArrayBase)
    shader = Shader([int(size) for size in sizes.get_values()])
    shader.told = any(OF_DEVICE in op.attributes for op in function.walk())
    writer = _Writer(shader, lines)
    writer.function(function)
    return shader.text(_title(function, lines), [*writer.front, *writer.lines])


def _title(function: FuncOp, lines: Lines) -> list[str]:
    """What the kernel is, and what it computes, line by line of the program."""
    found: dict[str, int] = {}
    for op in function.body.walk():
        place = location_of(op)
        found.update((comment, place.line) for comment in _comment(op, lines) if place)
    return [f"// {function.sym_name.data}", *sorted(found, key=found.__getitem__)]


def _comment(op: Operation, lines: Lines) -> list[str]:
    """The line of the program that an op computes."""
    place = location_of(op)
    if place is None:
        return []
    text = lines.get((place.file, place.line), "")
    return [f"// {place.file}:{place.line}{f': {text}' if text else ''}"]


class _Writer:
    def __init__(self, shader: Shader, comments: Lines) -> None:
        self.shader, self.comments = shader, comments
        self.lines: list[str] = []
        self.front: list[str] = []
        """What stands in front of them."""
        self.layouts: dict[tuple[object, ...], str] = {}
        self.depth = 1
        self.values: dict[SSAValue, Expression] = {}
        """What is written already: names and numbers."""
        self.pending: dict[SSAValue, Expression] = {}
        """What is written where it is used, in the order of the program."""
        self.lanes: dict[SSAValue, list[SSAValue | Expression]] = {}
        """The elements of what is loaded or stored in one access."""
        self.buffers: dict[SSAValue, Buffer] = {}
        self.place = ""

    def function(self, function: FuncOp) -> None:
        """Arguments, then the code."""
        binding, exact = 0, exact_arguments(function)
        for number_, argument in enumerate(function.body.block.args):
            if isinstance(argument.type, MemRefType):
                binding += 1
                wanted = argument.name_hint or "buffer"
                self.buffers[argument] = self.shader.buffer(
                    binding, argument.type, wanted, exact=number_ in exact
                )
            else:
                wanted = argument.name_hint or "parameter"
                word = self.shader.next_word(wanted)
                if argument.uses.get_length():
                    self.values[argument] = self.shader.word(word)
        self.place = "".join(_comment(function, self.comments))
        self.ops(function.body.block)

    def function_of(
        self, block: Block, arguments: Mapping[SSAValue, Expression | Buffer]
    ) -> tuple[list[str], Expression]:
        """The statements of another function of the shader, and what it gives."""
        inner = _Writer(self.shader, self.comments)
        for argument, given in arguments.items():
            if isinstance(given, Buffer):
                inner.buffers[argument] = given
            else:
                inner.values[argument] = given
        inner.place = self.place
        inner.ops(block)
        last = inner.use(last_of(block))
        return inner.lines, last

    # Statements

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def statement(self, op: Operation, text: str) -> None:
        """A statement, behind the line of the program that it is from where that is another one."""
        comment = "".join(_comment(op, self.comments))
        if comment and comment != self.place:
            self.line(comment)
            self.place = comment
        self.line(text)

    def local(self, value: SSAValue, expression: Expression, op: Operation) -> Expression:
        """A variable for a value."""
        kind = self.shader.type(value.type)
        text = self.shader.names.new(value.name_hint or hint_of(op))
        precise = "precise " if expression.rounds else ""
        self.statement(op, f"{precise}{kind} {text} = {expression.text};")
        found = name(text, non_negative=expression.non_negative)
        self.values[value] = found
        return found

    # Values

    def define(self, value: SSAValue, expression: Expression, op: Operation) -> None:
        """Decides how a value is written."""
        uses = value.uses.get_length()
        if expression.is_atom or expression.number is not None:
            self.values[value] = expression
        elif uses == 1 and len(expression.text) <= LONGEST:
            self.pending[value] = expression
        elif uses:
            self.local(value, expression, op)

    def use(self, value: SSAValue) -> Expression:
        """How a value is written where it is used."""
        found = self.pending.pop(value, None)
        return self.values[value] if found is None else found

    def named(self, value: SSAValue) -> Expression:
        """The same as something that may be repeated."""
        self.settle(value)
        return self.values[value]

    def settle(self, value: SSAValue) -> None:
        """Makes a variable of a value that waits for its use."""
        found = self.pending.pop(value, None)
        if found is not None:
            owner = value.owner
            assert isinstance(owner, Operation)
            self.local(value, found, owner)

    def settle_where(self, wanted: Callable[[SSAValue, Expression], bool]) -> None:
        for value, expression in list(self.pending.items()):
            if wanted(value, expression):
                self.settle(value)

    def settle_reads(self) -> None:
        """What has to be read before the next statement writes."""
        self.settle_where(lambda _, expression: expression.reads)

    # Ops

    def ops(self, block: Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """One op. Raises UnsupportedError OI0765 for one that has no text."""
        row = _STATEMENTS.get(type(op))
        if row is not None:
            row(self, op)
        elif isinstance(op, arith.ConstantOp):
            self.values[op.result] = constant(self.shader, op)
        elif type(op) in _BUILT_IN:
            self.built_in(op)
        elif type(op) in _OF_SUBGROUP:
            self.shader.extensions.add("GL_KHR_shader_subgroup_basic")
            self.numbered(op, name(_OF_SUBGROUP[type(op)]))
        elif op.name in ROWS:
            self.value(op)
        elif not isinstance(op, ReturnOp | scf.YieldOp | MatrixYieldOp):
            raise no_text(f"'{op.name}'", location_of(op))

    def value(self, op: Operation) -> None:
        """An op of `arith` or `math`."""
        twice = isinstance(op, arith.CmpfOp) and op.predicate.value.data in TWICE
        operands = [self.named(x) if twice else self.use(x) for x in op.operands]
        self.define(op.results[0], ROWS[op.name](self.shader, op, operands), op)

    def numbered(self, op: Operation, built_in: Expression) -> None:
        """A number that the device gives an invocation."""
        found = replace(call("int", built_in), non_negative=True)
        self.define(op.results[0], found, op)

    def built_in(self, op: Operation) -> None:
        dimension = op.properties["dimension"]
        assert isinstance(dimension, gpu.DimensionAttr)
        axis = list(gpu.DimensionEnum).index(dimension.data)
        self.numbered(op, component(name(_BUILT_IN[type(op)]), axis))

    # Memory

    def element(self, buffer: Buffer, indices: Sequence[SSAValue]) -> Expression:
        """The number of an element from where the binding begins."""
        place = number(0)
        for axis, index in enumerate(indices):
            moved = place if place.number == 0 else product_of(place, self.shader.dim(buffer, axis))
            place = sum_of(moved, self.use(index))
        return sum_of(self.shader.first(buffer), place)

    def wide_element(self, buffer: Buffer, indices: Sequence[SSAValue], count: int) -> Expression:
        """The number of an access of `count` neighbours."""
        place = self.element(buffer, indices)
        return place if buffer.is_shared else binary("/", place, number(count))

    def load(self, op: memref.LoadOp) -> None:
        buffer = self.buffers[op.memref]
        place = self.element(buffer, op.indices)
        if isinstance(buffer.element, VectorType):
            self.unpacked(op, op.res, element(buffer.array, place))
            return
        array = self.shader.array(buffer, self.shader.type(buffer.element), read=True)
        self.define(op.res, replace(element(array, place), reads=True), op)

    def store(self, op: memref.StoreOp) -> None:
        buffer = self.buffers[op.memref]
        place = self.element(buffer, op.indices)
        if isinstance(buffer.element, VectorType):
            array, value = buffer.array, self.packed(op.value)
        else:
            array = self.shader.array(buffer, self.shader.type(buffer.element), read=False)
            value = self.use(op.value)
        self.settle_reads()
        self.statement(op, f"{array}[{place.text}] = {value.text};")

    def load_wide(self, op: vector.LoadOp) -> None:
        buffer, kind = self.buffers[op.base], op.result.type
        assert isinstance(kind, VectorType)
        count = kind.element_count()
        place = self.wide_element(buffer, op.indices, count)
        wide = self.shader.wide_type(buffer.element, count)
        array = self.shader.array(buffer, wide, read=True)
        self.unpacked(op, op.result, element(array, place))

    def store_wide(self, op: vector.StoreOp) -> None:
        buffer, kind = self.buffers[op.base], op.vector.type
        assert isinstance(kind, VectorType)
        count = kind.element_count()
        place = self.wide_element(buffer, op.indices, count)
        wide = self.shader.wide_type(buffer.element, count)
        array = self.shader.array(buffer, wide, read=False)
        value = self.packed(op.vector)
        self.settle_reads()
        self.statement(op, f"{array}[{place.text}] = {value.text};")

    def dim(self, op: memref.DimOp) -> None:
        axis = op.index.owner
        assert isinstance(axis, arith.ConstantOp)
        assert isinstance(axis.value, IntegerAttr)
        if op.result.uses.get_length():
            buffer = self.buffers[op.source]
            self.values[op.result] = self.shader.dim(buffer, axis.value.value.data)

    def collapsed(self, op: memref.CollapseShapeOp) -> None:
        """A view in which neighbouring axes are one."""
        buffer = self.buffers[op.src]
        dims: list[Expression] = []
        for group in op.reassociation:
            extent = number(1)
            for axis in group.data:
                extent = product_of(extent, self.shader.dim(buffer, axis.value.data))
            dims.append(extent)
        self.buffers[op.result] = replace(buffer, dims=tuple(dims))

    def allocate(self, op: memref.AllocaOp) -> None:
        if not is_shared(op.memref.type):
            raise no_text("memory of an invocation", location_of(op))
        assert isinstance(op.memref.type, MemRefType)
        wanted = op.memref.name_hint or "memory"
        self.buffers[op.memref] = self.shader.shared(op.memref.type, wanted)

    # Neighbours in one access

    def unpacked(self, op: Operation, value: SSAValue, access: Expression) -> None:
        """A variable for what is loaded, and its elements."""
        kind = value.type
        assert isinstance(kind, VectorType)
        scalar, count = kind.element_type, kind.element_count()
        wide = self.shader.wide_type(scalar, count)
        text = self.shader.names.new(value.name_hint or hint_of(op))
        self.statement(op, f"{wide} {text} = {access.text};")
        whole = name(text)
        if count <= 4:
            self.lanes[value] = [component(whole, lane) for lane in range(count)]
            return
        lanes: list[SSAValue | Expression] = []
        each = 32 // width_of(scalar)
        function = _UNPACK[width_of(scalar), is_float(scalar)]
        for word in range(count // each):
            part = self.shader.names.new(f"{text}_part")
            unpacked = call(function, component(whole, word))
            kind_of_part = vector_type(self.shader.type(scalar), each)
            self.statement(op, f"{kind_of_part} {part} = {unpacked.text};")
            lanes += [component(name(part), lane) for lane in range(each)]
        self.lanes[value] = lanes

    def packed(self, value: SSAValue) -> Expression:
        """What is stored in one access."""
        kind = value.type
        assert isinstance(kind, VectorType)
        scalar, lanes = kind.element_type, self.lanes[value]
        wide = self.shader.wide_type(scalar, len(lanes))
        parts = [self.lane(lane, repeated=lanes.count(lane) > 1) for lane in lanes]
        if len(parts) <= 4:
            return _vector(wide, parts)
        each = 32 // width_of(scalar)
        function = "packFloat2x16" if is_float(scalar) else "pack32"
        inner = vector_type(self.shader.type(scalar), each)
        words = [
            call(function, call(inner, *parts[start : start + each]))
            for start in range(0, len(parts), each)
        ]
        return call(wide, *words)

    def lane(self, lane: SSAValue | Expression, *, repeated: bool) -> Expression:
        if isinstance(lane, Expression):
            return lane
        return self.named(lane) if repeated else self.use(lane)

    def extract(self, op: vector.ExtractOp) -> None:
        found = self.lanes[op.vector][_position(op.static_position)]
        self.values[op.result] = found if isinstance(found, Expression) else self.named(found)

    def broadcast(self, op: vector.BroadcastOp) -> None:
        assert isinstance(op.vector.type, VectorType)
        self.lanes[op.vector] = [op.source] * op.vector.type.element_count()

    def insert(self, op: vector.InsertOp) -> None:
        self.lanes[op.result] = found = list(self.lanes[op.dest])
        found[_position(op.static_position)] = op.source

    def dot(self, op: DotBytesOp) -> None:
        """The products of two vectors of bytes one by one: not every compiler knows the function for it."""
        kind = self.shader.type(IntegerType(8))
        found = self.use(op.sum)
        for x, y in zip(self.lanes[op.a], self.lanes[op.b]):
            pair = [self.lane(value, repeated=True) for value in (x, y)]
            if op.unsigned is not None:
                pair = [call(f"u{kind}", value) for value in pair]
            found = binary("+", found, binary("*", *(call("int", value) for value in pair)))
        self.define(op.result, found, op)

    # What invocations do together

    def barrier(self, op: gpu.BarrierOp) -> None:
        self.settle_reads()
        if OF_SUBGROUP in op.attributes:
            self.shader.extensions.add("GL_KHR_shader_subgroup_basic")
            self.statement(op, "subgroupBarrier();")
            return
        if OF_DEVICE in op.attributes:
            # What was written before is there for others, and what they wrote for what follows.
            self.statement(op, "memoryBarrierBuffer();")
            self.line("barrier();")
            self.line("memoryBarrierBuffer();")
            return
        self.statement(op, "barrier();")

    def update(self, op: AtomicRMWOp) -> None:
        """An element that is changed while nobody else changes it; what it was before."""
        function = _UPDATES.get(op.kind.value.data)
        if function is None:
            raise no_text(
                f"'memref.atomic_rmw {ATOMIC_KINDS[op.kind.value.data]}'", location_of(op)
            )
        self.settle_reads()
        buffer = self.buffers[op.memref]
        place = self.element(buffer, op.indices)
        self.shader.array(buffer, self.shader.type(buffer.element), read=True)
        array = self.shader.array(buffer, self.shader.type(buffer.element), read=False)
        self.local(op.result, call(function, element(array, place), self.use(op.value)), op)

    def shuffle(self, op: ShuffleOp) -> None:
        mode = op.mode.data.value
        if mode not in _SHUFFLES:
            raise no_text(f"'gpu.shuffle {mode}'", location_of(op))
        self.shader.extensions.add("GL_KHR_shader_subgroup_shuffle")
        kind = self.shader.type(op.value.type).removesuffix("_t")
        if kind not in ("int", "float"):
            self.shader.extensions.add(f"GL_EXT_shader_subgroup_extended_types_{kind}")
        value, offset = self.use(op.value), self.use(op.offset)
        # All invocations come here together, which is so for a statement, not for a part of one.
        found = call(
            _SHUFFLES[mode], value, call("uint", offset) if offset.number is None else offset
        )
        self.local(op.shuffled, found, op)

    def load_matrix(self, op: SubgroupMmaLoadMatrixOp) -> None:
        text = self.shader.names.new(op.result.name_hint or hint_of(op))
        kind = self.shader.type(op.result.type)
        layout = "RowMajor" if op.transpose is None else "ColumnMajor"
        place = self.matrix_place(op.source, op.indices, op.lead_dimension, read=True)
        self.statement(op, f"{kind} {text};")
        self.line(f"coopMatLoad({text}, {place}, gl_CooperativeMatrixLayout{layout});")
        self.values[op.result] = name(text)

    def store_matrix(self, op: SubgroupMmaStoreMatrixOp) -> None:
        place = self.matrix_place(op.target, op.indices, op.lead_dimension, read=False)
        value = self.use(op.value)
        self.settle_reads()
        self.statement(
            op, f"coopMatStore({value.text}, {place}, gl_CooperativeMatrixLayoutRowMajor);"
        )

    def matrix_place(
        self, memory: SSAValue, indices: Sequence[SSAValue], lead: IntegerAttr, *, read: bool
    ) -> str:
        """The array, the place in it and the elements from row to row."""
        buffer = self.buffers[memory]
        place = self.element(buffer, indices)
        kind = buffer.element
        array = buffer.array
        if not buffer.is_shared:
            array = self.shader.array(buffer, self.shader.type(kind), read=read)
        return f"{array}, {place.text}, {lead.value.data}"

    def multiply_matrices(self, op: SubgroupMmaComputeOp) -> None:
        found = call("coopMatMulAdd", *map(self.use, op.operands))
        self.define(op.result, found, op)

    def each_element(self, op: SubgroupMmaElementwiseOp) -> None:
        """Two matrices, element by element."""
        found = binary(_ELEMENTWISE[op.kind.data], self.use(op.left), self.use(op.right))
        self.define(op.result, found, op)

    def constant_matrix(self, op: SubgroupMmaConstantMatrixOp) -> None:
        found = call(self.shader.type(op.result.type), self.use(op.value))
        self.local(op.result, found, op)

    # Control flow

    def settle_before(self, op: scf.ForOp | scf.IfOp) -> None:
        """What a loop would compute in each turn, and what has to be read before something is written."""
        writes = any(isinstance(inner, _WRITING) for inner in op.walk())
        loop = isinstance(op, scf.ForOp)

        def wanted(value: SSAValue, expression: Expression) -> bool:
            (use,) = value.uses
            inside = use.operation is not op and op.is_ancestor(use.operation)
            return (expression.reads and writes) or (inside and loop)

        self.settle_where(wanted)

    def declared(self, value: SSAValue, wanted: str, start: Expression | None) -> Expression:
        """A variable that branches or turns assign."""
        text = self.shader.names.new(value.name_hint or wanted)
        precise = "precise " if is_float(value.type) else ""
        begin = f" = {start.text}" if start is not None else ""
        self.line(f"{precise}{self.kept_type(value)} {text}{begin};")
        return Expression(text, variables=frozenset({text}))

    def kept_type(self, value: SSAValue) -> str:
        """The type of a variable for a value; neighbours are kept as they are stored."""
        if isinstance(value.type, VectorType):
            return self.shader.wide_type(value.type.element_type, value.type.element_count())
        return self.shader.type(value.type)

    def kept(self, value: SSAValue) -> Expression:
        """What a variable for a value is assigned."""
        return self.packed(value) if isinstance(value.type, VectorType) else self.use(value)

    def take(self, op: Operation, values: Sequence[SSAValue], kept: Sequence[Expression]) -> None:
        """Gives values the variables that are kept for them."""
        for value, variable in zip(values, kept, strict=True):
            if not isinstance(value.type, VectorType):
                self.values[value] = variable
            elif value.uses.get_length():
                self.unpacked(op, value, variable)

    def body(self, block: Block, kept: Sequence[Expression]) -> None:
        """The statements of a block; what it yields goes into variables."""
        self.depth += 1
        self.ops(block)
        last = block.last_op
        assert isinstance(last, scf.YieldOp)
        self.assign(kept, last.operands)
        self.depth -= 1

    def assign(self, kept: Sequence[Expression], yielded: Sequence[SSAValue]) -> None:
        """Assigns variables, as if at once."""
        before: set[str] = set()
        for variable, value in zip(kept, yielded, strict=True):
            if isinstance(value.type, VectorType):
                continue  # Its elements are copies.
            expression = self.pending.get(value) or self.values[value]
            if before & expression.variables:
                self.copied(value, expression)
            if expression.text != variable.text:
                before.add(variable.text)
        for variable, value in zip(kept, yielded, strict=True):
            expression = self.kept(value)
            if expression.text != variable.text:
                self.line(f"{variable.text} = {expression.text};")

    def copied(self, value: SSAValue, expression: Expression) -> None:
        """A value of variables that are about to change."""
        self.pending.pop(value, None)
        text = self.shader.names.new(f"next_{value.name_hint or 'value'}")
        precise = "precise " if expression.rounds else ""
        self.line(f"{precise}{self.shader.type(value.type)} {text} = {expression.text};")
        self.values[value] = name(text)

    def condition(self, op: scf.IfOp) -> None:
        test = self.use(op.cond)
        self.settle_before(op)
        other = op.false_region
        starts = self.plain_else(other)
        kept: list[Expression] = []
        for number_, result in enumerate(op.results):
            start = starts[number_] if starts else None
            kept.append(self.declared(result, "found", start))
        self.statement(op, f"if ({test.text}) {{")
        self.body(op.true_region.block, kept)
        if other.blocks and not starts and (op.results or len(list(other.block.ops)) > 1):
            self.line("} else {")
            self.body(other.block, kept)
        self.line("}")
        self.take(op, op.results, kept)

    def plain_else(self, region: Region) -> list[Expression]:
        """What a branch yields that does nothing else; empty where there is none such."""
        if not region.blocks:
            return []
        *others, last = region.block.ops
        if not all(isinstance(one, arith.ConstantOp) for one in others):
            return []
        for one in others:
            self.op(one)
        if any(value not in self.values for value in last.operands):
            return []
        return [self.values[value] for value in last.operands]

    def loop(self, op: scf.ForOp) -> None:
        first, step = self.use(op.lb), self.use(op.step)
        last = self.use(op.ub)
        if last.reads or len(last.text) > LONGEST // 2:
            text = self.shader.names.new("end")
            self.statement(op, f"int {text} = {last.text};")
            last = name(text)
        starts = [self.kept(value) for value in op.iter_args]
        self.settle_before(op)
        block = op.body.block
        arguments = block.args[1:]
        kept: list[Expression] = []
        for argument, start, result, before in zip(
            arguments, starts, op.results, op.iter_args, strict=True
        ):
            if start.text in start.variables and _is_only_start(before, op):
                kept.append(start)
            else:
                hint = argument.name_hint or result.name_hint or "sum"
                kept.append(self.declared(argument, hint, start))
        turn = block.args[0]
        text = self.shader.names.new(turn.name_hint or "i")
        known = first.non_negative and step.non_negative
        self.values[turn] = name(text, non_negative=known)
        forward = f"{text}++" if step.number == 1 else f"{text} += {step.text}"
        rolled = ""
        if is_of_tensors(op):
            self.shader.extensions.add("GL_EXT_control_flow_attributes")
            rolled = ROLLED
        self.statement(
            op,
            f"{rolled}for (int {text} = {first.text}; {text} < {last.text}; {forward}) {{",
        )
        self.depth += 1
        self.take(op, arguments, kept)
        self.depth -= 1
        self.body(block, kept)
        self.line("}")
        self.take(op, op.results, kept)


def _vector(kind: str, parts: Sequence[Expression]) -> Expression:
    """A vector of some components; the variable that they are of, where they are all that it has."""
    text = parts[0].text
    if all(part.text == text for part in parts):
        return call(kind, parts[0])
    return call(kind, *parts)


def _is_only_start(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether nobody but a loop beside it looks at a variable, so that the loop may go on with it."""
    owner = value.owner
    beside = owner is loop.parent
    if isinstance(owner, scf.ForOp | scf.IfOp):
        beside = owner.parent is loop.parent
    return beside and value.uses.get_length() == 1


def _position(place: DenseArrayBase[IntegerType]) -> int:
    """The number of an element in a vector."""
    (lane,) = place.get_values()
    return int(lane)


_UNPACK = {(16, True): "unpackFloat2x16", (16, False): "unpack16", (8, False): "unpack8"}
"""By width, and whether the elements are floats."""

_STATEMENTS: dict[type[Operation], Callable[[_Writer, Operation], None]] = {}


def _row(kind: type[Operation], write: Callable[..., None]) -> None:
    _STATEMENTS[kind] = write


_row(memref.LoadOp, _Writer.load)
_row(memref.StoreOp, _Writer.store)
_row(memref.DimOp, _Writer.dim)
_row(memref.CollapseShapeOp, _Writer.collapsed)
_row(memref.AllocaOp, _Writer.allocate)
_row(vector.LoadOp, _Writer.load_wide)
_row(vector.StoreOp, _Writer.store_wide)
_row(vector.ExtractOp, _Writer.extract)
_row(vector.BroadcastOp, _Writer.broadcast)
_row(vector.InsertOp, _Writer.insert)
_row(DotBytesOp, _Writer.dot)
_row(gpu.BarrierOp, _Writer.barrier)
_row(AtomicRMWOp, _Writer.update)
_row(ShuffleOp, _Writer.shuffle)
_row(SubgroupMmaLoadMatrixOp, _Writer.load_matrix)
_row(SubgroupMmaStoreMatrixOp, _Writer.store_matrix)
_row(SubgroupMmaComputeOp, _Writer.multiply_matrices)
_row(SubgroupMmaConstantMatrixOp, _Writer.constant_matrix)
_row(SubgroupMmaElementwiseOp, _Writer.each_element)
for _kind, _write in STATEMENTS.items():
    _row(_kind, _write)
_row(scf.ForOp, _Writer.loop)
_row(scf.IfOp, _Writer.condition)
