"""Answers as OpenAI's interface writes them, whole and in pieces."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from openinfer.compiler.llm.server.scheduler import Chosen, Ended
from openinfer.compiler.llm.server.tool_calls import ToolCall
from openinfer.compiler.llm.tokenizer import Tokenizer

DONE = b"data: [DONE]\n\n"
"""What ends every stream."""


def event(content: Any) -> bytes:
    """A piece of a stream (server-sent events)."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()


def usage_of(ends: list[Ended], prompts: int) -> dict[str, Any]:
    """Numbers of tokens; `prompts` are the tokens of the prompts, each counted once."""
    written = sum(end.written for end in ends)
    return {
        "prompt_tokens": prompts,
        "completion_tokens": written,
        "total_tokens": prompts + written,
        "prompt_tokens_details": {"cached_tokens": sum(end.reused for end in ends)},
    }


@dataclass
class Choice:
    """One answer of a request, as far as it has come."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    tokens: list[Chosen] = field(default_factory=list[Chosen])
    ended: Ended | None = None

    @property
    def finish(self) -> str | None:
        if self.ended is None:
            return None
        return "tool_calls" if self.calls and self.ended.finish == "stop" else self.ended.finish


@dataclass(frozen=True)
class Reply:
    """The form of the answers to one request."""

    chat: bool
    model: str
    tokenizer: Tokenizer
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, choices: list[Choice], usage: dict[str, Any], logprobs: bool) -> dict[str, Any]:
        """The object of an answer that is not streamed."""
        rows: list[dict[str, Any]] = []
        for index, choice in enumerate(choices):
            row: dict[str, Any] = {"index": index, "finish_reason": choice.finish}
            row["logprobs"] = self._logprobs(choice.tokens, 0) if logprobs else None
            if self.chat:
                message: dict[str, Any] = {"role": "assistant", "content": choice.text}
                if choice.calls:
                    message["content"] = choice.text or None
                    message["tool_calls"] = [call.json() for call in choice.calls]
                row["message"] = message
            else:
                row["text"] = choice.text
            rows.append(row)
        return self._object("", rows) | {"usage": usage}

    def first(self, index: int) -> dict[str, Any]:
        """The piece that begins a message of a chat."""
        return self._piece(index, {"role": "assistant", "content": ""}, None, None)

    def text(
        self, index: int, text: str, tokens: list[Chosen] | None, offset: int
    ) -> dict[str, Any]:
        """A piece of text, with the tokens since the last one where they were asked for."""
        logprobs = self._logprobs(tokens, offset) if tokens is not None else None
        return self._piece(index, {"content": text}, logprobs, None)

    def call(self, index: int, number: int, call: ToolCall) -> dict[str, Any]:
        """A tool call, which comes in one piece."""
        return self._piece(index, {"tool_calls": [{"index": number, **call.json()}]}, None, None)

    def last(self, index: int, choice: Choice) -> dict[str, Any]:
        """The piece that says why an answer ended."""
        return self._piece(index, {}, None, choice.finish)

    def usage(self, usage: dict[str, Any]) -> dict[str, Any]:
        """The piece behind all choices."""
        return self._object(".chunk", []) | {"usage": usage}

    def _piece(
        self, index: int, delta: dict[str, Any], logprobs: Any, finish: str | None
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"index": index, "logprobs": logprobs, "finish_reason": finish}
        row |= {"delta": delta} if self.chat else {"text": delta.get("content", "")}
        return self._object(".chunk", [row])

    def _object(self, suffix: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        kind = f"chat.completion{suffix}" if self.chat else "text_completion"
        prefix = "chatcmpl" if self.chat else "cmpl"
        return {
            "id": f"{prefix}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    def _logprobs(self, tokens: list[Chosen], offset: int) -> dict[str, Any]:
        if self.chat:
            rows = [
                self._alternative(token.id, token.logprob or 0.0)
                | {"top_logprobs": [self._alternative(*one) for one in token.best]}
                for token in tokens
            ]
            return {"content": rows, "refusal": None}
        offsets: list[int] = []
        for token in tokens:
            offsets.append(offset)
            offset += len(self._shown(token.id))
        return {
            "tokens": [self._shown(token.id) for token in tokens],
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [
                {self._shown(one): logprob for one, logprob in token.best} for token in tokens
            ],
            "text_offset": offsets,
        }

    def _alternative(self, token: int, logprob: float) -> dict[str, Any]:
        data = self.tokenizer.piece(token, special=True)
        # JSON has no minus infinity.
        return {
            "token": self._shown(token),
            "logprob": max(logprob, -9999.0),
            "bytes": list(data),
        }

    def _shown(self, token: int) -> str:
        return self.tokenizer.piece(token, special=True).decode("utf-8", "replace")
