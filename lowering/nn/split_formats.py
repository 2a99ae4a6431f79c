"""Loops over layers whose weights lie in blocks of several formats get a body for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.locations import give_location
from openinfer.lowering.weight_arguments import WeightArguments

MOST_BODIES = 4
"""A loop with more kinds of rounds stays as it is."""
WORD = 64
"""Rounds whose kind is in one word of bits."""


@dataclass(frozen=True)
class SplitFormats(ModulePass):
    """Tells members of different block formats apart, so that each weight argument has one of them.

    Before:
        weights = [{variable = "W", sources = ["a", "b", "c"], formats = ["q4_k", "q6_k", "q4_k"]}]
        %y = scf.for %l = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<2x256xf32>) {
          %w = nn.member %W[%l] : tensor<3x256x256xf32> -> tensor<256x256xf32>
          %m = nn.matmul(%h, %w) {transpose_b} : …
          scf.yield %m }
    After:
        weights = [{variable = "W", sources = ["a", "", "c"], formats = ["q4_k"]},
                   {variable = "W", sources = ["", "b", ""], formats = ["q6_k"]}]
        %y = scf.for %l = %c0 to %c3 step %c1 iter_args(%h = %x) -> (tensor<2x256xf32>) {
          %i = arith.index_cast %l : index to i64
          %b = arith.shrui %c5_i64, %i : i64
          %first = arith.trunci %b : i64 to i1
          %r = scf.if %first -> (tensor<2x256xf32>) {
            %w = nn.member %W_q4_k[%l] …
          } else {
            %w = nn.member %W_q6_k[%l] … }
          scf.yield %r }

    The bits of a number say which rounds are of the first kind. What the bodies share, as their kernels, is
    compiled once. A member that is no source takes no memory.

    Requires: level `nn`; loops are as they are to stay.
    Leaves: weights with members of one format; families with several indices, members whose index is neither
        a number nor that of a loop with known bounds, loops with more than four kinds of rounds, and
        what no kernel of the machine reads in blocks.
    """

    name: ClassVar[str] = "split-formats"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if Facts.of(op).strict_math:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _Splitter(op, function).run()
                return


class _Splitter:
    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.function = function
        self.weights = WeightArguments(module, function)
        block = function.body.block
        self.families: dict[SSAValue, int] = {
            block.args[self.weights.first + number]: number
            for number, row in enumerate(self.weights.rows)
            if len(row.formats) > 1 and len(row.members) == 1
        }
        self.parts: dict[tuple[int, str], SSAValue] = {}

    def run(self) -> None:
        chosen = {a: n for a, n in self.families.items() if self._gains(a, n)}
        self.families = {a: n for a, n in chosen.items() if all(map(_is_known, _members(a)))}
        # A loop with too many kinds of rounds keeps its families whole, and so do all others of theirs.
        while bad := self._too_many():
            for family in bad:
                del self.families[family]
        if not self.families:
            return
        for family, number in self.families.items():
            for block in dict.fromkeys(self.weights.rows[number].formats):
                self.parts[number, block] = self._part(family, number, block)
        for loop in reversed([op for op in self.function.walk() if isinstance(op, scf.ForOp)]):
            self._split(loop)
        for family in list(self.families):
            for member in list(_members(family)):
                index = _constant(member.indices[0])
                assert index is not None
                self._choose(member, self._format(family, index))
        self.weights.finish()

    def _gains(self, family: SSAValue, number: int) -> bool:
        """Whether a kernel reads members in one of the formats."""
        formats = set(self.weights.rows[number].formats)
        users = [use.operation for m in _members(family) for use in m.member.uses]
        products = [user for user in users if isinstance(user, nn.MatmulOp | nn.ExpertMatmulOp)]
        return (
            bool(products)
            and len(products) == len(users)
            and any(demands_of(op).reads_blocks(op, block) for op in products for block in formats)
        )

    def _too_many(self) -> list[SSAValue]:
        """Families of the first loop that has too many kinds of rounds."""
        for loop in [op for op in self.function.walk() if isinstance(op, scf.ForOp)]:
            families = self._of(loop)
            if families and len(self._kinds(loop, families)) > MOST_BODIES:
                return families
        return []

    def _format(self, family: SSAValue, index: int) -> str:
        return self.weights.rows[self.families[family]].formats[index]

    def _of(self, loop: scf.ForOp) -> list[SSAValue]:
        """The families of which a loop's own index chooses members."""
        own = loop.body.block.args[0]
        return [
            family
            for family in self.families
            if any(member.indices[0] is own for member in _members(family))
        ]

    def _kinds(
        self, loop: scf.ForOp, families: Sequence[SSAValue]
    ) -> dict[tuple[str, ...], list[int]]:
        """The formats of some families, and the rounds that have them."""
        rounds = _rounds(loop)
        assert rounds is not None
        found: dict[tuple[str, ...], list[int]] = {}
        for index in rounds:
            kind = tuple(self._format(family, index) for family in families)
            found.setdefault(kind, []).append(index)
        return found

    def _split(self, loop: scf.ForOp) -> None:
        families = self._of(loop)
        kinds = self._kinds(loop, families) if families else {}
        if not kinds:
            return
        # The last kind is what is left where no other is.
        *others, (last, _) = sorted(kinds.items(), key=lambda kind: -len(kind[1]))
        if not others:
            self._specialise(loop.body.block, loop, families, last)
            return
        block = loop.body.block
        sides = [(_copied(block), kind, rounds) for kind, rounds in others]
        inner = Block()
        for op in list(block.ops):
            op.detach()
            inner.add_op(op)
        self._specialise(inner, loop, families, last)
        end = max(max(rounds) for rounds in kinds.values())
        types = [value.type for value in loop.res]
        for number, (copy, kind, rounds) in reversed(list(enumerate(sides))):
            self._specialise(copy, loop, families, kind)
            around = Block() if number else block
            ops = _chosen_by(block.args[0], rounds, end)
            made = scf.IfOp(ops[-1].results[0], types, Region(copy), Region(inner))
            for op in (*ops, made, scf.YieldOp(*made.results)):
                give_location(loop.location, op)
                around.add_op(op)
            inner = around

    def _specialise(
        self, block: Block, loop: scf.ForOp, families: Sequence[SSAValue], kind: Sequence[str]
    ) -> None:
        """Members that the loop's index chooses are of known formats here."""
        own = loop.body.block.args[0]
        known = dict(zip(families, kind, strict=True))
        for op in [inner for outer in block.ops for inner in outer.walk()]:
            if isinstance(op, nn.MemberOp) and op.family in known and op.indices[0] is own:
                self._choose(op, known[op.family])

    def _choose(self, member: nn.MemberOp, block: str) -> None:
        """Takes the member out of the argument that holds those of its format."""
        member.operands[0] = self.parts[self.families[member.family], block]

    def _part(self, family: SSAValue, number: int, block: str) -> SSAValue:
        """The argument of the members of a format."""
        row = self.weights.rows[number]
        sources = tuple(
            source if found == block else ""
            for source, found in zip(row.sources, row.formats, strict=True)
        )
        new = replace(row, sources=sources, formats=(block,))
        return self.weights.add(new, family.type, f"{row.variable}_{block}")


