"""Attention on a Vulkan device: of many queries in f16, by matrices where it has them, and of one query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.options import TIERS

PROGRAM = """
dynamic {{
    q: f16[{batches}, {heads}, {queries}, {size}];
    k: f16[{batches}, {groups}, {keys}, {size}]; v: f16[{batches}, {groups}, {keys}, {size}];
    m: {mask}[1, 1, {rows}, {keys}];
}}
block entry {{
    assign o: f16[{batches}, {heads}, {queries}, {size}];
    assign p: f16[{batches}, {heads}, {queries}, {size}];
    op attention(q, k, v, m) >> o;
    op attention(q, k, v, causal=true, window={window}) >> p;
    return o, p;
}}
"""
SHAPES = [
    # Batches, heads, groups of keys, queries, keys, size.
    (1, 12, 12, 128, 128, 32),  # Subgroups share the queries.
    (2, 4, 2, 77, 201, 64),
    (1, 2, 2, 5, 300, 16),
    (1, 3, 1, 33, 70, 128),
    (9, 12, 4, 66, 70, 64),  # Each has its own.
    (5, 20, 20, 20, 33, 80),
]


@pytest.mark.parametrize("mask", ["f16", "bool"])
@pytest.mark.parametrize(("batches", "heads", "groups", "queries", "keys", "size"), SHAPES)
def test_attention_of_many_queries(
    batches: int,
    heads: int,
    groups: int,
    queries: int,
    keys: int,
    size: int,
    mask: str,
    everything_on_vulkan: None,
) -> None:
    rows = queries if mask == "bool" else 1
    text = PROGRAM.format(
        **{"batches": batches, "heads": heads, "groups": groups, "queries": queries},
        **{"keys": keys, "size": size, "mask": mask, "rows": rows, "window": keys * 3 // 4},
    )
    draw = np.random.default_rng(keys * size)

    def drawn(*shape: int) -> Any:
        return draw.standard_normal(shape).astype(np.float16)

    inputs = {
        "q": drawn(batches, heads, queries, size),
        "k": drawn(batches, groups, keys, size),
        "v": drawn(batches, groups, keys, size),
        "m": drawn(1, 1, 1, keys),
    }
    if mask == "bool":
        inputs["m"] = draw.random((1, 1, queries, keys)) > 0.4
        inputs["m"][..., -1, :] = False
        inputs["m"][..., keys // 2] = False
        # No query sees this value with the mask, and some see it without.
        inputs["v"][:, :, keys // 2, 3] = (np.nan, np.inf)[size % 32 > 0]
    found = oi.compile(text, device="vulkan", fallback=False).make_executor().run(**inputs)
    expected = oi.Simulator(text).make_executor().run(**inputs)
    for name, value in expected.items():
        both = [np.asarray(one, np.float64) for one in (found[name], value)]
        np.testing.assert_allclose(*both, rtol=3e-3, atol=3e-3, err_msg=name)
    if mask == "bool":
        assert np.isfinite(np.asarray(expected["o"])).all()
        assert not np.isfinite(np.asarray(expected["p"])).all()


@pytest.mark.parametrize("mask", ["", ", m"])
def test_attention_without_queries(mask: str, everything_on_vulkan: None) -> None:
    """A workgroup is laid out, and none is started."""
    text = f"""
        dynamic {{ q: f32[1, 2, 0, 8]; k: f32[1, 2, 5, 8]; m: bool[1, 1, 1, 5]; }}
        block entry {{ assign o: f32[1, 2, 0, 8]; op attention(q, k, k{mask}) >> o; return o; }}"""
    q, k = np.zeros((1, 2, 0, 8), np.float32), np.ones((1, 2, 5, 8), np.float32)
    given = {"q": q, "k": k, "m": np.ones((1, 1, 1, 5), np.bool_)}
    found: Any = oi.compile(text, device="vulkan").make_executor().run(**given)["o"]
    assert found.shape == (1, 2, 0, 8)


ONE = """
dynamic {{
    q: {x}[1, 4, 1, 64]; k: {x}[1, 2, {keys}, 64]; v: {x}[1, 2, {keys}, 64]; m: bool[1, 1, 1, {keys}];
}}
block entry {{
    assign o: {x}[1, 4, 1, 64]; assign p: {x}[1, 4, 1, 64];
    op attention(q, k, v) >> o;
    op attention(q, k, v, m) >> p;
    return o, p;
}}
"""


@pytest.mark.parametrize("tier", TIERS[:2])
@pytest.mark.parametrize("x", ["f16", "f32"])
@pytest.mark.parametrize("known", [True, False])
def test_attention_of_one_query(
    known: bool, x: str, tier: str, everything_on_vulkan: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some keys, whole rounds of them, and a few more, against f64; the same bits in each run."""
    monkeypatch.setenv("OPENINFER_VULKAN_TIER", tier)
    draw = np.random.default_rng(7)
    dtype = {"f16": np.float16, "f32": np.float32}[x]
    open_program = None if known else oi.compile(ONE.format(x=x, keys="n"), device="vulkan")
    for keys in (1, 20, 513, 700) if known else (1, 20, 64, 300, 512, 513, 1030, 1500):
        program = open_program or oi.compile(ONE.format(x=x, keys=keys), device="vulkan")
        inputs: dict[str, Any] = {
            name: draw.standard_normal((1, heads, count, 64)).astype(dtype)
            for name, heads, count in (("q", 4, 1), ("k", 2, keys), ("v", 2, keys))
        }
        inputs["m"] = draw.random((1, 1, 1, keys)) > 0.3
        inputs["m"][..., 0] = True
        # One that nobody sees with the mask.
        inputs["m"][..., 0, keys // 2] = keys == 1
        with program.make_executor() as executor:
            found, again = (
                {name: np.array(value) for name, value in executor.run(**inputs).items()}
                for _ in range(2)
            )
        q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
        scores = q @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 8
        for name, hidden in (("o", None), ("p", ~inputs["m"])):
            weights = np.exp(scores if hidden is None else np.where(hidden, -np.inf, scores))
            wanted = weights @ np.repeat(v, 2, 1) / weights.sum(-1, keepdims=True)
            allowed = 2e-3 if x == "f16" else 1e-5
            value = found[name].astype(np.float64)
            np.testing.assert_allclose(value, wanted, rtol=allowed, atol=allowed, err_msg=f"{keys}")
            assert np.array_equal(found[name], again[name])


MANY = """
dynamic {{
    q: {x}[2, {heads}, 1, {size}]; k: {x}[2, 2, {keys}, {size}]; v: {x}[2, 2, {keys}, {size}];
    m: bool[1, 1, 1, {keys}];
}}
block entry {{
    assign o: {x}[2, {heads}, 1, {size}]; assign p: {x}[2, {heads}, 1, {size}];
    op attention(q, k, v{causal}) >> o;
    op attention(q, k, v, m) >> p;
    return o, p;
}}
"""


@pytest.mark.parametrize(
    ("x", "heads", "size", "keys", "window"),
    # Two heads of queries in a workgroup are those of the second one.
    [("f16", 2, 64, "n", None), ("f32", 4, 32, 9000, 5000)],
)
def test_keys_of_one_query_are_divided(
    x: str, heads: int, size: int, keys: int | str, window: int | None, everything_on_vulkan: None
) -> None:
    """Parts of one round and of several, a last one that is short, parts that are hidden, and a value that
    nobody sees, against f64."""
    dtype = {"f16": np.float16, "f32": np.float32}[x]
    causal = "" if window is None else f", causal=true, window={window}"
    text = MANY.format(x=x, heads=heads, size=size, keys=keys, causal=causal)
    program = oi.compile(text, device="vulkan", fallback=False)
    assert sum("_in_parts" in name for name in program.parts) == 2
    for count in (2047, 2049, 9000) if isinstance(keys, str) else (keys,):
        draw = np.random.default_rng(count)
        given = {"q": (heads, 1), "k": (2, count), "v": (2, count)}
        inputs: dict[str, Any] = {
            name: draw.standard_normal((2, *shape, size)).astype(dtype)
            for name, shape in given.items()
        }
        inputs["m"] = draw.random((1, 1, 1, count)) > 0.3
        inputs["m"][..., 300:1700] = False
        inputs["m"][..., 0] = True
        q, k, v = (inputs[name].astype(np.float64) for name in "qkv")
        k, v = np.repeat(k, heads // 2, 1), np.repeat(v, heads // 2, 1)
        scores = q @ k.swapaxes(-1, -2) / size**0.5
        seen = np.arange(count) >= count - (window or count)
        # With the mask nobody sees this one, nor in a window.
        hidden = dict(inputs, v=inputs["v"].copy())
        hidden["v"][:, :, 1500] = np.nan
        with program.make_executor() as executor:
            found = {name: np.array(one) for name, one in executor.run(**inputs).items()}
            again = {name: np.array(one) for name, one in executor.run(**hidden).items()}
        for name, sees in (("o", seen), ("p", inputs["m"])):
            weights = np.where(sees, np.exp(scores), 0)
            wanted = weights @ v / weights.sum(-1, keepdims=True)
            allowed = 2e-3 if x == "f16" else 1e-5
            value = found[name].astype(np.float64)
            message = f"{name} of {count} keys"
            np.testing.assert_allclose(value, wanted, rtol=allowed, atol=allowed, err_msg=message)
        assert np.array_equal(found["p"], again["p"])
        if window is None:
            assert np.isnan(again["o"].astype(np.float64)).all()
        else:
            assert np.array_equal(found["o"], again["o"])
