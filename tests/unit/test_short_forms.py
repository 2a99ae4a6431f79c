"""`h = op …;` and `k = cache.read …;`: what is inferred, and what a name that exists means."""

from __future__ import annotations

import numpy as np
import pytest
from both_executors import agree, tensor

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program

X = np.arange(36, dtype=np.float32).reshape(3, 12)


def both(text: str, model: object = None, **inputs: object) -> dict[str, np.ndarray]:
    """The results of the simulator, which compiled programs give, too."""
    found: list[dict[str, np.ndarray]] = []
    for make in (oi.Simulator, oi.compile):
        with make(text, model).make_executor() as executor:  # pyright: ignore[reportArgumentType]
            results = executor.run(**inputs)  # pyright: ignore[reportArgumentType]
            found.append({name: np.asarray(value) for name, value in results.items()})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-5)
    return found[0]


def test_a_new_name_is_a_temporary_and_an_old_one_is_written() -> None:
    text = """dynamic { x: f32[B, 12]; }
volatile { narrow: f16[B, 12]; }
block entry {
    a, b = op split(x, axis=1);
    a = op mul(a, b);
    narrow = op add(x, 0.1);
    return a, narrow;
}
"""
    found = both(text, x=X)
    assert np.array_equal(found["a"], X[:, :6] * X[:, 6:])
    assert found["narrow"].dtype == np.float16
    assert "assign a: f32[B, 6];" in print_program(parse_program(text))


def test_a_name_keeps_its_type() -> None:
    text = "dynamic { x: f32[2, 3]; } block entry { h = op exp(x); h = op transpose(h); return h; }"
    with pytest.raises(oi.ProgramError, match="OI0323"):
        oi.Simulator(text)


@pytest.mark.parametrize(
    ("name", "code"), [("x", "OI0220"), ("c", "OI0220"), ("p", "OI0221"), ("W", "OI0230")]
)
def test_what_no_op_writes(name: str, code: str) -> None:
    text = f"""dynamic {{ x: f32[2]; }} persistent {{ p: f32[2]; }}
constant {{ c: f32[2] @init(1); }} volatile {{ W(l): f32[2] @pattern("W.{{l}}"); }}
block entry {{ {name} = op exp(x); return; }}"""
    assert [d.code for d in parse_text(text).errors] == [code]


def test_reads_of_caches() -> None:
    text = """dynamic { v: f32[3]; w: f32[1, 3]; }
persistent { K(l, t): f32[3] @table; n: i32; }
block entry {
    cache.write v >> K[0, n];
    one = cache.read K[0, n];
    all = cache.read K[0, ];
    more = op concat(all, w, axis=0);
    more = op mul(more, 2);
    cache.increment n;
    return one, more;
}
"""
    steps = [
        {"v": tensor("f32", [3], [1, 2, 3 + s]), "w": tensor("f32", [1, 3], [s] * 3)}
        for s in range(3)
    ]
    agree(text, steps)
    assert "assign all: f32[_, 3];" in print_program(parse_program(text))
    assert next(iter(parse_text(text.replace("one =", "one, two =")).errors)).code == "OI0123"


def test_sizes_that_only_tensors_give() -> None:
    text = """dynamic { x: f32[B, D]; }
constant { w: _; v: f32[D, D]; }
block entry { h = op matmul(x, w); g = op matmul(x, v); return h, g; }
"""
    model = {"w": np.ones((12, 20), np.float32), "v": np.ones((12, 12), np.float32)}
    assert both(text, model, x=X)["h"].shape == (3, 20)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("op slice(x, axis=0, start=0, stop=k)", (2, 12)),
        ("op slice(x, axis=0, start=B - 1, stop=B)", (1, 12)),
        ("op topk(x, k=k)", (3, 2)),
        ("op iota(shape=[k, B])", (2, 3)),
        ("op reshape(x, shape=[-1, 2])", (18, 2)),
        ("op reshape(x, shape=[B, k, D/k])", (3, 2, 6)),
        ("op random_uniform(shape=[k, 3])", (2, 3)),
    ],
)
def test_shapes_that_a_step_decides(call: str, shape: tuple[int, ...]) -> None:
    targets = "h, i" if "topk" in call else "h"
    text = f"dynamic {{ x: f32[B, D]; k: i32; }}\nblock entry {{ {targets} = {call}; return h; }}\n"
    assert both(text, x=X, k=np.int32(2))["h"].shape == shape


def test_a_reshape_that_does_not_fit_fails_in_the_step() -> None:
    text = "dynamic { x: f32[B, D]; k: i32; } block entry { h = op reshape(x, shape=[B, k, D/k]); return h; }"
    for make in (oi.Simulator, oi.compile):
        with make(text).make_executor() as executor:
            with pytest.raises(oi.StepError):
                executor.run(x=X, k=np.int32(5))
            assert executor.run(x=X, k=np.int32(4))["h"].shape == (3, 4, 3)
