"""Cache operations and tables: the forms that are right, and mistakes beyond the table of codes."""

from __future__ import annotations

import pytest

from openinfer.compiler.frontend import parse_program, parse_text, print_program

MEMORY = """
dynamic { x: f32[D]; n: i32; flag: bool; }
volatile { v: f32[D]; }
persistent {
    step: i64; ratio: f64 @init(0.5); byte: u8; one: i32[1]; half: f16;
    plain: f32[D]; kept: f32[_];
    K(l): f32[D] @table;
    K2(l, t): f32[D] @table @fixed(l=4);
    bits(l): i4[D] @table @init(-1);
    A(i, j): f32[D, H] @auto_dim(i, j);
    R(i): f32[D] @auto_dim(i) @fixed(i=0);
    C(l, m, i, j): f32[D, H] @table @auto_dim(i, j) @fixed(m=2, i=8);
}
"""
TEMPORARIES = """
    assign e: f32[D]; assign es: f32[_, D]; assign all: f32[_, _, D]; assign b: i4[D];
    assign m: f32[_, _]; assign row: f32[_]; assign ms: f32[_, _, _]; assign s: i64;
"""


def program(statement: str) -> str:
    return f"{MEMORY}block entry {{ {TEMPORARIES} {statement} return; }}"


GOOD = """
cache.read K[0] >> e;
cache.read K[n] >> e;
cache.read K[2*n - 1] >> e;
cache.read K[max(n, step) / 2] >> e;
cache.read K[] >> es;
cache.read K >> es;
cache.read K[..] >> es;
cache.read K[2..] >> es;
cache.read K[..n] >> es;
cache.read K[0..-3] >> es;
cache.read K[n..n + 2] >> es;
cache.read K2[0, step - 1] >> e;
cache.read K2[3, ] >> es;
cache.read K2[, 0] >> es;
cache.read K2[3] >> es;
cache.read K2[] >> all;
cache.read K2[0..4, ..] >> all;
cache.read bits[1] >> b;
cache.read plain >> e;
cache.read plain[] >> e;
cache.read step >> s;
cache.read kept >> row;
cache.read A[1, 2] >> m;
cache.read A[0, 0] >> m;
cache.read A[] >> m;
cache.read A >> m;
cache.read A[n, ] >> row;
cache.read A[n] >> row;
cache.read A[, n - 1] >> row;
cache.read A[0..D+i, ] >> m;
cache.read A[, 0..H+j] >> m;
cache.read A[0..D+i, 0..H+j] >> m;
cache.read A[i, j] >> m;
cache.read R[0] >> row;
cache.read C[0, 1, 3, 4] >> m;
cache.read C[0, 1] >> m;
cache.read C[0, 1, 2, ] >> row;
cache.read C[0, , 1, 1] >> ms;
cache.read C[0..4, 0, i, j] >> ms;
cache.write e >> K[0];
cache.write x >> K[n];
cache.write es >> K[0..2];
cache.write es >> K[];
cache.write es >> K[n..n + 4];
cache.write es >> K2[0, ];
cache.write es >> K2[0, 2..4];
cache.write es >> K2[, 7];
cache.write v >> plain;
cache.write plain >> K[0];
cache.write m >> A[2, 2];
cache.write m >> A[];
cache.write row >> A[0, ];
cache.write row >> A[, D];
cache.write row >> R[];
cache.write m >> C[0, 0, 1, 1];
cache.write m >> C[0, 0];
cache.write row >> C[0, 0, n, ];
cache.write row >> C[0, 0, , n];
cache.increment step;
cache.increment 0 step;
cache.increment 1_000 ratio;
cache.decrement 7 byte;
cache.decrement one;
cache.increment half;
cache.reset step;
cache.reset plain;
cache.reset plain[];
cache.reset K;
cache.reset K[];
cache.reset K[n];
cache.reset K2[0];
cache.reset K2[0, n + 1];
cache.reset A;
cache.reset A[];
cache.reset C[0];
cache.reset C[0, 1];
op add(plain, x) >> v;
op mul(x, ratio) >> v;
transfer plain >> v;
branch step good good;
op fill(v, value=ratio) >> v;
assign t: f32[step, D]; cache.read K[0..step] >> t;
loop k (q in 0..step) { cache.read K2[q, step - q] >> e; }
dep after(add) before(cache.write);
dep after(cache.read) before(cache.increment);
return plain, step;
""".strip().splitlines()


@pytest.mark.parametrize("statement", GOOD)
def test_good(statement: str) -> None:
    text = program(statement)
    if "branch" in statement:
        text += "block good { return; }"
    result = parse_text(text)
    assert result.module is not None, result.render()
    warnings = [d for d in result.diagnostics if d.code != "OI0241"]
    assert not warnings, result.render()
    again = parse_program(print_program(result.module))
    assert again.is_structurally_equivalent(result.module)


