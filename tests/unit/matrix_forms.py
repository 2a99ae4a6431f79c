"""Programs whose kernels multiply matrices on a device that has them, and their words."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler import pipeline, registry
from openinfer.dialects.spirv.structure_ops import SpirvModuleOp
from openinfer.lowering.emit.glsl_target import GlslTarget
from openinfer.lowering.options import PipelineOptions
from openinfer.lowering.vulkan.checked_words import checked_words
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.devices.vulkan.device import VulkanDevice
from openinfer.runtime.devices.vulkan.parts import part_of

H200 = DeviceDescription(32, 49152, 1024, matrices=True, alignment=16)
"""What kernels may use of an NVIDIA H200 in tier `matrix`."""


def attention(batches: int, heads: int, groups: int, queries: int, keys: int, size: int) -> str:
    """With a mask of numbers, one of truths, causal in a window, and plainly."""
    shape = f"f16[{batches}, {heads}, {queries}, {size}]"
    return (
        f"dynamic {{ q: {shape}; k: f16[{batches}, {groups}, {keys}, {size}]; "
        f"v: f16[{batches}, {groups}, {keys}, {size}]; m: f16[1, 1, 1, {keys}]; "
        f"n: bool[1, 1, {queries}, {keys}]; }} "
        f"block entry {{ assign a: {shape}; assign b: {shape}; assign c: {shape}; assign d: {shape}; "
        "op attention(q, k, v, m) >> a; op attention(q, k, v, n) >> b; "
        f"op attention(q, k, v, causal=true, window={keys * 3 // 4}) >> c; "
        "op attention(q, k, v) >> d; return a, b, c, d; }"
    )


def product(left: str, right: str, result: str, rest: str = "", given: str = "") -> str:
    """With the right operand as it stands where its rows are those of the result, else turned."""
    depth = left.rpartition(",")[2].strip()
    turned = ", transpose_b=true" if right.rpartition(",")[2].strip() == depth else ""
    return (
        f"dynamic {{ x: f16[{left}]; w: f16[{right}]; {given} }} block entry {{ assign y: f16[{result}]; "
        f"op matmul(x, w{turned}) >> y; {rest} return y; }}"
    )


BIAS = "op add(y, b) >> y; "
FORMS = {
    "product": product("96, 96", "96, 128", "96, 128"),
    "turned product": product("128, 64", "256, 64", "128, 256"),
    "large product": product("1024, 512", "512, 2048", "1024, 2048"),
    "large turned product": product("1024, 512", "2048, 512", "1024, 2048"),
    "product of no whole tiles": product("130, 72", "200, 72", "130, 200"),
    "few tiles": product("128, 1536", "384, 1536", "128, 384", BIAS, "b: f16[384];"),
    "batch": product("12, 128, 64", "12, 64, 80", "12, 128, 80"),
    "bias and gelu": product(
        "128, 384", "1536, 384", "128, 1536", BIAS + "op gelu(y) >> y;", "b: f16[1536];"
    ),
    "residual": product(
        "8192, 384",
        "384, 384",
        "8192, 384",
        BIAS + "op add(y, r) >> y;",
        "b: f16[384]; r: f16[8192, 384];",
    ),
    "norm": product("128, 384", "1152, 384", "128, 1152", "op layer_norm(y, eps=1e-5) >> y;"),
    "rows of a step": product("M, 256", "512, 256", "M, 512", BIAS, "b: f16[512];"),
    "f32 result": (
        "dynamic { x: f16[256, 128]; w: f16[384, 128]; } block entry { assign y: f16[256, 384]; "
        "assign z: f32[256, 384]; op matmul(x, w, transpose_b=true) >> y; op cast(y, to=f32) >> z; "
        "return z; }"
    ),
    "wide gelu": product(
        "8192, 384", "1536, 384", "8192, 1536", BIAS + "op gelu(y) >> y;", "b: f16[1536];"
    ),
    "large product of no whole tiles": product(
        "4000, 2056", "2056, 2000", "4000, 2000", BIAS, "b: f16[2000];"
    ),
    "attention of many heads": (
        "dynamic { q: f16[16, 12, 128, 32]; k: f16[16, 12, 128, 32]; v: f16[16, 12, 128, 32]; "
        "m: f16[16, 1, 1, 128]; } block entry { assign a: f16[16, 12, 128, 32]; "
        "op attention(q, k, v, m) >> a; return a; }"
    ),
    "causal attention of many queries": (
        "dynamic { q: f16[1, 32, 500, 64]; k: f16[1, 8, 128, 64]; v: f16[1, 8, 128, 64]; } "
        "block entry { assign a: f16[1, 32, 500, 64]; "
        "op attention(q, k, v, causal=true) >> a; return a; }"
    ),
    "causal attention in rounds": (
        "dynamic { q: f16[1, 32, 512, 64]; k: f16[1, 8, 512, 64]; v: f16[1, 8, 512, 64]; } "
        "block entry { assign a: f16[1, 32, 512, 64]; "
        "op attention(q, k, v, causal=true) >> a; return a; }"
    ),
    "large batches": product("12, 512, 64", "12, 64, 512", "12, 512, 512"),
    "attention whose queries are shared": attention(1, 12, 12, 128, 128, 32),
    "attention of groups": attention(2, 4, 2, 77, 201, 64),
    "attention of size 16": attention(1, 2, 2, 5, 300, 16),
    "attention of size 128": attention(1, 3, 1, 33, 70, 128),
    "attention of size 80": attention(5, 20, 20, 20, 33, 80),
    "attention of a batch": attention(9, 12, 4, 66, 70, 64),
}


OF_WORKGROUPS = (
    *("large product", "large turned product", "residual", "rows of a step", "wide gelu"),
    *("large product of no whole tiles", "large batches"),
    *("attention of many heads", "causal attention of many queries", "causal attention in rounds"),
)
"""Forms of which a kernel has matrices of a workgroup, on a device of tier `matrix2`."""


@contextmanager
def as_for_an_h200(tier: str = "matrix") -> Generator[None]:
    """What is compiled for Vulkan here is for that device; no driver is needed."""

    def described(_: VulkanDevice) -> DeviceDescription:
        return replace(H200, workgroup_matrices=tier == "matrix2")

    with patch.object(VulkanDevice, "describe", described):
        yield


@dataclass(frozen=True)
class Lowered:
    """A program as it is for an H200, lowered once for its words and its shaders."""

    kernels: Mapping[str, bytes]
    """The words of each kernel, by the names of their parts."""
    shaders: str
    """All kernels as GLSL."""


@cache
def lowered(form: str, tier: str = "matrix") -> Lowered:
    """The kernels of a program. What one process of a test run has lowered, the others read."""
    name = f"{form}-{tier}".replace(" ", "-")
    kept = Path(os.environ["OPENINFER_CACHE_DIR"]).with_name("matrix-forms") / name
    if kept.exists():
        return pickle.loads(kept.read_bytes())
    made = _lowered(form, tier)
    kept.parent.mkdir(exist_ok=True)
    own = kept.with_name(f"{name}-{os.getpid()}")
    own.write_bytes(pickle.dumps(made))
    own.rename(kept)
    return made


def _lowered(form: str, tier: str) -> Lowered:
    context, shaders = registry.make_context(), io.StringIO()

    def keep(phase: str, module: ModuleOp) -> None:
        if phase == "threads":
            GlslTarget().emit(context, module, shaders)

    module = oi.graph(FORMS[form]).module.clone()
    with as_for_an_h200(tier):
        options = PipelineOptions(device="vulkan", fallback=False)
        pipeline.run(module, context, "vulkan", options=options, on_phase=keep)
    found = [op for op in module.walk() if isinstance(op, SpirvModuleOp)]
    kernels = {part_of(op.sym_name.data): checked_words(op) for op in found if op.sym_name}
    return Lowered(kernels, shaders.getvalue())


def kernels_of(form: str, tier: str = "matrix") -> Mapping[str, bytes]:
    """The words of a program's kernels."""
    return lowered(form, tier).kernels
