"""Handlers of convolutions, pools and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.torch.handlers import Call, Handler, Result, Unavailable, handles
from openinfer.compiler.importers.torch.resampling import transposed_volume


def plain(values: Sequence[int]) -> int | list[int]:
    """One number where all are equal: how a person writes it."""
    return values[0] if len(set(values)) == 1 else list(values)


def _every(values: list[int], count: int) -> list[int]:
    """One for each axis: PyTorch lets a single one stand for all."""
    return values * count if len(values) == 1 else values


def _settings(**given: tuple[list[int], int]) -> dict[str, Any]:
    """Settings that are not at their defaults."""
    return {
        name: plain(values) for name, (values, default) in given.items() if set(values) != {default}
    }


def _convolution(count: int) -> Handler:
    def handler(call: Call) -> Value:
        weight = call.tensor("weight")
        kernel = [dim.constant for dim in weight.dims[2:]]
        dilation = _every(call.integers("dilation"), count)
        settings = _settings(
            stride=(_every(call.integers("stride"), count), 1), dilation=(dilation, 1)
        )
        if str(call.node.target).endswith("padding"):
            call.must("padding", "same", "valid")
            if call.text("padding") == "same":
                settings |= _same(kernel, dilation)
        else:
            settings |= _settings(padding=(_every(call.integers("padding"), count), 0))
        if (groups := call.integer("groups")) != 1:
            settings["groups"] = groups
        return call.g.op(
            f"conv{count}d", call.tensor("input"), weight, *call.maybe("bias"), **settings
        )

    return handler


def _same(kernel: list[int | None], dilation: list[int]) -> dict[str, Any]:
    """Zeros that keep the size; of an odd number PyTorch adds one more behind."""
    totals = [step * ((size or 1) - 1) for size, step in zip(kernel, dilation)]
    if all(total % 2 == 0 for total in totals):
        return _settings(padding=([total // 2 for total in totals], 0))
    pads = [part for total in totals for part in (total // 2, total - total // 2)]
    return {"padding": pads}


for _count in (1, 2, 3):
    handles(f"aten.conv{_count}d.default", f"aten.conv{_count}d.padding")(_convolution(_count))


def _with_height(call: Call, x: Value) -> Value:
    """`[…, L]` as `[…, 1, L]`."""
    return call.g.op("unsqueeze", x, axes=[x.rank - 1])


def _transposed(call: Call, count: int, x: Value, weight: Value, bias: list[Value]) -> Value:
    """A transposed convolution over one axis is one over two, the first of a single row."""
    stride, padding, extra, dilation = (
        _every(call.integers(name), count)
        for name in ("stride", "padding", "output_padding", "dilation")
    )
    groups = call.integer("groups")
    if count == 3:
        return transposed_volume(call, x, weight, bias, stride, padding, extra, dilation, groups)
    if count == 1:
        x, weight = _with_height(call, x), _with_height(call, weight)
        stride, padding, extra, dilation = (
            [neutral, *values]
            for neutral, values in ((1, stride), (0, padding), (0, extra), (1, dilation))
        )
    settings = _settings(
        stride=(stride, 1), padding=(padding, 0), output_padding=(extra, 0), dilation=(dilation, 1)
    )
    if groups != 1:
        settings["groups"] = groups
    found = call.g.op("conv_transpose2d", x, weight, *bias, **settings)
    return call.g.op("squeeze", found, axes=[found.rank - 2]) if count == 1 else found


@handles(
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"
)
def conv_transpose(call: Call) -> Value:
    weight = call.tensor("weight")
    return _transposed(call, weight.rank - 2, call.tensor("input"), weight, call.maybe("bias"))


@handles("aten.convolution.default")
def convolution(call: Call) -> Value:
    weight = call.tensor("weight")
    count = weight.rank - 2
    if call.flag("transposed"):
        return _transposed(call, count, call.tensor("input"), weight, call.maybe("bias"))
    call.skip("output_padding")
    return _convolution(count)(call)


def _pool_settings(call: Call, count: int, dilated: bool) -> dict[str, Any]:
    kernel = _every(call.integers("kernel_size"), count)
    settings: dict[str, Any] = {"kernel_size": plain(kernel)}
    stride = _every(call.integers("stride"), count) if call.raw("stride") else kernel
    if stride != kernel:
        settings["stride"] = plain(stride)
    settings |= _settings(padding=(_every(call.integers("padding"), count), 0))
    if dilated:
        settings |= _settings(dilation=(_every(call.integers("dilation"), count), 1))
    if call.flag("ceil_mode"):
        settings["ceil_mode"] = True
    return settings


_INDICES = Unavailable(
    "the positions of its largest elements are read", "pool without return_indices=True"
)


def _max_pool(count: int, indices: bool) -> Handler:
    def handler(call: Call) -> Result:
        settings = _pool_settings(call, count, dilated=True)
        found = call.g.op(f"max_pool{count}d", call.tensor("self"), **settings)
        return (found, _INDICES) if indices else found

    return handler


def _avg_pool(count: int) -> Handler:
    def handler(call: Call) -> Value:
        settings = _pool_settings(call, count, dilated=False)
        if not call.flag("count_include_pad"):
            settings["count_include_pad"] = False
        names = {argument.name for argument in call.node.target._schema.arguments}
        if "divisor_override" in names and call.given("divisor_override"):
            settings["divisor_override"] = call.integer("divisor_override")
        return call.g.op(f"avg_pool{count}d", call.tensor("self"), **settings)

    return handler


def _adaptive(op: str, indices: bool = False) -> Handler:
    def handler(call: Call) -> Result:
        call.skip("output_size")
        count = int(op[-2])
        sizes = list(call.dims[-count:])
        numbers = [size.constant for size in sizes]
        output: Any = sizes if None in numbers else plain([one or 0 for one in numbers])
        found = call.g.op(op, call.tensor("self"), output_size=output)
        return (found, _INDICES) if indices else found

    return handler


for _count in (1, 2, 3):
    handles(f"aten.max_pool{_count}d.default")(_max_pool(_count, indices=False))
    handles(f"aten.max_pool{_count}d_with_indices.default")(_max_pool(_count, indices=True))
    handles(f"aten.avg_pool{_count}d.default")(_avg_pool(_count))
    handles(f"aten.adaptive_avg_pool{_count}d.default")(_adaptive(f"adaptive_avg_pool{_count}d"))
    handles(f"aten.adaptive_max_pool{_count}d.default")(
        _adaptive(f"adaptive_max_pool{_count}d", indices=True)
    )
for _count in (2, 3):
    handles(f"aten._adaptive_avg_pool{_count}d.default")(_adaptive(f"adaptive_avg_pool{_count}d"))


def _factors(call: Call, count: int) -> list[float] | None:
    """The factors that the user gave; None where only the size of the result says it."""
    names = {argument.name for argument in call.node.target._schema.arguments}
    if "scale_factors" in names:
        call.skip("output_size")
        given = call.raw("scale_factors")
        return None if given is None else [float(one) for one in given]
    call.skip("output_size")
    parts = ["scales"] if count == 1 else ["scales_h", "scales_w"]
    values = [call.raw(name) for name in parts]
    return None if None in values else [float(one) for one in values]


def _upsample(mode: str, count: int) -> Handler:
    def handler(call: Call) -> Value:
        x = call.tensor("self" if "default" in str(call.node.target) else "input")
        factors = _factors(call, count)
        settings: dict[str, Any] = {} if mode == "nearest" else {"mode": mode}
        if mode == "bilinear" and call.flag("align_corners"):
            settings["align_corners"] = True
        if count == 1:
            x = _with_height(call, x)
            factors = None if factors is None else [1.0, *factors]
        if factors is not None and not settings.get("align_corners"):
            settings["scale"] = factors[0] if len(set(factors)) == 1 else factors
        else:
            size = list(call.dims[-count:])
            settings["size"] = [1, *size] if count == 1 else size
        found = call.g.op("upsample2d", x, **settings)
        return call.g.op("squeeze", found, axes=[found.rank - 2]) if count == 1 else found

    return handler


handles("aten.upsample_nearest2d.vec", "aten.upsample_nearest2d.default")(_upsample("nearest", 2))
handles("aten.upsample_bilinear2d.vec", "aten.upsample_bilinear2d.default")(
    _upsample("bilinear", 2)
)
handles("aten.upsample_nearest1d.vec", "aten.upsample_nearest1d.default")(_upsample("nearest", 1))
handles("aten.upsample_linear1d.vec", "aten.upsample_linear1d.default")(_upsample("bilinear", 1))


_GRID_MODES = ("bilinear", "nearest", "bicubic")
_GRID_PADDING = ("zeros", "border", "reflection")


@handles(
    "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default", "aten.grid_sampler.default"
)
def grid_sampler(call: Call) -> Value:
    """Elements read at places that a second tensor gives; modes come as numbers."""
    mode = _GRID_MODES[call.integer("interpolation_mode")]
    padding = _GRID_PADDING[call.integer("padding_mode")]
    settings: dict[str, Any] = {}
    if mode != "bilinear":
        settings["mode"] = mode
    if padding != "zeros":
        settings["padding_mode"] = padding
    if call.flag("align_corners"):
        settings["align_corners"] = True
    return call.g.op("grid_sample", call.tensor("input"), call.tensor("grid"), **settings)
