"""Sums of products over named axes: einsum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    NUMBERS,
    REQUIRED,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    same_dtype,
)
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Settings = Mapping[str, object]
Labels = tuple[str, ...]

_DOTS = "..."


@dataclass(frozen=True)
class Equation:
    """What the axes of the operands and of the result are called.

    Axes that `...` stands for are `.0`, `.1` and so on, counted from the last one of them.
    """

    operands: tuple[Labels, ...]
    result: Labels


def _term(text: str, rank: int | None, what: str) -> tuple[Labels, int]:
    """The labels of a term for a tensor of some rank, and how many of them `...` stands for; `rank` None: the
    term is the result, whose dots are one label of their own. Raises SettingError."""
    before, dots, behind = text.partition(_DOTS)
    letters = before + behind
    if not all(letter.isascii() and letter.isalpha() for letter in letters):
        raise SettingError(
            "equation",
            f'"{text}" of the equation is no list of axes',
            "an axis is a letter, `...` stands for any number of them, once",
        )
    if rank is None:
        return (*before, *([_DOTS] if dots else []), *behind), 0
    spare = rank - len(letters)
    if spare < 0 or (spare and not dots):
        raise SettingError(
            "equation",
            f'"{text}" names {len(letters)} axes of {what}, which has {rank}',
            "write a letter for each axis, or `...` for those that only broadcast",
        )
    rest = tuple(f".{spare - 1 - place}" for place in range(spare))
    return (*before, *rest, *behind), spare


def equation_of(text: object, ranks: Sequence[int]) -> Equation:
    """An equation as it is written, for operands of these ranks. Raises SettingError."""
    if not isinstance(text, str):
        raise SettingError("equation", f"equation must be a string, got {text!r}")
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise SettingError(
            "equation",
            f'"{text}" is for {len(terms)} operand{"s" if len(terms) > 1 else ""}, got {len(ranks)}',
            'a comma stands between operands: `equation="ij,jk->ik"`',
        )
    found = [
        _term(term, rank, f"operand {place}")
        for place, (term, rank) in enumerate(zip(terms, ranks))
    ]
    operands = tuple(labels for labels, _ in found)
    most = max(spare for _, spare in found)
    dots = tuple(f".{most - 1 - place}" for place in range(most))
    if not arrow:
        letters = [label for labels in operands for label in labels if not label.startswith(".")]
        once = sorted(label for label in set(letters) if letters.count(label) == 1)
        return Equation(operands, (*dots, *once))
    written, _ = _term(right, None, "the result")
    if most and _DOTS not in written:
        raise SettingError(
            "equation",
            f'the result "{right}" lacks the axes of `...`',
            "write `...` behind `->`, too",
        )
    result = tuple(label for one in written for label in (dots if one == _DOTS else (one,)))
    known = {label for labels in operands for label in labels}
    for label in result:
        if label not in known:
            raise SettingError("equation", f"no operand has the axis {label} of the result")
        if result.count(label) > 1:
            raise SettingError("equation", f"the result names the axis {label} twice")
    return Equation(operands, result)


def label_sizes(equation: Equation, operands: Sequence[TensorSpec]) -> dict[str, Size]:
    """The size of each axis; those of `...` broadcast. Raises ShapeError."""
    sizes: dict[str, Size] = {}
    for number, (labels, operand) in enumerate(zip(equation.operands, operands)):
        for label, size in zip(labels, operand.dims):
            known = sizes.setdefault(label, size)
            if known == size:
                continue
            dots = label.startswith(".")
            if dots and size.constant == 1:
                continue
            if dots and known.constant == 1:
                sizes[label] = size
                continue
            name = "an axis of `...`" if dots else f"axis {label}"
            raise ShapeError(
                f"{name} is {known} in one operand and {size} in operand {number} {operand}",
                "axes with one letter have one size",
            )
    return sizes


def _einsum(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    dtype = same_dtype(operands, [f"operand {place}" for place in range(len(operands))])
    equation = equation_of(settings["equation"], [operand.rank for operand in operands])
    sizes = label_sizes(equation, operands)
    return [TensorSpec(dtype, tuple(sizes[label] for label in equation.result))]


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "einsum",
        ("x",),
        _einsum,
        "Products of the operands, summed over the axes that the result does not name. "
        '`equation="bld,hd->blh"` names the axes of each operand and of the result; a letter twice in an '
        "operand takes its diagonal, `...` stands for axes that broadcast. Without `->` the result has the "
        "axes named once, in alphabetical order. Operands are joined in pairs from left to right; floats "
        "narrower than f64 accumulate in f32, integers wrap.",
        "structured",
        NUMBERS,
        (Setting("equation", "string", REQUIRED, "the axes of operands and result"),),
        variadic=True,
        meeting=("x",),
    ),
)
