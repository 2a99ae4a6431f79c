"""The server as an ASGI application: any ASGI server runs it, and Ray Serve takes it as it is."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from openinfer.compiler.llm.server.errors import RequestError, request_error
from openinfer.compiler.llm.server.metrics import CONTENT_TYPE, Metrics
from openinfer.compiler.llm.server.replies import DONE, Choice, Reply, event, usage_of
from openinfer.compiler.llm.server.scheduler import (
    Embedded,
    Ended,
    Event,
    Failed,
    Full,
    Job,
    Wrote,
)
from openinfer.compiler.llm.server.service import Plan, Service
from openinfer.compiler.llm.server.tool_calls import ToolCall, ToolCallReader

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


def make_app(service: Service, *, key: str | None = None) -> Starlette:
    """The application of a model. With `key`, all requests but those to `/health` must have it as bearer
    token."""
    return _Server(service, key).app


class _Gone(Exception):
    """The client has closed its connection."""


class _Answers:
    """Events of several jobs, brought from the scheduler's thread into the loop of the server."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, Event]] = asyncio.Queue()

    def emit(self, index: int, event: Event) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (index, event))

    async def get(self) -> tuple[int, Event]:
        return await self._queue.get()


class _Server:
    def __init__(self, service: Service, key: str | None) -> None:
        self.service = service
        self.key = key
        self.metrics = Metrics()
        self._reading = 0
        """Requests whose bodies arrive, or are understood."""
        routes = [
            self._route("/v1/chat/completions", self.chat, "POST"),
            self._route("/v1/completions", self.complete, "POST"),
            self._route("/v1/embeddings", self.embed, "POST"),
            self._route("/v1/models", self.models, "GET"),
            self._route("/v1/models/{name:path}", self.one_model, "GET"),
            self._route("/tokenize", self.tokenize, "POST"),
            self._route("/detokenize", self.detokenize, "POST"),
            self._route("/metrics", self.show_metrics, "GET"),
            self._route("/health", self.health, "GET", open_to_all=True),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
        self.app.state.service = service

    def _route(
        self, path: str, handler: Handler, method: str, *, open_to_all: bool = False
    ) -> Route:
        """A route that checks the key, counts, and answers every error in OpenAI's form."""

        async def endpoint(request: Request) -> Response:
            try:
                if not open_to_all:
                    self._check_key(request)
                response = await handler(request)
            except (_Gone, ClientDisconnect):
                # Nobody reads it; the status is for the counters.
                response = Response(status_code=499)
            except Exception as error:
                found = request_error(error)
                headers = {"Retry-After": "1"} if found.status in (429, 503) else None
                response = JSONResponse(found.body, found.status, headers)
            self.metrics.requests[path, response.status_code] += 1
            return response

        return Route(path, endpoint, methods=[method])

    async def chat(self, request: Request) -> Response:
        plan = await self._read(request, self.service.plan_chat)
        return await self._generate(request, plan, chat=True)

    async def complete(self, request: Request) -> Response:
        plan = await self._read(request, self.service.plan_completion)
        return await self._generate(request, plan, chat=False)

    async def embed(self, request: Request) -> Response:
        prompts, as_text = await self._read(request, self.service.plan_embeddings)
        rows: list[dict[str, Any]] = []
        # Not more at once than there are slots: others come in between.
        size = self.service.runner.slots
        for start in range(0, len(prompts), size):
            answers = _Answers()
            jobs = self.service.embedding_jobs(prompts[start : start + size], answers.emit)
            found: dict[int, Embedded] = {}
            async for index, one in self._events(request, answers, jobs):
                if isinstance(one, Embedded):
                    found[index] = one
            for index in range(len(jobs)):
                vector = found[index].vector
                shown: Any = vector.tolist()
                if as_text:
                    shown = base64.b64encode(vector.astype("<f4").tobytes()).decode()
                rows.append({"object": "embedding", "index": start + index, "embedding": shown})
        count = sum(map(len, prompts))
        return JSONResponse(
            {
                "object": "list",
                "data": rows,
                "model": self.service.name,
                "usage": {"prompt_tokens": count, "total_tokens": count},
            }
        )

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def one_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name != self.service.name:
            raise RequestError(
                404, f"the model {name!r:.80} does not exist", code="model_not_found", param="model"
            )
        return JSONResponse(self._model())

    async def tokenize(self, request: Request) -> Response:
        return JSONResponse(await self._read(request, self.service.tokenize))

    async def detokenize(self, request: Request) -> Response:
        return JSONResponse(await self._read(request, self.service.detokenize))

    async def show_metrics(self, request: Request) -> Response:
        text = self.metrics.text(self.service.scheduler, self.service.runner.slots)
        return Response(text, media_type=CONTENT_TYPE)

    async def health(self, request: Request) -> Response:
        if self.service.scheduler.stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok"})

    def _model(self) -> dict[str, Any]:
        return {
            "id": self.service.name,
            "object": "model",
            "created": self.service.created,
            "owned_by": "openinfer",
            "context_length": self.service.context,
        }

    def _check_key(self, request: Request) -> None:
        if self.key is None:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.key}".encode()):
            raise RequestError(401, "the API key is missing or wrong", code="invalid_api_key")

    async def _read(self, request: Request, plan: Callable[[bytes], T]) -> T:
        """What a request asks for. Long texts take time before they wait for a slot, so that those are
        counted, too. Raises Full."""
        if self._reading >= self.service.limits.queue + self.service.runner.slots:
            raise Full
        self._reading += 1
        try:
            return await asyncio.to_thread(plan, await self._body(request))
        finally:
            self._reading -= 1

    async def _body(self, request: Request) -> bytes:
        """The body of a request, as JSON that pages of other sites cannot send without being asked."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestError(415, "the header Content-Type must be application/json")
        limit = self.service.limits.body
        data = bytearray()
        try:
            async with asyncio.timeout(self.service.limits.body_seconds):
                async for piece in request.stream():
                    data += piece
                    if len(data) > limit:
                        raise RequestError(413, f"the body has more than {limit} bytes")
        except TimeoutError:
            raise RequestError(408, "the body did not arrive in time") from None
        return bytes(data)

    async def _generate(self, request: Request, plan: Plan, *, chat: bool) -> Response:
        answers = _Answers()
        jobs = await asyncio.to_thread(self.service.jobs, plan, answers.emit)
        reply = Reply(chat, self.service.name, self.service.tokenizer)
        events = self._events(request, answers, jobs)
        writer = _Writer(plan, reply, len(jobs))
        if not plan.options.stream:
            async for index, one in events:
                for _ in writer.pieces(index, one):
                    pass
            usage = usage_of(writer.ends, plan.prompt_tokens)
            wants = plan.options.logprobs is not None
            return JSONResponse(reply.whole(writer.choices, usage, wants))
        # An error before the first token still has a status of its own.
        first = await anext(events)
        return StreamingResponse(
            _stream(first, events, writer),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
        )

    async def _events(
        self, request: Request, answers: _Answers, jobs: Sequence[Job]
    ) -> AsyncGenerator[tuple[int, Event], None]:
        """The events of jobs until all have ended. Raises what a job failed of, and _Gone where the client
        has left; then, and when nobody asks for more, the jobs are cancelled."""
        self.service.scheduler.submit(jobs)
        gone = asyncio.create_task(_disconnected(request))
        left = len(jobs)
        try:
            while left:
                coming = asyncio.create_task(answers.get())
                try:
                    await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
                    if not coming.done():
                        raise _Gone
                    index, found = coming.result()
                finally:
                    coming.cancel()
                if isinstance(found, Failed):
                    raise found.error
                left -= isinstance(found, Ended | Embedded)
                yield index, found
        finally:
            gone.cancel()
            if left:
                for job in jobs:
                    self.service.scheduler.cancel(job)


class _Writer:
    """Choices as they grow, and the pieces of a stream that say so."""

    def __init__(self, plan: Plan, reply: Reply, count: int) -> None:
        self.reply = reply
        self.options = plan.options
        self.prompt_tokens = plan.prompt_tokens
        self.choices = [Choice() for _ in range(count)]
        self._begun = [False] * count
        self._offsets = [0] * count
        self._told = [0] * count
        """So many tokens of each choice were in a piece."""
        self._readers = [ToolCallReader(plan.form) if plan.form else None for _ in range(count)]

    @property
    def ends(self) -> list[Ended]:
        return [choice.ended for choice in self.choices if choice.ended is not None]

    def pieces(self, index: int, one: Event) -> list[dict[str, Any]]:
        """What a stream says of an event."""
        choice, reader = self.choices[index], self._readers[index]
        pieces: list[dict[str, Any]] = []
        if self.reply.chat and not self._begun[index]:
            self._begun[index] = True
            pieces.append(self.reply.first(index))
        text = one.text if isinstance(one, Wrote | Ended) else ""
        if isinstance(one, Wrote):
            choice.tokens.append(one.token)
        parts: list[str | ToolCall] = list(reader.push(text)) if reader else [text]
        if isinstance(one, Ended):
            choice.ended = one
            parts += reader.finish() if reader else []
        for part in parts:
            if isinstance(part, ToolCall):
                pieces.append(self.reply.call(index, len(choice.calls), part))
                choice.calls.append(part)
            elif part:
                choice.text += part
                pieces.append(self._text(index, part))
        if isinstance(one, Ended):
            if self.options.logprobs is not None and self._told[index] < len(choice.tokens):
                pieces.append(self._text(index, ""))
            pieces.append(self.reply.last(index, choice))
        return pieces

    def _text(self, index: int, text: str) -> dict[str, Any]:
        choice, offset = self.choices[index], self._offsets[index]
        self._offsets[index] += len(text)
        if self.options.logprobs is None:
            return self.reply.text(index, text, None, offset)
        tokens = choice.tokens[self._told[index] :]
        self._told[index] = len(choice.tokens)
        return self.reply.text(index, text, tokens, offset)


async def _stream(
    first: tuple[int, Event], events: AsyncGenerator[tuple[int, Event], None], writer: _Writer
) -> AsyncGenerator[bytes, None]:
    """A stream of server-sent events; an error in the middle is one of them."""
    try:
        for piece in writer.pieces(*first):
            yield event(piece)
        async for index, one in events:
            for piece in writer.pieces(index, one):
                yield event(piece)
        if writer.options.usage:
            yield event(writer.reply.usage(usage_of(writer.ends, writer.prompt_tokens)))
        yield DONE
    except _Gone:
        return
    except Exception as error:
        yield event(request_error(error).body)
        yield DONE
    finally:
        # A client that leaves ends this generator, not the one that it reads.
        with suppress(RuntimeError):
            await events.aclose()


async def _disconnected(request: Request) -> None:
    """Returns when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _http_error(request: Request, error: Exception) -> Response:
    """Paths and methods that are none."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = error.detail if isinstance(error, HTTPException) else "the server failed"
    message = f"{request.method} {request.url.path}: {detail}"
    return JSONResponse(RequestError(status, message).body, status)
