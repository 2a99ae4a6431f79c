"""Kernels are taken by who compiles a program as soon as they are converted: LLVM begins with the first of
them while Python converts the others. Nothing depends on it: what nobody took is written at the end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp

Take = Callable[[ModuleOp, llvm.FuncOp, Mapping[str, llvm.FuncOp | None]], None]
"""Called with the module, a function of it in its last form, and the functions that it may call: as they are
declared, None for those that have a body and are not converted yet."""

_TAKE: ContextVar[Take | None] = ContextVar("openinfer_take_kernels", default=None)


def taker() -> Take | None:
    """Who takes kernels of the module that is converted now, if somebody does."""
    return _TAKE.get()


@contextmanager
def taking(take: Take) -> Generator[None]:
    """Gives `take` the functions that are converted inside of a `with` block."""
    token = _TAKE.set(take)
    try:
        yield
    finally:
        _TAKE.reset(token)
