"""Which blocks of a function always run in front of which others."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

Block = TypeVar("Block", bound=Hashable)


def immediate_dominators(
    first: Block, successors: Mapping[Block, Sequence[Block]]
) -> dict[Block, Block]:
    """For each block that the first one leads to, itself left out: the last one of those that always run in
    front of it. A block comes behind those that it leads to, where there is no way back.

    The algorithm of Cooper, Harvey and Kennedy: what the ways to a block have in common, in reverse
    post-order, until nothing changes.
    """
    order = _postorder(first, successors)
    place = {block: index for index, block in enumerate(order)}
    sources: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for after in successors[block]:
            sources[after].append(block)
    above: dict[Block, Block] = {first: first}
    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [source for source in sources[block] if source in above]
            found = known[0]
            for other in known[1:]:
                while found != other:
                    while place[found] < place[other]:
                        found = above[found]
                    while place[other] < place[found]:
                        other = above[other]
            if block not in above or above[block] != found:
                above[block] = found
                changed = True
    return {block: above[block] for block in order[:-1]}


class Dominance(Generic[Block]):
    """Answers whether a block dominates another one, for blocks that the first one leads to."""

    def __init__(self, first: Block, successors: Mapping[Block, Sequence[Block]]) -> None:
        self._spans = _spans(first, immediate_dominators(first, successors))

    def reached(self, block: Block) -> bool:
        """Whether the first block leads to it."""
        return block in self._spans

    def dominates(self, above: Block, below: Block) -> bool:
        """Whether the first always runs in front of the second, or is it."""
        if above not in self._spans or below not in self._spans:
            return False
        first, last = self._spans[above]
        return first <= self._spans[below][0] < last


def _postorder(first: Block, successors: Mapping[Block, Sequence[Block]]) -> list[Block]:
    seen, found = {first}, list[Block]()
    pending = [(first, iter(successors[first]))]
    while pending:
        block, rest = pending[-1]
        after = next((one for one in rest if one not in seen), None)
        if after is None:
            found.append(block)
            pending.pop()
        else:
            seen.add(after)
            pending.append((after, iter(successors[after])))
    return found


def _spans(first: Block, above: Mapping[Block, Block]) -> dict[Block, tuple[int, int]]:
    """The numbers that a walk of the tree of dominators gives to each block and those under it."""
    below: dict[Block, list[Block]] = {block: [] for block in (first, *above)}
    for block, parent in above.items():
        below[parent].append(block)
    found: dict[Block, tuple[int, int]] = {}
    starts: dict[Block, int] = {}
    pending = [first]
    while pending:
        block = pending[-1]
        if block not in starts:
            starts[block] = len(starts)
            pending += below[block]
        else:
            pending.pop()
            if block not in found:
                found[block] = (starts[block], len(starts))
    return found
