"""Simulations of a device that takes subnormal numbers of f32 for zeros, and has no other way.

One of them is one more run that says how far off a result may be: a sum, a comparison or a sign
that such a number decides is another one there.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from fuzzing.compare import SUBNORMAL
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.reference import interpreter
from openinfer.lowering.reference.twins import evaluate
from openinfer.runtime.storage import AnyArray

FLUSHED = ("f32", "bf16")
"""bf16 is computed in f32."""


@contextmanager
def flushing() -> Generator[None]:
    """Inside of it, simulators take subnormal numbers for zeros, in operands and in results."""

    def on_device(
        name: str,
        inputs: Sequence[AnyArray],
        dtypes: Sequence[str],
        settings: Mapping[str, object] | None = None,
        out_dtypes: Sequence[str] | None = None,
        *,
        outputs: int = 1,
        declared: Sequence[TensorSpec] | None = None,
    ) -> list[AnyArray]:
        given = [_flushed(a, d) for a, d in zip(inputs, dtypes)]
        found = evaluate(
            name, given, dtypes, settings, out_dtypes, outputs=outputs, declared=declared
        )
        return [_flushed(a, d) for a, d in zip(found, out_dtypes or ())] or found

    interpreter.evaluate = on_device
    try:
        yield
    finally:
        interpreter.evaluate = evaluate


def _flushed(array: AnyArray, dtype: str) -> AnyArray:
    """Zeros of the same sign for subnormal numbers."""
    if dtype not in FLUSHED:
        return array
    with np.errstate(invalid="ignore"):
        small = np.abs(array) < SUBNORMAL["f32"]
    return np.where(small, np.copysign(0, array), array).astype(array.dtype)
