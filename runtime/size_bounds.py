"""Bounds of sizes, `size 1 <= L <= 512;`: checked whenever the sizes of a step become known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from openinfer.runtime.errors import StepError
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class SizeBoundRow:
    """low <= size <= high: expressions over sizes of the package and of inputs; an empty limit is none."""

    text: str
    """As it is written: `1 <= L <= 512`."""
    name: str
    """The size as it is written, which may be one that the program defines."""
    size: str
    low: str = ""
    high: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def names(self) -> frozenset[str]:
        """All sizes that it asks for."""
        return Size.of(self.size).names | _names(self.low) | _names(self.high)

    def violation(self, sizes: Mapping[str, int]) -> str | None:
        """What is wrong with these sizes; None where nothing is, or where one of them has no value.

        Raises ZeroDivisionError.
        """
        if not self.names <= sizes.keys():
            return None
        value = Size.of(self.size).evaluate(sizes)
        low = Size.of(self.low).evaluate(sizes) if self.low else value
        high = Size.of(self.high).evaluate(sizes) if self.high else value
        if low <= value <= high:
            return None
        others = sorted(self.names - {self.name})
        where = f" ({', '.join(f'{name} = {sizes[name]}' for name in others)})" if others else ""
        return f"size `{self.name}` is {value}, but `{self.text}` is declared{where}"


def check_bounds(rows: Iterable[SizeBoundRow], sizes: Mapping[str, int]) -> None:
    """Raises StepError OI0612 for sizes of a step that are beyond a bound, ZeroDivisionError."""
    for row in rows:
        if problem := row.violation(sizes):
            place = f"{row.file}:{row.line}:{row.column}: " if row.file else ""
            hint = f"give inputs whose sizes fit, or change `size {row.text};` in the program"
            raise StepError("OI0612", f"{place}{problem}", hint=hint)


def _names(text: str) -> frozenset[str]:
    return Size.of(text).names if text else frozenset()
