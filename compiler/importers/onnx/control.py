"""Branches and loops: written once where a content decides, rounds of known number one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.compiler.importers.onnx.items import Item, of_value
from openinfer.compiler.importers.onnx.node import Node, Result, operator, stacked
from openinfer.compiler.importers.onnx.refusals import ATTRIBUTE, CONTENT, DAMAGED, LIMIT, Refusal
from openinfer.dialects.ops.base import NameRef
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from onnx import GraphProto

MAX_ROUNDS = 512
"""Rounds of a loop that are written out."""
MAX_STATEMENTS = 1 << 15
"""Nodes that they may come to."""


def _graph(node: Node, name: str) -> GraphProto:
    from onnx import GraphProto as Kind

    node.ignore(name)
    found = node.attributes.get(name)
    if not isinstance(found, Kind):
        raise Refusal(DAMAGED, f"{node.op} lacks the graph {name}")
    return found


@operator("If")
def if_of(node: Node) -> list[Result]:
    then, other = _graph(node, "then_branch"), _graph(node, "else_branch")
    condition = node.item(0)
    known = condition.numbers()
    if known is not None and known.size == 1:
        graph = then if bool(known.reshape(-1)[0]) else other
        return [*node.reader.inner().results_of(graph)]
    return _branch(node, condition.value, then, other)


def _branch(node: Node, condition: Value, then: GraphProto, other: GraphProto) -> list[Result]:
    """Two blocks that fill the same temporaries."""
    g = node.g
    if condition.rank:
        condition = g.op("reshape", condition, shape=[])
    for graph in (then, other):
        _touch(node, graph)
    targets: list[Value] = []
    names: list[str] = []
    for graph, stem in ((then, "then"), (other, "otherwise")):
        with g.block(stem) as name:
            names.append(name)
            values = [one.value for one in node.reader.inner().results_of(graph)]
            if not targets:
                targets = [Value(g.fresh("chosen"), one.dtype, one.dims) for one in values]
            for target, value in zip(targets, values):
                if (value.dtype, value.dims) != (target.dtype, target.dims):
                    raise Refusal(
                        ATTRIBUTE,
                        "If with results of different types in its branches is not supported",
                    )
                g.assign_to(target, value)
    for target in targets:
        g.temporary(target)
    g.branch(condition, names[0], names[1])
    return [*targets]


def _touch(node: Node, graph: GraphProto) -> None:
    """Writes what a block or loop reads from around it before it, where all can see it."""
    own = {one.name for one in graph.initializer} | {one.name for one in graph.input}
    for proto in graph.node:
        for name in proto.input:
            if name and name not in own:
                try:
                    item = node.reader.lookup(name)
                except Refusal:
                    continue
                if item is not None and (item.symbolic or item.tensor is None):
                    item.value  # noqa: B018
        own |= set(proto.output)
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                _touch(node, attribute.g)


@operator("Loop")
def loop(node: Node) -> list[Result]:
    body = _graph(node, "body")
    rounds: Any = node.sizes(0)[0] if node.there(0) else None
    start = node.item(1).numbers() if node.there(1) else np.array(True)
    if start is None:
        raise node.unknown(node.item(1))
    carried: list[Item] = [node.item(place) for place in range(2, len(node.inputs))]
    if not bool(start.reshape(-1)[0]):
        rounds = 0
    if rounds is None:
        raise Refusal(CONTENT, "Loop without a number of rounds that is known is not supported")
    if isinstance(rounds, Size) or rounds > MAX_ROUNDS:
        return _counted(node, body, rounds, carried)
    return _written_out(node, body, max(rounds, 0), carried)


def _written_out(node: Node, body: GraphProto, rounds: int, carried: list[Item]) -> list[Result]:
    count = len(carried)
    gathered: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - count)]
    going = node.reader.content(np.array(True), "bool")
    _limit(body, rounds)
    for place in range(rounds):
        inner = node.reader.inner()
        given = [node.reader.content(np.array(place, np.int64), "i64"), going, *carried]
        for info, item in zip(body.input, given):
            inner.define(info.name, item)
        results = inner.results_of(body)
        carried = results[1 : 1 + count]
        for kept, item in zip(gathered, results[1 + count :]):
            kept.append(item.value)
        known = results[0].numbers()
        if known is None:
            raise Refusal(CONTENT, "Loop whose end depends on data is not supported")
        if not bool(known.reshape(-1)[0]):
            break
    if gathered and not all(gathered):
        raise Refusal(CONTENT, "Loop of no rounds with gathered results is not supported")
    columns = [stacked(node.g, kept) for kept in gathered]
    return [*carried, *columns]


def _limit(body: GraphProto, rounds: int) -> None:
    if len(body.node) * rounds > MAX_STATEMENTS:
        raise Refusal(
            LIMIT, f"{rounds} rounds of {len(body.node)} nodes are more than can be written out"
        )


def _counted(node: Node, body: GraphProto, rounds: Any, carried: list[Item]) -> list[Result]:
    """A loop of the language: what it carries keeps its type, and nothing is gathered."""
    g = node.g
    node.need(len(body.output) == 1 + len(carried), "many rounds and gathered results")
    _touch(node, body)
    held = [g.copy(one.value) for one in carried]
    with g.loop(rounds) as index:
        inner = node.reader.inner()
        given = [
            node.reader.content(_scalar(index), "i64"),
            node.reader.content(np.array(True), "bool"),
            *(of_value(one.name, one) for one in held),
        ]
        for info, item in zip(body.input, given):
            inner.define(info.name, item)
        results = inner.results_of(body)
        known = results[0].numbers()
        if known is None or not bool(known.reshape(-1)[0]):
            raise Refusal(CONTENT, "Loop whose end depends on data is not supported")
        _carry(g, held, [one.value for one in results[1:]], "Loop")
    return [*held]


def _scalar(size: Size) -> Any:
    array = np.empty((), object)
    array[()] = size
    return array


@operator("Scan")
def scan(node: Node) -> list[Result]:
    body = _graph(node, "body")
    count = node.int("num_scan_inputs", 1)
    if not 0 < count <= len(node.inputs):
        raise Refusal(DAMAGED, f"Scan has {len(node.inputs)} inputs and num_scan_inputs={count}")
    if node.version < 9:
        return _scan_batches(node, body, count)
    states = len(node.inputs) - count
    outputs = len(body.output) - states
    axes = node.ints("scan_input_axes") or [0] * count
    backwards = node.ints("scan_input_directions") or [0] * count
    out_axes = node.ints("scan_output_axes") or [0] * outputs
    out_backwards = node.ints("scan_output_directions") or [0] * outputs
    if (
        states < 0
        or outputs < 0
        or not len(axes) == len(backwards) == count
        or not len(out_axes) == len(out_backwards) == outputs
    ):
        raise Refusal(DAMAGED, "Scan has attributes for another number of inputs or outputs")
    carried = [node.item(place) for place in range(states)]
    scanned = [node.x(states + place) for place in range(count)]
    axes = [node.axis(axis, one.rank) for axis, one in zip(axes, scanned)]
    rounds = _rounds(scanned, axes)
    if rounds.constant is None or rounds.constant > MAX_ROUNDS:
        ends, columns = _scan_loop(
            *(node, body, [one.value for one in carried], scanned),
            *(rounds, axes, backwards, out_backwards),
        )
        spread = zip(columns, out_axes)
        return [*ends, *(_moved(node, one, node.axis(axis, one.rank)) for one, axis in spread)]
    carried, kept = _scanned(node, body, carried, scanned, axes, backwards)
    results: list[Result] = [*carried]
    for values, axis, back in zip(kept, out_axes, out_backwards):
        axis = node.axis(axis, values[0].rank + 1)
        values = values[::-1] if back else values
        results.append(stacked(node.g, values, axis))
    return results


def _rounds(scanned: list[Value], axes: list[int]) -> Size:
    extents = {one.dims[axis] for one, axis in zip(scanned, axes)}
    if len(extents) != 1:
        raise Refusal(DAMAGED, f"Scan takes tensors of {len(extents)} lengths at once")
    return extents.pop()


def _scan_loop(
    node: Node,
    body: GraphProto,
    carried: list[Value],
    scanned: list[Value],
    rounds: Size,
    axes: list[int],
    backwards: list[int],
    out_backwards: list[int],
) -> tuple[list[Value], list[Value]]:
    """A scan as a loop of the language: what it carries at the end, and a row for each round."""
    g = node.g
    _touch(node, body)
    held = [g.copy(one) for one in carried]
    gathered: list[Value] = []
    with g.loop(rounds, label="scan") as index:
        inner = node.reader.inner()
        parts = [
            _row(g, one, axis, rounds - 1 - index if back else index)
            for one, axis, back in zip(scanned, axes, backwards)
        ]
        for info, one in zip(body.input, [*held, *parts]):
            inner.define(info.name, of_value(one.name, one))
        results = [one.value for one in inner.results_of(body)]
        for value in results[len(held) :]:
            with g.before_loop():
                zero = node.const(np.array(0), value.dtype, "zero")
                gathered.append(g.copy(g.op("expand", zero, shape=[rounds, *value.dims])))
            _write_row(g, gathered[-1], value, index)
        _carry(g, held, results[: len(held)], "Scan")
    turned = zip(gathered, out_backwards)
    return held, [g.op("flip", one, axes=[0]) if back else one for one, back in turned]


def _row(g: GraphWriter, x: Value, axis: int, index: Size) -> Value:
    return g.op("squeeze", g.op("slice", x, axis=axis, start=index, stop=index + 1), axes=[axis])


def _write_row(g: GraphWriter, target: Value, value: Value, index: Size) -> None:
    place = g.op("iota", shape=[1], start=NameRef(str(index)))
    g.assign_to(target, g.op("scatter", target, place, g.op("unsqueeze", value, axes=[0])))


def _moved(node: Node, x: Value, axis: int) -> Value:
    """The first axis at another place."""
    order = [*range(1, axis + 1), 0, *range(axis + 1, x.rank)]
    return x if axis == 0 else node.g.op("permute", x, perm=order)


def _carry(g: GraphWriter, held: list[Value], later: list[Value], what: str) -> None:
    """Overwrites what a loop carries, which keeps its type. All are read before the first is overwritten."""
    values = [g.copy(one) for one in later]
    for target, value in zip(held, values):
        if (value.dtype, value.dims) != (target.dtype, target.dims):
            raise Refusal(
                ATTRIBUTE, f"{what} that carries a value of changing shape is not supported"
            )
        g.assign_to(target, value)


def _scanned(
    node: Node,
    body: GraphProto,
    carried: list[Item],
    scanned: list[Value],
    axes: list[int],
    backwards: list[int],
) -> tuple[list[Item], list[list[Value]]]:
    """The rounds of a scan: what it carries at the end, and what each round gives."""
    rounds = _rounds(scanned, axes).constant
    if rounds is None or not 0 < rounds <= MAX_ROUNDS:
        raise Refusal(
            CONTENT,
            f"Scan over an axis of unknown length, or more than {MAX_ROUNDS} rounds, is not supported",
        )
    _limit(body, rounds)
    states = len(carried)
    kept: list[list[Value]] = [[] for _ in range(len(body.output) - states)]
    for place in range(rounds):
        inner = node.reader.inner()
        parts: list[Item] = []
        for one, axis, back in zip(scanned, axes, backwards):
            at = rounds - 1 - place if back else place
            cut = node.g.op("slice", one, axis=axis, start=at, stop=at + 1)
            parts.append(of_value(one.name, node.g.op("squeeze", cut, axes=[axis])))
        for info, item in zip(body.input, [*carried, *parts]):
            inner.define(info.name, item)
        results = inner.results_of(body)
        carried = results[:states]
        for values, item in zip(kept, results[states:]):
            values.append(item.value)
    return carried, kept


def _scan_batches(node: Node, body: GraphProto, count: int) -> list[Result]:
    """Version 8: a batch axis in front, along whose elements the scan runs by itself."""
    node.need(not node.there(0), "sequence_lens")
    directions = node.ints("directions") or [0] * count
    g = node.g
    given = [node.x(place) for place in range(1, len(node.inputs))]
    states = len(given) - count
    batch = given[0].dims[0].constant
    node.need(batch is not None and 0 < batch <= 64, "a batch of unknown size")
    assert batch is not None
    columns: list[list[Value]] = []
    for place in range(batch):
        one = [
            g.op("squeeze", g.op("slice", x, axis=0, start=place, stop=place + 1), axes=[0])
            for x in given
        ]
        carried = [of_value(x.name, x) for x in one[:states]]
        ended, kept = _scanned(node, body, carried, one[states:], [0] * count, directions)
        columns.append(
            [
                *(x.value for x in ended),
                *(stacked(g, values) for values in kept),
            ]
        )
    return [stacked(g, column) for column in zip(*columns)]
