"""A program is checked alike whether it comes as a text, as graph JSON or as IR."""

from __future__ import annotations

import pytest

import openinfer as oi
from openinfer.compiler.frontend.build import build
from openinfer.compiler.frontend.parser import parse
from openinfer.compiler.frontend.report import Report
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.registry import make_context
from openinfer.lowering.reference.simulator import Simulator

HEAD = """\
dynamic { x: f32[4]; n: i64; }
volatile { y: f32[4]; m: f32[2, 2]; }
constant { c: f32[4]; }
persistent { K(l): f32[4] @table @fixed(l=3); G(i, j): f32[0, 0] @auto_dim(i, j); s: f32; b: bool;
  T(k, l): f32[4] @table; }
"""
MISTAKES = {
    "OI0205": "assign t: f32; assign t: f32;",
    "OI0206": "assign y: f32;",
    "OI0210": "op add(x, nothing) >> y;",
    "OI0212": "branch nowhere;",
    "OI0214": "op no_such_op(x) >> y;",
    "OI0215": "op relu(x, wrong=1) >> y;",
    "OI0216": "op cast(x) >> y;",
    "OI0217": "op add(x) >> y;",
    "OI0218": "op add(x, x) >> y, m;",
    "OI0220": "op relu(x) >> c;",
    "OI0221": "op relu(x) >> s;",
    "OI0222": "cache.increment 1 K;",
    "OI0223": "cache.increment 1 b;",
    "OI0230": "cache.read K[0, 1] >> y;",
    "OI0231": "op relu(x) >> y[0];",
    "OI0232": "op relu(x) >> y[0..1];",
    "OI0234": "cache.write m >> T;",
    "OI0235": "cache.reset K[0..1];",
    "OI0238": "assign t: f32[_, 4]; cache.read K[2..1] >> t;",
    "OI0239": "cache.write x >> K[3];",
    "OI0246": "op split(x, axis=0) >> y, y;",
    "OI0258": "loop a (x in 0..2) { barrier; }",
    "OI0259": "op relu(x) >> y with { fuse = 1 };",
    "OI0304": 'op relu(x, negative_slope="a") >> y;',
    "OI0306": "loop a (k in 0..x) { barrier; }",
    "OI0307": "branch x other other;",
    "OI0308": "op relu(x, negative_slope=y) >> y;",
    "OI0309": "cache.read K[-1] >> y;",
    "OI0312": "transfer x >> m;",
}

ORDER = {
    "OI0211": "block entry { op add(x, t) >> y; assign t: f32[4]; return; }",
    "OI0213": "block main { return; }",
    "OI0240": "block entry { op relu(x) >> y; }",
    "OI0242": "block entry { branch a; return; } block a { return y; }",
    "OI0243": "block entry { loop l (i in 0..2) { return y; } return x; }",
    "OI0244": "block entry { branch a; return; } block a { branch a; return; }",
    "OI0247": "block entry { branch a; return; } block a { yield y; return; }",
    "OI0249": "block entry { yield y; op relu(x) >> y; await y; return; } block a { await y; yield y; }",
    "OI0258": "block entry { loop l (N in 0..2) { barrier; } assign t: f32[N]; return; }",
    "OI0260": "block entry { loop l (i in 0..2) { branch a; } return; } "
    "block a { cache.read K[i] >> y; return; }",
    "OI0261": "block entry { yield y; yield y; await y; return; } block a { await y; yield y; }",
    "OI0262": "block entry { await y; return; }",
    "OI0265": "block entry { return; } block a { await y; yield y; }",
    "OI0267": "block entry { yield s; await s; return; } block a { await s; yield s; }",
    "OI0269": "block entry { yield y; await y; return; } block a { await y; yield m; }",
}


def codes(error: oi.ProgramError) -> list[str]:
    return [d.code for d in error.diagnostics if d.severity == "error"]


PROGRAMS = {
    **{
        c: f"block entry {{ {text} return; }} block other {{ return; }}"
        for c, text in MISTAKES.items()
    },
    **ORDER,
}


@pytest.mark.parametrize("code", PROGRAMS)
def test_ir_is_checked_as_text_is(code: str) -> None:
    text = HEAD + PROGRAMS[code]
    with pytest.raises(oi.ProgramError) as of_text:
        oi.graph(text).check()
    assert set(codes(of_text.value)) == {code}
    report = Report(source=Source(text))
    module, _ = build(parse(report.source, report), report)
    assert not report.errors
    read = parse_ir(str(module), "program.mlir", make_context()).module
    with pytest.raises(oi.ProgramError) as of_ir:
        Simulator(read)
    assert {d.message for d in of_ir.value.diagnostics} == {
        d.message for d in of_text.value.diagnostics if d.severity == "error"
    }
