"""A language model from a `.gguf` file: weights of block formats, kept or unpacked when they are loaded."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

import openinfer as oi
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.packages.oinf_writer import write_oinf
from tests.sweeps import FULL

Matrix = NDArray[np.float64]
KINDS = gguf.GGMLQuantizationType
SIZES = {"dim": 64, "layers": 2, "heads": 4, "kv": 2, "hidden": 96, "vocabulary": 40}
EPS, BASE = 1e-5, 10000.0

LLAMA = """
dynamic { ids: i32[T]; }

constant {
    eps: f32 @ref("attention_layer_norm_rms_epsilon");
    tokens: f32[vocabulary, embedding_length] @ref("token_embd.weight") @dtype(_);
    Wq(l): f32[embedding_length, embedding_length] @pattern("blk.{l}.attn_q.weight") @dtype(_);
    Wk(l): f32[KV, embedding_length] @pattern("blk.{l}.attn_k.weight") @dtype(_);
    Wv(l): f32[KV, embedding_length] @pattern("blk.{l}.attn_v.weight") @dtype(_);
    Wo(l): f32[embedding_length, embedding_length] @pattern("blk.{l}.attn_output.weight") @dtype(_);
    gate(l): f32[F, embedding_length] @pattern("blk.{l}.ffn_gate.weight") @dtype(_);
    up(l): f32[F, embedding_length] @pattern("blk.{l}.ffn_up.weight") @dtype(_);
    down(l): f32[embedding_length, F] @pattern("blk.{l}.ffn_down.weight") @dtype(_);
    before(l): f32[embedding_length] @pattern("blk.{l}.attn_norm.weight");
    between(l): f32[embedding_length] @pattern("blk.{l}.ffn_norm.weight");
    last: f32[embedding_length] @ref("output_norm.weight");
}

persistent {
    step: i32;
    K(l, t): f32[attention_head_count_kv, embedding_length / attention_head_count] @table;
    V(l, t): f32[attention_head_count_kv, embedding_length / attention_head_count] @table;
}

volatile { logits: f32[T, vocabulary]; }

