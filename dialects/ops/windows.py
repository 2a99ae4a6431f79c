"""Windows over spatial axes: kernel, stride, padding and dilation, and how many windows fit.

Shared by convolution and pooling. Settings give one int for all axes or one for each; padding also
two for each axis, before and after: `[top, bottom, left, right]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import Setting, SettingError, ShapeError, as_size
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

STRIDE = Setting("stride", "ints", 1, "distance of neighbouring windows", ("strides",))
DILATION = Setting(
    "dilation", "ints", 1, "distance of neighbouring kernel elements", ("dilations",)
)
PADDING = Setting(
    "padding",
    "padding",
    0,
    'added around x: one int, one for each axis, or two for each (before, after); "valid" is 0, '
    '"same" keeps the size (stride 1)',
    ("pads",),
    ("valid", "same"),
)


@dataclass(frozen=True)
class Window:
    """How windows lie along one axis."""

    kernel: Size
    stride: Size
    before: Size
    after: Size
    dilation: Size

    @property
    def reach(self) -> Size:
        """From the first to the last element of a window, both counted."""
        return self.dilation * (self.kernel - 1) + 1

    def padded(self, extent: Size) -> Size:
        return extent + self.before + self.after

    def count(self, extent: Size, *, ceil: bool = False) -> Size:
        """How many windows fit; with `ceil` also one that reaches over the end, if it starts
        before the padding behind the end."""
        windows = (self.padded(extent) - self.needed(ceil=ceil)) // self.stride + 1
        if not ceil:
            return windows
        starts = (extent + self.before + self.stride - 1) // self.stride
        return Size.min(windows, starts)

    def needed(self, *, ceil: bool = False) -> Size:
        """The least padded extent that one window fits in; with `ceil` it may reach over the end."""
        return self.reach - (self.stride - 1) if ceil else self.reach


def per_axis(value: object, setting: str, axes: int) -> tuple[Size, ...]:
    """One size for each spatial axis. Raises SettingError."""
    items = value if isinstance(value, tuple) else (value,)
    sizes = tuple(as_size(item, setting) for item in items)
    if len(sizes) == 1:
        return sizes * axes
    if len(sizes) != axes:
        raise SettingError(
            setting,
            f"{setting} has {len(sizes)} entries for {axes} spatial ax{'is' if axes == 1 else 'es'}",
            "give one for all axes, or one for each",
        )
    return sizes


def at_least(sizes: Sequence[Size], least: int, setting: str) -> None:
    """Raises SettingError for a size that is known to be smaller."""
    for size in sizes:
        if size.constant is not None and size.constant < least:
            raise SettingError(
                setting,
                f"{setting}={size} is {'negative' if least == 0 else 'not positive'}",
                f"use {least} or more",
            )


def paddings(
    value: object, kernel: Sequence[Size], stride: Sequence[Size], dilation: Sequence[Size]
) -> tuple[tuple[Size, Size], ...]:
    """(before, after) for each axis. Raises SettingError."""
    axes = len(kernel)
    zero = Size.of(0)
    if value == "valid":
        return ((zero, zero),) * axes
    if value == "same":
        if any(size.constant != 1 for size in stride):
            raise SettingError(
                "padding",
                'padding="same" needs stride 1: with a larger one no padding keeps the size',
                "give the padding as numbers",
            )
        totals = [d * (k - 1) for k, d in zip(kernel, dilation)]
        # The odd one goes behind the end.
        return tuple((total // 2, total - total // 2) for total in totals)
    items = value if isinstance(value, tuple) else (value,)
    sizes = tuple(as_size(item, "padding") for item in items)
    at_least(sizes, 0, "padding")
    if len(sizes) == 2 * axes:
        return tuple((sizes[2 * axis], sizes[2 * axis + 1]) for axis in range(axes))
    return tuple((size, size) for size in per_axis(sizes, "padding", axes))


def windows_of(kernel: Sequence[Size], settings: Mapping[str, object]) -> tuple[Window, ...]:
    """The window of each spatial axis for a kernel of these sizes.

    Raises SettingError for a stride, dilation or padding that no axis can have.
    """
    axes = len(kernel)
    stride = per_axis(settings["stride"], "stride", axes)
    dilation = per_axis(settings.get("dilation", 1), "dilation", axes)
    at_least(stride, 1, "stride")
    at_least(dilation, 1, "dilation")
    sides = paddings(settings["padding"], kernel, stride, dilation)
    return tuple(
        Window(k, s, before, after, d)
        for k, s, (before, after), d in zip(kernel, stride, sides, dilation)
    )


def check_reach(window: Window, extent: Size, what: str, *, ceil: bool = False) -> None:
    """Raises ShapeError when a window is known to be larger than what it lies in."""
    if window.kernel.constant is not None and window.kernel.constant < 1:
        raise ShapeError(f"{what} has a kernel of size {window.kernel}", "use 1 or more")
    room = (window.padded(extent) - window.needed(ceil=ceil)).constant
    if room is not None and room < 0:
        padded = f" ({window.padded(extent)} with padding)"
        raise ShapeError(
            f"the kernel reaches over {window.reach} elements but {what} has {extent}"
            f"{padded if window.padded(extent) != extent else ''}",
            "use a smaller kernel or dilation, or more padding",
        )
