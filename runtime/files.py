"""Files, read up to a limit and written whole or not at all; all of the project writes through here.

A file is written without a name where the system can do that (`O_TMPFILE`), so that nothing is left
of a process that is killed; it gets its name when all of it is there. Elsewhere, and for the moment
between having a name and having the right one, it is called `.openinfer-….partial` and locked: a lock
ends with its process, so whoever writes next knows which of these nobody will finish, and removes them.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, BinaryIO

if sys.platform != "win32":
    import fcntl

TEXT_LIMIT = 64 << 20
"""Bytes of the longest program, configuration or source text that is read."""
_PREFIX, _SUFFIX = ".openinfer-", ".partial"

AnyPath = str | os.PathLike[str]


# Reading


def open_regular(path: AnyPath) -> BinaryIO:
    """Opens a regular file to be read. Raises OSError, also for anything else than a regular file.

    Opening a FIFO would wait for its writer, and a device may have no end.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: AnyPath, limit: int, *, streams: bool = False) -> bytes:
    """All of a regular file of at most `limit` bytes; of anything that can be read with `streams`.

    Raises OSError, EFBIG for more bytes than that: a device without an end costs no more.
    """
    with open(path, "rb") if streams else open_regular(path) as file:
        return read_all(file, limit, path)


def read_all(file: IO[bytes], limit: int, path: AnyPath) -> bytes:
    """What is left of an open file, at most `limit` bytes. Raises OSError EFBIG."""
    with suppress(OSError, ValueError):
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise _too_long(path, limit)
    data = file.read(limit + 1)
    if len(data) > limit:
        raise _too_long(path, limit)
    return data


def read_text(path: AnyPath, limit: int = TEXT_LIMIT, *, streams: bool = False) -> str:
    """`read_bytes` as UTF-8 with lines that end in `\\n`. Raises OSError, UnicodeDecodeError."""
    return lines_of(read_bytes(path, limit, streams=streams).decode("utf-8"))


def lines_of(text: str) -> str:
    """The text with `\\n` for every end of a line, as Python reads text files."""
    return io.StringIO(text, newline=None).getvalue() if "\r" in text else text


def _too_long(path: AnyPath, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"more than {limit} bytes", os.fspath(path))


# Writing


def write_file(
    path: AnyPath,
    pieces: Iterable[bytes | memoryview],
    *,
    durable: bool = False,
    private: bool = False,
) -> None:
    """Writes a file piece by piece; who reads `path` finds what was there before, or all of them.

    A link stays, what it leads to is written; pipes and devices are written as they are. `durable`
    waits until the content is on the disk. A `private` file is its user's alone, and takes the place
    of whatever has its name, also of a link. Raises OSError, ValueError for what is no path, and what
    making the pieces raises; then nothing of the new content stays.
    """
    rest = iter(pieces)
    first = next(rest, b"")  # What cannot be made fails here, before there is a file.
    target = Path(path) if private else Path(os.path.realpath(path))
    if not private and not _replaceable(target):
        with open(target, "wb") as file:
            file.writelines(chain([first], rest))
        return
    remove_abandoned(target.parent)
    try:
        handle, name = _new_file(target.parent, 0o600 if private else 0o666)
    except OSError as error:
        # Who reads the message knows the name that was asked for, not that of the part.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(first)
            file.writelines(rest)
            file.flush()
            if durable:
                os.fsync(handle)
            if name is None:
                _give_name(handle, target)
            elif sys.platform != "win32":
                os.replace(name, target)  # While it is locked: nobody takes it for abandoned.
        if name is not None and sys.platform == "win32":
            os.replace(name, target)
    except BaseException:
        if name is not None:
            name.unlink(missing_ok=True)
        raise


def write_text(path: AnyPath, text: str) -> None:
    """`write_file` of a text in UTF-8; what is no text in the names of files becomes escapes, as in JSON."""
    write_file(path, [text.encode("utf-8", "backslashreplace")])


def remove_abandoned(folder: Path) -> None:
    """Removes files of a folder that a process began to write and did not live to finish."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_SUFFIX):
                with suppress(OSError):
                    _remove_unless_held(entry.path)


def _replaceable(target: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(target).st_mode)
    except FileNotFoundError:
        return True


def _new_file(folder: Path, mode: int) -> tuple[int, Path | None]:
    """A new, locked file in a folder, and its name; None for one that has none."""
    handle = _nameless(folder, mode)
    if handle is not None:
        _hold(handle, wait=True)
        return handle, None
    while True:
        name = _partial(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(name, flags, mode)
        _hold(handle, wait=True)
        if os.fstat(handle).st_nlink:
            return handle, name
        os.close(handle)  # Whoever tidied up saw it before it was locked.


def _nameless(folder: Path, mode: int) -> int | None:
    """A file without a name, None where the system or the file system has none."""
    if sys.platform != "linux" or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, mode)
    except OSError:
        return None  # If the folder is to blame, a file with a name says so.


def _give_name(handle: int, target: Path) -> None:
    """Puts a file without a name into the place of the target."""
    try:
        _link(handle, target)
        return
    except FileExistsError:
        pass
    # A link does not replace what is there, a rename does.
    name = _partial(target.parent)
    _link(handle, name)
    try:
        os.replace(name, target)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def _link(handle: int, name: Path) -> None:
    # With a folder given, Python asks the system to follow the link, which is the file itself.
    folder = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.link(str(handle), name, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _partial(folder: Path) -> Path:
    return folder / f"{_PREFIX}{os.urandom(16).hex()}{_SUFFIX}"


def _hold(handle: int, *, wait: bool) -> bool:
    """Locks a file until it is closed by every process that has it."""
    if sys.platform == "win32":
        return True  # There an open file cannot be removed.
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False  # Held by another one, or a file system without locks.
    return True


def _remove_unless_held(path: str) -> None:
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, flags)
    try:
        removable = stat.S_ISREG(os.fstat(handle).st_mode) and _hold(handle, wait=False)
        if removable and sys.platform != "win32":
            os.unlink(path)
    finally:
        os.close(handle)
    if removable and sys.platform == "win32":
        os.unlink(path)
