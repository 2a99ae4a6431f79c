"""A session whose program was compiled beforehand, or is a level of one: a file that `openinfer compile`
or `openinfer-opt --dump-dir` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.api import Graph
from openinfer.compiler.tools.program_argument import LEVEL_SUFFIX
from openinfer.compiler.tools.progress import waiting
from openinfer.compiler.tools.report import know_source
from openinfer.compiler.tools.running import Session
from openinfer.runtime.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program


@dataclass
class CompiledSession(Session):
    """Runs what is in the file; its text serves the simulator and messages."""

    program: Program | None = None

    def compiled(self, trace: bool | None = None) -> BaseExecutor:
        """An executor of the program in the file. Raises ArtefactError when it cannot run here."""
        assert self.program is not None
        return self.program.make_executor(self.threads, trace=trace)

    def simulator(self) -> BaseExecutor:
        """The simulator for the text in the file. Raises UnsupportedError OI0736 without text."""
        assert self.program is not None
        if self.program.source is None:
            raise UnsupportedError(
                "OI0736",
                "the program came without its text, which the simulator runs",
                hint="give the .oi file, or compile it again with `openinfer compile`",
            )
        self.program.check_package()
        return super().simulator()


def open_program(path: Path, model: Path | None, *, copy: bool = False) -> Program:
    """The program in a file, with the package that was named or the one that it finds; one of a level
    is compiled from there on.

    Raises ArtefactError, PackageError, for a level what `openinfer.load_level` raises.
    """
    from openinfer.runtime.packages import open_model
    from openinfer.runtime.program_io import load_program

    package = open_model(model, copy=copy) if model is not None else None
    if path.suffix == LEVEL_SUFFIX:
        from openinfer.compiler.levels import load_level

        with waiting(f"compiling {path}"):
            return load_level(path, package)
    return load_program(path, package, copy=copy)


def compiled_parts(
    program: Program, sizes: Mapping[str, int]
) -> tuple[Graph, Package | None, dict[str, int]]:
    """Text, package and sizes of a compiled program, as a session has them.

    `sizes` come from the command line: raises InputError OI0520 for one that was compiled with
    another value, OI0523 for one that the program does not name.
    """
    manifest, package = program.manifest, program.package
    for name, value in sizes.items():
        fixed = manifest.sizes.get(name)
        if fixed is not None and fixed != value:
            raise InputError(
                "OI0520",
                f"size {name} is {fixed} in the compiled program but {value} was given",
                hint="compile the program again with that size",
            )
        if fixed is None and name not in manifest.runtime_sizes:
            known = ", ".join([*manifest.runtime_sizes, *manifest.sizes]) or "none"
            raise InputError(
                "OI0523", f"the program names no size {name}", hint=f"its sizes: {known}"
            )
    source = program.source
    if source is not None:
        know_source(source.file, source.text)
    text, form = (source.text, source.form) if source is not None else ("", "oi")
    graph = Graph(text, source.file if source is not None else manifest.name, form=form)
    known = package.sizes if package is not None else {}
    given = {n: v for n, v in manifest.sizes.items() if n not in known}
    return graph, package, {**given, **sizes}
