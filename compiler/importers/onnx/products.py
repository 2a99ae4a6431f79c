"""Products of matrices."""

from __future__ import annotations

from openinfer.compiler.importers.graph_writer import Value
from openinfer.compiler.importers.onnx.items import Item
from openinfer.compiler.importers.onnx.node import Node, Result, operator
from openinfer.compiler.importers.onnx.origin import provenance
from openinfer.compiler.importers.onnx.refusals import DAMAGED, TYPE, Refusal


@operator("MatMul")
def matmul(node: Node) -> Result:
    name_weight(node, node.item(1))
    return product_of(node, node.x(0), node.x(1))


def name_weight(node: Node, item: Item) -> None:
    """Gives a weight that an exporter turned, and called `val_90`, the name of the module that uses it."""
    module = provenance(node.proto).module
    plain = "." not in item.name or item.name.startswith("onnx::")
    if item.weight and item.tensor is None and item.rank == 2 and plain and "." in module:
        item.name = f"{module}.weight"


def product_of(node: Node, a: Value, b: Value, **settings: object) -> Value:
    """`a @ b`; vectors count as a row on the left and a column on the right."""
    g = node.g
    if a.rank == 0 or b.rank == 0:
        raise Refusal(DAMAGED, f"{node.op} of a number")
    row, column = a.rank == 1, b.rank == 1
    a = g.op("reshape", a, shape=[1, *a.dims]) if row else a
    b = g.op("reshape", b, shape=[*b.dims, 1]) if column else b
    result = g.op("matmul", a, b, **settings)
    axes = [*([result.rank - 2] if row else []), *([result.rank - 1] if column else [])]
    return g.op("squeeze", result, axes=axes) if axes else result


@operator("Gemm")
def gemm(node: Node) -> Result:
    g, a, b = node.g, node.x(0), node.x(1)
    node.ignore("broadcast")
    alpha, beta = node.float("alpha", 1.0), node.float("beta", 1.0)
    transpose_a, transpose_b = node.flag("transA"), node.flag("transB")
    whole = a.dtype[0] in "iu"
    if a.rank != 2 or b.rank != 2:
        raise Refusal(DAMAGED, f"Gemm of tensors of rank {a.rank} and {b.rank}")
    c = node.optional(2)
    if (
        *(not transpose_a, transpose_b, alpha == 1.0, beta == 1.0, not whole),
        c is not None and c.rank == 1 and c.dims == b.dims[:1],
    ) == (True,) * 6:
        assert c is not None
        return g.op("linear", a, b, c)
    settings = {"transpose_a": True} if transpose_a else {}
    if transpose_b:
        settings["transpose_b"] = True
    result = g.op("matmul", a, b, **settings)
    if alpha != 1.0:
        if whole:
            raise Refusal(TYPE, f"Gemm of integers with alpha={alpha} is not supported")
        result = g.op("mul", result, alpha)
    if c is None:
        return result
    if beta != 1.0:
        if whole:
            raise Refusal(TYPE, f"Gemm of integers with beta={beta} is not supported")
        c = g.op("mul", c, beta)
    return g.op("add", result, c)


@operator("Einsum")
def einsum(node: Node) -> Result:
    operands = [node.x(place) for place in range(len(node.inputs))]
    equation = "".join(node.text("equation", "").split())
    return node.g.op("einsum", *operands, equation=equation)


@operator("Det")
def determinant(node: Node) -> Result:
    """By elimination of columns for sizes that are known and small: Laplace's expansion."""
    x = node.x()
    size = x.dims[-1].constant
    node.need(
        x.rank >= 2 and x.dims[-2] == x.dims[-1] and size is not None and 1 <= size <= 4,
        "matrices that are not square, or larger than 4 by 4",
    )
    assert size is not None
    elements = [[_element(node, x, row, column) for column in range(size)] for row in range(size)]
    return _laplace(node, elements)


def _element(node: Node, x: Value, row: int, column: int) -> Value:
    g, rank = node.g, x.rank
    cut = g.op(
        "slice", x, axes=[rank - 2, rank - 1], starts=[row, column], stops=[row + 1, column + 1]
    )
    return g.op("squeeze", cut, axes=[rank - 2, rank - 1])


def _laplace(node: Node, rows: list[list[Value]]) -> Value:
    if len(rows) == 1:
        return rows[0][0]
    total: Value | None = None
    for column, element in enumerate(rows[0]):
        rest = [[one for i, one in enumerate(row) if i != column] for row in rows[1:]]
        term = node.g.op("mul", element, _laplace(node, rest))
        if total is None:
            total = term
        else:
            total = node.g.op("sub" if column % 2 else "add", total, term)
    assert total is not None
    return total
