"""Makes a failing program small: leaves out parts as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from fuzzing.check import Defect, Verdict
from fuzzing.isolate import run_program
from fuzzing.tree import Block, Node, Program

from openinfer.runtime.tensors import Tensor

Change = Callable[[Program], bool]
"""Changes a copy of the program; False where it cannot."""


def shrink(program: Program, defect: Defect, seconds: float = 300.0) -> tuple[Program, Verdict]:
    """The smallest program that was found to fail like this, and what came out of it."""
    end = time.monotonic() + seconds
    best, verdict = program, Verdict(defect, program=program)
    limit = 20.0 if defect.kind == "hang" else 60.0
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for change in _changes(best):
            if time.monotonic() > end:
                break
            smaller = best.copy()
            if not change(smaller):
                continue
            found = run_program(smaller, [defect.variant], limit)
            if found.defect is not None and _alike(found.defect, defect):
                best, verdict, changed = smaller, found, True
                break
    return best, verdict


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


def _changes(program: Program) -> Iterator[Change]:
    """Ways to make a program smaller, the largest first."""
    count = len(program.steps)
    if count > 1:
        yield lambda p: _keep_steps(p, range(count - 1))
        for i in range(count - 1):
            yield lambda p, i=i: _keep_steps(p, [j for j in range(count) if j != i])
    for name in [b.name for b in program.blocks if b.name != "entry"]:
        yield lambda p, name=name: _drop_block(p, name)
    total = sum(len(nodes) for nodes in program.bodies())
    size = max(1, total // 2)
    while size >= 1:
        for start in range(0, total, size):
            yield lambda p, a=start, b=start + size: _drop_nodes(p, a, b)
        size //= 2
    for i in range(total):
        yield lambda p, i=i: _unwrap(p, i)
    yield _drop_results
    for declaration in program.declarations:
        yield lambda p, name=declaration.name: _drop_declaration(p, name)
    for change in (_zeros, _small_values):
        for name in {n for step in program.steps for n in step.inputs}:
            yield lambda p, name=name, change=change: change(p, name)


def _keep_steps(program: Program, kept: object) -> bool:
    chosen = list(kept) if isinstance(kept, list | range) else []
    program.steps = [program.steps[i] for i in chosen]
    return bool(program.steps)


def _drop_block(program: Program, name: str) -> bool:
    """Without a block and without the branches that call it."""
    program.blocks = [b for b in program.blocks if b.name != name]
    for nodes in program.bodies():
        nodes[:] = [n for n in nodes if not (n.text.startswith("branch") and _names(n, name))]
    return True


def _names(node: Node, name: str) -> bool:
    return name in node.text.rstrip(";").split()


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


def _drop_results(program: Program) -> bool:
    entry = next(b for b in program.blocks if b.name == "entry")
    names = entry.end.removeprefix("return").rstrip(";").split(",")
    if len(names) < 2:
        return False
    entry.end = f"return{','.join(names[1:])};"
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


def blocks_named(program: Program) -> list[Block]:
    """The blocks without entry."""
    return [b for b in program.blocks if b.name != "entry"]
