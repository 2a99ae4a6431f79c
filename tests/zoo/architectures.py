"""The zoo: small models of many architectures with random weights, each with example inputs and others.

Numbers that fresh modules lack are made up: statistics of batch norm, weights of norms. Sizes of the examples
differ from each other and from those of the other inputs, so that none of them can hide in a program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zoo_library import torch, torchvision, transformers

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Architecture:
    """A model of the zoo."""

    name: str
    family: str
    """"image", "text", "decoder", "audio", "recurrent", …"""
    build: Callable[[], Any]
    inputs: Callable[[int], Inputs]
    """Inputs by number: 0 is the example, 1 and 2 have other shapes."""
    dynamic: Mapping[str, Sequence[str | None]]
    quick: bool = False
    """Whether CI runs it."""


def tokens(*shape: int) -> Any:
    return torch.randint(0, 99, shape)


def _images(name: str, size: int, varying: bool = False) -> Callable[[int], Inputs]:
    def inputs(number: int) -> Inputs:
        extents = (
            ((size, size), (size, size + 32), (size + 32, size))[number]
            if varying
            else (size, size)
        )
        return {name: torch.randn(2 + number, 3, *extents)}

    return inputs


def _texts(*names: str) -> Callable[[int], Inputs]:
    def inputs(number: int) -> Inputs:
        batch, length = ((2, 7), (1, 4), (3, 9))[number]
        found = {"input_ids": tokens(batch, length)}
        if "attention_mask" in names:
            mask = torch.ones(batch, length, dtype=torch.long)
            mask[-1, length - 2 :] = 0
            found["attention_mask"] = mask
        return found

    return inputs


def _rows(name: str, *shape: int) -> Callable[[int], Inputs]:
    return lambda number: {name: torch.randn(2 + number, *shape)}


_TEXT = {"input_ids": ("B", "L")}
_MASKED = {**_TEXT, "attention_mask": ("B", "L")}
_SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
    "max_position_embeddings": 64,
}
_GROUPED: dict[str, Any] = {**_SMALL, "num_key_value_heads": 2, "use_cache": False}


def _vision(
    name: str,
    build: Callable[[], Any],
    size: int = 32,
    *,
    varying: bool = False,
    quick: bool = False,
) -> Architecture:
    dynamic = {"x": ("B", None, "H", "W") if varying else ("B",)}
    return Architecture(name, "image", build, _images("x", size, varying), dynamic, quick)


def _named(name: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(torchvision().models, name)(num_classes=10, **options)


def _narrow(name: str, *places: int) -> Callable[[], Any]:
    """A model whose classifier is 64 wide: whole, it is too large for some drivers (128 MiB a kernel)."""

    def build() -> Any:
        made = _named(name)()
        first, last = (made.classifier[place] for place in (places[0], places[2]))
        made.classifier[places[0]] = torch.nn.Linear(first.in_features, 64)
        made.classifier[places[1]] = torch.nn.Linear(64, 64)
        made.classifier[places[2]] = torch.nn.Linear(64, last.out_features)
        return made

    return build


def _segmentation(name: str) -> Callable[[], Any]:
    return lambda: getattr(torchvision().models.segmentation, name)(
        weights=None, weights_backbone=None, num_classes=5
    )


def _hub(model: str, config: str, **options: Any) -> Callable[[], Any]:
    return lambda: getattr(transformers, model)(getattr(transformers, config)(**options))


def _encoder(
    name: str, model: str, config: str, *, quick: bool = False, **options: Any
) -> Architecture:
    build = _hub(model, config, **options)
    return Architecture(name, "text", build, _texts("attention_mask"), _MASKED, quick)


def _decoder(
    name: str, model: str, config: str, *, quick: bool = False, **options: Any
) -> Architecture:
    return Architecture(name, "decoder", _hub(model, config, **options), _texts(), _TEXT, quick)


def _swin() -> Any:
    return torchvision().models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10)


def _vit() -> Any:
    made = torchvision().models.VisionTransformer(32, 8, 3, 4, 32, 64, num_classes=10)
    torch.nn.init.normal_(made.heads[0].weight)
    return made


def _convnext() -> Any:
    models = torchvision().models.convnext
    blocks = [models.CNBlockConfig(16, 32, 2), models.CNBlockConfig(32, None, 2)]
    return models.ConvNeXt(blocks, num_classes=10)


class Recurrent(torch.nn.Module):
    """A recurrent layer over embedded positions, and a head on the last one."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


