"""Persistent variables: declarations of every kind, and statements that touch them."""

from __future__ import annotations

from fuzzing.pool import RUNTIME, Dims, Growing, Pool, Var
from fuzzing.tree import Declaration
from fuzzing.values import EDGES
from openinfer.dialects.opset import TensorSpec
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

COUNTED = ("i32", "i64", "i8", "u8", "u16", "i16", "u32", "u64", "f32", "f16", "f64")
"""What `cache.increment` counts in."""


# Declarations


def declare_state(g: Pool, wanted: frozenset[str]) -> None:
    """Persistent variables for a program; `wanted` names the forms that it may have."""
    for _ in range(g.pick([1, 1, 2])):
        dtype = g.pick(["i32", "i32", "i64", "u8", "i16"])
        extra = f" @init({g.pick([1, 2])})" if g.maybe(0.2) else ""
        var = Var(g.fresh("n"), dtype, (), "persistent", role="count")
        g.scalars.append(g.declare("persistent", var, extra))
    if g.maybe(0.3):
        var = Var(g.fresh("p"), g.pick(COUNTED), (), "persistent")
        g.scalars.append(g.declare("persistent", var, g.init(var.dtype) if g.maybe(0.5) else ""))
    if g.maybe(0.3):
        _sizing(g)
    if "plain" in wanted:
        for _ in range(g.pick([1, 2])):
            _plain(g)
    for form in ("table", "matrix", "matrices"):
        if form in wanted:
            for _ in range(g.pick([1, 1, 2])):
                _growing(g, form)


def _sizing(g: Pool) -> None:
    """A scalar that dimensions of what follows may name."""
    memory = g.pick(["dynamic", "persistent", "persistent"])
    name, dtype = g.fresh("w"), g.pick(["i32", "i64", "u8"])
    var = Var(name, dtype, (), memory, role="size")
    g.declare(memory, var, f" @init({g.pick([1, 2, 3, 4])})" if memory == "persistent" else "")
    g.steady.add(name)


def _sized(g: Pool, dims: Dims, *, most: int = 2) -> Dims:
    """The dimensions, some of them by a scalar."""
    for axis in range(len(dims)):
        if g.steady and most and g.maybe(0.5):
            name = Size.name(g.pick(sorted(g.steady)))
            size = g.pick([name, name, name + 1, name * 2, name + Size.name(g.pick(RUNTIME))])
            dims = (*dims[:axis], size, *dims[axis + 1 :])
            most -= 1
    return dims


def _plain(g: Pool) -> None:
    dims = tuple(Size.of(g.pick([1, 2, 3, 4, 8])) for _ in range(g.pick([0, 1, 2])))
    if dims and g.maybe(0.15):
        dims = (Size.of(g.pick(RUNTIME)), *dims[1:])
    dims = _sized(g, dims)
    var = Var(g.fresh("s"), g.pick(g.dtypes), dims, "persistent")
    fixed = all(d.constant is not None for d in dims)
    if fixed and DTYPES[var.dtype].oinf_id is not None and g.maybe(0.2):
        source = g.constant(var.dtype, dims)
        if source.name in g.content.tensors:
            g.declare("persistent", var, f' @ref("{source.name}")')
            return
    g.declare("persistent", var, g.init(var.dtype) if g.maybe(0.4) else "")


def _growing(g: Pool, form: str) -> None:
    name = g.fresh("K" if form == "table" else "A" if form == "matrix" else "C")
    dtype = g.pick(g.dtypes)
    table: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()
    if form != "matrix":
        table = tuple(
            f"p{i}" for i in range(g.pick([1, 1, 2, 2, 3] if form == "table" else [1, 2]))
        )
    if form == "table":
        dims = tuple(Size.of(g.pick([1, 2, 3, 4, 5])) for _ in range(g.pick([0, 1, 1, 2])))
        if dims and g.maybe(0.12):
            dims = (*dims[:-1], Size.of(g.pick(RUNTIME)))
    else:
        auto = tuple(f"q{i}" for i in range(g.pick([1, 2, 2])))
        dims = tuple(Size.of(g.pick([0, 1, 2, 3])) for _ in auto)
    dims = _sized(g, dims)
    fixed = {i: g.pick([3, 4, 8]) for i in (*table, *auto) if g.maybe(0.2)}
    found = Growing(name, dtype, dims, table, auto, fixed)
    g.growing.append(found)
    shape = f"[{', '.join(str(d) for d in dims)}]" if dims else ""
    text = f"{name}({', '.join((*table, *auto))}): {dtype}{shape}"
    text += " @table" if table else ""
    text += f" @auto_dim({', '.join(auto)})" if auto else ""
    if fixed:
        text += f" @fixed({', '.join(f'{i}={n}' for i, n in fixed.items())})"
    if g.maybe(0.3):
        text += g.init(dtype)
    g.declarations.append(Declaration("persistent", name, text))


