"""Writes a drawn program in the short forms of the language, at some of the places where they may stand.

What was drawn has a declaration for each temporary and one op a statement. Here temporaries get the type of
what is written first, `t1 = op add(x, y);`, and a value that is used once stands where it is used:
`op neg(add(x, y))`, `op neg(K1[0, 0..n2])`, `op neg(x[0..3])`, `cache.write add(x, y) >> K1[0];`. Both
executors read the same text, so a place where the result is another program, or none (`mend.py`), is as good
as any.
"""

from __future__ import annotations

import random
import re
from collections import Counter

from fuzzing.tree import Node, Program

_VALUE = re.compile(r"(?:op (?P<op>\w+\(.*\))|cache\.read (?P<entry>\w+\[.*\])) >> (?P<name>t\d+);")
_WRITES = re.compile(
    r"(?P<value>(?:op|cache\.read) .*) >> (?P<names>\w+(?:, \w+)*)(?P<hints> with .*)?;"
)
_RANGE = re.compile(
    r"slice\((?P<x>\w+), axis=(?P<axis>[01]), start=(?P<a>[^=,]+), stop=(?P<b>[^=,]+)\)"
)


def shorten(program: Program, chance: random.Random) -> None:
    """Changes the statements of a program."""
    for nodes in program.bodies():
        _nest(program, nodes, chance)
    for nodes in program.bodies():
        _infer(nodes, chance)


def _nest(program: Program, nodes: list[Node], chance: random.Random) -> None:
    """Values that are used once, in the next statement, become operands of it."""
    uses = Counter(re.findall(r"\bt\d+\b", program.text))
    for node in list(nodes):
        found = _VALUE.fullmatch(node.text)
        # Declared, written and read.
        if (
            found is None
            or node.body is not None
            or uses[found["name"]] != 3
            or chance.random() < 0.3
        ):
            continue
        after = [n for n in nodes[_place(nodes, node) + 1 :] if not n.text.startswith("assign ")]
        value = found["entry"] or _RANGE.sub(_range, found["op"])
        if not after or after[0].body is not None or not _put(after[0], found["name"], value):
            continue
        del nodes[_place(nodes, node)]
        _undeclare(program, found["name"])


def _place(nodes: list[Node], node: Node) -> int:
    return next(place for place, one in enumerate(nodes) if one is node)


def _range(found: re.Match[str]) -> str:
    return f"{found['x']}[{', ' * int(found['axis'])}{found['a']}..{found['b']}]"


def _put(node: Node, name: str, value: str) -> bool:
    """Puts a value in place of an operand, or of what a cache takes; whether the name stands there."""
    text = node.text
    if text.startswith(f"cache.write {name} >> ") and value.endswith(")"):
        node.text = text.replace(f"cache.write {name} ", f"cache.write {value} ", 1)
        return True
    operands = re.match(r"op \w+\([^=]*", text)
    place = re.search(rf"(?<=[( ]){name}(?=[,)])", operands[0]) if operands else None
    if place is None:
        return False
    node.text = text[: place.start()] + value + text[place.end() :]
    return True


def _undeclare(program: Program, name: str) -> None:
    for nodes in program.bodies():
        nodes[:] = [node for node in nodes if not node.text.startswith(f"assign {name}:")]


def _infer(nodes: list[Node], chance: random.Random) -> None:
    """Writes `t = op …;`, in place of a declaration where one stands before it."""
    for node in list(nodes):
        found = None if node.body is not None else _WRITES.fullmatch(node.text)
        if found is None or chance.random() < 0.4:
            continue
        node.text = f"{found['names']} = {found['value']}{found['hints'] or ''};"
        for name in found["names"].split(", "):
            before = nodes[: _place(nodes, node)]
            named = [one for one in before if _mentions(one, name)]
            if len(named) == 1 and named[0].text.startswith(f"assign {name}:"):
                del nodes[_place(nodes, named[0])]


def _mentions(node: Node, name: str) -> bool:
    return any(re.search(rf"\b{name}\b", line) for line, _ in node.lines(0))
