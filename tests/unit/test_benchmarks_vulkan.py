"""`python -m benchmarks.vulkan`: tiny rows, the file of results, the page. No time is asserted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from benchmarks.vulkan import host, machine, ours, page, prototypes
from benchmarks.vulkan.__main__ import main
from benchmarks.vulkan.raw import Dispatch, RawDevice
from benchmarks.vulkan.results import Results
from benchmarks.vulkan.rows import Row, all_rows
from benchmarks.vulkan.torch_peer import peers
from openinfer.runtime.devices.vulkan.residence import words_of
from openinfer.runtime.devices.vulkan.step import DeviceStep
from openinfer.runtime.devices.vulkan.step_clock import StepClock

ROWS = {row.name: row for row in all_rows()}
ABOUT = {"date": "2026-01-02T03:04:05+00:00", "device": "GPU", "driver": "driver 1", "commit": "c"}
ALONE = ("--small", "--seconds", "0.02", "--jobs", "0")

TWICE = """
dynamic { x: f32[1024]; }
block entry { assign y: f32[1024]; op add(x, x) >> y; return y; }
"""


def run(out: Path, rows: str, *words: object) -> dict[str, Any]:
    assert main([*ALONE, "--out", str(out), "--rows", rows, *map(str, words)]) == 0
    return json.loads(out.read_text(encoding="utf-8"))["rows"]


def measured(row: Row, seconds: float, **more: Any) -> dict[str, Any]:
    """A row of results where a link took so long."""
    step = {"seconds": 1e-3, "wall": 2e-3, "commands": 7, "submissions": 1}
    found = {"seconds": seconds, "least": seconds, "wall": seconds, "steps": 9, "links": 1}
    return {**ABOUT, "title": row.title, "ours": {**found, "commands": 1, "step": step}, **more}


def test_rows_run_to_their_end(
    vulkan: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whole step, one chain with a copy in its links; what another run found stays."""
    out = tmp_path / "results.json"
    found = run(out, "minilm-1x128", "--no-torch")
    assert found["minilm-1x128"]["ours"]["seconds"] > 0
    assert found["minilm-1x128"]["software"]
    assert found["minilm-1x128"]["peers"] == {"PyTorch": {"absent": "left out"}}
    python = ("--torch-python", tmp_path / "nothing")
    found = run(out, "rows-qkv", "--prototypes", tmp_path, *python)
    assert set(found) == {"minilm-1x128", "rows-qkv"}
    row = found["rows-qkv"]
    # Norm, product and copy.
    assert row["ours"]["commands"] == 3
    assert row["ours"]["links"] == 2
    assert "subgroups of 32" in row["prototypes"]["s4_1152"]["absent"]
    assert "does not start" in row["peers"]["PyTorch"]["absent"]
    said = capsys.readouterr().out
    assert "TFLOP/s" not in said
    assert main(["--page", "--out", str(out)]) == 2
    assert "computes on the processor" in capsys.readouterr().err