# Indices and slots


def index(g: Pool) -> str:
    """An index that is small and seldom negative."""
    if g.edges and g.maybe(0.12):
        edge = g.edge()
        return g.pick([edge, f"{edge} - 1", f"{edge} + 1", f"2 * {edge}"])
    if g.own_sizes and g.maybe(0.4):
        return g.pick(g.own_sizes)
    if g.short and g.maybe(0.12):
        row = g.need(g.pick(["i32", "i64", "u8"]), (Size.of(3),), "indices")
        if row is not None:
            return f"{row.name}[{g.pick(['0', '2', '1', *(i.name for i in g.loops)])}]"
    counting = ("count", "indices", "size")
    scalars = [v.name for v in g.readable(lambda v: v.rank == 0 and v.role in counting)]
    kinds = ["number", *["loop"] * 3 * bool(g.loops), *["scalar"] * 3 * bool(scalars)]
    match g.pick(kinds):
        case "loop":
            name = g.pick(g.loops).name
            return g.pick([name, name, name, f"{name} + 1", f"2 * {name}"])
        case "scalar":
            name = g.pick(scalars)
            if g.loops and g.maybe(0.2):
                return f"{name} + {g.pick(g.loops).name}"
            return g.pick([name, name, name, f"{name} + 1", f"{name} - 1", f"2 * {name} + 1"])
        case _:
            return str(g.pick([0, 0, 1, 2, 3]))


def own_size(g: Pool) -> None:
    """`size z3 = n1 + 1;` in a body."""
    name = g.fresh("z")
    g.emit(f"size {name} = {index(g)};")
    g.own_sizes.append(name)


def slice_slot(g: Pool, *, matrix: bool = False) -> tuple[str, Size]:
    """A slice and its length."""
    match g.pick(["full", "full", "empty", "literal", "literal", "prefix", "part", "back", "from"]):
        case "full":
            return g.pick(["..", "0.."]), g.token()
        case "empty":
            return "", g.token()
        case "literal":
            start = g.pick([0, 0, 1, 2])
            count = g.pick([1, 2, 3]) if not matrix else 1
            return f"{start}..{start + count}", Size.of(count)
        case "prefix":
            bound = index(g)
            return f"{g.pick(['0', ''])}..{bound}", g.token(bound)
        case "part":
            start, count = index(g), g.pick([1, 2])
            return f"{start}..{start} + {count}", Size.of(count)
        case "back":
            return f"{g.pick(['0', ''])}..-{g.pick([1, 1, 2])}", g.token()
        case _:
            return f"{g.pick([0, 1])}..", g.token()


def table_slots(g: Pool, k: Growing, most: int) -> tuple[list[str], list[Size]]:
    """Slots of the table indices with at most so many slices, and the lengths of the slices."""
    slots: list[str] = []
    lengths: list[Size] = []
    for _ in k.table:
        if len(lengths) < most and g.maybe(0.35):
            text, length = slice_slot(g)
            slots.append(text)
            lengths.append(length)
        else:
            slots.append(index(g))
    return slots, lengths


def access(g: Pool, k: Growing, *, writes: bool) -> tuple[str, Dims]:
    """A use of a growing variable with brackets, and the shape of what it selects."""
    slots, lengths = table_slots(g, k, (0 if k.auto else 1) if writes else 3)
    if not k.auto:
        if g.maybe(0.15):
            # Missing slots at the end are full slices.
            cut = g.chance.randrange(len(slots))
            if not writes or (cut == len(slots) - 1 and not lengths):
                kept = [s for s in slots[:cut]]
                full = sum(1 for s in kept if ".." in s or s == "")
                return _shown(k, kept), (*lengths[:full], *_tokens(g, len(slots) - cut), *k.dims)
        return _shown(k, slots), (*lengths, *k.dims)
    match g.pick(["grow", "grow", "grow", "whole", "line", "line", *["range"] * (not writes)]):
        case "grow":
            slots += [index(g) for _ in k.auto]
            return _shown(k, slots), (*lengths, *_tokens(g, len(k.auto)))
        case "whole":
            return _shown(k, slots), (*lengths, *_tokens(g, len(k.auto)))
        case "line" if len(k.auto) > 1 or not k.table or writes:
            axis = g.chance.randrange(len(k.auto))
            line = index(g) if g.maybe(0.8) else f"{k.dims[axis]} + {k.auto[axis]} - 1"
            slots += [line if a == axis else "" for a in range(len(k.auto))]
            if len(k.auto) == 1:
                # One index and nothing else grows: the matrix has one axis.
                return _shown(k, slots), (*lengths, *_tokens(g, 1))
            return _shown(k, slots), (*lengths, *_tokens(g, len(k.auto) - 1))
        case _:
            inner: list[Size] = []
            for axis, name in enumerate(k.auto):
                text, length = slice_slot(g, matrix=True)
                if g.maybe(0.2):
                    text, length = f"0..{k.dims[axis]} + {name}", g.token()
                slots.append(text)
                inner.append(length)
            return _shown(k, slots), (*lengths, *inner)


