"""`python -m benchmarks.language`: models, a process of an engine, tables. No time is asserted."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from benchmarks.language import page
from benchmarks.language.__main__ import main
from benchmarks.language.engines import ENGINES, OURS, PEER, missing
from benchmarks.language.models import SHAPES, TYPES, Shape, model_file
from benchmarks.language.racing import Process, Setting

SMALL = Shape("small", 256, 2, 4, 2, 512, vocabulary=400)


def record(**changes: Any) -> dict[str, Any]:
    """A row in which we decode 100 tokens each second, llama.cpp 80."""
    first = {
        "first_start": 3.0,
        "second_start": 1.0,
        "load": 0.5,
        "memory": {"own": 10**6, "files": 2 * 10**6},
    }

    def engine(tokens: float, ratio: float, share: float) -> dict[str, Any]:
        cell = {"tokens": tokens, "ratio": ratio, "rounds": [1 / tokens]}
        return {**first, "decode": cell | {"share": share}, "128": cell, "512": cell}

    row = {
        **{"shape": "1.04G", "type": "q8_0", "threads": 1, "bytes": 10**9, "read": 20e9},
        "engines": {OURS: engine(100, 1.25, 0.8), PEER: engine(80, 1.0, 0.6)},
        **{"missing": {}, "difference": 0.0},
    }
    return row | changes


@pytest.mark.parametrize("kind", TYPES)
def test_a_model_file_is_what_the_shape_says(kind: str, tmp_path: Path) -> None:
    path = model_file(SMALL, kind, tmp_path)
    made = path.stat().st_mtime_ns
    assert model_file(SMALL, kind, tmp_path) == path
    assert path.stat().st_mtime_ns == made
    model = oi.open_model(path)
    shapes = [model.info(name).shape for name in model.tensors]
    assert sum(prod(shape) for shape in shapes) == SMALL.parameters
    assert model.info("blk.1.ffn_down.weight").dtype.name == kind
    other = model_file(replace(SMALL, layers=1), kind, tmp_path)
    assert other.exists()
    assert not path.exists(), "what another edition left is removed"


def test_rows_that_are_no_whole_blocks_have_no_file() -> None:
    assert SHAPES["15M"].missing("q4_k") == "rows of 288 are no whole blocks of 256"
    assert all(SHAPES["1.04G"].missing(kind) is None for kind in TYPES)
    assert [round(shape.parameters / 1e6) for shape in SHAPES.values()] == [15, 1039]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def path(scratch: Path) -> Path:
    return model_file(replace(SMALL, vocabulary=32_000, layers=1), "q8_0", scratch)


def test_our_part_is_the_engine_that_people_use(
    path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tokens in pieces, and again behind a cut, give the logits of `Engine.logits`."""
    made: list[oi.Engine] = []

    class Watched(oi.Engine):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, **options)
            made.append(self)

    monkeypatch.setattr(oi, "Engine", Watched)
    # The process of the next test finds there what is compiled here.
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(scratch / "cache"))
    _, make = ENGINES[OURS]
    ours = make(path, 1, "cpu")
    ids = [5, 300, 7, 9]
    ours.step(ids[:3])
    first = ours.step(ids[3:])
    ours.cut(1)
    again = ours.step(ids[1:])
    (engine,) = made
    wanted = engine.logits(ids)[-1]
    engine.close()
    for found in (first, again):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_answers_and_times_itself(engine: str, path: Path, scratch: Path) -> None:
    if reason := missing(engine):
        pytest.skip(reason)
    process = Process(engine, path, Setting(1, scratch))
    try:
        assert process.first["first_token"] > process.first["load"] > 0
        for kind in ("decode", "128"):
            times = process.ask(measure=kind, seconds=0.01)["times"]
            assert times
            assert all(time > 0 for time in times)
        process.ask(logits=str(scratch / "logits.npy"))
        logits = np.load(scratch / "logits.npy")
        assert logits.shape == (32_000,)
        assert np.isfinite(logits).all()
        assert logits.std() > 0
    finally:
        process.close()


def test_tables_say_who_is_faster_and_which_goals_are_missed() -> None:
    _, (decode, prompt, _) = page.speeds([record()])
    assert decode == [
        "1.04G q8_0",
        "decode",
        "100",
        "80.0",
        "1.25",
        "1.3 or 97% missed",
        "1.05 and 90% missed",
        "80%",
        "60%",
        "20.0",
    ]
    assert prompt[4:6] == ["1.25", "2 missed"]
    assert page.goal(record(type="q4_0"), "decode") == "1.2 or 90%"
    near = record()
    near["engines"][OURS]["decode"]["share"] = 0.98
    assert page.least(near, "decode") == "1.05 and 90%"
    assert page.least(near, "128") == ""
    assert page.goal(near, "decode") == "1.3 or 97%"
    _, lines = page.starts([record()])
    assert lines[0] == ["1.04G q8_0", "1000.0 MB", OURS, "3 s", "1 s", "500 ms", "3.0 MB"]


def test_a_row_without_us_or_without_the_peer_is_shown() -> None:
    row = record()
    for engine in (OURS, PEER):
        alone = row | {"engines": {engine: row["engines"][engine]}}
        _, lines = page.speeds([alone])
        assert len(lines) == 3
        assert engine in page.line(alone)


def test_processors_stand_side_by_side() -> None:
    """A row that one of them did not measure is an empty cell and a note."""

    def measured(cpu: str, *rows: dict[str, Any]) -> dict[str, Any]:
        where = {"cpu": cpu, "flags": ["avx2"], "cpus": 2, "system": "Linux", "versions": {}}
        return {
            "environment": where | {"commit": "abc", "date": "2026-01-01"},
            **{"rounds": 3, "slice": 0.5, "absent": {}, "failed": {}, "rows": list(rows)},
        }

    one = measured("Intel(R) Xeon(R) Processor", record())
    two = measured("AMD EPYC", record(threads=2), record(threads=2, type="q4_0"))
    head, lines = page.ratios([one, two])
    assert head[3:] == ["Intel Xeon, 1 thread", "AMD EPYC, 2 threads"]
    assert lines[0] == ["1.04G q8_0", "decode", "1.3 or 97%", "1.25 missed", "1.25 missed"]
    assert lines[3][2:] == ["1.2 or 90%", "", "1.25"]
    text = page.page([one, two])
    first, second = text.index("\n## Intel Xeon\n"), text.index("\n## AMD EPYC\n")
    assert "1.04G q4_0, 1 thread: not measured" in text[first:second]
    assert "1.04G q4_0, " not in text[second:]


def test_the_page_needs_a_file_that_is_committed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--page", "--json", str(tmp_path / "results-language-a.json")])
    assert "results-language-NAME.json" in capsys.readouterr().err
    assert page.is_committed(page.RESULTS / "results-language-a.json")


def test_the_page_is_what_the_results_say() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(page.committed())
