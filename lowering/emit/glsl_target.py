"""The format `glsl` of `openinfer-opt -t`: each device kernel as a GLSL compute shader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.target import Target

from openinfer.dialects.nn.interface import interface_of
from openinfer.lowering.emit.kernel_text import Lines, kernel_text
from openinfer.lowering.interface import as_data
from openinfer.lowering.places import is_device_kernel
from openinfer.runtime.errors import UnsupportedError


@dataclass(frozen=True)
class GlslTarget(Target):
    """
    Write each device kernel of a module as a compute shader, or the one of a name.

    Raises UnsupportedError (OI0764) where there is none, (OI0765) for an op that has no text.
    """

    name: ClassVar[str] = "glsl"

    kernel: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        found = [one for one in _kernels(module) if self.kernel in (None, one.sym_name.data)]
        if not found:
            what = "no device kernel" if self.kernel is None else f"no kernel '{self.kernel}'"
            raise UnsupportedError(
                "OI0764",
                f"{what} to write as GLSL",
                hint="take `--pipeline vulkan`, or a module from behind `lower-device-kernels` and before "
                "`convert-to-spirv`",
            )
        lines = _lines(module)
        output.write("\n".join(kernel_text(one, lines) for one in found))


def _kernels(module: ModuleOp) -> Iterator[FuncOp]:
    for op in module.body.ops:
        if isinstance(op, FuncOp) and is_device_kernel(op):
            yield op


def _lines(module: ModuleOp) -> Lines:
    """What the program says at each of its lines."""
    nodes = as_data(interface_of(module).get("nodes", ArrayAttr([])))
    return {(node["file"], node["line"]): node["text"] for node in nodes if "file" in node}
