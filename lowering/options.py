"""What the caller of a compilation chooses: the package, sizes, the target.

A pass is built from a text (`name{option=1}`), so a package object cannot be one of its fields. The
pipeline sets `CURRENT` around its run instead; `bind-model` reads it with `current()` and writes into the
module what later passes ask for (`lowering/facts.py`).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from typing import TYPE_CHECKING

from openinfer.runtime.devices import device_of
from openinfer.runtime.quick_dataclass import dataclass

if TYPE_CHECKING:
    from openinfer.runtime.devices.description import DeviceDescription
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.tuning import Tuning
    from openinfer.runtime.tuning_device import DeviceTiles


def _no_sizes() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True)
class PipelineOptions:
    """The choices of one compilation."""

    package: Package | None = None
    """The model package; None compiles a program that needs none."""
    sizes: Mapping[str, int] = field(default_factory=_no_sizes)
    """Sizes given by the caller, on top of the package's."""
    device: str = "cpu"
    """The machine to compile for."""
    target_name: str = "host"
    """CPU description: "host", "generic", "avx2" or "avx512"."""
    observe: bool = False
    """Build the program whose every node can be watched: no buffer reuse."""
    trace: bool = False
    """Build the program that stamps a clock around its kernels: the plain build otherwise."""
    strict: bool = False
    """Unknown hints and attributes are errors instead of warnings."""
    strict_math: bool = False
    """No reassociation, contraction or approximation (`docs/numerics.md`): sums go in the order of
    their indices, every product is rounded before it is added, functions are rounded once."""
    optimise: bool = True
    """False leaves out the passes that only make a program faster (pipeline `cpu-plain`)."""
    without: frozenset[str] = frozenset()
    """Some of those passes, left out by name: to see what each of them buys."""
    tuning: Tuning | None = None
    """Measured tiles of products; None, and for products that it lacks, the default ones."""
    device_tiles: DeviceTiles | None = None
    """The same for kernels of the device; None: those that are known of it."""
    fallback: bool = True
    """Whether the host runs what the device does not support; otherwise that is an error."""
    precision: str | None = None
    """Float dtype to compute matmuls in, None for the declared one."""

    def device_description(self) -> DeviceDescription:
        """What kernels of the device may use, with the tiles that were chosen."""
        found = device_of(self.device).describe()
        return found if self.device_tiles is None else replace(found, tiles=self.device_tiles)


CURRENT: ContextVar[PipelineOptions] = ContextVar("openinfer_pipeline_options")


def current() -> PipelineOptions:
    """The options of the compilation that runs, or the defaults outside of one."""
    return CURRENT.get(PipelineOptions())


@contextmanager
def using(options: PipelineOptions) -> Generator[PipelineOptions]:
    """Makes `options` the current ones inside a `with` block."""
    token = CURRENT.set(options)
    try:
        yield options
    finally:
        CURRENT.reset(token)
