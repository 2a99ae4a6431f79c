"""The simulator: the definition of what a program means, node by node on NumPy arrays."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp

from openinfer.lowering.reference.checks import check_program, check_supported
from openinfer.lowering.reference.contents import Contents
from openinfer.lowering.reference.interpreter import Key, StepRun, detached
from openinfer.lowering.reference.program import ProgramView, dtype_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError, ProgramError, StepError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.storage import AnyArray, to_storage
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


class HasModule(Protocol):
    """A program that can give its `graph` module."""

    @property
    def module(self) -> ModuleOp: ...


class Simulator:
    """A program checked against its package, ready to make executors."""

    def __init__(
        self,
        program: ModuleOp | HasModule,
        package: Package | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Raises ProgramError with every mistake, UnsupportedError for a form not run yet, and
        InputError for a size that contradicts the package."""
        module = program if isinstance(program, ModuleOp) else program.module
        self._view = ProgramView.of(module, package, sizes or {})
        problems = check_program(self._view)
        if problems:
            raise ProgramError(problems)
        check_supported(self._view)
        self._contents = Contents(self._view)

    def make_executor(self) -> SimulatorExecutor:
        """A fresh executor with state of its own; weights that were read are shared."""
        return SimulatorExecutor(self._view, self._contents)


class SimulatorExecutor(BaseExecutor):
    """Interprets a program; `trace()` has an event for every node that ran."""

    def __init__(self, view: ProgramView, contents: Contents) -> None:
        super().__init__(view.infos(), sizes=view.sizes, results=view.results())
        self._view = view
        self._contents = contents
        self._persistent: dict[Key, AnyArray] = {}
        self._kept: dict[Key, AnyArray] = {}
        """What can be fetched between steps: volatile variables and returned values."""
        self._last_sizes: dict[str, int] = dict(view.sizes)
        self._active: StepRun | None = None

    def _run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        for _ in self._iterate_step(inputs, sizes):
            pass

    def _iterate_step(
        self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Generator[Event, None, None]:
        arrays = {name: tensor.values() for name, tensor in inputs.items()}
        run = StepRun(self._view, self._contents, arrays, sizes, self._persistent)
        self._active = run
        try:
            for event in run.run():
                self._record(event)
                yield event
            self._finish(run, arrays)
        except StepError as error:
            self._log.error(error.message)
            raise
        finally:
            self._active = None

    def _finish(self, run: StepRun, inputs: Mapping[str, AnyArray]) -> None:
        """The step ended well: its state becomes the executor's."""
        # Returned values may never have been touched: evaluate them now.
        for name in self.results:
            run.value(name)
        self._persistent = {k: detached(a, inputs) for k, a in run.persistent.items()}
        self._last_sizes = run.sizes
        self._kept = {
            key: detached(array, inputs)
            for key, array in run.values.items()
            if key[0] in self.results or self.variables[key[0]].memory in ("volatile", "constant")
        }

    def _value(self, name: str) -> Tensor:
        base, indices = _split(name)
        info = self.variables[base]
        if len(indices) != len(info.indices):
            raise InputError(
                "OI0506",
                f"{base} is a table over {', '.join(info.indices)}; {name!r} names no member",
                hint=f"fetch one member: fetch('{base}[{', '.join('0' for _ in info.indices)}]')",
            )
        array = self._array(base, indices)
        op = self._view.declaration(base)
        assert op is not None
        row = DTYPES[dtype_of(op)]
        return Tensor(row, array.shape, to_storage(row, array))

    def _array(self, name: str, indices: tuple[int, ...]) -> AnyArray:
        if self._active is not None:
            return self._active.value(name, indices)
        info, key = self.variables[name], (name, indices)
        if key in self._kept:
            return self._kept[key]
        if info.memory == "temporary" or (info.memory == "dynamic"):
            raise InputError(
                "OI0506",
                f"{name} is a temporary: it lives only inside a step",
                hint="return it, write it to a volatile variable, or fetch while iterating",
            )
        missing = sorted({n for d in info.dims for n in d.names if n not in self._last_sizes})
        if missing:
            raise InputError(
                "OI0508",
                f"{info.text} has no shape before the first step: {missing[0]} is not known yet",
                hint="run a step first",
            )
        # Not touched by the last step: what a step would start from.
        run = StepRun(self._view, self._contents, {}, self._last_sizes, self._persistent)
        return run.value(name, indices)

    def _reset_state(self) -> None:
        self._persistent = {}
        self._kept = {}

    def _close(self) -> None:
        super()._close()
        self._reset_state()


def _split(name: str) -> tuple[str, tuple[int, ...]]:
    """`W[0, 1]` as ("W", (0, 1)). Raises InputError when the brackets hold no integers."""
    base, bracket, rest = name.partition("[")
    if not bracket:
        return base, ()
    try:
        return base, tuple(int(part) for part in rest.removesuffix("]").split(",") if part.strip())
    except ValueError:
        raise InputError(
            "OI0501", f"{name!r} names no member of a table", hint=f"write {base}[0]"
        ) from None
