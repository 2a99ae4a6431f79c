"""Answer requests over HTTP with a language model, in the form of OpenAI's interface.

Several answers are computed at once, one token of each in a step. The first Ctrl-C or SIGTERM lets the
answers that have begun come to their end; the second ends the process at once.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer serve model.gguf                       http://127.0.0.1:8080/v1
  openinfer serve model.gguf -np 8 -c 4096 -t 4    eight answers at once, 4096 tokens each
  openinfer serve model.gguf --host 0.0.0.0 --api-key-file key.txt
  curl 127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Hello"}]}'
"""

_CHUNK = 64
"""Tokens of prompts in one step: a longer one would let answers wait longer for their next token."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.language_model import add_engine_arguments

    add_engine_arguments(parser)
    add = parser.add_argument
    add("-np", "--parallel", type=int, default=4, metavar="N", help="answers at once (default: 4)")
    add("--host", default="127.0.0.1", help="where to listen (default: this machine alone)")
    add("--port", type=int, default=8080, help="0: any that is free (default: 8080)")
    add("-a", "--alias", metavar="NAME", help="name of the model (default: that of the file)")
    add("--api-key", metavar="KEY", help="what clients must know; other users can see it in `ps`")
    add("--api-key-file", type=Path, metavar="FILE", help="the key from a file")
    add("-n", "--max-tokens", type=int, metavar="N", help="most tokens of an answer")
    add("--queue", type=int, default=64, metavar="N", help="requests that wait (default: 64)")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds of a request")
    add("--max-body", type=int, default=4 << 20, metavar="BYTES", help="of a request")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.extras import missing_library
    from openinfer.compiler.tools.language_model import engine_of
    from openinfer.compiler.tools.report import UsageError

    try:
        from openinfer.compiler.llm.server.run import Server
        from openinfer.compiler.llm.server.service import Limits, Service
    except ModuleNotFoundError as error:
        raise missing_library(error.name or "starlette", "llm,serve") from None
    for name, low in (("parallel", 1), ("queue", 0), ("max_body", 1), ("port", 0)):
        if getattr(args, name) < low:
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} is {getattr(args, name)}", f"give a number from {low} on")
    if args.port > 65535 or args.timeout <= 0:
        raise UsageError("--port or --timeout is out of range", "ports end at 65535")
    if args.max_tokens is not None and args.max_tokens < 1:
        raise UsageError(f"--max-tokens is {args.max_tokens}", "give a number from 1 on")
    key = _key(args)
    # Before the model is loaded, which may take long.
    listening = _listening(args.host, args.port)
    with listening, engine_of(args, slots=args.parallel, chunk=_CHUNK) as engine:
        limits = Limits(
            body=args.max_body, tokens=args.max_tokens, seconds=args.timeout, queue=args.queue
        )
        name = args.alias or Path(args.model).resolve().stem
        service = Service.of(engine, name, limits)

        def started(url: str) -> None:
            if args.json:
                facts = {"url": f"{url}/v1", "model": name, "context": service.context}
                print(json.dumps({**facts, "parallel": args.parallel}), flush=True)
                return
            chats = "" if service.template is not None else "; a base model, which does not chat"
            print(
                f"{name} answers at {url}/v1: {args.parallel} at once, of {service.context} tokens each"
                f"{chats}",
                flush=True,
            )

        server = Server(service, host=args.host, port=args.port, key=key, started=started)
        server.run(sockets=[listening])
        service.scheduler.drain()
        service.scheduler.join()
    return 0


def _listening(host: str, port: int) -> socket.socket:
    from openinfer.compiler.tools.report import UsageError

    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise UsageError(
            f"cannot listen at {host}:{port}: {error.strerror or error}",
            "choose another --port or --host",
        ) from None


def _key(args: argparse.Namespace) -> str | None:
    """The key of the server. A server for other machines without one is said aloud."""
    from openinfer.compiler.tools.report import UsageError
    from openinfer.runtime.files import read_text

    key = args.api_key
    if args.api_key_file is not None:
        if key is not None:
            raise UsageError("there are two keys", "give --api-key or --api-key-file")
        key = read_text(args.api_key_file, 4096).strip()
    if key is not None and not key:
        raise UsageError("the key is empty", "give one of some letters at least")
    if key is None and args.host not in ("127.0.0.1", "localhost", "::1"):
        print(
            f"anybody who reaches {args.host}:{args.port} can use this model: no --api-key",
            file=sys.stderr,
        )
    return key
