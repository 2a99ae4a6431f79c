"""The cache nodes: read, write, increment, decrement, reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute

from openinfer.dialects.graph import (
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
    VariableOp,
)
from openinfer.lowering.program.value_arrays import narrow, wide, wrap
from openinfer.lowering.reference.caches import FULL, Cache, Range, Slot
from openinfer.lowering.reference.scope import Scope
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import StepError
from openinfer.runtime.storage import AnyArray

_HUGE = 10**308
"""No float of a larger amount is finite."""

CacheNode = CacheReadOp | CacheWriteOp | CacheStepOp | CacheResetOp


@dataclass(frozen=True)
class Done:
    """What a node did, for its event: uses as a trace shows them, with their shapes."""

    params: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, object] = field(default_factory=dict[str, object])


def run_cache_node(scope: Scope, node: CacheNode) -> Done:
    """Runs one cache node. Raises StepError."""
    match node:
        case CacheReadOp():
            return _read(scope, node)
        case CacheWriteOp():
            return _write(scope, node)
        case CacheStepOp():
            return _step(scope, node)
        case CacheResetOp():
            return _reset(scope, node)


def _read(scope: Scope, node: CacheReadOp) -> Done:
    op = _persistent(scope, node.source.variable.data)
    cache = scope.cache(op)
    use = _Use(scope, cache, node.source)
    array = cache.whole() if cache.plain else cache.read(use.table(), use.inner)
    target = scope.name_of(node.target)
    scope.write(node.target, array, cache.dtype)
    return _moved(use.text, target, array.shape, cache.dtype)


def _write(scope: Scope, node: CacheWriteOp) -> Done:
    op = _persistent(scope, node.target.variable.data)
    array = scope.read(node.source)
    cache = scope.cache(op)
    use = _Use(scope, cache, node.target)
    if cache.plain:
        cache.store(array)
    else:
        cache.write(use.table(), use.inner, array)
    return _moved(scope.name_of(node.source), use.text, array.shape, cache.dtype)


def _moved(source: str, target: str, shape: tuple[int, ...], dtype: str) -> Done:
    names = (source, target)
    return Done((source,), (target,), dict.fromkeys(names, shape), dict.fromkeys(names, dtype))


def _step(scope: Scope, node: CacheStepOp) -> Done:
    name = node.variable.data
    cache = scope.cache(_persistent(scope, name))
    _, counted = node.counted
    array = stepped(cache.whole(), cache.dtype, scope.size(node.added))
    cache.store(array)
    shapes, dtypes = {name: array.shape}, {name: cache.dtype}
    return Done((name,), (name,), shapes, dtypes, {"amount": scope.size(counted)})


def stepped(array: AnyArray, dtype: str, amount: int) -> AnyArray:
    """A value plus a whole number: integers wrap, floats are rounded once."""
    if DTYPES[dtype].is_float:
        values = wide(array, dtype)
        by = max(-_HUGE, min(amount, _HUGE))
        with np.errstate(all="ignore"):
            return narrow(values + np.asarray(float(by)).astype(values.dtype), dtype)
    bits = DTYPES[dtype].bits
    sums = [(int(value) + amount) % (1 << bits) for value in array.reshape(-1)]
    return wrap(np.array(sums, np.uint64).reshape(array.shape), dtype)


def _reset(scope: Scope, node: CacheResetOp) -> Done:
    cache = scope.cache(_persistent(scope, node.target.variable.data))
    use = _Use(scope, cache, node.target)
    slots = [slot for slot in use.slots(list(node.target.indices)) if isinstance(slot, int)]
    cache.reset(slots)
    return Done((), (use.text,), {}, {use.text: cache.dtype})


def _persistent(scope: Scope, name: str) -> VariableOp:
    op = scope.view.variables.get(name)
    if op is None:
        raise StepError("OI0603", f"{name} is not declared")
    return op


class _Use:
    """A use of a cache: its slots with their values."""

    def __init__(self, scope: Scope, cache: Cache, ref: RefAttr) -> None:
        self.scope = scope
        self.cache = cache
        self.ref = ref
        self.text = self._text()
        """As a trace shows it: `K[l=0, 0..4]`."""

    def table(self) -> list[Slot]:
        """The slots of the table indices; those that are left out are full slices."""
        count = len(self.cache.table)
        given = self.slots(list(self.ref.indices)[:count])
        return [*given, *[FULL] * (count - len(given))]

    def inner(self, counts: Mapping[str, int]) -> list[Slot]:
        """The slots of the matrix; none when none are written."""
        given = self.slots(list(self.ref.indices)[len(self.cache.table) :], counts)
        rest = len(self.cache.auto) - len(given)
        return [*given, *[FULL] * rest] if given else []

    def slots(
        self, written: Sequence[Attribute], counts: Mapping[str, int] | None = None
    ) -> list[Slot]:
        """Slots with the values that their expressions have now."""

        def number(bound: Attribute) -> int | None:
            return self.scope.size(bound.data, counts) if isinstance(bound, SizeAttr) else None

        found: list[Slot] = []
        for slot in written:
            if isinstance(slot, SliceAttr):
                found.append(Range(number(slot.start), number(slot.stop)))
            elif isinstance(slot, SizeAttr):
                found.append(self.scope.size(slot.data, counts))
        return found

    def _text(self) -> str:
        if not self.ref.indices.data:
            return self.ref.text

        def shown(bound: Attribute) -> str:
            return self.scope.text_of(bound.data) if isinstance(bound, SizeAttr) else ""

        slots: list[str] = []
        for slot in self.ref.indices:
            parts = [slot.start, slot.stop] if isinstance(slot, SliceAttr) else [slot]
            texts = [shown(part) for part in parts]
            if len(parts) == 2:
                texts = [text.rpartition("=")[2] for text in texts]
            slots.append("..".join(texts))
        return f"{self.ref.variable.data}[{', '.join(slots)}]"
