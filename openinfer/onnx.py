"""ONNX models behind the interface of ONNX Runtime: `import openinfer.onnx as ort`.

    from openinfer.onnx import InferenceSession

    session = InferenceSession("model.onnx")
    (y,) = session.run(["y"], {"x": x})

`oi.from_onnx` gives the program itself. Needs the extra `import`.
"""

from openinfer.compiler.importers.onnx.session import InferenceSession, NodeArg
from openinfer.compiler.importers.onnx.session_options import (
    ExecutionMode,
    GraphOptimizationLevel,
    ModelMetadata,
    RunOptions,
    SessionOptions,
    get_all_providers,
    get_available_providers,
    get_device,
)

__all__ = [
    "ExecutionMode",
    "GraphOptimizationLevel",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "RunOptions",
    "SessionOptions",
    "get_all_providers",
    "get_available_providers",
    "get_device",
]
