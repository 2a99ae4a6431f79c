"""No text crashes or hangs the frontend, and what it accepts survives the printer.

Three sources of texts, all from fixed seeds: programs grown from the grammar, broken copies of
them, and noise. A failure prints the text.
"""

from __future__ import annotations

import random
import re
import string
import time
from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import Parser

from openinfer.compiler.diagnostic_codes import CODES
from openinfer.compiler.frontend import parse_text, print_program
from openinfer.compiler.model_mistakes import all_mistakes
from openinfer.dialects import graph, opset
from openinfer.runtime.dtypes import DTYPES

SLOWEST = 10.0
"""Seconds for one text: far more than any needs, so that a slow machine does not fail."""


class Grower:
    """Writes random programs; most of them are valid, some only nearly."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def maybe(self, text: str, chance: float = 0.3) -> str:
        return text if self.random.random() < chance else ""

    def many(self, part: Callable[[], str], most: int, separator: str = " ") -> str:
        return separator.join(part() for _ in range(self.random.randint(0, most)))

    def name(self) -> str:
        return self.pick("x", "y", "h", "W", "K", "n", "step", "op", "cache", "t0", "block", "D")

    def number(self) -> str:
        return self.pick("0", "1", "2", "7", "1_000", "0xff", str(self.random.randint(0, 10**12)))

    def size(self) -> str:
        self.depth += 1
        kind = self.random.random() if self.depth < 6 else 0.0
        if kind < 0.5:
            text = self.pick("B", "D", "H", "num_layers", "l", "n", self.number())
        elif kind < 0.8:
            text = f"{self.size()} {self.pick('+', '-', '*', '/')} {self.size()}"
        elif kind < 0.9:
            text = f"({self.size()})"
        elif kind < 0.95:
            text = f"{self.pick('max', 'min')}({self.size()}, {self.size()})"
        else:
            text = f"-{self.size()}"
        self.depth -= 1
        return text

    def type(self) -> str:
        dims = self.many(self.size, 3, ", ")
        if self.random.random() < 0.1:
            return "_"
        return self.pick(*DTYPES) + self.pick(f"[{dims}]", f"[{dims}]", "", "[_]", "[_, D]")

    def value(self) -> str:
        self.depth += 1
        plain = ("1", "-1", "0.5", "-1e-6", "true", "false", "inf", "-inf", "nan", "f32", "n",
                 '"text"', r'"\n\u{3b1}\""', "D - 1", "3*D")  # fmt: skip
        text = self.pick(*plain)
        if self.depth < 4 and self.random.random() < 0.2:
            text = f"[{self.many(self.value, 4, ', ')}]"
        self.depth -= 1
        return text

    def attribute(self) -> str:
        return self.pick(
            f"@init({self.value()})", '@ref("some.name")', "@ref(gamma)", '@pattern("W.{i}")',
            "@table", "@auto_dim(i)", "@auto_dim(i, j)", "@auto_dim(j)", '@layout("rows")',
            f"@fixed(i={self.number()})", f"@fixed(i={self.number()}, j=4)", '@quant("q8", 32)',
            f"@other({self.value()}, a={self.value()})", 'pattern("W.{i}")',
        )  # fmt: skip

    def declaration(self) -> str:
        attributes = self.many(self.attribute, 2)
        indices = self.pick("", "", "", "(i)", "(i, j)", "(l, i, j)")
        return f"{self.name()}{indices}: {self.type()} {attributes};\n"

    def table(self) -> str:
        """A declaration of persistent memory, mostly a right one."""
        dims = self.pick("D", "B, D", "H, D", "_", "")
        return self.pick(
            f"{self.name()}: {self.pick(*DTYPES)} @init(1);\n",
            f"{self.name()}(i): f32[{dims}] @table;\n",
            f"{self.name()}(i, j): f32[{dims}] @table @fixed(j=4);\n",
            f"{self.name()}(i): f32[D] @auto_dim(i) @fixed(i=9);\n",
            f"{self.name()}(i, j): f32[D, H] @auto_dim(i, j);\n",
            f"{self.name()}(l, i): f32[D] @table @auto_dim(i);\n",
            f"{self.name()}: buffer(f32, [{dims}]);\n",
            f"{self.name()}: buffer({self.pick('f32', 'i4', '_')}){self.maybe(' @init(1)')};\n",
            self.declaration(),
        )

    def section(self) -> str:
        kind = self.pick("dynamic", "volatile", "constant", "constants", "persistent", "persistent",
                         "inputs", "outputs", "state", "state")  # fmt: skip
        part = self.table if kind in ("persistent", "state") else self.declaration
        return f"{kind} {{\n{self.many(part, 5, '')}}}\n"

    def link(self) -> str:
        return self.pick(
            'model["scale"]', 'model["norm.0.w"]', 'net["D"]', 'model[fmt("W.{l}")]',
            'model[fmt("a.{l}.b.{n}")]', 'model[fmt("{}")]', 'model[fmt("x")]', "model[0]",
        )  # fmt: skip

    def ref(self) -> str:
        if self.random.random() < 0.05:
            return self.link()
        slots = self.many(self.slot, 3, ", ")
        return self.name() + self.pick("", "", "", f"[{self.size()}]", f"[{slots}]")

    def slot(self) -> str:
        return self.pick("", self.size(), f"{self.size()}..", f"..{self.size()}", "0..-3", "..")

    def op(self) -> str:
        op = self.pick(*opset.names()) if self.random.random() < 0.9 else self.name()
        spec = opset.find(op)
        operands = [self.ref() for _ in range(len(spec.operands) if spec else 1)]
        settings: list[str] = []
        for setting in spec.settings if spec else ():
            if setting.required or self.random.random() < 0.3:
                settings.append(f"{setting.name}={self.value()}")
        arguments = ", ".join(operands + settings)
        return f"op {op}({arguments}) >> {self.ref()}{self.hints()};\n"

    def definition(self) -> str:
        """A statement of the first edition."""
        kind = self.random.random()
        target = self.pick("t", "u", "h2", self.name())
        if kind < 0.15:
            return f"effect write({self.name()}, index={self.size()}, value={self.ref()});\n"
        if kind < 0.25:
            return f"effect {self.pick('write', 'read')}({self.name()}, value={self.ref()});\n"
        if kind < 0.45:
            return f"{target} = effect read({self.name()}, index={self.size()});\n"
        op = self.pick(*opset.names()) if self.random.random() < 0.9 else self.name()
        spec = opset.find(op)
        names = [*spec.operands, *spec.optional] if spec else []
        names = names or ["a"]
        if self.random.random() < 0.5:
            names = list("abcd"[: max(1, len(names))])
        self.random.shuffle(names)
        arguments = [f"{name}={self.ref()}" for name in names]
        if self.random.random() < 0.3:
            arguments[0] = self.ref()
        if self.random.random() < 0.3:
            arguments.append(f"{self.pick('axis', 'acc', 'x', 'eps')}={self.value()}")
        more = self.maybe(", v", 0.1)
        return f"{target}{more} = op {op}({', '.join(arguments)}){self.hints()};\n"

    def call(self) -> str:
        """Of a block with parameters."""
        target = self.maybe(f"{self.many(self.name, 2, ', ') or 'y'} = ", 0.7)
        given = self.many(lambda: self.pick(self.ref(), self.value(), self.size()), 3, ", ")
        named = self.many(lambda: f", {self.name()}={self.value()}", 2, "")
        return f"{target}branch {self.pick('f', 'g', self.name())}({given}{named});\n"

    def block(self) -> str:
        """A block with parameters."""
        names = self.random.sample(["p", "q", "r", self.name()], self.random.randint(0, 3))
        shown = ", ".join(f"{n}{self.maybe('=' + self.value())}" for n in names)
        constants = self.maybe(f"constant {{ {self.declaration()} }}\n")
        values = self.pick("", "y", "p", "h")
        head = f"block {self.pick('f', 'g', self.name())}({shown}){self.hints()}"
        return f"{head} {{\n{constants}{self.body()}return {values};\n}}\n"

    def hints(self) -> str:
        return self.maybe(
            f" with {{ {self.pick('fuse', 'no_reorder', 'mine')} = {self.value()} }}", 0.1
        )

    def node(self) -> str:
        self.depth += 1
        simple = [
            self.op, self.op, self.op, self.op,
            lambda: f"assign {self.name()}: {self.type()};\n",
            lambda: f"branch {self.name()};\n",
            lambda: f"branch {self.ref()} {self.name()} {self.name()};\n",
            self.call,
            lambda: "barrier;\n",
            lambda: f"dep after({self.pick(*opset.names())}) before(cache.write);\n",
            lambda: f"transfer {self.ref()} >> {self.ref()};\n",
            lambda: f"yield {self.name()};\n",
            lambda: f"await {self.name()}, {self.name()};\n",
            lambda: f"cache.read {self.ref()} >> {self.ref()};\n",
            lambda: f"cache.write {self.ref()} >> {self.ref()};\n",
            lambda: f"cache.increment {self.maybe('3')} {self.name()};\n",
            lambda: f"cache.decrement {self.name()};\n",
            lambda: f"cache.reset {self.ref()};\n",
            lambda: f"return {self.many(self.name, 2, ', ')};\n",
            lambda: f"// comment\n/* {self.name()} */ y = op relu(x=y);\n",
            self.definition, self.definition, self.definition,
            lambda: f"cache.read {self.name()}[] >> {self.pick('t', 'u', 'h')};\n",
        ]  # fmt: skip
        nested = [
            lambda: f"loop a (l in 0..{self.size()}){self.hints()} {{\n{self.body()}}}\n",
            lambda: f'scope "part"{self.hints()} {{\n{self.body()}}}\n',
            lambda: f"loop b (i in 0..n) {{ block body {{\n{self.body()}{self.maybe('return;')}}} }}\n",
        ]  # fmt: skip
        text = self.random.choice(simple + (nested * 2 if self.depth < 5 else []))()
        self.depth -= 1
        return text

    def body(self) -> str:
        return self.many(self.node, 5, "")

    def program(self) -> str:
        parts = [self.section() for _ in range(self.random.randint(0, 3))]
        parts += [
            f"block {name}{self.hints()} {{\n{self.body()}return;\n}}\n"
            for name in ("entry", *self.many(self.name, 2).split())
        ]
        for name in self.many(self.name, 2).split():
            values = self.pick("y", "h", "x, y", "n")
            parts.append(f"block c{name} {{ await {values};\n{self.body()}yield {values}; }}\n")
        parts += [self.block() for _ in range(self.random.choice((0, 0, 1, 2)))]
        self.random.shuffle(parts)
        text = self.maybe("model: net,\n", 0.2) + "".join(parts)
        if self.random.random() < 0.1:
            return f"{self.pick('', 'let g = ', 'let (g, y) = ')}graph! {{ {text} }};"
        return text


def damage(text: str, rng: random.Random) -> str:
    """A copy with a few characters or words lost, doubled, swapped or replaced."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        stop = min(len(text), start + rng.choice((1, 1, 2, 5, 30)))
        piece = text[start:stop]
        kind = rng.randrange(5)
        if kind == 0:
            piece = ""
        elif kind == 1:
            piece = piece * 2
        elif kind == 2:
            piece = rng.choice(list("{}()[];:,.>@=-*/\"'\\\n\t#$?0aé€\0")) + piece
        elif kind == 3:
            other = rng.randrange(len(text) + 1)
            piece = text[other : other + 10]
        else:
            return text[:start]
        text = text[:start] + piece + text[stop:]
    return text


