"""PyTorch and what its models come from; skips where they are missing, torchvision when it is asked for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")
_ops: Any = torch.library.Library("torchvision", "FRAGMENT")
try:
    import_module("torchvision")
except ImportError:
    pass
except RuntimeError:
    # It was built for another torch and lacks its compiled ops, which no model of the zoo calls.
    for _name in ("nms", "qnms"):
        _ops.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for _name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[_name]
transformers: Any = pytest.importorskip("transformers", reason="needs transformers")
transformers.logging.set_verbosity_error()


def torchvision() -> Any:
    """The module; skips where it is missing."""
    return pytest.importorskip("torchvision", reason="needs torchvision")
