"""Which ops leave the device: what is too small for a kernel of its own, and what the device cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import Demands, demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.hints import hints_of
from openinfer.lowering.interface import input_count
from openinfer.lowering.linalg.generic import REDUCTION
from openinfer.lowering.locations import location_of
from openinfer.lowering.places import PLACE, on_host, to_host
from openinfer.runtime.errors import UnsupportedError

SHOWN = 8
"""Ops that an error names."""
MOST_ELEMENTS = 256
"""Elements of a value that the host computes, where it has the operands, sooner than a device starts."""


@dataclass(frozen=True)
class ChoosePlaces(ModulePass):
    """Marks the ops of a step that run on the host and not on the device.

    Before:
        %n = linalg.generic … ins(%step : tensor<i32>) …
        %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>
    After:
        %n = linalg.generic … ins(%step : tensor<i32>) attrs = {openinfer.place = "host"} …
        %y = nn.softmax(%x) {axis = 1 : i64} : (tensor<64x64xf32>) -> tensor<64x64xf32>

    These are ops between scalars; chains of small values that begin at inputs, persistent values and
    other host ops; what gathers small values from inputs; elementwise ops of what the host has and only host
    ops read; ops whose node says `with { placement = "cpu" }`; and what the device does not support
    (`Demands.supports`). Indices and sizes are no ops of this kind: `@step` computes them.
    In a module with `openinfer.no_fallback` the last of these are an error, OI0738, that names them all.
    What is left to the host, it must support, or the compilation ends with OI0739.

    Requires: `nn-to-linalg`: from then on an op is a kernel, or becomes a part of one.
    Leaves: programs for a device without memory of its own, and functions other than `@step`, as they
        are.
    """

    name: ClassVar[str] = "choose-places"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        demands = demands_of(op)
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                places = _Places(function, demands, input_count(op))
                if demands.own_memory:
                    if Facts.of(op).no_fallback:
                        places.check()
                    places.choose()
                places.check_host()


class _Places:
    def __init__(self, step: FuncOp, demands: Demands, inputs: int) -> None:
        self.step = step
        self.kernels = [op for op in step.walk() if _is_kernel(op)]
        self.demands = demands
        self.given = set(step.body.block.args[:inputs])
        """What the host has from the start."""
        self.small = {a for a in self.given if _is_small(a)}
        """Values that the host has or computes, and that are small."""

    def check(self) -> None:
        """Raises UnsupportedError OI0738 where the host would run what the device does not support, and
        only for that reason."""
        small, refused = set(self.small), list[str]()
        for op in self.kernels:
            if self._begins_or_continues(op):
                self.small |= {value for value in op.results if _is_small(value)}
            elif not _is_asked(op) and (reason := self.demands.supports(op)) is not None:
                place = location_of(op)
                refused.append(f"{f'{place}: ' if place else ''}{op.name}: {reason}")
        self.small = small
        if refused:
            shown = refused[:SHOWN] + [f"and {len(refused) - SHOWN} more"] * (len(refused) > SHOWN)
            raise UnsupportedError(
                "OI0738",
                f"device {Facts.of(self.step).device} does not support what this program needs: "
                + "; ".join(shown),
                hint='leave out `--no-fallback` (`fallback=False`), or say `with { placement = "cpu" }` '
                "at these nodes",
            )

    def check_host(self) -> None:
        """Raises UnsupportedError OI0739 where the machine that an op is left to cannot compute it."""
        for op in self.kernels:
            host = on_host(op) or not self.demands.own_memory
            if host and (reason := demands_of(op).supports(op)) is not None:
                place = location_of(op)
                raise UnsupportedError(
                    "OI0739",
                    f"{f'{place}: ' if place else ''}{op.name}: {reason}",
                    hint="unpack the weight with a node of the program, or store it in another dtype",
                )

    def choose(self) -> None:
        for op in self.kernels:
            if self._leaves(op):
                to_host(op)
            if on_host(op):
                self.small |= {value for value in op.results if _is_small(value)}
        # What begins a chain is computed where it is used: nobody sends zeros to a device.
        for op in self.kernels:
            if on_host(op) and not _operands(op) and not self._must_leave(op):
                users = [use.operation for result in op.results for use in result.uses]
                if any(_is_kernel(user) and not on_host(user) for user in users):
                    del op.attributes[PLACE]
        self._follow()

    def _follow(self) -> None:
        """Sends elementwise ops of what the host has, and only host ops read, after their readers: nobody
        waits for the device then."""
        there = set(self.given)
        """What the host has, or would have where the elementwise ops behind it are the host's."""
        chains: list[Operation] = []
        for op in self.kernels:
            simple = _is_elementwise(op) and all(_source(v) in there for v in _operands(op))
            if simple and not on_host(op):
                chains.append(op)
            if simple or on_host(op):
                there |= set(op.results)
        for op in reversed(chains):
            readers = list(_readers(op))
            if readers and all(map(on_host, readers)):
                to_host(op)

    def _must_leave(self, op: Operation) -> bool:
        return _is_asked(op) or self.demands.supports(op) is not None

    def _leaves(self, op: Operation) -> bool:
        return self._must_leave(op) or self._begins_or_continues(op)

    def _begins_or_continues(self, op: Operation) -> bool:
        """Whether an op between scalars, or of a chain of small values, is the host's on every device."""
        operands = _operands(op)
        if all(_rank(value) == 0 for value in (*operands, *op.results)):
            return True
        if isinstance(op, nn.GatherOp) and _source(op.inputs[0]) in self.given:
            # A few elements of an input of any length.
            operands = [op.inputs[1]]
        return all(map(_is_small, op.results)) and all(map(self._is_there, operands))

    def _is_there(self, value: SSAValue) -> bool:
        """Whether the host has a small value."""
        return _source(value) in self.small


def _is_elementwise(op: Operation) -> bool:
    if isinstance(op, linalg.GenericOp):
        return REDUCTION not in op.iterator_types.data
    return isinstance(op, linalg.FillOp)


def _source(value: SSAValue) -> SSAValue:
    """What a value is another shape of."""
    while isinstance(value.owner, nn.ReshapeOp | nn.CastDimsOp):
        value = value.owner.operands[0]
    return value


def _readers(op: Operation) -> Iterator[Operation]:
    """The ops that read the results of an op, in any shape."""
    for result in op.results:
        for use in result.uses:
            if isinstance(use.operation, nn.ReshapeOp | nn.CastDimsOp):
                yield from _readers(use.operation)
            else:
                yield use.operation


def _is_kernel(op: Operation) -> bool:
    """Whether an op computes: the others give a value another name, shape or owner."""
    if isinstance(op, linalg.GenericOp | linalg.FillOp):
        return True
    return isinstance(op, nn.NNOp) and not isinstance(op, nn.ReshapeOp)


def _is_asked(op: Operation) -> bool:
    """Whether the program wants an op on the host."""
    return hints_of(op).get("placement") == StringAttr("cpu")


def _operands(op: Operation) -> list[SSAValue]:
    """The tensors that an op reads."""
    return [
        value
        for value in op.operands
        if isinstance(value.type, TensorType)
        and (isinstance(value, BlockArgument) or not isinstance(value.owner, EmptyOp))
    ]


def _rank(value: SSAValue) -> int:
    return len(nn.dims_of(value))


def _is_small(value: SSAValue) -> bool:
    extents = [dim.constant for dim in nn.dims_of(value)]
    return prod(MOST_ELEMENTS + 1 if e is None else e for e in extents) <= MOST_ELEMENTS
