"""Writes `docs/gallery.md`: imported models, their text beside the size of their export.

    python scripts/gallery.py             # all of them, some minutes; needs torch, transformers, torchvision
    python scripts/gallery.py MiniLM      # shows the text of one

Models have random weights and the layers of the published ones; the widths of those from transformers are
small, which no line of a text depends on.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openinfer.compiler.importers.readable import readable
from openinfer.compiler.importers.report import Report
from openinfer.compiler.importers.torch.export import import_module

PAGE = Path(__file__).resolve().parents[1] / "docs/gallery.md"
SHOWN = ("MiniLM", "Llama", "ViT", "ResNet-18")
"""Models whose text stands in the page."""
Model = tuple[nn.Module, tuple[Tensor, ...], dict[str, tuple[str | None, ...]]]
_DEFINED: list[torch.library.Library] = []
_TOKENS: dict[str, tuple[str | None, ...]] = {"tokens": ("B", "L")}


def _torchvision() -> Any:
    # A torchvision for another build of torch does not know its own compiled ops, which no model here needs.
    if not _DEFINED:
        _DEFINED.append(torch.library.Library("torchvision", "DEF"))
        for name in ("nms", "qnms"):
            _DEFINED[0].define(f"{name}(Tensor dets, Tensor scores, float threshold) -> Tensor")
    import torchvision

    return torchvision.models


def _transformers() -> Any:
    _torchvision()
    import transformers

    return transformers


class MiniLM(nn.Module):
    """Sentences in, unit vectors out."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        self.bert = bert
        self.config = bert.config

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).float()
        mean = (hidden * m).sum(1) / m.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2, dim=1)


class Decoder(nn.Module):
    """Tokens in, logits out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits


class Encoder(nn.Module):
    """Tokens and a mask in, the last hidden state out."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.model(input_ids=tokens, attention_mask=mask).last_hidden_state


def _text(model: nn.Module) -> Model:
    tokens = torch.randint(0, 90, (2, 10))
    if isinstance(model, Decoder):
        return model, (tokens,), _TOKENS
    return model, (tokens, torch.ones(2, 10, dtype=torch.int64)), {**_TOKENS, "mask": ("B", "L")}


def _bert(name: str, **config: Any) -> Callable[[], Model]:
    def make() -> Model:
        library = _transformers()
        settings = {"vocab_size": 100, "max_position_embeddings": 64, **config}
        made = getattr(library, f"{name}Model")(getattr(library, f"{name}Config")(**settings))
        return _text(Encoder(made))

    return make


def _minilm() -> Model:
    library = _transformers()
    config = library.BertConfig(
        **{"vocab_size": 100, "hidden_size": 96, "num_hidden_layers": 6, "num_attention_heads": 12},
        **{"intermediate_size": 384, "max_position_embeddings": 64},
    )
    return _text(MiniLM(library.BertModel(config, add_pooling_layer=False)))


def _decoder(name: str, **config: Any) -> Callable[[], Model]:
    def make() -> Model:
        library = _transformers()
        head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
        made = getattr(library, f"{name}Config")(vocab_size=100, **config)
        return _text(Decoder(getattr(library, head)(made)))

    return make


def _vision(name: str, size: int = 64, **settings: Any) -> Callable[[], Model]:
    def make() -> Model:
        model = getattr(_torchvision(), name)(weights=None, num_classes=10, **settings)
        return model, (torch.randn(2, 3, size, size),), {"x": ("B", None, None, None)}

    return make


def _vit() -> Model:
    model = _torchvision().vision_transformer.VisionTransformer(
        **{"image_size": 32, "patch_size": 8, "num_layers": 12, "num_heads": 4},
        **{"hidden_dim": 64, "mlp_dim": 256, "num_classes": 10},
    )
    return model, (torch.randn(2, 3, 32, 32),), {"x": ("B", None, None, None)}


_GROUPED = {
    **{"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 160, "max_position_embeddings": 64},
}
MODELS: dict[str, Callable[[], Model]] = {
    "MiniLM": _minilm,
    "DistilBERT": _bert("DistilBert", dim=64, n_heads=4, hidden_dim=256),
    "ALBERT": _bert(
        "Albert",
        **{"hidden_size": 64, "embedding_size": 32, "num_attention_heads": 4},
        intermediate_size=256,
    ),
    "T5 encoder": lambda: _text(
        Encoder(
            _transformers().T5EncoderModel(
                _transformers().T5Config(vocab_size=100, d_model=64, d_kv=16, d_ff=128, num_heads=4)
            )
        )
    ),
    "GPT-2": _decoder("GPT2", n_embd=64, n_head=4, n_positions=64),
    "Llama": _decoder("Llama", num_hidden_layers=16, **_GROUPED),
    "Mistral": _decoder("Mistral", num_hidden_layers=16, sliding_window=8, **_GROUPED),
    "Qwen2": _decoder("Qwen2", num_hidden_layers=16, **_GROUPED),
    "ViT": _vit,
    "ResNet-18": _vision("resnet18"),
    "ResNet-50": _vision("resnet50"),
    "VGG-11": _vision("vgg11"),
    "SqueezeNet": _vision("squeezenet1_1"),
}


def imported(name: str) -> tuple[str, Report]:
    """The text of a model, and the report of its import."""
    torch.manual_seed(0)
    module, inputs, dynamic = MODELS[name]()
    model = import_module(module.eval(), inputs, dynamic)
    model.source = name
    graph, _, report = readable(model)
    return str(graph), report


def page(found: Mapping[str, tuple[str, Mapping[str, Any]]]) -> str:
    """The page: of each model its text, and what `Report.to_dict` says."""
    rows = "".join(
        f"| {name} | {report['nodes']} | {report['lines']} | {report['declarations']} "
        f"| {report['statements']} | {report['loops']} | {report['parameters']:,} |\n"
        for name, (_, report) in found.items()
    )
    texts = "".join(
        f"\n## {name}\n\n```\n{text}```\n" for name, (text, _) in found.items() if name in SHOWN
    )
    return (
        "# Gallery\n\n"
        "Models that were imported from `torch.export` ([import.md](import.md)): what their export has, and "
        "what their text\nhas. Written by `python scripts/gallery.py`; weights are random, widths of those "
        "from transformers small, layers those\nof the published models, 16 of decoders.\n\n"
        "| model | nodes of the export | lines | declarations | statements | loops | parameters |\n"
        f"|---|---|---|---|---|---|---|\n{rows}{texts}"
    )


def main() -> None:
    warnings.filterwarnings("ignore")
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            sys.stdout.write(imported(name)[0])
        return
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name in MODELS:
        text, report = imported(name)
        found[name] = text, report.to_dict()
        sys.stderr.write(f"{name}: {report.lines} lines\n")
    PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
