"""What a device provides, method by method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.runtime.devices.compiled.executor import CpuExecutor
    from openinfer.runtime.program import Program
    from openinfer.runtime.target import TargetDescription


class Device(ABC):
    """A machine that runs compiled programs. There is one object of it in a process; it holds nothing
    of any program.

    Its module is imported when somebody names the device, and may import no library of the device:
    whether the machine can run at all is asked first, on machines that lack the library.
    """

    name: str
    """As `--device` and `compile(device=…)` name it, and as manifests say it."""

    # What it is

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Why nothing can be compiled for it or run on it here; None where it can. Cheap: asked before
        every compilation of the command line."""

    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """What `openinfer devices` shows of it. Raises UnsupportedError where its library is missing."""

    @abstractmethod
    def host_target(self) -> TargetDescription:
        """What the target "host" means here. Raises UnsupportedError where nothing can run."""

    # Which builds it can run

    @abstractmethod
    def obstacle(self, target: str) -> str | None:
        """Why code for a target (its key, as in the manifest) cannot run here; None when it can."""

    def rank(self, target: str) -> tuple[int, ...]:
        """Sorts the builds of a program by their target: those that run here first, the best of them
        before the others. Optional: by default those that can run keep their order."""
        return (self.obstacle(target) is not None,)

    # Running

    @abstractmethod
    def load(self, program: Program) -> Any:
        """The parts of a program ready to run, and its weights where steps read them: made once for a
        program, and shared by its executors. It is handed to `make_executor`; nobody else looks inside.

        Raises ArtefactError for parts that cannot run here, PackageError for a weight that cannot be
        read, MemoryError.
        """

    @abstractmethod
    def make_executor(
        self, program: Program, build: Program, threads: int, max_state_bytes: int | None
    ) -> CpuExecutor:
        """A fresh executor, with state of its own.

        It runs `build.loaded()`: `build` is the program itself, or its traced build. `threads` is how
        many CPUs a step may use; `max_state_bytes` bounds what its persistent variables take (None: half
        of the memory of the machine).
        """
