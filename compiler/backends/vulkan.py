"""The backend `vulkan`: the host half of a step as the CPU compiles it, device kernels as SPIR-V."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.compiler.backends.cpu import CPU
from openinfer.runtime.devices.vulkan.parts import part_of

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    from xdsl.rewriter import Rewriter

    from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
    from openinfer.lowering.vulkan.checked_words import checked_words

    kernels: dict[str, bytes] = {}
    with measured("spirv", "(write words)"):
        for op in list(module.body.ops):
            if isinstance(op, SpirvModuleOp):
                assert op.sym_name is not None
                # What is refused here would never reach a driver on the machine that loads it.
                kernels[part_of(op.sym_name.data)] = checked_words(op)
                Rewriter.erase_op(op)
    host = CPU.emit(module, measured)

    def finish(measured: Measured, meanwhile: Callable[[], object]) -> dict[str, bytes]:
        return {**host(measured, meanwhile), **kernels}

    return finish


VULKAN = Backend("vulkan", pipeline="vulkan", emit=_emit, early=CPU.early)
