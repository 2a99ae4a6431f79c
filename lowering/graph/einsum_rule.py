"""The rule of einsum: products of matrices where axes are summed, of elements where none are.

    einsum(x, w, equation="bld,hd->blh")
        %m = nn.reshape(%x)                    // [b * l, d]
        %y = nn.matmul(%m, %w) {transpose_b}   // [b * l, h]
        nn.reshape(%y)

Operands are joined in pairs from left to right. An axis that nothing else needs is summed before.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import Attribute, SSAValue

from openinfer.dialects import nn
from openinfer.dialects.nn.elements import element_type
from openinfer.dialects.ops.base import product
from openinfer.dialects.ops.einsum import equation_of, label_sizes
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.op_rules import Call, op_rule
from openinfer.lowering.graph.scalars import computed, dtype_of, narrowed, number, widened
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size

_ONE = Size.of(1)


@dataclass(frozen=True)
class _Term:
    """A value and the names of its axes, each of them once."""

    value: SSAValue
    labels: tuple[str, ...]

    @property
    def dims(self) -> tuple[Size, ...]:
        return nn.dims_of(self.value)


@op_rule("einsum")
def _einsum(call: Call) -> Sequence[SSAValue]:
    specs = [TensorSpec(dtype_of(v), nn.dims_of(v)) for v in call.operands]
    equation = equation_of(call.settings["equation"], [spec.rank for spec in specs])
    made = _Sums(call, label_sizes(equation, specs), equation.result)
    terms = [made.term(*row) for row in zip(call.operands, equation.operands)]
    first, *others = terms
    for place, term in enumerate(others):
        later = {label for other in others[place + 1 :] for label in other.labels}
        first = made.joined(first, term, {*equation.result, *later})
    return [narrowed(call, made.arranged(first, equation.result), call.type)]


@dataclass(frozen=True)
class _Sums:
    """Builds the parts of one einsum."""

    call: Call
    sizes: dict[str, Size]
    result: tuple[str, ...]

    def term(self, value: SSAValue, labels: Sequence[str]) -> _Term:
        """An operand, with the diagonal of axes of one name, and without those of 1 that broadcast."""
        call = self.call
        dtype = dtype_of(value)
        if not DTYPES[dtype].is_float:
            value = widened(call, value, computed(dtype))
        dims = nn.dims_of(value)
        kept = [d for d, (label, size) in enumerate(zip(labels, dims)) if size == self.sizes[label]]
        value = call.reshape(value, [dims[d] for d in kept])
        names = [labels[d] for d in kept]
        while len(set(names)) < len(names):
            second = next(d for d, label in enumerate(names) if label in names[:d])
            value = self._diagonal(value, names.index(names[second]), second)
            del names[second]
        return _Term(value, tuple(names))

    def _diagonal(self, value: SSAValue, first: int, second: int) -> SSAValue:
        """The elements that have one index along two axes, without the second one."""
        call = self.call
        value = widened(call, value, computed(dtype_of(value)))
        dims, element = nn.dims_of(value), nn.element_of(value)
        size, rank = dims[first], len(dims)
        line = call.add(nn.IotaOp, [], nn.tensor_type(i64, [size]), axis=nn.int_setting(0))
        along = [call.reshape(line, (size, *[_ONE] * (rank - d - 1))) for d in (first, second)]
        square = tuple(size if d in (first, second) else _ONE for d in range(first, rank))
        equal = call.elementwise("eq", along, nn.tensor_type(i1, square))
        zero = number(call, 0.0 if DTYPES[dtype_of(value)].is_float else 0, element)
        kept = call.elementwise("where", [equal, value, zero], nn.tensor_type(element, dims))
        return self._sum(kept, [second])

    def _sum(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        call = self.call
        value = widened(call, value, computed(dtype_of(value)))
        dims = [size for d, size in enumerate(nn.dims_of(value)) if d not in axes]
        kind = nn.tensor_type(nn.element_of(value), dims)
        return call.add(
            nn.ReduceOp, [value], kind, kind=StringAttr("sum"), axes=nn.ints_setting(axes)
        )

    def _summed(self, term: _Term, needed: Collection[str]) -> _Term:
        """The sum over all axes that nobody needs."""
        axes = [d for d, label in enumerate(term.labels) if label not in needed]
        if not axes:
            return term
        kept = tuple(label for label in term.labels if label in needed)
        return _Term(self._sum(term.value, axes), kept)

    def arranged(self, term: _Term, labels: Sequence[str]) -> SSAValue:
        """The sum over the axes that are not among the labels, in their order."""
        term = self._summed(term, labels)
        return self.call.transpose(term.value, [term.labels.index(label) for label in labels])

    def joined(self, a: _Term, b: _Term, needed: Collection[str]) -> _Term:
        """The product of two terms, summed over the axes that nobody needs behind it."""
        a = self._summed(a, {*needed, *b.labels})
        b = self._summed(b, {*needed, *a.labels})
        if all(label in needed for label in a.labels if label in b.labels):
            return self._by_elements(a, b)
        return self._by_matrices(a, b, needed)

    def _by_elements(self, a: _Term, b: _Term) -> _Term:
        labels = (*a.labels, *(label for label in b.labels if label not in a.labels))
        wide = computed(dtype_of(a.value)), computed(dtype_of(b.value))
        dtype = "f64" if "f64" in wide else wide[0]
        dims = tuple(self.sizes[label] for label in labels)

        def aligned(term: _Term) -> SSAValue:
            shown = [label for label in labels if label in term.labels]
            value = self.call.transpose(term.value, [term.labels.index(label) for label in shown])
            sizes = [self.sizes[label] if label in term.labels else _ONE for label in labels]
            return widened(self.call, self.call.reshape(value, sizes), dtype)

        kind = nn.tensor_type(element_type(dtype), dims)
        return _Term(self.call.elementwise("mul", [aligned(a), aligned(b)], kind), labels)

    def _by_matrices(self, a: _Term, b: _Term, needed: Collection[str]) -> _Term:
        call = self.call
        shared = [label for label in a.labels if label in b.labels]
        batch = [label for label in shared if label in needed]
        inner = [label for label in shared if label not in needed]
        left = [label for label in a.labels if label not in shared]
        right = [label for label in b.labels if label not in shared]
        # As the operands lie where that is a matrix.
        down = a.labels == (*batch, *inner, *left)
        across = b.labels == (*batch, *right, *inner)
        matrices = (
            self._matrix(a, batch, *((inner, left) if down else (left, inner))),
            self._matrix(b, batch, *((right, inner) if across else (inner, right))),
        )
        lead = [product([self.sizes[label] for label in batch])] if batch else []
        rows, columns = (product([self.sizes[label] for label in part]) for part in (left, right))
        value = call.add(
            nn.MatmulOp,
            matrices,
            nn.tensor_type(
                self._product_element(a, b, {*batch, *left, *right}), (*lead, rows, columns)
            ),
            transpose_a=UnitAttr() if down else None,
            transpose_b=UnitAttr() if across else None,
        )
        labels = (*batch, *left, *right)
        return _Term(call.reshape(value, [self.sizes[label] for label in labels]), labels)

    def _matrix(self, term: _Term, *parts: Sequence[str]) -> SSAValue:
        """The term as `[batch, rows, columns]`, without a batch where that has no axes."""
        order = [term.labels.index(label) for part in parts for label in part]
        value = self.call.transpose(term.value, order)
        sizes = [product([self.sizes[label] for label in part]) for part in parts]
        return self.call.reshape(value, sizes if parts[0] else sizes[1:])

    def _product_element(self, a: _Term, b: _Term, labels: Collection[str]) -> Attribute:
        """What a product is rounded to: wide, but for the result where nothing follows."""
        dtypes = dtype_of(a.value), dtype_of(b.value)
        if "f64" in dtypes:
            return element_type("f64")
        last = set(labels) == set(self.result) and len(self.call.operands) == 2
        if last and DTYPES[dtypes[0]].is_float:
            kind: TensorType[Attribute] = self.call.type
            return kind.element_type
        return element_type(computed(dtypes[0]))
