"""Levels of a program as texts: lowered to one, and a program from one that was written down.

The text of a level begins with a comment that says which it is; the dumps of `openinfer-opt` begin so, too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.compiler.arguments import check_model, require_compiler
from openinfer.runtime.errors import ArtefactError, InputError
from openinfer.runtime.files import read_text
from openinfer.runtime.level import Level

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.compiler.compile import HasModule
    from openinfer.lowering.options import PipelineOptions
    from openinfer.runtime.manifest import Manifest
    from openinfer.runtime.packages.base import ModelLike, Package
    from openinfer.runtime.program import Program

SUFFIX = ".mlir"
_HEADER = re.compile(r"// pipeline (\S+), after phase (\w+)")


def header(pipeline: str, phase: str) -> str:
    """The beginning of the first line of a level's text."""
    return f"// pipeline {pipeline}, after phase {phase}"


def phase_of(text: str) -> str | None:
    """The phase that a text holds, by its first line; None for any other text."""
    found = _HEADER.match(text.lstrip("\n"))
    return found.group(2) if found else None


def level_of(graph: HasModule, options: PipelineOptions, name: str) -> Level:
    """A program lowered to a level. Raises InputError OI0511 for one that its pipeline does not have."""
    from openinfer.compiler import pipeline
    from openinfer.compiler.backends import backend_of
    from openinfer.compiler.compile import lowered_to
    from openinfer.compiler.text import module_text

    chosen = backend_of(options.device).pipeline_for(options)
    pipeline.phases(chosen, None, name)
    module, context = lowered_to(graph, options, chosen, name)
    text = f"{header(chosen, name)}\n{module_text(module, context)}"
    return Level(name, text)


def load_level(path: object, model: ModelLike | None = None) -> Program:
    """See `openinfer.load_level`."""
    from openinfer.compiler import pipeline, registry
    from openinfer.compiler.compile import compile_lowered
    from openinfer.compiler.ir_text import parse_ir
    from openinfer.compiler.start_level import check_start
    from openinfer.lowering.facts import is_bound
    from openinfer.lowering.options import PipelineOptions

    package = check_model(model)
    file, text = _read(path)
    require_compiler()
    context = registry.make_context()
    source = parse_ir(text, file, context)
    source.verify()
    module = source.module
    if not any(op.name in ("func.func", "llvm.func", "graph.block") for op in module.body.ops):
        raise InputError(
            "OI0515",
            f"{file} holds no program: neither blocks nor a function @step",
            hint="give a file that `openinfer-opt --dump-dir` or program.show wrote, not that of a kernel",
        )
    found = _HEADER.match(text.lstrip("\n"))
    chosen = found.group(1) if found else "cpu"
    start = found.group(2) if found else _level_of(module)
    # Raises for a pipeline or phase that this build does not have.
    pipeline.phases(chosen, start)
    options = PipelineOptions(device=chosen.removesuffix("-plain"))
    if start == "graph" and not is_bound(module):
        # As the frontend built it: it is bound to the model first.
        start, options = None, replace(options, package=package)
    check_start(module, pipeline.PIPELINES[chosen], start, phase_of(text))
    program = compile_lowered(module, context, options, chosen, start, file)
    if package is not None:
        program.manifest = _with_package(program.manifest, package)
    _check_weights(program.manifest, package)
    program.package = package
    return program


def _read(path: object) -> tuple[str, str]:
    """Name and text of a level: of a file, or of a `Level`."""
    if isinstance(path, Level):
        return f"<level {path.name}>", path.text
    try:
        place = Path(path)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise InputError(
            "OI0525",
            f"a level is a {type(path).__name__}, not the path of a file",
            hint="give a str, a pathlib.Path, or what program.show gave",
        ) from None
    try:
        return str(place), read_text(place)
    except OSError as error:
        message = f"{place}: {error.strerror or error}"
        raise InputError("OI0514", message, hint="give the path of a level's text") from None
    except UnicodeDecodeError as error:
        from openinfer.compiler.arguments import not_a_text

        raise not_a_text(place, error) from None


def _level_of(module: ModuleOp) -> str:
    """The highest level that a module may be of, where its text does not say it."""
    from openinfer.compiler import pipeline
    from openinfer.compiler.start_level import levels_of

    found = levels_of(module, pipeline.PIPELINES["cpu"])
    return found[0] if found else "graph"


def _with_package(manifest: Manifest, package: Package) -> Manifest:
    return replace(manifest, package=package.header_hash(), package_path=package.origin)


def _check_weights(manifest: Manifest, package: Package | None) -> None:
    """Raises ArtefactError OI0804 without a package that the program reads, OI0805 for one whose tensors
    are not those of the level."""
    from openinfer.runtime.dtypes import DTYPES, PACKAGE_DTYPES
    from openinfer.runtime.storage import holds_all_of

    variables = {row.name: row for row in manifest.variables}
    for row in manifest.variables:
        for source in row.sources:
            if package is None:
                raise ArtefactError(
                    "OI0804",
                    f"the level names tensors of a model ({source}), but no model was given",
                    hint="give it: `--model FILE`, or load_level(path, model)",
                )
            info = package.info(source)
            wanted = f"{row.dtype}[{', '.join(row.dims)}]"
            fits = len(info.shape) == len(row.dims) and all(
                not dim.isdecimal() or int(dim) == extent
                for dim, extent in zip(row.dims, info.shape)
            )
            if not fits or not info.has_data or not holds_all_of(DTYPES[row.dtype], info.dtype):
                raise ArtefactError(
                    "OI0805",
                    f"the level takes {source!r} as {wanted}, the model has {info.dtype_name}"
                    f"{list(info.shape)}{'' if info.has_data else ' without data'}",
                    hint="give the model that the level was bound to",
                )
    for weight in manifest.weights:
        for source in filter(None, weight.sources if weight.block is not None else ()):
            assert package is not None
            if package.info(source).dtype_name != weight.block:
                raise ArtefactError(
                    "OI0805",
                    f"the level takes {source!r} in blocks of {weight.block}, the model has "
                    f"{package.info(source).dtype_name}",
                    hint="give the model that the level was bound to",
                )
        if weight.prepare is None:
            dtype = PACKAGE_DTYPES[weight.read_as(variables[weight.variable].dtype)]
            assert package is not None
            sources = filter(None, weight.sources)
            stored = sum(dtype.nbytes(package.info(name).size) for name in sources)
            if stored != weight.held:
                raise ArtefactError(
                    "OI0805",
                    f"the level takes {weight.held} bytes for {weight.variable}, the model has "
                    f"{stored}",
                    hint="give the model that the level was bound to",
                )
