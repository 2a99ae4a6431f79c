"""The sizes of a step: solved from the shapes of inputs, checked; the errors of sizes that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.runtime.errors import ArtefactError, InputError, StepError, reason_of
from openinfer.runtime.sizes import Size
from openinfer.runtime.variables import VariableInfo


def divides(size: Size) -> bool:
    """Whether a size divides by a size that is no constant."""
    for monomial, _ in size.terms:
        for atom in monomial:
            operands = [operand for operand in atom[1:] if isinstance(operand, Size)]
            if atom[0] == "floordiv" and operands[1].constant is None:
                return True
            if any(divides(operand) for operand in operands):
                return True
    return False


def no_memory_for_state(what: str) -> ArtefactError:
    """What a snapshot that memory does not hold is to be reported as."""
    return ArtefactError(
        "OI0812", f"not enough memory for {what}; the state is as it was", hint="free some memory"
    )


def impossible(error: Exception, sizes: Mapping[str, int]) -> StepError:
    """What a step that could not be laid out with its sizes is to be reported as."""
    values = ", ".join(
        f"{name} = {value}" for name, value in sorted(sizes.items()) if "." not in name
    )
    shown = f" with {values}" if values else ""
    if isinstance(error, MemoryError):
        return StepError(
            "OI0604",
            f"not enough memory for the step{shown}{reason_of(error)}",
            hint="use smaller sizes",
        )
    return StepError("OI0603", f"a size of the step divides by zero{shown}", hint="use other sizes")


def evaluated(dim: Size, sizes: Mapping[str, int]) -> int:
    """The value of a dimension. Raises InputError OI0526 where it divides by a size that is 0."""
    try:
        return dim.evaluate(sizes)
    except ZeroDivisionError:
        values = ", ".join(f"{name} = {sizes[name]}" for name in sorted(dim.names))
        raise InputError(
            "OI0526",
            f"dimension {dim} divides by zero ({values})",
            hint="give another size, or an input with another shape",
        ) from None


def solve_sizes(
    shapes: Sequence[tuple[VariableInfo, tuple[int, ...]]],
    known: Mapping[str, int],
    *,
    partial: bool = False,
) -> dict[str, int]:
    """All sizes that the actual shapes fix, together with the `known` ones.

    A dimension that is one bare name binds it; expressions are checked afterwards. With `partial`
    expressions over names that are not bound yet are left for later. Raises InputError that shows
    declaration, array and where the size came from.
    """
    sizes = dict(known)
    origin = {name: "the model or `sizes`" for name in known}
    for info, shape in shapes:
        if len(shape) != len(info.dims):
            raise InputError(
                "OI0503",
                f"{info.text} has {len(info.dims)} dimensions, found an array of shape "
                f"{list(shape)}",
                hint="add or remove axes with reshape",
            )
        for axis, (dim, extent) in enumerate(zip(info.dims, shape)):
            name = dim.single_name
            if name is None or name == "_" or name in sizes:
                continue
            sizes[name] = extent
            origin[name] = f"dimension {axis} of {info.name}"
    for info, shape in shapes:
        for axis, (dim, extent) in enumerate(zip(info.dims, shape)):
            _check_extent(info, shape, axis, dim, extent, sizes, origin, partial)
    return sizes


def _check_extent(
    info: VariableInfo,
    shape: tuple[int, ...],
    axis: int,
    dim: Size,
    extent: int,
    sizes: Mapping[str, int],
    origin: Mapping[str, str],
    partial: bool,
) -> None:
    if dim.single_name == "_":
        return
    missing = sorted(dim.names - sizes.keys())
    if missing:
        if partial:
            return
        raise InputError(
            "OI0508",
            f"nothing fixes the size {missing[0]} in {info.text}",
            hint=f'give it: sizes={{"{missing[0]}": …}}, or declare an input with that dimension',
        )
    expected = evaluated(dim, sizes)
    if expected == extent:
        return
    if dim.constant is not None:
        reason = f"it must be {expected}"
    else:
        values = ", ".join(f"{n} = {sizes[n]} from {origin[n]}" for n in sorted(dim.names))
        reason = f"it must be {dim} = {expected} ({values})"
    raise InputError(
        "OI0503",
        f"{info.text}: found an array of shape {list(shape)}, dimension {axis} is {extent}, "
        f"{reason}",
        hint="reshape, pad or cut the array, or change the declaration",
    )
