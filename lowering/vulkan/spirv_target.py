"""The formats `spirv` and `spirv-text` of `openinfer-opt -t`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.vulkan.checked_words import checked_words
from openinfer.lowering.vulkan.spirv_text import print_text
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.spirv.check_words import check_words


@dataclass(frozen=True)
class SpirvTarget(Target):
    """
    Write the one `spirv.module` of a module as words, as a driver takes them.

    Raises UnsupportedError (OI0762) where there is not one, ArtefactError (OI0761) where its words
    would be no module that a driver takes, UnsupportedError (OI0773) where the module around it says that
    its device has less than it asks for.
    """

    name: ClassVar[str] = "spirv"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        # One character for each byte: the tool knows this target as one that writes bytes.
        output.write(_words(module).decode("latin-1"))


@dataclass(frozen=True)
class SpirvTextTarget(Target):
    """Write each `spirv.module` of a module as text, as `spirv-as` reads it; raises as `spirv`, also where
    there is none."""

    name: ClassVar[str] = "spirv-text"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        found = _modules(module)
        if not found:
            raise _wrong_count(0, "a 'spirv.module'")
        for number, one in enumerate(found):
            name = one.sym_name.data if one.sym_name is not None else ""
            title = f"; {name}\n" if name else ""
            between = "\n" if number else ""
            output.write(between + title + print_text(check_words(_checked(one))))


def kernel_words(module: ModuleOp) -> Iterator[tuple[str, bytes, str]]:
    """The name, the words and the text of each `spirv.module` that has a name; raises as `spirv-text`."""
    for one in _modules(module):
        if one.sym_name is not None:
            words = _checked(one)
            yield one.sym_name.data, words, print_text(check_words(words))


def _modules(module: ModuleOp) -> list[SpirvModuleOp]:
    return [op for op in module.walk() if isinstance(op, SpirvModuleOp)]


def _wrong_count(count: int, wanted: str) -> UnsupportedError:
    return UnsupportedError(
        "OI0762",
        f"{count} 'spirv.module' where {wanted} is written",
        hint="give a module with one 'spirv.module' in it, or take `-t spirv-text`; the level before is "
        "`-t mlir`"
        if count
        else "a program has none where all values are small, up to 256 elements: the host computes them; "
        "`--pipeline vulkan` makes one of each kernel of the device",
    )


def _words(module: ModuleOp) -> bytes:
    """The checked words of the one `spirv.module`."""
    found = _modules(module)
    if len(found) != 1:
        raise _wrong_count(len(found), "one")
    return _checked(found[0])


def _checked(module: SpirvModuleOp) -> bytes:
    """The words of a module, as a driver takes them."""
    if module.vce_triple is None:
        raise UnsupportedError(
            "OI0762",
            "a 'spirv.module' that does not say which version it needs has no words",
            hint="write `requires #spirv.vce<v1.3, [Shader], []>` behind its memory model",
        )
    return checked_words(module)
