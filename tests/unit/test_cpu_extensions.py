"""The extended xDSL dialects: effects, folding and verification."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith as xdsl_arith
from xdsl.dialects.builtin import ModuleOp, VectorType, f32, i1, i32
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.loop_invariant_code_motion import LoopInvariantCodeMotionPass
from xdsl.utils.exceptions import VerifyException

from openinfer.dialects.extensions import get_all_dialects
from openinfer.dialects.extensions.arith import CmpfOp, CmpiOp, SelectOp
from openinfer.lowering.cpu.jit import make_context, parse_module


def after(text: str, *passes: ModulePass) -> ModuleOp:
    module = parse_module(text)
    for step in passes:
        step.apply(make_context(), module)
    module.verify()
    return module


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk()]


def test_dialects_replace_those_of_the_same_name() -> None:
    dialects = {name: load() for name, load in get_all_dialects().items()}
    assert all(dialect.name == name for name, dialect in dialects.items())
    for dialect in dialects.values():
        ops = [op.name for op in dialect.operations]
        assert len(ops) == len(set(ops))
    assert CmpiOp in dialects["arith"].operations
    assert xdsl_arith.CmpiOp not in dialects["arith"].operations
    assert xdsl_arith.AddiOp in dialects["arith"].operations


def test_extended_ops_are_still_those_of_xdsl() -> None:
    value = AnyOp.create(result_types=[VectorType(f32, [4])]).results[0]
    compared = CmpfOp(value, value, "olt")
    compared.verify()
    assert compared.result.type == VectorType(i1, [4])
    assert isinstance(compared, xdsl_arith.CmpfOp)
    chosen = SelectOp(compared, value, value)
    chosen.verify()
    assert isinstance(chosen, xdsl_arith.SelectOp)


def test_dead_structured_ops_are_removed_and_equal_ones_shared() -> None:
    text = """
    func.func @f(%x: tensor<4xf32>, %b: memref<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %e = tensor.empty() : tensor<4xf32>
      %dead = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
        iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
      ^bb0(%a: f32, %o: f32):
        %s = arith.addf %a, %a : f32
        linalg.yield %s : f32
      } -> tensor<4xf32>
      %one = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
        -> tensor<4xf32>
      %two = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>)
        -> tensor<4xf32>
      linalg.add ins(%b, %b : memref<4xf32>, memref<4xf32>) outs(%b : memref<4xf32>)
      func.return %one, %two : tensor<4xf32>, tensor<4xf32>
    }"""
    found = names(after(text, CanonicalizePass(), CommonSubexpressionElimination()))
    assert "linalg.generic" not in found
    # One of the two on tensors, and the one that writes a buffer.
    assert found.count("linalg.add") == 2


def test_vector_accesses_have_effects() -> None:
    text = """
    func.func @f(%x: memref<64xf32>, %i: index, %n: index) {
      %dead = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
      %m = vector.create_mask %n : vector<16xi1>
      %kept = vector.load %x[%n] : memref<64xf32>, vector<16xf32>
      vector.store %kept, %x[%i] : memref<64xf32>, vector<16xf32>
      func.return
    }"""
    found = names(after(text, CanonicalizePass()))
    assert found.count("vector.load") == 1
    assert found.count("vector.store") == 1
    assert "vector.create_mask" not in found


def test_views_leave_loops() -> None:
    text = """
    func.func @f(%x: memref<8x8xf32>, %i: index, %n: index) {
      scf.for %j = %i to %n step %n {
        %v = memref.subview %x[%i, 0] [1, 8] [1, 1]
          : memref<8x8xf32> to memref<8xf32, strided<[1], offset: ?>>
        %e = memref.load %v[%j] : memref<8xf32, strided<[1], offset: ?>>
        memref.store %e, %x[%j, %j] : memref<8x8xf32>
      }
      func.return
    }"""
    found = names(after(text, LoopInvariantCodeMotionPass()))
    assert found.index("memref.subview") < found.index("scf.for")


def test_constants_still_fold() -> None:
    text = """
    func.func @f() -> (index, i1, vector<4xi1>, vector<4xi32>) {
      %a = arith.constant 3 : index
      %b = arith.constant 4 : index
      %c = arith.addi %a, %b : index
      %v = arith.constant dense<1> : vector<4xi32>
      %e = arith.cmpi sle, %a, %a : index
      %f = arith.cmpi sle, %v, %v : vector<4xi32>
      %g = arith.select %f, %v, %v : vector<4xi1>, vector<4xi32>
      func.return %c, %e, %f, %g : index, i1, vector<4xi1>, vector<4xi32>
    }"""
    module = after(text, CanonicalizePass())
    found = names(module)
    assert "arith.addi" not in found
    assert "arith.select" not in found
    # The comparison of vectors is no constant i1.
    assert found.count("arith.cmpi") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '"arith.cmpi"(%v, %v) <{predicate = 2 : i64}> : (vector<4xi32>, vector<4xi32>) -> i1',
            "gives vector<4xi1>",
        ),
        ("arith.trunci %v : vector<4xi32> to vector<4xi64>", "narrower"),
        ("arith.extsi %v : vector<4xi32> to vector<4xi32>", "wider"),
        ("arith.sitofp %v : vector<4xi32> to vector<8xf32>", "shapes differ"),
        ("arith.index_cast %v : vector<4xi32> to vector<4xi64>", "index on exactly one side"),
        (
            '"arith.select"(%m, %v, %v) : (vector<8xi1>, vector<4xi32>, vector<4xi32>)'
            " -> vector<4xi32>",
            "needs a condition of type i1 or vector<4xi1>",
        ),
        (
            '"llvm.fcmp"(%f, %f) <{predicate = 2 : i64, fastmathFlags = #llvm.fastmath<none>}>'
            " : (vector<4xf32>, vector<4xf32>) -> i1",
            "gives vector<4xi1>",
        ),
    ],
)
def test_wrong_types_are_refused(text: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse_module(
            "func.func @f(%v: vector<4xi32>, %m: vector<8xi1>, %f: vector<4xf32>) {"
            f" %r = {text}\n func.return }}"
        )


def test_masks_of_integers() -> None:
    value = AnyOp.create(result_types=[i32]).results[0]
    assert CmpiOp(value, value, "eq").result.type == i1
