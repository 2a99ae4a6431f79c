"""Counters for Prometheus, in its text format (version 0.0.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from openinfer.compiler.llm.server.scheduler import Scheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What a server has done since its start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        """By endpoint and status."""

    def text(self, scheduler: Scheduler, slots: int) -> str:
        return "\n".join(self._lines(scheduler, slots)) + "\n"

    def _lines(self, scheduler: Scheduler, slots: int) -> Iterator[str]:
        counts = scheduler.counts
        running, waiting = scheduler.load
        yield from _head("requests_total", "counter", "Requests by endpoint and status.")
        for (path, status), number in sorted(self.requests.items()):
            yield f'openinfer_requests_total{{path="{path}",status="{status}"}} {number}'
        yield from _head("answers_total", "counter", "Answers by how they ended.")
        for how, number in sorted(dict(counts.ended).items()):
            yield f'openinfer_answers_total{{end="{how}"}} {number}'
        rows: list[tuple[str, str, str, float]] = [
            ("prompt_tokens_total", "counter", "Tokens of prompts.", counts.prompt_tokens),
            (
                "reused_tokens_total",
                "counter",
                "Tokens of prompts that were not computed again.",
                counts.reused_tokens,
            ),
            ("written_tokens_total", "counter", "Tokens of answers.", counts.written_tokens),
            ("steps_total", "counter", "Steps of the model.", counts.steps),
            ("step_seconds_total", "counter", "Seconds in steps.", round(counts.step_seconds, 6)),
            ("slots", "gauge", "Answers that can be computed at once.", slots),
            ("running", "gauge", "Requests in slots.", running),
            ("waiting", "gauge", "Requests that wait for a slot.", waiting),
        ]
        for name, kind, text, value in rows:
            yield from _head(name, kind, text)
            yield f"openinfer_{name} {value:g}" if kind == "gauge" else f"openinfer_{name} {value}"


def _head(name: str, kind: str, text: str) -> tuple[str, str]:
    return f"# HELP openinfer_{name} {text}", f"# TYPE openinfer_{name} {kind}"
