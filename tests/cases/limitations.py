"""Which cases a device refuses, by the table that the documentation is made from, too."""

from __future__ import annotations

from case import Case

from openinfer.compiler import limitations
from openinfer.compiler.limitations import LIMITATIONS, Limitation
from openinfer.dialects.opset import find

__all__ = ["LIMITATIONS", "Limitation", "limitation_of"]


def limitation_of(case: Case, device: str = "cpu") -> Limitation | None:
    """The row that covers a case, or None when it must work."""
    spec = find(case.op)
    assert spec is not None
    named = (str(case.settings.get(name)) for name in ("to", "dtype", "acc"))
    used = {*case.dtypes, *named, *([case.out] if case.out is not None else [])}
    return limitations.limitation_of(spec.name, used, device)
