"""The columns of the case table that nobody wrote: every op in every dtype that its row allows.

A row of an op is repeated in each dtype that no row of it has, if the op's rule takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from case import Case, dtype_of

from openinfer.dialects.opset import OpError, OpSpec, TensorSpec, find, infer_outputs, names
from openinfer.runtime.dtypes import DTYPES


def rows(written: Sequence[Case]) -> Iterator[Case]:
    """What is missing beside the rows that are written."""
    for name in names():
        spec = find(name)
        assert spec is not None
        own = [case for case in written if find(case.op) is spec]
        present = {dtype_of(case) for case in own}
        for dtype in spec.dtypes:
            if dtype not in present:
                yield from _column(spec, dtype, own)


def _column(spec: OpSpec, dtype: str, own: Sequence[Case]) -> Iterator[Case]:
    """The row of the nearest kind of dtype that the op takes in this one."""
    plain = [case for case in own if not (case.out or case.runtime or case.names)]
    for case in sorted(plain, key=lambda case: _kind(dtype_of(case)) != _kind(dtype)):
        made = _in_dtype(case, dtype)
        operands = [TensorSpec.of(d, shape) for d, shape in zip(made.dtypes, made.shapes)]
        try:
            infer_outputs(spec, operands, made.settings, made.outputs)
        except OpError:
            continue
        yield made
        return


def _kind(dtype: str | None) -> bool:
    return dtype is not None and DTYPES[dtype].is_float


def _in_dtype(case: Case, dtype: str) -> Case:
    if not case.dtypes:
        name = next((n for n in ("dtype", "to") if n in case.settings), "dtype")
        settings = {**case.settings, name: dtype}
        return replace(case, settings=settings, note=dtype, column=True)
    dtypes = tuple(dtype if d == case.dtypes[0] else d for d in case.dtypes)
    return replace(case, dtypes=dtypes, column=True)
