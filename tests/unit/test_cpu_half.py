"""f16 and bf16: exact conversions on every target, arithmetic in f32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer
from openinfer.lowering.cpu.jit import compile_loops
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.devices.cpu.linking import load_objects
from openinfer.runtime.target import TargetDescription, named_target

Array = np.ndarray[Any, Any]

TARGETS = {"host": host_target(), "generic": named_target("generic")}
if host_target().name != "generic":
    TARGETS["avx2"] = named_target("avx2")


def bf16_bits(x: Array) -> Array:
    """The bits of f32 values rounded to bf16, ties to even; NaN stays NaN."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def bf16_values(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f16_bits(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return x.astype(np.float16).view(np.uint16)


def f16_values(bits: Array) -> Array:
    return bits.view(np.float16).astype(np.float32)


BITS = {"f16": f16_bits, "bf16": bf16_bits}
VALUES = {"f16": f16_values, "bf16": bf16_values}


def unary(body: str, source: str, result: str) -> str:
    """A function that applies `body` (from %v to %w) to vectors of 8; the count is a multiple of 8."""
    text = body.replace("{s}", f"vector<8x{source}>").replace("{r}", f"vector<8x{result}>")
    return f"""
    func.func @f(%x: memref<?x{source}>, %y: memref<?x{result}>) {{
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %n = memref.dim %x, %c0 : memref<?x{source}>
      scf.for %i = %c0 to %n step %c8 {{
        %v = vector.load %x[%i] : memref<?x{source}>, vector<8x{source}>
        {text}
        vector.store %w, %y[%i] : memref<?x{result}>, vector<8x{result}>
      }}
      func.return
    }}"""


