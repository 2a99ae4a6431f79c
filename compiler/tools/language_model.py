"""What the commands for language models share: options of engine and sampling, as llama.cpp names them."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openinfer.compiler.arguments import WORKING_PRECISIONS
from openinfer.compiler.tools.arguments import add_device
from openinfer.compiler.tools.program_argument import ProgramArgument
from openinfer.runtime.devices import DEFAULT_DEVICE
from openinfer.runtime.errors import InputError

if TYPE_CHECKING:
    from openinfer.compiler.llm.engine import Answer, Engine

ROUNDED = "q8"
_SAMPLING = (
    ("--temp", "temperature", float, "T", "0: always the most probable token"),
    ("--top-k", "top_k", int, "N", "draw from the N most probable tokens; 0: from all"),
    ("--top-p", "top_p", float, "P", "from the most probable ones that add up to P"),
    ("--min-p", "min_p", float, "P", "from those at least P times as probable as the first"),
    ("--typical", "typical", float, "P", "from the nearest to the expected surprise; 1: off"),
    ("--repeat-penalty", "repeat_penalty", float, "X", "for tokens that occurred; 1: off"),
    ("--repeat-last-n", "repeat_last", int, "N", "of the last N tokens"),
    ("--presence-penalty", "presence_penalty", float, "X", "once for a token that occurred"),
    ("--frequency-penalty", "frequency_penalty", float, "X", "each time that it occurred"),
    ("--seed", "seed", int, "N", "the same text again"),
)


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """The model and how it is run."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="a .gguf model, or a Hugging Face folder")
    add(
        "--program",
        type=ProgramArgument,
        metavar="FILE",
        help="run this program in place of that of the model's family",
    )
    add(
        "-c",
        "--context",
        type=int,
        metavar="N",
        help="most tokens of a text (default: the model's)",
    )
    add("-t", "--threads", type=int, metavar="N", help="processors of a step (default: all)")
    add(
        "--precision",
        choices=WORKING_PRECISIONS,
        default=ROUNDED,
        help="of the products; q8 (default) rounds rows beside weights in blocks, on Vulkan these weights; "
        "f32 is exact",
    )
    add_cache(parser)
    add_device(parser, simulator=True, default=DEFAULT_DEVICE)


def add_cache(parser: argparse.ArgumentParser) -> None:
    """What keys and values are kept in, for programs of families."""
    from openinfer.compiler.llm.kv_cache import CACHES

    add = parser.add_argument
    add(
        "--cache",
        choices=CACHES,
        help="of keys and values (default: f16 with precision q8 for narrow weights, else f32)",
    )
    add("-ctk", "--cache-type-k", choices=CACHES, help="of keys alone")
    add("-ctv", "--cache-type-v", choices=CACHES, help="of values alone")


def cache_of(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """What keys and values are to be kept in, None where the command line does not say."""
    return args.cache_type_k or args.cache, args.cache_type_v or args.cache


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """How tokens are drawn. What is not given is what the model recommends, else llama.cpp's default."""
    group = parser.add_argument_group("sampling")
    for flag, name, kind, what, text in _SAMPLING:
        group.add_argument(flag, dest=name, type=kind, metavar=what, help=text)


def add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    """When an answer ends."""
    add = parser.add_argument
    add("-n", "--max-tokens", type=int, metavar="N", help="most tokens of an answer")
    add("--stop", action="append", default=[], metavar="TEXT", help="end before it (repeatable)")


def engine_of(args: argparse.Namespace, *, slots: int = 1, chunk: int = 128) -> Engine:
    """The engine that the command line asks for."""
    from openinfer.compiler.llm.engine import ROUNDING, Engine
    from openinfer.compiler.tools.extras import missing_library
    from openinfer.runtime.devices import kind_of

    if find_spec("tokenizers") is None:
        # All commands need it; the engine would say so when the model is compiled.
        raise missing_library("tokenizers", "llm")
    engine = Engine(
        Path(args.model),
        program=None if args.program is None else args.program.graph(),
        device=args.device,
        precision=args.precision,
        context=args.context,
        threads=args.threads,
        cache=cache_of(args),
        slots=slots,
        chunk=chunk,
    )
    if engine.precision == ROUNDED:
        cache = " and ".join(dict.fromkeys(engine.cache))
        print(
            f"precision q8: {ROUNDING[kind_of(args.device)]}, keys and values to {cache}; "
            "--precision f32 computes exactly",
            file=sys.stderr,
        )
    return engine


def prompt_file(path: Path) -> str:
    """A text for the model. Raises InputError OI0513 for what is no UTF-8, OSError for no file."""
    from openinfer.runtime.files import read_text

    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise InputError(
            "OI0513",
            f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}",
            hint="give a text file; convert one of another encoding, as by `iconv -t utf-8`",
        ) from None


def answer_options(args: argparse.Namespace) -> dict[str, Any]:
    """What `generate` and `chat` of an engine are asked for. -1 is nothing for `-n` and `--seed`, as for
    llama.cpp."""
    given = {name: getattr(args, name) for _, name, *_ in _SAMPLING}
    given |= {"max_tokens": args.max_tokens}
    given |= {name: None for name in ("max_tokens", "seed") if given[name] == -1}
    return {"stop": args.stop, **given}


def shown_rates(answer: Answer, first: float, whole: float) -> str:
    """What an answer cost: `first` and `whole` are the seconds until its first piece, and its end."""
    count = len(answer.tokens)
    rate = (count - 1) / (whole - first) if count > 1 and whole > first else 0.0
    reused = f" ({answer.reused} reused)" if answer.reused else ""
    return (
        f"{len(answer.prompt)} tokens of prompt{reused}, first text after {first:.2f} s; "
        f"{count} tokens of answer, {rate:.1f} per second; ended by {answer.finish}"
    )
