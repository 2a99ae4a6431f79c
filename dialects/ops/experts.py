"""Layers of a mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    INTEGERS,
    OpDTypeError,
    OpSpec,
    ShapeError,
    TensorSpec,
    promote_floats,
)


def shares_rows(x_rank: int, experts_rank: int) -> bool:
    """Whether all experts of a position read one row of x, instead of one each."""
    return x_rank == experts_rank


def _expert_linear(
    operands: Sequence[TensorSpec], settings: Mapping[str, object]
) -> list[TensorSpec]:
    x, w, experts = operands
    if experts.dtype not in INTEGERS:
        raise OpDTypeError(f"the experts are {experts.dtype}", "they are chosen by integers")
    if w.dtype not in FLOATS:
        raise OpDTypeError(f"w is {w.dtype}", "use a float dtype")
    if w.rank != 3:
        raise ShapeError(f"w is {w}", "w is [experts, out, in], one matrix for each expert")
    if w.dims[0].constant == 0:
        raise ShapeError(f"w {w} has no experts", "w is [experts, out, in]")
    lead = experts.dims[:-1] if shares_rows(x.rank, experts.rank) else experts.dims
    if not experts.rank or x.dims[:-1] != lead or not x.rank:
        raise ShapeError(
            f"x is {x} and the experts are {experts}",
            "experts are [..., k], k for each position; x is [..., in], or [..., k, in] with a row for each",
        )
    if x.dims[-1] != w.dims[2]:
        raise ShapeError(
            f"x {x} has {x.dims[-1]} features, the experts of w {w} take {w.dims[2]}",
            "w is [experts, out, in]",
        )
    return [TensorSpec(promote_floats([x.dtype, w.dtype]), (*experts.dims, w.dims[1]))]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "expert_linear",
        ("x", "w", "experts"),
        _expert_linear,
        "`x @ w[e]^T` for each expert e that is chosen for a position: w is `[experts, out, in]`, the "
        "indices are `[..., k]`, the result `[..., k, out]`. x is `[..., in]`, or `[..., k, in]` with a row "
        "for each choice. Only the chosen matrices are read, each once for all its rows; an index outside "
        "`0..experts` is an error.",
        "structured",
        FLOATS,
    ),
)
