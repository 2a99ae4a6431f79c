"""How ops that reduce or normalise along axes become `nn`, and products, which sum too."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
)
from xdsl.ir import SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.lowering.graph.op_rules import (
    Call,
    accumulated,
    axis_of,
    op_rule,
    widen,
)
from openinfer.lowering.graph.scalars import computed, narrowed, widened
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


def _axes(value: object, rank: int) -> list[int]:
    assert isinstance(value, tuple)
    found = {int(v) if isinstance(v, int) else v.evaluate({}) for v in value}
    return sorted({a % rank for a in found})


@op_rule("sum_axis", "mean_axis", "prod_axis", "max_axis", "min_axis")
def _reduce(call: Call) -> Sequence[SSAValue]:
    value = call.operands[0]
    rank = len(nn.dims_of(value))
    dtype = accumulator = dtype_name(nn.element_of(value))
    mean = call.spec.name == "mean_axis"
    if call.settings.get("acc") is not None:
        accumulator, _ = opset.accumulation(dtype, call.settings["acc"], mean=mean)
    elif mean and dtype[0] in "iu":
        # A sum may wrap, for its last bits stay true; a mean may not.
        accumulator = f"{dtype[0]}64"
    value = widen(call, value, element_type(accumulator))
    axes = call.settings["axes"]
    if call.spec.name in ("max_axis", "min_axis"):
        _require_elements(call, _axes(axes, rank))
    kind = call.type
    mixed = DTYPES[accumulator].is_float is not DTYPES[call.results[0].dtype].is_float
    if call.settings.get("acc") is not None and not mixed:
        kind = nn.with_element(kind, element_type(accumulator) or kind.element_type)
    result = call.add(
        nn.ReduceOp,
        [value],
        kind,
        kind=StringAttr(call.spec.name.removesuffix("_axis")),
        axes=nn.ints_setting(_axes(axes, rank)),
        keepdims=UnitAttr() if call.settings["keepdims"] else None,
    )
    return [accumulated(call, result)]


def _require_elements(call: Call, axes: Sequence[int]) -> None:
    """Nothing is the largest of nothing: such a step must not run (unless no result is asked for)."""
    dims = nn.dims_of(call.operands[0])
    others = [size for d, size in enumerate(dims) if d not in axes]
    if all(size.constant != 0 for size in others):
        for axis in axes:
            call.require(Size.of(1), dims[axis])


@op_rule("argmax_axis", "argmin_axis", scalars=("select_first",))
def _position(call: Call) -> Sequence[SSAValue]:
    if isinstance(call.settings["select_first"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import either_way

        return either_way(call, "select_first")
    rank = len(nn.dims_of(call.operands[0]))
    _require_elements(call, [axis_of(call.settings["axis"], rank)])
    result = call.add(
        nn.ReduceOp,
        call.operands,
        call.type,
        kind=StringAttr(call.spec.name.removesuffix("_axis")),
        axes=nn.ints_setting([axis_of(call.settings["axis"], rank)]),
        keepdims=UnitAttr() if call.settings["keepdims"] else None,
        select_last=None if call.settings["select_first"] else UnitAttr(),
    )
    return [result]


@op_rule("is_finite")
def _is_finite(call: Call) -> Sequence[SSAValue]:
    value = call.operands[0]
    kind = value.type
    assert isinstance(kind, TensorType)
    flags = call.elementwise("is_finite", [value], nn.with_element(kind, call.type.element_type))
    axes = nn.ints_setting(range(len(nn.dims_of(value))))
    return [call.add(nn.ReduceOp, [flags], call.type, kind=StringAttr("min"), axes=axes)]


@op_rule("softmax", "log_softmax")
def _softmax(call: Call) -> Sequence[SSAValue]:
    axis = nn.int_setting(axis_of(call.settings["axis"], call.results[0].rank))
    log = UnitAttr() if call.spec.name == "log_softmax" else None
    return [call.add(nn.SoftmaxOp, call.operands, call.type, axis=axis, log=log)]


@op_rule("layer_norm", "rms_norm", scalars=("eps",))
def _norm(call: Call) -> Sequence[SSAValue]:
    if isinstance(call.settings["eps"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import norm_in_parts

        return norm_in_parts(call)
    x, *rest = call.operands
    dims = nn.dims_of(x)
    axis = axis_of(call.settings["axis"], len(dims))
    inner = Size.of(1)
    for size in dims[axis:]:
        inner = inner * size
    # The kernels normalise the last axis; several axes in a row are one.
    flat = (*dims[:axis], inner)
    inputs = [call.reshape(x, flat), *(call.reshape(v, (inner,)) for v in rest)]
    eps = call.settings["eps"]
    assert isinstance(eps, float)
    kind = nn.tensor_type(call.type.element_type, flat)
    if call.spec.name == "rms_norm":
        value = call.add(nn.RmsNormOp, inputs, kind, eps=FloatAttr(eps, f64))
    else:
        value = call.add(
            nn.LayerNormOp,
            inputs,
            kind,
            eps=FloatAttr(eps, f64),
            has_weight=UnitAttr() if len(rest) > 0 else None,
            has_bias=UnitAttr() if len(rest) > 1 else None,
        )
    return [call.reshape(value, dims)]


@op_rule("matmul")
def _matmul(call: Call) -> Sequence[SSAValue]:
    kind = call.type
    acc = call.settings["acc"]
    if isinstance(acc, tuple):
        # A product is accumulated in the type of its result.
        kind = nn.with_element(kind, element_type(str(acc[0])) or kind.element_type)
    elif f64 in map(nn.element_of, call.operands) and isinstance(kind.element_type, AnyFloat):
        # What is f64 is computed in f64, and rounded to the declared dtype once.
        kind = nn.with_element(kind, f64)
    result = call.add(
        nn.MatmulOp,
        call.operands,
        kind,
        transpose_a=UnitAttr() if call.settings["transpose_a"] else None,
        transpose_b=UnitAttr() if call.settings["transpose_b"] else None,
    )
    return [accumulated(call, result)]


@op_rule("linear")
def _linear(call: Call) -> Sequence[SSAValue]:
    """A product with the weights as they lie, then the bias: one rounding at the end of both."""
    x, w, *bias = call.operands
    dims = nn.dims_of(x)
    rows = x if len(dims) > 1 else call.reshape(x, (Size.of(1), *dims))
    summed, last = _dtypes_of_sums(call)
    kind = nn.tensor_type(element_type(summed), (*nn.dims_of(rows)[:-1], nn.dims_of(w)[0]))
    y = call.add(nn.MatmulOp, [rows, w], kind, transpose_b=UnitAttr())
    if bias:
        kind = nn.with_element(kind, element_type(last))
        y = narrowed(call, y, kind)
        y = call.elementwise("add", [y, widened(call, bias[0], last)], kind)
    return [accumulated(call, call.reshape(y, call.results[0].dims))]


def _dtypes_of_sums(call: Call) -> tuple[str, str]:
    """The dtypes of a linear layer's product and of what the bias is added to."""
    acc, declared = call.settings["acc"], call.results[0].dtype
    dtypes = [dtype_name(nn.element_of(v)) for v in call.operands]
    if not DTYPES[dtypes[0]].is_float:
        return (str(acc[0]) if isinstance(acc, tuple) else declared), declared
    if isinstance(acc, tuple):
        summed = str(acc[0])
    elif "f64" in dtypes[:2]:
        summed = "f64"
    else:
        summed = computed(declared) if len(dtypes) > 2 else declared
    return summed, opset.promote_floats([summed, *map(computed, dtypes[2:])])


@op_rule("gather")
def _gather(call: Call) -> Sequence[SSAValue]:
    rank = len(nn.dims_of(call.operands[0]))
    value = call.add(
        nn.GatherOp,
        call.operands,
        call.own_type,
        axis=nn.int_setting(axis_of(call.settings["axis"], rank)),
        node=nn.int_setting(call.step.builder.node),
    )
    return [call.convert(value, call.type)]
