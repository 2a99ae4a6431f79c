"""Print the program that runs a language model: the text of its family, as this model needs it.

Edit it and give it back with `--program`, or run and inspect it as any other program. `--family` prints
the text of another family, to begin with where the architecture has none.
"""

from __future__ import annotations

import argparse
import json

EXAMPLES = """\
examples:
  openinfer program model.gguf > my.oi
  openinfer inspect my.oi --model model.gguf            what it takes, gives and keeps
  openinfer program strange.gguf --family llama > strange.oi
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from openinfer.compiler.tools.language_model import add_cache

    parser.add_argument("model", metavar="MODEL", help="a .gguf model, or a Hugging Face folder")
    parser.add_argument(
        "-c",
        "--context",
        type=int,
        metavar="N",
        help="most tokens of a text (default: the model's)",
    )
    add_cache(parser)
    parser.add_argument("--family", metavar="NAME", help="not what the model says it is")


def run(args: argparse.Namespace) -> int:
    from openinfer.compiler.llm.families import open_language_model, program_text
    from openinfer.compiler.tools.language_model import cache_of

    with open_language_model(args.model) as package:
        text = program_text(package, args.family, context=args.context, cache=cache_of(args))
    if args.json:
        print(json.dumps({"model": args.model, "program": text}))
    else:
        print(text, end="")
    return 0
