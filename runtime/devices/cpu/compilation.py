"""A program's modules to objects, several at a time: LLVM works outside of Python."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from ctypes import string_at
from typing import Any

from openinfer.runtime.cache import About, Cache, cache_key
from openinfer.runtime.devices.cpu import codegen
from openinfer.runtime.devices.cpu.llvm_module import LlvmModule, Passes
from openinfer.runtime.errors import CompileError
from openinfer.runtime.options import available_cpus
from openinfer.runtime.program import OBJECT
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.target import TargetDescription
from openinfer.runtime.version import openinfer_version, source_fingerprint

MAX_WORKERS = 8
"""More threads find no work: few programs have more large kernels."""
CODEGEN_LEVEL = 2
"""That of instruction selection, from 0 to 3."""


@dataclass(frozen=True)
class ModuleCost:
    """What LLVM took for one module, in seconds of processor time."""

    what: str
    """`LlvmModule.what`."""
    read: float
    passes: float
    code: float


class Compilation:
    """The objects of some modules. They are begun as they come; the objects do not depend on the number of
    workers, nor on who does what.

        with Compilation(target) as compilation:
            compilation.add(module)                    # returns at once
            objects = compilation.objects()            # waits
    """

    def __init__(
        self, target: TargetDescription, workers: int | None = None, store: Cache | None = None
    ) -> None:
        """`workers`: threads at most; None: one for each CPU that this process may use. `store` keeps the
        objects of kernels, and has those of earlier programs.

        Raises UnsupportedError (OI0781) where no machine code can be made.
        """
        codegen.prepared()
        self.target = target
        self.costs: list[ModuleCost] = []
        """In the order in which the modules were done."""
        self._store = store
        self._limit = workers or min(MAX_WORKERS, available_cpus())
        self._modules: list[LlvmModule] = []
        self._objects: dict[int, bytes] = {}
        self._failures: dict[int, BaseException] = {}
        self._taken = 0
        self._closed = False
        self._more = threading.Condition()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, module: LlvmModule) -> None:
        """Takes one more module."""
        with self._more:
            self._modules.append(module)
            self._more.notify()
        if len(self._threads) < min(self._limit, len(self._modules)):
            thread = threading.Thread(target=self._work, name="openinfer-llvm", daemon=True)
            self._threads.append(thread)
            thread.start()

    def objects(self, meanwhile: Callable[[], object] | None = None) -> dict[str, bytes]:
        """The objects by the names of their modules, in the order in which these were added.

        `meanwhile` is called once, beside the work. Raises CompileError (OI0982) when LLVM refuses a text.
        """
        with self._more:
            self._closed = True
            self._more.notify_all()
        if meanwhile is not None:
            # It may keep Python to itself: not while a module waits for somebody who begins with it.
            self._wait_for_begin()
            meanwhile()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[min(self._failures)]
        return {module.name: self._objects[i] for i, module in enumerate(self._modules)}

    def _wait_for_begin(self) -> None:
        """Until all modules are begun, or one has failed: who fails begins with no other."""
        with self._more:
            while self._taken < len(self._modules) and not self._failures:
                self._more.wait()

    def close(self) -> None:
        """Leaves what was not begun, and waits for the rest: no thread is left inside of LLVM."""
        with self._more:
            self._closed = True
            self._taken = len(self._modules)
            self._more.notify_all()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        machine: Any = None
        while (number := self._next()) is not None:
            try:
                module = self._modules[number]
                key, data = self._stored(module)
                cost = ModuleCost(module.what, 0.0, 0.0, 0.0)
                if data is None:
                    machine = machine or codegen.target_machine(self.target, CODEGEN_LEVEL)
                    data, cost = compiled(module, self.target, machine)
                    if self._store is not None and key:
                        self._store.put(key, data, About(module.what, "cpu", self.target.name))
            except BaseException as error:
                self._failures[number] = error
                with self._more:
                    self._taken = len(self._modules)
                    self._more.notify_all()
                return
            self._objects[number] = data
            self.costs.append(cost)

    def _stored(self, module: LlvmModule) -> tuple[str, bytes | None]:
        """The key of a kernel ("" for what only one program has), and its object if it is there."""
        if self._store is None or not module.name.endswith(OBJECT):
            return "", None
        key = cache_key(
            "kernel",
            module.text,
            module.passes.value,
            self.target.key,
            f"{CODEGEN_LEVEL} {codegen.llvm_version()}",
            f"openinfer {openinfer_version()} {source_fingerprint()}",
        )
        return key, self._store.get(key)

    def _next(self) -> int | None:
        with self._more:
            while self._taken == len(self._modules):
                if self._closed:
                    return None
                self._more.wait()
            self._taken += 1
            self._more.notify_all()
            return self._taken - 1


def compiled(
    module: LlvmModule, target: TargetDescription, machine: Any, *, assembly: bool = False
) -> tuple[bytes, ModuleCost]:
    """The object of a module (or its assembly), and what it cost; the machine is for one thread at a time.

    Raises CompileError (OI0982) when LLVM refuses the text.
    """
    binding = codegen.prepared()
    clock = time.thread_time
    begin = clock()
    context = binding.create_context()
    try:
        parsed = binding.parse_assembly(module.text, context)
        try:
            parsed.verify()
            parsed.triple = target.triple
            # Passes look sizes and alignments up here; without it they assume others.
            parsed.data_layout = str(machine.target_data)
            read = clock()
            run_passes(parsed, machine, module.passes)
            done = clock()
            data = _emit(parsed, machine, assembly)
            return data, ModuleCost(module.what, read - begin, done - read, clock() - done)
        finally:
            parsed.close()
    except RuntimeError as error:
        raise CompileError("OI0982", f"LLVM refuses the IR that was written: {error}") from error
    finally:
        context.close()


def assembly_of(module: LlvmModule, target: TargetDescription) -> str:
    """The machine code of a module as assembly, to read. Raises CompileError (OI0982)."""
    machine = codegen.target_machine(target, CODEGEN_LEVEL)
    return compiled(module, target, machine, assembly=True)[0].decode()


def run_passes(parsed: Any, machine: Any, passes: Passes) -> None:
    """LLVM's passes over a module that was read."""
    if passes is Passes.NONE:
        return
    builder = codegen.prepared().create_pass_builder(machine, codegen.tuning_options(1))
    run = codegen.outside("LLVMPY_RunNewModulePassManager")
    run(builder.getModulePassManager(), parsed, builder)


def _emit(parsed: Any, machine: Any, assembly: bool) -> bytes:
    binding = codegen.prepared()
    library = binding.ffi.lib
    with binding.ffi.OutputString() as problem:
        emit = codegen.outside("LLVMPY_TargetMachineEmitToMemory")
        buffer = emit(machine, parsed, int(not assembly), problem)
        if not buffer:
            raise RuntimeError(str(problem))
    try:
        return string_at(
            library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer)
        )
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)
