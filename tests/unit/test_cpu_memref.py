"""`memref` to machine code: layouts, views and copies against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.lowering.cpu.jit import compile_loops, parse_module
from openinfer.lowering.cpu.to_llvm.types import argument_parts
from openinfer.runtime.errors import CompileError, InputError

COPY_2D = """
func.func @f(%x: {source}, %y: {target}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = memref.dim %x, %c0 : {source}
  %n = memref.dim %x, %c1 : {source}
  scf.for %i = %c0 to %m step %c1 {{
    scf.for %j = %c0 to %n step %c1 {{
      %v = memref.load %x[%i, %j] : {source}
      memref.store %v, %y[%i, %j] : {target}
    }}
  }}
  func.return
}}"""

LAYOUTS = [
    "memref<4x6xf32>",
    "memref<?x6xf32>",
    "memref<4x?xf32>",
    "memref<?x?xf32>",
    "memref<?x?xf32, strided<[?, ?]>>",
    "memref<?x?xf32, strided<[?, ?], offset: ?>>",
    "memref<4x6xf32, strided<[6, 1]>>",
]


@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("target", LAYOUTS[:5])
def test_layouts(source: str, target: str) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    y = np.zeros_like(x)
    compile_loops(COPY_2D.format(source=source, target=target), "f")(x, y)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "view", [np.s_[::2, ::3], np.s_[::-1, 1:5], np.s_[1:3, :]], ids=["steps", "backwards", "rows"]
)
def test_strided_arguments(view: tuple[slice, slice]) -> None:
    type = "memref<?x?xf32, strided<[?, ?], offset: ?>>"
    x = np.arange(48, dtype=np.float32).reshape(6, 8)[view]
    y = np.zeros(x.shape, np.float32)
    compile_loops(COPY_2D.format(source=type, target="memref<?x?xf32>"), "f")(x, y)
    np.testing.assert_array_equal(x, y)


def parts_of(text: str) -> list[str]:
    module = parse_module(f"func.func private @f({text}) -> ()")
    return argument_parts(module.body.block.first_op.function_type.inputs.data[0])  # pyright: ignore


def test_argument_parts() -> None:
    assert parts_of("memref<4x6xf32>") == ["ptr"]
    assert parts_of("memref<?x6x?xf32>") == ["ptr", "size0", "size2"]
    assert parts_of("memref<f32>") == ["ptr"]
    strided = "memref<4x?xf32, strided<[?, 1], offset: ?>>"
    assert parts_of(strided) == ["ptr", "size1", "offset", "stride0"]
    assert parts_of("memref<4x?xf32, strided<[?, 1]>>") == ["ptr", "size1", "stride0"]


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64]
)
def test_element_types(dtype: type) -> None:
    name = {"i": "i", "f": "f"}[np.dtype(dtype).kind] + str(np.dtype(dtype).itemsize * 8)
    text = f"""
    func.func @f(%x: memref<5x{name}>, %y: memref<5x{name}>) {{
      %c3 = arith.constant 3 : index
      %v = memref.load %x[%c3] : memref<5x{name}>
      memref.store %v, %y[%c3] : memref<5x{name}>
      func.return
    }}"""
    x, y = np.arange(5).astype(dtype), np.zeros(5, dtype)
    compile_loops(text, "f")(x, y)
    assert y.tolist() == [0, 0, 0, 3, 0]


def test_index_elements_and_rank_zero() -> None:
    text = """
    func.func @f(%x: memref<3xindex>, %y: memref<f32>) {
      %c1 = arith.constant 1 : index
      %v = memref.load %x[%c1] : memref<3xindex>
      %w = memref.load %y[] : memref<f32>
      %i = arith.addi %v, %v : index
      memref.store %i, %x[%c1] : memref<3xindex>
      %u = arith.addf %w, %w : f32
      memref.store %u, %y[] : memref<f32>
      func.return
    }"""
    x, y = np.array([1, -5, 3]), np.array(1.5, np.float32)
    compile_loops(text, "f")(x, y)
    assert x.tolist() == [1, -10, 3]
    assert y == 3.0


def test_subviews() -> None:
    """Static and dynamic offsets, sizes and strides, a view of a view, and dropped dimensions."""
    source = "memref<?x8xf32>"
    part = "memref<?x?xf32, strided<[16, ?], offset: ?>>"
    inner = "memref<2x2xf32, strided<[16, ?], offset: ?>>"
    row = "memref<8xf32, strided<[1], offset: 24>>"
    column = "memref<4xf32, strided<[8], offset: 5>>"
    text = f"""
    func.func @f(%x: {source}, %from: index, %n: index, %step: index, %y: memref<2x2xf32>,
                 %z: memref<8xf32>, %w: memref<4xf32>) {{
      %a = memref.subview %x[1, %from] [%n, %n] [2, %step] : {source} to {part}
      %b = memref.subview %a[1, 0] [2, 2] [1, 1] : {part} to {inner}
      memref.copy %b, %y : {inner} to memref<2x2xf32>
      %c = memref.subview %x[3, 0] [1, 8] [1, 1] : {source} to {row}
      memref.copy %c, %z : {row} to memref<8xf32>
      %d = memref.subview %x[0, 5] [4, 1] [1, 1] : {source} to {column}
      memref.copy %d, %w : {column} to memref<4xf32>
      func.return
    }}"""
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    y, z, w = (np.zeros(s, np.float32) for s in ((2, 2), 8, 4))
    compile_loops(text, "f")(x, 2, 3, 2, y, z, w)
    np.testing.assert_array_equal(y, x[1::2, 2::2][:3, :3][1:3, 0:2])
    np.testing.assert_array_equal(z, x[3])
    np.testing.assert_array_equal(w, x[:4, 5])


def test_subview_drops_the_right_dimension_of_size_one() -> None:
    source = "memref<1x4x1x2xf32>"
    kept = "memref<4x1x2xf32, strided<[2, 2, 1]>>"
    text = f"""
    func.func @f(%x: {source}, %y: memref<4x1x2xf32>) {{
      %a = memref.subview %x[0, 0, 0, 0] [1, 4, 1, 2] [1, 1, 1, 1] : {source} to {kept}
      memref.copy %a, %y : {kept} to memref<4x1x2xf32>
      func.return
    }}"""
    x, y = np.arange(8, dtype=np.float32).reshape(1, 4, 1, 2), np.zeros((4, 1, 2), np.float32)
    compile_loops(text, "f")(x, y)
    np.testing.assert_array_equal(y, x[0])


def test_views_of_an_arena() -> None:
    text = """
    func.func @f(%arena: memref<?xi8>, %shift: index, %n: index, %x: memref<?x4xf32>) {
      %c64 = arith.constant 64 : index
      %a = memref.view %arena[%c64][] : memref<?xi8> to memref<4xf32>
      %b = memref.view %arena[%shift][%n] : memref<?xi8> to memref<?x4xf32>
      %c0 = arith.constant 0 : index
      %one = arith.constant dense<1.0> : vector<4xf32>
      vector.store %one, %a[%c0] : memref<4xf32>, vector<4xf32>
      memref.copy %x, %b : memref<?x4xf32> to memref<?x4xf32>
      func.return
    }"""
    arena = np.zeros(256, np.uint8)
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    run = compile_loops(text, "f")
    run(arena, 128, 3, x)
    np.testing.assert_array_equal(arena[64:80].view(np.float32), np.ones(4))
    np.testing.assert_array_equal(arena[128:176].view(np.float32), x.ravel())
    assert "inttoptr" not in run.llvm_text
    assert "llvm.memcpy" in run.llvm_text


def test_reshapes_and_casts() -> None:
    text = """
    func.func @f(%x: memref<?x6xf32>, %n: index, %y: memref<?x2x3xf32>, %z: memref<?xf32>,
                 %w: memref<2x12xf32>) {
      %e = memref.expand_shape %x [[0], [1, 2]] output_shape [%n, 2, 3]
        : memref<?x6xf32> into memref<?x2x3xf32>
      memref.copy %e, %y : memref<?x2x3xf32> to memref<?x2x3xf32>
      %c = memref.collapse_shape %x [[0, 1]] : memref<?x6xf32> into memref<?xf32>
      memref.copy %c, %z : memref<?xf32> to memref<?xf32>
      %r = memref.reinterpret_cast %x to offset: [0], sizes: [2, 12], strides: [12, 1]
        : memref<?x6xf32> to memref<2x12xf32>
      %d = memref.cast %r : memref<2x12xf32> to memref<?x12xf32>
      %s = memref.cast %d : memref<?x12xf32> to memref<2x12xf32>
      memref.copy %s, %w : memref<2x12xf32> to memref<2x12xf32>
      func.return
    }"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    y, z, w = (np.zeros(s, np.float32) for s in ((4, 2, 3), 24, (2, 12)))
    compile_loops(text, "f")(x, 4, y, z, w)
    for out in (y, z, w):
        np.testing.assert_array_equal(out.ravel(), x.ravel())


