"""Packages that change while they are in use: an error that names them, never a dead process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.compiled import context
from openinfer.runtime.packages.mapped import MappedFile

PROGRAM = """
dynamic { i: i64[4]; x: f32[4, 512]; }
constant { W: f32[512, 512]; b: f32[512]; }
persistent { n: i32; }
block entry {
    assign row: f32[4, 512];
    op gather(W, i) >> row;
    op add(row, x) >> row;
    op add(row, b) >> row;
    cache.increment n;
    return row;
}
"""
ROWS = np.arange(4)
X = np.zeros((4, 512), np.float32)
W = np.arange(512 * 512, dtype=np.float32).reshape(512, 512)


def write(path: Path) -> Path:
    content = {"W": W, "b": np.zeros(512, np.float32)}
    if path.suffix == ".safetensors":
        from safetensors.numpy import save_file

        save_file(content, path)
    else:
        oi.write_oinf(content, path)
    return path


@pytest.fixture(params=["m.oinf", "m.safetensors"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / request.param)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 64)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def lengthen(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(8))


def overwrite(path: Path) -> None:
    time.sleep(0.02)  # The clock of the file system ticks that often.
    with path.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(bytes(4096))


CHANGES = [cut, empty, lengthen, overwrite]
Change = Callable[[Path], None]


@pytest.mark.parametrize("change", CHANGES)
def test_reading_a_changed_package(package: Path, change: Change) -> None:
    model = oi.open_model(package)
    change(package)
    with pytest.raises(
        oi.PackageError, match=rf"OI0414.*{package.name}: changed while it was open"
    ):
        model.read("W")


@pytest.mark.parametrize("change", CHANGES)
def test_a_compiled_program_over_a_changed_package(package: Path, change: Change) -> None:
    model = oi.open_model(package)
    program = oi.compile(PROGRAM, model)
    with program.make_executor(threads=1) as executor:
        executor.run(i=ROWS, x=X)
        assert program.loaded().mapped_bytes == W.nbytes
        model.close()  # What was read stays mapped.
        change(package)
        time.sleep(2 * context.GUARD_SECONDS)
        for _ in range(2):
            with pytest.raises(oi.PackageError, match="OI0414"):
                executor.run(i=ROWS, x=X)
        assert (executor.fetch("n"), executor.finished_steps) == (1, 1)


@pytest.mark.parametrize("change", CHANGES)
def test_laying_out_the_weights_of_a_changed_package(package: Path, change: Change) -> None:
    program = oi.compile(PROGRAM, oi.open_model(package))
    change(package)
    with pytest.raises(oi.PackageError, match="OI0414"):
        program.make_executor()


@pytest.mark.parametrize("change", CHANGES)
def test_the_simulator_over_a_changed_package(package: Path, change: Change) -> None:
    executor = oi.Simulator(PROGRAM, oi.open_model(package)).make_executor()
    executor.run(i=ROWS, x=X)
    change(package)
    with pytest.raises(oi.PackageError, match="OI0414"):
        executor.run(i=ROWS, x=X)
    assert executor.fetch("n") == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_program_whose_own_file_changes(tmp_path: Path, change: Change) -> None:
    saved = tmp_path / "p.oip"
    oi.compile(PROGRAM, oi.open_model(write(tmp_path / "m.oinf"))).save(saved, embed_weights=True)
    loaded, copied = oi.load(saved), oi.load(saved, copy=True)
    executor = loaded.make_executor()
    executor.run(i=ROWS, x=X)
    change(saved)
    time.sleep(2 * context.GUARD_SECONDS)
    with pytest.raises(oi.PackageError, match=r"OI0414.*p\.oip"):
        executor.run(i=ROWS, x=X)
    np.testing.assert_array_equal(copied.make_executor().run(i=ROWS, x=X)["row"], W[:4])


@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_is_not_changed(package: Path, change: Change) -> None:
    with oi.open_model(package, copy=True) as model:
        executor = oi.compile(PROGRAM, model).make_executor()
        simulator = oi.Simulator(PROGRAM, model).make_executor()
        change(package)
        read = model.read("W")
        assert not read.flags.writeable
        np.testing.assert_array_equal(read, W)
        for one in (executor, simulator):
            np.testing.assert_array_equal(one.run(i=ROWS, x=X)["row"], W[:4])
    np.testing.assert_array_equal(executor.run(i=ROWS, x=X)["row"], W[:4])
    assert executor._loaded.guard is None  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_a_package_that_was_replaced_or_removed_stays_in_use(package: Path, how: str) -> None:
    model = oi.open_model(package)
    executor = oi.compile(PROGRAM, model).make_executor()
    executor.run(i=ROWS, x=X)
    if how == "replaced":
        oi.write_oinf({"W": W + 1, "b": np.zeros(512, np.float32)}, package)
    else:
        package.unlink()
    time.sleep(2 * context.GUARD_SECONDS)
    np.testing.assert_array_equal(executor.run(i=ROWS, x=X)["row"], W[:4])
    np.testing.assert_array_equal(model.read("W"), W)


def test_small_weights_are_looked_after_by_nobody(tmp_path: Path) -> None:
    program = "dynamic { x: f32[4]; } constant { b: f32[4]; } volatile { y: f32[4]; } " + (
        "block entry { op add(x, b) >> y; return y; }"
    )
    path = tmp_path / "m.oinf"
    oi.write_oinf({"b": np.ones(4, np.float32)}, path)
    compiled = oi.compile(program, oi.open_model(path))
    executor = compiled.make_executor()
    assert compiled.loaded().guard is None
    empty(path)
    np.testing.assert_array_equal(executor.run(x=np.zeros(4, np.float32))["y"], np.ones(4))


def test_descriptors_are_closed(package: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for copy in (False, True):
        for _ in range(20):
            oi.open_model(package, copy=copy).close()
            MappedFile(package, copy=copy)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_copy_that_memory_cannot_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "m.oinf")
    with path.open("r+b") as file:
        file.truncate(1 << 43)  # Sparse; it is not looked at before it is read.
    with pytest.raises(oi.PackageError, match=r"OI0415.*cannot be copied into memory"):
        oi.open_model(path, copy=True)


def test_the_command_line_copies(tmp_path: Path) -> None:
    path = write(tmp_path / "p.oinf")
    (tmp_path / "p.oi").write_text(PROGRAM)
    arguments = ["run", str(tmp_path / "p.oi"), "--input", "i=0,1,2,3", "--copy-model"]
    done = subprocess.run(
        [sys.executable, "-m", "openinfer.compiler.tools.openinfer", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), path
