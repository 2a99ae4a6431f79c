"""Which blocks of a function always run in front of which others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Dominance:
    """Answers whether a block dominates another one, for blocks that the first one leads to."""

    def __init__(self, first: int, successors: Mapping[int, Sequence[int]]) -> None:
        order = _postorder(first, successors)
        place = {block: index for index, block in enumerate(order)}
        sources: dict[int, list[int]] = {block: [] for block in order}
        for block in order:
            for after in successors[block]:
                sources[after].append(block)
        # Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm.
        above: dict[int, int] = {first: first}
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
                if above.get(block) != found:
                    above[block] = found
                    changed = True
        self._spans = _spans(first, above)

    def reached(self, block: int) -> bool:
        """Whether the first block leads to it."""
        return block in self._spans

    def dominates(self, above: int, below: int) -> bool:
        """Whether the first always runs in front of the second, or is it."""
        if above not in self._spans or below not in self._spans:
            return False
        first, last = self._spans[above]
        return first <= self._spans[below][0] < last


def _postorder(first: int, successors: Mapping[int, Sequence[int]]) -> list[int]:
    seen, found = {first}, list[int]()
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


def _spans(first: int, above: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The numbers that a walk of the tree of dominators gives to each block and those under it."""
    below: dict[int, list[int]] = {block: [] for block in above}
    for block, parent in above.items():
        if block != parent:
            below[parent].append(block)
    found: dict[int, tuple[int, int]] = {}
    starts: dict[int, int] = {}
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
