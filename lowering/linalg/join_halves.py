"""Products of one row take in what is made of two columns half a block apart: a rotation (RoPE), say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.fusing import may_join
from openinfer.lowering.linalg.fuse_epilogue import accumulator_type, narrow
from openinfer.lowering.linalg.generic import identity_map, input_maps, is_elementwise
from openinfer.lowering.locations import absorb_nodes, give_location
from openinfer.runtime.quick_dataclass import dataclass


def join_halves(op: linalg.GenericOp) -> None:
    """Lets a product compute what an elementwise op makes of its result, where that reads two columns.

    Before:
        %q = nn.matmul(%n, %wq) {transpose_b} : (…) -> tensor<1x64xf16>
        %r = nn.reshape(%q) : (tensor<1x64xf16>) -> tensor<1x4x1x2x8xf16>
        %y = linalg.generic {indexing_maps = [(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4),
          (d0, d1, d2, d3, d4) -> (d0, d1, d2, d3 * -1 + 1, d4), (d0, d1, d2, d3, d4) -> (d2, d4), …]}
          ins(%r, %r, %cos) { … linalg.index 3 … linalg.yield %v }
    After:
        %q = nn.matvec(%n, %wq) extras(%cos) {halves = 8, maps = [(d0, d1, d2) -> (0, d2)]} {
          … nn.yield %v0, %v1 }
        %y = nn.reshape(%q) : (tensor<1x64xf16>) -> tensor<1x4x1x2x8xf16>

    Where the two columns are neighbours, the last dimension counts halves, and `nn.matvec` is `interleaved`.
    A function of single elements behind it, a conversion say, joins the body.

    What the product would store is rounded as before.

    Leaves: products of several rows, with a body, or that somebody else reads; other operands that follow
        more than a block or a place in a half.
    """
    if not is_elementwise(op):
        return
    pair = _pair(op)
    if pair is None:
        return
    own, axis = pair
    found = _views_of(op, op.inputs[own])
    blocks = _Blocks.of(op, own, axis)
    if (
        found is None
        or blocks is None
        or not _fits(op, found[0], blocks)
        or not _asks_only(op, axis)
    ):
        return
    partner = next(n for n in _readers(op, op.inputs[own]) if n != own)
    rest = [n for n in range(len(op.inputs)) if n not in (own, partner)]
    maps = [blocks.renumbered(input_maps(op)[n]) for n in rest]
    known = [mapping for mapping in maps if mapping is not None]
    if len(known) == len(maps):
        tail = _function_behind(op)
        _replace(op, found[0], blocks, (own, partner, rest), known, tail)
        for dead in (*reversed(tail), op, *found[1], found[0]):
            dead.detach()
            dead.erase()


def _readers(op: linalg.GenericOp, value: SSAValue) -> list[int]:
    return [n for n, given in enumerate(op.inputs) if given is value]


def _pair(op: linalg.GenericOp) -> tuple[int, int] | None:
    """The input that is read at its own place and in the other half, too, and the dimension of halves."""
    maps, rank = input_maps(op), len(op.iterator_types)
    shape = nn.dims_of(op.res[0])
    for number, mapping in enumerate(maps):
        readers = _readers(op, op.inputs[number])
        if mapping != identity_map(rank) or len(readers) != 2:
            continue
        (other,) = (n for n in readers if n != number)
        for axis in range(rank):
            turned = list(identity_map(rank).results)
            turned[axis] = AffineDimExpr(axis) * -1 + 1
            same = AffineMap(rank, 0, tuple(turned))
            if maps[other] == same and shape[axis].constant == 2:
                return number, axis
    return None


def _views_of(op: linalg.GenericOp, value: SSAValue) -> tuple[nn.MatmulOp, list[Operation]] | None:
    """The product that an input is a view of, and the views in between, where nobody but `op` reads them."""
    reader: Operation = op
    views: list[Operation] = []
    while all(use.operation is reader for use in value.uses):
        reader = value.owner if isinstance(value.owner, Operation) else op
        if isinstance(reader, nn.MatmulOp):
            return reader, views
        if not isinstance(reader, nn.ReshapeOp):
            return None
        views.append(reader)
        value = reader.inputs[0]
    return None


def _function_behind(op: linalg.GenericOp) -> list[Operation]:
    """Views of what an op gives, and the function of single elements that alone reads the last one; none
    where there is no such function."""
    found: list[Operation] = []
    value: SSAValue = op.res[0]
    while len(uses := list(value.uses)) == 1:
        user = uses[0].operation
        found.append(user)
        if isinstance(user, nn.ReshapeOp):
            value = user.result[0]
            continue
        if not isinstance(user, linalg.GenericOp) or not is_elementwise(user):
            return []
        if user.parent_block() is not op.parent_block() or not may_join(op, user):
            return []
        # Of one operand, which it reads where it stores.
        plain = input_maps(user) == [identity_map(len(user.iterator_types))]
        asks = any(isinstance(inner, linalg.IndexOp) for inner in user.body.walk())
        return found if plain and user.inputs[0] is value and not asks else []
    return []


@dataclass(frozen=True)
class _Blocks:
    """Columns as blocks of two halves, seen from the dimensions of an elementwise op."""

    count: int
    half: int
    interleaved: bool
    """Whether columns of the second half stand behind those of the first one that they belong to."""
    block: int | None
    """The dimension that counts blocks; None for one block, or where several do."""
    place: int | None
    """The dimension that counts places in a half; None where several do."""
    flat: frozenset[int]
    """Dimensions of one index."""

    @staticmethod
    def of(op: linalg.GenericOp, own: int, axis: int) -> _Blocks | None:
        """None for an op of unknown extents."""
        shape = [size.constant for size in nn.dims_of(op.inputs[own])]
        known = [extent for extent in shape if extent is not None]
        if len(known) != len(shape):
            return None
        wide = [n for n, extent in enumerate(known) if extent != 1 and n != axis]
        interleaved = not any(n > axis for n in wide) and bool(wide)
        # The dimension of places in a half.
        first = wide[-1] if interleaved else axis + 1
        before = [n for n in wide if n < (first if interleaved else axis)]
        behind = [n for n in wide if n >= first]
        flat = frozenset(range(len(known))) - {*wide, axis}
        half = prod(known[n] for n in behind)
        return _Blocks(
            prod(known) // (2 * half),
            half,
            interleaved,
            before[0] if len(before) == 1 else None,
            behind[0] if len(behind) == 1 else None,
            flat,
        )

    def renumbered(self, mapping: AffineMap) -> AffineMap | None:
        """The same places from `(row, block, place)`; None where that is not possible."""
        results: list[AffineExpr] = []
        for expr in mapping.results:
            if isinstance(expr, AffineConstantExpr):
                results.append(expr)
            elif not isinstance(expr, AffineDimExpr):
                return None
            elif expr.position in self.flat:
                results.append(AffineConstantExpr(0))
            elif expr.position == self.block:
                results.append(AffineDimExpr(1))
            elif expr.position == self.place:
                results.append(AffineDimExpr(2))
            else:
                return None
        return AffineMap(3, 0, tuple(results))


def _fits(op: linalg.GenericOp, product: nn.MatmulOp, blocks: _Blocks) -> bool:
    demands = demands_of(product)
    if product.body or not demands.matvec(product):
        return False
    if not demands.turns_halves(product, blocks.half, interleaved=blocks.interleaved):
        return False
    shape = [size.constant for size in nn.dims_of(product.result[0])]
    if shape != [1, 2 * blocks.count * blocks.half]:
        return False
    return product.parent_block() is op.parent_block() and may_join(product, op)


def _asks_only(op: linalg.GenericOp, axis: int) -> bool:
    """Whether the body asks for no index but that of its half."""
    asked = [inner for inner in op.body.walk() if isinstance(inner, linalg.IndexOp)]
    return all(inner.dim.value.data == axis for inner in asked)


def _replace(
    op: linalg.GenericOp,
    product: nn.MatmulOp,
    blocks: _Blocks,
    inputs: tuple[int, int, Sequence[int]],
    maps: Sequence[AffineMap],
    tail: Sequence[Operation],
) -> None:
    own, partner, rest = inputs
    last = tail[-1] if tail else op
    assert isinstance(last, linalg.GenericOp)
    extras = [op.inputs[n] for n in rest]
    sums = accumulator_type(product)
    block = Block(arg_types=[sums, sums, *(nn.element_of(value) for value in extras)])
    stored = [stored_of(product, value, block) for value in block.args[:2]]
    yielded: list[SSAValue] = []
    for half in (0, 1):
        given: dict[int, SSAValue] = {own: stored[half], partner: stored[1 - half]}
        given |= dict(zip(rest, block.args[2:]))
        value = _of_half(op, half, [given[n] for n in range(len(op.inputs))], block)
        yielded.append(_of_half(last, half, [value], block) if tail else value)
    block.add_op(nn.YieldOp(*yielded))
    settings: dict[str, Attribute | None] = {
        "halves": IntegerAttr(blocks.half, i64),
        "interleaved": UnitAttr() if blocks.interleaved else None,
        "maps": ArrayAttr([AffineMapAttr(m) for m in maps]),
    }
    kind = product.result[0].type
    assert isinstance(kind, TensorType)
    kind = nn.with_element(kind, nn.element_of(last.res[0]))
    new = nn.MatvecOp(product.inputs, [kind], (), settings, Region(block), extras=extras)
    new.attributes.update(product.attributes)
    give_location(op.location, new)
    absorb_nodes(new, product, op, *tail)
    new.result[0].name_hint = product.result[0].name_hint
    view = nn.ReshapeOp([new.result[0]], [last.res[0].type])
    give_location(op.location, view)
    Rewriter.insert_op([new, view], InsertPoint.before(op))
    last.res[0].replace_all_uses_with(view.result[0])


def stored_of(product: nn.MatmulOp, total: SSAValue, block: Block) -> SSAValue:
    """What a product without a body stores of a sum, computed at the end of a block."""
    element = nn.element_of(product.result[0])
    if total.type == element:
        return total
    rounded = narrow(total, element)
    block.add_op(rounded)
    return rounded.results[0]


def _of_half(op: linalg.GenericOp, half: int, given: Sequence[SSAValue], target: Block) -> SSAValue:
    """The body of an op in one half: what it yields."""
    source = op.body.block
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.args, given))
    for inner in source.ops:
        if isinstance(inner, linalg.YieldOp):
            (value,) = inner.operands
            return mapping.get(value, value)
        if isinstance(inner, linalg.IndexOp):
            number = arith.ConstantOp(IntegerAttr(half, IndexType()))
            target.add_op(number)
            mapping[inner.results[0]] = number.result
        else:
            target.add_op(inner.clone(mapping))
    raise AssertionError("a body ends with linalg.yield")
