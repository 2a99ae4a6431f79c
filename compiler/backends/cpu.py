"""The backend `cpu`: LLVM IR, and the object that LLVM makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.compiler.timings import at_stage, current_timings

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    from openinfer.lowering.cpu.emit_llvm import emit_modules
    from openinfer.lowering.facts import Facts
    from openinfer.runtime.cache import default_cache
    from openinfer.runtime.devices.cpu.compilation import Compilation

    target = Facts.of(module).target
    compilation = Compilation(target, store=default_cache().kernels())
    try:
        with measured("object", "(write LLVM IR)"):
            for part in emit_modules(module, target):
                # LLVM begins with the first kernel while the next one is written.
                compilation.add(part)
    except BaseException:
        compilation.close()
        raise

    def finish(measured: Measured, meanwhile: Callable[[], object]) -> dict[str, bytes]:
        from openinfer.runtime.devices.cpu.object_symbols import check_symbols

        at_stage("machine code")
        with compilation, measured("object", "(wait for LLVM)"):
            objects = compilation.objects(meanwhile)
        current_timings().of_llvm(compilation.costs)
        # Here, and not first on the machine that lacks one of them.
        check_symbols(objects.values())
        return objects

    return finish


CPU = Backend("cpu", pipeline="cpu", emit=_emit)
