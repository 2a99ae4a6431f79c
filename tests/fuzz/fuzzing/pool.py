"""What a program has so far while it is drawn: its variables, and the places of new statements."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzzing.tree import Block, Declaration, Node
from fuzzing.values import EDGES, draw
from openinfer.dialects.opset import OpError, TensorSpec, find, infer_outputs
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import value_range

Dims = tuple[Size, ...]
RUNTIME = ("N", "M")
"""Sizes that the inputs fix, another value in another step."""
TYPICAL = {"N": 5, "M": 4}
LARGEST = 3000
"""No value has more elements than this for typical sizes."""
HINTS = ("fuse = false", "fuse = true", "no_reorder = true", 'group = "g"', 'placement = "cpu"')


@dataclass(eq=False)
class Var:
    """A variable of the program, with the type that it has at this point of the text."""

    name: str
    dtype: str
    dims: Dims
    memory: str
    """"dynamic", "constant", "volatile", "persistent" or "temporary"; "literal" for a number, whose name is
    its text."""
    open: frozenset[int] = frozenset()
    """Axes that are declared `_`."""
    role: str = ""
    """"count": an integer scalar that bounds and indices may name; "indices": small integers;
    "size": a scalar that dimensions of persistent variables name, which seldom changes; "edge": a
    number that is too large for most places."""

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, self.dims)

    @property
    def writable(self) -> bool:
        return self.memory in ("volatile", "temporary") and not self.role

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass
class Growing:
    """A persistent variable with indices."""

    name: str
    dtype: str
    dims: Dims
    table: tuple[str, ...]
    auto: tuple[str, ...]
    fixed: Mapping[str, int]


@dataclass
class Index:
    """A loop around the present place."""

    name: str
    most: int
    """About the largest value that it takes."""


@dataclass
class Pool:
    """The program so far. What it draws depends on the seed alone."""

    seed: int
    chance: random.Random = field(init=False)
    vars: list[Var] = field(default_factory=list[Var])
    inputs: list[Var] = field(default_factory=list[Var])
    """All dynamic variables."""
    growing: list[Growing] = field(default_factory=list[Growing])
    scalars: list[Var] = field(default_factory=list[Var])
    """Persistent scalars that can be counted."""
    declarations: list[Declaration] = field(default_factory=list[Declaration])
    blocks: list[Block] = field(default_factory=list[Block])
    content: OinfContent = field(default_factory=OinfContent)
    nodes: list[Node] = field(default_factory=list[Node])
    """The body that grows now."""
    loops: list[Index] = field(default_factory=list[Index])
    depth: int = 0
    block: str = "entry"
    unreadable: set[str] = field(default_factory=set[str])
    unwritable: set[str] = field(default_factory=set[str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """What a dynamic size can be called now: token → expression."""
    defined: dict[Size, str] = field(default_factory=dict[Size, str])
    """The names of sizes that the program defines."""
    steady: set[str] = field(default_factory=set[str])
    """Scalars of role "size" that nothing has changed before this place: dimensions may name them."""
    short: bool = field(init=False)
    """Whether this program has the short forms of the language (`short.py`)."""
    own_sizes: list[str] = field(default_factory=list[str])
    """The sizes that the bodies around the present place define."""
    edges: bool = False
    """Whether this program has numbers that are too large for where they stand."""
    dtypes: tuple[str, ...] = ("f32",)
    """The dtypes of this program."""
    count: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.short = self.seed % 5 in (0, 2)

    # Chance

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def pick(self, items: Sequence[Any]) -> Any:
        return self.chance.choice(items)

    # Text

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def emit(self, text: str, body: list[Node] | None = None) -> None:
        self.nodes.append(Node(text, body))

    def hints(self, probability: float = 0.05) -> str:
        return f" with {{ {self.pick(HINTS)} }}" if self.maybe(probability) else ""

    def dim_text(self, size: Size) -> str | None:
        """A dimension as the text can say it here; None when it cannot."""
        known = {*RUNTIME, *self.steady, *(index.name for index in self.loops)}
        if size.names <= known:
            return self.size_text(size)
        token = size.single_name
        return self.texts.get(token) if token is not None else None

    def size_text(self, size: Size) -> str:
        """A size as the text says it, at times by the name of a definition."""
        name = self.defined.get(size)
        return name if name is not None and self.maybe(0.7) else size_text(size)

    def token(self, text: str | None = None) -> Size:
        """A dynamic size: equal only to itself."""
        name = self.fresh("dynamic")
        if text is not None:
            self.texts[name] = text
        return Size.name(name)

    def forget(self, name: str) -> None:
        """A scalar has another value from here on: dynamic sizes cannot be called by it."""
        self.texts = {
            token: text
            for token, text in self.texts.items()
            if name not in re.findall(r"[A-Za-z_]\w*", text)
        }

    @contextmanager
    def body(self) -> Generator[list[Node]]:
        """Statements inside of it stand in a body of their own."""
        outer, self.nodes = self.nodes, []
        known, self.own_sizes = self.own_sizes, list(self.own_sizes)
        self.depth += 1
        try:
            yield self.nodes
        finally:
            for name in self.own_sizes:
                if name not in known:
                    self.forget(name)
            self.nodes, self.own_sizes = outer, known
            self.depth -= 1

    @contextmanager
    def own_body(self) -> Generator[list[Node]]:
        """The same for a block, which does not see the sizes of the bodies that it is called from."""
        outer, self.own_sizes = self.own_sizes, []
        with self.body() as nodes:
            yield nodes
        self.own_sizes = outer

    # Variables

    def readable(self, accept: Callable[[Var], bool] = lambda _: True) -> list[Var]:
        return [v for v in self.vars if v.name not in self.unreadable and accept(v)]

    def some(self, accept: Callable[[Var], bool] = lambda _: True) -> Var | None:
        """A variable that fits, new ones more often than old ones."""
        found = self.readable(accept)
        if not found:
            return None
        if self.maybe(0.5):
            return self.pick(found[-5:])
        return self.pick(found)

    def declare(self, section: str, var: Var, extra: str = "") -> Var:
        dims = ", ".join(
            "_" if axis in var.open else self.size_text(dim) for axis, dim in enumerate(var.dims)
        )
        shape = f"[{dims}]" if var.dims else ""
        text = f"{var.name}: {var.dtype}{shape}{extra}"
        self.declarations.append(Declaration(section, var.name, text))
        self.vars.append(var)
        if section == "dynamic":
            self.inputs.append(var)
        return var

    def assign(self, dtype: str, dims: Dims) -> Var | None:
        """A new temporary; dimensions that have no name here are left open."""
        texts = [self.dim_text(d) for d in dims]
        shown = ["_" if t is None or self.maybe(0.07) else t for t in texts]
        var = Var(
            self.fresh("t"),
            dtype,
            dims,
            "temporary",
            frozenset(axis for axis, text in enumerate(shown) if text == "_"),
        )
        shape = f"[{', '.join(shown)}]" if dims else ""
        self.emit(f"assign {var.name}: {dtype}{shape};")
        self.vars.append(var)
        return var

    def place(self, spec: TensorSpec, operands: Sequence[Var] = ()) -> Var | None:
        """Where a result goes: an old variable, at times an operand, or a new one."""
        dtype = spec.dtype
        if DTYPES[dtype].is_float and self.maybe(0.06):
            dtype = self.pick([d for d in self.dtypes if DTYPES[d].is_float] or [dtype])

        def fits(v: Var) -> bool:
            return (
                v.writable
                and v.name not in self.unwritable
                and v.dtype == dtype
                and v.rank == spec.rank
                and all(
                    x == y or (a in v.open and is_dynamic(x) and is_dynamic(y))
                    for a, (x, y) in enumerate(zip(v.dims, spec.dims))
                )
            )

        again = [v for v in operands if fits(v)]
        if again and self.maybe(0.35):
            return self.written(self.pick(again), spec.dims)
        old = self.readable(fits)
        if old and self.maybe(0.35 + 0.15 * self.depth):
            return self.written(self.pick(old), spec.dims)
        named = all(d.names <= set(RUNTIME) for d in spec.dims)
        if named and self.maybe(0.2):
            extra = self.init(dtype) if self.maybe(0.2) else ""
            return self.declare(
                "volatile", Var(self.fresh("v"), dtype, spec.dims, "volatile"), extra
            )
        return self.assign(dtype, spec.dims)

    def written(self, var: Var, dims: Dims) -> Var:
        """A variable that is written now: its open axes have these sizes from here on."""
        var.dims = tuple(dims)
        return var

    def edge(self) -> str:
        """A number that is far too large for a place that counts, as text: known now or in the step."""
        known = self.readable(lambda v: v.role == "edge")
        if self.maybe(0.5):
            return str(self.pick(EDGES))
        if known and self.maybe(0.6):
            return self.pick(known).name
        dtype = self.pick(["i64", "i64", "i32", "u32", "u64", "u8"])
        var = Var(self.fresh("e"), dtype, (), "dynamic", role="edge")
        return self.declare("dynamic", var).name

    def far(self) -> int | Size:
        """The same as a setting of an op; at times negative."""
        text = self.edge()
        return int(text) * self.pick([1, 1, -1]) if text.isdigit() else Size.name(text)

    def init(self, dtype: str) -> str:
        """An `@init` that the dtype can hold."""
        return f" @init({self.number(dtype)})"

    def number(self, dtype: str) -> str:
        """A number that the dtype can hold."""
        row = DTYPES[dtype]
        if row.kind in ("bitset", "ternary"):
            return "1"
        if row.kind == "bool":
            return self.pick(["true", "false"])
        if row.is_float:
            return str(self.pick([0.5, -1.0, 2.0, 1.5, 0.0, 1e-3]))
        bounds = value_range(row)
        assert bounds is not None
        return str(max(bounds[0], min(bounds[1], self.pick([1, 2, 3, -1, 7]))))

    def need(self, dtype: str, dims: Dims, role: str = "") -> Var | None:
        """A variable of exactly this type: an old one, or an input, constant or temporary."""
        found = self.readable(lambda v: v.dtype == dtype and v.dims == dims and v.role == role)
        if found and self.maybe(0.7):
            return self.pick(found)
        if not all(d.names <= set(RUNTIME) for d in dims):
            return self.pick(found) if found else None
        if role:
            return self.declare("dynamic", Var(self.fresh("k"), dtype, dims, "dynamic", role=role))
        fixed = all(d.constant is not None for d in dims)
        if fixed and self.maybe(0.4):
            return self.constant(dtype, dims)
        return self.declare("dynamic", Var(self.fresh("a"), dtype, dims, "dynamic"))

    def constant(self, dtype: str, dims: Dims) -> Var:
        """A constant of the package, or one with `@init`."""
        var = Var(self.fresh("W"), dtype, dims, "constant")
        if DTYPES[dtype].oinf_id is None or DTYPES[dtype].kind == "bitset" or self.maybe(0.15):
            return self.declare("constant", var, self.init(dtype))
        shape = [d.evaluate({}) for d in dims]
        mode = self.pick(["normal", "normal", "small"])
        values = draw(dtype, shape, mode, np.random.default_rng([self.seed, self.count]))
        self.content.tensors[var.name] = values
        return self.declare("constant", var)

    # Ops

    def op(
        self,
        name: str,
        operands: Sequence[Var | None],
        settings: Mapping[str, object] | None = None,
        outputs: int = 1,
        declared: TensorSpec | None = None,
    ) -> list[Var] | None:
        """Emits one node when the op takes these operands, and its results have places."""
        inputs = [v for v in operands if v is not None]
        spec = find(name)
        assert spec is not None
        given = {k: v for k, v in (settings or {}).items() if v is not None}
        if len(inputs) != len(operands):
            return None
        try:
            wanted = None if declared is None else [declared]
            results = infer_outputs(spec, [v.spec for v in inputs], given, outputs, wanted)
        except OpError:
            return None
        if any(_count(r.dims) > LARGEST for r in results):
            return None
        shown = {k: self.literal(v) for k, v in given.items()}
        if None in shown.values():
            return None
        targets: list[Var] = []
        for result in results:
            target = self.place(result, inputs)
            if target is None or target in targets:
                target = self.assign(result.dtype, result.dims)
            assert target is not None
            targets.append(target)
        names = [self.operand(v) for v in inputs]
        if self.short and not spec.variadic and self.maybe(0.1):
            named = (*spec.operands, *spec.optional)
            names = [f"{operand}={name}" for operand, name in zip(named, names)]
        arguments = names + [f"{k}={v}" for k, v in shown.items()]
        called = self.pick((name, *spec.aliases)) if self.maybe(0.2) else name
        written = ", ".join(v.name for v in targets)
        self.emit(f"op {called}({', '.join(arguments)}) >> {written}{self.hints()};")
        return targets

    def operand(self, v: Var) -> str:
        """A variable as an operand; in short programs at times what stands for an op of it."""
        kind = self.chance.random() if self.short and v.memory != "literal" else 1.0
        negated = find("neg")
        assert negated is not None
        if kind < 0.08 and v.dtype in negated.dtypes:
            return f"neg({v.name})"
        ends = [self.dim_text(dim) for dim in v.dims[:2]]
        if kind < 0.12 and ends and ends[0] is not None:
            return f"{v.name}[0..{ends[0]}]"
        if kind < 0.15 and len(ends) > 1 and ends[1] is not None:
            return f"{v.name}[, 0..{ends[1]}]"
        return v.name

    def literal(self, value: object) -> str | None:
        """A setting as the text writes it; None for what has no name here."""
        match value:
            case bool():
                return str(value).lower()
            case Size():
                return self.dim_text(value)
            case list() | tuple():
                items = [self.literal(item) for item in value]
                return None if None in items else f"[{', '.join(str(i) for i in items)}]"
            case str():
                return value if value in DTYPES else f'"{value}"'
            case float() if value != value:
                return "nan"
            case _:
                return str(value)


def is_dynamic(size: Size) -> bool:
    """Whether only the step knows a size."""
    return any(name.startswith("dynamic") for name in size.names)


def _count(dims: Dims) -> int:
    total = 1
    for dim in dims:
        values = {name: TYPICAL.get(name, 5) for name in dim.names}
        total *= max(1, dim.evaluate(values))
    return total


def size_text(size: Size) -> str:
    """A size as the language writes it."""
    terms: list[str] = []
    for monomial, coefficient in size.terms:
        factors = [] if coefficient == 1 and monomial else [str(coefficient)]
        for atom in monomial:
            operands = [size_text(a) for a in atom[1:] if isinstance(a, Size)]
            match atom[0]:
                case "name":
                    factors.append(str(atom[1]))
                case "floordiv":
                    factors.append(f"(({operands[0]}) / ({operands[1]}))")
                case other:
                    factors.append(f"{other}({', '.join(operands)})")
        terms.append(" * ".join(factors))
    return " + ".join(terms).replace("+ -", "- ") or "0"
