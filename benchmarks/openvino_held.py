"""OpenVINO held to an older instruction set: what oneDNN's switch does not reach.

`ONEDNN_MAX_CPU_ISA` holds oneDNN's kernels. Products without anything behind them OpenVINO gives to
MLAS, which has no switch and takes the widest instructions of the processor. A clip that changes
nothing makes oneDNN compute them too: it is done in registers, on sums that are there.
"""

from __future__ import annotations

from typing import Any

LARGEST = 3.4e38
"""No finite number of f32 lies further out."""


def clip_products(model: Any) -> None:
    """Puts a clip behind each product with constant weights, after its bias."""
    from openvino import opset8

    for op in list(model.get_ordered_ops()):
        if op.get_type_name() != "MatMul" or not _is_constant(op.input_value(1)):
            continue
        output = op.output(0)
        readers = list(output.get_target_inputs())
        if len(readers) == 1 and readers[0].get_node().get_type_name() == "Add":
            output = readers[0].get_node().output(0)
            readers = list(output.get_target_inputs())
        clipped = opset8.clamp(output, -LARGEST, LARGEST).output(0)
        for reader in readers:
            reader.replace_source_output(clipped)


def _is_constant(value: Any) -> bool:
    """Whether a value is a weight, as it is stored or transposed or widened."""
    node = value.get_node()
    while node.get_type_name() in ("Transpose", "Convert", "Reshape", "Multiply"):
        node = node.input_value(0).get_node()
    return node.get_type_name() == "Constant"


def check_held(compiled: Any) -> None:
    """Raises RuntimeError when a product of a compiled model is still MLAS's."""
    for op in compiled.get_runtime_model().get_ordered_ops():
        kind = str(op.get_rt_info()["primitiveType"].astype(str))
        if "mlas" in kind:
            raise RuntimeError(f"computes products with {kind}, which cannot be restricted")
