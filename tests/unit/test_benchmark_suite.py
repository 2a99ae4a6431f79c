"""`openinfer bench`: options, errors, the guard, tables. One tiny race; no time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ablation_tables, limits, memory_tables, report, tables
from benchmarks.ablation import acting_passes, passes
from benchmarks.doubts import absent, doubts
from benchmarks.page import page
from benchmarks.racing import result
from benchmarks.rounds import Round
from benchmarks.workloads import WORKLOADS
from openinfer.compiler.api import compile
from openinfer.compiler.pipeline import SPEED_ONLY
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import InputError

CACHES = {"l2": 1 << 20, "l3": 32 << 20}
RATES = {"fma": 100e9, "read": 10e9}


def bench(*words: object) -> int:
    return main(["bench", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--workload", "W10"), "there is no workload 'W10'\n  fix: W1, W2"),
        (("--workload", "W7"), "python -m benchmarks.language"),
        (("--workload", "minilm-61"), "did you mean 'minilm-16'"),
        (("--peers", "onnxruntim"), "there is no peer 'onnxruntim'\n  fix: did you mean"),
        (("--threads", "0"), "--threads takes numbers above 0, not '0'"),
        (("--threads", "one"), "--threads takes numbers above 0, not 'one'"),
        (("--rounds", "-1"), "--rounds and --slice take numbers above 0"),
        (("--resume",), "name it: --json FILE"),
        (("--again",), "--again goes on with the file of --json"),
        (("--page",), "--page shows what the file of --json holds"),
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
    # A slow round has few calls: its median may be beyond the quantiles of all of them.
    assert cell["best"] <= cell["p10"] <= cell["p90"]
    assert cell["best"] <= cell["seconds"]
    # Where times spread, a round more is taken.
    assert len(cell["rounds"]) >= 2
    assert row["limits"].keys() == RATES.keys()
    assert data["environment"]["versions"]["numpy"]
    assert "| matmul 64 cubed |" in (tmp_path / "out.md").read_text()
    assert "matmul 64 cubed" in page(data)

    row["title"] = "kept as it is"
    file.write_text(json.dumps(data))
    assert bench(*words, "--resume") == 0
    assert json.loads(file.read_text())["rows"] == [row]
    other = row | {"name": "matmul-65", "title": "another row"}
    data["environment"]["commit"] = "before"
    data["rows"] = [row, other]
    file.write_text(json.dumps(data))
    assert bench(*words, "--again") == 0
    again = json.loads(file.read_text())
    assert [one["title"] for one in again["rows"]] == ["matmul 64 cubed", "another row"]
    assert again["environment"]["commit"] == "before"
    assert again["rows"][0]["commit"] != "before"
    assert "- matmul-64: commit " in page(again)
    assert again["rows"][1] == other
    data["environment"]["cpu"] = "another"
    file.write_text(json.dumps(data))
    assert bench(*words, "--resume") == 2
    assert "was measured with another cpu" in capsys.readouterr().err


def test_the_ablation_is_a_table_of_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["recognize-attention", "fuse-elementwise"]
    monkeypatch.setattr("benchmarks.ablation.passes", lambda: names)
    file, words = tmp_path / "out.json", ["--peers", "none", "--rounds", 1, "--slice", 0.001]
    words += ["--workload", "mlp-1", "--threads", 1, "--folder", tmp_path]
    words += ["--ablate", "--json", file]
    assert bench(*words) == 0
    data = json.loads(file.read_text())
    (row,) = data["ablation"]["rows"]
    assert "recognize-attention" not in row["cells"]
    assert row["cells"]["fuse-elementwise"]["factor"] is None
    assert row["cells"]["fuse-elementwise"]["compile"] > 0
    assert "Without one pass" in capsys.readouterr().out

    row["title"] = "kept as it is"
    file.write_text(json.dumps(data))
    assert bench(*words, "--resume") == 0
    assert json.loads(file.read_text())["ablation"]["rows"] == [row]


def test_the_ablation_knows_every_optional_pass() -> None:
    assert set(passes()) == SPEED_ONLY


def test_a_pass_that_changes_nothing_is_not_compiled_again(tmp_path: Path) -> None:
    row = WORKLOADS["mlp-1"]
    row.write_package(tmp_path)
    found = acting_passes(row, tmp_path, passes())
    assert "fuse-epilogue" in found
    assert "recognize-attention" not in found


ABLATION = {
    "passes": ["cse", "fuse", "reuse", "fold"],
    "rows": [
        {
            **{"name": "mlp-64", "title": "title of mlp-64", "noise": 0.01},
            "cells": {
                "cse": {"factor": None, "arena": 1.0, "code": 1.0, "compile": 1.1},
                "fuse": {"factor": 1.25, "arena": 2.0, "code": 1.0, "compile": None},
                "reuse": {"factor": 1.01, "arena": 1.5, "code": 1.0, "compile": 1.0},
                "fold": {"error": "it does not compile"},
            },
        }
    ],
}


def test_the_ablation_says_which_passes_buy_nothing() -> None:
    header, lines = ablation_tables.summary(ABLATION)
    shown = [dict(zip(header, line)) for line in lines]
    assert [line["acts in"] for line in shown] == ["1 of 1", "1 of 1", "1 of 1", "0 of 1"]
    assert [line["same code in"] for line in shown] == ["1", "0", "0", "0"]
    assert [line["time"] for line in shown] == ["", "1.25", "1.01", ""]
    assert [line["compile"] for line in shown] == ["1.1", "", "1", ""]
    assert [line[1] for line in ablation_tables.factors(ABLATION)[1]] == [
        *("±1.0%", "=", "1.25", "1.01")
    ]
    faster, smaller, nothing, idle = ablation_tables.verdicts(ABLATION)
    assert faster.endswith("without `fuse`.")
    assert smaller == "Only the arena is larger without `reuse`."
    assert nothing.endswith("without `cse`.")
    assert idle == "No program here is changed by `fold`."
    assert list(ablation_tables.failures(ABLATION)) == [
        "mlp-64 without `fold`: it does not compile"
    ]


def test_the_limit_is_the_longest_of_its_times() -> None:
    assert limits.limit_seconds(100e9, 1e9, 100e9, 10e9) == (1.0, "fma")
    assert limits.limit_seconds(1e9, 100e9, 100e9, 10e9) == (10.0, "read")


def test_reads_are_of_as_many_bytes_as_a_row_has() -> None:
    case = limits.read_case(10_000, host_target())
    case.run(2)
    assert 8_000 <= case.work <= 10_000
    measured = limits.Limits(2, host_target())
    measured.expect([50_000, 200_000])
    assert measured.measure().keys() == {"fma", "read 50000", "read 200000"}
    measured.expect([1_000])
    assert measured.measure().keys() == {"fma", "read 1000"}


def test_what_beats_its_limit_is_refused() -> None:
    row = WORKLOADS["matmul-512"]
    least = row.operations() / RATES["fma"]
    rates = {
        "fma": RATES["fma"],
        limits.read_name(row.nbytes()): RATES["read"],
        limits.read_name(row.nbytes() / 2): RATES["read"],
    }
    for factor, refused in ((1.0, False), (0.9, False), (0.8, True)):
        times = {"openinfer": [factor * least] * 3}
        cell = result(row, "openinfer", [Round(rates, times)] * 2)
        assert cell["refused"] == refused
        assert cell["share"] == pytest.approx(1 / factor)
    doubled = result(row, "openvino-bf16", [Round(rates, {"openvino-bf16": [0.6 * least]})])
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


def test_shares_beyond_the_limit_and_refused_times_are_explained() -> None:
    peers = {
        "openinfer": cell(2e-4, share=1.003),
        "onnxruntime": cell(1.9e-4, share=1.06),
        "torch": cell(1e-4, refused=True, share=2.0),
    }
    row = row_of(1, **peers) | {"bound": "read", "bytes": 4e6}
    counted, refused = doubts([row])
    told = "title of mlp-64, 1 thread: ONNX Runtime took 190 µs, 106% of the limit: reads of 4.0 MB"
    assert counted.startswith(told)
    assert "GB/s take 201 µs by what was measured" in counted
    assert counted.endswith("rates vary by 15%, so the time counts")
    assert "PyTorch eager took 100 µs, 200% of the limit" in refused
    assert "is refused: either not all of the bytes were read, or a nearer cache" in refused
    _, disturbed = doubts([row | {"again": {"disturbed": 2}}])
    assert "2 rounds of this row were disturbed by other work" in disturbed
    _, clock = doubts([row | {"bound": "fma"}])
    assert "its multiply-adds at 100 GFLOP/s take" in clock
    assert "at a lower clock" in clock
    assert list(absent(row)) == ["IREE has no part: it failed"]


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


def test_rows_are_named_by_what_bounds_them() -> None:
    assert tables.bound(row_of()) == "multiply-adds"
    assert tables.bound({**row_of(), "bound": "read", "bytes": 34e6}) == "reads of 34.0 MB"
    far = {**row_of(), "bytes": 1e9}
    near = {**row_of(), "bytes": 8e6, "limits": {"fma": 100e9, "read": 50e9}}
    between = {**row_of(), "bytes": 34e6, "limits": {"fma": 100e9, "read": 1e9}}
    assert tables.rates([far, near, between], CACHES)[1] == [
        ["1 thread", "100 GFLOP/s", "10 GB/s", "50 GB/s"]
    ]


def test_memory_stands_beside_what_peers_tell() -> None:
    row = row_of(
        openinfer=cell(1e-3, allocated=2_000_000, live=1_000_000),
        onnxruntime=cell(2e-3, allocated=1_990_000),
        iree=cell(2e-3, untold="it was built without statistics"),
        torch=cell(2e-3, allocated=4_000_000),
        numpy=cell(2e-3, allocated=1_600_000),
        openvino_bf16=cell(2e-3, allocated=500_000),
    )
    header, (line,) = memory_tables.arenas([row, row_of(openinfer=cell(1e-3))])
    assert dict(zip(header, line)) == {
        **{"work": "title of mlp-64", "arena": "2.0 MB", "largest live set": "1.0 MB"},
        **{"ratio": "2.000", "ONNX Runtime": "2.0 MB (1.01)", "IREE": "not reported"},
        **{"PyTorch eager": "4.0 MB (0.50)", "NumPy": "1.6 MB (1.25)"},
        "OpenVINO default": "500 kB (4.00)",
    }
    assert list(memory_tables.larger([row])) == ["title of mlp-64: 2.0 MB, NumPy 1.6 MB"]
    sources = list(memory_tables.sources([row]))
    assert [line.partition(":")[0] for line in sources] == [
        *("openinfer", "ONNX Runtime", "OpenVINO default", "PyTorch eager", "IREE", "NumPy")
    ]


def test_plans_of_older_files_are_found_by_title() -> None:
    row = row_of(openinfer=cell(1e-3), torch=cell(2e-3, allocated=3_000_000))
    two = row_of(threads=2, openinfer=cell(1e-3))
    found = memory_tables.with_plans([row, two], {"title of mlp-64": [2_000_000, 1_000_000]})
    assert [line[1:3] for line in memory_tables.arenas(found)[1]] == [["2.0 MB", "1.0 MB"]]


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
        "ablation": ABLATION | {"commit": "abcdef", "date": "yesterday"},
        "start": None,
    }
    text = page(data)
    for part in (
        "## 1 thread",
        "## 2 threads",
        "| title of mlp-64 | 1.67 |",
        "tinygrad is left out: no clang",
        "openinfer failed, cnn, 1: too hot",
        "| `fuse` | 1.25 |",
        "100 GFLOP/s",
        "a processor (avx2)",
        "- what each pass buys: commit abcdef, yesterday",
    ):
        assert part in text
    assert "Without one pass" in report.terminal(data)
    doubtful = row_of(openinfer=cell(1e-3, share=1.5, refused=True))
    shown = report.terminal({**data, "rows": [doubtful]})
    assert "- beyond the limit: title of mlp-64, 1 thread: openinfer took 1 ms, 150%" in shown


@pytest.mark.parametrize(
    ("name", "hint"),
    [("fuse-epilog", "did you mean 'fuse-epilogue'"), ("bind-model", "--help lists them")],
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
    assert compile(text, without=["fuse-elementwise"]).compiled
    assert not compile(text, without=["fuse-elementwise"]).compiled
