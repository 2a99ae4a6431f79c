"""ONNX models behind the interface of ONNX Runtime.

    from openinfer.onnx import InferenceSession

    session = InferenceSession("model.onnx")
    (y,) = session.run(["y"], {"x": x})

`oi.from_onnx` gives the program itself. Needs the extra `import`.
"""

from openinfer.compiler.importers.onnx.session import InferenceSession, NodeArg

__all__ = ["InferenceSession", "NodeArg"]
