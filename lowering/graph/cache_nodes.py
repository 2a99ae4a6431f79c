"""Cache nodes: `cache.read`, `cache.write`, `cache.step` and `cache.reset`."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import (
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
)
from openinfer.lowering.graph.contents import filled
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.state_access import StateAccess
from openinfer.lowering.graph.step import Step
from openinfer.runtime.sizes import MAX_NUMBER


def translate_cache(step: Step, op: Operation, scope: Scope) -> bool:
    """Translates a cache node; False for any other node."""
    variables, show = step.variables, step.stamps.value
    match op:
        case CacheReadOp():
            variables.write(op.target, StateAccess(step, op.source, scope).read(), scope)
            show(variables.value_of(op.target.variable.data, scope), op, op.target)
        case CacheWriteOp():
            value = variables.read(op.source, scope)
            access = StateAccess(step, op.target, scope)
            access.write(value)
            alone = not access.state.table and not access.state.auto
            show(value, op, op.target if alone else op.source)
        case CacheStepOp():
            ref = RefAttr.of(op.variable.data)
            value = _stepped(step, op, scope)
            StateAccess(step, ref, scope).write(value)
            show(value, op, ref)
        case CacheResetOp():
            access = StateAccess(step, op.target, scope)
            access.reset()
            if access.state.plain:
                show(variables.value_of(access.name, scope), op, op.target)
        case _:
            return False
    return True


def _stepped(step: Step, op: CacheStepOp, scope: Scope) -> SSAValue:
    """The value of a variable with the amount added."""
    name, b = op.variable.data, step.builder
    value = step.variables.value_of(name, scope)
    amount = op.amount.data.substitute(step.facts.static).constant
    kind = value.type
    assert isinstance(kind, TensorType)
    element = kind.element_type
    # The amount is not rounded to a narrow float before it is added.
    narrow = isinstance(element, AnyFloat) and element.bitwidth < 32
    wide = nn.with_element(kind, f32) if narrow else kind
    if amount is not None and abs(amount) <= MAX_NUMBER:
        by = b.add(filled(amount, wide))
    else:
        by = _amount(step, op, wide, scope)
    value = _cast(step, value, wide)
    new = b.add(nn.ElementwiseOp([value, by], [wide], properties={"kind": StringAttr("add")}))
    new = _cast(step, new, kind)
    new.name_hint = name
    return new


def _cast(step: Step, value: SSAValue, kind: TensorType[Attribute]) -> SSAValue:
    if value.type == kind:
        return value
    properties = {"kind": StringAttr("cast")}
    return step.builder.add(nn.ElementwiseOp([value], [kind], properties=properties))


def _amount(step: Step, op: CacheStepOp, kind: TensorType[Attribute], scope: Scope) -> SSAValue:
    """An amount that only the step knows, in the type of what it is added to; integers wrap."""
    b = step.builder
    number = b.add(nn.FromIndexOp(step.values.count(op.amount.data, scope)))
    single = nn.tensor_type(kind.element_type, [])
    if number.type != single:
        properties: dict[str, Attribute] = {"kind": StringAttr("cast")}
        if isinstance(kind.element_type, IntegerType):
            properties["settings"] = DictionaryAttr({"saturate": IntegerAttr(0, i1)})
        number = b.add(nn.ElementwiseOp([number], [single], properties=properties))
    return number if number.type == kind else b.add(nn.BroadcastOp([number], [kind]))