def test_the_host_has_three_parts(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native loop records as many dispatches as the step has kernels."""
    monkeypatch.setattr(host, "ANSWERS", 2)
    record = vars(DeviceStep)["_record"]
    found = dict(host.measured("vulkan", True, 0.02))
    assert vars(DeviceStep)["_record"] is record
    assert found["step"]["wall"] > 0
    # A row comes back; the way to the device needs no command.
    assert found["recording"]["dispatches"] == found["step"]["commands"] - 1
    assert found["recording"]["native"] > 0
    assert found["recording"]["rows"] > 0
    assert found["first answer"]["least"] > 0
    assert len(list(host.lines(found))) == 4


def test_every_row_has_a_name_and_kernels_that_are_there() -> None:
    assert len(ROWS) == len(all_rows()) >= 25
    assert host.NAME not in ROWS
    assert {name for row in ROWS.values() for name in row.prototypes} <= set(prototypes.TABLE)
    for row in ROWS.values():
        assert (row.work > 0) == (row.unit != "µs")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rows", "minilm"), "there is no row 'minilm'; --list shows them"),
        (("--page", "--out", "nothing.json"), "nothing.json holds no rows"),
        (("--device", "vulkan:nothing", "--rows", "decode"), "no Vulkan device is called"),
    ],
)
def test_bad_options_say_what_is_wrong(
    vulkan: None, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_something_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(ValueError, match="holds no results"):
        Results(path)
    assert path.read_text(encoding="utf-8") == "[1]"


def test_a_row_that_fails_says_why(
    vulkan: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next one is measured all the same."""
    timed = ours.timed

    def scarce(chain: Any, *given: Any) -> Any:
        if chain.base is not None:
            raise MemoryError("no room")
        return timed(chain, *given)

    monkeypatch.setattr(ours, "timed", scarce)
    found = run(tmp_path / "results.json", "minilm-1x128,query-512", "--no-torch")
    assert found["minilm-1x128"]["ours"] == {"error": "MemoryError: no room"}
    assert found["query-512"]["ours"]["commands"] == 1


def spent(commands: int, *seconds: float) -> ours.Run:
    """A program whose steps took so long."""
    unused: Any = None
    return ours.Run(unused, unused, StepClock(), {}, [*seconds], [*seconds], commands, 1)


@pytest.mark.parametrize(
    ("row", "spent_by", "seconds", "least", "commands"),
    [
        # Of three links and of one: two links more take 4 s, or 5 s.
        ("query-512", [(5, 7.0, 8.0, 9.0), (3, 2.0, 4.0, 6.0)], 2.0, 2.5, 1.0),
        # A link is work and copy, a padded one has two copies: 3 = 2 + 1, 4 = 2 + 2.
        ("rows-qkv", [(9, 10.0), (5, 4.0), (12, 13.0), (6, 5.0)], 2.0, 2.0, 2.0),
        # A whole step, less what it does beside the work.
        ("minilm-1x128", [(13, 5.0, 6.0, 7.0), (4, 1.0, 1.5, 2.0)], 4.5, 4.0, 9),
        ("decode", [(20, 5.0, 6.0, 7.0)], 6.0, 5.0, 20),
    ],
)
def test_the_time_of_a_link(
    row: str, spent_by: list[Any], seconds: float, least: float, commands: float
) -> None:
    chain = ROWS[row].small()
    assert len(spent_by) == len(ours.texts(chain))
    found = ours.result_of(chain, [spent(*one) for one in spent_by])
    assert (found["seconds"], found["least"], found["wall"]) == (seconds, least, seconds)
    assert found["commands"] == commands


def test_results_that_are_no_numbers_are_no_measurement(vulkan: None, tmp_path: Path) -> None:
    """Whatever a kernel that is wrong leaves, its time is not shown."""
    chain = ROWS["query-512"].small()
    weights = chain.weights()
    weights["V"][:] = np.nan
    wrong = replace(chain, weights=lambda: weights)
    ours.write_weights(wrong, tmp_path / "wrong.oinf")
    with oi.open_model(tmp_path / "wrong.oinf") as package:
        programs = ours.compiled(wrong, package, "vulkan")
        with pytest.raises(ValueError, match="no numbers"):
            ours.timed(wrong, programs, 0.01)


def test_the_page_has_ratios(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    product, rows = ROWS["matmul-4096-kn"], ROWS["rows-both"]
    eager = {"PyTorch eager": {"seconds": 0.2e-3}, "about": {"torch": "2.0"}}
    found = {
        product.name: measured(
            product, 0.4e-3, peers=eager, prototypes={"cm2_4096": {"seconds": 0.5e-3}}
        ),
        rows.name: measured(
            rows,
            10e-6,
            peers={"PyTorch": {"error": "it ended"}},
            prototypes={"s4_1536": {"seconds": 5e-6}, "s3_1536": {"absent": "not given"}},
        ),
        host.NAME: {**ABOUT, "recording": {"dispatches": 3, "seconds": 2e-6, "native": 1e-6}},
    }
    out, written = tmp_path / "results.json", tmp_path / "page.md"
    out.write_text(json.dumps({"rows": found}), encoding="utf-8")
    written.write_text(f"above\n{page.BEGIN}\nold\n{page.END}\nbelow\n", encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", written)
    assert main(["--page", "--out", str(out)]) == 0
    text = written.read_text(encoding="utf-8")
    assert text.startswith("above\n")
    assert text.endswith(f"{page.END}\nbelow\n")
    assert "old" not in text
    # 2 * 4096**3 operations in 0.4 ms; a prototype of 0.5 ms is 1.25 times as slow.
    line = next(line for line in text.splitlines() if line.startswith(f"| {product.title} | **"))
    assert "**344 TFLOP/s** | 275 TFLOP/s (1.25) | 687 TFLOP/s (0.50) | – | – | 318 TFLOP/s" in line
    # One of two kernels is no time for both.
    line = next(line for line in text.splitlines() if line.startswith(f"| {rows.title} | **"))
    assert "**10.00 µs** | – | – | – | – | 10.3 µs (1.03) |" in line
    assert "- PyTorch: it ended (rows-both)" in text
    assert "- the prototype s3_1536: not given (rows-both)" in text
    assert "2.00 µs; 1.00 µs (2.00)" in text
    assert "2026-01-02, GPU, driver 1, PyTorch 2.0, commit c: 1 rows" in text


def test_tiny_sizes_are_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = ROWS["decode"]
    out = tmp_path / "results.json"
    found = {row.name: measured(row, 1e-3, small=True)}
    out.write_text(json.dumps({"rows": found}), encoding="utf-8")
    assert main(["--page", "--out", str(out)]) == 2
    assert "tiny sizes are no measurement" in capsys.readouterr().err


def test_a_process_that_ends_loses_one_row(tmp_path: Path) -> None:
    """It is started again for the others."""
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, sys\n"
        "rows = json.loads(sys.stdin.read())['rows']\n"
        "print(json.dumps({'about': {'torch': '1'}}), flush=True)\n"
        "for row in rows:\n"
        "    if row['name'] == 'bad':\n"
        "        sys.exit('no memory')\n"
        "    print(json.dumps({'row': row['name'], 'found': {}}), flush=True)\n",
        encoding="utf-8",
    )
    python.chmod(0o755)
    asked = [{"name": name} for name in ("first", "bad", "last")]
    found = list(peers(str(python), asked, 0.01, compiles=False))
    about = ("", {"torch": "1"})
    failed = ("bad", {"error": "the process ended: no memory"})
    assert found == [about, ("first", {}), failed, about, ("last", {})]


PEERS = [
    {"name": "product", "kind": "product", "size": 64, "turned": True, "dtype": "f16", "calls": 3},
    {"name": "matvec", "kind": "matvec", "size": 64, "matrices": 3, "calls": 3},
    *(
        {
            **{"name": f"attention-{queries}", "kind": "attention", "heads": 4, "groups": 2},
            **{"queries": queries, "keys": 16, "size": 16, "causal": queries > 1, "calls": 2},
        }
        for queries in (1, 16)
    ),
    *(
        {
            "name": form,
            "kind": "rows",
            "form": form,
            "length": 16,
            "width": 32,
            "inner": 96,
            "calls": 2,
        }
        for form in ("out", "qkv", "up", "both")
    ),
    {"name": "elementwise", "kind": "elementwise", "length": 32, "width": 64, "calls": 2},
    {"name": "softmax", "kind": "softmax", "length": 32, "width": 64, "calls": 2},
    {
        **{"name": "encoder", "kind": "encoder", "compile": True, "batch": 2, "length": 16},
        **{"width": 32, "inner": 64, "heads": 2, "layers": 1},
    },
    {
        **{
            "name": "decoder",
            "kind": "decoder",
            "compile": True,
            "width": 32,
            "layers": 1,
            "heads": 2,
        },
        **{"groups": 1, "inner": 64, "vocabulary": 40, "place": 8},
    },
]


def test_pytorch_does_every_kind_of_row() -> None:
    """On the processor, where there are no graphs. A kind that it does not know is an error of one row."""
    pytest.importorskip("torch")
    assert {row["kind"] for row in PEERS} == {row.peer["kind"] for row in ROWS.values()}
    for row in ROWS.values():
        tiny = next(peer for peer in PEERS if peer["kind"] == row.peer["kind"])
        assert set(row.peer) == set(tiny) - {"name"}
    asked = [{"name": "unknown", "kind": "unknown"}, *PEERS]
    found = dict(peers(sys.executable, asked, 0.01, compiles=False, device="cpu"))
    assert "_unknown" in found.pop("unknown")["error"]
    assert set(found.pop("")) == {"torch", "cuda"}
    assert set(found) == {peer["name"] for peer in PEERS}
    for times in found.values():
        assert times["PyTorch eager"]["seconds"] > 0


def test_a_raw_device_runs_given_words(vulkan: None) -> None:
    """A kernel of ours, which has its numbers and then its buffers as bindings."""
    program = oi.compile(TWICE, device="vulkan")
    (words,) = words_of(program)
    (row,) = [row for row in program.manifest.calls if row.kernel == words.name]
    with RawDevice(machine.physical("vulkan")) as device:
        values = {"x": np.arange(8, dtype=np.float32)}
        numbers = device.filled(64, np.zeros(16, np.uint32))
        memories = [
            device.filled(4096, values.get(name, np.zeros(8, np.float32))) for name in row.buffers
        ]
        kernel = device.kernel(words.words, words.name)
        bound = [numbers, *memories]
        dispatch = Dispatch(kernel, (1024, 1, 1), bindings=bound, words=(0,))
        assert device.seconds(device.record([dispatch])) > 0
        found = device.read(memories[row.buffers.index("y")], 4096).view(np.float32)
    assert found.tolist() == [2.0 * number for number in range(8)] * 128


def test_prototypes_are_timed_where_their_words_are(
    vulkan: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file that is not there is said."""
    monkeypatch.setattr(prototypes, "SUBGROUP", machine.physical("vulkan").description.subgroup)
    (words,) = words_of(oi.compile(TWICE, device="vulkan"))
    (tmp_path / "hand-1.spv").write_bytes(words.words)
    given = (
        prototypes.Given(16, prototypes.SINGLE, 0),
        *[prototypes.Given(1024, prototypes.SINGLE)] * 2,
    )
    one = prototypes.Prototype("hand", (1, 1, 1), given, addressed=False, links=3, words=(0,))
    table = {"one": replace(one, entry=words.name), "two": replace(one, file="other")}
    monkeypatch.setattr(prototypes, "TABLE", table)
    found = prototypes.timed(machine.physical("vulkan"), tmp_path, ["one", "two"], 0.01)
    assert 0 < found["one"]["least"] <= found["one"]["seconds"]
    assert found["two"] == {"absent": "no file other*.spv"}
