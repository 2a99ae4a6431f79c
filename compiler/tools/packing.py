"""Content for `openinfer pack`: an object of a Python module, or a package in another format."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from openinfer.compiler.suggest import near
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.dtypes import ALIASES, DTYPES, DType
from openinfer.runtime.errors import InputError, PackageError
from openinfer.runtime.files import read_text
from openinfer.runtime.packages.oinf_fields import annotations_of
from openinfer.runtime.packages.values import Bitset, ScalarValue, SizeVar, TensorSpec

_WRAPPERS: tuple[Callable[[Any], object], ...] = (SizeVar, ScalarValue, Bitset, TensorSpec)
"""What is made from a plain value."""


def float_dtype(name: str) -> DType:
    """The float dtype of `--dtype`. Raises UsageError."""
    found = DTYPES.get(ALIASES.get(name, name))
    if found is None or not found.is_float:
        floats = [row.name for row in DTYPES.values() if row.is_float]
        raise UsageError(f"'{name}' is no float dtype", near(name, floats, "float dtypes"))
    return found


def content_of(source: str, arguments: Path | None) -> object:
    """The object that `module:Name` or `file.py:Name` names, made into an instance.

    A class is called with the arguments of the JSON file `arguments`. Imports the module, which
    runs its code. Raises UsageError, InputError OI0529, PackageError OI0412.
    """
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        raise UsageError(
            f"'{source}' names no object of a module", "write module:Class or file.py:Class"
        )
    found: Any = _module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            hint = near(part, [n for n in vars(found) if not n.startswith("_")], "names in it")
            raise _unusable(f"{place} has no {name!r}", hint)
        found = getattr(found, part)
    if not isinstance(found, type):
        if arguments is not None:
            raise UsageError(f"{source} is an instance: --arguments are for a class")
        return found
    if not dataclasses.is_dataclass(found):
        raise _unusable(f"{source} is no dataclass", "put @dataclass above the class")
    given = _arguments(found, arguments) if arguments is not None else {}
    try:
        return found(**given)
    except Exception as error:
        raise _unusable(
            f"{source} cannot be made: {type(error).__name__}: {error}",
            "give what has no default with --arguments",
        ) from error


def _module(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _from_file(Path(place))
        # Modules beside the caller come first, as with `python -m`.
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except (PackageError, InputError):
        raise
    except Exception as error:
        raise _unusable(
            f"{place} cannot be imported: {type(error).__name__}: {error}",
            "--traceback shows where",
        ) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise _unusable(f"{path}: there is no such file", "give the path of a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up to read annotations that are texts.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _arguments(kind: type, path: Path) -> dict[str, Any]:
    """Arguments of a dataclass from a JSON object, wrapped as its annotations ask for."""
    try:
        data = json.loads(read_text(path))
    except OSError as error:
        raise _unusable(f"{path}: {error.strerror or error}", "give a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise _unusable(f"{path} is no JSON: {error}", "give a JSON object") from None
    if not isinstance(data, dict):
        raise _unusable(f"{path} holds no JSON object", 'write {"field": value, …}')
    hints = annotations_of(kind)
    return {name: _wrapped(name, value, hints.get(name)) for name, value in data.items()}


def _wrapped(name: str, value: Any, annotation: object) -> Any:
    """A JSON value as the class that its field is annotated with."""
    try:
        if annotation is np.ndarray:
            return np.asarray(value)
        wrapper = next((w for w in _WRAPPERS if annotation is w), None)
        if wrapper is not None:
            return wrapper(value)
    except (TypeError, ValueError) as error:
        raise _unusable(f"argument {name}: {error}", "give another value") from None
    return value


def _unusable(message: str, hint: str | None) -> InputError:
    return InputError("OI0529", message, hint=hint)
