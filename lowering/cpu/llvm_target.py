"""The output format `llvm-ir` of `openinfer-opt -t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from openinfer.lowering.cpu.emit_llvm import emit_llvm
from openinfer.runtime.target import named_target


@dataclass(frozen=True)
class LlvmIrTarget(Target):
    """
    Write a module of the `llvm` dialect as LLVM IR text, for the processor that `target` names.

    "host" is the processor of this machine.
    """

    name: ClassVar[str] = "llvm-ir"

    target: str = "generic"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if self.target == "host":
            from openinfer.runtime.devices.cpu_codegen import host_target

            description = host_target()
        else:
            description = named_target(self.target)
        output.write(emit_llvm(module, description))