def _tokens(g: Pool, count: int) -> Dims:
    return tuple(g.token() for _ in range(count))


def _shown(k: Growing, slots: list[str]) -> str:
    return f"{k.name}[{', '.join(slots)}]"


# Statements


def cache_statement(g: Pool) -> None:
    """One statement, or a few that belong together."""
    kinds = ["growing"] * 6 if g.growing else []
    kinds += ["count"] * 2 if g.scalars else []
    kinds += ["resize"] if g.steady and g.maybe(0.1) else []
    plain = g.readable(lambda v: v.memory == "persistent" and not v.role)
    kinds += ["plain"] * 2 if plain else []
    if not kinds:
        return
    match g.pick(kinds):
        case "growing":
            _touch(g, g.pick(g.growing))
        case "count":
            _count(g)
        case "resize":
            _resize(g)
        case _:
            _plain_statement(g, g.pick(plain))


def _touchable(g: Pool, name: str) -> bool:
    return name not in g.unreadable and name not in g.unwritable


def _count(g: Pool) -> None:
    v = g.pick(g.scalars)
    if not _touchable(g, v.name):
        return
    g.forget(v.name)
    if g.maybe(0.08):
        g.emit(f"cache.reset {v.name};")
        return
    form = "increment" if g.maybe(0.85) else "decrement"
    amount = f"{g.pick([2, 3, 'N', 'M + 1', '(N - M)'])} " if g.maybe(0.25) else ""
    if g.edges and g.maybe(0.2):
        amount = f"{g.pick(EDGES)} "
    g.emit(f"cache.{form} {amount}{v.name};")


def _resize(g: Pool) -> None:
    """Another value of a scalar that dimensions name: what was touched before refuses it."""
    for v in g.readable(lambda v: v.role == "size" and v.memory == "persistent"):
        if _touchable(g, v.name) and v.name in g.steady:
            g.steady.discard(v.name)
            g.emit(f"cache.{g.pick(['increment', 'decrement'])} {v.name};")
            return


def _plain_statement(g: Pool, v: Var) -> None:
    if not _touchable(g, v.name):
        return
    brackets = "[]" if g.maybe(0.15) else ""
    if g.maybe(0.1):
        g.emit(f"cache.reset {v.name};")
        return
    if g.maybe(0.4):
        read_into(g, f"{v.name}{brackets}", v.spec)
        return
    value = g.need(v.dtype, v.dims)
    if value is None or value is v:
        found = read_into(g, f"{v.name}{brackets}", v.spec)
        ops = ["add", "max", "relu", "neg", "and", "not", "flip"]
        value = (found and (g.op(g.pick(ops), [found]) or [None])[0]) or found
    if value is not None:
        g.emit(f"cache.write {value.name} >> {v.name}{brackets};")


def _touch(g: Pool, k: Growing) -> None:
    if not _touchable(g, k.name):
        return
    kind = g.pick(["read"] * 4 + ["write"] * 4 + ["change"] * 3 + ["reset"])
    if kind == "reset":
        _reset(g, k)
        return
    text, dims = access(g, k, writes=kind != "read")
    if kind == "read":
        read_into(g, text, TensorSpec(k.dtype, dims))
        return
    if kind == "write" and g.maybe(0.8):
        value = g.need(k.dtype, dims)
        if value is not None:
            g.emit(f"cache.write {value.name} >> {text};")
            return
    found = read_into(g, text, TensorSpec(k.dtype, dims))
    if found is None:
        return
    changed = g.op(g.pick(["add", "max", "relu", "neg", "and", "not", "flip"]), [found]) or [found]
    g.emit(f"cache.write {changed[0].name} >> {text};")


def _reset(g: Pool, k: Growing) -> None:
    if not k.table or g.maybe(0.3):
        g.emit(f"cache.reset {k.name}{g.pick(['', '[]'])};")
        return
    count = g.chance.randint(1, len(k.table))
    g.emit(f"cache.reset {_shown(k, [index(g) for _ in range(count)])};")


def read_into(g: Pool, text: str, spec: TensorSpec) -> Var | None:
    """`cache.read ACCESS >> t;` with a place for it."""
    target = g.place(spec)
    if target is None or target.dtype != spec.dtype:
        target = g.assign(spec.dtype, spec.dims)
    assert target is not None
    g.emit(f"cache.read {text} >> {target.name};")
    return target
