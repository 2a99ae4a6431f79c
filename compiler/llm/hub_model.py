"""A Hugging Face folder as a language model: its tensors and numbers under the names that programs use.

`config.json` and the safetensors beside it describe the same models as a `.gguf` file does, with other
names; `model_type` is the architecture. Only the pairs that rope turns differ: in a folder they are always
the halves of a head.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from openinfer.runtime.dtypes import DTYPES, DType
from openinfer.runtime.errors import PackageError
from openinfer.runtime.files import read_bytes
from openinfer.runtime.packages.base import Package, TensorInfo
from openinfer.runtime.packages.safetensors import json_object
from openinfer.runtime.packages.values import MetadataValue, ScalarValue
from openinfer.runtime.storage import AnyArray

ARCHITECTURES: Final = {
    "granite": "granite",
    "llama": "llama",
    "mistral": "llama",
    "olmo2": "olmo2",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "smollm3": "smollm3",
}
"""`model_type`, and the family whose program it is."""

_LAYER: Final = {
    "input_layernorm": "attn_norm",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.k_proj": "attn_k",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.v_proj": "attn_v",
}
_OLMO2: Final = {
    "post_attention_layernorm": "post_attention_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
_WHOLE: Final = {
    "lm_head.weight": "output.weight",
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
}
_SIZES: Final = {
    "head_dim": "attention_key_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "num_attention_heads": "attention_head_count",
    "num_hidden_layers": "block_count",
    "num_key_value_heads": "attention_head_count_kv",
}
_NUMBERS: Final = {
    "attention_multiplier": "attention_scale",
    "embedding_multiplier": "embedding_scale",
    "logits_scaling": "logit_scale",
    "residual_multiplier": "residual_scale",
    "rms_norm_eps": "attention_layer_norm_rms_epsilon",
    "rope_theta": "rope_freq_base",
}
_BLOCK = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_FREQUENCIES: Final = "rope_freqs.weight"
_CONFIG_LIMIT: Final = 16 << 20


class HubModel(Package):
    """The package of a folder under other names. Raises PackageError OI0791 for a `model_type` that has no
    program, OI0792 for a form of rope that its program does not know."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.path = package.path
        self.format = package.format
        config = _config(package)
        kind = config.get("model_type")
        if kind not in ARCHITECTURES:
            raise PackageError(
                "OI0791",
                f"{package.origin}: there is no program for the model type {kind!r} of config.json",
                hint=f"there are programs for {', '.join(ARCHITECTURES)}; convert other models to .gguf, "
                "or give a program: --program my.oi",
            )
        self.architecture = ARCHITECTURES[str(kind)]
        """The family whose program computes it."""
        self._made: dict[str, AnyArray] = {}
        """Tensors that the folder says with numbers."""
        self.sizes = {
            ours: package.sizes[name] for name, ours in _SIZES.items() if name in package.sizes
        }
        numbers = {
            ours: float(config[name])
            for name, ours in _NUMBERS.items()
            if isinstance(config.get(name), int | float)
        }
        self._rope(config, numbers)
        self.metadata: Mapping[str, MetadataValue] = {
            name: ScalarValue(float(np.float32(value)), DTYPES["f32"])
            for name, value in numbers.items()
        }
        self._names = {
            self._ours(name): name for name in package.tensors if "rotary_emb" not in name
        }
        if config.get("tie_word_embeddings") is True:
            self._names.pop("output.weight", None)
        infos = {
            ours: TensorInfo(ours, info.dtype_name, info.shape, info.nbytes, info.has_data)
            for ours, name in self._names.items()
            for info in [package.tensors[name]]
        }
        for name, made in self._made.items():
            infos[name] = TensorInfo(name, "f32", made.shape, made.nbytes)
        self.tensors = dict(sorted(infos.items()))

    def _ours(self, name: str) -> str:
        """The name of a tensor in programs; one that is not known keeps its own."""
        found = _BLOCK.fullmatch(name)
        if found is None:
            return _WHOLE.get(name, name)
        names = {**_LAYER, **_OLMO2} if self.architecture == "olmo2" else _LAYER
        part = names.get(found[2])
        return name if part is None else f"blk.{found[1]}.{part}.{found[3]}"

    def _rope(self, config: Mapping[str, Any], numbers: dict[str, float]) -> None:
        """What `rope_scaling` says: divided positions, or divided frequencies as Llama 3.1 has them."""
        given = config.get("rope_scaling") or config.get("rope_parameters")
        if not isinstance(given, dict):
            return
        scaling = cast("dict[str, Any]", given)
        if isinstance(scaling.get("rope_theta"), int | float):
            numbers["rope_freq_base"] = float(scaling["rope_theta"])
        kind = scaling.get("rope_type", scaling.get("type"))
        try:
            if kind == "linear":
                numbers["rope_scaling_factor"] = float(scaling["factor"])
            elif kind == "llama3":
                self._made[_FREQUENCIES] = self._divisors(scaling, numbers["rope_freq_base"])
            elif kind not in (None, "default"):
                raise ValueError(
                    f"rope_scaling of type {kind!r:.40}, which its program does not know"
                )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            what = f"rope_scaling without {error}" if isinstance(error, KeyError) else str(error)
            raise PackageError(
                "OI0792",
                f"{self.package.origin} has {what}",
                hint="convert the model to .gguf, or give a program: --program my.oi",
            ) from None

    def _divisors(self, scaling: Mapping[str, Any], base: float) -> AnyArray:
        """By what Llama 3.1 divides each frequency: 1 for short waves, the factor for long ones, and
        between them what leads from one to the other (`transformers`, `_compute_llama3_parameters`)."""
        heads = self.sizes["attention_head_count"]
        size = self.sizes.get("attention_key_length", self.sizes["embedding_length"] // heads)
        trained = float(scaling["original_max_position_embeddings"])
        low, high = float(scaling["low_freq_factor"]), float(scaling["high_freq_factor"])
        factor = float(scaling["factor"])
        waves = 2 * math.pi * base ** (np.arange(0, size, 2) / size)
        smooth = np.clip((trained / waves - low) / (high - low), 0, 1)
        divisors = (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
        divisors.flags.writeable = False
        return divisors

    def _storage(self, info: TensorInfo, dtype: DType) -> AnyArray:
        made = self._made.get(info.name)
        return self.package.read(self._names[info.name]) if made is None else made

    def data_identity(self) -> str:
        return self.package.data_identity()

    def guard(self) -> Callable[[], None] | None:
        return self.package.guard()

    def close(self) -> None:
        self.package.close()


def _config(package: Package) -> dict[str, Any]:
    """The `config.json` beside the weights, which the package has read before."""
    path = Path(package.path).with_name("config.json")
    if not path.is_file():
        raise PackageError(
            "OI0790",
            f"{package.origin}: nothing says which architecture this is",
            hint="a folder of a language model has a config.json with `model_type`; or give a program: "
            "--program my.oi",
        )
    return cast("dict[str, Any]", json_object(read_bytes(path, _CONFIG_LIMIT)))
