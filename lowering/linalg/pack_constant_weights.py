"""Weights of matmuls are laid out for the kernel once, when the program is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FunctionType, ModuleOp, StringAttr, UnitAttr, bf16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.interface import Weight, input_count, read_weights, write_weights
from openinfer.lowering.locations import give_location


@dataclass(frozen=True)
class PackConstantWeights(ModulePass):
    """Gives each weight of a matmul's right side or a convolution a packed argument of its own.

    Before:
        %w = nn.member %W[%l] : tensor<6x384x384xf32> -> tensor<384x384xf32>
        %y = nn.matmul(%x, %w) {transpose_b} : …
    After:
        %w = nn.member %W_packed[%l] : tensor<6x12x384x32xf32> -> tensor<12x384x32xf32>
        %y = nn.matmul(%x, %w) {packed} : …
        func.func @prepare_0(%source: tensor<384x384xf32>) -> tensor<12x384x32xf32>

    The kernels of `nn.conv` become panels, too: one for the output channels of each tile.
    The weight of a product with `precision = "bf16"` is rounded by its `prepare` function, and packed
    as pairs: tensor<12x192x64xbf16>.

    Requires: level `linalg` on tensors; transposes absorbed into matmul flags.
    Leaves: a `prepare` function for each distinct layout, which the runtime calls for each member;
        the unpacked weight stays an argument only where something else reads it.
    """

    name: ClassVar[str] = "pack-constant-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if isinstance(function, FuncOp) and function.sym_name.data == "step":
                _Packer(op, function).run()
                return


class _Packer:
    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module = module
        self.function = function
        self.block = function.body.block
        self.weights = read_weights(module)
        self.first = input_count(module)
        self.demands = demands_of(module)
        self.packed: dict[tuple[str, Attribute, bool], SSAValue] = {}
        self.prepares: dict[tuple[Attribute, Attribute, bool], str] = {}

    def run(self) -> None:
        for op in list(self.function.walk()):
            if isinstance(op, nn.MatmulOp) and op.packed is None:
                self._pack(op)
            elif isinstance(op, nn.ConvOp) and op.packed is None:
                self._pack_kernels(op)
        self._drop_unused()
        self.function.update_function_type()
        write_weights(self.module, self.weights)

    def _source(self, value: SSAValue) -> tuple[int, nn.MemberOp | None] | None:
        """The weight that a value is (a member of), if any."""
        member = value.owner if isinstance(value.owner, nn.MemberOp) else None
        root = member.family if member is not None else value
        if isinstance(root, BlockArgument) and root.block is self.block:
            number = root.index - self.first
            if 0 <= number < len(self.weights) and self.weights[number].prepare is None:
                return number, member
        return None

    def _pack(self, op: nn.MatmulOp) -> None:
        source = self._source(op.inputs[1])
        element = nn.element_of(op.inputs[1])
        # Integers are packed for products with floats, which convert them as they read them.
        if source is None or not isinstance(nn.element_of(op.inputs[0]), AnyFloat):
            return
        number, member = source
        value = op.inputs[1]
        dims = [d.evaluate({}) for d in nn.dims_of(value)]
        transposed = op.transpose_b is not None
        if 0 in dims:
            return
        weight = self.weights[number]
        tiling = self.demands.tiling(op)
        if tiling is None:
            return
        tile = tiling.tile
        pairs = op.precision is not None
        packed = self._layout(bf16 if pairs else element, dims, transposed, tile, pairs)
        argument = self._argument(weight, value, packed, transposed, tile, pairs)
        self._use(op, argument, member, packed)
        op.properties.pop("transpose_b", None)

    def _use(
        self,
        op: nn.MatmulOp | nn.ConvOp,
        argument: SSAValue,
        member: nn.MemberOp | None,
        packed: Attribute,
    ) -> None:
        """Gives an op its packed operand, or the member of it that it had."""
        new: SSAValue = argument
        if member is not None:
            made = nn.MemberOp(argument, list(member.indices), packed)
            give_location(member.location, made)
            block = op.parent_block()
            assert block is not None
            block.insert_op_before(made, op)
            made.member.name_hint = member.member.name_hint
            new = made.member
        op.operands[1] = new
        op.properties["packed"] = UnitAttr()
        if member is not None and not member.member.uses:
            member.detach()
            member.erase()

    def _pack_kernels(self, op: nn.ConvOp) -> None:
        """The kernels of a convolution: a matrix for each group, a column for each output."""
        source = self._source(op.inputs[1])
        tiling = self.demands.tiling(op)
        if source is None or tiling is None:
            return
        number, member = source
        value, weight, tile = op.inputs[1], self.weights[number], tiling.tile
        groups = op.groups.value.data
        outputs, *window = [dim.evaluate({}) for dim in nn.dims_of(value)]
        matrix = [groups, outputs // groups, prod(window)]
        element = nn.element_of(value)
        panels = [groups, -(-matrix[1] // tile), matrix[2], tile]
        packed = nn.tensor_type(element, panels)
        kind = nn.tensor_type(element, matrix)
        argument = self._argument(weight, value, packed, True, tile, False, kind)
        self._use(op, argument, member, packed)

    @staticmethod
    def _layout(
        element: Attribute, dims: Sequence[int], transposed: bool, tile: int, pairs: bool
    ) -> Attribute:
        depth, columns = dims[-2:]
        if transposed:
            depth, columns = columns, depth
        panels = -(-columns // tile)
        row = [-(-depth // 2), 2 * tile] if pairs else [depth, tile]
        return nn.tensor_type(element, [*dims[:-2], panels, *row])

    def _argument(
        self,
        weight: Weight,
        value: SSAValue,
        packed: Attribute,
        transposed: bool,
        tile: int,
        pairs: bool,
        matrix: Attribute | None = None,
    ) -> SSAValue:
        key = (weight.variable, packed, transposed)
        if key not in self.packed:
            family = weight.members
            prepare = self._prepare(value.type, packed, transposed, tile, pairs, matrix)
            element = nn.element_of(packed)
            kind = nn.tensor_type(element, [*family, *nn.dims_of(packed)])
            argument = self.block.insert_arg(kind, self.first + len(self.weights))
            suffix = ("_pairs" if pairs else "_packed") + ("_t" if transposed else "")
            argument.name_hint = weight.variable + suffix
            self.weights.append(
                Weight(weight.variable, weight.sources, weight.members, prepare=prepare)
            )
            self.packed[key] = argument
        return self.packed[key]

    def _prepare(
        self,
        source: Attribute,
        packed: Attribute,
        transposed: bool,
        tile: int,
        pairs: bool,
        matrix: Attribute | None,
    ) -> str:
        """The function that packs a weight, seen as `matrix` where that is another shape."""
        key = (source, packed, transposed)
        if key not in self.prepares:
            name = f"prepare_{len(self.prepares)}"
            block = Block(arg_types=[source])
            block.args[0].name_hint = "source"
            ops: list[Operation] = []
            value: SSAValue = block.args[0]
            if matrix is not None:
                ops.append(nn.ReshapeOp([value], [matrix]))
                value = ops[0].results[0]
            pack = nn.PackOp(
                [value],
                [packed],
                properties={
                    "tile": nn.int_setting(tile),
                    "transposed": StringAttr("transposed") if transposed else None,
                    "pairs": UnitAttr() if pairs else None,
                },
            )
            ops += [pack, ReturnOp(pack.result[0])]
            block.add_ops(ops)
            kind = FunctionType.from_lists([source], [packed])
            self.module.body.block.add_op(FuncOp(name, kind, Region(block)))
            self.prepares[key] = name
        return self.prepares[key]

    def _drop_unused(self) -> None:
        kept: list[Weight] = []
        for number, weight in reversed(list(enumerate(self.weights))):
            argument = self.block.args[self.first + number]
            if argument.uses:
                kept.insert(0, weight)
            else:
                self.block.erase_arg(argument)
        self.weights = kept
