"""A decoder that was exported without a cache keeps keys and values, and takes tokens in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CacheReadOp,
    CacheStepOp,
    CacheWriteOp,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    SizeBoundOp,
    SliceAttr,
    VariableOp,
)
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.provenance import Provenance, provenance_of, set_provenance
from openinfer.lowering.graph.imports.token_axes import TokenAxes
from openinfer.lowering.graph.imports.uses import Uses, kind, settings_of, written_settings
from openinfer.lowering.program.call_names import around
from openinfer.lowering.program.nodes import describe
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class AddCache(ModulePass):
    """Gives a causal decoder tables of keys and values: a step takes the tokens that are new.

    Before:
        graph.op rope(k) -> (r) settings {heads = 2}
        graph.op attention(q, r, v) -> (a) settings {causal = true, heads = 2}
    After:
        graph.op iota() -> (i) settings {shape = [L]}
        graph.op add(i, step) -> (places)
        graph.op rope(k, places) -> (r) settings {heads = 2}
        graph.cache_write r -> K[l, step..step + L]
        graph.cache_read K[l, 0..step + L] -> keys                      // values alike
        graph.op attention(q, keys, values) -> (a) settings {causal = true, heads = 2}
        graph.cache_step step by L

    Requires: level `graph`, `merge-heads`; at best `roll-layers`, whose loop becomes an index of the tables.
    Leaves: nothing of a program that it refuses (OI1580): one where tokens know of each other but through
        causal attention. Sequences of a batch would have lengths of their own, so the batch becomes 1.
    """

    name: ClassVar[str] = "add-cache"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        length = _single_batch(op)
        editor = Editor(op)
        axes = _understood(editor.uses, length)
        entry = next(block for block in editor.uses.blocks())
        _State(editor, entry, length, editor.fresh("step")).add(axes)


def _refuse(reasons: list[str]) -> UnsupportedError:
    return UnsupportedError(
        "OI1580",
        "\n".join(["this model cannot be given a cache", *(f"  {one}" for one in reasons)]),
        hint="import it without `stateful`: it takes all tokens at once",
    )


def _single_batch(module: ModuleOp) -> Size:
    """Fixes the batch at 1; gives the number of tokens, a size."""
    uses = Uses(module)
    if len(list(uses.blocks())) != 1:
        raise _refuse(["it branches"])
    lengths: set[Size] = set()
    for op in uses.ops():
        if kind(op) == "attention" and settings_of(op)["causal"]:
            dims = uses.dims(op.inputs.data[0])
            if dims is not None and len(dims) > 1:
                lengths.add(dims[-2])
    if not lengths:
        raise _refuse(["no attention in it is causal"])
    if len(lengths) > 1 or next(iter(lengths)).single_name is None:
        shown = ", ".join(sorted(map(str, lengths)))
        raise _refuse([f"the number of tokens is {shown}, not one dynamic size"])
    length = lengths.pop()
    batch: set[Size] = set()
    for variable in uses.variables.values():
        if variable.memory.data == "dynamic" and length in variable.sizes:
            place = variable.sizes.index(length)
            batch |= {dim for dim in variable.sizes[:place] if dim.constant != 1}
    if any(dim.single_name is None for dim in batch) or len(batch) > 1:
        raise _refuse(["its inputs have a batch that is no dynamic size"])
    if batch:
        name = str(batch.pop())
        for op in module.walk():
            for key, value in op.properties.items():
                op.properties[key] = _with_size(value, {name: 1})
    _widen_bounds(module, length)
    return length


def _widen_bounds(module: ModuleOp, length: Size) -> None:
    """A step takes one token, however many an export asked for; of a batch of 1 nothing is to be said."""
    for op in [op for op in module.body.ops if isinstance(op, SizeBoundOp)]:
        if op.size.data == length and op.high is not None:
            op.properties.pop("low", None)
        elif op.size.data == length or op.size.data.constant is not None:
            op.detach()
            op.erase()


def _with_size(value: Attribute, sizes: Mapping[str, int]) -> Attribute:
    match value:
        case SizeAttr():
            return SizeAttr(value.data.substitute(sizes))
        case NameAttr() if value.data in sizes:
            return SizeAttr.of(sizes[value.data])
        case ArrayAttr():
            return ArrayAttr([_with_size(item, sizes) for item in value])
        case DictionaryAttr():
            return DictionaryAttr({k: _with_size(v, sizes) for k, v in value.data.items()})
        case _:
            return value


def _understood(uses: Uses, length: Size) -> TokenAxes:
    """Where tokens are. Raises UnsupportedError OI1580 with all that stands against a cache."""
    axes = TokenAxes(uses, length)
    for variable in uses.variables.values():
        if variable.memory.data != "constant":
            axes.declare(variable)
    for block in uses.blocks():
        axes.visit(list(block.body.block.ops))
    if axes.refused:
        raise _refuse(list(dict.fromkeys(_told(op, reason) for op, reason in axes.refused)))
    return axes


def _told(op: Operation, reason: str) -> str:
    source = provenance_of(op)
    place = f" at {source.module}" if source.module else ""
    line = f", {source.file}:{source.line}" if source.file else ""
    text = f" in `{describe(op)}`" if isinstance(op, OpOp) else ""
    return f"{reason}{text}{place}{line}"


@dataclass(eq=False)
class _State:
    """What is added to a program."""

    editor: Editor
    entry: BlockOp
    length: Size
    step: str
    places: RefAttr | None = None

    def add(self, axes: TokenAxes) -> None:
        self.declare(self.step, (), (), table=False)
        for op in axes.counts:
            self.count_on(op)
        for op in axes.tables:
            table = op.inputs.data[0]
            new = self.editor.redefine(op, "embedding", [table, self.positions()])
            assert new is not None
        for op in axes.ropes:
            operands = [op.inputs.data[0], self.positions()]
            new = self.editor.redefine(op, "rope", operands, written_settings(op))
            assert new is not None
        for op in axes.attentions:
            self.attend(op)
        end = self.entry.body.block.last_op
        assert isinstance(end, ReturnOp)
        self.insert(CacheStepOp(self.step, self.length), end)

    def positions(self) -> RefAttr:
        """0, 1, … from the first new token on."""
        if self.places is None:
            first = self.entry.body.block.first_op
            assert first is not None
            named = Provenance(variable="positions")
            count = self.editor.insert(first, "iota", [], {"shape": [self.length]}, named)
            start = RefAttr.of(self.step)
            self.places = self.editor.insert(first, "add", [count, start], None, named)
        return self.places

    def count_on(self, op: OpOp) -> None:
        """iota along tokens: as many more as came before"""
        settings = settings_of(op)
        spec = self.editor.uses.spec(op.outputs.data[0])
        assert spec is not None
        if (
            spec.rank == 1
            and spec.dtype == "i64"
            and (settings["start"], settings["step"]) == (0, 1)
        ):
            self.editor.alias(op, self.positions())
            return
        shape = [dim if dim == self.length else Size.of(1) for dim in spec.dims]
        value = self.editor.insert(op, "reshape", [self.positions()], {"shape": shape})
        if settings["step"] != 1:
            value = self.editor.insert(op, "mul", [value, literal(settings["step"])])
        if settings["start"] != 0:
            value = self.editor.insert(op, "add", [value, literal(settings["start"])])
        if spec.dtype != "i64":
            value = self.editor.insert(op, "cast", [value], {"to": spec.dtype})
        self.editor.redefine(op, "expand", [value], {"shape": spec.dims})

    def attend(self, op: OpOp) -> None:
        """attention(q, k, v): the rows of k and v go into tables, and all rows so far are attended to"""
        uses, index = self.editor.uses, _loop_index(op)
        q, *others = op.inputs.data
        shape = list(uses.dims(q) or ())
        operands: list[RefAttr] = []
        for operand, stem in zip(others[:2], ("K", "V")):
            spec = uses.spec(operand)
            assert spec is not None
            assert isinstance(operand, RefAttr)
            width = spec.dims[-1]
            rows = operand
            if spec.rank > 2:
                rows = self.editor.insert(op, "reshape", [operand], {"shape": [self.length, width]})
            table = self.editor.fresh(stem)
            slots = [] if index is None else [index]
            self.declare(table, (width,), (*slots, "t"), table=True, dtype=spec.dtype)
            here = [SizeAttr.of(Size.name(one)) for one in slots]
            step, end = Size.name(self.step), Size.name(self.step) + self.length
            new = SliceAttr(SizeAttr(step), SizeAttr(end))
            self.insert(CacheWriteOp(rows, RefAttr.of(table, [*here, new])), op)
            every = self.editor.fresh("keys" if stem == "K" else "values")
            self.insert(AssignOp(every, spec.dtype, (end, width)), op)
            whole = SliceAttr(SizeAttr(Size.of(0)), SizeAttr(end))
            self.insert(CacheReadOp(RefAttr.of(table, [*here, whole]), RefAttr.of(every)), op)
            operands.append(RefAttr.of(every))
        given = written_settings(op)
        if len(shape) == 2:
            self.editor.redefine(op, "attention", [q, *operands], given)
            return
        query = self.editor.insert(op, "reshape", [q], {"shape": [self.length, shape[-1]]})
        found = self.editor.insert(op, "attention", [query, *operands], given)
        result = uses.dims(op.outputs.data[0]) or ()
        self.editor.redefine(op, "reshape", [found], {"shape": result})

    def declare(
        self,
        name: str,
        dims: tuple[Size, ...],
        indices: tuple[str, ...],
        *,
        table: bool,
        dtype: str = "i64",
    ) -> None:
        options: dict[str, Attribute] = {"table": UnitAttr()} if table else {}
        declared = VariableOp(name, "persistent", dtype, dims, indices, options)
        self.insert(declared, self.entry)

    def insert(self, op: Operation, before: Operation) -> None:
        block = before.parent
        assert block is not None
        set_provenance(op, provenance_of(before))
        block.insert_op_before(op, before)
        self.editor.uses.add(op)


def _loop_index(op: OpOp) -> str | None:
    """The index of the loop around an op."""
    return next((outer.index.data for outer in around(op) if isinstance(outer, LoopOp)), None)
