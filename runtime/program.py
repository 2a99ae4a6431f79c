"""The compiled program: what the compiler writes and the runtime loads. Needs no compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.runtime.devices import device_of, kind_of
from openinfer.runtime.errors import ArtefactError, UnsupportedError, reason_of
from openinfer.runtime.locks import new_lock
from openinfer.runtime.manifest import IN_MEMORY, Manifest
from openinfer.runtime.options import checked_threads, default_threads
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.signature import (
    SizeRow,
    ValueRow,
    inputs_of,
    outputs_of,
    sizes_of,
    state_of,
)
from openinfer.runtime.sizes import THREADS, Size
from openinfer.runtime.tables import Rows, html_table
from openinfer.runtime.trace import TraceLog

if TYPE_CHECKING:
    from openinfer.runtime.devices.base import LoadedProgram
    from openinfer.runtime.devices.compiled.executor import CompiledExecutor
    from openinfer.runtime.level import Level
    from openinfer.runtime.outline import Outline
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.plan import Plan


@dataclass(frozen=True)
class SourceText:
    """The text that a program was compiled from."""

    file: str
    """As messages name it."""
    text: str
    form: str = "oi"
    """"oi" for the language, "json" for graph JSON."""

    def line(self, number: int) -> str | None:
        """The line with this number, from 1; None when there is none."""
        lines = self.text.split("\n")
        return lines[number - 1] if 1 <= number <= len(lines) else None


HOST = "host"
"""The part of a program that the processor runs: an object of machine code. Every program has it."""
OBJECT = ".o"
"""How the names of further objects end: large kernels, which the host calls."""


class Program:
    """What a device runs and its manifest, bound to the package that holds its weights.

    The parts are loaded and the weights are laid out when the first executor is made; executors share
    both and nothing else.
    """

    def __init__(
        self, manifest: Manifest, parts: Mapping[str, bytes], package: Package | None = None
    ) -> None:
        self.manifest = manifest
        self.device = manifest.device
        """What runs it: plainly the device of the manifest, or a chosen one of its kind (`vulkan:1`)."""
        self.parts = dict(parts)
        """By name: `HOST`, further objects, and what else the device of the manifest takes."""
        self.package = package
        self.compiled = False
        """Whether this process compiled it, as opposed to loading it."""
        self.make_observed: Callable[[], Program] | None = None
        """Compiles the watched build of the same program; set by `openinfer.compile`."""
        self.make_outline: Callable[[], Outline] | None = None
        """Reads the program text anew for its outline; set by `openinfer.compile`."""
        self.source: SourceText | None = None
        """What it was compiled from."""
        self.alternatives: tuple[Program, ...] = ()
        """The same program for other processors, saved in the same file."""
        self.make_traced: Callable[[], Program] | None = None
        """Compiles the traced build of the same program; set by `openinfer.compile`."""
        self.make_level: Callable[[str], Level] | None = None
        """Lowers the text anew to a level; set by `openinfer.compile`."""
        self._lock = new_lock()
        """For what is made once, when somebody first needs it."""
        self._loaded: LoadedProgram | None = None
        self._observed: Program | None = None
        self._traced: Program | None = None

    def make_executor(
        self,
        threads: int | None = None,
        *,
        max_state_bytes: int | None = None,
        trace: bool | None = None,
    ) -> CompiledExecutor:
        """A fresh executor with state of its own.

        `threads`: how many CPUs a step may use (default: those that this process may use). With
        `trace` it runs the traced build of the program, whose steps leave events (default: when
        OPENINFER_TRACE asks for log lines). Raises InputError for what is no number from 1 to 1024,
        PackageError when a weight cannot be read, ArtefactError when the code is for another
        processor, UnsupportedError for a trace of a saved program, or a device that this build lacks.
        """
        count = checked_threads(threads) or default_threads()
        program = self._for_trace() if trace is None else self.traced() if trace else self
        return device_of(self.device).make_executor(self, program, count, max_state_bytes)

    def traced(self) -> Program:
        """The build of the same program whose steps write down what they do, with the clock.

        Raises UnsupportedError OI0731 for a program that was saved without it.
        """
        if self.manifest.traced:
            return self
        with self._lock:
            if self._traced is None:
                if self.make_traced is None:
                    raise UnsupportedError(
                        "OI0731",
                        "this program was saved without the build that leaves a trace",
                        hint="save it with traced=True (`openinfer compile --traced`), or compile it "
                        "from its text",
                    )
                self._traced = self.make_traced()
            return self._traced

    def _for_trace(self) -> Program:
        """The build that the environment asks for; log lines are no reason to refuse a program."""
        log = TraceLog()
        if not log.enabled:
            return self
        try:
            return self.traced()
        except UnsupportedError as error:
            log.error(error.message)
            return self

    def loaded(self) -> LoadedProgram:
        """What its device made of the parts and the weights, on first use: for the device's executors."""
        with self._lock:
            if self._loaded is None:
                self.check_package()
                try:
                    self._loaded = device_of(self.device).load(self)
                except MemoryError as error:
                    needed = sum(row.held for row in self.manifest.weights)
                    raise ArtefactError(
                        "OI0813",
                        f"not enough memory for the code and weights of the program, {needed} bytes"
                        + reason_of(error),
                        hint="free some memory, or use a smaller model",
                    ) from error
            return self._loaded

    def part(self, name: str) -> bytes:
        """A part that its device needs. Raises ArtefactError OI0802 where it is missing."""
        data = self.parts.get(name)
        if data is None:
            from openinfer.runtime.program_file import damaged

            raise damaged(f"a build for {self.manifest.device} has no part {name!r}")
        return data

    @property
    def objects(self) -> list[bytes]:
        """The machine code for the processor, to be linked together; `HOST` is the first.

        Raises ArtefactError OI0802 where that is missing.
        """
        further = [data for name, data in self.parts.items() if name.endswith(OBJECT)]
        return [self.part(HOST), *further]

    @property
    def code_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(map(len, self.parts.values()))

    def for_device(self, name: str) -> Program:
        """This program, or that of its alternatives which is for a device; a copy with parts in common where
        another one of the same kind is named.

        Raises ArtefactError OI0807 where there is none.
        """
        for build in (self, *self.alternatives):
            if build.device == name:
                return build
        for build in (self, *self.alternatives):
            if build.manifest.device == kind_of(name):
                return build._on(name)
        known = dict.fromkeys(build.manifest.device for build in (self, *self.alternatives))
        raise ArtefactError(
            "OI0807",
            f"the compiled program has no build for the device '{name}', only for {', '.join(known)}",
            hint=f"compile its text again: `openinfer compile --device {name}`",
        )

    def _on(self, device: str) -> Program:
        """The same program on another device of its kind, with nothing loaded."""
        one = copy(self)
        one.device, one._lock, one._loaded = device, new_lock(), None
        one._observed = self._observed and self._observed._on(device)
        one._traced = self._traced and self._traced._on(device)
        if self.make_observed is not None:
            one.make_observed = lambda: self.observed()._on(device)
        if self.make_traced is not None:
            one.make_traced = lambda: self.traced()._on(device)
        return one

    def observed(self) -> Program:
        """The build of the same program whose every node can be watched."""
        with self._lock:
            if self._observed is None:
                if self.make_observed is None:
                    raise UnsupportedError(
                        "OI0731",
                        "this program was saved without the build that is iterated node by node",
                        hint="save it with observed=True (`openinfer compile --observed`), or "
                        "compile it from its text",
                    )
                self._observed = self.make_observed()
            return self._observed

    def outline(self) -> Outline | None:
        """The nodes of the program in text order; None for a program without its text."""
        return self.make_outline() if self.make_outline is not None else None

    @property
    def further_builds(self) -> dict[str, Program]:
        """Those of the builds "observed" and "traced" that are there already."""
        builds = {"observed": self._observed, "traced": self._traced}
        return {kind: build for kind, build in builds.items() if build is not None}

    def add_build(self, kind: str, build: Program) -> None:
        """Gives the program its build "observed" or "traced", so that it need not compile it."""
        if kind == "observed":
            self._observed = build
        else:
            self._traced = build

    def bind(self, package: Package) -> None:
        """Gives the program and its further builds the package of its weights."""
        self.package = package
        if self.manifest.package is not None:
            # Compiled with it, or with one like it in another place.
            self.manifest = replace(self.manifest, package_path=package.origin)
        for build in self.further_builds.values():
            build.bind(package)

    def rename(self, file: str) -> None:
        """Makes messages and traces name this file: the same text may lie in another place."""
        self.manifest = self.manifest.named(file)
        if self.source is not None:
            self.source = replace(self.source, file=file)

    @property
    def needs_package(self) -> bool:
        """Whether the program reads tensors of a package."""
        return self.manifest.package is not None and any(
            row.sources for row in self.manifest.variables
        )

    def check_package(self, *, required: bool = False) -> None:
        """Raises ArtefactError when the package is missing, or not the one of the program.

        A program that reads no tensor needs none, unless it is `required`.
        """
        wanted = self.manifest.package
        if wanted is None or not (required or self.needs_package):
            return
        if self.package is None:
            path = self.manifest.package_path
            hint = f"give it: `--model {path}`, or open_model({path!r}) from Python"
            if path == IN_MEMORY:
                hint = "its weights were arrays in memory: give them to load, as model={NAME: array}, or "
                hint += "save it with embed_weights=True"
            raise ArtefactError(
                "OI0804",
                "the program needs the model package that it was compiled with",
                hint=hint,
            )
        if self.package.header_hash() != wanted:
            raise ArtefactError(
                "OI0805",
                f"{self.package.path} has other tensors than the package of this program",
                hint="compile the program again with this package",
            )

    @property
    def inputs(self) -> Rows[ValueRow]:
        """What `run` takes: rows with `name`, `dtype`, `dims` and `type`, as `f32[B, 64]`."""
        return inputs_of(self.manifest)

    @property
    def outputs(self) -> Rows[ValueRow]:
        """What `run` gives, in its order."""
        return outputs_of(self.manifest)

    @property
    def state(self) -> Rows[ValueRow]:
        """The persistent variables; caches have the indices of their entries."""
        return state_of(self.manifest)

    @property
    def sizes(self) -> Rows[SizeRow]:
        """The named sizes: with a value where it is fixed, None where inputs fix it."""
        return sizes_of(self.manifest)

    def summary(self) -> str:
        """What the program takes, gives and keeps, and what it costs, as text."""
        lines = [repr(self)[1:-1]]
        for heading, rows in self._sections().items():
            if rows:
                lines += [f"{heading}:", *("  " + line for line in repr(rows).split("\n"))]
        return "\n".join([*lines, self._costs()])

    def _sections(self) -> dict[str, Rows[ValueRow] | Rows[SizeRow]]:
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "state": self.state,
            "sizes": self.sizes,
        }

    def _costs(self) -> str:
        from openinfer.runtime.plan import nominal_sizes

        manifest = self.manifest
        weights = sum(row.held for row in manifest.weights)
        sizes = nominal_sizes(manifest)
        shown = ", ".join(f"{name} = {sizes[name]}" for name in manifest.runtime_sizes)
        return (
            f"{len(manifest.nodes)} nodes, {self.code_bytes} bytes of code, {weights} of weights, "
            f"{self.arena_bytes(sizes)} of working memory{f' for {shown}' if shown else ''}"
        )

    def _repr_html_(self) -> str:
        from html import escape

        parts = [f"<p><b>{escape(repr(self)[1:-1])}</b></p>"]
        for heading, rows in self._sections().items():
            if rows:
                parts.append(html_table(rows.headings, [r.cells() for r in rows], heading))
        return "".join([*parts, f"<p>{escape(self._costs())}</p>"])

    def show(self, level: str = "nn") -> Level:
        """The program at a level of its compilation, lowered to it anew: `print(program.show("linalg"))`.

        Levels are the phases of its device's pipeline (`docs/compiler.md`): graph, nn, linalg, buffers, …
        Raises InputError OI0511 for another name, UnsupportedError OI0731 for a loaded program.
        """
        if self.make_level is None:
            raise UnsupportedError(
                "OI0731",
                "this program was loaded from a file, which holds none of its levels",
                hint="compile it from its text, or `openinfer-opt FILE.oi --to LEVEL`",
            )
        return self.make_level(level)

    def plan(self, sizes: Mapping[str, int] | None = None) -> Plan:
        """The memory plan with its lower bound; printed it is a table.

        `sizes` gives run-time sizes; those that are missing count 128.
        """
        from openinfer.runtime.plan import Plan

        return Plan(self.manifest, dict(sizes or {}))

    def plan_text(self, sizes: Mapping[str, int] | None = None) -> str:
        """The text of `plan`."""
        return str(self.plan(sizes))

    def arena_bytes(self, sizes: Mapping[str, int]) -> int:
        """Bytes of working memory of a step with these run-time sizes.

        A size that only the step knows counts with its bound: `bound.NAME` in `sizes`, else 0.
        """
        bounds = {f"bound.{size}": 0 for size in self.manifest.dynamic_sizes}
        return Size.of(self.manifest.arena).evaluate({THREADS: 1, **bounds, **sizes})

    def to_bytes(self) -> bytes:
        """The saved form: manifest, parts, text, each with a checksum; no weights."""
        from openinfer.runtime.program_io import program_chunks

        return b"".join(program_chunks(self))

    @staticmethod
    def from_bytes(data: bytes, package: Package | None = None) -> Program:
        """The program in a saved form. Raises ArtefactError when it is none, or is damaged."""
        from openinfer.runtime.program_io import program_of_bytes

        return program_of_bytes(data, package)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        observed: bool = False,
        traced: bool = False,
        embed_weights: bool = False,
    ) -> None:
        """Writes the program to a file, whole or not at all; `openinfer.load` reads it.

        With `observed`, the build that `iterate` needs goes along, with `traced` the one that leaves
        a trace; with `embed_weights`, the sizes, metadata and tensors that the program uses, so that
        its package is not needed any more.

        Raises ArtefactError when the file cannot be written or the package to embed is missing,
        UnsupportedError when there is no such build and nothing to compile it from.
        """
        from openinfer.runtime.program_io import save_program

        wanted = {"observed": observed, "traced": traced}
        kinds = [kind for kind, want in wanted.items() if want]
        save_program(self, path, kinds, embed_weights=embed_weights)

    def __repr__(self) -> str:
        manifest = self.manifest
        precision = f", precision {manifest.precision}" if manifest.precision != "f32" else ""
        strict = ", strict math" if manifest.strict_math else ""
        target = manifest.target.partition(";")[0]
        return f"<program {manifest.name!r} for {target}{precision}{strict}>"
