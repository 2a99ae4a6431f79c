"""Errors as OpenAI's interface writes them: a status, and an object that says what is wrong and where."""

from __future__ import annotations

from typing import Any

from openinfer.compiler.llm.server.scheduler import Full, OutOfTime, Stopping
from openinfer.runtime.errors import InputError, OpenInferError, UnsupportedError


class RequestError(Exception):
    """A request that is not answered."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

    @property
    def body(self) -> dict[str, Any]:
        """The object that is sent."""
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        default = "invalid_request_error" if self.status < 500 else "server_error"
        return {
            "error": {
                "message": self.message,
                "type": kind.get(self.status, default),
                "param": self.param,
                "code": self.code,
            }
        }


def wrong(param: str, problem: str) -> RequestError:
    """A field of a request that cannot be used."""
    return RequestError(400, f"`{param}` {problem}", param=param, code="invalid_value")


def request_error(error: Exception) -> RequestError:
    """What a client is told of an error. What the server alone is to blame for is not told in detail."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, Full):
        return RequestError(
            429, "too many requests wait already: try again later", code="queue_full"
        )
    if isinstance(error, Stopping):
        return RequestError(503, "the server is being stopped", code="stopping")
    if isinstance(error, OutOfTime):
        return RequestError(504, "the answer took longer than requests may", code="timeout")
    if isinstance(error, InputError | UnsupportedError):
        hint = f" ({error.hint})" if error.hint else ""
        return RequestError(400, f"{error.message}{hint}", code=error.code)
    if isinstance(error, OpenInferError):
        return RequestError(500, error.message, code=error.code)
    return RequestError(500, f"the server failed: {type(error).__name__}")
