"""The xDSL dialects that openinfer uses, with our extensions in place of the originals.

`get_all_dialects` is what a driver registers. Each entry imports its dialect on first use only.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from xdsl.ir import Dialect

_DIALECTS = {
    "affine": "xdsl.dialects.affine:Affine",
    "arith": "openinfer.dialects.extensions.arith:Arith",
    "bufferization": "xdsl.dialects.bufferization:Bufferization",
    "builtin": "xdsl.dialects.builtin:Builtin",
    "cf": "xdsl.dialects.cf:Cf",
    "func": "xdsl.dialects.func:Func",
    "linalg": "openinfer.dialects.extensions.linalg:Linalg",
    "llvm": "openinfer.dialects.extensions.llvm:LLVM",
    "math": "xdsl.dialects.math:Math",
    "memref": "openinfer.dialects.extensions.memref:MemRef",
    "scf": "xdsl.dialects.scf:Scf",
    "tensor": "xdsl.dialects.tensor:Tensor",
    "test": "xdsl.dialects.test:Test",
    "vector": "openinfer.dialects.extensions.vector:Vector",
}


def _loader(place: str) -> Callable[[], Dialect]:
    module, name = place.split(":")
    return lambda: cast(Dialect, getattr(import_module(module), name))


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """The dialects by name, as functions that import them."""
    return {name: _loader(place) for name, place in _DIALECTS.items()}
