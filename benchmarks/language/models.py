"""The models of W7: llama shapes with random weights, as GGUF files in the bench folder.

All layers of a file hold the same numbers, drawn and rounded once: that is quickly made, and what is read
in a step is as much as ever.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


TYPES = ("f16", "q8_0", "q4_0", "q4_k")
FILE_TYPES = {"f16": 1, "q8_0": 7, "q4_0": 2, "q4_k": 14}
BLOCKS = {"f16": 1, "q8_0": 32, "q4_0": 32, "q4_k": 256}
CONTEXT = 2048
EPSILON, BASE = 1e-5, 10_000.0


@dataclass(frozen=True)
class Shape:
    """Sizes of a llama-shaped model whose head is its embedding."""

    name: str
    width: int
    layers: int
    heads: int
    groups: int
    inner: int
    vocabulary: int = 32_000

    @property
    def parameters(self) -> int:
        per_layer = sum(rows * row for rows, row in self.matrices().values()) + 2 * self.width
        return self.layers * per_layer + (self.vocabulary + 1) * self.width

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Outputs and inputs of a layer's matrices."""
        width, inner = self.width, self.inner
        keys = self.groups * (width // self.heads)
        return {
            **{"attn_q": (width, width), "attn_k": (keys, width), "attn_v": (keys, width)},
            "attn_output": (width, width),
            **{"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)},
        }

    def missing(self, kind: str) -> str | None:
        """Why there is no file of a type, None when there is."""
        rows = {row for _, row in self.matrices().values()}
        bad = sorted(row for row in rows if row % BLOCKS[kind])
        return f"rows of {bad[0]} are no whole blocks of {BLOCKS[kind]}" if bad else None


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("15M", 288, 6, 6, 6, 768),
        Shape("1.04G", 2048, 16, 32, 8, 8192),
    )
}


def model_file(shape: Shape, kind: str, folder: Path) -> Path:
    """The file of a shape and a type, written now if it is not there yet."""
    made_from = inspect.getsource(sys.modules[__name__]) + repr(shape)
    edition = hashlib.sha256(made_from.encode()).hexdigest()[:10]
    path = folder / f"{shape.name}-{kind}-{edition}.gguf"
    if path.exists():
        return path
    for old in folder.glob(f"{shape.name}-{kind}-*.gguf"):
        old.unlink()
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        _write(shape, kind, part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _write(shape: Shape, kind: str, path: Path) -> None:
    gguf = import_module("gguf")
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(f"random {shape.name}")
    writer.add_file_type(FILE_TYPES[kind])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(shape.layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.groups)
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    writer.add_vocab_size(shape.vocabulary)
    tokens = list(_tokens(shape.vocabulary))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(number) for number in range(len(tokens))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    random = np.random.default_rng(7)
    dtype = getattr(gguf.GGMLQuantizationType, kind.upper())

    def rounded(rows: int, row: int, scale: float) -> Array:
        values = random.standard_normal((rows, row), np.float32) * np.float32(scale)
        if kind == "q4_k":
            # The gguf package reads this type and does not write it.
            from openinfer.compiler.tools.k_quants import q4_k

            parts = [q4_k(values[i : i + 1024]).reshape(-1) for i in range(0, rows, 1024)]
            return np.concatenate(parts).reshape(rows, -1)
        return gguf.quantize(values, dtype)

    weights = {
        name: rounded(rows, row, row**-0.5) for name, (rows, row) in shape.matrices().items()
    }
    writer.add_tensor(
        "token_embd.weight", rounded(shape.vocabulary, shape.width, 1.0), raw_dtype=dtype
    )
    ones = np.ones(shape.width, np.float32)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(shape.layers):
        for name, weight in weights.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", weight, raw_dtype=dtype)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tokens(count: int) -> Iterator[str]:
    """A vocabulary as SentencePiece has it: three control tokens, the bytes, then words of no language."""
    yield from ("<unk>", "<s>", "</s>")
    yield from (f"<0x{byte:02X}>" for byte in range(256))
    letters = "abcdefghijklmnopqrstuvwxyz"
    for number in range(count - 259):
        word, left = "", number
        while True:
            left, digit = divmod(left, 26)
            word += letters[digit]
            if left == 0:
                break
        yield "▁" + word
