"""Which tiles keep a device busy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from openinfer.lowering.kernels.builder import Index

BUSY = 128
"""Workgroups that keep a large device busy."""
FEW_COLUMNS = 1024
"""Where only the step knows the rows: columns of which small tiles keep a device busy."""


class Sides(Protocol):
    """The tile of a workgroup."""

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...


AnyTile = TypeVar("AnyTile", bound=Sides)


def busy_tile(tiles: Sequence[AnyTile], extents: Sequence[Index], rows: int | None) -> AnyTile:
    """The largest of some tiles, large ones first, of which a device has enough to do. `rows` are those that
    a kernel is made for; None where there may be few: then it is one of the last two."""
    *_, medium, small = tiles
    *batches, _, columns = extents
    if not isinstance(columns, int):
        return medium
    if rows is None:
        return small if columns <= FEW_COLUMNS else medium
    many = product_of_known(batches)
    for tile in tiles[:-1]:
        if many * groups_across(rows, tile.rows) * groups_across(columns, tile.columns) >= BUSY:
            return tile
    return small


def idle_rows(columns: int, side: int) -> int:
    """The most rows of which square tiles of a side leave a part of the device idle."""
    return (groups_across(BUSY, groups_across(columns, side)) - 1) * side


def groups_across(extent: int, side: int) -> int:
    """How many tiles cover an extent."""
    return -(-extent // side)


def product_of_known(extents: Sequence[Index]) -> int:
    """The product of the extents that are numbers."""
    total = 1
    for extent in extents:
        total *= extent if isinstance(extent, int) else 1
    return total
