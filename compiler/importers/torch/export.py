"""`from_torch`: a module of PyTorch becomes a program that can be read, and a package with its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.importers.torch.dynamic import Dynamic
from openinfer.compiler.importers.torch.exported import import_exported
from openinfer.compiler.importers.torch.library import only_errors, torch
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
        return import_exported(load_exported(path), Dynamic.of(dynamic, None), Path(path).stem)
    if isinstance(module, library.export.ExportedProgram):
        return import_exported(module, Dynamic.of(dynamic, None), "the model")
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
    axes = Dynamic.of(dynamic, by_name)
    exported = _export(library, module, positional, named, by_name, axes)
    axes.check(exported)
    imported = import_exported(exported, axes, source)
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


def _export(
    library: Any,
    module: Any,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    by_name: dict[str, Any],
    axes: Dynamic,
) -> Any:
    shapes = {name: axes.shapes(value, name) for name, value in by_name.items()}
    try:
        with only_errors():
            return library.export.export(
                module,
                positional,
                named,
                dynamic_shapes=shapes if axes.names else None,
                strict=False,
            )
    except Exception as error:
        raise UnsupportedError(
            "OI1502",
            f"torch.export refuses {type(module).__name__}: {short(error)}",
            hint="change the module until torch.export.export takes it",
        ) from error


def short(error: BaseException) -> str:
    """The message of an error, as far as a person reads it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[:12]) or type(error).__name__
