"""Forms of the first edition: what each becomes, and that the result runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program
from openinfer.runtime.packages.oinf_writer import OinfContent


def canonical(text: str) -> str:
    """The program as it is written today, without blank lines and indentation."""
    module = parse_program(text)
    printed = print_program(module)
    again = parse_program(printed)
    assert again.is_structurally_equivalent(module), printed
    return "\n".join(line.strip() for line in printed.splitlines() if line.strip())


def same(first: str, today: str) -> None:
    assert canonical(first) == canonical(today)


def model(folder: Path, **content: Any) -> oi.Package:
    path = folder / "model.oinf"
    oi.write_oinf(OinfContent(**content), path)
    return oi.open_model(path)


def f32(values: Any) -> NDArray[np.float32]:
    return np.array(values, np.float32)


IO = "inputs { x: f32 [B, D]; } outputs { y: f32 [B, D]; } "


def test_sections() -> None:
    same(
        "inputs { x: f32 [B, 3]; n: i32 []; } outputs { y: f32 [B, 3] @init(1.0); }"
        "state { c: f32[4]; s: i64 @init(2); } block entry { return; }",
        "dynamic { x: f32[B, 3]; n: i32; } volatile { y: f32[B, 3] @init(1.0); }"
        "persistent { c: f32[4]; s: i64 @init(2); } block entry { return; }",
    )


@pytest.mark.parametrize("header", ["model: model,", "model: net,", "model: &net,", "model: net;"])
def test_header(header: str) -> None:
    same(f"graph! {{ {header} block entry {{ return; }} }}", "block entry { return; }")


def test_header_names_the_package() -> None:
    same(
        IO + 'model: net, block entry { y = op mul(x, net["scale"]); return; }',
        IO + 'block entry { y = op mul(x, model["scale"]); return; }',
    )


@pytest.mark.parametrize("front", ["let g = ", "let (g, out) = ", ""])
def test_rust_around_a_program(front: str) -> None:
    same(f"{front}graph! {{ block entry {{ return; }} }};", "block entry { return; }")


def test_definitions() -> None:
    same(
        IO + "block entry { t = op add(a=x, b=x); t = op relu(x=t, alpha=0.5); y = op mul(t, b=x);"
        "return y; }",
        IO + "block entry { assign t: f32[B, D]; op add(x, x) >> t;"
        "op relu(t, negative_slope=0.5) >> t; op mul(t, x) >> y; return y; }",
    )


def test_operands_by_name() -> None:
    text = "inputs { a: f32[4, 8]; b: f32[8, 2]; } block entry { y = op %s; return y; }"
    wanted = canonical(text % "matmul(a, b)")
    for call in ("matmul(a=a, b=b)", "matmul(b=b, a=a)", "matmul(a, b=b)"):
        assert canonical(text % call) == wanted
    assert "attention(a, a, a, causal=true)" in canonical(
        text % "sdpa(v=a, q=a, k=a, is_causal=true)"
    )
    assert "layer_norm(a, b, eps=1e-06)" in canonical(
        "inputs { a: f32[4, 8]; b: f32[8]; } block entry {"
        "y = op layer_norm(weight=b, x=a, eps=1e-6); return y; }"
    )
    assert "concat(a, a, a, axis=1)" in canonical(text % "concat(a=a, b=a, c=a, axis=1)")


def test_several_outputs() -> None:
    assert "op split(x, axis=1) >> p, q;" in canonical(
        "inputs { x: f32[2, 4]; } block entry { p, q = op split(x, axis=1); return p, q; }"
    )


def test_names_of_the_package(tmp_path: Path) -> None:
    text = IO + (
        'block entry { t = op mul(a=x, b=model["scale"]); t = op add(t, model["norm.bias"]);'
        'y = op relu(t, clamp_max=model["most"]); u = op mul(t, model["scale"]); return y, u; }'
    )
    assert canonical(text).startswith(
        'constant {\nscale: _ @ref("scale");\nnorm_bias: _ @ref("norm.bias");\n'
        'most: _ @ref("most");\n}'
    )
    content = {
        "metadata": {"most": oi.ScalarValue(2, "f32")},
        "tensors": {"scale": f32([2, 3]), "norm.bias": f32([[1], [0]])},
    }
    with model(tmp_path, sizevars={"B": 2, "D": 2}, **content) as package:
        x = f32([[1, -1], [0.25, 0.5]])
        t = x * [2, 3] + [[1], [0]]
        for executor in (
            oi.Simulator(text, package).make_executor(),
            oi.compile(text, package).make_executor(),
        ):
            found = executor.run(x=x)
            np.testing.assert_allclose(found["y"], np.clip(t, 0, 2))
            np.testing.assert_allclose(found["u"], t * [2, 3])


def test_made_up_names_are_free() -> None:
    text = canonical(
        "inputs { scale: f32[2]; w: f32[D]; } block entry {"
        't = op mul(scale, model["scale"]); u = op mul(w, model["D"]); v = op mul(w, model["2.w"]);'
        'z = op mul(w, model["f32"]); return t, u, v, z; }'
    )
    for line in (
        'model_scale: _ @ref("scale");',
        'model_D: _ @ref("D");',
        'model_2_w: _ @ref("2.w");',
        'model_f32: _ @ref("f32");',
    ):
        assert line in text


def test_formatted_names(tmp_path: Path) -> None:
    text = IO + (
        "block entry { h = op add(a=x, b=x); loop layers (l in 0..n) { block body {"
        'h = op matmul(a=h, b=model[fmt("W.{l}")]); } }'
        'loop again (k in 0..n) { h = op add(h, model[fmt("W.{k}")]); }'
        'y = op matmul(h, model[fmt("attn.{D}.qkv.{D}")]); return y; }'
    )
    printed = canonical(text)
    assert 'W(l): _ @pattern("W.{l}");' in printed
    assert 'attn_qkv(D): _ @pattern("attn.{D}.qkv.{D}");' in printed
    assert "op add(h, W[k]) >> h;" in printed
    w = [f32([[1, 2], [3, 4]]), f32([[0, 1], [1, 0]])]
    tensors = {"W.0": w[0], "W.1": w[1], "attn.2.qkv.2": np.eye(2, dtype=np.float32)}
    with model(tmp_path, sizevars={"B": 2, "D": 2, "n": 2}, tensors=tensors) as package:
        x = f32([[1, 0], [0, 1]])
        found = oi.Simulator(text, package).make_executor().run(x=x)["y"]
        np.testing.assert_allclose(found, 2 * x @ w[0] @ w[1] + w[0] + w[1])


def test_effects() -> None:
    same(
        "state { c: buffer(f32, [B, 8, D]); last: f32[B, D]; K(l, t): f32[B, D] @table; }"
        "inputs { v: f32[B, D]; i: i32; } block entry { effect write(c, index=i, value=v);"
        "effect write(last, value=v); effect write(K[0, i], value=v);"
        "h = effect read(c, index=2*i - 1); g = effect read(last); return h, g; }",
        "persistent { c(index): f32[B, D] @table @fixed(index=8); last: f32[B, D];"
        "K(l, t): f32[B, D] @table; } dynamic { v: f32[B, D]; i: i32; }"
        "block entry { cache.write v >> c[i]; cache.write v >> last; cache.write v >> K[0, i];"
        "assign h: f32[B, D]; cache.read c[2*i - 1] >> h; assign g: f32[B, D];"
        "cache.read last >> g; return h, g; }",
    )


def test_body_blocks() -> None:
    same(
        IO + "block entry { h = op add(x, x); loop a (i in 0..2) { block body {"
        "loop b (j in 0..i) { block inner { h = op relu(h); return; } } h = op neg(h); return; } }"
        "return h; }",
        IO + "block entry { assign h: f32[B, D]; op add(x, x) >> h; loop a (i in 0..2) {"
        "loop b (j in 0..i) { op relu(h) >> h; } op neg(h) >> h; } return h; }",
    )


def test_a_temporary_is_assigned_once_in_each_block() -> None:
    assert (
        canonical(
            IO + "block entry { loop a (i in 0..2) { h = op neg(x); } branch b; h = op relu(h);"
            "return h; } block b { h = op neg(h); return; }"
        ).count("assign h: f32[B, D];")
        == 2
    )


def test_explicit_temporaries_stay() -> None:
    printed = canonical(IO + "block entry { assign h: f16[B, D]; h = op relu(x); return h; }")
    assert printed.count("assign") == 1


# Buffers.


def buffer_of(dims: str, statements: str, inputs: str = "v: f32[B, D];") -> str:
    """The declaration of `c` in the printed program."""
    printed = canonical(
        f"state {{ c: buffer(f32, [{dims}]); }} inputs {{ i: i32; {inputs} }}"
        f"block entry {{ {statements} return; }}"
    )
    return next(line for line in printed.splitlines() if line.startswith("c"))


WRITE = "effect write(c, index=i, value=v);"


@pytest.mark.parametrize(
    ("dims", "statements", "wanted"),
    [
        ("B, 8, D", WRITE, "c(index): f32[B, D] @table @fixed(index=8);"),
        ("8, B, D", WRITE, "c(index): f32[B, D] @table @fixed(index=8);"),
        ("B, D, 8", WRITE, "c(index): f32[B, D] @table @fixed(index=8);"),
        ("B, T, D", WRITE, "c: buffer(f32, [B, T, D]);"),
        ("B, D", WRITE, "c(index): f32[B, D] @table;"),
        ("B, 8, D", "h = effect read(c, index=i);", "c(index): f32[B, D] @table @fixed(index=8);"),
        ("8", "h = effect read(c, index=i);", "c(index): f32 @table @fixed(index=8);"),
        ("B, 8, D", "effect write(c, value=w);", "c: f32[B, 8, D];"),
        ("B, 8, D", "", "c: f32[B, 8, D];"),
        (
            "B, 8, D",
            "h = effect read(c, index=i); t = op add(v, h); effect write(c, index=i, value=t);",
            "c(index): f32[B, D] @table @fixed(index=8);",
        ),
        (
            "8, B, D",
            "h = effect read(c, index=i); t = op relu(v); effect write(c, index=i, value=t);",
            "c(index): f32[B, D] @table @fixed(index=8);",
        ),
    ],
)
def test_buffers(dims: str, statements: str, wanted: str) -> None:
    inputs = "v: f32[B, D]; w: f32[B, 8, D];"
    assert buffer_of(dims, statements, inputs) == wanted


def test_buffer_with_a_named_bound(tmp_path: Path) -> None:
    text = (
        "state { past: buffer(f32, [B, T]) @init(0.5); } inputs { v: f32[B]; i: i32; }"
        "block entry { effect write(past, index=i, value=v); h = effect read(past, index=i + 1);"
        "return h; }"
    )
    assert "past: buffer(f32, [B, T]) @init(0.5);" in canonical(text)
    with model(tmp_path, sizevars={"T": 3}) as package:
        executor = oi.Simulator(text, package).make_executor()
        np.testing.assert_array_equal(executor.run(v=f32([1, 2]), i=0)["h"], [0.5, 0.5])
        assert executor.fetch("past").shape == (3, 2)
        with pytest.raises(oi.StepError, match="past") as caught:
            executor.run(v=f32([1, 2]), i=2)
        assert caught.value.code == "OI0606"
    # The caller may give the bound, and without any there is none.
    given = oi.Simulator(text, sizes={"T": 2}).make_executor()
    with pytest.raises(oi.StepError):
        given.run(v=f32([1]), i=1)
    free = oi.Simulator(text).make_executor()
    free.run(v=f32([1]), i=5)
    assert free.fetch("past").shape == (7, 1)


def test_buffer_that_only_the_package_decides(tmp_path: Path) -> None:
    text = (
        "state { past: buffer(f32, [T, B]); } inputs { x: f32[B]; i: i32; }"
        'block entry { h = op mul(x, model["scale"]); effect write(past, index=i, value=h);'
        "return h; }"
    )
    assert "past: buffer(f32, [T, B]);" in canonical(text)
    with model(tmp_path, sizevars={"T": 4, "B": 2}, tensors={"scale": f32([2, 3])}) as package:
        executor = oi.Simulator(text, package).make_executor()
        executor.run(x=f32([1, 1]), i=1)
        np.testing.assert_array_equal(np.asarray(executor.fetch("past"))[1], [2, 3])
        assert executor.fetch("past").shape == (4, 2)


# Mistakes that are not in the table of codes.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("model net, block entry { return; }", "OI0112"),
        ("model: , block entry { return; }", "OI0110"),
        (IO + "block entry { x = op relu(x=x); return; }", "OI0220"),
        (IO + "block entry { h = op relu(x=h); return; }", "OI0211"),
        (IO + 'block entry { op relu(x) >> model["y"]; return; }', "OI0220"),
        (IO + "block entry { t = op add(a=x, b=x return t; }", "OI0110"),
        (IO + "block entry { t = op mathmul(a=x, b=x); return t; }", "OI0214"),
        (IO + "block entry { t = op add(a=x); return t; }", "OI0217"),
        (IO + "block entry { t = op add(a=x, b=x, c=x); return t; }", "OI0215"),
        (IO + "block entry { effect write(y, index=0, value=x); return; }", "OI0221"),
        ("state { c: buffer[8]; } block entry { return; }", "OI0301"),
        ("state { c: buffer(f32, B); } block entry { return; }", "OI0110"),
        ("inputs { c: buffer(f32, [B]); } block entry { return; }", "OI0110"),
        (IO + "block entry { block inner { return; } return; }", "OI0116"),
    ],
)
def test_mistakes(text: str, code: str) -> None:
    found = parse_text(text)
    assert code in [d.code for d in found.errors], found.render()
    assert all(d.location is not None for d in found.errors)
