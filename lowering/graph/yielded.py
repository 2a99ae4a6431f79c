"""The exchange of values by `yield` and `await`: what was yielded, and which consumers are to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from xdsl.ir import SSAValue

from openinfer.dialects.graph import AwaitOp, BlockOp
from openinfer.lowering.program.liveness import Names, consumers_of
from openinfer.runtime.quick_dataclass import dataclass


@dataclass
class Yielded:
    """What entry has yielded and not taken back."""

    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    arrived: dict[str, Names] = field(default_factory=dict[str, Names])
    """By consumer, what has been yielded of its values since it was last due."""
    due: set[str] = field(default_factory=set[str])
    """Consumers all of whose values were yielded, and that have not run since."""

    def copy(self) -> Yielded:
        return Yielded(dict(self.values), dict(self.arrived), set(self.due))

    def give(self, values: Mapping[str, SSAValue], blocks: Mapping[str, BlockOp]) -> None:
        """Entry yields values: consumers that have all of theirs now are to run."""
        self.values.update(values)
        for block in consumers_of(values, blocks):
            name, first = block.block_name.data, block.body.block.first_op
            assert isinstance(first, AwaitOp)
            arrived = self.arrived.get(name, frozenset()) | (values.keys() & set(first.names))
            if arrived.issuperset(first.names):
                self.due.add(name)
                arrived = frozenset[str]()
            self.arrived[name] = arrived

    def take_due(self, names: Collection[str], blocks: Mapping[str, BlockOp]) -> list[BlockOp]:
        """The consumers that run when entry takes values back.

        One of several values runs once, when entry asks for the first of them.
        """
        found = [b for b in consumers_of(names, blocks) if b.block_name.data in self.due]
        self.due -= {block.block_name.data for block in found}
        return found

    def take_back(self, names: Collection[str]) -> None:
        """Entry has values again."""
        for name in names:
            self.values.pop(name, None)
