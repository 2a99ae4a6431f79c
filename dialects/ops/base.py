"""What a registry row is made of: operand types, settings, the errors of a rule, dtype classes.

Pure Python and light: the runtime never needs it, the frontend and every lowering do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size, SizeLike

FLOATS: Final = ("f64", "f32", "f16", "bf16", "f8", "f8e4m3")
SIGNED: Final = ("i64", "i32", "i16", "i8", "i4", "i2", "i1")
UNSIGNED: Final = ("u64", "u32", "u16", "u8", "u4", "u2", "u1")
INTEGERS: Final = SIGNED + UNSIGNED
NUMBERS: Final = FLOATS + INTEGERS
SIGNED_NUMBERS: Final = FLOATS + SIGNED
EVERYTHING: Final = (*NUMBERS, "bool", "bitset")
TERNARY: Final = ("t2", "t1")
STORED: Final = (*EVERYTHING, *TERNARY)
"""What ops take that move, choose, compare or convert elements: ternary values have no arithmetic."""


class OpError(ValueError):
    """An op was written in a way that its rule refuses; `hint` says how to mend it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ArityError(OpError):
    """Too few or too many operands or outputs."""


class ShapeError(OpError):
    """Shapes that do not fit; the message shows both sides."""


class OpDTypeError(OpError):
    """A dtype that the op does not take, or two that do not fit."""


class SettingError(OpError):
    """An unknown, missing or ill-typed setting; `setting` is its name."""

    def __init__(self, setting: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.setting = setting


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of a setting that has none."""


@dataclass(frozen=True)
class NameRef:
    """A setting written as a bare name: a dtype, a size, a scalar variable or a metadata entry."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class TensorSpec:
    """The dtype and symbolic shape of one operand or result."""

    dtype: str
    dims: tuple[Size, ...]
    name: str = field(default="", compare=False)
    """What the program calls an operand, for hints; empty where that is not known."""

    @staticmethod
    def of(dtype: str, dims: Sequence[SizeLike] = ()) -> TensorSpec:
        return TensorSpec(dtype, tuple(Size.of(d) for d in dims))

    def called(self, name: str) -> str:
        """What a hint calls the operand: as the program does, else as the op does."""
        return self.name or name

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def count(self) -> Size:
        """The number of elements."""
        return product(self.dims)

    def __str__(self) -> str:
        return self.dtype + dims_text(self.dims)


SIZE_KINDS: Final = ("size", "ints", "padding")
"""The kinds of settings whose numbers are sizes, or are added to some."""

POINTWISE: Final = ("elementwise", "compare")
"""The families of ops that compute each element by itself."""

Infer = Callable[[Sequence[TensorSpec], Mapping[str, object]], list[TensorSpec]]


@dataclass(frozen=True)
class Setting:
    """One named parameter of an op.

    `kind`: "int", "float", "number" (int or float), "bool", "string", "dtype", "size" (an int, or a
    `Size` over names), "ints" (a tuple of ints and `Size`s), "numbers" (a tuple of ints and floats),
    "padding" (as "ints", or one of `choices`), "dtypes" (one or a tuple of names).
    """

    name: str
    kind: str
    default: object
    doc: str
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """The legal values of a "string" setting; empty for any. Those of "padding" besides ints."""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True)
class OpSpec:
    """One op: everything that a level needs to know of it, except how it is computed."""

    name: str
    operands: tuple[str, ...]
    infer: Infer
    """Types of the results from the operand types and the *resolved* settings. For an op with any
    number of outputs the settings hold their number under "outputs", and for one that has the
    shape of its output the declared types under "declared", None where there are none. A declared
    output may have another float dtype than the inferred one: the op computes wide and rounds once
    (`accepts`)."""
    doc: str
    family: str
    dtypes: tuple[str, ...] = EVERYTHING
    """The dtypes that operand 0 may have (for ops without operands: their result)."""
    settings: tuple[Setting, ...] = ()
    optional: tuple[str, ...] = ()
    """Operands that may be absent, after the required ones."""
    other_names: tuple[tuple[str, int], ...] = ()
    """Names and places of operands that have another meaning in another form of the op."""
    variadic: bool = False
    """True when the last operand may be repeated."""
    outputs: int | None = 1
    """The number of results; None: as many as are written."""
    broadcast: bool = False
    inplace: bool = False
    """True when the result may overwrite an operand of the same type, element by element."""
    aliases: tuple[str, ...] = ()
    expensive: bool = False
    """Whether computing an element again costs more than reading it: functions, powers, roots."""
    meeting: tuple[str, ...] = ()
    """The operands that have one dtype, floats after they met in it; of pointwise ops all but conditions."""
    filled: tuple[str, ...] = ()
    """Operands that one number may stand for: of the dtype of the first operand, for all elements."""
    literals: tuple[tuple[str, str], ...] = ()
    """Operands whose literals have a dtype of their own, with it."""
    partial: bool = False
    """Whether some integer operands have no result, a division by 0 say: what is moved may fail then."""

    def meets(self, place: int) -> bool:
        """Whether an operand, if it is a float, is brought into one dtype with others of another one."""
        names = (*self.operands, *self.optional)
        name = names[min(place, len(names) - 1)] if names else ""
        if self.family in POINTWISE:
            return name != "condition"
        return name in self.meeting

    def place(self, name: str) -> int | None:
        """Which operand is called `name`; None for no operand."""
        names = (*self.operands, *self.optional)
        return names.index(name) if name in names else dict(self.other_names).get(name)

    def setting(self, name: str) -> Setting | None:
        """The setting called `name`, by name or alias."""
        for setting in self.settings:
            if name == setting.name or name in setting.aliases:
                return setting
        return None


