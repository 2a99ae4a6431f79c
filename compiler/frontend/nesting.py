"""Which ops a printed text writes as operands: `h = op add(h, linear(a, W));` for two statements.

A temporary goes into the statement that reads it where a reader loses nothing: it is read once and directly
behind, its name says no more than its op, and the line stays short. Ops nest one deep; a range `x[0..n]`, an
index `x[, 0]` and a read of a table count as none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from openinfer.dialects import graph
from openinfer.lowering.program.liveness import Flow, Names, nodes_of
from openinfer.runtime.sizes import Size

LONGEST = 96
"""Columns of a line with ops as operands: longer ones are read twice."""
LONGEST_OF_TABLES = 144
"""The same where entries of tables alone are operands: each stands for a declaration and a statement."""
MOST = 2
"""So many ops stand in a statement as operands."""
_LANDMARKS = ("attention", "lstm", "gru", "layer_norm", "rms_norm")
"""Ops that a reader looks for: they have statements of their own."""
_Taker = graph.OpOp | graph.CallOp | graph.CacheWriteOp
"""A statement that takes ops as operands."""
_SLICE = {"axis", "start", "stop"}
Nested = dict[Operation, dict[int, Operation]]
"""For each statement the ops that stand in it, by the place of the operand."""
Telling = Callable[[graph.OpOp | graph.CacheReadOp, Operation], bool]
"""Whether the name of a statement's result tells a reader something, beside what reads it."""


def nested_operands(
    module: ModuleOp,
    own: Collection[str],
    telling: Telling,
    length: Callable[[Operation, Nested], int],
) -> Nested:
    """The ops that become operands. `own` are temporaries whose type follows from what is written, `length`
    is that of a statement's line."""
    blocks = {op.block_name.data: op for op in module.body.ops if isinstance(op, graph.BlockOp)}
    flow = Flow(blocks)
    nested: Nested = {}
    for block in blocks.values():
        if any(isinstance(op, graph.YieldOp | graph.AwaitOp) for op in block.walk()):
            continue
        # What other blocks name they may read when this one has returned.
        plain = block.parameters is None
        sharing = [one for one in blocks.values() if plain and one.parameters is None]
        others = [op for one in sharing if one is not block for op in one.walk()]
        left = frozenset(ref.variable.data for op in others for ref in _reads(op))
        left |= {name for op in block.walk() if isinstance(op, graph.ReturnOp) for name in op.names}
        # Nothing declares temporaries of a block with parameters.
        inside = frozenset(own) if plain else frozenset(_written(block))
        chooser = _Chooser(flow, inside, telling, length, nested)
        chooser.body(nodes_of(block), left, left)
    return nested


