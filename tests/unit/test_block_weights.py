"""Weights in blocks: what the IR says of them, and what a machine without a kernel for them answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler import pipeline, registry
from openinfer.compiler.api import Graph
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.text import module_text
from openinfer.dialects import nn
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.errors import ProgramError, UnsupportedError
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.tensors import Tensor

PROGRAM = """\
dynamic { x: f32[B, 64]; }
constant { W: f32[8, 64]; }
volatile { y: f32[B, 8]; }
block entry {
    op matmul(x, W, transpose_b=true) >> y;
    return y;
}
"""


def read(text: str) -> ModuleOp:
    source = parse_ir(text, "dump.mlir", registry.make_context())
    source.verify()
    return source.module


@pytest.fixture
def plain(tmp_path: Path) -> str:
    """The program at level `nn`."""
    path = tmp_path / "w.oinf"
    weight = Tensor.from_values("f32", np.zeros((8, 64)))
    oi.write_oinf(OinfContent(tensors={"W": weight}), path)
    module = Graph(PROGRAM, "p.oi").module.clone()
    context = registry.make_context()
    options = PipelineOptions(target_name="avx2", package=oi.open_model(path))
    pipeline.run(module, context, options=options, stop="nn")
    return module_text(module, context)


def in_blocks(text: str, block: str = "q8_0") -> str:
    return text.replace("tensor<8x64xf32>", f"tensor<8x64x!nn.block<{block}>>")


def laid_out(text: str, row: str, op: str) -> str:
    """With layouts in the weight's row and in the op."""
    found = text.replace("tensor<8x64xf32>", "tensor<1x2x544xi8>")
    found = found.replace('sources = ["W"]', f'sources = ["W"], layout = {row}', 1)
    found = found.replace("{transpose_b}", f"{{layout = {op}}}")
    assert found.count("#nn.") > text.count("#nn.") + 1
    return found


@pytest.mark.parametrize("block", ["q8_0", "q4_1"])
def test_a_program_with_a_weight_in_blocks_prints_and_reads(plain: str, block: str) -> None:
    module = read(in_blocks(plain, block))
    again = module_text(module, registry.make_context())
    assert f"!nn.block<{block}>" in again
    assert module_text(read(again), registry.make_context()) == again


def test_rows_and_ops_agree_on_the_layout(plain: str) -> None:
    blocks = "#nn.blocks<q8_0, 16>"
    text = laid_out(plain, blocks, blocks)
    assert blocks in module_text(read(text), registry.make_context())
    with pytest.raises(ProgramError, match=r"lies as #nn.blocks<q8_0, 8>, nn.matmul reads it as"):
        read(laid_out(plain, "#nn.blocks<q8_0, 8>", blocks))


@pytest.mark.parametrize("device", ["cpu", "null"])
def test_no_kernel_is_an_error_with_its_line(plain: str, device: str) -> None:
    """`null` supports every op; the CPU says what it has no kernel for."""
    # Rows of 256 elements, which a block of the format has.
    wide = re.sub(r'(?<=[ x"])64(?=[x,>"])', "256", in_blocks(plain, "q2_k"))
    text = wide.replace('openinfer.target = "avx2"', f'openinfer.target = "avx2", '
        f'openinfer.device = "{device}"')  # fmt: skip
    module = read(text)
    if device == "null":
        pipeline.run(module, registry.make_context(), pipeline="null", start="nn", stop="linalg")
        return
    with pytest.raises(
        UnsupportedError, match=r"p\.oi:5:5: nn\.matmul: the CPU has no kernel"
    ) as e:
        pipeline.run(module, registry.make_context(), start="nn")
    assert e.value.code == "OI0739"


def test_sizes_of_blocks() -> None:
    """Bits of an element, as formats are known by them."""
    bits = {name: 8 * row.nbytes / row.elements for name, row in BLOCKS.items()}
    assert bits == {
        **{"q8_0": 8.5, "q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0},
        **{"q2_k": 2.625, "q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5, "q6_k": 6.5625},
        **{"iq4_nl": 4.5, "iq4_xs": 4.25, "mxfp4": 4.25},
    }
    layout = nn.BlocksAttr.of("q4_k", 16)
    assert layout.shape((512, 24)) == (2, 2, 16 * 144)
