"""Inserts ops into the step, each with the place, the hints and the number of its node."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, LocationAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects import nn
from openinfer.lowering.graph.hints import Hints
from openinfer.lowering.locations import node_location
from openinfer.lowering.program.nodes import NodeInfo


class StepBuilder:
    """The function `@step` as far as it is built, and where the next op goes."""

    def __init__(self, nodes: Mapping[Operation, NodeInfo], *, traced: bool) -> None:
        self.nodes = nodes
        self.traced = traced
        self.entry = Block()
        self.where: Operation | None = None
        """The node that is being translated."""
        self.hints = Hints()
        """What holds for it."""
        self.postponed: list[nn.RequireOp] | None = None
        """Where sizes are computed ahead of their use: what must hold of them there."""
        self.may_stop = False
        """Whether something that was inserted may end the step."""
        self._builder = Builder(InsertPoint.at_end(self.entry))

    @property
    def node(self) -> int:
        """The running index of the node that is being translated."""
        assert self.where is not None
        return self.nodes[self.where].index

    @property
    def block(self) -> Block:
        """The block that ops are inserted into."""
        return self._builder.insertion_point.block

    @property
    def runs_always(self) -> bool:
        """Whether every step comes here, with nothing before that may end it."""
        return self.block is self.entry and not self.may_stop and self.postponed is None

    # Ops

    def insert(self, op: Operation) -> Operation:
        """Inserts an op; a requirement of a size that is computed ahead waits for the size's use."""
        if self.where is not None and isinstance(op.location, UnknownLoc):
            op.location = self._place_of(self.where)
        self.hints.mark(op)
        if self.postponed is not None and isinstance(op, nn.RequireOp):
            self.postponed.append(op)
            return op
        stops = isinstance(op, nn.RequireOp | nn.DefineSizeOp | nn.GrowOp)
        self.may_stop = self.may_stop or stops
        self._builder.insert(op)
        return op

    def _place_of(self, node: Operation) -> LocationAttr:
        """The location of what a node becomes; in a traced build it names the node."""
        info = self.nodes.get(node) if self.traced else None
        return node.location if info is None else node_location(node.location, info.index)

    def add(self, op: Operation) -> SSAValue:
        """Inserts an op and returns its first result."""
        return self.insert(op).results[0]

    def argument(self, name: str, kind: Attribute) -> SSAValue:
        """A new argument of the step."""
        argument = self.entry.insert_arg(kind, len(self.entry.args))
        argument.name_hint = name
        return argument

    def constant(self, value: int) -> SSAValue:
        """A number as an index."""
        return self.add(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def compare(self, a: SSAValue, predicate: str, b: SSAValue) -> SSAValue:
        """An `i1`."""
        return self.add(arith.CmpiOp(a, b, predicate))

    def from_end(self, number: SSAValue, extent: Callable[[], SSAValue]) -> SSAValue:
        """A place on an axis, which a negative number counts from the end."""
        behind = self.compare(number, "slt", self.constant(0))
        counted = self.add(arith.AddiOp(extent(), number))
        return self.add(arith.SelectOp(behind, counted, number))

    def fail_unless(
        self, holds: SSAValue, kind: str, first: SSAValue, second: SSAValue, axis: int | None = None
    ) -> None:
        """The step fails with a row of `runtime/devices/failures.py` where an `i1` is false."""
        self.insert(nn.RequireOp(holds, kind, first, second, self.node, axis))

    def require(
        self, a: SSAValue, predicate: str, b: SSAValue, kind: str, axis: int | None = None
    ) -> None:
        """The step fails unless a comparison holds; the message shows both sides."""
        self.fail_unless(self.compare(a, predicate, b), kind, a, b, axis)

    # Regions

    @contextmanager
    def at_end(self, block: Block) -> Generator[None]:
        """Inside of it, ops go to the end of a block."""
        outer, self._builder = self._builder, Builder(InsertPoint.at_end(block))
        try:
            yield
        finally:
            self._builder = outer

    def when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        """What `body` inserts runs where a condition holds."""
        block = Block()
        self.insert(scf.IfOp(condition, [], Region(block), Region()))
        with self.at_end(block):
            body()
            self.insert(scf.YieldOp())

    def one_of(
        self,
        condition: SSAValue,
        kind: TensorType[Attribute],
        sides: Sequence[Callable[[], SSAValue]],
    ) -> SSAValue:
        """The value that one of two sides gives."""
        regions: list[Region] = []
        for side in sides:
            block = Block()
            with self.at_end(block):
                self.insert(scf.YieldOp(side()))
            regions.append(Region(block))
        return self.add(scf.IfOp(condition, [kind], regions[0], regions[1]))

    def for_each(self, count: SSAValue, body: Callable[[SSAValue], None]) -> None:
        """What `body` inserts runs for every number from 0 to a count."""
        block = Block(arg_types=[IndexType()])
        zero, one = self.constant(0), self.constant(1)
        self.insert(scf.ForOp(zero, count, one, [], Region(block)))
        with self.at_end(block):
            body(block.args[0])
            self.insert(scf.YieldOp())