def noise(rng: random.Random) -> str:
    """Words and marks of the language in no order, or any characters."""
    if rng.random() < 0.3:
        letters = string.printable + "éλ\0\u2028\U0001f600\ufeff\x85"
        return "".join(rng.choice(letters) for _ in range(rng.randint(0, 300)))
    words = ("graph!", "volatile", "dynamic", "block", "entry", "{", "}", "(", ")", "[", "]", ";",
             ":", ",", ">>", "..", ".", "@", "=", "op", "relu", "x", "f32", "1", "2.5", '"s"', "-",
             "loop", "in", "scope", "with", "return", "cache", "read", "@init", "model", "inputs",
             "effect", "assign", "branch", "await", "yield", "state", "buffer", "fmt", "let", "[..]",
             "//", "/*", "*/", "\n", '"')  # fmt: skip
    return " ".join(rng.choice(words) for _ in range(rng.randint(0, 120)))


def check_text(text: str) -> bool:
    """Reads one text and checks all that must hold; returns whether it was a program."""
    started = time.process_time()
    try:
        result = parse_text(text, "fuzz.oi")
        shown = result.render()
        everything = all_mistakes(result, None, {}) if result.errors else None
    except Exception as error:
        pytest.fail(f"{type(error).__name__}: {error} in\n{text}\n-----\n{text!r}")
    assert time.process_time() - started < SLOWEST, f"too slow:\n{text}"
    lines = text.split("\n")
    for diagnostic in result.diagnostics:
        place = diagnostic.location
        assert diagnostic.code in CODES, diagnostic
        assert place is not None
        assert 1 <= place.line <= len(lines), text
        assert 1 <= place.column <= len(lines[place.line - 1]) + 1, text
        assert str(place) in shown
    if result.module is None:
        assert result.errors, text
        assert everything is not None
        assert [d for d in everything.diagnostics if d in result.diagnostics] == result.diagnostics
        return False
    result.module.verify()
    printed = print_program(result.module)
    again = parse_text(printed)
    assert again.module is not None, f"{text}\n-----\n{printed}\n{again.render()}"
    assert again.module.is_structurally_equivalent(result.module), f"{text}\n-----\n{printed}"
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(graph.Graph)
    ir = str(result.module)
    assert str(Parser(context, ir).parse_module()) == ir, text
    return True


