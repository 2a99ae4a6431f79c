"""Handlers of control flow: `cond` becomes a branch, `scan`, `map` and counted `while_loop`s become loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import HIGHER_ORDER, REFUSALS, cast_to, reshape
from openinfer.compiler.importers.torch.reader import Reader
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import sliced
from openinfer.dialects.ops.base import NameRef, TensorSpec
from openinfer.runtime.sizes import Size

REFUSALS["associative_scan"] = (
    "a scan in any order",
    "torch.scan, which goes from the first to the last",
)


def _graph(node: Any, argument: Any) -> Any:
    """The graph that an argument names."""
    return getattr(node.graph.owning_module, str(argument.target)).graph


def _run(reader: Reader, graph: Any, values: Sequence[Any]) -> list[Any]:
    """Writes a graph with these values for its placeholders; gives the nodes that it returns."""
    placeholders = [one for one in graph.nodes if one.op == "placeholder"]
    for node, value in zip(placeholders, values):
        reader.bind(node, value)
    return reader.read(graph)


def _operands(reader: Reader, raw: Sequence[Any]) -> list[Any]:
    """Operands of a graph: tensors as values; sizes are found again in shapes."""
    return [reader.tensor(one) if reader.is_tensor(one) else None for one in raw]


def _temporary(reader: Reader, spec: TensorSpec) -> Value:
    """A temporary that later statements fill."""
    zero = reader.scalar(False if spec.dtype == "bool" else 0, spec.dtype)
    whole = zero if not spec.dims else reader.g.op("expand", zero, shape=list(spec.dims))
    return reader.g.copy(whole)


def cond(reader: Reader, node: Any) -> tuple[Value, ...]:
    """Both graphs write the same temporaries."""
    predicate, then, other, operands = node.args
    values = _operands(reader, operands)
    results = [_temporary(reader, spec) for spec in reader.specs_of(node)]
    condition = reshape(reader.g, reader.tensor(predicate), [])
    blocks: list[str] = []
    for stem, graph in (("then", _graph(node, then)), ("other", _graph(node, other))):
        with reader.g.block(stem) as name:
            for target, raw in zip(results, _run(reader, graph, values)):
                _assign(reader, target, raw)
        blocks.append(name)
    reader.g.branch(condition, *blocks)
    return tuple(results)


def _assign(reader: Reader, target: Value, raw: Any) -> None:
    value = cast_to(reader.g, reader.tensor(raw), target.dtype)
    reader.g.assign_to(target, reshape(reader.g, value, target.dims))


def scan(reader: Reader, node: Any) -> tuple[Value, ...]:
    """Steps along the first axis: what is carried is overwritten, what a step gives is a row of a result."""
    combine, init, xs, additional = node.args
    carried = [reader.g.copy(reader.tensor(one)) for one in init]
    rows = [reader.tensor(one) for one in xs]
    specs = reader.specs_of(node)
    collected = [_temporary(reader, spec) for spec in specs[len(carried) :]]
    constants = _operands(reader, additional)
    with reader.g.loop(rows[0].dims[0], label="scan") as index:
        parts = [_row(reader, one, index) for one in rows]
        returned = _run(reader, _graph(node, combine), [*carried, *parts, *constants])
        later = [reader.tensor(one) for one in returned]
        for target, value in zip(collected, later[len(carried) :]):
            _write_row(reader, target, value, index)
        _carry(reader, carried, later[: len(carried)])
    return (*carried, *collected)


def _carry(reader: Reader, carried: list[Value], later: list[Value]) -> None:
    """Overwrites what a loop carries. All change at once: what is itself carried is copied first."""
    names = {one.name for one in carried}
    safe = [reader.g.copy(one) if one.name in names else one for one in later]
    for target, value in zip(carried, safe):
        reader.g.assign_to(target, cast_to(reader.g, value, target.dtype))


def _row(reader: Reader, x: Value, index: Size) -> Value:
    return reader.g.op("squeeze", sliced(reader.g, x, 0, index, index + 1), axes=[0])


def _write_row(reader: Reader, target: Value, value: Value, index: Size) -> None:
    g = reader.g
    place = g.op("iota", shape=[1], start=NameRef(str(index)))
    row = g.op("unsqueeze", cast_to(g, value, target.dtype), axes=[0])
    g.assign_to(target, g.op("scatter", target, place, row))


def map_rows(reader: Reader, node: Any) -> tuple[Value, ...]:
    """The same for each row, with nothing carried."""
    body, xs, constants = node.args
    rows = [reader.tensor(one) for one in xs]
    results = [_temporary(reader, spec) for spec in reader.specs_of(node)]
    others = _operands(reader, constants)
    with reader.g.loop(rows[0].dims[0], label="map") as index:
        parts = [_row(reader, one, index) for one in rows]
        returned = _run(reader, _graph(node, body), [*parts, *others])
        for target, raw in zip(results, returned):
            _write_row(reader, target, reader.tensor(raw), index)
    return tuple(results)


_UNCOUNTED = (
    "a loop whose number of rounds is not known",
    "count: an integer that starts at a number, grows by 1, and is compared with a number by <",
)


def while_loop(reader: Reader, node: Any) -> tuple[Value, ...]:
    """`while i < n`, i counting up by 1 from a number: a loop of n - i rounds."""
    condition, body, init, additional = node.args
    condition_graph, body_graph = _graph(node, condition), _graph(node, body)
    place, stop = _bound(condition_graph, len(init))
    start = reader.number_in(init[place])
    if start is None or not _counts_up(body_graph, place):
        raise Refused(*_UNCOUNTED)
    carried = [reader.g.copy(reader.tensor(one)) for one in init]
    constants = _operands(reader, additional)
    with reader.g.loop(stop, start=min(start, stop), label="while"):
        returned = _run(reader, body_graph, [*carried, *constants])
        _carry(reader, carried, [reader.tensor(one) for one in returned])
    return tuple(carried)


def _bound(graph: Any, count: int) -> tuple[int, int]:
    """Which carried value a condition compares, and the number behind the last one that it lets pass."""
    placeholders = [one for one in graph.nodes if one.op == "placeholder"][:count]
    (output,) = [one for one in graph.nodes if one.op == "output"]
    result = output.args[0]
    node = result[0] if isinstance(result, tuple | list) else result
    name = str(getattr(node, "target", ""))
    if name not in ("aten.lt.Scalar", "aten.le.Scalar") or node.args[0] not in placeholders:
        raise Refused(*_UNCOUNTED)
    limit = node.args[1]
    if not isinstance(limit, int):
        raise Refused(*_UNCOUNTED)
    return placeholders.index(node.args[0]), limit + ("le" in name)


def _counts_up(graph: Any, place: int) -> bool:
    """Whether a carried value is itself plus 1 after a round."""
    placeholders = [one for one in graph.nodes if one.op == "placeholder"]
    (output,) = [one for one in graph.nodes if one.op == "output"]
    node = output.args[0][place]
    if str(getattr(node, "target", "")) not in ("aten.add.Tensor", "aten.add.Scalar"):
        return False
    return node.args[:2] == (placeholders[place], 1) and not node.kwargs


HIGHER_ORDER.update({"cond": cond, "scan": scan, "map_impl": map_rows, "while_loop": while_loop})
