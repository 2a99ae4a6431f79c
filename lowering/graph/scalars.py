"""Settings that only the step knows: the one element of a variable, a loop index, a size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, TensorType, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.opset import NameRef, find
from openinfer.lowering.graph.op_rules import Call
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.settings import attribute_of
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.step import Step


@dataclass(frozen=True)
class Scalar(NameRef):
    """A setting with a value in the step: a tensor without dimensions."""

    value: SSAValue


def scalar_settings(
    step: Step, op: str, settings: Mapping[str, object], scope: Scope
) -> dict[str, object]:
    """The settings with a `Scalar` for each bare name that has a number in the step."""
    spec = find(op)
    found: dict[str, object] = {}
    for name, value in settings.items():
        setting = spec.setting(name) if spec else None
        if isinstance(value, NameRef) and setting is not None:
            if setting.kind in ("int", "float", "number", "bool"):
                tensor = _value_of(step, value.name, scope)
                value = value if tensor is None else Scalar(value.name, tensor)
        found[name] = value
    return found


def _value_of(step: Step, name: str, scope: Scope) -> SSAValue | None:
    """The number that a name stands for, as a tensor without dimensions; None when it has none."""
    if name in scope.indices or (name not in step.facts.variables and name in step.sizes.known):
        return step.builder.add(nn.FromIndexOp(step.values.name(name, scope)))
    if name not in step.facts.variables:
        return None
    value = step.variables.value_of(name, scope)
    if not nn.dims_of(value):
        return value
    return step.builder.add(nn.ReshapeOp([value], [nn.tensor_type(nn.element_of(value), [])]))


def scalar_type(element: Attribute) -> TensorType[Attribute]:
    return nn.tensor_type(element, [])


def number(call: Call, value: object, element: Attribute) -> SSAValue:
    """A setting as a tensor without dimensions: a constant, or the step's value as `cast` gives it."""
    kind = scalar_type(element)
    if isinstance(value, Scalar):
        return call.convert(value.value, kind)
    if isinstance(value, bool):
        value = int(value)
    assert isinstance(value, int | float)
    if isinstance(value, int):
        # An attribute holds 64 signed bits; the constant wraps to its element type.
        value = (value + 2**63) % 2**64 - 2**63 if not isinstance(element, AnyFloat) else value
    return call.add(nn.FillOp, [], kind, value=attribute_of(value))


def size_number(call: Call, size: Size) -> SSAValue:
    """A size of a tensor of the step as an i64 without dimensions."""
    if size.constant is not None:
        return number(call, size.constant, i64)
    return call.step.builder.add(nn.FromIndexOp(call.step.values.index(size, Scope())))


def computed(dtype: str) -> str:
    """The dtype in which kernels work on values of `dtype` without a loss: itself, where they can."""
    if dtype in ("f16", "bf16", "f8", "f8e4m3"):
        return "f32"
    return f"{dtype[0]}8" if dtype in ("i4", "i2", "i1", "u4", "u2", "u1") else dtype


def stored(dtype: str) -> str:
    """The dtype in which kernels move values of `dtype`: a whole number of bytes, and no f8."""
    return dtype if dtype in ("f16", "bf16") else computed(dtype)


def widened(call: Call, value: SSAValue, dtype: str) -> SSAValue:
    """The value in another dtype, elements converted as `cast` does."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return call.convert(value, nn.with_element(kind, element_type(dtype)))


def dtype_of(value: SSAValue) -> str:
    return dtype_name(nn.element_of(value))


def narrowed(call: Call, value: SSAValue, result: TensorType[Attribute]) -> SSAValue:
    """The value in the declared type: floats rounded once, integers wrapped."""
    if value.type == result:
        return value
    if isinstance(nn.element_of(value), AnyFloat):
        return call.convert(value, result)
    return call.elementwise("cast", [value], result, saturate=False)
