"""OPENINFER_HOST_FEATURES: this processor appears as a lesser one, which code for more cannot run on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer
from openinfer.compiler.tools.device_report import device_reports
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.devices.cpu.support import host_can_run
from openinfer.runtime.errors import ArtefactError, InputError
from openinfer.runtime.host import cpu_identity, cpu_unavailable_reason, target_identity
from openinfer.runtime.options import HOST_KINDS
from openinfer.runtime.target import TARGETS, describe_target, named_target, within_level

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None, reason=str(cpu_unavailable_reason())
)

VARIABLE = "OPENINFER_HOST_FEATURES"
PROGRAM = """
dynamic { x: f32[4]; }
block entry { assign y: f32[4]; op add(x, x) >> y; return y; }
"""


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor as it is, also where the whole run of the tests masks it."""
    monkeypatch.delenv(VARIABLE, raising=False)


def more_than(kind: str) -> list[str]:
    return list(HOST_KINDS[HOST_KINDS.index(kind) + 1 :])


@pytest.mark.parametrize("kind", HOST_KINDS)
def test_the_processor_appears_as_named(
    kind: str, plain: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, identity = host_target(), cpu_identity()
    monkeypatch.setenv(VARIABLE, kind)
    seen = host_target()
    # Where this processor is less, that is what it stays.
    assert seen.name == min(kind, whole.name, key=HOST_KINDS.index)
    assert not seen.bf16_dot
    assert seen.vector_bits == named_target(seen.name).vector_bits
    assert seen.cpu == named_target(seen.name).cpu
    assert seen is host_target()
    assert cpu_identity() != identity
    assert target_identity("host") == cpu_identity()
    facts = next(row.facts for row in device_reports() if row.name == "cpu")
    assert facts["cpu"] == seen.cpu
    monkeypatch.delenv(VARIABLE)
    assert host_target() is whole
    assert cpu_identity() == identity


@pytest.mark.parametrize("kind", ["generic", "avx2"])
def test_code_for_more_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, kind)
    for target in more_than(host_target().name):
        reason = f"the program was compiled for {target}, this processor is {host_target().name}"
        assert host_can_run(target) == reason
        # It is compiled, and refused where it would run.
        program = openinfer.compile(PROGRAM, target=target)
        with pytest.raises(ArtefactError, match=reason) as refused:
            program.make_executor(1)
        assert refused.value.code == "OI0806"
        with pytest.raises(ArtefactError, match="OI0806"):
            compile_loops("func.func @f() { func.return }", "f", target=named_target(target))


def test_a_program_of_the_whole_processor_does_not_run_on_the_masked_one(
    plain: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if host_target().name == "generic":
        pytest.skip("this processor is of the least kind")
    place = tmp_path / "whole.oip"
    openinfer.compile(PROGRAM).save(place)
    monkeypatch.setenv(VARIABLE, "generic")
    with pytest.raises(ArtefactError, match="OI0806"):
        openinfer.load(place).make_executor(1)
    # What is compiled anew is not taken from the cache entry of the whole processor.
    x = np.ones(4, np.float32)
    run = openinfer.compile(PROGRAM).make_executor(1).run(x=x)
    np.testing.assert_array_equal(run["y"], x + x)


def test_what_can_run_here_is_known_by_name_and_by_description(plain: None) -> None:
    assert host_can_run("host") is None
    assert host_can_run("generic") is None
    assert host_can_run(host_target()) is None
    assert host_can_run(host_target().name) is None
    dotted = named_target("avx512").with_bf16_dot()
    assert (host_can_run(dotted) is None) == host_target().bf16_dot


def test_a_masked_processor_has_what_its_level_has() -> None:
    """Each level keeps what makes it that level, and is that level for a processor that has all."""
    everything: dict[str, bool] = dict.fromkeys(
        "64bit adx aes avx avx10.1 avx2 avx512bf16 avx512bw avx512cd avx512dq avx512f avx512vl "
        "avxvnni bmi bmi2 cmov crc32 cx16 cx8 f16c fma fxsr lzcnt mmx movbe popcnt sahf sse sse2 "
        "sse3 sse4.1 sse4.2 ssse3 x87 xsave".split(),
        True,
    )
    assert set(HOST_KINDS) == set(TARGETS)
    for kind in HOST_KINDS:
        masked = within_level(kind, everything)
        assert masked.keys() == everything.keys()
        assert describe_target("", "", masked).name == kind
        assert not masked["avx512bf16"]
        assert not masked["avx10.1"]
    assert not within_level("avx2", {"fma": False, "avx2": True})["fma"]


def test_another_kind_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sse9")
    with pytest.raises(InputError, match="OPENINFER_HOST_FEATURES=sse9") as refused:
        host_target()
    assert refused.value.code == "OI0530"
