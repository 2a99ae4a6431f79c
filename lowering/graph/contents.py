"""What variables hold before anything is written: tensors of the package, numbers, zeros."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.graph import AssignOp, VariableOp
from openinfer.dialects.nn.elements import element_type
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scope import NoValue, Scope
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(eq=False)
class Contents:
    """Makes the first content of variables; weights are arguments of the step."""

    facts: Facts
    builder: StepBuilder
    requirements: Requirements
    weights: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def first(
        self, variable: VariableOp | AssignOp, dims: Sequence[Size] | None = None
    ) -> SSAValue:
        """Model tensor, else metadata, else `@init`, else zeros; `dims` where they name scalars."""
        if isinstance(variable, VariableOp):
            if self.facts.tensor_of(variable) is not None:
                return self._fitting(self.weight(variable), dims)
            constant = self.facts.constant_of(variable)
        else:
            constant = None
        self.require_closed(variable)
        kind = self.declared_type(variable)
        if dims is not None:
            kind = nn.tensor_type(kind.element_type, dims)
        fill = filled(constant, kind)
        fill.result[0].name_hint = variable.variable.data
        return self.builder.add(fill)

    def require_closed(self, variable: VariableOp | AssignOp) -> None:
        """What has an open dimension has no first content, unless the package gives it one: a step that
        comes here fails, whatever its other dimensions are."""
        held = isinstance(variable, VariableOp) and self.facts.tensor_of(variable) is not None
        if held or all(dim.single_name != "_" for dim in self.facts.declared(variable)[1]):
            return
        raise NoValue(
            "OI0602",
            f"{variable.variable.data} has an open dimension and was not written yet",
            "write it before it is read",
            "unwritten",
            variable.variable.data,
        )

    def _fitting(self, value: SSAValue, dims: Sequence[Size] | None) -> SSAValue:
        """A tensor of the package as a variable whose dimensions name scalars; the step fails where
        it has another shape."""
        if dims is None or tuple(dims) == nn.dims_of(value):
            return value
        for have, want in zip(nn.dims_of(value), dims):
            if have != want:
                self.requirements.equal(have, want, Scope())
        return self.builder.add(nn.CastDimsOp(value, nn.tensor_type(nn.element_of(value), dims)))

    def weight(self, variable: VariableOp) -> SSAValue:
        """The argument that holds a tensor of the package, or a whole family of them."""
        name = variable.variable.data
        if name not in self.weights:
            kind = self.declared_type(variable)
            source = self.facts.tensor_of(variable)
            if source is not None and self.facts.names_scalars(variable):
                kind = nn.tensor_type(kind.element_type, self.facts.bindings.tensors[source].shape)
            if name in self.facts.extents:
                extents = self.facts.extents[name]
                kind = nn.tensor_type(kind.element_type, [*extents, *nn.dims_of(kind)])
            self.weights[name] = self.builder.argument(name, kind)
        return self.weights[name]

    def declared_type(self, variable: VariableOp | AssignOp) -> TensorType[Attribute]:
        return tensor_type(*self.facts.declared(variable))

    def zeros(self, kind: TensorType[Attribute]) -> SSAValue:
        """A tensor of zeros."""
        return self.builder.add(filled(None, kind))


def tensor_type(dtype: str, dims: Sequence[Size]) -> TensorType[Attribute]:
    """The type of a tensor as a program names it."""
    return nn.tensor_type(element_type(ALIASES.get(dtype, dtype)), dims)


def filled(value: int | float | None, kind: TensorType[Attribute]) -> nn.FillOp:
    """A tensor of one number, None for zeros."""
    number = 0 if value is None else value
    floats = isinstance(kind.element_type, AnyFloat)
    attribute = (
        FloatAttr(float(number), 64) if floats else IntegerAttr(int(number), IntegerType(64))
    )
    return nn.FillOp([], [kind], properties={"value": attribute})
