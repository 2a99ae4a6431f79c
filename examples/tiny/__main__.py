"""Asks the model of this folder: `python -m examples.tiny`, or with questions of your own,
`python -m examples.tiny "What is 3 plus 4?"`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openinfer.compiler.tools.report import guard

MODEL = Path(__file__).with_name("tiny-q8_0.gguf")
QUESTIONS = (
    "Who are you?",
    "What does the owl say?",
    "Mia has a red kite. Tom has a blue drum. Mia gives the kite to Leo. Who has the kite?",
    "What is 7 plus 8?",
    "Say backwards: sheep lamp garden.",
    "Tell me a story about Zoe and a bell.",
)


def run(options: argparse.Namespace) -> int:
    import openinfer as oi

    with oi.Engine(MODEL, device=options.device) as engine:
        for question in options.questions or QUESTIONS:
            print(f"> {question}")
            messages = [{"role": "user", "content": question}]
            for piece in engine.chat(messages, temperature=options.temp, max_tokens=200):
                print(piece, end="", flush=True)
            print("\n")
        if not options.questions:
            begin = "Once upon a time"
            print(begin, end="")
            for piece in engine.generate(begin, temperature=options.temp, max_tokens=200):
                print(piece, end="", flush=True)
            print()
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.tiny", description=__doc__)
    add = parser.add_argument
    add("questions", nargs="*", metavar="QUESTION", help="default: some of each kind")
    add("--temp", type=float, default=0.0, help="above 0 answers vary; default 0")
    add("--device", default="cpu", help="cpu, vulkan or simulator; default cpu")
    add("--traceback", action="store_true", help="show where an error comes from")
    options = parser.parse_args(arguments)
    return guard(lambda: run(options), traceback=options.traceback)


if __name__ == "__main__":
    sys.exit(main())
