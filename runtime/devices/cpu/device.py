"""The device `cpu`: where its parts are. Imports llvmlite when something is compiled or run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from openinfer.runtime.devices.base import Device
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.options import default_threads, host_kind

if TYPE_CHECKING:
    from openinfer.runtime.devices.compiled.executor import CompiledExecutor
    from openinfer.runtime.devices.cpu.loaded import CpuProgram
    from openinfer.runtime.program import Program
    from openinfer.runtime.target import TargetDescription

_SHOWN = ("avx2", "fma", "avx512f", "avx512bf16")
"""The instruction sets that `openinfer devices` names."""


class CpuDevice(Device):
    """Native code of this process, and as many threads of it as there are CPUs."""

    name = "cpu"

    def unavailable_reason(self) -> str | None:
        """See `Device.unavailable_reason`."""
        return cpu_unavailable_reason()

    def facts(self) -> Mapping[str, str]:
        """See `Device.facts`."""
        from openinfer.runtime.devices.cpu.codegen import host_cpu, llvm_version

        cpu, features = host_cpu(host_kind())
        return {
            "cpu": cpu,
            "vectors": ", ".join(name for name in _SHOWN if features.get(name)) or "baseline",
            "threads": str(default_threads()),
            "llvm": llvm_version(),
        }

    def host_target(self) -> TargetDescription:
        """See `Device.host_target`."""
        from openinfer.runtime.devices.cpu.codegen import host_target

        return host_target()

    def obstacle(self, target: str) -> str | None:
        """See `Device.obstacle`."""
        from openinfer.runtime.devices.cpu.support import obstacle

        try:
            return obstacle(target, self.host_target())
        except UnsupportedError as error:
            return error.message

    def rank(self, target: str) -> tuple[int, ...]:
        """See `Device.rank`."""
        from openinfer.runtime.devices.cpu.support import rank_here

        return rank_here(target)

    def expecting(self, weights: int) -> AbstractContextManager[None]:
        """See `Device.expecting`."""
        from openinfer.runtime.devices.cpu.early_memory import early_memory

        return early_memory(weights)

    def load(self, program: Program) -> CpuProgram:
        """See `Device.load`."""
        from openinfer.runtime.devices.cpu.loaded import CpuProgram

        return CpuProgram(program)

    def make_executor(
        self, program: Program, build: Program, threads: int, max_state_bytes: int | None
    ) -> CompiledExecutor:
        """See `Device.make_executor`."""
        from openinfer.runtime.devices.cpu.native_call import native_executor

        executor = native_executor()
        if executor is None:
            return super().make_executor(program, build, threads, max_state_bytes)
        return executor(program, build.loaded(), threads, max_state_bytes)
