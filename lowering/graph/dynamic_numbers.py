"""Numbers of settings that only the step knows: checked before anything is made of them.

A stride, padding, dilation or kernel size that names a scalar variable, a loop index or a size of the
inputs becomes a dynamic size. The step checks all that the simulator refuses, and only then gives values
to the sizes of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn, opset
from openinfer.dialects.nn.elements import dtype_name
from openinfer.dialects.ops.adaptive_pooling import ADAPTIVE_AXES
from openinfer.dialects.ops.base import normal_axis
from openinfer.dialects.opset import NameRef, OpSpec, TensorSpec
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
    from openinfer.lowering.graph.scope import Scope
    from openinfer.lowering.graph.step import Step

WINDOWS: Final = {
    "stride": 1, "dilation": 1, "kernel_size": 1, "padding": 0, "output_padding": 0,
}  # fmt: skip
"""The settings of windows that may be dynamic, and the smallest number that each may be."""
LEAST: Final = {
    "topk": {"k": 0}, "one_hot": {"depth": 1}, "upsample2d": {"size": 1}, "pad": {"pads": 0},
    "rfft": {"n": 1}, "irfft": {"n": 1}, "split": {"sizes": 0},
    "multinomial": {"samples": 0},
    **{name: {"output_size": 1} for name in ADAPTIVE_AXES},
    "tile": {"repeats": 0},
}  # fmt: skip
"""The same for settings that are sizes of a result, or are added to one."""
_KINDS: Final = {1: "not-positive", 0: "below-zero"}
"""The failures of a step where a number is too small."""
LARGEST_WINDOW: Final = 1 << 40
"""Numbers of windows beyond it are taken for it: they select what it selects, and no memory holds a
padding of so many."""
_NAME: Final = "window"
"""What dynamic numbers of windows are called; no name of a program has the dot that follows."""


def dynamic_numbers(
    step: Step,
    op: str,
    operands: Sequence[SSAValue],
    settings: Mapping[str, object],
    scope: Scope,
) -> dict[str, object]:
    """The settings with a dynamic size for each number of a window that names something.

    The step fails with OI0602 where one is too small, before a size of this value is there. Names
    that have one value in every step are numbers.
    """
    spec = opset.find(op)
    if spec is None or not _smallest(spec):
        return dict(settings)
    given = {key: value for key, value in settings.items() if _least(spec, key) is not None}
    sizes = {size: step.values.folded(size, scope) for size in _sizes([*given.values()])}
    specs = [TensorSpec(dtype_name(nn.element_of(v)), nn.dims_of(v)) for v in operands]
    if not _fits(spec, specs, {**settings, **_replaced(given, sizes)}):
        # That the step fails, if it comes here, is for the step to say.
        sizes = {size: size.substitute(step.facts.static) for size in sizes}
    numbers: dict[tuple[Size, int], SSAValue] = {}
    for key, value in given.items():
        for size in _sizes([value]):
            if sizes[size].constant is None:
                numbers[size, _least(spec, key) or 0] = step.values.index(sizes[size], scope)
    for (_, least), number in numbers.items():
        bound = step.builder.constant(least)
        step.builder.require(number, "sge", bound, _KINDS[least])
    if spec.name == "topk":
        _require_extent(step, specs[0], settings, numbers, scope)
    if spec.name in LEAST:
        return dict(settings)
    for (size, _), number in numbers.items():
        named = [step.variables.value_of(n, scope) for n in sorted(_variables(step, size, scope))]
        indices = [scope.indices[n].value for n in sorted(size.names & scope.indices.keys())]
        key = (_NAME, size, *named, *indices)
        cut = step.builder.add(arith.MinSIOp(number, step.builder.constant(LARGEST_WINDOW)))
        sizes[size] = step.sizes.define(_NAME, cut, scope, key)
    return {**settings, **_replaced(given, sizes)}


def _require_extent(
    step: Step,
    x: TensorSpec,
    settings: Mapping[str, object],
    numbers: Mapping[tuple[Size, int], SSAValue],
    scope: Scope,
) -> None:
    """No more elements are asked of an axis than it has."""
    axis = normal_axis(settings.get("axis", settings.get("dim", -1)), x.rank)
    for number in numbers.values():
        extent = step.values.index(x.dims[axis], scope)
        step.builder.require(number, "sle", extent, "bound")


def with_rest(
    step: Step, op: str, operands: Sequence[SSAValue], settings: Mapping[str, object]
) -> dict[str, object]:
    """The settings of a `split` with the last size written as what the others leave.

    That it is that follows from how the program writes them, which dynamic sizes do not show.
    """
    parts = settings.get("sizes")
    spec = opset.find(op)
    if spec is None or spec.name != "split" or not isinstance(parts, tuple):
        return dict(settings)
    sizes = list(_sizes(parts))
    if not any(step.sizes.is_dynamic(size) for size in sizes):
        return dict(settings)
    dims = nn.dims_of(operands[0])
    rest = dims[normal_axis(settings.get("axis", settings.get("dim", 0)), len(dims))]
    for part in parts[:-1]:
        rest = rest - (part if isinstance(part, Size) else int(str(part)))
    return {**settings, "sizes": (*parts[:-1], rest)}


def _variables(step: Step, size: Size, scope: Scope) -> set[str]:
    """The variables that a size names."""
    return {
        name
        for name in size.names - scope.indices.keys() - step.sizes.known
        if name in step.facts.variables and name not in step.facts.static
    }


def _replaced(settings: Mapping[str, object], sizes: Mapping[Size, Size]) -> dict[str, object]:
    """The settings with other sizes in place of theirs."""

    def replaced(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(replaced(item) for item in value)
        if not isinstance(value, Size | NameRef):
            return value
        size = sizes[_size(value)]
        return size if size.constant is None else size.constant

    return {name: replaced(value) for name, value in settings.items()}


def _fits(spec: OpSpec, operands: Sequence[TensorSpec], settings: Mapping[str, object]) -> bool:
    """Whether the op's rule takes the settings, as far as they are known."""
    try:
        opset.infer_outputs(spec, operands, settings)
    except opset.OpError:
        return False
    return True


