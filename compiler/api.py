"""What `openinfer/__init__.py` offers, apart from the names: programs, compiling, loading.

A program text is read and hashed at once and parsed only when no cached artefact serves it, so a
second start neither imports xDSL nor compiles.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.arguments import (
    check_model,
    check_precision,
    checked_sizes,
    not_a_text,
    require_compiler,
)
from openinfer.compiler.collector import no_collection
from openinfer.compiler.levels import level_of
from openinfer.compiler.unfilled import warn_of_unfilled
from openinfer.compiler.unpacked import warn_of_unpacked
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.cache import About, cache_key, default_cache
from openinfer.runtime.devices import DEFAULT_DEVICE, checked_device, device_of, expect, kind_of
from openinfer.runtime.errors import (
    ArtefactError,
    Diagnostic,
    InputError,
    ProgramError,
)
from openinfer.runtime.files import read_text
from openinfer.runtime.locks import new_lock
from openinfer.runtime.options import checked_threads

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.compiler.frontend import ParseResult
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.outline import Outline
    from openinfer.runtime.packages.base import ModelLike, Package
    from openinfer.runtime.program import Program

PROGRAM_SUFFIXES = (".oi", ".json")


class Graph:
    """A program: its text, and its module once somebody needs it.

    `str(graph)` is the text as given; `check()` parses and reports; `module` is level 1 of the IR;
    `to_json()` is its graph JSON.
    """

    def __init__(
        self, text: str, file: str = "<graph>", *, strict: bool = False, form: str = "oi"
    ) -> None:
        """`form` is "oi" for the language, "json" for graph JSON.

        With `strict`, unknown hints and attributes are errors instead of warnings.
        """
        self.text = _checked_text(text)
        self.file = file
        self.strict = strict
        self.form = form
        self._lock = new_lock()
        self._refused: ParseResult | None = None

    @cached_property
    def text_hash(self) -> str:
        """SHA-256 of the text."""
        return cache_key(self.text)

    @property
    def module(self) -> ModuleOp:
        """The program in the `graph` dialect; a compilation clones it, so keep it as it is.

        Raises ProgramError with every mistake of the text.
        """
        return self._parsed_once[0]

    @cached_property
    def strictly(self) -> Graph:
        """The same program where unknown hints and attributes are errors."""
        if self.strict:
            return self
        return Graph(self.text, self.file, strict=True, form=self.form)

    @property
    def _parsed_once(self) -> tuple[ModuleOp, list[Diagnostic]]:
        """What two threads that ask at once get from one parse."""
        with self._lock:
            return self._parsed

    @property
    def parsed(self) -> bool:
        """Whether the text was parsed already."""
        return "_parsed" in self.__dict__

    @cached_property
    def outline(self) -> Outline:
        """The nodes in text order, with the loops and scopes around them; parses the text."""
        from openinfer.lowering.reference.outline import outline_of

        return outline_of(self.module)

    @property
    def warnings(self) -> list[Diagnostic]:
        """What is doubtful about the text, in its order; parses it."""
        return self._parsed_once[1]

    @cached_property
    def _parsed(self) -> tuple[ModuleOp, list[Diagnostic]]:
        require_compiler()
        if self.form == "json":
            from openinfer.compiler.graph_json.read import parse_json as parse
        else:
            from openinfer.compiler.frontend import parse_text as parse

        result = parse(self.text, self.file, self.strict)
        if result.module is None:
            self._refused = result
            raise ProgramError(result.diagnostics, result.render())
        return result.module, result.diagnostics

    def module_with(self, package: Package | None, sizes: Mapping[str, int]) -> ModuleOp:
        """The module. Raises ProgramError with every mistake of the text, and with what the model
        and the sizes say of the rest."""
        try:
            return self.module
        except ProgramError:
            from openinfer.compiler.model_mistakes import all_mistakes

            assert self._refused is not None
            error = all_mistakes(self._refused, package, sizes)
        raise error

    def check(self) -> list[Diagnostic]:
        """Parses now and gives the warnings. Raises ProgramError with every mistake of the text."""
        return self.warnings

    def to_json(self, *, locations: bool = False, indent: int | None = 2) -> str:
        """The program as graph JSON (`docs/graph-json.md`): the same source, the same bytes.

        `locations` adds where the text has each variable, block and node. Raises ProgramError.
        """
        from openinfer.compiler.graph_json.write import module_json

        return module_json(self.module, locations=locations, indent=indent)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<program {self.file!r}, {self.text.count(chr(10)) + 1} lines>"


def graph(text: str) -> Graph:
    """The program with this text; nothing is parsed yet (see `Graph.check`).

    Raises InputError for what is no text.
    """
    return Graph(text)


def _program(graph: Graph | str | os.PathLike[str], strict: bool) -> Graph:
    if isinstance(graph, os.PathLike):
        graph = graph_file(graph)
    program = graph if isinstance(graph, Graph) else Graph(graph)
    return program.strictly if strict else program


def _checked_text(text: object) -> str:
    if isinstance(text, str):
        if text.endswith(PROGRAM_SUFFIXES) and not set(text) & {"\n", "{"}:
            raise InputError(
                "OI0525",
                f"{text!r} is the path of a program, not its text",
                hint=f"graph_file({text!r}) reads it",
            )
        return text
    raise InputError(
        "OI0525",
        f"the program is a {type(text).__name__}, not a text",
        hint="give its text, or graph_file(path)",
    )


def graph_file(path: str | os.PathLike[str]) -> Graph:
    """The program in a `.oi` file, or in a `.json` file as graph JSON.

    Raises InputError when the file cannot be read as text.
    """
    return _read_graph(_path(path, "a program"))


def graph_json(source: str | os.PathLike[str]) -> Graph:
    """The program that a graph JSON describes: its text, or the path of a file that holds it.

    A text starts with `{`; everything else is a path. Raises InputError when a file cannot be read
    as text; what is wrong with the JSON is found when the program is first used.
    """
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("{"):
        return Graph(source, form="json")
    return _read_graph(_path(source, "a graph JSON"), "json")


def _read_graph(path: Path, form: str | None = None) -> Graph:
    """A program file; without a form its name says which one it has."""
    if path.suffix == ".mlir":
        raise InputError(
            "OI0513",
            f"{path} is IR of the compiler, not the text of a program",
            hint=f"`openinfer-opt {path}` reads it; here, give the .oi file",
        )
    try:
        form = form or ("json" if path.suffix == ".json" else "oi")
        return Graph(read_text(path, streams=True), os.fspath(path), form=form)
    except OSError as error:
        raise InputError(
            "OI0514",
            f"{path}: {error.strerror or error}",
            hint="give the path of a .oi program",
        ) from None
    except UnicodeDecodeError as error:
        raise not_a_text(path, error) from None


def _path(path: str | os.PathLike[str], what: str) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError(
            "OI0525",
            f"the path of {what} is a {type(path).__name__}, not a text",
            hint="give a str or a pathlib.Path",
        ) from None


class Simulator:
    """The reference semantics of a program: NumPy, node by node, the definition of right."""

    def __init__(
        self,
        graph: Graph | str | os.PathLike[str],
        model: ModelLike | None = None,
        sizes: Mapping[str, int] | None = None,
        strict: bool = False,
    ) -> None:
        """Parses the program and binds it to the model: an opened package, or arrays by name.

        With `strict`, unknown hints and attributes, and constants that nothing fills, are errors;
        the latter are a ModelWarning else, as are weights that are unpacked when they are loaded.
        Raises ProgramError, InputError for a size that contradicts the model or that the program does
        not name.
        """
        package, given = check_model(model), checked_sizes(sizes)
        program = _program(graph, strict)
        require_compiler()
        from openinfer.lowering.reference.simulator import Simulator as Interpreter

        module = program.module_with(package, given)
        self._interpreter = Interpreter(module, package, given, strict)
        found = self._interpreter.unfilled
        if found:
            warn_of_unfilled(program.file, found, package, self._interpreter.used, stacklevel=2)
        warn_of_unpacked(program.file, self._interpreter.links, package, stacklevel=2)

    def make_executor(
        self,
        threads: int | None = None,
        *,
        max_state_bytes: int | None = None,
        trace: bool | None = None,
    ) -> BaseExecutor:
        """A fresh executor with state of its own.

        `threads` is checked as that of `Program.make_executor` is; the simulator uses one.
        `max_state_bytes` limits what persistent variables take (default: half of the memory of the
        machine); its steps leave events, with `trace=False` none. Raises InputError for an
        impossible number of either.
        """
        checked_threads(threads)
        executor = self._interpreter.make_executor(max_state_bytes)
        executor.tracing = trace is not False
        return executor


def compile(
    graph: Graph | str | os.PathLike[str],
    model: ModelLike | None = None,
    device: str = DEFAULT_DEVICE,
    sizes: Mapping[str, int] | None = None,
    precision: str | None = None,
    strict: bool = False,
    strict_math: bool = False,
    target: str | None = None,
    *,
    observe: bool = False,
    optimise: bool = True,
    without: Collection[str] = (),
    tuning: str | os.PathLike[str] | None = None,
    fallback: bool = True,
) -> Program:
    """Compiles a program for a device, or takes it from the cache when nothing changed.

    `model` is an opened package, or arrays by name. `sizes` fix sizes that the model leaves open;
    `precision="bf16"` rounds the operands of products to bf16 and adds up in f32, everything else stays
    as declared; `strict` makes unknown hints errors, and constants that nothing fills, which a
    ModelWarning tells of otherwise; `strict_math` forbids reassociation, contraction and approximate
    functions (`docs/numerics.md`), and so `precision="bf16"`;
    `target` names a CPU other than this one ("generic", "avx2",
    "avx512"); `observe` builds the program whose every node can be watched; `optimise=False` leaves
    out fusion and all other passes that only make a program faster, to find out whether one of them
    changes a result; `without` leaves out some of them by name, to see what each buys; `tuning` is a
    file of measured schedules that `openinfer tune` wrote for the device, or "cache" for those in the
    cache folder;
    `fallback=False` makes it an error where the host would run an op that the device does not support.

    Raises ProgramError for a bad program, PackageError for a model that lacks something,
    InputError for a bad option, UnsupportedError for a form or device that this build lacks, OI0738
    for the ops that `fallback=False` forbids.
    """
    expect(device)
    program = _program(graph, strict)
    model = check_model(model)
    options = _options(
        model, device, sizes, precision, strict, strict_math, target or "host", observe, optimise
    )
    if without:
        from openinfer.compiler.pipeline import removable

        options = replace(options, without=removable(without))
    if not fallback:
        options = replace(options, fallback=False)
    if tuning is not None:
        options = _tuned(tuning, options)
    if strict:
        program.module_with(model, options.sizes)
    compiled = _compiled(program, model, options)
    rows = compiled.manifest.variables
    unfilled = [row.name for row in rows if row.unfilled]
    if unfilled:
        used = {source for row in rows for source in row.sources}
        warn_of_unfilled(program.file, unfilled, model, used, stacklevel=3)
    kept = {row.variable for row in compiled.manifest.weights if row.block is not None}
    kept -= {row.variable for row in compiled.manifest.weights if row.block is None}
    narrow = {row.variable: row.dtype for row in compiled.manifest.weights if row.dtype}
    links = (
        (s, narrow.get(row.name, row.dtype))
        for row in rows
        if row.name not in kept
        for s in row.sources
    )
    warn_of_unpacked(program.file, links, model, stacklevel=3)
    if not observe:
        watched = replace(options, observe=True)
        compiled.make_observed = lambda: _compiled(program, model, watched)
        traced = replace(options, trace=True)
        compiled.make_traced = lambda: _compiled(program, model, traced)
        compiled.make_outline = lambda: program.outline
    compiled.make_level = lambda level: level_of(program, options, level)
    return compiled


def _tuned(source: str | os.PathLike[str], options: PipelineOptions) -> PipelineOptions:
    """With the measured schedules of a file: those of the device where it has some, else those for the target
    of the options, where "host" is this machine's."""
    from openinfer.runtime.tuning import CACHED, tuning_for
    from openinfer.runtime.tuning_device import tiles_of

    device = device_of(options.device)
    identity = device.identity()
    if identity is not None and os.fspath(source) != CACHED:
        # What the cache folder has of a device holds without being asked for.
        return replace(options, device_tiles=tiles_of(identity[0], source))
    target_name = options.target_name
    if target_name == "host":
        target_name = device.host_target().name
    return replace(options, tuning=tuning_for(source, target_name))


