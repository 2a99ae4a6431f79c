"""Which reader takes which file; it is loaded when a file of its kind is imported."""

from __future__ import annotations

from pathlib import Path

from openinfer.compiler.importers.graph_writer import Imported
from openinfer.compiler.registry import load
from openinfer.compiler.tools.report import UsageError

READERS = {
    ".onnx": "openinfer.compiler.importers.onnx.imported:read_file",
    ".pt2": "openinfer.compiler.importers.torch.export:read_file",
}
"""A function of a path that gives what is `Imported`, by the suffix of the file."""


def foreign_file(path: Path) -> Path:
    """The file to import: of a folder the only one in it. Raises UsageError."""
    kinds = " or ".join(READERS)
    if not path.is_dir():
        if path.suffix.lower() not in READERS:
            raise UsageError(
                f"{path} is no {kinds} file",
                "export the model: torch.onnx.export, torch.export.save",
            )
        return path
    found = sorted(one for one in path.iterdir() if one.suffix.lower() in READERS)
    if len(found) != 1:
        shown = ", ".join(one.name for one in found[:8]) or "none"
        raise UsageError(f"{path} holds not one {kinds} file: {shown}", "name the file")
    return found[0]


def read_foreign(path: Path) -> Imported:
    """What the reader of the file's kind makes of it. Raises UsageError, and what the reader refuses."""
    file = foreign_file(path)
    return load(READERS[file.suffix.lower()])(file)
