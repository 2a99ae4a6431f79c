"""PyTorch, loaded when a model of it is imported: it is the user's own, and no dependency."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from openinfer.runtime.errors import UnsupportedError

_DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e5m2": "f8",
    "float8_e4m3fn": "f8e4m3",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}


def torch() -> Any:
    """The module `torch`. Raises UnsupportedError OI1501 where it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise UnsupportedError(
            "OI1501",
            f"this needs PyTorch, which cannot be imported: {error}",
            hint="pip install torch",
        ) from None


@contextmanager
def only_errors() -> Generator[None]:
    """PyTorch warns of what it does itself in its own export, which no caller could change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def dtype_name(dtype: Any) -> str | None:
    """What the language calls a dtype of PyTorch; None for one that it lacks, as complex numbers."""
    return _DTYPES.get(str(dtype).removeprefix("torch."))


def torch_dtype(name: str) -> Any:
    """The dtype of PyTorch that the language calls `name`."""
    library = torch()
    return next(getattr(library, key) for key, value in _DTYPES.items() if value == name)
