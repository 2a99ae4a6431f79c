"""From a program to a compiled one: runs the pipeline, emits machine code, writes the manifest."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Protocol

from openinfer.compiler import pipeline, registry
from openinfer.compiler.arguments import check_precision
from openinfer.compiler.timings import current_timings
from openinfer.lowering.facts import Facts
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.locks import after_fork, new_lock
from openinfer.runtime.program import Program

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.runtime.manifest import Manifest
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.target import TargetDescription


_lowering = new_lock()
"""Lowering is for one thread at a time: Python gives it one processor anyway."""


class HasModule(Protocol):
    """A program text with its `graph` module."""

    file: str

    @property
    def module(self) -> ModuleOp: ...


def compile_module(graph: HasModule, package: Package | None, options: PipelineOptions) -> Program:
    """Compiles a program for the CPU. Raises ProgramError, PackageError, UnsupportedError."""
    check_precision(options.precision)
    with _no_collection():
        # The module is gone when this returns.
        with _lowering:
            text, manifest, target = _lowered(graph, package, options)
        code = _machine_code(text, target)
    program = Program(manifest, code, package)
    program.compiled = True
    return program


def _lowered(
    graph: HasModule, package: Package | None, options: PipelineOptions
) -> tuple[str, Manifest, TargetDescription]:
    """The LLVM IR of a program and what its runtime has to know."""
    from openinfer.compiler.manifest_of import manifest_of
    from openinfer.lowering.cpu.emit_llvm import emit_llvm

    timings = current_timings()
    with timings.measured("", "(frontend)"):
        module = graph.module.clone()
        context = registry.make_context()
    name = "cpu" if options.optimise else "cpu-plain"
    pipeline.run(module, context, name, options=options, timings=timings, emitted=True)
    target = Facts.of(module).target
    with timings.measured("object", "(write LLVM IR)"):
        text = emit_llvm(module, target)
    with timings.measured("object", "(manifest)"):
        manifest = manifest_of(module, graph.file, package)
    return text, manifest, target


def _machine_code(text: str, target: TargetDescription) -> bytes:
    """The object that LLVM makes of a text. Meanwhile the IR is given back: only the collector can,
    and everything that was made since it was turned off is young."""
    from openinfer.runtime.devices.cpu_codegen import compile_llvm_text
    from openinfer.runtime.devices.object_symbols import check_symbols

    measured = current_timings().measured
    code = compile_llvm_text(text, target, measured=measured, meanwhile=lambda: gc.collect(0))
    # Here, and not first on the machine that lacks one of them.
    check_symbols(code)
    return code


@contextmanager
def _no_collection() -> Generator[None]:
    """Without the cyclic collector: IR is all cycles and all alive, and scanning it is a fifth of
    the time of a compilation."""
    _Collector.stop()
    try:
        yield
    finally:
        _Collector.go_on()


class _Collector:
    """Stays off while any thread compiles, and is then as it was before the first of them."""

    lock = new_lock()
    threads: ClassVar[list[int]] = []
    enabled = True

    @classmethod
    def stop(cls) -> None:
        with cls.lock:
            if not cls.threads:
                cls.enabled = gc.isenabled()
                gc.disable()
            cls.threads.append(get_ident())

    @classmethod
    def go_on(cls) -> None:
        with cls.lock:
            cls.threads.remove(get_ident())
            if not cls.threads and cls.enabled:
                gc.enable()

    @classmethod
    def forked(cls) -> None:
        """The threads that compiled are not here any more."""
        left = [thread for thread in cls.threads if thread == get_ident()]
        if cls.threads and not left and cls.enabled:
            gc.enable()
        cls.threads[:] = left


after_fork(_Collector.forked)
