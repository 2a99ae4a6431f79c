"""What of a mask the settings of `attention` say: causal, and a window."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.lowering.graph.imports.formulas import (
    TRUE,
    AtLeast,
    Formula,
    conjunction,
    conjuncts,
    decided,
    index,
    index_name,
)
from openinfer.runtime.sizes import Size


@dataclass(eq=False)
class Mask:
    """What a mask of `rank` axes says of queries and keys."""

    rank: int
    queries: Size
    keys: Size
    causal: bool = False
    window: int | None = None

    @property
    def distance(self) -> Size:
        """How far the key lies behind the query, which stands at the end of the keys."""
        return index(self.rank - 2) + (self.keys - self.queries) - index(self.rank - 1)

    def take(self, formula: Formula, window: object) -> Formula:
        """Notes what settings can say; gives the rest."""
        behind: dict[Formula, int] = {}
        ahead: dict[Formula, int] = {}
        rest: list[Formula] = []
        for part in conjuncts(formula):
            if not isinstance(part, AtLeast):
                rest.append(part)
                continue
            reach = (part.difference + self.distance).constant
            lead = (part.difference - self.distance).constant
            if part.difference == self.distance:
                self.causal = True
            elif reach is not None:
                behind[part] = reach
            elif lead is not None:
                ahead[part] = lead
            else:
                rest.append(part)
        # |distance| <= reach on both sides is a window too.
        for part, reach in behind.items():
            both = self.causal or reach in ahead.values()
            if window is None and self.window is None and both and reach >= 0:
                self.window = reach + 1
            else:
                rest.append(part)
        for part, reach in ahead.items():
            if self.window != reach + 1 or self.causal:
                rest.append(part)
        return conjunction(rest)

    def shows_itself(self, formula: Formula) -> bool:
        """Whether each query sees the key at its own place, whatever the inputs are."""
        if self.queries != self.keys:
            return False
        place = index_name(self.rank - 1), index(self.rank - 2)
        for part in conjuncts(formula):
            if not isinstance(part, AtLeast):
                return False
            difference = part.difference.substitute({place[0]: place[1]})
            dims = [Size.of(1)] * (self.rank - 2) + [self.queries] * 2
            if decided(AtLeast(difference), dims) != TRUE:
                return False
        return True
