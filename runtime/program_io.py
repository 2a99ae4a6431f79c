"""Compiled programs to files and back: what of a program stands in which section.

A file holds one or more builds: the program for each processor that it was compiled for, each with
or without its watched and traced builds. `info` lists them with the names of their parts; build
number n has the section `manifest` n, and its parts are the next of the sections `part`. The
program's text goes along, and the outline where there are further builds, so that messages and
breakpoints can show lines; the package goes along only if that was asked for. A compiled program is
native code that runs with the rights of the process: checksums find damage, not malice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from openinfer.runtime.devices import DEVICES, device_of
from openinfer.runtime.errors import ArtefactError, InputError, OpenInferError
from openinfer.runtime.files import write_file
from openinfer.runtime.manifest import IN_MEMORY, Manifest
from openinfer.runtime.outline import Outline
from openinfer.runtime.packages.base import ModelLike, Package, checked_package
from openinfer.runtime.packages.mapped import MappedFile
from openinfer.runtime.program import Program, SourceText
from openinfer.runtime.program_file import (
    INFO,
    MANIFEST,
    OUTLINE,
    PACKAGE,
    PART,
    SOURCE,
    Container,
    Key,
    Memory,
    Payload,
    Piece,
    container_chunks,
    damaged,
    other_version,
)
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.rows import plain_data, row_of

T = TypeVar("T")


@dataclass(frozen=True)
class BuildRow:
    """One build; its number is its place in the list."""

    kind: str
    """"plain", or else "observed" or "traced": a build of the plain one before it."""
    parts: list[str]
    """Their names: `host`, and what else the device takes."""


@dataclass(frozen=True)
class SourceRow:
    """The text that stands in the section `source text`."""

    file: str
    form: str


@dataclass(frozen=True)
class InfoRows:
    """What the section `info` says."""

    builds: list[BuildRow]
    source: SourceRow | None = None


# Writing


def save_program(
    program: Program, path: str | os.PathLike[str], kinds: Sequence[str], *, embed_weights: bool
) -> None:
    """See `Program.save`."""
    target = _path(path)
    chunks = program_chunks(program, kinds, embed_weights=embed_weights)
    try:
        write_file(target, chunks, durable=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArtefactError(
            "OI0801", f"{target}: cannot be written: {reason}", hint="choose another path"
        ) from None


def program_chunks(
    program: Program, kinds: Sequence[str] = (), *, embed_weights: bool = False
) -> Iterator[Piece]:
    """The bytes of a program's file, piece by piece; the same program gives the same bytes.

    `kinds` are the further builds: "observed", "traced". Raises UnsupportedError OI0731 when there
    is no such build, ArtefactError or PackageError when the package to embed is missing or another.
    """
    builds: list[tuple[Program, str]] = []
    for plain in (program, *program.alternatives):
        builds.append((plain, "plain"))
        if "observed" in kinds:
            builds.append((plain.observed(), "observed"))
        if "traced" in kinds:
            builds.append((plain.traced(), "traced"))
    payloads: dict[Key, Payload] = {}
    rows = [BuildRow(kind, list(build.parts)) for build, kind in builds]
    for number, (build, _) in enumerate(builds):
        payloads[MANIFEST, number] = Payload.of(build.manifest.to_json().encode())
    for number, part in enumerate(part for build, _ in builds for part in build.parts.values()):
        payloads[PART, number] = Payload.of(part)
    source = None
    if program.source is not None:
        source = SourceRow(program.source.file, program.source.form)
        text = program.source.text.encode("utf-8", "surrogatepass")
        payloads[SOURCE, 0] = Payload.of(text)
    outline = program.outline() if kinds else None
    if outline is not None:
        payloads[OUTLINE, 0] = Payload.of(_json(outline))
    info = InfoRows(rows, source)
    payloads[INFO, 0] = Payload.of(_json(info))
    if embed_weights and program.manifest.package is not None:
        from openinfer.runtime.packages.embedded import package_payloads

        program.check_package(required=True)
        assert program.package is not None
        names = {name for build, _ in builds for name in used_tensors(build.manifest)}
        payloads |= package_payloads(program.package, names)
    return container_chunks(payloads)


def used_tensors(manifest: Manifest) -> set[str]:
    """The tensors of the package that some row of a manifest names as its sources."""
    found: set[str] = set()
    for field in fields(manifest):
        rows = getattr(manifest, field.name)
        for row in rows if isinstance(rows, list) else ():
            found |= set(getattr(row, "sources", ()))
    return found


def _json(value: object) -> bytes:
    return json.dumps(plain_data(value), sort_keys=True).encode()


# Reading


def load_program(
    path: str | os.PathLike[str], model: ModelLike | None = None, *, copy: bool = False
) -> Program:
    """See `openinfer.load`."""
    place, given = _path(path), checked_package(model)
    try:
        file = MappedFile(place, copy=copy)
    except OpenInferError as error:
        raise ArtefactError(
            "OI0801", error.message, hint="give the path that Program.save wrote"
        ) from None
    try:
        container = Container(file)
        program = _read(container, given)
        if given is not None:
            program.check_package()
            _bind(program, given)
        elif container.find(PACKAGE) is not None:
            from openinfer.runtime.packages.embedded import EmbeddedPackage

            _bind(program, EmbeddedPackage(file, container))
            return program
        elif program.needs_package:
            _bind(program, _found_package(program.manifest, place.parent, copy=copy))
    except ArtefactError as error:
        file.close()
        raise ArtefactError(error.code, f"{place}: {error.message}", hint=error.hint) from None
    except BaseException:
        file.close()
        raise
    file.close()
    return program


def program_of_bytes(data: bytes, package: Package | None = None) -> Program:
    """See `Program.from_bytes`."""
    return _read(Container(Memory(data)), package)


def _read(container: Container, package: Package | None) -> Program:
    info = _rows(InfoRows, container.read(INFO), "info")
    source = None
    if info.source is not None:
        text = container.read(SOURCE).decode("utf-8", "surrogatepass")
        source = SourceText(info.source.file, text, info.source.form)
    outline = _read_outline(container)
    programs: list[Program] = []
    numbers = count()
    for number, row in enumerate(info.builds):
        manifest = _read_manifest(container, number)
        if len(set(row.parts)) != len(row.parts):
            raise damaged(f"build {number} has two parts of one name")
        parts = {name: container.read(PART, next(numbers)) for name in row.parts}
        program = Program(manifest, parts, package)
        program.source = source
        if row.kind == "plain":
            program.make_outline = (lambda: outline) if outline is not None else None
            programs.append(program)
        elif row.kind not in ("observed", "traced"):
            raise damaged(f"build {number} is of the unknown kind {row.kind!r:.40}")
        elif not programs or row.kind in programs[-1].further_builds:
            raise damaged(f"build {number} belongs to no plain one")
        else:
            programs[-1].add_build(row.kind, program)
    if not programs:
        raise damaged("it has no build")
    return _best_first(programs)


def _read_manifest(container: Container, number: int) -> Manifest:
    data = container.read(MANIFEST, number)
    try:
        return Manifest.from_json(data)
    except ArtefactError as error:
        if "another version" in error.message:
            raise other_version(container.writer) from None
        raise


def _read_outline(container: Container) -> Outline | None:
    if container.find(OUTLINE) is None:
        return None
    outline = _rows(Outline, container.read(OUTLINE), "outline")
    for index, node in enumerate(outline.nodes):
        around = [n for value in vars(node).values() if isinstance(value, tuple) for n in value]
        if node.index != index or any(isinstance(n, int) and not 0 <= n < index for n in around):
            raise damaged(f"node {index} of its outline is out of order")
    return outline


def _rows(kind: type[T], data: bytes, what: str) -> T:
    try:
        return row_of(kind, json.loads(data))
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"{what}: {error}") from None


def _best_first(programs: Sequence[Program]) -> Program:
    """The build that runs best here, with the others behind."""
    if len(programs) == 1:
        return programs[0]
    ordered = sorted(programs, key=_rank)
    ordered[0].alternatives = tuple(ordered[1:])
    return ordered[0]


def _rank(program: Program) -> tuple[int, ...]:
    """Builds for devices that are not here, or that cannot run, stand behind the others."""
    manifest = program.manifest
    if manifest.device not in DEVICES:
        return (len(DEVICES),)
    device = device_of(manifest.device)
    place = len(DEVICES) if device.unavailable_reason() else list(DEVICES).index(manifest.device)
    return (place, *device.rank(manifest.target))


def _bind(program: Program, package: Package | None) -> None:
    """Gives every build the package."""
    if package is None:
        return
    for build in (program, *program.alternatives):
        build.bind(package)


def _found_package(manifest: Manifest, folder: Path, *, copy: bool) -> Package | None:
    """The package that a program was compiled with: where it was, else beside the program."""
    from openinfer.runtime.packages import open_model

    if manifest.package_path in (None, IN_MEMORY):
        return None
    recorded = Path(manifest.package_path)
    for candidate in (recorded, folder / recorded.name):
        try:
            package = open_model(candidate, copy=copy)
        except (OpenInferError, OSError, ValueError):
            continue
        try:
            if package.header_hash() == manifest.package:
                return package
        except OpenInferError:
            pass  # Damaged metadata: not the package that we look for.
        package.close()
    return None


def _path(path: Any) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError(
            "OI0525",
            f"the path of a compiled program is a {type(path).__name__}, not a text",
            hint="give a str or a pathlib.Path",
        ) from None
