"""`scf`, `cf` and `func` to machine code."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.convert_scf_to_cf import ConvertScfToCf

from openinfer.lowering.cpu.convert_to_llvm import ConvertToLlvm
from openinfer.lowering.cpu.jit import compile_loops, parse_module
from openinfer.runtime.errors import CompileError

THROUGH_CF = (ConvertScfToCf(), CanonicalizePass(), ConvertToLlvm())

LOOP = """
func.func @f(%from: index, %to: index, %step: index) -> index {
  %c0 = arith.constant 0 : index
  %r, %last = scf.for %i = %from to %to step %step iter_args(%sum = %c0, %p = %from)
      -> (index, index) {
    %s = arith.addi %sum, %i : index
    scf.yield %s, %i : index, index
  }
  %k = arith.constant 1000 : index
  %m = arith.muli %last, %k : index
  %t = arith.addi %r, %m : index
  func.return %t : index
}"""


@pytest.mark.parametrize("passes", [(ConvertToLlvm(),), THROUGH_CF], ids=["scf", "cf"])
@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 20, 4), (5, 5, 1), (7, 2, 1), (-3, 4, 2)])
def test_loops(passes: tuple[object, ...], bounds: tuple[int, int, int]) -> None:
    values = list(range(*bounds))
    expected = sum(values) + 1000 * (values[-1] if values else bounds[0])
    assert compile_loops(LOOP, "f", passes=passes)(*bounds) == expected  # pyright: ignore


@pytest.mark.parametrize("bounds", [(0, 5, 1), (3, 20, 4), (5, 5, 1), (7, 2, 1), (2, 3, 7)])
def test_loops_of_known_length(bounds: tuple[int, int, int]) -> None:
    text = LOOP.replace("%from: index, %to: index, %step: index", "")
    names = ("%from", "%to", "%step")
    constants = "\n".join(
        f"{name} = arith.constant {value} : index" for name, value in zip(names, bounds)
    )
    text = text.replace("%c0 = arith", f"{constants}\n  %c0 = arith", 1)
    run = compile_loops(text, "f")
    values = list(range(*bounds))
    assert run() == sum(values) + 1000 * (values[-1] if values else bounds[0])
    # No test before a loop that runs, and no loop where one round is all.
    assert run.llvm_text.count("icmp") == (1 if len(values) > 1 else 0)


def test_loops_over_narrow_integers() -> None:
    text = """
    func.func @f(%n: i32) -> i32 {
      %c0 = arith.constant 0 : i32
      %c2 = arith.constant 2 : i32
      %r = scf.for %i = %c0 to %n step %c2 iter_args(%sum = %c0) -> (i32) : i32 {
        %s = arith.addi %sum, %i : i32
        scf.yield %s : i32
      }
      func.return %r : i32
    }"""
    assert compile_loops(text, "f")(9) == 0 + 2 + 4 + 6 + 8


@pytest.mark.parametrize("passes", [(ConvertToLlvm(),), THROUGH_CF], ids=["scf", "cf"])
def test_branches(passes: tuple[object, ...]) -> None:
    text = """
    func.func @f(%a: i32, %x: memref<1xi32>) -> i32 {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : i32
      %ten = arith.constant 10 : i32
      %negative = arith.cmpi slt, %a, %zero : i32
      %big = arith.cmpi sgt, %a, %ten : i32
      scf.if %big {
        memref.store %ten, %x[%c0] : memref<1xi32>
      }
      %r = scf.if %negative -> (i32) {
        %n = arith.subi %zero, %a : i32
        scf.yield %n : i32
      } else {
        %s = scf.if %big -> (i32) {
          scf.yield %ten : i32
        } else {
          scf.yield %a : i32
        }
        scf.yield %s : i32
      }
      func.return %r : i32
    }"""
    run = compile_loops(text, "f", passes=passes)  # pyright: ignore[reportArgumentType]
    x = np.zeros(1, np.int32)
    assert [run(a, x) for a in (-5, 0, 7)] == [5, 0, 7]
    assert x[0] == 0
    assert run(11, x) == 10
    assert x[0] == 10


def test_while() -> None:
    """The length of the Collatz sequence: values carried, more passed on than tested."""
    text = """
    func.func @f(%start: i64) -> i64 {
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %two = arith.constant 2 : i64
      %three = arith.constant 3 : i64
      %last, %count = scf.while (%n = %start, %k = %zero) : (i64, i64) -> (i64, i64) {
        %more = arith.cmpi ne, %n, %one : i64
        scf.condition(%more) %n, %k : i64, i64
      } do {
      ^bb0(%n: i64, %k: i64):
        %odd = arith.remsi %n, %two : i64
        %is_odd = arith.cmpi eq, %odd, %one : i64
        %half = arith.divsi %n, %two : i64
        %triple = arith.muli %n, %three : i64
        %up = arith.addi %triple, %one : i64
        %next = arith.select %is_odd, %up, %half : i64
        %k1 = arith.addi %k, %one : i64
        scf.yield %next, %k1 : i64, i64
      }
      func.return %count : i64
    }"""
    run = compile_loops(text, "f")
    assert [run(n) for n in (1, 2, 6, 27)] == [0, 1, 8, 111]


def test_index_switch() -> None:
    text = """
    func.func @f(%i: index) -> i32 {
      %r = scf.index_switch %i -> i32
      case 2 {
        %a = arith.constant 20 : i32
        scf.yield %a : i32
      }
      case 5 {
        %b = arith.constant 50 : i32
        scf.yield %b : i32
      }
      default {
        %c = arith.constant -1 : i32
        scf.yield %c : i32
      }
      func.return %r : i32
    }"""
    run = compile_loops(text, "f")
    assert [run(i) for i in (0, 2, 5, 6)] == [-1, 20, 50, -1]


def test_parallel_loops_run_in_order() -> None:
    text = """
    func.func @f(%x: memref<3x4xi64>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %c4 = arith.constant 4 : index
      "scf.parallel"(%c0, %c0, %c3, %c4, %c1, %c1)
        <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
      ^bb0(%i: index, %j: index):
        %s = arith.muli %i, %c4 : index
        %t = arith.addi %s, %j : index
        %v = arith.index_cast %t : index to i64
        memref.store %v, %x[%i, %j] : memref<3x4xi64>
        scf.reduce
      }) : (index, index, index, index, index, index) -> ()
      func.return
    }"""
    x = np.zeros((3, 4), np.int64)
    compile_loops(text, "f")(x)
    np.testing.assert_array_equal(x.ravel(), np.arange(12))


def test_blocks_and_doubled_edges() -> None:
    """Two edges between the same blocks with different values, which a phi cannot tell apart."""
    text = """
    func.func @f(%c: i1, %i: i32, %a: i32, %b: i32) -> i32 {
      cf.cond_br %c, ^join(%a : i32), ^join(%b : i32)
    ^join(%r: i32):
      cf.switch %i : i32, [
        default: ^end(%r : i32),
        3: ^end(%a : i32),
        4: ^end(%b : i32)
      ]
    ^end(%s: i32):
      func.return %s : i32
    }"""
    run = compile_loops(text, "f")
    assert [run(c, 0, 7, 9) for c in (True, False)] == [7, 9]
    assert [run(True, i, 7, 9) for i in (3, 4, 5)] == [7, 9, 7]


def test_recursion_and_results() -> None:
    text = """
    func.func private @fib(%n: i64) -> (i64, i64) {
      %zero = arith.constant 0 : i64
      %one = arith.constant 1 : i64
      %end = arith.cmpi eq, %n, %zero : i64
      %a, %b = scf.if %end -> (i64, i64) {
        scf.yield %zero, %one : i64, i64
      } else {
        %m = arith.subi %n, %one : i64
        %x, %y = func.call @fib(%m) : (i64) -> (i64, i64)
        %z = arith.addi %x, %y : i64
        scf.yield %y, %z : i64, i64
      }
      func.return %a, %b : i64, i64
    }
    func.func @f(%n: i64) -> i64 {
      %a, %b = func.call @fib(%n) : (i64) -> (i64, i64)
      func.return %a : i64
    }"""
    run = compile_loops(text, "f")
    assert [run(n) for n in range(10)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def test_outside_functions() -> None:
    text = """
    func.func private @hypot(f64, f64) -> f64
    func.func @f(%a: f64, %b: f64) -> f64 {
      %r = func.call @hypot(%a, %b) : (f64, f64) -> f64
      func.return %r : f64
    }"""
    assert compile_loops(text, "f")(3.0, 4.0) == 5.0


def test_llvm_ops_inside_a_function() -> None:
    """What is `llvm` already is kept: an atomic counter beside loops code."""
    text = """
    llvm.mlir.global internal @counter(5 : i64) {alignment = 64 : i64} : i64
    func.func @f(%x: memref<4xi64>, %n: index) -> i64 {
      %p = builtin.unrealized_conversion_cast %x : memref<4xi64> to !llvm.ptr
      %k = builtin.unrealized_conversion_cast %n : index to i64
      %q = llvm.getelementptr %p[2] : (!llvm.ptr) -> !llvm.ptr, i64
      llvm.store %k, %q atomic release {alignment = 8 : i64} : i64, !llvm.ptr
      llvm.fence seq_cst
      %g = llvm.mlir.addressof @counter : !llvm.ptr
      %old = llvm.atomicrmw add %g, %k acq_rel : !llvm.ptr, i64
      %pair = llvm.cmpxchg %p, %old, %k acq_rel monotonic : !llvm.ptr, i64
      %was = llvm.extractvalue %pair[0] : !llvm.struct<(i64, i1)>
      %now = llvm.load %q atomic acquire {alignment = 8 : i64} : !llvm.ptr -> i64
      %r = arith.addi %was, %now : i64
      func.return %r : i64
    }"""
    run = compile_loops(text, "f")
    x = np.array([5, 0, 0, 0])
    assert run(x, 3) == 5 + 3
    assert x.tolist() == [3, 0, 3, 0]
    assert run(x, 3) == 3 + 3
    assert x.tolist() == [3, 0, 3, 0]


def test_unknown_callee() -> None:
    module = parse_module(
        "func.func private @g()\nfunc.func @f() { func.call @g() : () -> ()\nfunc.return }"
    )
    callee = module.body.block.first_op
    assert callee is not None
    callee.detach()
    with pytest.raises(CompileError, match=r"in @f: .func\.call. of @g"):
        compile_loops(module, "f")
