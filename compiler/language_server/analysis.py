"""What is known of one version of a program text: its names, mistakes, types, and sizes."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.frontend import ParseResult, parse_text
from openinfer.compiler.frontend.source import Source, Span
from openinfer.compiler.language_server.positions import Positions
from openinfer.compiler.language_server.words import Words
from openinfer.compiler.model_mistakes import all_mistakes
from openinfer.compiler.tools.inspecting.facts import program_facts
from openinfer.compiler.tools.program_argument import package_beside
from openinfer.compiler.unfilled import unfilled_warnings
from openinfer.dialects.graph import AssignOp, OpOp, VariableOp
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.locations import calls_around, own_name
from openinfer.lowering.program.check import check_program
from openinfer.lowering.program.unfilled import unfilled_constants, used_tensors
from openinfer.lowering.program.view import ProgramView
from openinfer.runtime.errors import Diagnostic, OpenInferError, ProgramError
from openinfer.runtime.packages import open_model

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.runtime.packages.base import Package

_MODEL_COMMENT = re.compile(r"^\s*//\s*model:\s*(\S.*?)\s*$", re.M)
_HEAD = 2000
"""Characters at the beginning of a text in which a comment may name the model."""


@dataclass(frozen=True)
class Setup:
    """What the person says beside the text."""

    model: str = ""
    """The path of a package, relative to `root`; empty: the package beside the program, if any."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    strict: bool = False
    root: str = ""
    """The folder of the workspace."""


@dataclass(frozen=True)
class Variable:
    """The type of a variable, as far as program and model say it."""

    name: str
    memory: str
    dtype: str
    dims: tuple[str, ...]
    shape: tuple[int | str, ...]
    """The dimensions with every known size put in."""
    indices: tuple[str, ...]
    source: str
    """Where the first content comes from."""
    nbytes: int | None

    @property
    def type(self) -> str:
        """`f32[B, D]`, with `_` for what is not known."""
        dims = f"[{', '.join(self.dims)}]" if self.dims else ""
        return f"{self.dtype}{dims}"


@dataclass(frozen=True)
class Tensor:
    """A tensor of the package."""

    name: str
    type: str


@dataclass
class Findings:
    """What reading a text with its model gave."""

    diagnostics: list[Diagnostic]
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    sizes: dict[str, tuple[int | None, str]] = field(
        default_factory=dict[str, "tuple[int | None, str]"]
    )
    """Value, and where it comes from."""
    locals: dict[tuple[str, str], dict[str, Variable]] = field(
        default_factory=dict[tuple[str, str], "dict[str, Variable]"]
    )
    """By block with parameters and name there: what the variable is in each call."""
    tensors: tuple[Tensor, ...] = ()
    package_names: frozenset[str] = frozenset()
    """The sizes and metadata entries of the package."""


