"""What `dynamic=` says: the axes of inputs that vary, what their sizes are called and what they may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openinfer.compiler.importers.torch.library import torch
from openinfer.compiler.importers.torch.sizes import expression_of
from openinfer.runtime.errors import InputError

Limits = tuple[int | None, int | None]
"""The least and the most that a size may be; None where nobody says so."""


@dataclass
class Dynamic:
    """Names of the axes of inputs, and bounds of some of them."""

    names: dict[str, list[str | None]] = field(default_factory=dict[str, list[str | None]])
    """For each input the names of its axes; None for one that stays as in the example."""
    limits: dict[str, Limits] = field(default_factory=dict[str, Limits])

    @staticmethod
    def of(dynamic: Mapping[str, Any] | None, inputs: Mapping[str, Any] | None) -> Dynamic:
        """Reads `{"tokens": ("B", ("L", 1, 512))}`: an axis is a name, a name with least and most, a `Dim` of
        PyTorch, or None. `inputs` are the examples, where there are any.

        Raises InputError OI1503.
        """
        found = Dynamic()
        for name, axes in (dynamic or {}).items():
            if inputs is not None and name not in inputs:
                raise _refused(
                    f"dynamic names an input {name!r}, which the module does not have",
                    f"the inputs are {', '.join(inputs)}",
                )
            given = dict(axes) if isinstance(axes, Mapping) else dict(enumerate(axes))
            last = max((int(axis) for axis in given), default=-1)
            rank = getattr(inputs[name], "ndim", None) if inputs is not None else None
            if rank is not None and last >= rank:
                raise _refused(
                    f"dynamic names {last + 1} axes of {name}, which has {rank}",
                    "give a name, or None, for each axis",
                )
            found.names[name] = [found._axis(given.get(axis)) for axis in range(last + 1)]
        return found

    def _axis(self, given: Any) -> str | None:
        if given is None or isinstance(given, int):
            return None
        if isinstance(given, str):
            name, low, high = given, None, None
        elif isinstance(given, Sequence):
            name, low, high = _bounded(given)  # pyright: ignore[reportUnknownArgumentType]
        else:
            name = getattr(given, "__name__", None)
            low, high = (_number(getattr(given, key, None)) for key in ("min", "max"))
            low = low or None  # A Dim without `min` has 0.
        if not isinstance(name, str) or not name.isidentifier():
            raise _refused(
                f"{given!r} is no name of an axis",
                'name axes by letters, digits and _, as {"tokens": ("B", "L")}',
            )
        before = self.limits.get(name, (None, None))
        least = max((one for one in (before[0], low) if one is not None), default=None)
        most = min((one for one in (before[1], high) if one is not None), default=None)
        if least is not None and most is not None and least > most:
            raise _refused(f"{name} is to be at least {least} and at most {most}", "least <= most")
        if least is not None or most is not None:
            self.limits[name] = (least, most)
        return name

    def shapes(self, value: Any, name: str) -> Any:
        """What `dynamic_shapes` of `torch.export` says of one input: nothing of parts of a structure.

        An axis with a name may vary, and PyTorch finds further limits itself.
        """
        library = torch()
        if not isinstance(value, library.Tensor):
            return library.utils._pytree.tree_map(lambda _: None, value)
        axes: dict[int, Any] = {}
        for axis, one in enumerate(self.names.get(name, ())):
            if one is None:
                continue
            extent = value.shape[axis]
            if extent < 2:
                raise _refused(
                    f"axis {axis} of the example {name} is {extent} long, so {one} could not vary",
                    "give an example of 2 or more: PyTorch takes 0 and 1 for fixed",
                )
            low, high = self.limits.get(one, (None, None))
            if extent < (low or 0) or (high is not None and extent > high):
                limits = f"{'' if low is None else low}..{'' if high is None else high}"
                raise _refused(
                    f"axis {axis} of the example {name} is {extent} long, and {one} is to be {limits}",
                    "give an example within the limits",
                )
            auto = library.export.Dim.AUTO
            axes[axis] = auto if low is None and high is None else auto(min=low, max=high)
        return axes

    def check(self, exported: Any) -> None:
        """Raises InputError for an axis that was to vary and that the module fixes."""
        for node in exported.graph.nodes:
            if node.op != "placeholder":
                continue
            for axis, name in enumerate(self.names.get(node.name, ())):
                extent = node.meta["val"].shape[axis]
                if name is not None and expression_of(extent).is_Integer:
                    raise _refused(
                        f"{name} cannot vary: the module fixes axis {axis} of {node.name} at {extent}",
                        f"leave {name} out of dynamic, or remove what depends on the number "
                        "(TORCH_LOGS=dynamic shows where)",
                    )


def _bounded(given: Sequence[Any]) -> tuple[Any, int | None, int | None]:
    """`("L", 1, 512)`, None for a limit that is none."""
    limits = list(given[1:])
    if len(given) != 3 or not all(one is None or (type(one) is int and one >= 0) for one in limits):
        raise _refused(
            f"{given!r} is no axis with limits",
            'write the name, the least and the most: {"tokens": ("B", ("L", 1, 512))}, None for no limit',
        )
    return given[0], limits[0], limits[1]


def _number(given: Any) -> int | None:
    """A limit of a `Dim`; PyTorch writes infinity as an object of its own."""
    return given if type(given) is int else None


def _refused(message: str, hint: str) -> InputError:
    return InputError("OI1503", message, hint=hint)
