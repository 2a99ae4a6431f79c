"""Several products of one left operand in one loop over the panels of all of them.

    for each panel of all products                  (parallel)
      whose panel is it? for each tile of its rows: as in `product.py`

Products that differ in nothing but their buffers share the code: what is read and written is chosen
by the number of the panel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects.nn import MatmulOp, ProductsOp
from openinfer.lowering.cpu.schedules.matmul import MatmulLowering
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.runtime.quick_dataclass import dataclass

LoweringOf = Callable[[MatmulOp], MatmulLowering]


@dataclass
class _Group:
    """Products of one form, and how many panels each of them has."""

    members: list[MatmulOp]
    panels: int

    @property
    def count(self) -> int:
        return self.panels * len(self.members)


def emit_products(op: ProductsOp, lowering_of: LoweringOf) -> None:
    """Emits the loops of `op`, on buffers, in front of it."""
    build = LoopBuilder(InsertPoint.before(op))
    with op.split() as products:
        for product in products:
            product.attributes.update(op.attributes)
            build.do(product)
        panels = [lowering_of(product).panels() for product in products]
        groups = _groups(products, panels)
        if groups is None:
            # One after the other, where their columns are not computed panel by panel.
            for product in products:
                lowering_of(product).emit()
        else:
            total = sum(group.count for group in groups)
            build.loop(
                0,
                total,
                1,
                lambda p: _one_of(build, groups, p, lowering_of),
                parallel=True,
                hint="p",
            )
        for product in products:
            product.detach()


def _groups(products: Sequence[MatmulOp], panels: Sequence[int | None]) -> list[_Group] | None:
    groups: list[_Group] = []
    for product, count in zip(products, panels, strict=True):
        if count is None:
            return None
        for group in groups:
            if _same_form(group.members[0], product):
                group.members.append(product)
                break
        else:
            groups.append(_Group([product], count))
    return groups


def _same_form(a: MatmulOp, b: MatmulOp) -> bool:
    """Whether two products differ only in which buffers they name."""
    if a.properties != b.properties or len(a.body) != len(b.body):
        return False
    if [v.type for v in a.operands] != [v.type for v in b.operands]:
        return False
    return all(x.is_structurally_equivalent(y) for x, y in zip(a.body, b.body))


def _one_of(
    build: LoopBuilder, groups: Sequence[_Group], panel: SSAValue, lowering_of: LoweringOf
) -> None:
    """Computes one panel, counted through all products."""
    first, *rest = groups
    if not rest:
        _one(build, first, panel, lowering_of)
        return
    here = build.compare("slt", panel, first.count)
    build.when(
        here,
        lambda: _one(build, first, panel, lowering_of),
        lambda: _one_of(build, rest, build.sub(panel, first.count), lowering_of),
    )


def _one(build: LoopBuilder, group: _Group, panel: SSAValue, lowering_of: LoweringOf) -> None:
    """One panel of a group of products: that of the member whose turn it is."""
    first = group.members[0]
    chosen, local = _turn(build, group, panel)
    following = None
    if len(group.members) > 1:
        # Behind the last panel of one weight comes the first one of the next.
        operands, number = _turn(build, group, build.add(panel, 1), only=1)
        following = (operands[1], number)
    extras = len(first.extras)
    body = first.body[0].clone() if first.body else None
    product = MatmulOp(
        chosen[:2],
        [],
        chosen[2 + extras :],
        first.own_properties,
        body,
        extras=chosen[2 : 2 + extras],
    )
    product.attributes.update(first.attributes)
    build.do(product)
    lowering_of(product).emit_panel(local, following)
    product.detach()
    product.erase()


def _turn(
    build: LoopBuilder, group: _Group, panel: SSAValue, only: int | None = None
) -> tuple[list[SSAValue], SSAValue]:
    """The operands of the member whose turn it is, or only that one, and which panel of it."""
    chosen, local = list(group.members[0].operands), panel
    for number, member in enumerate(group.members[1:], 1):
        start = number * group.panels
        reached = build.compare("sge", panel, start)
        chosen = [
            old
            if old is new or only not in (None, place)
            else build.insert(arith.SelectOp(reached, new, old))
            for place, (old, new) in enumerate(zip(chosen, member.operands, strict=True))
        ]
        local = build.insert(arith.SelectOp(reached, build.sub(panel, start), local))
    return chosen, local
