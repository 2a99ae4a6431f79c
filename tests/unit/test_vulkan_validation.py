"""The Khronos validation layer has nothing to say of the conformance suite, and of one case of each op.

It looks at every call, and at missing barriers, in a process of its own: a driver's instance is made with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CASES = """
import sys
sys.path.insert(0, sys.argv[1])
from batches import batches_of, run_program, text_of
from table import CASES
import openinfer as oi
from openinfer.lowering.linalg import choose_places
choose_places.MOST_ELEMENTS = 0
first = {case.op: name for name, case in reversed(CASES.items()) if not (case.full or case.runtime)}
for batch in batches_of(list(first.values())):
    run_program(oi.compile(oi.graph(text_of(batch)), None, device="vulkan"), batch, flush=False)
print(len(first), "ops")
"""


def said_by(*command: str) -> str:
    """What a process that is watched says."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=TESTS.parent,
        env={**os.environ, "OPENINFER_VULKAN_VALIDATE": "sync", "OPENINFER_CACHE": "off"},
        check=False,
    )
    said = done.stdout + done.stderr
    if "a layer is not present" in said:
        pytest.skip("the Khronos validation layer is not installed")
    assert done.returncode == 0, said
    return said


def has_nothing_to_say(said: str) -> None:
    assert "VUID" not in said
    assert "SYNC-" not in said


def test_the_conformance_suite(vulkan: None) -> None:
    # Without workers, and with what the layer prints.
    options = ["-q", "-s", "-p", "no:cacheprovider", "-k", "vulkan"]
    said = said_by("-m", "pytest", *options, str(TESTS / "conformance"))
    assert " passed" in said
    has_nothing_to_say(said)


def test_a_case_of_each_op(vulkan: None) -> None:
    said = said_by("-c", CASES, str(TESTS / "cases"))
    assert int(said.split(" ops")[0].split()[-1]) > 100
    has_nothing_to_say(said)
