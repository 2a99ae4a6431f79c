"""What recognisers need content for, and a decoder that takes its tokens in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler import registry
from openinfer.compiler.frontend.printer import print_program
from openinfer.dialects.graph import OpOp
from openinfer.lowering.graph.imports.tensors import using_tensors
from openinfer.lowering.graph.imports.uses import kind, settings_of
from openinfer.runtime.errors import UnsupportedError

Arrays = dict[str, np.ndarray[Any, Any]]

ROTARY = """
dynamic {{ x: f32[B, 2, L, 8]; given: i64[B, L]; }}
constant {{ frequencies: f32[4] @ref("frequencies"); }}
block entry {{
    {positions}
    place = op cast(p, to=f32);
    column = op reshape(place, shape=[{rows}, L, 1]);
    angle = op mul(column, frequencies);
    both = op concat(angle, angle, axis=-1);
    c = op cos(both);
    s = op sin(both);
    c4 = op unsqueeze(c, axes=[1]);
    s4 = op unsqueeze(s, axes=[1]);
    x1 = op slice(x, axis=-1, start=0, stop=4);
    x2 = op slice(x, axis=-1, start=4, stop=8);
    n = op neg(x2);
    turned = op concat(n, x1, axis=-1);
    a = op mul(x, c4);
    b = op mul(turned, s4);
    y = op add(a, b);
    return y;
}}
"""

DECODER = """
dynamic { tokens: i64[B, L]; }
constant {
    words: f32[11, 16] @ref("words");
    places: f32[32, 16] @ref("places");
    w: f32[16, 16] @ref("w");
    u: f32[8, 16] @ref("u");
}
block entry {
    assign h: f32[B, L, 16];
    e = op embedding(words, tokens);
    p = op slice(places, axis=0, start=0, stop=L);
    x = op add(e, p);
    transfer x >> h;
    loop layers (l in 0..2) {
        n = op rms_norm(h);
        q = op linear(n, w);
        k = op linear(n, u);
        v = op linear(n, u);
        q2 = op rope(q, heads=4);
        k2 = op rope(k, heads=2);
        a = op attention(q2, k2, v, causal=true, window=6, heads=4, kv_heads=2);
        r = op add(h, a);
        transfer r >> h;
    }
    i = op iota(shape=[1, L, 1], axis=1);
    f = op cast(i, to=f32);
    y = op add(h, f);
    return y;
}
"""


def applied(text: str, name: str, tensors: Arrays) -> ModuleOp:
    module = oi.graph(text).module.clone()
    with using_tensors(dict(tensors)):
        registry.load(registry.PASSES[name])().apply(registry.make_context(), module)
    module.verify()
    return module


def run(module: ModuleOp, tensors: Arrays, *steps: Arrays) -> list[np.ndarray[Any, Any]]:
    executor = oi.Simulator(oi.graph(print_program(module)), tensors).make_executor()
    found: list[np.ndarray[Any, Any]] = []
    for inputs in steps:
        executor.insert(**inputs)
        executor.step()
        found.append(np.asarray(executor.fetch("y")))
    return found


@pytest.mark.parametrize("base", [10000.0, 500000.0])
@pytest.mark.parametrize("given", [False, True])
def test_the_base_of_a_rotary_embedding_is_found_in_its_frequencies(
    base: float, given: bool
) -> None:
    tensors = {"frequencies": (base ** -(np.arange(4) / 4)).astype(np.float32)}
    positions = "p = op reshape(given, shape=[B, L]);" if given else "p = op iota(shape=[1, L]);"
    text = ROTARY.format(positions=positions, rows="B" if given else "1")
    module = applied(text, "recognize-rotary", tensors)
    ops = [op for op in module.walk() if isinstance(op, OpOp)]
    assert [kind(op) for op in ops if kind(op) not in ("reshape",)] == ["rope"]
    assert settings_of(ops[-1])["base"] == base
    assert len(ops[-1].inputs.data) == (2 if given else 1)
    rng = np.random.default_rng(1)
    inputs: Arrays = {
        "x": rng.standard_normal((2, 2, 5, 8), dtype=np.float32),
        "given": rng.integers(0, 50, (2, 5)),
    }
    (want,) = run(oi.graph(text).module, tensors, inputs)
    (got,) = run(module, tensors, inputs)
    np.testing.assert_allclose(got, want, atol=2e-5)


def test_one_frequency_that_is_off_makes_tables() -> None:
    frequencies = (10000.0 ** -(np.arange(4) / 4)).astype(np.float32)
    frequencies[2] *= 1.0001
    text = ROTARY.format(positions="p = op iota(shape=[1, L]);", rows="1")
    module = applied(text, "recognize-rotary", {"frequencies": frequencies})
    (rope,) = [op for op in module.walk() if isinstance(op, OpOp) and kind(op) == "rope"]
    assert len(rope.inputs.data) == 3


def test_a_decoder_takes_tokens_in_parts() -> None:
    rng = np.random.default_rng(2)
    tensors: Arrays = {
        "words": rng.standard_normal((11, 16), dtype=np.float32),
        "places": rng.standard_normal((32, 16), dtype=np.float32),
        "w": rng.standard_normal((16, 16), dtype=np.float32) / 4,
        "u": rng.standard_normal((8, 16), dtype=np.float32) / 4,
    }
    tokens = rng.integers(0, 11, (1, 12))
    (want,) = run(oi.graph(DECODER).module, tensors, {"tokens": tokens})
    parts = [tokens[:, :5], *np.split(tokens[:, 5:], 7, axis=1)]
    module = applied(DECODER, "add-cache", tensors)
    got = run(module, tensors, *[{"tokens": part} for part in parts])
    np.testing.assert_allclose(np.concatenate(got, axis=1), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("causal=true, window=6, ", "", "no attention in it is causal"),
        ("tokens: i64[B, L]", "tokens: i64[2, L]", "batch that is no dynamic size"),
        ("op rms_norm(h)", "op softmax(h, axis=1)", "`softmax` is not known to leave tokens apart"),
        ("op add(h, f)", "op cumsum(h, axis=1)", "`cumsum` is not known to leave tokens apart"),
    ],
)
def test_what_a_cache_cannot_keep_is_refused(old: str, new: str, reason: str) -> None:
    text = DECODER.replace(old, new)
    if "i64[2, L]" in text:
        text = text.replace("f32[B, L, 16]", "f32[2, L, 16]")
    with pytest.raises(UnsupportedError, match=reason) as refused:
        applied(text, "add-cache", {})
    assert refused.value.code == "OI1580"
