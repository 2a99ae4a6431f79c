"""`from_torch`: a module of PyTorch becomes a program that can be read, and a package with its weights."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.importers.torch.exported import Dimensions, import_exported
from openinfer.compiler.importers.torch.library import torch
from openinfer.compiler.importers.torch.sizes import expression_of
from openinfer.runtime.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.compiler.importers.graph_writer import Imported
    from openinfer.runtime.packages.base import Package


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    stateful: bool = False,
) -> tuple[Graph, Package]:
    """The program of a module, and the package of its weights, which are borrowed.

    See `openinfer.from_torch`.
    """
    from openinfer.compiler.importers.readable import readable

    graph, package, _ = readable(
        import_module(module, example_inputs, dynamic), stateful=bool(stateful)
    )
    return graph, package


def import_module(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | None = None,
) -> Imported:
    """What `from_torch` makes a text of: the module as a program of level `graph`, one op or more for each of
    PyTorch's.

    Raises what `from_torch` raises.
    """
    library = torch()
    if isinstance(module, str | PathLike):
        from openinfer.compiler.importers.torch.archive import load_exported

        path = fspath(module)
        return import_exported(load_exported(path), _names(dynamic, None), Path(path).stem)
    if isinstance(module, library.export.ExportedProgram):
        names = _names(dynamic, None)
        return import_exported(module, names, "the model")
    if not isinstance(module, library.nn.Module):
        raise InputError(
            "OI1504",
            f"a {type(module).__name__} cannot be imported",
            hint="give a torch.nn.Module with example inputs, or an ExportedProgram",
        )
    if example_inputs is None:
        raise InputError(
            "OI1504",
            "a module is imported with example inputs",
            hint="give a tuple of tensors, or a dict by the names of forward's parameters",
        )
    source = type(module).__name__
    positional, named = _arguments(example_inputs)
    by_name = _bound(module, positional, named)
    names = _names(dynamic, by_name)
    exported = _export(library, module, positional, named, by_name, names)
    _check_dynamic(exported, names)
    imported = import_exported(exported, names, source)
    imported.metadata.update(_configuration(module))
    return imported


def _configuration(module: Any) -> dict[str, Any]:
    """The numbers of a model's configuration, where it has one as models of `transformers` do."""
    config = getattr(module, "config", None)
    to_dict: Any = getattr(config, "to_dict", dict)
    described: dict[Any, Any] = to_dict()
    return {
        str(name): value
        for name, value in described.items()
        if isinstance(value, bool | int | float)
    }


def _arguments(given: Sequence[Any] | Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, Mapping):
        return (), {str(name): value for name, value in given.items()}
    if isinstance(given, torch().Tensor):
        return (given,), {}
    return tuple(given), {}


def _bound(module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """The example inputs by the names of `forward`'s parameters."""
    try:
        return dict(signature(module.forward).bind(*positional, **named).arguments)
    except TypeError as error:
        raise InputError(
            "OI1504",
            f"the example inputs do not fit {type(module).__name__}.forward: {error}",
            hint="give one for each parameter without a default",
        ) from None


def _names(dynamic: Mapping[str, Any] | None, inputs: Mapping[str, Any] | None) -> Dimensions:
    """`dynamic` as a name or None for each axis of each input; a `Dim` counts as its name."""
    found: dict[str, list[str | None]] = {}
    for name, axes in (dynamic or {}).items():
        if inputs is not None and name not in inputs:
            raise InputError(
                "OI1503",
                f"dynamic names an input {name!r}, which the module does not have",
                hint=f"the inputs are {', '.join(inputs)}",
            )
        given = dict(axes) if isinstance(axes, Mapping) else dict(enumerate(axes))
        last = max((int(axis) for axis in given), default=-1)
        rank = getattr(inputs[name], "ndim", None) if inputs is not None else None
        if rank is not None and last >= rank:
            raise InputError(
                "OI1503",
                f"dynamic names {last + 1} axes of {name}, which has {rank}",
                hint="give a name, or None, for each axis",
            )
        found[name] = [_axis_name(given.get(axis)) for axis in range(last + 1)]
    return found


def _axis_name(given: Any) -> str | None:
    if given is None or isinstance(given, int):
        return None
    name = given if isinstance(given, str) else getattr(given, "__name__", None)
    if name is None or not str(name).isidentifier():
        raise InputError(
            "OI1503",
            f"{given!r} is no name of an axis",
            hint='name axes by letters, digits and _, as {"tokens": ("B", "L")}',
        )
    return str(name)


def _export(
    library: Any,
    module: Any,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    by_name: dict[str, Any],
    names: Dimensions,
) -> Any:
    """The export. An axis with a name may vary; PyTorch finds its limits itself."""
    shapes = {name: _axes(library, value, name, names) for name, value in by_name.items()}
    try:
        with _only_errors():
            return library.export.export(
                module, positional, named, dynamic_shapes=shapes if names else None, strict=False
            )
    except Exception as error:
        raise UnsupportedError(
            "OI1502",
            f"torch.export refuses {type(module).__name__}: {short(error)}",
            hint="change the module until torch.export.export takes it",
        ) from error


def _axes(library: Any, value: Any, name: str, names: Dimensions) -> Any:
    """What `dynamic_shapes` says of one input: nothing of parts of a structure."""
    if not isinstance(value, library.Tensor):
        return library.utils._pytree.tree_map(lambda _: None, value)
    axes: dict[int, Any] = {}
    for axis, one in enumerate(names.get(name, ())):
        if one is None:
            continue
        if value.shape[axis] < 2:
            raise InputError(
                "OI1503",
                f"axis {axis} of the example {name} is {value.shape[axis]} long, so {one} could not vary",
                hint="give an example of 2 or more: PyTorch takes 0 and 1 for fixed",
            )
        axes[axis] = library.export.Dim.AUTO
    return axes


def _check_dynamic(exported: Any, names: Dimensions) -> None:
    """Raises InputError for an axis that was to vary and that the module fixes."""
    for node in exported.graph.nodes:
        if node.op != "placeholder":
            continue
        for axis, name in enumerate(names.get(node.name, ())):
            extent = node.meta["val"].shape[axis]
            if name is not None and expression_of(extent).is_Integer:
                raise InputError(
                    "OI1503",
                    f"{name} cannot vary: the module fixes axis {axis} of {node.name} at {extent}",
                    hint=f"leave {name} out of dynamic, or remove what depends on the number "
                    "(TORCH_LOGS=dynamic shows where)",
                )


@contextmanager
def _only_errors() -> Generator[None]:
    """PyTorch's own deprecation warnings are nothing that a caller could change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def short(error: BaseException) -> str:
    """The message of an error, as far as a person reads it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[:12]) or type(error).__name__
