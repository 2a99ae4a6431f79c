"""`oi.from_onnx`: a model as a program that can be read, and its package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.importers.graph_writer import Imported
from openinfer.compiler.importers.onnx.reader import read_model
from openinfer.runtime.files import AnyPath

if TYPE_CHECKING:
    from onnx import ModelProto

    from openinfer.compiler.api import Graph
    from openinfer.runtime.packages.base import Package


def from_onnx(
    source: AnyPath | bytes | ModelProto,
    *,
    values: Mapping[str, Any] | None = None,
    folder: AnyPath | None = None,
    stateful: bool = False,
) -> tuple[Graph, Package]:
    """The program and the package of a model; see `openinfer.from_onnx`."""
    from openinfer.compiler.importers.readable import readable

    program = read_model(source, values=values, folder=folder)
    graph, package, _ = readable(program.imported, stateful=stateful)
    return graph, package


def read_file(path: Path) -> Imported:
    """What `openinfer import` makes a text of. Raises what `from_onnx` raises."""
    return read_model(path).imported
