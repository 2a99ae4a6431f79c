"""What requests become: prompts as tokens, options, jobs of the scheduler. No HTTP here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openinfer.compiler.llm.sampling import Sampler
from openinfer.compiler.llm.server.errors import RequestError, wrong
from openinfer.compiler.llm.server.requests import Body, Options, options_of, prompts_of
from openinfer.compiler.llm.server.scheduler import Event, Job, Scheduler, Slots
from openinfer.compiler.llm.server.tool_calls import Form, form_of, shown_tokens
from openinfer.compiler.llm.stops import StopStrings
from openinfer.compiler.llm.template import ChatTemplate, no_template
from openinfer.compiler.llm.tokenizer import Tokenizer
from openinfer.runtime.packages.base import Package

if TYPE_CHECKING:
    from openinfer.compiler.llm.engine import Engine


@dataclass(frozen=True)
class Limits:
    """What clients may use."""

    body: int = 4 << 20
    """Bytes of a request."""
    tokens: int | None = None
    """Tokens of an answer; None: as many as the context has room for."""
    seconds: float = 600.0
    """From the arrival of a request to the end of its answer."""
    queue: int = 64
    """Requests that wait for a slot."""
    body_seconds: float = 30.0
    """For the body to arrive."""


@dataclass(frozen=True)
class Plan:
    """A request that was understood: a prompt for each choice."""

    options: Options
    prompts: list[list[int]]
    """Token ids; the choices of one prompt stand together."""
    form: Form | None = None
    """How the model writes tool calls, where it was given tools."""
    shown: frozenset[int] = frozenset()

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompts, each counted once."""
        return sum(map(len, self.prompts[:: self.options.choices]))


