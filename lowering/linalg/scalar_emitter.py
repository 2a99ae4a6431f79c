"""What the scalar bodies are written with: settings, dtypes and small steps that insert ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    f32,
    f64,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue

from openinfer.dialects.extensions import arith as extended
from openinfer.dialects.extensions.math import ErfcOp
from openinfer.dialects.nn import elements
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.numeric import (
    compare_floats,
    compare_integers,
    element_type,
    is_float,
    like,
    resize_float,
    select,
    wide_type,
)
from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.quick_dataclass import dataclass

MEMORY: dict[str, Attribute] = {
    name: elements.memory_type(elements.element_type(name)) for name in DTYPES
}
"""The element types of buffers."""


def memory_type(dtype: str) -> Attribute:
    """The element type of buffers of a dtype. Raises UnsupportedError OI0711."""
    if dtype not in MEMORY:
        raise unsupported("a kernel", dtype)
    return MEMORY[dtype]


def unsupported(kind: str, dtype: str) -> UnsupportedError:
    return UnsupportedError(
        "OI0711", f"{kind} has no code for dtype {dtype}", hint="use `op cast` around it"
    )


def _python(value: object) -> object:
    """A setting as a Python value; attributes are unwrapped."""
    if isinstance(value, IntegerAttr):
        return value.value.data
    if isinstance(value, FloatAttr):
        return value.value.data
    if isinstance(value, StringAttr):
        return value.data
    return None if isinstance(value, NoneAttr) else value


@dataclass
class Scalar:
    """The emission of one body: its settings and dtypes, and the steps that many bodies share."""

    b: LoopBuilder
    kind: str
    settings: Mapping[str, object]
    sources: list[DType]
    target: DType

    # Settings

    def setting(self, name: str, default: object = None) -> object:
        value = _python(self.settings.get(name))
        return default if value is None else value

    def number(self, name: str) -> float | int | None:
        value = self.setting(name)
        assert value is None or isinstance(value, int | float), value
        return value

    # Types

    @property
    def dtype(self) -> DType:
        """The dtype of the first operand, which decides the arithmetic."""
        return self.sources[0]

    @property
    def signed(self) -> bool:
        return self.dtype.kind in ("int", "ternary")

    def no_code(self) -> UnsupportedError:
        return unsupported(self.kind, self.dtype.name)

    def require_float(self) -> None:
        if not self.dtype.is_float:
            raise self.no_code()

    def require_integer(self) -> None:
        if not self.dtype.is_integer:
            raise self.no_code()

    def computed(self, args: Sequence[SSAValue]) -> list[SSAValue]:
        """Operands in the type of the computation: f32 or f64, bytes for packed integers, or the
        integer of the result when that is wider (`acc`)."""
        if self.dtype.is_float:
            kinds = [wide_type(element_type(a)) for a in args]
            wide = f64 if f64 in kinds else f32
            return [resize_float(self.b, a, wide) for a in args]
        args = [self.unpacked(a) for a in args]
        bits = self.target.bits
        if self.target.kind == self.dtype.kind and bits > max(8, self.dtype.bits):
            return [resize_integer(self.b, a, bits, self.signed) for a in args]
        return args

    def unpacked(self, x: SSAValue) -> SSAValue:
        """A packed operand as an i8 of the same value; others as they are."""
        if not self.dtype.packed:
            return x
        wide = resize_integer(self.b, x, 8, self.signed and self.dtype.name != "t1")
        if self.dtype.name != "t1":
            return wide
        # The bit 0 stands for -1, the bit 1 for 1.
        doubled = self.f("addi", wide, wide)
        return self.f("subi", doubled, self.constant(1, doubled))

    def stored(self, value: SSAValue) -> SSAValue:
        """A result in its memory type; integers wrap to the width of a packed one."""
        element = MEMORY[self.target.name]
        source = element_type(value)
        if source == element:
            return value
        if source == i1 and self.target.kind == "bool":
            return self.b.insert(extended.ExtUIOp(value, like(value, element)))
        if is_float(value) and self.target.is_float:
            return resize_float(self.b, value, element)
        if self.target.packed and isinstance(source, IntegerType) and source.bitwidth > 1:
            if self.target.name == "t1":
                return compare_integers(self.b, "sgt", value, self.constant(0, value))
            return resize_integer(self.b, value, self.target.bits, signed=True)
        raise UnsupportedError(
            "OI0711", f"{self.kind} of {self.dtype.name} cannot give {self.target.name}"
        )

    # Values

    def constant(self, value: float | int, model: SSAValue) -> SSAValue:
        """A constant like `model`; integers are brought into its range."""
        element = element_type(model)
        if isinstance(element, IntegerType):
            value = wrapped(int(value), element.bitwidth)
        return self.b.constant(value, model.type)

    def limit(self, name: str, model: SSAValue) -> SSAValue | None:
        """A setting as a constant that lies within the range of the operands; None when absent."""
        value = self.number(name)
        if value is None:
            return None
        if self.dtype.is_float:
            return self.b.constant(float(value), model.type)
        low, high = range_of(self.dtype)
        return self.constant(int(max(low, min(high, value))), model)

    def f(self, name: str, *operands: SSAValue) -> SSAValue:
        return self.b.insert(OPS[name](*operands))

    def select(self, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        return select(self.b, condition, x, y)

    def compare(self, relation: str, x: SSAValue, y: SSAValue) -> SSAValue:
        """`eq ne lt le gt ge` by dtype; every float relation but ne is false for NaN."""
        if is_float(x):
            return compare_floats(self.b, "une" if relation == "ne" else f"o{relation}", x, y)
        if relation in ("eq", "ne"):
            return compare_integers(self.b, relation, x, y)
        return compare_integers(self.b, f"{'s' if self.signed else 'u'}{relation}", x, y)

    def is_zero(self, x: SSAValue) -> SSAValue:
        return self.compare("eq", x, self.constant(0, x))

    def holds(self, condition: SSAValue) -> SSAValue:
        """condition ≠ 0, of any type; NaN holds."""
        zero = self.b.constant(0, condition.type)
        if is_float(condition):
            return compare_floats(self.b, "une", condition, zero)
        return compare_integers(self.b, "ne", condition, zero)


Body = Callable[[Scalar, list[SSAValue]], SSAValue]
OPS: dict[str, Callable[..., Operation]] = {
    "addf": arith.AddfOp,
    "addi": arith.AddiOp,
    "andi": arith.AndIOp,
    "atan": math_dialect.AtanOp,
    "atan2": math_dialect.Atan2Op,
    "ceil": math_dialect.CeilOp,
    "cos": math_dialect.CosOp,
    "divf": arith.DivfOp,
    "divsi": arith.DivSIOp,
    "divui": arith.DivUIOp,
    "erf": math_dialect.ErfOp,
    "erfc": ErfcOp,
    "exp": math_dialect.ExpOp,
    "expm1": math_dialect.ExpM1Op,
    "floor": math_dialect.FloorOp,
    "log": math_dialect.LogOp,
    "log1p": math_dialect.Log1pOp,
    "maxnumf": arith.MaxnumfOp,
    "maxsi": arith.MaxSIOp,
    "maxui": arith.MaxUIOp,
    "minnumf": arith.MinnumfOp,
    "minsi": arith.MinSIOp,
    "minui": arith.MinUIOp,
    "mulf": arith.MulfOp,
    "muli": arith.MuliOp,
    "negf": arith.NegfOp,
    "ori": arith.OrIOp,
    "powf": math_dialect.PowFOp,
    "remf": extended.RemFOp,
    "remsi": arith.RemSIOp,
    "remui": arith.RemUIOp,
    "round": math_dialect.RoundOp,
    "roundeven": math_dialect.RoundEvenOp,
    "shli": arith.ShLIOp,
    "shrsi": arith.ShRSIOp,
    "shrui": arith.ShRUIOp,
    "sin": math_dialect.SinOp,
    "sqrt": math_dialect.SqrtOp,
    "subf": arith.SubfOp,
    "subi": arith.SubiOp,
    "tan": math_dialect.TanOp,
    "tanh": math_dialect.TanhOp,
    "trunc": math_dialect.TruncOp,
    "xori": arith.XOrIOp,
}


def registrar(table: dict[str, Body]) -> Callable[..., Callable[[Body], Body]]:
    """A decorator `@body("kind", …)` that enters a body into a table."""

    def body(*kinds: str) -> Callable[[Body], Body]:
        def register(function: Body) -> Body:
            table.update(dict.fromkeys(kinds, function))
            return function

        return register

    return body


def range_of(dtype: DType) -> tuple[int, int]:
    """The smallest and largest value of an integer dtype (bool: 0 and 1)."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "ternary":
        return -1, 1
    if dtype.kind == "int":
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return 0, (1 << dtype.bits) - 1


def memory_number(value: float | int, dtype: DType) -> float | int:
    """A value of a dtype as a constant of its memory type; integers wrap."""
    if dtype.is_float:
        return value
    if dtype.kind == "bool":
        return int(value != 0)
    return -int(value > 0) if dtype.name == "t1" else wrapped(int(value), dtype.bits)


def wrapped(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half


def resize_integer(b: LoopBuilder, value: SSAValue, bits: int, signed: bool) -> SSAValue:
    """The low bits of an integer, or the integer extended by its sign or by zeros."""
    element = element_type(value)
    assert isinstance(element, IntegerType)
    if element.bitwidth == bits:
        return value
    kind = like(value, IntegerType(bits))
    if element.bitwidth > bits:
        return b.insert(extended.TruncIOp(value, kind))
    return b.insert((extended.ExtSIOp if signed else extended.ExtUIOp)(value, kind))
