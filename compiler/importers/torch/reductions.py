"""Handlers that join elements along axes: sums, extremes, statistics, distances."""

from __future__ import annotations

from math import inf, prod

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, Handler, handles
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.runtime.sizes import Size


def reduced(
    call: Call, op: str, x: Value, axes: list[int], keep: bool, **settings: object
) -> Value:
    """An op over axes; over none of a number it is the number."""
    if not axes:
        return x
    given = {"keepdims": True} if keep else {}
    return call.g.op(op, x, axes=axes, **given, **settings)


def _over_axes(call: Call, name: str = "dim") -> tuple[list[int], bool]:
    """The axes and whether they stay, of an overload that has such arguments."""
    x = call.tensor("self")
    names = {argument.name for argument in call.node.target._schema.arguments}
    axes = call.axes(x.rank, name) if name in names else list(range(x.rank))
    return axes, "keepdim" in names and call.flag("keepdim")


def _reduction(op: str) -> Handler:
    """Sums and means in the dtype of the result: sums of integers and bools are i64."""

    def handler(call: Call) -> Value:
        names = {argument.name for argument in call.node.target._schema.arguments}
        if "dtype" in names:
            call.raw("dtype")
        axes, keep = _over_axes(call)
        return reduced(call, op, call.cast(call.tensor("self"), call.dtype), axes, keep)

    return handler


handles("aten.sum.default", "aten.sum.dim_IntList")(_reduction("sum_axis"))
handles("aten.mean.default", "aten.mean.dim")(_reduction("mean_axis"))
handles("aten.prod.default", "aten.prod.dim_int")(_reduction("prod_axis"))


def _extreme(op: str, other: str) -> Handler:
    """The largest or smallest; of bools whether any or all are true."""

    def handler(call: Call) -> Value:
        axes, keep = _over_axes(call)
        x = call.tensor("self")
        return reduced(call, other if x.dtype == "bool" else op, x, axes, keep)

    return handler


handles("aten.amax.default", "aten.max.default")(_extreme("max_axis", "any"))
handles("aten.amin.default", "aten.min.default")(_extreme("min_axis", "all"))


def _extreme_and_place(op: str, places: str) -> Handler:
    def handler(call: Call) -> tuple[Value, Value]:
        x = call.tensor("self")
        axis, keep = call.axis(x.rank), call.flag("keepdim")
        settings = {"keepdims": True} if keep else {}
        place = call.g.op(places, x, axis=axis, **settings)
        call.reader.nonnegative.add(place.name)
        return reduced(call, op, x, [axis], keep), place

    return handler


handles("aten.max.dim")(_extreme_and_place("max_axis", "argmax_axis"))
handles("aten.min.dim")(_extreme_and_place("min_axis", "argmin_axis"))


def _place(op: str) -> Handler:
    """The position of the largest or smallest; without an axis that in row-major order."""

    def handler(call: Call) -> Value:
        x = call.tensor("self")
        if call.raw("dim") is None:
            call.raw("keepdim")
            flat = call.reshape(x, [prod(x.dims, start=Size.of(1))])
            found = call.reshape(call.g.op(op, flat, axis=0), call.dims)
        else:
            settings = {"keepdims": True} if call.flag("keepdim") else {}
            found = call.g.op(op, x, axis=call.axis(x.rank), **settings)
        call.reader.nonnegative.add(found.name)
        return found

    return handler


handles("aten.argmax.default")(_place("argmax_axis"))
handles("aten.argmin.default")(_place("argmin_axis"))


def _logical(op: str) -> Handler:
    def handler(call: Call) -> Value:
        axes, keep = _over_axes(call)
        return call.cast(reduced(call, op, call.tensor("self"), axes, keep), "bool")

    return handler


for _op in ("any", "all"):
    handles(f"aten.{_op}.default", f"aten.{_op}.dim", f"aten.{_op}.dims")(_logical(_op))


