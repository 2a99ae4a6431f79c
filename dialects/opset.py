"""THE op registry: the only place that lists the ops, with operands, settings, types and docs.

The rows stand in `dialects/ops/`, one file per family. What an op computes is said by its NumPy
twin in `lowering/reference/`; every other implementation must agree with that twin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openinfer.dialects.foreign_ops import foreign_op
from openinfer.dialects.foreign_settings import foreign_setting
from openinfer.dialects.ops import (
    activations,
    adaptive_pooling,
    arrangement,
    attention,
    borders,
    convolution,
    einsum,
    element_indexing,
    elementwise,
    experts,
    indexing,
    layout,
    normalise,
    pooling,
    quantization,
    random,
    recurrent,
    reduce,
    rotary,
    sampling,
    signal,
    statistics,
    structured,
)
from openinfer.dialects.ops.base import (
    REQUIRED,
    SIZE_KINDS,
    ArityError,
    NameRef,
    OpDTypeError,
    OpError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    accepts,
    accumulation,
    broadcast_dims,
    literal_dtype,
    literal_dtypes,
    meeting_dtypes,
    promote_floats,
)
from openinfer.runtime import suggest
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.sizes import Size

__all__ = [
    "REQUIRED",
    "SIZE_KINDS",
    "ArityError",
    "NameRef",
    "OpDTypeError",
    "OpError",
    "OpSpec",
    "Setting",
    "SettingError",
    "ShapeError",
    "TensorSpec",
    "accepts",
    "accumulation",
    "advice",
    "broadcast_dims",
    "cast_advice",
    "check_operands",
    "find",
    "infer_outputs",
    "literal_dtype",
    "literal_dtypes",
    "meeting_dtypes",
    "names",
    "nearest",
    "promote_floats",
    "resolve_settings",
    "setting_advice",
]

_FAMILIES = (
    *(elementwise, activations, arrangement, reduce, statistics, normalise, structured, experts),
    *(
        attention,
        rotary,
        layout,
        borders,
        indexing,
        element_indexing,
        einsum,
        convolution,
        pooling,
        adaptive_pooling,
        sampling,
    ),
    *(recurrent, signal, quantization, random),
)
_SPECS: dict[str, OpSpec] = {spec.name: spec for family in _FAMILIES for spec in family.SPECS}
_ALIASES: dict[str, str] = {alias: spec.name for spec in _SPECS.values() for alias in spec.aliases}


def find(name: str) -> OpSpec | None:
    """The op called `name` (aliases included), or None."""
    return _SPECS.get(_ALIASES.get(name, name))


def names() -> tuple[str, ...]:
    """All op names without aliases, in the order of the documentation."""
    return tuple(_SPECS)


def nearest(name: str) -> str | None:
    """The known op name or alias that is near `name`, if any; none for what others call an op."""
    if foreign_op(name) is not None:
        return None
    found = suggest.nearest(name, [*_SPECS, *_ALIASES])
    return found[0] if found else None


def advice(name: str) -> str | None:
    """What to write for an op that is not there: as another framework calls it, else a near name."""
    row = foreign_op(name)
    if row is not None:
        return row.advice
    near = nearest(name)
    return f"did you mean `{near}`?" if near else None


def infer_outputs(
    spec: OpSpec,
    operands: Sequence[TensorSpec],
    given: Mapping[str, object] | None = None,
    outputs: int = 1,
    declared: Sequence[TensorSpec] | None = None,
) -> list[TensorSpec]:
    """Types of the results of `spec` on `operands` with the settings as written.

    `declared` is what the outputs are declared as, for the ops whose shape only that says.

    Raises ArityError, OpDTypeError, SettingError or ShapeError, all of them OpError.
    """
    settings = resolve_settings(spec, given or {})
    operands = met(spec, operands)
    check_operands(spec, operands, outputs)
    types = tuple(declared) if declared is not None else None
    return spec.infer(operands, {**settings, "outputs": outputs, "declared": types})


def met(spec: OpSpec, operands: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The operands as the op takes them, mixed floats in the dtype where they meet."""
    dtypes = meeting_dtypes(spec, [operand.dtype for operand in operands])
    return [
        operand if operand.dtype == dtype else replace(operand, dtype=dtype)
        for operand, dtype in zip(operands, dtypes)
    ]


def check_operands(spec: OpSpec, operands: Sequence[TensorSpec], outputs: int = 1) -> None:
    """Number of operands and outputs, dtype of operand 0. Raises ArityError, OpDTypeError."""
    least = len(spec.operands)
    most = None if spec.variadic else least + len(spec.optional)
    if len(operands) < least or (most is not None and len(operands) > most):
        listed = [*spec.operands, *(f"[{name}]" for name in spec.optional)]
        raise ArityError(
            f"{spec.name} takes {_count_text(least, most)}, got {len(operands)}",
            f"{spec.name}({', '.join(listed)}{', …' if spec.variadic else ''})",
        )
    if spec.outputs is not None and outputs != spec.outputs:
        raise ArityError(f"{spec.name} has {spec.outputs} output, got {outputs}")
    if operands and spec.operands and operands[0].dtype not in spec.dtypes:
        raise OpDTypeError(
            f"{spec.name} does not take {operands[0].dtype}",
            f"it takes {', '.join(spec.dtypes)}; {cast_advice(spec, operands[0].called('x'))}",
        )


def cast_advice(spec: OpSpec, operand: str) -> str:
    """How a first operand that an op does not take becomes one, by its name in the program."""
    wanted = next((name for name in ("f32", "i32", "bool") if name in spec.dtypes), spec.dtypes[0])
    return f"`op cast({operand}, to={wanted}) >> …;` first"


