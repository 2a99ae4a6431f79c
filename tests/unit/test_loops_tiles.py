"""The loops that lay a weight out as matrices of 16 x 16 agree with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.host import cpu_unavailable_reason

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("depth", "columns"), [(64, 48), (48, 37), (33, 17), (1, 3)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_pack(depth: int, columns: int, dtype: str, transposed: bool) -> None:
    draw = np.random.default_rng(depth + columns)
    matrix = draw.standard_normal((depth, columns)).astype(dtype)
    across, down = -(-columns // 16), -(-depth // 16)
    source = np.ascontiguousarray(matrix.T) if transposed else matrix
    kind = f"f{dtype.removeprefix('float')}"
    types = (
        f"memref<{source.shape[0]}x{source.shape[1]}x{kind}>",
        f"memref<{across}x{down}x256x{kind}>",
    )
    flag = ', transposed = ""' if transposed else ""
    text = (
        'builtin.module attributes {openinfer.target = "generic"} { func.func @kernel('
        f"%w: {types[0]}, %p: {types[1]}) {{\n"
        f"nn.pack(%w) outs(%p) {{layout = #nn.tiles<16>{flag}}} : ({', '.join(types)}) -> ()\n"
        "func.return } }"
    )
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    for step in (LowerKernels(), ShareLoops()):
        step.apply(context, module)
    found = np.full((across, down, 256), 5, dtype)
    compile_loops(module, "kernel", target=host_target(), opt_level=1)(source, found)
    padded = np.zeros((down * 16, across * 16), dtype)
    padded[:depth, :columns] = matrix
    expected = padded.T.reshape(across, 16, down, 16).swapaxes(1, 2).reshape(found.shape)
    np.testing.assert_array_equal(found, expected)
