"""Numbers of a processor: their table, their way into a compilation, the command that measures them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer as oi
from openinfer.compiler.tools import tuning_machine
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.tuning_machine import (
    NEVER,
    MachineTuner,
    Number,
    candidates,
    kept_part,
    probes,
    table,
)
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.microarchitecture import DEFAULT, MEASURED, Microarchitecture
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.target import describe_target, named_target
from openinfer.runtime.tuning import Tile, Tuning

Capture = pytest.CaptureFixture[str]
COLUMNS = 32 * 33 + 5
PROGRAM = f"""
dynamic {{ x: f32[1, 70]; u: f32[1, 70]; }}
constant {{ W: f32[70, {COLUMNS}]; H: f16[70, {COLUMNS}]; }}
volatile {{ y: f32[1, {COLUMNS}]; z: f32[1, {COLUMNS}]; }}
block entry {{
    y = op matmul(x, W);
    z = op matmul(u, cast(H, to=f32));
    return;
}}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> oi.Package:
    path = tmp_path_factory.mktemp("weights") / "w.oinf"
    random = np.random.default_rng(0)
    weights = random.standard_normal((2, 70, COLUMNS), np.float32)
    oi.write_oinf(OinfContent({}, {}, {"W": weights[0], "H": weights[1].astype(np.float16)}), path)
    return oi.open_model(path)


def written(path: Path, target: str, **numbers: int) -> Path:
    Tuning(target, "test", {}, Microarchitecture.of(numbers)).save(path)
    return path


@pytest.mark.parametrize("target", ["avx2", "host"])
@pytest.mark.parametrize(
    "numbers",
    [
        {"panels": 2},
        {"panels": 4, "ahead": 0, "ahead_line": 0},
        {"ahead": 4096, "ahead_line": 4096, "ahead_narrow": 0},
        {"kept": 0, "ahead_streamed": 1024},
        {"chunks": 5},
    ],
    ids=lambda numbers: "-".join(numbers),
)
def test_numbers_change_the_code_and_not_the_answer(
    model: oi.Package, tmp_path: Path, target: str, numbers: dict[str, int]
) -> None:
    kind = host_target().name if target == "host" else target
    path = written(tmp_path / "t.json", kind, **numbers)
    plain = oi.compile(PROGRAM, model, target=target)
    tuned = oi.compile(PROGRAM, model, target=target, tuning=path)
    if (kind, [*numbers]) != ("avx2", ["kept", "ahead_streamed"]):
        assert tuned.parts != plain.parts
    skip_unless_it_runs(target)
    x, u = np.random.default_rng(1).standard_normal((2, 1, 70), np.float32)
    wanted = plain.make_executor(1).run(x=x, u=u)
    for threads in (1, 2):
        with tuned.make_executor(threads) as executor:
            found = executor.run(x=x, u=u)
        for name, value in wanted.items():
            if "panels" in numbers:
                np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)
            else:
                np.testing.assert_array_equal(found[name], value)


def test_two_panels_are_one_round(model: oi.Package, tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", "avx512", panels=2)
    text = oi.compile(PROGRAM, model, target="avx512", tuning=path).show("kernels")
    plain = oi.compile(PROGRAM, model, target="avx512").show("kernels")
    # 33 whole panels: 16 times two, then one; and the one that is filled in part.
    assert "%c32 step %c2" in str(text)
    assert "%c32 step %c2" not in str(plain)


def test_the_table() -> None:
    for name, row in MEASURED.items():
        # Each number that is not the default's says how it was found.
        assert set(row.numbers.numbers) <= set(row.measured), name
        assert all(row.measured.values()), name
        described = describe_target("x86_64-unknown-linux-gnu", name, {"avx2": True})
        assert described.measured == row.numbers
    unknown = describe_target("x86_64-unknown-linux-gnu", "some", {})
    assert unknown.measured == DEFAULT
    other = replace(unknown, measured=Microarchitecture(chunks=3))
    assert other.key != unknown.key
    assert unknown.key == replace(other, measured=DEFAULT).key


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ([], "something else than an object"),
        ({"far": 3}, "`far` is none of panels, ahead"),
        ({"panels": 0}, "`panels` is 0, not 1..4"),
        ({"ahead": True}, "`ahead` is True"),
        ({"chunks": 65}, "not 1..64"),
        ({"ahead_line": 1 << 40}, "not 0..1048576"),
    ],
)
def test_bad_files(tmp_path: Path, machine: object, words: str) -> None:
    path = tmp_path / "t.json"
    data = {"format": 1, "target": "avx2", "cpu": "", "products": {}, "machine": machine}
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(oi.InputError, match="OI0556") as caught:
        Tuning.load(path)
    assert words in caught.value.message


def test_a_file_keeps_tiles_and_numbers(tmp_path: Path) -> None:
    tuning = Tuning("avx2", "a CPU", {"1x2x3 f32": Tile(2, 6)}, Microarchitecture(panels=2))
    tuning.save(tmp_path / "t.json")
    assert Tuning.load(tmp_path / "t.json") == tuning
    assert tuning.identity != replace(tuning, machine=None).identity
    newer = Tuning("avx2", "", {"4x4x4 f32": Tile(1, 1)})
    assert tuning.merged(newer).machine == tuning.machine


