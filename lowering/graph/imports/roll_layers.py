"""Equal layers, one behind the other, become a loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    LiteralAttr,
    LoopOp,
    OpOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.families import INDEX, Families
from openinfer.lowering.graph.imports.find_layers import Run, find_run, number_behind, steps_of
from openinfer.lowering.graph.imports.lines import Lines, Reading, lines_saved, replaced
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.names_of import (
    all_ops,
    fresh,
    mapped,
    read_names,
    taken_names,
)
from openinfer.lowering.graph.imports.notes import note
from openinfer.lowering.graph.imports.provenance import provenance_of, set_provenance
from openinfer.lowering.graph.imports.tensors import tensors
from openinfer.lowering.operations import take_body
from openinfer.lowering.program.sources import member_name, package_name
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import to_storage

CARRIED = "h"
"""What a loop hands from layer to layer, until it has a better name."""


@dataclass(frozen=True)
class RollLayers(ModulePass):
    """Equal layers, one behind the other, become a loop; their weights become families.

    Before:
        graph.op linear(x, layer_0_w) -> (a)    // layer_0_w: @ref("layer.0.w")
        graph.op linear(a, layer_1_w) -> (b)
        graph.op linear(b, layer_2_w) -> (c)
    After:
        graph.transfer x -> h
        graph.loop layers l in 0 to 3 {
          graph.op linear(h, layer_w[l]) -> (c)    // layer_w(l): @pattern("layer.{l}.w")
          graph.transfer c -> h
        }

    Requires: an imported program in which each temporary is written once.
    Leaves: layers that differ in an op, a setting or a shape, or whose inner values others read; with
        `noted` the reason is in the report. What a loop carries is copied: `reuse-names` writes in place.
        A program that would compute anything else than before is left as it was.
    """

    name: ClassVar[str] = "roll-layers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rolled = op.clone()
        held = dict(tensors())
        literals = _roll(rolled)
        if literals is None:
            return
        names = {id(value): name for name, value in held.items()}
        moved = {
            name: names[id(value)]
            for name, value in tensors().items()
            if name not in held and id(value) in names
        }
        if not same_program(op, rolled, moved, literals):
            tensors().clear()
            tensors().update(held)
            note(
                "layers are not rolled: the loops could not be proven equal to what they stand for"
            )
            return
        take_body(op, rolled)


def _roll(module: ModuleOp) -> dict[str, str] | None:
    """Rolls what it finds: the numbers that became tensors, by their names; None where it finds nothing."""
    found: dict[str, str] | None = None
    refused: set[Operation] = set()
    while (lines := Lines.of(module, refused)) is not None:
        run = find_run(lines)
        if run is None:
            break
        roller = _Roller(module, lines, run)
        if roller.roll():
            found = {**(found or {}), **roller.literals}
        else:
            refused |= {line.op for line in lines.lines[run.start : run.stop]}
    return found


class _Roller:
    """Makes one loop."""

    def __init__(self, module: ModuleOp, lines: Lines, run: Run) -> None:
        self._module = module
        self._lines = lines
        self._run = run
        self._taken = taken_names(module)
        self._families = Families(lines, self._taken)
        self._carried: dict[tuple[int, int], str] = {}
        self.literals: dict[str, str] = {}
        """Numbers that differ from layer to layer, by the tensors that they became."""

    def roll(self) -> bool:
        """False where weights have no names that a family could have."""
        run, lines = self._run, self._lines
        plan = self._plan()
        if plan is None:
            return False
        start, index = self._range(plan)
        layer = index - start
        for key in run.initial:
            self._carried[key] = fresh(CARRIED, self._taken)
        body: list[Operation] = []
        for j in range(run.period):
            line = lines.lines[run.place(run.count - 1, j)]
            readings = [self._reading(j, k, plan, layer) for k in range(len(line.readings))]
            for name in line.writes:
                if name in lines.assigns:
                    body.append(lines.assigns[name].clone())
            op = line.op.clone()
            replaced(readings, op)
            _leave_number(op, run.prefix)
            body.append(op)
        for (j, result), name in self._carried.items():
            value = lines.lines[run.place(run.count - 1, j)].writes[result]
            body.append(_at(TransferOp(RefAttr.of(value), RefAttr.of(name)), body[-1]))
        loop = LoopOp(self._label(), INDEX, start, start + run.count, body)
        place = provenance_of(lines.lines[run.start].op)
        set_provenance(loop, replace(place, module=run.prefix.rstrip("."), kind="", variable=""))
        self._insert(loop)
        self._use_families()
        saved = lines_saved(lines, run.start, run.period, run.count)
        what = f"`{run.prefix}{{{INDEX}}}`" if run.prefix else "equal statements"
        note(
            f"rolled {what}: {run.count} layers of {run.period} statements "
            f"became one loop, {saved} lines less"
        )
        return True

    # What differs from layer to layer

    def _plan(self) -> dict[tuple[int, int], list[str]] | None:
        """The constants that a family stands for, by line and operand; None where there is none."""
        run, lines = self._run, self._lines
        found: dict[tuple[int, int], list[str]] = {}
        nameless: list[tuple[int, list[str]]] = []
        numbers: dict[tuple[int, int], list[LiteralAttr]] = {}
        for j in range(run.period):
            for k, reading in enumerate(lines.lines[run.place(0, j)].readings):
                history = [lines.lines[run.place(i, j)].readings[k] for i in range(run.count)]
                if isinstance(reading, LiteralAttr):
                    if any(one != reading for one in history):
                        if self._literal_dtype(j, k) is None:
                            return None
                        numbers[j, k] = [one for one in history if isinstance(one, LiteralAttr)]
                    continue
                names = [one.variable.data for one in history if isinstance(one, RefAttr)]
                if names[0] not in lines.constants or len(set(names)) == 1:
                    continue
                found[j, k] = names
                if self._families.find(names) is None:
                    sources = [package_name(lines.constants[name]) for name in names]
                    if any("." in source for source in sources):
                        shown = ", ".join(sources[:3])
                        note(f"layers are not rolled: no family has the weights {shown}, …")
                        return None
                    nameless.append((j, names))
        for j, names in nameless:
            if self._families.find(names) is None:
                if self._families.renamed(names, self._pattern(j)) is None:
                    return None
        for (j, k), literals in numbers.items():
            found[j, k] = self._scalars(j, k, literals)
        return found

    def _pattern(self, j: int) -> str:
        """A pattern for tensors whose names come from the importer, not from a model."""
        run, lines = self._run, self._lines
        path = lines.lines[run.place(0, j)].module
        number = number_behind(path, run.prefix) if run.prefix else None
        inner = path[len(f"{run.prefix}{number}") :] if number is not None else ""
        stem = f"{run.prefix or 'layer.'}{{{INDEX}}}{inner}"
        used = {package_name(op) for op in lines.variables.values()} | set(tensors())
        count = 1
        while any(
            f"{stem}.c{count}".replace(f"{{{INDEX}}}", str(i)) in used for i in range(run.count)
        ):
            count += 1
        return f"{stem}.c{count}"

    def _scalars(self, j: int, k: int, history: Sequence[LiteralAttr]) -> list[str]:
        """Constants for a number that differs from layer to layer."""
        dtype = self._literal_dtype(j, k)
        assert dtype is not None
        pattern = self._pattern(j)
        names: list[str] = []
        for layer, one in enumerate(history):
            ref = member_name(pattern, {INDEX: layer})
            tensors()[ref] = to_storage(DTYPES[dtype], np.asarray(one.number))
            self.literals[ref] = one.text
            name = fresh("number", self._taken)
            declared = VariableOp(name, "constant", dtype, (), (), {"ref": StringAttr(ref)})
            first = next(iter(self._module.body.ops))
            Rewriter.insert_op(declared, InsertPoint.before(first))
            self._lines.constants[name] = self._lines.variables[name] = declared
            names.append(name)
        return names

    def _literal_dtype(self, j: int, k: int) -> str | None:
        """The dtype of a number among operands; None where no tensor may stand for it."""
        op = self._lines.lines[self._run.place(0, j)].op
        spec = opset.find(op.op_name.data) if isinstance(op, OpOp) else None
        if spec is None or not isinstance(op, OpOp):
            return None
        dtypes: list[str | None] = []
        for operand in op.inputs:
            if isinstance(operand, LiteralAttr):
                dtypes.append(None)
                continue
            name = operand.variable.data
            if name in self._lines.types:
                dtypes.append(self._lines.types[name][0])
            elif name in self._lines.variables:
                dtypes.append(self._lines.variables[name].dtype.data)
            else:
                return None
        found = opset.literal_dtypes(spec, dtypes)[k]
        return None if DTYPES[found].packed or found == "bool" else found

    # The loop

    def _range(self, plan: dict[tuple[int, int], list[str]]) -> tuple[int, Size]:
        """Where the index begins: at the number of the first layer where all families do."""
        starts = {
            (family.start, family.step)
            for names in plan.values()
            if (family := self._families.find(names)) is not None
        }
        start = 0
        if len(starts) == 1 and (only := next(iter(starts)))[1] == 1:
            start = only[0]
        return start, Size.name(INDEX)

    def _reading(
        self, j: int, k: int, plan: dict[tuple[int, int], list[str]], layer: Size
    ) -> Reading:
        run, lines = self._run, self._lines
        kind, what = run.relations[j][k]
        if (j, k) in plan:
            names = plan[j, k]
            family = self._families.find(names)
            assert family is not None
            return self._families.use(names, family, layer)
        if kind == "carried":
            assert isinstance(what, tuple)
            return RefAttr.of(self._carried[what])  # pyright: ignore[reportUnknownArgumentType]
        history = [lines.lines[run.place(i, j)].readings[k] for i in range(run.count)]
        steps = steps_of(history)
        last = history[-1]
        if isinstance(last, RefAttr) and steps and any(steps):
            assert isinstance(history[0], RefAttr)
            return _indexed(history[0], steps, layer)
        return last

    def _insert(self, loop: LoopOp) -> None:
        run, lines = self._run, self._lines
        first = lines.lines[run.start].op
        point = first
        # Declarations of what the first line writes stand in front of it.
        while isinstance(point.prev_op, AssignOp):
            point = point.prev_op
        for key, name in self._carried.items():
            dtype, dims = lines.types[lines.lines[run.place(run.count - 1, key[0])].writes[key[1]]]
            initial = run.initial[key]
            assert isinstance(initial, RefAttr)
            for op in (AssignOp(name, dtype, dims), TransferOp(initial, RefAttr.of(name))):
                Rewriter.insert_op(_at(op, first), InsertPoint.before(point))
        Rewriter.insert_op(loop, InsertPoint.before(point))
        self._read_carried()
        for place in range(run.start, run.stop):
            line = lines.lines[place]
            for name in line.writes:
                if name in lines.assigns:
                    lines.assigns[name].detach()
                    lines.assigns[name].erase()
            line.op.detach()
            line.op.erase()

    def _read_carried(self) -> None:
        """What stands behind the loop reads what it carried, not what its last layer made."""
        last = [
            (self._lines.lines[self._run.place(self._run.count - 1, j)].writes[result], name)
            for (j, result), name in self._carried.items()
        ]
        names = {made: name for made, name in last if made not in self._lines.escaping}
        for line in self._lines.lines[self._run.stop :]:
            for key, value in list(line.op.properties.items()):
                if key not in ("outputs", "target", "variables"):
                    renamed = mapped(
                        value, lambda n: names.get(n, n), lambda size: size, lambda n: n
                    )
                    line.op.properties[key] = renamed

    def _use_families(self) -> None:
        """Constants that are members now are used as such everywhere, and declared no more."""
        members = self._families.members
        if not members:
            return
        for op in list(all_ops(self._module)):
            if isinstance(op, VariableOp):
                continue
            for key, value in list(op.properties.items()):
                op.properties[key] = _with_members(value, members)
        still = {name for op in self._module.body.ops if op.regions for name in read_names(op)}
        for name in members:
            if name not in still:
                op = self._lines.constants[name]
                op.detach()
                op.erase()

    def _label(self) -> str:
        """`encoder.layer.` is `layers`, `transformer.h.` as well, `blocks.` is `blocks`."""
        word = re.sub(r"[^A-Za-z0-9_]", "_", self._run.prefix.rstrip("._").rpartition(".")[2])
        if len(word) < 2 or word[0].isdigit():
            word = "layers"
        labels = {op.loop_name.data for op in all_ops(self._module) if isinstance(op, LoopOp)}
        several = word if word.endswith("s") or word[-1].isdigit() else f"{word}s"
        return fresh(several, labels)


def _at(op: Operation, other: Operation) -> Operation:
    """The op, as coming from where another does."""
    op.location = other.location
    return op


def _leave_number(op: Operation, prefix: str) -> None:
    """What comes from `layer.5.norm` comes from `layer.{l}.norm` in a loop."""
    provenance = provenance_of(op)
    number = number_behind(provenance.module, prefix) if prefix else None
    if number is not None:
        rest = provenance.module[len(f"{prefix}{number}") :]
        set_provenance(op, replace(provenance, module=f"{prefix}{{{INDEX}}}{rest}"))


def _indexed(first: RefAttr, steps: Sequence[int], layer: Size) -> RefAttr:
    """The use in the loop of what the first layer uses so."""
    left = iter(steps)

    def moved(value: Attribute) -> Attribute:
        step = next(left)
        return SizeAttr(value.data + layer * step) if isinstance(value, SizeAttr) else value

    slots: list[Attribute] = []
    for slot in first.indices:
        match slot:
            case SliceAttr():
                slots.append(SliceAttr(moved(slot.start), moved(slot.stop)))
            case _:
                slots.append(moved(slot))
    return RefAttr.of(first.variable.data, slots, bracketed=True)


def _with_members(value: Attribute, members: dict[str, RefAttr]) -> Attribute:
    match value:
        case RefAttr() if value.variable.data in members and not value.indices.data:
            return members[value.variable.data]
        case ArrayAttr():
            return ArrayAttr([_with_members(item, members) for item in value])
        case _:
            return value
