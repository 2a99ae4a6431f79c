"""Files are read up to a limit, and written whole or not at all, also by a process that is killed."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from openinfer.runtime import files
from openinfer.runtime.files import read_bytes, read_text, remove_abandoned, write_file, write_text

NAMELESS = [True, False]


@pytest.fixture(params=NAMELESS, ids=["nameless", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Both ways of writing: with `O_TMPFILE`, and as on file systems that lack it."""
    if not request.param:
        monkeypatch.setattr(files, "_nameless", lambda *_: None)
    return request.param


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_by_its_successor(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    write_file(path, [b"one", memoryview(b"more")])
    assert path.read_bytes() == b"onemore"
    write_file(path, [b"two"], durable=True)
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    write_file(tmp_path / "own", [b"x"], private=True)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o600


@pytest.mark.usefixtures("way")
def test_pieces_that_fail_leave_what_was_there(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new" * 100_000
        raise RuntimeError("no more")

    path = tmp_path / "file"
    for content in (None, b"old"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(RuntimeError, match="no more"):
            write_file(path, pieces())
        assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [content] * (
            content is not None
        )


def test_a_link_stays_and_a_device_is_written_as_it_is(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_file(link, [b"new"])
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    write_file(null, [b"gone"])
    assert null.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    # A private file takes the place of whatever has its name.
    write_file(null, [b"kept"], private=True)
    assert not null.is_symlink()
    assert null.read_bytes() == b"kept"


WRITER = """
import sys, time
from pathlib import Path
from openinfer.runtime import files

if sys.argv[2] == "named":
    files._nameless = lambda *_: None

def pieces():
    yield b"half"
    print("writing", flush=True)
    time.sleep(60)
    yield b"rest"

files.write_file(Path(sys.argv[1]), pieces())
"""


@pytest.mark.parametrize("way", ["nameless", "named"])
def test_what_a_killed_writer_leaves_is_removed(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), way], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writing\n"
        during = list(tmp_path.iterdir())
        assert len(during) == (way == "named")
        # It lives: nobody takes away what it writes.
        remove_abandoned(tmp_path)
        assert list(tmp_path.iterdir()) == during
        child.send_signal(signal.SIGKILL)
    write_file(tmp_path / "other", [b"x"])
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def test_a_folder_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    target = tmp_path / "nowhere" / "page.html"
    with pytest.raises(FileNotFoundError) as caught:
        write_text(target, "")
    assert caught.value.filename == str(target)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    fifo, endless = tmp_path / "fifo", tmp_path / "endless"
    os.mkfifo(fifo)
    endless.symlink_to("/dev/zero")
    for path in (fifo, endless, tmp_path):
        with pytest.raises(OSError, match="not a regular file") as caught:
            read_bytes(path, 100)
        assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="more than 1000 bytes") as caught:
        read_bytes(endless, 1000, streams=True)
    assert caught.value.errno == errno.EFBIG
    plain = tmp_path / "plain"
    plain.write_bytes(b"a\r\nb\rc\n")
    assert read_bytes(plain, 7) == b"a\r\nb\rc\n"
    assert read_text(plain) == plain.read_text(encoding="utf-8") == "a\nb\nc\n"
    with pytest.raises(OSError, match="more than 6 bytes"):
        read_bytes(plain, 6)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError):
        read_bytes(fifo, 1)
    assert len(os.listdir("/proc/self/fd")) == descriptors
