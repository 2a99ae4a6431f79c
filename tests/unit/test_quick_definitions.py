"""Classes that are made inside of `quick_definitions` are what they would be outside."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from dataclasses import dataclass, field

import pytest
from xdsl.context import Context
from xdsl.dialects.test import Test
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser

from openinfer.compiler.collector import no_collection, settle
from openinfer.compiler.quick_definitions import quick_definitions

with quick_definitions():

    @dataclass(frozen=True)
    class Point:
        """A place."""

        x: int
        y: int = 2

    @dataclass(order=True)
    class Named:
        name: str
        parts: list[int] = field(default_factory=list[int])

        def __post_init__(self) -> None:
            self.parts.append(len(self.name))

    @dataclass(slots=True)
    class Narrow:
        a: int

    @dataclass
    class Wider(Narrow):
        b: int = 5

    @irdl_op_definition
    class Quick(IRDLOperation):
        """An op with a format."""

        name = "test.quick"
        value = operand_def()
        assembly_format = "$value attr-dict `:` type($value)"


def test_methods_of_dataclasses_are_those_that_python_makes() -> None:
    assert Point(1) == Point(1, 2) != Point(2)
    assert repr(Point(1)).endswith("Point(x=1, y=2)")
    assert hash(Point(1)) == hash(Point(1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(Point(1), "x", 3)  # noqa: B010
    assert dataclasses.replace(Point(1), y=7) == Point(1, 7)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Point(**{})
    assert Named("abc").parts == [3]
    assert Named("a") < Named("b")
    assert (Wider(1).a, Wider(1, b=2).b, Narrow(4).a) == (1, 2, 4)
    # The first call has put the method itself into its class.
    assert Point.__init__.__code__.co_varnames[:3] == ("self", "x", "y")


def test_formats_of_ops_are_read_when_they_are_needed() -> None:
    context = Context()
    context.load_op(Quick)
    context.load_dialect(Test)
    text = '%a = "test.op"() : () -> i32\ntest.quick %a {x = 1 : i32} : i32\n'
    module = Parser(context, text).parse_module()
    assert "test.quick %a {x = 1 : i32} : i32" in str(module)


def test_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made, read = dataclasses.__dict__.get("_create_fn"), FormatProgram.from_str
    with quick_definitions(), quick_definitions():
        assert FormatProgram.from_str is not read
    assert FormatProgram.from_str is read
    assert dataclasses.__dict__.get("_create_fn") is made
    monkeypatch.setattr(dataclasses, "_create_fn", lambda *, other: None, raising=False)
    own = dataclasses.__dict__["_create_fn"]
    with quick_definitions():
        # That of another Python is left alone.
        assert dataclasses.__dict__["_create_fn"] is own


class Cycle:
    def __init__(self) -> None:
        self.me = self


def test_what_is_settled_is_still_collected() -> None:
    with no_collection():
        assert not gc.isenabled()
        gone = weakref.ref(cycle := Cycle())
        settle()
        del cycle
        gc.collect(0)
        assert gone() is not None
    assert gc.isenabled()
    gc.collect()
    assert gone() is None
