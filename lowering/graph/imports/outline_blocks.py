"""Statements that occur in several places with other weights become blocks with parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CallOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    VariableOp,
)
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.graph.imports.block_parameters import (
    Parameters,
    parameters_of,
)
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.names_of import (
    entry_of,
    fresh,
    read_names,
    rename_in,
    taken_names,
    written_names,
)
from openinfer.lowering.graph.imports.notes import note
from openinfer.lowering.graph.imports.provenance import set_provenance
from openinfer.lowering.graph.imports.stretches import Alike, Statements, Type
from openinfer.lowering.graph.imports.words import component, joined, op_word, path_words
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.operations import take_body
from openinfer.lowering.program.check_calls import without_calls
from openinfer.lowering.program.sources import package_name, pattern_of
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.sizes import Size

_LEAST = 4
"""Lines that a block saves, or more."""
_LEAST_OF_TWO = 10
"""The same of a block that two places call: one has to look it up to read either."""
_FEW = 3
"""A block with fewer statements is worth it where more places call it."""
_MOST_BLOCKS = 16
_TRIED = 60
"""So many stretches are looked at for each block."""
_CLASS, _PART = 1.15, 0.5
"""How much lines count that a block saves which is a class of the model, or calls blocks and is none."""
_STATES = ("normalise", "rotary", "convolution")
"""Families of ops whose result is the operand in another state, beside those that may overwrite it."""


@dataclass(frozen=True)
class OutlineBlocks(ModulePass):
    """Statements that occur in several places with other weights become one block with parameters.

    Before:
        graph.op conv2d(x, a_w) -> (a) settings {stride = 2 : i64}
        graph.op relu(a) -> (b)
        graph.op conv2d(b, c_w) -> (c)
        graph.op relu(c) -> (d)
    After:
        graph.block conv_relu(x, path, stride) defaults {stride = 1 : i64} {
          graph.variable w constant f32 [_, _, 3, 3] {ref = "{path}.weight"}
          graph.op conv2d(x, w) -> (h) settings {stride = #graph.name<stride>}
          graph.op relu(h) -> (y)
          graph.return y
        }
        graph.call conv_relu(x, "a") -> (b) settings {stride = 2 : i64}
        graph.call conv_relu(b, "c") -> (d)

    Requires: an imported program in which each temporary is written once, or carried by one loop.
    Leaves: states and what reads them; stretches that are wired otherwise, give more than two values, need
        more than three paths or six settings, or end in the middle of a module. What saves fewer than four
        lines, ten where two places call it. A program that would compute anything else than before is left
        as it was.
    """

    name: ClassVar[str] = "outline-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outlined = op.clone()
        types: dict[str, Type] = {}
        notes: list[str] = []
        while len(notes) < _MOST_BLOCKS and (said := _outline(outlined, types)) is not None:
            notes.append(said)
        if not notes:
            return
        for block in outlined.body.ops:
            if isinstance(block, BlockOp) and block.parameters is not None:
                _reuse_names(block, types)
        _drop_unused(op, outlined)
        if not _means_the_same(op, outlined):
            note("equal statements are not blocks: the program could not be proven equal to before")
            return
        for said in notes:
            note(said)
        take_body(op, outlined)


def _outline(module: ModuleOp, types: dict[str, Type]) -> str | None:
    """Makes the block that saves most lines; what it was, None where there is none."""
    if entry_of(module) is None:
        return None
    program = Statements.of(module, types)
    best: tuple[float, int, Parameters] | None = None
    for tried, (length, starts) in enumerate(program.candidates()):
        if tried >= _TRIED or (
            best is not None and _CLASS * _most(program, length, starts) <= best[0]
        ):
            break
        for alike in program.alike(length, starts):
            found = parameters_of(program, alike)
            saved = _saved(program, found) if found is not None else 0
            rank = saved * _weight(program, alike) if saved else 0
            if found is not None and rank > (best[0] if best else 0):
                best = (rank, saved, found)
    if best is None:
        return None
    _, saved, parameters = best
    return _Outliner(program, parameters, types).outline(saved)


def _weight(program: Statements, alike: Alike) -> float:
    """How much a line counts that a block saves: a reader looks for the classes of the model, and not for
    what lies between them and its smallest parts."""
    if _class_of(program, alike):
        return _CLASS
    stretch = program.statements[alike.starts[0] :][: alike.length]
    return _PART if any(isinstance(one.op, CallOp) for one in stretch) else 1


def _most(program: Statements, length: int, starts: Sequence[int]) -> int:
    """Lines that stretches can save at most."""
    each = sum(one.lines for one in program.statements[starts[0] : starts[0] + length])
    return (len(starts) - 1) * each


def _saved(program: Statements, found: Parameters) -> int:
    """Lines that are fewer with a block; none where it would be no easier to read."""
    alike = found.alike
    calls = len(alike.starts)
    declared = {slot.name for tensor in found.tensors.values() for slot in tensor.slots}
    own = len(found.declared)
    before = calls * alike.length + len(declared)
    after = calls + alike.length + 4 + (own + 3 if own else 0)
    saved = before - after
    if (alike.length < _FEW and calls <= _FEW) or _is_odd(program, alike):
        return 0
    return saved if saved >= (_LEAST if calls > 2 else _LEAST_OF_TWO) else 0


def _is_odd(program: Statements, alike: Alike) -> bool:
    """Whether stretches call blocks, but are no modules although the model has some: odd to read."""
    stretch = program.statements[alike.starts[0] :][: alike.length]
    if not any(isinstance(one.op, CallOp) for one in stretch):
        return False
    named = any(one.provenance.module for one in stretch)
    whole = [path for path, _ in _modules(program, alike) if path]
    return named and len(whole) * 2 <= len(alike.starts)


def _modules(program: Statements, alike: Alike) -> list[tuple[str, str]]:
    """The module that each stretch is all of, and its class."""
    paths = [program.module_of(start, alike.length) for start in alike.starts]
    return [
        (path, program.class_at(path, start, alike.length) if path else "")
        for path, start in zip(paths, alike.starts)
    ]


def _class_of(program: Statements, alike: Alike) -> str:
    """The class of the modules that most stretches are all of."""
    kinds = Counter(kind for _, kind in _modules(program, alike))
    (kind, count), *_ = kinds.most_common(1)
    return kind if count * 2 > len(alike.starts) else ""


def _part_of(program: Statements, alike: Alike) -> str:
    """What the modules are called that most stretches are all of: `attention` of `layers.3.attention`."""
    words = Counter(
        component(re.sub(r"\d+$", "", path.rpartition(".")[2])) if path else ""
        for path, _ in _modules(program, alike)
    )
    (word, count), *_ = words.most_common(1)
    return word if count * 2 > len(alike.starts) and word != "v" else ""


class _Outliner:
    """Makes one block."""

    def __init__(self, program: Statements, found: Parameters, types: dict[str, Type]) -> None:
        self._program = program
        self._found = found
        self._alike = found.alike
        self._types = types
        self._module = program.module
        self._taken = taken_names(self._module)
        self._values = {names: fresh("x", self._taken) for names in found.values}

    def outline(self, saved: int) -> str:
        alike = self._alike
        name = self._name()
        block = self._block(name)
        self._note_types(block)
        for number, start in enumerate(alike.starts):
            self._call(name, number, start)
        first = next(op for op in self._module.body.ops if isinstance(op, BlockOp))
        Rewriter.insert_op(block, InsertPoint.before(self._before(first)))
        calls = len(alike.starts)
        return f"outlined block `{name}`: called {calls} times, {saved} lines less"

    def _before(self, first: BlockOp) -> BlockOp:
        """Blocks stand in front of those that call them."""
        bodies = set[Operation]()
        for start in self._alike.starts:
            body: Operation | None = self._program.statements[start].body
            while body is not None and not isinstance(body, BlockOp):
                body = body.parent_op()
            if body is not None:
                bodies.add(body)
        ops = self._module.body.ops
        return next((op for op in ops if isinstance(op, BlockOp) and op in bodies), first)

    # Names

    def _name(self) -> str:
        """That of the module's class, else of its ops."""
        alike, program = self._alike, self._program
        kind = _class_of(program, alike)
        word = component(kind) if kind else _part_of(program, alike)
        if not word or (not kind and word in {*program.blocks, *self._taken}):
            words: list[str] = []
            for one in program.statements[alike.starts[0] :][: alike.length]:
                match one.op:
                    case OpOp():
                        words.append(op_word(one.op.op_name.data))
                    case CallOp():
                        words.append(one.op.block_name.data)
                    case _:
                        pass
            word = joined(list(dict.fromkeys(words))[:3])
        taken = {*program.blocks, *self._taken}
        if word in taken:
            for extra in self._own_words():
                if f"{word}_{extra}" not in taken:
                    return f"{word}_{extra}"
        return fresh(word, taken)

    def _own_words(self) -> list[str]:
        """Words of the tensors that this block names, but others do not."""
        others: set[str] = set()
        for block in self._program.blocks.values():
            if block.parameters is not None:
                for op in block.walk():
                    others |= set(_texts(op))
        mine = [*self._found.filled.values(), *(t.text for t in self._found.tensors.values())]
        known = {word for text in others for word in path_words(text.partition("}")[2])}
        found: list[str] = []
        for text in mine:
            for word in path_words(text.partition("}")[2].rpartition(".")[0]):
                clean = word.rstrip("0123456789_")
                if word not in known and clean and clean not in found:
                    found.append(clean)
        return found

    # The block

    def _block(self, name: str) -> BlockOp:
        found, alike = self._found, self._alike
        constants: dict[tuple[str, ...], str] = {}
        body: list[Operation] = []
        for texts, places in found.declared.items():
            constants[texts] = fresh("w", self._taken)
            body.append(self._constant(constants[texts], places[0]))
        for number in range(alike.length):
            body.append(self._statement(number, constants))
        first = self._program.statements[alike.starts[0] :][: alike.length]
        body.append(ReturnOp([first[number].results[place] for number, place in alike.results]))
        parameters = [*self._values.values(), *found.texts.values()]
        defaults: dict[str, Attribute] = {}
        for key, parameter in found.settings.items():
            if (default := found.default(key)) is not None:
                defaults[parameter] = default
        ordered = sorted(found.settings.values(), key=lambda one: one in defaults)
        return BlockOp(name, body, None, [*parameters, *ordered], defaults)

    def _constant(self, name: str, place: tuple[int, int]) -> VariableOp:
        tensor = self._found.tensors[place]
        ops = [self._program.variables[slot.name] for slot in tensor.slots]
        dims = [
            sizes[0] if len(set(sizes)) == 1 else Size.name(OPEN)
            for sizes in zip(*(op.sizes for op in ops))
        ]
        options = {k: v for k, v in ops[0].options.data.items() if k != "pattern"}
        options["ref"] = StringAttr(tensor.text)
        return VariableOp(name, "constant", ops[0].dtype.data, dims, (), options)

    def _statement(self, number: int, constants: Mapping[tuple[str, ...], str]) -> Operation:
        """The first stretch's, with parameters where others have something else."""
        found, alike = self._found, self._alike
        one = self._program.statements[alike.starts[0] + number]
        op = one.op.clone()
        assert isinstance(op, OpOp | CallOp)
        inputs: list[Attribute] = list(op.inputs)
        settings = dict(op.settings.data)
        renamed = dict(zip((f"x{i}" for i in range(len(self._values))), self._values.values()))
        for slot_number, slot in enumerate(one.slots):
            place = (number, slot_number)
            if slot.kind == "setting":
                if place in found.uses:
                    settings[slot.name] = NameAttr(found.uses[place])
            elif place in found.tensors:
                texts = next(t for t, places in found.declared.items() if place in places)
                inputs[slot_number] = RefAttr.of(constants[texts])
            elif place in found.filled:
                inputs[slot_number] = StringAttr(found.filled[place])
            elif place in found.uses:
                name = found.uses[place]
                inputs[slot_number] = RefAttr.of(renamed.get(name, name))
        op.properties["inputs"] = ArrayAttr(inputs)
        op.properties["settings"] = DictionaryAttr(settings)
        return op

    def _note_types(self, block: BlockOp) -> None:
        """What the block's values are, in all the places that call it."""
        program, alike = self._program, self._alike
        for names, parameter in self._values.items():
            self._types[parameter] = _merged([program.types[name] for name in names])
        for number in range(alike.length):
            columns = [program.statements[start + number].results for start in alike.starts]
            for names in zip(*columns):
                self._types[names[0]] = _merged([program.types[name] for name in names])

    # Calls

    def _call(self, name: str, number: int, start: int) -> None:
        """Puts a call in the place of a stretch."""
        found, alike, program = self._found, self._alike, self._program
        stretch = program.statements[start : start + alike.length]
        inputs: list[Attribute] = [RefAttr.of(names[number]) for names in found.values]
        inputs += [StringAttr(texts[number]) for texts in found.texts]
        settings: dict[str, Attribute] = {}
        for key, parameter in found.settings.items():
            value = key[1][number]
            assert isinstance(value, Attribute)
            if value != found.default(key):
                settings[parameter] = value
        outputs = [stretch[j].results[place] for j, place in alike.results]
        call = CallOp(name, inputs, [RefAttr.of(one) for one in outputs], settings)
        last = stretch[-1].provenance
        path = program.module_of(start, alike.length)
        kind = program.class_at(path, start, alike.length) if path else ""
        path = path or program.path(start, alike.length)
        set_provenance(
            call,
            replace(last, module=path, kind=kind, call=name),
        )
        Rewriter.insert_op(call, InsertPoint.before(stretch[-1].op))
        gone = {result for one in stretch for result in one.results} - {*outputs}
        for op in list(self._module.walk()):
            if isinstance(op, AssignOp) and op.variable.data in gone:
                op.detach()
                op.erase()
        for one in stretch:
            one.op.detach()
            one.op.erase()


def _means_the_same(before: ModuleOp, after: ModuleOp) -> bool:
    try:
        return same_program(before, _without_blocks(after, before))
    except ProgramError:
        return False


def _without_blocks(module: ModuleOp, before: ModuleOp) -> ModuleOp:
    """The program without calls, whose constants have the shapes that they had before."""
    shapes: dict[str, ArrayAttr[SizeAttr]] = {}
    program = Statements.of(before, {})
    for one in program.statements:
        for slot in one.slots:
            if slot.kind == "tensor":
                shapes[str(slot.value)] = program.variables[slot.name].dims
    plain = without_calls(module)
    for op in plain.body.ops:
        if isinstance(op, VariableOp):
            text = pattern_of(op) or package_name(op)
            if text in shapes and any(dim.single_name == OPEN for dim in op.sizes):
                op.properties["dims"] = shapes[text]
    return with_types(plain, None, {})


def _merged(types: Sequence[Type]) -> Type:
    """What one name of a block stands for in each of several places."""
    first = types[0]
    same = len({one.dims for one in types}) == 1
    return Type(first.dtype, first.rank, first.dims if same else tuple(one.dims for one in types))


def _texts(op: Operation) -> list[str]:
    """The names of tensors that a statement or declaration says."""
    match op:
        case VariableOp():
            ref = op.option("ref")
            return [ref.data] if isinstance(ref, StringAttr) else []
        case CallOp():
            return [value.data for value in op.inputs if isinstance(value, StringAttr)]
        case _:
            return []


# Behind all blocks


def _reuse_names(block: BlockOp, types: Mapping[str, Type]) -> None:
    """A value of a block that is needed no more gives its name to what is made of it."""
    ops = [op for op in block.body.block.ops if not isinstance(op, VariableOp)]
    own = {name for op in ops for name in written_names(op)}
    for number, op in enumerate(ops):
        if not isinstance(op, OpOp | CallOp) or len(op.outputs.data) != 1 or not _changes(op):
            continue
        (result,) = written_names(op)
        later = {name for one in ops[number + 1 :] for name in read_names(one)}
        if isinstance(ops[-1], ReturnOp):
            later |= set(ops[-1].names)
        for name in [ref.variable.data for ref in op.reads()]:
            if name in own and name not in later and types[name] == types[result]:

                def renamed(one: str, old: str = result, new: str = name) -> str:
                    return new if one == old else one

                for one in ops[number:]:
                    rename_in(one, renamed, lambda size: size)
                break


def _changes(op: OpOp | CallOp) -> bool:
    """Whether an op makes another state of its operand, rather than another thing."""
    if isinstance(op, CallOp):
        return True
    spec = opset.find(op.op_name.data)
    return spec is not None and (spec.inplace or spec.family in _STATES)


def _drop_unused(before: ModuleOp, after: ModuleOp) -> None:
    """Constants that the program used, and now only its blocks declare, go."""
    used: set[str] = set()
    for block in after.body.ops:
        if isinstance(block, BlockOp):
            used |= read_names(block)
    was: set[str] = set()
    for block in before.body.ops:
        if isinstance(block, BlockOp):
            was |= read_names(block)
    for op in list(after.body.ops):
        if isinstance(op, VariableOp) and op.memory.data == "constant":
            if op.variable.data in was - used:
                op.detach()
                op.erase()
    for block in after.body.ops:
        if isinstance(block, BlockOp) and block.parameters is not None:
            inside = {
                name
                for op in block.body.block.ops
                if not isinstance(op, VariableOp)
                for name in read_names(op)
            }
            for op in list(block.body.block.ops):
                if isinstance(op, VariableOp) and op.variable.data not in inside:
                    op.detach()
                    op.erase()