@pytest.mark.parametrize("chunk", range(4))
def test_grown_programs(chunk: int) -> None:
    for seed in range(chunk * 150, chunk * 150 + 150):
        check_text(Grower(seed).program())


def test_damaged_programs() -> None:
    for seed in range(600):
        rng = random.Random(seed)
        check_text(damage(Grower(seed % 50).program(), rng))


@pytest.mark.parametrize("name", ["GOOD", "CACHES", "EXCHANGE", "FIRST", "BLOCKS"])
def test_damaged_good_program(name: str) -> None:
    """Damage to a program that is right otherwise reaches further than damage to a wild one."""
    text = TEXTS[name]
    assert check_text(text)
    accepted = 0
    for seed in range(200):
        accepted += check_text(damage(text, random.Random(seed)))
    assert accepted > 0, "the damage is too heavy to test anything but the parser"


@pytest.mark.parametrize("name", ["CACHES", "EXCHANGE", "FIRST", "BLOCKS"])
def test_swapped_words(name: str) -> None:
    """Words of a right program in each other's places: almost right, in every way."""
    text = TEXTS[name]
    words = re.findall(r"\w+|\W", text)
    places = [i for i, word in enumerate(words) if word[0].isalnum()]
    for seed in range(150):
        rng = random.Random(seed)
        mixed = list(words)
        for _ in range(rng.randint(1, 2)):
            left, right = rng.choice(places), rng.choice(places)
            mixed[left] = words[right]
        check_text("".join(mixed))


