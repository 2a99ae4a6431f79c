"""Which token comes next: the chain of llama.cpp, drawn with numbers that depend on seed and position alone.

Order: logit bias, penalties, top-k, typical, top-p, min-p, temperature, draw. The random number of a token is
Philox(seed, position), so that a text is the same whatever else is computed beside it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.packages.gguf import GgufPackage
from openinfer.runtime.packages.gguf_fields import Number

Logits: TypeAlias = NDArray[np.float32]
MAX_SEED: Final = (1 << 64) - 1
MAX_BIASED: Final = 4096
_GROUP: Final = 64


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; the defaults are llama.cpp's. Raises InputError OI0584 for a value out of
    range."""

    temperature: float = 0.8
    """0: always the most probable token."""
    top_k: int = 40
    """Only so many of the most probable tokens; 0: all."""
    top_p: float = 0.95
    """Only the most probable tokens whose probabilities add up to this."""
    min_p: float = 0.05
    """Only tokens at least so probable as this share of the most probable one."""
    typical: float = 1.0
    """Only the tokens nearest to the expected surprise that add up to this; 1: all."""
    repeat_penalty: float = 1.0
    """Divides positive logits of tokens that occurred, multiplies negative ones."""
    repeat_last: int = 64
    """The penalties see so many of the last tokens; -1: all, 0: none."""
    frequency_penalty: float = 0.0
    """Taken off the logit for each time that a token occurred."""
    presence_penalty: float = 0.0
    """Taken off the logit of each token that occurred."""
    logit_bias: Mapping[int, float] = field(default_factory=dict[int, float])
    """Added to the logits of tokens; minus infinity: never."""
    seed: int | None = None
    """None: another one each time."""

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0.0, 1e6)
        _within("top_p", self.top_p, 0.0, 1.0)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("typical", self.typical, 0.0, 1.0)
        _within("repeat_penalty", self.repeat_penalty, 1e-3, 1e3)
        _within("frequency_penalty", self.frequency_penalty, -1e3, 1e3)
        _within("presence_penalty", self.presence_penalty, -1e3, 1e3)
        _integer("top_k", self.top_k, 0, 1 << 31)
        _integer("repeat_last", self.repeat_last, -1, 1 << 31)
        if self.seed is not None:
            _integer("seed", self.seed, 0, MAX_SEED)
        if len(self.logit_bias) > MAX_BIASED:
            raise _wrong("logit_bias", f"{len(self.logit_bias)} entries", f"at most {MAX_BIASED}")
        for token, bias in self.logit_bias.items():
            _integer("logit_bias", token, 0, 1 << 31)
            if math.isnan(bias) or bias == math.inf:
                raise _wrong("logit_bias", str(bias), "a number below infinity")

    @staticmethod
    def of(model: Package, **given: Any) -> Sampling:
        """What is `given`, for the rest what the model's file recommends (`general.sampling.*`), then the
        defaults.

        A name that is given as None counts as not given. Tokens that the file says are never drawn get a
        bias of minus infinity. Raises InputError OI0584 for a name that is none and for values out of
        range.
        """
        chosen = {name: value for name, value in given.items() if value is not None}
        known = [row.name for row in fields(Sampling)]
        for name in chosen:
            if name not in known:
                raise InputError(
                    "OI0584",
                    f"{name!r} is no setting of sampling",
                    hint=f"the settings are: {', '.join(known)}",
                )
        if not isinstance(model, GgufPackage):
            return Sampling(**chosen)
        for name, (key, kind) in _KEYS.items():
            value = model.fields.get(f"general.sampling.{key}")
            if isinstance(value, Number) and not isinstance(value.value, bool):
                chosen.setdefault(name, kind(value.value))
        suppressed = model.fields.get("tokenizer.ggml.suppress_tokens")
        if suppressed is not None and not isinstance(suppressed, str | Number):
            never = {int(token): -math.inf for token in suppressed.numbers() if token >= 0}
            chosen["logit_bias"] = {**dict(chosen.get("logit_bias", {})), **never}
        return Sampling(**chosen)


