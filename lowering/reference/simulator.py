"""The simulator: the definition of what a program means, node by node on NumPy arrays."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Protocol

from xdsl.dialects.builtin import ModuleOp

from openinfer.dialects.graph import VariableOp
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.program.check import check_program
from openinfer.lowering.program.unfilled import unfilled_constants, unfilled_errors, used_tensors
from openinfer.lowering.program.view import ProgramView, dtype_of
from openinfer.lowering.reference.cache_storage import entries_of
from openinfer.lowering.reference.caches import Cache
from openinfer.lowering.reference.consumers import Order, StepRun
from openinfer.lowering.reference.contents import Contents
from openinfer.lowering.reference.interpreter import detached
from openinfer.lowering.reference.outline import outline_from
from openinfer.lowering.reference.scope import Key
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError, ProgramError, StepError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.outline import Outline
from openinfer.runtime.size_bounds import check_bounds
from openinfer.runtime.state import State, StateValue
from openinfer.runtime.step_sizes import impossible
from openinfer.runtime.storage import AnyArray, to_storage
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import Event
from openinfer.runtime.variables import VariableInfo

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
        strict: bool = False,
    ) -> None:
        """With `strict`, a constant that nothing fills is an error.

        Raises ProgramError with every mistake, InputError for a size that contradicts the package.
        """
        module = program if isinstance(program, ModuleOp) else program.module
        module = with_types(module, package, sizes or {})
        self._view = ProgramView.of(module, package, sizes or {})
        problems = check_program(module, self._view)
        if not problems and strict:
            problems = unfilled_errors(self._view)
        if problems:
            raise ProgramError(problems)
        self._contents = Contents(self._view)

    @property
    def unfilled(self) -> list[str]:
        """The constants that are zeros because nothing fills them."""
        return [variable.variable.data for variable in unfilled_constants(self._view)]

    @property
    def links(self) -> list[tuple[str, str]]:
        """The tensors of the package that the program names, each with the dtype of its declaration."""
        return [
            (info.name, dtype_of(variable))
            for variable in self._view.variables.values()
            for info in self._view.linked_tensors(variable)
        ]

    @property
    def used(self) -> set[str]:
        """The tensors of the package that the program names."""
        return used_tensors(self._view)

    def make_executor(self, max_state_bytes: int | None = None) -> SimulatorExecutor:
        """A fresh executor with state of its own; weights that were read are shared.

        `max_state_bytes` limits what persistent variables take (default: half of the memory of the
        machine). Raises InputError OI0552 for what is no number of bytes.
        """
        return SimulatorExecutor(self._view, self._contents, max_state_bytes)


class SimulatorExecutor(BaseExecutor):
    """Interprets a program; `trace()` has an event for every node that ran."""

    consumer_order: Order | None = None
    """For tests: picks the block whose next node runs; no order changes a result."""

    def __init__(
        self, view: ProgramView, contents: Contents, max_state_bytes: int | None = None
    ) -> None:
        super().__init__(
            view.infos(),
            sizes=view.sizes,
            results=view.results(),
            max_state_bytes=max_state_bytes,
        )
        self._view = view
        self._contents = contents
        self._state: dict[str, Cache] = {}
        """The persistent variables that were touched."""
        self._kept: dict[Key, AnyArray] = {}
        """What can be fetched between steps: volatile variables and returned values."""
        self._last_sizes: dict[str, int] = dict(view.sizes)
        self._active: StepRun | None = None

    def outline(self) -> Outline:
        """See `BaseExecutor.outline`."""
        return outline_from(self._view.blocks, self._view.nodes)

    def _run_step(self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]) -> None:
        for _ in self._iterate_step(inputs, sizes):
            pass

    def _iterate_step(
        self, inputs: Mapping[str, Tensor], sizes: Mapping[str, int]
    ) -> Generator[Event, None, None]:
        arrays = {name: tensor.values() for name, tensor in inputs.items()}
        for cache in self._state.values():
            cache.check_sizes(sizes)
        check_bounds(self._view.bounds, sizes)
        self._check_volatile(sizes)
        self._check_divisions(sizes)
        self._contents.check_unchanged()
        run = self._step(arrays, sizes)
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

    def _check_volatile(self, sizes: Mapping[str, int]) -> None:
        """Raises StepError OI0603 where sizes make a dimension negative: volatile variables are
        there in every step."""
        for info in self.variables.values():
            for dim in info.dims if info.memory == "volatile" else ():
                if dim.names and dim.names <= sizes.keys() and dim.evaluate(sizes) < 0:
                    extent = dim.evaluate(sizes)
                    raise StepError("OI0603", f"{info.text}: dimension {dim} is {extent}")

    def _check_divisions(self, sizes: Mapping[str, int]) -> None:
        """Raises StepError OI0603 where a division in the definition of a size leaves a remainder."""
        for quotient in self._view.quotients:
            left, right = quotient.left, quotient.right
            if not left.names | right.names <= sizes.keys():
                continue
            try:
                wrong = left.evaluate(sizes) % right.evaluate(sizes)
            except ZeroDivisionError as error:
                raise impossible(error, sizes) from error
            if wrong:
                name = quotient.definition.size.data
                shown = f"{left.evaluate(sizes)} / {right.evaluate(sizes)}"
                raise StepError(
                    "OI0603", f"size `{name}`: {left}/{right} = {shown} leaves a remainder"
                )

    def _step(self, inputs: Mapping[str, AnyArray], sizes: Mapping[str, int]) -> StepRun:
        return StepRun(
            self._view,
            self._contents,
            inputs,
            sizes,
            self._state,
            self.max_state_bytes,
            self.consumer_order,
        )

    def _finish(self, run: StepRun, inputs: Mapping[str, AnyArray]) -> None:
        """The step ended well: its state becomes the executor's."""
        for name in self.results:
            if self.variables[name].memory != "persistent":
                run.scope.value(name)  # A returned value may never have been touched.
        self._state = run.data.caches.committed()
        self._last_sizes = run.data.sizes
        self._kept = {
            key: detached(array, inputs)
            for key, array in run.data.values.items()
            if key[0] in self.results or self.variables[key[0]].memory in ("volatile", "constant")
        }

    # Values between the nodes of a step, and between steps

    def _value(self, name: str) -> Tensor:
        base, indices = _split(name)
        op = self._view.declaration(base)
        assert op is not None
        info = self.variables[base]
        if isinstance(op, VariableOp) and info.memory == "persistent":
            array = self._persistent_array(op, info, indices)
        elif len(indices) == len(info.indices):
            array = self._array(base, indices)
        else:
            raise InputError(
                "OI0506",
                f"{base} is a table over {', '.join(info.indices)}; {name!r} names no member",
                hint=f"fetch one member: fetch('{base}[{', '.join('0' for _ in info.indices)}]')",
            )
        row = DTYPES[dtype_of(op)]
        return Tensor(row, array.shape, to_storage(row, array))

    def _array(self, name: str, indices: tuple[int, ...]) -> AnyArray:
        if self._active is not None:
            return self._active.scope.value(name, indices)
        info, key = self.variables[name], (name, indices)
        if key in self._kept:
            return self._kept[key]
        if info.memory == "temporary" or (info.memory == "dynamic"):
            raise InputError(
                "OI0506",
                f"{name} is a temporary: it lives only inside a step",
                hint="return it, write it to a volatile variable, or fetch while iterating",
            )
        self._check_sizes(info)
        # Not touched by the last step: what a step would start from.
        try:
            return self._step({}, self._last_sizes).scope.value(name, indices)
        except StepError as error:
            raise InputError("OI0506", error.message, hint=error.hint) from None

    def _unknown(self, info: VariableInfo) -> list[str]:
        """The sizes of a declaration that nothing has fixed yet."""
        known = self._active.data.sizes if self._active is not None else self._last_sizes
        names = {name for dim in info.dims for name in dim.names}
        return sorted(names - known.keys() - self.variables.keys() - {"_"})

    def _check_sizes(self, info: VariableInfo) -> None:
        missing = self._unknown(info)
        if missing:
            raise InputError(
                "OI0508",
                f"{info.text} has no shape before the first step: {missing[0]} is not known yet",
                hint="run a step first",
            )

    def _persistent_array(
        self, op: VariableOp, info: VariableInfo, indices: tuple[int, ...]
    ) -> AnyArray:
        """A dense copy of a cache, or of the entries below some indices."""
        run = self._active or self._step({}, self._last_sizes)
        scope = run.scope
        cache = scope.cache_now(op)
        base = cache.base
        if base is None and not (cache.entries and self._unknown(info)):
            self._check_sizes(info)
            try:
                base = scope.base(op.sizes)
            except StepError as error:
                raise InputError("OI0506", error.message, hint=error.hint) from None
        inside = len(indices) <= len(info.table) and all(
            0 <= i < extent for i, extent in zip(indices, cache.extents)
        )
        if not inside:
            reach = "".join(f"[0..{extent}]" for extent in cache.extents)
            raise InputError(
                "OI0547",
                f"{info.name}{list(indices)} is no entry: it has {info.name}{reach}",
                hint=f"fetch('{info.name}') gives all of it",
            )
        absent = len(indices) == len(info.table) and tuple(indices) not in cache.entries
        if base is None and cache.auto and (absent or len(indices) < len(info.table)):
            every = entries_of([*indices, *map(range, cache.extents[len(indices) :])])
            if any(entry not in cache.entries for entry in every):
                # Each matrix has counts of its own: what is there says nothing of the others.
                self._check_sizes(info)
        try:
            return cache.look(base, indices)
        except StepError as error:
            if error.code == "OI0607":
                raise InputError(
                    "OI0548",
                    f"the matrices of {info.name} have different shapes",
                    hint=f"fetch {info.name}[i] one by one",
                ) from None
            raise InputError("OI0506", error.message, hint=error.hint) from None
        except MemoryError:
            raise InputError(
                "OI0506",
                f"there is not enough memory for all of {info.name}",
                hint="fetch single entries",
            ) from None

    # State

    def _snapshot_state(self) -> State:
        values: dict[str, StateValue] = {}
        for name, info in self.variables.items():
            op = self._view.variables.get(name)
            if op is None or info.memory != "persistent":
                continue
            cache = self._state.get(name) or Cache(op, self._contents)
            if not info.table and not cache.entries:
                cache = self._untouched(op, cache)
            values[name] = cache.value()
        return State(values)

    def _untouched(self, op: VariableOp, cache: Cache) -> Cache:
        """A plain variable or matrix with its first content, where its shape is always the same."""
        if any(dim.names - self.sizes.keys() for dim in op.sizes):
            return cache
        cache = cache.copy()
        cache.settle(tuple(dim.evaluate(self.sizes) for dim in op.sizes))
        cache.whole()
        return cache

    def _restore_state(self, state: State) -> None:
        self._kept = {}
        self._state = {
            name: Cache.of(self._view.variables[name], self._contents, value)
            for name, value in state.items()
            if value.entries or any(value.extents)
        }

    def _reset_state(self) -> None:
        self._state = {}
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
