"""How near the product kernels come to the machine: GFLOP/s on one thread, share of the peak.

    python -m benchmarks.kernels [--json] [--seconds 0.3] [--only NAME] [--target avx2]

The peak is measured in the same run by a loop of independent multiply-adds. Every kernel runs many
short times and the quickest counts, so that a busy neighbour shows less. Operands stay in cache, as
they do between the layers of a model; there is no bias unless the name says so.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import ConvOp
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.lowering.cpu.schedules.conv_schedule import conv_scratch, schedule_of
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.target import TARGETS, TargetDescription, named_target

PASSES = (LowerKernels(), ShareLoops())
CHAINS = {32: 24, 16: 12}
"""Sums that the peak loop keeps in registers, by their number: two pipes of four cycles want 8."""
ROUNDS = 20_000

EPILOGUES = {
    "bias": "%r = arith.addf %v, %q : f32",
    "gelu": """
    %half = arith.constant 5.000000e-01 : f32
    %root = arith.constant -0.70710677 : f32
    %v0 = arith.mulf %v, %root : f32
    %v1 = math.erfc %v0 : f32
    %v2 = arith.mulf %v, %half : f32
    %r = arith.mulf %v1, %v2 : f32
""",
}
BIAS_RELU = """
^bb0(%p: f32, %q: f32):
    %zero = arith.constant 0.0 : f32
    %v = arith.addf %p, %q : f32
    %r = arith.maximumf %v, %zero : f32
    nn.yield %r : f32
"""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One kernel and the operations that it is measured by."""

    name: str
    run: Callable[[int], Any]
    """Runs the kernel so many times, without returning to Python in between."""
    work: float
    """Floating point operations, or bytes read, of one run."""


def lowered(text: str) -> ModuleOp:
    """A module of `nn` on buffers, as loops."""
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    for step in PASSES:
        step.apply(context, module)
    return module


def repeated(
    kernel: str, types: Sequence[str], arrays: Sequence[Array], target: TargetDescription
) -> Callable[[int], Any]:
    """A function that runs the statements `kernel` on `%0, %1, …` of memref `types` many times."""
    parameters = ", ".join(f"%{i}: {kind}" for i, kind in enumerate(types))
    arguments = ", ".join(f"%{i}" for i in range(len(types)))
    module = lowered(
        f'builtin.module attributes {{openinfer.target = "{target.name}"}} {{\n'
        f"func.func private @kernel({parameters}) {{\n{kernel}\nfunc.return\n}}\n"
        f"func.func @repeated(%count: index, {parameters}) {{\n"
        "%from = arith.constant 0 : index\n%by = arith.constant 1 : index\n"
        "scf.for %i = %from to %count step %by {\n"
        f"func.call @kernel({arguments}) : ({', '.join(types)}) -> ()\n}}\nfunc.return\n}}\n}}\n"
    )
    function = compile_loops(module, "repeated", target=target)
    return lambda count: function(count, *arrays)


def peak_case(target: TargetDescription) -> Case:
    """Multiply-adds that wait for nothing but the one before in their own chain."""
    lanes, chains = target.vector_bits // 32, CHAINS[target.registers]
    kind, buffer = f"vector<{lanes}xf32>", f"memref<{chains * lanes}xf32>"
    sums = ", ".join(f"%s{i} = %x" for i in range(chains))
    types = ", ".join([kind] * chains)
    # Without an instruction for both, a multiplication and an addition; as one they would be a call.
    step = "%n{i} = vector.fma %s{i}, %x, %x : {kind}"
    if target.name == "generic":
        step = "%p{i} = arith.mulf %s{i}, %x : {kind}\n%n{i} = arith.addf %p{i}, %x : {kind}"
    lines = [
        "%zero = arith.constant 0 : index",
        "%one = arith.constant 1 : index",
        f"%stop = arith.constant {ROUNDS} : index",
        f"%x = vector.load %0[%zero] : {buffer}, {kind}",
        f"%r:{chains} = scf.for %i = %zero to %stop step %one iter_args({sums}) -> ({types}) {{",
        *(step.format(i=i, kind=kind) for i in range(chains)),
        f"scf.yield {', '.join(f'%n{i}' for i in range(chains))} : {types}",
        "}",
    ]
    for i in range(chains):
        lines.append(f"%c{i} = arith.constant {i * lanes} : index")
        lines.append(f"vector.store %r#{i}, %0[%c{i}] : {buffer}, {kind}")
    arrays = [aligned(np.zeros(chains * lanes, np.float32))]
    run = repeated("\n".join(lines), [buffer], arrays, target)
    return Case("peak", run, 2.0 * chains * lanes * ROUNDS)


