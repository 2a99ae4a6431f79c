"""Nodes that use an op: the numbers of their settings, then the rule of the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.graph import OpOp, RefAttr
from openinfer.dialects.nn.elements import dtype_name
from openinfer.dialects.ops.base import product
from openinfer.lowering.graph import op_rules
from openinfer.lowering.graph.contents import filled, tensor_type
from openinfer.lowering.graph.dynamic_numbers import dynamic_numbers, with_rest
from openinfer.lowering.graph.index_arithmetic import never_negative
from openinfer.lowering.graph.scalars import scalar_settings
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step import Step
from openinfer.lowering.program.literals import operand_dtypes
from openinfer.runtime.sizes import Size


def translate_op(step: Step, op: OpOp, scope: Scope) -> Sequence[SSAValue]:
    """What the op of a node gives, written to the node's outputs."""
    name = op.op_name.data
    operands = _operands(step, op, scope)
    operands = op_rules.met(step, name, operands)
    outputs = [step.variables.written_type(ref.variable.data, scope) for ref in op.outputs]
    settings = step.facts.settings(op)
    _check_numbers(step, name, settings, scope)
    if name == "slice" and operands:
        settings = _slice_settings(step, settings, nn.dims_of(operands[0]), scope)
    if name == "roll" and operands:
        settings = _roll_settings(step, settings, nn.dims_of(operands[0]), scope)
    settings = dynamic_numbers(step, name, operands, settings, scope)
    settings = _symbolic_settings(step, name, settings, scope)
    settings = with_rest(step, name, operands, settings)
    settings = scalar_settings(step, name, settings, scope)
    operands = op_rules.unified(step, name, operands, len(outputs), settings, scope)
    return op_rules.translate(step, name, operands, outputs, settings, scope)


def _operands(step: Step, op: OpOp, scope: Scope) -> list[SSAValue]:
    """The values of the operands; a literal is a tensor of one number without dimensions."""
    read = {ref: step.variables.read(ref, scope) for ref in op.reads()}
    spec = opset.find(op.op_name.data)
    assert spec is not None
    dtypes = operand_dtypes(spec, op.inputs.data, lambda ref: dtype_name(nn.element_of(read[ref])))
    return [
        read[operand]
        if isinstance(operand, RefAttr)
        else step.builder.add(filled(operand.number, tensor_type(dtype, ())))
        for operand, dtype in zip(op.inputs, dtypes)
    ]


def _roll_settings(
    step: Step, settings: Mapping[str, object], dims: Sequence[Size], scope: Scope
) -> dict[str, object]:
    """The settings of a `roll` with distances that the step knows within their axes: no size is negative."""
    spec, b = opset.find("roll"), step.builder
    assert spec is not None
    named = {key: spec.setting(key) for key in settings}
    found = {row.name if row else key: settings[key] for key, row in named.items()}

    def several(value: object) -> tuple[object, ...]:
        return value if isinstance(value, tuple) else (value,)

    def within(value: object, axis: object) -> object:
        if isinstance(value, opset.NameRef):
            value = Size.name(value.name)
        if not isinstance(value, Size):
            return value
        value = step.values.folded(value, scope)
        if value.names <= step.sizes.known or not isinstance(axis, int | None):
            return value
        if axis is not None and not -len(dims) <= axis < len(dims):
            return value
        extent = step.values.index(product(dims) if axis is None else dims[axis], scope)
        extent = b.add(arith.MaxSIOp(extent, b.constant(1)))
        rest = b.add(arith.RemSIOp(step.values.index(value, scope), extent))
        behind = b.compare(rest, "slt", b.constant(0))
        from_front = b.add(arith.AddiOp(rest, extent))
        return step.sizes.define("roll", b.add(arith.SelectOp(behind, from_front, rest)), scope)

    shifts, axes = several(found.get("shifts")), found.get("axes")
    places = several(axes) if axes is not None else (None,) * len(shifts)
    if len(places) == len(shifts):
        found["shifts"] = tuple(within(value, axis) for value, axis in zip(shifts, places))
    return found


def _check_numbers(step: Step, name: str, settings: Mapping[str, object], scope: Scope) -> None:
    """Of several sizes all are checked before one is used, so that the step fails alike with each."""
    found: list[Size] = []

    def collect(size: Size) -> Size:
        size = step.values.folded(size, scope)
        if any(n in scope.indices or n in step.facts.variables for n in size.names):
            found.append(size)
        return size

    _mapped_sizes(name, settings, opset.SIZE_KINDS, collect)
    if len(found) > 1:
        for size in found:
            step.values.index(size, scope)


def _symbolic_settings(
    step: Step, name: str, settings: Mapping[str, object], scope: Scope
) -> dict[str, object]:
    """The settings with sizes over scalars and loop indices as dynamic sizes."""
    sized = ("size", "ints")
    return _mapped_sizes(name, settings, sized, lambda size: step.values.symbolic(size, scope))


def _mapped_sizes(
    name: str,
    settings: Mapping[str, object],
    kinds: Sequence[str],
    change: Callable[[Size], object],
) -> dict[str, object]:
    """The settings of an op with other sizes in those of some kinds."""
    spec = opset.find(name)

    def mapped(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(mapped(item) for item in value)
        if isinstance(value, opset.NameRef):
            value = Size.name(value.name)
        return change(value) if isinstance(value, Size) else value

    found: dict[str, object] = {}
    for key, value in settings.items():
        setting = spec.setting(key) if spec else None
        sized = setting is not None and setting.kind in kinds
        found[key] = mapped(value) if sized else value
    return found


def _slice_settings(
    step: Step, settings: Mapping[str, object], dims: Sequence[Size], scope: Scope
) -> dict[str, object]:
    """The settings of a slice with bounds that may be negative counted from the front."""
    b = step.builder

    def from_front(value: object, axis: object) -> object:
        if isinstance(value, opset.NameRef):
            value = Size.name(value.name)
        if not isinstance(value, Size) or not isinstance(axis, int):
            return value
        unknown = value.names - step.sizes.known - step.facts.static.keys()
        if not unknown or not -len(dims) <= axis < len(dims):
            return value
        number = step.values.index(value, scope)
        if value.single_name is not None and never_negative(number):
            return value
        zero = b.constant(0)
        behind = b.compare(number, "slt", zero)
        counted = b.add(arith.AddiOp(number, step.values.index(dims[axis], scope)))
        place = b.add(arith.SelectOp(behind, counted, number))
        b.fail_unless(b.compare(place, "sge", zero), "bound", zero, place)
        # Said before a size of this value is there, which might ask for much memory.
        extent = step.values.index(dims[axis], scope)
        b.require(place, "sle", extent, "bound")
        return step.sizes.define("slice", place, scope)

    found = dict(settings)
    axes = settings.get("axes")
    for key in ("starts", "stops"):
        values = settings.get(key)
        if isinstance(values, Size | opset.NameRef):
            values = (values,)
        if isinstance(values, tuple):
            places = axes if isinstance(axes, tuple) else range(len(values))
            found[key] = tuple(from_front(v, a) for v, a in zip(values, places))
    for key in ("start", "stop"):
        if key in settings:
            found[key] = from_front(settings[key], settings.get("axis", 0))
    return found
