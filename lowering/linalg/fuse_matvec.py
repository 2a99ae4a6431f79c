"""Products of a few rows take in the norm before them, and the product beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.dialects import nn
from openinfer.lowering.demands import demands_of
from openinfer.lowering.fusing import may_join
from openinfer.lowering.linalg.fuse_elementwise import clone_body
from openinfer.lowering.linalg.fuse_epilogue import accumulator_type
from openinfer.lowering.linalg.generic import identity_map
from openinfer.lowering.linalg.join_halves import join_halves, stored_of
from openinfer.lowering.locations import absorb_nodes, give_location


@dataclass(frozen=True)
class FuseMatvec(ModulePass):
    """A step of a few rows is as long as its chain of kernels: norms, gate and up of a gated layer are
    computed by the kernels of the products.

    Before:
        %n = nn.rms_norm(%h, %w) {eps = 1.0e-05 : f64} : …
        %u = nn.matmul(%n, %up) {transpose_b} : …
        %g = nn.matmul(%n, %gate) extras(%u) {transpose_b, maps = […]} { … } : …
    After:
        %g = nn.matvec(%h, %gate, %up, %w) {pair, eps = 1.0e-05 : f64, maps = []} { … } : …

    So are rotations of what a product gives (`join_halves.py`).

    What the norm and the second product round is not rounded.

    Requires: epilogues fused.
    Leaves: everything that the machine has no kernel for (`Demands.matvec`); norms and products that
        somebody else reads, that a barrier or a hint keeps apart.
    """

    name: ClassVar[str] = "fuse-matvec"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.ops:
            if not isinstance(function, FuncOp) or function.sym_name.data != "step":
                continue
            for found in list(function.walk()):
                if isinstance(found, nn.MatmulOp) and demands_of(found).matvec(found):
                    _join_beside(found)
            for found in list(function.walk()):
                if isinstance(found, linalg.GenericOp):
                    join_halves(found)
            for found in list(function.walk()):
                if isinstance(found, nn.RmsNormOp) and len(found.inputs) == 2:
                    _join_norm(found)


def _join_beside(op: nn.MatmulOp) -> None:
    """Makes one op of a product and another one that its body reads."""
    rank = len(nn.dims_of(op.result[0]))
    maps = [m.data for m in op.maps or ()]
    for number, (value, mapping) in enumerate(zip(op.extras, maps)):
        other = value.owner
        if (
            isinstance(other, nn.MatmulOp)
            and mapping == identity_map(rank)
            and len(list(value.uses)) == 1
            and _fits_beside(op, other)
        ):
            _pair(op, other, number)
            return


def _fits_beside(op: nn.MatmulOp, other: nn.MatmulOp) -> bool:
    return (
        other.left is op.left
        and other.right.type == op.right.type
        and other.parent_block() is op.parent_block()
        and may_join(other, op)
        and demands_of(other).matvec(other)
    )


def _pair(op: nn.MatmulOp, other: nn.MatmulOp, number: int) -> None:
    """`other` gives the extra operand `number` of the body of `op`."""
    extras = [*other.extras, *(v for n, v in enumerate(op.extras) if n != number)]
    own = [m.data for m in op.maps or ()]
    maps = [*(m.data for m in other.maps or ()), *own[:number], *own[number + 1 :]]
    sums = [accumulator_type(op), accumulator_type(other)]
    block = Block(arg_types=[*sums, *(nn.element_of(v) for v in extras)])
    first, second, *given = block.args
    taken = len(other.extras)
    beside = _stored(other, [second, *given[:taken]], block)
    rest = [*given[taken : taken + number], beside, *given[taken + number :]]
    (final,) = clone_body(op.body[0].block, [first, *rest], block)
    block.add_op(nn.YieldOp(final))
    inputs = [op.left, op.right, other.right]
    _replace(op, inputs, extras, maps, Region(block), {"pair": UnitAttr()}, other)
    other.detach()
    other.erase()


def _stored(op: nn.MatmulOp, arguments: Sequence[SSAValue], block: Block) -> SSAValue:
    """What a product would store, of its sum and its extra operands."""
    if op.body:
        (value,) = clone_body(op.body[0].block, arguments, block)
        return value
    return stored_of(op, arguments[0], block)


def _join_norm(norm: nn.RmsNormOp) -> None:
    """Lets the products that read a norm compute it, where all that read it are such."""
    users = list(dict.fromkeys(use.operation for use in norm.result[0].uses))
    if not users or not all(_takes_norm(norm, user) for user in users):
        return
    x, weight = norm.inputs
    for user in users:
        assert isinstance(user, nn.MatmulOp | nn.MatvecOp)
        settings: dict[str, Attribute | None] = {}
        rights = [user.right] if isinstance(user, nn.MatmulOp) else user.rights
        if isinstance(user, nn.MatvecOp):
            settings = {
                "pair": user.pair,
                "halves": user.halves,
                "interleaved": user.interleaved,
            }
        settings["eps"] = norm.eps
        body = user.body[0].clone() if user.body else None
        maps = [m.data for m in user.maps or ()]
        _replace(user, [x, *rights, weight], user.extras, maps, body, settings, norm)
    norm.detach()
    norm.erase()


def _takes_norm(norm: nn.RmsNormOp, user: Operation) -> bool:
    if not isinstance(user, nn.MatmulOp | nn.MatvecOp) or user.left is not norm.result[0]:
        return False
    if isinstance(user, nn.MatmulOp) and not demands_of(user).matvec(user):
        return False
    once = sum(operand is norm.result[0] for operand in user.operands) == 1
    return once and norm.parent_block() is user.parent_block() and may_join(norm, user)


def _replace(
    op: nn.MatmulOp | nn.MatvecOp,
    inputs: Sequence[SSAValue],
    extras: Sequence[SSAValue],
    maps: Sequence[AffineMap],
    body: Region | None,
    settings: Mapping[str, Attribute | None],
    taken: Operation,
) -> None:
    """An `nn.matvec` in the place of `op`, which computes what `taken` did, too."""
    places = ArrayAttr([AffineMapAttr(m) for m in maps]) if body is not None else None
    kinds = [result.type for result in op.result]
    new = nn.MatvecOp(inputs, kinds, (), {**settings, "maps": places}, body, extras=extras)
    new.attributes.update(op.attributes)
    give_location(op.location, new)
    absorb_nodes(new, taken, op)
    new.result[0].name_hint = op.result[0].name_hint
    Rewriter.replace_op(op, [new], new.result)
