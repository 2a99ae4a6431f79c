"""The workloads W1 to W6, W8 and W9: every row of the table by its name. W7 is `benchmarks/language/`."""

from __future__ import annotations

from benchmarks.workloads import (
    cnn,
    decode,
    encoder,
    matmul,
    matvec,
    minilm,
    mlp,
    networks,
    transformers,
)
from benchmarks.workloads.base import Workload

WORKLOADS: dict[str, Workload] = {
    row.name: row
    for module in (mlp, encoder, minilm, matmul, matvec, decode, cnn, networks, transformers)
    for row in module.WORKLOADS
}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(row.group for row in WORKLOADS.values()))
SAMPLES = frozenset(
    (
        "mlp-1 mlp-64 encoder-256 minilm-128 matmul-512 linear-127x1536x384 decode-288-f32 cnn "
        "resnet18-1 vit-b"
    ).split()
)
"""A row or two of each group: where those take part that take long to set up."""
ABLATED: dict[str, Workload] = {
    row.name: row
    for row in (
        *(
            WORKLOADS[name]
            for name in ("mlp-1", "mlp-64", "mlp2048-1", "encoder-64", "encoder-256")
        ),
        encoder.PLAIN,
        *(WORKLOADS[name] for name in ("minilm-16", "minilm-128", "linear-127x1536x384")),
        *(WORKLOADS[name] for name in ("matvec-i8", "decode-288-f32", "decode-288-f16", "cnn")),
    )
}
"""What passes are left out of, unless workloads are named."""


def find(name: str) -> Workload:
    """The row of this name. Raises KeyError."""
    return ABLATED.get(name) or WORKLOADS[name]