@dataclass
class Service:
    """A model with its scheduler, and the name under which clients know it."""

    name: str
    model: Package
    runner: Slots
    tokenizer: Tokenizer
    template: ChatTemplate | None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.runner, self.tokenizer, queue=self.limits.queue)
        self.created = int(time.time())

    @staticmethod
    def of(engine: Engine, name: str, limits: Limits | None = None) -> Service:
        """The service of an engine, which belongs to it from then on."""
        return Service(
            name,
            engine.model,
            engine.runner,
            engine.tokenizer,
            engine.template,
            limits or Limits(),
        )

    @property
    def context(self) -> int:
        return self.runner.context

    def check_model(self, body: Body) -> None:
        """Raises RequestError 404 where a request is for another model."""
        wanted = body.text("model")
        if wanted is not None and wanted != self.name:
            raise RequestError(
                404,
                f"the model {wanted!r:.80} does not exist, {self.name!r} does",
                code="model_not_found",
                param="model",
            )

    def plan_chat(self, data: bytes) -> Plan:
        """A conversation. Raises RequestError and OpenInferError."""
        body = Body(data)
        self.check_model(body)
        options = options_of(body, self.model, chat=True, most=self.limits.tokens)
        if self.template is None:
            raise no_template(self.name)
        messages = body.rows("messages")
        if not messages:
            raise wrong("messages", "is missing or empty")
        tools = self._tools(body)
        more = body.table("chat_template_kwargs") or {}
        if reserved := more.keys() & {"messages", "tools", "add_generation_prompt"}:
            raise wrong(
                "chat_template_kwargs", f"has {min(reserved)}, which the request itself says"
            )
        ids = self.template.encode([_renamed(message) for message in messages], tools=tools, **more)
        form = form_of(self._source()) if tools else None
        shown = shown_tokens(form, self.tokenizer) if form is not None else frozenset[int]()
        return self._plan(options, [ids], form, shown)

    def plan_completion(self, data: bytes) -> Plan:
        """Texts to be continued. Raises RequestError and OpenInferError."""
        body = Body(data)
        self.check_model(body)
        options = options_of(body, self.model, chat=False, most=self.limits.tokens)
        body.refuse("echo", [False], "is not supported: the answer is what follows the prompt")
        body.refuse("suffix", [""], "is not supported: texts are continued, not filled")
        body.refuse("best_of", [options.choices], "is not supported: ask for `n` answers")
        return self._plan(options, [self._ids(one) for one in prompts_of(body, "prompt")])

    def plan_embeddings(self, data: bytes) -> tuple[list[list[int]], bool]:
        """Token ids of the texts, and whether the vectors are wanted as base64."""
        body = Body(data)
        self.check_model(body)
        body.refuse("dimensions", [], "is not supported: vectors have the width of the model")
        body.refuse("encoding_format", ["float", "base64"], "is neither float nor base64")
        prompts = [self._ids(one) for one in prompts_of(body, "input")]
        for ids in prompts:
            self._check_length(ids, 0)
        return prompts, body.get("encoding_format") == "base64"

    def tokenize(self, data: bytes) -> dict[str, Any]:
        """The tokens of a text, as llama.cpp's server gives them."""
        body = Body(data)
        text = body.text("content")
        if text is None:
            raise wrong("content", "is missing")
        ids = self.tokenizer.encode(text, special=body.get("parse_special") is not False)
        if body.flag("add_special"):
            ids = self.tokenizer.framed(ids)
        if not body.flag("with_pieces"):
            return {"tokens": ids}
        return {"tokens": [{"id": token, "piece": self.tokenizer.token(token)} for token in ids]}

    def detokenize(self, data: bytes) -> dict[str, Any]:
        """The text of tokens."""
        found = Body(data).rows("tokens")
        if found is None or not all(type(token) is int for token in found):
            raise wrong("tokens", "is no list of token ids")
        return {"content": self.tokenizer.decode(found, special=True)}

    def jobs(self, plan: Plan, emit: Any) -> list[Job]:
        """A job for each choice of a plan; `emit(index, event)` is called by the scheduler's thread."""
        options = plan.options
        deadline = time.monotonic() + self.limits.seconds
        jobs: list[Job] = []
        for index, ids in enumerate(plan.prompts):
            grammar = None
            if options.constrained:
                from openinfer.compiler.llm.grammar import Grammar

                grammar = Grammar(self.tokenizer, options.schema)
            room = self.context - len(ids)
            jobs.append(
                Job(
                    ids,
                    _emitter(emit, index),
                    deadline,
                    Sampler(options.sampling_of(index), self.tokenizer.size),
                    room if options.most is None else min(options.most, room),
                    StopStrings(options.stops),
                    grammar,
                    options.logprobs,
                    plan.shown,
                )
            )
        return jobs

    def embedding_jobs(self, prompts: Sequence[list[int]], emit: Any) -> list[Job]:
        deadline = time.monotonic() + self.limits.seconds
        return [Job(ids, _emitter(emit, index), deadline) for index, ids in enumerate(prompts)]

    def _plan(
        self,
        options: Options,
        prompts: list[list[int]],
        form: Form | None = None,
        shown: frozenset[int] = frozenset(),
    ) -> Plan:
        for ids in prompts:
            self._check_length(ids, 1)
        rows = [ids for ids in prompts for _ in range(options.choices)]
        return Plan(options, rows, form, shown)

    def _check_length(self, ids: list[int], more: int) -> None:
        """A prompt is never cut: raises RequestError with both numbers."""
        if not ids:
            raise RequestError(400, "the prompt has no token", code="invalid_value")
        if len(ids) + more > self.context:
            raise RequestError(
                400,
                f"the prompt has {len(ids)} tokens, the context has room for {self.context}"
                + (f" with {more} of the answer" if more else ""),
                code="context_length_exceeded",
            )

    def _ids(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return self.tokenizer.prompt(prompt)
        for token in prompt:
            self.tokenizer.token(token)
        return prompt

    def _tools(self, body: Body) -> list[Mapping[str, Any]] | None:
        """The tools that the template is to tell the model of."""
        tools = body.rows("tools")
        choice = body.get("tool_choice")
        if choice not in (None, "auto", "none"):
            raise wrong("tool_choice", 'is not supported: the model chooses, "auto" or "none"')
        for tool in tools or []:
            function = tool.get("function") if isinstance(tool, dict) else None
            if not isinstance(function, dict) or not isinstance(function.get("name"), str):
                raise wrong("tools", "has an entry without function.name")
        return tools if tools and choice != "none" else None

    def _source(self) -> str:
        """The template for conversations with tools."""
        assert self.template is not None
        return self.template.named.get("tool_use", self.template.source)


def _renamed(message: Any) -> Any:
    """OpenAI's newer name of a system message, which templates do not know."""
    if isinstance(message, dict) and message.get("role") == "developer":
        return {**message, "role": "system"}
    return message


def _emitter(emit: Any, index: int) -> Any:
    def call(event: Event) -> None:
        emit(index, event)

    return call
