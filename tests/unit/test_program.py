"""The compiled program as a thing: saved, loaded, damaged, shared, and bound to its package."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.manifest import checked
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.program import Program

TEXT = """\
dynamic { x: f32[N, 4]; rows: i64[N]; }
constant { W: f32[4, 4]; V(l): f32[4, 4] @pattern("V.{l}"); }
volatile { y: f32[N, 4]; g: f32[N, 4]; }
block entry {
  op matmul(x, W) >> y;
  loop layers (l in 0..2) { op matmul(y, V[l]) >> y; op tanh(y) >> y; }
  op gather(W, rows) >> g;
  return;
}
"""
CUT = """\
dynamic { x: f32[N]; }
volatile { y: f32[N - 3]; }
block entry {
  op slice(x, axis=0, start=3) >> y;
  return;
}
"""


def weights(seed: int = 0) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    return {n: chance.standard_normal((4, 4)).astype(np.float32) for n in ("W", "V.0", "V.1")}


@pytest.fixture
def model(tmp_path: Path) -> oi.Package:
    oi.write_oinf(OinfContent(tensors=weights()), tmp_path / "m.oinf")
    return oi.open_model(tmp_path / "m.oinf")


@pytest.fixture
def program(model: oi.Package) -> Program:
    return oi.compile(TEXT, model)


def inputs(rows: int = 3, seed: int = 1) -> dict[str, Any]:
    chance = np.random.default_rng(seed)
    return {
        "x": chance.standard_normal((rows, 4)).astype(np.float32),
        "rows": chance.integers(0, 4, rows),
    }


def expected(given: dict[str, Any]) -> Any:
    tensors = weights()
    y = given["x"] @ tensors["W"]
    for layer in range(2):
        y = np.tanh(y @ tensors[f"V.{layer}"])
    return y


def agrees(program: Program, rows: int = 3) -> None:
    given = inputs(rows)
    found = program.make_executor().run(**given)
    np.testing.assert_allclose(found["y"], expected(given), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["g"], weights()["W"][given["rows"]])


# The saved form


def test_bytes_make_the_same_program(program: Program, model: oi.Package) -> None:
    data = program.to_bytes()
    again = Program.from_bytes(data, model)
    assert again.to_bytes() == data
    assert again.manifest == program.manifest
    agrees(again)


def test_the_same_program_compiles_to_the_same_bytes(
    model: oi.Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bytes] = []
    for name in ("a", "b"):
        monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / name))
        found.append(oi.compile(TEXT, model).to_bytes())
    assert found[0] == found[1]


def test_saved_and_loaded(program: Program, model: oi.Package, tmp_path: Path) -> None:
    path = tmp_path / "p.oiprog"
    program.save(path)
    assert [p.name for p in tmp_path.iterdir() if "partial" in p.name] == []
    agrees(oi.load(path, model))


def test_loaded_without_the_compiler(program: Program, model: oi.Package, tmp_path: Path) -> None:
    program.save(tmp_path / "p.oiprog")
    script = (
        "import sys, numpy as np, openinfer as oi\n"
        f"ex = oi.load({str(tmp_path / 'p.oiprog')!r}, oi.open_model({str(model.path)!r}))"
        ".make_executor()\n"
        "ex.run(x=np.ones((2, 4), np.float32), rows=np.zeros(2, np.int64))\n"
        "print('xdsl' in sys.modules, ex.fetch('y').shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.split("\n")[0] == "False (2, 4)", done.stderr


def test_damaged_bytes_are_refused(program: Program) -> None:
    data = program.to_bytes()
    lengths = [0, 1, 7, 8, 47, 48, 56, 100, len(data) // 2, len(data) - 1]
    for cut in lengths:
        with pytest.raises(oi.ArtefactError):
            Program.from_bytes(data[:cut])
    with pytest.raises(oi.ArtefactError):
        Program.from_bytes(data + b"\0")
    chance = np.random.default_rng(0)
    for place in [*range(56), *chance.integers(56, len(data), 200).tolist()]:
        changed = bytearray(data)
        changed[place] ^= 1 << int(chance.integers(8))
        with pytest.raises(oi.ArtefactError):
            Program.from_bytes(bytes(changed))


def test_a_description_of_another_format_is_refused(program: Program) -> None:
    rows = json.loads(program.manifest.to_json())
    calls = [[{"kernel": "k", "buffers": [], "groups": one}] for one in ([1, 2], [1, 65536, 1])]
    changes = [{"format": 999}, {"weights": [{"variable": 1}]}, {"nodes": None}]
    for change in [*changes, *({"calls": one} for one in calls)]:
        text = json.dumps({**rows, **change})
        with pytest.raises(oi.ArtefactError):
            type(program.manifest).from_json(text)
    with pytest.raises(oi.ArtefactError):
        type(program.manifest).from_json("[]")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(oi.ArtefactError, match="absent"):
        oi.load(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(oi.ArtefactError, match="no compiled program"):
        oi.load(tmp_path / "text")


# The package


def test_the_package_is_asked_for(program: Program) -> None:
    with pytest.raises(oi.ArtefactError, match="needs the model package"):
        Program.from_bytes(program.to_bytes()).make_executor()


def test_another_package_is_refused(program: Program, tmp_path: Path) -> None:
    other = {**weights(), "W": np.ones((4, 5), np.float32)}
    oi.write_oinf(OinfContent(tensors=other), tmp_path / "other.oinf")
    with pytest.raises(oi.ArtefactError, match="other tensors"):
        Program.from_bytes(
            program.to_bytes(), oi.open_model(tmp_path / "other.oinf")
        ).make_executor()


def test_weights_are_counted(program: Program) -> None:
    loaded = program.loaded()
    # W as it is for the gather, packed for the product; the members of V are packed only.
    assert (loaded.mapped_bytes, loaded.copied_bytes) == (0, 64)
    assert loaded.packed_bytes == sum(row.nbytes for row in program.manifest.weights if row.prepare)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("f32", "0.5"), ("f64", "-0.0"), ("bf16", "0.5"), ("f8", "1.5"), ("bool", "true"), ("u8", "200"),
     ("i64", "7"), ("i4", "-3"), ("u2", "3"), ("t1", "1")],
)  # fmt: skip
def test_constants_that_kernels_read_are_filled_at_load(dtype: str, value: str) -> None:
    text = f"""
    dynamic {{ x: {dtype}[3, 5]; }}
    constant {{ c: {dtype}[3, 5] @init({value}); }}
    volatile {{ same: {dtype}[3, 5] @init({value}); y: {dtype}[9, 5]; z: {dtype}[5, 3]; }}
    block entry {{ op concat(c, x, same, axis=0) >> y; op transpose(c) >> z; return y, z; }}
    """
    saved = oi.compile(text).to_bytes()
    program = Program.from_bytes(saved)
    (row,) = program.manifest.weights
    assert (row.variable, row.sources) == ("", [])
    assert program.loaded().packed_bytes == row.nbytes
    # The step makes nothing but its results.
    assert {row.name for row in program.manifest.plan} == {"y", "z"}
    with program.make_executor() as compiled:
        x = oi.Simulator(text).make_executor().fetch("c")
        expected = oi.Simulator(text).make_executor().run(x=x)
        for _ in range(2):
            found = compiled.run(x=x)
            for name, known in expected.items():
                assert np.asarray(found[name]).tobytes() == np.asarray(known).tobytes()


def test_a_weight_without_a_source_is_made_by_a_function() -> None:
    text = """
    constant { c: f32[4] @init(2); }
    volatile { y: f32[4]; }
    block entry { op softmax(c) >> y; return y; }
    """
    manifest = oi.compile(text).manifest
    (row,) = manifest.weights
    for damage in ({"prepare": None}, {"variable": "c"}, {"sources": ["c"]}):
        with pytest.raises(ValueError, match="has no variable or no source"):
            checked(replace(manifest, weights=[replace(row, **damage)]))


# Executors


def test_executors_share_code_and_no_values(program: Program) -> None:
    first, second = program.make_executor(), program.make_executor()
    one, two = inputs(3, 1), inputs(5, 2)
    first.run(**one)
    second.run(**two)
    np.testing.assert_allclose(first.fetch("y"), expected(one), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second.fetch("y"), expected(two), rtol=1e-5, atol=1e-6)
    first.close()
    np.testing.assert_allclose(second.run(**one)["y"], expected(one), rtol=1e-5, atol=1e-6)
    with pytest.raises(oi.InputError, match="closed"):
        first.run(**one)


def test_executors_run_side_by_side(program: Program) -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        executor = program.make_executor(threads=1)
        for round_ in range(20):
            given = inputs(1 + (seed + round_) % 7, seed)
            if not np.allclose(executor.run(**given)["y"], expected(given), rtol=1e-5, atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_inputs_are_borrowed_until_the_step(program: Program) -> None:
    executor = program.make_executor()
    given = inputs()
    executor.insert(**given)
    given["x"][:] = 2.0
    executor.step()
    np.testing.assert_allclose(executor.fetch("y"), expected(given), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(given["x"], np.full((3, 4), 2, np.float32))


@pytest.mark.parametrize("rows", [1, 2, 8, 17, 64, 3])
def test_one_program_serves_every_size(program: Program, rows: int) -> None:
    agrees(program, rows)


def test_sizes_come_and_go(program: Program) -> None:
    executor = program.make_executor()
    for rows in (4, 40, 1, 40, 0, 7):
        given = inputs(rows)
        np.testing.assert_allclose(
            executor.run(**given)["y"], expected(given), rtol=1e-5, atol=1e-6
        )
    assert executor.arena_growths <= 2


def test_threads_below_one(program: Program) -> None:
    with pytest.raises(oi.InputError, match="threads = 0"):
        program.make_executor(threads=0)


# Errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((3, 4))}, "float64"),
        ({"x": np.zeros((3, 5), np.float32)}, "dimension 1 is 5"),
        ({"x": np.zeros((2, 4), np.float32)}, "N"),
        ({"x": np.zeros(4, np.float32)}, "2 dimensions"),
        ({"z": np.zeros(4, np.float32)}, "no variable is named 'z'"),
        ({"y": np.zeros((3, 4), np.float32)}, "volatile"),
        ({"x": None}, "x"),
    ],
)
def test_wrong_inputs(program: Program, change: dict[str, Any], message: str) -> None:
    executor = program.make_executor()
    for _ in range(2):  # The second time by the quick path.
        with pytest.raises(oi.InputError, match=message):
            executor.run(**{**inputs(), **change})
        given = inputs()
        np.testing.assert_allclose(
            executor.run(**given)["y"], expected(given), rtol=1e-5, atol=1e-6
        )


def test_an_unset_input(program: Program) -> None:
    executor = program.make_executor()
    for _ in range(2):
        executor.insert(rows=inputs()["rows"])
        with pytest.raises(oi.InputError, match=r"not set: x: f32\[N, 4\]"):
            executor.step()
        given = inputs()
        executor.run(**given)


@pytest.mark.parametrize("index", [-1, 4, 2**40, -(2**63)])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_index_out_of_bounds(program: Program, index: int, threads: int) -> None:
    executor = program.make_executor(threads=threads)
    for _ in range(2):
        given = inputs()
        given["rows"][1] = index
        with pytest.raises(oi.StepError) as caught:
            executor.run(**given)
        message = str(caught.value)
        assert f"index {index} at position [1] of the indices is outside 0..4" in message
        assert "op gather(W, rows) >> g" in message
        assert ":7:3: " in message
        given = inputs()
        np.testing.assert_allclose(
            executor.run(**given)["y"], expected(given), rtol=1e-5, atol=1e-6
        )


def test_an_index_that_nobody_reads_is_checked() -> None:
    text = """\
