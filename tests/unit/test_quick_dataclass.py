"""`runtime/quick_dataclass.py` makes what the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from openinfer.runtime import quick_dataclass

QUICK: Callable[..., Any] = quick_dataclass.dataclass
MAKERS = pytest.mark.parametrize("make", [dataclasses.dataclass, QUICK], ids=["library", "quick"])


def _classes(make: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """A frozen class, one that inherits from it, and a plain one with all that fields may have."""

    @make(frozen=True)
    class Point:
        COUNT: ClassVar[int] = 3
        x: int
        y: float = 2.0
        note: str = dataclasses.field(default="", compare=False, repr=False)

    @make(frozen=True)
    class Named(Point):
        name: str = "origin"

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    @make
    class Plain:
        items: list[int] = dataclasses.field(default_factory=lambda: [1])
        seen: dict[str, int] = dataclasses.field(default_factory=dict[str, int], init=False)
        start: int = dataclasses.field(default=5, init=False)
        other: object = None

    return Point, Named, Plain


@MAKERS
def test_objects_are_made_compared_and_shown_alike(make: Callable[..., Any]) -> None:
    point, named, plain = _classes(make)
    assert point(1) == point(1, 2.0, "a note") != point(2)
    assert hash(point(1)) == hash(point(1, note="b")) == hash((1, 2.0))
    assert point(1) != named(1)
    assert named(1).length == 6
    assert repr(named(1)).endswith("Named(x=1, y=2.0, name='origin')")
    assert point.y == 2.0
    assert named(1, 2.5, name="n").y == 2.5
    assert plain() == plain()
    assert plain().items == [1]
    assert plain().start == 5
    assert plain().items is not plain().items
    assert plain([2]).items == [2]
    assert plain.__hash__ is None
    with pytest.raises(TypeError):
        plain([1], {}, 2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        point()
    loop = plain()
    loop.other = loop
    assert "..." in repr(loop)


@MAKERS
def test_the_library_works_with_them(make: Callable[..., Any]) -> None:
    point, named, _ = _classes(make)
    assert [f.name for f in dataclasses.fields(named)] == ["x", "y", "note", "name"]
    assert dataclasses.is_dataclass(point(1))
    assert named.__match_args__ == ("x", "y", "note", "name")
    changed = dataclasses.replace(named(1), name="far")
    assert (changed.x, changed.name, changed.length) == (1, "far", 3)
    assert dataclasses.asdict(point(1)) == {"x": 1, "y": 2.0, "note": ""}
    assert copy.copy(point(4)) == point(4)
    for change in (lambda p: setattr(p, "x", 2), lambda p: setattr(p, "z", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change(named(1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        del named(1).x


@pytest.mark.parametrize("base", [dataclasses.dataclass, QUICK], ids=["library", "quick"])
@MAKERS
def test_inheritance_goes_both_ways(base: Callable[..., Any], make: Callable[..., Any]) -> None:
    @base(frozen=True)
    class Base:
        KIND: ClassVar[str]
        x: int
        y: int = 1

    @make(frozen=True)
    class Derived(Base):
        y: int = 7
        z: int = 0

    class Further(Derived):
        pass

    assert Derived(1) == Derived(1, 7, 0)
    assert (Further(2).x, Further(2).y) == (2, 7)
    assert Further(2) != Derived(2)
    assert Further(2) == Further(2)
    assert Base(1).y == 1


@MAKERS
def test_methods_of_the_class_stay(make: Callable[..., Any]) -> None:
    @make(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

        def __repr__(self) -> str:
            return "own"

    assert Own(1) == Own(2)
    assert hash(Own(3)) == 1
    assert repr(Own(1)) == "own"

    @make(eq=False)
    class Same:
        x: int

    assert Same(1) != Same(1)
    assert hash(Same(1)) != 0


@MAKERS
def test_what_it_does_not_know_goes_to_the_library(make: Callable[..., Any]) -> None:
    @make(frozen=True, order=True)
    class Ordered:
        x: int

    @make
    class Keyword:
        x: int
        y: int = dataclasses.field(default=1, kw_only=True)

    @dataclasses.dataclass
    class Base:
        x: int
        seed: dataclasses.InitVar[int]

        def __post_init__(self, seed: int) -> None:
            self.x += seed

    @make
    class Derived(Base):
        z: int = 0

    assert Derived(1, 2, 5) == Derived(2, 1, 5)
    assert Ordered(1) < Ordered(2)
    assert Keyword(1, y=2).y == 2
    with pytest.raises(ValueError, match="mutable default"):

        @make
        class Mutable:  # pyright: ignore[reportUnusedClass]
            x: list[int] = []


def test_a_class_of_the_project_is_pickled() -> None:
    from openinfer.runtime.errors import Location

    place = Location("a.oi", 1, 2)
    assert pickle.loads(pickle.dumps(place)) == place
