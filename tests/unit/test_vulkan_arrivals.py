"""Workgroups that count each other: the last one of some joins what all of them have found, in lockstep."""

from __future__ import annotations

import numpy as np
import pytest
from lockstep import run_kernel
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from openinfer.compiler import passes, registry
from openinfer.compiler.ir_text import parse_ir
from openinfer.lowering.vulkan.schedules.lower_device_kernels import LowerDeviceKernels
from openinfer.runtime.manifest import DEVICE_COUNTS

TEXT = """builtin.module attributes {
  openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64,
  openinfer.shared_memory = 49152 : i64, openinfer.invocations = 256 : i64 } {
  func.func @step() {
    %q = memref.alloc() {openinfer.memory = "device"} : memref<2x4x1x16xf32>
    %k = memref.alloc() {openinfer.memory = "device"} : memref<2x2xKx16xf32>
    %parts = memref.alloc() {openinfer.memory = "device"} : memref<2x4x16x18xf32>
    func.call @attention_0(%q, %k, %k, %q, %parts) : (memref<2x4x1x16xf32>, memref<2x2xKx16xf32>, memref<2x2xKx16xf32>, memref<2x4x1x16xf32>, memref<2x4x16x18xf32>) -> ()
    func.return }
  func.func private @attention_0(%q: memref<2x4x1x16xf32>, %k: memref<2x2xKx16xf32>, %v: memref<2x2xKx16xf32>, %o: memref<2x4x1x16xf32>, %parts: memref<2x4x16x18xf32>) {
    nn.attention(%q, %k, %v) outs(%o) scratch(parts = %parts) {scale = 0.25 : f64, layouts = ["bhld", "bhld", "bhld", "bhld"]} : (memref<2x4x1x16xf32>, memref<2x2xKx16xf32>, memref<2x2xKx16xf32>, memref<2x4x1x16xf32>, memref<2x4x16x18xf32>) -> ()
    func.return } }"""  # noqa: E501


@pytest.mark.parametrize("keys", [2048, 2500])
def test_the_last_workgroup_joins_the_parts(keys: int) -> None:
    """Twice behind each other: counts are zeros again. Only parts of its own heads are there for each."""
    module = parse_ir(TEXT.replace("K", str(keys)), "kernel.mlir", registry.make_context()).module
    assert isinstance(module, ModuleOp)
    passes.run_pass(LowerDeviceKernels(), module, registry.make_context())
    module.verify()
    (kernel,) = [
        op
        for op in module.body.ops
        if isinstance(op, FuncOp) and op.sym_name.data == "attention_0_in_parts"
    ]
    draw = np.random.default_rng(keys)
    q = draw.standard_normal((2, 4, 1, 16), np.float32)
    k, v = (draw.standard_normal((2, 2, keys, 16), np.float32) for _ in "kv")
    parts = np.full((2, 4, 16, 18), np.nan, np.float32)
    counts = np.zeros(DEVICE_COUNTS, np.int32)
    scores = q.astype(np.float64) @ np.repeat(k, 2, 1).swapaxes(-1, -2) / 4
    weights = np.exp(scores)
    wanted = weights @ np.repeat(v, 2, 1) / weights.sum(-1, keepdims=True)
    # Rounds of 512 keys, a part each; two heads of queries in a workgroup.
    groups = 2 * 2 * -(-keys // 512)
    for _ in range(2):
        found = np.full((2, 4, 1, 16), np.nan, np.float32)
        run_kernel(kernel, [q, k, v, found, parts, counts], groups)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
        assert not counts.any()
    # One that does not come leaves its heads without a result.
    found = np.full((2, 4, 1, 16), np.nan, np.float32)
    run_kernel(kernel, [q, k, v, found, parts, counts], groups - 1)
    assert np.isnan(found[1, 2:]).all()
    assert not np.isnan(found[0]).any()
    assert counts.any()
