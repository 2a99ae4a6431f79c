"""Compiled programs on disk: content-addressed, checksummed, bounded, safe between processes.

An entry is one file, `KEY.oic`, where KEY is the SHA-256 of all that the program depends on:

    8 bytes "OICACHE1", 32 bytes SHA-256 of key, length, description, payload,
    u32 length of the description, the description (`About`) as JSON, the payload

Entries are written aside and put into their place, so a reader sees a whole file or none. The
folder belongs to the user alone (mode 0700): what it holds is executed. A folder that others may
read or write is left as it is, and a folder in it that is ours holds the entries. A damaged entry is
removed and counts as a miss. A folder that cannot be used never fails a compilation: it only costs
time, and `problem()` says why. The folder `kernels` in it holds objects of single kernels in the same way.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
from dataclasses import asdict, field
from pathlib import Path

from openinfer.runtime.files import open_regular, read_bytes, remove_abandoned, write_file
from openinfer.runtime.options import Options
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.rows import row_of

MAGIC = b"OICACHE1"
SUFFIX = ".oic"
KERNELS = "kernels"
"""The folder beside the programs that holds objects of single kernels, which programs share."""
KERNEL_SHARE = 8
"""Kernels may take one part in so many of what programs may, on top of it: they are in the programs, too."""
SUBFOLDER = "openinfer-programs"
"""Holds the entries where the given folder is not the user's alone."""
_NO_ENTRY = (errno.EINVAL, errno.EFBIG, errno.ELOOP, errno.ENXIO)
"""What reading gives for a pipe, a link to a device, a file larger than the folder may be."""
_HEADER = struct.Struct("<8s32sI")


def cache_key(*parts: str | bytes) -> str:
    """The key for what a program depends on: each part with its length, hashed."""
    digest = hashlib.sha256()
    for part in parts:
        # Half a surrogate pair in a text is an error of the program, found when it is read.
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class About:
    """What an entry says of its program, for people; nothing is decided by it."""

    program: str = ""
    """The file that it was compiled from, or how messages call its text."""
    device: str = ""
    target: str = ""
    """The processor that its code is for."""
    build: str = "plain"
    """"plain", "observed" or "traced"."""

    @property
    def text(self) -> str:
        """`mlp.oi for cpu, traced`."""
        device = f" for {self.device}" if self.device else ""
        return f"{self.program}{device}{f', {self.build}' if self.build != 'plain' else ''}"


_NOTHING = About()


@dataclass(frozen=True)
class CacheEntry:
    """One stored program."""

    key: str
    about: About
    nbytes: int
    used: float
    """Seconds since 1970 of the last hit, or of the writing."""

    @property
    def description(self) -> str:
        """What was compiled, for people: program, device, build."""
        return self.about.text


@dataclass
class CacheStatistics:
    """What one process did with the cache."""

    hits: int = 0
    misses: int = 0
    stores: int = 0
    damaged: int = 0
    evicted: int = 0