block entry {
    assign h: f32[T, embedding_length];
    assign q: f32[T, attention_head_count, embedding_length / attention_head_count];
    assign k: f32[T, attention_head_count_kv, embedding_length / attention_head_count];
    assign v: f32[T, attention_head_count_kv, embedding_length / attention_head_count];
    assign keys: f32[step + T, attention_head_count_kv, embedding_length / attention_head_count];
    assign values: f32[step + T, attention_head_count_kv, embedding_length / attention_head_count];
    assign a: f32[attention_head_count, T, embedding_length / attention_head_count];
    assign flat: f32[T, embedding_length];
    op gather(tokens, ids) >> h;
    places = op iota(shape=[T], dtype=i32);
    places = op add(places, step);
    loop layers (l in 0..block_count) {
        n = op rms_norm(h, before[l], eps=eps);
        q2 = op matmul(n, Wq[l], transpose_b=true);
        k2 = op matmul(n, Wk[l], transpose_b=true);
        v2 = op matmul(n, Wv[l], transpose_b=true);
        op reshape(q2, shape=[T, attention_head_count, -1]) >> q;
        op reshape(k2, shape=[T, attention_head_count_kv, -1]) >> k;
        op reshape(v2, shape=[T, attention_head_count_kv, -1]) >> v;
        op rope(q, places, layout="blhd", interleaved=true) >> q;
        op rope(k, places, layout="blhd", interleaved=true) >> k;
        cache.write k >> K[l, step..step + T];
        cache.write v >> V[l, step..step + T];
        cache.read K[l, 0..step + T] >> keys;
        cache.read V[l, 0..step + T] >> values;
        q3 = op permute(q, perm=[1, 0, 2]);
        k3 = op permute(keys, perm=[1, 0, 2]);
        v3 = op permute(values, perm=[1, 0, 2]);
        op attention(q3, k3, v3, causal=true) >> a;
        b = op permute(a, perm=[1, 0, 2]);
        op reshape(b, shape=[T, -1]) >> flat;
        o = op matmul(flat, Wo[l], transpose_b=true);
        op add(h, o) >> h;
        m = op rms_norm(h, between[l], eps=eps);
        g = op matmul(m, gate[l], transpose_b=true);
        g = op silu(g);
        u = op matmul(m, up[l], transpose_b=true);
        g = op mul(g, u);
        d = op matmul(g, down[l], transpose_b=true);
        op add(h, d) >> h;
    }
    loop taken (t in 0..T) { cache.increment step; }
    op rms_norm(h, last, eps=eps) >> h;
    op matmul(h, tokens, transpose_b=true) >> logits;
    return logits;
}
"""


class Model:
    """A random llama with tied embeddings as a file, and its unpacked weights in float64."""

    def __init__(self, path: Path, kinds: list[Any]) -> None:
        self.path = path
        self.weights: dict[str, Matrix] = {}
        generator = np.random.default_rng(7)
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_embedding_length(SIZES["dim"])
        writer.add_block_count(SIZES["layers"])
        writer.add_head_count(SIZES["heads"])
        writer.add_head_count_kv(SIZES["kv"])
        writer.add_layer_norm_rms_eps(EPS)
        types = itertools.cycle(kinds)

        def add(name: str, *shape: int) -> None:
            values = generator.standard_normal(shape).astype(np.float32) / np.sqrt(shape[-1])
            kind = next(types) if len(shape) > 1 else KINDS.F32
            if len(shape) == 1:
                values += np.float32(1)
            data = gguf.quantize(values, kind)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)
            self.weights[name] = gguf.dequantize(data, kind).astype(np.float64)

        dim, hidden = SIZES["dim"], SIZES["hidden"]
        narrow = dim // SIZES["heads"] * SIZES["kv"]
        add("token_embd", SIZES["vocabulary"], dim)
        add("output_norm", dim)
        for layer in range(SIZES["layers"]):
            for name, shape in {
                **{"attn_norm": (dim,), "attn_q": (dim, dim), "attn_k": (narrow, dim)},
                **{"attn_v": (narrow, dim), "attn_output": (dim, dim), "ffn_norm": (dim,)},
                **{"ffn_gate": (hidden, dim), "ffn_up": (hidden, dim), "ffn_down": (dim, hidden)},
            }.items():
                add(f"blk.{layer}.{name}", *shape)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def logits(self, ids: NDArray[Any]) -> Matrix:
        """The same model in float64, all positions at once."""
        w, count = self.weights, len(ids)
        heads, kv = SIZES["heads"], SIZES["kv"]
        size = SIZES["dim"] // heads
        h = w["token_embd"][ids]
        turn = np.arange(count)[:, None] * BASE ** (-2 * np.arange(size // 2) / size)
        for layer in range(SIZES["layers"]):
            b = f"blk.{layer}."
            n = _normed(h, w[b + "attn_norm"])
            q = _turned((n @ w[b + "attn_q"].T).reshape(count, heads, size), turn)
            k = _turned((n @ w[b + "attn_k"].T).reshape(count, kv, size), turn)
            v = (n @ w[b + "attn_v"].T).reshape(count, kv, size)
            k, v = (np.repeat(x, heads // kv, axis=1) for x in (k, v))
            scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(size)
            scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            h = h + np.einsum("hqk,khd->qhd", scores, v).reshape(count, -1) @ w[b + "attn_output"].T
            m = _normed(h, w[b + "ffn_norm"])
            g = m @ w[b + "ffn_gate"].T
            h = h + (g / (1 + np.exp(-g)) * (m @ w[b + "ffn_up"].T)) @ w[b + "ffn_down"].T
        return _normed(h, w["output_norm"]) @ w["token_embd"].T


def _normed(x: Matrix, weight: Matrix) -> Matrix:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPS) * weight


def _turned(x: Matrix, angles: Matrix) -> Matrix:
    """Neighbours as pairs, turned by the angles of their positions."""
    pairs = x[..., ::2] + 1j * x[..., 1::2]
    pairs = pairs * np.exp(1j * angles)[:, None, :]
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)


def told(text: str, model: Any) -> Any:
    """A compiled program, whose weights are unpacked with a note."""
    with pytest.warns(oi.ModelWarning, match=r"note\[OI0331\].* unpacked when"):
        return oi.compile(text, model)


def untold(text: str, model: Any) -> Any:
    """A compiled program whose weights keep their blocks, all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", oi.ModelWarning)
        return oi.compile(text, model)


@pytest.mark.parametrize(
    "kinds",
    [
        [KINDS.Q4_0, KINDS.Q8_0, KINDS.F16, KINDS.Q5_1, KINDS.BF16],
        [KINDS.MXFP4],
        *([[KINDS.Q8_0]] if FULL else []),
    ],
)
def test_a_llama_agrees_with_float64(tmp_path: Path, kinds: list[Any]) -> None:
    """Prefill and decode, compiled and simulated, tensors of one type and of many."""
    made = Model(tmp_path / "m.gguf", kinds)
    ids = np.random.default_rng(1).integers(0, SIZES["vocabulary"], 9).astype(np.int32)
    wanted = made.logits(ids)
    with oi.open_model(made.path) as package:
        with pytest.warns(oi.ModelWarning, match="OI0331"):
            simulator = oi.Simulator(LLAMA, package)
        compile = told if KINDS.F16 in kinds else untold
        for maker in (compile(LLAMA, package), simulator):
            with maker.make_executor() as executor:
                found = [executor.run(ids=ids[:6])["logits"]]
                found += [executor.run(ids=ids[n : n + 1])["logits"] for n in range(6, 9)]
            error = np.abs(np.concatenate(found) - wanted).max() / np.abs(wanted).max()
            assert error < 1e-5


