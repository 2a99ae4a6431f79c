"""Commands with closed, full or narrow standard streams, and with names of files that are no text."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MODULES = {
    name: f"{sys.executable} -m openinfer.compiler.tools.{name.replace('-', '_')}"
    for name in ("openinfer", "openinfer-opt")
}


@pytest.fixture
def mlp(repository: Path, tmp_path: Path) -> Path:
    for suffix in (".oi", ".oinf"):
        shutil.copy(repository / f"examples/mlp{suffix}", tmp_path)
    return tmp_path / "mlp.oi"


def shell(line: str, *, rest: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line of `openinfer …`, its stdout kept, with what a shell adds to it."""
    name, _, arguments = line.partition(" ")
    return subprocess.run(
        ["sh", "-c", f"{MODULES[name]} {arguments} {rest}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("line", ["openinfer run", "openinfer export", "openinfer-opt"])
def test_closed_streams(line: str, mlp: Path) -> None:
    for closed in ("<&-", ">&-", "<&- >&-"):
        done = shell(f"{line} {mlp}", rest=closed)
        assert (done.returncode, done.stderr) == (0, "")
    done = shell(f"{line} {mlp}", rest="2>&-")
    assert done.returncode == 0
    assert done.stdout
    assert shell(f"{line} {mlp.with_name('none.oi')}", rest="2>&-").returncode == 1


def test_the_debugger_without_input(mlp: Path) -> None:
    done = shell(f"openinfer debug {mlp}", rest="<&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    ["openinfer devices", "openinfer --version", "openinfer --help", "openinfer-opt --version"],
)
def test_a_full_disk_behind_stdout(arguments: str) -> None:
    done = shell(arguments, rest=">/dev/full")
    assert done.stderr.startswith("error[OI0557]: No space left on device")
    assert done.stderr.count("\n") == 2
    assert done.returncode == (0 if "help" in arguments else 1)


@pytest.mark.parametrize(
    "line", ["openinfer export", "openinfer inspect", "openinfer run --json", "openinfer-opt"]
)
def test_a_reader_that_goes_away(line: str, mlp: Path) -> None:
    done = shell(f"{line} {mlp}", rest="| true")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encoding_that_lacks_characters(tmp_path: Path) -> None:
    program = tmp_path / "p.oi"
    program.write_text('block entry { scope "été" { barrier; } return; }\n', encoding="utf-8")
    for line in ("openinfer export --to oi", "openinfer-opt"):
        done = shell(f"{line} {program}", PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr) == (0, "")


COMMANDS = [
    "openinfer run {0}/mlp.oi",
    "openinfer run {0}/mlp.oi --json",
    "openinfer run {0}/mlp.oi --trace {0}/t.json",
    "openinfer trace {0}/t.json",
    "openinfer trace {0}/mlp.oi --html {0}/t.html",
    "openinfer compile {0}/mlp.oi -o {0}/mlp.oip",
    "openinfer run {0}/mlp.oip",
    "openinfer inspect {0}/mlp.oip",
    "openinfer inspect {0}/mlp.oinf",
    "openinfer export {0}/mlp.oi --locations -o {0}/mlp.json",
    "openinfer export {0}/mlp.oi -o {0}/plain.json",
    "openinfer run {0}/plain.json --model {0}/mlp.oinf",
    "openinfer compare {0}/mlp.oi",
]


def test_names_that_are_no_text(mlp: Path) -> None:
    folder = os.fsencode(mlp.parent) + b"/\xff\xfe"
    os.mkdir(folder)
    for suffix in (".oi", ".oinf"):
        shutil.copy(mlp.with_suffix(suffix), os.fsdecode(folder))
    name = shlex.quote(os.fsdecode(folder))
    for command in COMMANDS:
        done = shell(command.format(name), OPENINFER_CACHE_DIR=os.fsdecode(folder + b"/cache"))
        assert (done.returncode, done.stderr) == (0, ""), command
    data = json.loads(Path(os.fsdecode(folder), "mlp.json").read_text(encoding="utf-8"))
    assert "\udcff" in json.dumps(data, ensure_ascii=False)
