"""The compiled program: what the compiler writes and the runtime loads. Needs no compiler."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from openinfer.runtime.errors import ArtefactError, UnsupportedError
from openinfer.runtime.manifest import Manifest
from openinfer.runtime.options import checked_threads, default_threads
from openinfer.runtime.sizes import THREADS, Size

if TYPE_CHECKING:
    from openinfer.runtime.devices.cpu import CpuExecutor, LoadedProgram
    from openinfer.runtime.packages.base import Package

_MAGIC = b"OIPROG\x00\x01"
_HEADER = struct.Struct("<8sQQ32s")


class Program:
    """Machine code and its manifest, bound to the package that holds its weights.

    The code is linked and the weights are laid out when the first executor is made; executors share
    both and nothing else.
    """

    def __init__(self, manifest: Manifest, code: bytes, package: Package | None = None) -> None:
        self.manifest = manifest
        self.code = code
        self.package = package
        self.compiled = False
        """Whether this process compiled it, as opposed to loading it."""
        self.make_observed: Callable[[], Program] | None = None
        """Compiles the watched build of the same program; set by `openinfer.compile`."""
        self._loaded: LoadedProgram | None = None
        self._observed: Program | None = None

    def make_executor(self, threads: int | None = None) -> CpuExecutor:
        """A fresh executor with state of its own.

        `threads`: how many CPUs a step may use (default: those that this process may use). Raises
        InputError for what is no number from 1 to 1024, PackageError when a weight cannot be read,
        ArtefactError when the code is for another processor.
        """
        from openinfer.runtime.devices.cpu import CpuExecutor

        count = checked_threads(threads) or default_threads()
        return CpuExecutor(self, self.loaded(), count)

    def loaded(self) -> LoadedProgram:
        """The linked code with its weights; made on first use."""
        from openinfer.runtime.devices.cpu import LoadedProgram

        if self._loaded is None:
            self.check_package()
            self._loaded = LoadedProgram(self)
        return self._loaded

    def observed(self) -> Program:
        """The build of the same program whose every node can be watched."""
        if self._observed is None:
            if self.make_observed is None:
                raise UnsupportedError(
                    "OI0731",
                    "a loaded program cannot be iterated node by node",
                    hint="compile it from its text with openinfer.compile",
                )
            self._observed = self.make_observed()
        return self._observed

    def check_package(self) -> None:
        """Raises ArtefactError when the package is missing, or not the one of the program."""
        wanted = self.manifest.package
        if wanted is None or not any(row.sources for row in self.manifest.variables):
            return
        if self.package is None:
            raise ArtefactError(
                "OI0804",
                "the program needs the model package that it was compiled with",
                hint=f"open_model({self.manifest.package_path!r}) and pass it",
            )
        if self.package.header_hash() != wanted:
            raise ArtefactError(
                "OI0805",
                f"{self.package.path} has other tensors than the package of this program",
                hint="compile the program again with this package",
            )

    def plan_text(self, sizes: Mapping[str, int] | None = None) -> str:
        """The memory plan as a table, with its lower bound.

        `sizes` gives run-time sizes; those that are missing count 128.
        """
        from openinfer.runtime.plan import plan_table

        return plan_table(self.manifest, dict(sizes or {}))

    def arena_bytes(self, sizes: Mapping[str, int]) -> int:
        """Bytes of working memory of a step with these run-time sizes."""
        return Size.of(self.manifest.arena).evaluate({THREADS: 1, **sizes})

    def to_bytes(self) -> bytes:
        """The saved form: header, SHA-256 of the rest, manifest, machine code."""
        manifest = self.manifest.to_json().encode()
        digest = hashlib.sha256(manifest + self.code).digest()
        return _HEADER.pack(_MAGIC, len(manifest), len(self.code), digest) + manifest + self.code

    @staticmethod
    def from_bytes(data: bytes, package: Package | None = None) -> Program:
        """The program in a saved form. Raises ArtefactError when it is none, or is damaged."""
        if len(data) < _HEADER.size or not data.startswith(_MAGIC[:6]):
            raise ArtefactError("OI0802", "this is no compiled program", hint="compile it again")
        magic, manifest_length, code_length, digest = _HEADER.unpack_from(data)
        body = data[_HEADER.size :]
        if magic != _MAGIC:
            raise ArtefactError(
                "OI0803", "the program was compiled by another version", hint="compile it again"
            )
        if manifest_length + code_length != len(body):
            raise ArtefactError(
                "OI0802", "the compiled program is cut off", hint="compile it again"
            )
        if hashlib.sha256(body).digest() != digest:
            raise ArtefactError(
                "OI0802", "the compiled program is damaged", hint="compile it again"
            )
        manifest = Manifest.from_json(body[:manifest_length])
        return Program(manifest, body[manifest_length:], package)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program to a file, whole or not at all; `openinfer.load` reads it."""
        target = Path(path)
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(self.to_bytes())
            partial.replace(target)
        except OSError as error:
            raise ArtefactError(
                "OI0801", f"{target}: {error.strerror or error}", hint="choose another path"
            ) from None
        finally:
            partial.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"<program {self.manifest.name!r} for {self.manifest.target.partition(';')[0]}>"