def _members(family: SSAValue) -> Iterator[nn.MemberOp]:
    for use in list(family.uses):
        assert isinstance(use.operation, nn.MemberOp)
        yield use.operation


def _is_known(member: nn.MemberOp) -> bool:
    """Whether the index of a member is a number, or that of a loop whose rounds are known."""
    index = member.indices[0]
    if _constant(index) is not None:
        return True
    if not isinstance(index, BlockArgument):
        return False
    loop = index.block.parent_op()
    return isinstance(loop, scf.ForOp) and index.index == 0 and _rounds(loop) is not None


def _constant(value: SSAValue) -> int | None:
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def _rounds(loop: scf.ForOp) -> range | None:
    """The values of a loop's index, where they are known."""
    start, stop, step = (_constant(value) for value in (loop.lb, loop.ub, loop.step))
    if start is None or stop is None or not step:
        return None
    return range(start, stop, step)


def _copied(block: Block) -> Block:
    """The operations of a loop's body once more, in a block of their own."""
    copy = Block()
    mapping: dict[SSAValue, SSAValue] = {}
    blocks: dict[Block, Block] = {}
    for op in block.ops:
        copy.add_op(op.clone(mapping, blocks))
    return copy


def _chosen_by(index: SSAValue, rounds: Sequence[int], last: int) -> list[Operation]:
    """Operations of which the last one says whether an index up to `last` is one of some numbers."""
    words = [
        sum(1 << n % WORD for n in rounds if n // WORD == word) for word in range(last // WORD + 1)
    ]
    number = arith.IndexCastOp(index, i64)
    ops: list[Operation] = [number]
    bits: SSAValue | None = None
    for place, word in reversed(list(enumerate(words))):
        signed = word - (1 << WORD) if word >> (WORD - 1) else word
        here = arith.ConstantOp(IntegerAttr(signed, i64))
        ops.append(here)
        if bits is None:
            bits = here.result
            continue
        limit = arith.ConstantOp(IntegerAttr((place + 1) * WORD, i64))
        below = arith.CmpiOp(number.result, limit.result, "ult")
        select = arith.SelectOp(below.result, here.result, bits)
        ops += [limit, below, select]
        bits = select.result
    assert bits is not None
    low = number.result
    if len(words) > 1:
        mask = arith.ConstantOp(IntegerAttr(WORD - 1, i64))
        rest = arith.AndIOp(low, mask.result)
        ops += [mask, rest]
        low = rest.result
    moved = arith.ShRUIOp(bits, low)
    return [*ops, moved, arith.TruncIOp(moved.result, i1)]
