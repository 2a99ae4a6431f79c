"""What machine code calls that it does not bring: found in the object, on any machine."""

from __future__ import annotations

from collections.abc import Iterable

from openinfer.runtime.devices.cpu.elf_object import LOCAL, read_object
from openinfer.runtime.errors import CompileError

_FUNCTIONS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs "
    "floor fma fmax fmin fmod log log10 log1p log2 nearbyint pow rint round roundeven sin sinh sqrt "
    "tan tanh trunc"
).split()

PROVIDED = frozenset(
    [
        # What the text asks for by name, what LLVM makes of copies, and its table of addresses.
        *("clock_gettime", "sched_yield", "syscall", "openinfer_observe"),
        *("openinfer_interrupted", "openinfer_submit"),
        *("memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"),
        # libm, for f64 and f32; LLVM makes one call of a sine and a cosine of the same angle.
        *(f"{name}{suffix}" for name in (*_FUNCTIONS, "sincos") for suffix in ("", "f")),
    ]
)
"""All that an object may call: functions of the C library and libm, and of the runtime. A compiler's own
library (`__truncsfbf2`, `__divti3`) is not there: a process has it or has it not, as Python was built."""


def undefined_symbols(*objects: bytes) -> list[str]:
    """The symbols that ELF objects of x86-64 use and none of them defines, sorted.

    Raises ArtefactError (OI0840) for other bytes.
    """
    symbols = [symbol for data in objects for symbol in read_object(data).symbols if symbol.name]
    defined = {one.name for one in symbols if one.defined and one.binding != LOCAL}
    return sorted({one.name for one in symbols if not one.defined} - defined)


def check_symbols(objects: Iterable[bytes]) -> None:
    """Raises CompileError OI0573 for objects that call what only some machines have."""
    strange = [name for name in undefined_symbols(*objects) if name not in PROVIDED]
    if strange:
        raise CompileError(
            "OI0573",
            f"the machine code calls {', '.join(strange)}, which openinfer does not provide",
            hint="choose another target (`--target`), and report the program: this is a bug",
        )
