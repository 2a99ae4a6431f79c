"""Sentences to token numbers, with the model's own `tokenizer.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.compiler.tools.extras import missing_library
from openinfer.runtime.errors import InputError, PackageError

MAX_TOKENS = 512
"""As many positions as the model has embeddings for."""

Array = np.ndarray[Any, Any]


class Tokens:
    """The tokenizer of a model: no padding to a fixed length, cut off after `MAX_TOKENS`."""

    def __init__(self, folder: Path) -> None:
        """Reads `folder/tokenizer.json`. Raises UnsupportedError, PackageError."""
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise missing_library("tokenizers", "minilm") from None
        path = folder / "tokenizer.json"
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise PackageError(
                "OI0402", f"{path} is no tokenizer: {error}", hint="download the file again"
            ) from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def encode(self, sentences: Sequence[str]) -> tuple[Array, Array]:
        """Token numbers and mask, both i64 [sentences, longest]; padding is 0 in both.

        Raises InputError for text that is not Unicode.
        """
        for sentence in sentences:
            try:
                sentence.encode()
            except UnicodeEncodeError:
                raise InputError(
                    "OI0513", f"{sentence!r} is not UTF-8 text", hint="give it as UTF-8"
                ) from None
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch(list(sentences))]
        longest = max((len(row) for row in rows), default=0)
        tokens = np.zeros((len(rows), longest), np.int64)  # (sentences, longest)
        mask = np.zeros_like(tokens)
        for number, row in enumerate(rows):
            tokens[number, : len(row)] = row
            mask[number, : len(row)] = 1
        return tokens, mask
