"""Runs `torch_child.py` by another Python, and starts it again behind a row that ended it."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

CHILD = Path(__file__).with_name("torch_child.py")
START, COMPILE, PATIENCE = 120.0, 240.0, 60.0
"""Seconds until somebody who says nothing is given up: at first, for rows that are compiled, for others."""
Found = tuple[str, dict[str, Any]]


def peers(
    python: str,
    rows: Sequence[Mapping[str, Any]],
    seconds: float,
    *,
    compiles: bool,
    device: str = "cuda",
) -> Iterator[Found]:
    """What PyTorch takes for each row: its name, and times by how it was run, or `error` or `absent`. A first
    answer by the name "" says what took part."""
    left = list(rows)
    while left:
        done = 0
        with tempfile.TemporaryFile("w+") as errors:
            child = _start(python, errors)
            if isinstance(child, str):
                yield from ((row["name"], {"absent": child}) for row in left)
                return
            order = {"rows": left, "seconds": seconds, "compile": compiles, "device": device}
            try:
                for name, found in _answers(child, order, left):
                    if name is None:
                        yield from ((row["name"], found) for row in left)
                        return
                    yield name, found
                    done += name != ""
            finally:
                child.kill()
                child.wait()
            left = left[done:]
            if left:
                errors.seek(0)
                said = errors.read().strip().splitlines()
                reason = said[-1][:500] if said else "it said nothing in time"
                yield left.pop(0)["name"], {"error": f"the process ended: {reason}"}


def _start(python: str, errors: IO[str]) -> subprocess.Popen[str] | str:
    try:
        return subprocess.Popen(
            [python, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    except OSError as error:
        return f"{python} does not start: {error.strerror}"


def _answers(
    child: subprocess.Popen[str], order: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Its answers, until it has none for too long; None for all rows."""
    lines: queue.Queue[str] = queue.Queue()
    assert child.stdin is not None
    assert child.stdout is not None
    stdin, stdout = child.stdin, child.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    try:
        stdin.write(json.dumps(order))
        stdin.close()
    except BrokenPipeError:
        return
    waits = [START]
    waits += [COMPILE if row.get("compile") and order["compile"] else PATIENCE for row in rows]
    for wait in waits:
        try:
            line = lines.get(timeout=wait)
        except queue.Empty:
            return
        if not line:
            return
        found = json.loads(line)
        if "absent" in found:
            yield None, found
            return
        yield ("", found["about"]) if "about" in found else (found["row"], found["found"])
