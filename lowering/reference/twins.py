"""The table of NumPy twins: `evaluate` computes one op as the language defines it.

Twins are written from the language's text, independently of every lowering. They work on *value*
arrays (`runtime/dtypes.py`): bf16 and f8 values are float32 arrays, sub-byte integers int8 or
uint8. A twin may return floats wider than the result's dtype and integers that are out of its
range: `evaluate` rounds once, or wraps.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from openinfer.dialects.opset import (
    OpError,
    TensorSpec,
    find,
    infer_outputs,
    meeting_dtypes,
    resolve_settings,
)
from openinfer.lowering.program.value_arrays import check_memory, narrow, wide
from openinfer.runtime.errors import CompileError
from openinfer.runtime.storage import AnyArray

_MODULES = (
    "elementwise",
    "functions",
    "activations",
    "conversions",
    "reduce",
    "statistics",
    "structured",
    "experts",
    "einsum",
    "attention",
    "layout",
    "arrangement",
    "borders",
    "indexing",
    "element_indexing",
    "quantization",
    "random",
    "convolution",
    "pooling",
    "sampling",
    "normalise",
    "recurrent",
    "signal",
    "rotary",
)


class IndexFault(OpError):
    """An index that the data gave lies outside its bound."""


@dataclass(frozen=True)
class Call:
    """One evaluation: value arrays with their dtypes, resolved settings, result dtypes."""

    inputs: tuple[AnyArray, ...]
    dtypes: tuple[str, ...]
    settings: Mapping[str, object]
    outputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the results."""

    def wide(self, number: int = 0) -> AnyArray:
        """Operand `number`, floats narrower than f32 as f32."""
        return wide(self.inputs[number], self.dtypes[number])

    def exact(self, number: int = 0) -> AnyArray:
        """Operand `number` of a float op as float64: the twin of a function rounds only once."""
        return self.inputs[number].astype(np.float64)


Twin = Callable[[Call], AnyArray | list[AnyArray]]
_TWINS: dict[str, Twin] = {}


def twin(*names: str) -> Callable[[Twin], Twin]:
    """Registers the function as the twin of the ops `names`."""

    def register(function: Twin) -> Twin:
        for name in names:
            if name in _TWINS:
                raise CompileError("OI0901", f"two twins for op {name}")
            _TWINS[name] = function
        return function

    return register


@cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"openinfer.lowering.reference.{module}")


def twin_names() -> frozenset[str]:
    """The ops that have a twin."""
    _load()
    return frozenset(_TWINS)


def evaluate(
    name: str,
    inputs: Sequence[AnyArray],
    dtypes: Sequence[str],
    settings: Mapping[str, object] | None = None,
    out_dtypes: Sequence[str] | None = None,
    *,
    outputs: int = 1,
    declared: Sequence[TensorSpec] | None = None,
) -> list[AnyArray]:
    """The results of op `name` as value arrays of `out_dtypes` (default: the inferred dtypes).

    `declared` is what the outputs are declared as, for the ops whose shape only that says.

    Shapes, dtypes and settings are checked by the op's rule first. Raises OpError for what the rule
    refuses, IndexFault for an index that lies outside its bound, MemoryError for a result that no
    memory holds.
    """
    _load()
    spec = find(name)
    if spec is None:
        raise OpError(f"unknown op {name!r}")
    count = len(out_dtypes) if out_dtypes is not None else outputs
    specs = [TensorSpec.of(d, array.shape) for d, array in zip(dtypes, inputs)]
    inferred = infer_outputs(spec, specs, settings, count, declared)
    targets = tuple(out_dtypes) if out_dtypes is not None else tuple(s.dtype for s in inferred)
    resolved = {**resolve_settings(spec, settings or {}), "outputs": count}
    shapes = tuple(tuple(d.evaluate({}) for d in s.dims) for s in inferred)
    for shape in shapes:
        check_memory(shape)
    taken = meeting_dtypes(spec, dtypes)
    values = [a if d == t else narrow(a, t) for a, d, t in zip(inputs, dtypes, taken)]
    call = Call(tuple(values), tuple(taken), resolved, targets, shapes)
    with np.errstate(all="ignore"):
        found = _TWINS[spec.name](call)
        arrays = found if isinstance(found, list) else [found]
        results = [narrow(array, dtype) for array, dtype in zip(arrays, targets)]
    for result, shape in zip(results, shapes):
        if result.shape != shape:
            raise CompileError(
                "OI0902",
                f"the twin of {name} gives shape {list(result.shape)}, its rule {list(shape)}",
            )
    return results