def test_reshapes_of_strided_buffers() -> None:
    source = "memref<4x6xf32, strided<[16, 2], offset: ?>>"
    text = f"""
    func.func @f(%x: {source}, %y: memref<4x3x2xf32>) {{
      %e = memref.expand_shape %x [[0], [1, 2]] output_shape [4, 3, 2]
        : {source} into memref<4x3x2xf32, strided<[16, 4, 2], offset: ?>>
      %c = memref.collapse_shape %e [[0], [1, 2]]
        : memref<4x3x2xf32, strided<[16, 4, 2], offset: ?>> into {source}
      %d = memref.expand_shape %c [[0], [1, 2]] output_shape [4, 3, 2]
        : {source} into memref<4x3x2xf32, strided<[16, 4, 2], offset: ?>>
      memref.copy %d, %y
        : memref<4x3x2xf32, strided<[16, 4, 2], offset: ?>> to memref<4x3x2xf32>
      func.return
    }}"""
    x = np.arange(64, dtype=np.float32).reshape(4, 16)[:, 3:15:2]
    y = np.zeros((4, 3, 2), np.float32)
    compile_loops(text, "f")(x, y)
    np.testing.assert_array_equal(y, x.reshape(4, 3, 2))


def test_copies_of_transposed_buffers() -> None:
    text = """
    func.func @f(%x: memref<?x?x?xf32, strided<[?, ?, ?]>>, %y: memref<?x?x?xf32>) {
      memref.copy %x, %y : memref<?x?x?xf32, strided<[?, ?, ?]>> to memref<?x?x?xf32>
      func.return
    }"""
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5).transpose(2, 0, 1)
    y = np.zeros((5, 3, 4), np.float32)
    run = compile_loops(text, "f")
    run(x, y)
    np.testing.assert_array_equal(x, y)
    run(x[:0], y[:0])


