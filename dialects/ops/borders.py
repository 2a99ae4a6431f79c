"""Ops that add borders or turn axes round: pad and flip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    EVERYTHING,
    REQUIRED,
    STORED,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    as_sizes,
    normal_axes,
    normal_axis,
)
from openinfer.dialects.ops.elementwise import check_scalars
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]

PAD_MODES = ("constant", "edge", "reflect")


def pad_widths(x: TensorSpec, settings: Settings) -> list[tuple[Size, Size]]:
    """How many elements are added before and behind each axis of x.

    Raises SettingError or ShapeError for what is provably wrong; the rest is checked when it runs.
    """
    pads = as_sizes(settings["pads"], "pads")
    given = settings["axes"]
    axes: Sequence[int] = range(x.rank)
    if given is not None:
        axes = [normal_axis(a, x.rank, "axes") for a in as_sizes(given, "axes")]
        if len(set(axes)) != len(axes):
            raise SettingError("axes", "axes names one axis twice")
    if len(pads) != 2 * len(axes):
        raise SettingError(
            "pads",
            f"pads has {len(pads)} entries for {len(axes)} axes",
            "first how many before each axis, then how many behind each: twice the axes",
        )
    widths = [(Size.of(0), Size.of(0))] * x.rank
    for number, axis in enumerate(axes):
        before, behind = pads[number], pads[number + len(axes)]
        for pad in (before, behind):
            if pad.constant is not None and pad.constant < 0:
                raise SettingError("pads", f"pads holds {pad}", "use `slice` to cut")
            _check_source(x, axis, pad, str(settings["mode"]))
        widths[axis] = (before, behind)
    return widths


def _check_source(x: TensorSpec, axis: int, pad: Size, mode: str) -> None:
    """What is provable: the border has elements to be made of."""
    needed = Size.of(1) if mode == "edge" else pad + 1
    room = (x.dims[axis] - needed).constant
    if pad.constant != 0 and mode != "constant" and room is not None and room < 0:
        raise ShapeError(
            f'axis {axis} of {x} has too few elements for a border of {pad} with mode="{mode}"',
            "edge needs 1 element, reflect more elements than the border has",
        )


def _pad(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    check_scalars(settings, x.dtype)
    widths = pad_widths(x, settings)
    return [TensorSpec(x.dtype, tuple(a + n + b for n, (a, b) in zip(x.dims, widths)))]


def flipped_axes(rank: int, settings: Settings) -> tuple[int, ...]:
    """The axes that `flip` turns round: all of them unless some are named."""
    axes = settings["axes"]
    return tuple(range(rank)) if axes is None else normal_axes(axes, rank)


def _flip(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    (x,) = operands
    flipped_axes(x.rank, settings)
    return [x]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "pad",
        ("x",),
        _pad,
        "x with borders: of `value`, of its outermost elements (edge), or of the elements next to "
        "them in mirrored order (reflect).",
        "layout",
        EVERYTHING,
        (
            Setting("pads", "ints", REQUIRED, "how many before each axis, then behind each"),
            Setting(
                "mode", "string", "constant", "what the borders are made of", choices=PAD_MODES
            ),
            Setting("value", "number", 0, "the element of a constant border"),
            Setting("axes", "ints", None, "the axes that pads is about; default all"),
        ),
    ),
    OpSpec(
        "flip",
        ("x",),
        _flip,
        "The elements of some axes in reverse order.",
        "layout",
        STORED,
        (Setting("axes", "ints", None, "which; default all", ("axis", "dims")),),
    ),
)
