"""What the invocations of a workgroup do together: they share memory, and join what each has found.

    group = Workgroup(b, 128)
    b.loop(group.thread, length, group.size, …)      # each takes every 128th
    total = group.all_reduce(partial, add)           # all have the same

What is here stands where all invocations of the workgroup come: in no branch that some of them do not take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import gpu, memref
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects.extensions.gpu import (
    OF_DEVICE,
    OF_SUBGROUP,
    WORKGROUP_MEMORY,
    ShuffleOp,
)
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.numeric import select

Join = Callable[[SSAValue, SSAValue], SSAValue]
"""Builds one value of two; any order gives the same up to rounding."""

_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def shared_buffer(b: LoopBuilder, element: Attribute, shape: Sequence[int], name: str) -> SSAValue:
    """Memory that the invocations of a workgroup share."""
    found = b.insert_first(memref.AllocaOp.get(element, shape=shape, memory_space=WORKGROUP_MEMORY))
    found.name_hint = name
    return found


def barrier(b: LoopBuilder) -> None:
    """Waits for all invocations of the workgroup, whose writes to shared memory are there then."""
    b.do(gpu.BarrierOp())


def subgroup_barrier(b: LoopBuilder) -> None:
    """The same for the invocations of a subgroup. All of the workgroup come here."""
    one = gpu.BarrierOp()
    one.attributes[OF_SUBGROUP] = UnitAttr()
    b.do(one)


def device_barrier(b: LoopBuilder) -> None:
    """A barrier of the workgroup, in front of which, or behind which, an atomic update tells other workgroups
    what was written to buffers."""
    one = gpu.BarrierOp()
    one.attributes[OF_DEVICE] = UnitAttr()
    b.do(one)


class Workgroup:
    """The invocations of a workgroup, numbered along x."""

    def __init__(self, b: LoopBuilder, size: int, *, alone: bool = True) -> None:
        """`size`: how many there are, a power of two, and whole subgroups. Not `alone`: they are one
        subgroup, beside others that do the same with something else."""
        self.b, self.size = b, size
        self.subgroup = min(b.facts.device_description.subgroup, size)
        self.thread = b.insert(gpu.ThreadIdOp(_X) if alone else gpu.LaneIdOp())
        self.thread.name_hint = "thread"
        self._scratch: dict[tuple[Attribute, int], SSAValue] = {}

    def all_reduce(self, value: SSAValue, join: Join) -> SSAValue:
        """The values of all invocations as one, the same bits for each of them."""
        (found,) = self.all_reduce_each([value], join)
        return found

    def all_reduce_each(self, values: Sequence[SSAValue], join: Join) -> list[SSAValue]:
        """The same for several values of one type, which wait together."""
        b, lanes = self.b, self.subgroup
        if lanes == 1:
            return self._through_memory(values, join)
        values = [self.join_neighbours(value, join, lanes) for value in values]
        groups = self.size // lanes
        if groups == 1:
            return values
        scratch = self._scratch_of(values[0].type, len(values), groups)
        lane = b.insert(gpu.LaneIdOp())
        # Who still reads what was here before has to be done with it.
        barrier(b)
        self._write(values, scratch)
        barrier(b)
        # Each subgroup joins all of them, so that nobody has to wait again.
        count = min(groups, lanes)
        first = b.rem(lane, count) if count < lanes else lane
        found: list[SSAValue] = []
        for number in range(len(values)):
            whole = b.load(scratch, [number, first])
            for start in range(count, groups, count):
                whole = join(whole, b.load(scratch, [number, b.add(first, start)]))
            found.append(self.join_neighbours(whole, join, count))
        return found

    def joined_each(self, values: Sequence[SSAValue], join: Join) -> Callable[[Index], SSAValue]:
        """The same for those who ask for one of the values, by its number. Once for a kernel: nobody waits
        for those who still read what was here before."""
        b, lanes = self.b, self.subgroup
        if lanes == 1:
            self._through_memory(values, join)
            folded = self._scratch_of(values[0].type, len(values), self.size)
            return lambda number: b.load(folded, [number, 0])
        groups = self.size // lanes
        scratch = self._scratch_of(values[0].type, len(values), groups)
        parts = [self.join_neighbours(value, join, lanes) for value in values]
        self._write(parts, scratch)
        barrier(b)
        return lambda number: self._whole(scratch, number, groups, join)

    def joined_apart(self, values: Sequence[SSAValue], join: Join) -> Callable[[Index], SSAValue]:
        """`joined_each` of many values, a power of two: within a subgroup an invocation keeps half of them at
        each exchange, so that all of them take as many exchanges as there are values.

        Requires: subgroups."""
        b = self.b
        assert self.subgroup > 1
        groups = self.size // self.subgroup
        scratch = self._scratch_of(values[0].type, len(values), groups)
        lane, width = b.insert(gpu.LaneIdOp()), b.constant(self.subgroup, i32)
        kept, first, offset = list(values), b.index(0), self.subgroup // 2

        def other(value: SSAValue) -> SSAValue:
            shuffle = ShuffleOp("xor", value, b.constant(offset, i32), width)
            b.do(shuffle)
            return shuffle.shuffled

        while offset and len(kept) > 1:
            half = len(kept) // 2
            upper = b.compare("ne", b.rem(b.floordiv(lane, offset), 2), 0)
            pairs = list(zip(kept[:half], kept[half:]))
            kept = [
                join(select(b, upper, high, low), other(select(b, upper, low, high)))
                for low, high in pairs
            ]
            first = b.add(first, select(b, upper, b.index(half), b.index(0)))
            offset //= 2
        alone = 2 * offset
        while offset:
            kept = [join(value, other(value)) for value in kept]
            offset //= 2
        subgroup = b.insert(gpu.SubgroupIdOp())

        def write() -> None:
            for number, value in enumerate(kept):
                b.store(value, scratch, [b.add(first, number), subgroup])

        if alone:
            b.when(b.compare("eq", b.rem(lane, alone), 0), write)
        else:
            write()
        barrier(b)
        return lambda number: self._whole(scratch, number, groups, join)

    def _whole(self, scratch: SSAValue, number: Index, groups: int, join: Join) -> SSAValue:
        """What all subgroups have found of a value."""
        b = self.b
        whole = b.load(scratch, [number, 0])
        for group in range(1, groups):
            whole = join(whole, b.load(scratch, [number, group]))
        return whole

    def _write(self, values: Sequence[SSAValue], scratch: SSAValue) -> None:
        """What a subgroup has found, each in the line of its number."""
        b = self.b
        subgroup, lane = b.insert(gpu.SubgroupIdOp()), b.insert(gpu.LaneIdOp())

        def write() -> None:
            for number, value in enumerate(values):
                b.store(value, scratch, [number, subgroup])

        b.when(b.compare("eq", lane, 0), write)

    def join_neighbours(self, value: SSAValue, join: Join, count: int) -> SSAValue:
        """The values of `count` neighbours in a subgroup as one, the same bits for each of them: a power of
        two, of which the first is a multiple. Both of a pair join the same two."""
        b = self.b
        width = b.constant(self.subgroup, i32)
        offset = count // 2
        while offset:
            shuffle = ShuffleOp("xor", value, b.constant(offset, i32), width)
            b.do(shuffle)
            value = join(value, shuffle.shuffled)
            offset //= 2
        return value

    def _through_memory(self, values: Sequence[SSAValue], join: Join) -> list[SSAValue]:
        b, thread = self.b, self.thread
        scratch = self._scratch_of(values[0].type, len(values), self.size)
        numbers = range(len(values))
        barrier(b)
        for number, value in enumerate(values):
            b.store(value, scratch, [number, thread])
        half = self.size // 2
        while half:
            barrier(b)

            def fold(half: int = half) -> None:
                for number in numbers:
                    other = b.load(scratch, [number, b.add(thread, half)])
                    mine = b.load(scratch, [number, thread])
                    b.store(join(mine, other), scratch, [number, thread])

            b.when(b.compare("ult", thread, half), fold)
            half //= 2
        barrier(b)
        return [b.load(scratch, [number, 0]) for number in numbers]

    def _scratch_of(self, kind: Attribute, values: int, count: int) -> SSAValue:
        """Shared memory for `count` parts of some values of a type, once for a kernel."""
        key = (kind, values)
        if key not in self._scratch:
            self._scratch[key] = shared_buffer(self.b, kind, [values, count], "joined")
        return self._scratch[key]
