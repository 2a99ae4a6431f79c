"""`nn.matmul`, `nn.row_matmul`, `nn.matvec`: the form that fits a product.

    workgroup         f16 by matrices that a whole workgroup holds (`matmul_workgroup.py`)
    matrices          f16 on a device that multiplies matrices (`matmul_matrices.py`)
    tiles             a workgroup computes a tile of the result (`matmul_tiles.py`)
    few rows          a workgroup computes a column, or some (`matmul_few_rows.py`)
    bounded rows      a workgroup computes four columns of a few rows (`matmul_bounded_rows.py`)
    blocks            few rows beside a weight in blocks (`block_panels.py`)
    rows              of a weight that lies as matrices of 16 x 16 (`matmul_rows.py`)
    elements          an invocation computes an element: small products, those of 64 bits whose tiles do not
                      fit shared memory, and, a word at a time, those whose results share bytes

Before:
    nn.matmul(%x, %w) outs(%y) : (memref<?x64xf32>, memref<64x32xf32>, memref<?x32xf32>) -> ()

After, by elements:
    scf.if %inside {
      %sum = scf.for %k = %c0 to %c64 step %c1 iter_args(%s = %zero) -> (f32) {
        %a = memref.load %x[%i, %k]
        %b = memref.load %w[%k, %j]
        … }
      memref.store %sum, %y[%i, %j] : memref<?x32xf32>
    }

Requires: bufferised; a right operand that has no layout but `#nn.tiles<16>`, or `#nn.blocks` and few rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FixedBitwidthType, f32
from xdsl.ir import Operation, SSAValue

from openinfer.dialects.nn import MatmulOp, MatvecOp, RowMatmulOp
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.epilogue import Epilogue, Place, extras_of
from openinfer.lowering.kernels.long_sums import PRODUCTS
from openinfer.lowering.vulkan.schedules.block_panels import few_rows_of_blocks, panels_of
from openinfer.lowering.vulkan.schedules.forms import typical_rows
from openinfer.lowering.vulkan.schedules.grid import (
    Grid,
    HostValue,
    cleared,
    each_group,
    elements_grid,
    groups_for,
    numbered,
    owned,
    packed_bits,
    product,
    split,
)
from openinfer.lowering.vulkan.schedules.matmul_bounded_rows import bound_of, bounded_rows
from openinfer.lowering.vulkan.schedules.matmul_few_rows import few_rows, fits_few_rows
from openinfer.lowering.vulkan.schedules.matmul_joined import problem_of
from openinfer.lowering.vulkan.schedules.matmul_matrices import (
    MatrixTile,
    MatrixTiles,
    fits_matrices,
    matrix_tile,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import Product
from openinfer.lowering.vulkan.schedules.matmul_rows import lower_rows
from openinfer.lowering.vulkan.schedules.matmul_sizes import busy_tile
from openinfer.lowering.vulkan.schedules.matmul_starts import Ends, is_row
from openinfer.lowering.vulkan.schedules.matmul_tiles import (
    FLOATS,
    LARGE,
    SHORT,
    TILES,
    Tile,
    Tiles,
    shared_bytes,
    tile_counts,
)
from openinfer.lowering.vulkan.schedules.matmul_workgroup import (
    by_workgroup,
    fits_workgroup,
    workgroup_tile,
)
from openinfer.lowering.vulkan.schedules.tile_choice import (
    measured_matrix_tile,
    measured_tile,
    measured_workgroup_tile,
)
from openinfer.lowering.vulkan.schedules.workgroup import Workgroup

MOST_LONG = 16
"""Sums of an invocation where they go in blocks: what those add up to takes registers, too."""
FEW = 16
"""Rows, columns or steps of which a tile would be mostly empty."""


def lower_matmul(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a product."""
    assert isinstance(op, MatmulOp)
    found = Product(b, op)
    epilogue = Epilogue(b, op.output, extras_of(op), op.body[0].block if op.body else None)
    if panels_of(op) is not None:
        return few_rows_of_blocks(found, epilogue)
    if op.layout is not None:
        return lower_rows(found, epilogue)
    if packed_bits(found.output):
        return _by_elements(found, epilogue)
    if fits_few_rows(found) and not b.facts.strict_math:
        return few_rows(found, epilogue)
    bound = None if b.facts.strict_math else bound_of(found)
    if bound is not None:
        return bounded_rows(found, epilogue, bound)
    small = any(isinstance(n, int) and n < FEW for n in (found.rows, found.columns, found.depth))
    if small or b.facts.strict_math:
        return _by_elements(found, epilogue)
    rows = typical_rows(op, found.rows)
    by_subgroups = fits_matrices(found)
    by = measured_matrix_tile(found, rows) if by_subgroups else None
    ends = fits_workgroup(found, epilogue)
    if ends is not None and _compiles_soon(found, ends):
        problem, whole = problem_of(found, ends), measured_workgroup_tile(found, rows)
        if whole is None and by is None:
            whole = workgroup_tile(problem, rows)
        if whole is not None:
            return by_workgroup(problem, ends, whole)
    if by_subgroups:
        by = by or matrix_tile(found, rows)
        return _by_tiles(found, by, MatrixTiles(found, epilogue, by, Workgroup(b, by.size)))
    tile = measured_tile(found, rows)
    if tile is None:
        tile = busy_tile(TILES, found.extents, rows)
        if tile.each_row * tile.each_column > MOST_LONG and not is_short(found.depth):
            tile = TILES[1]
    assert isinstance(found.sums, FixedBitwidthType)
    bits, most = found.sums.bitwidth, b.facts.device_description.shared_memory
    if tile == LARGE and found.sums == f32:
        tile = FLOATS
    if tile == LARGE and shared_bytes(tile, bits) > most:
        tile = SHORT
    if shared_bytes(tile, bits) > most:
        return _by_elements(found, epilogue)
    return _by_tiles(found, tile, Tiles(found, epilogue, tile, Workgroup(b, tile.size)))


