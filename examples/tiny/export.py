"""Writes the trained weights as GGUF files, with the vocabulary and the template of messages.

    python -m examples.tiny.export tiny.npz tiny-f32.gguf tiny-q8_0.gguf

A file gets the type that the end of its name says. Needs the package `gguf` (the extra `llm`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

from examples.tiny import shape
from examples.tiny.words import CONTROL, learned
from examples.tiny.world import END, TEXT_END

TYPES = {
    "f32": (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    "f16": (gguf.GGMLQuantizationType.F16, gguf.LlamaFileType.MOSTLY_F16),
    "q8_0": (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
    "q4_0": (gguf.GGMLQuantizationType.Q4_0, gguf.LlamaFileType.MOSTLY_Q4_0),
}
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def export(weights: dict[str, np.ndarray], path: Path, kind: str) -> None:
    """Writes one file; matrices get the type, norms stay F32. Weights are named as in the file."""
    dtype, file_type = TYPES[kind]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_description("A llama-shaped model of a small world, from examples/tiny of openinfer")
    writer.add_license("apache-2.0")
    writer.add_file_type(file_type)
    if kind.startswith("q"):
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(shape.CONTEXT)
    writer.add_embedding_length(shape.WIDTH)
    writer.add_block_count(shape.LAYERS)
    writer.add_feed_forward_length(shape.INNER)
    writer.add_head_count(shape.HEADS)
    writer.add_head_count_kv(shape.KV_HEADS)
    writer.add_layer_norm_rms_eps(shape.EPSILON)
    writer.add_rope_dimension_count(shape.HEAD)
    writer.add_rope_freq_base(shape.BASE)
    writer.add_vocab_size(shape.TOKENS)

    words = learned()
    control = [token in CONTROL for token in words.tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words.tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL for special in control]
    )
    writer.add_token_merges([" ".join(pair) for pair in words.merges])
    writer.add_bos_token_id(words.tokens.index(TEXT_END))
    writer.add_eos_token_id(words.tokens.index(END))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)

    for name, weight in weights.items():
        weight = np.asarray(weight, np.float32)
        if weight.ndim == 1 or kind == "f32":
            writer.add_tensor(name, weight)
        else:
            writer.add_tensor(name, gguf.quantize(weight, dtype), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(source: str, *targets: str) -> None:
    weights = dict(np.load(source))
    for target in map(Path, targets):
        kind = target.stem.rpartition("-")[2]
        if kind not in TYPES:
            sys.exit(f"{target}: the name must end with one of -{', -'.join(TYPES)}")
        export(weights, target, kind)
        print(f"{target}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
