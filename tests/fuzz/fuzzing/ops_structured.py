"""Rules of products, attention, convolutions, pooling, recurrent layers and transforms."""

from __future__ import annotations

from fuzzing.ops_elements import Rule, calm, is_float, is_integer, taken
from fuzzing.pool import Pool, Var
from openinfer.dialects.ops.adaptive_pooling import ADAPTIVE_AXES
from openinfer.dialects.ops.pooling import POOLED_AXES
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

ONE = Size.of(1)


def matmul(g: Pool, name: str) -> None:
    a = g.some(lambda v: taken(name)(v) and v.rank >= 2)
    if any(d.name == "V" for d in g.declarations) and g.maybe(0.6):
        a = g.need("f32", (Size.of(g.pick([1, 3, 8])), Size.of(4)))
    if a is None:
        return
    flags: dict[str, object] = {}
    for flag in ("transpose_a", "transpose_b"):
        if g.maybe(0.25):
            flags[flag] = True
    if is_integer(a) and g.maybe(0.3):
        flags["acc"] = "i32" if a.dtype.startswith("i") else "u32"
    inner = a.dims[-2] if "transpose_a" in flags else a.dims[-1]
    axis = -1 if "transpose_b" in flags else -2
    family = _member(g, a, inner)
    if family is not None:
        calm(g, g.op(name, [a, family], {k: v for k, v in flags.items() if k != "transpose_b"}))
        return

    def fits(v: Var) -> bool:
        mixed = v.dtype == a.dtype or (is_float(v) and is_float(a) and g.maybe(0.1))
        return mixed and v.rank >= 2 and v.dims[axis] == inner

    b = g.some(fits)
    if b is None or g.maybe(0.3):
        dims = [inner, Size.of(g.pick([1, 3, 4, 17]))]
        b = g.need(a.dtype, tuple(reversed(dims) if axis == -1 else dims))
    made = g.op(name, [a, b], flags)
    if made and g.maybe(0.3):
        bias = g.need(made[0].dtype, made[0].dims[-1:])
        made = g.op("add", [made[0], bias]) or made
        if g.maybe(0.5) and is_float(made[0]):
            made = g.op(g.pick(["relu", "gelu", "silu", "tanh"]), [made[0]]) or made
    calm(g, made)


def linear(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and v.rank >= 1)
    if x is None:
        return
    settings: dict[str, object] = {}
    if is_integer(x) and g.maybe(0.3):
        settings["acc"] = "i32" if x.dtype.startswith("i") else "u32"
    outputs = Size.of(g.pick([1, 3, 4, 17]))
    operands = [x, g.need(x.dtype, (outputs, x.dims[-1]))]
    if g.maybe(0.6):
        dtype = str(settings.get("acc", x.dtype))
        if is_float(x) and g.maybe(0.1):
            dtype = g.pick(floats(g))
        operands.append(g.need(dtype, (outputs,)))
    made = g.op(name, operands, settings)
    if made and is_float(made[0]) and g.maybe(0.3):
        made = g.op(g.pick(["relu", "gelu", "silu", "tanh"]), [made[0]]) or made
    calm(g, made)


def _member(g: Pool, a: Var, inner: Size) -> Var | None:
    """A use of the prefix table `V(l)`, when there is one that fits."""
    family = next((d for d in g.declarations if d.name == "V"), None)
    if family is None or a.dtype != "f32" or inner.constant != 4 or g.maybe(0.4):
        return None
    index = str(g.chance.randrange(3))
    small = [i.name for i in g.loops if i.most <= 2]
    if small and g.maybe(0.7):
        index = g.pick(small)
    return Var(f"V[{index}]", "f32", (Size.of(4), Size.of(4)), "constant")


def einsum(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and 0 < v.rank <= 4)
    if x is None:
        return
    labels = dict(zip("abcd", x.dims))
    terms: list[str] = ["abcd"[: x.rank]]
    operands: list[Var | None] = [x]
    for letter in g.pick(["", "e", "e", "ef"]):
        labels[letter] = Size.of(g.pick([1, 2, 3]))
        some = g.chance.sample(terms[0], g.chance.randint(0, x.rank))
        term = "".join(g.chance.sample([*some, letter], len(some) + 1))
        terms.append(term)
        operands.append(g.need(x.dtype, tuple(labels[one] for one in term)))
    kept = g.chance.sample(list(labels), g.chance.randint(0, min(len(labels), 4)))
    made = g.op(name, operands, {"equation": f"{','.join(terms)}->{''.join(kept)}"})
    calm(g, made)


