"""A small client of the Language Server Protocol: a process, frames over its streams, answers by number."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

SECONDS = 60


class Client:
    """Speaks with `openinfer lsp`. Messages of the server wait until they are asked for."""

    def __init__(self, options: dict[str, Any] | None = None, root: Path | None = None) -> None:
        command = [sys.executable, "-m", "openinfer.compiler.tools.openinfer", "lsp"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._number = 0
        self._versions: dict[str, int] = {}
        self.logged: list[str] = []
        """What the server wrote to the editor's log: defects."""
        self._diagnostics: dict[str, list[dict[str, Any]]] = {}
        params: dict[str, Any] = {
            "processId": None,
            "rootUri": root.as_uri() if root is not None else None,
            "capabilities": {},
            "initializationOptions": options or {},
        }
        self.capabilities = self.ask("initialize", params)["capabilities"]
        self.tell("initialized", {})

    # Frames.

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not length:
                self._messages.put(None)
                return
            self._messages.put(json.loads(stream.read(length)))

    def write(self, message: dict[str, Any]) -> None:
        """Sends one message."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stream = self.process.stdin
        assert stream is not None
        stream.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        stream.flush()

    def _next(self) -> dict[str, Any]:
        message = self._messages.get(timeout=SECONDS)
        if message is None:
            assert self.process.stderr is not None
            raise AssertionError(f"the server ended: {self.process.stderr.read().decode()}")
        if message.get("method") == "textDocument/publishDiagnostics":
            self._diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif message.get("method") == "window/logMessage":
            self.logged.append(message["params"]["message"])
        return message

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """A notification."""
        self.write({"method": method, "params": params})

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """The whole answer to a request, `result` or `error` in it."""
        self._number += 1
        self.write({"id": self._number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == self._number and "method" not in message:
                return message

    def ask(self, method: str, params: Any = None) -> Any:
        """The result of a request."""
        answer = self.request(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    # Texts.

    def open(self, uri: str, text: str) -> list[dict[str, Any]]:
        """Opens a text; its diagnostics."""
        self._versions[uri] = 1
        self._diagnostics.pop(uri, None)
        document = {"uri": uri, "languageId": "openinfer", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.published(uri)

    def change(self, uri: str, *changes: dict[str, Any]) -> None:
        """Sends edits: `{"range": …, "text": …}`, or the whole text without a range."""
        self._versions[uri] += 1
        self._diagnostics.pop(uri, None)
        document = {"uri": uri, "version": self._versions[uri]}
        params = {"textDocument": document, "contentChanges": list(changes)}
        self.tell("textDocument/didChange", params)

    def published(self, uri: str) -> list[dict[str, Any]]:
        """The diagnostics of a text that were published since it was opened or changed."""
        while uri not in self._diagnostics:
            self._next()
        return self._diagnostics[uri]

    def at(self, method: str, uri: str, line: int, character: int, **more: Any) -> Any:
        """A request about a place."""
        place = {"line": line, "character": character}
        return self.ask(method, {"textDocument": {"uri": uri}, "position": place, **more})

    def close(self) -> int:
        """Ends the server as editors do; its exit code."""
        self.ask("shutdown")
        self.tell("exit", {})
        code = self.process.wait(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code
