"""Rounds of a race, and the one rule by which disturbed measurements are made again.

A machine that is shared takes a core away for a while, or moves it; a row that meets that tells
nothing about runtimes. Two things show it, neither of them our own time:

- while one runtime or loop was measured, others had more processor time than the cores that it leaves
  free, by more than `MISSING` of that while. That turn is made again at once.
- in one round most of the runtimes and of the machine's loops took `SLOW` times as long as in the
  quickest round of each. Rounds are added until as many as wanted are not of that kind.

What varies by itself is not left out but measured more often: where our time or that of the quickest
peer spreads by more than `SPREAD`, a row gets half as many rounds more, and all of these count.

All of it is the same for everybody, and stops when as many turns were added as the row had to begin
with. If the machine did not give as many undisturbed rounds as wanted, those that come closest count.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = 0.2
SLOW = 1.25
SPREAD = 0.1
TRIES = 3
"""So many times a turn is measured at most."""
FEW, HOPELESS = 3, 10.0
"""A peer that is so many times slower than we are takes part in the first few rounds only."""
LIMITS = "limits"


@dataclass
class Round:
    """What was measured shortly after each other."""

    rates: dict[str, float] = field(default_factory=dict[str, float])
    """The machine's loops: work each second."""
    times: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Seconds of single calls, by peer."""

    def middles(self) -> dict[str, float]:
        """One time for each runtime and for each loop."""
        loops = {f"{LIMITS} {name}": 1 / rate for name, rate in self.rates.items()}
        return loops | {peer: statistics.median(times) for peer, times in self.times.items()}


@dataclass
class Rounds:
    """The rounds of a row that count, and what was measured again for them."""

    kept: list[Round]
    turns: int = 0
    """Turns that were made again at once."""
    dropped: int = 0
    """Rounds that do not count, and were made again."""
    more: int = 0
    """Rounds that count beyond those that were asked for, since times spread."""
    disturbed: int = 0
    """Rounds that count all the same, since the machine gave no others."""
    every: list[Round] = field(default_factory=list[Round])
    """Those that do not count too."""

    def of(self, peer: str) -> list[Round]:
        """Where a peer took part; one that left early may have been in rounds alone that do not
        count."""
        kept = [each for each in self.kept if peer in each.times]
        return kept or [each for each in self.every if peer in each.times]


Ask = Callable[[str], Mapping[str, Any]]
"""Measures one peer, or `LIMITS`: `rates` or `times`, and `missing`, the part of the time that a core
was not there, None where the system does not tell."""


def collect(
    ask: Ask, running: Sequence[str], wanted: int, rivals: Sequence[str], seed: str
) -> Rounds:
    """Measures rounds until enough of them are undisturbed, or the budget is used up. `rivals` are those
    that the row compares, we first."""
    order = random.Random(seed)
    everybody = [LIMITS, *running]
    found = Rounds([])
    left = wanted * len(everybody)
    target = wanted
    while True:
        good = [each for each, slow in zip(found.every, slowness(found.every)) if slow <= SLOW]
        if len(good) >= wanted == target and spread(good, rivals) > SPREAD:
            target = wanted + -(-wanted // 2)
        if len(found.every) >= wanted:
            if len(good) >= target or left < len(everybody):
                break
            left -= len(everybody)
        # Always behind the same neighbour a runtime would always find what that one left behind.
        order.shuffle(everybody)
        left -= _round(ask, everybody, found, rivals[0], left)
    slow = slowness(found.every)
    chosen = choose(slow, max(wanted, len(good)))
    found.kept = [found.every[i] for i in chosen]
    found.disturbed = sum(slow[i] > SLOW for i in chosen)
    found.dropped = len(found.every) - len(chosen)
    found.more = len(chosen) - wanted
    return found


def _round(ask: Ask, names: Sequence[str], found: Rounds, ours: str, left: int) -> int:
    """Adds a round with those that take part in it; how many turns were made again."""
    this, again = Round(), 0
    for name in names:
        if len(found.every) >= FEW and hopeless(found.every[0], name, ours):
            continue
        reply, added = _turn(ask, name, left - again)
        again += added
        if name == LIMITS:
            this.rates = dict(reply["rates"])
        else:
            this.times[name] = list(reply["times"])
    found.every.append(this)
    found.turns += again
    return again


def spread(rounds: Sequence[Round], rivals: Sequence[str]) -> float:
    """The larger coefficient of variation of two: of the first rival, and of the quickest other."""
    times = {
        name: [statistics.median(each.times[name]) for each in rounds if name in each.times]
        for name in rivals
    }
    others = [name for name in rivals[1:] if times[name]]
    quickest = sorted(others, key=lambda name: statistics.median(times[name]))[:1]
    found = [times[name] for name in (*rivals[:1], *quickest) if times[name]]
    return max((statistics.pstdev(each) / statistics.fmean(each) for each in found), default=0.0)


def _turn(ask: Ask, name: str, left: int) -> tuple[Mapping[str, Any], int]:
    """The reply of the try in which least was missing, and how many tries were added."""
    best = reply = ask(name)
    again = 0
    while (reply["missing"] or 0) > MISSING and again < min(TRIES - 1, left):
        reply = ask(name)
        again += 1
        if (reply["missing"] or 0) < (best["missing"] or 0):
            best = reply
    return best, again


def slowness(rounds: Sequence[Round]) -> list[float]:
    """How many times as long as in its quickest round a runtime or loop took in each round: the median
    over all that took part."""
    middles = [each.middles() for each in rounds]
    least: dict[str, float] = {}
    for each in middles:
        for name, seconds in each.items():
            least[name] = min(seconds, least.get(name, seconds))
    return [
        statistics.median(seconds / least[name] for name, seconds in each.items())
        for each in middles
    ]


def choose(slow: Sequence[float], wanted: int) -> list[int]:
    """The rounds that count, in their order: those that are undisturbed; where these are too few, those
    that come next by their slowness."""
    by_kind = sorted(range(len(slow)), key=lambda i: max(slow[i], SLOW))
    return sorted(by_kind[:wanted])


def hopeless(first: Round, peer: str, ours: str) -> bool:
    """Whether a peer takes so much longer than we do that a few rounds tell enough."""
    if peer in (ours, LIMITS) or ours not in first.times or peer not in first.times:
        return False
    return statistics.median(first.times[peer]) > HOPELESS * statistics.median(first.times[ours])
