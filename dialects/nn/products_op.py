"""Several products of one left operand as one operation of `nn`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.ir import Attribute, Region
from xdsl.irdl import irdl_op_definition, prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.checks import refuse
from openinfer.dialects.nn.layouts import LayoutAttr
from openinfer.dialects.nn.structured_ops import MatmulOp

HAS_BODY = "body"
"""Says in a part's settings that a region of the operation is its body."""


@irdl_op_definition
class ProductsOp(NNOp):
    """`x·W1, x·W2, …`: one pass over the panels of all right operands, an output for each.

    Inputs: the left operand, then the right operand of each product, which has a layout; the extra
    operands of all bodies stand together, in the same order. `parts` has the settings of each product
    as `nn.matmul` has them, with `body` where the next region is its body. Every output is what
    `nn.matmul` would give, bit by bit.

        %q, %k = nn.products(%x, %wq, %wk) extras(%bq) {parts = [
            {body, layout = #nn.panels<32>, maps = […]}, {layout = #nn.panels<32>}]} {…} :
            (tensor<4x8xf32>, tensor<1x8x32xf32>, tensor<1x8x32xf32>, tensor<32xf32>)
            -> (tensor<4x32xf32>, tensor<4x32xf32>)
    """

    name = "nn.products"
    parts = prop_def(ArrayAttr[DictionaryAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (3, None)

    @classmethod
    def of(cls, products: Sequence[MatmulOp]) -> ProductsOp:
        """The products as one operation; their bodies are copied, they stay as they are."""
        inputs = [products[0].left, *(op.right for op in products)]
        extras = [value for op in products for value in op.extras]
        parts: list[DictionaryAttr] = []
        bodies: list[Region] = []
        for op in products:
            settings = op.own_properties
            if op.body:
                settings[HAS_BODY] = UnitAttr()
                bodies.append(op.body[0].clone())
            parts.append(DictionaryAttr(dict(sorted(settings.items()))))
        results: list[Attribute] = [op.result[0].type for op in products if op.result]
        outs = [op.outs[0] for op in products if op.outs]
        return cls(inputs, results, outs, {"parts": ArrayAttr(parts)}, bodies, extras=extras)

    @contextmanager
    def split(self) -> Generator[list[MatmulOp]]:
        """The products as operations of their own, as long as the context lasts; in no block."""
        made: list[MatmulOp] = []
        try:
            rest, bodies = iter(self.extras), iter(self.body)
            for number, (right, part) in enumerate(zip(self.inputs[1:], self.parts)):
                settings = {k: v for k, v in part.data.items() if k != HAS_BODY}
                body = next(bodies).clone() if HAS_BODY in part.data else None
                extras = [next(rest) for _ in range(_extras(part))]
                results = [] if self.outs else [self.result[number].type]
                outs = [self.outs[number]] if self.outs else []
                made.append(
                    MatmulOp([self.inputs[0], right], results, outs, settings, body, extras=extras)
                )
            yield made
        finally:
            for op in made:
                if op.parent is None:
                    op.erase()

    def layout_at(self, index: int) -> LayoutAttr | None:
        if not 1 <= index <= len(self.parts):
            return None
        layout = self.parts.data[index - 1].data.get("layout")
        return layout if isinstance(layout, LayoutAttr) else None

    def verify_(self) -> None:
        count = len(self.parts)
        if count < 2 or len(self.outs or self.result) != count:
            refuse(self, f"{count} products give {len(self.outs or self.result)} results")
        wanted = (
            1 + count,
            sum(map(_extras, self.parts)),
            sum(HAS_BODY in part.data for part in self.parts),
        )
        found = (len(self.inputs), len(self.extras), len(self.body))
        if found != wanted:
            refuse(
                self,
                f"the settings are those of {wanted[0]} inputs, {wanted[1]} extra operands and "
                f"{wanted[2]} bodies, found {found[0]}, {found[1]} and {found[2]}",
            )
        if any("layout" not in part.data for part in self.parts):
            refuse(self, "every right operand has a layout")
        if any("transpose_a" in part.data for part in self.parts):
            refuse(self, "the left operand is not transposed")
        with self.split() as products:
            for op in products:
                op.verify_()


def _extras(part: DictionaryAttr) -> int:
    """How many extra operands the body of a product has."""
    maps = part.data.get("maps")
    return len(maps.data) if isinstance(maps, ArrayAttr) else 0