_KEYS: Final[dict[str, tuple[str, type]]] = {
    "temperature": ("temp", float),
    "top_k": ("top_k", int),
    "top_p": ("top_p", float),
    "min_p": ("min_p", float),
    "repeat_last": ("penalty_last_n", int),
    "repeat_penalty": ("penalty_repeat", float),
}
"""Our name of what a file recommends, and its type."""


class Constraint(Protocol):
    """What restricts the tokens that may come next, such as a grammar."""

    def allows(self, token: int) -> bool:
        """Whether `token` may come next."""
        ...

    def mask(self, size: int) -> NDArray[np.bool_]:
        """Which of `size` tokens may come next, `[size]`."""
        ...


class Sampler:
    """Chooses tokens. It keeps nothing between two calls."""

    def __init__(self, sampling: Sampling, size: int | None = None) -> None:
        """`size`: how many tokens the vocabulary has, where a model gives more logits."""
        self.sampling = sampling
        self.size = size
        self.seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
        """The seed that is used, also where none was given."""

    def choose(
        self,
        logits: Logits,
        position: int,
        history: Sequence[int],
        *,
        constraint: Constraint | None = None,
    ) -> int:
        """The next token.

        `logits` are `[V]` and stay as they are; `position` is the place in the text of the token that is
        chosen; `history` are the tokens before it. Raises StepError OI0631 where the logits hold NaN, or
        nothing is left to choose.
        """
        given = self.sampling
        biased = self._penalised(np.asarray(logits, np.float32)[: self.size], history)
        if given.temperature == 0.0:
            token = _best(biased)
            if constraint is None or constraint.allows(token):
                return token
            return _best(np.where(constraint.mask(len(biased)), biased, np.float32(-np.inf)))
        uniform = self._uniform(position)
        token = self._draw(biased, uniform)
        # Most tokens fit: the mask of all of them is made only where the one that was drawn does not.
        if constraint is None or constraint.allows(token):
            return token
        return self._draw(
            np.where(constraint.mask(len(biased)), biased, np.float32(-np.inf)), uniform
        )

    def _uniform(self, position: int) -> float:
        generator = np.random.Generator(np.random.Philox(key=self.seed, counter=position))
        return float(generator.random())

    def _penalised(self, logits: Logits, history: Sequence[int]) -> Logits:
        """The logits with bias and penalties, a copy where something changes."""
        given = self.sampling
        penalties = (
            given.repeat_penalty != 1.0
            or given.frequency_penalty != 0.0
            or given.presence_penalty != 0.0
        )
        changed = logits
        if given.logit_bias:
            tokens = np.fromiter(given.logit_bias.keys(), np.int64)
            biases = np.fromiter(given.logit_bias.values(), np.float32)
            inside = tokens < len(logits)
            changed = logits.copy()
            changed[tokens[inside]] += biases[inside]
        if not penalties or given.repeat_last == 0 or not history:
            return changed
        last = history if given.repeat_last < 0 else history[-given.repeat_last :]
        tokens, counts = np.unique(np.asarray(last, np.int64), return_counts=True)
        inside = (tokens >= 0) & (tokens < len(logits))
        tokens, counts = tokens[inside], counts[inside].astype(np.float32)
        values = changed[tokens]
        values = np.where(
            values > 0, values / given.repeat_penalty, values * given.repeat_penalty
        ).astype(np.float32)
        values -= counts * np.float32(given.frequency_penalty)
        values -= np.float32(given.presence_penalty)
        changed = changed.copy() if changed is logits else changed
        changed[tokens] = values
        return changed

    def _draw(self, logits: Logits, uniform: float) -> int:
        given = self.sampling
        tokens = _ranked(logits, given.top_k)
        scores = logits[tokens].astype(np.float64)
        if given.typical < 1.0:
            kept = _typical(scores, given.typical)
            tokens, scores = tokens[kept], scores[kept]
        if given.top_p < 1.0:
            total = np.cumsum(_softmax(scores))
            count = int(np.searchsorted(total, given.top_p)) + 1
            tokens, scores = tokens[:count], scores[:count]
        if given.min_p > 0.0:
            kept = scores >= scores[0] + math.log(given.min_p)
            tokens, scores = tokens[kept], scores[kept]
        # A temperature near 0 may make differences infinite, which is what it means.
        with np.errstate(over="ignore"):
            total = np.cumsum(_softmax((scores - scores[0]) / given.temperature))
        place = int(np.searchsorted(total, uniform * total[-1], side="right"))
        return int(tokens[min(place, len(tokens) - 1)])

    @staticmethod
    def logprobs(logits: Logits, token: int, top: int = 0) -> tuple[float, list[tuple[int, float]]]:
        """The logarithm of the probability of `token` by the raw `logits` `[V]`, and the `top` most
        probable tokens with theirs, most probable first."""
        values = np.asarray(logits, np.float32)
        largest = values.max()
        # Exponentials in f32 are exact to 1e-7, and much faster; their sum is not rounded to f32.
        total = float(np.exp(values - largest).sum(dtype=np.float64))
        norm = float(largest) + math.log(total)
        best = _ranked(values, top) if top > 0 else []
        return float(values[token]) - norm, [(int(one), float(values[one]) - norm) for one in best]