def test_what_the_cache_keeps() -> None:
    # Slower as streams up to half of it, quicker beyond: as it was.
    assert kept_part({25: 1.2, 50: 1.1, 70: 0.9, 100: 0.7}, 50) == 50
    # Nothing that is clear.
    assert kept_part({25: 1.01, 50: 0.99, 70: 1.01}, 50) == 50
    assert kept_part({25: 1.2, 35: 0.8, 50: 0.9, 70: 0.9}, 50) == 30
    assert kept_part({25: 0.8, 35: 0.8, 50: 0.9, 70: 0.9}, 50) == 12
    assert kept_part({25: 0.99, 35: 0.99, 50: 0.85, 70: 0.9}, 50) == 42
    assert kept_part({25: 1.2, 50: 1.1, 70: 1.1, 100: 0.7}, 50) == 85
    assert kept_part({25: 1.2, 50: 1.1, 70: 1.1, 100: 1.3}, 50) == NEVER


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512"])
def test_each_number_has_candidates_and_products(name: str) -> None:
    target = named_target(name)
    tried = candidates(target)
    assert ("ahead_line" in tried) != ("ahead" in tried)
    for number, values in tried.items():
        assert getattr(DEFAULT, number) in values
        assert probes(number, target, 2)
    # Weights that stream are more than the last cache holds.
    (far,) = probes("ahead_streamed", target, 1)
    assert 4 * far.depth * far.columns > 2 * target.last_cache
    assert probes("chunks", target, 1) == []


def test_a_number_is_kept_where_it_is_quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    target = named_target("avx512")
    monkeypatch.setattr(tuning_machine, "candidates", lambda _: {"ahead": (0, 512, 1024)})
    times = {0: 1.2, 512: 1.0, 1024: 0.9}

    def ratio(self: object, known: Microarchitecture, other: Microarchitecture, _: object) -> float:
        return times[other.ahead] if known.kept == other.kept else 1.0

    monkeypatch.setattr(MachineTuner, "_ratio", ratio)
    tuner = MachineTuner(target, 1, 0.001)
    ahead, kept = tuner.numbers()
    assert (ahead.name, ahead.best, ahead.tried) == ("ahead", 1024, {0: 1.2, 1024: 0.9})
    assert (kept.name, kept.best) == ("kept", 50)
    assert tuner.found == Microarchitecture(ahead=1024)
    text = table([ahead, kept], tuner.found, "znver9")
    assert "512   1024  0.90" in text
    assert text.endswith("znver9: ahead=1024")
    times[1024] = 0.98
    tuner = MachineTuner(target, 1, 0.001)
    assert next(tuner.numbers()).best == 512
    assert Number("panels", 1, 1, {2: 1.5}, "a").gain == 1


def test_the_command(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_machine, "candidates", lambda _: {"panels": (1, 2)})
    monkeypatch.setattr(tuning_machine, "_weights", lambda _: tuning_machine.Probe(1, 64, 1024))
    path = tmp_path / "found.json"
    kept = Tuning(host_target().name, "", {"1x1x1 f32": Tile(1, 1)})
    kept.save(path)
    arguments = ["tune", "--machine", "--seconds", "0.001", "-o", str(path)]
    assert main([*arguments, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["number"] for row in data["numbers"]] == ["panels", "kept"]
    assert data["cpu"] == host_target().cpu
    found = Tuning.load(path)
    assert found.tiles == kept.tiles
    assert found.machine is not None
    assert main([*arguments, "--minutes", "0.0001"]) == 0
    assert "kept" not in capsys.readouterr().out.partition("\n")[2]
    assert main(["tune", "-o", str(path)]) == 2
    assert "a program is measured, or the machine" in capsys.readouterr().err
    assert main(["tune", "--machine", "p.oi"]) == 2


@pytest.mark.parametrize("option", [["--model", "m.oinf"], ["--size", "B=4"]])
def test_options_of_a_program_beside_the_machine(option: list[str], capsys: Capture) -> None:
    assert main(["tune", "--machine", *option]) == 2
    said = capsys.readouterr().err
    assert f"--machine measures products of its own, to which {option[0]} says nothing" in said


def test_numbers_of_an_earlier_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next begins with them, and one that is interrupted leaves those that it has measured."""
    values = {"ahead": (0, 512, 1024), "ahead_line": (0, 2048), "panels": (1, 2), "chunks": (2, 4)}
    monkeypatch.setattr(tuning_machine, "candidates", lambda _: values)

    def ratio(self: object, known: Microarchitecture, other: Microarchitecture, _: object) -> float:
        seen.append(known)
        if len(seen) == stop:
            raise KeyboardInterrupt
        return 0.5 if other.panels == 2 and known.panels == 1 else 1.0

    monkeypatch.setattr(MachineTuner, "_ratio", ratio)
    path, kind = tmp_path / "found.json", host_target().name
    arguments = ["tune", "--machine", "--threads", "2", "-o", str(path), "--json"]
    seen, stop = list[Microarchitecture](), 6
    earlier = Microarchitecture(ahead=1024, ahead_line=0, chunks=7)
    Tuning(kind, "", {}, earlier).save(path)
    assert main(arguments) == 130
    # Two of `ahead`, one of `ahead_line`, one of `panels`, then `chunks`.
    assert seen == [earlier] * 4 + [replace(earlier, panels=2)] * 2
    assert Tuning.load(path).machine == replace(earlier, panels=2)
    # Those of another kind of processor are no beginning.
    seen, stop = [], 1
    other = next(name for name in ("avx2", "avx512") if name != kind)
    Tuning(other, "", {}, earlier).save(path)
    assert main(arguments) == 130
    assert seen == [host_target().measured]