def matmul_case(
    m: int,
    n: int,
    k: int,
    *,
    target: TargetDescription,
    epilogue: str = "",
    dynamic: bool = False,
) -> Case:
    """`[m, k] x [k, n]` with packed weights; the epilogue turns `%v` (sum plus bias) into `%r`."""
    tile = 2 * target.vector_bits // 32
    panels, layout = -(-n // tile), f"layout = #nn.panels<{tile}>"
    rows = "?" if dynamic else str(m)
    types = [f"memref<{rows}x{k}xf32>", f"memref<{panels}x{k}x{tile}xf32>"]
    types += [f"memref<{n}xf32>", f"memref<{rows}x{n}xf32>"]
    a, b, bias, c = types
    if epilogue:
        kernel = (
            f"nn.matmul(%0, %1) extras(%2) outs(%3) {{{layout}, maps = [affine_map<(i, j) -> (j)>]}} {{\n"
            f"^bb0(%p: f32, %q: f32):\n%v = arith.addf %p, %q : f32\n{EPILOGUES[epilogue]}\n"
            f"nn.yield %r : f32\n}} : ({a}, {b}, {bias}, {c}) -> ()"
        )
    else:
        kernel = f"nn.matmul(%0, %1) outs(%3) {{{layout}}} : ({a}, {b}, {c}) -> ()"
    random = np.random.default_rng(0)
    shapes = [(m, k), (panels, k, tile), (n,), (m, n)]
    arrays = [aligned(random.standard_normal(shape, np.float32)) for shape in shapes]
    name = f"{m}x{n}x{k}" + (f" {epilogue}" if epilogue else "") + (" rows ?" if dynamic else "")
    return Case(name, repeated(kernel, types, arrays, target), 2.0 * m * n * k)


def conv_case(
    channels: int,
    size: int,
    outputs: int,
    *,
    target: TargetDescription,
    kernel: int = 3,
    pool: int = 1,
) -> Case:
    """A convolution of one `size` x `size` image that keeps its size, with bias and relu."""
    sides, around = f"array<i64: {kernel}, {kernel}>", ", ".join([str(kernel // 2)] * 4)
    settings = (
        f"kernel = {sides}, stride = array<i64: 1, 1>, padding = array<i64: {around}>, "
        "dilation = array<i64: 1, 1>, groups = 1 : i64"
    ) + (f", pool = {pool} : i64" if pool > 1 else "")
    x, y = f"1x{channels}x{size}x{size}xf32", f"1x{outputs}x{size // pool}x{size // pool}xf32"
    w = f"{outputs}x{channels}x{kernel}x{kernel}xf32"
    module = Parser(
        make_context(),
        f'builtin.module attributes {{openinfer.target = "{target.name}"}} {{\n'
        f"func.func @f(%x: tensor<{x}>, %w: tensor<{w}>) -> tensor<{y}> {{\n"
        f"%y = nn.conv(%x, %w) {{{settings}}} : (tensor<{x}>, tensor<{w}>) -> tensor<{y}>\n"
        f"func.return %y : tensor<{y}>\n}}\n}}\n",
    ).parse_module()
    (op,) = (inner for inner in module.walk() if isinstance(inner, ConvOp))
    rows, depth = schedule_of(op).tile.rows, channels * kernel * kernel
    room = max((scratch.dims[0].evaluate({}) for scratch in conv_scratch(op)), default=1)
    shapes = [
        (1, channels, size, size),
        (1, -(-outputs // rows), depth, rows),
        (outputs, 1, 1),
        (1, outputs, size // pool, size // pool),
        (room,),
    ]
    types = [f"memref<{'x'.join(map(str, shape))}xf32>" for shape in shapes]
    text = (
        f"nn.conv(%0, %1) extras(%2) outs(%3) scratch(planes = %4) {{{settings}, "
        f"layout = #nn.panels<{rows}>, maps = [affine_map<(n, c, h, w) -> (c, 0, 0)>]}} {{{BIAS_RELU}}} : "
        f"({', '.join(types)}) -> ()"
    )
    random = np.random.default_rng(0)
    arrays = [aligned(random.standard_normal(shape, np.float32)) for shape in shapes]
    name = f"conv {channels}>{outputs} {size}^2 {kernel}x{kernel}" + (" pool" if pool > 1 else "")
    return Case(name, repeated(text, types, arrays, target), 2.0 * outputs * size * size * depth)


def attention_case(heads: int, length: int, size: int, *, target: TargetDescription) -> Case:
    """One attention over `heads` heads with a padding mask; counts the two products."""
    rows = f"1x?x{heads}x{size}xf32"
    lanes = target.vector_bits // 32
    width = lanes if length <= lanes else 2 * lanes
    types = [f"memref<{rows}>"] * 4
    types += ["memref<1x1x1x?xi8>", f"memref<1x{size}x{width}xf32>", f"memref<1x?x{width}xf32>"]
    q, k, v, out, mask, queries, scores = types
    kernel = (
        "nn.attention(%0, %1, %2, %4) outs(%3) scratch(queries = %5, scores = %6) "
        "{scale = 0.125 : f64, masked, "
        'layouts = ["blhd", "blhd", "blhd", "blhd"]} : '
        f"({q}, {k}, {v}, {mask}, {out}, {queries}, {scores}) -> ()"
    )
    random = np.random.default_rng(0)
    shape = (1, length, heads, size)
    arrays = [aligned(random.standard_normal(shape, np.float32)) for _ in range(4)]
    arrays.append(aligned(np.ones((1, 1, 1, length), np.int8)))
    arrays.append(aligned(np.zeros((1, size, width), np.float32)))
    arrays.append(aligned(np.zeros((1, length, width), np.float32)))
    name = f"attention {heads}x{length}x{size}"
    run = repeated(kernel, types, arrays, target)
    return Case(name, run, 4.0 * heads * length * length * size)


def aligned(array: Array) -> Array:
    """A copy whose first element lies on a cache line, as the arena places buffers."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


CASES: dict[str, Callable[..., Case]] = {
    "mlp": partial(matmul_case, 64, 512, 784),
    "mlp-bias": partial(matmul_case, 64, 512, 784, epilogue="bias"),
    "gemv": partial(matmul_case, 1, 512, 784),
    "gemv3": partial(matmul_case, 3, 512, 784),
    "logits": partial(matmul_case, 64, 10, 512),
    "project": partial(matmul_case, 128, 384, 384),
    "project?": partial(matmul_case, 128, 384, 384, epilogue="bias", dynamic=True),
    "up": partial(matmul_case, 128, 1536, 384),
    "up-gelu?": partial(matmul_case, 128, 1536, 384, epilogue="gelu", dynamic=True),
    "down": partial(matmul_case, 128, 384, 1536),
    "down?": partial(matmul_case, 128, 384, 1536, epilogue="bias", dynamic=True),
    "short": partial(matmul_case, 16, 384, 1536),
    "odd?": partial(matmul_case, 29, 384, 384, epilogue="bias", dynamic=True),
    "long": partial(matmul_case, 512, 384, 1536),
    "conv1": partial(conv_case, 3, 64, 32, pool=2),
    "conv2": partial(conv_case, 32, 32, 64, pool=2),
    "conv3": partial(conv_case, 64, 16, 64),
    "conv-large": partial(conv_case, 64, 64, 64),
    "conv-1x1": partial(conv_case, 64, 56, 256, kernel=1),
    "attention": partial(attention_case, 12, 128, 32),
    "attention16": partial(attention_case, 12, 16, 32),
    "attention512": partial(attention_case, 12, 512, 32),
}


def measure(cases: Sequence[Case], seconds: float) -> list[float]:
    """The quickest run of each case in seconds; the cases take turns so that all meet the same
    neighbours."""
    counts: list[int] = []
    for case in cases:
        case.run(2)
        start = time.perf_counter()
        case.run(1)
        counts.append(max(1, int(2e-3 / (time.perf_counter() - start))))
    best = [float("inf")] * len(cases)
    end = time.perf_counter() + seconds * len(cases)
    while time.perf_counter() < end:
        for i, (case, count) in enumerate(zip(cases, counts)):
            start = time.perf_counter()
            case.run(count)
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each kernel (default 0.3)")
    parser.add_argument("--only", nargs="+", choices=list(CASES), help="these kernels")
    parser.add_argument("--target", choices=list(TARGETS), help="not this processor's own")
    options = parser.parse_args()
    target = named_target(options.target) if options.target else host_target()
    cases = [peak_case(target)]
    cases += [CASES[name](target=target) for name in options.only or CASES]
    times = measure(cases, options.seconds)
    speeds = [case.work / seconds / 1e9 for case, seconds in zip(cases, times)]
    if options.json:
        rows = [
            {"kernel": case.name, "seconds": seconds, "gflops": speed, "share": speed / speeds[0]}
            for case, seconds, speed in zip(cases, times, speeds)
        ]
        print(json.dumps({"target": target.name, "kernels": rows}))
        return
    for case, seconds, speed in zip(cases, times, speeds):
        share = speed / speeds[0]
        print(f"{case.name:24} {seconds * 1e6:9.1f} us {speed:7.1f} GFLOP/s {share:6.1%}")


if __name__ == "__main__":
    main()
