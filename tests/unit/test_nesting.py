"""Ops as operands in printed texts: what goes into a statement, what stays, and that no result changes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser

import openinfer as oi
from openinfer.compiler.frontend import parse_text
from openinfer.compiler.frontend.nesting import Nested, nested_operands
from openinfer.compiler.frontend.printer import Style, print_program, statement_text
from openinfer.compiler.registry import make_context
from openinfer.dialects.graph import AssignOp
from openinfer.lowering.graph.infer_types import with_types

HEAD = """\
dynamic {
    x: f32[4, 4];
    n: i32;
}

persistent {
    K(t): f32[4] @table;
    V(t): f32[4] @table;
}

"""


def module_of(body: str) -> ModuleOp:
    module = parse_text(f"{HEAD}block entry {{\n{body}\n}}\n").module
    assert module is not None
    return with_types(module, None, {})


def printed(module: ModuleOp, keep: frozenset[str] = frozenset(), *, nest: bool = True) -> str:
    """The statements with operands nested, names in `keep` stay; the whole text of a module."""
    own = frozenset(op.variable.data for op in module.walk() if isinstance(op, AssignOp))
    style = Style(short=True, implied=own)

    def length(op: Operation, nested: Nested) -> int:
        return 4 + len(statement_text(op, Style(short=True, nested=nested)))

    def telling(op: Operation, reader: Operation) -> bool:
        return any(ref.variable.data in keep for ref in op.writes())  # pyright: ignore[reportAttributeAccessIssue]

    if nest:
        style = Style(short=True, implied=own, nested=nested_operands(module, own, telling, length))
    return print_program(module, style)


def lines(body: str, keep: frozenset[str] = frozenset()) -> list[str]:
    text = printed(module_of(body), keep).partition("block entry {\n")[2]
    return [
        line.strip() for line in text.splitlines() if line.strip() not in ("}", "return y;", "")
    ]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("a = op neg(x); y = op relu(a); return y;", ["y = op relu(neg(x));"]),
        # A name that goes on.
        ("h = op neg(x); h = op relu(h); y = op add(h, h); return y;",
         ["h = op relu(neg(x));", "y = op add(h, h);"]),
        # Both sides, from left to right.
        ("a = op neg(x); b = op exp(x); y = op add(a, b); return y;", ["y = op add(neg(x), exp(x));"]),
        # Ranges and indices do not count as ops.
        ("a = op slice(x, axis=0, start=0, stop=2); b = op neg(a); y = op relu(b); return y;",
         ["y = op relu(neg(x[0..2]));"]),
        ("a = op slice(x, axis=1, start=-1); a2 = op squeeze(a, axes=[1]); y = op relu(a2); return y;",
         ["y = op relu(x[, -1]);"]),
        ("a = op slice(x, axis=1, start=2, stop=3); a2 = op squeeze(a, axes=[1]); y = op neg(a2); return y;",
         ["y = op neg(x[, 2]);"]),
        ("a = op slice(x, axis=1, start=2); y = op neg(a); return y;", ["y = op neg(x[, 2..]);"]),
        # More than one axis: as it is.
        ("a = op slice(x, axes=[1], starts=[0], stops=[2]); y = op neg(a); return y;",
         ["y = op neg(slice(x, axes=[1], starts=[0], stops=[2]));"]),
        # Entries of tables, across a write to another one.
        ("""cache.write x >> K[n..n + 4]; k = cache.read K[0..n + 4]; cache.write x >> V[n..n + 4];
         v = cache.read V[0..n + 4]; y = op matmul(k, v, transpose_b=true); return y;""",
         ["cache.write x >> K[n..n + 4];", "cache.write x >> V[n..n + 4];",
          "y = op matmul(K[0..n + 4], V[0..n + 4], transpose_b=true);"]),
        ("a = op neg(x); cache.write a >> K[0..4]; y = op relu(x); return y;",
         ["cache.write neg(x) >> K[0..4];", "y = op relu(x);"]),
    ],
)  # fmt: skip
def test_what_goes_into_a_statement(body: str, want: list[str]) -> None:
    assert lines(body)[: len(want)] == want


@pytest.mark.parametrize(
    "body",
    [
        "a = op neg(x); y = op add(a, a); return y;",
        "a = op neg(x); b = op add(a, x); y = op mul(a, b); return y, b;",
        "a = op neg(x); y = op relu(a); return y, a;",
        "a = op neg(x); barrier; y = op relu(a); return y;",
        "a = op neg(x) with { fuse = false }; y = op relu(a); return y;",
        "k = cache.read K[0..2]; cache.write x >> K[0..4]; y = op neg(k); return y;",
        "p, q = op split(x, axis=0); y = op add(p, q); return y;",
        "a = op layer_norm(x); y = op relu(a); return y;",
        "h = op neg(x); loop l (i in 0..3) { y = op relu(h); h = op neg(x); } return y;",
        "c = op gt(n, 0); branch c good bad; y = op neg(x); return y; } block good { return; }"
        " block bad { return;",
    ],
)
def test_what_stays(body: str) -> None:
    module = module_of(body)
    assert printed(module) == printed(module, nest=False)


def test_a_name_that_tells_something_stays() -> None:
    body = "visible = op neg(x); y = op relu(visible); return y;"
    assert len(lines(body, frozenset({"visible"}))) == 2
    assert len(lines(body)) == 1


def test_no_line_is_read_twice() -> None:
    chain = "; ".join(f"h = op {op}(h)" for op in ("relu", "neg", "exp", "abs", "tanh"))
    assert lines(f"h = op neg(x); {chain}; y = op add(h, x); return y;") == [
        "h = op relu(neg(x));",
        "h = op exp(neg(h));",
        "h = op tanh(abs(h));",
        "y = op add(h, x);",
    ]
    long = "a_name_that_is_long_" * 3
    assert len(lines(f"{long} = op neg(x); y = op where(gt({long}, 0), x, 1.0); return y;")) == 2
    many = "; ".join(f"{name} = op {name}(x)" for name in ("neg", "exp", "abs"))
    assert len(lines(f"{many}; y = op fma(neg, exp, abs); return y;")) > 1


def _random_body(rng: random.Random) -> str:
    """Statements over a few names that are written again and again, in a loop, too."""
    names = ["x"]
    out: list[str] = []

    def statement() -> str:
        target = rng.choice("abcdh")
        picks = [rng.choice(names) for _ in range(3)]
        kind = rng.randrange(7)
        if kind < 3:
            text = f"{target} = op {rng.choice(('neg', 'tanh', 'abs'))}({picks[0]});"
        elif kind < 5:
            text = f"{target} = op {rng.choice(('add', 'min', 'sub'))}({picks[0]}, {picks[1]});"
        elif kind == 5:
            return f"cache.write {picks[0]} >> {rng.choice('KV')}[0..4];"
        else:
            text = f"{target} = cache.read {rng.choice('KV')}[0..4];"
        names.append(target)
        return text

    out += ["cache.write x >> K[0..4];", "cache.write x >> V[0..4];"]
    out += [f"{name} = op mul(x, {place + 1});" for place, name in enumerate("abcdh")]
    names += list("abcdh")
    out += [statement() for _ in range(rng.randrange(4, 9))]
    inner = " ".join(statement() for _ in range(rng.randrange(3, 7)))
    out.append(f"loop l (i in 0..2) {{ {inner} }}")
    out += [statement() for _ in range(rng.randrange(3, 7))]
    return "\n".join([*out, "y = op add(a, h);", "return y, b;"])


@pytest.mark.parametrize("seed", range(12))
def test_no_result_changes(seed: int) -> None:
    rng = random.Random(seed)
    x = np.random.default_rng(seed).standard_normal((4, 4), dtype=np.float32)
    nested = 0
    for _ in range(6):
        module = module_of(_random_body(rng))
        texts = printed(module, nest=False), printed(module)
        nested += texts[0] != texts[1]
        found = [oi.Simulator(text).make_executor() for text in texts]
        for _ in range(2):
            first, second = (one.run(x=x, n=np.int32(1)) for one in found)
            for name in ("y", "b"):
                np.testing.assert_array_equal(first[name], second[name], err_msg=texts[1])
    assert nested


def test_operands_of_a_block_with_parameters() -> None:
    """A call takes ops as operands; what it gives, and what it reads by name, stays."""
    calls = """builtin.module {
      graph.variable x dynamic f32 [4, 4]
      graph.block entry {
        graph.assign a f32 [4, 4]
        graph.assign b f32 [4, 4]
        graph.assign k i32
        graph.op neg(x) -> (a)
        graph.call f(a, "w") -> (b)
        graph.op add(b, b) -> (a)
        graph.op argmax(a) -> (k) settings {axis = 0 : i64}
        graph.call f(a, <"k + 1">) -> (b)
        graph.return (b)
      }
      graph.block f(v, p) {
        graph.op relu(v) -> (c)
        graph.op exp(c) -> (d)
        graph.return (d)
      }
    }"""
    module = Parser(make_context(), calls).parse_module()
    text = printed(module)
    assert '    b = branch f(neg(x), "w");' in text
    assert "    k = op argmax(a, axis=0);\n    b = branch f(a, k + 1);" in text
