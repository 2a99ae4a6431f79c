"""The backend `cpu`: LLVM IR, and the object that LLVM makes of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.compiler.timings import at_stage, current_timings

if TYPE_CHECKING:
    from xdsl.dialects import llvm
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.lowering.cpu.emit_llvm import Texts
    from openinfer.runtime.devices.cpu.compilation import Compilation


class _Begun:
    """What LLVM was given of a program that is still lowered."""

    def __init__(self) -> None:
        self._parts: tuple[Texts, Compilation] | None = None

    def parts(self, module: ModuleOp) -> tuple[Texts, Compilation]:
        """The texts of a module so far, and their compilation. Raises UnsupportedError (OI0781) where no
        machine code can be made."""
        from openinfer.lowering.cpu.emit_llvm import Texts
        from openinfer.lowering.facts import Facts
        from openinfer.runtime.cache import default_cache
        from openinfer.runtime.devices.cpu.compilation import Compilation

        if self._parts is None:
            target = Facts.of(module).target
            store = default_cache().kernels()
            self._parts = Texts(target), Compilation(target, store=store)
        return self._parts

    def take(
        self, module: ModuleOp, function: llvm.FuncOp, known: Mapping[str, llvm.FuncOp | None]
    ) -> None:
        """Gives LLVM a kernel."""
        texts, compilation = self.parts(module)
        text = texts.kernel(function, known)
        if text is not None:
            compilation.add(text)

    def close(self) -> None:
        """Leaves what LLVM did not begin."""
        if self._parts is not None:
            self._parts[1].close()


_BEGUN: ContextVar[_Begun | None] = ContextVar("openinfer_begun", default=None)


@contextmanager
def _early() -> Generator[None]:
    """LLVM begins with the first kernel while the next one is converted."""
    from openinfer.lowering.cpu.early_kernels import taking

    begun = _Begun()
    token = _BEGUN.set(begun)
    try:
        with taking(begun.take):
            yield
    except BaseException:
        begun.close()
        raise
    finally:
        _BEGUN.reset(token)


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    begun = _BEGUN.get() or _Begun()
    texts, compilation = begun.parts(module)
    try:
        with measured("object", "(write LLVM IR)"):
            for part in texts.rest(module):
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


CPU = Backend("cpu", pipeline="cpu", emit=_emit, early=_early)
