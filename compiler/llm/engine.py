"""A language model that answers: text in, text out. All commands for language models use it.

engine = Engine("model.gguf")
for piece in engine.generate("Once upon a time", max_tokens=64):
    print(piece, end="")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from openinfer.compiler.llm.kv_cache import Cache, kinds_of
from openinfer.compiler.llm.runner import LOGITS, Floats, Runner, RunnerState, check_contract
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.devices import DEFAULT_DEVICE, SIMULATOR, device_of, kind_of
from openinfer.runtime.errors import InputError, PackageError, UnsupportedError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.quick_dataclass import dataclass

if TYPE_CHECKING:
    from openinfer.compiler.api import Graph
    from openinfer.compiler.llm.sampling import Sampler
    from openinfer.compiler.llm.template import ChatTemplate
    from openinfer.compiler.llm.tokenizer import Tokenizer

ROUNDED: Final = "q8"
"""The precision that rounds an operand of products with weights in blocks."""
ROUNDING: Final = {
    DEFAULT_DEVICE: "rows beside weights in blocks are rounded to 8 bits",
    "vulkan": "weights in blocks are rounded to f16",
}
"""What that means on the devices where it means something."""
DEFAULT_CONTEXT: Final = 4096
"""Of a model that does not say how long its texts may be."""


@dataclass
class Answer(Iterator[str]):
    """The text of an answer, piece by piece, and what is known of it so far."""

    prompt: list[int]
    """The ids of what was asked."""
    tokens: list[int] = field(default_factory=list)
    """The ids of the answer so far, the one that ended it included."""
    reused: int = 0
    """Ids at the beginning of the prompt that had been computed before."""
    finish: str | None = None
    """Why it ended: "stop" for an end token or a stop string, "length" for `max_tokens` or the end of the
    context; None until then."""
    pieces: Iterator[str] = field(default_factory=lambda: iter(()))

    def __next__(self) -> str:
        return next(self.pieces)


class Engine:
    """A model, its program and tokenizer. For one thread at a time.

    `program`: a text, a path or a Graph in place of the family's; what it must be stands in
    `docs/language-models.md`. `device`: one of those of `openinfer devices`, or "simulator". `precision`:
    that of `compile`, None is exact; "q8" is for weights in blocks, and no matter elsewhere.
    `context`: most tokens of a text, default what the model was made for. `cache`: what keys and
    values are kept in, f32, f16, bf16 or q8_0, or a pair; default f16 with "q8" for weights that are narrower
    than f32, f32 else. `slots`: sequences that
    `runner` serves at once. Raises PackageError and UnsupportedError OI0790 to OI0798 for models that cannot
    run, OI0733 for a device that is not here, and what `open_model` and `compile` raise.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Package,
        *,
        program: str | os.PathLike[str] | Graph | None = None,
        device: str = DEFAULT_DEVICE,
        precision: str | None = "q8",
        context: int | None = None,
        threads: int | None = None,
        cache: Cache = None,
        slots: int = 1,
        chunk: int = 128,
    ) -> None:
        from openinfer.compiler.api import Simulator, compile
        from openinfer.compiler.llm.families import open_language_model

        self.model = (
            model
            if isinstance(model, Package)
            else open_language_model(model, named=program is None)
        )
        try:
            self.cache = kinds_of(cache, default_cache(precision, self.model))
            """What the family's program keeps keys, and values, in."""
            self.graph = self._program(context) if program is None else program
            self.precision = used_precision(precision, device, self.model)
            """That of the products; None where they are exact."""
            if device != SIMULATOR and (reason := device_of(device).unavailable_reason()):
                # Before a compilation that nobody can run.
                raise UnsupportedError(
                    "OI0733", reason, hint="`openinfer devices` lists what is here"
                )
            if device == SIMULATOR:
                executor = Simulator(self.graph, self.model).make_executor()
            else:
                weights = sum(info.nbytes for info in self.model.tensors.values())
                with device_of(device).expecting(weights):
                    compiled = compile(self.graph, self.model, device, precision=self.precision)
                    executor = compiled.make_executor(threads)
            check_contract(executor)
            self.runner = Runner(
                executor,
                self._context(context),
                _vocabulary(executor),
                slots=slots,
                chunk=chunk,
            )
        except BaseException:
            if self.model is not model:
                self.model.close()
            raise

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model. Raises UnsupportedError OI0745 where it has none that is known,
        PackageError OI0798 where it has more tokens than the model has logits."""
        from openinfer.compiler.llm.tokenizer import Tokenizer

        found = Tokenizer.of(self.model)
        if found.size > self.runner.vocabulary:
            raise PackageError(
                "OI0798",
                f"{self.model.origin}: the tokenizer has {found.size} tokens, the model scores "
                f"{self.runner.vocabulary}",
                hint="vocabulary and weights are of different models; get the file anew",
            )
        return found

    @cached_property
    def template(self) -> ChatTemplate | None:
        """How the model writes conversations, None for a base model."""
        from openinfer.compiler.llm.template import ChatTemplate

        return ChatTemplate.of(self.model, self.tokenizer)

    def tokenize(self, text: str) -> list[int]:
        """The ids of a whole prompt, with the token that begins one where the model wants it."""
        return self.tokenizer.prompt(text)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        slot: int = 0,
        **sampling: Any,
    ) -> Answer:
        """The continuation of a prompt, as pieces of text that come when they are computed.

        `sampling` are the fields of `Sampling`: temperature, top_k, top_p, min_p, seed, …; what is not given
        is the model's recommendation, else llama.cpp's default. Without `max_tokens` the answer ends with its
        end token, or the context. Raises InputError OI0795, with both numbers, for a prompt that is longer
        than the context.
        """
        from openinfer.compiler.llm.sampling import Sampler, Sampling

        ids = self.tokenize(prompt) if isinstance(prompt, str) else [int(i) for i in prompt]
        if max_tokens is not None and max_tokens < 0:
            raise InputError(
                "OI0796", f"max_tokens is {max_tokens}", hint="give a number from 0 on, or None"
            )
        self.runner.check_prompt(ids)
        sampler = Sampler(Sampling.of(self.model, **sampling), self.tokenizer.size)
        answer = Answer(ids)
        answer.pieces = self._pieces(answer, sampler, max_tokens, stop, slot)
        return answer

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Answer:
        """The model's answer to a conversation: objects with `role` and `content`. `options` are those of
        `generate`. Raises UnsupportedError OI0746 for a base model, which has no form for conversations."""
        from openinfer.compiler.llm.template import no_template

        if self.template is None:
            raise no_template(self.model.origin)
        return self.generate(self.template.encode(messages, tools=tools), **options)

    def embed(self, texts: str | Sequence[str]) -> Floats:
        """[texts, width], f32: the mean of the rows behind the last norm, of length 1 each.

        Raises UnsupportedError OI0794 for a program that does not return `hidden`.
        """
        rows: list[Floats] = []
        for text in [texts] if isinstance(texts, str) else texts:
            hidden = self.runner.feed(0, self.tokenize(text), "all").hidden
            if hidden is None:
                raise UnsupportedError(
                    "OI0794",
                    "the program gives no embeddings",
                    hint="return `hidden`, the rows behind the last norm, beside `logits`",
                )
            mean = hidden.mean(axis=0, dtype=np.float64)
            rows.append((mean / max(np.linalg.norm(mean), 1e-12)).astype(np.float32))
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32)

    def logits(self, ids: Sequence[int]) -> Floats:
        """[len(ids), vocabulary], f32: what follows each token of a text that begins with them."""
        return self.runner.feed(0, ids, "all").logits

    def snapshot(self) -> RunnerState:
        """What the model has read, as a copy."""
        return self.runner.snapshot()

    def restore(self, saved: RunnerState) -> None:
        """As it was at the snapshot; a text goes on from there without being computed again."""
        self.runner.restore(saved)

    def close(self) -> None:
        """Frees memory and ends the threads."""
        self.runner.executor.close()
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pieces(
        self,
        answer: Answer,
        sampler: Sampler,
        max_tokens: int | None,
        stop: str | Sequence[str],
        slot: int,
    ) -> Iterator[str]:
        from openinfer.compiler.llm.stops import StopStrings

        tokenizer, runner = self.tokenizer, self.runner
        stops, stream = StopStrings([stop] if isinstance(stop, str) else stop), tokenizer.stream()
        text = list(answer.prompt)
        answer.reused = runner.reusable(slot, text)
        most = runner.context - len(text)
        if max_tokens is not None:
            most = min(most, max_tokens)
        while len(answer.tokens) < most:
            # What the slot holds of the text is not computed again: as a rule all but the last token.
            scores = runner.feed(slot, text)
            token = sampler.choose(scores.logits[0], len(text), text)
            answer.tokens.append(token)
            text.append(token)
            if token in tokenizer.ends:
                answer.finish = "stop"
                break
            piece, stopped = stops.push(stream.push(token))
            if piece:
                yield piece
            if stopped:
                answer.finish = "stop"
                return
        answer.finish = answer.finish or "length"
        piece, stopped = stops.push(stream.finish())
        rest = piece if stopped else piece + stops.finish()
        if rest:
            yield rest

    def _program(self, context: int | None) -> Graph:
        """That of the family, under its name in messages."""
        from openinfer.compiler.api import Graph
        from openinfer.compiler.llm.families import program_text

        return Graph(
            program_text(self.model, context=context, cache=self.cache), "the model's program"
        )

    def _context(self, given: int | None) -> int:
        trained = self.model.sizes.get("context_length")
        context = given if given is not None else trained or DEFAULT_CONTEXT
        if context < 1:
            raise InputError("OI0796", f"the context is {context}", hint="give a number from 1 on")
        learned = self.model.tensors.get("position_embd.weight")
        if learned is not None and context > learned.shape[0]:
            raise InputError(
                "OI0795",
                f"the context is {context}, the model has learned {learned.shape[0]} positions",
                hint=f"give at most {learned.shape[0]}",
            )
        return context


def used_precision(precision: str | None, device: str, model: Package) -> str | None:
    """What a precision comes to: "q8" is nothing but for weights in blocks on a machine that rounds."""
    if precision != ROUNDED:
        return precision
    blocks = any(info.dtype_name in BLOCKS for info in model.tensors.values())
    return precision if blocks and kind_of(device) in ROUNDING else None


def default_cache(precision: str | None, model: Package) -> str:
    """Keys and values are rounded where weights are and nobody asked for exact products."""
    matrices = [info for info in model.tensors.values() if len(info.shape) > 1]
    narrow = any(info.dtype_name not in ("f32", "f64") for info in matrices)
    return "f16" if precision == ROUNDED and narrow else "f32"


def _vocabulary(executor: Any) -> int:
    """Logits of a row: the last dimension of the result."""
    return executor.variables[LOGITS].dims[-1].evaluate(executor.sizes)
