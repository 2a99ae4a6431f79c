"""The twin of a layer of experts."""

from __future__ import annotations

import numpy as np

from openinfer.dialects.ops.experts import shares_rows
from openinfer.lowering.reference.structured import check_indices
from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray


@twin("expert_linear")
def _expert_linear(call: Call) -> AnyArray:
    x, w, experts = call.exact(0), call.inputs[1], call.inputs[2]
    check_indices(experts, len(w), "axis 0 of w")
    if shares_rows(x.ndim, experts.ndim):
        x = np.broadcast_to(x[..., None, :], (*experts.shape, x.shape[-1]))
    result = np.zeros((*experts.shape, w.shape[1]))
    for expert in np.unique(experts):
        chosen = experts == expert
        result[chosen] = x[chosen] @ w[int(expert)].astype(np.float64).T
    return result
