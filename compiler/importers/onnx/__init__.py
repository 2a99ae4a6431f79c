"""ONNX: files that nobody has looked at yet, and what their nodes become."""
