"""Rules of the recurrent layers and of the Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import SizeAttr
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.base import promote_floats
from openinfer.dialects.ops.recurrent import GATES, STATES, both_ways
from openinfer.dialects.ops.signal import signal_length
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed, widened
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


# Recurrent layers ---------------------------------------------------------------------------------


@op_rule("lstm", "gru")
def _layer(call: Call) -> Sequence[SSAValue]:
    """The input's part of all gates is one product; `nn.lstm` and `nn.gru` go through time."""
    kind = call.spec.name
    x, *rest = call.operands
    first = bool(call.settings["batch_first"])
    flat = len(nn.dims_of(x)) == 2
    if flat:
        steps, width = nn.dims_of(x)
        x = call.reshape(x, (steps, _ONE, width))
    elif first:
        x = call.transpose(x, [1, 0, 2])
    double = both_ways(call.settings)
    count = len(STATES[kind])
    batch, hidden = nn.dims_of(x)[1], nn.dims_of(rest[count + 1])[-1]
    shape = (*([Size.of(2)] if double else []), batch, hidden)
    rest[:count] = [_filled(call, state, shape) for state in rest[:count]]
    ways: list[list[SSAValue]] = []
    for way in range(2 if double else 1):
        operands = [_of_way(call, value, way) for value in rest] if double else rest
        backwards = way == 1 or call.settings["direction"] == "reverse"
        ways.append(_one_way(call, kind, x, operands, backwards))
    found = [_joined(call, list(values), number) for number, values in enumerate(zip(*ways))]
    if first and not flat:
        found[0] = call.transpose(found[0], [1, 0, 2])
    return [
        call.convert(call.reshape(value, declared.dims), call.kind(declared))
        for value, declared in zip(found, call.results)
    ]


def _filled(call: Call, state: SSAValue, shape: tuple[Size, ...]) -> SSAValue:
    """A state that is one number, as a tensor."""
    if nn.dims_of(state):
        return state
    return call.add(nn.BroadcastOp, [state], nn.tensor_type(nn.element_of(state), shape))


def _of_way(call: Call, value: SSAValue, way: int) -> SSAValue:
    """The part of one direction of a weight, bias or state `[2, …]`."""
    dims = nn.dims_of(value)
    starts = [Size.of(way), *(Size.of(0) for _ in dims[1:])]
    kind = nn.tensor_type(nn.element_of(value), (_ONE, *dims[1:]))
    part = call.add(
        nn.SliceOp,
        [value],
        kind,
        starts=ArrayAttr([SizeAttr(start) for start in starts]),
        steps=nn.ints_setting([1] * len(dims)),
    )
    return call.reshape(part, dims[1:])


def _joined(call: Call, values: list[SSAValue], number: int) -> SSAValue:
    """Both directions of y along the last axis, of a state along a new first one."""
    if len(values) == 1:
        return values[0]
    dims = nn.dims_of(values[0])
    if number:
        values = [call.reshape(value, (_ONE, *dims)) for value in values]
        whole = (Size.of(2), *dims)
    else:
        whole = (*dims[:-1], dims[-1] * 2)
    kind = nn.tensor_type(nn.element_of(values[0]), whole)
    axis = nn.int_setting(0 if number else len(dims) - 1)
    return call.add(nn.ConcatOp, values, kind, axis=axis)


def _one_way(
    call: Call, kind: str, x: SSAValue, operands: Sequence[SSAValue], backwards: bool
) -> list[SSAValue]:
    """y `[T, B, H]` and the last states `[B, H]` of one direction."""
    count = len(STATES[kind])
    states, (w_ih, w_hh, *biases) = operands[:count], operands[count:]
    steps, batch, width = nn.dims_of(x)
    hidden = nn.dims_of(w_hh)[1]
    rows = hidden * GATES[kind]
    dtype = computed(promote_floats([dtype_name(nn.element_of(v)) for v in call.operands]))
    element = element_type(dtype)
    matrix = call.reshape(x, (steps * batch, width))
    fed = call.add(
        nn.MatmulOp,
        [matrix, w_ih],
        nn.tensor_type(element, (steps * batch, rows)),
        transpose_b=UnitAttr(),
    )
    # The hidden bias of a GRU stands inside of the reset gate.
    outside = biases if kind == "lstm" else biases[:1]
    for bias in outside:
        fed = call.elementwise(
            "add", [fed, widened(call, bias, dtype)], nn.tensor_type(element, (steps * batch, rows))
        )
    fed = call.reshape(fed, (steps, batch, rows))
    states = [call.reshape(state, (batch, hidden)) for state in states]
    inputs = [fed, *states, w_hh, *(biases[1:] if kind == "gru" else [])]
    declared = [spec.dtype for spec in call.results] + [call.results[0].dtype] * 3
    shapes = [(steps, batch, hidden), *[(batch, hidden)] * count]
    types: list[Attribute] = [
        nn.tensor_type(element_type(name), dims) for name, dims in zip(declared, shapes)
    ]
    properties = {"reverse": UnitAttr() if backwards else None}
    op = (nn.LstmOp if kind == "lstm" else nn.GruOp)(inputs, types, properties=properties)
    call.step.builder.add(op)
    return list(op.result)


# Fourier transforms -------------------------------------------------------------------------------


@op_rule("rfft", "irfft")
def _fourier(call: Call) -> Sequence[SSAValue]:
    (x,) = call.operands
    name = call.spec.name
    length = signal_length(name, TensorSpec("f32", nn.dims_of(x)), call.settings)
    call.require(_ONE, length)
    op = nn.RfftOp if name == "rfft" else nn.IrfftOp
    norm = StringAttr(str(call.settings["norm"]))
    return [call.add(op, [x], call.type, n=SizeAttr(length), norm=norm)]
