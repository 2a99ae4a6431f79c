"""Text → graph → text → graph: the printer writes what the parser reads, and locations are kept."""

from __future__ import annotations

import random

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc
from xdsl.parser import Parser

from openinfer.compiler.frontend import parse_program, parse_text, print_program
from openinfer.compiler.frontend.printer import size_text
from openinfer.dialects import graph
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.sizes import Size

WHOLE = """\
dynamic {
    x: f32[B, D];
    flags: bool[B];
}

constant {
    eps: f32 @ref("norm.eps");
    W(l): f32[D, 3*D] @pattern("W.{l}");
    QKV(layer, head): f16[D, 3*D] @pattern("attn.{head}.qkv.{layer}");
    scale: _ @ref("scale");
}

volatile {
    y: f32[B, D] @init(-0.5);
    big: u64 @init(18446744073709551615);
    on: bool @init(true);
    low: f32 @init(-inf);
    none: f32 @init(nan);
    t: i64[(D + 1)/2, max(B, 4), (B/2)*(D/3)];
    half: f16[D, 3*D];
    tagged: f32[B] @layout("rows") @quant("q8_0", 32) @mine(axis=1);
}

persistent {
    step: i32 @init(0);
    K(l, t): f16[H, Dh] @table;
    D2(i, j): f16[D, H] @table @fixed(i=1024, j=256);
    A(i, j): f32[D, H] @auto_dim(i, j);
    C(l, i, j): f32[D, H] @table @auto_dim(i, j) @fixed(l=4, i=2);
    past: buffer(f32, [B, T, D]) @init(1.0);
    last: f16[H, Dh];
}

block entry with { no_reorder = true } {
    assign h: f32[B, 3*D];
    assign c: bool;
    assign k: f16[H, Dh];
    assign ks: f16[_, H, Dh];
    assign a: f32[_, _];
    assign row: f32[_];
    assign s: _;
    loop layers (l in 0..num_layers - 1) with { fuse = false } {
        op matmul(x, W[l]) >> h;
        op relu(h, negative_slope=0.0, clamp_max=inf) >> h with { group = "g", placement = "cpu" };
        cache.read K[l, step] >> k;
        cache.read K[l, 0..step + 1] >> ks;
        cache.read K[l, ] >> ks;
        cache.read K[l] >> ks;
        cache.read K[l, ..-3] >> ks;
        cache.read A[step, ] >> row;
        cache.read A[, 0..H + j] >> a;
        cache.read A[, step - 1] >> row;
        cache.read A[] >> a;
        cache.read C[l, 1, step] >> a;
        cache.read last >> k;
        cache.write k >> K[l, step];
        cache.write ks >> K[l, 2..4];
        cache.write row >> A[step, ];
        cache.write k >> last;
        cache.write x >> past[step];
    }
    scope "tail \\"quoted\\" \\\\ α" {
        op is_finite(h) >> c;
        op split(h, axis=1) >> y, h;
    }
    branch c good bad;
    branch good;
    barrier;
    dep after(relu) before(cache.write);
    op reshape(h, shape=[B, 3, D/2, -1, 0 - D + 4]) >> y;
    op cast(h, to=f16) >> h;
    op gelu(h, approximate="tanh") >> h;
    cache.increment step;
    cache.decrement 2 step;
    cache.reset K[0];
    cache.reset K;
    cache.reset C[1];
    op mul(x, scale) >> s;
    yield y, h;
    barrier;
    await y, h;
    return y, h;
}

block reader {
    await y, h;
    op relu(h) >> h;
    yield y, h;
}

block writer {
    await y;
    op add(y, y) >> y;
    yield y;
}

block good {
    transfer QKV[0, 1] >> half;
    return;
}

block bad {
    op fill(y, value=eps) >> y;
    return;
}
"""


def test_text_is_canonical() -> None:
    result = parse_text(WHOLE, "whole.oi")
    assert not result.errors, result.render()
    assert result.module is not None
    result.module.verify()
    again = print_program(result.module)
    # Sizes are put into canonical order, everything else is written as it was read.
    assert again.splitlines() == WHOLE.splitlines()


def test_module_survives_the_printer() -> None:
    module = parse_program(WHOLE)
    again = parse_program(print_program(module))
    assert again.is_structurally_equivalent(module)


def test_module_survives_ir_text() -> None:
    module = parse_program(WHOLE)
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(graph.Graph)
    text = str(module)
    again = Parser(context, text).parse_module()
    assert str(again) == text
    assert print_program(again) == print_program(module)


def test_locations() -> None:
    module = parse_program(
        'volatile {\n  y: f32;\n}\nblock entry {\n    scope "s" {\n\top relu(y) >> y; barrier;\n'
        "    }\n    return;\n}\n",
        "place.oi",
    )
    places = {
        op.name: (op.location.filename.data, op.location.line.data, op.location.column.data)
        for op in module.walk()
        if isinstance(op.location, FileLineColLoc)
    }
    assert places == {
        "builtin.module": ("place.oi", 1, 1),
        "graph.variable": ("place.oi", 2, 3),
        "graph.block": ("place.oi", 4, 1),
        "graph.scope": ("place.oi", 5, 5),
        "graph.op": ("place.oi", 6, 2),
        "graph.barrier": ("place.oi", 6, 19),
        "graph.return": ("place.oi", 8, 5),
    }


