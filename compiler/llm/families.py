"""The program of a language model: one text for each family, chosen by the model's architecture.

The texts are `families/*.oi`. A line that ends with `// if NAME` is part of the program only where the
model has a tensor, size or metadata entry of that name, one with `// if not NAME` only where it has
not; `NAME=VALUE` asks for a value, `A or B` for one of several, ` and ` joins conditions, `long_context`
and `short_context` ask for the length of the texts where the model has frequencies for both. That is how a
program follows a tied output or a missing count of heads. `program_text` gives what remains, which is what
runs and what `openinfer program` prints.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
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
_ONE = r"(?:not )?\S+(?: or \S+)*"
_CONDITION = re.compile(rf"[ \t]*// if ({_ONE}(?: and {_ONE})*)[ \t]*$")
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
        elif all(_holds(one, model, length) for one in found[1].split(" and ")):
            lines.append(line[: found.start()])
    return "\n".join(lines) + "\n"


def _holds(condition: str, model: Package, length: str | None) -> bool:
    """Whether `NAME`, `A or B` or `not` of that holds."""
    names = condition.removeprefix("not ").split(" or ")
    return any(one == length or _has(model, one) for one in names) == (
        not condition.startswith("not ")
    )


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
    """Raises PackageError OI0797 where the model lacks what its program reads, or contradicts itself."""
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
    lacking += [
        f"tensor {name}" for name in _tensors_read(text, model) if name not in model.tensors
    ]
    if lacking:
        more = f" and {len(lacking) - 4} more" if len(lacking) > 4 else ""
        raise PackageError(
            "OI0797",
            f"{model.origin} lacks {', '.join(lacking[:4])}{more}",
            hint="its program reads them; the file was cut, or says the wrong architecture: "
            "`openinfer inspect` lists what it has",
        )
    contradiction = _contradiction(model, prefix)
    if contradiction:
        raise PackageError(
            "OI0797",
            f"{model.origin}: {contradiction}",
            hint="metadata and weights are of different models; get the file anew",
        )


def _tensors_read(text: str, model: Package) -> Iterator[str]:
    """The names of the tensors that a program reads, a pattern's for each layer."""
    # A file that says it has very many layers lacks those behind its tensors.
    layers = min(model.sizes.get("block_count", 1), len(model.tensors) + 1)
    for name in dict.fromkeys(_NAMED.findall(text)):
        if "{" not in name:
            yield name
        for layer in range(layers if "{" in name else 0):
            yield re.sub(r"\{\w+\}", str(layer), name)


def _contradiction(model: Package, prefix: str) -> str | None:
    """A number that the shapes of tensors rule out, in words."""
    sizes = model.sizes
    heads = sizes.get("attention_head_count", 1)
    groups = sizes.get("attention_head_count_kv") or heads
    if heads % groups:
        return f"{prefix}attention.head_count is {heads}, no multiple of attention.head_count_kv, {groups}"
    for key, number, name, axis in (
        ("attention.head_count", heads, "blk.0.attn_q.weight", 0),
        ("attention.head_count_kv", groups, "blk.0.attn_k.weight", 0),
        ("embedding_length", sizes.get("embedding_length", 1), "token_embd.weight", 1),
    ):
        info = model.tensors.get(name)
        size = info.shape[axis] if info is not None and len(info.shape) == 2 else number
        if size % number or (axis and size != number):
            shape = "x".join(map(str, info.shape)) if info is not None else ""
            return f"{prefix}{key} is {number}, but {name} is {shape}"
    return None


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
