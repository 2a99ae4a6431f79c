"""What a step wrote down for its device: words of 64 bits, `lowering/vulkan/lower_dispatches.py` says which.

    words[0]        how many words are in use
    words[1:]       calls one behind the other; the first word of a call is its row in the manifest

Behind the words stands the address of what machine code knows of such steps (`known_steps.py`), or 0.

A launch has three numbers of workgroups, address and bytes of each buffer, and the words of the kernel;
a move has the addresses of source and target, and the bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from openinfer.runtime.storage import AnyArray

RECORD_WORDS: Final = 1 << 16
USED: Final = 0
KNOWN: Final = RECORD_WORDS
HEAD: Final = 1
SUBMIT: Final = "openinfer_submit"
"""The function that steps call when the runtime has to read the record."""
EXACT_PLACE: Final = -1
"""In `CallRow.places`: the buffer is bound where it begins, and no word says where that is."""
TO_DEVICE, TO_HOST, COPY = "transfer to device", "transfer to host", "copy"
"""Rows that move bytes."""
MOVES: Final = frozenset({TO_DEVICE, TO_HOST, COPY})


def empty_record() -> AnyArray:
    """A record of no calls."""
    words = np.zeros(RECORD_WORDS + 1, np.int64)
    words[USED] = HEAD
    return words