def _ranked(logits: Logits, count: int) -> NDArray[np.int64]:
    """The `count` tokens with the largest logits (0: all), largest first; of equals the one with the
    smaller id."""
    if not logits.max(initial=-np.inf) > -np.inf:
        raise _nothing(logits)
    found = np.flatnonzero(logits >= _border(logits, count))
    found = found[logits[found] > -np.inf]
    order = np.argsort(-logits[found], kind="stable")
    return found[order][: count or None].astype(np.int64)


def _border(logits: Logits, count: int) -> np.float32:
    """A number that at least `count` logits reach, and not many more: the `count`-th largest of the maxima of
    groups, which costs much less than the `count`-th largest of all."""
    groups = len(logits) // _GROUP
    if not 0 < count < groups:
        return np.float32(-np.inf)
    maxima = logits[: groups * _GROUP].reshape(groups, _GROUP).max(axis=1)
    return np.partition(maxima, groups - count)[groups - count]


def _best(logits: Logits) -> int:
    token = int(np.argmax(logits))
    if not logits[token] > -np.inf:
        raise _nothing(logits)
    return token


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of logits whose largest stands first or anywhere."""
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def _typical(scores: NDArray[np.float64], mass: float) -> NDArray[np.int64]:
    """The tokens whose surprise is nearest to the entropy and whose probabilities add up to `mass`; in
    their order."""
    probabilities = _softmax(scores)
    surprise = scores.max() + math.log(float(np.exp(scores - scores.max()).sum())) - scores
    entropy = float((probabilities * surprise).sum())
    order = np.argsort(np.abs(surprise - entropy), kind="stable")
    count = int(np.searchsorted(np.cumsum(probabilities[order]), mass)) + 1
    return np.sort(order[:count])


def _nothing(logits: Logits) -> StepError:
    if np.isnan(logits).any():
        return StepError(
            "OI0631",
            "the model's logits hold NaN",
            hint="the weights are damaged, or overflow in the precision that was asked for",
        )
    return StepError(
        "OI0631",
        "no token is left to choose: all are forbidden",
        hint="forbid fewer tokens in `logit_bias`, or ask for a schema that text can follow",
    )


def _within(name: str, value: object, low: float, high: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(name, repr(value), f"a number from {low:g} to {high:g}")


def _integer(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(name, repr(value), f"an integer from {low} to {high}")


def _wrong(name: str, found: str, wanted: str) -> InputError:
    return InputError("OI0584", f"{name} is {found:.60}", hint=f"give {wanted}")
