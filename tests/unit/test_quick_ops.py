"""Ops that are made in one go are those that xDSL makes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, prop_def, result_def

from openinfer.lowering.quick_ops import append_new

PLACE = FileLineColLoc(StringAttr("a.oi"), IntAttr(3), IntAttr(1))


@irdl_op_definition
class Defaults(IRDLOperation):
    name = "test.defaults"

    one = prop_def(IntegerAttr, default_value=IntegerAttr(1, 64))
    two = attr_def(IntegerAttr, default_value=IntegerAttr(2, 64))
    found = result_def()


def made(quick: bool) -> Block:
    block = Block(arg_types=[i64, f32])
    number, real = block.args

    def add(
        kind: type[Operation],
        operands: tuple[SSAValue, ...],
        result: Attribute | None,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue | None:
        if quick:
            return append_new(block, kind, operands, result, properties, PLACE)
        op = kind.create(
            operands=operands,
            result_types=() if result is None else (result,),
            properties=properties,
            location=PLACE,
        )
        block.add_op(op)
        return op.results[0] if op.results else None

    add(arith.AddfOp, (real, real), f32)
    doubled = add(llvm.AddOp, (number, number), i64, {"overflowFlags": IntegerAttr(1, 32)})
    assert doubled is not None
    add(llvm.AddOp, (doubled, number), i64, {"overflowFlags": IntegerAttr(1, 32)})
    add(Defaults, (), i64)
    add(Defaults, (), i64, {"one": IntegerAttr(7, 64)})
    add(llvm.ReturnOp, (), None)
    return block


def test_the_same_ops() -> None:
    quick, slow = made(True), made(False)
    assert quick.is_structurally_equivalent(slow)
    assert [op.location for op in quick.ops] == [PLACE] * 6
    pairs = list(zip([*quick.args, *_results(quick)], [*slow.args, *_results(slow)], strict=True))
    for ours, theirs in pairs:
        uses = [(use.operation.name, use.index) for use in ours.uses]
        assert uses == [(use.operation.name, use.index) for use in theirs.uses]
    assert [op.name for op in reversed(list(quick.ops))] == [op.name for op in quick.ops][::-1]
    ModuleOp(Region(quick)).verify()


def test_what_is_erased_leaves_no_use() -> None:
    block = made(True)
    third = list(block.ops)[2]
    block.erase_op(third)
    assert block.args[0].uses.get_length() == 2
    assert [op.name for op in block.ops].count("llvm.add") == 1


def _results(block: Block) -> list[SSAValue]:
    return [result for op in block.ops for result in op.results]
