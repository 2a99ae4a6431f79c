"""One stage of a Fourier transform by the Stockham method: the result comes out in order.

A stage sees its row of `n` complex numbers as `count` groups of `stride` neighbours and turns
`radix` parts of them at once:

    y[q + s*(p*k + r)] = w^(k*r*s) * sum over u of x[q + s*(k + m*u)] * w^(u*r*n/p)

for q < s, k < m = count / p, r < p and w = exp(-2 pi i / n). The next stage has count m and stride
s*p. Neighbours q are independent, so vectors lie along them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.runs import Extent, fitting_lanes, vector_run
from openinfer.runtime.quick_dataclass import dataclass

UNROLLED = 7
"""The largest radix whose sums are written out."""

Complex = tuple[SSAValue, SSAValue]


def radices(length: int) -> list[int]:
    """Factors of a length: fours first, so that later stages have long runs of neighbours."""
    found: list[int] = []
    for factor in (4, 2, 3, 5):
        while length % factor == 0:
            found.append(factor)
            length //= factor
    factor = 7
    while length > 1:
        if factor * factor > length:
            factor = length
        if length % factor == 0:
            found.append(factor)
            length //= factor
        else:
            factor += 2
    return found


@dataclass(frozen=True)
class Row:
    """A row of complex numbers: two rows of a buffer `[threads, 4, n]`, real and imaginary parts."""

    buffer: SSAValue
    thread: SSAValue
    part: int
    """0 or 2: the row of the real parts."""

    def load(self, b: LoopBuilder, place: Index, lanes: int, mask: SSAValue | None) -> Complex:
        real, imaginary = (
            b.load(self.buffer, at) if lanes == 1 else b.vload(self.buffer, at, lanes, mask)
            for at in self._places(place)
        )
        return real, imaginary

    def store(
        self, b: LoopBuilder, value: Complex, place: Index, lanes: int, mask: SSAValue | None
    ) -> None:
        for number, at in zip(value, self._places(place)):
            if lanes == 1:
                b.store(number, self.buffer, at)
            else:
                b.vstore(number, self.buffer, at, mask)

    def _places(self, place: Index) -> tuple[list[Index], list[Index]]:
        return [self.thread, self.part, place], [self.thread, self.part + 1, place]


@dataclass(frozen=True)
class Stage:
    """Emits one stage from one row to another; `table` holds cosines and sines `[2, n]`."""

    b: LoopBuilder
    table: SSAValue
    computed: Attribute
    length: int
    radix: int
    count: int
    stride: int
    lanes: int

    @property
    def parts(self) -> int:
        """How far the parts lie apart, in groups."""
        return self.count // self.radix

    def emit(self, source: Row, target: Row) -> None:
        b = self.b
        extent = Extent((self.stride,))
        lanes = 1 if self.stride == 1 else fitting_lanes(extent, self.lanes)

        def group(k: SSAValue) -> None:
            if lanes == 1:
                self._butterfly(source, target, k, b.index(0), 1, None)
                return
            vector_run(
                b,
                extent,
                lanes,
                lambda q, mask: self._butterfly(source, target, k, q, lanes, mask),
                hint="q",
            )

        b.loop(0, self.parts, 1, group, hint="k")

    def _butterfly(
        self,
        source: Row,
        target: Row,
        k: SSAValue,
        q: SSAValue,
        lanes: int,
        mask: SSAValue | None,
    ) -> None:
        if self.radix > UNROLLED:
            self._long_butterfly(source, target, k, q, lanes, mask)
            return
        b, s = self.b, self.stride
        start = b.add(q, b.mul(k, s))
        values = [
            source.load(b, b.add(start, s * self.parts * u), lanes, mask) for u in range(self.radix)
        ]
        first = b.add(q, b.mul(k, s * self.radix))
        for r in range(self.radix):
            total = self._sum(values, r)
            if r and self.parts > 1:
                total = self._turned(total, b.mul(k, r * s), lanes)
            target.store(b, total, b.add(first, s * r), lanes, mask)

    def _sum(self, values: Sequence[Complex], r: int) -> Complex:
        """The sum over u of values[u] times a fixed phase."""
        total = values[0]
        for u, value in enumerate(values[1:], 1):
            term = self._fixed(value, (u * r) % self.radix)
            total = self._add(total, term)
        return total

    def _fixed(self, value: Complex, number: int) -> Complex:
        """`value * exp(-2 pi i number / radix)` with as little arithmetic as the phase allows."""
        real, imaginary = value
        quarter, rest = divmod(4 * number, self.radix)
        if rest == 0:
            match quarter:
                case 0:
                    return value
                case 1:
                    return imaginary, self._negated(real)
                case 2:
                    return self._negated(real), self._negated(imaginary)
                case _:
                    return self._negated(imaginary), real
        angle = 2 * math.pi * number / self.radix
        cosine = self.b.constant(math.cos(angle), real.type)
        sine = self.b.constant(math.sin(angle), real.type)
        return self._product(value, (cosine, sine))

    def _turned(self, value: Complex, number: SSAValue, lanes: int) -> Complex:
        """`value * exp(-2 pi i number / n)`, the phase from the table."""
        b = self.b
        cosine, sine = (b.load(self.table, [part, number]) for part in (0, 1))
        if lanes > 1:
            cosine, sine = b.splat(cosine, lanes), b.splat(sine, lanes)
        return self._product(value, (cosine, sine))

    def _long_butterfly(
        self,
        source: Row,
        target: Row,
        k: SSAValue,
        q: SSAValue,
        lanes: int,
        mask: SSAValue | None,
    ) -> None:
        """The same with loops over r and u, for a radix whose sums would be long to write out."""
        b, s, p = self.b, self.stride, self.radix
        start = b.add(q, b.mul(k, s))
        first = b.add(q, b.mul(k, s * p))

        def output(r: SSAValue) -> None:
            value = source.load(b, start, lanes, mask)

            def term(u: SSAValue, total: Sequence[SSAValue]) -> Complex:
                here = source.load(b, b.add(start, b.mul(u, s * self.parts)), lanes, mask)
                number = b.mul(b.rem(b.mul(u, r), p), self.length // p)
                return self._add((total[0], total[1]), self._turned(here, number, lanes))

            real, imaginary = b.reduce(1, p, 1, value, term, hint="u", sums="products")
            turned = self._turned((real, imaginary), b.mul(b.mul(k, r), s), lanes)
            target.store(b, turned, b.add(first, b.mul(r, s)), lanes, mask)

        b.loop(0, p, 1, output, hint="r")

    # Complex arithmetic

    def _add(self, x: Complex, y: Complex) -> Complex:
        b = self.b
        return b.insert(arith.AddfOp(x[0], y[0])), b.insert(arith.AddfOp(x[1], y[1]))

    def _negated(self, value: SSAValue) -> SSAValue:
        return self.b.insert(arith.NegfOp(value))

    def _product(self, value: Complex, phase: Complex) -> Complex:
        """`(a + b i) * (cosine - sine i)`"""
        b = self.b
        (real, imaginary), (cosine, sine) = value, phase

        def times(x: SSAValue, y: SSAValue) -> SSAValue:
            return b.insert(arith.MulfOp(x, y))

        return (
            b.insert(arith.AddfOp(times(real, cosine), times(imaginary, sine))),
            b.insert(arith.SubfOp(times(imaginary, cosine), times(real, sine))),
        )