def sample() -> Array:
    """f32 of all exponents, and those around the ties and limits of the halves."""
    bits = np.arange(0, 2**32, 20011, dtype=np.uint64).astype(np.uint32).view(np.float32)
    halves = f16_values(np.arange(0x7C00, dtype=np.uint16)).astype(np.float64)
    between = ((halves[:-1] + halves[1:]) / 2).astype(np.float32)
    limits = np.array([65519.0, 65519.99, 65520.0, 1e9, np.inf, np.nan, 2.0**-25, 0.0], np.float32)
    near = np.nextafter(between, np.float32(0))
    x = np.concatenate([bits, between, near, -between, limits, -limits])
    return x[: len(x) // 8 * 8]


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_half_is_widened_exactly(kind: str, target: TargetDescription) -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    y = np.zeros(2**16, np.float32)
    text = unary("%w = arith.extf %v : {s} to {r}", kind, "f32")
    compile_loops(text, "f", target=target)(bits, y)
    np.testing.assert_array_equal(y, VALUES[kind](bits))
    np.testing.assert_array_equal(np.signbit(y), bits >= 0x8000)


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_f32_is_narrowed_to_nearest_even(kind: str, target: TargetDescription) -> None:
    x = sample()
    y = np.zeros(x.shape, np.uint16)
    text = unary("%w = arith.truncf %v : {s} to {r}", "f32", kind)
    compile_loops(text, "f", target=target)(x, y)
    expected = BITS[kind](x)
    nan = np.isnan(x)
    np.testing.assert_array_equal(y[~nan], expected[~nan])
    assert np.isnan(VALUES[kind](y[nan])).all()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_f64_is_rounded_to_f16_once(target: TargetDescription) -> None:
    """A tie of f16 that a rounding to f32 would make out of a number beside it."""
    with np.errstate(all="ignore"):
        ties = sample().astype(np.float64)
        x = np.concatenate([ties * (1 + 2.0**-40), ties * (1 - 2.0**-40), ties, ties * 1e300])
    y = np.zeros(x.shape, np.uint16)
    text = unary("%w = arith.truncf %v : {s} to {r}", "f64", "f16")
    compile_loops(text, "f", target=target)(x, y)
    nan = np.isnan(x)
    np.testing.assert_array_equal(y[~nan], f16_bits(x)[~nan])


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_arithmetic_and_casts(kind: str, target: TargetDescription) -> None:
    """Each op rounds its f32 result once."""
    bodies = {
        "%w = arith.addf %v, %v : {s}": lambda x: x + x,
        "%w = arith.mulf %v, %v : {s}": lambda x: x * x,
        "%w = arith.divf %v, %v : {s}": lambda x: x / x,
        "%w = arith.negf %v : {s}": lambda x: -x,
        "%w = math.sqrt %v : {s}": np.sqrt,
        "%w = math.rsqrt %v : {s}": lambda x: np.float32(1) / np.sqrt(x),
        "%w = math.floor %v : {s}": np.floor,
        "%w = math.fma %v, %v, %v : {s}": lambda x: (x.astype(float) * x + x).astype("f4"),
        "%w = vector.fma %v, %v, %v : {s}": lambda x: (x.astype(float) * x + x).astype("f4"),
        "%m = arith.cmpf olt, %v, %v : {s}\n %n1 = arith.negf %v : {s}\n"
        "%w = arith.select %m, %v, %n1 : vector<8xi1>, {s}": lambda x: -x,
        "%i32 = arith.fptosi %v : {s} to vector<8xi32>\n"
        "%w = arith.sitofp %i32 : vector<8xi32> to {r}": np.trunc,
        "%r1 = vector.reduction <add>, %v : {s} into "
        + f"{kind}\n%w = vector.broadcast %r1 : {kind} to {{s}}": lambda x: np.full_like(
            x, np.add.reduce(x)
        ),
    }
    x = BITS[kind](np.array([1.0, 2.5, 0.75, 3.0, 100.0, 7.0, 0.3, 11.0], np.float32))
    for body, reference in bodies.items():
        y = np.zeros(8, np.uint16)
        compile_loops(unary(body, kind, kind), "f", target=target)(x, y)
        expected = BITS[kind](np.asarray(reference(VALUES[kind](x)), np.float32))
        np.testing.assert_array_equal(y, expected, err_msg=body)


def test_one_instruction_where_there_is_one() -> None:
    text = unary("%w = arith.extf %v : {s} to {r}", "f16", "f32")
    run = compile_loops(text, "f", target=named_target("generic"))
    assert "fpext" not in run.llvm_text
    if host_target().name != "generic":
        assert "fpext <8 x half>" in compile_loops(text, "f").llvm_text


@pytest.mark.parametrize("target", ["avx512", "avx2", "generic"])
def test_bf16_programs_compile_for_processors_without_it(target: str) -> None:
    # A masked access of bf16 once became a call of a conversion that no library has.
    text = (
        "dynamic { x: bf16[B, 24]; } "
        "block entry { assign h: bf16[B]; op sum_axis(x, axes=[1]) >> h; return h; }"
    )
    values = np.linspace(-1, 1, 72, dtype=np.float32).reshape(3, 24)
    x = openinfer.Tensor.from_values("bf16", values)
    expected: Any = openinfer.Simulator(text).make_executor().run(x=x)["h"]
    program = openinfer.compile(text, target=target)
    load_objects(program.objects, ["openinfer_step"])
    skip_unless_it_runs(target)
    found: Any = program.make_executor(1).run(x=x)["h"]
    np.testing.assert_allclose(found.values(), expected.values(), rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("target", ["avx512", "avx2", "generic"])
def test_short_bf16_vectors_move_as_bits(target: str) -> None:
    # Four of them are no register: LLVM took them apart, by way of f32 and the same conversion.
    text = (
        "dynamic { x: bf16[2, 4]; } "
        "block entry { assign h: bf16[1, 4]; op slice(x, start=1) >> h; return h; }"
    )
    x = openinfer.Tensor.from_values("bf16", np.arange(8, dtype=np.float32).reshape(2, 4))
    program = openinfer.compile(text, target=target)
    load_objects(program.objects, ["openinfer_step"])
    skip_unless_it_runs(target)
    found: Any = program.make_executor(1).run(x=x)["h"]
    np.testing.assert_array_equal(found.values(), x.values()[1:])


@pytest.mark.parametrize("target", TARGETS)
def test_a_chosen_bf16_moves_as_bits(target: str) -> None:
    """Where one condition rules all lanes, LLVM chooses between scalars, as f32 if it may."""
    run = compile_loops(
        """
        func.func @f(%c: memref<1xi1>, %x: memref<64xbf16>, %a: memref<1xbf16>, %y: memref<64xbf16>) {
          %c0 = arith.constant 0 : index
          %c32 = arith.constant 32 : index
          %c64 = arith.constant 64 : index
          %b = memref.load %c[%c0] : memref<1xi1>
          %bs = vector.broadcast %b : i1 to vector<32xi1>
          %s = memref.load %a[%c0] : memref<1xbf16>
          %ss = vector.broadcast %s : bf16 to vector<32xbf16>
          scf.for %i = %c0 to %c64 step %c32 {
            %v = vector.load %x[%i] : memref<64xbf16>, vector<32xbf16>
            %w = arith.select %bs, %v, %ss : vector<32xi1>, vector<32xbf16>
            vector.store %w, %y[%i] : memref<64xbf16>, vector<32xbf16>
            %first = vector.extract %w[0] : bf16 from vector<32xbf16>
            %other = arith.select %b, %s, %first : bf16
            memref.store %other, %y[%i] : memref<64xbf16>
          }
          func.return
        }""",
        "f",
        target=TARGETS[target],
    )
    x = np.arange(64, dtype=np.uint16) + 0x3F80
    a = np.array([0x4000], np.uint16)
    for condition in (False, True):
        y = np.zeros(64, np.uint16)
        run(np.array([condition]), x, a, y)
        expected = x.copy() if condition else np.full(64, a[0])
        expected[[0, 32]] = a[0]
        np.testing.assert_array_equal(y, expected)
