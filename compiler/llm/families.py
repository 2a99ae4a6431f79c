"""The program of a language model: one text for each family, chosen by the model's architecture.

The texts are `families/*.oi`. A line that ends with `// if NAME` is part of the program only where the
model has a tensor, size or metadata entry of that name, one with `// if not NAME` only where it has
not; `NAME=NUMBER` asks for a value, `A or B` for one of several, `long_context` and `short_context` for the
length of the texts where the model has frequencies for both. That is how a program follows a tied output or a
missing count of heads. `program_text` gives what remains, which is what runs and what `openinfer program`
prints.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from openinfer.compiler.llm.hub_model import ARCHITECTURES, HubModel
from openinfer.compiler.llm.kv_cache import Cache, cached, kinds_of
from openinfer.runtime.errors import InputError, PackageError
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.suggest import did_you_mean

_FOLDER = Path(__file__).with_name("families")

FAMILIES: Final = {
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gpt2": "gpt2",
    "granite": "granite",
    "llama": "llama",
    "mixtral": "mixtral",
    "olmo2": "olmo2",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3moe",
    "smollm3": "smollm3",
}
"""What `general.architecture` says, and the program that computes it; a llama with experts is "mixtral"."""

NEIGHBOURS: Final = ", interleaved=true"
_CONDITION = re.compile(r"[ \t]*// if (not )?(\S+(?: or \S+)*)[ \t]*$")
_NAMED = re.compile(r'@(?:ref|pattern)\("([^"]+)"\)')

_CHOSEN: Final = ("rope_factors_long.weight", "rope_factors_short.weight")
"""Tensors of which a program reads one."""
_UNREAD: Final = re.compile(r"blk\.\d+\.attn_rot_embd(\.|$)")
"""Tensors that old converters wrote and nobody reads: angles that `rope` computes."""

_NEUTRAL: Final[dict[str, tuple[object, ...]]] = {
    "attention_clamp_kqv": (0.0,),
    "attention_causal": (True,),
    "attention_max_alibi_bias": (0.0,),
    "attention_scale": (0.0,),
    "attention_temperature_scale": (0.0,),
    "attn_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_count": (0,),
    "final_logit_softcapping": (0.0,),
    "logit_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "rope_scale_linear": (0.0, 1.0),
    "rope_scaling_attn_factor": (0.0, 1.0),
    "rope_scaling_factor": (0.0, 1.0),
    "rope_scaling_type": ("none", "linear", "longrope"),
    "rope_scaling_yarn_beta_fast": (0.0, 32.0),
    "rope_scaling_yarn_beta_slow": (0.0, 1.0),
    "rope_scaling_yarn_ext_factor": (1.0,),
    "rope_scaling_yarn_log_multiplier": (0.0,),
    "use_parallel_residual": (True,),
}
"""Keys that change what a model computes, and the values that change nothing."""


_SIZES: Final = (
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "block_count",
    "context_length",
    "expert_used_count",
    "rope.dimension_count",
)
_REQUIRED: Final = (
    *_SIZES,
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.key_length",
    "attention.scale",
    "attention.sliding_window",
)
"""Keys that programs read; a line that reads one which may be missing stands behind a condition."""


def open_language_model(path: str | os.PathLike[str], *, named: bool = True) -> Package:
    """A `.gguf` file, or a Hugging Face folder under the names of one.

    Raises what `open_model` raises, and PackageError OI0790 to OI0792 for a folder whose `config.json` is
    that of no known family; without `named` such a folder keeps its own names.
    """
    package = open_model(path)
    if isinstance(package, GgufPackage):
        return package
    if not named and package.metadata.get("model_type") not in ARCHITECTURES:
        return package
    try:
        return HubModel(package)
    except BaseException:
        package.close()
        raise


def program_text(
    model: Package,
    family: str | None = None,
    *,
    context: int | None = None,
    cache: Cache = None,
) -> str:
    """The program of a model: `.oi` text that `compile` takes together with it.

    With `family`, one of `FAMILIES`, that family's, whatever the model says it is. `context`: most tokens
    of a text, where that is not what the model was made for. `cache`: what keys and values are kept in, one
    of `CACHES` or a pair of them, default f16. Raises PackageError OI0790 for a file without
    `general.architecture`, OI0791 for an architecture that has no program here, OI0797 where the model lacks
    tensors or numbers, OI0792 where it has some that its program does not know and that would change the
    result, InputError OI0793 for a family or a cache that there is none of.
    """
    kinds_of(cache)
    if family is not None:
        return cached(chosen(_text(checked_family(family)), model, context), cache)
    known = isinstance(model, GgufPackage | HubModel)
    architecture = model.architecture if known else None
    if architecture is None:
        raise PackageError(
            "OI0790",
            f"{model.origin}: nothing says which architecture this is",
            hint="a language model names it in `general.architecture`; or give a program: --program my.oi",
        )
    if architecture == "llama" and model.sizes.get("expert_count", 0) > 0:
        architecture = "mixtral"
    name = FAMILIES.get(architecture)
    if name is None:
        near = did_you_mean(architecture, FAMILIES)
        raise PackageError(
            "OI0791",
            f"{model.origin}: there is no program for the architecture {architecture!r}",
            hint=f"{near}there are programs for {', '.join(sorted(FAMILIES))}; write one, "
            "beginning with that of a family near it (docs/language-models.md), and give it: --program my.oi",
        )
    text = chosen(_text(name), model, context)
    check_covered(text, model)
    check_complete(text, model)
    return cached(text, cache)


def checked_family(name: str) -> str:
    """The name of a family's text. Raises InputError OI0793 for one that there is none of."""
    if name not in FAMILIES:
        near = did_you_mean(name, FAMILIES)
        raise InputError(
            "OI0793",
            f"there is no family {name!r}",
            hint=f"{near}there are {', '.join(sorted(FAMILIES))}",
        )
    return FAMILIES[name]


