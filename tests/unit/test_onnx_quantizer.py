"""Models that ONNX Runtime's optimiser and quantiser made, held against ONNX Runtime."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
quantization = pytest.importorskip(
    "onnxruntime.quantization", reason="onnxruntime has no quantiser here"
)

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
RANDOM = np.random.default_rng(12)


class Calibration:
    """Inputs that ranges are measured on."""

    def __init__(self, feeds: list[Feeds]) -> None:
        self.feeds = iter(feeds)

    def get_next(self) -> Feeds | None:
        return next(self.feeds, None)


def export(module: Any, given: Any, path: Path, names: list[str], **more: Any) -> None:
    """With PyTorch's older exporter, whose graphs ONNX Runtime's tools know."""
    of_export: list[tuple[type[Warning], str]] = [
        (DeprecationWarning, "You are using the legacy TorchScript-based ONNX export"),
        (DeprecationWarning, "The feature will be removed"),
        (torch.jit.TracerWarning, "Converting a tensor to a Python boolean"),
        (UserWarning, "Exporting aten::index operator"),
    ]
    with warnings.catch_warnings():
        for kind, message in of_export:
            warnings.filterwarnings("ignore", message, kind)
        torch.onnx.export(
            module, given, path, input_names=names, opset_version=17, dynamo=False, **more
        )


def static(source: Path, target: Path, feeds: list[Feeds], *, operators: bool = False) -> Path:
    """Quantised by channels, activations as u8; with `operators` as `QLinearConv` and its like."""
    form = quantization.QuantFormat
    quantization.quantize_static(
        source,
        target,
        Calibration(feeds),
        quant_format=form.QOperator if operators else form.QDQ,
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
    )
    return target


def dynamic(source: Path, target: Path) -> Path:
    """The types of what fused operators give are not found by the quantiser itself."""
    quantization.quantize_dynamic(
        *(source, target),
        weight_type=quantization.QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    return target


def both(path: Path, feeds: Feeds, tolerance: float, *, compiled: bool = True) -> str:
    """Every node by itself in ONNX Runtime, and the program; the text of the program."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    (want,) = session.run(None, feeds)
    graph, package = oi.from_onnx(path)
    made = oi.compile(graph, package) if compiled else oi.Simulator(graph, package)
    with made.make_executor() as executor:
        (found,) = (np.asarray(one) for one in executor.run(**feeds).values())
    np.testing.assert_allclose(found, want, rtol=0, atol=tolerance)
    return str(graph)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stem, two blocks with a residual, one of them with a stride, and a head."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inner: int, outer: int, stride: int) -> None:
            super().__init__()
            self.one = nn.Conv2d(inner, outer, 3, stride, 1)
            self.two = nn.Conv2d(outer, outer, 3, 1, 1)
            self.beside = nn.Conv2d(inner, outer, 1, stride)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.two(torch.relu(self.one(x))) + self.beside(x))

    torch.manual_seed(3)
    stem = [nn.Conv2d(3, 8, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    model = nn.Sequential(*stem, Block(8, 8, 1), Block(8, 16, 2), *head).eval()
    path = tmp_path_factory.mktemp("resnet") / "model.onnx"
    export(model, (torch.zeros(1, 3, 32, 32),), path, ["x"])
    return path


@pytest.mark.parametrize("operators", [False, True])
def test_a_residual_network(resnet: Path, tmp_path: Path, operators: bool) -> None:
    feeds = [{"x": RANDOM.standard_normal((1, 3, 32, 32), dtype=np.float32)} for _ in range(3)]
    path = static(resnet, tmp_path / "q.onnx", feeds, operators=operators)
    # The sums before it are equal; QLinearAdd and the mean may round one code in another way.
    text = both(path, feeds[0], 2e-2, compiled=not operators)
    # Seven convolutions, which are calls of one block, and the head.
    assert (text.count("acc=i32"), text.count("= branch conv")) == (2, 7)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer of BERT with random weights, its operators fused by ONNX Runtime."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    torch.manual_seed(4)
    config = transformers.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn_like(one) * 0.05)

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: Any, mask: Any, kinds: Any) -> Any:
            return self.model(tokens, mask, kinds).last_hidden_state

    names, folder = ["tokens", "mask", "kinds"], tmp_path_factory.mktemp("bert")
    given = torch.zeros((1, 8), dtype=torch.int64)
    axes = {name: {0: "B", 1: "L"} for name in names}
    export(Hidden(), (given, given + 1, given), folder / "model.onnx", names, dynamic_axes=axes)
    made = optimizer.optimize_model(
        str(folder / "model.onnx"), model_type="bert", num_heads=2, hidden_size=32, opt_level=0
    )
    made.save_model_to_file(str(folder / "fused.onnx"))
    return folder / "fused.onnx"


def test_a_fused_encoder(bert: Path, tmp_path: Path) -> None:
    kind = onnx.load(bert).graph.input[0].type.tensor_type.elem_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    feeds: Feeds = {
        "tokens": RANDOM.integers(0, 100, (2, 8)).astype(dtype),
        "mask": np.ones((2, 8), dtype),
        "kinds": np.zeros((2, 8), dtype),
    }
    text = both(bert, feeds, 2e-5, compiled=False)
    assert text.count("op attention(") == 1
    # One row of the codes that a run chooses may differ where a value lies next to a half.
    text = both(dynamic(bert, tmp_path / "dynamic.onnx"), feeds, 2e-2, compiled=False)
    assert text.count("acc=i32") == 4
    plain = bert.with_name("model.onnx")
    whole = {name: one.astype(np.int64) for name, one in feeds.items()}
    text = both(static(plain, tmp_path / "static.onnx", [whole]), whole, 5e-2)
    assert text.count("acc=i32") == 6
