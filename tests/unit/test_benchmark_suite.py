"""`openinfer bench`: options, errors, the guard, tables. One tiny race; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import limits, report, tables
from benchmarks.ablation import passes
from benchmarks.page import page
from benchmarks.racing import result
from benchmarks.workloads import WORKLOADS
from openinfer.compiler.api import compile
from openinfer.compiler.pipeline import SPEED_ONLY
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.errors import InputError

CACHES = limits.Caches(second=1 << 20, last=32 << 20)
RATES = {"fma": 100e9, "dram": 10e9, "l3": 50e9}


def bench(*words: object) -> int:
    return main(["bench", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workload", "W9"), "there is no workload 'W9'\n  fix: W1, W2"),
        (("--workload", "minilm-61"), "did you mean 'minilm-16'"),
        (("--peers", "onnxruntim"), "there is no peer 'onnxruntim'\n  fix: did you mean"),
        (("--threads", "0"), "--threads takes numbers above 0, not '0'"),
        (("--threads", "one"), "--threads takes numbers above 0, not 'one'"),
        (("--rounds", "-1"), "--rounds and --slice take numbers above 0"),
        (("--resume",), "name it: --json FILE"),
    ],
)
def test_bad_options_say_what_to_give(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*words) == 2
    assert message in capsys.readouterr().err


def test_an_installed_package_says_where_the_benchmarks_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from openinfer.compiler.tools.commands import bench as command

    elsewhere = tmp_path / "site-packages" / "openinfer" / "compiler" / "tools" / "commands"
    monkeypatch.setattr(command, "__file__", str(elsewhere / "bench.py"))
    assert bench("--list") == 1
    message = capsys.readouterr().err
    assert "OI0737" in message
    assert "pip install -e" in message


def test_list_names_rows_and_peers(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--list") == 0
    shown = capsys.readouterr().out
    for name in ("minilm-128", "matvec-bf16", "onnxruntime", "llama.cpp"):
        assert name in shown


def test_a_race_is_written_resumed_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words = tmp_path / "out.json", ["--peers", "numpy", "--rounds", 2, "--slice", 0.001]
    words += ["--workload", "matmul-64", "--threads", 1, "--folder", tmp_path / "kept"]
    words += ["--json", file, "--markdown", tmp_path / "out.md"]
    assert bench(*words) == 0
    assert "matmul 64 cubed" in capsys.readouterr().out
    data = json.loads(file.read_text())
    (row,) = data["rows"]
    assert row["peers"].keys() == {"openinfer", "numpy"}
    cell = row["peers"]["numpy"]
    assert cell["p10"] <= cell["seconds"] <= cell["p90"]
    assert len(cell["rounds"]) == 2
    assert row["limits"].keys() == RATES.keys()
    assert data["environment"]["versions"]["numpy"]
    assert "| matmul 64 cubed |" in (tmp_path / "out.md").read_text()
    assert "matmul 64 cubed" in page(data)

    row["title"] = "kept as it is"
    file.write_text(json.dumps(data))
    assert bench(*words, "--resume") == 0
    assert json.loads(file.read_text())["rows"] == [row]
    data["environment"]["cpu"] = "another"
    file.write_text(json.dumps(data))
    assert bench(*words, "--resume") == 2
    assert "was measured with another cpu" in capsys.readouterr().err


def test_the_ablation_is_a_table_of_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.ablation.passes", lambda: ["fuse-epilogue"])
    words = ["--peers", "none", "--rounds", 1, "--slice", 0.001, "--workload", "matmul-64"]
    words += ["--threads", 1, "--folder", tmp_path, "--ablate", "--json", tmp_path / "out.json"]
    assert bench(*words) == 0
    found = json.loads((tmp_path / "out.json").read_text())["ablation"]
    assert found["passes"]["fuse-epilogue"]["matmul-64"] > 0
    assert "Without one pass" in capsys.readouterr().out


def test_the_ablation_knows_every_optimising_pass() -> None:
    assert set(passes()) == SPEED_ONLY


def test_memory_bounds_what_exceeds_the_caches() -> None:
    assert limits.memory_level(1e5, 1, CACHES) is None
    assert limits.memory_level(1.5 * (1 << 20), 1, CACHES) == "l3"
    assert limits.memory_level(1.5 * (1 << 20), 2, CACHES) is None
    assert limits.memory_level(1e9, 2, CACHES) == "dram"


def test_the_limit_is_the_longest_of_its_times() -> None:
    assert limits.limit_seconds(100e9, 1e9, "dram", RATES) == (1.0, "fma")
    assert limits.limit_seconds(1e9, 100e9, "dram", RATES) == (10.0, "dram")
    assert limits.limit_seconds(1e9, 100e9, None, RATES) == (0.01, "fma")


def test_what_beats_its_limit_is_refused() -> None:
    row = WORKLOADS["matmul-512"]
    least = row.operations() / RATES["fma"]
    for factor, refused in ((1.0, False), (0.9, False), (0.8, True)):
        times = {"openinfer": [[factor * least] * 3] * 2}
        cell = result(row, 1, "openinfer", times, [RATES, RATES])
        assert cell["refused"] == refused
        assert cell["share"] == pytest.approx(1 / factor)
    doubled = result(row, 1, "openvino-bf16", {"openvino-bf16": [[0.6 * least]]}, [RATES])
    assert not doubled["refused"]


def cell(seconds: float, **more: Any) -> dict[str, Any]:
    return {
        **{"seconds": seconds, "best": seconds, "p10": seconds, "p90": seconds, "cv": 0.01},
        **{"rounds": [seconds], "ratio": 1e-3 / seconds, "share": 0.5, "refused": False},
        **{"setup": 1.0, "difference": 0.0, **more},
    }


def row_of(threads: int = 1, **peers: dict[str, Any]) -> dict[str, Any]:
    named = {name.replace("_", "-"): found for name, found in peers.items()}
    return {
        **{"name": "mlp-64", "group": "W1", "title": "title of mlp-64", "threads": threads},
        **{"operations": 1.0, "bytes": 1.0, "limits": RATES, "bound": "fma", "limit": 1e-3},
        **{"peers": named, "missing": {"iree": "it failed"}},
    }


def test_the_fastest_peer_computes_in_f32_and_is_not_refused() -> None:
    row = row_of(
        openinfer=cell(1e-3),
        onnxruntime=cell(2e-3),
        torch=cell(1e-4, refused=True),
        openvino_bf16=cell(1e-4),
        openinfer_bf16=cell(1e-5),
    )
    assert tables.fastest(row) == "onnxruntime"
    header, (line,) = tables.summary([row])
    shown = dict(zip(header, line))
    assert (shown["fastest f32 peer"], shown["ratio"], shown["goal"]) == (
        "ONNX Runtime",
        "0.50",
        "0.97",
    )
    assert shown["share of the limit"] == "50% of multiply-adds"
    assert tables.against_all([row])[1][0][-2:] == ["100 µs refused (10.00)", "100 µs (10.00)"]
    assert tables.bf16([row])[1] == [["title of mlp-64", "10 µs", "100 µs", "0.10"]]


def test_missed_goals_and_absent_peers_are_shown() -> None:
    row = row_of(openinfer=cell(1e-3), onnxruntime=cell(9e-4))
    header, (line,) = tables.summary([row])
    assert dict(zip(header, line))["goal"] == "0.97 missed"
    assert list(tables.absences([row])) == ["IREE has no part in mlp-64: it failed"]
    assert report.line(row) == (
        "mlp-64, 1 thread: 1 ms, 50% of multiply-adds, 1.11 of ONNX Runtime (900 µs)"
    )


def test_the_page_has_every_part() -> None:
    rows = [row_of(openinfer=cell(1e-3), torch=cell(2e-3))]
    rows.append(row_of(threads=2, openinfer=cell(6e-4), torch=cell(1e-3)))
    data = {
        "environment": {
            **{"cpu": "a processor", "flags": ["avx2"], "cpus": 2, "target": "avx2"},
            **{"caches": {"l2": 1 << 20, "l3": 32 << 20}, "system": "Linux", "date": "today"},
            **{"commit": "", "versions": {"numpy": "2"}},
        },
        **{"rounds": 9, "slice": 0.1, "rows": rows, "failed": {"cnn, 1": "too hot"}},
        "absent": {"tinygrad": "no clang"},
        "ablation": {
            "titles": {"mlp-64": "title of mlp-64"},
            "passes": {"cse": {"mlp-64": 1.25}},
            "failed": {},
        },
    }
    text = page(data)
    for part in (
        "## 1 thread",
        "## 2 threads",
        "| title of mlp-64 | 1.67 |",
        "tinygrad is left out: no clang",
        "openinfer failed, cnn, 1: too hot",
        "| `cse` | 1.25 |",
        "100 GFLOP/s",
        "a processor (avx2)",
    ):
        assert part in text
    assert "Without one pass" in report.terminal(data)


@pytest.mark.parametrize(
    ("name", "hint"), [("fuse-epilog", "did you mean 'fuse-epilogue'"), ("bind-model", "known")]
)
def test_only_optimising_passes_can_be_left_out(name: str, hint: str) -> None:
    with pytest.raises(InputError, match="OI0512") as found:
        compile("block entry { return; }", without=[name])
    assert hint in str(found.value)


def test_programs_without_a_pass_are_cached_apart() -> None:
    text = (
        "dynamic { x: f32[4]; } volatile { y: f32[4]; } block entry { op add(x, x) >> y; return; }"
    )
    compile(text)
    assert not compile(text).compiled
    assert compile(text, without=["cse"]).compiled
    assert not compile(text, without=["cse"]).compiled
