"""Ways of compiling and running a program, and those that a seed draws."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from openinfer.compiler.pipeline import SPEED_ONLY

TARGETS = ("generic", "avx2", "avx512")


@dataclass(frozen=True)
class Variant:
    """One way of compiling and running."""

    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Of `compile`."""
    threads: int = 1
    iterated: bool = False
    """Every node is watched."""
    saved: bool = False
    """Saved to a file and loaded from it."""
    traced: bool = False
    """By the build that stamps a clock around its kernels."""
    resumed: bool = False
    """Every level is printed, read again and gone on with."""
    callers: int = 1
    """Python threads that call `run` of one executor at once."""
    quick: bool = False
    """Without LLVM's passes and with its quickest selection of instructions: a third less time."""
    flushes: bool = False
    """On a device that takes subnormal numbers for zeros."""

    @property
    def build(self) -> tuple[object, ...]:
        """What decides the bits: ways with equal ones must give equal bits."""
        options = tuple(sorted((k, str(v)) for k, v in self.options.items()))
        return options, self.iterated, self.quick

    @property
    def tags(self) -> list[str]:
        """What is not plain about it."""
        found: list[str] = []
        for name, value in self.options.items():
            match name:
                case "target":
                    found.append(f"for {value}")
                case "device":
                    found.append(f"on {value}")
                case "optimise":
                    found.append("not optimised")
                case "strict_math":
                    found.append("strict math")
                case "precision":
                    found.append(f"precision {value}")
                case _:
                    assert isinstance(value, tuple)
                    found.append(f"without {' '.join(map(str, value))}")
        flags = (("watched", self.iterated), ("saved", self.saved), ("traced", self.traced))
        flags = (*flags, ("resumed", self.resumed), ("quick", self.quick))
        found += [name for name, on in flags if on]
        if self.threads > 1:
            found.append(f"{self.threads} threads")
        if self.callers > 1:
            found.append(f"{self.callers} callers")
        return found

    @property
    def name(self) -> str:
        return ", ".join(self.tags) or "optimised"


PLAIN = Variant()
TAGS = (
    *(f"for {target}" for target in TARGETS),
    *("not optimised", "strict math", "precision bf16", "without"),
    *("watched", "saved", "traced", "resumed", "quick", "2 threads", "3 threads"),
)
"""What ways are made of; `without` names passes that only make programs faster."""


def variants_of(seed: int, callers: bool = False) -> list[Variant]:
    """The ways in which the program of a seed is run: one or two builds, each in a few ways.

    A build costs far more than a run, and the runs of one build must give the same bits.
    `callers` says whether Python threads may share an executor.
    """
    chance = random.Random(f"ways {seed}")
    builds = 2 if chance.random() < 0.15 else 1
    found: list[Variant] = []
    for _ in range(builds):
        for variant in _runs(_build(chance), chance, callers):
            if variant not in found:
                found.append(variant)
    return found


def _build(chance: random.Random) -> Variant:
    options: dict[str, object] = {}
    iterated = False
    match chance.choices(
        ("plain", "plainly", "watched", "without", "strict", "bf16"), (9, 4, 3, 3, 2, 2)
    )[0]:
        case "plainly":
            options["optimise"] = False
        case "watched":
            iterated = True
        case "without":
            names = sorted(SPEED_ONLY)
            options["without"] = tuple(sorted(chance.sample(names, chance.randint(1, 4))))
        case "strict":
            options["strict_math"] = True
        case "bf16":
            options["precision"] = "bf16"
        case _:
            pass
    if chance.random() < 0.4:
        options["target"] = chance.choice(TARGETS)
    return Variant(options, iterated=iterated, quick=chance.random() < 0.5)


def _runs(build: Variant, chance: random.Random, callers: bool) -> list[Variant]:
    """Of one build: by one thread or a few, and at times in another form."""
    several = chance.choice((2, 2, 3))
    found = [replace(build, threads=chance.choice((1, 1, several)))]
    if chance.random() < 0.5:
        found.append(replace(build, threads=several if found[0].threads == 1 else 1))
    if not build.iterated:
        form = chance.random()
        threads = chance.choice((1, several))
        if form < 0.08:
            found.append(replace(build, threads=threads, saved=True))
        elif form < 0.14:
            found.append(replace(build, threads=threads, traced=True))
        elif form < 0.24:
            found.append(replace(build, threads=threads, resumed=True))
        elif form < 0.32 and callers:
            found.append(replace(build, threads=threads, callers=2))
    return found
