"""Draws small valid programs: ops of the registry, run-time sizes, loops, branches, in-place writes.

The generator knows what is legal and nothing of what an op computes. It keeps values tame: an op
that may grow them is followed by `tanh`, and an op that jumps (a comparison, a rounding) reads only
values that are the same to the last bit on every executor.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.tensors import Tensor

Dims = tuple[Size, ...]
RUNTIME = ("N", "M")
FAMILIES: tuple[tuple[str, ...], ...] = (
    ("f32",),
    ("f32",),
    ("f32",),
    ("f32", "f64"),
    ("f32", "f16"),
    ("f32", "bf16"),
)
MEMBERS = 3


@dataclass(frozen=True)
class Variable:
    """A value of the program that ops may read, and write when it is no input and no constant."""

    name: str
    dtype: str
    dims: Dims
    exact: bool
    """Whether every executor has the same bits."""
    writable: bool = True

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, self.dims)

    @property
    def declaration(self) -> str:
        dims = ", ".join(str(d) for d in self.dims)
        return f"{self.name}: {self.dtype}{f'[{dims}]' if dims else ''}"


@dataclass
class Program:
    """A program with what it needs to run."""

    seed: int
    text: str
    package: OinfContent
    inputs: list[Variable]
    sizes: dict[str, int]
    loosest: str
    """The float dtype whose tolerance holds for every float of the program."""

    def draw(self, sizes: dict[str, int] | None = None) -> dict[str, Tensor]:
        """Inputs, the same for the same seed and sizes."""
        chance = np.random.default_rng([self.seed, *(sizes or self.sizes).values()])
        found: dict[str, Tensor] = {}
        for variable in self.inputs:
            shape = tuple(d.evaluate(sizes or self.sizes) for d in variable.dims)
            found[variable.name] = Tensor.from_values(
                variable.dtype, _values(variable.dtype, shape, chance)
            )
        return found


def _values(dtype: str, shape: Sequence[int], chance: np.random.Generator) -> AnyArray:
    if dtype == "bool":
        return chance.random(shape) < 0.5
    if dtype.startswith("i"):
        return chance.integers(0, 2, shape) if dtype == "i64" else chance.integers(-9, 10, shape)
    return chance.standard_normal(shape)


_SMOOTH = "tanh sigmoid silu gelu erf sin cos softplus".split()
_PLAIN = "neg abs relu".split()
_JUMPS = "floor ceil round trunc sign".split()
_FLOAT_PAIRS = "add sub mul min max".split()
_INTEGER_PAIRS = "add sub mul min max and or xor floor_div rem".split()
_COMPARE = "eq ne lt le gt ge".split()


@dataclass
class _Generator:
    seed: int
    chance: random.Random = field(init=False)
    pool: list[Variable] = field(default_factory=list[Variable])
    declarations: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    blocks: list[str] = field(default_factory=list[str])
    tensors: dict[str, AnyArray] = field(default_factory=dict[str, AnyArray])
    lines: list[str] = field(default_factory=list[str])
    depth: int = 0
    fixed: bool = False
    """In a loop or a called block nothing new is declared: only what stands there is written."""
    inexact: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.floats = self.chance.choice(FAMILIES)
        self.stateful = self.chance.random() < 0.6
        self.declarations = {"dynamic": [], "constant": [], "volatile": []}
        self.members: Variable | None = None

    # Text

    def emit(self, line: str) -> None:
        self.lines.append("    " * (self.depth + 1) + line)

    def name(self, kind: str) -> str:
        return f"{kind}{len(self.pool)}"

    # Values

    def dim(self) -> Size:
        return Size.of(self.chance.choice([1, 2, 3, 4, 5, 8, 17, "N", "N", "M"]))

    def add(self, variable: Variable, section: str | None, extra: str = "") -> Variable:
        if section is not None:
            self.declarations[section].append(f"    {variable.declaration}{extra};")
        self.pool.append(variable)
        return variable

    def inputs(self) -> None:
        anchor = Variable("x", self.chance.choice(self.floats), self._dims("N", "M"), True, False)
        self.add(anchor, "dynamic")
        for number in range(self.chance.randint(1, 3)):
            dtype = self.chance.choice([*self.floats, *self.floats, "i32", "i8", "bool"])
            dims = tuple(self.dim() for _ in range(self.chance.randint(0, 3)))
            self.add(Variable(f"a{number}", dtype, dims, True, False), "dynamic")
        self.add(Variable("rows", "i64", self._dims(3), True, False), "dynamic")
        for _ in range(self.chance.randint(0, 2)):
            self.constant()
        if self.chance.random() < 0.5:
            dims = self._dims(4, 4)
            numbers = np.random.default_rng(self.seed).standard_normal((MEMBERS, 4, 4)) / 2
            for index in range(MEMBERS):
                self.tensors[f"V.{index}"] = numbers[index].astype(np.float32)
            self.members = Variable("V", "f32", dims, True, False)
            self.declarations["constant"].append('    V(l): f32[4, 4] @pattern("V.{l}");')

    def state(self) -> None:
        """Values of shapes that fit each other, for loops and blocks to change in place."""
        square = Variable("square", "f32", self._dims(4, 4), True, False)
        rows = Variable("tall", "f32", self._dims("N", 4), True, False)
        for variable in (square, rows):
            self.add(variable, "dynamic")
        flat = [("f0", self._dims(2, 8)), ("f1", self._dims(16))]
        for name, dims in [("s0", square.dims), ("s1", square.dims), ("s2", square.dims), *flat]:
            self.emit(f"assign {Variable(name, 'f32', dims, False).declaration};")
        for name in ("r0", "r1"):
            self.emit(f"assign {name}: f32[N, 4];")
            self.add(Variable(name, "f32", rows.dims, False), None)
        for name, op in (("s0", "sin"), ("s1", "cos"), ("s2", "tanh")):
            self.emit(f"op {op}(square) >> {name};")
            self.add(Variable(name, "f32", square.dims, False), None)
        self.emit("op sin(tall) >> r0;")
        for name, dims in flat:
            self.add(Variable(name, "f32", dims, False), None)

    @staticmethod
    def _dims(*sizes: int | str) -> Dims:
        return tuple(Size.of(s) for s in sizes)

    def constant(self) -> Variable:
        rows, columns = self.chance.choice([2, 4, 5, 17]), self.chance.choice([1, 3, 4, 33])
        name = self.name("W")
        numbers = np.random.default_rng([self.seed, len(self.pool)]).standard_normal(
            (rows, columns)
        )
        self.tensors[name] = (numbers / 2).astype(np.float32)
        return self.add(Variable(name, "f32", self._dims(rows, columns), True, False), "constant")

    def some(self, accept: object = None) -> Variable | None:
        assert accept is None or callable(accept)
        found = [v for v in self.pool if accept is None or accept(v)]
        return self.chance.choice(found) if found else None

    def target(self, spec: TensorSpec, exact: bool) -> Variable | None:
        """Where a result goes: an old variable, an operand perhaps, or a new one."""
        old = [v for v in self.pool if v.writable and v.spec == spec and v.exact == exact]
        if old and (self.fixed or self.chance.random() < 0.5):
            return self.chance.choice(old)
        if self.fixed:
            return None
        if any("floordiv" in str(d) for d in spec.dims):
            return None
        if not exact:
            self.inexact.add(spec.dtype)
        if self.chance.random() < 0.3:
            return self.add(Variable(self.name("v"), spec.dtype, spec.dims, exact), "volatile")
        variable = Variable(self.name("t"), spec.dtype, spec.dims, exact)
        self.emit(f"assign {variable.declaration};")
        return self.add(variable, None)

    def op(
        self,
        op: str,
        operands: Sequence[Variable],
        settings: dict[str, object] | None = None,
        *,
        exact: bool | None = None,
        texts: Sequence[str] | None = None,
    ) -> Variable | None:
        """Emits one node when the op takes these operands and its result has a place."""
        spec = find(op)
        assert spec is not None
        given = settings or {}
        try:
            (result,) = infer_outputs(spec, [v.spec for v in operands], given, 1)
        except OpError:
            return None
        count = result.count.evaluate({"N": 9, "M": 9})
        if count > 4000:
            return None
        same = all(v.exact for v in operands) and exact is not False
        target = self.target(result, same)
        if target is None:
            return None
        arguments = [*(texts or [v.name for v in operands])]
        arguments += [f"{k}={_literal(v)}" for k, v in given.items()]
        self.emit(f"op {op}({', '.join(arguments)}) >> {target.name};")
        return target

    # Nodes

    def nodes(self, count: int) -> None:
        rules = [
            *[self.unary] * 4,
            *[self.binary] * 5,
            *[self.matmul] * 3,
            *[self.reduce] * 2,
            *[self.normalise] * 2,
            *[self.move] * 4,
            self.gather,
            self.cast,
            self.select,
            self.transfer,
            self.attention,
            self.barrier,
        ]
        if self.depth < 2:
            rules += [self.loop, self.loop, self.branch, self.branch]
            rules += [self.loop] * 4 if self.stateful else []
        for _ in range(count):
            self.chance.choice(rules)()

    def unary(self) -> None:
        x = self.some(lambda v: v.dtype in self.floats)
        if x is None:
            return
        if x.exact and self.chance.random() < 0.2:
            self.op(self.chance.choice(_JUMPS), [x])
            return
        name = self.chance.choice([*_SMOOTH, *_PLAIN])
        self.op(name, [x], exact=name in _PLAIN)

    def binary(self) -> None:
        x = self.some(lambda v: v.dtype != "bool")
        if x is None:
            return
        kind = x.dtype
        y = self.some(lambda v: v.dtype == kind)
        assert y is not None
        if self.chance.random() < 0.5:
            x, y = y, x
        if x.dtype.startswith("i"):
            self.op(self.chance.choice(_INTEGER_PAIRS), [x, y])
            return
        if x.exact and y.exact and self.chance.random() < 0.2:
            self.op(self.chance.choice(_COMPARE), [x, y])
            return
        name = self.chance.choice(_FLOAT_PAIRS)
        # A product may be contracted with a sum, so only a lone operation has the same bits.
        self.tame(self.op(name, [x, y], exact=name in ("min", "max")))

    def tame(self, variable: Variable | None) -> None:
        if variable is not None and (self.depth > 0 or self.chance.random() < 0.4):
            if not variable.exact:
                self.emit(f"op tanh({variable.name}) >> {variable.name};")

    def matmul(self) -> None:
        a = self.some(lambda v: v.dtype in (*self.floats, "i32", "i8") and len(v.dims) >= 2)
        if a is None:
            return
        flags: dict[str, object] = {}
        for flag in ("transpose_a", "transpose_b"):
            if self.chance.random() < 0.3:
                flags[flag] = True
        if self.members is not None and a.dtype == "f32" and self.chance.random() < 0.4:
            index = str(self.chance.randrange(MEMBERS))
            self.tame(
                self.op(
                    "matmul", [a, self.members], flags, exact=False, texts=[a.name, f"V[{index}]"]
                )
            )
            return
        fitting = [v for v in self.pool if len(v.dims) >= 2 and v.dtype == a.dtype]
        self.chance.shuffle(fitting)
        for b in fitting:
            made = self.op("matmul", [a, b], flags, exact=a.dtype.startswith("i") and None)
            if made is not None:
                self.tame(made)
                return

    def reduce(self) -> None:
        x = self.some(lambda v: v.dtype != "bool" and len(v.dims) > 0)
        if x is None:
            return
        axes = sorted(self.chance.sample(range(len(x.dims)), self.chance.randint(1, len(x.dims))))
        keep = self.chance.random() < 0.5
        if x.exact and self.chance.random() < 0.2:
            name = self.chance.choice(["argmax_axis", "argmin_axis"])
            self.op(name, [x], {"axis": axes[0], "keepdims": keep})
            return
        name = self.chance.choice(["sum_axis", "mean_axis", "max_axis", "min_axis"])
        exact = None if name in ("max_axis", "min_axis") or x.dtype.startswith("i") else False
        self.tame(self.op(name, [x], {"axes": axes, "keepdims": keep}, exact=exact))

    def normalise(self) -> None:
        x = self.some(lambda v: v.dtype in self.floats and len(v.dims) > 0)
        if x is None:
            return
        if self.chance.random() < 0.5:
            axis = self.chance.randrange(len(x.dims))
            self.op(
                self.chance.choice(["softmax", "log_softmax"]), [x], {"axis": axis}, exact=False
            )
            return
        name = self.chance.choice(["layer_norm", "rms_norm"])
        last = self.some(lambda v: v.dtype == x.dtype and v.dims == x.dims[-1:])
        operands = [x, last] if last is not None and self.chance.random() < 0.5 else [x]
        self.op(name, operands, {"eps": 0.01}, exact=False)

    def move(self) -> None:
        x = self.some(lambda v: len(v.dims) > 0)
        if x is None:
            return
        rank = len(x.dims)
        axis = self.chance.randrange(rank)
        match self.chance.randrange(6):
            case 0:
                self.op("transpose", [x], {"perm": self.chance.sample(range(rank), rank)})
            case 1:
                self.op("unsqueeze", [x], {"axes": [axis]})
            case 2:
                shape = [self.chance.choice([1, 2, 4, *x.dims]), -1] if rank > 1 else [1, -1, 1]
                if (
                    self.fixed
                    and x.dtype == "f32"
                    and x.dims in (self._dims(4, 4), self._dims(2, 8), self._dims(16))
                ):
                    shape = self.chance.choice([[4, 4], [4, 4], [2, 8], [16]])
                self.op("reshape", [x], {"shape": shape})
            case 3:
                other = self.some(lambda v: v.dtype == x.dtype and len(v.dims) == rank)
                self.op("concat", [x, other or x], {"axis": axis})
            case 4:
                extent = x.dims[axis].constant
                if extent is None:
                    self.op("slice", [x], {"axis": axis, "start": 1})
                else:
                    start = self.chance.randrange(extent)
                    stop = self.chance.randint(start + 1, extent)
                    step = self.chance.randint(1, 2)
                    self.op(
                        "slice", [x], {"axis": axis, "start": start, "stop": stop, "step": step}
                    )
            case _:
                shape = [*(d if d.constant != 1 else self.dim() for d in x.dims)]
                if self.chance.random() < 0.3:
                    shape.insert(0, Size.of(2))
                self.op("expand", [x], {"shape": shape})

    def gather(self) -> None:
        rows = next(v for v in self.pool if v.name == "rows")
        table = self.some(lambda v: len(v.dims) > 0)
        if table is None:
            return
        axis = self.chance.randrange(len(table.dims))
        extent = table.dims[axis].constant
        if extent is None or extent >= 2:
            self.op("gather", [table, rows], {"axis": axis})

    def cast(self) -> None:
        x = self.some()
        if x is None:
            return
        choices = [*self.floats]
        if x.exact:
            choices += ["i32", "i8", "i64"]
        to = self.chance.choice(choices)
        if to != x.dtype:
            self.op("cast", [x], {"to": to})

    def select(self) -> None:
        condition = self.some(lambda v: v.dtype == "bool")
        x = self.some(lambda v: v.dtype in self.floats)
        if condition is None or x is None:
            return
        y = self.some(lambda v: v.dtype == x.dtype)
        assert y is not None
        self.op("where", [condition, x, y])

    def transfer(self) -> None:
        x = self.some()
        assert x is not None
        target = self.target(x.spec, x.exact)
        if target is not None:
            self.emit(f"transfer {x.name} >> {target.name};")

    def attention(self) -> None:
        """Written out, in the form that a pass recognises or nearly that."""
        if self.fixed:
            return
        q = self.some(lambda v: v.dtype == "f32" and len(v.dims) in (2, 3))
        if q is None or q.dims[-1].constant is None:
            return
        k = self.some(lambda v: v.dtype == "f32" and v.dims == q.dims)
        v = self.some(lambda v: v.dtype == "f32" and v.dims[:-1] == q.dims[:-1] and len(v.dims) > 1)
        if k is None or v is None:
            return
        scores = self.op("matmul", [q, k], {"transpose_b": True}, exact=False)
        if scores is None:
            return
        if self.chance.random() < 0.5:
            self.emit(f"op mul({scores.name}, {self.scalar(0.25)}) >> {scores.name};")
        if self.chance.random() < 0.4:
            mask = self.some(lambda m: m.dtype == "f32" and m.dims == scores.dims[-len(m.dims) :])
            if mask is not None and mask.dims:
                self.emit(f"op add({scores.name}, {mask.name}) >> {scores.name};")
        shares = self.op("softmax", [scores], {"axis": -1}, exact=False)
        if shares is not None:
            order = [shares, v] if self.chance.random() < 0.8 else [v, shares]
            self.op("matmul", order, exact=False)

    def scalar(self, value: float) -> str:
        name = self.name("c")
        self.add(Variable(name, "f32", (), True, False), "constant", f" @init({value})")
        return name

    def barrier(self) -> None:
        self.emit("barrier;")

    def loop(self) -> None:
        bound = self.chance.choice(["2", "3", "N", "M - 1", "0"])
        index = f"i{self.depth}{len(self.lines)}"
        self.emit(f"loop l{len(self.lines)} ({index} in 0..{bound}) {{")
        self.inside(self.chance.randint(1, 6), index if bound in "23" else None)
        self.emit("}")

    def inside(self, count: int, index: str | None) -> None:
        before, self.fixed = self.fixed, True
        self.depth += 1
        start = len(self.lines)
        self.nodes(count)
        if index is not None and self.members is not None:
            state = self.some(
                lambda v: (
                    v.writable
                    and not v.exact
                    and v.dtype == "f32"
                    and v.dims[-1:] == self._dims(4)
                    and len(v.dims) > 1
                )
            )
            if state is not None:
                self.emit(f"op matmul({state.name}, V[{index}]) >> {state.name};")
                self.emit(f"op tanh({state.name}) >> {state.name};")
        if len(self.lines) == start:
            self.emit("barrier;")
        self.depth -= 1
        self.fixed = before

    def branch(self) -> None:
        flag = self.some(lambda v: v.exact and not v.dims and v.dtype in ("bool", "i32", "i8"))
        if flag is None:
            return
        names: list[str] = []
        for _ in range(2):
            outer, self.lines = self.lines, []
            depth, self.depth = self.depth, 0
            fixed, self.fixed = self.fixed, True
            self.nodes_without_branches(self.chance.randint(1, 3))
            body, self.lines, self.depth, self.fixed = self.lines, outer, depth, fixed
            names.append(f"block{len(self.blocks)}")
            text = "\n".join([*body, "    return;"])
            self.blocks.append(f"block {names[-1]} {{\n{text}\n}}\n")
        self.emit(f"branch {flag.name} {names[0]} {names[1]};")

    def nodes_without_branches(self, count: int) -> None:
        for _ in range(count):
            self.chance.choice(
                [self.unary, self.binary, self.matmul, self.normalise, self.transfer]
            )()

    # The program

    def program(self) -> Program:
        self.inputs()
        if self.stateful:
            self.state()
        self.nodes(self.chance.randint(6, 16))
        for variable in [*self.pool[-4:], *(v for v in self.pool if v.name[:2] in ("s0", "r1"))]:
            if variable.writable and not variable.name.startswith("v"):
                name = f"out{len(self.declarations['volatile'])}"
                copy = Variable(name, variable.dtype, variable.dims, variable.exact)
                self.declarations["volatile"].append(f"    {copy.declaration};")
                self.emit(f"transfer {variable.name} >> {name};")
        sections = [
            f"{kind} {{\n" + "\n".join(lines) + "\n}\n"
            for kind, lines in self.declarations.items()
            if lines
        ]
        self.emit("return;")
        entry = "block entry {\n" + "\n".join(self.lines) + "\n}\n"
        inputs = [v for v in self.pool if f"    {v.declaration};" in self.declarations["dynamic"]]
        order = ("f64", "f32", "f16", "bf16")
        used = [order.index(d) for d in self.inexact if d in order]
        return Program(
            self.seed,
            "\n".join([*sections, entry, *self.blocks]),
            OinfContent(tensors=dict(self.tensors)),
            inputs,
            {"N": self.chance.randint(2, 9), "M": self.chance.randint(2, 9)},
            order[max([*used, 1])],
        )


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_literal(v) for v in value)}]"
    return str(value)


def generate(seed: int) -> Program:
    """The program of a seed, always the same."""
    return _Generator(seed).program()
