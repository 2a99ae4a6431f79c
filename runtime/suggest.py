"""Which known names a misspelt one probably means: only those that are really near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

_LONGEST = 64
"""What stands behind so many letters is not compared."""
_PREFIX = 4
"""So many letters of a longer name are enough to mean it."""


def nearest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The `count` nearest of the known names that are near, best first.

    Capitals, `_`, `-` and `.` make no difference. Two names are near if one begins with the other, from
    four letters on, or if few edits lead from one to the other (a letter changed, missing, too much, or two
    neighbours swapped): one up to four letters, two up to eight, three beyond. In short names
    a changed letter often makes another name (`w1` and `w2`, `clip` and `flip`): up to two letters
    no letter may be changed, up to four not the first one.
    """
    wanted = _folded(name)
    found: list[tuple[int, bool, int, str]] = []
    for candidate in dict.fromkeys(known):
        folded = _folded(candidate)
        distance = _near(wanted, folded)
        if distance is not None:
            written = _edits(name[:_LONGEST], candidate[:_LONGEST], _LONGEST)
            # Equally near: first those of the same letters, then those of the same capitals.
            swapped = sorted(wanted) == sorted(folded)
            found.append((distance, not swapped, written or 0, candidate))
    found.sort()
    # Of several, none that is clearly further away than the best.
    return [candidate for distance, *_, candidate in found[:count] if distance <= found[0][0] + 1]


def did_you_mean(name: str, known: Iterable[str], count: int = 1, quote: str = "") -> str:
    """ "did you mean a or b? " with the nearest names, each between two `quote`; empty without any."""
    close = [f"{quote}{item}{quote}" for item in nearest(name, known, count)]
    return f"did you mean {' or '.join(close)}? " if close else ""


def _folded(name: str) -> str:
    folded = name[:_LONGEST].casefold()
    return "".join(c for c in folded if c not in "_-.") or folded


def _near(name: str, known: str) -> int | None:
    """How far two folded names are from each other; None where they are not near."""
    if name == known:
        return 0
    length = max(len(name), len(known))
    limit = 1 if length <= 4 else 2 if length <= 8 else 3
    distance = _edits(name, known, limit)
    if distance is not None and not _another_word(name, known, length):
        return distance
    shorter, longer = sorted((name, known), key=len)
    if len(shorter) >= _PREFIX and longer.startswith(shorter):
        return limit + 1
    return None


def _another_word(name: str, known: str, length: int) -> bool:
    """Whether names are so short that what differs makes another one."""
    if not (name and known) or length == 1:
        return True
    if length > 4:
        return False
    if len(name) != len(known):
        # `x` and `xs`, but not `ne` and `one`.
        return name[0] != known[0]
    swapped = Counter(name) == Counter(known)
    return not swapped and (length <= 2 or name[0] != known[0])


def _edits(one: str, other: str, limit: int) -> int | None:
    """The edits between two words, None if there are more than `limit`."""
    if abs(len(one) - len(other)) > limit:
        return None
    if (
        max((Counter(one) - Counter(other)).total(), (Counter(other) - Counter(one)).total())
        > limit
    ):
        return None
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, before_above = row, before
        row = [i]
        for j, against in enumerate(other, 1):
            cost = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, before_above[j - 2] + 1)
            row.append(cost)
        before = above
        if min(row) > limit:
            return None
    return row[-1] if row[-1] <= limit else None
