"""How an op of the registry becomes `nn`: what its rule is given, and who finds it.

The rules are in the files of `_MODULES`; elementwise ops have a single one, here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DictionaryAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.nn.elements import dtype_name
from openinfer.dialects.ops.base import product
from openinfer.dialects.opset import OpError, OpSpec, TensorSpec
from openinfer.lowering.graph.contents import tensor_type
from openinfer.lowering.graph.dynamic_numbers import are_dynamic, dynamic_results
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.settings import attribute_of
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
    from openinfer.lowering.graph.scope import Scope
    from openinfer.lowering.graph.step import Step

Settings = Mapping[str, object]


class RuleError(Exception):
    """An op that cannot be lowered as written."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class Call:
    """One use of an op: operands, settings, result types, and a short hand to emit `nn` ops."""

    def __init__(
        self,
        step: Step,
        spec: OpSpec,
        operands: Sequence[SSAValue],
        settings: Settings,
        results: Sequence[TensorSpec],
        inferred: Sequence[TensorSpec],
    ) -> None:
        self.step = step
        self.spec = spec
        self.operands = list(operands)
        self.settings = settings
        self.results = list(results)
        """What is declared."""
        self.inferred = list(inferred)
        """What the op gives by itself; only float dtypes may differ from what is declared."""

    def kind(self, spec: TensorSpec) -> TensorType[Attribute]:
        return tensor_type(spec.dtype, spec.dims)

    @property
    def type(self) -> TensorType[Attribute]:
        """The declared type of the first result."""
        return self.kind(self.results[0])

    @property
    def own_type(self) -> TensorType[Attribute]:
        """The inferred type of the first result."""
        return self.kind(self.inferred[0])

    def add(
        self,
        op: type[nn.NNOp],
        inputs: Sequence[SSAValue],
        result: TensorType[Attribute],
        **properties: Attribute | None,
    ) -> SSAValue:
        return self.step.builder.add(op(inputs, [result], properties=properties))

    def replaced(
        self,
        operands: Sequence[SSAValue] | None = None,
        settings: Settings | None = None,
        result: TensorSpec | None = None,
    ) -> Call:
        """The same use with other operands, settings or another result."""
        return Call(
            self.step,
            self.spec,
            self.operands if operands is None else operands,
            self.settings if settings is None else settings,
            self.results if result is None else [result],
            self.inferred if result is None else [result],
        )

    def require(self, low: Size, high: Size, kind: str = "bound") -> None:
        """The step may run only where low <= high; `kind` is a row of `runtime/devices/failures.py`."""
        self.step.requirements.at_most(low, high, kind)

    def reshape(self, value: SSAValue, dims: Sequence[Size]) -> SSAValue:
        if nn.dims_of(value) == tuple(dims):
            return value
        return self.add(nn.ReshapeOp, [value], nn.tensor_type(nn.element_of(value), dims))

    def checked_reshape(self, value: SSAValue, dims: Sequence[Size]) -> SSAValue:
        """A reshape; the step checks that the elements fill the result where only its numbers tell."""
        have, want = product(nn.dims_of(value)), product(dims)
        if have == want:
            return self.reshape(value, dims)
        self.require(have, want)
        self.require(want, have)
        kind = nn.tensor_type(nn.element_of(value), dims)
        return self.add(nn.ReshapeOp, [value], kind, checked=UnitAttr())

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        if list(order) == sorted(order):
            return value
        dims = nn.dims_of(value)
        kind = nn.tensor_type(nn.element_of(value), [dims[d] for d in order])
        return self.add(nn.TransposeOp, [value], kind, permutation=nn.ints_setting(order))

    def elementwise(
        self,
        kind: str,
        inputs: Sequence[SSAValue],
        result: TensorType[Attribute],
        **settings: object,
    ) -> SSAValue:
        given = {k: attribute_of(v) for k, v in settings.items() if v is not None}
        return self.add(
            nn.ElementwiseOp,
            inputs,
            result,
            kind=StringAttr(kind),
            settings=DictionaryAttr(given) if given else None,
        )

    def convert(self, value: SSAValue, result: TensorType[Attribute]) -> SSAValue:
        """The value in the declared dtype, rounded once."""
        if value.type == result:
            return value
        return self.elementwise("cast", [value], result, to=dtype_name(result.element_type))


Rule = Callable[[Call], Sequence[SSAValue]]
_RULES: dict[str, Rule] = {}


