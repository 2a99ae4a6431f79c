"""The wheel holds every Python file of the four layers: sdist first, then the wheel from it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from source_tree import LAYERS, REPOSITORY, all_sources, shown

BUILD = (
    "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])('{out}'))"
)


def build(kind: str, folder: Path, out: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(out=out), kind],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return out / done.stdout.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    setuptools = pytest.importorskip("setuptools", reason="the build needs setuptools")
    if int(setuptools.__version__.partition(".")[0]) < 77:
        pytest.skip(f"the build needs setuptools 77, found {setuptools.__version__}")
    root = tmp_path_factory.mktemp("packaging")
    checkout = root / "checkout"
    checkout.mkdir()
    for name in (*LAYERS, "openinfer"):
        ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(REPOSITORY / name, checkout / name, symlinks=True, ignore=ignore)
    for name in ("pyproject.toml", "setup.py", "LICENSE"):
        shutil.copy(REPOSITORY / name, checkout / name)
    readme = REPOSITORY / "README.md"
    (checkout / "README.md").write_text(readme.read_text() if readme.exists() else "openinfer\n")
    archive = build("build_sdist", checkout, root)
    with tarfile.open(archive) as file:
        # Older bug-fix releases of Python 3.11 have no filters; the archive is our own.
        if hasattr(tarfile, "data_filter"):
            file.extractall(root / "unpacked", filter="data")
        else:
            file.extractall(root / "unpacked")
    (unpacked,) = (root / "unpacked").iterdir()
    return build("build_wheel", unpacked, root)


def test_wheel_holds_every_source(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        found = {name for name in file.namelist() if name.startswith("openinfer/")}
    expected = {f"openinfer/{shown(path)}" for path in all_sources()}
    expected |= {"openinfer/__init__.py", "openinfer/onnx.py", "openinfer/py.typed"}
    expected |= {
        f"openinfer/{path.relative_to(REPOSITORY).as_posix()}"
        for layer in LAYERS
        for pattern in ("*.json", "*.mlir", "*.oi", "*.ll")
        for path in (REPOSITORY / layer).rglob(pattern)
    }
    assert expected - found == set(), "the wheel misses files"
    assert found - expected == set(), "the wheel holds files that no layer has"


def test_wheel_is_small(wheel: Path) -> None:
    """Nothing heavy by accident."""
    assert wheel.stat().st_size < 3_000_000


def test_required_dependencies_are_few(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = [n for n in file.namelist() if n.endswith(".dist-info/METADATA")]
        lines = file.read(name).decode().splitlines()
    required = [
        line.removeprefix("Requires-Dist: ")
        for line in lines
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    names = {item.split("=")[0].split(">")[0].split("<")[0].strip(" ~!") for item in required}
    assert names == {"llvmlite", "numpy", "safetensors", "xdsl"}