def test_noise() -> None:
    for seed in range(800):
        check_text(noise(random.Random(seed)))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "block entry { " + "loop a (i in 0..1) { " * 20_000,
        "block entry { " + 'scope "s" { ' * 20_000 + "} " * 20_000 + "}",
        "volatile { y: f32[" + "(" * 50_000 + "B" + ")" * 50_000 + "]; }",
        "volatile { y: f32[" + "-" * 50_000 + "B]; }",
        "volatile { y: f32[" + "+".join(["B"] * 20_000) + "]; }",
        "volatile { y: f32[" + "/".join(["B"] * 20_000) + "]; }",
        "volatile { y: f32[" + "*".join(["(B+1)"] * 150) + "]; }",
        "volatile { y: f32[" + "*".join(f"(a{i}+b{i})" for i in range(90)) + "]; }",
        "volatile { y: f32[" + "max(" * 5000 + "B" + ")" * 5000 + "]; }",
        "block entry { op f(a=" + "[" * 50_000 + "]" * 50_000 + ") >> y; }",
        "/*" * 50_000,
        "/*" * 20_000 + "*/" * 20_000,
        '"' * 20_000,
        "9" * 100_000,
        "1e" + "9" * 10_000,
        "graph! {" * 5000,
        "}" * 50_000,
        ";" * 50_000,
        "block entry {" + ";" * 50_000 + "}",
        "@" * 50_000,
        "é" * 50_000,
        "volatile { " + "y: f32; " * 3000 + "}",
        "block entry { return; } " + "".join(
            f"block b{i} {{ branch b{i + 1}; return; }} " for i in range(2000)
        ),
        "block entry { branch b0; return; } " + "".join(
            f"block b{i} {{ branch b{i + 1}; branch b{i + 1}; return; }} " for i in range(500)
        ) + "block b500 { return; }",
        "block entry { branch b0; return; } " + "".join(
            f"block b{i} {{ branch b{(i + 1) % 500}; return; }} " for i in range(500)
        ),
    ],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_hostile(text: str) -> None:
    check_text(text)


