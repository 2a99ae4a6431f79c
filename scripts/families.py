"""The table of `docs/families.md`: each family's program on random weights, beside float64 and others.

python scripts/families.py --jobs 8              # all rows, in processes; minutes
python scripts/families.py --only llama gpt2     # some
python scripts/families.py --jobs 8 --page       # all, and write docs/families.md
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests" / "unit")]

from llm_models import SHAPES
from llm_table import EXACT, HEAD, PROMPT, TOKENS, TYPES, Row, measured

from benchmarks.environment import cpu_field
from openinfer.runtime.errors import OpenInferError

PAGE = REPOSITORY / "docs" / "families.md"
LIBRARIES = ("numpy", "gguf", "xllamacpp", "torch", "transformers")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=list(SHAPES), choices=SHAPES, metavar="NAME")
    parser.add_argument("--types", nargs="+", default=list(TYPES), choices=TYPES)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes; 1 by default")
    parser.add_argument("--page", action="store_true", help="write docs/families.md")
    options = parser.parse_args()
    whole = (list(SHAPES), list(TYPES)) == (options.only, options.types)
    if options.page and not whole:
        parser.error("the page has all rows: leave --only and --types out")
    rows: list[Row] = []
    print(line(HEAD), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        jobs = [(name, weights, Path(folder)) for name in options.only for weights in options.types]
        for row in all_of(jobs, options.jobs):
            rows.append(row)
            print(line(row.cells()), flush=True)
    wrong = [f"{row.model} {row.weights}: {text}" for row in rows for text in row.wrong()]
    absent = sorted({f"{who}: {why}" for row in rows for who, why in row.absent.items()})
    for text in [*absent, *wrong]:
        print(text, file=sys.stderr)
    if options.page:
        if absent:
            parser.error("no page: not everything could run (pip install -e '.[bench-more]')")
        PAGE.write_text(page(rows), encoding="utf-8")
    return int(bool(wrong or any("openinfer" in text for text in absent)))


def all_of(jobs: Sequence[tuple[str, str, Path]], processes: int) -> Iterator[Row]:
    """The rows in their order, as they are measured."""
    if processes == 1:
        yield from (row_of(*job) for job in jobs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(row_of, *zip(*jobs))


def row_of(name: str, weights: str, folder: Path) -> Row:
    """A row; one that fails says why."""
    try:
        return measured(name, weights, folder)
    except OpenInferError as error:
        return Row(name, weights, absent={f"openinfer, {name} {weights}": str(error)})


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page(rows: Sequence[Row]) -> str:
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    table = [line(HEAD), line(["---", "---", *["---:"] * (len(HEAD) - 3), "---"])]
    table += [line(row.cells()) for row in rows]
    return f"""\
# Families of language models, beside others

Each program of [language-models.md](language-models.md#families) on a small model with random weights in
one type, written by the `gguf` package. A text of {len(PROMPT)} tokens is read in chunks of 10; then
{TOKENS} greedy tokens are chosen one by one. Keys and values are in f32. A number is the largest difference
of two logits over the whole text, as a part of the largest logit.

The columns `compiled` to `transformers` are differences to a forward pass in float64 over the unpacked
weights (`tests/unit/llm_models.py`): exact programs must be within {EXACT:.0e}. Beside weights in blocks,
llama.cpp rounds rows to eight bits, as our precision `q8` does; for gemma and gpt2 it takes GELU from a table
in f16. There it is not exact, and its greedy tokens are not compared. The last column says who
would choose the same {TOKENS} tokens as the compiled program.

Of models with experts the router's weights are random, too: its scores are often near a tie, and rows in
eight bits then go to another expert, with us and with llama.cpp. Of a Mixtral in Q8_0 with `q8` that is one
of 104 tokens; the others are at most 0.025 off.

{chr(10).join(table)}

{cpu_field("model name") or "processor unknown"}; {libraries}.
Made by `python scripts/families.py --page`.
"""


if __name__ == "__main__":
    sys.exit(main())
