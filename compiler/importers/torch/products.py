"""Handlers of products, norms and attention."""

from __future__ import annotations

from math import sqrt

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, handles
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size


@handles("aten.linear.default")
def linear(call: Call) -> Value:
    return call.g.op("linear", call.tensor("input"), call.tensor("weight"), *call.maybe("bias"))


@handles("aten.mm.default", "aten.bmm.default")
def mm(call: Call) -> Value:
    other = "mat2"
    return call.g.op("matmul", call.tensor("self"), call.tensor(other))


@handles("aten.matmul.default")
def matmul(call: Call) -> Value:
    return _product(call, call.tensor("self"), call.tensor("other"))


def _product(call: Call, left: Value, right: Value) -> Value:
    """`left @ right`; a vector is a row on the left, a column on the right, and leaves no axis."""
    g = call.g
    if left.rank == 1:
        left = g.op("unsqueeze", left, axes=[0])
    if right.rank == 1:
        right = g.op("unsqueeze", right, axes=[1])
    return call.reshape(g.op("matmul", left, right), call.dims)


@handles("aten.mv.default")
def mv(call: Call) -> Value:
    return _product(call, call.tensor("self"), call.tensor("vec"))


@handles("aten.dot.default", "aten.vdot.default")
def dot(call: Call) -> Value:
    name = "other" if "vdot" in str(call.node.target) else "tensor"
    return _product(call, call.tensor("self"), call.tensor(name))


@handles("aten.outer.default", "aten.ger.default")
def outer(call: Call) -> Value:
    column = call.g.op("unsqueeze", call.cast(call.tensor("self"), call.dtype), axes=[1])
    return call.g.op("mul", column, call.cast(call.tensor("vec2"), call.dtype))


@handles("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default", "aten.addbmm.default")
def addmm(call: Call) -> Value:
    """`beta * self + alpha * (a @ b)`."""
    names = {
        "addmm": ("mat1", "mat2"),
        "addmv": ("mat", "vec"),
        "baddbmm": ("batch1", "batch2"),
        "addbmm": ("batch1", "batch2"),
    }
    op = call.node.target._schema.name.rpartition("::")[2]
    left, right = (call.tensor(name) for name in names[op])
    g = call.g
    if op == "addbmm":
        product = g.op("sum_axis", g.op("matmul", left, right), axes=[0])
    else:
        product = _product(call, left, right)
    beta, alpha = call.number("beta"), call.number("alpha")
    if alpha != 1:
        product = g.op("mul", product, float(alpha) if call.dtype in FLOATS else int(alpha))
    if beta == 0:
        call.skip("self")
        return product
    bias = call.tensor("self")
    if beta != 1:
        bias = g.op("mul", bias, float(beta) if call.dtype in FLOATS else int(beta))
    return g.op("add", product, bias)


@handles("aten.einsum.default")
def einsum(call: Call) -> Value:
    call.skip("path")
    operands = [call.cast(one, call.dtype) for one in call.tensors("tensors")]
    return call.g.op("einsum", *operands, equation=call.text("equation").replace(" ", ""))


@handles("aten.bilinear.default")
def bilinear(call: Call) -> Value:
    """`y[..., o] = sum of x1[..., i] * weight[o, i, j] * x2[..., j] + bias[o]`."""
    operands = [call.tensor(name) for name in ("input1", "weight", "input2")]
    found = call.g.op("einsum", *operands, equation="...i,oij,...j->...o")
    bias = call.maybe("bias")
    return call.g.op("add", found, bias[0]) if bias else found


@handles("aten.layer_norm.default", "aten.native_layer_norm.default")
def layer_norm(call: Call) -> Value | tuple[Value, None, None]:
    axis = -len(call.sizes("normalized_shape"))
    native = "native" in str(call.node.target)
    if not native:
        call.skip("cudnn_enable")
    weights = _affine(call)
    settings = {"eps": float(call.number("eps"))} | ({} if axis == -1 else {"axis": axis})
    found = call.g.op("layer_norm", call.tensor("input"), *weights, **settings)
    return (found, None, None) if native else found


def _affine(call: Call) -> list[Value]:
    """Weight and bias; a weight of ones where there is only a bias."""
    if call.given("weight") or not call.given("bias"):
        return call.maybe("weight", "bias")
    bias = call.tensor("bias")
    return [call.expand(call.reader.scalar(1.0, bias.dtype), bias.dims), bias]


@handles("aten.rms_norm.default", "aten._fused_rms_norm.default")
def rms_norm(call: Call) -> Value | tuple[Value, None]:
    """Without an epsilon PyTorch takes that of the dtype."""
    from openinfer.compiler.importers.torch.library import torch, torch_dtype

    axis = -len(call.sizes("normalized_shape"))
    x = call.tensor("input")
    eps = (
        float(call.number("eps")) if call.given("eps") else torch().finfo(torch_dtype(x.dtype)).eps
    )
    settings = {"eps": float(eps)} | ({} if axis == -1 else {"axis": axis})
    found = call.g.op("rms_norm", x, *call.maybe("weight"), **settings)
    return (found, None) if "fused" in str(call.node.target) else found


@handles("aten.group_norm.default")
def group_norm(call: Call) -> Value:
    call.skip("cudnn_enabled")
    return call.g.op(
        "group_norm",
        call.tensor("input"),
        *_affine(call),
        groups=call.integer("num_groups"),
        eps=float(call.number("eps")),
    )


