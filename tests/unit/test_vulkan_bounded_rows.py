"""Products of a few rows of which only the step knows how many: kernels for up to 4, 8 and 16."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lockstep import run_kernel
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import openinfer as oi
from openinfer.compiler import passes, registry
from openinfer.compiler.ir_text import parse_ir
from openinfer.lowering.vulkan.schedules.lower_device_kernels import LowerDeviceKernels

Array = np.ndarray[Any, Any]
ROWS = (1, 3, 4, 5, 9, 16, 17)
COLUMNS, DEPTH = 330, 520
"""Neither is a multiple of what a workgroup takes."""
FLOATS = f"""
dynamic {{ x: KIND[N, {DEPTH}]; r: f32[N, {COLUMNS}]; }}
constant {{ w: f16[{COLUMNS}, {DEPTH}]; b: f32[{COLUMNS}]; }}
block entry {{
    assign a: f32[N, {COLUMNS}];
    op matmul(x, w, transpose_b=true, acc=f32) >> a;
    op add(a, b) >> a;
    op add(a, r) >> a;
    return a;
}}
"""
BYTES = f"""
dynamic {{ x: i8[N, {DEPTH}]; }}
constant {{ w: i8[{COLUMNS}, {DEPTH}]; }}
block entry {{
    assign a: i32[N, {COLUMNS}];
    op matmul(x, w, transpose_b=true, acc=i32) >> a;
    return a;
}}
"""


def drawn(draw: np.random.Generator, kind: str, *shape: int) -> Array:
    if kind == "i8":
        return draw.integers(-128, 128, shape, np.int8)
    scale = shape[-1] ** -0.5 if kind == "f16" else 1
    return (draw.standard_normal(shape) * scale).astype(kind.replace("f", "float"))


@pytest.mark.parametrize("kind", ["f32", "f16", "i8"])
def test_steps_of_some_rows(kind: str, everything_on_vulkan: None, tmp_path: Path) -> None:
    """The same program, one to 17 rows and none; and which kernel it was."""
    text = BYTES if kind == "i8" else FLOATS.replace("KIND", kind)
    draw = np.random.default_rng(7)
    weights = {"w": drawn(draw, "i8" if kind == "i8" else "f16", COLUMNS, DEPTH)}
    if kind != "i8":
        weights["b"] = drawn(draw, "f32", COLUMNS)
    path = tmp_path / "weights.oinf"
    oi.write_oinf(weights, path)
    with oi.open_model(path) as model:
        program = oi.compile(text, model, device="vulkan", fallback=False)
        executor = program.make_executor(trace=True)
        for rows in (*ROWS, 0):
            inputs = {"x": drawn(draw, kind, rows, DEPTH)}
            wide = np.int64 if kind == "i8" else np.float64
            expected = inputs["x"].astype(wide) @ weights["w"].astype(wide).T
            if kind != "i8":
                inputs["r"] = drawn(draw, "f32", rows, COLUMNS)
                expected = expected + weights["b"] + inputs["r"]
            executor.clear_trace()
            found = np.asarray(executor.run(**inputs)["a"])
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
            (kernel,) = {e.kernel for e in executor.trace() if e.kernel.startswith("matmul")}
            most = next((str(bound) for bound in (1, 4, 8, 16) if 0 < rows <= bound), "0")
            if 0 < rows <= 16:
                assert kernel == f"matmul_0_of_{most}"


KERNEL = """
builtin.module attributes {{openinfer.target = "generic", openinfer.device = "vulkan",
    openinfer.subgroup = {subgroup} : i64, openinfer.shared_memory = 49152 : i64}} {{
  func.func @step(%n: index {{openinfer.arg = #nn.slot<size "N">}}) {{
    %x = memref.alloc(%n) {{openinfer.memory = "device"}} : memref<?x512xf32>
    %w = memref.alloc() {{openinfer.memory = "device"}} : memref<258x512xf16>
    %y = memref.alloc(%n) {{openinfer.memory = "device"}} : memref<?x258xf32>
    func.call @matmul_0(%x, %w, %y) : (memref<?x512xf32>, memref<258x512xf16>, memref<?x258xf32>) -> ()
    func.return
  }}
  func.func private @matmul_0(
      %x: memref<?x512xf32>, %w: memref<258x512xf16>, %y: memref<?x258xf32>) {{
    nn.matmul(%x, %w) outs(%y) {{transpose_b}}
        : (memref<?x512xf32>, memref<258x512xf16>, memref<?x258xf32>) -> ()
    func.return
  }}
}}
"""


@pytest.mark.parametrize("subgroup", [4, 32, 64])
@pytest.mark.parametrize(("most", "rows"), [(4, 3), (16, 11)])
def test_subgroups_of_other_sizes(subgroup: int, most: int, rows: int) -> None:
    """Of 4 an invocation ends with several sums, of 32 and 64 some end with the same one."""
    module = parse_ir(KERNEL.format(subgroup=subgroup), "k.mlir", registry.make_context()).module
    assert isinstance(module, ModuleOp)
    passes.run_pass(LowerDeviceKernels(), module, registry.make_context())
    module.verify()
    functions = {f.sym_name.data: f for f in module.walk() if isinstance(f, FuncOp)}
    draw = np.random.default_rng(most)
    x, w = drawn(draw, "f32", rows, 512), drawn(draw, "f16", 258, 512)
    found = np.full((rows, 258), np.nan, np.float32)
    run_kernel(functions[f"matmul_0_of_{most}"], [x, w, found], 3, subgroup)
    expected = x.astype(np.float64) @ w[:12].astype(np.float64).T
    np.testing.assert_allclose(found[:, :12], expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(found[:, 12:]).all()
