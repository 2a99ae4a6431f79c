"""Answers that follow a JSON schema, by the library `llguidance` (extra `grammar`)."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.compiler.tools.extras import missing_library
from openinfer.runtime.errors import InputError

if TYPE_CHECKING:
    from llguidance import LLTokenizer

MAX_SCHEMA: Final = 64 << 10
"""Characters of a schema."""
_WHITE_SPACE: Final = r"[\x20\x0A\x0D\x09]{0,20}"
"""Any layout, but no white space without end."""
_LOCK = threading.Lock()
_PREPARED: WeakKeyDictionary[Tokenizer, LLTokenizer] = WeakKeyDictionary()


class Grammar:
    """The tokens that may come next in a text that follows a schema; a `Constraint` of `Sampler.choose`.

    Raises UnsupportedError OI0734 without the library, InputError OI0585 for a schema that it cannot follow.
    """

    def __init__(self, tokenizer: Tokenizer, schema: Mapping[str, Any] | None) -> None:
        """`schema` None: any JSON object."""
        if find_spec("llguidance") is None:
            raise missing_library("llguidance", "grammar")
        from llguidance import LLMatcher

        try:
            text = json.dumps({"type": "object"} if schema is None else dict(schema))
            if len(text) > MAX_SCHEMA:
                raise ValueError(
                    f"it has {len(text)} characters, at most {MAX_SCHEMA} are possible"
                )
            grammar = LLMatcher.grammar_from_json_schema(
                text, overrides={"whitespace_pattern": _WHITE_SPACE}
            )
        except (TypeError, ValueError, RecursionError) as error:
            raise _unusable(str(error)) from None
        self._matcher = LLMatcher(_prepared(tokenizer), grammar, log_level=0)
        self._check()

    def allows(self, token: int) -> bool:
        return bool(self._matcher.validate_tokens([token]))

    def mask(self, size: int) -> NDArray[np.bool_]:
        """Which of `size` tokens may come next, `[size]`."""
        packed = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        bits = np.unpackbits(packed, bitorder="little")[:size]
        mask = np.zeros(size, np.bool_)
        mask[: len(bits)] = bits
        return mask

    def accept(self, token: int) -> None:
        """`token` was chosen. Raises InputError OI0585 for one that the schema does not allow."""
        self._matcher.consume_token(token)
        self._check()

    @property
    def finished(self) -> bool:
        """Whether the text is whole and nothing may follow but its end."""
        return self._matcher.is_stopped()

    def _check(self) -> None:
        if self._matcher.is_error():
            raise _unusable(self._matcher.get_error())


class _Tokens:
    """The vocabulary as the library asks for it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.eos if tokenizer.eos is not None else min(tokenizer.ends)
        self.bos_token_id = tokenizer.bos
        hidden = set(tokenizer.controls.values())
        self.special_token_ids = sorted(hidden)
        self.tokens = [tokenizer.piece(token, special=True) for token in range(tokenizer.size)]

        prefixed = tokenizer.vocabulary.add_space_prefix
        self._numbers = {data: n for n, data in enumerate(self.tokens)} if prefixed else None

    def __call__(self, text: str) -> list[int]:
        """Tokens whose bytes are those of `text` and no more: not the space that some vocabularies put before
        each text, with which the library would leave its tables."""
        ids = self._tokenizer.encode(text)
        if self._numbers is None or not ids:
            return ids
        rest = self.tokens[ids[0]].removeprefix(b" ")
        if rest in self._numbers:
            return [self._numbers[rest], *ids[1:]]
        single = [self._numbers[rest[n : n + 1]] for n in range(len(rest))]
        return [*single, *ids[1:]]


def _prepared(tokenizer: Tokenizer) -> LLTokenizer:
    """The library's tables of a vocabulary, made once: they take up to some seconds."""
    from llguidance import LLTokenizer, TokenizerWrapper

    with _LOCK:
        found = _PREPARED.get(tokenizer)
        if found is None:
            if not tokenizer.ends:
                raise _unusable("the model has no token that ends an answer")
            wrapped = TokenizerWrapper(_Tokens(tokenizer))
            ends = sorted(tokenizer.ends)
            found = LLTokenizer(wrapped, n_vocab=tokenizer.size, eos_token=ends)
            _PREPARED[tokenizer] = found
        return found


def _unusable(problem: str) -> InputError:
    # Where the library panics, its stack follows in more lines.
    problem = problem.partition("\n<backtrace>")[0]
    return InputError(
        "OI0585",
        f"the JSON schema cannot be followed: {problem:.300}",
        hint="give a simpler schema",
    )
