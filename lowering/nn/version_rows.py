"""A step that takes lists of rows has a version of its own for one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.tensor import ExtractOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import input_count, read_rows, strings
from openinfer.lowering.locations import give_location
from openinfer.lowering.nn.known_sizes import KnownSizes
from openinfer.runtime.manifest import StateRow


@dataclass(frozen=True)
class VersionRows(ModulePass):
    """Lets a step of a language model that is given one token run a body in which all sizes are known.

    Before:
        func.func @step(%x: tensor<?xi32, #nn.dims<N>>) -> tensor<?x8xf32, #nn.dims<N, 8>> {
          %y = nn.gather(%w, %x) … -> tensor<?x8xf32, #nn.dims<N, 8>>
          func.return %y }
    After:
        %one = arith.cmpi eq, %n, %c1
        %r = scf.if %one -> (tensor<?x8xf32, #nn.dims<N, 8>>) {
          %x1 = nn.cast_dims %x : … to tensor<1xi32>
          %y = nn.gather(%w, %x1) … -> tensor<1x8xf32>
          scf.yield (nn.cast_dims %y)
        } else { the body as it was }

    Kernels for few rows, and what is fused for them, need a number of rows that the types say. In the version
    all sizes of the step are 1. An input of one number that says which element of one to take is 0 there, one
    that is the length of something is 1 (`known_sizes.py`): the condition asks for both.

    Requires: level `nn`, names resolved; before equal values are merged.
    Leaves: machines whose kernels gain nothing (`Demands.versions_rows`); steps without growing states, with
        inputs that are no lists of integers, with sizes that are no length of such a list, or that commit
        values; watched builds.
    """

    name: ClassVar[str] = "version-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not demands_of(op).versions_rows or Facts.of(op).observed:
            return
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                sizes = strings(op, "sizes")
                if sizes and _is_of_rows(op, function, sizes):
                    _add_version(function, sizes, input_count(op))


def _is_of_rows(module: ModuleOp, function: FuncOp, sizes: list[str]) -> bool:
    """Whether all sizes of a step are lengths of lists of integers, and there is something that grows."""
    if not any(row.axes for row in read_rows(module, "states", StateRow)):
        return False
    lengths: set[str] = set()
    for argument in function.body.block.args[: input_count(module)]:
        dims = nn.dims_of(argument)
        if not isinstance(nn.element_of(argument), IntegerType) or len(dims) > 1:
            return False
        lengths.update(*(dim.names for dim in dims if dim.single_name is not None))
    if set(sizes) - lengths:
        return False
    return not any(isinstance(op, nn.CommitOp) for op in function.walk())


def _add_version(function: FuncOp, sizes: list[str], inputs: int) -> None:
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    own = [op for op in block.ops if op is not last]
    one, names = Block(), {size: 1 for size in sizes}
    mapping: dict[SSAValue, SSAValue] = {}
    elements: dict[SSAValue, SSAValue] = {}
    for argument in block.args[:inputs]:
        kind = nn.tensor_type(
            nn.element_of(argument), [dim.substitute(names) for dim in nn.dims_of(argument)]
        )
        if kind == argument.type:
            continue
        cast = nn.CastDimsOp(argument, kind)
        cast.result.name_hint = argument.name_hint
        one.add_op(cast)
        mapping[argument] = cast.result
        elements[cast.result] = argument
    blocks: dict[Block, Block] = {}
    for op in own:
        one.add_op(op.clone(mapping, blocks))
    end = scf.YieldOp(*(mapping.get(value, value) for value in last.operands))
    one.add_op(end)
    known = KnownSizes(one, names, list(elements))
    known.run()
    for number, (value, wanted) in enumerate(zip(end.operands, last.operands)):
        if value.type != wanted.type:
            cast = nn.CastDimsOp(value, wanted.type)
            one.insert_op_before(cast, end)
            end.operands[number] = cast.result
    every = Block()
    for op in own:
        op.detach()
        every.add_op(op)
    every.add_op(scf.YieldOp(*last.operands))
    asked = {elements[value]: number for value, number in known.assumed.items()}
    condition = _condition(sizes, asked)
    chosen = scf.IfOp(
        condition[-1].results[0], [v.type for v in last.operands], Region(one), Region(every)
    )
    for op in (*condition, chosen):
        block.insert_op_before(op, last)
        for inner in op.walk():
            give_location(last.location, inner)
    last.operands = chosen.results


def _condition(sizes: list[str], asked: dict[SSAValue, int]) -> list[Operation]:
    """Ops of which the last one says whether all sizes are 1, and some lists of one element hold numbers."""
    one = arith.ConstantOp(IntegerAttr.from_index_int_value(1))
    ops: list[Operation] = [one]
    holds: SSAValue | None = None
    for size in sizes:
        extent = nn.SizeOp(size)
        same = arith.CmpiOp(extent.value, one.result, "eq")
        ops += [extent, same]
        holds = _both(holds, same.result, ops)
    assert holds is not None
    if not asked:
        return ops
    # A list is looked at only where it has an element.
    inner: list[Operation] = []
    found: SSAValue | None = None
    for argument, number in asked.items():
        element = nn.element_of(argument)
        assert isinstance(element, IntegerType)
        cast = nn.CastDimsOp(argument, nn.tensor_type(element, [1]))
        scalar = nn.ReshapeOp([cast.result], [nn.tensor_type(element, [])])
        value = ExtractOp(scalar.result[0], [], element)
        wanted = arith.ConstantOp(IntegerAttr(number, element))
        same = arith.CmpiOp(value.result, wanted.result, "eq")
        inner += [cast, scalar, value, wanted, same]
        found = _both(found, same.result, inner)
    assert found is not None
    zero = arith.ConstantOp(IntegerAttr.from_index_int_value(0))
    number = arith.SelectOp(found, one.result, zero.result)
    yes, no = nn.FromIndexOp(number.result), nn.FromIndexOp(zero.result)
    inner += [number, yes, scf.YieldOp(yes.value)]
    other = Block([no, scf.YieldOp(no.value)])
    looked = scf.IfOp(holds, [yes.value.type], Region(Block(inner)), Region(other))
    value = ExtractOp(looked.results[0], [], i64)
    index = arith.IndexCastOp(value.result, IndexType())
    return [*ops, zero, looked, value, index, arith.CmpiOp(index.result, one.result, "eq")]


def _both(first: SSAValue | None, second: SSAValue, ops: list[Operation]) -> SSAValue:
    if first is None:
        return second
    both = arith.AndIOp(first, second)
    ops.append(both)
    return both.result
