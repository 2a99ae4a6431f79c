"""The compiled program does what the simulator does, on programs that nobody wrote.

A few fixed seeds; `python tests/fuzz/run.py` tries others for as long as it may (docs/testing.md).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fuzzing import workers
from fuzzing.damage import KINDS, NEEDED, fuzz_damage
from fuzzing.generate import FORMS, RULES, forms_of, generate
from fuzzing.ways import TAGS, variants_of
from fuzzing.workers import run_seeds

from openinfer.dialects import opset
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.host import cpu_unavailable_reason
from tests.sweeps import sweep

FIRST, CHUNKS, CHUNK = 5012, sweep(6, 10), 4


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason=str(cpu_unavailable_reason()))
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_ways_of_running_a_program_agree(chunk: int) -> None:
    first = FIRST + chunk * CHUNK
    ran = 0
    for seed, (mended, verdict) in run_seeds(range(first, first + CHUNK)):
        ran += verdict.steps
        if verdict.defect is not None:
            program = verdict.program or (mended.program if mended else generate(seed))
            pytest.fail(
                f"seed {seed}: {verdict.defect.kind}, {verdict.defect.why}\n"
                f"python tests/fuzz/run.py --seed {seed} --count 1 --out fuzz-out\n{program.text}",
                pytrace=False,
            )
    assert ran, "no program of these seeds ran"


def test_the_seeds_try_every_way() -> None:
    ways = [v for n in range(CHUNKS * CHUNK) for v in variants_of(FIRST + n)]
    tried = {tag.partition(" ")[0] if "without" in tag else tag for v in ways for tag in v.tags}
    assert set(TAGS) <= tried


def test_a_seed_draws_its_ways_again() -> None:
    assert [variants_of(n) for n in range(50)] == [variants_of(n) for n in range(50)]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"onnx"}))  # test_onnx_fuzz.py
def test_damaged_input_is_refused_or_read(kind: str) -> None:
    pytest.importorskip(NEEDED.get(kind, "numpy"), reason="make oracle")
    found = fuzz_damage(kind, 0, 20)
    assert not found.defects, found.text()
    assert found.cases == 20
    assert found.outcomes["refused"] > 0


def test_a_case_that_ends_its_process_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(seed: int, folder: Path) -> bool:
        if seed == 3:
            os.abort()
        return True

    monkeypatch.setitem(KINDS, "text", dies)
    found = fuzz_damage("text", 0, 6)
    assert [seed for seed, _ in found.defects] == [3]
    assert found.cases == 6


def test_a_program_that_ends_its_process_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = workers.check_seed

    def dies(seed: int, *rest: Any, **more: Any) -> Any:
        if seed == 3:
            os.abort()
        return checked(seed, *rest, **more)

    monkeypatch.setattr(workers, "check_seed", dies)
    outcomes = dict(workers.run_seeds(range(2, 5)))
    kinds = {
        seed: verdict.defect and verdict.defect.kind for seed, (_, verdict) in outcomes.items()
    }
    assert kinds == {2: None, 3: "crash", 4: None}


def test_a_seed_gives_one_program() -> None:
    for seed in range(3):
        first, second = generate(seed), generate(seed)
        assert first.text == second.text
        for a, b in zip(first.steps, second.steps, strict=True):
            assert (a.action, a.inputs.keys()) == (b.action, b.inputs.keys())
            for name, value in a.inputs.items():
                assert value.storage.tobytes() == b.inputs[name].storage.tobytes()


def test_every_op_has_a_rule() -> None:
    missing = [name for name in opset.names() if name not in RULES]
    assert not missing, f"RULES of tests/fuzz/fuzzing/ops_*.py lack {missing}"


def test_the_generator_reaches_every_form_op_and_dtype() -> None:
    drawn: Counter[str] = Counter()
    for seed in range(600):
        drawn.update(forms_of(generate(seed).text))
    wanted = [*FORMS, *(f"op {n}" for n in opset.names()), *(f"dtype {d}" for d in DTYPES)]
    assert [name for name in wanted if not drawn[name]] == []
