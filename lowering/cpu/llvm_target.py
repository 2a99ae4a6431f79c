"""The processor that a module was lowered for; the formats `llvm-ir` and `asm` of `openinfer-opt -t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.target import Target

from openinfer.lowering.cpu.emit_llvm import emit_llvm
from openinfer.lowering.loops.target import BF16_DOT_ATTRIBUTE
from openinfer.lowering.options import current
from openinfer.runtime.target import TargetDescription, named_target


def module_target(module: ModuleOp, chosen: str, otherwise: str) -> TargetDescription:
    """The processor of the kind that `openinfer.target` of a module says, else of `otherwise`.

    It is this machine's own when `chosen`, the option of the compilation, is "host" and this
    machine is of that kind. What the module was lowered to, it has. Raises UnsupportedError (OI0710)
    for an unknown kind.
    """
    target = _kind_target(module, chosen, otherwise)
    return target.with_bf16_dot() if BF16_DOT_ATTRIBUTE in module.attributes else target


def _kind_target(module: ModuleOp, chosen: str, otherwise: str) -> TargetDescription:
    kind = module.attributes.get("openinfer.target")
    name = kind.data if isinstance(kind, StringAttr) else otherwise
    if chosen == "host" or name == "host":
        from openinfer.runtime.devices.cpu_codegen import host_target, unavailable_reason

        # Text can be written for any processor where no code can be made.
        if name == "host" or unavailable_reason() is None:
            host = host_target()
            if name in ("host", host.name):
                return host
    return named_target(name)


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
        from openinfer.runtime.devices.cpu_codegen import assembly_text, host_target

        host_target()  # Says why where there is no compiled device.
        description = _description(module, self.target)
        output.write(assembly_text(emit_llvm(module, description), description))


def _description(module: ModuleOp, target: str | None) -> TargetDescription:
    """The processor to write for; see `LlvmIrTarget`."""
    if target is None and "openinfer.target" in module.attributes:
        description = module_target(module, current().target_name, "generic")
    elif target == "host":
        from openinfer.runtime.devices.cpu_codegen import host_target

        description = host_target()
    else:
        description = named_target(target or "generic")
    if BF16_DOT_ATTRIBUTE in module.attributes:
        description = description.with_bf16_dot()
    return description
