"""Workloads of every family, too small to measure: they show that everything computes the same."""

from __future__ import annotations

from benchmarks.workloads.base import Workload
from benchmarks.workloads.cnn import Convolutions
from benchmarks.workloads.decode import Decode
from benchmarks.workloads.encoder import Encoder
from benchmarks.workloads.matmul import Matmul
from benchmarks.workloads.matvec import BYTES, Matvec
from benchmarks.workloads.mlp import Classifier, Square
from benchmarks.workloads.networks import Network
from benchmarks.workloads.transformers import Language, Vision

WIDTH = 128

TINY: tuple[Workload, ...] = (
    Classifier("classifier", "", 2),
    Square("square", "", 16, 3),
    Encoder("encoder", "", 32, 5),
    Encoder("encoder-plain", "", 32, 5, True),
    Matmul("matmul", "", 5, 7, 9, False),
    Matmul("linear", "", 5, 7, 9, True),
    *(
        Matvec(f"matvec-{dtype}", "", dtype, WIDTH, 2 * WIDTH * WIDTH * size)
        for dtype, size in BYTES.items()
    ),
    *(Decode(f"decode-{dtype}", "", dtype, 32, 2, 4, 2, 48, 5) for dtype in ("f32", "f16")),
    Convolutions("cnn", "", 1),
    Network("resnet18", "", "resnet18", 1, 64, depths=(2, 2, 2, 2)),
    Network("convnext", "", "convnext", 2, 64, 5, 16, (1, 2, 1, 1)),
    Network("unet", "", "unet", 2, 24, 3, 16),
    Vision("vit", "", 5, 32, 4, 2, 8, 4, 10),
    Language("gpt2", "", 7, 32, 4, 2, 60),
)
