"""Steps of a few rows beside a weight that is unpacked for products of many rows read its blocks instead.

    func.call @unpack_blocks_0(%w, %values)
    func.call @matmul_0(%x, %values, %y)

becomes

    %rows = memref.dim %y, %c0
    %few = arith.cmpi ule, %rows, %c4
    scf.if %few { func.call @matmul_0_of_blocks_of_4(%x, %w, %y) } else {
      …                                                              // the same for more rows
      func.call @unpack_blocks_0(%w, %values)
      func.call @matmul_0(%x, %values, %y) }

A weight of q8_0 is 1.06 bytes for each value; unpacking it reads them, writes 2 and reads those again.

Requires: `plan-memory`. The values are read by one product, in the block of the step where they are unpacked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, StringAttr, f32, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from openinfer.dialects.nn import MatmulOp, StampOp, UnpackBlocksOp
from openinfer.dialects.nn.layouts import LayoutAttr
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.elements import accumulator_of
from openinfer.lowering.vulkan.schedules.forms import (
    ABOVE,
    BOUNDS,
    bounded_copy,
    choose_by_rows,
    row_place,
)


def read_blocks_of_few_rows(
    functions: Mapping[str, FuncOp], name: str, calls: Sequence[CallOp]
) -> None:
    """Gives a product that only reads unpacked weights a function that reads their blocks for each bound of
    rows, and lets its calls in `@step` choose."""
    function = functions[name]
    product = _product_of(function)
    if product is None or Facts.of(product).strict_math:
        return
    right = product.right
    assert isinstance(right, BlockArgument)
    makers = [_unpacking(functions, call, right.index) for call in calls]
    found = [maker for maker in makers if maker is not None]
    sources = {str(maker.operands[0].type) for maker in found}
    layouts = {_unpacked(functions, maker).layout for maker in found}
    if len(found) < len(calls) or len(sources) != 1 or len(layouts) != 1:
        return
    in_blocks = _in_blocks(function, product, right.index, found[0].operands[0], layouts.pop())
    kernels = [bounded_copy(in_blocks, MatmulOp.name, most) for most in BOUNDS]
    Rewriter.erase_op(in_blocks)
    for call, maker in zip(calls, found):
        given = list(call.operands)
        given[right.index] = maker.operands[0]
        for stamp in (maker.prev_op, maker.next_op):
            # In a trace it is a part of the product, which it goes to.
            if isinstance(stamp, StampOp):
                Rewriter.erase_op(stamp)
        choose_by_rows(call, row_place(product), BOUNDS, kernels, given, [maker])
    product.attributes[ABOVE] = IntegerAttr(BOUNDS[-1], i64)


def _product_of(function: FuncOp) -> MatmulOp | None:
    """The product that a function is the kernel of, if only the step knows its rows, and its sums are f32."""
    products = [op for op in function.body.block.ops if isinstance(op, MatmulOp)]
    if len(products) != 1:
        return None
    (product,) = products
    kind = product.output.type
    assert isinstance(kind, MemRefType)
    sums = product.body[0].block.args[0].type if product.body else accumulator_of(kind.element_type)
    along = product.transpose_a is None and product.transpose_b is not None
    unknown = kind.get_shape()[-2] == DYNAMIC_INDEX
    fits = along and unknown and sums == f32 and product.layout is None
    return product if fits and isinstance(product.right, BlockArgument) else None


def _unpacking(functions: Mapping[str, FuncOp], call: CallOp, place: int) -> CallOp | None:
    """The call in front of a product that unpacks its right operand, if nobody else reads the values."""
    users = {use.operation for use in call.operands[place].uses}
    others = [op for op in users if op is not call]
    if len(others) != 1 or call.operands.count(call.operands[place]) != 1:
        return None
    (maker,) = others
    same = isinstance(maker, CallOp) and maker.parent_block() is call.parent_block()
    if not same or not isinstance(maker, CallOp):
        return None
    kernels = list(functions[maker.callee.string_value()].body.block.ops)
    unpacks = isinstance(kernels[0], UnpackBlocksOp) and len(kernels) == 2
    return maker if unpacks and maker.is_before_in_block(call) else None


def _unpacked(functions: Mapping[str, FuncOp], maker: CallOp) -> UnpackBlocksOp:
    op = functions[maker.callee.string_value()].body.block.first_op
    assert isinstance(op, UnpackBlocksOp)
    return op


def _in_blocks(
    function: FuncOp, product: MatmulOp, place: int, blocks: SSAValue, layout: LayoutAttr | None
) -> FuncOp:
    """The function of the same product with a weight in blocks."""
    copy = function.clone()
    copy.properties["sym_name"] = StringAttr(f"{function.sym_name.data}_of_blocks")
    module_block = function.parent_block()
    assert module_block is not None
    module_block.insert_op_before(copy, function)
    Rewriter.replace_value_with_new_type(copy.body.block.args[place], blocks.type)
    copy.update_function_type()
    (own,) = [op for op in copy.body.block.ops if isinstance(op, MatmulOp)]
    del own.properties["transpose_b"]
    own.layout = layout
    return copy