GOOD = """\
dynamic { x: f32[B, D]; mask: bool[B]; }
constant { W(l): f32[D, D] @pattern("layer.{l}.w"); eps: f32 @init(1e-5); }
volatile { y: f32[B, D] @init(0.0); n: i32 @init(3); }
// the whole thing
block entry {
    assign h: f32[B, D];
    assign ok: bool;
    transfer x >> h;
    loop layers (l in 0..num_layers) with { fuse = true } {
        op matmul(h, W[l]) >> h;
        op relu(h, negative_slope=0.0, clamp_max=6.0) >> h;
    }
    scope "end" { op is_finite(h) >> ok; }
    branch ok good bad;
    barrier;
    dep after(relu) before(matmul);
    return y, n;
}
block good { op mul(h, x) >> y; return; }
block bad { op fill(y, value=0.0) >> y; return; }
"""

CACHES = """\
dynamic { x: f32[D]; n: i32; }
persistent {
    step: i32 @init(0);
    K(l, t): f32[D] @table @fixed(l=4);
    A(i, j): f32[D, H] @auto_dim(i, j);
    C(l, i): f32[D] @table @auto_dim(i);
    last: f32[D] @init(1);
}
block entry {
    assign e: f32[D]; assign es: f32[_, D]; assign m: f32[_, _]; assign row: f32[_];
    loop layers (q in 0..4) {
        cache.write x >> K[q, step];
        cache.read K[q, 0..step - 1] >> es;
        cache.write es >> K[q, ];
        cache.read C[q, n + 1] >> row;
    }
    cache.read A[step, 2] >> m;
    cache.read A[0..D+i, ] >> m;
    cache.write row >> A[0, ];
    cache.read last >> e;
    op add(last, e) >> e;
    cache.write e >> last;
    cache.increment 2 step; cache.decrement step;
    dep after(cache.write) before(cache.reset);
    cache.reset K[0]; cache.reset A;
    return e, m;
}
"""

EXCHANGE = """\
dynamic { x: f32[B]; }
volatile { y: f32[B]; z: f32[B]; w: f32[B]; }
persistent { T(i): f32[B] @table; c: i32; }
block entry {
    assign h: f32[B];
    transfer x >> h;
    yield h, y;
    op relu(x) >> w;
    await h, y;
    loop rounds (r in 0..3) { yield h; cache.increment c; await h; }
    branch c more more;
    return w, h;
}
block first { await h; op exp(h) >> h; yield h; }
block second { await h, y; op add(h, y) >> z; cache.write z >> T[0]; yield h, y; }
block third { await y; branch more; yield y; }
block more { op neg(y) >> y; return; }
"""

FIRST = """\
let g = graph! {
    model: net,
    inputs { x : f32 [B, D]; step : i32 []; }
    outputs { y : f32 [B, D]; }
    state { past : buffer(f32, [B, 8, D]); n: i32; }
    block entry {
        h = op matmul(a=x, b=net["w"]) with { fuse = true, placement = "gpu" };
        loop layers (l in 0..num_layers) {
            block body {
                h = op add(a=h, b=model[fmt("W.{l}")]);
                h = op relu(x=h, clamp_max=net["most"]);
                return;
            }
        }
        effect write(past, index=step, value=x);
        before = effect read(past, index=step - 1);
        p, q = op split(before, axis=0);
        scope "end" { y = op mul(before, y=x); }
        barrier;
        return y;
    }
};
"""

BLOCKS = """\
dynamic { x: f32[B, 4]; n: i32; }
volatile { total: f32[B, 4]; }
persistent { rows(t): f32[B, 4] @table; }
block dense(x0, path, top=6, axes=[0]) {
    constant { w: f32[4, _] @ref("{path}.w"); v(i): f32[4] @pattern("{path}.{i + 1}"); }
    h = op linear(x0, w);
    scope "rest" { h = op add(h, v[1]); }
    h = op relu(h, clamp_max=top);
    m = op mean_axis(h, axes=axes, keepdims=true);
    op add(h, m) >> total;
    return h, m;
}
block layer(x0, path, at) with { fuse = false } {
    assign a: f32[B, 4];
    loop twice (k in 0..2) { a, b = branch dense(x0, "{path}.{k}", top=3); }
    cache.write a >> rows[at];
    r = cache.read rows[0..at + 1];
    return a;
}
block entry {
    h, m = branch dense(relu(x), path="first", axes=[0, 1]);
    loop layers (l in 0..2) { h = branch layer(h, "layer.{l}", n + l); }
    return h, total;
}
"""

TEXTS = {"GOOD": GOOD, "CACHES": CACHES, "EXCHANGE": EXCHANGE, "FIRST": FIRST, "BLOCKS": BLOCKS}
