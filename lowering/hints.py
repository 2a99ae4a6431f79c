"""Hints of a program, `with { group = "g", placement = "cpu" }`, on what its nodes become.

An op carries those of its node, and of the loops, scopes and blocks around it, as one attribute; an
op that is made of several carries those of all. `outline-kernels` hands them on to the calls, where
they stay until `convert-to-llvm`. `choose-places` asks for `placement`; none changes a result.
What must be obeyed, `fuse = false` and `no_reorder = true`, is `NO_FUSE` of `lowering.fusing`.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr
from xdsl.ir import Attribute, Operation

HINTS = "openinfer.hints"


def hints_of(op: Operation) -> Mapping[str, Attribute]:
    """The hints that an op carries."""
    found = op.attributes.get(HINTS)
    return found.data if isinstance(found, DictionaryAttr) else {}


def set_hints(op: Operation, hints: Mapping[str, Attribute]) -> None:
    """Has the op carry just these."""
    op.attributes.pop(HINTS, None)
    if hints:
        op.attributes[HINTS] = DictionaryAttr(dict(sorted(hints.items())))


def absorb_hints(target: Operation, *parts: Operation) -> None:
    """`target` also carries the hints of `parts`; where they differ, a list of all."""
    found: dict[str, list[Attribute]] = {}
    for op in (*parts, target):
        for name, value in hints_of(op).items():
            known = found.setdefault(name, [])
            for item in value.data if isinstance(value, ArrayAttr) else (value,):
                if item not in known:
                    known.append(item)
    set_hints(target, {n: v[0] if len(v) == 1 else ArrayAttr(v) for n, v in found.items()})
