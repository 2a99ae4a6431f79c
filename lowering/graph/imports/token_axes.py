"""Which axis of each value of a decoder holds its tokens, and whether an op mixes them.

A program may be given tokens in parts only if nothing but causal attention lets one token know of another:
each op here either works on every token by itself, or is named as one that a cache must change, or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    LoopOp,
    NameAttr,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    SizeAttr,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.ops.base import POINTWISE, OpError
from openinfer.dialects.ops.layout import permutation, slice_bounds
from openinfer.lowering.graph.imports.uses import Uses, kind, registered, settings_of
from openinfer.runtime.sizes import Size


class Mixes(Exception):
    """An op lets tokens know of each other, in a way that a cache cannot keep."""


@dataclass(eq=False)
class TokenAxes:
    """The token axis of every value, found in program order; `length` is the size of that axis."""

    uses: Uses
    length: Size
    axes: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    attentions: list[OpOp] = field(default_factory=list[OpOp])
    ropes: list[OpOp] = field(default_factory=list[OpOp])
    """Those that count positions from 0 themselves."""
    counts: list[OpOp] = field(default_factory=list[OpOp])
    """`iota` along the tokens."""
    tables: list[OpOp] = field(default_factory=list[OpOp])
    """Slices of tables with a row for each position."""
    refused: list[tuple[Operation, str]] = field(default_factory=list[tuple[Operation, str]])

    def declare(self, variable: VariableOp) -> None:
        """An input with one axis of tokens; what has none is the same for all."""
        places = [axis for axis, dim in enumerate(variable.sizes) if dim == self.length]
        name = variable.variable.data
        mentioned = any(self.length.names & dim.names for dim in variable.sizes)
        if variable.memory.data == "persistent":
            self.refused.append((variable, f"`{name}` is a state of its own"))
        if len(places) > 1 or (mentioned and not places):
            self.refused.append((variable, f"`{name}` has an axis that is not one of tokens"))
        self.axes[name] = places[0] if len(places) == 1 else None

    def visit(self, nodes: Sequence[Operation]) -> None:
        """The nodes of a body."""
        for node in nodes:
            try:
                self._visit(node)
            except Mixes as reason:
                self.refused.append((node, str(reason)))
                for ref in getattr(node, "writes", list[RefAttr])():
                    self.axes[ref.variable.data] = self._declared(ref)

    def of(self, operand: Attribute) -> int | None:
        return self.axes.get(operand.variable.data) if isinstance(operand, RefAttr) else None

    def _declared(self, ref: RefAttr) -> int | None:
        dims = self.uses.dims(ref) or ()
        return next((axis for axis, dim in enumerate(dims) if dim == self.length), None)

    def _visit(self, node: Operation) -> None:
        match node:
            case AssignOp() | ReturnOp():
                return
            case TransferOp():
                self._set(node.target, self.of(node.source))
            case LoopOp() | ScopeOp():
                if isinstance(node, LoopOp) and any(
                    self.length.names & bound.data.names for bound in (node.start, node.stop)
                ):
                    raise Mixes("a loop counts tokens")
                self.visit(list(node.body.block.ops))
            case OpOp():
                found = self._op(node)
                for ref, axis in zip(node.outputs, found):
                    self._set(ref, axis)
            case _:
                raise Mixes(
                    f"`{node.name.removeprefix('graph.')}` is nothing that a cache goes around"
                )

    def _set(self, ref: RefAttr, axis: int | None) -> None:
        name = ref.variable.data
        if self.axes.setdefault(name, axis) != axis:
            raise Mixes(f"`{name}` holds tokens along different axes")

    # Ops

    def _op(self, op: OpOp) -> list[int | None]:
        given, count = [self.of(one) for one in op.inputs], len(op.outputs.data)
        name, spec = kind(op), registered(op)
        if name in ("iota", "slice") and self._counts(op, given):
            return [self._declared(ref) for ref in op.outputs]
        if all(axis is None for axis in given):
            if self._names_length(op) and name not in ("expand",):
                raise Mixes(f"`{name}` is given the number of tokens")
            return [self._declared(ref) if name == "expand" else None for ref in op.outputs]
        if name not in ("reshape", "expand", "slice") and self._names_length(op):
            raise Mixes(f"`{name}` is given the number of tokens")
        rule = _RULES.get(name)
        if rule is not None:
            return rule(self, op, given)
        if spec is not None and spec.family in POINTWISE:
            return [self._aligned(op, given)] * count
        axis = given[0]
        if axis is None or any(one is not None for one in given[1:]):
            raise Mixes(f"`{name}` is not known to leave tokens apart")
        return [self._along_others(op, name, axis)] * count

    def _names_length(self, op: OpOp) -> bool:
        names = self.length.names
        return any(_mentions(value, names) for value in op.settings.data.values())

    def _counts(self, op: OpOp, given: Sequence[int | None]) -> bool:
        """Notes what says positions by itself."""
        result = self._declared(op.outputs.data[0])
        if result is None or any(axis is not None for axis in given):
            return False
        settings, dims = settings_of(op), self.uses.dims(op.outputs.data[0]) or ()
        if kind(op) == "iota":
            if settings["axis"] % len(dims) == result:
                self.counts.append(op)
            return True
        source = self.uses.spec(op.inputs.data[0])
        if source is None or source.rank != 2 or result != 0:
            return False
        bounds = slice_bounds(source, settings)
        if bounds[0] != (Size.of(0), self.length, 1) or bounds[1] != (
            Size.of(0),
            source.dims[1],
            1,
        ):
            return False
        self.tables.append(op)
        return True

    def _aligned(self, op: OpOp, given: Sequence[int | None]) -> int:
        """The axis of the result of an op that works element by element."""
        rank = len(self.uses.dims(op.outputs.data[0]) or ())
        found: set[int] = set()
        for operand, axis in zip(op.inputs, given):
            if axis is not None:
                found.add(axis + rank - len(self.uses.dims(operand) or ()))
        if len(found) != 1:
            raise Mixes(f"`{kind(op)}` meets tokens with tokens")
        return found.pop()

    def _along_others(self, op: OpOp, name: str, axis: int) -> int:
        """Ops along axes that are not that of tokens, in form of their settings."""
        rank = len(self.uses.dims(op.inputs.data[0]) or ())
        settings = settings_of(op)
        if name in ("layer_norm", "rms_norm"):
            if settings["axis"] % rank > axis:
                return axis
        elif name in (
            "softmax",
            "log_softmax",
            "sort",
            "argsort",
            "topk",
            "cumsum",
            "cumprod",
            "split",
        ):
            if settings["axis"] % rank != axis:
                return axis
        elif name.endswith("_axis") or name in ("any", "all", "var", "std", "logsumexp"):
            written = settings["axes"] if "axes" in settings else (settings["axis"],)
            along = {int(one) % rank for one in written}
            if axis not in along:
                return axis if settings["keepdims"] else axis - sum(one < axis for one in along)
        elif name in ("expert_linear", "one_hot") and axis < rank - 1:
            return axis
        raise Mixes(f"`{name}` is not known to leave tokens apart")


def _product(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    x, others, axis = axes.uses.dims(op.inputs.data[0]) or (), given[1:], given[0]
    turned = kind(op) == "matmul" and settings_of(op)["transpose_a"]
    if axis is None or axis == len(x) - 1 or turned or any(one is not None for one in others):
        raise Mixes(f"`{kind(op)}` sums over tokens")
    rank = len(axes.uses.dims(op.outputs.data[0]) or ())
    return [axis + rank - len(x)]


def _embedding(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    table, indices = given
    rank = len(axes.uses.dims(op.inputs.data[0]) or ())
    along = settings_of(op)["axis"] % rank
    if table is not None or indices is None:
        raise Mixes("`gather` chooses among tokens")
    return [indices + along]


def _reshape(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    (axis,) = given
    before = axes.uses.dims(op.inputs.data[0]) or ()
    after = axes.uses.dims(op.outputs.data[0]) or ()
    assert axis is not None
    front = _product_of(before[:axis])
    for place, dim in enumerate(after):
        if dim == axes.length and _product_of(after[:place]) == front:
            return [place]
    raise Mixes("`reshape` joins tokens with another axis")


def _product_of(dims: Sequence[Size]) -> Size:
    total = Size.of(1)
    for dim in dims:
        total = total * dim
    return total


def _transpose(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    rank = len(axes.uses.dims(op.inputs.data[0]) or ())
    assert given[0] is not None
    return [permutation(rank, settings_of(op)).index(given[0])]


def _slice(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    source, axis = axes.uses.spec(op.inputs.data[0]), given[0]
    assert source is not None
    assert axis is not None
    try:
        bounds = slice_bounds(source, settings_of(op))
    except OpError as error:
        raise Mixes(str(error)) from error
    low, high, step = bounds[axis]
    if (low, high, step) == (Size.of(0), axes.length, 1):
        return [axis]
    # The last token of a part is the last token so far.
    if (low, high, step) == (axes.length - 1, axes.length, 1):
        return [None]
    raise Mixes("`slice` cuts off tokens that are not the last one")


def _concat(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    rank = len(axes.uses.dims(op.outputs.data[0]) or ())
    if len({*given}) != 1 or settings_of(op)["axis"] % rank == given[0]:
        raise Mixes("`concat` puts something beside tokens")
    return [given[0]]


def _expand(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    return [axes._aligned(op, given)]  # pyright: ignore[reportPrivateUsage]


def _moved(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    """unsqueeze and squeeze"""
    return _reshape(axes, op, given)


def _rope(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    rank, settings = len(axes.uses.dims(op.inputs.data[0]) or ()), settings_of(op)
    apart = settings["layout"] == "blhd" and settings["heads"] is None
    if given[0] != rank - (3 if apart else 2):
        raise Mixes("`rope` turns along another axis than that of tokens")
    if len(op.inputs.data) == 1:
        axes.ropes.append(op)
    elif any(axis is None for axis in given[1:]):
        raise Mixes("`rope` has the same positions for all tokens")
    return [given[0]]


def _attention(axes: TokenAxes, op: OpOp, given: Sequence[int | None]) -> list[int | None]:
    settings = settings_of(op)
    rank = len(axes.uses.dims(op.inputs.data[0]) or ())
    if len(op.inputs.data) > 3:
        raise Mixes("attention has a mask that is more than causal")
    if not settings["causal"]:
        raise Mixes("attention is not causal: tokens see those behind them")
    if settings["heads"] is None or given[0] != rank - 2:
        raise Mixes("attention has its heads on an axis of their own")
    ranks = {len(axes.uses.dims(one) or ()) for one in op.inputs}
    if given != [given[0]] * 3 or ranks != {rank}:
        raise Mixes("attention sees something else than the tokens themselves")
    axes.attentions.append(op)
    return [given[0]]


_Rule = Callable[[TokenAxes, OpOp, Sequence["int | None"]], "list[int | None]"]
_RULES: dict[str, _Rule] = {
    "linear": _product,
    "matmul": _product,
    "gather": _embedding,
    "reshape": _reshape,
    "unsqueeze": _moved,
    "squeeze": _moved,
    "transpose": _transpose,
    "permute": _transpose,
    "slice": _slice,
    "concat": _concat,
    "expand": _expand,
    "rope": _rope,
    "attention": _attention,
}


def _mentions(value: Attribute, names: frozenset[str]) -> bool:
    if isinstance(value, SizeAttr):
        return bool(value.data.names & names)
    if isinstance(value, NameAttr):
        return value.data in names
    items = getattr(value, "data", ())
    return isinstance(items, tuple) and any(_mentions(one, names) for one in items)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