def test_stack_buffers_and_globals() -> None:
    text = """
    memref.global "private" constant @table : memref<2x4xf32>
      = dense<[[1.0, 2.0, 3.0, 4.0], [0.1, -0.0, 6.0, 7.0]]>
    memref.global "private" @counter : memref<1xi64> = dense<5>
    memref.global "private" constant @same : memref<3xi8> = dense<-1>
    func.func @f(%x: memref<8xf32>, %count: memref<1xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c8 = arith.constant 8 : index
      %t = memref.get_global @table : memref<2x4xf32>
      %flat = memref.collapse_shape %t [[0, 1]] : memref<2x4xf32> into memref<8xf32>
      %s = memref.get_global @same : memref<3xi8>
      scf.for %i = %c0 to %c8 step %c1 {
        %tmp = memref.alloca() : memref<2xf32>
        %v = memref.load %flat[%i] : memref<8xf32>
        memref.store %v, %tmp[%c1] : memref<2xf32>
        %w = memref.load %tmp[%c1] : memref<2xf32>
        %m = memref.load %s[%c2] : memref<3xi8>
        %mf = arith.sitofp %m : i8 to f32
        %r = arith.mulf %w, %mf : f32
        memref.store %r, %x[%i] : memref<8xf32>
      }
      %g = memref.get_global @counter : memref<1xi64>
      %n = memref.load %g[%c0] : memref<1xi64>
      %one = arith.constant 1 : i64
      %next = arith.addi %n, %one : i64
      memref.store %next, %g[%c0] : memref<1xi64>
      memref.store %n, %count[%c0] : memref<1xi64>
      func.return
    }"""
    x, count = np.zeros(8, np.float32), np.zeros(1, np.int64)
    run = compile_loops(text, "f")
    run(x, count)
    np.testing.assert_array_equal(x, -np.array([1, 2, 3, 4, 0.1, -0.0, 6, 7], np.float32))
    run(x, count)
    assert count.tolist() == [6]


