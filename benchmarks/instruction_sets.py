"""Races on an older instruction set than this processor's: what each runtime is told to leave alone.

`openinfer bench --target avx2` compiles our programs, and the loops that measure the machine, for
that target. Peers take part where they can be held to the same instructions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

HOST = "host"
"""This processor, with all that it has."""
ROWS = (
    *("mlp-1", "mlp-64", "mlp2048-32", "encoder-64", "encoder-256", "encoder-512"),
    *("minilm-16", "minilm-128", "matmul-64", "matmul-512", "matmul-1024", "matmul-2048"),
    *("linear-1x768x3072", "linear-16x384x1536", "linear-127x768x768", "linear-512x3072x768"),
    *("linear-333x271x517", "matvec-f32", "matvec-f16", "matvec-bf16", "matvec-i8"),
    *("decode-288-f32", "decode-288-f16", "cnn"),
)
"""Measured on older targets, where none are named: some of each kind."""


@dataclass(frozen=True)
class Restriction:
    """How runtimes are held to a target."""

    environment: Mapping[str, str]
    """What they read before they start."""
    absent: Mapping[str, str]
    """Peers without such a switch, and those that have nothing of their own to do there, with why."""
    iree_cpu: str
    """LLVM's name of the processor, for IREE."""


_OWN_PROCESSOR = "its kernels are compiled for the processor that it runs on"
_NO_BF16 = "the target has no bf16 instructions"
_NARROW = {
    "openinfer-bf16": _NO_BF16,
    "openvino-bf16": _NO_BF16,
    "onnxruntime-i8": "it always takes the processor's widest instructions",
}
_BUILT = dict.fromkeys(("aot", "torch-compile", "tinygrad"), _OWN_PROCESSOR)
_WIDEST = {"onnxruntime": "it has no switch, and always takes the processor's widest instructions"}

RESTRICTIONS: Mapping[str, Restriction] = MappingProxyType(
    {
        HOST: Restriction({}, {}, "host"),
        "avx2": Restriction(
            {
                "ONEDNN_MAX_CPU_ISA": "AVX2",  # oneDNN, inside PyTorch and OpenVINO
                "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's own kernels
                "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                "OPENBLAS_CORETYPE": "Haswell",  # NumPy's products
            },
            {**_WIDEST, **_BUILT, **_NARROW},
            "x86-64-v3",
        ),
        # No peer can be held to SSE2: with oneDNN and PyTorch it starts at SSE4.1 or higher.
        "generic": Restriction(
            {},
            dict.fromkeys(
                ("openvino", "iree", "torch", "llama.cpp", "numpy"), "it is not held to SSE2"
            )
            | {**_WIDEST, **_BUILT, **_NARROW},
            "x86-64",
        ),
    }
)
"""By the name of the target."""