PROGRAM = """
dynamic { x: f32[B, K]; }
constant { W: DTYPE[N, K] @ref("blk.0.ffn_up.weight") @dtype(q4_0); }
volatile { y: f32[B, N]; }
block entry { op matmul(x, W, transpose_b=true) >> y; return y; }
"""


def test_a_block_format_is_a_type_of_constants(model: Model) -> None:
    """`W: q4_0[N, K]` is short for f32 values that the file holds in blocks."""
    x = np.random.default_rng(3).standard_normal((2, SIZES["dim"])).astype(np.float32)
    text = PROGRAM.replace("DTYPE", "q4_0").replace(" @dtype(q4_0)", "")
    package = oi.open_model(model.path)
    with untold(text, package).make_executor() as run:
        found = np.asarray(run.run(x=x)["y"])
    with untold(PROGRAM.replace("DTYPE", "f32"), package).make_executor() as run:
        np.testing.assert_array_equal(found, run.run(x=x)["y"])


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path / "m.gguf", [KINDS.Q4_0])


@pytest.mark.parametrize(("dtype", "bound"), [("f32", 1e-6), ("f64", 1e-6), ("f16", 1e-3)])
def test_blocks_become_the_declared_dtype(model: Model, dtype: str, bound: float) -> None:
    x = np.random.default_rng(3).standard_normal((2, SIZES["dim"])).astype(np.float32)
    w = model.weights["blk.0.ffn_up"]
    compile = untold if dtype == "f32" else told
    with compile(PROGRAM.replace("DTYPE", dtype), oi.open_model(model.path)).make_executor() as run:
        held = np.asarray(run.fetch("W"))
        np.testing.assert_array_equal(held, w.astype(DTYPES[dtype].storage))
        wanted = x.astype(np.float64) @ w.T
        np.testing.assert_allclose(run.run(x=x)["y"], wanted, atol=bound * np.abs(wanted).max())


def test_the_note_says_what_it_costs(model: Model) -> None:
    with pytest.warns(oi.ModelWarning) as found:
        oi.Simulator(PROGRAM.replace("DTYPE", "f32"), oi.open_model(model.path))
    text = str(found[0].message)
    assert "1 tensor of m.gguf is unpacked when it is loaded: 3.4 KiB in q4_0 become" in text
    assert "24.0 KiB in f32" in text
    assert "declare them as f16" in text


def test_in_saved_programs(model: Model, tmp_path: Path) -> None:
    """With its weights a program holds the blocks themselves; without, it finds the file."""
    x = np.ones((1, SIZES["dim"]), np.float32)
    program = untold(PROGRAM.replace("DTYPE", "f32"), oi.open_model(model.path))
    with program.make_executor() as run:
        wanted = run.run(x=x)["y"]
    program.save(tmp_path / "one.oip", embed_weights=True)
    program.save(tmp_path / "two.oip")
    with oi.load(tmp_path / "two.oip").make_executor() as run:
        np.testing.assert_array_equal(run.run(x=x)["y"], wanted)
    model.path.unlink()
    with oi.load(tmp_path / "one.oip").make_executor() as run:
        np.testing.assert_array_equal(run.run(x=x)["y"], wanted)


def test_a_level_names_the_blocks(model: Model) -> None:
    program = untold(PROGRAM.replace("DTYPE", "f32"), oi.open_model(model.path))
    level = program.show("graph")
    assert 'graph.package_tensor "blk.0.ffn_up.weight" q4_0 [96, 64]' in level.text
    x = np.ones((1, SIZES["dim"]), np.float32)
    again = oi.load_level(level, oi.open_model(model.path))
    with program.make_executor() as one, again.make_executor() as other:
        np.testing.assert_array_equal(one.run(x=x)["y"], other.run(x=x)["y"])