class UNet(torch.nn.Module):
    """Two halvings, two doublings, and the skips between them."""

    def __init__(self) -> None:
        super().__init__()

        def block(before: int, after: int) -> Any:
            return torch.nn.Sequential(
                torch.nn.Conv2d(before, after, 3, padding=1),
                torch.nn.BatchNorm2d(after),
                torch.nn.ReLU(),
            )

        self.first, self.second, self.bottom = block(3, 8), block(8, 16), block(16, 32)
        self.pool = torch.nn.MaxPool2d(2)
        self.up1, self.up2 = (torch.nn.ConvTranspose2d(n, n // 2, 2, 2) for n in (32, 16))
        self.left, self.right = block(32, 16), block(16, 8)
        self.head = torch.nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        first = self.first(x)
        second = self.second(self.pool(first))
        bottom = self.bottom(self.pool(second))
        left = self.left(torch.cat([self.up1(bottom), second], 1))
        return self.head(self.right(torch.cat([self.up2(left), first], 1)))


class StateSpace(torch.nn.Module):
    """A selective scan written as a loop over a fixed number of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(16, 32)
        self.gates = torch.nn.Linear(16, 8 + 8 + 16)
        self.rates = torch.nn.Parameter(torch.rand(16, 8))
        self.outer = torch.nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        h, gate = self.inner(x).chunk(2, -1)
        b, c, delta = self.gates(h).split([8, 8, 16], -1)
        delta = torch.nn.functional.softplus(delta)
        state = torch.zeros(x.shape[0], 16, 8)
        found = []
        for step in range(x.shape[1]):
            kept = torch.exp(-delta[:, step, :, None] * self.rates)
            state = state * kept + (delta[:, step] * h[:, step])[..., None] * b[:, step, None]
            found.append((state * c[:, step, None]).sum(-1))
        return self.outer(torch.stack(found, 1) * torch.nn.functional.silu(gate))


class Scan(torch.nn.Module):
    """A linear recurrence by `torch.scan`: a loop of the program."""

    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops import scan  # pyright: ignore

        return scan(lambda c, row: (0.5 * c + row, torch.tanh(c)), torch.zeros(4), x)[1]


def _perceptron() -> Any:
    layers = [
        torch.nn.Linear(12, 24),
        torch.nn.GELU(),
        torch.nn.LayerNorm(24),
        torch.nn.Linear(24, 5),
    ]
    return torch.nn.Sequential(*layers)


def _autoencoder() -> Any:
    nn = torch.nn
    return nn.Sequential(
        *(nn.Conv1d(3, 8, 5, 2, 2), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv1d(8, 8, 3, padding=1)),
        *(nn.Upsample(scale_factor=2), nn.ConvTranspose1d(8, 3, 3, padding=1), nn.Tanh()),
    )


_WHISPER: dict[str, Any] = {
    **{"vocab_size": 99, "d_model": 32, "encoder_layers": 3, "decoder_layers": 3},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_mel_bins": 8},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_source_positions": 20},
    **{"max_target_positions": 20, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1},
    **{"eos_token_id": 2, "decoder_start_token_id": 1},
}
_DISTILBERT: dict[str, Any] = {
    **{"vocab_size": 99, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48}
}
_GPT2: dict[str, Any] = {
    **{"vocab_size": 99, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    "use_cache": False,
}
_BLOOM: dict[str, Any] = {
    **{"vocab_size": 99, "hidden_size": 32, "n_layer": 3, "n_head": 4, "use_cache": False}
}
_OPT: dict[str, Any] = {**_SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "use_cache": False}
_T5: dict[str, Any] = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_heads": 4,
}
_BART: dict[str, Any] = {
    **{
        "vocab_size": 99,
        "d_model": 32,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "use_cache": False,
    },
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 64},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
}
_MIXTRAL: dict[str, Any] = {
    **_GROUPED,
    "num_local_experts": 4,
    "experts_implementation": "batched_mm",
}


def _both(number: int) -> Inputs:
    batch, length, other = ((2, 7, 5), (1, 4, 3), (3, 9, 6))[number]
    return {"input_ids": tokens(batch, length), "decoder_input_ids": tokens(batch, other)}


_BOTH = {"input_ids": ("B", "L"), "decoder_input_ids": ("B", "M")}


def architectures() -> list[Architecture]:
    """All of the zoo, in the order of its page."""
    nn = torch.nn
    return [
        Architecture("MLP", "plain", _perceptron, _rows("input", 12), {"input": ("B",)}, True),
        _vision("U-Net", UNet, 32, varying=True, quick=True),
        Architecture(
            "autoencoder 1d", "audio", _autoencoder, _rows("input", 3, 32), {"input": ("B",)}
        ),
        _vision("ResNet18", _named("resnet18"), 64, varying=True),
        _vision("ResNet50", _named("resnet50")),
        _vision("VGG11", _narrow("vgg11_bn", 0, 3, 6)),
        _vision("AlexNet", _narrow("alexnet", 1, 4, 6), 64),
        _vision("GoogLeNet", _named("googlenet", aux_logits=False, init_weights=False)),
        _vision("SqueezeNet", _named("squeezenet1_1"), varying=True),
        _vision(
            "DenseNet", lambda: torchvision().models.DenseNet(8, (2, 2, 2), 16, num_classes=10)
        ),
        _vision("MobileNetV2", _named("mobilenet_v2")),
        _vision("MobileNetV3", _named("mobilenet_v3_small"), quick=True),
        _vision("EfficientNet-B0", _named("efficientnet_b0")),
        _vision("ShuffleNetV2", _named("shufflenet_v2_x0_5")),
        _vision("RegNet", _named("regnet_y_400mf")),
        _vision("MNASNet", _named("mnasnet0_5")),
        _vision("ConvNeXt", _convnext, 32),
        _vision("ViT", _vit, 32),
        _vision("Swin", _swin, 32),
        Architecture(
            *("LR-ASPP", "image", _segmentation("lraspp_mobilenet_v3_large")),
            *(_images("input", 32), {"input": ("B",)}),
        ),
        _vision("DeepLabV3", _segmentation("deeplabv3_mobilenet_v3_large")),
        Architecture(
            *("R3D-18", "video", lambda: torchvision().models.video.r3d_18(num_classes=5)),
            *(_rows("x", 3, 4, 32, 32), {"x": ("B",)}),
        ),
        _encoder("BERT", "BertModel", "BertConfig", quick=True, **_SMALL),
        _encoder("RoBERTa", "RobertaModel", "RobertaConfig", **_SMALL),
        _encoder("ALBERT", "AlbertModel", "AlbertConfig", embedding_size=16, **_SMALL),
        _encoder("ELECTRA", "ElectraModel", "ElectraConfig", embedding_size=16, **_SMALL),
        _encoder("DeBERTaV2", "DebertaV2Model", "DebertaV2Config", **_SMALL),
        _encoder(
            *("DistilBERT", "DistilBertModel", "DistilBertConfig"),
            **_DISTILBERT,
        ),
        _encoder("T5 encoder", "T5EncoderModel", "T5Config", **_T5),
        _decoder(
            *("GPT-2", "GPT2LMHeadModel", "GPT2Config"),
            **_GPT2,
        ),
        _decoder("GPT-NeoX", "GPTNeoXForCausalLM", "GPTNeoXConfig", use_cache=False, **_SMALL),
        _decoder(
            *("OPT", "OPTForCausalLM", "OPTConfig"),
            **_OPT,
        ),
        _decoder(
            *("BLOOM", "BloomForCausalLM", "BloomConfig"),
            **_BLOOM,
        ),
        _decoder("Phi", "PhiForCausalLM", "PhiConfig", use_cache=False, **_SMALL),
        _decoder("Llama", "LlamaForCausalLM", "LlamaConfig", quick=True, **_GROUPED),
        _decoder("Mistral", "MistralForCausalLM", "MistralConfig", sliding_window=4, **_GROUPED),
        _decoder("Qwen2", "Qwen2ForCausalLM", "Qwen2Config", **_GROUPED),
        _decoder("Qwen3", "Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **_GROUPED),
        _decoder("Gemma", "GemmaForCausalLM", "GemmaConfig", head_dim=8, **_GROUPED),
        _decoder("Mixtral", "MixtralForCausalLM", "MixtralConfig", **_MIXTRAL),
        Architecture(
            *("BART", "encoder-decoder", _hub("BartModel", "BartConfig", **_BART), _both, _BOTH),
        ),
        Architecture(
            *("T5", "encoder-decoder", _hub("T5Model", "T5Config", use_cache=False, **_T5)),
            *(_both, _BOTH),
        ),
        Architecture(
            *("Whisper encoder", "audio"),
            lambda: transformers.WhisperModel(transformers.WhisperConfig(**_WHISPER)).get_encoder(),
            *(_rows("input_features", 8, 40), {"input_features": ("B",)}),
        ),
        Architecture(
            *("CLIP text", "text"),
            _hub("CLIPTextModel", "CLIPTextConfig", eos_token_id=98, **_SMALL),
            *(_texts(), _TEXT),
        ),
        Architecture(
            *("CLIP vision", "image"),
            _hub(
                *("CLIPVisionModel", "CLIPVisionConfig"),
                **{"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4},
                **{"intermediate_size": 48, "image_size": 32, "patch_size": 8},
            ),
            *(_images("pixel_values", 32), {"pixel_values": ("B",)}),
        ),
        Architecture(
            *("LSTM", "recurrent"),
            lambda: Recurrent(nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)),
            *(_rows("x", 4, 6), {"x": ("B",)}, True),
        ),
        Architecture(
            *("GRU", "recurrent", lambda: Recurrent(nn.GRU(6, 5, 2, batch_first=True))),
            *(_rows("x", 4, 6), {"x": ("B",)}),
        ),
        Architecture(
            *("RNN", "recurrent", lambda: Recurrent(nn.RNN(6, 5, 2, batch_first=True))),
            *(_rows("x", 4, 6), {"x": ("B",)}),
        ),
        Architecture("selective scan", "state space", StateSpace, _rows("x", 5, 16), {"x": ("B",)}),
        Architecture("scan", "control flow", Scan, _rows("x", 4), {"x": ("T",)}),
        Architecture(
            *("Mamba", "state space"),
            _hub(
                *("MambaForCausalLM", "MambaConfig"),
                **{"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 3, "state_size": 8},
                use_cache=False,
            ),
            lambda number: {"input_ids": tokens(2 + number, 6)},
            {"input_ids": ("B",)},
        ),
    ]


def built(architecture: Architecture) -> Any:
    """The model with random numbers everywhere, in eval mode."""
    torch.manual_seed(0)
    model = architecture.build().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
        if "Norm" in type(module).__name__ and getattr(module, "weight", None) is not None:
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            if getattr(module, "bias", None) is not None:
                torch.nn.init.normal_(module.bias, 0, 0.1)
    return model
