"""PyTorch and what its models come from; skips where they are missing."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: scripts/install-extras.sh")
# A torchvision that was built for another torch lacks its compiled ops, which no model of the zoo calls.
_ops: Any = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    try:
        _ops.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except RuntimeError:
        pass  # It is there.
torchvision: Any = pytest.importorskip("torchvision", reason="needs torchvision")
transformers: Any = pytest.importorskip("transformers", reason="needs transformers")
transformers.logging.set_verbosity_error()
