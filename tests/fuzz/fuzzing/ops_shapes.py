"""Rules of the ops that move, choose and order elements, and of those without operands."""

from __future__ import annotations

from typing import Any

from fuzzing.ops_elements import Rule, is_integer, taken
from fuzzing.pool import RUNTIME, Pool, Var
from fuzzing.values import EDGES
from openinfer.dialects.opset import TensorSpec
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


def some_axis(g: Pool, name: str, least: int = 1) -> tuple[Var, int] | None:
    """A variable that an op takes, and one of its axes."""
    x = g.some(lambda v: taken(name)(v) and v.rank >= least)
    return None if x is None else (x, g.chance.randrange(x.rank))


def transpose(g: Pool, name: str) -> None:
    x = g.some(lambda v: v.rank > 0)
    if x is None:
        return
    perm = g.chance.sample(range(x.rank), x.rank)
    if name == "transpose" and g.maybe(0.4):
        g.op(name, [x], {} if g.maybe(0.5) else {"axes": perm[:2]})
    else:
        g.op(name, [x], {"perm": perm})


def reshape(g: Pool, name: str) -> None:
    x = g.some()
    if x is None:
        return
    total = Size.of(1)
    for dim in x.dims:
        total = total * dim
    shapes: list[list[Any]] = [[-1], [1, -1], [-1, 1]]
    if x.rank >= 2:
        shapes += [[x.dims[0] * x.dims[1], *x.dims[2:]], [-1, x.dims[-1]], [x.dims[0], -1]]
        shapes.append([*reversed(x.dims)])
    if total.constant:
        for divisor in (2, 3, 4):
            if total.constant % divisor == 0:
                shapes.append([divisor, total.constant // divisor])
    if total.constant == 1:
        shapes.append([])
    g.op(name, [x], {"shape": g.pick(shapes)})


def squeeze(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found
    if name == "unsqueeze":
        g.op(name, [x], {"axes": [g.chance.randint(-x.rank - 1, x.rank)]})
        return
    ones = [a for a, d in enumerate(x.dims) if d.constant == 1]
    if ones:
        g.op(name, [x], {} if g.maybe(0.3) else {"axes": [g.pick(ones)]})
    else:
        g.op("unsqueeze", [x], {"axes": [axis]})


def expand(g: Pool, name: str) -> None:
    x = g.some(lambda v: any(d.constant == 1 for d in v.dims) or v.rank < 2)
    if x is None:
        return
    wide = [Size.of(g.pick([2, 3, *RUNTIME])) if d.constant == 1 else d for d in x.dims]
    shape: list[object] = [-1 if g.maybe(0.2) and w == d else w for w, d in zip(wide, x.dims)]
    if g.maybe(0.3) or not shape:
        shape.insert(0, Size.of(g.pick([2, "N"])))
    if g.edges and g.maybe(0.3):
        shape[g.chance.randrange(len(shape))] = g.far()
    g.op(name, [x], {"shape": shape})


def concat(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found

    def fits(v: Var) -> bool:
        same = v.dtype == x.dtype and v.rank == x.rank
        return same and all(a == axis or p == q for a, (p, q) in enumerate(zip(v.dims, x.dims)))

    parts = [x, *(g.some(fits) for _ in range(g.pick([0, 1, 1, 1, 2])))]
    g.chance.shuffle(parts)
    g.op(name, parts, {"axis": axis - x.rank * g.maybe(0.3)})


def stack(g: Pool, name: str) -> None:
    x = g.some()
    if x is not None:
        same = g.readable(lambda v: v.spec == x.spec)
        parts = [x, *(g.pick(same) for _ in range(g.pick([0, 1, 2])))]
        g.op(name, parts, {"axis": g.chance.randint(-x.rank - 1, x.rank)})


def tile(g: Pool, name: str) -> None:
    x = g.some(lambda v: v.rank < 4)
    if x is None:
        return
    count = g.chance.randint(max(x.rank - 1, 1), x.rank + 1)
    repeats: list[object] = [Size.of(g.pick([1, 1, 2, 3, "N"])) for _ in range(count)]
    if g.edges and g.maybe(0.3):
        repeats[g.chance.randrange(count)] = g.far()
    g.op(name, [x], {"repeats": repeats})


def roll(g: Pool, name: str) -> None:
    x = g.some()
    if x is None:
        return
    far = [*EDGES] if g.edges else [1, -1, 2]
    if x.rank == 0 or g.maybe(0.2):
        g.op(name, [x], {"shifts": [g.pick([1, -2, 7, *far])]})
        return
    axes = g.chance.sample(range(-x.rank, 0), g.chance.randint(1, x.rank))
    g.op(name, [x], {"shifts": [g.pick([1, -2, 7, *far]) for _ in axes], "axes": axes})


def triangle(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and v.rank >= 2)
    if x is not None:
        far = [*EDGES] if g.edges else [-3, 3]
        g.op(name, [x], {"diagonal": g.pick([-1, 1, *far])} if g.maybe(0.6) else {})


def split(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and any((d.constant or 0) > 1 for d in v.dims))
    if x is None:
        return
    axis = g.pick([a for a, d in enumerate(x.dims) if (d.constant or 0) > 1])
    extent = x.dims[axis].constant or 0
    if extent % 2 == 0 and g.maybe(0.5):
        g.op(name, [x], {"axis": axis}, outputs=2)
        return
    first = g.chance.randint(0 if g.maybe(0.1) else 1, extent - 1)
    g.op(name, [x], {"axis": axis - x.rank, "sizes": [first, extent - first]}, outputs=2)


def slice_(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found
    extent = x.dims[axis].constant
    settings: dict[str, object] = {"axis": axis - x.rank * g.maybe(0.2)}
    if extent is None or g.maybe(0.15):
        kind = g.pick(["start", "stop", "negative", "index"])
        if kind == "start":
            settings["start"] = g.pick([0, 1])
        elif kind == "stop":
            settings["stop"] = g.pick([-1, 1, 2])
        elif kind == "negative":
            settings["start"] = g.pick([-1, -2])
        elif g.loops:
            index = g.pick(g.loops).name
            settings |= {"start": Size.name(index), "stop": Size.name(index) + 1}
        if g.maybe(0.2):
            settings["step"] = 2
    else:
        start = g.chance.randrange(extent) if extent else 0
        settings |= {"start": start, "stop": g.chance.randint(start, extent)}
        if g.maybe(0.3):
            settings["step"] = g.pick([1, 2, 3])
    if g.edges and g.maybe(0.4):
        settings[g.pick(["start", "stop", "step"])] = g.pick([1, -1]) * g.pick(EDGES)
    if x.rank > 1 and "step" not in settings and g.maybe(0.15):
        given = {k: settings[k] for k in ("start", "stop") if k in settings}
        settings = {"axes": [axis], **{f"{k}s": [v] for k, v in given.items()}}
    g.op(name, [x], settings)


def pad(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is None:
        return
    mode = g.pick(["constant", "constant", "edge", "reflect"])
    most = 2 if mode != "reflect" else 1
    pads: list[object] = [g.chance.randint(0, most) for _ in range(2 * x.rank)]
    if pads and g.edges and g.maybe(0.4):
        pads[g.chance.randrange(len(pads))] = g.far()
    settings: dict[str, object] = {"pads": pads}
    if mode != "constant":
        settings["mode"] = mode
    elif g.maybe(0.4):
        settings["value"] = 0.5 if DTYPES[x.dtype].is_float else 1
    if x.rank and g.maybe(0.3):
        settings |= {"pads": pads[:2], "axes": [g.chance.randrange(-x.rank, x.rank)]}
    g.op(name, [x], settings)


def flip(g: Pool, name: str) -> None:
    x = g.some(taken(name))
    if x is not None:
        some = g.chance.sample(range(x.rank), g.chance.randint(0, x.rank))
        g.op(name, [x], {"axes": some} if some else {})


def gather(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    table, axis = found
    if g.maybe(0.3):
        bounded = g.some(lambda v: is_integer(v) and v.rank <= 2)
        indices = bounded if bounded is not None and g.maybe(0.15) else _positions(g)
    else:
        indices = _positions(g)
    g.op(name, [table, indices], {"axis": axis - table.rank * g.maybe(0.3)} if axis else {})


def _positions(g: Pool) -> Var | None:
    """Small indices, few of which lie outside."""
    dtype = g.pick(["i64", "i64", "i32", "u8", "i16"])
    dims = g.pick([(3,), (3,), (), (2, 2), ("N",), (0,)])
    return g.need(dtype, tuple(Size.of(d) for d in dims), "indices")


def scatter(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found
    indices = _positions(g)
    if indices is None:
        return
    shape = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
    mode = g.pick(["set", "set", "add", "min", "max"])
    updates = g.need(x.dtype, shape if g.maybe(0.85) else ())
    g.op(name, [x, indices, updates], {"axis": axis, "mode": mode})


def by_elements(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found
    dims = list(x.dims)
    if g.maybe(0.6):
        dims[axis] = Size.of(g.pick([0, 1, 3, 7, "N"]))
    indices = g.need(g.pick(["i64", "i32", "u8"]), tuple(dims), "indices")
    settings: dict[str, object] = {"axis": axis - x.rank * g.maybe(0.3)}
    operands: list[Var | None] = [x, indices]
    if name == "scatter_elements":
        settings["reduction"] = g.pick(["none", "none", "add", "mul", "min", "max"])
        operands.append(g.need(x.dtype, tuple(dims)))
    g.op(name, operands, settings)


def one_hot(g: Pool, name: str) -> None:
    indices = _positions(g)
    settings: dict[str, object] = {"depth": g.pick([5, 6, Size.name("N") + 3])}
    if g.maybe(0.5):
        settings["dtype"] = g.pick([*g.dtypes, "bool"])
    if indices is not None and g.maybe(0.3):
        settings["axis"] = g.chance.randint(-1, indices.rank)
    g.op(name, [indices], settings)


def order(g: Pool, name: str) -> None:
    found = some_axis(g, name)
    if found is None:
        return
    x, axis = found
    settings: dict[str, object] = {"axis": axis - x.rank * g.maybe(0.5)}
    if name in ("sort", "argsort"):
        settings |= {"descending": True} if g.maybe(0.4) else {}
    else:
        extent = x.dims[axis].constant
        settings["k"] = g.chance.randint(0, extent) if extent is not None else g.pick([0, 1, 2])
        settings |= {"largest": False} if g.maybe(0.4) else {}
        settings |= {"k": g.far()} if g.edges and g.maybe(0.4) else {}
    g.op(name, [x], settings, outputs=1 if name == "argsort" else g.pick([1, 2, 2]))


def iota(g: Pool, name: str) -> None:
    shape = [g.pick([1, 2, 3, 4, "N", "M"]) for _ in range(g.pick([1, 1, 2]))]
    dtype = g.pick([d for d in g.dtypes if taken(name)(Var("", d, (), ""))] or ["i64"])
    settings: dict[str, object] = {"shape": [Size.of(s) for s in shape], "dtype": dtype}
    if g.maybe(0.4):
        settings |= {"start": g.pick([-1, 2]), "step": g.pick([2, -1])}
    if g.edges and g.maybe(0.5):
        settings |= {"start": g.pick([0, -1, *EDGES]), "step": g.pick([1, -1, 0, *EDGES])}
    if g.edges and g.maybe(0.2):
        settings["shape"] = [g.far(), *(Size.of(s) for s in shape[1:])]
    if len(shape) > 1 and g.maybe(0.5):
        settings["axis"] = 0
    g.op(name, [], settings)


def random_uniform(g: Pool, name: str) -> None:
    dtype = g.pick([d for d in g.dtypes if DTYPES[d].is_float] or ["f32"])
    dims = tuple(Size.of(g.pick([2, 3, "N"])) for _ in range(g.pick([1, 2])))
    settings: dict[str, object] = {"seed": g.chance.randrange(9), "low": -1.0}
    settings |= {"shape": list(dims), "dtype": dtype}
    g.op(name, [], settings, declared=TensorSpec(dtype, dims))


def multinomial(g: Pool, name: str) -> None:
    x = g.some(lambda v: taken(name)(v) and v.rank >= 1)
    settings: dict[str, object] = {"samples": g.pick([1, 3, Size.name("N")])}
    g.op(name, [x], settings | {"seed": g.chance.randrange(9)})


RULES: dict[str, Rule] = {
    "transpose": transpose,
    "permute": transpose,
    "reshape": reshape,
    "squeeze": squeeze,
    "unsqueeze": squeeze,
    "expand": expand,
    "concat": concat,
    "stack": stack,
    "tile": tile,
    "roll": roll,
    "tril": triangle,
    "triu": triangle,
    "split": split,
    "slice": slice_,
    "pad": pad,
    "flip": flip,
    "gather": gather,
    "scatter": scatter,
    "gather_elements": by_elements,
    "scatter_elements": by_elements,
    "one_hot": one_hot,
    "sort": order,
    "argsort": order,
    "topk": order,
    "iota": iota,
    "random_uniform": random_uniform,
    "multinomial": multinomial,
}
