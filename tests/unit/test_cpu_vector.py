"""`vector` to machine code against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.lowering.cpu.jit import compile_loops
from openinfer.runtime.devices.cpu.codegen import assembly_text
from openinfer.runtime.target import named_target


@pytest.mark.parametrize("count", [-3, 0, 1, 7, 15, 16, 17, 1 << 40])
def test_masks_of_any_count(count: int) -> None:
    text = """
    func.func @f(%x: memref<16xf32>, %y: memref<16xf32>, %n: index) {
      %c0 = arith.constant 0 : index
      %m = vector.create_mask %n : vector<16xi1>
      %rest = arith.constant dense<-1.0> : vector<16xf32>
      %v = vector.maskedload %x[%c0], %m, %rest
        : memref<16xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
      vector.store %v, %y[%c0] : memref<16xf32>, vector<16xf32>
      func.return
    }"""
    x, y = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    compile_loops(text, "f")(x, y, count)
    np.testing.assert_array_equal(y, np.where(np.arange(16) < count, x, -1))


@pytest.mark.parametrize("count", [0, 3, 8, 9])
def test_known_masks_are_constants(count: int) -> None:
    text = f"""
    func.func @f(%x: memref<8xi32>) {{
      %c0 = arith.constant 0 : index
      %n = arith.constant {count} : index
      %m = vector.create_mask %n : vector<8xi1>
      %v = arith.constant dense<7> : vector<8xi32>
      vector.maskedstore %x[%c0], %m, %v : memref<8xi32>, vector<8xi1>, vector<8xi32>
      func.return
    }}"""
    x = np.zeros(8, np.int32)
    run = compile_loops(text, "f")
    run(x)
    np.testing.assert_array_equal(x, np.where(np.arange(8) < count, 7, 0))
    assert "icmp" not in run.llvm_text


@pytest.mark.parametrize(("name", "dtype"), [("i8", np.int8), ("i16", np.int16)])
@pytest.mark.parametrize("count", ["constant 1", "subi %c9, %c8", "subi %c9, %c6"])
def test_a_cut_vector_stored_in_one_lane_leaves_the_next(name: str, dtype: Any, count: str) -> None:
    """LLVM 22 with AVX-512 stores the whole i32 of a truncation under a mask of one lane."""
    text = f"""
    func.func @f(%x: memref<8xi32>, %y: memref<8x{name}>) {{
      %c0 = arith.constant 0 : index
      %c6 = arith.constant 6 : index
      %c8 = arith.constant 8 : index
      %c9 = arith.constant 9 : index
      %n = arith.{count} : index
      %m = vector.create_mask %n : vector<8xi1>
      %v = vector.load %x[%c0] : memref<8xi32>, vector<8xi32>
      %w = arith.trunci %v : vector<8xi32> to vector<8x{name}>
      vector.maskedstore %y[%c0], %m, %w : memref<8x{name}>, vector<8xi1>, vector<8x{name}>
      func.return
    }}"""
    x, y = np.arange(1, 9, dtype=np.int32), np.full(8, 77, dtype)
    compile_loops(text, "f")(x, y)
    stored = 3 if "c6" in count else 1
    np.testing.assert_array_equal(y, np.where(np.arange(8) < stored, x, 77))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("i8", np.int8), ("i16", np.int16), ("i64", np.int64), ("f16", np.float16), ("f64", float)],
)
def test_masked_accesses_touch_nothing_else(name: str, dtype: Any) -> None:
    """A tail at the very end of a buffer: nothing behind it is read or written."""
    text = f"""
    func.func @f(%x: memref<?x{name}>, %y: memref<?x{name}>) {{
      %c0 = arith.constant 0 : index
      %c8 = arith.constant 8 : index
      %n = memref.dim %x, %c0 : memref<?x{name}>
      %zero = arith.constant dense<{"0" if name[0] == "i" else "0.0"}> : vector<8x{name}>
      scf.for %i = %c0 to %n step %c8 {{
        %left = arith.subi %n, %i : index
        %m = vector.create_mask %left : vector<8xi1>
        %v = vector.maskedload %x[%i], %m, %zero
          : memref<?x{name}>, vector<8xi1>, vector<8x{name}> into vector<8x{name}>
        vector.maskedstore %y[%i], %m, %v : memref<?x{name}>, vector<8xi1>, vector<8x{name}>
      }}
      func.return
    }}"""
    run = compile_loops(text, "f")
    for length in (0, 1, 8, 13, 23):
        x = np.arange(1, length + 1).astype(dtype)
        y = np.full(length + 8, 99, dtype)
        run(x, y[:length])
        np.testing.assert_array_equal(y, np.concatenate([x, np.full(8, 99, dtype)]))


def test_masks_from_comparisons() -> None:
    text = """
    func.func @f(%x: memref<16xf32>, %bits: memref<16xi8>, %y: memref<16xf32>) {
      %c0 = arith.constant 0 : index
      %zero = arith.constant dense<0.0> : vector<16xf32>
      %one = arith.constant dense<1> : vector<16xi8>
      %v = vector.load %x[%c0] : memref<16xf32>, vector<16xf32>
      %b = vector.load %bits[%c0] : memref<16xi8>, vector<16xi8>
      %given = arith.trunci %b : vector<16xi8> to vector<16xi1>
      %positive = arith.cmpf ogt, %v, %zero : vector<16xf32>
      %both = arith.andi %given, %positive : vector<16xi1>
      %r = arith.select %both, %v, %zero : vector<16xi1>, vector<16xf32>
      vector.store %r, %y[%c0] : memref<16xf32>, vector<16xf32>
      %back = arith.extui %both : vector<16xi1> to vector<16xi8>
      vector.store %back, %bits[%c0] : memref<16xi8>, vector<16xi8>
      func.return
    }"""
    x = np.linspace(-1, 1, 16).astype(np.float32)
    bits = (np.arange(16) % 3 == 0).astype(np.int8)
    y = np.zeros(16, np.float32)
    expected = (x > 0) & (bits != 0)
    compile_loops(text, "f")(x, bits, y)
    np.testing.assert_array_equal(y, np.where(expected, x, 0))
    np.testing.assert_array_equal(bits, expected)


FLOAT_REDUCTIONS = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "maximumf": np.max,
    "minimumf": np.min,
    "maxnumf": np.fmax.reduce,
    "minnumf": np.fmin.reduce,
}
INTEGER_REDUCTIONS = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
    "maxsi": np.max,
    "minsi": np.min,
    "maxui": lambda x: np.max(x.view(np.uint32)).view(np.int32),
    "minui": lambda x: np.min(x.view(np.uint32)).view(np.int32),
}


def reduction(kind: str, element: str, flags: str = "") -> str:
    return f"""
    func.func @f(%x: memref<8x{element}>, %y: memref<2x{element}>, %acc: {element}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %v = vector.load %x[%c0] : memref<8x{element}>, vector<8x{element}>
      %r = vector.reduction <{kind}>, %v{flags} : vector<8x{element}> into {element}
      %s = vector.reduction <{kind}>, %v, %acc{flags} : vector<8x{element}> into {element}
      memref.store %r, %y[%c0] : memref<2x{element}>
      memref.store %s, %y[%c1] : memref<2x{element}>
      func.return
    }}"""


@pytest.mark.parametrize("kind", FLOAT_REDUCTIONS)
@pytest.mark.parametrize("special", [np.nan, 2.0])
def test_float_reductions(kind: str, special: float) -> None:
    x = np.array([1.5, -2, 3, special, 0.25, 4, -1, 2], np.float32)
    y = np.zeros(2, np.float32)
    run = compile_loops(reduction(kind, "f32"), "f")
    run(x, y, 8.0)
    reduce = FLOAT_REDUCTIONS[kind]
    assert y.tolist() == pytest.approx(
        [reduce(x), reduce(np.append(x, np.float32(8)))], nan_ok=True
    )


@pytest.mark.parametrize("kind", INTEGER_REDUCTIONS)
def test_integer_reductions(kind: str) -> None:
    x = np.array([1, -2, 3, 7, 9, 4, -100, 2], np.int32)
    y = np.zeros(2, np.int32)
    compile_loops(reduction(kind, "i32"), "f")(x, y, 6)
    reduce = INTEGER_REDUCTIONS[kind]
    assert y.tolist() == [reduce(x), reduce(np.append(x, np.int32(6)))]


def test_sums_are_ordered_unless_told_otherwise() -> None:
    x = np.array([1e8, 1, 1, 1, 1, 1, 1, -1e8], np.float32)
    y = np.zeros(2, np.float32)
    ordered = compile_loops(reduction("add", "f32"), "f")
    ordered(x, y, 0.0)
    total = np.float32(0)
    for value in x:
        total += value
    assert y[0] == total
    free = compile_loops(reduction("add", "f32", " fastmath<reassoc>"), "f")
    assert "call reassoc float @llvm.vector.reduce.fadd.v8f32" in free.llvm_text


def test_empty_sum_keeps_the_sign_of_zero() -> None:
    x, y = np.full(8, -0.0, np.float32), np.zeros(2, np.float32)
    compile_loops(reduction("add", "f32"), "f")(x, y, -0.0)
    assert np.signbit(y).all()


def test_extract_insert_shuffle_bitcast_and_step() -> None:
    text = """
    func.func @f(%x: memref<8xf32>, %i: index, %y: memref<6x8xf32>, %z: memref<8xi64>,
                 %w: memref<4xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %v = vector.load %x[%c0] : memref<8xf32>, vector<8xf32>
      %e = vector.extract %v[%i] : f32 from vector<8xf32>
      %f = vector.extract %v[3] : f32 from vector<8xf32>
      %g = arith.addf %e, %f : f32
      %a = vector.insert %g, %v [5] : f32 into vector<8xf32>
      %b = vector.insert %g, %a [%i] : f32 into vector<8xf32>
      vector.store %b, %y[%c0, %c0] : memref<6x8xf32>, vector<8xf32>
      %s = vector.shuffle %v, %b [7, 6, 5, 4, 8, 9, 10, 15] : vector<8xf32>, vector<8xf32>
      vector.store %s, %y[%c1, %c0] : memref<6x8xf32>, vector<8xf32>
      %h = vector.shuffle %v, %v [0, 2, 4, 6] : vector<8xf32>, vector<8xf32>
      %t = vector.shuffle %h, %v [3, 2, 1, 0, 4, 5, 6, 11] : vector<4xf32>, vector<8xf32>
      vector.store %t, %y[%c2, %c0] : memref<6x8xf32>, vector<8xf32>
      %bc = vector.broadcast %e : f32 to vector<8xf32>
      vector.store %bc, %y[%c3, %c0] : memref<6x8xf32>, vector<8xf32>
      %one = vector.shuffle %v, %v [6] : vector<8xf32>, vector<8xf32>
      %bo = vector.broadcast %one : vector<1xf32> to vector<8xf32>
      vector.store %bo, %y[%c4, %c0] : memref<6x8xf32>, vector<8xf32>
      %st = vector.step : vector<8xindex>
      %si = arith.index_cast %st : vector<8xindex> to vector<8xi64>
      vector.store %si, %z[%c0] : memref<8xi64>, vector<8xi64>
      %q = vector.bitcast %v : vector<8xf32> to vector<4xi64>
      vector.store %q, %w[%c0] : memref<4xi64>, vector<4xi64>
      func.return
    }"""
    x = np.arange(1, 9, dtype=np.float32) * 1.5
    y, z, w = np.zeros((6, 8), np.float32), np.zeros(8, np.int64), np.zeros(4, np.int64)
    compile_loops(text, "f")(x, 2, y, z, w)
    b = x.copy()
    b[5] = b[2] = x[2] + x[3]
    np.testing.assert_array_equal(y[0], b)
    np.testing.assert_array_equal(y[1], np.concatenate([x, b])[[7, 6, 5, 4, 8, 9, 10, 15]])
    np.testing.assert_array_equal(y[2], np.concatenate([x[::2][::-1], x[[0, 1, 2, 7]]]))
    np.testing.assert_array_equal(y[3], np.full(8, x[2]))
    np.testing.assert_array_equal(y[4], np.full(8, x[6]))
    assert z.tolist() == list(range(8))
    np.testing.assert_array_equal(w, x.view(np.int64))


def test_gather() -> None:
    text = """
    func.func @f(%x: memref<?xf32>, %i: memref<8xi32>, %start: index, %y: memref<8xf32>) {
      %c0 = arith.constant 0 : index
      %c6 = arith.constant 6 : index
      %p = vector.load %i[%c0] : memref<8xi32>, vector<8xi32>
      %m = vector.create_mask %c6 : vector<8xi1>
      %rest = arith.constant dense<-1.0> : vector<8xf32>
      %g = vector.gather %x[%start] [%p], %m, %rest
        : memref<?xf32>, vector<8xi32>, vector<8xi1>, vector<8xf32> into vector<8xf32>
      vector.store %g, %y[%c0] : memref<8xf32>, vector<8xf32>
      func.return
    }"""
    x, i = np.arange(100, dtype=np.float32), np.array([5, -2, 40, 0, 0, 7, 9999999, -9999999], "i4")
    y = np.zeros(8, np.float32)
    compile_loops(text, "f")(x, i, 10, y)
    assert y.tolist() == [15, 8, 50, 10, 10, 17, -1, -1]


MATMUL = """
func.func @f(%a: memref<?x?xf32>, %b: memref<?x32xf32>, %c: memref<?x32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %m = memref.dim %a, %c0 : memref<?x?xf32>
  %k = memref.dim %a, %c1 : memref<?x?xf32>
  %zero = arith.constant dense<0.0> : vector<16xf32>
  scf.for %i = %c0 to %m step %c2 {
    %i1 = arith.addi %i, %c1 : index
    %r:4 = scf.for %p = %c0 to %k step %c1
        iter_args(%s0 = %zero, %s1 = %zero, %s2 = %zero, %s3 = %zero)
        -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
      %b0 = vector.load %b[%p, %c0] : memref<?x32xf32>, vector<16xf32>
      %b1 = vector.load %b[%p, %c16] : memref<?x32xf32>, vector<16xf32>
      %x0 = memref.load %a[%i, %p] : memref<?x?xf32>
      %y0 = vector.broadcast %x0 : f32 to vector<16xf32>
      %t0 = vector.fma %y0, %b0, %s0 : vector<16xf32>
      %t1 = vector.fma %y0, %b1, %s1 : vector<16xf32>
      %x1 = memref.load %a[%i1, %p] : memref<?x?xf32>
      %y1 = vector.broadcast %x1 : f32 to vector<16xf32>
      %t2 = vector.fma %y1, %b0, %s2 : vector<16xf32>
      %t3 = vector.fma %y1, %b1, %s3 : vector<16xf32>
      scf.yield %t0, %t1, %t2, %t3
        : vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>
    }
    vector.store %r#0, %c[%i, %c0] : memref<?x32xf32>, vector<16xf32>
    vector.store %r#1, %c[%i, %c16] : memref<?x32xf32>, vector<16xf32>
    vector.store %r#2, %c[%i1, %c0] : memref<?x32xf32>, vector<16xf32>
    vector.store %r#3, %c[%i1, %c16] : memref<?x32xf32>, vector<16xf32>
  }
  func.return
}"""


def test_register_tile() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((6, 40)).astype(np.float32)
    b = rng.standard_normal((40, 32)).astype(np.float32)
    c = np.zeros((6, 32), np.float32)
    compile_loops(MATMUL, "f")(a, b, c)
    np.testing.assert_allclose(c, a.astype(float) @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "register"), [("avx512", "zmm"), ("avx2", "ymm")])
def test_register_tile_fills_the_registers_of_the_target(name: str, register: str) -> None:
    target = named_target(name)
    run = compile_loops(MATMUL, "f")
    host_line = next(line for line in run.llvm_text.splitlines() if line.startswith("attributes"))
    text = run.llvm_text.replace(
        host_line,
        f'attributes #0 = {{ nounwind "prefer-vector-width"="{target.vector_bits}"'
        f' "min-legal-vector-width"="{target.vector_bits}" }}',
    )
    code = assembly_text(text, target)
    assert "vfmadd" in code
    assert f"%{register}" in code
    # The accumulators stay in registers: the innermost loop stores nothing.
    loops = [part for part in code.split("\n.LBB") if "vfmadd" in part]
    assert loops
    assert not any("vmovups\t%" in line and ", (" in line for line in loops[0].splitlines())
