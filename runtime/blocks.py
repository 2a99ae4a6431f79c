"""Block formats of quantised weights: neighbours along the last axis share scales and lie in one block.

Names, ids and sizes are those of GGUF (`ggml-common.h` of llama.cpp). What the bytes of a block mean is in
`runtime/unpacking.py`.
"""

from __future__ import annotations

from functools import cached_property

from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class BlockPart:
    """Neighbouring bytes of a block that are one field of its struct."""

    name: str
    """As in `ggml-common.h`."""
    offset: int
    unit: int
    """Bytes that stay together where the blocks of several columns lie side by side."""
    count: int
    """How many units there are."""


@dataclass(frozen=True)
class BlockFormat:
    """A block: so many elements of a row, in so many bytes."""

    name: str
    gguf_id: int
    elements: int
    nbytes: int
    parts: tuple[BlockPart, ...]
    """All bytes of the block, in their order."""

    @cached_property
    def in_panels(self) -> tuple[tuple[str, int], ...]:
        """All units, part and number, as they stand where columns lie side by side: in the order in which
        kernels read them."""
        if self.name == "q6_k":
            # Four elements of each quarter of one half are two words of `ql` and one of `qh`.
            words = (
                unit
                for half in range(2)
                for n in range(8)
                for unit in (("ql", 16 * half + n), ("ql", 16 * half + n + 8), ("qh", 8 * half + n))
            )
            return (("d", 0), *(("scales", n) for n in range(16)), *words)
        return tuple((part.name, n) for part in self.parts for n in range(part.count))

    @cached_property
    def places(self) -> dict[tuple[str, int], int]:
        """Where the units stand then, in bytes of one column."""
        found: dict[tuple[str, int], int] = {}
        offset = 0
        for name, number in self.in_panels:
            found[name, number] = offset
            offset += self.part(name).unit
        return found

    def part(self, name: str) -> BlockPart:
        """The part of a name. Raises KeyError."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)


def _parts(spelled: str) -> tuple[BlockPart, ...]:
    """Of `d:2 qs:4x8`: names, bytes of a unit, and how many units."""
    found: list[BlockPart] = []
    offset = 0
    for field in spelled.split():
        name, _, size = field.partition(":")
        unit, _, count = size.partition("x")
        found.append(BlockPart(name, offset, int(unit), int(count or 1)))
        offset += found[-1].unit * found[-1].count
    return tuple(found)


IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The 16 values of `iq4_nl` and `iq4_xs`."""
E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Twice the 16 values of a float of two bits of exponent and one of mantissa, `mxfp4`; -0 is 0."""

BLOCKS: dict[str, BlockFormat] = {
    row.name: row
    for row in (
        #           name   id elements bytes  struct
        BlockFormat("q8_0", 8, 32, 34, _parts("d:2 qs:4x8")),
        BlockFormat("q4_0", 2, 32, 18, _parts("d:2 qs:4x4")),
        BlockFormat("q4_1", 3, 32, 20, _parts("d:2 m:2 qs:4x4")),
        BlockFormat("q5_0", 6, 32, 22, _parts("d:2 qh:4 qs:4x4")),
        BlockFormat("q5_1", 7, 32, 24, _parts("d:2 m:2 qh:4 qs:4x4")),
        BlockFormat("q2_k", 10, 256, 84, _parts("scales:1x16 qs:4x16 d:2 dmin:2")),
        BlockFormat("q3_k", 11, 256, 110, _parts("hmask:4x8 qs:4x16 scales:1x12 d:2")),
        BlockFormat("q4_k", 12, 256, 144, _parts("d:2 dmin:2 scales:1x12 qs:4x32")),
        BlockFormat("q5_k", 13, 256, 176, _parts("d:2 dmin:2 scales:1x12 qh:4x8 qs:4x32")),
        BlockFormat("q6_k", 14, 256, 210, _parts("ql:4x32 qh:4x16 scales:1x16 d:2")),
        BlockFormat("iq4_nl", 20, 32, 18, _parts("d:2 qs:4x4")),
        BlockFormat("iq4_xs", 23, 256, 136, _parts("d:2 scales_h:2 scales_l:1x4 qs:4x32")),
        BlockFormat("mxfp4", 39, 32, 17, _parts("e:1 qs:4x4")),
    )
}
