"""Products with weights in matrices of 16 x 16, and norms in them: what kernels compute, in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from lockstep import run_kernel
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.dialects.gpu import LaunchFuncOp

from openinfer.compiler import passes, registry
from openinfer.compiler.ir_text import parse_ir
from openinfer.lowering.vulkan.schedules.lower_device_kernels import LowerDeviceKernels

Array = np.ndarray[Any, Any]
H200 = (
    'openinfer.target = "generic", openinfer.device = "vulkan", openinfer.subgroup = 32 : i64, '
    "openinfer.shared_memory = 49152 : i64, openinfer.invocations = 1024 : i64, openinfer.matrices"
)


def kernel_of(op: str, types: Sequence[str]) -> tuple[FuncOp, int]:
    """The kernel of an op on buffers, `%0`, `%1`, …, and how many workgroups it has."""
    given = ", ".join(f"%{number}: {kind}" for number, kind in enumerate(types))
    passed = ", ".join(f"%{number}" for number in range(len(types)))
    made = "\n".join(
        f'%{number} = memref.alloc() {{openinfer.memory = "device"}} : {kind}'
        for number, kind in enumerate(types)
    )
    text = (
        f"builtin.module attributes {{{H200}}} {{ func.func @step() {{ {made}\n"
        f"func.call @kernel_0({passed}) : ({', '.join(types)}) -> ()\nfunc.return }}\n"
        f"func.func private @kernel_0({given}) {{ {op}\nfunc.return }} }}"
    )
    module = parse_ir(text, "kernel.mlir", registry.make_context()).module
    assert isinstance(module, ModuleOp)
    module.verify()
    passes.run_pass(LowerDeviceKernels(), module, registry.make_context())
    module.verify()
    (launch,) = (one for one in module.walk() if isinstance(one, LaunchFuncOp))
    groups = launch.gridSizeX.owner
    assert isinstance(groups, ConstantOp)
    assert isinstance(groups.value, IntegerAttr)
    kernels = [f for f in module.walk() if isinstance(f, FuncOp) and f.sym_name.data == "kernel_0"]
    return kernels[0], groups.value.value.data


def in_tiles(matrix: Array) -> Array:
    """A weight [N, K] as `#nn.tiles<16>`."""
    n, k = matrix.shape
    return np.ascontiguousarray(
        matrix.reshape(n // 16, 16, k // 16, 16).swapaxes(1, 2).reshape(n // 16, k // 16, 256)
    )


def drawn(draw: np.random.Generator, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Array:
    return (draw.standard_normal(shape) * scale + mean).astype(np.float16)


SHAPES = [
    # Each form of tile, edges of rows and columns, sums in turns, batches.
    ((128,), 1536, 384),
    ((2, 33), 1168, 256),
    ((128,), 384, 384),
    ((100,), 400, 512),
    ((3, 40), 48, 1536),
    ((37,), 208, 640),
    ((13,), 512, 2048),
    ((9,), 2064, 128),
    ((256,), 32, 8192),
]


@pytest.mark.parametrize(("rows", "columns", "depth"), SHAPES)
def test_a_product(rows: tuple[int, ...], columns: int, depth: int) -> None:
    draw = np.random.default_rng(columns + depth)
    x, w = drawn(draw, *rows, depth), drawn(draw, columns, depth, scale=depth**-0.5)
    bias, residual = drawn(draw, columns), drawn(draw, *rows, columns)
    whole = "x".join(map(str, (*rows, columns)))
    types = [
        f"memref<{'x'.join(map(str, (*rows, depth)))}xf16>",
        f"memref<{columns // 16}x{depth // 16}x256xf16>",
        f"memref<{columns}xf16>",
        f"memref<{whole}xf16>",
        f"memref<{whole}xf16>",
    ]
    dims = ", ".join(f"d{n}" for n in range(len(rows) + 1))
    maps = f"affine_map<({dims}) -> (d{len(rows)})>, affine_map<({dims}) -> ({dims})>"
    op = (
        f"nn.matmul(%0, %1) extras(%2, %3) outs(%4) {{layout = #nn.tiles<16>, maps = [{maps}]}} {{ "
        "^bb0(%a: f32, %b: f16, %c: f16): %d = arith.extf %b : f16 to f32\n"
        "%e = arith.addf %a, %d : f32\n%f = arith.extf %c : f16 to f32\n"
        "%g = arith.addf %e, %f : f32\n%h = arith.truncf %g : f32 to f16\nnn.yield %h : f16 } : "
        f"({', '.join(types)}) -> ()"
    )
    kernel, groups = kernel_of(op, types)
    found = np.full((*rows, columns), np.nan, np.float16)
    run_kernel(kernel, [x, in_tiles(w), bias, residual, found], groups)
    expected = x.astype(np.float64) @ w.astype(np.float64).T + bias + residual
    np.testing.assert_allclose(np.float64(found), expected, rtol=2e-3, atol=4e-3)


NORMS = [
    # Rows, columns, steps, what the norm has.
    ((128,), 1536, 384, ("centred", "gives_rows", "has_bias", "has_weight")),
    ((2, 33), 400, 512, ("gives_rows", "has_weight")),
    ((1, 37), 1152, 128, ("centred",)),
    ((12,), 208, 512, ("centred", "gives_rows", "has_bias")),
]


@pytest.mark.parametrize(("rows", "columns", "depth", "flags"), NORMS)
@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_a_norm_and_a_product(
    rows: tuple[int, ...], columns: int, depth: int, flags: tuple[str, ...], kind: str
) -> None:
    draw = np.random.default_rng(columns + depth)
    x = drawn(draw, *rows, depth, mean=3)
    w = drawn(draw, columns, depth, scale=depth**-0.5)
    factors = [drawn(draw, depth, mean=1).astype(f"f{int(kind[1:]) // 8}") for _ in range(2)]
    factors = factors[: ("has_bias" in flags) + ("has_weight" in flags)]
    shape = "x".join(map(str, rows))
    types = [
        f"memref<{shape}x{depth}xf16>",
        f"memref<{columns // 16}x{depth // 16}x256xf16>",
        *[f"memref<{depth}x{kind}>"] * len(factors),
        f"memref<{shape}x{columns}xf16>",
        *[f"memref<{shape}x{depth}xf16>"] * ("gives_rows" in flags),
    ]
    names = [f"%{number}" for number in range(len(types))]
    first = 2 + len(factors)
    op = (
        f"nn.row_matmul({', '.join(names[:first])}) outs({', '.join(names[first:])}) "
        f"{{eps = 1.0e-3 : f64, layout = #nn.tiles<16>, {', '.join(flags)}}} : "
        f"({', '.join(types)}) -> ()"
    )
    kernel, groups = kernel_of(op, types)
    outs = [np.full((*rows, n), np.nan, np.float16) for n in (columns, depth)[: len(types) - first]]
    run_kernel(kernel, [x, in_tiles(w), *factors, *outs], groups)
    exact: Array = x.astype(np.float64)
    if "centred" in flags:
        exact = exact - exact.mean(-1, keepdims=True)
    exact = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-3)
    rest = list(factors)
    exact = exact * (rest.pop(0) if "has_weight" in flags else 1)
    exact = exact + (rest.pop(0) if "has_bias" in flags else 0)
    expected = [exact @ w.astype(np.float64).T, exact]
    for one, value in zip(outs, expected):
        np.testing.assert_allclose(np.float64(one), value, rtol=2e-3, atol=6e-3)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "flags"),
    [
        ((1, 128), 384, 384, "centred, gives_rows, eps = 1.0e-3 : f64, "),
        ((2, 33), 80, 256, "eps = 1.0e-3 : f64, "),
        ((70,), 144, 640, ""),
    ],
)
def test_parts(rows: tuple[int, ...], columns: int, depth: int, flags: str) -> None:
    """Three weights, a bias of each, and a residual that all of them have."""
    draw = np.random.default_rng(columns + depth)
    x = drawn(draw, *rows, depth)
    weights = [drawn(draw, columns, depth, scale=depth**-0.5) for _ in range(3)]
    bias, residual = drawn(draw, 3, columns), drawn(draw, *rows, columns)
    shape = "x".join(map(str, rows))
    count = 3 + ("gives_rows" in flags)
    types = [
        f"memref<{shape}x{depth}xf16>",
        f"memref<3x{columns // 16}x{depth // 16}x256xf16>",
        f"memref<3x{columns}xf16>",
        f"memref<{shape}x{columns}xf16>",
        *[f"memref<{shape}x{columns}xf16>"] * 3,
        *[f"memref<{shape}x{depth}xf16>"] * (count - 3),
    ]
    dims = [f"d{n}" for n in range(len(rows) + 2)]
    all_dims, inner = ", ".join(dims), ", ".join(dims[1:])
    maps = f"affine_map<({all_dims}) -> (d0, {dims[-1]})>, affine_map<({all_dims}) -> ({inner})>"
    outs = ", ".join(f"%{number}" for number in range(4, 4 + count))
    op = (
        f"nn.row_matmul(%0, %1) extras(%2, %3) outs({outs}) {{{flags}layout = #nn.tiles<16>, "
        f"maps = [{maps}], parts = 3 : i64}} {{ "
        "^bb0(%a: f32, %b: f16, %c: f16): %d = arith.extf %b : f16 to f32\n"
        "%e = arith.addf %a, %d : f32\n%f = arith.extf %c : f16 to f32\n"
        "%g = arith.mulf %e, %f : f32\n%h = arith.truncf %g : f32 to f16\nnn.yield %h : f16 } : "
        f"({', '.join(types)}) -> ()"
    )
    kernel, groups = kernel_of(op, types)
    made = [np.full((*rows, n), np.nan, np.float16) for n in [*[columns] * 3, depth][:count]]
    packed = np.stack([in_tiles(w) for w in weights])
    run_kernel(kernel, [x, packed, bias, residual, *made], groups)
    exact: Array = x.astype(np.float64)
    if "centred" in flags:
        exact = exact - exact.mean(-1, keepdims=True)
    if "eps" in flags:
        exact = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-3)
    sums = [exact @ w.astype(np.float64).T for w in weights]
    expected = [*[(s + bias[n]) * residual for n, s in enumerate(sums)], exact]
    for one, value in zip(made, expected):
        np.testing.assert_allclose(one.astype(np.float64), value, rtol=4e-3, atol=8e-3)


@pytest.mark.parametrize(
    ("rows", "columns", "depth", "is_left", "is_result"),
    [
        ((128,), 384, 1536, True, False),
        ((2, 48), 80, 640, True, True),
        ((1, 16), 48, 4096, True, False),
        ((80,), 1168, 384, False, True),
        ((2, 32), 96, 128, True, True),
    ],
)
def test_rows_in_squares(
    rows: tuple[int, ...], columns: int, depth: int, is_left: bool, is_result: bool
) -> None:
    """Operands and results that lie as matrices of 16 x 16, with a residual that does not."""
    draw = np.random.default_rng(columns + depth)
    x = drawn(draw, *rows, depth)
    w, residual = drawn(draw, columns, depth, scale=depth**-0.5), drawn(draw, *rows, columns)
    given = squares(x) if is_left else x
    exact = x.astype(np.float64) @ w.astype(np.float64).T + residual
    expected = squares(exact) if is_result else exact
    made = np.full(expected.shape, np.nan, np.float16)
    buffers = [given, in_tiles(w), residual, made]
    types = [f"memref<{'x'.join(map(str, one.shape))}xf16>" for one in buffers]
    dims = ", ".join(f"d{n}" for n in range(len(rows) + 1))
    flags = "tiled_left, " * is_left + "tiled_result, " * is_result
    op = (
        f"nn.row_matmul(%0, %1) extras(%2) outs(%3) {{{flags}layout = #nn.tiles<16>, "
        f"maps = [affine_map<({dims}) -> ({dims})>]}} {{ "
        "^bb0(%a: f32, %b: f16): %c = arith.extf %b : f16 to f32\n"
        "%d = arith.addf %a, %c : f32\n%e = arith.truncf %d : f32 to f16\nnn.yield %e : f16 } : "
        f"({', '.join(types)}) -> ()"
    )
    kernel, groups = kernel_of(op, types)
    run_kernel(kernel, buffers, groups)
    np.testing.assert_allclose(made.astype(np.float64), expected, rtol=2e-3, atol=4e-3)


def squares(matrix: Array) -> Array:
    """Rows as matrices of 16 x 16, each row by row."""
    *leading, m, n = matrix.shape
    cut = matrix.reshape(*leading, m // 16, 16, n // 16, 16).swapaxes(-2, -3)
    return np.ascontiguousarray(cut).reshape(*leading, m // 16, n // 16, 256)
