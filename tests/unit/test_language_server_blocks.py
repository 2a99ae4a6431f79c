"""Blocks with parameters in the language server: names, arguments, unfinished texts."""

from __future__ import annotations

import pytest

from openinfer.compiler.language_server import navigation
from openinfer.compiler.language_server.analysis import Analysis
from openinfer.compiler.language_server.completion import complete, labels
from openinfer.compiler.language_server.hover import hover
from openinfer.compiler.language_server.signatures import signature_at

TEXT = """\
dynamic { x: f32[B, 4]; }
volatile { total: f32[B, 5]; }

block dense(x0, path, top=6) {
    constant {
        w: f32[_, 4] @ref("{path}.weight");
        rows(i): f32[4] @pattern("{path}.{i}");
    }

    h = op linear(x0, w);
    h = op relu(h, clamp_max=top);
    transfer h >> total;
    return h;
}

block twice(x0, path) {
    h = branch dense(x0, "{path}.0");
    y = branch dense(slice(h, axis=1, start=0, stop=4), path="{path}.1", top=3);
    return y;
}

block entry {
    h = branch twice(x, "enc");
    loop layers (l in 0..2) { h = branch twice(slice(h, axis=1, start=0, stop=4), "layer.{l}"); }
    return h, total;
}
"""
ANALYSIS = Analysis(TEXT, "p.oi")


def place(needle: str, word: str = "", text: str = TEXT) -> int:
    """Where a word stands in the first piece of the text that reads so."""
    return text.index(needle) + needle.index(word or needle)


def renamed(needle: str, word: str) -> str:
    text = TEXT
    for edit in reversed(navigation.rename(ANALYSIS, place(needle, word), "fresh")):
        text = text[: edit.span.start] + edit.text + text[edit.span.stop :]
    return text


def test_every_name_is_known() -> None:
    assert ANALYSIS.findings.diagnostics == []
    words = ANALYSIS.words
    kinds = {(w.text, words.symbol(w).kind, words.symbol(w).owner) for w in words.words}
    assert "unknown" not in {kind for _, kind, _ in kinds}
    assert {owner for name, kind, owner in kinds if (name, kind) == ("h", "variable")} == {
        "", "dense", "twice",
    }  # fmt: skip
    for name, kind, owner in [
        ("path", "parameter", "dense"), ("path", "parameter", "twice"), ("top", "parameter", "dense"),
        ("w", "variable", "dense"), ("total", "variable", ""), ("i", "slot", "rows"),
    ]:  # fmt: skip
        assert (name, kind, owner) in kinds or kind == "slot"


def test_an_index_is_an_argument_for_an_operand() -> None:
    text = """
    dynamic { x: f32[4]; }
    block shift(h, n) { y = op add(h, cast(n, to=f32)); return y; }
    block entry {
        y = op neg(x);
        loop rows (l in 0..2) { y = branch shift(y, l); y = branch shift(y, n=l + 1); }
        return y;
    }
    """
    analysis = Analysis(text, "p.oi")
    assert analysis.findings.diagnostics == []
    kinds = {word.text: analysis.words.symbol(word).kind for word in analysis.words.words}
    assert (kinds["n"], kinds["l"]) == ("parameter", "index")


def test_a_parameter_is_renamed_where_calls_and_texts_name_it() -> None:
    text = renamed("dense(x0, path, top", "path")
    assert "block dense(x0, fresh, top=6)" in text
    assert '@ref("{fresh}.weight")' in text
    assert '@pattern("{fresh}.{i}")' in text
    assert 'fresh="{path}.1", top=3' in text
    assert "block twice(x0, path)" in text
    assert Analysis(text, "p.oi").findings.diagnostics == []


@pytest.mark.parametrize(
    ("needle", "word"),
    [
        ("h = op linear", "h"),
        ("linear(x0, w)", "x0"),
        ("linear(x0, w)", "w"),
        ("branch dense(x0", "dense"),
        ("y = branch dense", "y"),
        ("clamp_max=top", "top"),
        ("dense(slice(h, axis", "h"),
        (">> total", "total"),
        ("l in 0..2", "l"),
        ("return h, total", "h"),
    ],
)
def test_a_renamed_text_is_right_and_renamed_back_the_same(needle: str, word: str) -> None:
    text = renamed(needle, word)
    again = Analysis(text, "p.oi")
    assert again.findings.diagnostics == []
    assert text.count("fresh") == len(navigation.references(ANALYSIS, place(needle, word)))
    for edit in reversed(navigation.rename(again, text.index("fresh"), word)):
        text = text[: edit.span.start] + edit.text + text[edit.span.stop :]
    assert text == TEXT


