"""Attention in the registers of subgroups: the kernels, run in NumPy, against attention in f64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from test_matmul_workgroup import HEAD, lowered
from test_spirv_dialect import parsed
from workgroup_kernels import SUBGROUP, run_subgroups
from xdsl.dialects.func import FuncOp

from openinfer.compiler.registry import make_context
from openinfer.lowering.places import KNOWN_BLOCK_SIZE
from openinfer.lowering.vulkan.schedules import attention_flash_shape
from openinfer.lowering.vulkan.schedules.lower_device_kernels import LowerDeviceKernels

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """Batches, heads, heads of keys, queries, keys, size."""

    sizes: tuple[int, int, int, int, int, int]
    mask: tuple[int, ...] | None = None
    causal: bool = False
    layout: str = "bhld"
    bools: bool = False
    unknown: bool = False
    """Whether types do not say how many queries and keys there are."""

    def shape(self, heads: int, length: int) -> tuple[int, ...]:
        batches, size = self.sizes[0], self.sizes[5]
        if self.layout == "bhld":
            return batches, heads, length, size
        return batches, length, heads, size

    def shapes(self) -> list[tuple[int, ...]]:
        _, heads, groups, queries, keys, _ = self.sizes
        found = [self.shape(heads, queries), *[self.shape(groups, keys)] * 2]
        if self.mask is not None:
            found.append(self.mask)
        return [*found, self.shape(heads, queries)]

    def text(self) -> str:
        """The module: a step that calls the kernel."""
        names = ["%q", "%k", "%v", *(["%m"] if self.mask is not None else []), "%o"]
        kinds = {"%m": "i8" if self.bools else "f16"}
        axis = self.layout.index("l") if self.unknown else -1
        types = [
            f"memref<{''.join('?x' if n == axis else f'{extent}x' for n, extent in enumerate(shape))}"
            f"{kinds.get(name, 'f16')}>"
            for name, shape in zip(names, self.shapes())
        ]
        made = "\n".join(
            f"{name} = memref.alloc({'%n' if self.unknown else ''}) "
            f'{{openinfer.memory = "device"}} : {type_}'
            for name, type_ in zip(names, types)
        )
        listed = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types))
        given, rest = ", ".join(names), ", ".join(types)
        causal = "causal, " if self.causal else ""
        layouts = ", ".join([f'"{self.layout}"'] * 4)
        masked = "masked, " if self.mask is not None else ""
        attributes = f"{{scale = 0.25 : f64, {causal}{masked}layouts = [{layouts}]}}"
        inputs = ", ".join(names[:-1])
        return f"""builtin.module attributes {{{HEAD}}} {{
          func.func @step() {{
            %n = arith.constant 7 : index
            {made}
            func.call @attention_0({given}) : ({rest}) -> ()
            func.return }}
          func.func private @attention_0({listed}) {{
            nn.attention({inputs}) outs(%o) {attributes} : ({rest}) -> ()
            func.return }} }}"""

    def plain(self, one: Array) -> Array:
        """With heads in front of positions."""
        return one if self.layout == "bhld" else np.swapaxes(one, 1, 2)

    def known(self, buffers: list[Array]) -> Array:
        """In f64."""
        _, heads, groups, queries, keys, _ = self.sizes
        q, k, v = (self.plain(one).astype(np.float64) for one in buffers[:3])
        k, v = (np.repeat(one, heads // groups, axis=1) for one in (k, v))
        scores = 0.25 * q @ np.swapaxes(k, -1, -2)
        if self.bools:
            scores = np.where(buffers[3] != 0, scores, -np.inf)
        elif self.mask is not None:
            scores = scores + buffers[3].astype(np.float64)
        if self.causal:
            position = np.arange(queries)[:, None] + keys - queries
            scores = np.where(np.arange(keys) <= position, scores, -np.inf)
        top = scores.max(-1, keepdims=True)
        weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
        total = weights.sum(-1, keepdims=True)
        return weights @ v / np.where(total == 0, 1, total)


CASES = {
    "all keys at once": Case((2, 3, 3, 128, 128, 32)),
    "fewer queries than rows": Case((2, 3, 3, 70, 96, 32)),
    "a mask of keys": Case((2, 3, 1, 128, 64, 32), mask=(2, 1, 1, 64)),
    "a mask of queries and keys": Case((2, 2, 2, 100, 64, 64), mask=(1, 2, 100, 64)),
    "a mask of one axis": Case((1, 2, 2, 64, 64, 64), mask=(64,)),
    "bools of keys": Case((2, 3, 1, 70, 64, 32), mask=(2, 1, 1, 64), bools=True),
    "bools of queries and keys": Case(
        (2, 2, 2, 100, 64, 64), mask=(1, 2, 100, 64), causal=True, bools=True
    ),
    "causal": Case((2, 2, 2, 100, 128, 32), causal=True),
    "causal, some queries see nothing": Case((1, 2, 2, 128, 64, 32), causal=True),
    "positions in front of heads": Case((2, 4, 2, 128, 96, 64), causal=True, layout="blhd"),
    "rounds": Case((1, 2, 1, 64, 200, 64)),
    "causal, in rounds": Case((1, 2, 2, 100, 300, 48), causal=True, layout="blhd"),
    "a mask of numbers, in rounds": Case((1, 2, 2, 70, 136, 16), mask=(1, 1, 70, 136)),
    "an unknown number": Case((1, 2, 1, 70, 100, 32), unknown=True),
    "causal, an unknown number": Case(
        (1, 2, 1, 40, 70, 32), causal=True, unknown=True, layout="blhd"
    ),
    "bools, in rounds": Case((1, 1, 1, 64, 136, 80), mask=(1, 1, 1, 136), bools=True),
}


def of_many(case: Case) -> tuple[FuncOp, int, int]:
    """The kernel for more queries than one, its workgroups and invocations."""
    module = parsed(case.text())
    LowerDeviceKernels().apply(make_context(), module)
    module.verify()
    one, kernel = (
        f for f in module.ops if isinstance(f, FuncOp) and KNOWN_BLOCK_SIZE in f.attributes
    )
    assert not any(op.name == "gpu.matrix_map" for op in one.walk())
    batches, heads, _, queries, _, _ = case.sizes
    together = 16 * attention_flash_shape.SUBGROUPS[-1]
    return kernel, batches * heads * -(-queries // together), together // 16 * SUBGROUP


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_kernels_compute_attention(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_flash_shape, "BUSY", 1)
    kernel, groups, size = of_many(case) if case.unknown else lowered(case.text())
    assert any(op.name == "gpu.matrix_reduce" for op in kernel.walk())
    random = np.random.default_rng(5)
    buffers: list[Array] = [random.standard_normal(one).astype(np.float16) for one in case.shapes()]
    if case.mask is not None:
        hidden = random.random(case.mask) < 0.3
        buffers[3] = np.where(hidden, -np.inf, buffers[3]).astype(np.float16)
        if case.bools:
            buffers[3] = np.where(hidden, 0, 1).astype(np.int8)
    buffers[-1] = np.full(case.shapes()[-1], np.nan, np.float16)
    run_subgroups(kernel, groups, buffers, size // SUBGROUP)
    with np.errstate(invalid="ignore", over="ignore"):
        known = case.known(buffers)
    found = case.plain(buffers[-1])
    assert np.isfinite(found).all()
    assert np.abs(found - known).max() <= 2e-3 * np.abs(known).max()


def test_hidden_values_are_no_part_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last value is not finite, and the first queries do not see it."""
    monkeypatch.setattr(attention_flash_shape, "BUSY", 1)
    few = Case((1, 1, 1, 4, 32, 32), causal=True)
    kernel, groups, size = lowered(few.text())
    random = np.random.default_rng(5)
    buffers: list[Array] = [random.standard_normal(one).astype(np.float16) for one in few.shapes()]
    buffers[2][..., -1, :] = np.inf
    run_subgroups(kernel, groups, buffers, size // SUBGROUP)
    with np.errstate(invalid="ignore", over="ignore"):
        known = few.known([*buffers[:2], np.where(np.isinf(buffers[2]), 0, buffers[2])])
    found = buffers[-1]
    assert np.abs(found[..., :3, :] - known[..., :3, :]).max() <= 2e-3
    assert np.isinf(found[..., 3, :]).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = 0.25", "scale = -0.25"),
        ("scale = 0.25 : f64,", "scale = 0.25 : f64, window = 7 : i64,"),
        ("openinfer.workgroup_matrices", "openinfer.workgroup_matrices, openinfer.strict_math"),
        (", openinfer.workgroup_matrices", ""),
    ],
)
def test_other_attentions_are_not_for_it(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_flash_shape, "BUSY", 1)
    text = CASES["all keys at once"].text()
    assert old in text
    kernel, _, _ = lowered(text.replace(old, new))
    assert not any(op.name == "gpu.matrix_map" for op in kernel.walk())


@pytest.mark.parametrize(
    ("sizes", "there"),
    [
        ((64, 12, 12, 128, 128, 32), True),
        ((1, 12, 12, 128, 128, 32), False),
        ((64, 12, 12, 128, 100, 32), True),
        ((64, 12, 12, 128, 128, 40), False),
        ((64, 12, 12, 128, 128, 144), False),
        ((1, 32, 8, 512, 512, 64), True),
        ((1, 32, 8, 512, 512, 128), True),
    ],
)
def test_which_attentions_are(sizes: tuple[int, int, int, int, int, int], there: bool) -> None:
    """Few workgroups leave a device idle; heads are multiples of 16, and fit registers."""
    kernel, _, _ = lowered(Case(sizes).text())
    assert any(op.name == "gpu.matrix_map" for op in kernel.walk()) == there
