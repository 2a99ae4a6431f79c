"""One use of an op, and the table of the functions that write ops in ONNX.

What they do not say is refused, never said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openinfer.compiler.exporters.onnx.graph import GraphWriter, NoForm, Value
from openinfer.dialects.ops.base import TensorSpec, normal_axis
from openinfer.runtime.dtypes import DTYPES


@dataclass
class Call:
    """One use of an op."""

    g: GraphWriter
    op: str
    operands: list[Value]
    settings: Mapping[str, Any]
    results: list[TensorSpec]
    stems: list[str]
    """What the results are called."""

    @property
    def names(self) -> list[str]:
        return [value.name for value in self.operands]

    @property
    def x(self) -> Value:
        return self.operands[0]

    @property
    def is_float(self) -> bool:
        return DTYPES[self.x.dtype].is_float

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """A node on the way to the result."""
        return self.g.node(op, *inputs, **attributes)

    def last(self, op: str, *inputs: str, **attributes: Any) -> list[str]:
        """The node that gives the result."""
        return [self.g.node(op, *inputs, stem=self.stems[0], **attributes)]

    def number(self, value: float, dtype: str | None = None) -> str:
        return self.g.constant(value, dtype or self.x.dtype)

    def only(self, **allowed: object) -> None:
        """Raises NoForm for a setting with another value than this."""
        for name, value in allowed.items():
            if self.settings[name] != value:
                raise NoForm(f"{name}={self.settings[name]} has no form in ONNX")

    def axis(self, name: str = "axis") -> int:
        return normal_axis(self.settings[name], self.x.rank)


Handler = Callable[[Call], list[str]]
HANDLERS: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    def enter(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return enter


def axes_of(call: Call) -> tuple[int, ...]:
    """The axes of a call, counted from 0; all where none are given."""
    given = call.settings["axes"]
    if given is None:
        return tuple(range(call.x.rank))
    axes = given if isinstance(given, tuple) else (given,)
    return tuple(normal_axis(axis, call.x.rank) for axis in axes)
