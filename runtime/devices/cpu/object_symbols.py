"""What machine code calls that it does not bring: found in the object, on any machine."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from openinfer.runtime.errors import ArtefactError, CompileError

_SYMBOL_TABLE = 2
"""The section type SHT_SYMTAB."""
_LOCAL = 0
"""The binding STB_LOCAL."""

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
    used: set[str] = set()
    defined: set[str] = set()
    try:
        for data in objects:
            for name, here in _symbols(data):
                (defined if here else used).add(name)
    except (struct.error, ValueError, IndexError, ZeroDivisionError, UnicodeDecodeError) as error:
        raise ArtefactError("OI0840", "the machine code is not an ELF object") from error
    return sorted(used - defined)


def _symbols(data: bytes) -> Iterable[tuple[str, bool]]:
    """The symbols that are seen from outside of an object, and whether they are defined in it."""
    if not data.startswith(b"\x7fELF\x02\x01"):
        raise ValueError("not a little-endian ELF file of 64 bits")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    for _, kind, _, _, place, length, link, _, _, entry in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for position in range(place, place + length, entry):
            name, info, _, section = struct.unpack_from("<IBBH", data, position)
            # Section 0 holds what is defined nowhere; the first row of the table is empty.
            if name and (section == 0 or info >> 4 != _LOCAL):
                end = data.index(b"\0", names + name)
                yield data[names + name : end].decode(), section != 0


def check_symbols(objects: Iterable[bytes]) -> None:
    """Raises CompileError OI0573 for objects that call what only some machines have."""
    strange = [name for name in undefined_symbols(*objects) if name not in PROVIDED]
    if strange:
        raise CompileError(
            "OI0573",
            f"the machine code calls {', '.join(strange)}, which openinfer does not provide",
            hint="choose another target (`--target`), and report the program: this is a bug",
        )
