"""Constant operands are laid out for their kernels once, when the program is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FunctionType, ModuleOp, StringAttr, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import Packed, Tiling, demands_of
from openinfer.lowering.interface import Weight
from openinfer.lowering.locations import give_location
from openinfer.lowering.weight_arguments import WeightArguments
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class ChooseLayouts(ModulePass):
    """Gives the weight of a product or a convolution the layout that its kernel wants.

    Before:
        %w = nn.member %W[%l] : tensor<6x384x384xf32> -> tensor<384x384xf32>
        %y = nn.matmul(%x, %w) {transpose_b} : …
    After:
        %w = nn.member %W_packed[%l] : tensor<6x12x384x32xf32> -> tensor<12x384x32xf32>
        %y = nn.matmul(%x, %w) {layout = #nn.panels<32>} : …
        func.func @prepare_0(%source: tensor<384x384xf32>) -> tensor<12x384x32xf32>

    The kernels of `nn.conv` are a matrix for each group. The weight of a product with `precision =
    "bf16"` is rounded by its `prepare` function, to `#nn.pairs<32>`: tensor<12x192x64xbf16>. Weights in
    blocks get `#nn.blocks<q8_0, 16>`; from here on blocks are rows of bytes, and a gather names their format.

    Requires: level `linalg` on tensors; transposes absorbed into matmul flags.
    Leaves: a `prepare` function for each distinct layout, which the runtime calls for each member;
        the weight as the package has it stays an argument only where something else reads it.
        Operands for which the machine wants no layout (`Demands.tiling`).
    """

    name: ClassVar[str] = "choose-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _Chooser(op, function).run()
                return


@dataclass(frozen=True)
class _Stored:
    """A weight in a layout."""

    layout: nn.LayoutAttr
    transposed: bool
    """Whether the matrix stands as `[N, K]` in the package."""
    matrix: Attribute
    """The type of the matrix, or matrices, that one member is."""
    kind: Attribute
    """The type of one member in the layout."""

    @classmethod
    def of(
        cls, layout: nn.LayoutAttr, element: Attribute, matrix: Sequence[int], transposed: bool
    ) -> _Stored:
        *leading, depth, columns = matrix
        if transposed:
            depth, columns = columns, depth
        dims = layout.shape((*leading, depth, columns))
        kind = nn.tensor_type(layout.element(element), [Size.of(dim or 0) for dim in dims])
        return cls(layout, transposed, nn.tensor_type(element, matrix), kind)

    @property
    def suffix(self) -> str:
        """What the name of an argument says of it."""
        if isinstance(self.layout, nn.BlocksAttr):
            return "_blocks"
        pairs, quads = (isinstance(self.layout, one) for one in (nn.PairsAttr, nn.QuadsAttr))
        kind = "_pairs" if pairs else "_quads" if quads else "_packed"
        return kind + ("_t" if self.transposed else "")


def _in_bytes(kind: Attribute) -> Attribute:
    """The type of rows of blocks as rows of bytes; other types stay."""
    block = nn.element_of(kind)
    if not isinstance(block, nn.BlockType):
        return kind
    *leading, row = nn.dims_of(kind)
    return nn.tensor_type(i8, [*leading, Size.of(block.row_bytes(row.evaluate({})))])


def _constant_operands(op: Packed) -> range:
    """The operands of an op that may be weights in a layout."""
    if isinstance(op, nn.MatvecOp):
        return range(1, 1 + len(op.rights))
    return range(1) if isinstance(op, nn.UnpackBlocksOp) else range(1, 2)


def _members(argument: SSAValue) -> list[SSAValue]:
    """The members of a family that are read."""
    return [use.operation.member for use in argument.uses if isinstance(use.operation, nn.MemberOp)]


class _Chooser:
    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module = module
        self.function = function
        self.weights = WeightArguments(module, function)
        self.arguments: dict[tuple[str, _Stored], SSAValue] = {}
        self.prepares: dict[tuple[Attribute, _Stored], str] = {}

    def run(self) -> None:
        for op in list(self.function.walk()):
            if isinstance(op, Packed) and op.layout is None:
                self._lay_out(op)
        self._use_bytes()
        self.weights.finish()

    def _use_bytes(self) -> None:
        """What still reads the blocks of a weight as the package has them reads rows of bytes."""
        for number in range(len(self.weights.rows)):
            argument = self.weights.block.args[self.weights.first + number]
            block = nn.element_of(argument)
            if not isinstance(block, nn.BlockType):
                continue
            values = (argument, *_members(argument))
            readers = [use.operation for value in values for use in value.uses]
            if any(not isinstance(reader, nn.GatherOp | nn.MemberOp) for reader in readers):
                continue  # The machine wants the operand as it stands.
            for reader in readers:
                if isinstance(reader, nn.GatherOp):
                    reader.properties["block"] = block.block
            for value in values:
                Rewriter.replace_value_with_new_type(value, _in_bytes(value.type))

    def _lay_out(self, op: Packed) -> None:
        """Gives an op its constant operands, or the members of them that it had, in a layout."""
        places = _constant_operands(op)
        if not all(self._may_lie(op, op.operands[place]) for place in places):
            return
        tiling = demands_of(op).tiling(op)
        if tiling is None:
            return
        transposed = True
        if isinstance(op, nn.MatmulOp):
            transposed = op.properties.pop("transpose_b", None) is not None
        for place in places:
            self._use_layout(op, place, tiling, transposed=transposed)
        op.properties["layout"] = tiling.layout

    def _may_lie(self, op: Packed, value: SSAValue) -> bool:
        """Whether an operand is a weight that may be laid out."""
        source, dims = self.weights.source(value), [d.constant for d in nn.dims_of(value)]
        if source is None or self.weights.rows[source[0]].prepare is not None:
            return False
        # Integers are laid out for products with floats, which convert them as they read them.
        floats = isinstance(nn.element_of(op.inputs[0]), AnyFloat)
        in_blocks = isinstance(nn.element_of(value), nn.BlockType)
        fours = isinstance(op, nn.MatmulOp) and op.in_quads
        return (floats or in_blocks or fours) and 0 not in dims

    def _use_layout(self, op: Packed, place: int, tiling: Tiling, *, transposed: bool) -> None:
        """Gives an op one of its constant operands in a layout."""
        value = op.operands[place]
        source, dims = self.weights.source(value), [d.constant for d in nn.dims_of(value)]
        assert source is not None
        number, member = source
        matrix = [d for d in dims if d is not None]
        if isinstance(op, nn.ConvOp):
            groups, outputs = op.groups.value.data, matrix[0]
            matrix, transposed = [groups, outputs // groups, prod(matrix[1:])], True
        stored = _Stored.of(tiling.layout, nn.element_of(value), matrix, transposed)
        new = self._argument(self.weights.rows[number], value.type, stored)
        if member is not None:
            made = nn.MemberOp(new, list(member.indices), stored.kind)
            give_location(member.location, made)
            block = op.parent_block()
            assert block is not None
            block.insert_op_before(made, op)
            made.member.name_hint = member.member.name_hint
            new = made.member
        op.operands[place] = new
        if member is not None and not member.member.uses:
            member.detach()
            member.erase()

    def _argument(self, weight: Weight, source: Attribute, stored: _Stored) -> SSAValue:
        """The argument that holds all members of a weight in a layout."""
        key = (weight.variable, stored)
        if key not in self.arguments:
            dims = [*weight.members, *nn.dims_of(stored.kind)]
            kind = nn.tensor_type(nn.element_of(stored.kind), dims)
            row = replace(weight, layout=stored.layout, prepare=self._prepare(source, stored))
            hint = weight.variable + stored.suffix
            self.arguments[key] = self.weights.add(row, kind, hint)
        return self.arguments[key]

    def _prepare(self, source: Attribute, stored: _Stored) -> str:
        """The function that lays one member out."""
        key = (source, stored)
        if key not in self.prepares:
            name = f"prepare_{len(self.prepares)}"
            matrix = source
            source = _in_bytes(source)
            block = Block(arg_types=[source])
            block.args[0].name_hint = "source"
            ops: list[Operation] = []
            value: SSAValue = block.args[0]
            if stored.matrix != matrix:
                ops.append(nn.ReshapeOp([value], [stored.matrix]))
                value = ops[0].results[0]
            transposed = StringAttr("transposed") if stored.transposed else None
            properties = {"layout": stored.layout, "transposed": transposed}
            pack = nn.PackOp([value], [stored.kind], properties=properties)
            ops += [pack, ReturnOp(pack.result[0])]
            block.add_ops(ops)
            kind = FunctionType.from_lists([source], [stored.kind])
            self.module.body.block.add_op(FuncOp(name, kind, Region(block)))
            self.prepares[key] = name
        return self.prepares[key]
