"""The warning about constants that are zeros because neither model nor `@init` fills them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from openinfer.lowering.near_tensors import near_tensors
from openinfer.runtime.errors import Diagnostic, ModelWarning

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


def warn_of_unfilled(
    file: str,
    names: Sequence[str],
    model: Package | None,
    used: Collection[str],
    stacklevel: int,
) -> None:
    """Issues a ModelWarning OI0330 for the constants `names` of the program in `file`.

    `used` are the tensors of the model that the program names.
    """
    if model is None:
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        found = [
            Diagnostic(
                "OI0330",
                f"{file}: no model was given, and these constants have no @init, so they are "
                f"zeros: {shown}",
                hint="give a model: open_model(FILE) from Python, `--model FILE`; @init(0) says that "
                "zeros are meant",
                severity="warning",
            )
        ]
    else:
        found = unfilled_warnings(file, names, model, used)
    for one in found:
        warnings.warn(str(one), ModelWarning, stacklevel=stacklevel + 1)


def unfilled_warnings(
    file: str, names: Sequence[str], model: Package, used: Collection[str]
) -> list[Diagnostic]:
    """A warning OI0330 for each of the constants; `used` are the tensors that the program names."""
    return [_unfilled(file, name, model, used) for name in names]


def _unfilled(file: str, name: str, model: Package, used: Collection[str]) -> Diagnostic:
    guess = near_tensors(name, model.tensors, used)
    return Diagnostic(
        "OI0330",
        f"{file}: constant {name} has no tensor in {model.path.name} and no @init: it is zeros",
        hint=f"{guess}@ref names its tensor, @init(0) says that zeros are meant",
        severity="warning",
    )
