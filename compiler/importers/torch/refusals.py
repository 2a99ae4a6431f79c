"""What of a model cannot be imported: found one by one, told together."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from openinfer.lowering.graph.imports.provenance import Provenance
from openinfer.runtime.errors import UnsupportedError

_PLACES_SHOWN = 4


class Refused(Exception):
    """One op of a model cannot be imported: the reason, and what could be done."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class Refusal:
    """An op that was refused, where it stands."""

    call: str
    reason: str
    hint: str
    place: Provenance


def error_of(refusals: list[Refusal], source: str) -> UnsupportedError:
    """All refusals of one model as one error: each op with its reason, how often, where."""
    groups: defaultdict[tuple[str, str, str], list[Provenance]] = defaultdict(list)
    for one in refusals:
        groups[one.call, one.reason, one.hint].append(one.place)
    lines: list[str] = []
    for (call, reason, hint), places in groups.items():
        times = f"{len(places)} x " if len(places) > 1 else ""
        lines.append(f"  {times}{call}: {reason}")
        shown = list(dict.fromkeys(_place_text(place) for place in places))
        lines += [f"    {text}" for text in shown[:_PLACES_SHOWN] if text]
        if len(shown) > _PLACES_SHOWN:
            lines.append(f"    and {len(shown) - _PLACES_SHOWN} more places")
        if hint:
            lines.append(f"    instead: {hint}")
    kinds = "1 kind of op" if len(groups) == 1 else f"{len(groups)} kinds of ops"
    return UnsupportedError(
        "OI1500",
        "\n".join([f"{source} uses {kinds} that cannot be imported", *lines]),
        hint="write these parts with other operations and export again",
    )


def _place_text(place: Provenance) -> str:
    """`at encoder.layer.0.attention (BertAttention), m.py:12`."""
    parts: list[str] = []
    if place.module:
        kind = f" ({place.kind})" if place.kind else ""
        parts.append(f"at {place.module}{kind}")
    if place.file:
        parts.append(f"{place.file}:{place.line}")
    return ", ".join(parts)