def _text(name: str) -> str:
    return (_FOLDER / f"{name}.oi").read_text(encoding="utf-8")


def chosen(text: str, model: Package, context: int | None = None) -> str:
    """The lines of a family's text that hold for this model, without their conditions."""
    if isinstance(model, HubModel):
        # What makes `.gguf` files permutes queries and keys so that the pairs of rope are neighbours.
        text = text.replace(NEIGHBOURS, "")
    length = _length(model, context)
    lines: list[str] = []
    for line in text.splitlines():
        found = _CONDITION.search(line)
        if found is None:
            lines.append(line)
        elif any(one == length or _has(model, one) for one in found[2].split(" or ")) != bool(
            found[1]
        ):
            lines.append(line[: found.start()])
    return "\n".join(lines) + "\n"


def check_covered(text: str, model: Package) -> None:
    """Raises PackageError OI0792 where the model says more than its program reads."""
    patterns = [_pattern(name) for name in (*_NAMED.findall(text), *_CHOSEN)]
    unread = [
        name
        for name in model.tensors
        if not any(pattern.fullmatch(name) for pattern in (*patterns, _UNREAD))
    ]
    if unread:
        more = f" and {len(unread) - 3} more" if len(unread) > 3 else ""
        _refuse(model, f"tensors that its program does not read: {', '.join(unread[:3])}{more}")
    for key, neutral in _NEUTRAL.items():
        value = _value(model, key)
        if value is not None and value not in neutral and re.search(rf"\b{key}\b", text) is None:
            _refuse(model, f"{key} = {value}, which its program does not know")


def check_complete(text: str, model: Package) -> None:
    """Raises PackageError OI0797 where the model lacks what its program reads."""
    prefix = f"{model.architecture}." if isinstance(model, GgufPackage) else ""
    lacking: list[str] = []
    for key in _REQUIRED:
        name = key.replace(".", "_")
        if re.search(rf"\b{name}\b", text) is None:
            continue
        number = model.sizes.get(name) if key in _SIZES else _value(model, name)
        if not isinstance(number, int | float) or not number > 0:
            what = (
                ""
                if number is None and name not in model.metadata
                else " (not as a number above 0)"
            )
            lacking.append(f"{prefix}{key}{what}")
    for name in _NAMED.findall(text):
        if not any(map(_pattern(name).fullmatch, model.tensors)):
            lacking.append(f"tensor {name}")
    if lacking:
        more = f" and {len(lacking) - 4} more" if len(lacking) > 4 else ""
        raise PackageError(
            "OI0797",
            f"{model.origin} lacks {', '.join(lacking[:4])}{more}",
            hint="its program reads them; the file was cut, or says the wrong architecture: "
            "`openinfer inspect` lists what it has",
        )


def _refuse(model: Package, what: str) -> None:
    raise PackageError(
        "OI0792",
        f"{model.origin} has {what}",
        hint="what it answers would be wrong without them: `openinfer program MODEL --family NAME` "
        "prints a program, add what is missing, and give it: --program my.oi",
    )


def _pattern(name: str) -> re.Pattern[str]:
    """What the name of a tensor is, with numbers where it has indices."""
    return re.compile(re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(name)))


def _length(model: Package, context: int | None) -> str | None:
    """Whether texts are long or short for a model that has frequencies for both."""
    if not _has(model, "rope_factors_long.weight"):
        return None
    trained = model.sizes.get("rope_scaling_original_context_length", 0)
    most = context or model.sizes.get("context_length", 0)
    return "long_context" if most > trained else "short_context"


def _has(model: Package, condition: str) -> bool:
    name, equals, wanted = condition.partition("=")
    if equals:
        return str(_value(model, name)) == wanted
    return name in model.tensors or name in model.sizes or name in model.metadata


def _value(model: Package, name: str) -> object:
    if name in model.sizes:
        return model.sizes[name]
    value = model.metadata.get(name)
    return value.value if isinstance(value, ScalarValue) else value