def test_aliases_become_canonical() -> None:
    module = parse_program(
        "dynamic { q: f32[B, D]; } volatile { y: f8e5m2[B, D]; }"
        "block entry { assign t: f32[B, D]; op sdpa(q, q, q, is_causal=true) >> t;"
        "op relu(t, alpha=0.1) >> t; op cast(t, to=f8) >> y; return; }"
    )
    text = print_program(module)
    assert "op attention(q, q, q, causal=true) >> t;" in text
    assert "op relu(t, negative_slope=0.1) >> t;" in text
    assert "y: f8[B, D];" in text


def test_wrapper_and_optional_commas() -> None:
    wrapped = parse_program(
        "// as pasted\ngraph! { dynamic { x: f32[B D,]; } block entry { op add(x x) >> y with "
        '{ fuse = true }; return; } volatile { y: f32[B D]; W(a b): f32 @pattern("{a}{b}"); } };'
    )
    plain = parse_program(
        "dynamic { x: f32[B, D]; } block entry { op add(x, x) >> y with { fuse = true }; return; }"
        'volatile { y: f32[B, D]; W(a, b): f32 @pattern("{a}{b}"); }'
    )
    assert wrapped.is_structurally_equivalent(plain)


def test_words_of_the_language_are_names() -> None:
    words = (
        "op cache block read write entry assign scope after before model graph dep effect buffer "
        "state inputs outputs fmt let index yield await table"
    )
    declarations = "".join(f"{word}: f32[slice];" for word in words.split())
    statements = "".join(f"op relu({word}) >> {word};" for word in words.split())
    module = parse_program(
        f'volatile {{ {declarations} if: bool; W(l): f32[none] @pattern("{{l}}"); }}'
        f"block entry {{ {statements} branch if if block; transfer W[slice] >> op;"
        "transfer W[none] >> op; loop loop (to in in..with) { branch if; } return; }"
        "block if { return; } block block { return; }"
    )
    again = parse_program(print_program(module))
    assert again.is_structurally_equivalent(module)
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(graph.Graph)
    assert str(Parser(context, str(module)).parse_module()) == str(module)


def test_numbers() -> None:
    module = parse_program(
        "volatile { a: i64 @init(1_000); b: i64 @init(0xff); c: i64 @init(0b11); d: f64 @init(1e3);"
        "e: f32 @init(5); f: i64 @init(-9223372036854775808); g: f64 @init(1.5e-7); }"
        "block entry { loop k (i in 0..2) { return; } return; }"
    )
    text = print_program(module)
    for line in ("@init(1000)", "@init(255)", "@init(3)", "@init(1000.0)", "@init(5)",
                 "@init(-9223372036854775808)", "@init(1.5e-07)"):  # fmt: skip
        assert line in text


def test_parse_program_raises_everything_at_once() -> None:
    with pytest.raises(ProgramError) as caught:
        parse_program("volatile { y: f23; }\nblock entry { branch b; op x() >> z; }", "bad.oi")
    codes = [d.code for d in caught.value.diagnostics]
    assert codes == ["OI0301", "OI0212", "OI0214", "OI0210", "OI0240"]
    rendered = str(caught.value)
    assert "bad.oi:1:15: error[OI0301]: unknown dtype `f23`" in rendered
    assert "volatile { y: f23; }\n                ^~~" in rendered


def test_packages_facts_are_no_program_text() -> None:
    module = parse_program("block entry { return; }")
    first = module.body.block.first_op
    assert first is not None
    module.body.block.insert_op_before(graph.PackageSizeOp("B", 4), first)
    assert print_program(module) == "block entry {\n    return;\n}\n"


def test_sizes_survive_the_printer() -> None:
    rng = random.Random(7)

    def grow(depth: int) -> Size:
        kind = rng.randrange(7) if depth else 0
        if kind < 2:
            return Size.of(rng.choice(("B", "D", "n_layers", rng.randint(0, 9))))
        left, right = grow(depth - 1), grow(depth - 1)
        match kind:
            case 2:
                return left + right
            case 3:
                return left - right
            case 4:
                return left * right
            case 5:
                return left // (right + 1) if (right + 1).constant != 0 else left
            case _:
                return Size.max(left, right) if rng.random() < 0.5 else Size.min(left, right)

    checked = 0
    for _ in range(400):
        size = grow(4)
        if len(size.terms) > 20:
            continue
        text = size_text(size)
        module = parse_program(f"block entry {{ loop k (i in 0..{text}) {{ return; }} return; }}")
        loop = next(op for op in module.walk() if isinstance(op, graph.LoopOp))
        assert loop.stop.data == size, text
        checked += 1
    assert checked > 300


def test_deepest_legal_nesting() -> None:
    module = parse_program(
        f"block entry {{ {'loop a (i in 0..1) { ' * 31} barrier; {'} ' * 31} return; }}"
    )
    module.verify()
    assert parse_program(print_program(module)).is_structurally_equivalent(module)