def lower_row_matmul(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a product with the norm of its rows."""
    assert isinstance(op, RowMatmulOp)
    epilogue = Epilogue(b, op.output, extras_of(op), op.body[0].block if op.body else None)
    return lower_rows(Product(b, op), epilogue)


def lower_matvec(b: LoopBuilder, op: Operation) -> Grid:
    """The kernel of a product of few rows with all that it took in."""
    assert isinstance(op, MatvecOp)
    epilogue = Epilogue(b, op.output, extras_of(op), op.body[0].block if op.body else None)
    form = few_rows if panels_of(op) is None else few_rows_of_blocks
    return form(Product(b, op), epilogue)


def _compiles_soon(found: Product, ends: Ends) -> bool:
    """Whether a driver does not take long for matrices of a workgroup: where rows are unknown and the matrix
    begins as a residual it takes some 28 s (NVIDIA H100, driver 580.159.04), without one 5 s."""
    residual = any(not is_row(extra, len(found.extents)) for extra in ends.starts)
    return isinstance(found.rows, int) or not residual


def is_short(depth: Index) -> bool:
    """Whether products are known to be added up one after another (`block-device-sums`)."""
    return isinstance(depth, int) and depth <= PRODUCTS.most


def _extents(host: LoopBuilder, output: SSAValue, rank: int) -> list[Index]:
    return [host.dim(output, axis) for axis in range(rank)]


def _by_tiles(found: Product, tile: Tile | MatrixTile, tiles: Tiles | MatrixTiles) -> Grid:
    b = found.b
    counts = tile_counts(b, found.extents, tile.rows, tile.columns)
    rank = len(found.extents)

    def one(number: SSAValue) -> None:
        batches, row, column = split(b, number, counts)
        tiles.build(split(b, batches, found.extents[:-2]), row, column)

    each_group(b, product(b, counts), one)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        extents = _extents(host, value_of(found.output), rank)
        return groups_for(host, product(host, tile_counts(host, extents, tile.rows, tile.columns)))

    return Grid(groups, tile.size)


def _by_elements(found: Product, epilogue: Epilogue) -> Grid:
    b, rank = found.b, len(found.extents)

    def element(number: SSAValue) -> None:
        *batch, row, column = split(b, number, found.extents)
        left, right = found.operands(batch)

        def step(k: SSAValue, old: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return [found.more(left.load(row, k), right.load(column, k), old[0])]

        epilogue.prepare(None)
        (total,) = b.reduce(0, found.depth, 1, [found.zero()], step, hint="k")
        epilogue.store(total, Place((*batch, row, column), None))

    count, bits = product(b, found.extents), packed_bits(found.output)
    if bits:
        owned(b, count, bits, element, cleared(b, found.output))
    else:
        numbered(b, count, element)

    def groups(host: LoopBuilder, value_of: HostValue) -> tuple[Index, Index, Index]:
        outside = product(host, _extents(host, value_of(found.output), rank))
        return elements_grid(host, outside, bits)

    return Grid(groups)
