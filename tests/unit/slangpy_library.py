"""The validator and the GLSL compiler in the wheel of `slangpy`: newer than those that Debian has.

Its library is called in a process of its own, which it may end, and whose output it writes to.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

_COMPUTE = 6
"""The stage, as Slang counts them."""


class _Request(ctypes.Structure):
    """`glslang_CompileRequest_1_2` of version 2026.12."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("path", ctypes.c_char_p),
        ("begin", ctypes.c_void_p),
        ("end", ctypes.c_void_p),
        ("diagnostics", ctypes.c_void_p),
        ("of_diagnostics", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("of_output", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("action", ctypes.c_uint),
        ("optimization", ctypes.c_uint),
        ("debug", ctypes.c_uint),
        ("target", ctypes.c_char_p),
        ("version", ctypes.c_int * 3),
        ("entry", ctypes.c_char_p),
    )


def library() -> Path | None:
    """Where it is."""
    spec = find_spec("slangpy")
    if spec is None or spec.origin is None:
        return None
    return next(iter(Path(spec.origin).parent.glob("libslang-glslang-*.so")), None)


def require_library() -> None:
    """Skips where the wheel is not installed, or fails where OPENINFER_REQUIRE_VULKAN is 1."""
    import pytest  # Not in the process that calls the library.

    if library() is not None:
        return
    if os.environ.get("OPENINFER_REQUIRE_VULKAN") == "1":
        pytest.fail("slangpy is not installed")
    pytest.skip("slangpy is not installed")


def complaints(modules: Sequence[bytes], folder: Path) -> list[str]:
    """What the validator says of each; nothing where it is content."""
    return [error for _, error in _each("validate", modules, folder)]


def compiled(shaders: Sequence[str], folder: Path) -> list[tuple[bytes, str]]:
    """The words of each compute shader, and what the compiler says of it."""
    return _each("compile", [shader.encode() for shader in shaders], folder)


def _each(what: str, inputs: Sequence[bytes], folder: Path) -> list[tuple[bytes, str]]:
    place = folder / "slangpy"
    place.mkdir(exist_ok=True)
    for number, data in enumerate(inputs):
        (place / f"{number}.in").write_bytes(data)
    command = [sys.executable, __file__, str(library()), what, str(place), str(len(inputs))]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [
        ((place / f"{n}.out").read_bytes(), (place / f"{n}.err").read_text())
        for n in range(len(inputs))
    ]


def _main(path: str, what: str, folder: str, count: str) -> None:
    """What the process does: it writes to a file what the library says of each input."""
    loaded = ctypes.CDLL(path)
    for number in range(int(count)):
        place = Path(folder) / str(number)
        with open(place.with_suffix(".err"), "wb") as errors:
            os.dup2(errors.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            data, made = place.with_suffix(".in").read_bytes(), b""
            if what == "compile":
                made, fine = _compile(loaded, data)
            else:
                fine = _validate(loaded, data)
            if not fine:
                os.write(2, b"\nrefused")
        place.with_suffix(".out").write_bytes(made)


def _validate(loaded: ctypes.CDLL, data: bytes) -> bool:
    loaded.glslang_validateSPIRV.restype = ctypes.c_bool
    words = struct.unpack(f"<{len(data) // 4}I", data)
    return loaded.glslang_validateSPIRV((ctypes.c_uint32 * len(words))(*words), len(words))


def _compile(loaded: ctypes.CDLL, source: bytes) -> tuple[bytes, bool]:
    parts: dict[str, bytes] = {"output": b"", "diagnostics": b""}
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def take(name: str, data: int, size: int, _: int) -> None:
        parts[name] += ctypes.string_at(data, size)

    takers = [kind(partial(take, name)) for name in ("diagnostics", "output")]
    addresses = [ctypes.cast(one, ctypes.c_void_p).value for one in takers]
    text = ctypes.create_string_buffer(source)
    begin = ctypes.addressof(text)
    request = _Request()
    request.size, request.path = ctypes.sizeof(request), b"kernel.comp"
    request.begin, request.end = begin, begin + len(source)
    request.diagnostics, request.output = addresses
    request.stage, request.entry, request.version = _COMPUTE, b"main", (1, 6, 0)
    refused = loaded.glslang_compile_1_2(ctypes.byref(request))
    os.write(2, parts["diagnostics"])
    return parts["output"], not refused


if __name__ == "__main__":
    _main(*sys.argv[1:])