def test_metadata_and_dimensions() -> None:
    source = "memref<?x6xf32, strided<[?, 2], offset: ?>>"
    text = f"""
    func.func @f(%x: {source}, %which: index, %y: memref<8xindex>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      %c5 = arith.constant 5 : index
      %c6 = arith.constant 6 : index
      %base, %offset, %s:2, %t:2 = memref.extract_strided_metadata %x
        : {source} -> memref<f32>, index, index, index, index, index
      %d = memref.dim %x, %which : {source}
      %p = memref.extract_aligned_pointer_as_index %x : {source} -> index
      memref.store %offset, %y[%c0] : memref<8xindex>
      memref.store %s#0, %y[%c1] : memref<8xindex>
      memref.store %s#1, %y[%c2] : memref<8xindex>
      memref.store %t#0, %y[%c3] : memref<8xindex>
      memref.store %t#1, %y[%c4] : memref<8xindex>
      memref.store %d, %y[%c5] : memref<8xindex>
      memref.store %p, %y[%c6] : memref<8xindex>
      func.return
    }}""".replace(
        f"%p = memref.extract_aligned_pointer_as_index %x : {source} -> index",
        f'%p = "memref.extract_aligned_pointer_as_index"(%x) : ({source}) -> index',
    )
    x = np.zeros((5, 20), np.float32)[:, 4:16:2]
    y = np.zeros(8, np.int64)
    run = compile_loops(text, "f")
    for which, size in ((0, 5), (1, 6)):
        run(x, which, y)
        assert y[:7].tolist() == [0, 5, 6, 20, 2, size, x.ctypes.data]


def test_calls_pass_views() -> None:
    part = "memref<?x3xf32, strided<[?, 1], offset: ?>>"
    text = f"""
    func.func private @sum(%x: {part}, %fixed: memref<3xf32>) -> (f32, index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %n = memref.dim %x, %c0 : {part}
      %zero = arith.constant 0.0 : f32
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (f32) {{
        %v = memref.load %x[%i, %c2] : {part}
        %a = arith.addf %acc, %v : f32
        scf.yield %a : f32
      }}
      %w = memref.load %fixed[%c1] : memref<3xf32>
      %r = arith.addf %sum, %w : f32
      func.return %r, %n : f32, index
    }}
    func.func @f(%x: memref<4x8xf32>, %n: index, %y: memref<2xf32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %a = memref.subview %x[1, 2] [%n, 3] [1, 1] : memref<4x8xf32> to {part}
      %b = memref.subview %x[3, 4] [1, 3] [1, 1]
        : memref<4x8xf32> to memref<3xf32, strided<[1], offset: 28>>
      %c = memref.reinterpret_cast %b to offset: [28], sizes: [3], strides: [1]
        : memref<3xf32, strided<[1], offset: 28>> to memref<3xf32, strided<[1], offset: 28>>
      %d = memref.cast %c : memref<3xf32, strided<[1], offset: 28>> to memref<3xf32>
      %r, %m = func.call @sum(%a, %d) : ({part}, memref<3xf32>) -> (f32, index)
      %mi = arith.index_cast %m : index to i64
      %mf = arith.sitofp %mi : i64 to f32
      memref.store %r, %y[%c0] : memref<2xf32>
      memref.store %mf, %y[%c1] : memref<2xf32>
      func.return
    }}"""
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    y = np.zeros(2, np.float32)
    compile_loops(text, "f")(x, 2, y)
    assert y.tolist() == [x[1:3, 4].sum() + x[3, 5], 2]


