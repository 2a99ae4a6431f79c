"""Products of bf16 as loops: panels of pairs, register tiles and attention, for every target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import CompiledFunction, compile_loops
from openinfer.lowering.cpu.schedules.lower_kernels import LowerKernels
from openinfer.lowering.cpu.threads.share_loops import ShareLoops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import CompileError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.target import named_target
from openinfer.runtime.tensors import Tensor

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]

LEVELS = ("generic", "avx2", "avx512")
_KNOWN = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()
# Last the instruction that the others do without.
TARGETS = (*_KNOWN, "bf16") if _KNOWN and host_target().bf16_dot else _KNOWN
ENDS = tuple(dict.fromkeys((*TARGETS[:1], *TARGETS[-1:])))
BEST = TARGETS[-1] if TARGETS else "generic"
LANES = {"generic": 4, "avx2": 8, "avx512": 16, "bf16": 16}


def compiled(text: str, target: str) -> CompiledFunction:
    has_dot = target == "bf16"
    name = "avx512" if has_dot else target
    mark = ", openinfer.bf16_dot" if has_dot else ""
    source = f'builtin.module attributes {{openinfer.target = "{name}"{mark}}} {{\n{text}\n}}'
    module = lowered(source)
    described = host_target() if has_dot else named_target(name)
    return compile_loops(module, "kernel", target=described, opt_level=0)


def lowered(source: str) -> ModuleOp:
    context = make_context()
    module = Parser(context, source).parse_module()
    module.verify()
    for step in (LowerKernels(), ShareLoops()):
        step.apply(context, module)
    module.verify()
    return module


def memref(shape: Sequence[int | None], element: str = "f32") -> str:
    sizes = "".join(f"{'?' if size is None else size}x" for size in shape)
    return f"memref<{sizes}{element}>"


ROOMS = {
    ("nn.pack", 0): (),
    ("nn.matmul", 0): (),
    ("nn.matmul", 1): ("panels",),
    ("nn.matmul", 2): ("copy", "sums"),
    ("nn.attention", 3): ("queries", "scores", "values"),
}
"""The names of scratch buffers, by the op and how many it is given."""


def kernel(name: str, inputs: Sequence[str], outs: Sequence[str], rest: str) -> str:
    """`outs`: the result, then scratch buffers."""
    names = [f"%arg{i}" for i in range(len(inputs) + len(outs))]
    rooms = ROOMS[name, len(outs) - 1]
    scratch = ", ".join(f"{room} = {at}" for room, at in zip(rooms, names[len(inputs) + 1 :]))
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, [*inputs, *outs]))
    count = len(inputs)
    own = 2 if name == "nn.matmul" else count
    return (
        f"func.func @kernel({parameters}) {{\n"
        f"{name}({', '.join(names[:own])}) "
        + (f"extras({', '.join(names[own:count])}) " if own < count else "")
        + f"outs({names[count]}) "
        + (f"scratch({scratch}) " if scratch else "")
        + f"{rest} : "
        f"({', '.join([*inputs, *outs])}) -> ()\nfunc.return\n}}"
    )


def normal(shape: Sequence[int], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def half(values: Array) -> Tensor:
    return Tensor.from_values("bf16", values)


def rounded(values: Array) -> Array:
    """The values as bf16, in f32."""
    return half(values).values().astype(np.float32)


def panels(b: Array, tile: int) -> Tensor:
    """What `nn.pack` with `#nn.pairs` makes of `[K, N]`."""
    depth, columns = b.shape
    pairs, count = -(-depth // 2), -(-columns // tile)
    padded = np.zeros((2 * pairs, count * tile), np.float32)
    padded[:depth, :columns] = b
    woven = padded.reshape(pairs, 2, count, tile).transpose(2, 0, 3, 1)
    return half(woven.reshape(count, pairs, 2 * tile))


def close(found: Array, expected: Array, eps: float = 2e-6) -> None:
    """Equal but for the order of additions in f32: operands are rounded on both sides."""
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    assert np.abs(found - expected).max(initial=0.0) <= eps * scale * 16


def in_pairs(tile: int) -> str:
    """The settings of a product whose right operand is panels of so many columns."""
    return f'{{layout = #nn.pairs<{tile}>, precision = "bf16"}}'


PLAIN = '{precision = "bf16"}'


# Products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "n", "k"), [*((target, 35, 33) for target in TARGETS), (BEST, 1, 1)]
)
def test_packed_any_number_of_rows(target: str, n: int, k: int) -> None:
    tile = 2 * LANES[target]
    shape = (-(-n // tile), -(-k // 2), 2 * tile)
    types = [memref((None, k), "bf16"), memref(shape, "bf16")]
    run = compiled(kernel("nn.matmul", types, [memref((None, n))], in_pairs(tile)), target)
    b = normal((k, n), 1)
    packed = panels(b, tile)
    for m in (0, 1, 3, 8, 13):
        a, out = normal((m, k), m), np.full((m + 2, n), 7, np.float32)
        run(half(a), packed, out[:m])
        close(out[:m], rounded(a).astype(np.float64) @ rounded(b))
        assert (out[m:] == 7).all()


@pytest.mark.parametrize("target", ENDS)
def test_a_body_and_a_rounded_result(target: str) -> None:
    m, n, k, tile = 9, 40, 18, 2 * LANES[target]
    shape = (-(-n // tile), k // 2, 2 * tile)
    types = [memref((m, k), "bf16"), memref(shape, "bf16"), memref((n,))]
    body = (
        f'{{layout = #nn.pairs<{tile}>, precision = "bf16", maps = [affine_map<(i, j) -> (j)>]}} {{\n'
        "^bb0(%p: f32, %q: f32):\n%s = arith.addf %p, %q : f32\n"
        "%r = arith.truncf %s : f32 to bf16\nnn.yield %r : bf16\n}"
    )
    run = compiled(kernel("nn.matmul", types, [memref((m, n), "bf16")], body), target)
    a, b, bias = normal((m, k)), normal((k, n), 1), normal((n,), 2)
    out = half(np.zeros((m, n), np.float32))
    run(half(a), panels(b, tile), bias, out)
    expected = rounded(a) @ rounded(b) + bias
    np.testing.assert_allclose(out.values(), expected, rtol=2**-7, atol=1e-5)


def test_depth_that_only_the_run_knows() -> None:
    m, n, k, tile = 200, 40, 7, 2 * LANES[BEST]
    types = [memref((m, None), "bf16"), memref((-(-n // tile), None, 2 * tile), "bf16")]
    run = compiled(kernel("nn.matmul", types, [memref((m, n))], in_pairs(tile)), BEST)
    a, b, out = normal((m, k)), normal((k, n), 1), np.zeros((m, n), np.float32)
    run(half(a), panels(b, tile), out)
    close(out, rounded(a).astype(np.float64) @ rounded(b), 1e-5)


@pytest.mark.parametrize("target", ENDS)
@pytest.mark.parametrize("k", [154, 131])
def test_blocks(target: str, k: int) -> None:
    m, n, tile = 43, 40, 2 * LANES[target]
    count, pairs = -(-n // tile), -(-k // 2)
    types = [memref((m, k), "bf16"), memref((count, pairs, 2 * tile), "bf16")]
    rooms = [(1, 16, 64 + 32), (1, count, 16, tile)]
    outs = [memref((m, n)), memref(rooms[0], "bf16"), memref(rooms[1])]
    run = compiled(kernel("nn.matmul", types, outs, in_pairs(tile)), target)
    a, b, out = normal((m, k)), normal((k, n), 1), np.zeros((m, n), np.float32)
    # What is left in the buffers from before is never added.
    copy, sums = half(np.full(rooms[0], np.nan)), np.full(rooms[1], np.nan, np.float32)
    run(half(a), panels(b, tile), out, copy, sums)
    close(out, rounded(a).astype(np.float64) @ rounded(b), 1e-5)


@pytest.mark.parametrize(
    ("target", "transposed"),
    [*((target, False) for target in ENDS), *((target, True) for target in ENDS)],
)
def test_right_operand_of_the_step(target: str, transposed: bool) -> None:
    """Packed by the kernel itself, batch by batch, rounded on the way."""
    batch, m, n, k, tile = 3, 5, 37, 19, 2 * LANES[target]
    right = (batch, n, None) if transposed else (batch, None, n)
    scratch = memref((1, -(-n // tile), None, 2 * tile), "bf16")
    types = [memref((batch, m, None), "bf16"), memref(right)]
    settings = '{transpose_b, precision = "bf16"}' if transposed else PLAIN
    text = kernel("nn.matmul", types, [memref((batch, m, n)), scratch], settings)
    run = compiled(text, target)
    a, b, out = normal((batch, m, k)), normal((batch, k, n), 1), np.zeros((batch, m, n), "f4")
    room = half(np.full((1, -(-n // tile), -(-k // 2), 2 * tile), 9, np.float32))
    given = np.ascontiguousarray(b.swapaxes(1, 2)) if transposed else b
    run(half(a), given, out, room)
    close(out, rounded(a).astype(np.float64) @ rounded(b))


def test_infinite_padding_is_never_multiplied() -> None:
    """The place behind the last element of an odd row belongs to the next one."""
    m, n, k, tile = 3, 5, 17, 2 * LANES[BEST]
    types = [memref((m, k), "bf16"), memref((1, 9, 2 * tile), "bf16")]
    run = compiled(kernel("nn.matmul", types, [memref((m, n))], in_pairs(tile)), BEST)
    a, b, out = normal((m, k)), normal((k, n), 1), np.zeros((m, n), np.float32)
    a[1, 0] = np.inf
    run(half(a), panels(b, tile), out)
    assert np.isfinite(out[0]).all()
    assert np.isinf(out[1]).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("k", "n"), [(33, 17), (1, 3)])
@pytest.mark.parametrize("target", ENDS)
def test_pack(target: str, transposed: bool, k: int, n: int) -> None:
    tile = 2 * LANES[target]
    shape = (-(-n // tile), -(-k // 2), 2 * tile)
    source = (n, k) if transposed else (k, n)
    flag = ', transposed = ""' if transposed else ""
    settings = f"{{layout = #nn.pairs<{tile}>{flag}}}"
    text = kernel("nn.pack", [memref(source)], [memref(shape, "bf16")], settings)
    out = half(np.full(shape, 5, np.float32))
    b = normal((k, n))
    compiled(text, target)(np.ascontiguousarray(b.T) if transposed else b, out)
    np.testing.assert_array_equal(out.values(), panels(b, tile).values())


def test_rounding_is_to_nearest_even() -> None:
    ties = np.array([1.00390625, 1.01171875, -1.00390625, np.inf, np.nan, 3.4e38], np.float32)
    out = half(np.zeros((1, 3, 4 * LANES[BEST]), np.float32))
    tile = 2 * LANES[BEST]
    text = kernel(
        "nn.pack",
        [memref((6, 1))],
        [memref((1, 3, 2 * tile), "bf16")],
        f"{{layout = #nn.pairs<{tile}>}}",
    )
    compiled(text, BEST)(ties.reshape(6, 1), out)
    np.testing.assert_array_equal(out.values()[0, :, :2].reshape(6), rounded(ties))


def test_without_room_for_panels() -> None:
    text = kernel("nn.matmul", [memref((4, 16), "bf16"), memref((16, 8))], [memref((4, 8))], PLAIN)
    with pytest.raises(CompileError, match="OI0955"):
        compiled(text, BEST)


@pytest.mark.parametrize(
    ("types", "settings", "message"),
    [
        (("4x16xf32", "1x8x64xbf16", "4x8xf32"), "layout = #nn.pairs<32>", "expected bf16"),
        (("4x16xbf16", "1x8x64xf32", "4x8xf32"), "layout = #nn.pairs<32>", "expected bf16"),
        (("4x16xbf16", "1x16x64xbf16", "4x8xf32"), "layout = #nn.pairs<32>", "expected .1, 8, 64"),
        (("4x16xbf16", "16x8xf64", "4x8xf32"), "", "f64"),
        (("16x4xbf16", "16x8xf32", "4x8xf32"), "transpose_a", "not transposed"),
    ],
)
def test_what_verifiers_refuse(types: tuple[str, str, str], settings: str, message: str) -> None:
    a, b, c = (f"tensor<{kind}>" for kind in types)
    rest = f'{{{settings}{", " if settings else ""}precision = "bf16"}}'
    text = f"func.func @f(%a: {a}, %b: {b}) {{\n%c = nn.matmul(%a, %b) {rest} : ({a}, {b}) -> {c}"
    module = Parser(make_context(), text + "\nfunc.return\n}").parse_module()
    with pytest.raises(VerifyException, match=message):
        module.verify()


# Attention ----------------------------------------------------------------------------------------


def attention(
    q: Array, k: Array, v: Array, scale: float, mask: Array | None = None, nan: bool = False
) -> Array:
    """In f64, of rounded operands; layout bhld."""
    q, k, v = (rounded(x).astype(np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
    scores = scale * q @ k.swapaxes(2, 3)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(axis=3, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
        total = weights.sum(axis=3, keepdims=True)
        return weights @ v / (total if nan else np.where(total == 0, 1, total))


def run_attention(
    target: str,
    shape: tuple[int, int, int, int, int, int, int],
    layout: str = "bhld",
    *,
    known: bool = False,
    mask: Array | None = None,
    settings: str = "",
) -> tuple[Array, Array]:
    """(found, expected), both bhld; the shape is batch, heads, groups, queries, keys, d, size of v."""
    batch, heads, groups, queries, keys, d, size = shape
    lanes = LANES[target]
    block = lanes if known and queries <= lanes else 2 * lanes
    tile = lanes if size <= lanes else 2 * lanes
    q, k, v = (
        normal((batch, h, length, width), seed)
        for seed, (h, length, width) in enumerate(
            [(heads, queries, d), (groups, keys, d), (groups, keys, size)]
        )
    )

    def laid(x: Array) -> Array:
        return np.ascontiguousarray(x if layout == "bhld" else x.transpose(0, 2, 1, 3))

    def kind(x: Array, element: str) -> str:
        dims: list[int | None] = [*laid(x).shape]
        if not known:
            dims[0] = dims[2 if layout == "bhld" else 1] = None
        return memref(dims, element)

    out = np.zeros((batch, heads, queries, size), np.float32)
    room = [
        np.zeros((1, d // 2, block), np.float32),
        np.zeros((1, keys, block), np.float32),
        half(np.zeros((batch * groups, -(-size // tile), -(-keys // 2), 2 * tile), np.float32)),
    ]
    many = keys if known else None
    rooms = [
        memref((1, d // 2, block)),
        memref((1, keys if known else None, block)),
        memref(
            (
                batch * groups if known else None,
                -(-size // tile),
                -(-keys // 2) if known else None,
                2 * tile,
            ),
            "bf16",
        ),
    ]
    inputs = [kind(x, "bf16") for x in (q, k, v)]
    extra: list[Array] = []
    if mask is not None:
        is_bool = mask.dtype == bool
        inputs.append(memref((batch if known else None, 1, 1, many), "i8" if is_bool else "f32"))
        extra.append(np.ascontiguousarray(mask.astype(np.int8) if is_bool else mask))
        settings += ", masked"
    layouts = ", ".join([f'"{layout}"'] * 4)
    rest = f'{{scale = 0.3 : f64, precision = "bf16", layouts = [{layouts}]{settings}}}'
    run = compiled(kernel("nn.attention", inputs, [kind(out, "f32"), *rooms], rest), target)
    result = laid(out)
    run(*(half(laid(x)) for x in (q, k, v)), *extra, result, *room)
    found = result if layout == "bhld" else result.transpose(0, 2, 1, 3)
    return found, attention(q, k, v, 0.3, mask, "nan_rows" in settings)


@pytest.mark.parametrize("target", ENDS)
def test_attention(target: str) -> None:
    found, expected = run_attention(target, (2, 4, 2, 37, 43, 18, 20), "blhd")
    # Weights are rounded to 8 bits of significand before they meet the values.
    np.testing.assert_allclose(found, expected, atol=2**-8)


@pytest.mark.parametrize(("queries", "keys", "size"), [(1, 1, 16), (33, 6, 40)])
def test_attention_of_known_lengths(queries: int, keys: int, size: int) -> None:
    found, expected = run_attention(BEST, (1, 2, 2, queries, keys, 32, size), known=True)
    np.testing.assert_allclose(found, expected, atol=2**-8 * 2)


def test_attention_with_a_mask_that_is_added() -> None:
    mask = 3 * normal((2, 1, 1, 9), 7)
    found, expected = run_attention(BEST, (2, 2, 1, 6, 9, 16, 16), mask=mask)
    np.testing.assert_allclose(found, expected, atol=2**-8)


@pytest.mark.parametrize("settings", ["", ", nan_rows"])
def test_attention_with_hidden_keys(settings: str) -> None:
    mask = np.ones((2, 1, 1, 9), bool)
    mask[0, ..., 4:] = False
    mask[1] = False
    found, expected = run_attention(BEST, (2, 2, 1, 6, 9, 16, 16), mask=mask, settings=settings)
    np.testing.assert_allclose(found, expected, atol=2**-8)
