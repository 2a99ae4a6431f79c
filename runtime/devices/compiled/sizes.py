"""Shapes of variables between steps: what can be said of them, and why nothing can."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.sizes import Size, memory_holds

if TYPE_CHECKING:
    from openinfer.runtime.variables import VariableInfo


def dims_now(
    info: VariableInfo,
    dims: Mapping[int, Size],
    sizes: Mapping[str, int],
    variables: Collection[str],
    scalar: Callable[[str], int],
) -> dict[int, int]:
    """Dimensions that name scalars, as a step that uses the variable now would make them.

    `scalar` gives the value of a variable. Raises InputError OI0506 for dimensions that cannot be,
    OI0508 where sizes are not known yet.
    """
    values = dict(sizes)
    names = {name for dim in dims.values() for name in dim.names} - values.keys()
    if names - set(variables):
        raise no_shape(info, names - set(variables))
    for name in names:
        values[name] = scalar(name)
    try:
        found = {axis: dim.evaluate(values) for axis, dim in dims.items()}
    except ZeroDivisionError:
        raise InputError(
            "OI0506",
            f"{info.name} has no value: a dimension of it divides by zero",
            hint="fetch it behind a step that has used it",
        ) from None
    check_shape(info.name, tuple(found.values()))
    return found


def no_shape(info: VariableInfo, unknown: set[str]) -> InputError:
    """Raised for a value whose shape waits for the sizes of a step."""
    return InputError(
        "OI0508",
        f"{info.text} has no shape before the first step: {min(unknown)} is not known yet",
        hint="run a step first",
    )


def check_shape(name: str, shape: tuple[int, ...]) -> None:
    """Raises InputError OI0506 for a shape that the sizes of the step make impossible, StepError
    OI0604 for an empty one that no memory could hold otherwise."""
    if not memory_holds(shape):
        raise StepError(
            "OI0604", f"no memory holds {name} with shape {list(shape)}", hint="use smaller sizes"
        )
    if min(shape, default=0) < 0:
        raise InputError(
            "OI0506",
            f"{name} has no value: its shape would be {list(shape)}",
            hint="give inputs of another size",
        )
