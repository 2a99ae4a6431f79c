"""The object cache: whole entries or none, damage found, bounded, safe between processes."""

from __future__ import annotations

import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from openinfer.runtime.cache import MAGIC, SUBFOLDER, About, Cache, cache_key
from openinfer.runtime.errors import InputError
from openinfer.runtime.options import DEFAULT_CACHE_LIMIT, Options
from openinfer.runtime.version import fingerprint

KEY = cache_key("program")
OTHER = cache_key("other")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", limit=1 << 20)


def test_round_trip(cache: Cache) -> None:
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"code", About("mlp.oi", "cpu"))
    assert cache.get(KEY) == b"code"
    assert cache.get(OTHER) is None
    counts = cache.statistics
    assert (counts.hits, counts.misses, counts.stores, counts.damaged) == (1, 2, 1, 0)
    (entry,) = cache.entries()
    assert (entry.key, entry.description) == (KEY, "mlp.oi for cpu")


def test_keys_frame_their_parts() -> None:
    assert cache_key("ab", "c") != cache_key("a", "bc")
    assert cache_key("a") != cache_key("a", "")
    assert len(KEY) == 64


def test_bad_key(cache: Cache) -> None:
    with pytest.raises(ValueError, match="not a cache key"):
        cache.put("../../etc/passwd", b"")


def test_modes(cache: Cache) -> None:
    cache.put(KEY, b"code")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    (path,) = cache.folder.glob("*.oic")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1777, 0o750])
def test_open_folder_is_left_as_it_is(cache: Cache, mode: int) -> None:
    cache.folder.mkdir()
    os.chmod(cache.folder, mode)
    assert cache.problem() is None
    assert cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"
    assert stat.S_IMODE(cache.folder.stat().st_mode) == mode
    assert cache.place() == cache.folder / SUBFOLDER
    assert stat.S_IMODE(cache.place().stat().st_mode) == 0o700
    assert [path.name for path in cache.folder.iterdir()] == [SUBFOLDER]
    assert len(cache.entries()) == 1
    assert cache.clear()[0] == 1


def test_open_subfolder_is_not_used(cache: Cache) -> None:
    inner = cache.folder / SUBFOLDER
    inner.mkdir(parents=True)
    os.chmod(cache.folder, 0o755)
    os.chmod(inner, 0o770)
    assert not cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert "mode 0770" in (cache.problem() or "")
    assert stat.S_IMODE(inner.stat().st_mode) == 0o770


