"""The program of a seed: what it may use, its inputs and statements, its results and steps.

Each program uses a part of the language only, so that forms meet in all combinations and none
drowns the others.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np

from fuzzing import ops_elements, ops_shapes, ops_structured
from fuzzing.caches import cache_statement, declare_state, own_size
from fuzzing.flow import branch, call, exchange, loop, plain, scope
from fuzzing.ops_elements import Rule
from fuzzing.pool import Pool, Var
from fuzzing.short import shorten
from fuzzing.tree import Block, Declaration, Program, Step
from fuzzing.values import MODES, PRIMES, draw, draw_edge, draw_indices, draw_size
from openinfer.dialects import opset
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import Tensor

RULES: dict[str, Rule] = {**ops_elements.RULES, **ops_shapes.RULES, **ops_structured.RULES}
FAMILIES = {
    "floats": (*("f32",) * 4, "f64", "f16", "bf16", "f8", "f8e4m3"),
    "integers": ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"),
    "packed": ("i4", "i2", "i1", "u4", "u2", "u1", "t2", "t1"),
    "rest": ("bool", "bool", "bitset"),
}


def generate(seed: int) -> Program:
    """The program of a seed as it is drawn; some statements may not be legal (`mend.py`).

    Two seeds of five write it in the short forms of the language, as far as they can.
    """
    drawn = _Generator(seed)
    program = drawn.program()
    if drawn.g.short:
        shorten(program, random.Random(f"short {seed}"))
    return program


class _Generator:
    def __init__(self, seed: int) -> None:
        self.g = g = Pool(seed)
        chosen = ["f32", "f32", g.pick(FAMILIES["floats"])]
        for family, probability in (("floats", 0.3), ("integers", 0.6), ("packed", 0.25)):
            if g.maybe(probability):
                chosen.append(g.pick(FAMILIES[family]))
        if g.maybe(0.5):
            chosen.append("bool")
        if g.maybe(0.06):
            chosen.append("bitset")
        if g.maybe(0.05):
            # Without floats, where every bit counts.
            chosen = [g.pick(FAMILIES["integers"]), g.pick(FAMILIES["packed"]), "i32", "bool"]
        if g.maybe(0.15):
            # What is narrow: every kernel converts, packs and has tails.
            narrow = (*FAMILIES["packed"], "f16", "bf16", "f8", "f8e4m3", "i8", "u8", "bitset")
            chosen = [*g.chance.sample(narrow, 4), "f32"]
        g.edges = g.maybe(0.15)
        g.dtypes = tuple(chosen)
        self.family = g.seed % 4 == 3
        """Whether there is a prefix table, which `matmul` reads."""
        self.ops = self._ops()
        forms = {"table": 0.55, "matrix": 0.3, "matrices": 0.25, "plain": 0.4, "state": 0.8}
        self.forms = frozenset(name for name, p in forms.items() if g.maybe(p))
        self.flow = {name for name, p in (("loop", 0.7), ("branch", 0.45), ("exchange", 0.25),
                                          ("scope", 0.2), ("plain", 0.6)) if g.maybe(p)}  # fmt: skip
        if g.seed % 5 == 2:
            self.flow.add("call")

    def _ops(self) -> list[str]:
        """The ops of this program: all simple ones, and some of each family."""
        g = self.g
        found: list[str] = []
        families: dict[str, list[str]] = {}
        for name in opset.names():
            spec = opset.find(name)
            assert spec is not None
            families.setdefault(spec.family, []).append(name)
        for names in families.values():
            if g.maybe(0.7):
                found += g.chance.sample(names, min(len(names), g.pick([1, 2, 4, 8])))
        if self.family and "matmul" not in found:
            found.append("matmul")
        return found or ["add"]

    # Statements

    def statements(self, g: Pool, count: int) -> None:
        for _ in range(count):
            self.statement(g)

    def statement(self, g: Pool) -> None:
        flow = self.flow if g.depth < 3 else self.flow & {"plain"}
        if g.block.startswith("part"):
            flow = flow - {"branch", "exchange", "call"}  # plain blocks do not see its temporaries
        if g.short and g.maybe(0.1):
            own_size(g)
        choices: list[str] = ["op"] * 8
        choices += ["cache"] * (5 if "state" in self.forms else 0)
        for name, weight in (("loop", 2), ("branch", 1), ("exchange", 1), ("scope", 1),
                             ("plain", 1), ("call", 2)):  # fmt: skip
            if name in flow:
                choices += [name] * weight
        match g.pick(choices):
            case "op":
                name = g.pick(self.ops)
                RULES[name](g, name)
            case "cache":
                cache_statement(g)
            case "loop":
                loop(g, self.statements)
            case "branch":
                branch(g, self.statements)
            case "exchange":
                exchange(g, self.statements)
            case "scope":
                scope(g, self.statements)
            case "call":
                call(g, self.statements)
            case _:
                plain(g)

    # The program

    def sizes(self) -> None:
        """Definitions of sizes; one is known in the step only."""
        g = self.g
        for value in g.chance.sample(
            ("4", "8", "N", "2*M", "(4*N)/2", "N + 1", "3"), g.pick([1, 2, 3])
        ):
            name = g.fresh("z")
            g.defined[Size.of(value)] = name
            g.declarations.append(Declaration("size", name, f"size {name} = {value}"))

    def inputs(self) -> None:
        g = self.g
        anchor = tuple(Size.of(s) for s in ("N", "M"))
        g.declare("dynamic", Var("x", g.dtypes[0], anchor, "dynamic"))
        for _ in range(g.chance.randint(1, 3)):
            dims = tuple(
                Size.of(g.pick([1, 2, 3, 4, 5, 8, 17, "N", "N", "M"]))
                for _ in range(g.pick([0, 1, 1, 2, 2, 3, 4]))
            )
            g.declare("dynamic", Var(g.fresh("a"), g.pick(g.dtypes), dims, "dynamic"))
        for _ in range(g.pick([0, 1, 1, 2])):
            dtype = g.pick(["i64", "i32", "u8", "i16", "i8"])
            g.declare("dynamic", Var(g.fresh("k"), dtype, (), "dynamic", role="indices"))
        if self.family:
            table = np.random.default_rng(g.seed).standard_normal((3, 4, 4)) / 2
            for number in range(3):
                g.content.tensors[f"V.{number}"] = table[number].astype(np.float32)
            family = Var("V", "f32", (Size.of(4), Size.of(4)), "constant")
            g.declare("constant", family)
            g.vars.remove(family)
            g.declarations[-1].text = 'V(l): f32[4, 4] @pattern("V.{l}")'

    def program(self) -> Program:
        g = self.g
        if g.maybe(0.25):
            self.sizes()
        if g.short and g.maybe(0.3):
            bound = g.pick(
                ["size N <= 200", "size 0 <= M <= 200", "size 1 <= M", "size N <= 3*M + 150"]
            )
            g.declarations.append(Declaration("size", g.fresh("z"), bound))
        self.inputs()
        if "state" in self.forms:
            declare_state(g, self.forms)
        self.statements(g, g.chance.randint(4, 14))
        end = self._end()
        entry = Block("entry", g.nodes, end)
        blocks = [entry, *g.blocks]
        program = Program(g.seed, list(g.declarations), blocks, content=g.content)
        program.steps = self.steps()
        return program

    def _end(self) -> str:
        """Shows some values: as results, or through copies in volatile variables."""
        g = self.g
        seen = [v for v in g.readable() if v.writable]
        last = seen[-3:] + g.chance.sample(seen, min(len(seen), 3))
        shown = list(dict.fromkeys(last))
        if shown and g.maybe(0.5):
            return f"return {', '.join(v.name for v in shown)};"
        for v in shown:
            if v.memory == "temporary" and not any(d.single_name in g.texts for d in v.dims):
                copy = Var(g.fresh("out"), v.dtype, v.dims, "volatile")
                tokens = [a for a, d in enumerate(v.dims) if not d.names <= {"N", "M"}]
                copy.open = frozenset(tokens)
                g.declare("volatile", copy)
                g.emit(f"transfer {v.name} >> {copy.name};")
        return "return;"

    def steps(self) -> list[Step]:
        g = self.g
        random = np.random.default_rng([g.seed, 77])
        sizes = self._sizes()
        found: list[Step] = []
        for _ in range(g.pick([2, 3, 3, 4, 6])):
            if found and g.maybe(0.08):
                found.append(Step(action=g.pick(["reset", "restore"])))
            if g.maybe(0.35):
                sizes = self._sizes()
            mode = g.pick(MODES)
            taken: dict[str, Tensor] = {}
            for v in g.inputs:
                shape = [d.evaluate(sizes) for d in v.dims]
                if any(extent < 0 for extent in shape):
                    shape = [max(extent, 0) for extent in shape]
                if v.role == "edge":
                    taken[v.name] = draw_edge(v.dtype, random)
                elif v.role == "size":
                    taken[v.name] = draw_size(v.dtype, g.seed, random)
                elif v.role:
                    taken[v.name] = draw_indices(v.dtype, shape, random)
                else:
                    own = mode if g.maybe(0.8) else g.pick(MODES)
                    taken[v.name] = draw(v.dtype, shape, own, random)
            found.append(Step(taken))
        return found

    def _sizes(self) -> dict[str, int]:
        g = self.g
        few: Sequence[int] = (1, 2, 3, 4, 5, 6)
        if g.maybe(0.03):
            return {"N": g.pick([61, 67, 127, 131]), "M": g.pick(few)}
        return {
            name: g.pick([0, 1, 9, 33, *PRIMES]) if g.maybe(0.12) else g.pick(few)
            for name in ("N", "M")
        }


def forms_of(text: str) -> set[str]:
    """The forms of the language that a program has, for the report."""
    found = {f"op {name}" for name in re.findall(r"\bop (\w+)\(", text)}
    found |= {f"dtype {d}" for d in re.findall(r": (\w+)", text) if d in _DTYPES}
    for name, pattern in _FORMS.items():
        if re.search(pattern, text):
            found.add(name)
    return found


_DTYPES = {d for family in FAMILIES.values() for d in family}
_FORMS = {
    "@table of 1 index": r"\(\w+\): [^;]*@table(?! @auto)",
    "@table of 2 indices": r"\(\w+, \w+\): [^;]*@table(?! @auto)",
    "@table of 3 indices": r"\(\w+, \w+, \w+\): [^;]*@table(?! @auto)",
    "@fixed": r"@fixed",
    "@auto_dim alone": r"A\d+\([^)]*\): [^;@]*@auto_dim",
    "@table with @auto_dim": r"@table @auto_dim",
    "@init": r"@init",
    "@ref": r"@ref",
    "@pattern": r"@pattern",
    "size": r"\A(size|.*\nsize) ",
    "size with a bound": r"size [\w ]*<= ",
    "size in a body": r"\n {4,}size ",
    "element": r"[\[.] ?k\d+\[",
    "temporary with the type of its value": r"\bt\d+ = op",
    "several results": r"\w+, \w+ = op",
    "cache.read into a new name": r"\w+ = cache\.read",
    "op as an operand": r"op \w+\((\w+, )*[a-z]\w+\(",
    "op as what a cache takes": r"cache\.write \w+\(",
    "entry of a table as an operand": r"op \w+\((\w+, )*[KAC]\d+\[",
    "range as an operand": r"[(, ][atvWx]\d*\[[^]]*\.\.[^]]*\]",
    "named operands": r"op \w+\(\w+=\w+, \w+=",
    "size as an operand": r"op \w+\((\w+, )*[NM][,)]",
    "loop index as an operand": r"op \w+\((\w+, )*i\d+[,)]",
    "literal operand": r"op \w+\((\w+, )*-?(\d|true|false)[^=(]*\)( >>|;)",
    "cache.read": r"cache\.read",
    "cache.write": r"cache\.write",
    "cache.write of a slice": r"cache\.write \w+ >> K\d+\[[^]]*\.\.",
    "cache.write of a line": r"cache\.write \w+ >> [AC]\d+\[[^]]*,\s*[],]",
    "cache.increment": r"cache\.increment",
    "cache.decrement": r"cache\.decrement",
    "cache.reset": r"cache\.reset \w+;",
    "cache.reset of entries": r"cache\.reset \w+\[\w",
    "slice with a negative end": r"\.\.-\d",
    "slice by a scalar": r"\.\.[nk]\d+",
    "slice by a loop index": r"\.\.i\d+",
    "empty slot": r"\[,|, \]|,\]|, ,",
    "whole access": r"\w\[\]",
    "auto index as count": r"\bq\d\b[^)]*\]",
    "dimension _": r"assign [^;]*_[],]",
    "dimension from a scalar": r"assign [^;]*\[[^;]*\b[nk]\d+",
    "persistent dimension from a scalar": r"\bs\d+: \w+\[[^];]*\bw\d+",
    "table dimension from a scalar": r"\): \w+\[[^];]*\bw\d+[^;]*@table",
    "matrix dimension from a scalar": r"\): \w+\[[^];]*\bw\d+[^;]*@auto_dim",
    "loop": r"\bloop ",
    "loop by a size": r"in 0\.\.[NM]",
    "loop far away": r"in (\d{10,}|e\d+)[^{]*\.\.",
    "number at an edge": r"\b(\d{10,}|e\d+)\b",
    "loop by a scalar": r"in \w+\.\.[nk]\d+",
    "nested loops": r"\n {8}loop ",
    "return in a loop": r"\n {8,}return;",
    "branch": r"branch \w+ \w+ \w+;",
    "branch without condition": r"branch \w+;",
    "block with parameters": r"= branch \w+\(",
    "scope": r"scope ",
    "hints": r" with \{",
    "barrier": r"barrier;",
    "dep": r"dep after",
    "transfer": r"transfer ",
    "yield": r"\n    yield ",
    "yield of several": r"yield \w+, ",
    "results": r"return \w",
    "prefix table by index": r"V\[i",
}
FORMS = tuple(_FORMS)
