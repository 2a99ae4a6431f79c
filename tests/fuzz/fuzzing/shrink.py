"""Makes a failing program small: leaves out parts as long as it fails in the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fuzzing.check import Defect, Verdict
from fuzzing.isolate import run_program
from fuzzing.tree import Declaration, Node, Program
from fuzzing.ways import Variant
from openinfer.runtime.tensors import Tensor

Change = Callable[[Program], bool]
"""Changes a copy of the program; False where it cannot."""
Way = Callable[[Program, int], Change | None]
"""Change number n of a kind; None behind the last one."""


def shrink(program: Program, defect: Defect, seconds: float = 300.0) -> tuple[Program, Verdict]:
    """The smallest program that was found to fail like this, and what came out of it."""
    end = time.monotonic() + seconds
    best, verdict = program, Verdict(defect, program=program)
    limit = 20.0 if defect.kind == "hang" else 60.0
    for _ in range(4):
        before = best.text, _bulk(best)
        for way in WAYS:
            # After a success the same place is tried again: what stood behind it is there now.
            number = 0
            while time.monotonic() < end:
                change = way(best, number)
                if change is None:
                    break
                smaller = best.copy()
                if change(smaller):
                    found = run_program(smaller, needed(defect), limit)
                    if found.defect is not None and _alike(found.defect, defect):
                        best, verdict = smaller, found
                        continue
                number += 1
        if (best.text, _bulk(best)) == before:
            break
    return best, verdict


def needed(defect: Defect) -> list[Variant]:
    """The ways to run that show a defect."""
    if defect.kind != "bits":
        return [defect.variant]
    # Against the same build, run in the plainest way.
    return [replace(defect.variant, **_PLAINLY), defect.variant]


_PLAINLY: dict[str, Any] = {
    "threads": 1, "callers": 1, "saved": False, "traced": False, "resumed": False
}  # fmt: skip


def _bulk(program: Program) -> int:
    """Elements of all inputs that are not 0."""
    return sum(
        int(np.count_nonzero(t.storage)) for step in program.steps for t in step.inputs.values()
    )


def _alike(found: Defect, wanted: Defect) -> bool:
    if found.kind != wanted.kind:
        return False
    if found.kind in ("compile", "run", "code"):
        return _gist(found.why) == _gist(wanted.why)
    return True


def _gist(why: str) -> str:
    """What stays the same while a program shrinks: the error, without numbers and names."""
    text = why.partition("[")[0] if "Error" in why else why
    return "".join(c for c in text.partition("(")[0] if not c.isdigit())[:60]


def _steps(program: Program, number: int) -> Change | None:
    count = len(program.steps)
    if count < 2 or number >= count:
        return None
    place = count - 1 - number
    return lambda p: _keep_steps(p, [j for j in range(count) if j != place])


def _blocks(program: Program, number: int) -> Change | None:
    names = [b.name for b in program.blocks if b.name != "entry"]
    return None if number >= len(names) else lambda p: _drop_block(p, names[number])


def _nodes(size: int) -> Way:
    """So many nodes that follow each other."""

    def way(program: Program, number: int) -> Change | None:
        total = sum(len(nodes) for nodes in program.bodies())
        start = max(0, total - (number + 1) * size)
        stop = total - number * size
        return None if stop <= 0 else lambda p: _drop_nodes(p, start, stop)

    return way


def _bodies(program: Program, number: int) -> Change | None:
    total = sum(len(nodes) for nodes in program.bodies())
    return None if number >= total else lambda p: _unwrap(p, number)


def _results(program: Program, number: int) -> Change | None:
    entry = next(b for b in program.blocks if b.name == "entry")
    names = entry.end.removeprefix("return").rstrip(";").split(",")
    if len(names) < 2 or number >= len(names):
        return None
    kept = [n for i, n in enumerate(names) if i != number]
    return lambda p: _set_end(p, f"return{','.join(kept)};")


def _set_end(program: Program, text: str) -> bool:
    next(b for b in program.blocks if b.name == "entry").end = text
    return True


def _unused(program: Program, number: int) -> Change | None:
    """All declarations that no statement names."""
    body = " ".join(line for line, part in program.lines() if not isinstance(part, Declaration))
    other = " ".join(d.text.partition(":")[2] for d in program.declarations)
    used = set(re.findall(r"\w+", f"{body} {other}"))
    names = [d.name for d in program.declarations if d.name not in used]
    return None if number or not names else lambda p: all(_drop_declaration(p, n) for n in names)


def _declarations(program: Program, number: int) -> Change | None:
    if number >= len(program.declarations):
        return None
    name = program.declarations[number].name
    return lambda p: _drop_declaration(p, name)


def _values(change: Callable[[Program, str], bool]) -> Way:
    def way(program: Program, number: int) -> Change | None:
        names = sorted({n for step in program.steps for n in step.inputs})
        return None if number >= len(names) else lambda p: change(p, names[number])

    return way


def _keep_steps(program: Program, kept: object) -> bool:
    chosen = list(kept) if isinstance(kept, list | range) else []
    program.steps = [program.steps[i] for i in chosen]
    return bool(program.steps)


def _drop_block(program: Program, name: str) -> bool:
    """Without a block and without the branches that call it."""
    program.blocks = [b for b in program.blocks if b.name != name]
    for nodes in program.bodies():
        nodes[:] = [n for n in nodes if not _calls(n, name)]
    return True


def _calls(node: Node, name: str) -> bool:
    return re.search(rf"(^|= )branch\b.*\b{name}\b", node.text) is not None


def _all_nodes(program: Program) -> list[tuple[list[Node], Node]]:
    return [(nodes, node) for nodes in program.bodies() for node in nodes]


def _drop_nodes(program: Program, start: int, stop: int) -> bool:
    chosen = _all_nodes(program)[start:stop]
    for nodes, node in chosen:
        nodes[:] = [n for n in nodes if n is not node]
    return bool(chosen)


def _unwrap(program: Program, place: int) -> bool:
    """The body of a loop or scope in its place."""
    found = _all_nodes(program)
    if place >= len(found) or found[place][1].body is None:
        return False
    nodes, node = found[place]
    at = next(i for i, n in enumerate(nodes) if n is node)
    nodes[at : at + 1] = node.body or []
    return True


def _drop_declaration(program: Program, name: str) -> bool:
    part = next((d for d in program.declarations if d.name == name), None)
    if part is None or not program.remove(part):
        return False
    program.content.tensors.pop(name, None)
    return True


def _zeros(program: Program, name: str) -> bool:
    return _each_value(program, name, lambda a: np.zeros(a.shape))


def _small_values(program: Program, name: str) -> bool:
    return _each_value(program, name, lambda a: np.arange(a.size).reshape(a.shape) % 3)


def _each_value(program: Program, name: str, change: Callable[[np.ndarray], object]) -> bool:
    changed = False
    for step in program.steps:
        tensor = step.inputs.get(name)
        if tensor is None:
            continue
        try:
            simple = Tensor.from_values(tensor.dtype, change(tensor.values()))
        except Exception:
            return False
        if simple.storage.tobytes() != tensor.storage.tobytes():
            step.inputs[name] = simple
            changed = True
    return changed


WAYS: tuple[Way, ...] = (
    _steps,
    _blocks,
    *(_nodes(size) for size in (16, 8, 4, 2, 1)),
    _unused,
    _results,
    _bodies,
    _declarations,
    _values(_zeros),
    _values(_small_values),
)