def _compiled(program: Graph, model: Package | None, options: PipelineOptions) -> Program:
    """The program from the cache, else compiled and stored."""
    from openinfer.runtime.program import Program, SourceText

    cache = default_cache()
    key = program_key(program, options)
    data = cache.get(key)
    if data is not None:
        try:
            compiled = Program.from_bytes(data, model)
            compiled.device = options.device
            compiled.rename(program.file)
            if model is not None:
                compiled.bind(model)
            return compiled
        except ArtefactError:
            # Written by a build that used the same key for another layout: compile again.
            cache.discard(key)

    require_compiler()
    with no_collection():
        from openinfer.compiler.compile import compile_module

        program.module_with(model, options.sizes)
        compiled = compile_module(program, model, options)
    compiled.device = options.device
    compiled.source = SourceText(program.file, program.text, program.form)
    build = "observed" if options.observe else "traced" if options.trace else "plain"
    target = compiled.manifest.target.partition(";")[0]
    about = About(program.file, options.device, target, build)
    cache.put(key, compiled.to_bytes(), about)
    return compiled


def program_key(program: Graph, options: PipelineOptions) -> str:
    """The cache key: text, model header, options, versions, and the CPU where it matters.

    Where the text lies is no part of it: a program from the cache takes the name of the present file.
    """
    from openinfer.runtime.host import target_identity
    from openinfer.runtime.version import openinfer_version, package_version, source_fingerprint

    package = options.package
    return cache_key(
        "program",
        program.text_hash,
        program.form,
        package.header_hash() if package is not None else "no package",
        *(f"{name}={options.sizes[name]}" for name in sorted(options.sizes)),
        f"device {kind_of(options.device)} fallback {options.fallback}",
        f"of the device: {options.device_description().key}",
        f"target {target_identity(options.target_name)}",
        f"precision {options.precision}",
        f"strict {options.strict} math {options.strict_math} observe {options.observe}",
        f"tuning {options.tuning.identity if options.tuning is not None else 'none'}",
        f"trace {options.trace} optimise {options.optimise} without {sorted(options.without)}",
        f"openinfer {openinfer_version()} {source_fingerprint()}",
        *(f"{name} {package_version(name)}" for name in ("xdsl", "llvmlite")),
    )


def _options(
    model: Package | None,
    device: str,
    sizes: Mapping[str, int] | None,
    precision: str | None,
    strict: bool,
    strict_math: bool,
    target: str,
    observe: bool,
    optimise: bool,
) -> PipelineOptions:
    from openinfer.runtime.target import named_target

    checked_device(device)
    if target != "host":
        named_target(target)
    check_precision(precision, strict_math=strict_math)
    return PipelineOptions(
        package=model,
        sizes=checked_sizes(sizes),
        device=device,
        target_name=target,
        observe=observe,
        optimise=optimise,
        strict=strict,
        strict_math=strict_math,
        precision=precision,
    )
