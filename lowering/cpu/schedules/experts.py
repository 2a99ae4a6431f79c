"""Products with chosen matrices: rows that chose one expert meet its matrix together.

Before:
    nn.expert_matmul(%x, %w, %chosen) outs(%y) scratch(pairs = %pairs, ends = %ends)
      : (memref<?x1x64xf32>, memref<8x96x64xf16>, memref<?x2xi32>, memref<?x2x96xf32>, …) -> ()

After:
    scf.for … { … } {openinfer.parallel}       // one round: counts, ends and pairs, sorted by expert
    scf.for %n = %c0 to %c96 step %c32 {       // rows of the matrices, shared by the threads
      scf.for %e = %c0 to %c8 step %c1 {
        scf.for %row = … step %c4 {            // four rows of w[%e] meet four of its rows of x at a time
          scf.for %at = … step %c4 {           // sums run along %k in vectors
            … } } } } {openinfer.parallel}

Matrices in `#nn.blocks` are read panel by panel (`lowering/cpu/schedules/expert_blocks.py`):
    scf.for %n = %c0 to %c6 step %c1 { scf.for %e = … { scf.for %row = … { … } } } {openinfer.parallel}

A matrix is read where it lies, as it is stored, once in a step; none that nobody chose. Each sum has the
same order for one row as for many.

Requires: bufferised; contiguous operands; the scratch buffers of `expert_scratch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product as pairs_of

from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.extensions.arith import IndexCastOp
from openinfer.dialects.nn import ExpertMatmulOp, dims_of
from openinfer.lowering.cpu.machine import Machine, machine_of
from openinfer.lowering.cpu.schedules.expert_blocks import ChosenBlocks, ChosenBytes
from openinfer.lowering.cpu.schedules.microkernel import Arithmetic, Carried, over_tiles
from openinfer.lowering.cpu.schedules.packing import Matrix
from openinfer.lowering.cpu.schedules.product import Columns, Extents
from openinfer.lowering.demands import Scratch
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.elements import convert
from openinfer.lowering.kernels.epilogue import Epilogue
from openinfer.lowering.kernels.numeric import element_type, index_to, reduction
from openinfer.lowering.kernels.rules import Rule
from openinfer.lowering.kernels.runs import collapse
from openinfer.lowering.kernels.scratch import scratch_of

ROWS = 4
"""Rows of a matrix that share what is read of x."""
BLOCK = 32
"""Rows of each matrix that are one piece of work."""


def expert_scratch(op: ExpertMatmulOp) -> list[Scratch]:
    """The scratch buffers that the lowering of `op`, on tensors, wants after its result."""
    positions, choices = dims_of(op.inputs[2])
    experts = dims_of(op.inputs[1])[0]
    return [
        Scratch("pairs", i32, (positions * choices,)),
        Scratch("ends", i32, (experts + 2,)),
    ]


class _Experts:
    """Emits the loops of one `nn.expert_matmul` on buffers."""

    def __init__(self, build: LoopBuilder, op: ExpertMatmulOp, machine: Machine) -> None:
        self.build = build
        x, self.w, chosen = op.inputs
        kind = element_type(op.output)
        self.how = Arithmetic(kind, machine.lanes(kind), machine.fused)
        if build.facts.strict_math:
            self.how = replace(self.how, lanes=1)
        self.together = 4 if machine.registers >= 32 else 2
        """Rows of x that meet the same rows of a matrix."""
        self.layout = op.layout
        self.experts, self.depth = build.dim(self.w, 0), build.dim(self.w, 2)
        self.columns = build.dim(op.output, 2)
        self.in_bytes = op.in_bytes
        self.machine = machine
        self.choices = build.dim(chosen, 1)
        self.shared = build.dim(x, 1) == 1
        """Whether the choices of a position read one row."""
        self.x = collapse(build, x, [[0, 1], [2]])
        self.out = collapse(build, op.output, [[0, 1], [2]])
        self.chosen = collapse(build, chosen, [[0, 1]])
        self.pairs, self.ends = scratch_of(op, "pairs", "ends")

    def emit(self) -> None:
        build = self.build
        # Everybody needs it: one piece of work, in front of the others.
        build.loop(0, 1, 1, lambda _: self._sort(), parallel=True, hint="once")
        if self.layout is not None:
            build.loop(0, build.dim(self.w, 1), 1, self._panel, parallel=True, hint="n")
            return
        build.loop(0, self.columns, BLOCK, self._block, parallel=True, hint="n")

    def _get(self, buffer: SSAValue, place: Index) -> SSAValue:
        return self.build.insert(IndexCastOp(self.build.load(buffer, [place]), IndexType()))

    def _put(self, value: SSAValue, buffer: SSAValue, place: Index) -> None:
        self.build.store(index_to(self.build, value, i32), buffer, [place])

    def _sort(self) -> None:
        """pairs = those of expert 0, of expert 1, …; `ends[e + 1]` is the end of the run of expert e."""
        build = self.build
        count = build.dim(self.chosen, 0)
        cells = build.plus(self.experts, 2)
        zero = build.index(0)
        build.loop(0, cells, 1, lambda cell: self._put(zero, self.ends, cell), hint="e")

        def counted(pair: SSAValue) -> None:
            cell = build.add(self._get(self.chosen, pair), 2)
            self._put(build.add(self._get(self.ends, cell), 1), self.ends, cell)

        def begun(cell: SSAValue) -> None:
            before = self._get(self.ends, build.sub(cell, build.index(1)))
            self._put(build.add(self._get(self.ends, cell), before), self.ends, cell)

        def placed(pair: SSAValue) -> None:
            cell = build.add(self._get(self.chosen, pair), 1)
            place = self._get(self.ends, cell)
            self._put(pair, self.pairs, place)
            self._put(build.add(place, 1), self.ends, cell)

        build.loop(0, count, 1, counted, hint="p")
        build.loop(1, cells, 1, begun, hint="e")
        build.loop(0, count, 1, placed, hint="p")

    def _run(self, expert: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Where the pairs of an expert begin and end."""
        return self._get(self.ends, expert), self._get(self.ends, self.build.add(expert, 1))

    def _line(self, pair: SSAValue) -> SSAValue:
        """The row of x that a pair reads."""
        if self.shared and self.choices != 1:
            return self.build.floordiv(pair, self.choices)
        return pair

    def _panel(self, panel: SSAValue) -> None:
        """One panel of all matrices."""
        layout, build = self.layout, self.build
        assert layout is not None
        assert isinstance(self.depth, int)
        steps = self.depth * layout.format.elements  # Rows of a panel are rows of blocks.

        def one(expert: SSAValue) -> None:
            begin, end = self._run(expert)
            kind = ChosenBytes if self.in_bytes else ChosenBlocks
            product = kind(
                build,
                self.how,
                self.machine,
                Matrix(self.x),
                False,
                Columns(Matrix(self.w, (expert,)), True, layout.columns),
                Extents(build.minus(end, begin), steps, self.columns),
                Epilogue(build, self.out, [], None),
                (),
                layout=layout,
                pair_at=lambda row: self._get(self.pairs, build.plus(begin, row)),
                line_of=self._line,
            )
            chosen = build.compare("ne", begin, end)
            build.when(chosen, lambda: product.panel(panel))

        build.loop(0, self.experts, 1, one, hint="e")

    def _block(self, first: SSAValue) -> None:
        """Some rows of all matrices."""
        build = self.build
        known = isinstance(self.columns, int) and self.columns % BLOCK == 0
        count = BLOCK if known else build.minimum(build.minus(self.columns, first), BLOCK)

        def one(expert: SSAValue) -> None:
            begin, end = self._run(expert)
            run = build.minus(end, begin)

            def rows(row: Index, size: int, _: Carried) -> Carried:
                matrix = [build.index(build.plus(row, n)) for n in range(size)]

                def tile(at: Index, size: int, _: Carried) -> Carried:
                    self._tile(expert, matrix, [build.plus(at, n) for n in range(size)])
                    return ()

                return over_tiles(build, run, self.together, tile, start=begin, hint="at")

            over_tiles(build, count, ROWS, rows, start=first, hint="row")

        build.loop(0, self.experts, 1, one, hint="e")

    def _tile(self, expert: SSAValue, rows: Sequence[SSAValue], places: Sequence[Index]) -> None:
        build, how = self.build, self.how
        pairs = [self._get(self.pairs, place) for place in places]
        lines = [self._line(pair) for pair in pairs]

        def step(k: SSAValue, sums: Sequence[SSAValue], mask: SSAValue | None) -> list[SSAValue]:
            def read(buffer: SSAValue, at: list[Index]) -> SSAValue:
                return how.widen(build, build.vload(buffer, [*at, k], how.lanes, mask))

            ours = [read(self.x, [line]) for line in lines]
            theirs = [read(self.w, [expert, row]) for row in rows]
            return [
                how.multiply_add(build, left, right, total)
                for (left, right), total in zip(pairs_of(ours, theirs), sums, strict=True)
            ]

        zeros = [build.constant(0, how.vector)] * (len(pairs) * len(rows))
        whole = build.round_down(self.depth, how.lanes)
        sums = build.reduce(
            0,
            whole,
            how.lanes,
            zeros,
            lambda k, old: step(k, old, None),
            hint="k",
            sums="products",
            beside=how.lanes,
        )
        if how.lanes > 1 and whole != self.depth:
            mask = build.mask(build.minus(self.depth, whole), how.lanes)
            sums = step(build.index(whole), sums, mask)
        for (pair, row), total in zip(pairs_of(pairs, rows), sums, strict=True):
            value = convert(build, reduction(build, "add", total), element_type(self.out))
            build.store(value, self.out, [pair, row])


def _expert_matmul(b: LoopBuilder, op: Operation) -> bool:
    assert isinstance(op, ExpertMatmulOp)
    _Experts(b, op, machine_of(op)).emit()
    return True


RULES: dict[str, Rule] = {ExpertMatmulOp.name: _expert_matmul}
