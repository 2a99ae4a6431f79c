"""The backend `cpu`: LLVM IR, and the object that LLVM makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.runtime.program import HOST

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    from openinfer.lowering.cpu.emit_llvm import emit_llvm
    from openinfer.lowering.facts import Facts

    target = Facts.of(module).target
    with measured("object", "(write LLVM IR)"):
        text = emit_llvm(module, target)

    def finish(measured: Measured, meanwhile: Callable[[], object]) -> dict[str, bytes]:
        from openinfer.runtime.devices.cpu.codegen import compile_llvm_text
        from openinfer.runtime.devices.cpu.object_symbols import check_symbols

        code = compile_llvm_text(text, target, measured=measured, meanwhile=meanwhile)
        # Here, and not first on the machine that lacks one of them.
        check_symbols(code)
        return {HOST: code}

    return finish


CPU = Backend("cpu", pipeline="cpu", emit=_emit)
