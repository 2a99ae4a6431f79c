"""The compiler is imported with what its definitions need at once, and no more.

Hundreds of classes are made when the compiler is imported, here and in xDSL. Of each dataclass Python
compiles five functions, most of which no compilation calls; of each op xDSL reads the printed format.
Inside of `quick_definitions` both wait for the first call: a quarter of what importing takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from openinfer.runtime.locks import new_lock

if TYPE_CHECKING:
    from xdsl.irdl import OpDef

_PARAMETERS = ("name", "args", "body", "globals", "locals", "return_type")
"""Of the function of Python 3.11 and 3.12 that makes the methods of dataclasses; later ones are quicker."""


@contextmanager
def quick_definitions() -> Generator[None]:
    """Methods of dataclasses that are made inside of a `with` block, by whatever thread, are compiled when
    they are first called, and formats of ops are read when an op is first printed or parsed."""
    _Patch.begin()
    try:
        yield
    finally:
        _Patch.end()


class _Patch:
    """What is changed while any thread is inside, and put back behind the last one."""

    lock = new_lock()
    inside = 0
    undo: ClassVar[list[Callable[[], None]]] = []

    @classmethod
    def begin(cls) -> None:
        with cls.lock:
            cls.inside += 1
            if cls.inside == 1:
                cls.undo.append(_patched())

    @classmethod
    def end(cls) -> None:
        with cls.lock:
            cls.inside -= 1
            if not cls.inside:
                cls.undo.pop()()


def _patched() -> Callable[[], None]:
    """Changes both; gives what puts them back."""
    compiled: Any = getattr(dataclasses, "_create_fn", None)
    if compiled is not None and tuple(signature(compiled).parameters) != _PARAMETERS:
        compiled = None
    if compiled is not None:

        def create(name: str, *arguments: Any, **more: Any) -> Callable[..., Any]:
            return _when_called(name, lambda: compiled(name, *arguments, **more))

        dataclasses._create_fn = create  # pyright: ignore[reportAttributeAccessIssue]

    from xdsl.irdl.declarative_assembly_format import FormatProgram

    read = FormatProgram.from_str
    FormatProgram.from_str = _Format  # pyright: ignore[reportAttributeAccessIssue]

    def undo() -> None:
        if compiled is not None:
            dataclasses._create_fn = compiled  # pyright: ignore[reportAttributeAccessIssue]
        FormatProgram.from_str = staticmethod(read)

    _Format.read = staticmethod(read)
    return undo


def _when_called(name: str, compile: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that is compiled by its first call, and then stands in its class itself."""
    found: list[Callable[..., Any]] = []

    def method(*arguments: Any, **more: Any) -> Any:
        if not found:
            own = compile()
            own.__qualname__ = method.__qualname__
            for owner in type(arguments[0]).__mro__:
                if owner.__dict__.get(name) is method:
                    setattr(owner, name, own)
            found.append(own)
        return found[0](*arguments, **more)

    method.__name__ = name
    return method


class _Format:
    """The format of an op, read when it is needed."""

    read: Callable[[str, OpDef], Any]

    def __init__(self, text: str, definition: OpDef) -> None:
        self._given = (text, definition)
        self._program: Any = None

    @property
    def _whole(self) -> Any:
        if self._program is None:
            self._program = _Format.read(*self._given)
        return self._program

    def parse(self, *arguments: Any) -> Any:
        return self._whole.parse(*arguments)

    def print(self, *arguments: Any) -> Any:
        return self._whole.print(*arguments)
