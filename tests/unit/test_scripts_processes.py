"""`scripts/processes.py`: a job whose process ends takes no other job with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from processes import in_processes


def squared(number: int) -> str:
    if number == 2:
        os._exit(3)
    return str(number**2)


def ended(number: int) -> str:
    return f"{number} ended"


@pytest.mark.usefixtures("_threads_as_before")
def test_a_job_that_ends_its_process_is_told_alone() -> None:
    found = dict(in_processes(squared, range(5), 2, ended))
    assert found == {0: "0", 1: "1", 2: "2 ended", 3: "9", 4: "16"}


def skips(_: int) -> None:
    pytest.skip("an exception that pickle cannot take back")


@pytest.mark.usefixtures("_threads_as_before")
@pytest.mark.parametrize("processes", [1, 2])
def test_what_the_work_raises_is_told(processes: int) -> None:
    with pytest.raises(RuntimeError, match="Skipped: an exception"):
        list(in_processes(skips, [0], processes, lambda _: None))


def test_one_process_is_this_one() -> None:
    assert dict(in_processes(lambda one: one + os.getpid(), [0], 1, lambda one: one)) == {
        0: os.getpid()
    }


@pytest.fixture
def _threads_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_THREADS", "")
