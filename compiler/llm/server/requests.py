"""What clients may ask for: bodies in JSON, read field by field, each mistake with the name of its field."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from openinfer.compiler.llm.sampling import MAX_SEED, Sampling
from openinfer.compiler.llm.server.errors import RequestError, wrong
from openinfer.compiler.llm.stops import StopStrings
from openinfer.runtime.errors import InputError
from openinfer.runtime.packages.base import Package

MAX_CHOICES: Final = 8
MAX_PROMPTS: Final = 256
MAX_ALTERNATIVES: Final = 20
_SAMPLING: Final = {
    "temperature": "temperature",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    # Names of llama.cpp's server.
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical",
    "repeat_penalty": "repeat_penalty",
    "repeat_last_n": "repeat_last",
}
"""Fields of a request that are fields of `Sampling`."""


class Body:
    """A request's object; its fields are taken with the type that they must have. Null counts as absent."""

    def __init__(self, data: bytes) -> None:
        try:
            found = json.loads(data.decode("utf-8"), parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the body is no JSON: {error}", code="invalid_json") from None
        if not isinstance(found, dict):
            raise RequestError(400, "the body is no JSON object", code="invalid_json")
        self.fields = cast("dict[str, Any]", found)

    def get(self, name: str) -> Any:
        return self.fields.get(name)

    def text(self, name: str) -> str | None:
        found = self.get(name)
        if found is not None and not isinstance(found, str):
            raise wrong(name, "is no text")
        return found

    def flag(self, name: str) -> bool:
        found = self.get(name)
        if found is not None and not isinstance(found, bool):
            raise wrong(name, "is neither true nor false")
        return bool(found)

    def integer(self, name: str, low: int, high: int) -> int | None:
        found = self.get(name)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            raise wrong(name, f"is {found!r:.40}, not an integer from {low} to {high}")
        return found

    def table(self, name: str) -> dict[str, Any] | None:
        found = self.get(name)
        if found is not None and not isinstance(found, dict):
            raise wrong(name, "is no object")
        return cast("dict[str, Any] | None", found)

    def rows(self, name: str) -> list[Any] | None:
        found = self.get(name)
        if found is not None and not isinstance(found, list):
            raise wrong(name, "is no list")
        return cast("list[Any] | None", found)

    def refuse(self, name: str, allowed: Sequence[Any], why: str) -> None:
        """Raises RequestError where a field asks for something that is not there."""
        found = self.get(name)
        if found is not None and found not in allowed:
            raise wrong(name, why)


@dataclass(frozen=True)
class Options:
    """What chats and completions have in common."""

    sampling: Sampling
    most: int | None
    """Tokens that an answer may have."""
    choices: int
    stops: tuple[str, ...]
    stream: bool
    usage: bool
    """A stream ends with the numbers of tokens."""
    logprobs: int | None
    constrained: bool
    schema: Mapping[str, Any] | None
    """Where `constrained`: the schema of the answer, None for any object."""

    def sampling_of(self, choice: int) -> Sampling:
        """That of one choice: with a seed, each has one of its own."""
        seed = self.sampling.seed
        return (
            self.sampling
            if seed is None
            else replace(self.sampling, seed=(seed + choice) & MAX_SEED)
        )


def options_of(body: Body, model: Package, *, chat: bool, most: int | None) -> Options:
    """The options of a request; `most` is the limit of the server for tokens of an answer."""
    given: dict[str, Any] = {
        ours: body.get(name) for name, ours in _SAMPLING.items() if body.get(name) is not None
    }
    given |= {"logit_bias": bias} if (bias := _bias(body)) else {}
    stops = body.get("stop")
    stops = [stops] if isinstance(stops, str) else body.rows("stop") or []
    try:
        StopStrings(stops)
        sampling = Sampling.of(model, **given)
    except InputError as error:
        raise _of_field(error) from None
    name = (
        "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    )
    wanted = body.integer(name, 1, 1 << 31)
    if wanted is not None and most is not None and wanted > most:
        raise wrong(name, f"is {wanted}, this server gives at most {most} tokens")
    stream = body.flag("stream")
    more = body.table("stream_options") or {}
    constrained, schema = _format(body)
    return Options(
        sampling=sampling,
        most=wanted if wanted is not None else most,
        choices=body.integer("n", 1, MAX_CHOICES) or 1,
        stops=tuple(stops),
        stream=stream,
        usage=stream and more.get("include_usage") is True,
        logprobs=_logprobs(body, chat),
        constrained=constrained,
        schema=schema,
    )


def prompts_of(body: Body, name: str) -> list[str | list[int]]:
    """Texts or token ids: one or a list of them."""
    found = body.get(name)
    if isinstance(found, str):
        return [found]
    if not isinstance(found, list) or not found:
        raise wrong(name, "is neither a text nor a list of texts or tokens")
    rows = cast("list[Any]", found)
    if all(type(row) is int for row in rows):
        return [rows]
    if len(rows) > MAX_PROMPTS:
        raise wrong(name, f"has {len(rows)} entries, at most {MAX_PROMPTS} are possible")
    for row in rows:
        ids = (
            isinstance(row, list)
            and row
            and all(type(one) is int for one in cast("list[Any]", row))
        )
        if not isinstance(row, str) and not ids:
            raise wrong(name, "has an entry that is neither a text nor a list of tokens")
    return rows


def _of_field(error: InputError) -> RequestError:
    """The error of a sampling parameter under the name that it has in requests."""
    fix = f" ({error.hint})" if error.hint else ""
    for name, ours in _SAMPLING.items():
        if error.message.startswith(f"{ours} is "):
            return wrong(name, error.message.removeprefix(f"{ours} ") + fix)
    param = "stop" if "stop strings" in error.message else None
    return RequestError(400, error.message + fix, param=param, code=error.code)


def _bias(body: Body) -> dict[int, float]:
    biases: dict[int, float] = {}
    for token, bias in (body.table("logit_bias") or {}).items():
        number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not token.isascii() or not token.isdigit() or len(token) > 9 or not number:
            raise wrong(
                "logit_bias", f"has the entry {token!r:.40}: {bias!r:.40}, not a token and a number"
            )
        # OpenAI's interface means -100 as never.
        biases[int(token)] = -math.inf if bias <= -100 else float(bias)
    return biases


def _logprobs(body: Body, chat: bool) -> int | None:
    if not chat:
        return body.integer("logprobs", 0, MAX_ALTERNATIVES)
    alternatives = body.integer("top_logprobs", 0, MAX_ALTERNATIVES)
    if not body.flag("logprobs"):
        if alternatives is not None:
            raise wrong("top_logprobs", "needs `logprobs`: true")
        return None
    return alternatives or 0


def _format(body: Body) -> tuple[bool, Mapping[str, Any] | None]:
    """Whether the answer must be JSON, and by which schema."""
    wanted = body.table("response_format")
    if wanted is None or wanted.get("type") == "text":
        return False, None
    if wanted.get("type") == "json_object":
        return True, None
    if wanted.get("type") == "json_schema":
        row = wanted.get("json_schema")
        schema = cast("dict[str, Any]", row).get("schema") if isinstance(row, dict) else None
        if not isinstance(schema, dict):
            raise wrong("response_format", "has no object at json_schema.schema")
        return True, cast("dict[str, Any]", schema)
    raise wrong("response_format", "has another type than text, json_object or json_schema")


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")
