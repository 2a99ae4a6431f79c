"""Recurrent layers: LSTM and GRU over a sequence, with PyTorch's weights and gate order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    ArityError,
    OpDTypeError,
    OpSpec,
    Setting,
    ShapeError,
    TensorSpec,
    as_bool,
    as_int,
    dims_text,
)
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]
GATES = {"lstm": 4, "gru": 3}
STATES = {"lstm": ("h0", "c0"), "gru": ("h0",)}


def both_ways(settings: Settings) -> bool:
    """Whether the sequence is read in both directions."""
    return settings["direction"] == "bidirectional"


def _expect(name: str, operand: TensorSpec, dims: tuple[Size, ...], form: str) -> None:
    if operand.dtype not in FLOATS:
        raise OpDTypeError(
            f"{name} is {operand.dtype}",
            f"it takes floats: `op cast({operand.called(name)}, to=f32) >> …;`",
        )
    if operand.dims != dims:
        raise ShapeError(
            f"{name} has shape {dims_text(operand.dims)}, expected {dims_text(dims)}",
            f"{operand.called(name)} is {form}",
        )


def _layer(kind: str) -> Callable[[Sequence[TensorSpec], Settings], list[TensorSpec]]:
    gates, names = GATES[kind], STATES[kind]

    def infer(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
        outputs = as_int(settings["outputs"], "outputs")
        listed = ("y", "h", "c")[: 1 + len(names)]
        if not 1 <= outputs <= len(listed):
            raise ArityError(
                f"{kind} has {len(listed)} outputs, got {outputs}", f">> {', '.join(listed)}"
            )
        x, rest = operands[0], operands[1:]
        states, rest = rest[: len(names)], rest[len(names) :]
        w_ih, w_hh, biases = rest[0], rest[1], rest[2:]
        double, first = both_ways(settings), as_bool(settings["batch_first"], "batch_first")
        lead = (Size.of(2),) if double else ()
        form = "2, " if double else ""
        if x.rank not in (2, 3):
            raise ShapeError(f"x is {x}", "x is [T, B, I], or [T, I] without a batch")
        if w_hh.rank != len(lead) + 2:
            raise ShapeError(f"w_hh is {w_hh}", f"w_hh is [{form}{gates}*H, H]")
        hidden, width = w_hh.dims[-1], x.dims[-1]
        rows = hidden * gates
        batch_axis = 0 if first else 1
        batch = (x.dims[batch_axis],) if x.rank == 3 else ()
        time = x.dims[1 - batch_axis] if x.rank == 3 else x.dims[0]
        _expect("w_hh", w_hh, (*lead, rows, hidden), f"[{form}{gates}*H, H]")
        _expect("w_ih", w_ih, (*lead, rows, width), f"[{form}{gates}*H, I]")
        for name, bias in zip(("b_ih", "b_hh"), biases):
            _expect(name, bias, (*lead, rows), f"[{form}{gates}*H]")
        for name, state in zip(names, states):
            if state.rank == 0 and state.dtype in FLOATS:
                continue  # One number for all.
            _expect(name, state, (*lead, *batch, hidden), f"[{form}B, H], [{form}H] without batch")
        joined = hidden * 2 if double else hidden
        order = (*batch, time) if first else (time, *batch)
        found = [TensorSpec(x.dtype, (*order, joined))]
        found += [TensorSpec(x.dtype, (*lead, *batch, hidden)) for _ in names]
        return found[:outputs]

    return infer


_SETTINGS = (
    Setting(
        "direction",
        "string",
        "forward",
        "how the sequence is read",
        (),
        ("forward", "reverse", "bidirectional"),
    ),
    Setting("batch_first", "bool", False, "x and y are [B, T, …] instead of [T, B, …]"),
)
_COMMON = (
    "x is `[T, B, I]` or `[T, I]`, states `[B, H]` or `[H]`, or a number for all, as 0. Outputs: "
    "y `[T, B, H]`, all hidden states in the order of x, then the last {last}. With direction "
    "bidirectional, weights, biases and states have a leading axis of 2 (forward, reverse; of two tensors as "
    "PyTorch has them `stack(w, w_reverse)`) and y `[T, B, 2*H]` holds both."
)

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "lstm",
        ("x", "h0", "c0", "w_ih", "w_hh"),
        _layer("lstm"),
        "One LSTM layer. Gates i, f, g, o are the parts of `w_ih @ x + b_ih + w_hh @ h + b_hh` (w_ih "
        "`[4*H, I]`, w_hh `[4*H, H]`); `c = sigmoid(f) * c + sigmoid(i) * tanh(g)`, "
        "`h = sigmoid(o) * tanh(c)`. " + _COMMON.format(last="h and c"),
        "recurrent",
        FLOATS,
        _SETTINGS,
        optional=("b_ih", "b_hh"),
        outputs=None,
        filled=STATES["lstm"],
    ),
    OpSpec(
        "gru",
        ("x", "h0", "w_ih", "w_hh"),
        _layer("gru"),
        "One GRU layer. Gates r, z, n are the parts of `a = w_ih @ x + b_ih` and "
        "`b = w_hh @ h + b_hh` (w_ih `[3*H, I]`, w_hh `[3*H, H]`); "
        "`r, z = sigmoid(a + b)`, `n = tanh(a + r * b)`, `h = (1 - z) * n + z * h`. "
        + _COMMON.format(last="h"),
        "recurrent",
        FLOATS,
        _SETTINGS,
        optional=("b_ih", "b_hh"),
        outputs=None,
        filled=STATES["gru"],
    ),
)
