"""How an update joins the element that is there, for scatters of every machine."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import is_float

_Join = Callable[[SSAValue, SSAValue], Operation]
_FLOATS: dict[str, _Join] = {
    "add": arith.AddfOp,
    "mul": arith.MulfOp,
    "min": arith.MinnumfOp,
    "max": arith.MaxnumfOp,
}
_SIGNED: dict[str, _Join] = {
    "add": arith.AddiOp,
    "mul": arith.MuliOp,
    "min": arith.MinSIOp,
    "max": arith.MaxSIOp,
}
_UNSIGNED: dict[str, _Join] = {**_SIGNED, "min": arith.MinUIOp, "max": arith.MaxUIOp}


def joined(
    b: LoopBuilder, mode: str, old: SSAValue, update: SSAValue, *, unsigned: bool
) -> SSAValue:
    """The old value joined with an update, scalars or vectors; `unsigned`: integers have no sign.

    Modes are "add", "mul", "min" and "max"; a NaN is ignored by the last two where the other is a number.
    """
    table = _FLOATS if is_float(old) else _UNSIGNED if unsigned else _SIGNED
    return b.insert(table[mode](old, update))
