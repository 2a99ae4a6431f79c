"""Sizes that only the step itself computes: a slice's length, a dimension that names a scalar.

Such a size gets a name of its own, `step.0` say, and `nn.define_size` gives it a value where the
program fixes it. Types name it like a size that inputs fix.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from openinfer.dialects import nn
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.runtime.sizes import MAX_SIZE, Size


class DynamicSizes:
    """The dynamic sizes of a program, in the order in which they are made."""

    def __init__(self, builder: StepBuilder, runtime: Collection[str]) -> None:
        self._builder = builder
        self.names: dict[str, None] = {}
        self.known = set(runtime)
        """Every name that a type may hold: sizes that inputs fix, and dynamic ones."""
        self._unchecked: dict[str, list[nn.RequireOp]] = {}
        """Sizes that are computed before the node that needs them, as 0 where they are no sizes; each
        with the requirements that the node then checks. Those ops are in no block."""

    def is_dynamic(self, size: Size) -> bool:
        """Whether an expression names a dynamic size."""
        return not size.names.isdisjoint(self.names)

    def define(self, hint: str, value: SSAValue, scope: Scope, key: object = None) -> Size:
        """A dynamic size with the value of an index, the one made before for the same key."""
        if key is not None and key in scope.sizes:
            return Size.name(scope.sizes[key])
        name = self.reserve(hint)
        if self._builder.postponed is not None:
            value = self._or_zero(value, self._builder.postponed)
            self._unchecked[name] = self._builder.postponed
        self.give(name, value)
        if self._builder.traced:
            self._builder.insert(nn.StampOp("size", name, (), value))
        if key is not None:
            scope.sizes[key] = name
        return Size.name(name)

    def reserve(self, hint: str) -> str:
        """The name of a new dynamic size; who asks for it gives it a value."""
        name = f"{hint}.{len(self.names)}"
        self.names[name] = None
        self.known.add(name)
        return name

    def give(self, name: str, value: SSAValue) -> None:
        """A name that was reserved has a value from here on."""
        self._builder.insert(nn.DefineSizeOp(name, value, self._builder.node))

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Inside of it, expressions get their values before the step is known to come where they are
        needed, so that values keep their shape from iteration to iteration of a loop.

        Nothing fails there: `check` says what is wrong where a node needs them.
        """
        outer, self._builder.postponed = self._builder.postponed, []
        try:
            yield
        finally:
            self._builder.postponed = outer

    def check(self, dims: Sequence[Size], scope: Scope) -> None:
        """The step fails where one of these sizes got its value ahead and has none."""
        if self._builder.postponed is not None:
            return
        for name in sorted({name for dim in dims for name in dim.names} & self._unchecked.keys()):
            if ("checked", name) not in scope.sizes:
                scope.sizes["checked", name] = ""
                for op in self._unchecked[name]:
                    axis = op.axis.value.data if op.axis is not None else None
                    self._builder.fail_unless(op.condition, op.kind.data, op.first, op.second, axis)

    def finish(self) -> None:
        """Behind the whole step: what was to be checked uses no value any more."""
        for ops in self._unchecked.values():
            for op in ops:
                op.drop_all_references()

    def _or_zero(self, value: SSAValue, requires: list[nn.RequireOp]) -> SSAValue:
        """The value where it is one of a dimension and the requirements hold, else 0."""
        b = self._builder
        zero, most = b.constant(0), b.constant(MAX_SIZE)
        b.require(value, "sge", zero, "negative-size")
        b.require(value, "sle", most, "memory")
        holds, *others = [op.condition for op in requires]
        for each in others:
            holds = b.add(arith.AndIOp(holds, each))
        return b.add(arith.SelectOp(holds, value, zero))