dynamic { x: f32[3]; i: i64[2]; }
volatile { y: f32[3]; }
block entry {
  assign t: f32[2];
  op gather(x, i) >> t;
  op neg(x) >> y;
  return;
}
"""
    executor = oi.compile(text).make_executor()
    with pytest.raises(
        oi.StepError, match=r"index 3 at position \[1\] of the indices is outside 0\.\.3"
    ):
        executor.run(x=np.zeros(3, np.float32), i=np.array([0, 3]))
    executor.run(x=np.zeros(3, np.float32), i=np.array([0, 2]))


def test_a_bound_that_the_input_does_not_reach() -> None:
    executor = oi.compile(CUT).make_executor()
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(executor.run(x=x)["y"], x[3:])
    for _ in range(2):
        with pytest.raises(oi.StepError, match="N - 3 must not be negative, but N = 2"):
            executor.run(x=x[:2])
        np.testing.assert_array_equal(executor.run(x=x)["y"], x[3:])
    np.testing.assert_array_equal(executor.run(x=x[:3])["y"], x[:0])


def test_a_member_that_data_chooses_is_checked(model: oi.Package) -> None:
    text = """\
dynamic { i: i64; }
constant { V(l): f32[4, 4] @pattern("V.{l}"); }
volatile { y: f32[4, 4]; }
block entry { op neg(V[i]) >> y; return; }
"""
    executor = oi.compile(text, model).make_executor()
    np.testing.assert_array_equal(executor.run(i=np.array(1))["y"], -weights()["V.1"])
    for wrong in (2, -1):
        with pytest.raises(oi.StepError, match=rf"index {wrong} is outside 0\.\.2"):
            executor.run(i=np.array(wrong))
    np.testing.assert_array_equal(executor.run(i=np.array(0))["y"], -weights()["V.0"])


def test_the_plan_is_printed_with_its_bound(program: Program) -> None:
    table = program.plan_text({"N": 100})
    assert "N = 100" in table
    lines = table.splitlines()
    assert lines[0].split()[:3] == ["buffer", "offset", "bytes"]
    assert "lower bound" in lines[-1]
    assert program.arena_bytes({"N": 100}) > 0


def test_a_loaded_program_is_not_iterated(program: Program, model: oi.Package) -> None:
    executor = Program.from_bytes(program.to_bytes(), model).make_executor()
    executor.insert(**inputs())
    with pytest.raises(oi.UnsupportedError, match="compile it from its text"):
        list(executor.iterate())
