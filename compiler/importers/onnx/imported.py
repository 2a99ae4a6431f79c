"""`oi.from_onnx`: a model as a program and its package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openinfer.compiler.api import Graph
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.importers.onnx.reader import OnnxProgram, read_model
from openinfer.runtime.files import AnyPath
from openinfer.runtime.packages import open_model
from openinfer.runtime.packages.base import Package

if TYPE_CHECKING:
    from onnx import ModelProto


def from_onnx(
    source: AnyPath | bytes | ModelProto,
    *,
    values: Mapping[str, Any] | None = None,
    folder: AnyPath | None = None,
) -> tuple[Graph, Package]:
    """The program and the package of a model; see `openinfer.from_onnx`."""
    return made(read_model(source, values=values, folder=folder))


def made(program: OnnxProgram) -> tuple[Graph, Package]:
    """The text and the package of what was read."""
    imported = program.imported
    return Graph(print_program(imported.module), imported.source), open_model(imported.tensors)
