"""`--dump-dir`: one numbered file per phase, and the kernels of the low levels apart.

    D/00-graph.mlir  D/01-nn.mlir  D/02-linalg.mlir  D/03-buffers.mlir
    D/03-buffers/KERNEL.mlir  D/04-kernels.mlir  …
    D/06-llvm/KERNEL.spvasm  D/06-llvm/KERNEL.spv     kernels of a Vulkan device

Each file of text begins with the command that continues from it, that of a kernel with the places in the
program that call it.
"""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation

from openinfer.compiler.levels import header
from openinfer.compiler.pipeline import PIPELINES
from openinfer.compiler.text import module_text
from openinfer.lowering.locations import has_location, location_of
from openinfer.runtime.errors import Location
from openinfer.runtime.files import write_file, write_text

KERNEL_PHASES = ("buffers", "kernels", "threads", "llvm")
STEP_FUNCTION = "step"


_KERNEL = "// function "
_DEVICE_KERNEL = "; function "
"""How the file of a kernel begins: what says that a dump wrote it."""


@dataclass(frozen=True)
class PhaseDumps:
    """Writes the file of each phase that ends."""

    folder: Path
    pipeline: str
    context: Context
    all_locations: bool
    files: list[Path] = field(default_factory=list[Path])
    """What was written so far."""

    @staticmethod
    def of(args: argparse.Namespace, pipeline: str, context: Context) -> PhaseDumps | None:
        """What the command line asks for: None without `--dump-dir`."""
        if args.dump_dir is None:
            return None
        args.dump_dir.mkdir(parents=True, exist_ok=True)
        return PhaseDumps(args.dump_dir, pipeline, context, args.print_debuginfo)

    def write(self, phase: str, module: ModuleOp) -> None:
        """Writes `NN-phase.mlir`, and one file per function but the step at the low levels."""
        names = [item.name for item in PIPELINES[self.pipeline]]
        stem = f"{names.index(phase):02}-{phase}"
        path = self.folder / f"{stem}.mlir"
        text = module_text(module, self.context, all_locations=self.all_locations)
        write_text(path, self._header(phase, path.name, names[-1] == phase) + text)
        self.files.append(path)
        if phase not in KERNEL_PHASES:
            return
        self._clear(self.folder / stem)
        places = _places_of_calls(module)
        for name, function in _functions(module):
            if name == STEP_FUNCTION:
                continue
            kernel = self._kernel(stem, name, ".mlir")
            head = f"{_KERNEL}{name}, after phase {phase} of pipeline {self.pipeline}\n"
            head += "".join(f"// called for {place}\n" for place in places.get(name, ()))
            write_text(kernel, head + module_text(function, all_locations=self.all_locations))
        if any(op.name == "spirv.module" for op in module.walk()):
            self._write_words(stem, phase, module)

    def _write_words(self, stem: str, phase: str, module: ModuleOp) -> None:
        """Writes the kernels of a device as the text that `spirv-as` reads, and as a driver takes them."""
        from openinfer.lowering.vulkan.spirv_target import kernel_words

        for name, words, text in kernel_words(module):
            head = f"{_DEVICE_KERNEL}{name}, after phase {phase} of pipeline {self.pipeline}\n"
            write_text(self._kernel(stem, name, ".spvasm"), head + text)
            write_file(self._kernel(stem, name, ".spv"), [words])

    def _kernel(self, stem: str, name: str, suffix: str) -> Path:
        """The file of a kernel, which is written now."""
        path = self.folder / stem / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}{suffix}"
        path.parent.mkdir(exist_ok=True)
        self.files.append(path)
        return path

    @staticmethod
    def _clear(folder: Path) -> None:
        """Removes the kernels of an earlier dump; files of anyone else stay."""
        for path in [*folder.glob("*.mlir"), *folder.glob("*.spvasm")]:
            with path.open(encoding="utf-8", errors="replace") as file:
                stale = file.readline().startswith((_KERNEL, _DEVICE_KERNEL))
            if stale:
                path.unlink()
                if path.suffix == ".spvasm":
                    path.with_suffix(".spv").unlink(missing_ok=True)

    def _header(self, phase: str, name: str, last: bool) -> str:
        start = header(self.pipeline, phase)
        if last:
            return f"{start}, the last one\n"
        command = ["openinfer-opt", name, "--pipeline", self.pipeline, "--from", phase]
        return f"{start}; continue with\n//   {shlex.join(command)}\n"


def _places_of_calls(module: ModuleOp) -> dict[str, list[Location]]:
    """Where in the program the nodes stand that each function is called for, in order."""
    found: dict[str, list[Location]] = {}
    for op in module.walk():
        callee = op.get_attr_or_prop("callee")
        if not isinstance(callee, SymbolRefAttr) or not has_location(op):
            continue
        place = location_of(op)
        places = found.setdefault(callee.string_value(), [])
        if place is not None and place not in places:
            places.append(place)
    return found


def _functions(module: ModuleOp) -> list[tuple[str, Operation]]:
    found: list[tuple[str, Operation]] = []
    for op in module.body.block.ops:
        name = op.get_attr_or_prop("sym_name")
        # Declarations have no body to read.
        has_body = any(region.blocks for region in op.regions)
        if op.name in ("func.func", "llvm.func") and isinstance(name, StringAttr) and has_body:
            found.append((name.data, op))
    return found
