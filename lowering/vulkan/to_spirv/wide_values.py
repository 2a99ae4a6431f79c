"""Neighbouring elements in one access of memory: words of 32 bits, and the elements that they hold."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.spirv.composite_ops import CompositeConstructOp, CompositeExtractOp
from openinfer.lowering.vulkan.to_spirv.kernel_module import width_of
from openinfer.lowering.vulkan.to_spirv.value_conversions import Values


def components(v: Values, value: SSAValue, count: int) -> list[SSAValue]:
    """The components of a vector; one component is the value itself."""
    if count == 1:
        return [value]
    return [v.put(CompositeExtractOp(value, [number])) for number in range(count)]


def vector_of(v: Values, values: Sequence[SSAValue]) -> SSAValue:
    """The vector of some components; of one the value itself."""
    if len(values) == 1:
        return values[0]
    return v.put(CompositeConstructOp(values, VectorType(values[0].type, [len(values)])))


def with_type(v: Values, values: Sequence[SSAValue], kind: Attribute) -> list[SSAValue]:
    """The bits of some numbers as numbers of another type, more or fewer of them; the low bits come first."""
    have, want = width_of(values[0].type), width_of(kind)
    if values[0].type == kind:
        return list(values)
    if want < have:
        count = have // want
        whole = [v.op("Bitcast", value, result=VectorType(kind, [count])) for value in values]
        return [part for value in whole for part in components(v, value, count)]
    count = want // have
    starts = range(0, len(values), count)
    return [
        v.op("Bitcast", vector_of(v, values[start : start + count]), result=kind)
        for start in starts
    ]
