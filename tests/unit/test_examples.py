"""The drivers of `examples/` check themselves; their committed packages match their generator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = (
    "mlp",
    "residual_mlp",
    "guard",
    "vit",
    "cnn",
    "audio",
    "lstm",
    "decoder",
    "moe",
    "pipeline",
)
TRAINED = {"mlp", "cnn", "vit"}


def python(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python from the root of the checkout."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_driver(name: str, repository: Path) -> None:
    done = python(repository, "-m", f"examples.{name}")
    assert done.returncode == 0, done.stderr or done.stdout
    assert done.stdout.strip()
    assert not done.stderr


def test_every_program_has_driver_and_package(repository: Path) -> None:
    folder = repository / "examples"
    programs = sorted(path.stem for path in folder.glob("*.oi"))
    assert programs == sorted(EXAMPLES)
    for name in programs:
        assert (folder / f"{name}.py").is_file()
        assert (folder / f"{name}.oinf").is_file()
        assert f"`{name}.oi`" in (folder / "README.md").read_text(encoding="utf-8")


def test_packages_are_small(repository: Path) -> None:
    sizes = [path.stat().st_size for path in (repository / "examples").glob("*.oinf")]
    assert sum(sizes) < 400_000


def test_generated_packages_are_current(repository: Path, tmp_path: Path) -> None:
    done = python(repository, "-m", "examples.make_packages", str(tmp_path))
    assert done.returncode == 0, done.stderr
    made = sorted(tmp_path.glob("*.oinf"))
    assert {path.stem for path in made} == set(EXAMPLES) - TRAINED
    for path in made:
        assert path.read_bytes() == (repository / "examples" / path.name).read_bytes(), path.name
