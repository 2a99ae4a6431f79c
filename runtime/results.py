"""What a step gives back, and how arguments that name no input or result are refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openinfer.runtime.errors import InputError
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.suggest import did_you_mean
from openinfer.runtime.tensors import Tensor


class UnknownResultError(InputError, KeyError):
    """A name that no result has, asked of the results of a step; a `KeyError`, too."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class PositionalInputError(InputError, TypeError):
    """Arrays without names, given to `run` or `insert`; a `TypeError`, too."""


class Results(dict[str, "AnyArray | Tensor"]):
    """The results of a step by name, in the order of `return`.

    A name that is not among them raises UnknownResultError OI0501, which lists those that are.
    """

    __slots__ = ()

    def __missing__(self, name: object) -> AnyArray | Tensor:
        names = list(self)
        guess = did_you_mean(str(name), names, quote="'")
        raise UnknownResultError(
            "OI0501",
            f"no result is named {name!r}",
            hint=f"{guess}results: {', '.join(names) or 'none'}; "
            "fetch(NAME) of the executor reads other variables",
        )


def positional_inputs(given: Sequence[object], inputs: Iterable[str]) -> PositionalInputError:
    """The error for arrays that were given without names to a program with these inputs."""
    names = list(inputs)
    what = "an array was" if len(given) == 1 else f"{len(given)} arrays were"
    shown = ", ".join(f"{name}=…" for name in names) or "no arguments: the program has no inputs"
    return PositionalInputError(
        "OI0501", f"{what} given without a name", hint=f"inputs are given by name: {shown}"
    )
