"""Race programs against other runtimes on this machine, beside what the machine allows.

Works in a checkout of the repository, where the workloads lie. Runtimes that are not installed are
named and left out; the answers of all others are compared with the simulator before they are timed.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from openinfer.compiler.tools.arguments import add_device, add_no_fallback
from openinfer.runtime.devices import DEFAULT_DEVICE
from openinfer.runtime.errors import UnsupportedError

EXAMPLES = """\
examples:
  openinfer bench                                   everything, 1 and 2 threads: 25 minutes
  openinfer bench --json benchmarks/results.json --ablate --page    and docs/performance.md anew
  openinfer bench --quick                           the same, too short to quote: some minutes
  openinfer bench --list                            workloads and peers by name
  openinfer bench --workload W1,minilm-128 --threads 1 --peers onnxruntime,openvino
  openinfer bench --json results.json --resume      go on after an interruption
  openinfer bench --json results.json --again --workload W8    some rows of it anew
  openinfer bench --target avx2 --json avx2.json    with AVX2, against peers that leave AVX-512 alone
  openinfer bench --ablate --workload W3 --peers none    what each pass of the compiler buys
  python -m benchmarks.language                     language models beside llama.cpp (W7)

In a checkout: pip install -e '.[bench,bench-more]' brings the peers.
"""
JSON_IS_A_FILE = True
"""`--json` takes the name of a file: results come as text as well."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--workload",
        "--only",
        nargs="+",
        metavar="W",
        help="groups (W1 to W6, W8, W9) or rows by name, with commas or spaces between (default: all)",
    )
    add("--threads", metavar="N,…", help="numbers of threads (default 1,2, or 1 on one CPU)")
    add("--peers", nargs="+", metavar="P", help="these peers; `none`, or `all` with the slow ones")
    add(
        "--target",
        default="host",
        metavar="T",
        help="compile for an older processor (avx2, generic) and hold peers to its instructions",
    )
    add_device(parser, default=DEFAULT_DEVICE)
    add_no_fallback(parser)
    add("--rounds", type=int, metavar="N", help="rounds of turns (default 7)")
    add("--slice", type=float, metavar="S", help="seconds of a turn (default 0.1)")
    add("--quick", action="store_true", help="2 rounds of 0.02 s: shows that everything works")
    add("--json", type=Path, metavar="FILE", help="write all numbers, after each row")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument(
        "--resume", action="store_true", help="keep the rows that the file of --json has already"
    )
    kept.add_argument(
        "--again", action="store_true", help="measure rows of that file anew, keep the others"
    )
    add("--markdown", type=Path, metavar="FILE", help="write the tables as Markdown")
    add("--page", action="store_true", help="write docs/performance.md from the file of --json")
    add("--plot", type=Path, metavar="FILE", help="draw them (needs matplotlib)")
    add("--ablate", action="store_true", help="also leave out each optimising pass in turn")
    add("--prepare", action="store_true", help="build what peers compile ahead of time, no more")
    add("--no-start", action="store_true", help="leave compile times, start-up and sizes out")
    add("--folder", type=Path, metavar="DIR", help="for weights and peers' files (default: cache)")
    add("--list", action="store_true", help="name workloads and peers, and end")


def run(args: argparse.Namespace) -> int:
    """Raises UnsupportedError OI0737 where there is no checkout."""
    root = checkout()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module("benchmarks.suite").run(args)


def checkout() -> Path:
    """The repository that this package runs from. Raises UnsupportedError where it is installed."""
    # The folder of a layer, links resolved, stands at the top of a checkout.
    root = Path(__file__).resolve().parents[3]
    if not (root / "benchmarks" / "suite.py").is_file():
        raise UnsupportedError(
            "OI0737",
            "the workloads of `openinfer bench` are no part of the installed package",
            hint="run it in a checkout of the repository, after `pip install -e '.[bench]'` there",
        )
    return root