def test_atomic_updates() -> None:
    text = """
    func.func @f(%x: memref<4xi64>, %y: memref<2xf32>) -> i64 {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %v = arith.constant 5 : i64
      %f = arith.constant 0.5 : f32
      %old = memref.atomic_rmw addi %v, %x[%c1] : (i64, memref<4xi64>) -> i64
      %a = memref.atomic_rmw maxs %v, %x[%c2] : (i64, memref<4xi64>) -> i64
      %b = memref.atomic_rmw assign %v, %x[%c0] : (i64, memref<4xi64>) -> i64
      %c = memref.atomic_rmw addf %f, %y[%c1] : (f32, memref<2xf32>) -> f32
      func.return %old : i64
    }"""
    x, y = np.array([9, 10, -3, 0]), np.ones(2, np.float32)
    assert compile_loops(text, "f")(x, y) == 10
    assert x.tolist() == [5, 15, 5, 0]
    assert y.tolist() == [1, 1.5]


def test_prefetch_and_streaming_stores() -> None:
    text = """
    func.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {
      %c0 = arith.constant 0 : index
      %far = arith.constant 4096 : index
      memref.prefetch %x[%far], read, locality<2>, data : memref<64xf32>
      memref.prefetch %y[%c0], write, locality<3>, data : memref<64xf32>
      %v = vector.load %x[%c0] {alignment = 64 : i64} : memref<64xf32>, vector<16xf32>
      vector.store %v, %y[%c0] {alignment = 64 : i64, nontemporal = true}
        : memref<64xf32>, vector<16xf32>
      func.return
    }"""
    buffer = np.zeros(64 * 3 * 4, np.uint8)
    start = -buffer.ctypes.data % 64
    aligned = buffer[start : start + 512].view(np.float32).reshape(2, 64)
    aligned[0] = np.arange(64)
    run = compile_loops(text, "f")
    run(aligned[0], aligned[1])
    np.testing.assert_array_equal(aligned[1, :16], np.arange(16))
    assert "align 64, !nontemporal !0" in run.llvm_text
    assert "@llvm.prefetch.p0(ptr %" in run.llvm_text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a = memref.alloca(%n) : memref<?xf32>", "run-time sizes"),
        (
            "%a = memref.alloca() : memref<4xi3> %b = memref.load %a[%n] : memref<4xi3>",
            "no address",
        ),
        ('%a = "test.op"() : () -> i32', "'test.op' is not allowed"),
        ("%a = memref.alloc() : memref<4xf32>", "'memref.alloc' is not allowed"),
        ("%a = arith.constant dense<0.0> : vector<2x4xf32>", "not a 1-D vector"),
        (
            "%a = scf.for %i = %n to %n step %n iter_args(%b = %x) -> (memref<4xi1>) {"
            " scf.yield %b : memref<4xi1> }",
            "%x of type memref<4xi1> is used before",
        ),
    ],
)
def test_refusals_name_the_function(body: str, message: str) -> None:
    text = f"func.func @kernel(%x: memref<4xi1>, %n: index) {{ {body}\n func.return }}"
    with pytest.raises(CompileError, match="in @kernel") as caught:
        compile_loops(text, "kernel")
    assert message in caught.value.message


def test_functions_return_no_memref() -> None:
    text = "func.func @f(%x: memref<4xf32>) -> memref<4xf32> { func.return %x : memref<4xf32> }"
    with pytest.raises(CompileError):
        compile_loops(text, "f")


def test_wrong_arguments_are_refused_before_the_call() -> None:
    run = compile_loops("func.func @f(%x: memref<4xf32>) { func.return }", "f")
    with pytest.raises(InputError, match="1 arguments"):
        run()
    with pytest.raises(InputError, match="shape"):
        run(np.zeros(5, np.float32))
