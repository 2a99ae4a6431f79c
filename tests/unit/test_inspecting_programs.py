"""What a compiled program says of itself: rows, summary, levels, and how notebooks show them."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import openinfer as oi

PROGRAM = """
dynamic { x: f32[B, K]; scale: f32; }
constant { W: f32[K, N]; }
persistent { steps: i32; cache(l, t): f32[N] @table; }
block entry {
    assign h: f32[B, N];
    assign y: _;
    op matmul(x, W) >> h;
    op mul(h, scale) >> y;
    cache.increment steps;
    return y, h;
}
"""
W = np.eye(4, 3, dtype=np.float32)


@pytest.fixture(scope="module")
def program() -> oi.Program:
    return oi.compile(PROGRAM, {"W": W})


def test_rows(program: oi.Program) -> None:
    assert [str(row) for row in program.inputs] == ["x: f32[B, 4]", "scale: f32"]
    assert [str(row) for row in program.outputs] == ["y: f32[B, 3]", "h: f32[B, 3]"]
    assert [str(row) for row in program.state] == ["steps: i32", "cache(l, t): f32[3]"]
    assert [str(row) for row in program.sizes] == ["K = 4", "N = 3", "B"]
    x = program.inputs["x"]
    assert isinstance(x, oi.ValueRow)
    assert (x.dtype, x.dims, x.shape, x.memory) == ("f32", ("B", "4"), ("B", 4), "dynamic")
    assert program.sizes["B"].value is None
    assert program.sizes["K"] == oi.SizeRow("K", 4, "fixed")
    assert program.inputs.names == ["x", "scale"]
    assert program.inputs[1].type == "f32"
    assert len(program.inputs[:1]) == 1
    with pytest.raises(KeyError):
        program.inputs["W"]


def test_summary(program: oi.Program) -> None:
    text = program.summary()
    assert text.startswith("program '<graph>' for ")
    assert "inputs:\n  x      f32[B, 4]\n  scale  f32\n" in text
    assert "sizes:\n  K  4  fixed\n" in text
    assert "of working memory for B = 128" in text


class _Tags(HTMLParser):
    """Every tag that opens is closed in order, and the texts between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts_of(shown: object) -> list[str]:
    parser = _Tags()
    parser.feed(getattr(shown, "_repr_html_")())  # noqa: B009
    parser.close()
    assert not parser.open
    return parser.texts


def test_notebooks(program: oi.Program) -> None:
    assert {"x", "f32[B, 4]", "cache(l, t)", "inputs"} <= set(texts_of(program))
    assert "f32[B, 3]" in texts_of(program.outputs)
    plan = program.plan({"B": 2})
    assert str(plan) == program.plan_text({"B": 2})
    assert any(text.startswith("arena") for text in texts_of(plan))
    assert "".join(texts_of(program.show("nn"))) == program.show("nn").text
    with oi.Simulator(PROGRAM, {"W": W}).make_executor() as executor:
        executor.run(x=np.ones((2, 4), np.float32), scale=2.0)
        trace = executor.trace()
    assert isinstance(trace, list)
    assert {"op matmul(x, W) >> h", "h: f32[2, 3]"} <= set(texts_of(trace))


def test_markup_in_names_is_shown_as_it_is() -> None:
    graph = oi.graph_json(oi.graph(PROGRAM).to_json())
    graph.file = "<script>alert(1)</script>"
    shown = oi.compile(graph, {"W": W})._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_levels(program: oi.Program) -> None:
    level = program.show("linalg")
    assert isinstance(level, oi.Level)
    assert level.text.startswith("// pipeline cpu, after phase linalg\n")
    assert "linalg.generic" in str(level)
    assert repr(level) == level.text
    assert "nn.matmul" in program.show().text
    with pytest.raises(oi.InputError, match="has no phase 'linalgg'"):
        program.show("linalgg")


def test_a_loaded_program_has_rows_but_no_levels(tmp_path: object, program: oi.Program) -> None:
    loaded = oi.Program.from_bytes(program.to_bytes())
    assert loaded.inputs == program.inputs
    assert loaded.summary() == program.summary()
    with pytest.raises(oi.UnsupportedError, match="OI0731"):
        loaded.show("nn")