# Sizes --------------------------------------------------------------------------------------------


def product(dims: Sequence[Size]) -> Size:
    total = Size.of(1)
    for dim in dims:
        total = total * dim
    return total


def dims_text(dims: Sequence[Size]) -> str:
    return f"[{', '.join(str(d) for d in dims)}]" if dims else "[]"


def broadcast_dims(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    """The common shape, aligned at the right; a dimension that is provably 1 stretches.

    Raises ShapeError when two dimensions are neither provably equal nor 1.
    """
    result: tuple[Size, ...] = shapes[0] if shapes else ()
    for shape in shapes[1:]:
        result = _broadcast_pair(result, shape)
    return result


def _broadcast_pair(left: tuple[Size, ...], right: tuple[Size, ...]) -> tuple[Size, ...]:
    rank = max(len(left), len(right))
    one = Size.of(1)
    padded_left = (one,) * (rank - len(left)) + left
    padded_right = (one,) * (rank - len(right)) + right
    dims: list[Size] = []
    for axis, (a, b) in enumerate(zip(padded_left, padded_right)):
        if a == b or b.constant == 1:
            dims.append(a)
        elif a.constant == 1:
            dims.append(b)
        else:
            raise ShapeError(
                f"shapes {dims_text(left)} and {dims_text(right)} do not broadcast: dimension "
                f"{axis - rank} is {a} on one side and {b} on the other",
                "dimensions are aligned at the right and must be equal, or 1 on one side",
            )
    return tuple(dims)


def check_equal(left: Size, right: Size, what: str, hint: str | None = None) -> None:
    """Raises ShapeError when the two sizes are not provably equal."""
    if left != right:
        raise ShapeError(f"{what}: {left} is not {right}", hint)


def normal_axis(axis: object, rank: int, setting: str = "axis") -> int:
    """`axis` counted from the front. Raises SettingError when it is out of range."""
    number = as_int(axis, setting)
    if not -rank <= number < rank:
        raise SettingError(
            setting,
            f"{setting}={number} is out of range for a tensor of rank {rank}",
            f"use {-rank}..{rank - 1}" if rank else "a scalar has no axes",
        )
    return number % rank


def normal_axes(axes: object, rank: int, setting: str = "axes") -> tuple[int, ...]:
    """Axes counted from the front, sorted, duplicates removed. Raises SettingError."""
    if not isinstance(axes, tuple):
        raise SettingError(setting, f"{setting} must be a list of ints, got {axes!r}")
    return tuple(sorted({normal_axis(axis, rank, setting) for axis in axes}))


def as_int(value: object, setting: str) -> int:
    """A setting that must be a known integer. Raises SettingError."""
    if isinstance(value, Size) and value.constant is not None:
        return value.constant
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError(
            setting,
            f"{setting} must be an integer that is known when the program is compiled, got {value}",
        )
    return value


def positive(value: object, setting: str) -> int:
    """A setting that must be a known integer of 1 or more. Raises SettingError."""
    number = as_int(value, setting)
    if number < 1:
        raise SettingError(setting, f"{setting}={number} is not positive", "use 1 or more")
    return number


def as_size(value: object, setting: str) -> Size:
    """A setting that is an int or a size expression. Raises SettingError."""
    if isinstance(value, Size):
        return value
    if isinstance(value, NameRef):
        return Size.name(value.name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingError(setting, f"{setting} must be an integer or a size, got {value!r}")
    return Size.of(value)


def as_sizes(value: object, setting: str) -> tuple[Size, ...]:
    """A setting that is a list of sizes. Raises SettingError."""
    if not isinstance(value, tuple):
        raise SettingError(setting, f"{setting} must be a list, got {value!r}")
    return tuple(as_size(item, setting) for item in value)


def not_negative(sizes: Sequence[Size], setting: str) -> None:
    """Raises SettingError for a size that is known to be negative."""
    for size in sizes:
        if size.constant is not None and size.constant < 0:
            raise SettingError(setting, f"{setting} holds {size}", "a size is 0 or more")


def as_bool(value: object, setting: str) -> bool:
    """A setting that must be a known bool. Raises SettingError."""
    if not isinstance(value, bool):
        raise SettingError(
            setting, f"{setting} must be true or false when the program is compiled, got {value}"
        )
    return value


# DTypes -------------------------------------------------------------------------------------------


def promote_floats(dtypes: Sequence[str]) -> str:
    """The dtype in which mixed float operands meet: the widest one, f32 where two of them are as wide.

    It holds every value of the others.
    """
    most = max(DTYPES[name].bits for name in dtypes)
    widest = {name for name in dtypes if DTYPES[name].bits == most}
    return widest.pop() if len(widest) == 1 else "f32"


def meeting_dtypes(spec: OpSpec, dtypes: Sequence[str]) -> list[str]:
    """The dtypes that an op works with on operands of these: float operands that must have one dtype meet in
    a common one."""
    places = [place for place in range(len(dtypes)) if spec.meets(place)]
    mixed = {dtypes[place] for place in places}
    if len(mixed) < 2 or not mixed <= {*FLOATS}:
        return list(dtypes)
    common = promote_floats([*mixed])
    return [common if place in places else dtype for place, dtype in enumerate(dtypes)]


def literal_dtypes(spec: OpSpec, dtypes: Sequence[str | None]) -> list[str]:
    """The dtype of every operand of an op, where None stands for a literal.

    A literal has the dtype that the operands beside it have, or meet in; a condition is a bool, a
    scale beside codes f32, two literals to choose from f32. Raises OpDTypeError where nothing gives one.
    """
    return [
        literal_dtype(spec, dtypes, place) if dtype is None else dtype
        for place, dtype in enumerate(dtypes)
    ]


def literal_dtype(spec: OpSpec, dtypes: Sequence[str | None], place: int) -> str:
    """The dtype of one literal among the operands of an op, as `literal_dtypes` has it."""
    names = (*spec.operands, *spec.optional)
    name = names[min(place, len(names) - 1)] if names else ""
    own = dict(spec.literals).get(name)
    if name == "condition":
        return "bool"
    if own is not None:
        return own
    if name in spec.filled and dtypes[0] is not None:
        return dtypes[0]
    if not spec.meets(place):
        raise OpDTypeError(
            f"`{name}` of `{spec.name}` is no literal",
            "declare it in `constant { … }` with `@init`, and name it here",
        )
    beside = [dtype for other, dtype in enumerate(dtypes) if dtype and spec.meets(other)]
    if not beside and "condition" in names:
        # Two literals to choose from.
        return "f32"
    if not beside:
        raise OpDTypeError(
            f"no operand of `{spec.name}` gives the literal a dtype",
            "declare one of them in `constant { … }` with `@init`, and name it here",
        )
    return promote_floats([*beside]) if {*beside} <= {*FLOATS} else beside[0]


def same_dtype(operands: Sequence[TensorSpec], names: Sequence[str]) -> str:
    """The one dtype of all operands. Raises OpDTypeError that shows both sides."""
    first = operands[0].dtype
    for operand, name in zip(operands[1:], names[1:]):
        if operand.dtype != first:
            raise OpDTypeError(
                f"{names[0]} is {first} but {name} is {operand.dtype}",
                f"cast one of them: `op cast({operand.called(name)}, to={first}) >> …;`",
            )
    return first


def accepts(inferred: str, declared: str) -> bool:
    """May a result of dtype `inferred` be stored in an output declared as `declared`?

    Equal dtypes, and any two floats: the op computes wide and rounds once to the declared dtype.
    """
    return inferred == declared or (DTYPES[inferred].is_float and DTYPES[declared].is_float)


ACC = Setting(
    "acc",
    "dtypes",
    None,
    "accumulation dtype, or `[accumulator, result]`; one dtype means both",
    aliases=("accumulate",),
)


def accumulation(dtype: str, acc: object, *, mean: bool = False) -> tuple[str, str]:
    """(accumulator, result) for operands of `dtype` under the setting `acc`.

    Without `acc`: floats narrower than f64 accumulate in f32, integers in their own dtype.
    Raises SettingError for a pair that loses range on the way in.
    """
    source = DTYPES[dtype]
    if acc is None:
        return ("f32" if source.is_float and dtype != "f64" else dtype, dtype)
    if not isinstance(acc, tuple) or len(acc) != 2:
        raise SettingError("acc", f"acc must be a dtype or two dtypes, got {acc!r}")
    inner, result = str(acc[0]), str(acc[1])
    for name in (inner, result):
        if name not in DTYPES:
            raise SettingError("acc", f"acc={name} is not a dtype")
    wide, out = DTYPES[inner], DTYPES[result]
    fits = (
        wide.kind == source.kind
        and wide.bits >= max(source.bits, 8)
        and inner in (*INTEGERS, "f32", "f64")
    )
    ends = out.kind == wide.kind or (mean and out.is_float)
    if not fits or not ends:
        raise SettingError(
            "acc",
            f"acc=[{inner}, {result}] does not fit operands of dtype {dtype}",
            "accumulate in the same kind (signed, unsigned or float), at least as wide as the "
            "operands, and store in that kind" + (" or in a float" if mean else ""),
        )
    return inner, result
