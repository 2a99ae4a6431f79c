"""How each op of the registry becomes `nn`: one rule for each family or structured op."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.nn.elements import dtype_name, element_type
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.dialects.ops.structured import attention_split
from openinfer.dialects.opset import OpError, OpSpec, TensorSpec
from openinfer.lowering.graph.settings import attribute_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.late_sizes import LateSizes
    from openinfer.lowering.graph.variable_values import Scope, VariableValues

Settings = Mapping[str, object]


class RuleError(Exception):
    """An op that cannot be lowered as written."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class Emitter(Protocol):
    """What a rule needs of the translator."""

    @property
    def node(self) -> int:
        """The number of the node that is being translated."""
        ...

    def add(self, op: Operation) -> SSAValue: ...
    def tensor_type(self, dtype: str, dims: Sequence[Size]) -> TensorType[Attribute]: ...
    @property
    def late(self) -> LateSizes:
        """Sizes that only the step knows."""
        ...

    def require(self, low: Size, high: Size) -> None:
        """The step may run only where low <= high; known violations were reported before."""
        ...

    def require_holds(self, flag: SSAValue, kind: str, shown: SSAValue | None = None) -> None:
        """The step fails with a row of `runtime/devices/failures.py` where a bool is false.

        `flag` and the integer that the message shows are tensors of one element.
        """
        ...


class Call:
    """One use of an op: operands, settings, result types, and a short hand to emit `nn` ops."""

    def __init__(
        self,
        emitter: Emitter,
        spec: OpSpec,
        operands: Sequence[SSAValue],
        settings: Settings,
        results: Sequence[TensorSpec],
        inferred: Sequence[TensorSpec],
    ) -> None:
        self.emitter = emitter
        self.spec = spec
        self.operands = list(operands)
        self.settings = settings
        self.results = list(results)
        """What is declared."""
        self.inferred = list(inferred)
        """What the op gives by itself; only float dtypes may differ from what is declared."""

    def kind(self, spec: TensorSpec) -> TensorType[Attribute]:
        return self.emitter.tensor_type(spec.dtype, spec.dims)

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
        return self.emitter.add(op(inputs, [result], properties=properties))

    def reshape(self, value: SSAValue, dims: Sequence[Size]) -> SSAValue:
        if nn.dims_of(value) == tuple(dims):
            return value
        return self.add(nn.ReshapeOp, [value], nn.tensor_type(nn.element_of(value), dims))

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
    *("border_rules", "index_rules", "number_rules", "scalar_rules"),
    *("window_rules", "sequence_rules", "composed_rules"),
)
"""The files beside this one that hold rules, too."""


_SCALARS: dict[str, Collection[str]] = {}
"""For each op the settings that only the step may know; its rule takes them as `Scalar`."""


def op_rule(*names: str, scalars: Collection[str] = ()) -> Callable[[Rule], Rule]:
    """Registers the function as the rule of the ops `names`.

    `scalars` are the settings that may name a scalar variable, a loop index or a run-time size: the
    rule finds a `lowering.graph.scalars.Scalar` there.
    """

    def register(rule: Rule) -> Rule:
        for name in names:
            _RULES[name] = rule
            _SCALARS[name] = scalars
        return rule

    return register


_rule = op_rule


def rule_of(name: str) -> Rule:
    """The rule of the op of that name."""
    return _RULES.get(name, elementwise_rule)


@cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"openinfer.lowering.graph.{module}")


