"""Checks of the blocks that take part in `yield` and `await`, each by itself and two by two.

A consumer is a block other than `entry` that starts with `await`; it ends with `yield`.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from openinfer.dialects.graph import AwaitOp, BlockOp, BranchOp, ReturnOp, YieldOp
from openinfer.lowering.program.accesses import READ, WRITE, Access, Accesses, conflicts
from openinfer.lowering.program.check_uses import UseChecks
from openinfer.lowering.program.names import Names, walk
from openinfer.lowering.program.places import Place
from openinfer.lowering.program.view import targets_of
from openinfer.runtime.quick_dataclass import dataclass

Touched = Mapping[str, Mapping[str, Place]]
"""Variable → kind of access → where a text first does it."""


@dataclass(frozen=True)
class Consumer:
    """A block that awaits values of entry."""

    block: BlockOp
    awaited: AwaitOp
    touched: Touched

    @property
    def name(self) -> str:
        return self.block.block_name.data

    @property
    def values(self) -> set[str]:
        return set(self.awaited.names)


def consumer_names(names: Names) -> list[str]:
    """The blocks that are consumers, by name."""
    return [
        name
        for name, block in names.blocks.items()
        if name != "entry" and isinstance(block.body.block.first_op, AwaitOp)
    ]


class ConsumerChecks:
    """What consumers are, what they touch, and how two of them may meet."""

    def __init__(self, checks: UseChecks) -> None:
        self.names = checks.names
        self.report = checks.report
        self.places = checks.places
        self.accesses = Accesses(checks.names, checks.places)
        self.consumers = {name: self._consumer(name) for name in consumer_names(checks.names)}

    def _consumer(self, name: str) -> Consumer:
        block = self.names.blocks[name]
        awaited = block.body.block.first_op
        assert isinstance(awaited, AwaitOp)
        touched = self.touched_by([name])
        for position, value in enumerate(awaited.names):
            where = self.places.of(awaited, ("names", position))
            touched.setdefault(value, {}).setdefault(READ, where)
        return Consumer(block, awaited, touched)

    def touched_by(self, names: list[str]) -> dict[str, dict[str, Place]]:
        """Everything that some blocks touch, the blocks that they call included."""
        found: dict[str, dict[str, Place]] = {}
        seen: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name in seen or name not in self.names.blocks:
                continue
            seen.add(name)
            for node in walk(self.names.blocks[name]):
                for access in self.accesses.of(node):
                    found.setdefault(access.name, {}).setdefault(access.kind, access.where)
                if isinstance(node, BranchOp):
                    todo += targets_of(node)
        return found

    def shapes(self) -> None:
        """The shape of every block, calls of consumers, and values with two writers."""
        for name, block in self.names.blocks.items():
            if name in self.consumers:
                self._shape(self.consumers[name])
            elif name != "entry":
                self._plain(block)
            for node in walk(block):
                if not isinstance(node, BranchOp):
                    continue
                for target, part in zip(targets_of(node), ("then_block", "else_block")):
                    if target in self.consumers:
                        awaited = self.consumers[target].awaited
                        self.report.error(
                            "OI0248",
                            self.places.of(node, (part,)),
                            f"block `{target}` awaits values, so it cannot be called",
                            fix="it runs when `entry` yields the values; remove the branch",
                            notes=[("it awaits here", self.places.of(awaited))],
                        )
        self._writers()

    def _plain(self, block: BlockOp) -> None:
        for node in walk(block):
            if isinstance(node, AwaitOp):
                self.report.error(
                    "OI0247",
                    self.places.of(node),
                    f"`await` stands in the middle of block `{block.block_name.data}`",
                    fix="a block that consumes values starts with `await`",
                )
                return
            if isinstance(node, YieldOp):
                self.report.error(
                    "OI0247",
                    self.places.of(node),
                    f"`yield` in block `{block.block_name.data}`, which does not start with `await`",
                    fix="end the block with `return;`, or start it with `await`",
                )
                return

    def _shape(self, consumer: Consumer) -> None:
        """Starts with its only `await`, ends with its only `yield` of the same values."""
        nodes = list(walk(consumer.block))
        last = nodes[-1]
        note = [("it awaits here", self.places.of(consumer.awaited))]
        listed = ", ".join(consumer.awaited.names)
        for node in nodes[1:]:
            if node in self.places.unread:
                return
            if isinstance(node, AwaitOp):
                self.report.error(
                    "OI0247",
                    self.places.of(node),
                    f"block `{consumer.name}` awaits a second time",
                    fix="a consumer has one `await`, its first statement: name all values there",
                    notes=note,
                )
            elif isinstance(node, ReturnOp) or (isinstance(node, YieldOp) and node is not last):
                word = "return" if isinstance(node, ReturnOp) else "yield"
                self.report.error(
                    "OI0247",
                    self.places.of(node),
                    f"`{word}` in block `{consumer.name}`, which awaits values",
                    fix=f"a consumer ends with `yield {listed};`, and nowhere else",
                    notes=note,
                )
        if isinstance(last, YieldOp) and set(last.names) != consumer.values:
            self.report.error(
                "OI0269",
                self.places.of(last),
                f"block `{consumer.name}` yields other values than it awaits",
                fix=f"write `yield {listed};`",
                notes=note,
            )

    def _writers(self) -> None:
        writers: dict[str, tuple[Consumer, Place]] = {}
        for consumer in self.consumers.values():
            for value in sorted(consumer.values):
                written = consumer.touched[value].get(WRITE)
                if written is None:
                    continue
                if value in writers:
                    first, where = writers[value]
                    self.report.error(
                        "OI0263",
                        written,
                        f"`{value}` is written by two consumers, `{first.name}` and "
                        f"`{consumer.name}`",
                        fix="let one of them write to a variable of its own",
                        notes=[(f"`{first.name}` writes it here", where)],
                    )
                else:
                    writers[value] = (consumer, written)

    def pair(self, left: Consumer, right: Consumer, started: Operation) -> None:
        """Two consumers that may run at the same time, since a `yield`."""
        for name in left.touched:
            if name not in right.touched or (name in left.values and name in right.values):
                continue
            for kind, where in right.touched[name].items():
                access = Access(name, where, kind)
                if self.access(access, left, f"`{right.name}`", self.places.of(started)):
                    break

    def access(self, access: Access, consumer: Consumer, who: str, started: Place) -> bool:
        """An access by `who` while a consumer may run: neither may write what the other touches.

        Says whether it is wrong.
        """
        for kind, where in consumer.touched.get(access.name, {}).items():
            if not conflicts(access.kind, kind):
                continue
            verbs = {WRITE: "writes", READ: "reads"}
            self.report.error(
                "OI0264",
                access.where,
                f"{who} {verbs.get(access.kind, 'reads')} `{access.name}` while consumer "
                f"`{consumer.name}` may {'write' if kind == WRITE else 'read'} it",
                fix=f"yield `{access.name}` too, or wait with `await` first",
                notes=[
                    (f"`{consumer.name}` touches it here", where),
                    ("it runs from here on", started),
                ],
            )
            return True
        return False
