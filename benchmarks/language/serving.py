"""How many tokens per second a server writes for 1, 4 and 8 clients at once.

python -m benchmarks.language.serving --shape 1.04G --type q8_0 --threads 2
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.environment import describe
from benchmarks.language.models import SHAPES, TYPES, model_file
from benchmarks.suite import bench_folder

PROMPT = "▁a▁b▁c▁d▁e▁f▁g▁h".replace("▁", " ") * 4


@dataclass(frozen=True)
class Answer:
    """When the tokens of an answer came, in seconds after its request."""

    times: list[float]


def run(options: argparse.Namespace) -> int:
    path = options.model
    if path is None:
        path = model_file(SHAPES[options.shape], options.type, bench_folder(options.folder))
    best: dict[int, tuple[float, float]] = {}
    with server(path, options.threads, max(options.clients), options.context) as url:
        together(url, 1, 4)
        # In turns, so that what else the machine does meets all of them; the best round counts.
        for _ in range(options.rounds):
            for clients in options.clients:
                rate, first = together(url, clients, options.tokens)
                best[clients] = max(best.get(clients, (0.0, 0.0)), (rate, -first))
    print(
        f"{path.name}, {options.threads} threads, {options.tokens} tokens each; {describe([])['cpu']}\n"
    )
    print("| clients | tokens/s | times one | first token |\n|---|---|---|---|")
    for clients, (rate, first) in best.items():
        ratio = rate / best[options.clients[0]][0]
        print(f"| {clients} | {rate:.1f} | {ratio:.2f} | {-first * 1e3:.0f} ms |")
    return 0


@contextmanager
def server(model: Path, threads: int, slots: int, context: int) -> Iterator[str]:
    """The address of `openinfer serve` with a model."""
    command = [sys.executable, "-m", "openinfer.compiler.tools.openinfer", "serve", str(model)]
    command += ["-np", str(slots), "-t", str(threads), "-c", str(context), "--port", "0"]
    with subprocess.Popen([*command, "-a", "model", "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGTERM)


def together(url: str, clients: int, tokens: int) -> tuple[float, float]:
    """Tokens per second of all clients while all of them write, and the longest time to a first token."""
    with ThreadPoolExecutor(clients) as pool:
        start = time.perf_counter()
        answers = list(pool.map(lambda number: ask(url, number, tokens, start), range(clients)))
    begin = max(answer.times[0] for answer in answers)
    end = min(answer.times[-1] for answer in answers)
    written = sum(sum(begin < moment <= end for moment in answer.times) for answer in answers)
    return written / max(end - begin, 1e-9), begin


def ask(url: str, number: int, tokens: int, start: float) -> Answer:
    """An answer of exactly so many tokens, each in a piece of its own."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.netloc, timeout=600)
    body = {
        "prompt": f"client {number}{PROMPT}",
        "max_tokens": tokens,
        "stream": True,
        "seed": number,
        "logprobs": 0,
        # Of random weights, bytes would wait for the rest of a character.
        "logit_bias": {str(token): -100 for token in range(259)},
    }
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"{parts.path}/completions", json.dumps(body), headers)
    response = connection.getresponse()
    times: list[float] = []
    while line := response.readline():
        if line.startswith(b"data: {") and b'"text": ""' not in line:
            times.append(time.perf_counter() - start)
    connection.close()
    if response.status != 200 or len(times) < 2:
        raise RuntimeError(f"status {response.status}, {len(times)} tokens")
    return Answer(times)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--model", type=Path, help="a .gguf file, in place of a shape")
    add("--shape", choices=SHAPES, default="15M")
    add("--type", choices=TYPES, default="q8_0")
    add("--threads", type=int, default=2)
    add("--clients", type=int, nargs="+", default=[1, 4, 8])
    add("--tokens", type=int, default=64)
    add("--context", type=int, default=512)
    add("--rounds", type=int, default=3)
    add("--folder", type=Path, help="where the models are kept")
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
