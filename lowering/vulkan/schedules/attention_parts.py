"""The keys of one query, divided among workgroups: where there are many, one for each head leaves most of a
device idle.

    func.call @attention_0(%q, %k, %v, %o, %parts)

becomes

    %keys = memref.dim %k, %c2
    %many = arith.cmpi uge, %keys, %c2048
    scf.if %many {
      func.call @attention_0_in_parts(%q, %k, %v, %o, %parts, %counts)  // [top, total, *result] of each part,
    } else {                                                            // which the last workgroup joins
      func.call @attention_0(%q, %k, %v, %o, %parts)
    }

How many parts there are, and how long they are, follows from how many keys a step has. Where the types do not
say how many heads there are in all, a second kernel joins the parts, `@attention_0_joined`, which waits for
the first.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FixedBitwidthType, MemRefType, StringAttr, f16
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.math import FmaOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.nn import AttentionOp, dims_of, element_of
from openinfer.lowering.demands import Scratch
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.kernels.numeric import select, wide_type
from openinfer.lowering.kernels.scratch import scratch_of
from openinfer.lowering.locations import give_location
from openinfer.lowering.vulkan.schedules.arrivals import counts_of, is_last
from openinfer.lowering.vulkan.schedules.attention_one_query import (
    SIZE,
    Part,
    Query,
    fits_one_query,
    keys_at_once,
    lanes_of,
    size_of,
)
from openinfer.lowering.vulkan.schedules.attention_operands import Attended
from openinfer.lowering.vulkan.schedules.attention_weights import Weights
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    each_group,
    grid_for,
    groups_for,
    numbered,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.wide import BYTES, mark_aligned
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.manifest import DEVICE_COUNTS
from openinfer.runtime.sizes import Size

STAGE = "openinfer.stage"
"""On the op of a kernel: which of the two kernels of a divided attention it has."""
IN_PARTS, JOINED = "in_parts", "joined"
ROOM = "parts"
"""The scratch buffer: [batches, heads, parts, 2 + columns]."""
ARRIVED = "arrived"
"""Another one: a count for each batch and the heads of a workgroup."""
TOGETHER = 2
"""Heads of queries that share what is read of the keys."""
WORD_BYTES = 4
"""Of what subgroups leave for each other."""
MOST_PARTS = 16
GROUPS = 256
"""Workgroups that keep a large device busy."""
ROUNDS = 4
"""Rounds of keys of one workgroup from which on they are divided."""


def parts_scratch(op: AttentionOp) -> list[Scratch]:
    """The scratch buffer of an attention, here on tensors, whose keys may be divided."""
    layouts = [layout.data for layout in op.layouts]
    query, key, value = (dims_of(v) for v in op.inputs[:3])
    batches, heads, queries = (query[layouts[0].index(axis)] for axis in "bhl")
    keys, depth = key[layouts[1].index("l")].constant, query[3].constant
    groups = key[layouts[1].index("h")].constant
    described = Facts.of(op).device_description
    one = queries.constant in (None, 1)
    if not one or depth is None or value[3] != query[3] or described.subgroup < 2:
        return []
    together = _together(described, heads.constant, groups, depth)
    parts = _most_parts(batches.constant, heads.constant, together)
    if parts < 2:
        return []
    lanes = BYTES * 8 // max(_bits(v) for v in op.inputs[:3])
    if keys is not None and (depth < lanes or keys < _least(described, depth, lanes)):
        return []
    kind = wide_type(element_of(op.result[0]))
    return [Scratch(ROOM, kind, (batches, heads, Size.of(parts), Size.of(depth + 2)))]


def _bits(value: SSAValue) -> int:
    element = element_of(value)
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


def _least(described: DeviceDescription, depth: int, lanes: int) -> int:
    """Keys from which on they are divided."""
    return ROUNDS * keys_at_once(described, depth, lanes)


def _together(
    described: DeviceDescription, heads: int | None, groups: int | None, depth: int
) -> int:
    """Heads of queries of a workgroup."""
    subgroups = min(SIZE, described.invocations) // described.subgroup
    shared = TOGETHER * subgroups * (depth + 2) * WORD_BYTES
    if heads is None or not groups or heads % (groups * TOGETHER):
        return 1
    return TOGETHER if shared <= described.shared_memory else 1


def _most_parts(batches: int | None, heads: int | None, together: int) -> int:
    if batches is None or heads is None:
        return MOST_PARTS
    return min(MOST_PARTS, GROUPS * together // max(1, batches * heads))


def divide_keys(step: FuncOp, function: FuncOp, kernel: Operation, calls: list[CallOp]) -> None:
    """Gives an attention of one query another kernel, or two, and lets its calls in `@step` choose."""
    if not isinstance(kernel, AttentionOp) or kernel.room(ROOM) is None:
        return
    mark_aligned(kernel, function, calls)
    b = LoopBuilder(InsertPoint.before(kernel))
    if not fits_one_query(b, kernel):
        return
    axis = kernel.layouts.data[1].data.index("l")
    shape = _shape(kernel.inputs[1])
    least = _least(b.facts.device_description, shape[3], lanes_of(kernel))
    known = shape[axis]
    if 0 <= known < least:
        return
    own = function.sym_name.data
    counts = counts_of(step) if _at_once(b, kernel) else None
    stages = (IN_PARTS,) if counts is not None else (IN_PARTS, JOINED)
    for stage in stages:
        copy = function.clone()
        copy.properties["sym_name"] = StringAttr(f"{own}_{stage}")
        (op,) = [op for op in copy.body.block.ops if isinstance(op, AttentionOp)]
        op.attributes[STAGE] = StringAttr(stage)
        if counts is not None:
            _count_arrivals(copy, op, counts)
        block = function.parent_block()
        assert block is not None
        block.insert_op_before(copy, function)
    argument = kernel.inputs[1]
    assert isinstance(argument, BlockArgument)
    keys = argument.index
    names = [f"{own}_{stage}" for stage in stages]
    for call in calls:
        with keep_location(call):
            _choose(call, (call.operands[keys], axis, least), own, names, counts)
        Rewriter.erase_op(call)
    if known >= 0:
        function.detach()
        function.erase()


def _at_once(b: LoopBuilder, op: AttentionOp) -> bool:
    """Whether the last workgroup of some heads may join their parts: where there is a count for them."""
    division = _Division(b, op)
    some = division.extents(b, op.output, op.inputs[1], division.heads_axis)[:2]
    known = product(b, some) if all(isinstance(extent, int) for extent in some) else None
    return isinstance(known, int) and known <= DEVICE_COUNTS


def _count_arrivals(function: FuncOp, op: AttentionOp, counts: SSAValue) -> None:
    """Gives the kernel of an attention numbers to count its workgroups with."""
    block = function.body.block
    argument = block.insert_arg(counts.type, len(block.args))
    argument.name_hint = counts.name_hint
    function.update_function_type()
    rooms = {one.data: value for one, value in zip(op.rooms or (), op.scratch)}
    given = AttentionOp(
        op.inputs,
        outs=op.outs,
        properties=op.own_properties,
        scratch={**rooms, ARRIVED: argument},
        extras=op.extras,
    )
    given.attributes.update(op.attributes)
    with keep_location(op):
        block.insert_op_before(given, op)
    give_location(op.location, given)
    op.detach()
    op.erase()


def _choose(
    call: CallOp,
    keys: tuple[SSAValue, int, int],
    whole: str,
    parts: list[str],
    counts: SSAValue | None,
) -> None:
    """Calls the kernels that fit the keys: a buffer, its axis, and how many are divided."""
    b = LoopBuilder(InsertPoint.before(call))
    buffer, axis, least = keys

    def insert(*names: str) -> None:
        for name in names:
            more = [counts] if counts is not None and name != whole else []
            one = CallOp(name, [*call.operands, *more], [])
            one.attributes.update(call.attributes)
            b.do(one)

    count = b.dim(buffer, axis)
    if isinstance(count, int):
        insert(*parts)
        return
    b.when(b.compare("uge", count, least), lambda: insert(*parts), lambda: insert(whole))


def stage_of(op: AttentionOp) -> str | None:
    """Which kernel of a divided attention an op has; None for one that is not divided."""
    noted = op.attributes.get(STAGE)
    return noted.data if isinstance(noted, StringAttr) else None


class _Division:
    """How the keys of an attention are divided, seen from the host or from a kernel."""

    def __init__(self, b: LoopBuilder, op: AttentionOp) -> None:
        self.op = op
        (self.scratch,) = scratch_of(op, ROOM)
        self.most = _shape(self.scratch)[2]
        shapes = [_shape(value) for value in op.inputs[:2]]
        described = b.facts.device_description
        self.round = keys_at_once(described, shapes[0][3], lanes_of(op))
        layouts = [layout.data for layout in op.layouts]
        self.axis, self.heads_axis = layouts[1].index("l"), layouts[3].index("h")
        heads, groups = (s[layout.index("h")] for s, layout in zip(shapes, layouts))
        known = [n if n >= 0 else None for n in (heads, groups)]
        self.together = _together(described, known[0], known[1], shapes[0][3])

    def length(self, b: LoopBuilder, keys: SSAValue) -> Index:
        """Keys of a part: whole rounds."""
        rounds = b.ceil_div(b.dim(keys, self.axis), self.round)
        return product(b, [b.ceil_div(rounds, self.most), self.round])

    def parts(self, b: LoopBuilder, keys: SSAValue) -> Index:
        """How many there are."""
        return b.ceil_div(b.dim(keys, self.axis), self.length(b, keys))

    def extents(self, b: LoopBuilder, out: SSAValue, keys: SSAValue, axis: int) -> list[Index]:
        """Batches, groups of heads, parts; `axis` is that of heads in the result."""
        layout = self.op.layouts.data[3].data
        heads = b.dim(out, axis)
        some = heads if self.together == 1 else b.ceil_div(heads, self.together)
        return [b.dim(out, layout.index("b")), some, self.parts(b, keys)]


def in_parts(b: LoopBuilder, op: AttentionOp) -> Grid:
    """The kernel that walks parts of the keys, and joins them where it counts its workgroups."""
    of = Attended(b, op)
    division = _Division(b, op)
    axis, arrived = of.out.axis("h"), op.room(ARRIVED)

    def count(host: LoopBuilder, out: SSAValue, keys: SSAValue) -> list[Index]:
        return division.extents(host, out, keys, axis)

    extents = count(b, of.out.buffer, of.k.buffer)

    def one(number: SSAValue) -> None:
        batch, some, part = split(b, number, extents)
        first = b.mul(some, division.together) if division.together > 1 else some
        heads = [b.add(first, n) for n in range(division.together)]
        length = division.length(b, of.k.buffer)
        query = Query(of, batch, heads, Part(part, length, division.scratch))
        query.emit()
        if arrived is None:
            return
        depth = of.depth
        assert isinstance(depth, int)

        def join(place: SSAValue) -> None:
            own = b.floordiv(place, depth) if division.together > 1 else b.index(0)
            _join_parts(of, division, (batch, b.add(first, own), b.rem(place, depth)))

        def finish() -> None:
            b.loop(query.group.thread, division.together * depth, query.size, join)

        last = is_last(query.group, arrived, b.floordiv(number, extents[-1]), extents[-1])
        b.when(last, finish)

    each_group(b, product(b, extents), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        found = count(host, value_of(of.out.buffer), value_of(of.k.buffer))
        return groups_for(host, product(host, found))

    return Grid(groups, size_of(b))


def joined(b: LoopBuilder, op: AttentionOp) -> Grid:
    """The kernel that joins the parts of each head: an invocation for each column."""
    of = Attended(b, op)
    division = _Division(b, op)
    assert isinstance(of.depth, int)
    depth = of.depth

    def extents(host: LoopBuilder, out: SSAValue) -> list[Index]:
        return [*of.extents(host, out)[:2], depth]

    def one(number: SSAValue) -> None:
        batch, head, column = split(b, number, extents(b, of.out.buffer))
        _join_parts(of, division, (batch, head, column))

    numbered(b, product(b, extents(b, of.out.buffer)), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        return grid_for(host, product(host, extents(host, value_of(of.out.buffer))))

    return Grid(groups)


def _join_parts(
    of: Attended, division: _Division, place: tuple[SSAValue, SSAValue, SSAValue]
) -> None:
    """A result: what the parts of the keys have found of it. `place`: batch, head, column."""
    b, (batch, head, column) = of.b, place
    weights = Weights(b, of.kind, of_two=of.stored == f16)
    parts = division.parts(b, of.k.buffer)
    last = b.minus(parts, 1)
    # All loads before the first that is waited for; parts that are not there repeat the last.
    rows = [[batch, head, b.minimum(n, last)] for n in range(_most(parts, division.most))]
    tops, totals, results = (
        [b.load(division.scratch, [*row, at]) for row in rows] for at in (0, 1, b.add(column, 2))
    )
    top = weights.largest(tops)
    total = result = b.constant(0, of.kind)
    for part, factor in enumerate(weights.factors(tops, top)):
        more = [
            b.insert(FmaOp(factor, value[part], old))
            for value, old in ((totals, total), (results, result))
        ]
        if not isinstance(parts, int):
            there = b.compare("ult", part, parts)
            more = [select(b, there, *both) for both in zip(more, (total, result))]
        total, result = more
    total = weights.divisor(total, nan_rows=of.op.nan_rows is not None)
    value = b.insert(arith.DivfOp(result, total))
    b.store(convert(b, value, of.stored), of.out.buffer, of.out.at(batch, head, 0, column))


def _most(parts: Index, most: int) -> int:
    return parts if isinstance(parts, int) else most


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()
