"""One engine with one model in one process, which times itself when told to.

    python -m benchmarks.language.worker ENGINE FILE THREADS DEVICE

Loads the model, takes `PROMPT` tokens, and says how long that took. Then it reads a JSON object per line
from stdin and answers with one per line: `{"measure": KIND, "seconds": S}`, where KIND is `decode` (steps
of one token behind `DEPTH` others) or a number, of tokens of a prompt; `{"logits": FILE}` stores those
behind the prompt. What goes wrong comes back as `{"error": TEXT}`.
"""

from __future__ import annotations

import sys
import time

BEGIN = time.perf_counter()

import json  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

PROMPT, DEPTH = 16, 128


def memory() -> dict[str, int]:
    """Bytes of this process in memory: its own, and pages of files. Empty where the system does not say."""
    try:
        text = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in text.splitlines())
    own, files = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return {"own": own, "files": files}


def prompt(length: int, vocabulary: int = 32_000) -> list[int]:
    """Token ids of a text, the same at every call."""
    return [259 + (7919 * number + 101) % (vocabulary - 259) for number in range(length)]


class Session:
    """An engine that has taken its prompt."""

    def __init__(self, engine: str, path: Path, threads: int, device: str) -> None:
        from benchmarks.language.engines import ENGINES
        from benchmarks.processors import Watch

        _, make = ENGINES[engine]
        before = memory()
        start = time.perf_counter()
        self._model = make(path, threads, device)
        loaded = time.perf_counter()
        self._logits = self._model.step(prompt(PROMPT))
        end = time.perf_counter()
        # Python, NumPy and what an engine imports before it loads count: a user waits for them.
        self.first = {
            "load": loaded - start,
            "first_token": end - BEGIN,
            "memory": {name: size - before[name] for name, size in memory().items()},
        }
        self._watch = Watch(threads)
        self._warm: set[str] = set()
        self._depth = 0

    def measure(self, kind: str, seconds: float) -> dict[str, Any]:
        """Seconds of each step (`decode`), or of each prompt."""
        run = self._decode if kind == "decode" else lambda: self._prefill(int(kind))
        if kind not in self._warm:
            # Once: the first run of a kind may make buffers, and a prompt can take ten seconds.
            run()
            self._warm.add(kind)
        times: list[float] = []
        self._watch.start()
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(run())
        return {"times": sorted(times), "missing": self._watch.missing()}

    def _decode(self) -> float:
        if self._depth != DEPTH:
            self._model.cut(0)
            self._model.step(prompt(DEPTH))
            self._depth = DEPTH
        start = time.perf_counter()
        self._model.step([300])
        taken = time.perf_counter() - start
        # Always the same step: what it added is taken away.
        self._model.cut(DEPTH)
        return taken

    def _prefill(self, length: int) -> float:
        self._depth = 0
        self._model.cut(0)
        start = time.perf_counter()
        self._model.step(prompt(length))
        return time.perf_counter() - start

    def store(self, path: str) -> dict[str, Any]:
        import numpy as np

        np.save(path, self._logits)
        return {}


def main() -> None:
    from benchmarks.pipes import own_stdout
    from benchmarks.processors import settle

    engine, path, threads, device = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    pipe = own_stdout()

    def reply(what: dict[str, Any]) -> None:
        pipe.write(json.dumps(what) + "\n")
        pipe.flush()

    try:
        session = Session(engine, path, threads, device)
    except Exception as error:
        reply({"error": f"{type(error).__name__}: {error}"[:2000]})
        return
    reply(session.first)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            if "measure" in order:
                answer = session.measure(order["measure"], order["seconds"])
                settle()
            else:
                answer = session.store(order["logits"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        reply(answer)


if __name__ == "__main__":
    main()
