"""LLVM IR text to machine code: the only user of llvmlite.

Everything is lazy: importing this module does not import llvmlite. The steps are apart so that the middle
result, an ELF object, can be kept on disk:

    object = compile_llvm_text(text, host_target())      # once per program
    loaded = load_object(object, ["openinfer_step"])     # linking.py: at each start, without LLVM
    address = loaded.address("openinfer_step")
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from openinfer.runtime.devices.cpu.processor import (
    Processor,
    keep_processor,
    known_processor,
    llvmlite_version,
)
from openinfer.runtime.errors import CompileError, UnsupportedError
from openinfer.runtime.host import cpu_unavailable_reason, last_cache
from openinfer.runtime.options import host_kind
from openinfer.runtime.target import (
    TargetDescription,
    describe_target,
    named_target,
    within_level,
)

if TYPE_CHECKING:
    from types import ModuleType


def prepared() -> ModuleType:
    """llvmlite's binding, initialised for this machine.

    Raises UnsupportedError (OI0781) where it cannot be imported.
    """
    return _llvm()


@cache
def _llvm() -> ModuleType:
    try:
        import llvmlite.binding as binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        # Without the parser, inline assembly ends the whole process.
        binding.initialize_native_asmparser()
    except (ImportError, OSError) as error:
        # OSError: the library behind it is damaged, or memory has no room for it.
        raise UnsupportedError(
            "OI0781", f"llvmlite cannot be imported: {error}", hint="pip install llvmlite==0.50.*"
        ) from error
    _forks_between_calls()
    return binding


@cache
def _forks_between_calls() -> None:
    """Lets a fork wait for the call of LLVM that another thread is in: the child has no such thread, and LLVM
    would stay as that call has left it. Once in a process: a second wait would be for the first one."""
    import llvmlite.binding as binding

    lock: Any = getattr(binding.ffi.lib, "_lock", None)
    if lock is None or not hasattr(os, "register_at_fork"):
        return
    taken: list[bool] = []

    def before() -> None:
        lock.__enter__()
        taken.append(True)

    def after() -> None:
        if taken:
            taken.pop()
            lock.__exit__()

    os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)
    os.register_at_fork(
        before=_outside.stop, after_in_parent=_outside.go_on, after_in_child=_outside.go_on
    )


class _Outside:
    """The calls of LLVM that are made without llvmlite's lock; a fork waits for their end."""

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._running = 0

    def stop(self) -> None:
        self._free.acquire()
        while self._running:
            self._free.wait()

    def go_on(self) -> None:
        self._free.release()

    def call(self, function: Any, *arguments: Any) -> Any:
        with self._free:
            self._running += 1
        try:
            return function(*arguments)
        finally:
            with self._free:
                self._running -= 1
                self._free.notify_all()


_outside = _Outside()


def outside(name: str) -> Callable[..., Any]:
    """A function of LLVM without llvmlite's lock, which all calls of a process share.

    For long calls that touch one context and nothing else: several may run at a time, each with a
    context and a target machine of its own.
    """
    function = getattr(_llvm().ffi.lib, name)
    return partial(_outside.call, getattr(function, "_cfn", function))


def host_target() -> TargetDescription:
    """The description of this machine's processor, as OPENINFER_HOST_FEATURES lets it appear."""
    return _host_target(host_kind())


@cache
def _host_target(kind: str) -> TargetDescription:
    if reason := cpu_unavailable_reason():
        raise UnsupportedError("OI0781", reason, hint="use the simulator")
    cpu, features = host_cpu(kind)
    return describe_target(_processor().triple, cpu, features, last_cache())


def host_cpu(kind: str) -> tuple[str, dict[str, bool]]:
    """LLVM's name of this machine's processor, and of each feature whether it has it.

    With a `kind`, those of a processor of that fixed target, or of a lesser one where this is less.
    """
    found = _processor()
    features = dict(found.features)
    if not kind:
        return found.cpu, features
    masked = within_level(kind, features)
    return named_target(describe_target("", "", masked).name).cpu, masked


@cache
def _processor() -> Processor:
    """This machine's processor, from the cache where it was asked for before."""
    known = known_processor()
    if known is not None:
        return known
    binding = _llvm()
    numbers = ".".join(str(part) for part in binding.llvm_version_info)
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features()
    found = Processor(binding.get_process_triple(), str(cpu), dict(features), numbers)
    keep_processor(found)
    return found


def llvm_version() -> str:
    """LLVM's version, and that of the library that brings it."""
    return f"{_processor().llvm} (llvmlite {llvmlite_version()})"


def target_machine(target: TargetDescription, codegen_level: int) -> Any:
    """What makes instructions for a processor; for one thread at a time."""
    binding = _llvm()
    # The large code model with PIC: addresses of 64 bits, from a table that `linking.py` fills, as the C
    # library may lie farther away than 32 bits reach.
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=codegen_level,
        reloc="pic",
        codemodel="large",
        jit=True,
    )


def tuning_options(opt_level: int) -> Any:
    """LLVM's passes of a level without its vectorisers and unroller: the lowering decides about vectors and
    unrolling, LLVM's own ideas cost time and registers."""
    options = _llvm().create_pipeline_tuning_options(speed_level=opt_level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_interleaving = False
    options.loop_unrolling = False
    return options


def _optimised_module(
    text: str,
    target: TargetDescription,
    opt_level: int,
    codegen_level: int,
) -> tuple[Any, Any]:
    binding = _llvm()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError("OI0982", f"LLVM refuses the IR that was written: {error}") from error
    machine = target_machine(target, codegen_level)
    module.triple = target.triple
    # Passes look sizes and alignments up here; without it they assume others.
    module.data_layout = str(machine.target_data)
    if opt_level:
        builder = binding.create_pass_builder(machine, tuning_options(opt_level))
        builder.getModulePassManager().run(module, builder)
    return module, machine


def compile_llvm_text(
    text: str,
    target: TargetDescription,
    opt_level: int = 1,
    codegen_level: int = 2,
) -> bytes:
    """An ELF object from LLVM IR text.

    `opt_level` 0 runs no passes, 1 and 2 LLVM's short and full pipelines without its vectorisers
    and unroller; `codegen_level` is that of instruction selection. Programs are compiled by
    `Compilation`, this is for what is written by hand. Raises CompileError (OI0982) when LLVM
    refuses the text.
    """
    module, machine = _optimised_module(text, target, opt_level, codegen_level)
    return machine.emit_object(module)


def optimised_llvm_text(text: str, target: TargetDescription, opt_level: int = 1) -> str:
    """The IR after LLVM's passes, to read."""
    return str(_optimised_module(text, target, opt_level, 2)[0])


def assembly_text(
    text: str, target: TargetDescription, opt_level: int = 1, codegen_level: int = 2
) -> str:
    """The machine code as assembly, to read."""
    module, machine = _optimised_module(text, target, opt_level, codegen_level)
    return machine.emit_assembly(module)