@dataclass
class Cache:
    """The entries of one folder. Every call is safe while other processes use the same folder."""

    folder: Path
    """As it was chosen; `place()` is where the entries lie."""
    limit: int
    """Bytes that the folder may hold."""
    enabled: bool = True
    statistics: CacheStatistics = field(default_factory=CacheStatistics)
    within: Cache | None = None
    """The cache whose folder this one is in: it is made first, for its user alone."""

    @staticmethod
    def of(options: Options) -> Cache:
        return Cache(options.cache_dir, options.cache_limit, options.cache_enabled)

    def get(self, key: str) -> bytes | None:
        """The payload stored under `key`, None when there is none or it is damaged."""
        place = self._usable()
        payload = self._read(place, key) if place is not None else None
        if payload is None:
            self.statistics.misses += 1
        else:
            self.statistics.hits += 1
        return payload

    def put(self, key: str, payload: bytes, about: About = _NOTHING) -> bool:
        """Stores a payload and drops old entries beyond the limit; False if it was not stored."""
        name = _file_name(key)
        header = json.dumps(asdict(about)).encode()
        size = _HEADER.size + len(header) + len(payload)
        if size > self.limit:
            return False
        place = self._usable(create=True)
        if place is None:
            return False
        checksum = _checksum(key, header, payload)
        pieces = [_HEADER.pack(MAGIC, checksum, len(header)), header, payload]
        try:
            write_file(place / name, pieces, private=True)
        except OSError:
            return False
        self.statistics.stores += 1
        self._shrink(place, keep=key)
        return True

    def discard(self, key: str) -> None:
        """Removes an entry whose content turned out to be unusable."""
        self.statistics.damaged += 1
        place = self._usable()
        if place is not None:
            _remove(place / _file_name(key))

    def entries(self) -> list[CacheEntry]:
        """All entries, the most recently used first; damaged ones are left out."""
        found: list[CacheEntry] = []
        for path, status in _files(self._safe()):
            about = _about(path)
            if about is not None:
                found.append(CacheEntry(path.stem, about, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.key))

    def remove(self, key: str) -> int | None:
        """Removes one entry, damaged or not, and gives its bytes; None where there is none."""
        place = self._safe()
        for path, status in _files(place):
            if path.stem == key and _remove(path):
                return status.st_size
        return None

    def keys(self, start: str) -> list[str]:
        """The keys that begin so, of damaged entries too."""
        return sorted(path.stem for path, _ in _files(self._safe()) if path.stem.startswith(start))

    def kernels(self) -> Cache:
        """The objects of single kernels, in a folder of the same kind inside of this one."""
        place = self.place() / KERNELS
        return Cache(place, self.limit // KERNEL_SHARE, self.enabled, within=self)

    def clear(self) -> tuple[int, int]:
        """Removes every entry, and kernels; gives the number of entries, and the bytes of both."""
        count, freed = 0, 0
        if self.within is None:
            freed += self.kernels().clear()[1]
        place = self._safe()
        for path, status in _files(place):
            if _remove(path):
                count += 1
                freed += status.st_size
        if place is not None:
            remove_abandoned(place)
        return count, freed

    def place(self) -> Path:
        """The folder that holds the entries, or would: the given one, or our own folder in it."""
        if _unusable(self.folder) is None or not self.folder.exists():
            return self.folder
        return self.folder / SUBFOLDER

    def problem(self) -> str | None:
        """Why no entry can be kept or read, None when they can. Creates nothing."""
        if not self.enabled:
            return None
        place = self.place()
        if os.path.lexists(place):
            return _unusable(place)
        parent = place.parent
        while not os.path.lexists(parent) and parent != parent.parent:
            parent = parent.parent
        if not parent.is_dir():
            return f"{parent} is no folder"
        if not os.access(parent, os.W_OK | os.X_OK):
            return f"{parent} may not be written"
        return None

    def _usable(self, create: bool = False) -> Path | None:
        """The folder of the entries if it is there and nobody else can write to it."""
        return self._safe(create) if self.enabled else None

    def _safe(self, create: bool = False) -> Path | None:
        if self.within is not None and self.within._safe(create) is None:
            return None
        try:
            place = self.place()
            if create and not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                # Never changes the mode of a folder that is there already.
                place.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return None
        return place if _unusable(place) is None else None

    def _read(self, place: Path, key: str) -> bytes | None:
        path = place / _file_name(key)
        try:
            data = read_bytes(path, _HEADER.size + self.limit)
        except OSError as error:
            if error.errno in _NO_ENTRY:
                self.discard(key)
            return None
        except MemoryError:
            return None
        payload = _payload(key, data)
        if payload is None:
            self.discard(key)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # Another process evicted it just now; what was read is whole.
        return payload

    def _shrink(self, place: Path, keep: str) -> None:
        """Removes the least recently used entries until the rest fits the limit."""
        files = sorted(_files(place), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files:
            if total <= self.limit:
                return
            if path.stem != keep and _remove(path):
                total -= status.st_size
                self.statistics.evicted += 1


def default_cache() -> Cache:
    """The cache that the environment names; one object, and so one count, per folder."""
    options = Options.from_environment()
    key = (options.cache_dir, options.cache_limit, options.cache_enabled)
    return _CACHES.setdefault(key, Cache.of(options))


_CACHES: dict[tuple[Path, int, bool], Cache] = {}


def _file_name(key: str) -> str:
    if len(key) != 64 or set(key) - set("0123456789abcdef"):
        raise ValueError(f"not a cache key: {key!r}")
    return f"{key}{SUFFIX}"


def _unusable(folder: Path) -> str | None:
    """Why a folder must not hold code that is executed, None when it may."""
    try:
        status = folder.stat()
        if folder.name == SUBFOLDER and folder.is_symlink():
            return f"{folder} is a link"
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    if not hasattr(os, "getuid"):
        return None
    if status.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    # A set-group bit, which a new folder takes from the one around it, gives nobody access.
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o777 != 0o700:
        return f"{folder} has mode {mode:04o}, not 0700"
    return None


def _files(place: Path | None) -> list[tuple[Path, os.stat_result]]:
    """The entries of a folder with their status; none for a folder that is not to be used."""
    found: list[tuple[Path, os.stat_result]] = []
    if place is None:
        return found
    try:
        names = [path for path in place.iterdir() if path.suffix == SUFFIX]
    except OSError:
        return found
    for path in names:
        try:
            found.append((path, path.stat()))
        except OSError:
            continue
    return found


def _checksum(key: str, header: bytes, payload: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(len(header).to_bytes(8, "little"))
    digest.update(header)
    digest.update(payload)
    return digest.digest()


def _payload(key: str, data: bytes) -> bytes | None:
    """The payload of an entry's bytes, None unless every byte is as it was written."""
    if len(data) < _HEADER.size:
        return None
    magic, checksum, length = _HEADER.unpack_from(data)
    begin = _HEADER.size + length
    if magic != MAGIC or begin > len(data):
        return None
    header, payload = data[_HEADER.size : begin], data[begin:]
    return payload if _checksum(key, header, payload) == checksum else None


def _about(path: Path) -> About | None:
    """What an entry says of itself, read without its payload; None when it is damaged."""
    try:
        with open_regular(path) as file:
            magic, _, length = _HEADER.unpack(file.read(_HEADER.size))
            if magic != MAGIC or length > os.fstat(file.fileno()).st_size:
                return None
            found = json.loads(file.read(length))
        if "description" in found:  # written by an older version
            return About(program=str(found["description"]))
        return row_of(About, found)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, struct.error):
        return None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