def test_on_a_device(model: Model) -> None:
    x = np.random.default_rng(3).standard_normal((2, SIZES["dim"])).astype(np.float32)
    text = PROGRAM.replace("DTYPE", "f32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oi.ModelWarning)
        try:
            executor = oi.compile(text, oi.open_model(model.path), "vulkan:0").make_executor()
        except (oi.UnsupportedError, oi.InputError) as error:
            pytest.skip(str(error))
    with executor:
        wanted = x @ model.weights["blk.0.ffn_up"].T
        np.testing.assert_allclose(executor.run(x=x)["y"], wanted, rtol=1e-4, atol=1e-4)


def test_a_pack_unpacks(model: Model, tmp_path: Path) -> None:
    with oi.open_model(model.path) as package:
        with pytest.raises(oi.UnsupportedError, match=r"OI0743.*q4_0.*\n.*--dtype f16"):
            oi.write_oinf(package, tmp_path / "m.oinf")
        write_oinf(package, tmp_path / "m.oinf", dtype=DTYPES["f16"])
    with oi.open_model(tmp_path / "m.oinf") as package:
        assert package.sizes["block_count"] == SIZES["layers"]
        found = package.tensor("blk.0.ffn_up.weight").values()
        np.testing.assert_array_equal(found, model.weights["blk.0.ffn_up"].astype(np.float16))


REF = '@ref("blk.0.attn_q.weight")'


@pytest.mark.parametrize(
    ("declaration", "code", "message"),
    [
        (f"W: q8_0[64, 64] {REF}", "OI0320", "`@dtype.q4_0.`, or `@dtype._.`"),
        (f"W: q4_0[64, 64] {REF} @dtype(_)", "OI0315", "nothing is computed in it"),
        (f"W: _ {REF}", "OI0315", "W has the type `_`(.|\n)*`@dtype.q4_0.`"),
        (f"W: f32[64, 64] {REF}", "OI0320", "add `@dtype.q4_0.`, which unpacks it"),
        (f"W: i8[64, 64] {REF}", "OI0320", "declare it as f32 or f16, and add `@dtype.q4_0.`"),
        (f"W: f32[64, 64] {REF} @dtype(q8_0)", "OI0320", "`@dtype.q4_0.`, or `@dtype._.`"),
        (f"W: i8[64, 64] {REF} @dtype(q4_0)", "OI0256", "i8 does not hold all values of q4_0"),
        (f"W: i8[64, 64] {REF} @dtype(_)", "OI0256", "i8 does not hold all values of q4_0"),
        (f"W: f32[64, 32] {REF} @dtype(_)", "OI0321", "has shape .64, 64."),
        (f"W: f32[64, 64] {REF} @dtype(q9_0)", "OI0301", "unknown dtype `q9_0`"),
    ],
)
def test_mistakes(model: Model, declaration: str, code: str, message: str) -> None:
    text = f"constant {{ {declaration}; }} volatile {{ y: f32[1]; }} block entry {{ return y; }}"
    for make in (oi.compile, oi.Simulator):
        with pytest.raises(oi.ProgramError, match=message) as error:
            make(text, oi.open_model(model.path))
        assert error.value.code == code


def test_temporaries_of_a_block_dtype(model: Model) -> None:
    text = "block entry { assign t: q8_0[32]; return t; }"
    with pytest.raises(oi.ProgramError, match=r"OI0315(.|\n)*declare it as f32 or f16$"):
        oi.compile(text)


def test_types_that_nothing_computes_with(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("W", np.zeros((2, 66), np.uint8), raw_dtype=KINDS.IQ2_XXS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for attribute in ("", "@dtype(_)", "@dtype(q8_0)"):
        text = f"constant {{ W: f32[2, 256] {attribute}; }} block entry {{ return W; }}"
        with pytest.raises(oi.ProgramError, match=r"OI0320.*iq2_xxs \(ggml type 16\)"):
            oi.compile(text, oi.open_model(path))
    with pytest.raises(oi.UnsupportedError, match=r"OI0742.*iq2_xxs"):
        oi.compile("constant { W: _; } block entry { return W; }", oi.open_model(path))


def test_any_dtype_of_the_package() -> None:
    """`@dtype(_)` takes what converts without a choice, and nothing else."""
    text = "constant { W: f32[N] @dtype(_); } block entry { return W; }"
    for dtype in ("f16", "bf16", "f32", "i8"):
        with oi.compile(text, {"W": oi.TensorSpec([1, 2], dtype)}).make_executor() as run:
            np.testing.assert_array_equal(run.run()["W"], [1, 2])
    with pytest.raises(oi.ProgramError, match=r"OI0256.*f32 does not hold all values of i64"):
        oi.compile(text, {"W": np.array([1, 2])})
    graph = oi.graph(text)
    assert oi.graph_json(graph.to_json()).to_json() == graph.to_json()