def _least(spec: OpSpec, name: str) -> int | None:
    """The smallest number of a setting that may be dynamic, None for any other setting."""
    setting = spec.setting(name)
    return None if setting is None else _smallest(spec).get(setting.name)


def _smallest(spec: OpSpec) -> dict[str, int]:
    """The smallest number of each setting of an op that may be dynamic."""
    if spec.name in LEAST:
        return LEAST[spec.name]
    return WINDOWS if spec.family in ("convolution", "pooling") else {}


def _size(value: Size | NameRef) -> Size:
    return Size.name(value.name) if isinstance(value, NameRef) else value


def are_dynamic(sizes: DynamicSizes, settings: Mapping[str, object]) -> bool:
    """Whether a number of a window is known to the step only."""
    given = [settings[name] for name in WINDOWS if name in settings]
    return any(sizes.is_dynamic(size) for size in _sizes(given))


def _sizes(values: Sequence[object]) -> Iterator[Size]:
    for value in values:
        if isinstance(value, tuple):
            yield from _sizes(value)
        elif isinstance(value, Size | NameRef):
            yield _size(value)


def dynamic_results(step: Step, results: Sequence[TensorSpec], scope: Scope) -> list[TensorSpec]:
    """The results with a dynamic size of its own for each dimension that such numbers are part of.

    So those numbers themselves, which may be large, are no bound of any buffer.
    """

    def settled(dim: Size) -> Size:
        if not any(name.startswith(f"{_NAME}.") for name in dim.names):
            return dim
        number = step.values.index(dim, scope)
        return step.sizes.define("windows", number, scope, ("windows", dim))

    return [TensorSpec(result.dtype, tuple(map(settled, result.dims))) for result in results]
