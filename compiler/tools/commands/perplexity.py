"""How well a language model predicts a text: exp of the mean surprise of its tokens.

The text is cut into windows of the context's length. In each, the second half of the tokens is scored, so
that every scored token has half a window before it; that is what llama.cpp's tool measures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """\
examples:
  openinfer perplexity model.gguf text.txt              windows of 512 tokens
  openinfer perplexity model.gguf text.txt -c 2048 --json
"""
WINDOW = 512


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.language_model import add_engine_arguments

    add_engine_arguments(parser)
    parser.add_argument("text", type=Path, metavar="TEXT", help="a text file, UTF-8")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.llm.perplexity import perplexity
    from openinfer.compiler.tools.language_model import engine_of, prompt_file

    text = prompt_file(args.text)
    args.context = args.context or WINDOW
    with engine_of(args) as engine:
        found = perplexity(engine, engine.tokenizer.encode(text), args.context)
    if args.json:
        facts = {"perplexity": found.value, "error": found.error, "tokens": found.tokens}
        print(json.dumps({**facts, "windows": found.windows}))
        return 0
    print(f"perplexity {found.value:.4f} ± {found.error:.4f}")
    print(f"{found.tokens} tokens of {found.windows} windows of {args.context}")
    return 0
