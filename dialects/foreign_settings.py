"""What settings of PyTorch, NumPy and ONNX are called here; the same for all ops that have them."""

from __future__ import annotations

from openinfer.dialects.foreign_ops import fold
from openinfer.dialects.ops.base import OpSpec

NAMES: dict[str, tuple[str, ...]] = {
    "dim": ("axes", "axis", "perm"),
    "dims": ("axes", "perm", "axis"),
    "axis": ("axes",),
    "axes": ("axis", "perm"),
    "keepdimensions": ("keepdims",),
    "varianceepsilon": ("eps",),
    "type": ("to", "dtype"),
    "target": ("to",),
    "outputdtype": ("dtype", "to"),
    "amin": ("min", "clamp_min"),
    "amax": ("max", "clamp_max"),
    "minval": ("min", "low"),
    "maxval": ("max", "high"),
    "min": ("clamp_min", "low"),
    "max": ("clamp_max", "high"),
    "slope": ("negative_slope",),
    "kernelshape": ("kernel_size",),
    "ksize": ("kernel_size",),
    "poolsize": ("kernel_size",),
    "autopad": ("padding",),
    "padwidth": ("pads",),
    "pad": ("pads", "padding"),
    "padding": ("pads",),
    "constantvalue": ("value",),
    "constantvalues": ("value",),
    "fillvalue": ("value",),
    "val": ("value",),
    "group": ("groups",),
    "numgroups": ("groups",),
    "transa": ("transpose_a",),
    "transb": ("transpose_b",),
    "adja": ("transpose_a",),
    "adjb": ("transpose_b",),
    "iscausal": ("causal",),
    "unidirectional": ("causal",),
    "slidingwindow": ("window",),
    "logitcap": ("softcap",),
    "attnlogitsoftcapping": ("softcap",),
    "softmaxscale": ("scale",),
    "scalefactor": ("scale",),
    "scales": ("scale",),
    "newshape": ("shape",),
    "size": ("shape", "sizes"),
    "sizes": ("shape", "size"),
    "splitsize": ("sizes",),
    "splitsizes": ("sizes",),
    "begin": ("start",),
    "length": ("stop",),
    "stepsize": ("step",),
    "numclasses": ("depth",),
    "ropetheta": ("base",),
    "rotarydim": ("dims",),
    "interpolation": ("mode",),
    "reduce": ("mode",),
    "qtype": ("dtype",),
    "zeropt": ("zero_point",),
    "shift": ("bits",),
    "numheads": ("heads",),
    "nhead": ("heads",),
    "qnumheads": ("heads",),
    "numkvheads": ("kv_heads",),
    "kvnumheads": ("kv_heads",),
}
"""Folded foreign names; that setting is meant which the op has, the first one of several."""

_LEAVE_OUT = "leave it out"
ADVICE: dict[str, str] = {
    "inplace": f"{_LEAVE_OUT}: name the operand as the output to write over it",
    "out": f"{_LEAVE_OUT}: the output stands behind `>>`",
    "training": f"{_LEAVE_OUT}: nothing is trained here",
    "trainingmode": f"{_LEAVE_OUT}: nothing is trained here",
    "momentum": f"{_LEAVE_OUT}: mean and variance are operands",
    "device": f"{_LEAVE_OUT}: the device is chosen when the program is compiled",
    "attnmask": "the mask is an operand: `op attention(q, k, v, mask) >> y;`",
    "mask": "the mask is an operand: `op attention(q, k, v, mask) >> y;`",
    "normalizedshape": "`axis` is the first axis that is normalised",
    "chunks": "the number of outputs says it: `op split(x, axis=0) >> a, b;`",
    "sections": "the number of outputs says it: `op split(x, axis=0) >> a, b;`",
    "weight": "the weight is an operand, behind the first ones",
    "bias": "the bias is an operand, the last one",
}


def foreign_setting(name: str, spec: OpSpec) -> str | None:
    """What a setting that an op lacks is called here, as the start of a fix; None if unknown."""
    folded = fold(name)
    for ours in NAMES.get(folded, ()):
        row = spec.setting(ours)
        if row is not None and row.name != name:
            return f"it is `{row.name}` here"
    return ADVICE.get(folded)
