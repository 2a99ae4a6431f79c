"""The command: `python -m examples.minilm "a sentence" "another"`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from openinfer.compiler.tools.report import guard

EXAMPLES = """\
examples:
  python -m examples.minilm "The cat sits on the mat." "A kitten rests on a rug."
  python -m examples.minilm --json "one" "two" > embeddings.json
  python -m examples.minilm --executor simulator --weights FOLDER "a sentence"
"""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.minilm",
        description="Embeds sentences with all-MiniLM-L6-v2 and shows how alike they are.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("sentences", nargs="+", metavar="SENTENCE")
    add("--json", action="store_true", help='{"embeddings": [[…]], "similarity": [[…]]}')
    add(
        "--weights", type=Path, metavar="DIR", help="model.safetensors, config.json, tokenizer.json"
    )
    add("--executor", choices=("cpu", "simulator"), default="cpu", help="default cpu")
    add("--threads", type=int, metavar="N", help="threads (default: the CPUs that may be used)")
    add("--traceback", action="store_true", help="show where an error comes from")
    options = parser.parse_args(arguments)
    if options.threads is not None and options.threads < 1:
        parser.error("--threads takes a number from 1")
    return options


def run(options: argparse.Namespace) -> int:
    from examples.minilm.weights import find_weights

    # What is missing is said before anything slow is imported.
    folder = find_weights(options.weights)

    from examples.minilm.tokens import Tokens

    tokens, mask = Tokens(folder).encode(options.sentences)

    from examples.minilm.model import MiniLM
    from examples.minilm.table import similarity_table

    with MiniLM(folder, options.executor, options.threads) as model:
        embeddings = model.embed(tokens, mask)
    similarity = embeddings @ embeddings.T
    if options.json:
        print(json.dumps({"embeddings": embeddings.tolist(), "similarity": similarity.tolist()}))
    else:
        print(similarity_table(options.sentences, similarity))
    return 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    return guard(lambda: run(options), traceback=options.traceback)


if __name__ == "__main__":
    sys.exit(main())