@dataclass
class _Chooser:
    flow: Flow
    own: Names
    telling: Telling
    length: Callable[[Operation, Nested], int]
    nested: Nested

    def body(self, nodes: Sequence[Operation], after: Names, left: Names) -> None:
        shown: list[Operation] = []
        for op, behind in zip(nodes, self.flow.live_behind_each(nodes, after, left)):
            if isinstance(op, graph.AssignOp):
                continue
            if isinstance(op, graph.LoopOp | graph.ScopeOp):
                inner = nodes_of(op)
                again = self.flow.live_before(inner, behind, left)
                self.body(inner, behind | again, left)
            elif isinstance(op, graph.OpOp | graph.CallOp | graph.CacheWriteOp):
                self.statement(op, shown, behind)
            shown.append(op)

    def statement(self, op: _Taker, shown: list[Operation], behind: Names) -> None:
        """Takes what stands directly in front of a statement into it."""
        if isinstance(op, graph.OpOp | graph.CallOp):
            behind -= {ref.variable.data for ref in op.outputs}
        found = self._candidates(op, shown, behind)
        groups: dict[str, dict[int, Operation]] = {}
        for place, one in found.items():
            groups.setdefault(_kind(one), {})[place] = one
        for group in groups.values():
            chosen = {**self.nested.get(op, {}), **group}
            if self._fits(op, chosen) and not self._clashes(chosen, shown):
                self.nested[op] = chosen
        for one in self.nested.get(op, {}).values():
            shown.remove(one)

    def _candidates(
        self, op: _Taker, shown: Sequence[Operation], behind: Names
    ) -> dict[int, Operation]:
        """What stands in front and is read by the statement alone, by the place of the operand."""
        operands = [op.source] if isinstance(op, graph.CacheWriteOp) else list(op.inputs)
        everywhere = [ref.variable.data for ref in _reads(op)]
        found: dict[int, Operation] = {}
        passed: set[str] = set()
        """What is read between, or written."""
        only_tables = False
        for one in reversed(shown):
            if isinstance(one, graph.CacheWriteOp):
                # A read of another table may stand before it.
                only_tables = True
                passed |= {ref.variable.data for ref in self._all_reads(one)}
                continue
            if not isinstance(one, graph.OpOp | graph.CacheReadOp):
                break
            outputs = list(one.writes())
            name = outputs[0].variable.data
            places = [
                place
                for place, operand in enumerate(operands)
                if isinstance(operand, graph.RefAttr)
                and operand.variable.data == name
                and not operand.bracketed.data
                and place not in found
            ]
            good = (
                (isinstance(one, graph.CacheReadOp) or not only_tables)
                and len(outputs) == len(places) == 1
                and not outputs[0].bracketed.data
                and name in self.own
                and name not in behind | passed
                and everywhere.count(name) == 1
                and _hints(one) == _hints(op)
                and _kind(one) not in _LANDMARKS
                and (self._overwritten(op, name) or not self.telling(one, op))
            )
            if not good and isinstance(one, graph.CacheReadOp):
                break
            if not good:
                only_tables = True
                passed |= {ref.variable.data for ref in (*self._all_reads(one), *outputs)}
                continue
            found[places[0]] = one
            passed |= {ref.variable.data for ref in self._all_reads(one)}
        return found

    @staticmethod
    def _overwritten(op: Operation, name: str) -> bool:
        outputs = op.outputs if isinstance(op, graph.OpOp | graph.CallOp) else ()
        return name in {ref.variable.data for ref in outputs}

    def _fits(self, op: Operation, chosen: dict[int, Operation]) -> bool:
        depths = [depth(one, self.nested) for one in chosen.values()]
        if sum(1 for one in depths if one) > MOST or max(depths) > 1:
            return False
        tables = all(isinstance(one, graph.CacheReadOp) for one in chosen.values())
        longest = LONGEST_OF_TABLES if tables else LONGEST
        return self.length(op, {**self.nested, op: chosen}) <= longest

    def _clashes(self, chosen: Mapping[int, Operation], shown: Sequence[Operation]) -> bool:
        """Whether what stays in front changes what is taken away from before it."""
        moved = list(chosen.values())
        changed: set[str] = set()
        for one in reversed(shown):
            if one in moved:
                moved.remove(one)
                read = {ref.variable.data for ref in self._all_reads(one)}
                if read & changed:
                    return True
            elif isinstance(one, graph.GraphOp):
                changed |= {ref.variable.data for ref in one.writes()}
            if not moved:
                return False
        return True

    def _all_reads(self, op: Operation) -> list[graph.RefAttr]:
        inner = self.nested.get(op, {}).values()
        return [*_reads(op), *(ref for one in inner for ref in self._all_reads(one))]


def _written(block: graph.BlockOp) -> list[str]:
    ops = [op for op in block.walk() if isinstance(op, graph.GraphOp) and op is not block]
    return [ref.variable.data for op in ops for ref in op.writes()]


