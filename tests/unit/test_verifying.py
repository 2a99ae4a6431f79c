"""`lowering/verifying.py` refuses what xDSL's verifier refuses, and legality names what may not remain."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, memref, test
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, f32, i32, i64
from xdsl.ir import Block, Operation, Region
from xdsl.utils.exceptions import VerifyException

from openinfer.compiler.pipeline import PIPELINES
from openinfer.lowering.attributes import dense_i32, index_attribute, vector_of
from openinfer.lowering.interned import Interned
from openinfer.lowering.legality import illegal_ops
from openinfer.lowering.verifying import verify


def sums(count: int) -> list[Operation]:
    first = arith.ConstantOp(IntegerAttr(1, i64))
    found: list[Operation] = [first]
    for _ in range(count):
        found.append(arith.AddiOp(found[-1], first))
    return found


def test_what_verifies_is_accepted() -> None:
    module = ModuleOp(sums(5))
    module.verify()
    verify(module)


def test_an_op_of_other_types_is_found_behind_equal_classes() -> None:
    ops = sums(5)
    wrong = arith.AddiOp.create(
        operands=(ops[0].results[0], ops[1].results[0]), result_types=(i32,)
    )
    module = ModuleOp([*ops, wrong, *sums(1)])
    with pytest.raises(VerifyException):
        module.verify()
    with pytest.raises(VerifyException):
        verify(module)


def test_a_wrong_op_inside_of_a_region_is_found() -> None:
    inner = sums(2)
    wrong = arith.AddiOp.create(operands=(inner[0].results[0],), result_types=(i64,))
    body = Region(Block([*inner, wrong, test.TestTermOp()]))
    module = ModuleOp([test.TestOp(regions=[body])])
    with pytest.raises(VerifyException):
        verify(module)


def test_a_block_without_a_terminator_is_found() -> None:
    with pytest.raises(VerifyException):
        verify(ModuleOp([test.TestOp(regions=[Region(Block(sums(2)))])]))
    with pytest.raises(VerifyException):
        verify(ModuleOp([test.TestOp(regions=[Region(Block())])]))


def test_a_store_of_another_type_is_found() -> None:
    """LLVM's verifier would not see it: its pointers have no types."""
    place = test.TestOp(result_types=[MemRefType(f32, [4]), IndexType(), i32, f32])
    target, index, number, fitting = place.results
    good = memref.StoreOp.create(operands=(fitting, target, index))
    bad = memref.StoreOp.create(operands=(number, target, index))
    verify(ModuleOp([place, good]))
    good.detach()
    place.detach()
    with pytest.raises(VerifyException):
        verify(ModuleOp([place, good, bad, *sums(1)]))


def test_erased_values_are_found() -> None:
    ops = sums(3)
    module = ModuleOp(ops)
    first = ops[1]
    first.detach()
    first.erase(safe_erase=False)
    with pytest.raises(ValueError, match="Erased"):
        verify(module)


def test_equal_attributes_have_one_number() -> None:
    interned = Interned()
    assert interned.number(IntegerAttr(3, i64)) == interned.number(IntegerAttr(3, i64))
    assert interned.number(IntegerAttr(3, i64)) != interned.number(IntegerAttr(3, i32))
    a, b = IntegerAttr(1, i64), IntegerAttr(2, i64)
    assert interned.named({"x": a, "y": b}) == interned.named({"y": b, "x": a})
    assert interned.named({"x": a}) != interned.named({"y": a})


def test_attributes_that_are_made_once_are_those_of_their_constructors() -> None:
    assert index_attribute(-7) == IntegerAttr(-7, IndexType())
    assert list(dense_i32([1, -1]).get_values()) == [1, -1]
    assert str(vector_of(f32, 16)) == "vector<16xf32>"


def test_every_illegal_op_is_named_once() -> None:
    module = ModuleOp([*sums(2), test.TestOp(), test.TestOp()])
    level = PIPELINES["cpu"][-2].leaves
    assert level is not None
    found = illegal_ops(module, level)
    assert [reason for _, reason in found] == ["'test.op' may not remain"] * 2
