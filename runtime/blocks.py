"""Block formats of quantised weights: neighbours along the last axis share scales and lie in one block.

Names, ids and sizes are those of GGUF (`ggml-common.h` of llama.cpp). What the bytes of a block mean is in
`runtime/unpacking.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockFormat:
    """A block: so many elements of a row, in so many bytes."""

    name: str
    gguf_id: int
    elements: int
    nbytes: int


BLOCKS: dict[str, BlockFormat] = {
    row.name: row
    for row in (
        #           name   id elements bytes
        BlockFormat("q8_0", 8, 32, 34),
        BlockFormat("q4_0", 2, 32, 18),
        BlockFormat("q4_1", 3, 32, 20),
        BlockFormat("q5_0", 6, 32, 22),
        BlockFormat("q5_1", 7, 32, 24),
        BlockFormat("q2_k", 10, 256, 84),
        BlockFormat("q3_k", 11, 256, 110),
        BlockFormat("q4_k", 12, 256, 144),
        BlockFormat("q5_k", 13, 256, 176),
        BlockFormat("q6_k", 14, 256, 210),
        BlockFormat("iq4_nl", 20, 32, 18),
        BlockFormat("iq4_xs", 23, 256, 136),
        BlockFormat("mxfp4", 39, 32, 17),
    )
}
