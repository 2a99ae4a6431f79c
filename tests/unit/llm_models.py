"""Random language models as `.gguf` files, and what they compute in float64: the oracle of the families.

Nothing here knows the programs: the forward pass is written once for all architectures, from a table of
their differences (llama.cpp's `src/llama-model.cpp`, and the papers' formulas).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from openinfer.compiler.tools.k_quants import q4_k

Matrix = NDArray[np.float64]
KINDS = gguf.GGMLQuantizationType
PIECES = [
    *("<unk>", "<s>", "</s>"),
    *(f"<0x{byte:02X}>" for byte in range(256)),
    *("▁", *"abcdefghijklmnopqrstuvwxyz", "th", "the", "▁th", "▁the", "in", "er", "▁a", "and"),
    *(f"x{i}" for i in range(26)),
]
"""A vocabulary in the form of SentencePiece: control tokens, bytes, a few letters."""
VOCABULARY = len(PIECES)


@dataclass(frozen=True)
class Shape:
    """What an architecture does otherwise than a llama."""

    architecture: str
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    size: int = 64
    """Of a head."""
    hidden: int = 256
    layers: int = 2
    eps: float = 1e-5
    base: float = 10000.0
    neox: bool = False
    """Rope turns the halves of a head, not neighbours."""
    turned: int | None = None
    """Elements of a head that rope turns."""
    rope_factor: float = 1.0
    """Positions are divided by it."""
    yarn: int = 0
    """The context from which yarn stretches rope by the factor."""
    frequencies: bool = False
    """`rope_freqs.weight`, which divides the frequencies."""
    long_factors: bool = False
    """`rope_factors_long` and `_short`, chosen by the context."""
    attn_factor: float = 1.0
    biases: bool = False
    """On queries, keys and values."""
    fused: bool = False
    """Queries, keys and values are one tensor; gate and up another one."""
    head_norms: bool = False
    """RMS norm of each head of queries and keys."""
    wide_norms: bool = False
    """RMS norm of queries and keys over all heads."""
    pre_norms: bool = True
    post_norms: bool = False
    norm_offset: bool = False
    gelu: bool = False
    layer_norms: bool = False
    """Layer norms and biases everywhere, learned positions, no gate: GPT-2."""
    tied: bool = True
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_divisor: float = 1.0
    attention_scale: float | None = None
    softcap: float | None = None
    final_softcap: float | None = None
    window: int | None = None
    pattern: int = 1
    """Of so many layers, all but the last one see a window."""
    local_base: float | None = None
    """Base of rope in layers with a window, which are not scaled either."""
    plain_every: int | None = None
    """Each of so many layers, the last one of them, does without rope."""
    experts: int = 0
    experts_used: int = 2
    context: int = 8192
    keys: dict[str, Any] = field(default_factory=dict)
    """Further metadata, without the architecture's name."""


SHAPES: dict[str, Shape] = {
    "llama": Shape("llama"),
    "llama3": Shape("llama", tied=False, frequencies=True, base=500000.0),
    "linear": Shape("llama", rope_factor=4.0),
    "yarn": Shape("llama", rope_factor=4.0, yarn=256, base=500.0),
    "smollm3": Shape("smollm3", layers=4, plain_every=4, base=2e6),
    "qwen2": Shape("qwen2", neox=True, biases=True, eps=1e-6, base=1e6),
    "qwen3": Shape("qwen3", neox=True, head_norms=True, size=128, eps=1e-6, base=1e6),
    "qwen3 yarn": Shape(
        "qwen3", neox=True, head_norms=True, size=128, eps=1e-6, rope_factor=8.0, yarn=64, base=1e4,
    ),
    "gemma2": Shape(
        "gemma2", neox=True, post_norms=True, gelu=True, embedding_scale=16.0, softcap=5.0,
        final_softcap=3.0, window=6, pattern=2, eps=1e-6, size=128,
    ),
    "gemma3": Shape(
        "gemma3", neox=True, post_norms=True, gelu=True, embedding_scale=16.0, head_norms=True,
        window=5, pattern=6, layers=6, base=1e6, local_base=10000.0, rope_factor=8.0, eps=1e-6,
    ),
    "phi3": Shape("phi3", neox=True, fused=True, kv_heads=4),
    "phi4": Shape("phi3", neox=True, fused=True, turned=48, long_factors=True, attn_factor=1.2),
    "olmo2": Shape(
        "olmo2", neox=True, pre_norms=False, post_norms=True, wide_norms=True, tied=False,
        kv_heads=4, eps=1e-6, base=500000.0,
    ),
    "granite": Shape(
        "granite", embedding_scale=12.0, residual_scale=0.22, logit_divisor=8.0, attention_scale=0.1,
    ),
    "gpt2": Shape("gpt2", layer_norms=True, fused=True, kv_heads=4, gelu=True, context=512),
    "mixtral": Shape("llama", experts=4),
    "qwen3moe": Shape("qwen3moe", neox=True, head_norms=True, experts=4, size=128, eps=1e-6),
}  # fmt: skip
"""By family, or by what is special."""


