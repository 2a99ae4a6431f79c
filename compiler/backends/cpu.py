"""The backend `cpu`: LLVM IR, and the object that LLVM makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.compiler.backends.forked import Helper, Objects, may_fork, start
from openinfer.compiler.pipeline import Division, Rest
from openinfer.compiler.timings import at_stage, current_timings
from openinfer.runtime.options import compile_processes
from openinfer.runtime.program import HOST

if TYPE_CHECKING:
    from xdsl.dialects import llvm
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.lowering.cpu.emit_llvm import Texts
    from openinfer.runtime.devices.cpu.compilation import Compilation


class _Begun:
    """What LLVM was given of a program that is still lowered, and what other processes were."""

    def __init__(self) -> None:
        self._parts: tuple[Texts, Compilation] | None = None
        self._helpers: list[Helper] = []
        """Processes that lower kernels."""

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

    def begin(self, module: ModuleOp, rest: Rest) -> None:
        """Gives kernels to other processes, where there are processors for them."""
        from openinfer.lowering.kernels.units import UNITS, leave_out, unit_of

        processes = min(compile_processes(), UNITS)
        there = {unit_of(function) for function in module.ops}
        if processes < 2 or len(there) < 2 or not may_fork():
            return
        for number in range(1, processes):
            units = frozenset(range(number, UNITS, processes)) & there
            work = partial(self._lowered_here, module, units, there - units, rest)
            if units and start(work, self._helpers):
                leave_out(module, units)

    def _lowered_here(
        self,
        module: ModuleOp,
        units: Collection[int],
        others: Collection[int],
        rest: Rest,
        tell: Callable[[object], None],
    ) -> Objects:
        """What another process does: lowers some units, and has LLVM compile them."""
        from openinfer.lowering.kernels.units import facts_of, leave_out

        self._helpers.clear()
        # The step stays, which says what becomes of kernels.
        leave_out(module, others, but="step")
        rest(
            module,
            lambda module: tell(facts_of(module, units)),
            lambda module: leave_out(module, others),
        )
        texts, compilation = self.parts(module)
        for text in texts.kernels(module):
            compilation.add(text)
        tell(texts.elsewhere(module))
        return compilation.objects(), compilation.costs

    def meet(self, module: ModuleOp) -> None:
        """Waits until other processes know what their kernels ask for. Raises HelperError."""
        from openinfer.lowering.kernels.units import tell

        for helper in self._helpers:
            tell(module, helper.facts())

    def gather(self, texts: Texts) -> None:
        """Waits until other processes have lowered their kernels. Raises HelperError."""
        for helper in self._helpers:
            texts.know(helper.names())

    def objects(
        self, compilation: Compilation, meanwhile: Callable[[], object]
    ) -> dict[str, bytes]:
        """All objects, in an order that does not tell who made them. Raises HelperError."""
        found = compilation.objects(meanwhile)
        for helper in self._helpers:
            more, costs = helper.objects()
            found.update(more)
            compilation.costs.extend(costs)
            helper.close()
        self._helpers.clear()
        return {name: found[name] for name in sorted(found, key=lambda name: (name == HOST, name))}

    def close(self) -> None:
        """Leaves what LLVM did not begin."""
        for helper in self._helpers:
            helper.close()
        self._helpers.clear()
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


def _begin(module: ModuleOp, rest: Rest) -> None:
    begun = _BEGUN.get()
    if begun is not None:
        begun.begin(module, rest)


def _meet(module: ModuleOp) -> None:
    begun = _BEGUN.get()
    if begun is not None:
        begun.meet(module)


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    begun = _BEGUN.get() or _Begun()
    try:
        texts, compilation = begun.parts(module)
        with measured("object", "(write LLVM IR)"):
            for part in texts.large(module):
                compilation.add(part)
        with measured("object", "(wait for other processes)"):
            begun.gather(texts)
        with measured("object", "(write LLVM IR)"):
            for part in texts.rest(module):
                compilation.add(part)
    except BaseException:
        begun.close()
        raise

    def finish(measured: Measured, meanwhile: Callable[[], object]) -> dict[str, bytes]:
        try:
            from openinfer.runtime.devices.cpu.object_symbols import check_symbols

            at_stage("machine code")
            with measured("object", "(wait for LLVM)"):
                objects = begun.objects(compilation, meanwhile)
        finally:
            begun.close()
        current_timings().of_llvm(compilation.costs)
        # Here, and not first on the machine that lacks one of them.
        check_symbols(objects.values())
        return objects

    return finish


CPU = Backend("cpu", pipeline="cpu", emit=_emit, early=_early, division=Division(_begin, _meet))
