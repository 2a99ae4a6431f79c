"""Settings that name a variable: what may stand there, and how its number enters the op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.opset import NameRef, OpSpec, Setting, meeting_dtypes
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.storage import value_range


def number_dtype(spec: OpSpec, dtypes: Sequence[str], given: Mapping[str, object]) -> str:
    """The dtype whose range the numbers of an op's settings are brought into."""
    setting = spec.setting("dtype")
    if spec.name in ("one_hot", "quantize") and setting is not None:
        names = (setting.name, *setting.aliases)
        value = next((given[name] for name in names if name in given), setting.default)
        name = str(value.name if isinstance(value, NameRef) else value)
        return ALIASES.get(name, name)
    return meeting_dtypes(spec, dtypes)[0] if dtypes else "f64"


def refused(setting: Setting, dtype: str, computed: str) -> str | None:
    """What a setting needs instead of a variable of `dtype`, or None when it may be used."""
    row = DTYPES[dtype]
    if setting.kind == "string":
        return "a string"
    if setting.kind in ("int", "ints", "size", "padding") and not row.is_integer:
        return "an integer"
    if setting.kind == "bool" and not (row.is_integer or row.kind == "bool"):
        return "a bool or an integer"
    if setting.kind == "number" and row.is_float and not DTYPES[computed].is_float:
        return f"an integer, for the op computes in {computed}"
    return None


def converted(setting: Setting, value: object, computed: str) -> object:
    """The number of a variable as `op cast` would bring it into the dtype of the op."""
    if setting.kind == "bool":
        return bool(value)
    if isinstance(value, bool):
        value = int(value)
    whole = setting.kind == "number" or setting.name == "zero_point"
    row = DTYPES.get(computed)
    if not whole or row is None or row.is_float or not isinstance(value, int):
        return value
    if row.kind == "bool":
        return int(value != 0)
    bounds = value_range(row)
    assert bounds is not None
    return min(max(value, bounds[0]), bounds[1])
