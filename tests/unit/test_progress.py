"""The line that a terminal shows while a program compiles."""

from __future__ import annotations

import os
import pty
import re
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import openinfer as oi
from openinfer.compiler.timings import at_stage
from openinfer.compiler.tools import progress
from openinfer.compiler.tools.openinfer import main

TEXT = "dynamic { x: f32[4]; }\nblock entry { assign y: f32[4];\nop relu(x) >> y; return y; }\n"


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Generator[list[bytes]]:
    """A terminal for stderr; what it showed is in the list at the end."""
    outside, inside = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(outside, 4096):
                shown.append(data)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=read)
    reader.start()
    stream = os.fdopen(inside, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        yield shown
    finally:
        stream.close()
        reader.join()
        os.close(outside)


def text_of(shown: list[bytes]) -> str:
    return b"".join(shown).decode()


def wait_for(shown: list[bytes], words: str) -> None:
    """Until the terminal has shown them."""
    end = time.monotonic() + 60
    while re.search(words, text_of(shown)) is None:
        assert time.monotonic() < end, text_of(shown)
        time.sleep(0.01)


def test_the_line_names_the_phase_and_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, progress.waiting("compiling p.oi", 0.0, 0.01):
        at_stage("kernels, 5 of 7")
        wait_for(shown, r"\rcompiling p.oi … kernels, 5 of 7, \d+ s\x1b\[K")
        at_stage("machine code")
        wait_for(shown, r"\rcompiling p.oi … machine code, \d+ s\x1b\[K")
    text = text_of(shown)
    assert text.endswith("\r\x1b[K")
    assert "\n" not in text


def test_the_phase_fits_beside_a_long_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, progress.waiting("compiling " + "a" * 300, 0.0, 0.01):
        at_stage("kernels, 5 of 7")
        wait_for(shown, r"aaa … kernels, 5 of 7, \d+ s\x1b\[K")
    assert max(map(len, re.findall(r"\r([^\r]*)\x1b", text_of(shown)))) == 79


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, progress.waiting("compiling p.oi", 60.0):
        at_stage("kernels, 5 of 7")
    assert text_of(shown) == ""


def test_where_there_is_no_terminal_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.waiting("compiling p.oi", 0.0, 0.01):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_an_error_erases_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(shown: list[bytes]) -> None:
        with progress.waiting("compiling p.oi", 0.0, 0.01):
            wait_for(shown, "compiling")
            raise oi.CompileError("OI0962", "a pass failed")

    with terminal(monkeypatch) as shown, pytest.raises(oi.CompileError):
        fails(shown)
    assert text_of(shown).endswith("\r\x1b[K")


def test_compiling_says_its_phases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    (tmp_path / "p.oi").write_text(TEXT)
    plain = progress.waiting
    monkeypatch.setattr(progress, "waiting", lambda what: plain(what, 0.0, 0.001))  # pyright: ignore
    with terminal(monkeypatch) as shown:
        assert main(["compile", str(tmp_path / "p.oi"), "-o", str(tmp_path / "p.oip")]) == 0
    phases = set(re.findall(r"… (\w+), \d of 7, \d+ s", text_of(shown)))
    assert phases & {"graph", "nn", "linalg", "buffers", "kernels", "threads", "llvm"}