def test_definitions() -> None:
    for needle, word, where in [
        ("top=3", "top", "top=6)"),
        ('"{path}.weight"', "path", "path, top"),
        ("relu(h", "h", "h = op linear"),
        ("branch dense(x0", "dense", "dense(x0, path"),
        ('branch dense(x0, "{path}', "x0", "x0, path) {"),
    ]:
        made = navigation.definition(ANALYSIS, place(needle, word))
        assert made is not None, needle
        assert made.name.start == TEXT.index(where), needle


def test_hover_tells_what_calls_make_of_a_name() -> None:
    def text(needle: str, word: str) -> str:
        found = hover(ANALYSIS, place(needle, word))
        assert found is not None
        return found.text

    assert "block dense(x0, path, top=6)" in text("branch dense(x0", "dense")
    assert "called in 2 places" in text("branch dense(x0", "dense")
    assert "top=6" in text("top=3", "top")
    assert "parameter of block `dense`" in text("clamp_max=top", "top")
    assert "anew for each call" in text("linear(x0, w)", "w")
    given = (
        "dynamic { x: f32[B, 4]; }\nblock f(a) {\n  h = op concat(a, a, axis=0);\n  return h;\n}\n"
    )
    given += "block entry { y = branch f(x); z = branch f(y); return z; }\n"
    found = hover(Analysis(given, "p.oi"), given.index("h = op"))
    assert found is not None
    assert "`f32[2*B, 4]` in `f(x) at line 6`" in found.text
    assert "`f32[4*B, 4]` in `f(y) at line 6`" in found.text


def test_completion() -> None:
    def proposed(needle: str) -> list[str]:
        return labels(complete(ANALYSIS, TEXT.index(needle) + len(needle)))

    assert {"dense", "twice"} <= set(proposed("h = branch "))
    assert {"x0", "path", "top"} <= set(proposed("branch dense("))
    inside = proposed("branch dense(")
    assert "x" in inside
    assert "y" in inside
    assert "w" not in inside
    assert proposed('path="{path}.1", ') == ["x0", "top"]
    assert proposed('@ref("{') == ["x0", "path", "top"]
    assert "branch" in proposed("    y = ")
    assert "f32" in proposed("w: ")


def test_signatures() -> None:
    def at(needle: str) -> tuple[str, str | None]:
        found = signature_at(ANALYSIS, TEXT.index(needle) + len(needle))
        assert found is not None
        return found.label, None if found.active is None else found.parts[found.active]

    assert at("branch dense(") == ("dense(x0, path, top=6)", "x0")
    assert at('branch dense(x0, "{path}.0"') == ("dense(x0, path, top=6)", "path")
    assert at('path="{path}.1", top=') == ("dense(x0, path, top=6)", "top=6")
    label, part = at("slice(h, axis=")
    assert label.startswith("slice(")
    assert part is not None
    assert part.startswith("axis=")
    assert signature_at(ANALYSIS, TEXT.index("h = op linear")) is None


def test_the_outline_shows_parameters() -> None:
    entries = {entry.name: entry for entry in navigation.outline(ANALYSIS)}
    assert entries["dense"].detail == "block(x0, path, top=6)"
    assert [one.name for one in entries["dense"].inner] == ["constant", "h"]
    assert [one.name for one in entries["dense"].inner[0].inner] == ["w", "rows"]


@pytest.mark.parametrize(
    "line",
    [
        "branch dense(",
        "h = branch dense(x",
        'h = branch dense(x, "{',
        "h = branch ",
        "branch dense(path=",
    ],
)
def test_the_rest_of_an_unfinished_call_keeps_its_types(line: str) -> None:
    text = TEXT.replace('h = branch twice(x, "enc");', 'h = branch twice(x, "enc");\n    ' + line)
    analysis = Analysis(text, "p.oi", before=ANALYSIS)
    assert analysis.findings.diagnostics
    found = hover(analysis, text.index("total: f32"))
    assert found is not None
    assert "f32[B, 5]" in found.text
    complete(analysis, text.index(line) + len(line))
    signature_at(analysis, text.index(line) + len(line))
