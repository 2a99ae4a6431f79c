"""The formats `spirv` and `spirv-text` of `openinfer-opt -t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.serialize import serialize
from openinfer.lowering.vulkan.spirv_text import print_text
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.spirv.check_words import check_words


@dataclass(frozen=True)
class SpirvTarget(Target):
    """
    Write the one `spirv.module` of a module as words, as a driver takes them.

    Raises UnsupportedError (OI0762) where there is not one, ArtefactError (OI0761) where its words
    would be no module that a driver takes.
    """

    name: ClassVar[str] = "spirv"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        # One character for each byte: the tool knows this target as one that writes bytes.
        output.write(_words(module).decode("latin-1"))


@dataclass(frozen=True)
class SpirvTextTarget(Target):
    """Write the one `spirv.module` of a module as text, as `spirv-as` reads it; raises as `spirv`."""

    name: ClassVar[str] = "spirv-text"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(print_text(check_words(_words(module))))


def _words(module: ModuleOp) -> bytes:
    """The checked words of the one `spirv.module`."""
    found = [op for op in module.walk() if isinstance(op, SpirvModuleOp)]
    if len(found) != 1:
        raise UnsupportedError(
            "OI0762",
            f"{len(found)} 'spirv.module' where words are written of one",
            hint="give a module with one 'spirv.module' in it; the level before it is `-t mlir`",
        )
    if found[0].vce_triple is None:
        raise UnsupportedError(
            "OI0762",
            "a 'spirv.module' that does not say which version it needs has no words",
            hint="write `requires #spirv.vce<v1.3, [Shader], []>` behind its memory model",
        )
    words = serialize(found[0])
    check_words(words)
    return words