@handles("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(call: Call) -> Value:
    axes, _ = _over_axes(call)
    there = call.cast(call.cast(call.tensor("self"), "bool"), "i64")
    return reduced(call, "sum_axis", there, axes, False)


def _correction(call: Call) -> int:
    names = {argument.name for argument in call.node.target._schema.arguments}
    if "unbiased" in names:
        return 1 if call.flag("unbiased") else 0
    value = call.number("correction") if call.given("correction") else 1
    if value != int(value):
        raise Refused(f"correction={value} is no integer")
    return int(value)


def _spread(op: str) -> Handler:
    def handler(call: Call) -> Value:
        axes, keep = _over_axes(call)
        correction = _correction(call)
        settings = {} if correction == 1 else {"correction": correction}
        return reduced(call, op, call.tensor("self"), axes, keep, **settings)

    return handler


for _op in ("var", "std"):
    handles(f"aten.{_op}.correction", f"aten.{_op}.dim", f"aten.{_op}.default")(_spread(_op))


@handles("aten.var_mean.correction", "aten.var_mean.dim", "aten.var_mean.default")
def var_mean(call: Call) -> tuple[Value, Value]:
    axes, keep = _over_axes(call)
    return _spread("var")(call), reduced(call, "mean_axis", call.tensor("self"), axes, keep)


@handles("aten.logsumexp.default")
def logsumexp(call: Call) -> Value:
    axes, keep = _over_axes(call)
    return reduced(call, "logsumexp", call.cast(call.tensor("self"), call.dtype), axes, keep)


def _softmax(op: str) -> Handler:
    def handler(call: Call) -> Value:
        names = {argument.name for argument in call.node.target._schema.arguments}
        if "half_to_float" in names:
            call.skip("half_to_float")
        else:
            call.raw("dtype")
        x = call.cast(call.tensor("self"), call.dtype)
        axis = call.axis(max(x.rank, 1))
        settings = {} if axis == x.rank - 1 else {"axis": axis}
        return call.g.op(op, x, **settings)

    return handler


handles("aten.softmax.int", "aten._softmax.default")(_softmax("softmax"))
handles("aten.log_softmax.int", "aten._log_softmax.default")(_softmax("log_softmax"))


def _running(op: str) -> Handler:
    def handler(call: Call) -> Value:
        call.raw("dtype")
        x = call.cast(call.tensor("self"), call.dtype)
        axis = call.axis(max(x.rank, 1))
        return x if x.rank == 0 else call.g.op(op, x, axis=axis)

    return handler


handles("aten.cumsum.default")(_running("cumsum"))
handles("aten.cumprod.default")(_running("cumprod"))


@handles("aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim", "aten.norm.Scalar")
def vector_norm(call: Call) -> Value:
    """`(sum of |x|^p)^(1/p)`; the largest or smallest magnitude for an infinite p."""
    axes, keep = _over_axes(call)
    names = {argument.name for argument in call.node.target._schema.arguments}
    name = "ord" if "ord" in names else "p"
    order = float(call.number(name)) if call.given(name) else 2.0
    if "dtype" in names:
        call.raw("dtype")
    return _norm(call, call.cast(call.tensor("self"), call.dtype), order, axes, keep)


def _norm(call: Call, x: Value, order: float, axes: list[int], keep: bool) -> Value:
    g = call.g
    if order == 2:
        return g.op("sqrt", reduced(call, "sum_axis", g.op("mul", x, x), axes, keep))
    size = g.op("abs", x)
    match order:
        case 1.0:
            return reduced(call, "sum_axis", size, axes, keep)
        case 0.0:
            there = call.cast(g.op("ne", x, 0.0), call.dtype)
            return reduced(call, "sum_axis", there, axes, keep)
        case _ if order in (inf, -inf):
            return reduced(call, "max_axis" if order > 0 else "min_axis", size, axes, keep)
        case _:
            total = reduced(call, "sum_axis", g.op("pow", size, order), axes, keep)
            return g.op("pow", total, 1 / order)


@handles("aten.cdist.default", "aten._cdist_forward.default", "aten._euclidean_dist.default")
def cdist(call: Call) -> Value:
    """The norm of the difference of each row of one and each row of the other; PyTorch's ways of computing it
    differ in the rounding."""
    call.skip("compute_mode")
    g = call.g
    x, y = call.tensor("x1"), call.tensor("x2")
    order = 2.0 if "euclidean" in str(call.node.target) else float(call.number("p"))
    if x.dims[-1].constant == 0:
        return call.expand(call.reader.scalar(0.0, x.dtype), call.dims)
    apart = [
        g.op("unsqueeze", x, axes=[x.rank - 1]),
        g.op("unsqueeze", y, axes=[y.rank - 2]),
    ]
    difference = g.op("sub", *call.reader.agreed(apart))
    if order == inf:
        # What is no number is not the largest difference.
        difference = g.op("where", g.op("is_nan", difference), 0.0, difference)
    found = _norm(call, difference, order, [difference.rank - 1], False)
    if order == 0:
        # A difference that is NaN counts as one in a norm, and makes a distance NaN.
        odd = g.op("any", g.op("is_nan", difference), axes=[difference.rank - 1])
        found = g.op("where", odd, float("nan"), found)
    return found