class Model:
    """A random model as a file, and its unpacked weights in float64."""

    def __init__(
        self, path: Path, shape: Shape, kinds: Sequence[Any], *, template: str | None = None
    ) -> None:
        self.path = path
        self.shape = shape
        self.weights: dict[str, Matrix] = {}
        self._random = np.random.default_rng(7)
        self._kinds = itertools.cycle(kinds)
        writer = gguf.GGUFWriter(path, shape.architecture)
        self._describe(writer)
        if template is not None:
            writer.add_chat_template(template)
        for name, dims in tensors(shape):
            values = self._values(name, dims)
            kind = next(self._kinds) if len(dims) > 1 and "position" not in name else KINDS.F32
            if values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
                kind = KINDS.F32
            data = quantized(values, kind)
            writer.add_tensor(name, data, raw_dtype=kind)
            self.weights[name] = gguf.dequantize(data, kind).reshape(dims).astype(np.float64)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def _values(self, name: str, dims: tuple[int, ...]) -> NDArray[np.float32]:
        values = self._random.standard_normal(dims).astype(np.float32)
        if name.startswith("rope_f"):
            return np.float32(1) + np.abs(values)
        if len(dims) > 1:
            return values / np.float32(np.sqrt(dims[-1]))
        return values * np.float32(0.1) + np.float32("bias" not in name)

    def _describe(self, writer: gguf.GGUFWriter) -> None:
        shape = self.shape
        writer.add_context_length(shape.context)
        writer.add_embedding_length(shape.width)
        writer.add_block_count(shape.layers)
        writer.add_feed_forward_length(shape.hidden)
        writer.add_head_count(shape.heads)
        writer.add_vocab_size(VOCABULARY)
        writer.add_tokenizer_model("llama")
        writer.add_token_list(PIECES)
        writer.add_token_scores([-float(i) for i in range(VOCABULARY)])
        writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        if shape.layer_norms:
            writer.add_layer_norm_eps(shape.eps)
        else:
            writer.add_head_count_kv(shape.kv_heads)
            writer.add_layer_norm_rms_eps(shape.eps)
            writer.add_rope_freq_base(shape.base)
            writer.add_rope_dimension_count(shape.turned or shape.size)
            if shape.size * shape.heads != shape.width or shape.architecture == "gemma3":
                writer.add_key_length(shape.size)
                writer.add_value_length(shape.size)
        if shape.rope_factor != 1:
            kind = gguf.RopeScalingType.YARN if shape.yarn else gguf.RopeScalingType.LINEAR
            writer.add_rope_scaling_type(kind)
            if shape.yarn:
                writer.add_rope_scaling_orig_ctx_len(shape.yarn)
            writer.add_rope_scaling_factor(shape.rope_factor)
        if shape.long_factors:
            writer.add_rope_scaling_orig_ctx_len(32)
            writer.add_rope_scaling_attn_factors(shape.attn_factor)
        if shape.architecture == "granite":
            writer.add_embedding_scale(shape.embedding_scale)
            writer.add_residual_scale(shape.residual_scale)
            writer.add_logit_scale(shape.logit_divisor)
            writer.add_attention_scale(shape.attention_scale or 0.0)
        if shape.softcap is not None:
            writer.add_attn_logit_softcapping(shape.softcap)
        if shape.final_softcap is not None:
            writer.add_final_logit_softcapping(shape.final_softcap)
        if shape.window is not None:
            writer.add_sliding_window(shape.window)
        if shape.experts:
            writer.add_expert_count(shape.experts)
            writer.add_expert_used_count(shape.experts_used)
            if shape.architecture == "qwen3moe":
                writer.add_expert_feed_forward_length(shape.hidden)

    def logits(self, ids: Sequence[int]) -> Matrix:
        """What follows each of the tokens: [len(ids), VOCABULARY], all positions at once."""
        shape, w = self.shape, self.weights
        h = w["token_embd.weight"][np.array(ids)] * shape.embedding_scale
        if shape.layer_norms:
            h = h + w["position_embd.weight"][: len(ids)]
        for layer in range(shape.layers):
            h = self._layer(h, layer)
        h = self._norm("output_norm", h)
        output = w["token_embd.weight" if shape.tied else "output.weight"]
        return _capped(h @ output.T / shape.logit_divisor, shape.final_softcap)

    def _layer(self, h: Matrix, layer: int) -> Matrix:
        shape, b = self.shape, f"blk.{layer}."
        before = self._norm(b + "attn_norm", h) if shape.pre_norms else h
        o = self._attention(before, layer)
        if shape.post_norms:
            o = self._norm(b + "post_attention_norm", o)
        h = h + o * shape.residual_scale
        before = self._norm(b + "ffn_norm", h) if shape.pre_norms else h
        f = self._experts(before, b) if shape.experts else self._forward(before, b)
        if shape.post_norms:
            f = self._norm(b + "post_ffw_norm", f)
        return h + f * shape.residual_scale

    def _attention(self, n: Matrix, layer: int) -> Matrix:
        shape, b, count = self.shape, f"blk.{layer}.", len(n)
        if shape.fused:
            widths = np.array([shape.heads, shape.kv_heads, shape.kv_heads]) * shape.size
            q, k, v = np.split(self._linear(n, b + "attn_qkv"), np.cumsum(widths)[:2], axis=1)
        else:
            q, k, v = (self._linear(n, f"{b}attn_{x}") for x in "qkv")
        if shape.wide_norms:
            q, k = self._norm(b + "attn_q_norm", q), self._norm(b + "attn_k_norm", k)
        q = q.reshape(count, shape.heads, shape.size)
        k = k.reshape(count, shape.kv_heads, shape.size)
        v = v.reshape(count, shape.kv_heads, shape.size)
        if shape.head_norms:
            q, k = self._norm(b + "attn_q_norm", q), self._norm(b + "attn_k_norm", k)
        local = shape.window is not None and layer % shape.pattern < shape.pattern - 1
        plain = shape.plain_every is not None and (layer + 1) % shape.plain_every == 0
        if not shape.layer_norms and not plain:
            q, k = self._turned(q, local), self._turned(k, local)
        k, v = (np.repeat(x, shape.heads // shape.kv_heads, axis=1) for x in (k, v))
        q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
        parts: list[Matrix] = []
        for start in range(0, count, 512):  # Scores of a long text are large.
            seen = k[:, : start + 512]
            scores = q[:, start : start + 512] @ seen.swapaxes(1, 2)
            scores *= shape.attention_scale or 1 / np.sqrt(shape.size)
            scores = _capped(scores, shape.softcap)
            rows, columns = scores.shape[1:]
            distance = np.arange(start, start + rows)[:, None] - np.arange(columns)
            hidden = distance < 0
            if local:
                assert shape.window is not None
                hidden |= distance >= shape.window
            scores[:, hidden] = -np.inf
            parts.append((_softmax(scores) @ v[:, : start + 512]).swapaxes(0, 1))
        return self._linear(np.concatenate(parts).reshape(count, -1), b + "attn_output")

    def _turned(self, x: Matrix, local: bool) -> Matrix:
        """Pairs of elements turned by the angles of their positions."""
        shape = self.shape
        turned = shape.turned or shape.size
        half = turned // 2
        base = shape.local_base if local and shape.local_base else shape.base
        theta = base ** (-np.arange(0, turned, 2) / turned)
        magnitude = shape.attn_factor
        if shape.yarn:
            low, high = (
                turned * np.log(shape.yarn / (2 * np.pi * turns)) / (2 * np.log(base))
                for turns in (32, 1)
            )
            low, high = max(0, np.floor(low)), min(turned - 1, np.ceil(high))
            kept = 1 - np.clip((np.arange(half) - low) / max(0.001, high - low), 0, 1)
            theta = theta / shape.rope_factor * (1 - kept) + theta * kept
            magnitude *= 1 + 0.1 * np.log(shape.rope_factor)
        elif not (local and shape.local_base):
            theta = theta / shape.rope_factor
        if shape.frequencies:
            theta = theta / self.weights["rope_freqs.weight"]
        if shape.long_factors:
            long = shape.context > 32
            theta = theta / self.weights[f"rope_factors_{'long' if long else 'short'}.weight"]
        angles = np.exp(1j * np.arange(len(x))[:, None] * theta)[:, None, :] * magnitude
        rest = x[..., turned:]
        x = x[..., :turned]
        if shape.neox:
            pairs = (x[..., :half] + 1j * x[..., half:]) * angles
            return np.concatenate([pairs.real, pairs.imag, rest], axis=-1)
        pairs = (x[..., ::2] + 1j * x[..., 1::2]) * angles
        return np.concatenate(
            [np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape), rest], axis=-1
        )

    def _forward(self, m: Matrix, b: str) -> Matrix:
        shape = self.shape
        act: Callable[[Matrix], Matrix] = _gelu if shape.gelu else _silu
        if shape.layer_norms:
            return self._linear(act(self._linear(m, b + "ffn_up")), b + "ffn_down")
        if shape.fused:
            gate, up = np.split(self._linear(m, b + "ffn_up"), 2, axis=1)
        else:
            gate, up = self._linear(m, b + "ffn_gate"), self._linear(m, b + "ffn_up")
        return self._linear(act(gate) * up, b + "ffn_down")

    def _experts(self, m: Matrix, b: str) -> Matrix:
        w, shape = self.weights, self.shape
        chances = _softmax(m @ w[b + "ffn_gate_inp.weight"].T)
        result = np.zeros_like(m)
        for row, chance in enumerate(chances):
            best = np.argsort(-chance)[: shape.experts_used]
            for expert in best:
                gate = m[row] @ w[b + "ffn_gate_exps.weight"][expert].T
                up = m[row] @ w[b + "ffn_up_exps.weight"][expert].T
                down = (_silu(gate) * up) @ w[b + "ffn_down_exps.weight"][expert].T
                result[row] += down * chance[expert] / chance[best].sum()
        return result

    def _linear(self, x: Matrix, name: str) -> Matrix:
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def _norm(self, name: str, x: Matrix) -> Matrix:
        weight = self.weights[name + ".weight"]
        if self.shape.layer_norms:
            x = x - x.mean(-1, keepdims=True)
            bias = self.weights[name + ".bias"]
            return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.shape.eps) * weight + bias
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + self.shape.eps) * weight


