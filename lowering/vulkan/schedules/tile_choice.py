"""Tiles that were measured on a device, and what every tile must satisfy.

A tile is a fact of the target (`openinfer.device_tiles`). A schedule asks for the one of its product:

    rows of all batches are known                  the row of that many rows
    only the step knows the rows, no batches       the row of the most rows that start this kernel

Without a row it chooses by the limits of the device. A row that no kernel can be made of is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import AnyFloat, FixedBitwidthType, MemRefType
from xdsl.ir import SSAValue

from openinfer.lowering.vulkan.schedules.forms import forms_of
from openinfer.lowering.vulkan.schedules.matmul_finish import LONG, VERY_LONG, Part, widest_and_most
from openinfer.lowering.vulkan.schedules.matmul_matrices import (
    LANES,
    SIDE,
    SUBGROUP,
    MatrixTile,
)
from openinfer.lowering.vulkan.schedules.matmul_operands import Product
from openinfer.lowering.vulkan.schedules.matmul_shared import wide_of
from openinfer.lowering.vulkan.schedules.matmul_sizes import product_of_known
from openinfer.lowering.vulkan.schedules.matmul_tiles import Tile, shared_bytes
from openinfer.lowering.vulkan.schedules.matmul_workgroup import (
    MOST_OF_MATRIX,
    SIDES,
    SIZES,
    WorkgroupTile,
)
from openinfer.lowering.vulkan.schedules.wide import BYTES
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.errors import InputError
from openinfer.runtime.tuning_device import DeviceProduct, DeviceTile

MOST_SUMS = 128
"""Sums of an invocation,"""
MOST_MATRICES = 24
"""and matrices of sums of a subgroup, that fit registers."""


def why_no_matrix_tile(tile: DeviceTile, transposed: bool, device: DeviceDescription) -> str | None:
    """Why a device cannot compute a product in a tile of matrices; None where it can."""
    rows, columns, depth, each_row, each_column, along = tile.numbers
    if reason := _why_no_parts(tile):
        return reason
    if each_row % SIDE or each_column % SIDE:
        return f"{each_row}x{each_column} of a subgroup are no multiples of {SIDE}"
    if depth % along or depth // along % SIDE:
        return f"{depth} steps over {along} subgroups are no multiples of {SIDE}"
    found = MatrixTile(*tile.numbers)
    if reason := _why_no_workgroup(found.size, device):
        return reason
    for what, count in (("rows", rows), ("columns", columns)):
        if count * depth // LANES % found.size:
            return (
                f"{count} {what} by {depth} steps in accesses of {LANES} are no multiple of its "
                f"{found.size} invocations"
            )
    lines = [(rows, depth), (columns, depth) if transposed else (depth, columns)]
    operands = sum(first * (second // LANES + 1) * BYTES for first, second in lines)
    down, across = each_row // SIDE, each_column // SIDE
    if down * across > MOST_MATRICES:
        return f"{each_row}x{each_column} are more than {MOST_MATRICES} matrices for a subgroup"
    for ends in map(widest_and_most, (1, LONG, VERY_LONG)):
        part = Part(SIDE, down, across, along, found.subgroups, SUBGROUP, *ends)
        part = part.within(device.shared_memory - operands)
        if reason := _why_no_room(operands + part.bytes, device):
            return reason
        if part.together not in (1, 2, 4, 8) or not part.is_even:
            return f"strips of {part.width} columns do not share out over {along} subgroups"
    return None


def why_no_tile(tile: DeviceTile, bits: int, device: DeviceDescription) -> str | None:
    """The same of a tile without matrices, whose sums have some bits."""
    rows, columns, depth, each_row, each_column, along = tile.numbers
    if along != 1:
        return "invocations do not share sums"
    if reason := _why_no_parts(tile):
        return reason
    if each_row * each_column > MOST_SUMS:
        return f"{each_row}x{each_column} are more than {MOST_SUMS} sums for an invocation"
    size = Tile(*tile.numbers[:5]).size
    if reason := _why_no_workgroup(size, device):
        return reason
    for what, count, each in (("rows", rows, each_row), ("columns", columns, each_column)):
        # However the operand lies: what an invocation writes to shared memory at once.
        wide = max(wide_of(depth, each, bits, along=along) for along in (True, False))
        if count * depth % (size * wide):
            return (
                f"{count} {what} by {depth} steps in accesses of {wide} are no multiple of its "
                f"{size} invocations"
            )
    return _why_no_room(shared_bytes(Tile(*tile.numbers[:5]), bits), device)


def _why_no_parts(tile: DeviceTile) -> str | None:
    if tile.rows % tile.each_row or tile.columns % tile.each_column:
        return f"{tile.rows}x{tile.columns} are no multiples of {tile.each_row}x{tile.each_column}"
    return None


def _why_no_workgroup(size: int, device: DeviceDescription) -> str | None:
    if size > device.invocations:
        return f"it takes {size} invocations, the device has {device.invocations} for a workgroup"
    return f"its {size} invocations are no power of two" if size & size - 1 else None


def _why_no_room(nbytes: int, device: DeviceDescription) -> str | None:
    most = device.shared_memory
    return f"it takes {nbytes} bytes of shared memory of {most}" if nbytes > most else None


def measured_matrix_tile(found: Product, rows: int | None) -> MatrixTile | None:
    """The measured tile of matrices of a product; None where there is none. `rows` as `busy_tile` has them.

    Raises InputError OI0532 for a tile that cannot be.
    """
    row = _row_of(found, rows, matrices=True)
    if row is None:
        return None
    device = found.b.facts.device_description
    _refuse(row, why_no_matrix_tile(row.tile, row.product.transposed, device))
    return MatrixTile(*row.tile.numbers)


def measured_workgroup_tile(found: Product, rows: int | None) -> WorkgroupTile | None:
    """The same of matrices that a workgroup holds."""
    row = _row_of(found, rows, workgroup=True)
    if row is None:
        return None
    _refuse(row, why_no_workgroup_tile(row.tile, found.b.facts.device_description))
    tile = row.tile
    return WorkgroupTile(tile.rows, tile.columns, tile.depth, _threads_of(tile))


def _threads_of(tile: DeviceTile) -> int:
    return tile.rows // tile.each_row * (tile.columns // tile.each_column) * SUBGROUP


def why_no_workgroup_tile(tile: DeviceTile, device: DeviceDescription) -> str | None:
    """Why no workgroup can hold a tile; None where one can."""
    if reason := _why_no_parts(tile):
        return reason
    if tile.along != 1:
        return "a workgroup holds all sums"
    for extent, unit in ((tile.rows, SIDES), (tile.columns, SIDES), (tile.depth, SIDE)):
        if extent % unit or extent > MOST_OF_MATRIX:
            return f"{extent} is no multiple of {unit} up to {MOST_OF_MATRIX}"
    size = _threads_of(tile)
    if size not in SIZES:
        return f"its {size} invocations are none of {', '.join(map(str, SIZES))}"
    return _why_no_workgroup(size, device)


def measured_tile(found: Product, rows: int | None) -> Tile | None:
    """The same of tiles without matrices."""
    row = _row_of(found, rows)
    if row is None:
        return None
    assert isinstance(found.sums, FixedBitwidthType)
    device = found.b.facts.device_description
    _refuse(row, why_no_tile(row.tile, found.sums.bitwidth, device))
    return Tile(*row.tile.numbers[:5])


@dataclass(frozen=True)
class _Row:
    product: DeviceProduct
    tile: DeviceTile


def _refuse(row: _Row, reason: str | None) -> None:
    if reason is not None:
        raise InputError(
            "OI0532",
            f"the tile {row.tile} of the product {row.product} cannot be: {reason}",
            hint="take the row out of the table of tiles, or measure again: `openinfer tune`",
        )


def _row_of(found: Product, rows: int | None, **by: bool) -> _Row | None:
    tiles = found.b.facts.device_description.tiles
    product = _product_of(found, by)
    if not tiles or product is None:
        return None
    *batches, extent, _ = found.extents
    if all(isinstance(n, int) for n in (*batches, extent)):
        own = extent if isinstance(extent, int) else 0
        product = replace(product, rows=product_of_known(batches) * own)
        tile = tiles.get(product)
        # Batches lie one behind the other: a tile that does not fit one is cut off in each.
        whole = tile is not None and (product.rows == own or own % tile.rows == 0)
        return _Row(product, tile) if tile is not None and whole else None
    if batches or rows is None:
        return None
    least = max((most for most in forms_of(found.op) if most < rows), default=0)
    fitting = [p for p in tiles if least < p.rows <= rows and replace(product, rows=p.rows) == p]
    return _Row(max(fitting), tiles[max(fitting)]) if fitting else None


def _product_of(found: Product, by: Mapping[str, bool]) -> DeviceProduct | None:
    """How a table names a product, but for its rows; None where it has no name. `by`: what multiplies."""
    left, right = _memory(found.left), _memory(found.right)
    same = left.element_type == right.element_type
    if not same or not isinstance(left.element_type, AnyFloat) or not found.left_along:
        return None
    if any(extent != 1 for extent in right.get_shape()[:-2]):
        return None
    if not isinstance(found.depth, int) or not isinstance(found.columns, int):
        return None
    dtype = str(left.element_type)
    return DeviceProduct(0, found.depth, found.columns, dtype, found.right_along, **by)


def _memory(buffer: SSAValue) -> MemRefType:
    assert isinstance(buffer.type, MemRefType)
    return buffer.type
