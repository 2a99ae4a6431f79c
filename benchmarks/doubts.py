"""Why a share of the machine's limit exceeds 100 %, and why a time is refused, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.limits import SLACK
from benchmarks.peers import PEERS
from benchmarks.tables import duration, size, threads_words

Row = Mapping[str, Any]
SHOWN = 1.005
"""Shares from here on are shown as more than 100 %."""


def doubts(rows: Sequence[Row]) -> Iterator[str]:
    """One sentence for each time that is shorter than its limit."""
    for row in rows:
        for peer, cell in row["peers"].items():
            if cell["refused"] or cell["share"] >= SHOWN:
                yield _sentence(row, peer, cell)


def absent(row: Row) -> Iterator[str]:
    """One sentence for each peer that has no part in a row."""
    for peer, reason in row["missing"].items():
        yield f"{PEERS[peer].title} has no part: {reason}"


def _sentence(row: Row, peer: str, cell: Mapping[str, Any]) -> str:
    seconds, share = cell["seconds"], cell["share"]
    said = (
        f"{row['title']}, {threads_words(row['threads'])}: {PEERS[peer].title} took "
        f"{duration(seconds)}, {share:.0%} of the limit: {_work(row, peer)} take "
        f"{duration(share * seconds)} by what was measured in the same rounds"
    )
    if not cell["refused"]:
        return f"{said}; rates vary by {SLACK - 1:.0%}, so the time counts"
    return f"{said}; a time that is more than {SLACK - 1:.0%} too short is refused: {_reason(row)}"


def _work(row: Row, peer: str) -> str:
    """What the limit of a peer consists of; one that computes in narrower numbers has less to do."""
    gain, limits = PEERS[peer].gain, row["limits"]
    narrow = f" at {gain:g} times the rate of f32" if gain != 1 else ""
    if row["bound"] == "fma":
        return f"its multiply-adds at {limits['fma'] / 1e9:.3g} GFLOP/s{narrow}"
    return f"reads of {size(row['bytes'] / gain)} at {limits['read'] / 1e9:.3g} GB/s"


def _reason(row: Row) -> str:
    """What is known of the reason. The answer was compared, so the result itself is right."""
    disturbed = row.get("again", {}).get("disturbed", 0)
    if disturbed:
        rounds = f"{disturbed} round{'s' * (disturbed != 1)}"
        return (
            f"{rounds} of this row were disturbed by other work, so its limit is probably measured "
            "badly; measure again on a quiet machine"
        )
    if row["bound"] == "fma":
        return (
            "either not all of the work was done, or the processor ran the loop that measures "
            "multiply-adds at a lower clock"
        )
    return (
        "either not all of the bytes were read, or a nearer cache kept more of them than of the buffer "
        "of the loop that measures reads"
    )
