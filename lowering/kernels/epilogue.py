"""What happens to a product before it is stored: the body of the op, the output's type.

The body is written for one element. Here it is cloned for a vector of neighbouring columns, once
for each accumulator, with every scalar type replaced by a vector of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr

from openinfer.dialects.extensions.arith import Arith
from openinfer.dialects.nn import ConvOp, MatmulOp, MatvecOp, RowMatmulOp, YieldOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.runtime.errors import CompileError
from openinfer.runtime.quick_dataclass import dataclass

_EXTENDED = {op.name: op for op in Arith.operations}

# LLVM instructions that a function of `math` becomes; all other ops count one.
_WEIGHTS = {
    "math.erf": 40,
    "math.erfc": 25,
    "math.exp": 20,
    "math.exp2": 16,
    "math.expm1": 30,
    "math.log": 25,
    "math.log1p": 40,
    "math.powf": 50,
    "math.tanh": 30,
    "math.sin": 30,
    "math.cos": 30,
    "math.tan": 65,
    "math.atan": 30,
    "math.atan2": 45,
    "arith.divf": 4,
    "math.sqrt": 4,
    "math.rsqrt": 6,
}


def weight_of(op: Operation) -> int:
    """About how many instructions an op of a body takes."""
    return _WEIGHTS.get(op.name, 1)


@dataclass(frozen=True)
class Extra:
    """An operand of the body; each axis follows a dimension of the result or stands still."""

    buffer: SSAValue
    axes: tuple[tuple[str, int], ...]
    """("dim", d) or ("at", i) for each axis."""

    def follows(self, dim: int) -> bool:
        return ("dim", dim) in self.axes

    def is_identity(self, rank: int) -> bool:
        return self.axes == tuple(("dim", d) for d in range(rank))

    def renumbered(self, dims: dict[int, int], buffer: SSAValue) -> Extra:
        """The same operand seen through `buffer`, after the result's dimensions were renumbered."""
        axes = [(kind, dims[n] if kind == "dim" else n) for kind, n in self.axes]
        if self.is_identity(max(dims) + 1):
            axes = [("dim", d) for d in sorted(set(dims.values()))]
        return Extra(buffer, tuple(axes))


def extras_of(op: MatmulOp | MatvecOp | RowMatmulOp | ConvOp) -> list[Extra]:
    """The extra operands of the epilogue. Raises CompileError OI0951 for a map with arithmetic."""
    extras: list[Extra] = []
    for buffer, attribute in zip(op.extras, op.maps or (), strict=True):
        assert isinstance(attribute, AffineMapAttr)
        axes: list[tuple[str, int]] = []
        for expression in attribute.data.results:
            if isinstance(expression, AffineDimExpr):
                axes.append(("dim", expression.position))
            elif isinstance(expression, AffineConstantExpr):
                axes.append(("at", expression.value))
            else:
                raise CompileError(
                    "OI0951",
                    f"{op.name}: the map {attribute.data} of an epilogue operand does arithmetic",
                    hint="copy the operand into the result's shape first",
                )
        if len({n for kind, n in axes if kind == "dim"}) != sum(k == "dim" for k, _ in axes):
            raise CompileError("OI0951", f"{op.name}: the map {attribute.data} repeats a dimension")
        extras.append(Extra(buffer, tuple(axes)))
    return extras


@dataclass(frozen=True)
class Place:
    """Where a vector of the result lies: the index of its first element, and which lanes exist."""

    indices: tuple[Index, ...]
    lanes: int | None
    """None for a single element."""
    mask: SSAValue | None = None
    last: Index | None = None
    """The index of the last column, where some lanes are beyond it."""


