"""Kernels for some of the steps, where only the step knows how many rows or queries it has.

A product of one row wants another kernel than one of a thousand. Where the rows of an op are not known, it
gets several, each with a note (`openinfer.rows`) of how many rows the steps have that start it, and the host
chooses:

    %rows = memref.dim %y, %c0
    %one = arith.cmpi eq, %rows, %c1
    scf.if %one { func.call @matmul_0_of_1(…) } else { func.call @matmul_0(…) }
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, StringAttr, i64
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects.nn import AttentionOp, MatmulOp, NNOp
from openinfer.lowering.facts import Facts
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.vulkan.schedules.matmul_sizes import idle_rows

ROWS = "openinfer.rows"
"""On the op of a kernel: the most rows, or queries, of the steps that start it. A kernel of 1 has that
many, and never none."""
LEAST = 256
"""Columns and depth of a product from which on several kernels are worth it."""
ABOVE = "openinfer.rows_above"
"""On the op of a kernel: all steps that start it have more rows than this (`few_rows_of_blocks.py`)."""
BOUNDS = (4, 8, 16)
"""Rows up to which a product reads its right operand once: the steps of a server that has a few requests."""
SIDES = (64, 128)
"""Sides of the larger tiles of products, in rows and columns."""
MANY = 1 << 30
"""Rows that keep every device busy."""


def rows_of(op: Operation, extent: Index) -> Index:
    """The rows or queries of an op, whose extent is `extent`, as far as its kernel may know them."""
    return 1 if most_rows(op) == 1 else extent


def most_rows(op: Operation) -> int | None:
    """The most rows or queries of the steps that start a kernel; None for any number."""
    noted = op.attributes.get(ROWS)
    return noted.value.data if isinstance(noted, IntegerAttr) else None


def forms_of(op: Operation) -> list[int]:
    """The most rows of each kernel of an op but the last one, which takes all others."""
    axis = _axis(op)
    if axis is None or _shape(_result(op))[axis] != DYNAMIC_INDEX:
        return []
    if isinstance(op, AttentionOp):
        return [1]
    assert isinstance(op, MatmulOp)
    columns, depth = _shape(op.output)[-1], _shape(op.left)[-1 if op.transpose_a is None else -2]
    if columns == DYNAMIC_INDEX:
        return []
    if columns < LEAST or DYNAMIC_INDEX != depth < LEAST:
        return []
    few = [1, *(BOUNDS if _reads_once(op) else ())]
    above = op.attributes.get(ABOVE)
    least = above.value.data if isinstance(above, IntegerAttr) else 0
    idle = [idle_rows(columns, side) for side in SIDES]
    bounds = [*few, *(most for most in idle if most > few[-1])]
    return [most for most in bounds if most > least]


def _reads_once(op: MatmulOp) -> bool:
    """Whether a few rows have kernels of their own (`matmul_bounded_rows.py`), whatever the type of sums."""
    facts = Facts.of(op)
    subgroups = facts.device_description.subgroup > 1 and not facts.strict_math
    return subgroups and op.transpose_b is not None and op.layout is None


def typical_rows(op: Operation, rows: Index) -> int | None:
    """As many rows as a kernel of a product is made for; None where it is made for any number."""
    if isinstance(rows, int):
        return rows
    return most_rows(op) or (MANY if forms_of(op) else None)


def choose_forms(function: FuncOp, kernel: Operation, calls: list[CallOp]) -> None:
    """Gives an op with several kernels a function for each, beside the one that it has, and lets its calls in
    `@step` choose."""
    forms = forms_of(kernel)
    if not forms or most_rows(kernel) is not None:
        return
    found = [bounded_copy(function, kernel.name, most) for most in forms]
    for call in calls:
        choose_by_rows(call, row_place(kernel), forms, found)


def bounded_copy(function: FuncOp, kernel: str, most: int) -> FuncOp:
    """The function of a kernel for steps of up to so many rows, in front of that for all of them."""
    module_block = function.parent_block()
    assert module_block is not None
    copy = function.clone()
    copy.properties["sym_name"] = StringAttr(f"{function.sym_name.data}_of_{most}")
    (own,) = [op for op in copy.body.block.ops if op.name == kernel]
    own.attributes[ROWS] = IntegerAttr(most, i64)
    module_block.insert_op_before(copy, function)
    return copy


def row_place(kernel: Operation) -> tuple[int, int]:
    """Which argument of a kernel's function has the rows or queries of its result, and along which axis."""
    result, axis = _result(kernel), _axis(kernel)
    assert isinstance(result, BlockArgument)
    assert axis is not None
    return result.index, axis


def choose_by_rows(
    call: CallOp,
    place: tuple[int, int],
    bounds: Sequence[int],
    functions: Sequence[FuncOp],
    given: Sequence[SSAValue] | None = None,
    others: Sequence[Operation] = (),
) -> None:
    """Calls the function whose bound is the first that the rows do not exceed, with the operands `given`, or
    else the call's own; for more rows what the call calls, behind some `others` that only it needs."""
    b = LoopBuilder(InsertPoint.before(call))
    operands = list(call.operands if given is None else given)
    with keep_location(call):
        rows = b.dim(call.operands[place[0]], place[1])

        def choose(number: int) -> None:
            if number == len(bounds):
                for op in (*others, call):
                    b.do(op.clone())
                return
            most = bounds[number]

            def insert() -> None:
                one = CallOp(functions[number].sym_name.data, operands, [])
                one.attributes.update(call.attributes)
                b.do(one)

            fits = b.compare("eq" if most == 1 else "ule", rows, most)
            b.when(fits, insert, lambda: choose(number + 1))

        choose(0)
    for op in (call, *others):
        Rewriter.erase_op(op)


def _axis(op: Operation) -> int | None:
    """The axis of the rows or queries of the result."""
    if isinstance(op, AttentionOp):
        return op.layouts.data[3].data.index("l")
    if isinstance(op, MatmulOp):
        return len(_shape(op.output)) - 2
    return None


def _result(op: Operation) -> SSAValue:
    assert isinstance(op, NNOp)
    return op.outs[0]


def _shape(buffer: SSAValue) -> tuple[int, ...]:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type.get_shape()
