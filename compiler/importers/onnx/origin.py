"""Where a node comes from, as its exporter says in `metadata_props`; else by its name."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from openinfer.lowering.graph.imports.provenance import Provenance, classes_of

if TYPE_CHECKING:
    from onnx import NodeProto

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*\n?\s*([^\n]*)')
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")
MAX_TEXT = 1 << 16


def provenance(proto: NodeProto, path: str = "") -> Provenance:
    """Module path, class, variable and line of a node of PyTorch's exporter; `path` is that of functions."""
    props = {one.key: one.value for one in proto.metadata_props if len(one.value) <= MAX_TEXT}
    names = _texts(props.get("pkg.torch.onnx.name_scopes", ""))
    kinds = _texts(props.get("pkg.torch.onnx.class_hierarchy", ""))
    module, kind, classes = path, "", ""
    if len(names) > 1:
        # The last entry is the node itself, with its class the op.
        module = names[-2]
        if len(kinds) == len(names):
            kinds = [one.rpartition(".")[2] for one in kinds]
            kind, classes = kinds[-2], classes_of(zip(names[:-1], kinds))
    elif not path and "/" in proto.name.strip("/"):
        # The older exporter: `/encoder/layer.0/attention/MatMul`.
        module = ".".join(proto.name.strip("/").split("/")[:-1])
    file, line, variable = "", 0, ""
    frames = _FRAME.findall(props.get("pkg.torch.onnx.stack_trace", ""))
    if frames:
        file, number, text = frames[-1]
        line = int(number)
        assigned = _ASSIGNED.match(text)
        variable = assigned[1] if assigned else ""
    return Provenance(module, kind, variable, proto.op_type, file, line, classes)


def _texts(text: str) -> list[str]:
    """A list of texts, as Python prints one."""
    try:
        found = ast.literal_eval(text) if text else []
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
