"""Passes of `nn` and `linalg` ask the machine's record, and name no limit of the CPU themselves."""

from __future__ import annotations

import pytest

from openinfer.compiler import registry
from openinfer.compiler.passes import build_passes
from openinfer.lowering import demands
from openinfer.lowering.cpu.demands import CpuDemands

NARROW = """
builtin.module attributes {openinfer.target = "avx512"} {
  func.func @step(%x: tensor<8x64xf32>, %w: tensor<64x32xf16>) -> tensor<8x32xf32> {
    %c = nn.elementwise(%w) {kind = "cast"} : (tensor<64x32xf16>) -> tensor<64x32xf32>
    %y = nn.matmul(%x, %c) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    func.return %y : tensor<8x32xf32>
  }
}
"""
ROUNDED = """
builtin.module attributes {openinfer.target = "avx512", openinfer.bf16_dot, openinfer.precision = "bf16"} {
  nn.interface {inputs = ["x"], weights = [{variable = "W", sources = ["W"]}]}
  func.func @step(%x: tensor<8x4x16xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
    %r = nn.reshape(%x) : (tensor<8x4x16xf32>) -> tensor<8x64xf32>
    %y = nn.matmul(%r, %w) : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
    func.return %y : tensor<8x32xf32>
  }
}
"""


class PlainDemands(CpuDemands):
    """A machine whose kernels read the dtype that a program computes in, and gain by no rounding."""

    widens = demands.Demands.widens
    rounds = demands.Demands.rounds


def _after(text: str, passes: str) -> str:
    from xdsl.parser import Parser

    context = registry.make_context()
    module = Parser(context, text).parse_module()
    for item in build_passes(passes):
        item.apply(context, module)
    module.verify()
    return str(module)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(demands.DEMANDS, "cpu", f"{__name__}:PlainDemands")
    monkeypatch.setattr(demands, "_LOADED", {})


def test_the_cpu_widens_and_rounds() -> None:
    assert "kind" not in _after(NARROW, "absorb-conversions")
    rounded = _after(ROUNDED, "lower-precision")
    assert "rounded_products = 1" in rounded


def test_what_is_rounded_leaves_nothing_that_nobody_reads() -> None:
    assert _after(ROUNDED, "lower-precision").count("nn.reshape(") == 1


@pytest.mark.usefixtures("plain")
def test_a_machine_that_widens_nothing_keeps_the_cast() -> None:
    assert _after(NARROW, "absorb-conversions") == _after(NARROW, "dce")


@pytest.mark.usefixtures("plain")
def test_a_machine_that_gains_nothing_rounds_nothing() -> None:
    rounded = _after(ROUNDED, "lower-precision")
    assert "rounded_products = 0" in rounded
    assert "xbf16" not in rounded
