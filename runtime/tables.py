"""Rows that are looked at: a table as text for a terminal, as HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, overload

Row = TypeVar("Row")


class Rows(tuple[Row, ...]):
    """Rows in their order, each also by its name: `rows[0]`, `rows["x"]`.

    Every row has a `name` and a `cells()`; `headings` name the columns.
    """

    headings: Sequence[str] = ()

    @staticmethod
    def of(headings: Sequence[str], rows: Iterable[Row]) -> Rows[Row]:
        made: Rows[Row] = Rows(rows)
        made.headings = headings
        return made

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Row, ...]: ...
    @overload
    def __getitem__(self, key: str) -> Row: ...
    def __getitem__(self, key: int | slice | str) -> Row | tuple[Row, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Raises KeyError for a name that no row has, IndexError for a number beyond them."""
        if not isinstance(key, str):
            return super().__getitem__(key)
        for row in self:
            if getattr(row, "name", None) == key:
                return row
        raise KeyError(key)

    @property
    def names(self) -> list[str]:
        """The names of the rows."""
        return [getattr(row, "name") for row in self]  # noqa: B009

    def _cells(self) -> list[list[str]]:
        return [[str(cell) for cell in getattr(row, "cells")()] for row in self]  # noqa: B009

    def __repr__(self) -> str:
        return "\n".join(text_table(self._cells())) or "none"

    def _repr_html_(self) -> str:
        return html_table(self.headings, self._cells())


def text_table(rows: Sequence[Sequence[str]], indent: str = "") -> list[str]:
    """Lines with aligned columns; a column that is empty everywhere is left out."""
    used = [any(column) for column in zip(*rows)]
    kept = [[cell for cell, shown in zip(row, used) if shown] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*kept)]
    return [indent + "  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in kept]


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts, all of them escaped."""
    # Its table of entities is a millisecond of each start.
    from html import escape

    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_text(text: str) -> str:
    """A text as it is, in letters of one width."""
    from html import escape

    return f"<pre>{escape(text)}</pre>"
