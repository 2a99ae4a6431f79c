"""Statements with bodies and blocks: loops, scopes, branches, consumers; barriers and transfers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fuzzing.ops_elements import is_float, is_integer
from fuzzing.pool import HINTS, RUNTIME, Index, Pool, Var
from fuzzing.tree import Block

Body = Callable[[Pool, int], None]
"""Draws so many statements."""


def loop(g: Pool, draw: Body) -> None:
    """A loop whose body runs a few times, or not at all."""
    counting = ("count", "indices", "size")
    scalars = [v.name for v in g.readable(lambda v: v.rank == 0 and v.role in counting)]
    start = g.pick(["0"] * 6 + ["1"] + [i.name for i in g.loops])
    most = 3
    match g.pick(["number", "number", "size", "scalar" if scalars else "number", "other"]):
        case "number":
            stop = g.pick(["2", "3", "2", "1", "0"])
        case "size":
            stop, most = g.pick(["N", "M", "M - 1", "N / 2", "min(N, 3)", "max(M, 2)"]), 6
        case "scalar":
            stop = g.pick(scalars)
            stop, most = g.pick([stop, f"{stop} + 1"]), 6
        case _:
            stop = f"{start} + {g.pick([1, 2])}" if start != "0" else "2 * 1 + 1"
    if g.edges and g.maybe(0.25):
        # Few rounds, far away.
        edge = g.edge()
        start, stop = g.pick(
            [(edge, f"{edge} + 2"), (f"{edge} - 1", edge), (f"0 - {edge}", "0 - " + edge + " + 1")]
        )
        most = 2**40
    index = g.fresh("i")
    outer = list(g.loops)
    g.loops = [*outer, Index(index, most if stop not in ("2", "3", "1", "0") else 2)]
    before = list(g.vars)
    with g.body() as nodes:
        draw(g, g.chance.randint(1, 5))
        if g.maybe(0.05):
            g.emit("return;")
    g.loops = outer
    hints = f" with {{ {g.pick(HINTS)} }}" if g.maybe(0.05) else ""
    g.emit(f"loop {g.fresh('l')} ({index} in {start}..{stop}){hints}", nodes)
    _leave(g, before, {index})


def scope(g: Pool, draw: Body) -> None:
    with g.body() as nodes:
        draw(g, g.chance.randint(1, 4))
    hints = f" with {{ {g.pick(HINTS)} }}" if g.maybe(0.1) else ""
    g.emit(f'scope "{g.fresh("part ")}"{hints}', nodes)


def _leave(g: Pool, before: list[Var], names: set[str]) -> None:
    """Behind a body: dimensions that were written in it are known no more."""
    for var in g.vars:
        if any(axis in var.open for axis in range(var.rank)) and var.memory == "temporary":
            var.dims = tuple(g.token() if a in var.open else d for a, d in enumerate(var.dims))
    for name in names:
        g.forget(name)
    known = set(map(id, before))
    g.vars = [v for v in g.vars if id(v) in known or (_outlives(g, v, names) and g.maybe(0.8))]


def _outlives(g: Pool, v: Var, names: set[str]) -> bool:
    """Whether a temporary of a loop is used behind it; nobody knows dimensions that its index gave."""
    inner = [axis for axis, dim in enumerate(v.dims) if dim.names & names]
    if inner and g.maybe(0.7):
        return False
    v.dims = tuple(g.token() if axis in inner else dim for axis, dim in enumerate(v.dims))
    return True


def condition(g: Pool) -> Var | None:
    """A bool or integer of one element, from data or from a counter."""
    kind = g.pick(["old", "old", "compare", "finite", "input"])
    if kind == "input":
        return g.need("bool", ())
    if kind == "finite":
        x = g.some(is_float)
        found = g.op("is_finite", [x]) if x is not None else None
        return found[0] if found else None
    if kind == "compare":
        x = g.some(lambda v: v.rank == 0 and (is_integer(v) or is_float(v)))
        y = g.some(lambda v: v.rank == 0 and x is not None and v.dtype == x.dtype)
        found = g.op(g.pick(["lt", "ge", "eq", "ne"]), [x, y])
        return found[0] if found else None
    return g.some(lambda v: v.rank == 0 and (v.dtype == "bool" or is_integer(v)))


def branch(g: Pool, draw: Body) -> None:
    """A call of one of two blocks, or of one without asking."""
    decider = condition(g) if g.maybe(0.85) else None
    names = [_called(g, draw) for _ in range(2 if decider is not None else 1)]
    g.emit(f"branch {decider.name if decider else ''} {' '.join(names)};".replace("  ", " "))
    _leave(g, list(g.vars), set())


def _called(g: Pool, draw: Body) -> str:
    """The name of a block that is called; temporaries of its own stay inside."""
    name = g.fresh("block")
    outer = g.loops, list(g.vars), g.block, dict(g.texts)
    g.loops, g.block = [], name
    with g.own_body() as nodes:
        if not g.maybe(0.1):
            draw(g, g.chance.randint(1, 3))
    own = {id(v) for v in outer[1]}
    made = [v for v in g.vars if id(v) not in own and v.memory != "temporary"]
    g.loops, g.vars, g.block = outer[0], [*outer[1], *made], outer[2]
    g.texts = {token: text for token, text in outer[3].items() if token in g.texts}
    hints = f" with {{ {g.pick(HINTS)} }}" if g.maybe(0.05) else ""
    g.blocks.append(Block(name, nodes, hints=hints))
    return name


def call(g: Pool, draw: Body) -> None:
    """A block with parameters, which is called once or twice: with a value, a number and a tensor's name."""
    given = g.some(_can_be_given)
    if given is None:
        return
    again = g.readable(
        lambda v: _can_be_given(v) and v.dtype == given.dtype and v.rank == given.rank
    )
    name, parameter, number = g.fresh("part"), g.fresh("p"), g.fresh("p")
    outer = g.loops, list(g.vars), g.block, dict(g.texts)
    value = Var(parameter, given.dtype, given.dims, "dynamic")
    g.loops, g.block, g.texts = [], name, {}
    g.vars = [*(v for v in g.vars if v.memory != "temporary"), value]
    block = Block(name, [])
    scaled = given.dtype == "f32" and given.rank > 0
    with g.own_body() as nodes:
        if scaled:
            first = g.assign("f32", given.dims)
            assert first is not None
            g.emit(f"op mul({parameter}, {number}_w) >> {first.name};")
            g.emit(f"op add({first.name}, {number}) >> {first.name};")
        draw(g, g.chance.randint(1, 4))
    block.nodes = nodes
    made = [v for v in g.vars if v.memory == "temporary"]
    results = g.chance.sample(made, min(len(made), g.pick([0, 1, 1, 1, 2])))
    if made and g.maybe(0.1):
        results.append(value)  # a parameter may be a result
    g.loops, g.block, g.texts = outer[0], outer[2], outer[3]
    shared = [v for v in g.vars if v.memory not in ("temporary", "dynamic")]
    g.vars = [*outer[1], *(v for v in (*shared, *g.inputs) if v not in outer[1])]
    block.parameters = f"({parameter})"
    if scaled:
        block.parameters = f"({parameter}, {number}_path, {number}=0.5)"
        block.constants = f'{number}_w: f32[_] @ref("{{{number}_path}}.w");'
    block.end = f"return {', '.join(v.name for v in results)};" if results else "return;"
    g.blocks.append(block)
    for operand in [given, *([g.pick(again)] if g.maybe(0.5) else [])]:
        arguments = [operand.name]
        if scaled:
            tensor = f"{number}.{g.pick(['a', 'b'])}"
            g.content.tensors[f"{tensor}.w"] = np.array([g.pick([0.5, 2.0, -1.0])], np.float32)
            arguments.append(f'"{tensor}"')
            if g.maybe(0.5):
                arguments.append(f"{number}={g.pick(['1.0', '-0.25'])}")
        _called_with(g, name, arguments, results, same=operand is given)


