"""Kernels of products and of packing: the loops agree with NumPy, for every target and type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.dialects.nn import MatmulOp
from openinfer.lowering.cpu.jit import CompiledFunction, compile_loops
from openinfer.lowering.cpu.schedules import blocked_product
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.schedules.matmul_schedule import scratch_types
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import CompileError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.target import named_target

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]

LEVELS = ("generic", "avx2", "avx512")
TARGETS = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()
TILES = {"generic": 8, "avx2": 16, "avx512": 32}
HOST = TARGETS[-1] if TARGETS else "generic"

IR_TYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"} | {
    f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)
}


def memref(shape: Sequence[int | None], element: str = "f32") -> str:
    """`memref<4x?xf32>` for (4, None)."""
    sizes = "".join(f"{'?' if size is None else size}x" for size in shape)
    return f"memref<{sizes}{element}>"


def lowered(text: str, target: str) -> ModuleOp:
    source = f'builtin.module attributes {{openinfer.target = "{target}"}} {{\n{text}\n}}'
    context = make_context()
    module = Parser(context, source).parse_module()
    module.verify()
    for step in (LowerKernels(), ShareLoops()):
        step.apply(context, module)
    module.verify()
    assert not any(op.name.startswith("nn.") for op in module.walk())
    return module


def compiled(text: str, target: str = HOST) -> CompiledFunction:
    description = host_target() if target == HOST else named_target(target)
    # The code of other targets is as the lowering made it: half the time to compile.
    level = int(target == HOST)
    return compile_loops(lowered(text, target), "kernel", target=description, opt_level=level)


def kernel(inputs: Sequence[str], outs: Sequence[str], settings: str = "", body: str = "") -> str:
    """A function `@kernel` that holds one `nn.matmul` on arguments of the given types.

    `outs`: the result, then scratch buffers.
    """
    names = [f"%arg{i}" for i in range(len(inputs) + len(outs))]
    types = [*inputs, *outs]
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
    count, own = len(inputs), 2
    wanted = {1: ("panels",), 2: ("copy", "sums"), 3: MatmulOp.SCRATCH}.get(len(outs) - 1, ())
    rooms = [f"{name} = {at}" for name, at in zip(wanted, names[count + 1 :])]
    return (
        f"func.func @kernel({parameters}) {{\n"
        f"nn.matmul({', '.join(names[:own])}) "
        + (f"extras({', '.join(names[own:count])}) " if own < count else "")
        + f"outs({names[count]}) "
        + (f"scratch({', '.join(rooms)}) " if rooms else "")
        + f"{{{settings}}} {body} : ({', '.join(types)}) -> ()\nfunc.return\n}}"
    )


class Guarded:
    """An output between sentinels, so that a store outside of it is noticed."""

    def __init__(self, shape: Sequence[int], dtype: str = "float32") -> None:
        size = int(np.prod(shape))
        self.whole = np.full(size + 256, 77, dtype)
        self.array = self.whole[128 : 128 + size].reshape(shape)

    def check(self) -> None:
        assert (self.whole[:128] == 77).all()
        assert (self.whole[128 + self.array.size :] == 77).all()


def layout(tile: int) -> str:
    """The setting of a product whose right operand is panels of so many columns."""
    return f"layout = #nn.panels<{tile}>"


def packed(b: Array, tile: int) -> Array:
    """What `nn.pack` makes of `[…, K, N]`."""
    *batch, depth, columns = b.shape
    panels = -(-columns // tile)
    padded = np.zeros((*batch, depth, panels * tile), b.dtype)
    padded[..., :columns] = b
    split = padded.reshape(*batch, depth, panels, tile)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3))


def close(actual: Array, expected: Array, depth: int, eps: float = 1.2e-7) -> None:
    assert actual.shape == expected.shape
    tolerance = eps * (depth + 8) ** 0.5 * 16
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


def normal(shape: Sequence[int], seed: int = 0, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


ROWS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 23)


# Packed weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("n", "k"), [(1, 5), (10, 64), (31, 3), (32, 1), (70, 33), (96, 130)])
def test_packed_any_number_of_rows(target: str, n: int, k: int):
    tile = TILES[target]
    types = [memref((None, k)), memref((-(-n // tile), k, tile))]
    run = compiled(kernel(types, [memref((None, n))], layout(tile)), target)
    b = normal((k, n), 1)
    panels = packed(b, tile)
    for m in ROWS:
        a, out = normal((m, k), m), Guarded((m, n))
        run(a, panels, out.array)
        close(out.array, a.astype(np.float64) @ b, k)
        out.check()


def test_narrow_panels():
    tile, n, k = TILES[HOST] // 2, TILES[HOST] // 2 + 3, 9
    types = [memref((None, k)), memref((2, k, tile))]
    run = compiled(kernel(types, [memref((None, n))], layout(tile)))
    b = normal((k, n), 1)
    for m in ROWS:
        a, out = normal((m, k), m), Guarded((m, n))
        run(a, packed(b, tile), out.array)
        close(out.array, a @ b, k)
        out.check()


@pytest.mark.parametrize("m", [0, 1, 3, 8, 13, 24])
def test_packed_known_rows(m: int):
    tile, n, k = TILES[HOST], 40, 17
    types = [memref((m, k)), memref((-(-n // tile), k, tile))]
    run = compiled(kernel(types, [memref((m, n))], layout(tile)))
    a, b, out = normal((m, k), 1), normal((k, n), 2), Guarded((m, n))
    run(a, packed(b, tile), out.array)
    close(out.array, a.astype(np.float64) @ b, k)
    out.check()


def test_an_empty_contraction_still_runs_the_body():
    body = """{
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      nn.yield %r : f32
    }"""
    tile = TILES[HOST]
    types = [memref((None, 0)), memref((1, 0, tile)), memref((5,))]
    settings = f"{layout(tile)}, maps = [affine_map<(i, j) -> (j)>]"
    run = compiled(kernel(types, [memref((None, 5))], settings, body))
    bias, out = normal((5,)), Guarded((3, 5))
    run(np.zeros((3, 0), np.float32), np.zeros((1, 0, tile), np.float32), bias, out.array)
    np.testing.assert_array_equal(out.array, np.broadcast_to(bias, (3, 5)))
    out.check()


# What follows the product -------------------------------------------------------------------------

BIAS_RESIDUAL = """{
^bb0(%p: f32, %bias: f32, %residual: f32, %scalar: f32):
  %0 = arith.addf %p, %bias : f32
  %1 = arith.mulf %0, %scalar : f32
  %2 = arith.addf %1, %residual : f32
  %zero = arith.constant 0.0 : f32
  %positive = arith.cmpf ogt, %2, %zero : f32
  %3 = arith.select %positive, %2, %zero : f32
  nn.yield %3 : f32
}"""
LONG = """{
^bb0(%p: f32, %bias: f32):
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 0.70710678 : f32
  %0 = arith.addf %p, %bias : f32
  %1 = arith.mulf %0, %root : f32
  %2 = math.erf %1 : f32
  %3 = arith.addf %2, %one : f32
  %4 = arith.mulf %0, %half : f32
  %5 = arith.mulf %4, %3 : f32
  nn.yield %5 : f32
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_bias_scalar_and_residual(target: str):
    n, k, tile = 45, 9, TILES[target]
    settings = (
        f"{layout(tile)}, maps = [affine_map<(i, j) -> (j)>, "
        "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0)>]"
    )
    types = [memref((None, k)), memref((-(-n // tile), k, tile)), memref((n,))]
    types += [memref((None, n)), memref((1,))]
    run = compiled(kernel(types, [memref((None, n))], settings, BIAS_RESIDUAL), target)
    b, bias, scalar = normal((k, n), 1), normal((n,), 2), normal((1,), 3)
    for m in ROWS:
        a, residual, out = normal((m, k), 4), normal((m, n), 5), Guarded((m, n))
        run(a, packed(b, tile), bias, residual, scalar, out.array)
        close(out.array, np.maximum((a @ b + bias) * scalar + residual, 0), k)
        out.check()


@pytest.mark.parametrize("rows", [None, 1, 8, 21])
def test_a_long_body_runs_once_for_each_row(rows: int | None):
    n, k, tile = 45, 9, TILES[HOST]
    types = [memref((rows, k)), memref((-(-n // tile), k, tile)), memref((n,))]
    settings = f"{layout(tile)}, maps = [affine_map<(i, j) -> (j)>]"
    text = kernel(types, [memref((rows, n))], settings, LONG)
    copies = sum(op.name == "math.erf" for op in lowered(text, HOST).walk())
    assert copies <= 2 * 2 * 2
    run = compiled(text)
    b, bias = normal((k, n), 1), normal((n,), 2)
    from math import erf

    for m in ROWS if rows is None else (rows,):
        a, out = normal((m, k), 4), Guarded((m, n))
        run(a, packed(b, tile), bias, out.array)
        x = a @ b + bias
        gelu = [0.5 * v * (1 + erf(v * 0.70710678)) for v in x.ravel().tolist()]
        close(out.array, np.array(gelu).reshape(m, n), k)
        out.check()


@pytest.mark.parametrize("columns", [32, 37])
def test_an_operand_that_varies_by_row_or_lies_transposed(columns: int):
    body = """{
    ^bb0(%p: f32, %row: f32, %turned: f32):
      %0 = arith.mulf %p, %row : f32
      %1 = arith.addf %0, %turned : f32
      nn.yield %1 : f32
    }"""
    m, k, tile = 11, 6, TILES[HOST]
    settings = (
        f"{layout(tile)}, maps = [affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (j, i)>]"
    )
    types = [memref((None, k)), memref((-(-columns // tile), k, tile))]
    types += [memref((None, 1)), memref((columns, None))]
    run = compiled(kernel(types, [memref((None, columns))], settings, body))
    a, b, row, turned = (
        normal(s, i) for i, s in enumerate([(m, k), (k, columns), (m, 1), (columns, m)])
    )
    out = Guarded((m, columns))
    run(a, packed(b, tile), row, turned, out.array)
    close(out.array, a @ b * row + turned.T, k)
    out.check()


def test_leading_dimensions_become_rows():
    n, k, tile = 33, 7, TILES[HOST]
    settings = (
        f"{layout(tile)}, maps = [affine_map<(b, i, j) -> (j)>, affine_map<(b, i, j) -> (b, i, j)>]"
    )
    body = """{
    ^bb0(%p: f32, %bias: f32, %residual: f32):
      %0 = arith.addf %p, %bias : f32
      %1 = arith.addf %0, %residual : f32
      nn.yield %1 : f32
    }"""
    types = [memref((None, None, k)), memref((-(-n // tile), k, tile)), memref((n,))]
    types.append(memref((None, None, n)))
    text = kernel(types, [memref((None, None, n))], settings, body)
    names = [op.name for op in lowered(text, HOST).walk()]
    assert names.count("memref.collapse_shape") == 3
    a, b = normal((2, 5, k), 1), normal((k, n), 2)
    bias, residual, out = normal((n,), 3), normal((2, 5, n), 4), Guarded((2, 5, n))
    compiled(text)(a, packed(b, tile), bias, residual, out.array)
    close(out.array, a @ b + bias + residual, k)
    out.check()


def test_an_operand_that_differs_by_batch_keeps_the_batches_apart():
    n, k, tile = 20, 7, TILES[HOST]
    body = """{
    ^bb0(%p: f32, %x: f32):
      %0 = arith.addf %p, %x : f32
      nn.yield %0 : f32
    }"""
    types = [memref((2, 5, k)), memref((1, k, tile)) if tile == 32 else ""]
    if not types[1]:
        pytest.skip("written for panels of 32 columns")
    types.append(memref((2, n)))
    text = kernel(
        types,
        [memref((2, 5, n))],
        f"{layout(tile)}, maps = [affine_map<(b, i, j) -> (b, j)>]",
        body,
    )
    a, b, x, out = normal((2, 5, k), 1), normal((k, n), 2), normal((2, n), 3), Guarded((2, 5, n))
    compiled(text)(a, packed(b, tile), x, out.array)
    close(out.array, a @ b + x[:, None], k)
    out.check()


# Operands read where they lie ---------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transpose_a", [False, True])
def test_unpacked_with_sizes_of_the_run(target: str, transpose_a: bool):
    settings = "transpose_a" if transpose_a else ""
    run = compiled(kernel([memref((None, None))] * 2, [memref((None, None))], settings), target)
    for m, n, k in [
        (0, 5, 5),
        (5, 0, 5),
        (5, 5, 0),
        (1, 1, 1),
        (3, 33, 7),
        (9, 64, 20),
        (12, 31, 5),
    ]:
        a, b, out = normal((m, k), 1), normal((k, n), 2), Guarded((m, n))
        run(np.ascontiguousarray(a.T) if transpose_a else a, b, out.array)
        close(out.array, a @ b, k)
        out.check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("scratch", [False, True])
def test_transposed_right_operand(target: str, transpose_a: bool, scratch: bool):
    tile = TILES[target]
    settings = "transpose_b, transpose_a" if transpose_a else "transpose_b"
    outs = [memref((None, None))] + ([memref((1, None, None, tile))] if scratch else [])
    run = compiled(kernel([memref((None, None))] * 2, outs, settings), target)
    for m, n, k in [
        (0, 5, 5),
        (5, 0, 5),
        (5, 5, 0),
        (1, 9, 3),
        (3, 33, 50),
        (9, 64, 37),
        (12, 31, 16),
    ]:
        a, b, out = normal((m, k), 1), normal((n, k), 2), Guarded((m, n))
        space = [Guarded((1, -(-n // tile), k, tile))] if scratch else []
        left = np.ascontiguousarray(a.T) if transpose_a else a
        run(left, b, out.array, *(s.array for s in space))
        close(out.array, a @ b.T, k)
        for guarded in (out, *space):
            guarded.check()


@pytest.mark.parametrize(
    ("a_batch", "b_batch"),
    [((2, 3), (2, 3)), ((2, 3), (3,)), ((1, 3), (2, 1)), ((2,), ()), ((), (2,))],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_leading_dimensions_broadcast(
    a_batch: tuple[int, ...], b_batch: tuple[int, ...], transposed: bool
):
    m, n, k = 5, 18, 6
    batch = np.broadcast_shapes(a_batch, b_batch)
    b_shape = (*b_batch, n, k) if transposed else (*b_batch, k, n)
    outs = [memref((*batch, m, n))]
    if transposed:
        outs.append(memref((1, -(-n // TILES[HOST]), k, TILES[HOST])))
    settings = "transpose_b" if transposed else ""
    run = compiled(kernel([memref((*a_batch, m, k)), memref(b_shape)], outs, settings))
    a, b, out = normal((*a_batch, m, k), 1), normal(b_shape, 2), Guarded((*batch, m, n))
    run(
        a,
        b,
        out.array,
        *([np.empty((1, -(-n // TILES[HOST]), k, TILES[HOST]), np.float32)][:transposed]),
    )
    close(out.array, np.matmul(a, np.swapaxes(b, -1, -2) if transposed else b), k)
    out.check()


def test_packed_batches():
    tile, n, k = TILES[HOST], 35, 6
    types = [memref((3, None, k)), memref((3, -(-n // tile), k, tile))]
    run = compiled(kernel(types, [memref((3, None, n))], layout(tile)))
    a, b, out = normal((3, 4, k), 1), normal((3, k, n), 2), Guarded((3, 4, n))
    run(a, packed(b, tile), out.array)
    close(out.array, a @ b, k)
    out.check()


# Element types ------------------------------------------------------------------------------------


def stored(values: Array, dtype: str) -> Array:
    """Floats in a storage dtype; bfloat16 as the upper half of float32, rounded to nearest even."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def value_of(array: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return array.astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("left", "right", "result", "eps"),
    [
        ("float64", "float64", "float64", 2.3e-16),
        ("float16", "float16", "float16", 1e-3),
        ("float16", "float16", "float32", 1.2e-7),
        ("bfloat16", "bfloat16", "bfloat16", 8e-3),
        ("float32", "bfloat16", "float32", 1.2e-7),
        ("float32", "float16", "float32", 1.2e-7),
    ],
)
def test_float_types(target: str, left: str, right: str, result: str, eps: float):
    tile, n, k = TILES[target], 37, 21
    types = [memref((None, k), IR_TYPES[left])]
    types.append(memref((-(-n // tile), k, tile), IR_TYPES[right]))
    run = compiled(kernel(types, [memref((None, n), IR_TYPES[result])], layout(tile)), target)
    storage = "uint16" if result == "bfloat16" else result
    b = stored(normal((k, n), 1), right)
    for m in (1, 5, 8):
        a, out = stored(normal((m, k), 2), left), Guarded((m, n), storage)
        run(a, packed(b, tile), out.array)
        expected = value_of(a, left) @ value_of(b, right)
        actual = value_of(out.array, result)
        np.testing.assert_allclose(actual, expected, rtol=4 * eps, atol=32 * eps)
        out.check()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ("int8", "int8"),
        ("int8", "int32"),
        ("int16", "int16"),
        ("int32", "int32"),
        ("int64", "int64"),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_integers_wrap(target: str, operand: str, result: str, transposed: bool):
    info = np.iinfo(operand)
    random = np.random.default_rng(3)
    settings = "transpose_b" if transposed else ""
    shape = memref((None, None), IR_TYPES[operand])
    out_type = memref((None, None), IR_TYPES[result])
    run = compiled(kernel([shape, shape], [out_type], settings), target)
    for m, n, k in [(1, 5, 70), (9, 33, 3), (6, 40, 17)]:
        a = random.integers(info.min, info.max, (m, k), operand, endpoint=True)
        b = random.integers(info.min, info.max, (k, n), operand, endpoint=True)
        out = Guarded((m, n), result)
        run(a, np.ascontiguousarray(b.T) if transposed else b, out.array)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(out.array, a.astype(result) @ b.astype(result))
        out.check()


def test_unsigned_operands_are_extended_with_zeros():
    types = [memref((None, None), "i8")] * 2
    text = kernel(types, [memref((None, None), "i32")], "unsigned", "")
    random = np.random.default_rng(3)
    a, b = random.integers(0, 256, (3, 9), np.uint8), random.integers(0, 256, (9, 7), np.uint8)
    out = Guarded((3, 7), "int32")
    compiled(text)(a, b, out.array)
    np.testing.assert_array_equal(out.array, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
def test_bools_are_an_or_of_ands(target: str, transposed: bool):
    kind = memref((None, None), "i8")
    settings = "boolean, transpose_b" if transposed else "boolean"
    text = kernel([kind, kind], [kind], settings, "")
    run = compiled(text, target)
    random = np.random.default_rng(3)
    for m, n, k in [(3, 40, 5), (9, 5, 70), (2, 2, 0)]:
        a, b = random.random((m, k)) < 0.2, random.random((k, n)) < 0.2
        out = Guarded((m, n), "int8")
        run(a, np.ascontiguousarray(b.T) if transposed else b, out.array)
        np.testing.assert_array_equal(out.array.astype(bool), (a.astype(int) @ b.astype(int)) > 0)
        assert set(np.unique(out.array)) <= {0, 1}
        out.check()


def test_the_body_says_what_sums_are_kept_in():
    body = """{
    ^bb0(%p: i32, %scale: f32):
      %0 = arith.sitofp %p : i32 to f32
      %1 = arith.mulf %0, %scale : f32
      nn.yield %1 : f32
    }"""
    types = [memref((None, 30), "i8"), memref((30, 12), "i8"), memref((12,))]
    run = compiled(kernel(types, [memref((None, 12))], "maps = [affine_map<(i, j) -> (j)>]", body))
    random = np.random.default_rng(3)
    a, b = (
        random.integers(-128, 128, (5, 30), np.int8),
        random.integers(-128, 128, (30, 12), np.int8),
    )
    scale, out = normal((12,)), Guarded((5, 12))
    run(a, b, scale, out.array)
    close(out.array, (a.astype(np.int32) @ b.astype(np.int32)) * scale, 1)


# Packing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_pack(target: str, transposed: bool, dtype: str):
    tile = 32
    shapes = [(1, 1), (5, 40), (16, 32), (40, 64), (50, 95), (0, 3)]
    for depth, columns in shapes if dtype == "float32" and target == HOST else shapes[4:5]:
        source = (normal((2, depth, columns)) * 50).astype(dtype)
        given = np.ascontiguousarray(np.swapaxes(source, 1, 2)) if transposed else source
        shape = (2, -(-columns // tile), depth, tile)
        kinds = memref(given.shape, IR_TYPES[dtype]), memref(shape, IR_TYPES[dtype])
        turned = ', transposed = ""' if transposed else ""
        text = (
            f"func.func @kernel(%0: {kinds[0]}, %1: {kinds[1]}) {{\n"
            f"nn.pack(%0) outs(%1) {{{layout(tile)}{turned}}} : "
            f"({kinds[0]}, {kinds[1]}) -> ()\n"
            "func.return\n}"
        )
        out = Guarded(shape, dtype)
        compiled(text, target)(given, out.array)
        np.testing.assert_array_equal(out.array, packed(source, tile))
        out.check()


@pytest.mark.parametrize("transposed", [False, True])
def test_pack_with_sizes_of_the_run(transposed: bool):
    turned = ', transposed = ""' if transposed else ""
    text = (
        "func.func @kernel(%0: memref<?x?xf32>, %1: memref<?x?x32xf32>) {\n"
        f"nn.pack(%0) outs(%1) {{{layout(32)}{turned}}} : "
        "(memref<?x?xf32>, memref<?x?x32xf32>) -> ()\nfunc.return\n}"
    )
    run = compiled(text)
    for depth, columns in [(1, 1), (5, 40), (16, 32), (33, 64), (50, 95), (0, 3)]:
        source = normal((depth, columns))
        out = Guarded((-(-columns // 32), depth, 32))
        run(np.ascontiguousarray(source.T) if transposed else source, out.array)
        np.testing.assert_array_equal(out.array, packed(source, 32))
        out.check()


# What the pass refuses, leaves and tells ----------------------------------------------------------


def test_a_map_with_arithmetic_is_refused():
    body = """{
    ^bb0(%p: f32, %q: f32):
      nn.yield %q : f32
    }"""
    types = [memref((4, 4)), memref((4, 4)), memref((9,))]
    settings = "maps = [affine_map<(i, j) -> (i + j)>]"
    with pytest.raises(CompileError, match="OI0951"):
        lowered(kernel(types, [memref((4, 4))], settings, body), HOST)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 32), (50, 37, 45), (7, 100, 33), (40, 16, 90)])
def test_blocks_of_a_large_product(
    target: str, m: int, n: int, k: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(blocked_product, "TASKS", 5)
    tile = TILES[target]
    settings = (
        f"{layout(tile)}, maps = [affine_map<(i, j) -> (j)>, "
        "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0)>]"
    )
    types = [memref((m, k)), memref((-(-n // tile), k, tile)), memref((n,))]
    types += [memref((m, n)), memref((1,))]
    rooms = blocks(16, 16, n, tile)
    outs = [memref((m, n)), *(memref(room.array.shape) for room in rooms)]
    run = compiled(kernel(types, outs, settings, BIAS_RESIDUAL), target)
    a, b, bias, scalar = normal((m, k), 4), normal((k, n), 1), normal((n,), 2), normal((1,), 3)
    expected = normal((m, n), 5)
    out = Guarded((m, n))
    # The result may lie where an operand of the body lies: sums wait elsewhere.
    out.array[...] = expected
    run(a, packed(b, tile), bias, out.array, scalar, out.array, *(room.array for room in rooms))
    close(out.array, np.maximum((a @ b + bias) * scalar + expected, 0), k)
    for checked in (out, *rooms):
        checked.check()


@pytest.mark.parametrize("target", TARGETS)
def test_sums_in_blocks_go_on_where_they_stopped(target: str):
    m, n, k, tile = 37, 70, 75, TILES[target]
    types = [memref((m, k)), memref((-(-n // tile), k, tile))]
    rooms = blocks(24, 32, n, tile)
    outs = [memref((m, n)), *(memref(room.array.shape) for room in rooms)]
    whole = compiled(kernel(types, outs[:1], layout(tile)), target)
    in_blocks = compiled(kernel(types, outs, layout(tile)), target)
    a, panels = normal((m, k), 1), packed(normal((k, n), 2), tile)
    expected, out = Guarded((m, n)), Guarded((m, n))
    whole(a, panels, expected.array)
    in_blocks(a, panels, out.array, *(room.array for room in rooms))
    # Whole tiles add up alike; smaller ones have several sums of a number, which meet in each block.
    full = n - n % tile
    np.testing.assert_array_equal(out.array[:24, :full], expected.array[:24, :full])
    close(out.array, expected.array, k)


@pytest.mark.parametrize("element", ["float32", "float16", "float64"])
def test_blocks_of_transposed_and_narrow_operands(element: str):
    m, n, k, tile = 45, 70, 60, TILES[HOST]
    kind, sums = IR_TYPES[element], "f64" if element == "float64" else "f32"
    types = [memref((2, k, m), kind), memref((2, k, n), kind)]
    outs = [memref((2, m, n), kind), memref((1, -(-n // tile), k, tile), kind)]
    rooms = blocks(24, 32, n, tile, element, transposed=True)
    outs += [memref(rooms[0].array.shape, kind), memref(rooms[1].array.shape, sums)]
    run = compiled(kernel(types, outs, "transpose_a"))
    a, b = normal((2, m, k), 1, element), normal((2, k, n), 2, element)
    out, space = Guarded((2, m, n), element), Guarded((1, -(-n // tile), k, tile), element)
    turned = np.ascontiguousarray(a.swapaxes(1, 2))
    run(turned, b, out.array, space.array, *(room.array for room in rooms))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    close(out.array, expected, k, {"float16": 1e-3}.get(element, 1.2e-7))
    for checked in (out, space, *rooms):
        checked.check()


def blocks(
    rows: int, steps: int, n: int, tile: int, dtype: str = "float32", *, transposed: bool = False
) -> tuple[Guarded, Guarded]:
    """A copy of rows with a gap of a cache line, and sums of NaN, of one thread."""
    gap = 64 // np.dtype(dtype).itemsize
    copy = Guarded((1, steps, rows + gap) if transposed else (1, rows, steps + gap), dtype)
    wide = "float64" if dtype == "float64" else "float32"
    sums = Guarded((1, -(-n // tile), rows, tile), wide)
    copy.array[...] = sums.array[...] = np.nan
    return copy, sums


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transpose_a", [False, True])
def test_a_large_right_operand_is_packed_first(target: str, transpose_a: bool):
    m, n, k, tile = 70, 75, 40, TILES[target]
    types = [memref((k, m) if transpose_a else (m, k)), memref((k, n))]
    outs = [memref((m, n)), memref((1, -(-n // tile), k, tile))]
    run = compiled(kernel(types, outs, "transpose_a" if transpose_a else ""), target)
    a, b, out = normal((m, k), 1), normal((k, n), 2), Guarded((m, n))
    space = Guarded((1, -(-n // tile), k, tile))
    run(np.ascontiguousarray(a.T) if transpose_a else a, b, out.array, space.array)
    close(out.array, a @ b, k)
    out.check()
    space.check()


def test_scratch_is_wanted_for_an_operand_that_is_read_slowly():
    def wanted(settings: str, rows: str = "?", sizes: str = ", #nn.dims<M, 8>") -> list[str]:
        text = f"""builtin.module attributes {{openinfer.target = "avx512"}} {{
        func.func @f(%a: tensor<{rows}x8xf32{sizes}>, %b: tensor<?x8xf16, #nn.dims<N, 8>>) {{
          %c = nn.matmul(%a, %b) {{{settings}}} :
            (tensor<{rows}x8xf32{sizes}>, tensor<?x8xf16, #nn.dims<N, 8>>)
            -> tensor<{rows}x?xf32, #nn.dims<{"M" if rows == "?" else rows}, N>>
          func.return
        }} }}"""
        module = Parser(make_context(), text).parse_module()
        op = next(op for op in module.walk() if isinstance(op, MatmulOp))
        return [f"{s.name} {s.element} {' '.join(map(str, s.dims))}" for s in scratch_types(op)]

    assert wanted("transpose_b") == ["panels f16 1 (N + 31)/32 8 32"]
    assert wanted("transpose_b", rows="2", sizes="") == []
    assert wanted("") == []

    def wanted_as_it_stands(rows: int, depth: int, columns: int) -> int:
        text = f"""builtin.module attributes {{openinfer.target = "avx512"}} {{
        func.func @f(%a: tensor<{rows}x{depth}xf32>, %b: tensor<{depth}x{columns}xf32>) {{
          %c = nn.matmul(%a, %b) : (tensor<{rows}x{depth}xf32>, tensor<{depth}x{columns}xf32>)
            -> tensor<{rows}x{columns}xf32>
          func.return
        }} }}"""
        module = Parser(make_context(), text).parse_module()
        return len(scratch_types(next(op for op in module.walk() if isinstance(op, MatmulOp))))

    assert wanted_as_it_stands(2048, 1024, 2048) == 1
    assert wanted_as_it_stands(2056, 1024, 2048) == 3
    assert wanted_as_it_stands(4096, 512, 2048) == 1
    assert wanted_as_it_stands(2056, 1024, 128) == 1
    assert wanted_as_it_stands(64, 512, 512) == 1
    assert wanted_as_it_stands(64, 512, 128) == 0
    assert wanted_as_it_stands(63, 512, 512) == 0
