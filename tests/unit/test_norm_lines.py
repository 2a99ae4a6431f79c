"""Norms of many short rows, a subgroup each: the kernel, run in NumPy, against NumPy in f64."""

from __future__ import annotations

import numpy as np
import pytest
from test_matmul_workgroup import HEAD, lowered
from workgroup_kernels import SUBGROUP, run_subgroups

from openinfer.lowering.vulkan.schedules import group_line


def text(rows: int) -> str:
    """A step that calls the kernel."""
    x, w = f"memref<{rows}x384xf16>", "memref<384xf16>"
    made = 'memref.alloc() {openinfer.memory = "device"}'
    return f"""builtin.module attributes {{{HEAD}}} {{
      func.func @step() {{
        %x = {made} : {x}
        %w = {made} : {w}
        func.call @norm_0(%x, %w, %w, %x) : ({x}, {w}, {w}, {x}) -> ()
        func.return }}
      func.func private @norm_0(%x: {x}, %w: {w}, %c: {w}, %y: {x}) {{
        nn.layer_norm(%x, %w, %c) outs(%y) {{eps = 1.0e-5 : f64, has_weight, has_bias}}
          : ({x}, {w}, {w}, {x}) -> ()
        func.return }} }}"""


def test_subgroups_norm_rows_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_line, "MANY", 8)
    kernel, groups, size = lowered(text(8))
    assert (groups, size) == (2, group_line.LINES * SUBGROUP)
    random = np.random.default_rng(3)
    x, w, c = (random.standard_normal(n).astype(np.float16) for n in ((8, 384), 384, 384))
    y = np.full((8, 384), np.nan, np.float16)
    run_subgroups(kernel, groups, [x, w, c, y], size // SUBGROUP)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    known = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + c
    assert np.abs(y - known).max() <= 2e-3 * np.abs(known).max()


@pytest.mark.parametrize("rows", [64, group_line.MANY + 2])
def test_few_or_odd_rows_have_a_workgroup_each(rows: int) -> None:
    _, groups, size = lowered(text(rows))
    assert (groups, size) == (rows, SUBGROUP)