def _count_text(least: int, most: int | None) -> str:
    if most is None:
        return f"{least} operands or more"
    if most == least:
        return f"{least} operand{'' if least == 1 else 's'}"
    return f"{least} to {most} operands"


def resolve_settings(spec: OpSpec, given: Mapping[str, object]) -> dict[str, object]:
    """Every setting of `spec` by its own name: the given value, checked, or the default.

    Values are int, float, bool, str, Size, lists of these, or NameRef for a bare name. A NameRef is
    turned into a dtype or a size where the setting wants one; elsewhere it stays, for the caller to
    look up (a scalar variable or a metadata entry). Raises SettingError.
    """
    resolved: dict[str, object] = {}
    for name, value in given.items():
        setting = spec.setting(name)
        if setting is None:
            raise SettingError(name, f"{spec.name} has no setting {name!r}", _listing(spec, name))
        if setting.name in resolved:
            raise SettingError(name, f"{setting.name} is given twice", f"{name} is an alias of it")
        resolved[setting.name] = _check_kind(spec, setting, value)
    for setting in spec.settings:
        if setting.name in resolved:
            continue
        if setting.required:
            raise SettingError(
                setting.name,
                f"{spec.name} needs the setting {setting.name}: {setting.doc}",
                _listing(spec),
            )
        resolved[setting.name] = setting.default
    return resolved


def _listing(spec: OpSpec, wrong: str | None = None) -> str:
    guess = setting_advice(spec, wrong) if wrong else ""
    if not spec.settings:
        return f"{guess}{spec.name} has no settings"
    listed = ", ".join(
        f"{s.name} ({s.kind}{', required' if s.required else ''})" for s in spec.settings
    )
    return f"{guess}settings of {spec.name}: {listed}"


def setting_advice(spec: OpSpec, wrong: str) -> str:
    """What to write for a setting that the op lacks, as others call it or as a near name, for a
    sentence that goes on behind it; empty without any."""
    foreign = foreign_setting(wrong, spec)
    if foreign is not None:
        return f"{foreign}; "
    known = [name for s in spec.settings for name in (s.name, *s.aliases)]
    return suggest.did_you_mean(wrong, known, quote="`")


def _check_kind(spec: OpSpec, setting: Setting, value: object) -> object:
    kind = setting.kind
    if kind == "dtype":
        return _dtype(spec, setting, value)
    if kind == "dtypes":
        items = value if isinstance(value, list | tuple) else (value, value)
        found = tuple(_dtype(spec, setting, item) for item in items)
        if len(found) not in (1, 2):
            raise _bad(spec, setting, value)
        return found if len(found) == 2 else found * 2
    if kind == "ints":
        items = value if isinstance(value, list | tuple) else (value,)
        return tuple(_size(spec, setting, item) for item in items)
    if kind == "numbers":
        items = value if isinstance(value, list | tuple) else (value,)
        return tuple(_number(spec, setting, item) for item in items)
    if kind == "padding" and not isinstance(value, str):
        items = value if isinstance(value, list | tuple) else (value,)
        return tuple(_size(spec, setting, item) for item in items)
    if kind == "size":
        return _size(spec, setting, value)
    if isinstance(value, NameRef):
        return value
    if isinstance(value, Size) and value.constant is not None:
        value = value.constant
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": number,
        "number": number,
        "bool": isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)),
        "string": isinstance(value, str),
        "padding": isinstance(value, str),
    }[kind]
    # `fill(x, value=true)` for a bool tensor.
    if kind == "number" and setting.name == "value" and isinstance(value, bool):
        return int(value)
    if not fits or (setting.choices and value not in setting.choices):
        raise _bad(spec, setting, value)
    if kind == "bool":
        return bool(value)
    if kind == "float" and isinstance(value, int):
        return float(value)
    return value


def _dtype(spec: OpSpec, setting: Setting, value: object) -> str:
    name = value.name if isinstance(value, NameRef) else value
    if not isinstance(name, str) or ALIASES.get(name, name) not in DTYPES:
        raise _bad(spec, setting, value)
    return ALIASES.get(name, name)


def _size(spec: OpSpec, setting: Setting, value: object) -> int | Size:
    if isinstance(value, NameRef):
        return Size.name(value.name)
    if isinstance(value, Size):
        return value.constant if value.constant is not None else value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise _bad(spec, setting, value)


def _number(spec: OpSpec, setting: Setting, value: object) -> object:
    """An int or float, or what stands for one: a name, or a size that has a value later."""
    if isinstance(value, NameRef):
        return Size.name(value.name)
    if isinstance(value, int | float | Size) and not isinstance(value, bool):
        return value
    raise _bad(spec, setting, value)


def _bad(spec: OpSpec, setting: Setting, value: object) -> SettingError:
    expected = " or ".join(f'"{c}"' for c in setting.choices) or {
        "int": "an integer",
        "float": "a number",
        "number": "a number",
        "bool": "true or false",
        "string": "a string",
        "dtype": "a dtype name",
        "size": "an integer or a size",
        "ints": "a list of integers or sizes",
        "numbers": "a number or a list of numbers",
        "dtypes": "a dtype name, or a list of two",
    }.get(setting.kind, setting.kind)
    if setting.kind == "padding":
        expected += ", or a list of integers or sizes"
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return SettingError(
        setting.name,
        f"{spec.name}: {setting.name} must be {expected}, got {shown}",
        _listing(spec),
    )
