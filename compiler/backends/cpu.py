"""The backend `cpu`: LLVM IR, and the object that LLVM makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from openinfer.compiler.backends import Backend, Finish, Measured
from openinfer.compiler.backends.forked import Helper, HelperError, Objects, may_fork, start
from openinfer.compiler.timings import at_stage, current_timings
from openinfer.runtime.options import compile_processes
from openinfer.runtime.program import HOST

if TYPE_CHECKING:
    from xdsl.dialects import llvm
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.dialects.func import FuncOp

    from openinfer.lowering.cpu.emit_llvm import Elsewhere, Texts
    from openinfer.runtime.devices.cpu.compilation import Compilation


class _Begun:
    """What LLVM was given of a program that is still lowered, and what other processes were."""

    def __init__(self) -> None:
        self._parts: tuple[Texts, Compilation] | None = None
        self._helpers: list[tuple[Helper, dict[str, FuncOp]]] = []
        """Processes that lower kernels, with these as they were before."""
        self._lower: Callable[[ModuleOp], None] | None = None
        self._declared: ModuleOp | None = None
        """The functions of the module when it was divided, without bodies."""

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

    def divide(self, module: ModuleOp, lower: Callable[[ModuleOp], None]) -> None:
        """Gives kernels to other processes, where there are processors for them."""
        from openinfer.lowering.cpu.elsewhere import declarations, leave_out, shares_of

        processes = compile_processes()
        if processes < 2 or not may_fork():
            return
        shares = shares_of(module, processes)
        if not shares:
            return
        self._lower, self._declared = lower, declarations(module)
        for share in shares:
            helper = start(partial(self._lowered_here, module, share))
            if helper is not None:
                self._helpers.append((helper, leave_out(module, share)))

    def _lowered_here(
        self, module: ModuleOp, share: Collection[str], tell: Callable[[Elsewhere], None]
    ) -> Objects:
        """What another process does: lowers its share, and has LLVM compile it."""
        from xdsl.dialects.func import FuncOp

        from openinfer.lowering.cpu.elsewhere import leave_out

        assert self._lower is not None
        self._helpers.clear()
        names = [f.sym_name.data for f in module.ops if isinstance(f, FuncOp) and f.body.blocks]
        leave_out(module, set(names) - set(share))
        self._lower(module)
        texts, compilation = self.parts(module)
        tell(texts.elsewhere())
        return compilation.objects(), compilation.costs

    def gather(self, module: ModuleOp) -> None:
        """Waits until other processes have lowered their kernels; lowers here what they have not."""
        from openinfer.lowering.cpu.elsewhere import bring_back

        texts, _ = self.parts(module)
        for helper, functions in list(self._helpers):
            left = functions
            try:
                names = helper.names()
                texts.know(names)
                left = {name: f for name, f in functions.items() if name not in names.symbols}
            except HelperError:
                self._helpers.remove((helper, functions))
            if left:
                bring_back(self._lowered_alone(left), left, module)

    def _lowered_alone(self, functions: Mapping[str, FuncOp]) -> ModuleOp:
        """Functions that another process should have lowered, lowered by this one."""
        from openinfer.lowering.cpu.elsewhere import alone

        assert self._lower is not None
        assert self._declared is not None
        own = alone(functions, self._declared)
        self._lower(own)
        return own

    def objects(
        self, compilation: Compilation, meanwhile: Callable[[], object]
    ) -> dict[str, bytes]:
        """All objects, in an order that does not tell who made them."""
        found = compilation.objects(meanwhile)
        for helper, functions in self._helpers:
            try:
                more, costs = helper.objects()
            except HelperError:
                more, costs = self._again(functions)
            found.update(more)
            compilation.costs.extend(costs)
            helper.close()
        self._helpers.clear()
        return {name: found[name] for name in sorted(found, key=lambda name: (name == HOST, name))}

    def _again(self, functions: Mapping[str, FuncOp]) -> Objects:
        """The objects of kernels whose texts another process wrote before it was lost."""
        from openinfer.lowering.cpu.early_kernels import taking

        begun = _Begun()
        begun._lower, begun._declared = self._lower, self._declared
        try:
            with taking(begun.take):
                _, compilation = begun.parts(begun._lowered_alone(functions))
            return compilation.objects(), compilation.costs
        finally:
            begun.close()

    def close(self) -> None:
        """Leaves what LLVM did not begin."""
        for helper, _ in self._helpers:
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


def _divide(module: ModuleOp, lower: Callable[[ModuleOp], None]) -> None:
    begun = _BEGUN.get()
    if begun is not None:
        begun.divide(module, lower)


def _emit(module: ModuleOp, measured: Measured) -> Finish:
    begun = _BEGUN.get() or _Begun()
    try:
        texts, compilation = begun.parts(module)
        with measured("object", "(write LLVM IR)"):
            for part in texts.large(module):
                compilation.add(part)
        with measured("object", "(wait for other processes)"):
            begun.gather(module)
        with measured("object", "(write LLVM IR)"):
            for part in texts.rest(module):
                compilation.add(part)
    except BaseException:
        begun.close()
        raise

    def finish(measured: Measured, meanwhile: Callable[[], object]) -> dict[str, bytes]:
        from openinfer.runtime.devices.cpu.object_symbols import check_symbols

        at_stage("machine code")
        try:
            with measured("object", "(wait for LLVM)"):
                objects = begun.objects(compilation, meanwhile)
        finally:
            begun.close()
        current_timings().of_llvm(compilation.costs)
        # Here, and not first on the machine that lacks one of them.
        check_symbols(objects.values())
        return objects

    return finish


CPU = Backend("cpu", pipeline="cpu", emit=_emit, early=_early, divide=_divide)