def _can_be_given(v: Var) -> bool:
    return v.role == "" and v.memory != "literal"


def _called_with(g: Pool, name: str, given: list[str], results: list[Var], *, same: bool) -> None:
    """A call; with another operand, nobody knows the sizes of its results."""
    targets: list[Var] = []
    for result in results:
        known = {name for dim in result.dims for name in dim.names} <= set(RUNTIME)
        dims = result.dims if same and known else tuple(g.token() for _ in result.dims)
        old = g.place(Var("", result.dtype, dims, "temporary").spec) if g.maybe(0.3) else None
        if old is None or old in targets or old.dtype != result.dtype:
            old = Var(g.fresh("r"), result.dtype, dims, "temporary")
            g.vars.append(old)
        targets.append(old)
    shown = ", ".join(v.name for v in targets)
    g.emit(f"{f'{shown} = ' if targets else ''}branch {name}({', '.join(given)});")


def exchange(g: Pool, draw: Body) -> None:
    """`yield` of one or two values, one to three consumers, other work, `await`."""
    values = [v for v in g.readable() if v.writable and not v.open and v.name not in g.unwritable]
    if g.depth or not values:
        return
    yielded = g.chance.sample(values, min(len(values), g.pick([1, 1, 2])))
    names = [v.name for v in yielded]
    outer = list(g.vars), g.loops, set(g.unreadable), set(g.unwritable), dict(g.texts)
    everything = {v.name for v in g.vars} | {k.name for k in g.growing}
    state = [v.name for v in outer[0] if v.memory == "persistent"] + [k.name for k in g.growing]
    g.chance.shuffle(state)
    made: list[Var] = []
    writers = {v.name for v in yielded}
    for _ in range(g.pick([1, 2, 2, 3])):
        awaited = g.chance.sample(names, g.chance.randint(1, len(names)))
        own = {state.pop() for _ in range(min(len(state), g.pick([0, 0, 1])))}
        mine = {n for n in awaited if n in writers and g.maybe(0.4)}
        writers -= mine
        g.loops, g.vars = [], list(outer[0])
        # A consumer reads its values and what nobody writes, and writes what is its own.
        g.unreadable = outer[2] | (set(names) - set(awaited))
        g.unreadable |= {v.name for v in outer[0] if v.memory == "persistent"} - own
        g.unreadable |= {k.name for k in g.growing} - own
        g.unwritable = outer[3] | (everything - mine - own)
        block = Block(g.fresh("consumer"), [], f"yield {', '.join(awaited)};")
        block.begin = f"await {', '.join(awaited)};"
        with g.own_body() as nodes:
            draw(g, g.chance.randint(1, 4))
        block.nodes = nodes
        g.blocks.append(block)
        made += [v for v in g.vars if v not in outer[0] and v.memory not in ("temporary",)]
    g.emit(f"yield {', '.join(names)};")
    g.vars, g.loops, g.texts = outer[0], outer[1], outer[4]
    g.unreadable = outer[2] | set(names) | {v.name for v in made if v.memory != "constant"}
    g.unreadable |= {v.name for v in outer[0] if v.memory == "persistent"} - set(state)
    g.unreadable |= {k.name for k in g.growing} - set(state)
    g.unwritable = outer[3] | (everything - set(state))
    if g.maybe(0.6):
        draw(g, g.chance.randint(1, 3))
    g.unreadable, g.unwritable = outer[2], outer[3]
    if g.maybe(0.2) and len(names) == 2:
        for name in names:
            g.emit(f"await {name};")
    else:
        g.emit(f"await {', '.join(names)};")
    g.vars += [v for v in made if v not in g.vars]


def plain(g: Pool) -> None:
    """A transfer, barrier or dep."""
    kind = g.pick(["transfer", "transfer", "transfer", "barrier", "dep"])
    if kind == "barrier":
        g.emit("barrier;")
    elif kind == "dep":
        ops = ["cache.read", "cache.write", "add", "matmul", "relu", "transfer", "cache.increment"]
        g.emit(f"dep after({g.pick(ops)}) before({g.pick(ops)});")
    else:
        x = g.some()
        target = g.place(x.spec) if x is not None else None
        if x is not None and target is not None and target is not x and target.dtype == x.dtype:
            g.emit(f"transfer {x.name} >> {target.name};")
