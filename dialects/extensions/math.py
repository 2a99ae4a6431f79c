"""`math` with the complementary error function, which MLIR has and xDSL lacks."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.math import FloatingPointLikeUnaryMathOperation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure, SameOperandsAndResultType

from openinfer.dialects.extensions.extend import extended_dialect


@irdl_op_definition
class ErfcOp(FloatingPointLikeUnaryMathOperation):
    """1 - erf(x), without the cancellation where erf comes near 1. A float or a vector of floats."""

    name = "math.erfc"

    traits = traits_def(Pure(), SameOperandsAndResultType())


Math = extended_dialect(math.Math, (ErfcOp,))
