"""One row of the case table, how far a compiled result may lie off, and grids of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

FLOATS = ("f32", "f16", "bf16", "f64", "f8")
INTS = ("i32", "i64", "i8", "u8", "i4")
MAIN_INTS = ("i32", "i64", "i8")
NUMBERS = FLOATS + INTS
BOTH = ("f32", "i32", "f16", "bf16", "i64", "i8")


@dataclass(frozen=True)
class Case:
    """One use of one op."""

    op: str
    shapes: Shapes
    dtypes: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: {})
    outputs: int = 1
    out: str | None = None
    """Declared output dtype when it is not the inferred one."""
    draw: str = "normal"
    """How inputs are drawn, see `drawing.py`."""
    seed: int = 0
    runtime: bool = False
    """Declare the first dimension of operand 0 as a size that only the input fixes."""
    note: str = ""
    inplace: int | None = None
    """The operand that the first result is written over."""
    full: bool = False
    """Runs only with the full table."""
    column: bool = False
    """Made from a row of another dtype (`dtype_rows.py`)."""
    names: tuple[tuple[str, ...], ...] = ()
    """The dimensions of the first operands as written: names are sizes that only inputs fix."""

    @property
    def name(self) -> str:
        """Unique in the table, readable in a test id."""
        shapes = ",".join("x".join(map(str, s)) or "scalar" for s in self.shapes)
        settings = ",".join(f"{k}={v}" for k, v in self.settings.items())
        kinds = ",".join(dict.fromkeys(self.dtypes))
        parts = [self.op, kinds + (f">{self.out}" if self.out else ""), shapes, settings, self.note]
        if self.draw != "normal":
            parts.append(self.draw)
        if self.runtime:
            parts.append("runtime")
        if self.inplace is not None:
            parts.append(f"over{self.inplace}")
        parts.append(",".join("x".join(dims) for dims in self.names))
        return "-".join(p for p in parts if p).replace(" ", "")


@dataclass(frozen=True)
class Tolerance:
    """How far a compiled result may lie from the simulator's."""

    rtol: float
    atol: float
    reason: str


EXACT = Tolerance(0.0, 0.0, "one correctly rounded operation, or integers")
# One unit in the last place of each dtype, relative; a result that lies next to the middle of two
# values may be rounded either way when the wide computation differs in its last bits.
_UNIT = {
    **{"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7},
    **{"f8": 2.0**-2, "f8e4m3": 2.0**-3},
}
_SMALLEST = {
    **{"f64": 0.0, "f32": 1e-38, "f16": 2.0**-24, "bf16": 1e-38},
    **{"f8": 2.0**-16, "f8e4m3": 2.0**-9},
}
_STEPS: dict[str, tuple[float, float, str]] = {
    "functions": (8, 2, "a polynomial in f32 within a few units of the exact function"),
    "sums": (64, 16, "another order of summation: about the square root of the terms in units"),
    "contracted": (2, 2, "a * b + c may be contracted into one rounding"),
}
_EXACT_OPS = frozenset(
    "add sub mul div neg abs recip sign min max clamp floor ceil round trunc sqrt cast fill "
    "fill_nan_like relu filter where max_axis min_axis argmax_axis argmin_axis gather concat split "
    "slice transpose permute reshape squeeze unsqueeze expand iota eq ne lt le gt ge is_finite "
    "is_nan is_inf is_neg floor_div rem and or xor not shl shr popcount scatter sort topk cumsum "
    "shift_left shift_right round_even bit_cast floor_mod "
    "gather_elements scatter_elements argsort "
    "one_hot pad flip random_uniform multinomial quantize dequantize max_pool1d max_pool2d max_pool3d "
    "quantize_blocks dequantize_blocks adaptive_max_pool1d adaptive_max_pool2d any all "
    "adaptive_max_pool3d "
    "stack tile roll tril triu cumprod".split()
)
_SUM_OPS = frozenset(
    "matmul linear expert_linear einsum sum_axis mean_axis prod_axis softmax log_softmax layer_norm rms_norm "
    "attention conv1d conv2d conv3d conv_transpose2d avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d "
    "lp_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "upsample2d grid_sample batch_norm group_norm instance_norm lstm gru rfft irfft "
    "rope logsumexp var std".split()
)


def tolerance(op: str, dtype: str, accumulator: str | None = None) -> Tolerance:
    """The tolerance of an op's result dtype, with its reason.

    A result that is wider than its accumulator is as good as the accumulator. The absolute part is
    relative to values of size 1: near zero a sum keeps the errors of its terms.
    """
    if dtype not in _UNIT or op in _EXACT_OPS:
        return EXACT
    kind = "contracted" if op == "fma" else "sums" if op in _SUM_OPS else "functions"
    relative, absolute, reason = _STEPS[kind]
    if dtype == "f64" and accumulator == "f32":
        dtype = accumulator
    unit = _UNIT[dtype]
    if dtype in ("f16", "bf16", "f8", "f8e4m3"):
        # Computed in f32 and rounded once: at most one unit of the narrow dtype.
        wide = absolute * _UNIT["f32"]
        return Tolerance(unit, wide + _SMALLEST[dtype], f"one unit of {dtype}; {reason}")
    if dtype == "f64":
        # The same number of units of f64; functions come from the C library or a longer polynomial.
        return Tolerance(relative * unit * 4, absolute * unit * 4, reason)
    return Tolerance(relative * unit, absolute * unit, reason)


def dtype_of(case: Case) -> str | None:
    """The dtype that an op's row speaks of: of operand 0, or of the result where there is none."""
    if case.dtypes:
        return case.dtypes[0]
    found = case.settings.get("dtype", case.settings.get("to"))
    return str(found) if found is not None else None


# Grids

PAIRS: tuple[Shapes, ...] = (
    ((3, 5), (3, 5)),
    ((), ()),
    ((1,), (1,)),
    ((4, 17), (17,)),
    ((2, 1, 3), (5, 1)),
    ((0, 3), (3,)),
)
SINGLES: tuple[Shapes, ...] = (((3, 5),), ((),), ((33,),), ((0, 3),))


def grid(
    op: str, shapes: Sequence[Shapes], dtypes: Sequence[str], **options: Any
) -> Iterator[Case]:
    """All shapes in the first dtype, the first shape in the others."""
    for number, dtype in enumerate(dtypes):
        for shape in shapes if number == 0 else shapes[:1]:
            yield Case(op, shape, (dtype,) * len(shape), **options)
    yield Case(op, shapes[0], (dtypes[0],) * len(shapes[0]), **options, runtime=True)
