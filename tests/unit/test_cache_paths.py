"""One text is compiled once, however its path is spelled; messages and traces name the present path."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.cache import default_cache
from openinfer.runtime.errors import StepError
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="needs the cpu device")

Capture = pytest.CaptureFixture[str]

TEXT = """\
dynamic { x: f32[4]; i: i64[1]; }
volatile { y: f32[1]; }
block entry {
  op gather(x, i) >> y;
  return;
}
"""
INPUTS = {"x": np.arange(4, dtype="f4"), "i": np.array([2])}
OUTSIDE = {**INPUTS, "i": np.array([9])}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program, an empty cache, and the process standing beside it."""
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "here" / "programs"
    folder.mkdir(parents=True)
    (folder / "p.oi").write_text(TEXT)
    (tmp_path / "link.oi").symlink_to(folder / "p.oi")
    (tmp_path / "copy.oi").write_text(TEXT)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def spellings(place: Path) -> list[str]:
    whole = str(place / "here" / "programs" / "p.oi")
    return [
        "programs/p.oi",
        "programs/../programs/p.oi",
        whole,
        str(place / "link.oi"),
        "../copy.oi",
        os.path.join("..", "here", "programs", "p.oi"),
    ]


def test_every_spelling_is_the_same_entry_of_the_cache(place: Path) -> None:
    compiled = 0
    for path in spellings(place):
        program = oi.compile(oi.graph_file(path))
        compiled += program.compiled
        assert program.manifest.name == path
        assert program.source is not None
        assert program.source.file == path
    os.chdir(place)
    compiled += oi.compile(oi.graph_file("copy.oi")).compiled
    assert compiled == 1
    assert len(default_cache().entries()) == 1


def test_messages_traces_and_files_name_the_present_path(place: Path) -> None:
    for path in spellings(place):
        program = oi.compile(oi.graph_file(path))
        with program.make_executor() as executor:
            with pytest.raises(StepError) as caught:
                executor.run(**OUTSIDE)
            assert f"{path}:4:3: " in str(caught.value)
        with program.make_executor(trace=True) as executor:
            executor.run(**INPUTS)
            files = {location.file for event in executor.trace() for location in event.locations}
        assert files == {path}
        with program.make_executor() as executor:
            executor.insert(**INPUTS)
            events = [node.event for node in executor.iterate()]
            assert {place.file for event in events for place in event.locations} == {path}
        program.save("saved.oip", observed=True, traced=True)
        loaded = oi.load("saved.oip")
        with loaded.make_executor() as executor, pytest.raises(StepError) as caught:
            executor.run(**OUTSIDE)
        assert f"{path}:4:3: " in str(caught.value)
    # The plain, the traced and the watched build, each once.
    assert len(default_cache().entries()) == 3


def test_the_command_line_shows_the_line_under_the_present_path(
    place: Path, capsys: Capture
) -> None:
    for path in spellings(place):
        arguments = ["run", path, "--input", "x=1,2,3,4", "--input", "i=[9]"]
        assert main(arguments) == 1
        message = capsys.readouterr().err
        assert message.startswith(f"{path}:4:3: error[OI0601]: ")
        assert "    op gather(x, i) >> y;\n    ^" in message
    assert len(default_cache().entries()) == 1


def test_machine_code_holds_no_path(place: Path) -> None:
    program = oi.compile(oi.graph_file(place / "copy.oi"))
    for build in (program, program.observed(), program.traced()):
        code = b"".join(build.objects)
        assert b".oi" not in code
        assert str(place).encode() not in code


def test_places_that_a_graph_json_names_itself_stay(place: Path) -> None:
    text = oi.graph_file("programs/p.oi").to_json(locations=True)
    (place / "one.json").write_text(text)
    (place / "two.json").write_text(text)
    for name in ("one.json", "two.json"):
        program = oi.compile(oi.graph_file(place / name))
        assert program.manifest.name == str(place / name)
        with program.make_executor() as executor, pytest.raises(StepError) as caught:
            executor.run(**OUTSIDE)
        assert "programs/p.oi:4:3: " in str(caught.value)
    assert len(default_cache().entries()) == 1