@dataclass
class Epilogue:
    """Turns accumulated elements into stored ones."""

    build: LoopBuilder
    output: SSAValue
    extras: list[Extra]
    body: Block | None
    _constants: dict[tuple[SSAValue, int | None], SSAValue] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        assert isinstance(self.output.type, MemRefType)
        return self.output.type.get_num_dims()

    @property
    def weight(self) -> int:
        """About how many instructions one vector takes."""
        if self.body is None:
            return 1
        return sum(map(weight_of, self.body.ops))

    def prepare(self, lanes: int | None) -> None:
        """Places the constants for vectors of `lanes` (None: scalars) here, outside all loops."""
        if self.body is None:
            return
        for op in self.body.ops:
            if isinstance(op, arith.ConstantOp):
                self._constants[op.result, lanes] = self._constant(op, lanes)

    def _constant(self, op: arith.ConstantOp, lanes: int | None) -> SSAValue:
        kind = _vector(op.result.type, lanes)
        value = op.value
        if isinstance(kind, VectorType) and isinstance(value, FloatAttr | IntegerAttr):
            data = DenseIntOrFPElementsAttr.from_list(kind, [value.value.data])
            return self.build.insert(arith.ConstantOp(data, kind))
        return self.build.insert(arith.ConstantOp(value, kind))

    def hoisted(self, place: Place, moving: Sequence[int] | None = None) -> list[SSAValue | None]:
        """The extra operands that are the same in every row, loaded for one vector of columns.

        With `moving`: those that are the same for all indices of these dimensions.
        """
        dims = (self.rank - 2,) if moving is None else moving
        return [
            None if any(e.follows(d) for d in dims) else self._load(e, place) for e in self.extras
        ]

    def store(
        self,
        value: SSAValue,
        place: Place,
        hoisted: Sequence[SSAValue | None] | None = None,
        beside: Sequence[SSAValue] = (),
    ) -> None:
        """Finishes one vector of sums and stores it; `beside`: further sums that the body takes."""
        build = self.build
        value = self.finish(value, place, hoisted, beside)
        if place.lanes is None:
            build.store(value, self.output, place.indices)
        else:
            build.vstore(value, self.output, place.indices, place.mask)

    def finish(
        self,
        value: SSAValue,
        place: Place,
        hoisted: Sequence[SSAValue | None] | None = None,
        beside: Sequence[SSAValue] = (),
    ) -> SSAValue:
        """What becomes of one vector of sums, as it is stored."""
        return self.finish_all([value, *beside], place, hoisted)[0]

    def finish_all(
        self,
        values: Sequence[SSAValue],
        place: Place,
        hoisted: Sequence[SSAValue | None] | None = None,
    ) -> list[SSAValue]:
        """All that becomes of some vectors of sums, which the body takes together."""
        build = self.build
        assert isinstance(self.output.type, MemRefType)
        if self.body is not None:
            known = hoisted or [None] * len(self.extras)
            extras = [
                self._load(extra, place) if there is None else there
                for extra, there in zip(self.extras, known)
            ]
            values = self._run(self.body, [*values, *extras], place.lanes)
        stored = self.output.type.element_type
        return [convert(build, value, stored) for value in values]

    def _load(self, extra: Extra, place: Place) -> SSAValue:
        build = self.build
        indices = [place.indices[n] if kind == "dim" else n for kind, n in extra.axes]
        lanes, column = place.lanes, self.rank - 1
        if lanes is None:
            return build.load(extra.buffer, indices)
        if not extra.follows(column):
            return build.splat(build.load(extra.buffer, indices), lanes)
        if extra.axes[-1] == ("dim", column):
            return build.vload(extra.buffer, indices, lanes, place.mask)
        # The columns of the result are not neighbours here.
        axis = extra.axes.index(("dim", column))
        values: list[SSAValue] = []
        for lane in range(lanes):
            there = build.plus(place.indices[column], lane)
            indices[axis] = there if place.last is None else build.minimum(there, place.last)
            values.append(build.load(extra.buffer, indices))
        return build.from_elements(values)

    def _run(self, body: Block, arguments: Sequence[SSAValue], lanes: int | None) -> list[SSAValue]:
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, arguments, strict=True))

        def value_of(old: SSAValue) -> SSAValue:
            if old in values:
                return values[old]
            constant = self._constants.get((old, lanes))
            if constant is not None:
                return constant
            # From outside the body: the same for every element.
            return old if lanes is None else self.build.splat(old, lanes)

        for op in body.ops:
            if isinstance(op, arith.ConstantOp):
                continue
            operands = [value_of(operand) for operand in op.operands]
            if isinstance(op, YieldOp):
                return operands
            values.update(zip(op.results, self._clone(op, operands, lanes), strict=True))
        raise CompileError("OI0952", "nn.matmul: the body does not end with nn.yield")

    def _clone(
        self, op: Operation, operands: Sequence[SSAValue], lanes: int | None
    ) -> Sequence[SSAValue]:
        made = _EXTENDED.get(op.name, type(op)).create(
            operands=operands,
            result_types=[_vector(result.type, lanes) for result in op.results],
            properties=dict(op.properties),
            attributes=dict(op.attributes),
            location=op.location,
        )
        self.build.do(made)
        return made.results


def _vector(kind: Attribute, lanes: int | None) -> Attribute:
    return kind if lanes is None else VectorType(kind, [lanes])
