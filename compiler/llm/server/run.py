"""Runs the application with uvicorn, and stops it so that no answer that has begun is lost."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from openinfer.compiler.llm.server.app import make_app
from openinfer.compiler.llm.server.service import Service

_CONNECTIONS = 1024
"""Beyond so many connections at once, uvicorn answers 503 by itself."""


class Server(uvicorn.Server):
    """At the first signal, answers in slots are finished; waiting requests and new ones get 503. The second
    signal ends the process at once."""

    def __init__(
        self,
        service: Service,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        key: str | None = None,
        started: Callable[[str], None] | None = None,
    ) -> None:
        self.service = service
        self._started = started
        super().__init__(
            uvicorn.Config(
                make_app(service, key=key),
                host=host,
                port=port,
                log_level="warning",
                access_log=False,
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=int(service.limits.seconds) + 1,
                server_header=False,
            )
        )

    @property
    def url(self) -> str:
        """Where the server listens, also when the system chose the port."""
        for server in self.servers:
            for one in server.sockets:
                address: Any = one.getsockname()
                host = f"[{address[0]}]" if one.family == socket.AF_INET6 else address[0]
                return f"http://{host}:{address[1]}"
        return f"http://{self.config.host}:{self.config.port}"

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._started is not None:
            self._started(self.url)

    def stop(self) -> None:
        """As the first signal, from any thread."""
        self.service.scheduler.drain()
        self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """uvicorn's own raises the signal again at the end: a server that was told to stop ends well."""
        if self.should_exit:
            self.force_exit = True
            self.service.scheduler.abort()
        self.stop()
