"""Twins of LSTM and GRU: step by step in float64, rounded at the end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openinfer.lowering.reference.twins import Call, twin
from openinfer.runtime.storage import AnyArray

States = tuple[AnyArray, ...]
Cell = Callable[[AnyArray, AnyArray, States], States]
"""(input part, hidden part, old states) -> new states, the hidden one first."""


def _sigmoid(x: AnyArray) -> AnyArray:
    return 1 / (1 + np.exp(-x))


def _lstm_cell(fed: AnyArray, carried: AnyArray, states: States) -> States:
    i, f, g, o = np.split(fed + carried, 4, axis=-1)
    c = _sigmoid(f) * states[1] + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru_cell(fed: AnyArray, carried: AnyArray, states: States) -> States:
    r_fed, z_fed, n_fed = np.split(fed, 3, axis=-1)
    r_carried, z_carried, n_carried = np.split(carried, 3, axis=-1)
    z = _sigmoid(z_fed + z_carried)
    n = np.tanh(n_fed + _sigmoid(r_fed + r_carried) * n_carried)
    return ((1 - z) * n + z * states[0],)


def _layer(call: Call, cell: Cell, count: int) -> list[AnyArray]:
    """Outputs y and `count` last states, of as many as are asked for."""
    arrays = [call.exact(i) for i in range(len(call.inputs))]
    direction, first = call.settings["direction"], bool(call.settings["batch_first"])
    x, states = arrays[0], arrays[1 : 1 + count]
    w_ih, w_hh, *biases = arrays[1 + count :]
    batch_axis = 0 if first else 1
    batch = (x.shape[batch_axis],) if x.ndim == 3 else ()
    shape = (*w_hh.shape[:-2], *batch, w_hh.shape[-1])
    # One number stands for all elements of a state.
    states = [np.broadcast_to(state, shape) if state.ndim == 0 else state for state in states]
    if first and x.ndim == 3:
        x = np.swapaxes(x, 0, 1)
    if direction != "bidirectional":
        states = [state[None] for state in states]
        w_ih, w_hh, biases = w_ih[None], w_hh[None], [bias[None] for bias in biases]
    whole: list[AnyArray] = []
    last: list[States] = []
    for way in range(w_ih.shape[0]):
        backwards = direction == "reverse" or way == 1
        found, end = _one_way(
            x[::-1] if backwards else x,
            tuple(state[way] for state in states),
            (w_ih[way], w_hh[way]),
            [bias[way] for bias in biases],
            cell,
        )
        whole.append(found[::-1] if backwards else found)
        last.append(end)
    y = np.concatenate(whole, axis=-1)
    if first and y.ndim == 3:
        y = np.swapaxes(y, 0, 1)
    ends = [np.stack(rows) for rows in zip(*last)]
    if direction != "bidirectional":
        ends = [end[0] for end in ends]
    return [y, *ends][: len(call.outputs)]


def _one_way(
    x: AnyArray,
    states: States,
    weights: tuple[AnyArray, AnyArray],
    biases: list[AnyArray],
    cell: Cell,
) -> tuple[AnyArray, States]:
    """All hidden states in the order of reading, and the last states."""
    w_ih, w_hh = weights
    found = np.zeros((x.shape[0], *states[0].shape))
    for t in range(x.shape[0]):
        fed, carried = x[t] @ w_ih.T, states[0] @ w_hh.T
        if biases:
            fed = fed + biases[0]
        if len(biases) > 1:
            carried = carried + biases[1]
        states = cell(fed, carried, states)
        found[t] = states[0]
    return found, states


@twin("lstm")
def _lstm(call: Call) -> list[AnyArray]:
    return _layer(call, _lstm_cell, 2)


@twin("gru")
def _gru(call: Call) -> list[AnyArray]:
    return _layer(call, _gru_cell, 1)
