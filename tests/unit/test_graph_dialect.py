"""The graph dialect by itself: what ops read and write, what the verifiers refuse, odd names."""

from __future__ import annotations

from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from openinfer.dialects import graph
from openinfer.dialects.graph import RefAttr, SizeAttr, SliceAttr
from openinfer.runtime.sizes import Size


def parse(text: str) -> ModuleOp:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(graph.Graph)
    return Parser(context, text).parse_module()


def test_reference_texts() -> None:
    assert RefAttr.of("h").text == "h"
    assert RefAttr.of("K", bracketed=True).text == "K[]"
    assert RefAttr.of("W", ["l + 1", 2]).text == "W[l + 1, 2]"
    part = SliceAttr(SizeAttr.of(0), StringAttr(""))
    assert RefAttr.of("K", ["l", part]).text == "K[l, 0..]"
    assert RefAttr.of("W", ["l", 2]).sizes == (Size.of("l"), Size.of(2))
    with pytest.raises(TypeError, match=r"K\[l, 0\.\.\] holds a slice"):
        _ = RefAttr.of("K", ["l", part]).sizes


def test_reads_and_writes() -> None:
    module = parse(
        "graph.block b {\n"
        "  graph.op add(x, W[l]) -> (y)\n"
        "  graph.transfer y -> z\n"
        "  graph.branch if c then b else b\n"
        "  graph.cache_step n by 1\n"
        "  graph.cache_reset K\n"
        "  graph.return (y, z)\n"
        "  graph.barrier\n"
        "}"
    )
    block = module.body.block.first_op
    assert isinstance(block, graph.BlockOp)
    found = [
        ([r.text for r in op.reads()], [r.text for r in op.writes()])
        for op in block.body.block.ops
        if isinstance(op, graph.GraphOp)
    ]
    assert found == [
        (["x", "W[l]"], ["y"]),
        (["y"], ["z"]),
        (["c"], []),
        (["n"], ["n"]),
        ([], ["K"]),
        (["y", "z"], []),
        ([], []),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph.variable y volatile f23", "unknown dtype 'f23'"),
        ("graph.variable y solid f32", "unknown memory kind 'solid'"),
        ('graph.variable y volatile f32 {pattern = "a"}', "needs at least one index"),
        ("graph.assign y f23", "unknown dtype"),
        ('graph.package_tensor "t" f23 [4]', "unknown dtype"),
        ("graph.op relu(x) -> ()", "at least one output"),
        ('"graph.branch"() <{then_block = "a", else_block = "b"}> : () -> ()', "two target blocks"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=message):
        parse(text).verify()


@pytest.mark.parametrize("text", ['graph.assign y f32 ["3*"]', "graph.loop a b in 0 up 3 {}"])
def test_bad_syntax(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text)


def test_texts_that_are_not_ascii() -> None:
    text = 'graph.package_tensor "gewicht.größe" f32 [4]'
    first = parse(text).body.block.first_op
    assert isinstance(first, graph.PackageTensorOp)
    assert first.tensor.data == "gewicht.größe"
    again = parse(str(first)).body.block.first_op
    assert isinstance(again, graph.PackageTensorOp)
    assert again.tensor.data == "gewicht.größe"


def test_locations_are_printed_and_read() -> None:
    op = graph.BarrierOp()
    op.location = FileLineColLoc(StringAttr("a.oi"), IntAttr(3), IntAttr(7))
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(ModuleOp([op]))
    again = parse(stream.getvalue()).body.block.first_op
    assert again is not None
    assert again.location == op.location


def test_public_names_are_sorted_by_kind() -> None:
    assert len(set(graph.__all__)) == len(graph.__all__)
    assert all(hasattr(graph, name) for name in graph.__all__)
    defined = {op.__name__ for op in graph.Graph.operations}
    assert defined <= set(graph.__all__)
