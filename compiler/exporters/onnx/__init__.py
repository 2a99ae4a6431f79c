"""Programs become ONNX models: the walk through a program, the graph that it writes, what ops become."""
