"""Talk with a language model. Its answers come as they are computed.

Ctrl-C ends an answer, Ctrl-D the conversation. `/clear` begins a new one. What is not given is what the
model's file recommends, else the default of llama.cpp. Lines may come from a pipe, too.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Callable

EXAMPLES = """\
examples:
  openinfer chat model.gguf
  openinfer chat model.gguf --system "Answer in one sentence." --temp 0
  echo "What is a llama?" | openinfer chat model.gguf
"""
CLEAR = "/clear"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.language_model import (
        add_answer_arguments,
        add_engine_arguments,
        add_sampling_arguments,
    )

    add_engine_arguments(parser)
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before all else")
    add_answer_arguments(parser)
    add_sampling_arguments(parser)
    parser.add_argument("--stats", action="store_true", help="tokens and times on stderr")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.language_model import answer_options, engine_of, shown_rates

    first = [] if args.system is None else [{"role": "system", "content": args.system}]
    messages = list(first)
    read = _reader()
    with engine_of(args) as engine:
        while (line := read()) is not None:
            if not line.strip():
                continue
            if line.strip() == CLEAR:
                messages = list(first)
                continue
            messages.append({"role": "user", "content": line})
            began = time.perf_counter()
            answer = engine.chat(messages, **answer_options(args))
            begun: float | None = None
            pieces: list[str] = []
            try:
                for piece in answer:
                    begun = begun or time.perf_counter()
                    pieces.append(piece)
                    if not args.json:
                        print(piece, end="", flush=True)
            except KeyboardInterrupt:
                # What was said so far stays in the conversation.
                answer.finish = "interrupted"
            ended = time.perf_counter()
            messages.append({"role": "assistant", "content": "".join(pieces)})
            if args.json:
                facts = {"text": "".join(pieces), "tokens": answer.tokens, "finish": answer.finish}
                print(json.dumps(facts), flush=True)
                continue
            print(flush=True)
            if args.stats:
                print(shown_rates(answer, (begun or ended) - began, ended - began), file=sys.stderr)
    return 0


def _reader() -> Callable[[], str | None]:
    """Gives the next line, None at the end; Ctrl-C at the prompt leaves an empty line."""
    if not sys.stdin.isatty():
        if isinstance(sys.stdin, io.TextIOWrapper):
            # What is no UTF-8 shows as such, and ends nothing.
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")
        return lambda: sys.stdin.readline() or None
    try:
        from prompt_toolkit import PromptSession
    except ImportError:
        ask: Callable[[str], str] = input
    else:
        session: PromptSession[str] = PromptSession()
        ask = session.prompt

    def read() -> str | None:
        try:
            return ask("> ")
        except KeyboardInterrupt:
            return ""
        except EOFError:
            return None

    return read
