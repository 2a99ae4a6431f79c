"""What a bound program says, gathered once: variables, sizes, sources, nodes, results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i1,
)
from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    CacheResetOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    SizeAttr,
    SizeBoundOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.dialects.opset import NameRef, find
from openinfer.lowering.graph.settings import python_value, substitute_sizes
from openinfer.lowering.graph.states import State, state_of
from openinfer.lowering.interface import Weight
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.call_names import around
from openinfer.lowering.program.expansion import expansion_problems, expansions
from openinfer.lowering.program.liveness import Flow, nodes_of
from openinfer.lowering.program.metadata_settings import with_metadata
from openinfer.lowering.program.nodes import NodeInfo, kind_of, number_nodes
from openinfer.lowering.program.size_bounds import size_bounds
from openinfer.lowering.program.sources import (
    Bindings,
    family_extents,
    family_firsts,
    package_name,
    pattern_of,
    sparse_family,
)
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.errors import Diagnostic, Location
from openinfer.runtime.manifest import NodeRow, StateRow, VariableRow
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.size_bounds import SizeBoundRow
from openinfer.runtime.sizes import Size

NEVER = "never"
"""In place of the dynamic size that says whether a step uses a persistent variable: none does."""


@dataclass
class Facts:
    """Names of a bound module and what they stand for."""

    bindings: Bindings
    variables: dict[str, VariableOp | AssignOp]
    """Declared variables, then temporaries."""
    blocks: dict[str, BlockOp]
    static: dict[str, int]
    """Sizes with a value at compile time."""
    runtime: frozenset[str]
    """Sizes that the inputs of a step fix."""
    extents: dict[str, list[int]]
    firsts: dict[str, list[int]]
    """For each prefix table, how many members each of its indices has."""
    states: dict[str, State] = field(default_factory=dict[str, State])
    """Persistent variables."""
    nodes: dict[Operation, NodeInfo] = field(default_factory=dict[Operation, NodeInfo])
    """Nodes in program order."""
    bounds: dict[SizeBoundOp, SizeBoundRow] = field(default_factory=dict[SizeBoundOp, SizeBoundRow])
    """What the program says that sizes may be."""

    @staticmethod
    def of(module: ModuleOp) -> Facts:
        bindings = Bindings.of(module)
        variables: dict[str, VariableOp | AssignOp] = {}
        blocks: dict[str, BlockOp] = {}
        for op in module.body.ops:
            if isinstance(op, VariableOp):
                variables[op.variable.data] = op
            elif isinstance(op, BlockOp):
                blocks[op.block_name.data] = op
        for op in module.walk():
            if isinstance(op, AssignOp):
                variables.setdefault(op.variable.data, op)
        static = bindings.sizes
        runtime = frozenset(
            name
            for v in variables.values()
            if isinstance(v, VariableOp) and v.memory.data == "dynamic"
            for dim in v.sizes
            if (name := dim.single_name) is not None and name not in static
        )
        families = {
            name: (pattern, [i.data for i in v.indices], bindings.tensors)
            for name, v in variables.items()
            if isinstance(v, VariableOp) and (pattern := pattern_of(v)) is not None
        }
        extents = {name: family_extents(*family) for name, family in families.items()}
        firsts = {name: family_firsts(*family) for name, family in families.items()}
        states: dict[str, State] = {}
        for name, variable in variables.items():
            if isinstance(variable, VariableOp):
                state = state_of(variable, len(states), static, runtime)
                if state is not None:
                    states[name] = state
        nodes = number_nodes(module)
        bounds = size_bounds(module)
        return Facts(
            bindings, variables, blocks, static, runtime, extents, firsts, states, nodes, bounds
        )

    def problems(self) -> list[Diagnostic]:
        """Dimensions with a size that nothing fixes, a missing entry block, calls without end, families with
        so few of their members that their places are not listed."""
        found: list[Diagnostic] = []
        if "entry" not in self.blocks:
            found.append(Diagnostic("OI0213", "there is no block named entry"))
        found += expansion_problems(self.blocks)
        for name in self.extents:
            family = self.variables[name]
            assert isinstance(family, VariableOp)
            # A dump that was edited comes here without the checks of the program against its package.
            if (sparse := sparse_family(family, self.bindings.tensors)) is not None:
                message, hint = sparse
                found.append(Diagnostic("OI0327", message, location_of(family), hint=hint))
        known = set(self.static) | self.runtime
        loops = {op.index.data for op in self.nodes if isinstance(op, LoopOp)}
        for variable in self.variables.values():
            for dim in variable.sizes:
                unknown = sorted(dim.names - known)
                scalars = [n for n in unknown if n in self.variables or n in loops]
                held = isinstance(variable, VariableOp) and variable.memory.data == "dynamic"
                if dim.single_name == "_" or (unknown == scalars and not held):
                    continue
                if scalars:
                    found.append(
                        Diagnostic(
                            "OI0719",
                            f"dimension {dim} of {variable.variable.data} names the scalar "
                            f"variable {scalars[0]}, but an input has its shape before a step runs",
                            location_of(variable),
                            hint="name a size of its own here, which the input then fixes, or write "
                            "`_`",
                        )
                    )
                elif unknown:
                    found.append(
                        Diagnostic(
                            "OI0324",
                            f"size {unknown[0]} of {variable.variable.data} has no value: neither "
                            "the model, nor the given sizes, nor the shape of an input fixes it",
                            location_of(variable),
                            hint=f"give it with sizes={{'{unknown[0]}': …}} (--size {unknown[0]}=…)",
                        )
                    )
        return found

    @cached_property
    def unsteady(self) -> frozenset[str]:
        """The temporaries with a dimension that names the index of a loop, or a scalar that some node
        writes, and with no open one: their shape says when their `assign` has run, if it has."""
        changed = set(Flow(self.blocks).written(list(self.nodes)))
        steady = self.static.keys() | self.runtime | (self.variables.keys() - changed)
        return frozenset(
            op.variable.data
            for op in self.nodes
            if isinstance(op, AssignOp)
            and any(dim.names - steady for dim in op.sizes)
            and not any(dim.single_name == "_" for dim in op.sizes)
        )

    @property
    def expanded(self) -> int:
        """The nodes of a step, calls followed."""
        return expansions(self.blocks)["entry"].nodes

    @cached_property
    def flow(self) -> Flow:
        """What nodes need and write."""
        return Flow(self.blocks, self.unsteady)

    def names_scalars(self, variable: VariableOp | AssignOp) -> bool:
        """Whether a dimension of a declaration is fixed by a scalar variable of the step."""
        known = self.static.keys() | self.runtime | {"_"}
        return any(dim.names - known for dim in variable.sizes)

    def inputs(self) -> list[VariableOp]:
        """Dynamic variables in the order of their declaration."""
        return [
            v
            for v in self.variables.values()
            if isinstance(v, VariableOp) and v.memory.data == "dynamic"
        ]

    def returned(self) -> list[str]:
        """The names that `return a, b;` of entry lists."""
        for op in self.blocks["entry"].walk():
            if isinstance(op, ReturnOp) and op.names:
                return list(op.names)
        return []

    def outputs(self) -> list[str]:
        """What can be fetched after a step and is not fixed beforehand: results, then volatiles.

        A state that grows is fetched where it lies.
        """
        grows = {name for name, state in self.states.items() if not state.plain}
        names = dict.fromkeys(name for name in self.returned() if name not in grows)
        for name in Flow(self.blocks).written(nodes_of(self.blocks["entry"])):
            variable = self.variables.get(name)
            if isinstance(variable, VariableOp) and variable.memory.data == "volatile":
                names[name] = None
        return list(names)

    def declared(self, variable: VariableOp | AssignOp) -> tuple[str, list[Size]]:
        """The dtype and the dimensions of a declaration, compile-time sizes filled in."""
        dtype = ALIASES.get(variable.dtype.data, variable.dtype.data)
        return dtype, [dim.substitute(self.static) for dim in variable.sizes]

    def type_of(self, ref: RefAttr) -> tuple[str, list[Size]]:
        """The declared dtype and dimensions of what a node writes."""
        return self.declared(self.variables[ref.variable.data])

    def tensor_of(self, variable: VariableOp) -> str | None:
        """The package's tensor that fills a variable, when it has data."""
        if variable.memory.data not in ("volatile", "constant", "persistent"):
            return None
        if variable.memory.data == "persistent" and variable.option("init") is not None:
            return None
        name = package_name(variable)
        tensor = self.bindings.tensors.get(name)
        return name if tensor is not None and tensor.absent is None else None

    def constant_of(self, variable: VariableOp) -> int | float | None:
        """The number that fills a variable without a tensor: metadata, else `@init`, else None."""
        name = package_name(variable)
        named = variable.memory.data == "constant"
        for value in (
            self.bindings.values.get(name) if named else None,
            self.bindings.sizes.get(name) if named else None,
            variable.option("init"),
        ):
            if isinstance(value, IntegerAttr | FloatAttr):
                return _number(value)
            if isinstance(value, int):
                return value
        return None

    def reference_number(self, ref: RefAttr) -> int:
        """The node that uses a reference."""
        for op, info in self.nodes.items():
            if isinstance(op, GraphOp) and any(r is ref for r in op.reads()):
                return info.index
        return 0

    def settings(self, op: OpOp) -> dict[str, object]:
        """The settings as written, names of scalars and metadata replaced by their values."""
        loops = {outer.index.data for outer in around(op) if isinstance(outer, LoopOp)}

        def looked_up(value: object) -> object:
            if isinstance(value, tuple):
                return tuple(looked_up(item) for item in value)
            if isinstance(value, NameRef) and value.name not in loops:
                return self._lookup(value.name)
            return value

        def metadata(name: str) -> object:
            if name in loops or name in self.static or name in self.runtime:
                return None
            value = self.bindings.values.get(name) if name not in self.variables else None
            return None if value is None else python_value(value, NameRef)

        written = {k: python_value(v, NameRef) for k, v in op.settings.data.items()}
        filled = with_metadata(find(op.op_name.data), written, metadata)
        given = {name: looked_up(value) for name, value in filled.items()}
        return substitute_sizes(given, self.static)

    def _lookup(self, name: str) -> object:
        if name in DTYPES or name in ALIASES:
            return NameRef(name)
        variable = self.variables.get(name)
        if isinstance(variable, VariableOp) and variable.memory.data == "constant":
            value = self.constant_of(variable)
            if value is not None and self.tensor_of(variable) is None:
                return value
        if variable is not None:
            return NameRef(name)
        value = self.bindings.values.get(name)
        if isinstance(value, IntegerAttr | FloatAttr):
            return _number(value)
        if isinstance(value, StringAttr):
            return value.data
        return NameRef(name)

    def interface(
        self, outputs: Sequence[str], weights: Sequence[str], touched: Mapping[str, str]
    ) -> dict[str, object]:
        """The entries of `nn.interface` that tell every later level, and the runtime, the names."""
        return {
            "sizes": sorted(self.runtime),
            "inputs": [v.variable.data for v in self.inputs()],
            "outputs": list(outputs),
            "returns": self.returned(),
            "weights": [self._weight(name) for name in weights],
            "variables": [self._variable(v) for v in self.variables.values()],
            "nodes": [self._node_row(op) for op in self.nodes],
            "states": [self._state(s, touched.get(s.name, NEVER)) for s in self.states.values()],
            "fixed": self.static,
        }

    def _state(self, state: State, touched: str) -> StateRow:
        first = self._variable(self.variables[state.name])
        marks = self.resets_entries(state.name)
        return state.row(sources=first.sources, value=first.value, marks=marks, touched=touched)

    def number_of(self, name: str) -> int:
        """The place of a variable among the rows of the interface, for a message."""
        return list(self.variables).index(name)

    def resets_entries(self, name: str) -> bool:
        """Whether some node resets single entries of a state, so that it matters which are there."""
        return any(
            isinstance(op, CacheResetOp)
            and op.target.variable.data == name
            and any(isinstance(i, SizeAttr) for i in op.target.indices)
            for op in self.nodes
        )

    def _weight(self, name: str) -> Weight:
        variable = self.variables[name]
        assert isinstance(variable, VariableOp)
        members = tuple(self.extents.get(name, ()))
        sources = tuple(self.sources(variable, there=True))
        return Weight(name, sources, members, formats=self._formats(variable, sources))

    def _formats(self, variable: VariableOp, sources: Sequence[str]) -> tuple[str, ...]:
        """The dtypes of some tensors, where all lie in blocks or are f16, and f32 is what they stand for:
        values that are rounded to another dtype are none that these hold."""
        if self.declared(variable)[0] != "f32":
            return ()
        named = [source for source in sources if source]
        found = [t.dtype.data for s in named if (t := self.bindings.tensors.get(s)) is not None]
        if len(found) < len(named) or not all(dtype == "f16" or dtype in BLOCKS for dtype in found):
            return ()
        if len(set(found)) > 1 and len(named) < len(sources):
            return ()
        return tuple(found) if len(set(found)) > 1 else tuple(found[:1])

    def sources(self, variable: VariableOp, *, there: bool = False) -> list[str]:
        """The tensors of a weight; for a prefix table all members in row-major index order. With `there`
        empty texts stand for members that the package lacks, which no step reads."""
        if pattern_of(variable) is None:
            return [package_name(variable)]
        members = self._members(variable).values()
        tensors = self.bindings.tensors
        return [name if not there or name in tensors else "" for name in members]

    def _members(self, variable: VariableOp) -> dict[tuple[int, ...], str]:
        """The tensor of each place of a prefix table, in row-major order."""
        from itertools import product

        from openinfer.lowering.program.sources import member_name

        pattern = pattern_of(variable)
        assert pattern is not None
        order = [i.data for i in variable.indices]
        ranges = [range(n) for n in self.extents[variable.variable.data]]
        return {p: member_name(pattern, dict(zip(order, p))) for p in product(*ranges)}

    def gaps(self, variable: VariableOp) -> dict[tuple[int, ...], str]:
        """The members of a prefix table, by place, that the package lacks from its first one to its last."""
        firsts = self.firsts[variable.variable.data]
        return {
            place: name
            for place, name in self._members(variable).items()
            if name not in self.bindings.tensors
            and all(number >= first for number, first in zip(place, firsts))
        }

    def _variable(self, variable: VariableOp | AssignOp) -> VariableRow:
        dtype, dims = self.declared(variable)
        memory = variable.memory.data if isinstance(variable, VariableOp) else "temporary"
        row = VariableRow(variable.variable.data, memory, dtype, [str(dim) for dim in dims])
        if not isinstance(variable, VariableOp):
            return row
        if pattern_of(variable) is not None:
            return replace(
                row,
                indices=[index.data for index in variable.indices],
                members=self.extents[row.name],
                sources=self.sources(variable),
            )
        if (tensor := self.tensor_of(variable)) is not None:
            return replace(row, sources=[tensor])
        if (value := self.constant_of(variable)) is not None:
            return replace(row, value=value if isinstance(value, float) else int(value))
        known = package_name(variable) in self.bindings.tensors
        return replace(row, unfilled=memory == "constant" and not known)

    def _loops_around(self, op: Operation) -> list[int]:
        """The numbers of the loops around a node, outermost first."""
        loops = [self.nodes[outer].index for outer in around(op) if isinstance(outer, LoopOp)]
        return loops[::-1]

    def _node_row(self, op: Operation) -> NodeRow:
        """What messages and events say of a node."""
        info = self.nodes[op]
        reads = [ref.text for ref in op.reads()] if isinstance(op, GraphOp) else []
        writes = [ref.text for ref in op.writes()] if isinstance(op, GraphOp) else []
        if isinstance(op, AssignOp):
            writes = [op.variable.data]
        elif isinstance(op, AwaitOp):
            reads, writes = [], reads
        place = info.location or Location("", 0, 0)
        return NodeRow(
            block=info.block,
            index=info.index,
            uuid=info.uuid,
            kind=kind_of(op),
            op=op.op_name.data if isinstance(op, OpOp) else "",
            text=info.text,
            settings=dict(op.settings.data) if isinstance(op, OpOp) else {},
            params=reads,
            output=writes,
            file=place.file,
            line=place.line,
            column=place.column,
            scope=info.scope,
            loops=self._loops_around(op),
            calls=[str(call) for call in info.calls],
        )


def _number(value: IntegerAttr | FloatAttr) -> int | float:
    """The number; an attribute of type i1 holds true as -1."""
    data = value.value.data
    return bool(data) if value.type == i1 else data
