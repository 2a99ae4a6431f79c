"""Softmax: three walks over each line.

Before:
    nn.softmax(%x) outs(%y) {axis = 1 : i64} : (memref<?x64xf32>, memref<?x64xf32>) -> ()

After:
    scf.for %i = %c0 to %rows step %c1 {
      %m = vector.reduction <maxnumf>, %maxima : vector<16xf32> into f32
      scf.for %k = … { %e = math.exp %shifted : vector<16xf32>; vector.store %e, %y[%i, %k] }
      scf.for %k = … { vector.store %scaled, %y[%i, %k] : memref<?x64xf32>, vector<16xf32> }
    } {openinfer.parallel}

Requires: bufferised; contiguous operands of one float type.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.math import ExpOp, LogOp
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import SoftmaxOp, element_of
from openinfer.lowering.cpu.vector_width import lanes_of
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.lines import Line, over_lines
from openinfer.lowering.kernels.numeric import INF, greater, reduction, wide_type
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import AxisView, view_around


def _lower(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, SoftmaxOp)
    axis = op.axis.value.data
    source, target = view_around(b, op.inputs[0], axis), view_around(b, op.output, axis)
    computed = wide_type(element_of(op.inputs[0]))
    # What is kept between two walks must not be rounded on the way.
    keeps = element_of(op.output) == computed
    lanes = lanes_of(op, computed)

    def one(line: Line) -> None:
        if op.log is not None:
            _log_softmax(line, source, target)
        else:
            _softmax(line, source, target, keeps)

    over_lines(b, source, lanes, computed, one)
    return True


def _maximum(line: Line, source: AxisView) -> SSAValue:
    """The largest element in all lanes. NaN may be passed over: the sum will be NaN by it."""
    b = line.b

    def larger(x: SSAValue, y: SSAValue) -> SSAValue:
        return greater(b, x, y)

    (largest,) = line.reduce(
        (-INF,), lambda k, mask, old: [larger(line.load(source, k, mask), old[0])], (larger,)
    )
    return b.splat(reduction(b, "maxnumf", largest), line.lanes) if line.along else largest


def _exponential(
    line: Line, source: AxisView, k: SSAValue, mask: SSAValue | None, largest: SSAValue
) -> SSAValue:
    shifted = line.b.insert(arith.SubfOp(line.load(source, k, mask), largest))
    return line.b.insert(ExpOp(shifted))


def _sum(line: Line, source: AxisView, largest: SSAValue, kept_in: AxisView | None) -> SSAValue:
    """The sum of exp(x - max): a scalar along the line, a vector across."""
    b = line.b

    def add(x: SSAValue, y: SSAValue) -> SSAValue:
        return b.insert(arith.AddfOp(x, y))

    def step(k: SSAValue, mask: SSAValue | None, old: tuple[SSAValue, ...]) -> list[SSAValue]:
        power = _exponential(line, source, k, mask, largest)
        if kept_in is not None:
            line.store(power, kept_in, k, mask)
        return [add(old[0], power)]

    (total,) = line.reduce((0.0,), lambda k, mask, old: step(k, mask, tuple(old)), (add,))
    return reduction(b, "add", total) if line.along else total


def _softmax(line: Line, source: AxisView, target: AxisView, keeps: bool) -> None:
    b = line.b
    largest = _maximum(line, source)
    total = _sum(line, source, largest, target if keeps else None)
    strict = b.facts.strict_math
    scale = total if strict else b.insert(arith.DivfOp(b.constant(1.0, total.type), total))
    scales = b.splat(scale, line.lanes) if line.along else scale
    apply = arith.DivfOp if strict else arith.MulfOp

    def scaled(k: SSAValue, mask: SSAValue | None) -> None:
        if keeps:
            power = line.load(target, k, mask)
        else:
            power = _exponential(line, source, k, mask, largest)
        line.store(b.insert(apply(power, scales)), target, k, mask)

    line.each(scaled)


def _log_softmax(line: Line, source: AxisView, target: AxisView) -> None:
    b = line.b
    largest = _maximum(line, source)
    logarithm = b.insert(LogOp(_sum(line, source, largest, None)))
    logarithms = b.splat(logarithm, line.lanes) if line.along else logarithm

    def shifted(k: SSAValue, mask: SSAValue | None) -> None:
        value = b.insert(arith.SubfOp(line.load(source, k, mask), largest))
        line.store(b.insert(arith.SubfOp(value, logarithms)), target, k, mask)

    line.each(shifted)


RULES: dict[str, Rule] = {SoftmaxOp.name: _lower}