class Analysis:
    """One version of a text. Everything is found when it is first asked for, and kept."""

    def __init__(
        self, text: str, file: str, setup: Setup | None = None, before: Analysis | None = None
    ) -> None:
        """`file` is the path of the text; it need not exist. `before` is an earlier version of it."""
        self.source = Source(text, file)
        self.setup = setup or Setup()
        self._before = before.findings if before is not None else Findings([])

    @cached_property
    def positions(self) -> Positions:
        """Between offsets and places as editors count them."""
        return Positions(self.source.text)

    @cached_property
    def words(self) -> Words:
        """The names of the text."""
        return Words(self.source)

    @cached_property
    def model(self) -> Path | None:
        """The package: named by a comment `// model: PATH` or by the setup, else beside the program."""
        folder = Path(self.source.file).parent
        named = _MODEL_COMMENT.search(self.source.text[:_HEAD])
        if named is not None:
            return folder / named[1]
        if self.setup.model:
            return Path(self.setup.root or folder) / self.setup.model
        return package_beside(self.source.file)

    @cached_property
    def findings(self) -> Findings:
        """Mistakes and types. Never fails: what goes wrong is a finding."""
        try:
            with self._package() as package:
                found = self._with(package)
            self._keep_types(found)
            return found
        except (OpenInferError, OSError, ValueError) as error:
            # A model that cannot be read; what the text alone says still holds.
            found = self._with(None)
            code = error.code if isinstance(error, OpenInferError) else "OI0401"
            message = error.message if isinstance(error, OpenInferError) else str(error)
            hint = error.hint if isinstance(error, OpenInferError) else None
            where = replace(self.source.location(Span(0, 0)), column=0)
            found.diagnostics.append(Diagnostic(code, message, where, hint=hint))
            return found

    def span(self, diagnostic: Diagnostic) -> Span:
        """What a diagnostic underlines; the first line where it has no place."""
        place = diagnostic.location
        lines = self.source.text.split("\n")
        if place is None or place.file != self.source.file or not 1 <= place.line <= len(lines):
            return Span(0, len(lines[0]))
        start = sum(len(line) + 1 for line in lines[: place.line - 1])
        line = lines[place.line - 1].rstrip("\r")
        if place.column < 1:
            return Span(start + len(line) - len(line.lstrip()), start + len(line))
        first = min(place.column - 1, len(line))
        return Span(start + first, start + min(first + diagnostic.length, len(line)))

    @contextmanager
    def _package(self) -> Generator[Package | None]:
        """The model, open for as long as it is looked at: the file may be written again at any time."""
        if self.model is None:
            yield None
            return
        package = open_model(self.model)
        try:
            yield package
        finally:
            package.close()

    def _with(self, package: Package | None) -> Findings:
        result = parse_text(self.source.text, self.source.file, self.setup.strict)
        text_alone = package is None and not self.setup.sizes
        module = result.module
        if module is None:
            module = result.make_sound_part()
            found = result.diagnostics if text_alone else self._all_mistakes(result, package)
        elif text_alone:
            found = result.diagnostics
        else:
            found = [*result.diagnostics, *self._mistakes_of(module, package)]
        findings = Findings(list(found))
        if package is not None:
            findings.tensors = tuple(
                Tensor(name, f"{info.dtype_name}{list(info.shape)}")
                for name, info in package.tensors.items()
            )
            findings.package_names = frozenset((*package.sizes, *package.metadata))
        if module is not None:
            self._types(module, package, findings)
        return findings

    def _keep_types(self, found: Findings) -> None:
        """A statement with mistakes hides what it names from the checker: the types of before stand."""
        if not any(d.severity == "error" for d in found.diagnostics):
            return
        declared = {d.symbol.name for d in self.words.definitions if d.symbol.kind == "variable"}
        for name, old in self._before.variables.items():
            new = found.variables.get(name)
            if name in declared and (new is None or new.dtype == "_"):
                found.variables[name] = old
        for key, calls in self._before.locals.items():
            found.locals.setdefault(key, calls)

    def _all_mistakes(self, result: ParseResult, package: Package | None) -> list[Diagnostic]:
        return all_mistakes(result, package, self.setup.sizes).diagnostics

    def _mistakes_of(self, module: ModuleOp, package: Package | None) -> list[Diagnostic]:
        """What the model and the sizes say of a text that is right by itself."""
        try:
            typed = with_types(module, package, self.setup.sizes)
            view = ProgramView.of(typed, package, self.setup.sizes)
            found = check_program(typed, view)
            if not found and package is not None:
                names = [op.variable.data for op in unfilled_constants(view)]
                found = unfilled_warnings(self.source.file, names, package, used_tensors(view))
                found = [self._at_declaration(d, name) for d, name in zip(found, names)]
            return found
        except ProgramError as error:
            return error.diagnostics
        except OpenInferError as error:
            # A size of the setup that contradicts the package, or that the program does not name.
            return [Diagnostic(error.code, error.message, hint=error.hint)]

    def _at_declaration(self, found: Diagnostic, name: str) -> Diagnostic:
        """A warning that names a constant, at its declaration."""
        made = next((d for d in self.words.definitions if d.symbol.name == name and d.memory), None)
        if made is None:
            return found
        length = self.source.length(made.name)
        return replace(found, location=self.source.location(made.name), length=length)

    def _types(self, module: ModuleOp, package: Package | None, findings: Findings) -> None:
        """Types and sizes, as far as they can be told."""
        sizes = self.setup.sizes
        module = module.clone()
        try:
            with_types(module, package, sizes, in_place=True)
        except OpenInferError:
            pass  # What can be inferred was written into the clone.
        try:
            facts = program_facts(module, package, sizes)
        except OpenInferError:
            try:
                facts = program_facts(module, None, {})
            except OpenInferError:
                return
        for row in [*facts["variables"], *facts["temporaries"]]:
            findings.variables[row["name"]] = _variable(row, with_model=package is not None)
        self._local_types(module, findings)
        for row in facts["sizes"]:
            origin = row["from"] if row["value"] is not None or "--size" not in row["from"] else ""
            findings.sizes[row["name"]] = (row["value"], origin)
        try:
            values = ProgramView.of(module, package, sizes).sizes
        except OpenInferError:
            return
        # Those that the program defines itself stand in no dimension.
        for name in self.words.sizes():
            if name in values:
                findings.sizes.setdefault(name, (values[name], ""))

    @staticmethod
    def _local_types(module: ModuleOp, findings: Findings) -> None:
        """The types of what blocks with parameters have for themselves, in each call."""
        made: set[str] = set()
        for op in module.walk():
            calls = calls_around(op.location)
            if not calls:
                continue
            if isinstance(op, VariableOp | AssignOp):
                variable = op.variable.data
                made.add(variable)
            elif isinstance(op, OpOp) and own_name(op.location):
                variable = op.outputs.data[0].variable.data  # the result of the call
            else:
                continue
            if variable in findings.variables:
                key = calls[-1].block, own_name(op.location)
                found = findings.locals.setdefault(key, {})
                found[str(calls[-1])] = findings.variables[variable]
        for name in made:
            findings.variables.pop(name, None)


def _variable(row: Mapping[str, Any], *, with_model: bool) -> Variable:
    nbytes, source = row["bytes"], row["source"]
    if not with_model:
        source = source.removesuffix(", of which the package has none")
    return Variable(
        row["name"],
        row["memory"],
        row["dtype"],
        tuple(row["dims"]),
        tuple(row["shape"]),
        tuple(row.get("indices", ())),
        source,
        nbytes if isinstance(nbytes, int) and nbytes else None,
    )
