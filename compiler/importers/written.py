"""An imported program as files: text, package, report; all of them or none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from openinfer.compiler.api import Graph
from openinfer.compiler.importers.report import Report
from openinfer.runtime.files import write_text
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.oinf_writer import write_oinf

PROGRAM, PACKAGE, REPORT = NAMES = ("model.oi", "model.oinf", "report.txt")


def write_program(graph: Graph, package: Package, report: Report, folder: Path) -> None:
    """Writes the three files into a folder, the program last, tensors from where they lie.

    A file that is there is replaced when its successor is whole. Where one cannot be written, those that are
    new go again, and the folder if it is new. Raises PackageError OI0401, OSError.
    """
    existed = {name for name in NAMES if (folder / name).exists()}
    there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        write_oinf(package, folder / PACKAGE)
        write_text(folder / REPORT, str(report))
        write_text(folder / PROGRAM, str(graph))
    except BaseException:
        for name in NAMES:
            if name not in existed:
                (folder / name).unlink(missing_ok=True)
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise
