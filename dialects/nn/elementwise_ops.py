"""Operations of `nn` that make each element by itself."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects import opset
from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import (
    element,
    expect_axis,
    is_integer,
    refuse,
    shape_of,
    stretches,
    text,
)
from openinfer.dialects.nn.elements import dtype_name
from openinfer.runtime.dtypes import DTYPES


@irdl_op_definition
class ElementwiseOp(NNOp):
    """One function of each element: `nn.elementwise(%a, %b) {kind = "add"}`.

    `kind` is a row of the elementwise table in `dialects/opset.py`; inputs broadcast NumPy-style.
    """

    name = "nn.elementwise"
    kind = prop_def(StringAttr)
    settings = opt_prop_def(DictionaryAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (1, 3)

    @property
    def row(self) -> opset.OpSpec:
        """The row of the table that `kind` names; the verifier has found it."""
        found = opset.find(self.kind.data)
        assert found is not None
        return found

    def check(self) -> None:
        kind = self.kind.data
        spec = opset.find(kind)
        if spec is None or spec.name != kind or not _by_element(spec):
            near = opset.nearest(kind)
            guess = f", did you mean {near!r}?" if near is not None and near != kind else ""
            refuse(self, f"kind {kind!r} is no elementwise op of the table{guess}")
        count, wanted = len(self.inputs), len(spec.operands)
        if count != wanted:
            refuse(self, f"{kind!r} takes {wanted} inputs, found {count}")
        result = shape_of(self.output)
        for number, value in enumerate(self.inputs):
            dims = shape_of(value)
            if dims != result and not stretches(dims, result):
                refuse(
                    self,
                    f"input {number} has shape {text(dims)}, "
                    f"expected one that broadcasts to the result's {text(result)}",
                )
        if not self.on_buffers:  # In memory a bool is a byte and integers have no sign.
            self._check_dtypes(spec)

    def _check_dtypes(self, spec: opset.OpSpec) -> None:
        """Settings and element types as the table's row wants them."""
        operands = [opset.TensorSpec(_dtype(self, v), ()) for v in self.inputs]
        result = _dtype(self, self.output)
        settings = self.settings.data if self.settings is not None else {}
        given: dict[str, object] = {"to": result} if spec.name in ("cast", "bit_cast") else {}
        for name, value in settings.items():
            setting = spec.setting(name)
            if setting is not None and setting.name != name:
                refuse(self, f"setting {name!r} is written {setting.name!r} here")
            given[name] = _setting(self, name, value)
        try:
            opset.check_operands(spec, operands)
            inferred = spec.infer(operands, opset.resolve_settings(spec, given))[0].dtype
        except opset.OpError as error:
            raise VerifyException(f"{self.name}: {spec.name!r}: {error.message}") from error
        exact = spec.name == "cast"
        if inferred != result and (exact or not opset.accepts(inferred, result)):
            refuse(self, f"{spec.name!r} gives {inferred}, but the result is {result}")


def _by_element(spec: opset.OpSpec) -> bool:
    # `is_finite` stands here for the test of one element; `nn.fill` is an op of its own.
    return spec.family in ("elementwise", "compare") or spec.name == "is_finite"


def _dtype(op: NNOp, value: SSAValue) -> str:
    kind = element(value)
    try:
        name = dtype_name(kind)
    except TypeError as error:
        raise VerifyException(f"{op.name}: {error}") from error
    if name not in DTYPES:
        refuse(op, f"{kind} is no element type of a tensor")
    return name


def _setting(op: NNOp, name: str, value: Attribute) -> object:
    if isinstance(value, IntegerAttr):
        return bool(value.value.data) if value.type == IntegerType(1) else value.value.data
    if isinstance(value, FloatAttr):
        return value.value.data
    if isinstance(value, StringAttr):
        return value.data
    refuse(op, f"setting {name!r} is {value}, expected a number, a bool or a string")


@irdl_op_definition
class FillOp(NNOp):
    """A tensor of one value: `nn.fill() {value = 0.0 : f32}`; also every `@init`."""

    name = "nn.fill"
    value = prop_def(Attribute)
    ARITY: ClassVar[tuple[int, int | None]] = (0, 0)

    def check(self) -> None:
        shape_of(self.output)
        kind = element(self.output)
        if isinstance(kind, AnyFloat):
            if not isinstance(self.value, IntegerAttr | FloatAttr):
                refuse(self, f"value is {self.value}, expected a number")
        elif not isinstance(self.value, IntegerAttr):
            refuse(self, f"value is {self.value}, expected an integer for elements {kind}")


@irdl_op_definition
class IotaOp(NNOp):
    """0, 1, 2, … along `axis`."""

    name = "nn.iota"
    axis = prop_def(IntegerAttr)
    ARITY: ClassVar[tuple[int, int | None]] = (0, 0)

    def check(self) -> None:
        # A scalar is counted along an axis 0 of one element.
        expect_axis(self, self.axis.value.data, max(1, len(shape_of(self.output))))
        if not self.on_buffers and not is_integer(element(self.output)):
            refuse(self, f"the result has elements {element(self.output)}, expected integers")