_MODULES = (
    *("layout_rules", "reduce_rules", "attention_rules", "expert_rules"),
    *(
        "border_rules",
        "index_rules",
        "element_index_rules",
        "einsum_rule",
        "number_rules",
        "random_rules",
        "scalar_rules",
    ),
    *(
        "window_rules",
        "pool_rules",
        "adaptive_pool_rules",
        "sampling_rules",
        "sequence_rules",
        "composed_rules",
    ),
    *("activation_rules", "statistics_rules", "arrangement_rules"),
)
"""The files beside this one that hold rules."""


_SCALARS: dict[str, Collection[str]] = {}
"""For each op the settings that only the step may know; its rule takes them as `Scalar`."""

Check = Callable[[Requirements, Sequence[TensorSpec], Settings], None]
_CHECKS: dict[str, Check] = {}
"""For each op what it requires of the step, before its results have a size."""


def op_rule(
    *names: str, scalars: Collection[str] = (), check: Check | None = None
) -> Callable[[Rule], Rule]:
    """Registers the function as the rule of the ops `names`.

    `scalars` are the settings that may name a scalar variable, a loop index or a run-time size: the
    rule finds a `lowering.graph.scalars.Scalar` there. `check` has checked by the step what the op
    needs of the types of its operands and of its settings.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            _RULES[name] = rule
            _SCALARS[name] = scalars
            if check is not None:
                _CHECKS[name] = check
        return rule

    return register


def rule_of(name: str) -> Rule:
    """The rule of the op of that name."""
    return _RULES.get(name, elementwise_rule)


@cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"openinfer.lowering.graph.{module}")


def translate(
    step: Step,
    name: str,
    operands: Sequence[SSAValue],
    outputs: Sequence[tuple[str, list[Size | None]]],
    given: Settings,
    scope: Scope,
) -> Sequence[SSAValue]:
    """Emits the `nn` ops of one `graph.op`; the results have the declared dtypes.

    They have the declared dimensions, but for those that are open (None), or that only the step
    can compare. Raises RuleError for a wrong use, with both sides shown.
    """
    spec = opset.find(name)
    if spec is None:
        raise RuleError("OI0214", f"there is no op {name!r}", opset.advice(name))
    specs = [TensorSpec(dtype_name(nn.element_of(v)), nn.dims_of(v)) for v in operands]
    try:
        settings = opset.resolve_settings(spec, given)
        opset.check_operands(spec, specs, len(outputs))
        types = tuple(TensorSpec(n, _open(dims)) for n, dims in outputs)
        inferred = spec.infer(specs, {**settings, "outputs": len(outputs), "declared": types})
    except OpError as error:
        raise RuleError("OI0322", f"{name}: {error.message}", error.hint) from error
    _load()
    for setting, value in settings.items():
        if isinstance(value, opset.NameRef) and setting not in _SCALARS.get(spec.name, ()):
            raise RuleError(
                "OI0720",
                f"{name}: setting {setting} names {value}, which has no value at compile time",
                "use a literal, a constant with @init, or model metadata",
            )
    if spec.name in _CHECKS:
        _CHECKS[spec.name](step.requirements, specs, settings)
    if are_dynamic(step.sizes, settings):
        inferred = dynamic_results(step, inferred, scope)
    declared = [
        TensorSpec(dtype, _settled(step.sizes, dims, have))
        for (dtype, dims), have in zip(outputs, inferred)
    ]
    for want, have in zip(declared, inferred):
        floats = want.dtype.lstrip("b").startswith("f") and have.dtype.lstrip("b").startswith("f")
        if want.dims != have.dims or (want.dtype != have.dtype and not floats):
            raise RuleError(
                "OI0323",
                f"{name} gives {have}, but its output is declared {want}",
                "declare the output with the type that the op gives",
            )
    call = Call(step, spec, operands, settings, declared, inferred)
    return rule_of(spec.name)(call)


def _open(dims: Sequence[Size | None]) -> tuple[Size, ...]:
    """Declared dimensions, open ones as the name `_`."""
    return tuple(Size.name("_") if dim is None else dim for dim in dims)


def _settled(
    sizes: DynamicSizes, dims: Sequence[Size | None], have: TensorSpec
) -> tuple[Size, ...]:
    """The declared dimensions; the inferred ones where a declaration leaves them to the step."""
    if len(dims) != have.rank:
        return tuple(Size.of(0) if d is None else d for d in dims)
    return tuple(
        h if d is None or sizes.is_dynamic(d) or sizes.is_dynamic(h) else d
        for d, h in zip(dims, have.dims)
    )


def met(step: Step, name: str, operands: Sequence[SSAValue]) -> list[SSAValue]:
    """The operands with mixed floats cast to the dtype where they meet."""
    spec = opset.find(name)
    if spec is None:
        return list(operands)
    dtypes = [dtype_name(nn.element_of(value)) for value in operands]
    found: list[SSAValue] = []
    for value, have, want in zip(operands, dtypes, opset.meeting_dtypes(spec, dtypes)):
        if have != want:
            kind = tensor_type(want, nn.dims_of(value))
            settings = DictionaryAttr({"to": attribute_of(want)})
            cast = nn.ElementwiseOp(
                [value], [kind], properties={"kind": StringAttr("cast"), "settings": settings}
            )
            value = step.builder.add(cast)
        found.append(value)
    return found


def unified(
    step: Step,
    name: str,
    operands: Sequence[SSAValue],
    outputs: int,
    given: Settings,
    scope: Scope,
) -> list[SSAValue]:
    """The operands with dynamic sizes said to be equal where the op needs it; the step checks that."""
    spec = opset.find(name)
    found = list(operands)
    while spec is not None:
        specs = [TensorSpec(dtype_name(nn.element_of(v)), nn.dims_of(v)) for v in found]
        pair = _clash(step.sizes, spec, specs, outputs, given)
        if pair is None:
            break
        old, new = pair
        step.requirements.equal(old, new, scope)
        for i, value in enumerate(found):
            dims = nn.dims_of(value)
            replaced = [new if d == old else d for d in dims]
            if tuple(replaced) != dims:
                kind = nn.tensor_type(nn.element_of(value), replaced)
                found[i] = step.builder.add(nn.CastDimsOp(value, kind))
    return found


def _clash(
    sizes: DynamicSizes,
    spec: OpSpec,
    specs: Sequence[TensorSpec],
    outputs: int,
    given: Settings,
) -> tuple[Size, Size] | None:
    """Two sizes, the first of them dynamic, without whose equality the op's rule refuses its operands."""

    def refused(operands: Sequence[TensorSpec]) -> bool:
        try:
            settings = opset.resolve_settings(spec, given)
            opset.check_operands(spec, operands, outputs)
            spec.infer(operands, {**settings, "outputs": outputs})
        except opset.ShapeError:
            return True
        except OpError:
            return False
        return False

    dims = list(dict.fromkeys(d for s in specs for d in s.dims))
    dynamic = [d for d in dims if sizes.is_dynamic(d)]
    if not dynamic or not refused(specs):
        return None
    fallback: tuple[Size, Size] | None = None
    for old in dynamic:
        for new in dims:
            if new == old or new.constant == 1:
                continue
            trial = [
                TensorSpec(s.dtype, tuple(new if d == old else d for d in s.dims)) for s in specs
            ]
            if not refused(trial):
                return old, new
            if fallback is None and len(dynamic) > 1:
                fallback = (old, new)
    return fallback