def tensors(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all tensors of a model, in the order of the file."""
    wide, narrow = shape.heads * shape.size, shape.kv_heads * shape.size
    width, hidden, experts = shape.width, shape.hidden, shape.experts
    found: list[tuple[str, tuple[int, ...]]] = []

    def add(name: str, *dims: int, bias: bool = False) -> None:
        found.append((name + ".weight", dims))
        if bias:
            found.append((name + ".bias", dims[:1]))

    plain = shape.layer_norms
    add("token_embd", VOCABULARY, width)
    if plain:
        add("position_embd", shape.context, width)
    add("output_norm", width, bias=plain)
    if not shape.tied:
        add("output", VOCABULARY, width)
    half = (shape.turned or shape.size) // 2
    if shape.frequencies:
        add("rope_freqs", half)
    if shape.long_factors:
        add("rope_factors_long", half)
        add("rope_factors_short", half)
    for layer in range(shape.layers):
        b = f"blk.{layer}."
        if shape.pre_norms:
            add(b + "attn_norm", width, bias=plain)
            add(b + "ffn_norm", width, bias=plain)
        if shape.post_norms:
            add(b + "post_attention_norm", width)
            add(b + "post_ffw_norm", width)
        if shape.fused:
            add(b + "attn_qkv", wide + 2 * narrow, width, bias=plain)
        else:
            add(b + "attn_q", wide, width, bias=shape.biases)
            add(b + "attn_k", narrow, width, bias=shape.biases)
            add(b + "attn_v", narrow, width, bias=shape.biases)
        if shape.head_norms or shape.wide_norms:
            add(b + "attn_q_norm", shape.size if shape.head_norms else wide)
            add(b + "attn_k_norm", shape.size if shape.head_norms else narrow)
        add(b + "attn_output", width, wide, bias=plain)
        if experts:
            add(b + "ffn_gate_inp", experts, width)
            add(b + "ffn_gate_exps", experts, hidden, width)
            add(b + "ffn_up_exps", experts, hidden, width)
            add(b + "ffn_down_exps", experts, width, hidden)
        elif plain or shape.fused:
            add(b + "ffn_up", hidden * (1 if plain else 2), width, bias=plain)
            add(b + "ffn_down", width, hidden, bias=plain)
        else:
            add(b + "ffn_gate", hidden, width)
            add(b + "ffn_up", hidden, width)
            add(b + "ffn_down", width, hidden)
    return found


def quantized(values: NDArray[np.float32], kind: Any) -> Any:
    """The values in a format of GGUF: rows of bytes for blocks."""
    if kind == KINDS.Q4_K:
        return q4_k(values.reshape(-1, values.shape[-1])).reshape(*values.shape[:-1], -1)
    return gguf.quantize(values, kind)


def _capped(x: Matrix, cap: float | None) -> Matrix:
    return x if cap is None else cap * np.tanh(x / cap)


def _softmax(x: Matrix) -> Matrix:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def _silu(x: Matrix) -> Matrix:
    return x / (1 + np.exp(-x))


def _gelu(x: Matrix) -> Matrix:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