def depth(op: Operation, nested: Nested) -> int:
    """How deeply ops nest where an op is an operand; 0 for a range and a read of a table."""
    if isinstance(op, graph.CacheReadOp) or part_of(op, nested) is not None:
        return 0
    return 1 + max((depth(one, nested) for one in nested.get(op, {}).values()), default=0)


def part_of(op: Operation, nested: Nested) -> tuple[graph.RefAttr, str] | None:
    """A `slice` as the range that it is, `x[, 0..n]`, one without its axis as an index: the variable
    and what stands in brackets. None for other ops, and for axes behind the second one."""
    if not isinstance(op, graph.OpOp):
        return None
    inner = nested.get(op, {}).get(0)
    if op.op_name.data == "squeeze" and inner is not None:
        return _index_of(op, inner, nested)
    if op.op_name.data != "slice" or inner is not None or not op.settings.data.keys() <= _SLICE:
        return None
    found = _range_of(op)
    if found is None:
        return None
    operand, axis, start, stop = found
    bounds = "..".join("" if one is None else str(one) for one in (start, stop))
    return operand, f"{', ' * axis}{bounds}"


def _range_of(op: graph.OpOp) -> tuple[graph.RefAttr, int, Size | None, Size | None] | None:
    operand = op.inputs.data[0]
    settings = op.settings.data
    axis = _size(settings.get("axis", IntegerAttr(0, 64)))
    if not isinstance(operand, graph.RefAttr) or operand.bracketed.data or axis is None:
        return None
    start, stop = (_size(settings[key]) if key in settings else None for key in ("start", "stop"))
    missing = (start is None) + (stop is None)
    if axis.constant not in (0, 1) or missing != 2 - len(settings.keys() & {"start", "stop"}):
        return None
    return operand, axis.constant, start, stop


def _index_of(op: graph.OpOp, inner: Operation, nested: Nested) -> tuple[graph.RefAttr, str] | None:
    axes = op.settings.data.get("axes")
    if not isinstance(inner, graph.OpOp) or part_of(inner, nested) is None:
        return None
    found = _range_of(inner)
    if found is None or not isinstance(axes, ArrayAttr) or len(axes) != 1:
        return None
    operand, axis, start, stop = found
    place = _size(axes.data[0])
    last = start is not None and start.constant == -1 and stop is None
    one = start is not None and stop is not None and (stop - start).constant == 1
    if place is None or place.constant != axis or not (last or one):
        return None
    return operand, f"{', ' * axis}{start}"


def _size(value: Attribute) -> Size | None:
    match value:
        case IntegerAttr():
            return Size.of(value.value.data)
        case graph.SizeAttr():
            return value.data
        case graph.NameAttr():
            return Size.name(value.data)
        case _:
            return None


def _reads(op: Operation) -> list[graph.RefAttr]:
    """What a statement reads as a value, and the names in its settings and indices."""
    found = list(op.reads()) if isinstance(op, graph.GraphOp) else []
    aside: list[graph.RefAttr] = []

    def names(value: Attribute) -> None:
        match value:
            case graph.NameAttr():
                aside.append(graph.RefAttr.of(value.data))
            case graph.SizeAttr():
                aside.extend(graph.RefAttr.of(name) for name in sorted(value.data.names))
            case graph.SliceAttr():
                names(value.start)
                names(value.stop)
            case ArrayAttr():
                for item in value:
                    names(item)
            case _:
                pass

    if isinstance(op, graph.OpOp | graph.CallOp):
        for value in (*op.settings.data.values(), *op.inputs):
            if not isinstance(value, graph.RefAttr):
                names(value)
    for ref in (*found, *(op.writes() if isinstance(op, graph.GraphOp) else ())):
        names(ref.indices)
    return [*found, *aside]


def _hints(op: Operation) -> Attribute | None:
    return op.hints if isinstance(op, graph.OpOp) else None


def _kind(op: Operation) -> str:
    return op.op_name.data if isinstance(op, graph.OpOp) else "cache.read"
