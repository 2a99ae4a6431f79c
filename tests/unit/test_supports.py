"""What is fused of ops that a machine supports, it supports; and fusion joins no two places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation
from xdsl.parser import Parser

from openinfer.compiler import registry
from openinfer.compiler.passes import build_passes
from openinfer.dialects import nn
from openinfer.lowering import demands
from openinfer.lowering.cpu.demands import CpuDemands
from openinfer.lowering.demands import Demands
from openinfer.lowering.places import on_host
from openinfer.lowering.vulkan.demands import VulkanDemands

BEFORE = "nn-to-linalg,choose-places,dce"
FUSION = "fuse-elementwise,fuse-epilogue,fuse-pooling,fuse-epilogue,merge-products,fuse-matvec,dce"
X = "tensor<1x32x64x64xf32>"

UNARY = ("relu", "exp", "neg", "tanh", "sqrt")
BINARY = ("add", "mul", "max")
OPS: dict[str, str] = {
    **{kind: f'nn.elementwise(%0) {{kind = "{kind}"}} : ({X}) -> {X}' for kind in UNARY},
    **{kind: f'nn.elementwise(%0, %1) {{kind = "{kind}"}} : ({X}, {X}) -> {X}' for kind in BINARY},
    "matmul": f"nn.matmul(%0, %1) : ({X}, {X}) -> {X}",
    "softmax": f"nn.softmax(%0) {{axis = 3 : i64}} : ({X}) -> {X}",
    "rms_norm": f"nn.rms_norm(%0) {{eps = 1.0e-05 : f64}} : ({X}) -> {X}",
    "transpose": f"nn.transpose(%0) {{permutation = array<i64: 0, 1, 3, 2>}} : ({X}) -> {X}",
}
"""One op of each kind: `%0` is what the other one gives, `%1` an input."""


def drawn_pairs(count: int = 40) -> list[tuple[str, str]]:
    """Of all pairs some, in each run the same; each kind stands first and second."""
    names = sorted(OPS)
    pairs = [(first, second) for first in names for second in names]
    random = Random(7)
    chosen = {(name, random.choice(names)) for name in names}
    chosen |= {(random.choice(names), name) for name in names}
    random.shuffle(pairs)
    return sorted(chosen | set(pairs[: max(0, count - len(chosen))]))


def program(device: str, *names: str) -> str:
    lines: list[str] = []
    value = "%x"
    for number, name in enumerate(names):
        lines.append(f"%v{number} = {OPS[name].replace('%0', value).replace('%1', '%y')}")
        value = f"%v{number}"
    body = "\n    ".join(lines)
    return f"""
builtin.module attributes {{openinfer.target = "avx2", openinfer.device = "{device}"}} {{
  nn.interface {{inputs = ["x", "y"]}}
  func.func @step(%x: {X}, %y: {X}) -> {X} {{
    {body}
    func.return {value} : {X}
  }}
}}
"""


def parsed(text: str) -> ModuleOp:
    return Parser(registry.make_context(), text).parse_module()


def after(module: ModuleOp, passes: str) -> ModuleOp:
    context = registry.make_context()
    for item in build_passes(passes):
        item.apply(context, module)
    module.verify()
    return module


def kernels(module: ModuleOp) -> Iterator[Operation]:
    for op in module.walk():
        if isinstance(op, linalg.GenericOp | linalg.FillOp) or (
            isinstance(op, nn.NNOp) and not isinstance(op, nn.ReshapeOp)
        ):
            yield op


def not_closed(record: Demands, device: str, first: str, second: str) -> list[str]:
    """What fusion made of a pair that the record refuses, though it supports the parts."""
    module = after(parsed(program(device, first, second)), BEFORE)
    parts = list(kernels(module))
    if any(on_host(op) for op in parts):
        return []
    assert all(record.supports(op) is None for op in parts)
    fused = [op for op in kernels(after(module, FUSION)) if not on_host(op)]
    assert fused
    return [f"{op.name}: {reason}" for op in fused if (reason := record.supports(op)) is not None]


@pytest.mark.parametrize("device", sorted(demands.DEMANDS))
def test_fused_ops_of_supported_parts_are_supported(device: str) -> None:
    record = demands.demands_of(parsed(program(device, "relu")))
    for first, second in drawn_pairs():
        assert not_closed(record, device, first, second) == [], (first, second)


def test_pairs_do_fuse() -> None:
    """The draw has pairs to judge: some become fewer kernels."""
    fewer = 0
    for first, second in drawn_pairs():
        module = after(parsed(program("null", first, second)), BEFORE)
        count = len(list(kernels(module)))
        fewer += len(list(kernels(after(module, FUSION)))) < count
    assert fewer >= 10


@dataclass
class Narrow(Demands):
    """Refuses what `refused` says; not closed where that asks for what only fusion makes."""

    refused: Callable[[Operation], bool]

    def supports(self, op: Operation) -> str | None:
        return "refused" if self.refused(op) else None


def use(monkeypatch: pytest.MonkeyPatch, record: Demands) -> None:
    """Gives `null` another record."""
    monkeypatch.setattr(demands, "_LOADED", {"null": record})


def test_a_record_that_refuses_what_fusion_makes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    record = Narrow(lambda op: isinstance(op, nn.MatmulOp) and op.maps is not None)
    use(monkeypatch, record)
    assert not_closed(record, "null", "matmul", "relu") == ["nn.matmul: refused"]


@pytest.mark.parametrize("refused", ["nn.matmul", "nn.softmax", "linalg.generic"])
def test_fusion_joins_no_two_places(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the device refuses stays at the host, and takes nothing with it but elementwise ops of an input
    that nobody else reads."""
    use(monkeypatch, Narrow(lambda op: op.name == refused))
    for first, second in drawn_pairs():
        module = after(parsed(program("null", first, second)), f"{BEFORE},{FUSION}")
        for op in kernels(module):
            readers = [use.operation for result in op.results for use in result.uses]
            follows = op.name == "linalg.generic" and {reader.name for reader in readers} == {
                refused
            }
            assert on_host(op) == (op.name == refused or follows), (first, second, op.name)


BLOCKS = """
builtin.module attributes {openinfer.target = "avx2", openinfer.device = "vulkan"} {
  func.func @step(%x: tensor<2x64xf32>) -> tensor<2x64xf32> {
    %b = nn.quantize_blocks(%x) {block = "FORMAT"} : (tensor<2x64xf32>) -> tensor<2xBYTESxi8>
    %y = nn.dequantize_blocks(%b) {block = "FORMAT"} : (tensor<2xBYTESxi8>) -> tensor<2x64xf32>
    func.return %y : tensor<2x64xf32>
  }
}
"""


@pytest.mark.parametrize(("block", "nbytes"), [("q8_0", 68), ("q4_0", 36)])
def test_formats_of_blocks_that_have_no_kernel(block: str, nbytes: int) -> None:
    """They are refused: kernels would compute in another format, in silence."""
    module = parsed(BLOCKS.replace("FORMAT", block).replace("BYTES", str(nbytes)))
    module.verify()
    ops = [
        op for op in module.walk() if isinstance(op, nn.QuantizeBlocksOp | nn.DequantizeBlocksOp)
    ]
    said = [machine.supports(op) for op in ops for machine in (VulkanDemands(), CpuDemands())]
    nothing = f"the device has no kernel for bytes of {block}"
    written = f"the CPU has no kernel that writes bytes of {block}"
    assert said == ([None] * 4 if block == "q8_0" else [nothing, written, nothing, None])
