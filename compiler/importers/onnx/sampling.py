"""Images read at places that a tensor gives."""

from __future__ import annotations

from openinfer.compiler.importers.onnx.node import Node, Result, operator

_MODES = {"linear": "bilinear", "cubic": "bicubic"}
"""Names of older operator sets are those that we have."""


@operator("GridSample")
def grid_sample(node: Node) -> Result:
    node.expect("mode", "linear", "nearest", "cubic", "bilinear", "bicubic")
    node.expect("padding_mode", "zeros", "border", "reflection")
    mode, padding = node.text("mode", "linear"), node.text("padding_mode", "zeros")
    mode = _MODES.get(mode, mode)
    node.need(
        mode != "bicubic" or padding == "zeros",
        f"mode=cubic and padding_mode={padding}",
        "runtimes do not agree on it; use zeros, or mode=linear",
    )
    settings: dict[str, object] = {} if mode == "bilinear" else {"mode": mode}
    if padding != "zeros":
        settings["padding_mode"] = padding
    if node.flag("align_corners"):
        settings["align_corners"] = True
    return node.g.op("grid_sample", node.x(0), node.x(1), **settings)