def translate(
    emitter: Emitter,
    name: str,
    operands: Sequence[SSAValue],
    outputs: Sequence[tuple[str, list[Size | None]]],
    given: Settings,
) -> Sequence[SSAValue]:
    """Emits the `nn` ops of one `graph.op`; the results have the declared dtypes.

    They have the declared dimensions, but for those that are open (None), or that only the step
    can compare. Raises RuleError for a wrong use, with both sides shown.
    """
    spec = opset.find(name)
    if spec is None:
        near = opset.nearest(name)
        raise RuleError(
            "OI0214", f"there is no op {name!r}", f"did you mean {near}?" if near else None
        )
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
    declared = [
        TensorSpec(dtype, _settled(emitter, dims, have))
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
    call = Call(emitter, spec, operands, settings, declared, inferred)
    return rule_of(spec.name)(call)


def _open(dims: Sequence[Size | None]) -> tuple[Size, ...]:
    """Declared dimensions, open ones as the name `_`."""
    return tuple(Size.name("_") if dim is None else dim for dim in dims)


def _settled(emitter: Emitter, dims: Sequence[Size | None], have: TensorSpec) -> tuple[Size, ...]:
    """The declared dimensions; the inferred ones where a declaration leaves them to the step."""
    if len(dims) != have.rank:
        return tuple(Size.of(0) if d is None else d for d in dims)
    late = emitter.late
    return tuple(
        h if d is None or late.is_late(d) or late.is_late(h) else d for d, h in zip(dims, have.dims)
    )


def unified(
    emitter: VariableValues,
    name: str,
    operands: Sequence[SSAValue],
    outputs: int,
    given: Settings,
    scope: Scope,
) -> list[SSAValue]:
    """The operands with late sizes said to be equal where the op needs it; the step checks that."""
    spec = opset.find(name)
    found = list(operands)
    while spec is not None:
        specs = [TensorSpec(dtype_name(nn.element_of(v)), nn.dims_of(v)) for v in found]
        pair = _clash(emitter, spec, specs, outputs, given)
        if pair is None:
            break
        old, new = pair
        emitter.require_equal(old, new, scope)
        for i, value in enumerate(found):
            dims = nn.dims_of(value)
            replaced = [new if d == old else d for d in dims]
            if tuple(replaced) != dims:
                kind = nn.tensor_type(nn.element_of(value), replaced)
                found[i] = emitter.add(nn.CastDimsOp(value, kind))
    return found


def _clash(
    emitter: VariableValues,
    spec: OpSpec,
    specs: Sequence[TensorSpec],
    outputs: int,
    given: Settings,
) -> tuple[Size, Size] | None:
    """Two sizes, the first of them late, without whose equality the op's rule refuses its operands."""

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

    sizes = list(dict.fromkeys(d for s in specs for d in s.dims))
    late = [d for d in sizes if emitter.late.is_late(d)]
    if not late or not refused(specs):
        return None
    fallback: tuple[Size, Size] | None = None
    for old in late:
        for new in sizes:
            if new == old or new.constant == 1:
                continue
            trial = [
                TensorSpec(s.dtype, tuple(new if d == old else d for d in s.dims)) for s in specs
            ]
            if not refused(trial):
                return old, new
            if fallback is None and len(late) > 1:
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
        operands = [_widen(call, v, wide.element_type) for v in call.operands]
        return [call.elementwise(call.spec.name, operands, call.type)]
    settings = {k: v for k, v in call.settings.items() if k not in ("acc", "to")}
    # Defaults go without saying.
    for setting in call.spec.settings:
        if setting.name in settings and settings[setting.name] == setting.default:
            del settings[setting.name]
    return [call.elementwise(call.spec.name, call.operands, call.type, **settings)]


def _widen(call: Call, value: SSAValue, element: Attribute) -> SSAValue:
    kind = value.type
    assert isinstance(kind, TensorType)
    return call.convert(value, nn.with_element(kind, element))


@_rule("cast", scalars=("saturate",))
def _cast(call: Call) -> Sequence[SSAValue]:
    settings = {k: v for k, v in call.settings.items() if k in ("rounding_mode", "saturate")}
    if call.operands[0].type == call.type:
        return [call.operands[0]]
    if isinstance(settings["saturate"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import either_way

        return either_way(call, "saturate")
    return [call.elementwise("cast", call.operands, call.type, **settings)]


@_rule("reshape", "squeeze", "unsqueeze")
def _reshape(call: Call) -> Sequence[SSAValue]:
    value, target = call.operands[0], call.results[0]
    source = TensorSpec("f32", nn.dims_of(value))
    if source.count != target.count:
        # Whether the elements fill the result follows only from the numbers of a step.
        call.emitter.require(source.count, target.count)
        call.emitter.require(target.count, source.count)
        kind = nn.tensor_type(nn.element_of(value), target.dims)
        value = call.add(nn.ReshapeOp, [value], kind, checked=UnitAttr())
    return [call.convert(call.reshape(value, target.dims), call.type)]


@_rule("transpose", "permute")
def _transpose(call: Call) -> Sequence[SSAValue]:
    order = permutation(len(nn.dims_of(call.operands[0])), call.settings)
    return [call.convert(call.transpose(call.operands[0], order), call.type)]


@_rule("expand")
def _expand(call: Call) -> Sequence[SSAValue]:
    value = call.add(nn.BroadcastOp, call.operands, call.own_type)
    return [call.convert(value, call.type)]


@_rule("concat")
def _concat(call: Call) -> Sequence[SSAValue]:
    axis = nn.int_setting(_axis(call.settings["axis"], call.results[0].rank))
    return [call.convert(call.add(nn.ConcatOp, call.operands, call.own_type, axis=axis), call.type)]


@_rule("slice")
def _slice(call: Call) -> Sequence[SSAValue]:
    spec = TensorSpec("f32", nn.dims_of(call.operands[0]))
    bounds = slice_bounds(spec, call.settings)
    for extent, (low, high, _) in zip(spec.dims, bounds):
        for left, right in ((Size.of(0), low), (low, high), (high, extent)):
            call.emitter.require(left, right)
    starts, steps = [b[0] for b in bounds], [b[2] for b in bounds]
    return [call.convert(_cut(call, starts, steps, call.own_type), call.type)]


@_rule("split")
def _split(call: Call) -> Sequence[SSAValue]:
    rank = len(nn.dims_of(call.operands[0]))
    axis = _axis(call.settings["axis"], rank)
    found: list[SSAValue] = []
    start = Size.of(0)
    for part, declared in zip(call.inferred, call.results):
        starts = [start if d == axis else Size.of(0) for d in range(rank)]
        piece = _cut(call, starts, [1] * rank, call.kind(part))
        found.append(call.convert(piece, call.kind(declared)))
        start = start + part.dims[axis]
    return found


def _cut(
    call: Call, starts: Sequence[Size], steps: Sequence[int], kind: TensorType[Attribute]
) -> SSAValue:
    from openinfer.dialects.graph import SizeAttr

    return call.add(
        nn.SliceOp,
        call.operands[:1],
        kind,
        starts=ArrayAttr([SizeAttr(s) for s in starts]),
        steps=nn.ints_setting(steps),
    )


def _axis(value: object, rank: int) -> int:
    assert isinstance(value, int)
    return value % rank if rank else 0


def _axes(value: object, rank: int) -> list[int]:
    assert isinstance(value, tuple)
    found = {int(v) if isinstance(v, int) else v.evaluate({}) for v in value}
    return sorted({a % rank for a in found})


@_rule("sum_axis", "mean_axis", "prod_axis", "max_axis", "min_axis")
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
    value = _widen(call, value, element_type(accumulator))
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
    return [_accumulated(call, result)]


def _accumulated(call: Call, value: SSAValue) -> SSAValue:
    """What an accumulator holds at the end in the declared type; integers wrap."""
    if value.type == call.type:
        return value
    if isinstance(nn.element_of(value), IntegerType):
        return call.elementwise("cast", [value], call.type, saturate=False)
    return call.convert(value, call.type)


def _require_elements(call: Call, axes: Sequence[int]) -> None:
    """Nothing is the largest of nothing: such a step must not run (unless no result is asked for)."""
    dims = nn.dims_of(call.operands[0])
    others = [size for d, size in enumerate(dims) if d not in axes]
    if all(size.constant != 0 for size in others):
        for axis in axes:
            call.emitter.require(Size.of(1), dims[axis])


@_rule("argmax_axis", "argmin_axis", scalars=("select_first",))
def _position(call: Call) -> Sequence[SSAValue]:
    if isinstance(call.settings["select_first"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import either_way

        return either_way(call, "select_first")
    rank = len(nn.dims_of(call.operands[0]))
    _require_elements(call, [_axis(call.settings["axis"], rank)])
    result = call.add(
        nn.ReduceOp,
        call.operands,
        call.type,
        kind=StringAttr(call.spec.name.removesuffix("_axis")),
        axes=nn.ints_setting([_axis(call.settings["axis"], rank)]),
        keepdims=UnitAttr() if call.settings["keepdims"] else None,
        select_last=None if call.settings["select_first"] else UnitAttr(),
    )
    return [result]


@_rule("is_finite")
def _is_finite(call: Call) -> Sequence[SSAValue]:
    value = call.operands[0]
    kind = value.type
    assert isinstance(kind, TensorType)
    flags = call.elementwise("is_finite", [value], nn.with_element(kind, call.type.element_type))
    axes = nn.ints_setting(range(len(nn.dims_of(value))))
    return [call.add(nn.ReduceOp, [flags], call.type, kind=StringAttr("min"), axes=axes)]


@_rule("softmax", "log_softmax")
def _softmax(call: Call) -> Sequence[SSAValue]:
    axis = nn.int_setting(_axis(call.settings["axis"], call.results[0].rank))
    log = UnitAttr() if call.spec.name == "log_softmax" else None
    return [call.add(nn.SoftmaxOp, call.operands, call.type, axis=axis, log=log)]


@_rule("layer_norm", "rms_norm", scalars=("eps",))
def _norm(call: Call) -> Sequence[SSAValue]:
    if isinstance(call.settings["eps"], opset.NameRef):
        from openinfer.lowering.graph.scalar_rules import norm_in_parts

        return norm_in_parts(call)
    x, *rest = call.operands
    dims = nn.dims_of(x)
    axis = _axis(call.settings["axis"], len(dims))
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


@_rule("matmul")
def _matmul(call: Call) -> Sequence[SSAValue]:
    kind = call.type
    acc = call.settings["acc"]
    if isinstance(acc, tuple):
        # A product is accumulated in the type of its result.
        kind = nn.with_element(kind, element_type(str(acc[0])) or kind.element_type)
    result = call.add(
        nn.MatmulOp,
        call.operands,
        kind,
        transpose_a=UnitAttr() if call.settings["transpose_a"] else None,
        transpose_b=UnitAttr() if call.settings["transpose_b"] else None,
    )
    return [_accumulated(call, result)]


@_rule("gather")
def _gather(call: Call) -> Sequence[SSAValue]:
    rank = len(nn.dims_of(call.operands[0]))
    value = call.add(
        nn.GatherOp,
        call.operands,
        call.own_type,
        axis=nn.int_setting(_axis(call.settings["axis"], rank)),
        node=nn.int_setting(call.emitter.node),
    )
    return [call.convert(value, call.type)]


@_rule("attention", scalars=("scale", "window"))
def _attention(call: Call) -> Sequence[SSAValue]:
    from openinfer.lowering.graph.scalar_rules import known_scale

    call = known_scale(call)
    q, k, v, *rest = call.operands
    specs = [TensorSpec("f32", nn.dims_of(x)) for x in (q, k)]
    if attention_split(specs[0], specs[1]):
        return _split_attention(call)
    dims = nn.dims_of(q)
    batch = Size.of(1)
    for size in dims[:-3]:
        batch = batch * size

    def four(value: SSAValue) -> SSAValue:
        own = list(nn.dims_of(value))
        heads = own[-3] if len(own) > 2 else Size.of(1)
        return call.reshape(value, (batch, heads, *own[-2:]))

    inputs = [four(q), four(k), four(v)]
    heads = nn.dims_of(inputs[0])[1]
    if rest:
        inputs.append(_mask(call, rest[0], dims, batch, heads))
    size = nn.dims_of(v)[-1]
    kind = nn.tensor_type(call.type.element_type, (batch, heads, dims[-2], size))
    value = _attend(call, inputs, kind, ["bhld"] * 4)
    return [call.reshape(value, call.results[0].dims)]


def _mask(call: Call, mask: SSAValue, dims: tuple[Size, ...], batch: Size, heads: Size) -> SSAValue:
    """The mask with four dimensions; leading ones are joined as those of q are."""
    own = nn.dims_of(mask)
    own = (*(Size.of(1) for _ in range(max(0, 4 - len(own)))), *own)
    lead = own[:-3]
    if len(own) == 4:
        return call.reshape(mask, own)
    joined = Size.of(1)
    for size in lead:
        joined = joined * size
    if joined != batch and joined != Size.of(1):
        full = (*dims[:-3], *own[-3:])
        mask = call.add(nn.BroadcastOp, [mask], nn.tensor_type(nn.element_of(mask), full))
        joined = batch
    return call.reshape(mask, (joined, *own[-3:]))


def _attend(
    call: Call,
    inputs: Sequence[SSAValue],
    kind: TensorType[Attribute],
    layouts: Sequence[str],
) -> SSAValue:
    from openinfer.lowering.graph.scalar_rules import FARTHEST, window_operand

    scale = call.settings["scale"]
    assert isinstance(scale, float)
    window = call.settings["window"]
    masked = UnitAttr() if len(inputs) > 3 else None
    reach = window_operand(call)
    return call.add(
        nn.AttentionOp,
        [*inputs, *([] if reach is None else [reach])],
        kind,
        scale=FloatAttr(scale, f64),
        causal=UnitAttr() if call.settings["causal"] else None,
        window=nn.int_setting(min(window, FARTHEST)) if isinstance(window, int) else None,
        windowed=None if reach is None else UnitAttr(),
        masked=masked,
        layouts=ArrayAttr([StringAttr(layout) for layout in layouts]),
    )


def _split_attention(call: Call) -> Sequence[SSAValue]:
    """q `[B, D]` against k, v `[T, H, Dh]` or `[H, Dh]`: heads are cut from the last dimension."""
    q, k, v, *rest = call.operands
    rows, width = nn.dims_of(q)
    heads, size = nn.dims_of(k)[-2:]
    length = nn.dims_of(k)[0] if len(nn.dims_of(k)) == 3 else Size.of(1)
    one = Size.of(1)
    inputs = [
        call.reshape(q, (one, rows, heads, size)),
        call.reshape(k, (one, length, heads, size)),
        call.reshape(v, (one, length, heads, size)),
    ]
    kind = nn.tensor_type(call.type.element_type, (one, rows, heads, size))
    value = call.reshape(_attend(call, inputs, kind, ["blhd"] * 4), (rows, width))
    if rest:
        value = call.add(nn.MatmulOp, [value, rest[0]], call.type)
    return [value]
