"""Settings that name metadata inside of a list or an expression, or that are an array of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openinfer.dialects.opset import NameRef, OpSpec
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import Tensor

Metadata = Callable[[str], object]
"""What a name means as metadata: a number, a text, a tuple or a Tensor; None when something else of
the program has that name, or nothing has."""

_LISTS = ("ints", "numbers", "padding")
MOST = 64
"""Elements of an array that may be a setting; no list of a setting is as long."""


def with_metadata(
    spec: OpSpec | None, settings: Mapping[str, object], metadata: Metadata
) -> dict[str, object]:
    """The settings with metadata in place of its names, but for settings that are one name alone.

    Those stay: what a name alone means depends on the setting. A list setting takes an array.
    """

    def filled(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(filled(item) for item in value)
        if isinstance(value, NameRef):
            found = metadata(value.name)
            return found if _is_number(found) else value
        if isinstance(value, Size):
            named = {name: metadata(name) for name in value.names}
            whole = {n: v for n, v in named.items() if isinstance(v, int) and _is_number(v)}
            try:
                size = value.substitute(whole)
            except ZeroDivisionError:
                return value
            return size if size.constant is None else size.constant
        return value

    found: dict[str, object] = {}
    for name, value in settings.items():
        setting = spec.setting(name) if spec else None
        kind = setting.kind if setting else ""
        if kind in ("dtype", "dtypes"):
            found[name] = value
        elif isinstance(value, NameRef):
            items = as_list(metadata(value.name)) if kind in _LISTS else None
            found[name] = value if items is None else items
        else:
            found[name] = filled(value)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_list(value: object) -> tuple[object, ...] | None:
    """An array of metadata as a list of numbers; None when it is none, or no short one."""
    if isinstance(value, tuple):
        return value
    if not isinstance(value, Tensor) or len(value.shape) != 1 or value.size > MOST:
        return None
    if not (value.dtype.is_integer or value.dtype.is_float):
        return None
    return tuple(value.values().tolist())
