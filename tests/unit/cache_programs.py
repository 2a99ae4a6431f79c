"""Programs over caches, driven by numbers, and what tests ask of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.tensors import Tensor


def executor(text: str, **options: Any) -> BaseExecutor:
    return oi.Simulator(text).make_executor(**options)


def program(declarations: str, *statements: str) -> str:
    """A program with inputs that drive it: numbers a, b, c and a vector x."""
    body = "\n".join(statements)
    return f"""
    dynamic {{ a: i64; b: i64; c: i64; x: f32[N]; }}
    {declarations}
    block entry {{ {body} }}
    """


def step(ex: BaseExecutor, a: int = 0, b: int = 0, c: int = 0, x: Any = (0,)) -> dict[str, Any]:
    return ex.run(a=a, b=b, c=c, x=np.asarray(x, np.float32))


def fails(code: str, ex: BaseExecutor, *args: Any, **inputs: Any) -> str:
    with pytest.raises(oi.StepError) as caught:
        step(ex, *args, **inputs)
    assert caught.value.code == code, caught.value
    return caught.value.message


def plain(value: Any) -> Any:
    return value.values() if isinstance(value, Tensor) else np.asarray(value)


def same(value: Any, expected: Any) -> None:
    np.testing.assert_array_equal(plain(value), np.asarray(expected))
