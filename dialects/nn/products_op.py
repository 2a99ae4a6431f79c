"""Several products of one left operand as one operation of `nn`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.ir import Attribute, Region, SSAValue
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

    Inputs: the left operand, then for each product its right operand, which has a layout, and the
    extra operands of its body. `parts` has the settings of each product as `nn.matmul` has them, with
    `body` where the next region is its body. Every output is what `nn.matmul` would give, bit by bit.

        %q, %k = nn.products(%x, %wq, %bq, %wk) {parts = [
            {body, layout = #nn.panels<32>, maps = […]}, {layout = #nn.panels<32>}]} {…} :
            (tensor<4x8xf32>, tensor<1x8x32xf32>, tensor<32xf32>, tensor<1x8x32xf32>)
            -> (tensor<4x32xf32>, tensor<4x32xf32>)
    """

    name = "nn.products"
    parts = prop_def(ArrayAttr[DictionaryAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (3, None)

    @classmethod
    def of(cls, products: Sequence[MatmulOp]) -> ProductsOp:
        """The products as one operation; their bodies are copied, they stay as they are."""
        inputs: list[SSAValue] = [products[0].inputs[0]]
        parts: list[DictionaryAttr] = []
        bodies: list[Region] = []
        for op in products:
            settings = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"}
            inputs += op.inputs[1:]
            if op.body:
                settings[HAS_BODY] = UnitAttr()
                bodies.append(op.body[0].clone())
            parts.append(DictionaryAttr(dict(sorted(settings.items()))))
        results: list[Attribute] = [op.result[0].type for op in products if op.result]
        outs = [op.outs[0] for op in products if op.outs]
        return cls(inputs, results, outs, {"parts": ArrayAttr(parts)}, bodies)

    @contextmanager
    def split(self) -> Generator[list[MatmulOp]]:
        """The products as operations of their own, as long as the context lasts; in no block."""
        made: list[MatmulOp] = []
        try:
            rest, bodies = iter(self.inputs[1:]), iter(self.body)
            for number, part in enumerate(self.parts):
                settings = {k: v for k, v in part.data.items() if k != HAS_BODY}
                body = next(bodies).clone() if HAS_BODY in part.data else None
                operands = [self.inputs[0], *(next(rest) for _ in range(1 + _extras(part)))]
                results = [] if self.outs else [self.result[number].type]
                outs = [self.outs[number]] if self.outs else []
                made.append(MatmulOp(operands, results, outs, settings, body))
            yield made
        finally:
            for op in made:
                if op.parent is None:
                    op.erase()

    def layout_at(self, index: int) -> LayoutAttr | None:
        right = 1
        for part in self.parts:
            layout = part.data.get("layout")
            if index == right and isinstance(layout, LayoutAttr):
                return layout
            right += 1 + _extras(part)
        return None

    def verify_(self) -> None:
        count = len(self.parts)
        if count < 2 or len(self.outs or self.result) != count:
            refuse(self, f"{count} products give {len(self.outs or self.result)} results")
        operands = 1 + sum(1 + _extras(part) for part in self.parts)
        bodies = sum(HAS_BODY in part.data for part in self.parts)
        if len(self.inputs) != operands or len(self.body) != bodies:
            refuse(
                self,
                f"the settings are those of {operands} inputs and {bodies} bodies, "
                f"found {len(self.inputs)} and {len(self.body)}",
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
