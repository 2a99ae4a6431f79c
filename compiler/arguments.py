"""Checks of what callers hand to the compiler, the same for Python and for the tools."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, SupportsIndex, cast

from openinfer.compiler.suggest import near
from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.sizes import MAX_SIZE

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package

PRECISIONS = ("f32", "f16", "bf16", "q8")
WORKING_PRECISIONS = ("f32", "bf16", "q8")
"""Those that are suggested: the others are known, and refused by a message of their own."""


def check_precision(precision: str | None, *, strict_math: bool = False) -> None:
    """Raises InputError OI0516 for an unknown precision, or OI0528 for one that strict mathematics
    forbid, UnsupportedError OI0732 for f16."""
    if precision is not None and precision not in PRECISIONS:
        raise InputError(
            "OI0516",
            f"{precision!r} is no precision to compute in",
            hint=near(str(precision), WORKING_PRECISIONS, "precisions"),
        )
    if precision == "f16":
        raise UnsupportedError(
            "OI0732",
            "products in f16 are not implemented",
            hint='take precision "bf16", or leave it out: every op computes in its declared dtype',
        )
    if precision in ("bf16", "q8") and strict_math:
        raise InputError(
            "OI0528",
            f"strict mathematics give the bits that the program defines, but products in {precision} "
            "round their operands",
            hint="leave out one of `precision` and `strict_math`",
        )


def checked_sizes(sizes: object) -> dict[str, int]:
    """Sizes as a dict of numbers from 0 to 2^48. Raises InputError OI0517."""
    if sizes is None:
        return {}
    if not isinstance(sizes, Mapping):
        raise InputError(
            "OI0517",
            f"sizes is a {type(sizes).__name__}, not a dict of numbers by name",
            hint='write sizes={"B": 4}',
        )
    checked: dict[str, int] = {}
    for name, value in cast("Mapping[object, object]", sizes).items():
        number, sort = -1, ""
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            number, sort = operator.index(value), ": it is negative"
        if not isinstance(name, str) or number < 0:
            raise InputError(
                "OI0517",
                f"size {name} is {value!r}, not a number of elements{sort}",
                hint="sizes are integers from 0",
            )
        if number > MAX_SIZE:
            raise InputError(
                "OI0517",
                f"size {name} = {number} is more than any memory holds",
                hint="sizes are integers from 0 to 2^48",
            )
        checked[name] = number
    return checked


def check_model(model: object) -> Package | None:
    """The package, that of arrays by name, or None. Raises InputError OI0525 for anything else."""
    if model is None:
        return None
    from openinfer.runtime.packages.base import checked_package

    return checked_package(model)


def not_a_text(path: object, error: UnicodeDecodeError) -> InputError:
    """OI0513 for a program file that is no text; models and compiled programs are named as such."""
    from openinfer.runtime.program_file import is_program

    data = error.object
    if is_program(data[:8]):
        return InputError(
            "OI0513", f"{path} is a compiled program, not the text of one", hint="give the .oi file"
        )
    if data.startswith(b"OINF\0") or data[4:9] == b"\0\0\0\0{":
        return InputError(
            "OI0513",
            f"{path} is a model package, not a program",
            hint="`openinfer inspect` shows it; a program takes it by --model",
        )
    return InputError(
        "OI0513", f"{path} is not UTF-8 text: byte {error.start}", hint="save it as UTF-8"
    )


def check_compiler() -> None:
    """Raises UnsupportedError OI0734 where xDSL, which the compiler is written in, is missing."""
    if find_spec("xdsl") is None:
        raise UnsupportedError(
            "OI0734",
            "compiling and simulating need the library `xdsl`, which is not installed",
            hint="run `pip install xdsl==0.74.0`, or load a program that Program.save wrote",
        )


def require_compiler() -> None:
    """Imports xDSL. Raises UnsupportedError OI0734 where it is missing."""
    check_compiler()
    from openinfer.dialects.quick_xdsl import import_xdsl

    import_xdsl()
