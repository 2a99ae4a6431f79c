"""Rules of the ops that compute by element, reduce, normalise, convert and count.

A rule draws one use of an op; it emits nothing when nothing in the pool fits.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzzing.pool import RUNTIME, Dims, Pool, Var
from fuzzing.values import EDGES
from openinfer.dialects.opset import find, names
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import value_range

Rule = Callable[[Pool, str], None]


def is_float(v: Var) -> bool:
    return DTYPES[v.dtype].is_float


def is_integer(v: Var) -> bool:
    return DTYPES[v.dtype].is_integer


def taken(name: str) -> Callable[[Var], bool]:
    """Whether an op takes a variable as its first operand."""
    spec = find(name)
    assert spec is not None
    return lambda v: v.dtype in spec.dtypes


def calm(g: Pool, found: list[Var] | None, probability: float = 0.4) -> None:
    """Brings a result back to where the next ops have digits left."""
    if not found or not g.maybe(probability + 0.2 * (g.depth > 0)):
        return
    v = found[0]
    if is_float(v) and v.writable:
        kind = g.pick(["tanh", "sigmoid", "clamp", "softsign"])
        if kind == "clamp":
            g.emit(f"op clamp({v.name}, min=-4.0, max=4.0) >> {v.name};")
        elif kind == "softsign":
            g.emit(f"op relu({v.name}, negative_slope=0.5, clamp_max=6.0) >> {v.name};")
        else:
            g.emit(f"op {kind}({v.name}) >> {v.name};")


def unary(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is None:
        return
    found = g.op(name, [x])
    if name in ("exp", "expm1", "log", "tan", "rsqrt", "recip", "softplus"):
        calm(g, found, 0.6)


def number(g: Pool) -> Var:
    """A size or the index of a loop, which are i64 as operands."""
    return Var(g.pick([*RUNTIME, *[index.name for index in g.loops] * 4]), "i64", (), "literal")


def partner(g: Pool, x: Var) -> Var | None:
    """A variable of the same dtype that broadcasts with x."""

    def fits(v: Var) -> bool:
        pairs = zip(reversed(v.dims), reversed(x.dims))
        return v.dtype == x.dtype and all(a == b or 1 in (a.constant, b.constant) for a, b in pairs)

    if g.short and x.dtype == "i64" and g.maybe(0.5):
        return number(g)
    if g.maybe(0.1):
        return Var(g.number(x.dtype), x.dtype, (), "literal")
    if g.maybe(0.1) and x.rank:
        return g.need(x.dtype, x.dims[1:] if g.maybe(0.5) else (*x.dims[:-1], Size.of(1)))
    if g.maybe(0.06):
        return g.need(x.dtype, ())
    return g.some(fits)


def binary(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is None:
        return
    operands = [x, partner(g, x)]
    g.chance.shuffle(operands)
    settings: dict[str, object] = {}
    if name in ("div", "floor_div") and g.maybe(0.3):
        settings["div_by_zero_mask"] = 0 if is_integer(x) else g.pick([0.0, 1.5])
    if name in ("add", "sub", "mul") and is_integer(x) and g.maybe(0.1):
        settings["acc"] = g.pick(_wider(x.dtype))
    calm(g, g.op(name, operands, settings), 0.3)


def _wider(dtype: str) -> list[str]:
    row = DTYPES[dtype]
    names = [n for n in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")]
    return [n for n in names if DTYPES[n].kind == row.kind and DTYPES[n].bits >= row.bits] or [
        dtype
    ]


def fma(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        same = [v for v in g.readable(lambda v: v.spec == x.spec)]
        calm(g, g.op(name, [x, g.pick(same), g.pick(same)]))


def clamp(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is None:
        return
    low, high = _numbers(g, x.dtype)
    if name == "clamp":
        settings: dict[str, object] = {"min": low if g.maybe(0.8) else None, "max": high}
        if g.maybe(0.1) and is_float(x):
            settings["max"] = None
    else:
        settings = {"negative_slope": g.pick([0, 1]) if is_integer(x) else g.pick([0.0, 0.1])}
        settings["clamp_max"] = high if g.maybe(0.4) else None
        settings["clamp_min"] = low if g.maybe(0.2) else None
    g.op(name, [x], settings)


def curve(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        g.op(name, [x], {"alpha": g.pick([0.5, 1.5, -1])} if g.maybe(0.5) else {})


def prelu(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        shapes: list[Dims] = [(), (Size.of(1),), x.dims]
        if x.rank > 1:
            shapes += [(x.dims[1],), (x.dims[-1],) if x.rank == 2 else x.dims[1:]]
        g.op(name, [x, g.need(x.dtype, g.pick(shapes))])


def _numbers(g: Pool, dtype: str) -> tuple[object, object]:
    row = DTYPES[dtype]
    if row.is_float:
        return g.pick([(-1.0, 1.0), (-0.5, 2.0), (0.0, 6.0), (-3.5, -0.5)])
    bounds = value_range(row)
    assert bounds is not None
    return max(bounds[0], g.pick([-3, -1, 0])), min(bounds[1], g.pick([0, 1, 5]))


def shift(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        bits = g.pick([0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63])
        if g.edges and g.maybe(0.5):
            bits = g.pick([64, 65, 127, *EDGES])
        g.op(name, [x], {"bits": bits})


def cast(g: Pool, name: str) -> None:
    x = number(g) if g.short and g.maybe(0.3) else g.some(taken(name))
    if x is None:
        return
    to = g.pick([*g.dtypes, *g.dtypes, *DTYPES])
    settings: dict[str, object] = {"to": to}
    if g.maybe(0.3):
        settings["rounding_mode"] = g.pick(["trunc", "floor", "ceil", "nearest"])
    if g.maybe(0.3):
        settings["saturate"] = g.maybe(0.5)
    g.op(name, [x], settings)


def bit_cast(g: Pool, name: str) -> None:
    """Between integers: the bits of a float that was computed are not the same on all executors."""
    fits = taken(name)
    x = g.some(lambda v: is_integer(v) and fits(v))
    if x is not None:
        g.op(name, [x], {"to": g.pick("iu") + x.dtype[1:]})


def fill(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        low, high = _numbers(g, x.dtype) if DTYPES[x.dtype].kind not in _NO_RANGE else (1, 1)
        g.op(name, [x], {"value": g.pick([low, high])})


_NO_RANGE = ("bool", "bitset", "ternary")


def fill_nan(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        g.op(name, [x], {"value": g.pick([0.0, 1.5, None])})


def select(g: Pool, name: str) -> None:
    x = g.some(lambda v: v.dtype not in ("t1",))
    if x is None:
        return
    y = partner(g, x)
    if name == "filter":
        g.op(name, [x, y, partner(g, x)])
        return
    condition = g.some(
        lambda v: v.dtype == "bool" and v.rank <= x.rank and v.dims == x.dims[x.rank - v.rank :]
    ) or g.need("bool", x.dims)
    g.op(name, [condition, x, y])


def reduce(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and v.rank > 0)
    if x is None:
        return
    settings: dict[str, object] = {"keepdims": True} if g.maybe(0.4) else {}
    if "arg" in name:
        settings["axis"] = g.chance.randrange(-x.rank, x.rank)
        if g.maybe(0.3):
            settings["select_first"] = False
    else:
        axes = g.chance.sample(range(x.rank), g.chance.randint(1, x.rank))
        settings["axes"] = [axis - x.rank * g.maybe(0.2) for axis in axes]
    if name in ("var", "std") and g.maybe(0.5):
        settings["correction"] = g.pick([0, 2])
    if name in ("sum_axis", "mean_axis", "prod_axis") and g.maybe(0.12):
        wide = ["f64", "f32"] if is_float(x) else _wider(x.dtype)
        settings["acc"] = g.pick(wide)
    calm(g, g.op(name, [x], settings), 0.2)


def cumsum(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and v.rank > 0)
    if x is not None:
        settings: dict[str, object] = {"axis": g.chance.randrange(-x.rank, x.rank)}
        for flag in ("exclusive", "reverse"):
            if g.maybe(0.4):
                settings[flag] = True
        calm(g, g.op(name, [x], settings), 0.2)


def normalise(g: Pool, name: str) -> None:
    x = g.some(lambda v: is_float(v) and v.rank > 0)
    if x is None:
        return
    if name in ("softmax", "log_softmax"):
        g.op(name, [x], {"axis": g.chance.randrange(-x.rank, x.rank)})
        return
    axis = x.rank - 1 if g.maybe(0.7) else g.chance.randrange(x.rank)
    more = g.chance.randint(0, 2 if name == "layer_norm" else 1)
    operands = [x, *(g.need(x.dtype, x.dims[axis:]) for _ in range(more))]
    settings: dict[str, object] = {"eps": g.pick([0.01, 0.1])}
    if axis != x.rank - 1 or g.maybe(0.2):
        settings["axis"] = axis - x.rank * g.maybe(0.5)
    g.op(name, operands, settings)


def channel_norm(g: Pool, name: str) -> None:
    x = g.some(lambda v: is_float(v) and v.rank >= 2 + (name == "instance_norm"))
    if x is None:
        return
    channel = (x.dims[1],)
    settings: dict[str, object] = {"eps": 0.1}
    operands: list[Var | None] = [x]
    if name == "batch_norm":
        spread = g.need(x.dtype, channel)
        if spread is None:
            return
        positive = g.op("sigmoid", [spread])
        operands += [g.need(x.dtype, channel), positive[0] if positive else None]
    elif name == "group_norm":
        count = x.dims[1].constant
        settings["groups"] = g.pick([d for d in (1, 2, 3, 4) if count and count % d == 0] or [1])
    operands += [g.need(x.dtype, channel) for _ in range(g.pick([0, 1, 2, 2]))]
    g.op(name, operands, settings)


def quantize(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is None:
        return
    settings: dict[str, object] = {}
    if name == "quantize":
        settings["dtype"] = g.pick(["i8", "u8", "i4", "u4", "i16", "i32", "u2"])
    elif g.maybe(0.5):
        settings["dtype"] = g.pick([d for d in g.dtypes if DTYPES[d].is_float] or ["f32"])
    if x.rank and g.maybe(0.3):
        axis = g.chance.randrange(x.rank)
        settings["axis"] = axis
        g.op(name, [x, g.constant("f32", (x.dims[axis],)) if x.dims[axis].constant else None],
             settings)  # fmt: skip
        return
    settings["scale"] = g.pick([0.05, 0.5, 1.0])
    if g.maybe(0.5):
        settings["zero_point"] = g.pick([0, 1])
    g.op(name, [x], settings)


def blocks(g: Pool, name: str) -> None:
    """Rows that are whole blocks; bytes of a program become floats that anything may be."""
    x = g.some(taken(name))
    unit = 32 if name == "quantize_blocks" else 34
    size = x.dims[-1].constant if x is not None and x.rank else None
    if x is not None and size is not None and size % unit:
        whole = -(-size // unit) * unit
        (x,) = g.op("pad", [x], {"pads": [0] * (2 * x.rank - 1) + [whole - size]}) or (None,)
    if x is not None and size is not None:
        g.op(name, [x])


def _elementwise(count: int) -> list[str]:
    """Ops of the registry that compute elements from so many operands and need no setting.

    A function that is added to the registry is drawn without a change here; one whose settings
    deserve to be drawn has a rule of its own below.
    """
    found: list[str] = []
    for name in names():
        spec = find(name)
        assert spec is not None
        plain = (
            not spec.optional and not spec.variadic and not any(s.required for s in spec.settings)
        )
        if spec.family in ("elementwise", "compare") and plain and len(spec.operands) == count:
            found.append(name)
    return found


_REDUCE = (
    "sum_axis mean_axis prod_axis max_axis min_axis argmax_axis argmin_axis logsumexp var std any all"
).split()

RULES: dict[str, Rule] = {
    **dict.fromkeys(_elementwise(1), unary),
    **dict.fromkeys(_elementwise(2), binary),
    **dict.fromkeys(_REDUCE, reduce),
    **dict.fromkeys(("clamp", "relu"), clamp),
    **dict.fromkeys(("elu", "celu"), curve),
    **dict.fromkeys(("shl", "shr"), shift),
    **dict.fromkeys(("where", "filter"), select),
    **dict.fromkeys(("softmax", "log_softmax", "layer_norm", "rms_norm"), normalise),
    **dict.fromkeys(("batch_norm", "group_norm", "instance_norm"), channel_norm),
    **dict.fromkeys(("quantize", "dequantize"), quantize),
    **dict.fromkeys(("quantize_blocks", "dequantize_blocks"), blocks),
    "is_finite": unary,
    "prelu": prelu,
    "fma": fma,
    "cast": cast,
    "bit_cast": bit_cast,
    "fill": fill,
    "fill_nan_like": fill_nan,
    "cumsum": cumsum,
    "cumprod": cumsum,
}


def dims_of(*sizes: int | str) -> Dims:
    return tuple(Size.of(s) for s in sizes)
