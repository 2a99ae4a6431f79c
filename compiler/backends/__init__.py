"""How the compiler reaches a device: one record each, found by name in `compiler/registry.py`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from openinfer.compiler import registry
from openinfer.runtime.devices import checked_device, kind_of
from openinfer.runtime.quick_dataclass import dataclass

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.compiler.pipeline import Division
    from openinfer.lowering.options import PipelineOptions

Measured = Callable[[str, str], AbstractContextManager[None]]
"""Takes down the cost of a `with` block, by phase and name."""
Finish = Callable[[Measured, Callable[[], object]], dict[str, bytes]]
"""Makes the parts of a program from what was written of its module, which it does not need any more.

It is called without the compiler's lock. The second argument is called once, beside what takes long.
"""


class HelperError(Exception):
    """Another process did not do its part of a program. Why does not matter: it is compiled again, by this
    process alone."""


@dataclass(frozen=True)
class Backend:
    """What makes programs for a device."""

    name: str
    """The device, as `openinfer.runtime.devices` names it."""
    pipeline: str
    """The pipeline of `compiler/pipeline.py` that lowers programs for it."""
    emit: Callable[[ModuleOp, Measured], Finish]
    """Writes a lowered module in the device's language; what it gives makes the parts of the program."""
    early: Callable[[], AbstractContextManager[None]] = nullcontext
    """Around a pipeline and `emit`: what is lowered inside may be begun before all of it is."""

    division: Division | None = None
    """See `pipeline.run`: lets other processes lower some of the kernels."""

    def pipeline_for(self, options: PipelineOptions) -> str:
        """The pipeline, or the one without passes that only make programs faster."""
        return self.pipeline if options.optimise else f"{self.pipeline}-plain"


def backend_of(name: str) -> Backend:
    """The backend of a device. Raises UnsupportedError OI0730 for one that this build lacks."""
    return registry.load(registry.BACKENDS[kind_of(checked_device(name))])
