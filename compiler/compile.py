"""From a program to a compiled one: runs the pipeline, emits machine code, writes the manifest."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from openinfer.compiler import pipeline, registry
from openinfer.compiler.arguments import check_precision
from openinfer.compiler.backends import Finish, HelperError, backend_of
from openinfer.compiler.collector import no_collection, settle
from openinfer.compiler.timings import current_timings
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.locks import new_lock
from openinfer.runtime.program import Program

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.compiler.pipeline import Division
    from openinfer.runtime.manifest import Manifest
    from openinfer.runtime.packages.base import Package


_lowering = new_lock()
"""Lowering is for one thread at a time: Python gives it one processor anyway."""


class HasModule(Protocol):
    """A program text with its `graph` module."""

    file: str

    @property
    def module(self) -> ModuleOp: ...


def compile_module(graph: HasModule, package: Package | None, options: PipelineOptions) -> Program:
    """Compiles a program for the device of the options.

    Raises ProgramError, PackageError, UnsupportedError.
    """
    check_precision(options.precision)
    with no_collection():
        settle()
        try:
            parts, manifest = _compiled(graph, package, options)
        except HelperError:
            parts, manifest = _compiled(graph, package, options, alone=True)
    program = Program(manifest, parts, package)
    program.compiled = True
    return program


def _compiled(
    graph: HasModule, package: Package | None, options: PipelineOptions, *, alone: bool = False
) -> tuple[Mapping[str, bytes], Manifest]:
    """The parts of a program, and what its runtime has to know. `alone`: in one process.

    Raises HelperError where another process was lost.
    """
    # The module is gone when this returns.
    with _lowering:
        finish, manifest = _lowered(graph, package, options, alone=alone)
    # Meanwhile the IR is given back: only the collector can, and everything that was made since it
    # was turned off is young.
    return finish(current_timings().measured, lambda: gc.collect(0)), manifest


def lowered_to(
    graph: HasModule, options: PipelineOptions, name: str, level: str
) -> tuple[ModuleOp, Context]:
    """The module of a program at a level of a pipeline, and the context that prints it.

    Raises ProgramError, PackageError, UnsupportedError.
    """
    with no_collection(), _lowering:
        module = graph.module.clone()
        context = registry.make_context()
        pipeline.run(module, context, name, stop=level, options=options)
    return module, context


def compile_lowered(
    module: ModuleOp,
    context: Context,
    options: PipelineOptions,
    name: str,
    start: str | None,
    file: str,
) -> Program:
    """Compiles a module that is at level `start` of a pipeline (None: as the frontend built it); `file` is
    what it was read from.

    Raises InputError for options that contradict it, and what the passes raise.
    """
    with no_collection():
        with _lowering:
            finish, manifest = _emitted(module, context, options, name, start, file, None)
        parts = finish(current_timings().measured, lambda: gc.collect(0))
    program = Program(manifest, parts)
    program.compiled = True
    return program


def _lowered(
    graph: HasModule, package: Package | None, options: PipelineOptions, *, alone: bool
) -> tuple[Finish, Manifest]:
    """What makes the parts of a program, and what its runtime has to know."""
    timings, backend = current_timings(), backend_of(options.device)
    with timings.measured("", "(frontend)"):
        module = graph.module.clone()
        context = registry.make_context()
    name = backend.pipeline_for(options)
    division = None if alone else backend.division
    return _emitted(module, context, options, name, None, graph.file, package, division)


def _emitted(
    module: ModuleOp,
    context: Context,
    options: PipelineOptions,
    name: str,
    start: str | None,
    file: str,
    package: Package | None,
    division: Division | None = None,
) -> tuple[Finish, Manifest]:
    """The same of a module from level `start` on (None: as the frontend built it)."""
    from openinfer.compiler.manifest_of import manifest_of

    timings, backend = current_timings(), backend_of(options.device)
    with backend.early():
        pipeline.run(
            module,
            context,
            name,
            start,
            options=options,
            timings=timings,
            emitted=True,
            division=division,
        )
        with timings.measured("object", "(manifest)"):
            manifest = manifest_of(module, backend.name, file, package)
        # LLVM has begun with kernels; what `emit` gives waits for all of them.
        return backend.emit(module, timings.measured), manifest
