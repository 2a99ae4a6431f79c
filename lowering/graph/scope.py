"""What a point of a program can see, and what is wrong where it sees nothing."""

from __future__ import annotations

from dataclasses import field

from xdsl.ir import SSAValue

from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


class Problem(Exception):
    """A program that cannot be lowered; becomes a diagnostic at the node's place."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint


class NoValue(Problem):
    """What is read here has no shape on any way that leads here: a step that comes here fails."""

    def __init__(self, code: str, message: str, hint: str, kind: str, variable: str) -> None:
        super().__init__(code, message, hint)
        self.variable = variable
        self.kind = kind
        """The row of `runtime/devices/failures.py` for a step."""


@dataclass
class Index:
    """A loop index in scope: its value, and its bounds when they are constants."""

    value: SSAValue
    bounds: tuple[int, int] | None = None


@dataclass
class Scope:
    """What a point of the program can see."""

    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    indices: dict[str, Index] = field(default_factory=dict[str, Index])
    dims: dict[str, list[Size]] = field(default_factory=dict[str, list[Size]])
    """Dimensions of variables that name scalars, as they were where the declaration stands."""
    sizes: dict[object, str] = field(default_factory=dict[object, str])
    """Dynamic sizes that have a value here, by what they are the value of."""
    unset: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """For a variable that may have no value yet the index that is 0 then."""

    def nested(self) -> Scope:
        """A copy for a body: what it defines is not seen behind it."""
        return Scope(
            dict(self.values),
            dict(self.indices),
            dict(self.dims),
            dict(self.sizes),
            dict(self.unset),
        )

    def without_indices(self) -> Scope:
        """The same variables for a block that is called: it sees no loop index of its caller."""
        return Scope(self.values, {}, self.dims, self.sizes, self.unset)
