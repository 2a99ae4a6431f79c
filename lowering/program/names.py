"""What the names of a program stand for, and what is known of them at the time of a check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.dialects.graph import AssignOp, BlockOp, LoopOp, ScopeOp, VariableOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.program.buffer_declarations import is_buffer
from openinfer.lowering.program.view import ProgramView, auto_indices, dtype_of, fixed_bounds
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

TEMPORARY = "temporary"
UNREADABLE = "?"
"""The name that stands where a text has none that could be read."""


@dataclass(frozen=True)
class Variable:
    """A declared variable or a temporary."""

    op: VariableOp | AssignOp
    sizes: Mapping[str, int]
    bound: bool = False
    """Whether the package and the given sizes have said all that they say."""

    @property
    def name(self) -> str:
        return self.op.variable.data

    @property
    def memory(self) -> str:
        """A memory kind, or "temporary"."""
        return self.op.memory.data if isinstance(self.op, VariableOp) else TEMPORARY

    @cached_property
    def indices(self) -> tuple[str, ...]:
        return tuple(i.data for i in self.op.indices) if isinstance(self.op, VariableOp) else ()

    @cached_property
    def auto(self) -> tuple[str, ...]:
        """The indices that `@auto_dim` names."""
        return auto_indices(self.op) if isinstance(self.op, VariableOp) else ()

    @cached_property
    def fixed(self) -> Mapping[str, int]:
        """The bounds that `@fixed` gives."""
        return fixed_bounds(self.op) if isinstance(self.op, VariableOp) else {}

    @property
    def table_indices(self) -> tuple[str, ...]:
        """The indices that select an entry: those that `@auto_dim` does not name."""
        return tuple(index for index in self.indices if index not in self.auto)

    @property
    def open(self) -> bool:
        """Whether its type is not known yet."""
        return self.op.dtype.data == OPEN

    @property
    def rank(self) -> int | None:
        """The number of dimensions; None when it is not known yet."""
        return None if self.open or (self.indices and is_buffer(self.op)) else len(self.op.sizes)

    @property
    def dtype(self) -> DType | None:
        """None when the dtype is unknown (and reported)."""
        return DTYPES.get(dtype_of(self.op))

    @cached_property
    def dims(self) -> tuple[Size | None, ...]:
        """The shape, known sizes put in; None for a dimension that is `_`, or could not be read."""
        return tuple(
            None if {OPEN, UNREADABLE} & dim.names else dim.substitute(self.sizes)
            for dim in self.op.sizes
        )

    @property
    def maybe_single(self) -> bool:
        """Whether nothing is known against its having one element."""
        return all(d is None or d.constant in (None, 1) for d in self.dims) and not self.indices

    @property
    def scalar(self) -> bool:
        """Whether it has no dimensions, or only ones of size 1."""
        return not self.indices and all(
            d.constant == 1 if d is not None else not self.bound for d in self.dims
        )

    @property
    def maybe_integer(self) -> bool:
        return self.dtype is None or self.dtype.is_integer or self.dtype.kind == "bool"

    @property
    def what(self) -> str:
        """As a message says it: "constant variable" or "temporary"."""
        return self.memory if self.memory == TEMPORARY else f"{self.memory} variable"


@dataclass
class Names:
    """All names of a program."""

    variables: Mapping[str, VariableOp]
    temporaries: Mapping[str, AssignOp]
    blocks: Mapping[str, BlockOp]
    """The first one of each name counts."""
    loop_indices: set[str]
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Sizes with a value. Without a package none has."""
    input_sizes: frozenset[str] = frozenset()
    """Sizes that the inputs of a step fix."""
    settled: bool = False
    """Whether the package and the given sizes have said all that they say."""
    _found: dict[str, Variable] = field(default_factory=dict[str, Variable])

    @staticmethod
    def of(module: ModuleOp) -> Names:
        """What a program alone says, before it meets a package."""
        variables: dict[str, VariableOp] = {}
        temporaries: dict[str, AssignOp] = {}
        blocks: dict[str, BlockOp] = {}
        indices: set[str] = set()
        for op in module.body.ops:
            if isinstance(op, VariableOp):
                variables.setdefault(op.variable.data, op)
            elif isinstance(op, BlockOp):
                blocks.setdefault(op.block_name.data, op)
                for node in walk(op):
                    if isinstance(node, AssignOp):
                        temporaries.setdefault(node.variable.data, node)
                    elif isinstance(node, LoopOp):
                        indices.add(node.index.data)
        return Names(variables, _undeclared(temporaries, variables), blocks, indices)

    @staticmethod
    def bound(view: ProgramView) -> Names:
        """What is known of a program with its package and the sizes that were given."""
        indices = {node.index.data for node in view.nodes if isinstance(node, LoopOp)}
        return Names(
            view.variables,
            _undeclared(view.temporaries, view.variables),
            view.blocks,
            indices,
            view.sizes,
            view.input_sizes,
            True,
        )

    def find(self, name: str) -> Variable | None:
        found = self._found.get(name)
        if found is None:
            op = self.variables.get(name) or self.temporaries.get(name)
            if op is None:
                return None
            found = self._found[name] = Variable(op, self.sizes, self.settled)
        return found

    @property
    def all(self) -> list[str]:
        """The names of variables and temporaries."""
        return [*self.variables, *self.temporaries]


def _undeclared(
    temporaries: Mapping[str, AssignOp], declared: Mapping[str, VariableOp]
) -> dict[str, AssignOp]:
    """The temporaries without those that have the name of a declared variable, an error."""
    return {name: op for name, op in temporaries.items() if name not in declared}


def walk(around: BlockOp | LoopOp | ScopeOp) -> Iterator[Operation]:
    """All nodes of a body in text order, those of loops and scopes included."""
    for node in around.body.block.ops:
        yield node
        if isinstance(node, LoopOp | ScopeOp):
            yield from walk(node)
