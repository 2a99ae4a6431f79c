"""JSON data into dataclasses: what fits, and the place of what does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from openinfer.runtime.rows import plain_data, row_of
from openinfer.runtime.sizes import Size


@dataclass(frozen=True)
class Inner:
    size: Size
    pair: tuple[str, Size, int] | None = None


@dataclass(frozen=True)
class Outer:
    name: str
    count: int
    ratio: float
    on: bool
    value: float | int | None
    inner: Inner
    many: tuple[Inner, ...] = ()
    lists: list[list[int]] = field(default_factory=list[list[int]])
    table: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    anything: Any = None
    derived: int = field(init=False, default=3)


def outer() -> Outer:
    inner = Inner(Size.of("2*N + 1"), ("i", Size.of("N"), 3))
    table = {"a": ["b"]}
    return Outer("x", 1, 0.5, True, None, inner, (inner, Inner(Size.of(4))), [[1], []], table, {})


def test_there_and_back() -> None:
    data = plain_data(outer())
    assert row_of(Outer, json.loads(json.dumps(data))) == outer()
    assert "derived" not in data
    assert data["inner"]["size"] == "2*N + 1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "name is 1, not a text"),
        ({"count": True}, "count is True, not an integer"),
        ({"count": 1.0}, "count is 1.0, not an integer"),
        ({"ratio": "a"}, "ratio is 'a', not a number"),
        ({"ratio": True}, "ratio is True, not a number"),
        ({"on": 1}, "on is 1, not true or false"),
        ({"value": "1"}, "value is '1', not an integer"),
        ({"inner": []}, "inner is a list, not an object"),
        ({"inner": {}}, "inner.size is missing"),
        ({"inner": {"size": 4}}, "inner.size is 4, not a text"),
        ({"inner": {"size": "N", "pair": ["i", "N"]}}, "inner.pair has 2 items, not 3"),
        ({"inner": {"size": "N", "extra": 1}}, "inner.extra is unknown"),
        ({"many": [{"size": "N"}, 3]}, r"many\[1\] is 3, not an object"),
        ({"lists": [[1], [2, "x"]]}, r"lists\[1\]\[1\] is 'x', not an integer"),
        ({"table": {"a": "b"}}, "table.a is 'b', not a list"),
        ({"table": [1]}, "table is a list, not an object"),
        ({"derived": 4}, "derived is unknown"),
        ({"name": "x" * 999, "count": "y" * 999}, "count is 'y{39}…, not an integer"),
    ],
)
def test_misfits_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        row_of(Outer, {**plain_data(outer()), **change})


def test_the_whole_must_be_an_object() -> None:
    with pytest.raises(ValueError, match="it is a list, not an object"):
        row_of(Outer, [])
    with pytest.raises(ValueError, match="bad size expression"):
        row_of(Inner, {"size": "2*"})


def test_integers_serve_as_floats() -> None:
    assert row_of(Outer, {**plain_data(outer()), "ratio": 2, "value": 2}).ratio == 2
