"""The results as a picture: each runtime's speed beside the machine's limit, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.tables import threads_words
from openinfer.compiler.tools.extras import missing_library

INCHES = 0.28
"""Height of a row."""


def draw(data: Mapping[str, Any], path: Path) -> None:
    """Writes a picture in the format of the name's ending.

    A row is a line; a mark on it is a runtime, at its share of the limit. Raises UnsupportedError
    OI0734 without matplotlib.
    """
    try:
        matplotlib = import_module("matplotlib")
        matplotlib.use("Agg")
        plt = import_module("matplotlib.pyplot")
    except ImportError:
        raise missing_library("matplotlib", "bench") from None
    counts = sorted({row["threads"] for row in data["rows"]}) or [1]
    height = 1.5 + INCHES * max(
        (sum(row["threads"] == count for row in data["rows"]) for count in counts), default=1
    )
    figure, axes = plt.subplots(
        1, len(counts), figsize=(7 * len(counts), height), sharey=True, squeeze=False
    )
    for axis, count in zip(axes[0], counts):
        _panel(axis, [row for row in data["rows"] if row["threads"] == count], count)
    axes[0][-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _panel(axis: Any, rows: list[Any], threads: int) -> None:
    colours = import_module("matplotlib").colormaps["tab10"]
    shown = [name for name in PEERS if any(name in row["peers"] for row in rows)]
    for number, name in enumerate(shown):
        points = [
            (row["peers"][name]["share"], place)
            for place, row in enumerate(rows)
            if name in row["peers"] and not row["peers"][name]["refused"]
        ]
        ours = PEERS[name].ours
        axis.scatter(
            [share for share, _ in points],
            [place for _, place in points],
            label=PEERS[name].title,
            color=colours(number % 10),
            marker="D" if ours else "o",
            s=45 if ours else 18,
            zorder=3 if ours else 2,
        )
    axis.axvline(1.0, color="black", linewidth=1, linestyle="--")
    axis.set_yticks(range(len(rows)), [row["title"] for row in rows], fontsize="x-small")
    axis.invert_yaxis()
    axis.set_xlim(0, 1.2)
    axis.set_xlabel("share of the machine's limit (dashed), right is faster")
    axis.set_title(threads_words(threads))
    axis.grid(axis="x", alpha=0.3)
