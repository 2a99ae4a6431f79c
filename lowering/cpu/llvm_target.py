"""The formats `llvm-ir` and `asm` of `openinfer-opt -t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from openinfer.lowering.cpu.emit_llvm import emit_llvm, emit_modules
from openinfer.lowering.facts import Facts
from openinfer.runtime.target import TargetDescription, named_target


@dataclass(frozen=True)
class LlvmIrTarget(Target):
    """
    Write a module of the `llvm` dialect as LLVM IR text, for the processor that `target` names.

    Without it, that is the processor which the module was lowered for (`openinfer.target`), or
    "generic" if the module does not say. "host" is the processor of this machine.
    """

    name: ClassVar[str] = "llvm-ir"

    target: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(emit_llvm(module, _description(module, self.target)))


@dataclass(frozen=True)
class AssemblyTarget(Target):
    """
    Write a module of the `llvm` dialect as assembly: the machine code that would run, to read.

    `target` is that of `llvm-ir`. Raises UnsupportedError (OI0781) where no machine code can be
    made, CompileError (OI0982) for IR that LLVM refuses.
    """

    name: ClassVar[str] = "asm"

    target: str | None = None

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        # Where the compiler does, and nowhere else, llvmlite is imported.
        from openinfer.runtime.devices.cpu.codegen import host_target
        from openinfer.runtime.devices.cpu.compilation import assembly_of

        host_target()  # Says why where there is no compiled device.
        description = _description(module, self.target)
        for part in emit_modules(module, description):
            output.write(f"# {part.what}\n")
            output.write(assembly_of(part, description))


def _description(module: ModuleOp, target: str | None) -> TargetDescription:
    """The processor to write for; see `LlvmIrTarget`."""
    own = Facts.of(module).target
    if target is None:
        return own
    if target == "host":
        from openinfer.runtime.devices.cpu.codegen import host_target

        chosen = host_target()
    else:
        chosen = named_target(target)
    # What the module was lowered to, the processor has.
    return chosen.with_bf16_dot() if own.bf16_dot else chosen
