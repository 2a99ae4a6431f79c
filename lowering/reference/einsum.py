"""The twin of einsum."""

from __future__ import annotations

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import AnyArray


@twin("einsum")
def _einsum(call: Call) -> AnyArray:
    kind = DTYPES[call.dtypes[0]]
    wide = "float64" if kind.is_float else "int64" if kind.kind == "int" else "uint64"
    operands = [array.astype(wide) for array in call.inputs]
    return np.asarray(np.einsum(str(call.settings["equation"]), *operands, optimize=True))