@handles("aten.native_group_norm.default")
def native_group_norm(call: Call) -> tuple[Value, None, None]:
    call.skip("N", "C", "HxW")
    found = call.g.op(
        "group_norm",
        call.tensor("input"),
        *_affine(call),
        groups=call.integer("group"),
        eps=float(call.number("eps")),
    )
    return found, None, None


@handles("aten.instance_norm.default")
def instance_norm(call: Call) -> Value:
    call.skip("cudnn_enabled", "momentum")
    x, eps = call.tensor("input"), float(call.number("eps"))
    if call.flag("use_input_stats"):
        if call.given("running_mean"):
            raise Refused(
                "running statistics of training", "export the module in eval mode: .eval()"
            )
        call.skip("running_var")
        return call.g.op("instance_norm", x, *_affine(call), eps=eps)
    statistics = call.maybe("running_mean", "running_var")
    return call.g.op("batch_norm", x, *statistics, *_affine(call), eps=eps)


@handles("aten._native_batch_norm_legit_no_training.default")
def batch_norm(call: Call) -> tuple[Value, None, None]:
    call.skip("momentum")
    statistics = call.maybe("running_mean", "running_var")
    found = call.g.op(
        "batch_norm",
        call.tensor("input"),
        *statistics,
        *_affine(call),
        eps=float(call.number("eps")),
    )
    return found, None, None


@handles("aten.batch_norm.default")
def batch_norm_composite(call: Call) -> Value:
    call.skip("momentum", "cudnn_enabled")
    call.must("training", False, hint="export the module in eval mode: .eval()")
    statistics = call.maybe("running_mean", "running_var")
    return call.g.op(
        "batch_norm",
        call.tensor("input"),
        *statistics,
        *_affine(call),
        eps=float(call.number("eps")),
    )


@handles("aten._native_batch_norm_legit_functional.default")
def batch_norm_of_the_batch(call: Call) -> tuple[Value | None, ...]:
    """Statistics of the batch, and the next running ones: `(1 - m) * old + m * new`, the new variance that
    of a sample."""
    call.must("training", True)
    g, x = call.g, call.tensor("input")
    momentum, eps = float(call.number("momentum")), float(call.number("eps"))
    axes = [axis for axis in range(x.rank) if axis != 1]
    mean = g.op("mean_axis", x, axes=axes)
    variance = g.op("var", x, axes=axes, correction=0)
    found = g.op("batch_norm", x, mean, variance, *_affine(call), eps=eps)
    sample = g.op("var", x, axes=axes)
    later: list[Value] = []
    for name, now in (("running_mean", mean), ("running_var", sample)):
        kept = g.op("mul", call.tensor(name), 1 - momentum)
        later.append(g.op("add", kept, g.op("mul", now, momentum)))
    return found, None, None, *later


@handles("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(call: Call) -> tuple[Value, None, None]:
    """Statistics of the batch, and none kept."""
    call.skip("momentum", "training")
    g, x = call.g, call.tensor("input")
    axes = [axis for axis in range(x.rank) if axis != 1]
    mean, variance = g.op("mean_axis", x, axes=axes), g.op("var", x, axes=axes, correction=0)
    found = g.op("batch_norm", x, mean, variance, *_affine(call), eps=float(call.number("eps")))
    return found, None, None


@handles("aten.scaled_dot_product_attention.default")
def attention(call: Call) -> Value:
    """Causal in PyTorch counts queries from the first key, the op `attention` from the last: the same for as
    many queries as keys, else a mask says it."""
    call.must("dropout_p", 0, 0.0, hint="export the module in eval mode: .eval()")
    g = call.g
    q, k, v = (call.tensor(name) for name in ("query", "key", "value"))
    call.skip("enable_gqa")
    q, k, v = _one_rank(call, q, k, v)
    settings: dict[str, object] = {}
    scale = float(call.number("scale")) if call.given("scale") else None
    width = q.dims[-1].constant
    if scale is not None and (width is None or abs(scale * sqrt(width) - 1) > 1e-9):
        settings["scale"] = scale
    masks = call.maybe("attn_mask")
    if call.flag("is_causal"):
        if q.dims[-2] == k.dims[-2]:
            settings["causal"] = True
        else:
            rows = g.op("iota", shape=[q.dims[-2], 1], axis=0)
            masks = [g.op("ge", rows, g.op("iota", shape=[k.dims[-2]]))]
    if masks and masks[0].dtype not in ("bool", q.dtype):
        masks = [call.cast(masks[0], q.dtype)]
    return call.reshape(g.op("attention", q, k, v, *masks, **settings), call.dims)


def _one_rank(call: Call, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Operands of one rank, whose leading axes broadcast as PyTorch's do; matrices alone get a head. Fewer
    heads of k and v than of q are left to the op."""
    rank = max(q.rank, k.rank, v.rank, 3)
    q, k, v = (
        call.reshape(one, [*[Size.of(1)] * (rank - one.rank), *one.dims]) for one in (q, k, v)
    )
    lead = [_wider(*axes) for axes in zip(*(one.dims[:-3] for one in (q, k, v)))]
    heads, groups = q.dims[-3], _wider(k.dims[-3], v.dims[-3])
    if heads.constant == 1:
        heads = groups
    elif groups.constant != 1 and not call.flag("enable_gqa"):
        groups = heads
    q = call.expand(q, [*lead, heads, *q.dims[-2:]])
    k, v = (call.expand(one, [*lead, groups, *one.dims[-2:]]) for one in (k, v))
    return q, k, v


def _wider(*extents: Size) -> Size:
    """What extents broadcast to."""
    return next((one for one in extents if one.constant != 1), extents[0])
