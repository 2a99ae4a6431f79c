"""Kernels of convolutions: the loops agree with NumPy for every target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import ConvOp, PanelsAttr
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.conv_schedule import (
    conv_layout,
    conv_scratch,
    schedule_of,
)
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.target import named_target

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
LEVELS = ("generic", "avx2", "avx512")
TARGETS = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()
HOST = TARGETS[-1] if TARGETS else "generic"
IR_TYPES = {"float64": "f64", "float32": "f32", "float16": "f16"}


@dataclass(frozen=True)
class Conv:
    """One convolution; `batch` None is known only when it runs, as 2."""

    x: tuple[int, int, int]
    outputs: int
    kernel: tuple[int, int] = (3, 3)
    batch: int | None = 1
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    pool: int = 1
    body: str = ""
    dtype: str = "float32"
    packed: bool = True
    rows: int = 0
    """Columns of the packed panels; 0 takes what the schedule asks for."""

    @property
    def count(self) -> tuple[int, int]:
        """Lines and columns of the result."""
        top, bottom, left, right = self.padding
        found: list[int] = []
        for axis, around in enumerate((top + bottom, left + right)):
            reach = (self.kernel[axis] - 1) * self.dilation[axis] + 1
            found.append((self.x[1 + axis] + around - reach) // self.stride[axis] + 1)
        return found[0] // self.pool, found[1] // self.pool

    def settings(self) -> str:
        numbers = {n: getattr(self, n) for n in ("kernel", "stride", "padding", "dilation")}
        texts = [f"{n} = array<i64: {', '.join(map(str, v))}>" for n, v in numbers.items()]
        texts.append(f"groups = {self.groups} : i64")
        return ", ".join(texts + ([f"pool = {self.pool} : i64"] if self.pool > 1 else []))


BIAS_RELU = """^bb0(%p: f32, %q: f32):
  %zero = arith.constant 0.0 : f32
  %v = arith.addf %p, %q : f32
  %r = arith.maximumf %v, %zero : f32
  nn.yield %r : f32"""
RESIDUAL = """^bb0(%p: f32, %q: f32, %s: f32):
  %v = arith.addf %p, %q : f32
  %r = arith.addf %v, %s : f32
  nn.yield %r : f32"""
LONG = (
    "^bb0(%p: f32, %q: f32):\n%v0 = arith.addf %p, %q : f32\n"
    + "".join(f"%v{i + 1} = math.tanh %v{i} : f32\n" for i in range(3))
    + "nn.yield %v3 : f32"
)
CHANNEL = "affine_map<(n, c, h, w) -> (c, 0, 0)>"
SAME = "affine_map<(n, c, h, w) -> (n, c, h, w)>"


def expected(conv: Conv, x: Array, w: Array, extras: Sequence[Array]) -> Array:
    """The definition, element of the kernel by element of the kernel, in f64."""
    top, bottom, left, right = conv.padding
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)])
    (sh, sw), (dh, dw) = conv.stride, conv.dilation
    rows, columns = (n * conv.pool for n in conv.count)
    parts = np.split(x, conv.groups, axis=1)
    kernels = np.split(w.astype(np.float64), conv.groups)
    sums: list[Array] = []
    for part, kernel in zip(parts, kernels):
        total = np.zeros((len(x), len(kernel), rows, columns))
        for i in range(conv.kernel[0]):
            for j in range(conv.kernel[1]):
                lines = slice(i * dh, i * dh + (rows - 1) * sh + 1, sh)
                window = part[:, :, lines, j * dw : j * dw + (columns - 1) * sw + 1 : sw]
                total += np.einsum("nchw,oc->nohw", window, kernel[:, :, i, j])
        sums.append(total)
    y = np.concatenate(sums, axis=1)
    if conv.pool > 1:
        y = y.reshape(*y.shape[:2], *conv.count[:1], 2, conv.count[1], 2).max(axis=(3, 5))
    for extra in extras:
        y = y + extra
    if conv.body == BIAS_RELU:
        return np.maximum(y, 0)
    if conv.body == LONG:
        return np.tanh(np.tanh(np.tanh(y)))
    return y


def panels(w: Array, groups: int, tile: int) -> Array:
    """What `nn.pack` makes of the kernels."""
    matrix = w.reshape(groups, len(w) // groups, -1)
    count = -(-matrix.shape[1] // tile)
    padded = np.zeros((groups, count * tile, matrix.shape[2]), w.dtype)
    padded[:, : matrix.shape[1]] = matrix
    split = padded.reshape(groups, count, tile, -1)
    return np.ascontiguousarray(np.swapaxes(split, 2, 3))


def check(conv: Conv, target: str) -> None:
    element = IR_TYPES[conv.dtype]
    batch = conv.batch or 2
    random = np.random.default_rng(sum(conv.x) + conv.outputs)
    x = random.standard_normal((batch, *conv.x)).astype(conv.dtype)
    w = random.standard_normal((conv.outputs, conv.x[0] // conv.groups, *conv.kernel))
    w = w.astype(conv.dtype)
    shape = (batch, conv.outputs, *conv.count)
    extras: list[Array] = []
    maps: list[str] = []
    if conv.body:
        extras, maps = [random.standard_normal((conv.outputs, 1, 1)).astype("float32")], [CHANNEL]
    if conv.body == RESIDUAL:
        extras.append(random.standard_normal(shape).astype("float32"))
        maps.append(SAME)
    batch_text = "?" if conv.batch is None else str(conv.batch)

    def kind(what: str, dims: Sequence[int | str], of: str = element) -> str:
        return f"{what}<{'x'.join(map(str, dims))}x{of}>"

    head = f'builtin.module attributes {{openinfer.target = "{target}"}} {{\n'
    types = [kind("tensor", x.shape), kind("tensor", w.shape), kind("tensor", shape)]
    text = (
        f"{head}func.func @f(%x: {types[0]}, %w: {types[1]}) -> {types[2]} {{\n"
        f"%y = nn.conv(%x, %w) {{{conv.settings()}}} : ({types[0]}, {types[1]}) -> {types[2]}\n"
        f"func.return %y : {types[2]}\n}}\n}}"
    )
    module = Parser(make_context(), text).parse_module()
    (op,) = (o for o in module.walk() if isinstance(o, ConvOp))
    layout = conv_layout(op)
    chosen = layout.columns if isinstance(layout, PanelsAttr) else schedule_of(op).tile.rows
    tile = conv.rows or chosen
    if conv.packed:
        # The room depends on it.
        op.properties["layout"] = PanelsAttr(tile)
    room = max((scratch.dims[0].evaluate({}) for scratch in conv_scratch(op)), default=1)
    weights = panels(w, conv.groups, tile) if conv.packed else w
    sums = "f64" if element == "f64" else "f32"
    buffers = [
        kind("memref", (batch_text, *conv.x)),
        kind("memref", weights.shape),
        kind("memref", (conv.outputs, 1, 1), "f32"),
        kind("memref", (batch_text, *shape[1:]), "f32"),
        kind("memref", (batch_text, *shape[1:])),
        kind("memref", ("?",), sums),
    ]
    inputs = [*buffers[:2], *buffers[2 : 2 + len(extras)]]
    types = [*inputs, *buffers[4:]]
    names = [f"%{i}" for i in range(len(types))]
    settings = conv.settings() + (f", layout = #nn.panels<{tile}>" if conv.packed else "")
    settings += f", maps = [{', '.join(maps)}]" if maps else ""
    body = f"{{\n{conv.body}\n}}" if conv.body else ""
    more = f"extras({', '.join(names[2:-2])})" if extras else ""
    kernel = (
        f"{head}func.func @kernel({', '.join(f'{n}: {t}' for n, t in zip(names, types))}) {{\n"
        f"nn.conv(%0, %1) {more} "
        f"outs({names[-2]}) scratch(planes = {names[-1]}) "
        f"{{{settings}}} {body} : "
        f"({', '.join(types)}) -> ()\nfunc.return\n}}\n}}"
    )
    context = make_context()
    module = Parser(context, kernel).parse_module()
    module.verify()
    for step in (LowerKernels(), ShareLoops()):
        step.apply(context, module)
    module.verify()
    description = host_target() if target == HOST else named_target(target)
    run = compile_loops(module, "kernel", target=description, opt_level=int(target == HOST))
    whole = np.full(int(np.prod(shape)) + 64, 77, conv.dtype)
    found = whole[32:-32].reshape(shape)
    # What lies in the scratch buffer before does not matter, NaN neither.
    scratch = np.full(room + 64, np.nan, "float64" if sums == "f64" else "float32")
    scratch[room:] = 77
    run(x, weights, *extras, found, scratch)
    assert (whole[:32] == 77).all()
    assert (whole[-32:] == 77).all()
    assert (scratch[room:] == 77).all()
    unit = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-2}[conv.dtype]
    np.testing.assert_allclose(found, expected(conv, x, w, extras), rtol=unit, atol=20 * unit)


COMMON = {
    "3x3": Conv((3, 10, 33), 13, padding=(1, 1, 1, 1), body=BIAS_RELU),
    "images": Conv((5, 6, 16), 9, batch=None, padding=(1, 1, 1, 1), body=RESIDUAL),
    "pointwise": Conv((6, 5, 7), 11, (1, 1), batch=None, body=RESIDUAL),
    "stride": Conv((4, 13, 31), 8, stride=(2, 2), padding=(1, 1, 1, 1), body=BIAS_RELU),
    "flat": Conv((4, 7, 7), 10, batch=None, padding=(1, 1, 1, 1), body=BIAS_RELU),
    "flat stride": Conv((3, 13, 11), 5, (3, 2), stride=(2, 2), padding=(1, 0, 0, 1)),
    "pooled": Conv((3, 12, 32), 10, padding=(1, 1, 1, 1), pool=2, body=BIAS_RELU),
    "small image": Conv((9, 7, 7), 70, (1, 1), batch=None, body=RESIDUAL),
    "depthwise stride": Conv(
        (3, 15, 75), 3, stride=(2, 2), padding=(1, 0, 0, 1), groups=3, body=BIAS_RELU
    ),
    "depthwise": Conv((6, 9, 20), 6, padding=(1, 1, 1, 1), groups=6, body=BIAS_RELU),
    "depthwise 7x7": Conv((2, 15, 43), 2, (7, 7), padding=(3, 3, 3, 3), groups=2, body=BIAS_RELU),
}
RARE = {
    "one pixel of many": Conv((33, 1, 1), 300, (1, 1), batch=None, body=BIAS_RELU),
    "long image": Conv((5, 30, 40), 9, (1, 1), batch=None, body=RESIDUAL),
    "channels apart by whole ways": Conv((20, 32, 32), 6, (1, 1)),
    "depthwise, a loop over columns": Conv(
        (2, 24, 120), 2, padding=(1, 1, 1, 1), groups=2, batch=None, body=RESIDUAL
    ),
    "depthwise, a loop over pairs": Conv(
        (2, 25, 250), 2, padding=(2, 1, 2, 1), stride=(1, 2), groups=2, body=BIAS_RELU
    ),
    "depthwise, small": Conv((5, 7, 7), 5, padding=(1, 1, 1, 1), groups=5, body=RESIDUAL),
    "depthwise, dilation": Conv(
        (3, 11, 23), 3, (2, 3), padding=(0, 3, 5, 1), dilation=(3, 2), groups=3, packed=False
    ),
    "depthwise, border only": Conv((2, 1, 2), 2, padding=(2, 2, 3, 3), groups=2),
    "depthwise 7x7, a loop over columns": Conv(
        (2, 22, 120), 2, (7, 7), padding=(3, 2, 3, 2), groups=2, batch=None, body=RESIDUAL
    ),
    "depthwise 5x5, pairs of columns": Conv(
        (2, 16, 150), 2, (5, 5), padding=(2, 2, 2, 2), stride=(2, 2), groups=2, body=BIAS_RELU
    ),
    "depthwise 4x6, small": Conv(
        (3, 6, 9), 3, (4, 6), padding=(0, 3, 4, 1), stride=(1, 2), groups=3, packed=False
    ),
    "depthwise 7x7, small": Conv((3, 7, 7), 3, (7, 7), padding=(3, 3, 3, 3), groups=3),
    "depthwise 7x7, border only": Conv((2, 1, 2), 2, (7, 7), padding=(5, 5, 6, 6), groups=2),
    "depthwise 5x5, dilation": Conv(
        (2, 17, 37), 2, (5, 5), padding=(4, 4, 6, 6), dilation=(2, 3), groups=2, dtype="float64"
    ),
    "depthwise, f64": Conv(
        (2, 9, 21), 2, padding=(1, 1, 1, 1), groups=2, dtype="float64", packed=False
    ),
    "depthwise, f16": Conv((2, 9, 21), 2, padding=(1, 1, 1, 1), groups=2, dtype="float16"),
    "dilation": Conv((2, 16, 18), 7, dilation=(3, 2), padding=(2, 3, 1, 2), packed=False),
    "stride 3": Conv((3, 17, 40), 4, (2, 4), stride=(3, 3), padding=(0, 2, 1, 0)),
    "groups": Conv((8, 8, 24), 20, groups=4, batch=None, padding=(1, 1, 1, 1), body=RESIDUAL),
    "large kernel": Conv((2, 15, 30), 9, (11, 11), padding=(5, 5, 5, 5), body=BIAS_RELU),
    "one line": Conv((4, 1, 70), 6, (1, 5), padding=(0, 0, 2, 2), batch=None, body=BIAS_RELU),
    "one column": Conv((4, 9, 1), 6, (3, 1), padding=(1, 1, 0, 0)),
    "one pixel": Conv((17, 3, 3), 18, (3, 3)),
    "stride 2 of 1x1": Conv((5, 11, 33), 7, (1, 1), stride=(2, 2), batch=None),
    "long body": Conv((3, 8, 24), 9, padding=(1, 1, 1, 1), body=LONG),
    "pooled remainders": Conv((2, 15, 45), 11, padding=(1, 1, 1, 1), pool=2, body=LONG),
    "padding only": Conv((2, 1, 2), 3, padding=(2, 2, 3, 3)),
    "narrow panels": Conv((3, 8, 32), 10, padding=(1, 1, 1, 1), rows=3, body=RESIDUAL),
    "wide panels": Conv((3, 7, 7), 20, padding=(1, 1, 1, 1), rows=9),
    "f64": Conv((3, 10, 19), 5, padding=(1, 1, 1, 1), stride=(1, 2), dtype="float64"),
    "f16": Conv((3, 10, 33), 6, padding=(1, 1, 1, 1), stride=(2, 2), dtype="float16"),
    "windows as rows": Conv((333, 8, 8), 260, (2, 2), batch=None, body=RESIDUAL),
    "windows as rows, stride": Conv(
        (150, 27, 19), 256, stride=(2, 2), padding=(1, 0, 0, 1), body=BIAS_RELU
    ),
    "windows as rows, dilation": Conv(
        (20, 9, 8), 300, (2, 3), dilation=(3, 1), padding=(1, 0, 2, 1), dtype="float16"
    ),
    "windows as rows, little of x": Conv(
        (17, 3, 14), 288, (3, 1), stride=(2, 2), padding=(2, 1, 0, 1), dilation=(2, 3)
    ),
    "many weights": Conv((160, 4, 16), 120, padding=(1, 1, 1, 1), body=BIAS_RELU),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", COMMON)
def test_convolutions(name: str, target: str):
    check(COMMON[name], target)


@pytest.mark.parametrize("name", RARE)
def test_convolutions_on_the_host(name: str):
    check(RARE[name], HOST)