def attention(g: Pool, name: str) -> None:
    q = g.some(lambda v: is_float(v) and v.rank >= 2)
    if q is None:
        return
    if g.maybe(0.4):
        _written_out(g, q)
        return
    if q.rank < 4 and (q.dims[-1].constant or 0) > 1 and g.maybe(0.4):
        _merged(g, name, q)
        return
    length = g.pick([q.dims[-2], Size.of(3), Size.name("N")])
    k = g.need(q.dtype, (*q.dims[:-2], length, q.dims[-1]))
    v = g.need(q.dtype, (*q.dims[:-2], length, q.dims[-1]))
    settings: dict[str, object] = {}
    if g.maybe(0.3):
        settings["causal"] = True
    if g.maybe(0.2):
        settings["scale"] = 0.5
    if g.maybe(0.2):
        settings["window"] = g.pick([1, 2, 3])
    if g.maybe(0.2):
        settings["softcap"] = g.pick([0.5, 2.0, 30.0])
    operands = [q, k, v]
    if g.maybe(0.3):
        operands.append(g.need(g.pick([q.dtype, "bool"]), (q.dims[-2], length)))
    g.op(name, operands, settings)


def _merged(g: Pool, name: str, q: Var) -> None:
    """Attention of heads that are parts of the last axis."""
    width = q.dims[-1].constant or 1
    heads = g.pick([n for n in (1, 2, 4) if width % n == 0])
    groups = g.pick([n for n in (1, 2, 4) if n <= heads])
    size = Size.of(width // heads)
    length = g.pick([q.dims[-2], Size.of(3), Size.name("N")])
    settings: dict[str, object] = {"heads": heads}
    if g.maybe(0.7):
        settings["kv_heads"] = groups
    operands: list[Var | None] = [q]
    for _ in range(2):
        apart = "kv_heads" not in settings or g.maybe(0.4)
        behind = (Size.of(groups), size) if apart else (size * groups,)
        operands.append(g.need(q.dtype, (*q.dims[:-2], length, *behind)))
    if g.maybe(0.3):
        settings["causal"] = True
    if g.maybe(0.2):
        operands.append(g.need(g.pick([q.dtype, "bool"]), (q.dims[-2], length)))
    g.op(name, operands, settings)


def _written_out(g: Pool, q: Var) -> None:
    """Attention as three ops, in the form that a pass recognises or nearly that."""
    k = g.need(q.dtype, q.dims)
    v = g.some(lambda v: v.dtype == q.dtype and v.dims[:-1] == q.dims[:-1] and v.rank == q.rank)
    if k is None or v is None:
        return
    scores = g.op("matmul", [q, k], {"transpose_b": True})
    if scores is None:
        return
    if g.maybe(0.5):
        scale = g.need(q.dtype, ())
        scores = g.op("mul", [scores[0], scale]) or scores
    if g.maybe(0.4):
        mask = g.need(q.dtype, scores[0].dims[-2:])
        scores = g.op("add", [scores[0], mask]) or scores
    shares = g.op("softmax", [scores[0]], {"axis": -1})
    if shares is not None:
        g.op("matmul", [shares[0], v] if g.maybe(0.8) else [v, shares[0]])


def _image(g: Pool, name: str, rank: int) -> Var | None:
    """A value with channels and `rank` axes behind them."""
    x = g.some(lambda v: taken(name)(v) and v.rank in (rank + 1, rank + 2))
    if x is not None and g.maybe(0.7):
        return x
    dtype = g.pick([d for d in g.dtypes if taken(name)(Var("", d, (), ""))] or ["f32"])
    dims = [g.pick([1, 2, 4]), *(g.pick([4, 5, 7, "N"]) for _ in range(rank))]
    if g.maybe(0.6):
        dims.insert(0, g.pick([1, 2, "M"]))
    return g.need(dtype, tuple(Size.of(d) for d in dims))


def _of_the_step(g: Pool, least: int) -> Size:
    """A number that only the step knows: a loop index or a scalar, and what makes it legal mostly."""
    if g.loops and g.maybe(0.5):
        return Size.name(g.pick(g.loops).name) + least
    found = g.readable(lambda v: v.role == "size" and v.name in g.steady)
    if found and g.maybe(0.7):
        return Size.name(g.pick(found).name) - (1 - least)
    dtype = g.pick(["i64", "i32", "u8"])
    var = g.declare("dynamic", Var(g.fresh("k"), dtype, (), "dynamic", role="size"))
    g.steady.add(var.name)
    return Size.name(var.name) - (1 - least)


def _windows(g: Pool, rank: int) -> dict[str, object]:
    settings: dict[str, object] = {}
    if g.maybe(0.25):
        for name, least in (("stride", 1), ("padding", 0), ("dilation", 1)):
            if g.maybe(0.5):
                number = _of_the_step(g, least)
                settings[name] = g.pick([number, [number] * rank, [1] * (rank - 1) + [number]])
        return settings
    if g.maybe(0.4):
        settings["stride"] = g.pick([1, 2, [2] * rank, [1] * (rank - 1) + [2]])
    if g.maybe(0.5):
        settings["padding"] = g.pick([0, 1, [1] * rank, "same", "valid", [0, 1] * rank])
    if g.maybe(0.25):
        settings["dilation"] = 2
    return settings


def conv(g: Pool, name: str) -> None:
    rank = {"conv1d": 1, "conv3d": 3}.get(name, 2)
    x = _image(g, name, rank)
    if x is None:
        return
    channels = x.dims[-rank - 1].constant
    if channels is None:
        return
    groups = g.pick([n for n in (1, 1, 2, channels) if n and channels % n == 0] or [1])
    kernel = [Size.of(g.pick([1, 2, 3])) for _ in range(rank)]
    outputs = groups * g.pick([1, 2, 3])
    settings = _windows(g, rank)
    if groups != 1:
        settings["groups"] = groups
    if name == "conv_transpose2d":
        lead, total = [channels, outputs // groups], outputs
        if settings.get("padding") in ("same", "valid"):
            del settings["padding"]
        if settings.get("stride") == 2 and g.maybe(0.4):
            settings["output_padding"] = 1
    else:
        lead, total = [outputs, channels // groups], outputs
    w = g.need(x.dtype, (*(Size.of(n) for n in lead), *kernel))
    operands = [x, w]
    if g.maybe(0.5):
        operands.append(g.need(x.dtype, (Size.of(total),)))
    if is_integer(x) and g.maybe(0.3):
        settings["acc"] = "i32" if x.dtype.startswith("i") else "u32"
    calm(g, g.op(name, operands, settings))


def pool(g: Pool, name: str) -> None:
    rank = int(name[-2])
    x = _image(g, name, rank)
    if x is None:
        return
    settings: dict[str, object] = {"kernel_size": g.pick([1, 2, 3, [2, 3, 1][-rank:]])}
    if g.maybe(0.15):
        several = [2] * (rank - 1) + [_of_the_step(g, 1)]
        settings["kernel_size"] = g.pick([_of_the_step(g, 1), several])
    average = name.startswith("avg")
    settings |= {k: v for k, v in _windows(g, rank).items() if not average or k != "dilation"}
    if g.maybe(0.3):
        settings["ceil_mode"] = True
    if average and g.maybe(0.3):
        settings["count_include_pad"] = False
    if name.startswith("lp"):
        settings["p"] = g.pick([1.0, 2.0, 3.0])
    calm(g, g.op(name, [x], settings), 0.2)


def adaptive_pool(g: Pool, name: str) -> None:
    rank = int(name[-2])
    x = _image(g, name, rank)
    if x is None:
        return
    size: object = g.pick([1, 2, 3, [2, 1, 4][-rank:]])
    # Each has several buffers with sizes of their own: many of them in a program take long to place.
    if g.maybe(0.05):
        size = _of_the_step(g, 1)
    g.op(name, [x], {"output_size": size})


def upsample(g: Pool, name: str) -> None:
    x = _image(g, name, 2)
    if x is None:
        return
    settings: dict[str, object] = {"scale": g.pick([2, 1.5, [2, 3], 0.5])}
    if g.maybe(0.3):
        settings = {"size": g.pick([4, [3, 7]])}
    if is_float(x) and g.maybe(0.5):
        settings["mode"] = "bilinear"
        if g.maybe(0.4):
            settings["align_corners"] = True
    g.op(name, [x], settings)


def grid_sample(g: Pool, name: str) -> None:
    """Continuous in its places: what an op before it rounds in another way moves no element."""
    x = g.some(lambda v: is_float(v) and v.rank == 4)
    if x is not None:
        grid = g.need(x.dtype, (x.dims[0], Size.of(2), Size.of(3), Size.of(2)))
        g.op(name, [x, grid], {"padding_mode": "border", "align_corners": g.maybe(0.5)})


def recurrent(g: Pool, name: str) -> None:
    x = g.some(lambda v: is_float(v) and v.rank in (2, 3))
    if x is None:
        return
    gates = 4 if name == "lstm" else 3
    hidden, width = Size.of(g.pick([1, 3, 4])), x.dims[-1]
    settings: dict[str, object] = {}
    lead: tuple[Size, ...] = ()
    if g.maybe(0.3):
        settings["direction"] = "bidirectional"
        lead = (Size.of(2),)
    first = x.rank == 3 and g.maybe(0.4)
    if first:
        settings["batch_first"] = True
    batch = (x.dims[0 if first else 1],) if x.rank == 3 else ()
    states = [g.need(x.dtype, (*lead, *batch, hidden)) for _ in range(gates - 2)]
    operands = [
        x,
        *states,
        g.need(x.dtype, (*lead, hidden * gates, width)),
        g.need(x.dtype, (*lead, hidden * gates, hidden)),
    ]
    for _ in range(g.pick([0, 1, 2, 2])):
        operands.append(g.need(x.dtype, (*lead, hidden * gates)))
    g.op(name, operands, settings, outputs=g.chance.randint(1, gates - 1))


def fourier(g: Pool, name: str) -> None:
    if name == "rfft":
        x = g.some(lambda v: is_float(v) and v.rank > 0)
    else:
        x = g.some(lambda v: is_float(v) and v.rank > 1 and v.dims[-1].constant == 2)
        if x is None:
            x = g.need("f32", (Size.of(g.pick([2, 3, 5])), Size.of(2)))
    settings: dict[str, object] = {}
    if g.maybe(0.4):
        settings["n"] = g.pick([1, 2, 4, 5, 8])
    if g.maybe(0.3):
        settings["norm"] = g.pick(["ortho", "forward"])
    g.op(name, [x], settings)


def expert_linear(g: Pool, name: str) -> None:
    x = g.some(lambda v: is_float(v) and v.rank >= 1)
    if x is None:
        return
    count = g.pick([1, 3])
    own = x.rank > 1 and g.maybe(0.4)
    experts = x.dims[:-1] if own else (*x.dims[:-1], Size.of(2))
    w = g.need(x.dtype, (Size.of(count), Size.of(5), x.dims[-1]))
    g.op(name, [x, w, g.need("i32", experts, "indices")], {})


def rope(g: Pool, name: str) -> None:
    x = g.some(lambda v: is_float(v) and v.rank >= 2 and (v.dims[-1].constant or 1) % 2 == 0)
    if x is None:
        return
    settings: dict[str, object] = {}
    if g.maybe(0.4):
        settings["interleaved"] = True
    if g.maybe(0.2):
        settings["base"] = 100.0
    operands: list[Var | None] = [x]
    if (x.dims[-1].constant or 1) % 4 == 0 and g.maybe(0.3):
        settings["heads"] = 2
        place = x.dims[-2]
    elif x.rank >= 3 and g.maybe(0.3):
        settings["layout"] = "blhd"
        place = x.dims[-3]
    else:
        place = x.dims[-2]
    if g.maybe(0.4):
        operands.append(g.need("i64", (place,), "indices"))
    elif "base" not in settings and g.maybe(0.3):
        pairs = (x.dims[-1].constant or 1) // (4 if "heads" in settings else 2)
        tables = (place, Size.of(pairs))
        operands += [g.need(x.dtype, tables), g.need(x.dtype, tables)]
    g.op(name, operands, settings)


def floats(g: Pool) -> list[str]:
    return [d for d in g.dtypes if DTYPES[d].is_float] or ["f32"]


RULES: dict[str, Rule] = {
    "matmul": matmul,
    "linear": linear,
    "einsum": einsum,
    "attention": attention,
    "conv1d": conv,
    "conv2d": conv,
    "conv3d": conv,
    "conv_transpose2d": conv,
    **dict.fromkeys(POOLED_AXES, pool),
    **dict.fromkeys(ADAPTIVE_AXES, adaptive_pool),
    "upsample2d": upsample,
    "grid_sample": grid_sample,
    "lstm": recurrent,
    "gru": recurrent,
    "rfft": fourier,
    "irfft": fourier,
    "rope": rope,
    "expert_linear": expert_linear,
}
