"""Ops, dtypes and their contracts: rows 59 to 68 and 98 of the feature table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import Make, close, equal, refused

import openinfer as oi
from openinfer.dialects import opset
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.tensors import Tensor

X = np.array([[-3, -1, 0], [1, 4, 9]], np.float32)


def one(make: Make, statement: str, outputs: str = "y: f32[2, 3]", **inputs: Any) -> Any:
    """The value of `y` after one statement over x and further inputs of shape [2, 3]."""
    given = {"x": X, **inputs}
    declared = " ".join(f"{name}: f32[2, 3];" for name in given)
    text = f"dynamic {{ {declared} }} block entry {{ assign {outputs}; {statement} return y; }}"
    return make(text).run(**given)["y"]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ("", np.maximum(X, 0)),
        ("negative_slope=0.0", np.maximum(X, 0)),
        ("negative_slope=0.01", np.where(X >= 0, X, np.float32(0.01) * X)),
        ("alpha=0.5", np.where(X >= 0, X, 0.5 * X)),
        ("negative_slope=0.0, clamp_max=6.0", np.clip(X, 0, 6)),
        ("negative_slope=0.0, clamp_min=-1e-6", np.maximum(X, 0)),
        ("negative_slope=1.0, clamp_min=-2.0, clamp_max=inf", np.maximum(X, -2)),
        ("clamp_min=-inf, clamp_max=4.0", np.clip(X, 0, 4)),
    ],
)
def test_relu_leaky_and_clamped(make: Make, settings: str, wanted: Any) -> None:
    call = f"op relu(x, {settings}) >> y;" if settings else "op relu(x) >> y;"
    close(one(make, call), wanted)


def test_relu_of_values_that_are_no_numbers(make: Make) -> None:
    x = np.array([[-np.inf, np.inf, np.nan], [-0.0, 1e-45, -1e-45]], np.float32)
    found = one(make, "op relu(x) >> y;", x=x)
    equal(found, [[0, np.inf, np.nan], [0, x[1, 1], 0]])
    equal(one(make, "op relu(x, clamp_max=6.0) >> y;", x=x)[0], [0, 6, np.nan])
    equal(one(make, "op relu(x, negative_slope=0.5) >> y;", x=x)[0], [-np.inf, np.inf, np.nan])


def test_matmul_add_mul(make: Make) -> None:
    close(one(make, "op add(x, z) >> y;", z=X + 1), 2 * X + 1)
    close(one(make, "op mul(x, x) >> y;"), X * X)
    found = one(make, "op matmul(x, z, transpose_b=true) >> y;", "y: f32[2, 2]", z=X + 1)
    close(found, X @ (X + 1).T)


def test_linear(make: Make) -> None:
    w, b = np.arange(6, dtype=np.float32).reshape(2, 3) / 4, np.array([1, -2], np.float32)
    text = """
        dynamic { x: f32[N, 3]; w: f32[2, 3]; b: f32[2]; }
        block entry { y = op linear(x, w, b); z = op linear(x, w); return y, z; }
    """
    found = make(text).run(x=X, w=w, b=b)
    close(found["y"], X @ w.T + b)
    close(found["z"], X @ w.T)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_is_finite_and_fill_nan_like(make: Make, bad: float) -> None:
    x = X.copy()
    equal(one(make, "op is_finite(x) >> y;", "y: bool"), True)
    x[1, 1] = bad
    equal(one(make, "op is_finite(x) >> y;", "y: bool", x=x), False)
    equal(one(make, "op fill_nan_like(x, value=0.0) >> y;", x=x), np.zeros((2, 3)))
    equal(one(make, "op fill(x, value=2.5) >> y;", x=x), np.full((2, 3), 2.5))
    assert np.isnan(one(make, "op fill_nan_like(x) >> y;", x=x)).all()


@pytest.mark.parametrize("name", ["attention", "attn", "sdpa"])
def test_attention(make: Make, name: str) -> None:
    scores = X @ (X / 4).T / np.sqrt(3)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    close(one(make, f"op {name}(x, k, v) >> y;", k=X / 4, v=X + 2), weights @ (X + 2))


def attended(q: Any, k: Any, v: Any, allowed: Any = True) -> Any:
    """Attention of [L, H, D] over [S, H, D] in f64, where `allowed` may say no."""
    scores = np.einsum("lhd,shd->hls", q, k, dtype=np.float64) / np.sqrt(q.shape[-1])
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hls,shd->lhd", weights / weights.sum(axis=-1, keepdims=True), v)


@pytest.mark.parametrize("settings", ["", "causal=true", "window=2", "causal=true, window=2"])
def test_attention_over_masks_windows_and_shared_heads(make: Make, settings: str) -> None:
    """Four query heads share two of keys and values; the queries are the last of six positions."""
    generator = np.random.default_rng(8)
    q = generator.standard_normal((1, 4, 3, 8), np.float32)
    k, v = (generator.standard_normal((1, 2, 6, 8), np.float32) for _ in range(2))
    executor = make(
        f"""
        dynamic {{ q: f32[1, 4, L, 8]; k: f32[1, 2, S, 8]; v: f32[1, 2, S, 8]; }}
        block entry {{
            assign y: f32[1, 4, L, 8];
            op attention(q, k, v{", " * bool(settings)}{settings}) >> y;
            return y;
        }}
        """
    )
    i, j = np.arange(3)[:, None] + 3, np.arange(6)
    allowed = np.ones((3, 6), bool)
    if "causal" in settings:
        allowed &= j <= i
    if "window" in settings:
        allowed &= (i - j < 2) & (j - i < 2)
    k2, v2 = np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1)
    a, b, c = (x[0].transpose(1, 0, 2) for x in (q, k2, v2))
    wanted = attended(a, b, c, allowed).transpose(1, 0, 2)[None]
    close(executor.run(q=q, k=k, v=v)["y"], wanted)


def test_attention_of_the_second_edition(make: Make) -> None:
    """`attn(h, k, v, W)`: h is split into the heads of k and v, and the result goes through W."""
    generator = np.random.default_rng(9)
    h = generator.standard_normal((2, 12), np.float32)
    w = generator.standard_normal((12, 12), np.float32) / 4
    executor = make(
        """
        dynamic { h: f32[2, 12]; k: f32[T, 3, 4]; v: f32[T, 3, 4]; w: f32[12, 12]; }
        block entry { assign y: f32[2, 12]; op attn(h, k, v, w) >> y; return y; }
        """
    )
    for length in (1, 5):
        k, v = (generator.standard_normal((length, 3, 4), np.float32) for _ in range(2))
        wanted = attended(h.reshape(2, 3, 4), k, v).reshape(2, 12) @ w
        close(executor.run(h=h, k=k, v=v, w=w)["y"], wanted)


@pytest.mark.parametrize("settings", ["acc=i32", "acc=[i32, i32]"])
def test_accumulation_in_a_wider_type(make: Make, settings: str) -> None:
    executor = make(
        f"""
        dynamic {{ a: i8[1, 4]; b: i8[4, 1]; }}
        block entry {{
            assign y: i32[1, 1]; assign narrow: i8[1, 1]; assign sum: i64[1]; assign half: f16[1];
            assign h: f16[1, 4];
            op matmul(a, b, {settings}) >> y;
            op matmul(a, b) >> narrow;
            op sum_axis(a, axes=[1], acc=i64) >> sum;
            op cast(a, to=f16) >> h;
            op sum_axis(h, axes=[1]) >> half;
            return y, narrow, sum, half;
        }}
        """
    )
    a = np.full((1, 4), 127, np.int8)
    found = executor.run(a=a, b=a.T)
    equal(found["y"], [[4 * 127 * 127]])
    equal(found["narrow"], [[np.int64(4 * 127 * 127).astype(np.int8)]])
    equal(found["sum"], [508])
    equal(found["half"], [508])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_enters_moves_and_leaves(make: Make, dtype: str) -> None:
    """Packed ones as packed bytes: nothing on the way makes bytes of them."""
    executor = make(
        f"""
        dynamic {{ x: {dtype}[3, 3]; }}
        volatile {{ y: {dtype}[3, 3]; }}
        block entry {{
            assign t: {dtype}[3, 3]; assign back: {dtype}[3, 3];
            op transpose(x) >> t; op transpose(t) >> back; transfer back >> y;
            return t, y;
        }}
        """
    )
    row = DTYPES[dtype]
    bits = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 0]])
    values = {"i1": -bits, "t1": 2 * bits - 1}.get(dtype, bits)
    x = Tensor.from_values(dtype, values)
    found = executor.run(x=x)
    equal(found["t"], x.values().T)
    equal(found["y"], x.values())
    if row.packed:
        fetched = found["y"]
        assert isinstance(fetched, Tensor)
        assert fetched.nbytes == (9 * row.bits + 7) // 8
        equal(fetched.storage, x.storage)


def test_tensors_have_data_shape_and_strides() -> None:
    tensor = Tensor.from_values("bf16", [[1, 2, 3], [4, 5, 6]])
    assert (str(tensor.dtype), tensor.shape, tensor.size, tensor.nbytes) == ("bf16", (2, 3), 6, 12)
    assert tensor.storage.strides == (6, 2)
    equal(tensor.values()[1], [4, 5, 6])
    assert repr(tensor) == "Tensor(bf16[2, 3] {1, 2, 3, 4, 5, 6})"


def test_inputs_of_any_strides_mean_what_they_show(make: Make) -> None:
    whole = np.arange(24, dtype=np.float32).reshape(4, 6)
    for view in (whole[::2, ::2], whole[:2, :3][::-1], whole.T[:2, :3]):
        equal(one(make, "op neg(x) >> y;", x=view), -view)


@pytest.mark.parametrize(
    ("statement", "code", "message"),
    [
        ("op add(x) >> y;", "OI0217", "takes 2 operands, got 1"),
        ("op add(x, n) >> y;", "OI0322", "x is f32 but y is i32"),
        ("op add(x, w) >> y;", "OI0322", "do not broadcast"),
        ("op matmul(x, x) >> y;", "OI0322", "the inner dimensions differ"),
        ("op and(x, x) >> y;", "OI0313", "does not take f32"),
        ("op is_finite(x) >> y;", "OI0323", "gives bool, but y is declared f32"),
        ("op relu(x) >> m;", "OI0323", "gives f32, but m is declared i32"),
        ("op relu(x, clamp_max=true) >> y;", "OI0304", "clamp_max must be a number"),
        ("op sum_axis(x) >> y;", "OI0216", "needs the setting `axes`"),
        ("op split(x, axis=1) >> y, y2;", "OI0322", "does not divide"),
    ],
)
def test_contracts_are_checked_before_running(statement: str, code: str, message: str) -> None:
    text = f"""
    dynamic {{ x: f32[2, 3]; n: i32[2, 3]; w: f32[5]; }}
    volatile {{ m: i32[2, 3]; }}
    block entry {{ assign y: f32[2, 3]; assign y2: f32[2, 3]; {statement} return; }}
    """
    oi.graph(text.replace(statement, "op neg(x) >> y;")).check()
    with pytest.raises(oi.ProgramError) as simulated:
        oi.Simulator(text)
    with pytest.raises(oi.ProgramError) as compiled:
        oi.compile(text)
    for caught in (simulated, compiled):
        findings = [d for d in caught.value.diagnostics if d.code == code and message in d.message]
        assert findings, str(caught.value)
        assert all(d.location is not None for d in caught.value.diagnostics)


def test_contracts_of_run_time_sizes_are_checked_in_the_step(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[N]; z: f32[M]; }
        block entry {
            assign y: f32[M];
            op slice(x, axis=0, start=0, stop=M) >> y;
            op add(y, z) >> y;
            return y;
        }
        """
    )
    x = np.arange(6, dtype=np.float32)
    equal(executor.run(x=x, z=np.ones(4, np.float32))["y"], x[:4] + 1)
    with pytest.raises((oi.StepError, oi.InputError), match="7"):
        executor.run(x=x, z=np.ones(7, np.float32))
    equal(executor.run(x=x, z=np.zeros(6, np.float32))["y"], x)


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("op reshape(x, shape=[3, 2]) >> y;", X.reshape(3, 2)),
        ("op transpose(x) >> y;", X.T),
        ("op permute(x, perm=[1, 0]) >> y;", X.T),
        ("op slice(x, axis=1, start=0, stop=-1) >> y;", X[:, :-1]),
        ("op slice(x, axis=1, start=0, stop=3, step=2) >> y;", X[:, ::2]),
        ("op unsqueeze(x, axes=[0]) >> y;", X[None]),
        ("op expand(x, shape=[4, 2, 3]) >> y;", np.broadcast_to(X, (4, 2, 3))),
        ("op flip(x, axes=[1]) >> y;", X[:, ::-1]),
        ("op pad(x, pads=[0, 1, 0, 2]) >> y;", np.pad(X, ((0, 0), (1, 2)))),
        ("op concat(x, x, axis=1) >> y;", np.concatenate((X, X), axis=1)),
    ],
)
def test_ops_of_layout(make: Make, statement: str, wanted: Any) -> None:
    shape = ", ".join(str(extent) for extent in wanted.shape)
    equal(one(make, statement, f"y: f32[{shape}]"), wanted)


def test_squeeze_and_split(make: Make) -> None:
    executor = make(
        """
        dynamic { x: f32[2, 1, 3]; }
        block entry {
            assign a: f32[2, 3]; assign b: f32[1, 3]; assign c: f32[1, 3];
            op squeeze(x, axes=[1]) >> a;
            op split(a, axis=0) >> b, c;
            return a, b, c;
        }
        """
    )
    found = executor.run(x=X[:, None])
    equal(found["a"], X)
    equal(found["b"], X[:1])
    equal(found["c"], X[1:])


def test_one_registry_gives_rules_to_all_parts() -> None:
    """Dtype variants, result dtype, settings and documentation come from one row per op."""
    spec = opset.find("sum_axis")
    assert spec is not None
    operand = opset.TensorSpec.of("i8", (2, 3))
    settings = opset.resolve_settings(spec, {"axes": (1,), "acc": "i32"})
    (result,) = opset.infer_outputs(spec, [operand], settings, 1)
    assert str(result) == "i32[2]"
    finding = refused(
        "dynamic { x: f32[2]; } block entry { assign y: f32[2]; op and(x, x) >> y; return; }",
        "OI0313",
    )
    assert finding.hint is not None
