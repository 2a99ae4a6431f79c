"""How the programs of the families keep keys and values: their texts have them in f16."""

from __future__ import annotations

import re
from typing import Final

from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.errors import InputError

CACHE: Final = "f16"
"""What the texts have."""
BLOCK_CACHES: Final = ("q8_0",)
"""Formats of blocks: rows are rounded to them when they are stored, and unpacked when they are read."""
CACHES: Final = (CACHE, "bf16", "f32", *BLOCK_CACHES)
"""What keys and values may be, each of them."""
Cache = str | tuple[str | None, str | None] | None
"""That of both, or of keys and of values; None is the default."""


def kinds_of(cache: Cache, default: str = CACHE) -> tuple[str, str]:
    """The kinds of keys and of values. Raises InputError OI0793 for one that there is none of."""
    keys, values = cache if isinstance(cache, tuple) else (cache, cache)
    found = keys or default, values or default
    for kind in found:
        if kind not in CACHES:
            raise InputError(
                "OI0793", f"there is no cache of {kind!r}", hint=f"there are {', '.join(CACHES)}"
            )
    return found


def cached(text: str, cache: Cache) -> str:
    """A family's text with keys and values of other kinds. Raises InputError OI0793."""
    keys, values = kinds_of(cache)
    for table, new, kind in (("K", "k", keys), ("V", "v", values)):
        text = (_in_blocks if kind in BLOCK_CACHES else _as_dtype)(text, table, new, kind)
    return text


def _as_dtype(text: str, table: str, new: str, kind: str) -> str:
    text = re.sub(rf"^( *{table}\(.*\): ){CACHE}\[", rf"\g<1>{kind}[", text, flags=re.M)
    return re.sub(rf"^( *{new} = op cast\(.*, to=){CACHE}\)", rf"\g<1>{kind})", text, flags=re.M)


def _in_blocks(text: str, table: str, new: str, kind: str) -> str:
    """Rows of the table are bytes of blocks."""
    block = BLOCKS[kind]
    row = rf"u8[\g<2>/{block.elements}*{block.nbytes}]"
    text = re.sub(rf"^( *{table}\(.*\): ){CACHE}\[(\w+)\]", rf"\g<1>{row}", text, flags=re.M)
    call = rf'\g<1>quantize_blocks(\g<2>, format="{kind}")'
    text = re.sub(rf"^( *{new} = op )cast\((.*), to={CACHE}\)", call, text, flags=re.M)
    read = rf"( = op attention\(.*)({table}\[l, slots\[i\], 0\.\.all\])"
    return re.sub(read, rf'\g<1>dequantize_blocks(\g<2>, format="{kind}")', text)
