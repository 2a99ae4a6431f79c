"""Rules of the convolutions.

A convolution of floats whose sizes and settings are known is `nn.conv`. Any other one is one
product: the kernel as a matrix `[out, in * kernel]` times the windows of x as
`[in * kernel, windows]`. A transposed one multiplies first and folds the windows of the product. One
over three axes takes the elements along its depth as channels, and is one over two axes then.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.base import product, promote_floats
from openinfer.dialects.ops.convolution import conv_windows, transposed_extents
from openinfer.dialects.ops.windows import Window, per_axis
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.dynamic_numbers import LARGEST_WINDOW
from openinfer.lowering.graph.op_rules import Call, Settings, op_rule
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scalars import computed, widened
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


def _spec(value: SSAValue) -> TensorSpec:
    return TensorSpec(dtype_name(nn.element_of(value)), nn.dims_of(value))


def _with_batch(call: Call, x: SSAValue, rank: int) -> SSAValue:
    """x with a batch axis of 1 where it has none, and a height of 1 where it has only a length."""
    dims = nn.dims_of(x)
    lead = () if len(dims) == rank else (_ONE,)
    return _flat_height(call, call.reshape(x, (*lead, *dims)))


def _flat_height(call: Call, x: SSAValue) -> SSAValue:
    dims = nn.dims_of(x)
    return call.reshape(x, (*dims[:-1], _ONE, dims[-1])) if len(dims) == 3 else x


def placed(windows: Sequence[Window]) -> dict[str, Attribute]:
    """Stride, padding and dilation as properties; a single axis is the horizontal one."""
    two = list(windows)
    if len(two) == 1:
        zero = Size.of(0)
        two.insert(0, Window(_ONE, _ONE, zero, zero, _ONE))
    sides = [side for window in two for side in (window.before, window.after)]
    return {
        "stride": nn.window_numbers([w.stride for w in two]),
        "padding": nn.window_numbers(sides),
        "dilation": nn.window_numbers([w.dilation for w in two]),
    }


def _groups(call: Call) -> int:
    groups = call.settings["groups"]
    assert isinstance(groups, int)
    return groups


# Convolution --------------------------------------------------------------------------------------


def _sums(call: Call) -> str:
    """The dtype of products before the bias: as wide as they are added, when there is a bias, or
    f64, which is never computed in less."""
    x, w = (dtype_name(nn.element_of(v)) for v in call.operands[:2])
    declared = call.results[0].dtype
    if not DTYPES[x].is_float or (len(call.operands) < 3 and "f64" not in (x, w)):
        return declared
    return computed(promote_floats([promote_floats([x, w]), declared]))


def _biased(call: Call, y: SSAValue, channels: Sequence[Size]) -> SSAValue:
    """y plus the bias, in the declared dtype; `channels` are the axes of y that the bias has."""
    element = call.type.element_type
    kind = y.type
    assert isinstance(kind, TensorType)
    if len(call.operands) > 2:
        bias = call.reshape(call.operands[2], (*channels, _ONE))
        bias = widened(call, bias, dtype_name(kind.element_type))
        y = call.elementwise("add", [y, bias], kind)
    return call.convert(y, nn.with_element(kind, element))


def _check_convolution(
    requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings
) -> None:
    """A window fits into each axis; what is provably wrong was refused before."""
    x, w = operands[:2]
    spatial = w.rank - 2
    for window, extent in zip(conv_windows(w, settings, spatial), x.dims[-spatial:]):
        requirements.at_most(_ONE, window.kernel)
        requirements.at_most(window.needed(), window.padded(extent))
        _require_room(requirements, window)


def _require_room(requirements: Requirements, window: Window) -> None:
    """Numbers that only the step knows are cut to the largest index: a padding that was is beyond
    any memory."""
    for side in (window.before, window.after):
        if requirements.sizes.is_dynamic(side):
            requirements.at_most(side + 1, Size.of(LARGEST_WINDOW), "padded")


@op_rule("conv1d", "conv2d", "conv3d", check=_check_convolution)
def _convolution(call: Call) -> Sequence[SSAValue]:
    x, w = call.operands[:2]
    spatial = len(nn.dims_of(w)) - 2
    windows = conv_windows(_spec(w), call.settings, spatial)
    x = _with_batch(call, x, spatial + 2)
    w = _flat_height(call, w)
    dims = call.results[0].dims
    counts = dims[-spatial:]
    if spatial == 3:
        y = _by_depth(call, x, w, windows, counts)
    else:
        y = _over_planes(call, x, w, windows, counts if spatial == 2 else (_ONE, *counts))
    return [call.reshape(y, dims)]


def _over_planes(
    call: Call, x: SSAValue, w: SSAValue, windows: Sequence[Window], counts: Sequence[Size]
) -> SSAValue:
    """The convolution of x `[N, C, H, W]` by w `[O, C / groups, KH, KW]`, with its bias, as declared."""
    groups = _groups(call)
    batch, _, *_ = nn.dims_of(x)
    outputs, channels, *kernel = nn.dims_of(w)
    if _is_direct(x, w, counts, windows):
        y = _direct(call, x, w, windows, (batch, outputs, *counts))
        return _biased(call, y, (outputs, _ONE))
    depth, many = product([channels, *kernel]), product(counts)
    rows = outputs // groups
    lead = (Size.of(groups),) if groups > 1 else ()
    columns = call.reshape(_unfolded(call, x, windows, kernel, counts), (batch, *lead, depth, many))
    matrix = call.reshape(w, (*lead, rows, depth))
    element = element_type(_sums(call))
    kind = nn.tensor_type(element, (batch, *lead, rows, many))
    y = call.add(nn.MatmulOp, [matrix, columns], kind)
    return _biased(call, y, (*lead, rows))


def _by_depth(
    call: Call, x: SSAValue, w: SSAValue, windows: Sequence[Window], counts: Sequence[Size]
) -> SSAValue:
    """The convolution of x `[N, C, D, H, W]` by w `[O, C / groups, KD, KH, KW]`.

    Each window along the depth is an image of its own, with `C * KD` channels.
    """
    batch, channels, depth, height, width = nn.dims_of(x)
    outputs, each, taps, *kernel = nn.dims_of(w)
    (front, *plane), (behind, *across) = windows, counts
    zero = Size.of(0)
    beside = Window(_ONE, _ONE, zero, zero, _ONE)
    rows = call.reshape(x, (batch, channels, depth, height * width))
    parts = _unfolded(call, rows, (front, beside), (taps, _ONE), (behind, height * width))
    parts = call.reshape(parts, (batch, channels, taps, behind, height, width))
    images = call.transpose(parts, (0, 3, 1, 2, 4, 5))
    images = call.reshape(images, (batch * behind, channels * taps, height, width))
    flat = call.reshape(w, (outputs, each * taps, *kernel))
    y = _over_planes(call, images, flat, plane, across)
    y = call.reshape(y, (batch, behind, outputs, *across))
    return call.transpose(y, (0, 2, 1, 3, 4))


_DIRECT = frozenset({"f16", "bf16", "f32", "f64"})


def _is_direct(x: SSAValue, w: SSAValue, counts: Sequence[Size], windows: Sequence[Window]) -> bool:
    """Whether all sizes but the batch are known, and at least 1, and the elements floats."""
    numbers = [n for v in windows for n in (v.stride, v.before, v.after, v.dilation)]
    if any(number.constant is None for number in numbers):
        return False
    known = [*nn.dims_of(x)[1:], *nn.dims_of(w), *counts]
    if any(size.constant is None or size.constant < 1 for size in known):
        return False
    return all(dtype_name(nn.element_of(v)) in _DIRECT for v in (x, w))


def _direct(
    call: Call, x: SSAValue, w: SSAValue, windows: Sequence[Window], dims: Sequence[Size]
) -> SSAValue:
    kind = nn.tensor_type(element_type(_sums(call)), dims)
    kernel = nn.window_numbers(nn.dims_of(w)[2:])
    groups = nn.int_setting(_groups(call))
    where = placed(windows)
    return call.add(nn.ConvOp, [x, w], kind, kernel=kernel, groups=groups, **where)


def _unfolded(
    call: Call,
    x: SSAValue,
    windows: Sequence[Window],
    kernel: Sequence[Size],
    counts: Sequence[Size],
) -> SSAValue:
    """`[N, C, KH, KW, OH, OW]`; windows of one element each, side by side, are x itself."""
    batch, channels, *extents = nn.dims_of(x)
    dims = (batch, channels, *kernel, *counts)
    alone = all(k == _ONE for k in kernel)
    if alone and all(w.stride == _ONE for w in windows) and list(counts) == extents:
        return call.reshape(x, dims)
    kind = nn.tensor_type(nn.element_of(x), dims)
    return call.add(nn.UnfoldOp, [x], kind, **placed(windows))


def _check_transposed(
    requirements: Requirements, operands: Sequence[TensorSpec], settings: Settings
) -> None:
    """There is something to spread, something is left of it, and no gap behind its end."""
    x, w = operands[:2]
    windows, extents = transposed_extents(w, x.dims[-2:], settings)
    extra = per_axis(settings["output_padding"], "output_padding", 2)
    for window, before, after, more in zip(windows, x.dims[-2:], extents, extra):
        requirements.at_most(_ONE, window.kernel)
        requirements.at_most(_ONE, before)
        requirements.at_most(more + 1, Size.max(window.stride, window.dilation))
        requirements.at_most(_ONE, after)
        _require_room(requirements, window)


@op_rule("conv_transpose2d", check=_check_transposed)
def _transposed(call: Call) -> Sequence[SSAValue]:
    x, w = call.operands[:2]
    windows, _ = transposed_extents(_spec(w), nn.dims_of(x)[-2:], call.settings)
    extents = call.results[0].dims[-2:]
    x = _with_batch(call, x, 4)
    batch, channels, *counts = nn.dims_of(x)
    _, each, *kernel = nn.dims_of(w)
    groups = _groups(call)
    rows, many = product([each, *kernel]), product(counts)
    depth = channels // groups
    lead = (Size.of(groups),) if groups > 1 else ()
    matrix = call.reshape(w, (*lead, depth, rows))
    columns = call.reshape(x, (batch, *lead, depth, many))
    # Windows that meet are added before they are rounded.
    promoted = _spec(x).dtype
    if DTYPES[promoted].is_float:
        promoted = promote_floats([promoted, _spec(w).dtype])
    element = element_type(
        computed(promoted) if DTYPES[promoted].is_float else call.results[0].dtype
    )
    spread = call.add(
        nn.MatmulOp,
        [matrix, columns],
        nn.tensor_type(element, (batch, *lead, rows, many)),
        transpose_a=UnitAttr(),
    )
    outputs = each * groups
    # Where windows lie side by side a sum of the product is an element of the result: it takes the bias.
    early = len(call.operands) > 2 and _side_by_side(windows, counts, extents)
    if early:
        bias = call.reshape(call.operands[2], (outputs, _ONE))
        stretched = nn.tensor_type(nn.element_of(bias), (outputs, product(kernel)))
        bias = call.add(nn.BroadcastOp, [bias], stretched)
        bias = widened(call, call.reshape(bias, (*lead, rows, _ONE)), dtype_name(element))
        spread = call.elementwise("add", [spread, bias], _tensor(spread))
    spread = call.reshape(spread, (batch, outputs, *kernel, *counts))
    kind = nn.tensor_type(element, (batch, outputs, *extents))
    y = call.add(nn.FoldOp, [spread], kind, **placed(windows))
    y = call.reshape(y, (batch, outputs, product(extents)))
    if early:
        y = call.convert(y, nn.with_element(_tensor(y), call.type.element_type))
    else:
        y = _biased(call, y, (outputs,))
    return [call.reshape(y, call.results[0].dims)]


def _side_by_side(
    windows: Sequence[Window], counts: Sequence[Size], extents: Sequence[Size]
) -> bool:
    """Whether windows of known sizes cover the plane, and each element of it once."""
    return all(
        window.kernel == window.stride
        and window.before == window.after == Size.of(0)
        and (window.dilation == _ONE or window.kernel == _ONE)
        and count * window.kernel == extent
        for window, count, extent in zip(windows, counts, extents)
    )


def _tensor(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type
