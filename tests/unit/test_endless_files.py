"""Pipes that nobody writes and devices without end, for every reader: an error, soon, in little memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.tuning import Tuning

PROGRAM = "dynamic { x: f32[4]; } block entry { assign y: f32[4]; op neg(x) >> y; return y; }\n"
MEMORY = 3 << 30
KINDS = ["fifo", "endless"]


def special(place: Path, kind: str) -> Path:
    """Makes the file at `place` a FIFO or a link to a device that never ends."""
    if kind == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    return place


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    # On a machine of 64 processors the threads of NumPy's OpenBLAS alone would take 2.4 GB of addresses.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"


def tool(*arguments: str | Path, name: str = "openinfer") -> str:
    """The error of a command that must fail, in little memory and little time."""
    code = f"import sys; from openinfer.compiler.tools.{name} import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limited,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("suffix", [".oi", ".json"])
def test_programs_without_end(tmp_path: Path, suffix: str) -> None:
    path = special(tmp_path / f"endless{suffix}", "endless")
    with pytest.raises(oi.InputError, match=r"OI0514.*more than 67108864 bytes"):
        oi.graph_file(path)
    assert "OI0514" in tool("run", path)
    assert "more than 67108864 bytes" in tool(path, name="openinfer_opt")


def test_a_program_may_come_through_a_pipe(tmp_path: Path) -> None:
    path = special(tmp_path / "pipe.oi", "fifo")
    writer = threading.Thread(target=path.write_text, args=(PROGRAM,))
    writer.start()
    graph = oi.graph_file(path)
    writer.join()
    assert graph.text == PROGRAM


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["m.oinf", "m.safetensors", "m"])
def test_packages(tmp_path: Path, kind: str, name: str) -> None:
    path = special(tmp_path / name, kind)
    with pytest.raises(oi.PackageError, match=r"OI0401.*not a regular file"):
        oi.open_model(path)


@pytest.mark.parametrize("kind", KINDS)
def test_other_files(tmp_path: Path, program: Path, kind: str) -> None:
    path = special(tmp_path / "x.npy", kind)
    with pytest.raises(oi.ArtefactError, match=r"OI0801.*not a regular file"):
        oi.load(path)
    with pytest.raises(oi.ArtefactError, match=r"OI0811.*not a regular file"):
        oi.State.load(path)
    with pytest.raises(oi.InputError, match=r"OI0556.*not a regular file"):
        Tuning.load(path)
    assert "not a regular file" in tool("run", program, "--input", f"x={path}")
    assert "OI0401" in tool("inspect", path)
    assert "OI0529" in tool(
        "pack", "fractions:Fraction", "-o", tmp_path / "o.oinf", "--arguments", path
    )


@pytest.mark.parametrize("kind", KINDS)
def test_config_beside_safetensors_is_left_alone(tmp_path: Path, kind: str) -> None:
    from safetensors.numpy import save_file

    save_file({"w": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    special(tmp_path / "config.json", kind)
    # As `is_file` has it: what is no file is no configuration.
    assert not oi.open_model(tmp_path / "model.safetensors").sizes


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_that_a_graph_json_names(tmp_path: Path, program: Path, kind: str) -> None:
    path = special(tmp_path / "source.oi", kind)
    data = json.loads(oi.graph_file(program).to_json(locations=True))
    text = json.dumps(data).replace(json.dumps(str(program))[1:-1], str(path))
    assert str(path) in text
    graph = tmp_path / "graph.json"
    graph.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "openinfer.compiler.tools.openinfer", "debug", str(graph)],
        input="list\nstep\nquit\n",
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=limited,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "op neg" not in done.stdout


def test_arrays_that_claim_too_much(tmp_path: Path, program: Path) -> None:
    for shape in ((1 << 40,), (1 << 70,), (4, 1 << 62)):
        path = tmp_path / "x.npy"
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": shape}
            )
        assert "OI0522" in tool("run", program, "--input", f"x={path}")
