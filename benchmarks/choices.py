"""What the options of a run choose: workloads, peers, threads, rounds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.instruction_sets import HOST, RESTRICTIONS, ROWS
from benchmarks.peers import OURS, PEERS, concerns
from benchmarks.workloads import GROUPS, SAMPLES, WORKLOADS
from benchmarks.workloads.base import Workload
from openinfer.compiler.suggest import near
from openinfer.compiler.tools.extras import missing_library
from openinfer.compiler.tools.report import UsageError
from openinfer.runtime.devices import DEFAULT_DEVICE
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.suggest import did_you_mean
from openinfer.runtime.target import TARGETS

ROUNDS, SECONDS = 7, 0.1
QUICK_ROUNDS, QUICK_SECONDS = 2, 0.02


@dataclass(frozen=True)
class Choices:
    """A run."""

    workloads: tuple[Workload, ...]
    peers: tuple[str, ...]
    """Those that can run here, we first."""
    absent: dict[str, str]
    """Why the others cannot, by title."""
    named: bool
    """Whether peers were asked for by name: slow ones run everywhere then."""
    selected: bool
    """Whether workloads were: the ablation takes these, not its samples."""
    threads: tuple[int, ...]
    rounds: int
    seconds: float
    start: bool
    """Whether compile and start-up times are measured too."""
    target: str = HOST
    """The target that programs are compiled for, and peers are held to."""
    device: str = DEFAULT_DEVICE
    """The device that our programs run on."""
    fallback: bool = True
    """Whether the host runs what that device does not support."""

    def peers_of(self, workload: Workload) -> list[str]:
        """The peers of a row; those with a reason of their own not to run it say so later."""
        return [
            peer
            for peer in self.peers
            if (self.named or not PEERS[peer].slow or workload.name in SAMPLES)
            and concerns(PEERS[peer], workload)
        ]


def chosen(args: argparse.Namespace) -> Choices:
    """Raises UsageError for unknown names and impossible numbers, UnsupportedError for a peer that
    was named and is not installed."""
    rounds = args.rounds or (QUICK_ROUNDS if args.quick else ROUNDS)
    seconds = args.slice or (QUICK_SECONDS if args.quick else SECONDS)
    if rounds < 1 or not seconds > 0:
        raise UsageError("--rounds and --slice take numbers above 0")
    target = _target(args.target)
    peers, absent = _peers(_words(args.peers), target)
    return Choices(
        workloads=_workloads(_words(args.workload) or ([] if target == HOST else list(ROWS))),
        peers=peers,
        absent=absent,
        named=args.peers is not None,
        selected=args.workload is not None,
        threads=_threads(args.threads),
        rounds=rounds,
        seconds=seconds,
        start=not args.no_start and args.workload is None and target == HOST,
        target=target,
        device=args.device,
        fallback=not args.no_fallback,
    )


def _words(given: Sequence[str] | None) -> list[str]:
    return [word for text in given or () for word in text.split(",") if word]


def _workloads(words: Sequence[str]) -> tuple[Workload, ...]:
    known = [*GROUPS, *WORKLOADS]
    for word in words:
        if word not in WORKLOADS and word not in GROUPS:
            raise UsageError(
                f"there is no workload '{word}'",
                _nearest(word, known),
            )
    return tuple(
        row for name, row in WORKLOADS.items() if not words or name in words or row.group in words
    )


def _nearest(word: str, known: Sequence[str]) -> str:
    if word == "W7":
        return "language models have a command of their own: python -m benchmarks.language"
    guess = did_you_mean(word, known, 3, quote="'").rstrip()
    if not guess or word.startswith("W"):
        return f"{', '.join(GROUPS)}, or a row that `openinfer bench --list` names"
    return guess


def _target(name: str) -> str:
    """Raises UsageError for one that peers cannot be held to, or that this processor cannot run."""
    known = list(TARGETS)
    older = known[known.index(host_target().name) :]
    possible = [target for target in RESTRICTIONS if target == HOST or target in older]
    if name not in possible:
        raise UsageError(f"--target '{name}' is none to race with here", ", ".join(possible))
    return name


def _peers(words: Sequence[str], target: str) -> tuple[tuple[str, ...], dict[str, str]]:
    others = [name for name in PEERS if name != OURS]
    for word in words:
        if word in ("all", "none", OURS):
            continue
        if word not in PEERS:
            raise UsageError(
                f"there is no peer '{word}'", near(word, [*others, "all", "none"], "peers")
            )
        if PEERS[word].version() is None:
            raise missing_library(PEERS[word].distribution, PEERS[word].extra)
        reason = RESTRICTIONS[target].absent.get(word) or PEERS[word].missing()
        if reason is not None:
            raise UsageError(f"{PEERS[word].title} cannot run here: {reason}")
    wanted = others if not words or "all" in words else [name for name in others if name in words]
    unfit = RESTRICTIONS[target].absent
    reasons = {name: unfit.get(name) or PEERS[name].missing() for name in wanted}
    present = tuple(name for name, reason in reasons.items() if reason is None)
    absent = {PEERS[name].title: reason for name, reason in reasons.items() if reason is not None}
    return (OURS, *present), absent


def _threads(text: str | None) -> tuple[int, ...]:
    cpus = len(os.sched_getaffinity(0))
    if text is None:
        return (1, 2) if cpus > 1 else (1,)
    try:
        counts = tuple(int(word) for word in text.split(",") if word)
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise UsageError(f"--threads takes numbers above 0, not '{text}'", "as in --threads 1,2")
    return tuple(dict.fromkeys(counts))
