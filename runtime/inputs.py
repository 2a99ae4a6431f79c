"""What a caller gives to a step, checked against declarations: names, dtypes, shapes, the sizes they fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from openinfer.runtime.errors import InputError
from openinfer.runtime.sizes import Size
from openinfer.runtime.step_sizes import evaluated, solve_sizes
from openinfer.runtime.suggest import did_you_mean
from openinfer.runtime.tensors import Tensor, as_tensor
from openinfer.runtime.variables import VariableInfo


def checked_inputs(
    arrays: Mapping[str, Any], variables: Mapping[str, VariableInfo], sizes: Mapping[str, int]
) -> dict[str, Tensor]:
    """Inputs of the declared dtypes and shapes, some or all of them; `sizes` are those that every step has.

    Raises InputError for an unknown name (OI0501), one that is not dynamic (OI0502), a wrong dtype, rank or
    shape, or a size on which two arrays differ.
    """
    taken: dict[str, Tensor] = {}
    for name, array in arrays.items():
        info = _dynamic(name, variables)
        taken[name] = as_tensor(array, info.dtype, name=name)
    solve_sizes([(variables[n], t.shape) for n, t in taken.items()], sizes, partial=True)
    return taken


def sizes_of_inputs(
    inputs: Mapping[str, Tensor],
    variables: Mapping[str, VariableInfo],
    sizes: Mapping[str, int],
    divided: Iterable[Size],
) -> dict[str, int]:
    """All sizes of a step with these inputs; `divided` are dimensions that may divide by 0.

    Raises InputError, OI0505 where an input is missing.
    """
    unset = [
        info for info in variables.values() if info.memory == "dynamic" and info.name not in inputs
    ]
    if unset:
        names = ", ".join(info.name for info in unset)
        raise InputError(
            "OI0505",
            f"dynamic variable{'s' if len(unset) > 1 else ''} not set: "
            + ", ".join(info.text for info in unset),
            hint=f"insert {names} before every step; a step clears them",
        )
    found = solve_sizes([(variables[n], t.shape) for n, t in inputs.items()], sizes)
    for dim in divided:
        if dim.names <= found.keys():
            evaluated(dim, found)
    return found


def dynamic_names(variables: Mapping[str, VariableInfo]) -> list[str]:
    """The names of the inputs."""
    return [name for name, info in variables.items() if info.memory == "dynamic"]


def near_names(name: str, known: Iterable[str]) -> str:
    """What a hint says behind a name that no variable has."""
    names = list(known)
    return f"{did_you_mean(name, names)}variables: {', '.join(names) or 'none'}"


def _dynamic(name: str, variables: Mapping[str, VariableInfo]) -> VariableInfo:
    info = variables.get(name)
    inputs = dynamic_names(variables)
    if info is None:
        raise InputError("OI0501", f"no variable is named {name!r}", hint=near_names(name, inputs))
    if info.memory != "dynamic":
        raise InputError(
            "OI0502",
            f"{name} is {info.memory}; only dynamic variables are inserted",
            hint=f"dynamic variables: {', '.join(inputs) or 'none'}",
        )
    return info