def test_linked_subfolder_is_not_used(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache.folder.mkdir()
    os.chmod(cache.folder, 0o755)
    (cache.folder / SUBFOLDER).symlink_to(tmp_path / "elsewhere")
    assert not cache.put(KEY, b"code")
    assert "is a link" in (cache.problem() or "")


def test_set_group_folder_is_used(cache: Cache) -> None:
    cache.folder.mkdir()
    os.chmod(cache.folder, 0o2700)
    assert cache.put(KEY, b"code")
    assert cache.place() == cache.folder


def test_folder_of_another_user_is_not_used(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, b"code")
    monkeypatch.setattr(os, "getuid", lambda: cache.folder.stat().st_uid + 1)
    assert cache.get(KEY) is None
    assert not cache.put(OTHER, b"code")
    assert "another user" in (cache.problem() or "")


def test_every_damage_is_a_miss(cache: Cache) -> None:
    cache.put(KEY, bytes(range(64)), About("what"))
    (path,) = cache.folder.glob("*.oic")
    whole = path.read_bytes()
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 0x5A
        path.write_bytes(bytes(changed))
        assert cache.get(KEY) is None, position
        assert not path.exists(), position
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.get(KEY) is None, length
    assert cache.statistics.damaged == 2 * len(whole)
    assert cache.put(KEY, b"again")
    assert cache.get(KEY) == b"again"


def test_entry_under_another_key_is_refused(cache: Cache) -> None:
    cache.put(KEY, b"code")
    path = cache.folder / f"{KEY}.oic"
    os.rename(path, cache.folder / f"{OTHER}.oic")
    assert cache.get(OTHER) is None


def test_limit_drops_the_least_recently_used(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=4000)
    keys = [cache_key(str(number)) for number in range(3)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        os.utime(tmp_path / f"{key}.oic", (age, age))
    assert cache.get(keys[0]) is not None  # a hit makes it the youngest
    cache.put(cache_key("large"), bytes(1500))
    assert cache.get(keys[1]) is None
    assert cache.get(keys[0]) is not None
    assert cache.statistics.evicted >= 1
    assert sum(entry.nbytes for entry in cache.entries()) <= 4000


def test_larger_than_the_limit_is_not_stored(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=100)
    assert not cache.put(KEY, bytes(200))
    assert cache.entries() == []


def test_clear(cache: Cache) -> None:
    cache.put(KEY, b"code")
    cache.put(OTHER, b"code")
    (cache.folder / ".openinfer-left-by-a-crash.partial").write_bytes(b"x")
    (cache.folder / "notes.txt").write_text("kept")
    count, freed = cache.clear()
    assert count == 2
    assert freed > 0
    assert sorted(path.name for path in cache.folder.iterdir()) == ["notes.txt"]


def test_switched_off(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=1 << 20, enabled=False)
    assert not cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert not cache.folder.exists()


def test_unusable_folder_only_costs_time(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    cache = Cache(blocked / "cache", limit=1 << 20)
    assert cache.get(KEY) is None
    assert not cache.put(KEY, b"code")
    assert cache.entries() == []
    assert cache.clear() == (0, 0)
    assert cache.problem() == f"{blocked} is no folder"


def hammer(folder: str, seed: int) -> int:
    """Writes and reads a few keys as fast as it can; counts wrong payloads."""
    cache = Cache(Path(folder), limit=20_000)
    wrong = 0
    for round_number in range(60):
        number = (round_number * 7 + seed) % 5
        key = cache_key(str(number))
        payload = bytes([number]) * 3000
        cache.put(key, payload)
        found = cache.get(key)
        wrong += found is not None and found != payload
    return wrong + cache.statistics.damaged


def test_processes_share_a_folder(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(hammer, [(str(tmp_path), seed) for seed in range(4)])
    assert counts == [0, 0, 0, 0]
    assert not list(tmp_path.glob(".*"))


def test_options_of_the_environment() -> None:
    options = Options.from_environment({"HOME": "/home/a"})
    assert options.cache_dir == Path("/home/a/.cache/openinfer")
    assert options.cache_limit == DEFAULT_CACHE_LIMIT
    assert options.cache_enabled
    assert options.threads is None

    xdg = Options.from_environment({"HOME": "/home/a", "XDG_CACHE_HOME": "/var/c"})
    assert xdg.cache_dir == Path("/var/c/openinfer")
    relative = Options.from_environment({"HOME": "/home/a", "XDG_CACHE_HOME": "c"})
    assert relative.cache_dir == Path("/home/a/.cache/openinfer")

    chosen = Options.from_environment(
        {
            "OPENINFER_CACHE_DIR": "/x",
            "OPENINFER_CACHE": "off",
            "OPENINFER_CACHE_LIMIT": "2",
            "OPENINFER_THREADS": "3",
            "OPENINFER_TRACE": " Full",
        }
    )
    assert chosen.trace == "full"
    assert (chosen.cache_dir, chosen.cache_enabled) == (Path("/x"), False)
    assert (chosen.cache_limit, chosen.threads) == (2 << 20, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENINFER_CACHE", "maybe"),
        ("OPENINFER_CACHE_LIMIT", "1GB"),
        ("OPENINFER_CACHE_LIMIT", "-1"),
        ("OPENINFER_THREADS", "two"),
        ("OPENINFER_THREADS", "100000"),
        ("OPENINFER_TRACE", "verbose"),
    ],
)
def test_bad_environment(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name) as caught:
        Options.from_environment({name: value})
    assert caught.value.code == "OI0530"
    assert caught.value.hint


@pytest.mark.parametrize("name", ["pass.py", "poll.mlir", "call.ll"])
def test_edits_of_sources_change_the_fingerprint(tmp_path: Path, name: str) -> None:
    (tmp_path / "inner").mkdir()
    source = tmp_path / "inner" / name
    source.write_text("one")
    before = fingerprint([tmp_path])
    (tmp_path / "inner" / "notes.txt").write_text("no source")
    assert fingerprint([tmp_path]) == before
    source.write_text("other")
    assert fingerprint([tmp_path]) != before


@pytest.mark.parametrize("kind", ["fifo", "endless", "sparse"])
def test_an_entry_that_is_no_file_is_replaced(cache: Cache, kind: str) -> None:
    key = cache_key("program")
    assert cache.put(key, b"code")
    (path,) = cache.folder.glob("*.oic")
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    started = time.monotonic()
    assert cache.entries() == []
    assert cache.get(key) is None
    assert time.monotonic() - started < 30
    assert not os.path.lexists(path)
    if kind == "fifo":
        os.mkfifo(path)
    assert cache.put(key, b"code")
    assert cache.get(key) == b"code"


def test_entries_say_what_they_are(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", DEFAULT_CACHE_LIMIT)
    cache.put(KEY, b"code", About("mlp.oi", "cpu", "avx2", "traced"))
    (entry,) = cache.entries()
    assert entry.description == "mlp.oi for cpu, traced"
    assert (entry.about.target, entry.about.build) == ("avx2", "traced")
    assert cache.keys(KEY[:5]) == [KEY]
    assert cache.remove(OTHER) is None
    assert cache.remove(KEY) == entry.nbytes
    assert not cache.entries()


def test_entries_of_older_versions_are_listed(tmp_path: Path) -> None:
    """They hold a text instead of fields."""
    cache = Cache(tmp_path / "cache", DEFAULT_CACHE_LIMIT)
    cache.put(KEY, b"code")
    header = b'{"description": "mlp.oi for cpu"}'
    data = MAGIC + b"\0" * 32 + len(header).to_bytes(4, "little") + header
    (cache.folder / f"{OTHER}.oic").write_bytes(data)
    found = {entry.key: entry.about for entry in cache.entries()}
    assert found[OTHER] == About("mlp.oi for cpu")
    (cache.folder / f"{OTHER}.oic").write_bytes(data.replace(b"description", b"descriptiom"))
    assert [entry.key for entry in cache.entries()] == [KEY]
