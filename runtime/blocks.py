"""Block formats of quantised weights: neighbours along the last axis share a scale and lie in one block.

The sizes are those of GGUF (`ggml-common.h` of llama.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BlockFormat:
    """A block: so many elements of a row, in so many bytes."""

    name: str
    elements: int
    nbytes: int


BLOCKS: dict[str, BlockFormat] = {
    row.name: row
    for row in (
        #           name  elements bytes
        BlockFormat("q8_0", 32, 34),
        BlockFormat("q4_0", 32, 18),
        BlockFormat("q4_1", 32, 20),
        BlockFormat("q5_0", 32, 22),
        BlockFormat("q5_1", 32, 24),
        BlockFormat("q4_k", 256, 144),
        BlockFormat("q5_k", 256, 176),
        BlockFormat("q6_k", 256, 210),
    )
}
