"""Compiled programs on disk: content-addressed, checksummed, bounded, safe between processes.

An entry is one file, `KEY.oic`, where KEY is the SHA-256 of all that the program depends on:

    8 bytes "OICACHE1", 32 bytes SHA-256 of key, length, description, payload,
    u32 length of the description, the description as JSON, the payload

Entries are written to a temporary file and renamed, so a reader sees a whole file or none. The
folder belongs to the user alone (mode 0700): what it holds is executed. A damaged entry is removed
and counts as a miss. A folder that cannot be used never fails a compilation: it only costs time.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from openinfer.runtime.options import Options

MAGIC = b"OICACHE1"
SUFFIX = ".oic"
_HEADER = struct.Struct("<8s32sI")
_STALE_SECONDS = 3600
"""A temporary file this old belongs to a process that died."""


def cache_key(*parts: str | bytes) -> str:
    """The key for what a program depends on: each part with its length, hashed."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class CacheEntry:
    """One stored program."""

    key: str
    description: str
    """What was compiled, for people: program and device."""
    nbytes: int
    used: float
    """Seconds since 1970 of the last hit, or of the writing."""


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
    limit: int
    """Bytes that the folder may hold."""
    enabled: bool = True
    statistics: CacheStatistics = field(default_factory=CacheStatistics)

    @staticmethod
    def of(options: Options) -> Cache:
        return Cache(options.cache_dir, options.cache_limit, options.cache_enabled)

    def get(self, key: str) -> bytes | None:
        """The payload stored under `key`, None when there is none or it is damaged."""
        payload = self._read(key) if self._usable() else None
        if payload is None:
            self.statistics.misses += 1
        else:
            self.statistics.hits += 1
        return payload

    def put(self, key: str, payload: bytes, description: str = "") -> bool:
        """Stores a payload and drops old entries beyond the limit; False if it was not stored."""
        path = self._path(key)
        header = json.dumps({"description": description}).encode()
        size = _HEADER.size + len(header) + len(payload)
        if size > self.limit or not self._usable(create=True):
            return False
        checksum = _checksum(key, header, payload)
        temporary: str | None = None
        try:
            handle, temporary = tempfile.mkstemp(prefix=f".{key[:16]}-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(_HEADER.pack(MAGIC, checksum, len(header)))
                file.write(header)
                file.write(payload)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                _remove(Path(temporary))
            return False
        self.statistics.stores += 1
        self._shrink(keep=key)
        return True

    def discard(self, key: str) -> None:
        """Removes an entry whose content turned out to be unusable."""
        self.statistics.damaged += 1
        _remove(self._path(key))

    def entries(self) -> list[CacheEntry]:
        """All entries, the most recently used first; damaged ones are left out."""
        found: list[CacheEntry] = []
        for path, status in self._files():
            description = _description(path)
            if description is not None:
                found.append(CacheEntry(path.stem, description, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.key))

    def clear(self) -> tuple[int, int]:
        """Removes every entry and gives their number and bytes."""
        count, freed = 0, 0
        for path, status in self._files():
            if _remove(path):
                count += 1
                freed += status.st_size
        self._remove_stale(age=0.0)
        return count, freed

    def _path(self, key: str) -> Path:
        if len(key) != 64 or set(key) - set("0123456789abcdef"):
            raise ValueError(f"not a cache key: {key!r}")
        return self.folder / f"{key}{SUFFIX}"

    def _usable(self, create: bool = False) -> bool:
        """Whether the folder is there and nobody else can write to it."""
        if not self.enabled:
            return False
        try:
            if create:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
            if not stat.S_ISDIR(status.st_mode):
                return False
            if hasattr(os, "getuid"):
                if status.st_uid != os.getuid():
                    return False
                if stat.S_IMODE(status.st_mode) != 0o700:
                    os.chmod(self.folder, 0o700)
        except OSError:
            return False
        return True

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
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

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found: list[tuple[Path, os.stat_result]] = []
        try:
            names = [path for path in self.folder.iterdir() if path.suffix == SUFFIX]
        except OSError:
            return found
        for path in names:
            try:
                found.append((path, path.stat()))
            except OSError:
                continue
        return found

    def _shrink(self, keep: str) -> None:
        """Removes the least recently used entries until the rest fits the limit."""
        self._remove_stale(_STALE_SECONDS)
        files = sorted(self._files(), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files:
            if total <= self.limit:
                return
            if path.stem != keep and _remove(path):
                total -= status.st_size
                self.statistics.evicted += 1

    def _remove_stale(self, age: float) -> None:
        try:
            names = [path for path in self.folder.iterdir() if path.name.startswith(".")]
        except OSError:
            return
        for path in names:
            try:
                if time.time() - path.stat().st_mtime >= age:
                    _remove(path)
            except OSError:
                continue


def default_cache() -> Cache:
    """The cache that the environment names; one object, and so one count, per folder."""
    options = Options.from_environment()
    key = (options.cache_dir, options.cache_limit, options.cache_enabled)
    if key not in _CACHES:
        _CACHES[key] = Cache.of(options)
    return _CACHES[key]


_CACHES: dict[tuple[Path, int, bool], Cache] = {}


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


def _description(path: Path) -> str | None:
    """The description of an entry, read without its payload; None when it is damaged."""
    try:
        with path.open("rb") as file:
            magic, _, length = _HEADER.unpack(file.read(_HEADER.size))
            if magic != MAGIC or length > path.stat().st_size:
                return None
            return str(json.loads(file.read(length))["description"])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