BAD = [
    ("cache.read v >> e;", "OI0221"),
    ("cache.read x >> e;", "OI0221"),
    ("cache.read e >> v;", "OI0221"),
    ("cache.write e >> v;", "OI0221"),
    ("cache.increment n;", "OI0221"),
    ("cache.reset v;", "OI0221"),
    ("cache.read nothing >> e;", "OI0210"),
    ("cache.read K[0] >> nothing;", "OI0210"),
    ("cache.write nothing >> K[0];", "OI0210"),
    ("cache.read K[nothing, 0] >> e;", "OI0230"),
    ("cache.read K[v] >> e;", "OI0306"),
    ("cache.read K[0..ratio] >> es;", "OI0306"),
    ("cache.read K[0] >> x;", "OI0220"),
    ("cache.read K[0] >> plain;", "OI0221"),
    ("op relu(x) >> plain;", "OI0221"),
    ("transfer x >> plain;", "OI0221"),
    ("op relu(A) >> v;", "OI0221"),
    ("branch K good good;", "OI0221"),
    ("cache.increment K;", "OI0222"),
    ("cache.increment plain;", "OI0222"),
    ("cache.increment A;", "OI0222"),
    ("cache.read K[0] >> es;", "OI0312"),
    ("cache.read K2[0] >> e;", "OI0312"),
    ("cache.read A[] >> row;", "OI0312"),
    ("cache.read A[0, ] >> m;", "OI0312"),
    ("cache.read bits[0] >> e;", "OI0312"),
    ("cache.write es >> K[0];", "OI0312"),
    ("cache.write e >> K[0..1];", "OI0312"),
    ("cache.write e >> A[];", "OI0312"),
    ("cache.write b >> K[0];", "OI0312"),
    ("cache.write all >> K2[];", "OI0234"),
    ("cache.write all >> K2[0..2, 0..2];", "OI0234"),
    ("cache.write ms >> C[0, 0..2];", "OI0234"),
    ("cache.write ms >> C[];", "OI0234"),
    ("cache.write m >> A[0..1, 0];", "OI0236"),
    ("cache.write m >> A[0..1, ];", "OI0236"),
    ("cache.write m >> A[, ];", "OI0236"),
    ("cache.reset K[..];", "OI0235"),
    ("cache.reset K2[, 0];", "OI0235"),
    ("cache.reset A[0, 0];", "OI0235"),
    ("cache.reset C[0, 0, 0, 0];", "OI0235"),
    ("cache.read K2[4, 0] >> e;", "OI0239"),
    ("cache.read K2[0..5, 0] >> es;", "OI0239"),
    ("cache.read R[1] >> row;", "OI0239"),
    ("cache.read C[0, 2, 0, 0] >> m;", "OI0239"),
    ("return K;", "OI0230"),
    ("yield K;", "OI0267"),
    ("op fill(v, value=K) >> v;", "OI0308"),
]


@pytest.mark.parametrize(("statement", "code"), BAD)
def test_bad(statement: str, code: str) -> None:
    result = parse_text(program(statement) + "block good { return; }")
    assert code in [d.code for d in result.errors], result.render()
    assert all(d.hint and d.location is not None for d in result.errors)


DECLARATIONS = [
    ("K(l): f32 @table @table;", "OI0203"),
    ("K: f32 @table;", "OI0252"),
    ("K(l): f32;", "OI0252"),
    ("K(l): f32 @fixed(l=4);", "OI0252"),
    ("K: f32 @fixed(l=4);", "OI0257"),
    ("K(l): f32 @table @fixed;", "OI0253"),
    ("K(l): f32 @table @fixed(l);", "OI0253"),
    ("K(l): f32 @table @fixed(l=-1);", "OI0253"),
    ("K(l): f32 @table @fixed(l=4, l=5);", "OI0257"),
    ("K(l): f32 @table @fixed(m=4);", "OI0257"),
    ("K(l): f32 @table(l);", "OI0253"),
    ("A(i): f32[D] @auto_dim;", "OI0253"),
    ("A(i): f32[D] @auto_dim();", "OI0253"),
    ('A(i): f32[D] @auto_dim("i");', "OI0253"),
    ("A(i): f32[D] @auto_dim(j);", "OI0257"),
    ("A(i, j): f32[D] @auto_dim(i, j);", "OI0257"),
    ("A(i): f32[D, D] @table @auto_dim(i);", "OI0257"),
    ("A: f32[D] @auto_dim(i);", "OI0257"),
    ("A(i, l): f32[D] @table @auto_dim(i);", "OI0255"),
    ("A(l, i): f32[D] @auto_dim(i);", "OI0255"),
    ("A(i): f32[D] @table @auto_dim(i);", "OI0255"),
    ("A(i): f32[_] @auto_dim(i);", "OI0305"),
    ('K(l): f32 @table @ref("k");', "OI0252"),
    ('K(l): f32 @table @pattern("k.{l}");', "OI0252"),
    ("K(l): _ @table;", "OI0314"),
    ("s: i4 @init(9);", "OI0303"),
]


@pytest.mark.parametrize(("line", "code"), DECLARATIONS)
def test_declarations(line: str, code: str) -> None:
    result = parse_text(f"persistent {{ {line} }} block entry {{ return; }}")
    assert code in [d.code for d in result.errors], result.render()
    assert all(d.hint for d in result.errors)


@pytest.mark.parametrize("memory", ["dynamic", "volatile", "constant"])
@pytest.mark.parametrize("attribute", ["@table", "@auto_dim(i)", "@fixed(i=4)"])
def test_tables_are_persistent(memory: str, attribute: str) -> None:
    result = parse_text(f"{memory} {{ K(i): f32[D] {attribute}; }} block entry {{ return; }}")
    assert "OI0252" in [d.code for d in result.errors], result.render()


def test_count_of_a_matrix_is_no_loop_index() -> None:
    text = (
        "persistent { A(i, j): f32[D, H] @auto_dim(i, j); } block entry { assign m: f32[_, _];"
        "cache.read A[0..D+i, ] >> m; loop k (i in 0..2) { cache.read A[i, j] >> m; } return; }"
    )
    assert not parse_text(text).diagnostics
    # Elsewhere the name is a size, which a loop index must not hide.
    elsewhere = text.replace("return;", "cache.read A[0..D+i, ] >> m; assign t: f32[i]; return;")
    assert [d.code for d in parse_text(elsewhere).errors] == ["OI0258"]
