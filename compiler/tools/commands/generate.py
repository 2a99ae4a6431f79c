"""Continue a text with a language model, as it comes.

A base model continues the prompt; use `openinfer chat` for a model that was trained to answer. What is
not given is what the model's file recommends, else the default of llama.cpp.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer generate model.gguf "Once upon a time" -n 64
  openinfer generate model.gguf "Once upon a time" --temp 0 --json
  openinfer generate model.gguf --file prompt.txt -c 2048 -t 2
  openinfer program model.gguf > my.oi && openinfer generate model.gguf --program my.oi "Hello"
"""
OPTIONAL_POSITIONALS = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.language_model import (
        add_answer_arguments,
        add_engine_arguments,
        add_sampling_arguments,
    )

    add_engine_arguments(parser)
    parser.add_argument("prompt", nargs="?", metavar="TEXT", help="what the model continues")
    parser.add_argument("-f", "--file", type=Path, metavar="FILE", help="the prompt from a file")
    add_answer_arguments(parser)
    add_sampling_arguments(parser)
    parser.add_argument("--stats", action="store_true", help="tokens and times on stderr")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.tools.language_model import (
        answer_options,
        engine_of,
        prompt_file,
        shown_rates,
    )
    from openinfer.compiler.tools.report import UsageError

    if (args.prompt is None) == (args.file is None):
        problem = "there is no prompt" if args.file is None else "there are two prompts"
        raise UsageError(problem, "give a text, or --file FILE")
    prompt = args.prompt if args.file is None else prompt_file(args.file)
    with engine_of(args) as engine:
        began = time.perf_counter()
        answer = engine.generate(prompt, **answer_options(args))
        pieces: list[str] = []
        first = began
        for piece in answer:
            if not pieces:
                first = time.perf_counter()
            pieces.append(piece)
            if not args.json:
                print(piece, end="", flush=True)
        ended = time.perf_counter()
    if args.json:
        facts = {
            "prompt_tokens": answer.prompt,
            "tokens": answer.tokens,
            "text": "".join(pieces),
            "finish": answer.finish,
            "seconds": {"first": first - began, "all": ended - began},
        }
        print(json.dumps(facts))
        return 0
    print()
    if args.stats:
        print(shown_rates(answer, first - began, ended - began), file=sys.stderr)
    return 0
