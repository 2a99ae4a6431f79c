"""`openinfer bench --target`: an older instruction set, peers held to it. No time is asserted."""

from __future__ import annotations

import importlib.util
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_rows import TINY

from benchmarks import page, target_page
from benchmarks.environment import described
from benchmarks.instruction_sets import HOST, RESTRICTIONS, ROWS
from benchmarks.kernels import peak_case
from benchmarks.limits import read_case
from benchmarks.openvino_held import check_held, clip_products
from benchmarks.peers import OURS, PEERS, SIMULATOR, Setting
from benchmarks.racing import environment
from benchmarks.workloads import WORKLOADS
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.devices.cpu.codegen import host_target

HAS_AVX2 = host_target().name != "generic"


def bench(*words: object) -> int:
    return main(["bench", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target", "avx9"), "--target 'avx9' is none to race with here\n  fix: host,"),
        (("--target", "generic", "--ablate"), "--ablate compiles for this processor"),
        (("--target", "generic", "--page", "--json", "x"), "the page has no part for generic"),
        (("--target", "generic", "--peers", "numpy"), "NumPy cannot run here: it is not held"),
    ],
)
def test_bad_options_say_what_to_give(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(*words) == 2
    assert message in capsys.readouterr().err


def test_all_names_are_known() -> None:
    assert set(ROWS) <= WORKLOADS.keys()
    for restriction in RESTRICTIONS.values():
        assert restriction.absent.keys() <= PEERS.keys()
    assert set(target_page.TITLES) <= RESTRICTIONS.keys()


def test_peers_read_what_they_may_use(tmp_path: Path) -> None:
    held = environment(tmp_path, 1, "avx2")
    assert held["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert held["OPENBLAS_CORETYPE"] == "Haswell"
    free = environment(tmp_path, 1)
    assert "ATEN_CPU_CAPABILITY" in held.keys() - free.keys()


def test_a_race_says_what_it_was_compiled_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words = tmp_path / "out.json", ["--target", "generic", "--rounds", 1, "--slice", 0.001]
    words += ["--workload", "matmul-64", "--threads", 1, "--folder", tmp_path, "--json", file]
    assert bench(*words) == 0
    assert "Compiled for generic" in capsys.readouterr().out
    data = json.loads(file.read_text())
    assert data["held"] == data["environment"]["target"] == data["rows"][0]["target"] == "generic"
    assert data["rows"][0]["peers"].keys() == {OURS}
    assert data["absent"]["IREE"] == "it is not held to SSE2"
    assert bench(*words[2:], "--resume") == 2
    assert "was measured with another held" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["generic", "avx2"])
def test_our_programs_and_loops_are_of_the_target(target: str, tmp_path: Path) -> None:
    if target == "avx2" and not HAS_AVX2:
        pytest.skip("this processor has no AVX2")
    peak = peak_case(described(target))
    peak.run(1)
    read_case(10_000, described(target)).run(1)
    assert peak.work > 0
    assert described(HOST) is host_target()
    for row in TINY[:3]:
        row.write_package(tmp_path)
        wanted = np.asarray(SIMULATOR.make(row, Setting(tmp_path, 1))(row.inputs()))
        run = PEERS[OURS].make(row, Setting(tmp_path, 1, target=target))
        assert np.abs(np.asarray(run(row.inputs())) - wanted).max() <= row.tolerance


def test_products_of_openvino_end_in_a_clip() -> None:
    if importlib.util.find_spec("openvino") is None:
        pytest.skip("openvino is not installed: scripts/install-extras.sh")
    ov: Any = import_module("openvino")
    ops: Any = ov.opset8
    x = ops.parameter([2, 3], np.float32)
    ones = np.ones((3, 4), np.float32)
    biased = ops.add(ops.matmul(x, ops.constant(ones), False, False), ops.constant(ones[0]))
    bare = ops.matmul(biased, ops.constant(ones), False, True)
    both = ops.matmul(bare, ops.relu(bare), True, False)
    model = ov.Model([ops.result(both)], [x])
    clip_products(model)
    before = {
        str(op.input_value(0).get_node().get_type_name())
        for op in model.get_ordered_ops()
        if op.get_type_name() == "Clamp"
    }
    assert before == {"Add", "MatMul"}
    assert both.input_value(0).get_node().get_type_name() == "Clamp"
    assert both.output(0).get_target_inputs().pop().get_node().get_type_name() == "Result"


class Kernels:
    """Stands in for a compiled model of OpenVINO, and for the model inside, its nodes and notes."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def get_runtime_model(self) -> Kernels:
        return self

    def get_ordered_ops(self) -> list[Kernels]:
        return [Kernels(name) for name in self._names]

    def get_rt_info(self) -> dict[str, Any]:
        return {"primitiveType": self}

    def astype(self, kind: type) -> Any:
        return kind(*self._names)


def test_a_kernel_that_cannot_be_held_is_refused() -> None:
    check_held(Kernels("brgemm_avx2_f32", "jit_avx2_f32"))
    with pytest.raises(RuntimeError, match="gemm_mlas_f32, which cannot be restricted"):
        check_held(Kernels("brgemm_avx2_f32", "gemm_mlas_f32"))


def test_the_page_shows_both_instruction_sets(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(page.RESULTS.read_text(encoding="utf-8"))
    held = data | {"held": "avx2", "absent": {"a runtime": "no switch"}}
    monkeypatch.setattr(page, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(page, "HELD", tmp_path / "held.json")
    page.HELD.write_text(json.dumps(held), encoding="utf-8")
    page.write(held)
    text = page.PAGE.read_text(encoding="utf-8")
    assert "## AVX2\n" in text
    assert "- a runtime is left out: no switch" in text
    page.write(data)
    assert page.PAGE.read_text(encoding="utf-8") == text
