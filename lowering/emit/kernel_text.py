"""The text of one kernel: what its invocations do, statement by statement.

A value that is used once is written where it is used, unless something in between could change it; others
become variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects import arith, gpu, memref, scf, vector
from xdsl.dialects.builtin import DenseArrayBase, MemRefType, VectorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from openinfer.dialects.extensions.gpu import OF_DEVICE, ShuffleOp, SubgroupMmaStoreMatrixOp
from openinfer.dialects.extensions.gpu_tensors import MatrixYieldOp, TensorStoreOp
from openinfer.dialects.extensions.memref import AtomicRMWOp
from openinfer.lowering.emit.expressions import Expression, call, component, name
from openinfer.lowering.emit.memory_text import STATEMENTS as OF_MEMORY
from openinfer.lowering.emit.memory_text import packed, unpacked
from openinfer.lowering.emit.operations import ROWS, TWICE, constant, hint_of
from openinfer.lowering.emit.shader import Buffer, Shader, no_text
from openinfer.lowering.emit.tensors import ROLLED, is_of_tensors, last_of
from openinfer.lowering.emit.tensors import STATEMENTS as OF_TENSORS
from openinfer.lowering.emit.together_text import STATEMENTS as OF_TOGETHER
from openinfer.lowering.emit.types import is_float
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
        return packed(self, value) if isinstance(value.type, VectorType) else self.use(value)

    def take(self, op: Operation, values: Sequence[SSAValue], kept: Sequence[Expression]) -> None:
        """Gives values the variables that are kept for them."""
        for value, variable in zip(values, kept, strict=True):
            if not isinstance(value.type, VectorType):
                self.values[value] = variable
            elif value.uses.get_length():
                unpacked(self, op, value, variable)

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


def _is_only_start(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether nobody but a loop beside it looks at a variable, so that the loop may go on with it."""
    owner = value.owner
    beside = owner is loop.parent
    if isinstance(owner, scf.ForOp | scf.IfOp):
        beside = owner.parent is loop.parent
    return beside and value.uses.get_length() == 1


_STATEMENTS: dict[type[Operation], Callable[..., None]] = {
    **OF_MEMORY,
    **OF_TOGETHER,
    **OF_TENSORS,
    scf.ForOp: _Writer.loop,
    scf.IfOp: _Writer.condition,
}
"""How each op that reads or writes memory, or has regions, is written."""
