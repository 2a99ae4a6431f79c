"""Attention of many queries in f16 on a Vulkan device: by matrices where it has them, else in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi

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