def elementwise_rule(call: Call) -> Sequence[SSAValue]:
    if call.spec.family not in ("elementwise", "compare"):
        raise RuleError(
            "OI0721",
            f"op {call.spec.name} is not implemented in compiled programs yet",
            "run it with the simulator",
        )
    if call.settings.get("acc") is not None:
        wide = nn.with_element(call.type, call.type.element_type)
        operands = [widen(call, v, wide.element_type) for v in call.operands]
        return [call.elementwise(call.spec.name, operands, call.type)]
    settings = {k: v for k, v in call.settings.items() if k not in ("acc", "to")}
    # Defaults go without saying.
    for setting in call.spec.settings:
        if setting.name in settings and settings[setting.name] == setting.default:
            del settings[setting.name]
    return [call.elementwise(call.spec.name, call.operands, call.type, **settings)]


def widen(call: Call, value: SSAValue, element: Attribute) -> SSAValue:
    """A tensor with elements of another type."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return call.convert(value, nn.with_element(kind, element))


def axis_of(value: object, rank: int) -> int:
    """The axis that a setting names, counted from the front."""
    assert isinstance(value, int)
    return value % rank if rank else 0


def accumulated(call: Call, value: SSAValue) -> SSAValue:
    """What an accumulator holds at the end in the declared type; integers wrap."""
    if value.type == call.type:
        return value
    if isinstance(nn.element_of(value), IntegerType):
        return call.elementwise("cast", [value], call.type, saturate=False)
    return call.convert(value, call.type)
