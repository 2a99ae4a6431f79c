"""Input values of a command line: read from files and text, drawn where none are given."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.files import open_regular
from openinfer.runtime.sizes import Size, memory_holds
from openinfer.runtime.step_sizes import evaluated, solve_sizes
from openinfer.runtime.storage import AnyArray, element_count
from openinfer.runtime.tensors import Tensor, as_tensor
from openinfer.runtime.variables import VariableInfo

DEFAULT_SIZE = 8


def drawn_inputs(
    executor: BaseExecutor,
    given: Mapping[str, str],
    sizes: Mapping[str, int],
    seed: int,
    step: int,
) -> dict[str, Tensor]:
    """A tensor for every dynamic variable of a program.

    Given ones fix their sizes; a size that nothing fixes is 8. Raises InputError for a name, file,
    value or shape that does not fit.
    """
    dynamic = {v.name: v for v in executor.variables.values() if v.memory == "dynamic"}
    for name in given:
        if name not in dynamic:
            raise InputError(
                "OI0501",
                f"no dynamic variable is named {name!r}",
                hint=f"dynamic variables: {', '.join(dynamic) or 'none'}",
            )
    known = {**sizes, **executor.sizes}
    tensors = {name: _given(dynamic[name], text, known) for name, text in given.items()}
    fixed = solve_sizes([(dynamic[n], t.shape) for n, t in tensors.items()], known, partial=True)
    for variable in dynamic.values():
        for dim in variable.dims:
            for name in dim.names - {"_"}:
                fixed.setdefault(name, DEFAULT_SIZE)
    for name, variable in dynamic.items():
        if name not in tensors:
            shape = tuple(_extent(dim, fixed) for dim in variable.dims)
            tensors[name] = draw(variable, shape, seed, step)
    return tensors


def draw(variable: VariableInfo, shape: tuple[int, ...], seed: int, step: int) -> Tensor:
    """Floats N(0, 1), integers and bools 0 or 1; the same for one seed, name and step.

    Raises StepError OI0604 when memory does not hold them.
    """
    try:
        if not memory_holds(shape):
            raise MemoryError
        return _drawn(variable, shape, seed, step)
    except MemoryError:
        raise StepError(
            "OI0604",
            f"not enough memory to draw {variable.text} with shape {list(shape)}",
            hint="give smaller sizes (--size), or smaller inputs",
        ) from None


def _drawn(variable: VariableInfo, shape: tuple[int, ...], seed: int, step: int) -> Tensor:
    row = DTYPES[variable.dtype]
    generator = np.random.default_rng([seed, step, zlib.crc32(variable.name.encode())])
    values: AnyArray
    if row.is_float:
        values = generator.standard_normal(shape)
    else:
        values = generator.integers(0, 2, shape)
        if row.bits == 1 and row.kind in ("int", "ternary"):
            # One signed bit holds 0 and -1, one ternary bit -1 and 1.
            values = -values if row.kind == "int" else 2 * values - 1
    return Tensor.from_values(row, values, name=variable.name)


def _extent(dim: Size, sizes: Mapping[str, int]) -> int:
    return DEFAULT_SIZE if dim.single_name == "_" else evaluated(dim, sizes)


def _given(variable: VariableInfo, text: str, sizes: Mapping[str, int]) -> Tensor:
    if text.endswith(".npy"):
        return as_tensor(_read_npy(variable.name, text), variable.dtype, name=variable.name)
    values = _parse(variable.name, text)
    tensor = Tensor.from_values(variable.dtype, values, name=variable.name)
    shape = _declared_shape(variable, tensor, sizes)
    if shape is None or shape == tensor.shape:
        return tensor
    return Tensor.from_values(variable.dtype, np.asarray(values).reshape(shape), name=variable.name)


def _read_npy(name: str, path: str) -> AnyArray:
    try:
        with open_regular(path) as file:
            return np.load(file, allow_pickle=False)
    except OSError as error:
        raise InputError(
            "OI0522", f"{name}: {path}: {error.strerror or error}", hint="give a .npy file"
        ) from None
    except MemoryError as error:
        raise InputError(
            "OI0522", f"{name}: {path} cannot be read: {error}", hint="give a smaller array"
        ) from None
    except (ValueError, EOFError, OverflowError) as error:
        raise InputError(
            "OI0522", f"{name}: {path} is no .npy file: {error}", hint="write it with numpy.save"
        ) from None


def _parse(name: str, text: str) -> Any:
    """`1,2,3`, `0.5`, `true` or nested lists; a bare list of numbers stays flat."""
    try:
        return json.loads(text if text.startswith("[") else f"[{text}]", parse_constant=float)
    except ValueError:
        pass
    try:
        return [float(item) if "n" in item.lower() else _number(item) for item in text.split(",")]
    except ValueError:
        raise InputError(
            "OI0519",
            f"{name}: '{text}' is neither numbers nor a .npy file",
            hint=f"write {name}=1,2,3 or {name}=[[1,2],[3,4]] or {name}=FILE.npy",
        ) from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _declared_shape(
    variable: VariableInfo, tensor: Tensor, sizes: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The declared shape for a flat list of values, when the count decides it; else None."""
    if len(tensor.shape) != 1 or len(variable.dims) == 1:
        return None
    extents: list[int | None] = []
    for dim in variable.dims:
        known = dim.single_name != "_" and not dim.names - sizes.keys()
        extents.append(evaluated(dim, sizes) if known else None)
    unknown = [axis for axis, extent in enumerate(extents) if extent is None]
    rest = element_count([extent for extent in extents if extent is not None])
    if len(unknown) > 1 or (unknown and (rest == 0 or tensor.size % rest)):
        return None
    if not unknown and rest != tensor.size:
        return None
    return tuple(tensor.size // rest if extent is None else extent for extent in extents)
