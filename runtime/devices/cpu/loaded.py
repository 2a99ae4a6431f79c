"""A compiled program in memory: its code is linked, its weights are laid out; executors share it."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.runtime.devices.compiled.growing import aligned_bytes
from openinfer.runtime.devices.cpu.codegen import load_object
from openinfer.runtime.devices.cpu.native_call import INTERRUPTED, OBSERVER, interrupted_address
from openinfer.runtime.devices.cpu.observer import observer_address
from openinfer.runtime.devices.cpu.support import check_target
from openinfer.runtime.manifest import WeightRow
from openinfer.runtime.program import HOST
from openinfer.runtime.storage import AnyArray

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.program import Program

SMALL = 1 << 16
"""Bytes of a weight that is rather copied than read where its file is mapped: a program that maps nothing
need not look after a file."""
PREFIX = "openinfer_"

_Entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Lead = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_Worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class LoadedProgram:
    """The linked code of a program and its weights in the layout that the code wants.

    `mapped_bytes` are read where the package file is mapped, `packed_bytes` were laid out anew, and
    `copied_bytes` are small weights that were copied as they are.
    """

    def __init__(self, program: Program) -> None:
        """Raises ArtefactError for code that cannot run here, PackageError for a bad weight."""
        manifest, code = program.manifest, program.part(HOST)
        check_target(manifest.target)
        self.manifest = manifest
        self.package = program.package
        self.variables = {row.name: row for row in manifest.variables}
        prepares = sorted({row.prepare for row in manifest.weights if row.prepare is not None})
        symbols = [PREFIX + "step", *(PREFIX + name for name in prepares)]
        if "team" in manifest.frame:
            symbols += [PREFIX + "lead", PREFIX + "worker"]
        imports: dict[str, int] = {}
        self.watched = OBSERVER.encode() in code
        """Whether this is the build that shows its values (`watched_by`)."""
        if self.watched:
            imports[OBSERVER] = observer_address()
        if INTERRUPTED.encode() in code:
            imports[INTERRUPTED] = interrupted_address()
        self._library = load_object(code, symbols, imports)
        self.step = _Entry(self._library.address(PREFIX + "step"))
        self.shared = "team" in manifest.frame
        """Whether several threads can run a step."""
        self.lead: Any = None
        self.worker: Any = None
        if self.shared:
            self.lead = _Lead(self._library.address(PREFIX + "lead"))
            self.worker = _Worker(self._library.address(PREFIX + "worker"))
        self._prepare = {name: _Entry(self._library.address(PREFIX + name)) for name in prepares}
        self.mapped_bytes = 0
        self.packed_bytes = 0
        self.copied_bytes = 0
        self.weights = [self._weight(row) for row in manifest.weights]
        self.guard = self.package.guard() if self.mapped_bytes and self.package else None
        """What raises once the file of mapped weights has changed; None where no step reads a file."""

    @property
    def frame_length(self) -> int:
        """Words of what the team shares: a step's frame, or the jobs that a step hands out."""
        return self.job_words or len(self.manifest.frame)

    @property
    def job_words(self) -> int:
        """Words of a job; 0 when the team shares whole steps."""
        for slot in self.manifest.frame:
            if slot.startswith("job "):
                return int(slot.partition(" ")[2])
        return 0

    def _read(self, name: str) -> AnyArray:
        package: Package | None = self.package
        assert package is not None
        return np.ascontiguousarray(package.read(name))

    def _weight(self, row: WeightRow) -> AnyArray:
        """The bytes of one weight argument; a mapped view when nothing had to be moved."""
        family = bool(self.variables[row.variable].members)
        if row.prepare is None and not family:
            array = self._read(row.sources[0])
            if array.nbytes <= SMALL:
                self.copied_bytes += array.nbytes
                copied = aligned_bytes(array.nbytes)
                copied[:] = array.reshape(-1).view(np.uint8)
                return copied
            self.mapped_bytes += array.nbytes
            return array
        packed = aligned_bytes(row.nbytes)
        self.packed_bytes += row.nbytes
        each = row.nbytes // len(row.sources)
        for number, source in enumerate(row.sources):
            array = self._read(source)
            target = packed[number * each : (number + 1) * each]
            if row.prepare is None:
                target[:] = array.reshape(-1).view(np.uint8)
            else:
                frame = np.array([array.ctypes.data, target.ctypes.data], np.uint64)
                self._prepare[row.prepare](frame.ctypes.data)
        return packed
