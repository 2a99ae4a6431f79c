"""Handlers that resample with weights of their own: antialiased interpolation, transposed convolution of
volumes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, handles
from openinfer.compiler.importers.torch.library import torch, torch_dtype
from openinfer.compiler.importers.torch.refusals import Refused
from openinfer.compiler.importers.torch.shapes import permuted, sliced
from openinfer.dialects.ops.base import FLOATS
from openinfer.runtime.sizes import Size


@handles(
    *(
        f"aten._upsample_{mode}2d_aa.{overload}"
        for mode in ("bilinear", "bicubic")
        for overload in ("vec", "default")
    )
)
def antialiased(call: Call) -> Value:
    """Each row, then each column of the result is a weighted sum of neighbours; the weights are PyTorch's."""
    vector = str(call.node.target).endswith("vec")
    x = call.tensor("input" if vector else "self")
    if x.dtype not in FLOATS:
        raise Refused(f"antialiasing of {x.dtype}", "interpolate floats and round")
    call.skip("output_size", "align_corners")
    if vector:
        scales = list(call.raw("scale_factors") or (None, None))
    else:
        scales = [call.raw("scales_h"), call.raw("scales_w")]
    for axis, scale in zip((x.rank - 2, x.rank - 1), scales):
        old, new = x.dims[axis].constant, call.dims[axis].constant
        if old is None or new is None:
            raise Refused(
                "antialiasing of an image whose size varies", "export with its size fixed"
            )
        if old != new or scale is not None:
            x = _weighted(call, x, axis, _weights(call, old, new, x.dtype, scale))
    return x


def _weights(call: Call, old: int, new: int, dtype: str, scale: float | None) -> Any:
    """How much of each old element is in each new one: what PyTorch makes of a single one in a row."""
    library = torch()
    name = str(call.node.target).split(".")[1]
    kind = torch_dtype("f64" if dtype == "f64" else "f32")
    single = library.eye(old, dtype=kind).reshape(1, old, 1, old)
    with library.no_grad():
        op = getattr(library.ops.aten, name).default
        found = op(single, [1, new], call.flag("align_corners"), None, scale)
    return found[0, :, 0].T.numpy()


def _weighted(call: Call, x: Value, axis: int, weights: Any) -> Value:
    """Sums over the neighbours that have a weight: what has none may be infinite."""
    g = call.g
    rows, last = np.arange(len(weights))[:, None], weights.shape[1] - 1
    used = weights != 0
    first = used.argmax(1)
    count = int((last + 1 - used[:, ::-1].argmax(1) - first).max())
    places = np.minimum(first[:, None] + np.arange(count), last)
    inside = used[rows, places] & (first[:, None] + np.arange(count) <= last)
    behind = [1] * (x.rank - axis - 1)
    shape = [*places.shape, *behind]
    index = call.reader.constant(places.astype(np.int64))
    taken = g.op("gather", x, index, axis=axis)
    factors = np.where(inside, weights[rows, places], 0).reshape(shape)
    product = g.op("mul", taken, call.reader.constant(factors, x.dtype))
    if not inside.all():
        product = g.op("where", call.reader.constant(inside.reshape(shape)), product, 0.0)
    return g.op("sum_axis", product, axes=[axis + 1])


def transposed_volume(
    call: Call,
    x: Value,
    weight: Value,
    bias: list[Value],
    stride: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    """A transposed convolution over three axes: `stride - 1` zeros behind each element, and borders, then a
    convolution with the weight turned round."""
    g, first = call.g, x.rank - 3
    pads: list[int] = []
    for k, step in enumerate(stride):
        before = dilation[k] * ((weight.dims[2 + k].constant or 1) - 1) - padding[k]
        # Some zeros are there already, behind the last element.
        behind = before + extra[k] - (step - 1)
        pads += [max(before, 0), max(behind, 0)]
        axis = first + k
        if step != 1:
            apart = g.op("unsqueeze", x, axes=[axis + 1])
            apart = g.op("pad", apart, pads=[0, step - 1], axes=[axis + 1])
            x = call.reshape(apart, [*x.dims[:axis], x.dims[axis] * step, *x.dims[axis + 1 :]])
        x = sliced(g, x, axis, max(-before, 0), x.dims[axis] - max(-behind, 0))
    settings: dict[str, Any] = {"padding": pads} if any(pads) else {}
    if set(dilation) != {1}:
        settings["dilation"] = list(dilation)
    if groups != 1:
        settings["groups"] = groups
    return g.op("conv3d", x, _turned(call, weight, groups), *bias, **settings)


def _turned(call: Call, weight: Value, groups: int) -> Value:
    """`[C, O / groups, …]` as `[O, C / groups, …]`, from the last element of each kernel to the first."""
    turned = call.g.op("flip", weight, axes=[2, 3, 4])
    inputs, outputs, *kernel = turned.dims
    if groups == 1:
        return permuted(call.g, turned, [1, 0, 2, 3, 4])
    apart = call.reshape(turned, [Size.of(groups), inputs // groups, outputs, *kernel])
    moved = permuted(call.g, apart, [0, 2, 1, 3, 4, 5])
    return call.reshape(moved, [outputs * groups, inputs // groups, *kernel])
