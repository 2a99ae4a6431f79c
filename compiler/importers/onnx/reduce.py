"""Sums, products, extremes over axes, and positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable

from openinfer.compiler.importers.graph_writer import GraphWriter, Value
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.dialects.ops.base import FLOATS

_Reduction = Callable[[GraphWriter, Value, list[int], bool], Value]


def _op(name: str) -> _Reduction:
    def reduced(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
        return g.op(name, x, axes=axes, keepdims=keep)

    return reduced


def _log_sum(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
    return g.op("log", g.op("sum_axis", x, axes=axes, keepdims=keep))


def _log_sum_exp(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
    return g.op("logsumexp", x, axes=axes, keepdims=keep)


def _sum_square(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
    return g.op("sum_axis", g.op("mul", x, x), axes=axes, keepdims=keep)


def _l1(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
    return g.op("sum_axis", g.op("abs", x), axes=axes, keepdims=keep)


def _l2(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
    return g.op("sqrt", _sum_square(g, x, axes, keep))


def _bools(name: str) -> _Reduction:
    """Extremes of bools are `any` and `all`."""

    def reduced(g: GraphWriter, x: Value, axes: list[int], keep: bool) -> Value:
        if x.dtype == "bool":
            return g.op("any" if name == "max_axis" else "all", x, axes=axes, keepdims=keep)
        return g.op(name, x, axes=axes, keepdims=keep)

    return reduced


_ROWS: dict[str, tuple[_Reduction, bool]] = {
    "ReduceSum": (_op("sum_axis"), True),
    "ReduceMean": (_op("mean_axis"), True),
    "ReduceProd": (_op("prod_axis"), True),
    "ReduceMax": (_bools("max_axis"), True),
    "ReduceMin": (_bools("min_axis"), True),
    "ReduceL1": (_l1, False),
    "ReduceL2": (_l2, False),
    "ReduceLogSum": (_log_sum, False),
    "ReduceLogSumExp": (_log_sum_exp, False),
    "ReduceSumSquare": (_sum_square, False),
}
"""What computes a reduction, and whether it leaves a single element as it is."""


def _reduction(reduced: _Reduction, plain: bool) -> Callable[[Node], Result]:
    def handler(node: Node) -> Result:
        x = node.x()
        keep = node.flag("keepdims", True)
        nothing = node.flag("noop_with_empty_axes")
        axes = node.axes("axes", 1, x.rank)
        if not axes and nothing:
            if plain:
                return node.item(0)
            # A row of one element each: the reduction of a new axis.
            return reduced(node.g, node.g.op("unsqueeze", x, axes=[x.rank]), [x.rank], False)
        axes = sorted(set(axes or range(x.rank)))
        if not axes:
            return reduced(node.g, node.g.op("reshape", x, shape=[1]), [0], False)
        empty = _of_nothing(node, x, axes)
        if empty is not None:
            dims = [1 if i in axes else dim for i, dim in enumerate(x.dims)]
            kept = dims if keep else [dim for i, dim in enumerate(x.dims) if i not in axes]
            one = node.const([empty], x.dtype)
            return node.g.op("expand", node.g.op("reshape", one, shape=[1] * len(kept)), shape=kept)
        return reduced(node.g, x, axes, keep)

    return handler


def _of_nothing(node: Node, x: Value, axes: list[int]) -> float | bool | None:
    """What the extreme of no elements is; None where there are some, or another reduction."""
    if node.op not in ("ReduceMax", "ReduceMin") or all(x.dims[i].constant != 0 for i in axes):
        return None
    top = node.op == "ReduceMin"
    if x.dtype in FLOATS:
        return math.inf if top else -math.inf
    if x.dtype == "bool":
        return top
    bits, signed = int(x.dtype[1:]), x.dtype[0] == "i"
    if top:
        return 2 ** (bits - signed) - 1
    return -(2 ** (bits - 1)) if signed else 0


for _name, (_reduced, _plain) in _ROWS.items():
    operator(_name)(_reduction(_reduced, _plain))


@operator("ArgMax", "ArgMin")
def argument(node: Node) -> Result:
    x = node.x()
    return node.g.op(
        "argmax_axis" if node.op == "ArgMax" else "argmin_axis",
        x,
        axis=node.axis(node.int("axis", 0), x.rank),
        keepdims=node.flag("keepdims", True),
        select_first=not node.flag("select_last_index"),
    )


@operator("CumSum", "CumProd")
def running(node: Node) -> Result:
    x = node.x()
    axis = node.ints_of(1)
    return node.g.op(
        "cumsum" if node.op == "CumSum" else "cumprod",
        x,
        axis=node.axis(axis[0], x.rank),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
    )


@operator("MeanVarianceNormalization")
def mean_variance_normalization(node: Node) -> Result:
    g, x = node.g, node.x()
    axes = [node.axis(one, x.rank) for one in node.ints("axes") or [0, 2, 3]]
    mean = g.op("mean_axis", x, axes=axes, keepdims=True)
    deviation = g.op("std", x, axes=axes, keepdims=True, correction=0)
    return g.op("div", g.op("sub", x, mean), g.op("add", deviation, 1e-9))
