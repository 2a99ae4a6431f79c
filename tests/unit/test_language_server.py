"""The analyses of the language server, without the protocol: names, places, unfinished texts."""

from __future__ import annotations

import random

import pytest
from program_texts import PROGRAM_TEXTS, ProgramText

from openinfer.compiler.frontend.parse_nodes import FIRST_EDITION_SECTIONS, READERS, SECTION_WORDS
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.language_server import navigation, terms
from openinfer.compiler.language_server.analysis import Analysis, Setup
from openinfer.compiler.language_server.completion import complete
from openinfer.compiler.language_server.hover import hover
from openinfer.compiler.language_server.operand_reader import SECTIONS
from openinfer.compiler.language_server.positions import Positions
from openinfer.compiler.language_server.words import Words
from openinfer.dialects import opset
from openinfer.lowering.program.check_declarations import ATTRIBUTES
from openinfer.lowering.program.check_nodes import HINTS
from openinfer.runtime.dtypes import ALIASES, DTYPES

TEXTS = pytest.mark.parametrize("program", PROGRAM_TEXTS, ids=lambda program: program.name)


def test_every_word_of_the_language_is_explained() -> None:
    assert terms.STATEMENTS.keys() == READERS.keys()
    assert terms.SECTIONS.keys() == set(SECTION_WORDS)
    assert terms.ATTRIBUTES.keys() == set(ATTRIBUTES)
    assert terms.HINTS.keys() == HINTS.keys()
    assert terms.WORDS.keys() >= {*READERS, *SECTIONS, *FIRST_EDITION_SECTIONS, "block", "size"}


# Places


@pytest.mark.parametrize("text", ["", "a", "a\nb", "a\r\nb\rc\n", "😀x\né😀\n", "\n\n"])
def test_places_and_back(text: str) -> None:
    positions = Positions(text)
    for offset in range(len(text) + 1):
        if text[max(0, offset - 1) : offset + 1] == "\r\n":
            continue  # there is no place within the end of a line
        assert positions.offset(*positions.place(offset)) == offset


def test_places_outside() -> None:
    positions = Positions("ab\n😀c")
    assert positions.place(99) == (1, 3)
    assert positions.offset(0, 99) == 2
    assert positions.offset(7, 0) == 5
    assert positions.offset(-1, 4) == 0
    assert positions.offset(1, 1) == 3  # between the halves of a pair


# Names


@TEXTS
def test_every_name_of_a_program_is_known(program: ProgramText) -> None:
    words = Words(Source(program.text))
    seen = {word.span.start for word in words.words}
    missing = [t.text for t in words.tokens if t.kind == "name" and t.span.start not in seen]
    # The wrapper of Rust sources, and the unquoted name of a tensor.
    assert set(missing) <= {"let", "graph", "g", "model"} or "@ref(" in program.text
    if program.wrong:
        return
    for word in words.words:
        symbol = words.symbol(word)
        assert symbol.kind != "unknown", word
        if symbol.kind == "op":
            assert opset.find(symbol.name) is not None
        if symbol.kind == "dtype":
            assert symbol.name in (*DTYPES, *ALIASES, "_")
        if symbol.kind in ("variable", "index", "slot", "block"):
            assert words.definition(symbol) is not None, word
        if symbol.kind == "size":
            assert symbol.name not in (*DTYPES, *READERS), word


@TEXTS
def test_a_renamed_program_is_the_same(program: ProgramText) -> None:
    """Each variable, index, size and block gets a new name: what was right stays right."""
    if program.wrong or len(program.text) > 4000:
        return
    analysis = Analysis(program.text, "p.oi")
    before = [d.code for d in analysis.findings.diagnostics]
    kinds = ("variable", "index", "slot", "size", "block")
    symbols = {analysis.words.symbol(w): w for w in analysis.words.words}
    for number, (symbol, word) in enumerate(symbols.items()):
        if symbol.kind not in kinds or symbol.name == "entry" or number % 5:
            continue
        edits = navigation.rename(analysis, word.span.start, "renamed_now")
        text = program.text
        for edit in reversed(edits):
            text = text[: edit.span.start] + edit.text + text[edit.span.stop :]
        again = Analysis(text, "p.oi")
        assert [d.code for d in again.findings.diagnostics] == before, (symbol, text)


# Unfinished texts


@TEXTS
def test_unfinished_programs(program: ProgramText) -> None:
    """A text that ends anywhere, and one that lacks a part: all answers come, none is an exception."""
    draw = random.Random(program.name)
    text = program.text
    for _ in range(8):
        cut = draw.randrange(len(text) + 1)
        gap = min(len(text), cut + draw.randrange(1, 40))
        for broken in (text[:cut], text[:cut] + text[gap:]):
            analysis = Analysis(broken, "p.oi", Setup(sizes={"B": 2} if cut % 2 else {}))
            assert isinstance(analysis.findings.diagnostics, list)
            navigation.outline(analysis)
            for offset in (cut, max(0, cut - 1), draw.randrange(len(broken) + 1)):
                complete(analysis, offset)
                hover(analysis, offset)
                navigation.definition(analysis, offset)
                navigation.references(analysis, offset)


def test_the_rest_of_a_broken_program_is_known() -> None:
    text = (
        "dynamic { x: f32[B, 4] \n    z: f32[B]; }\nblock entry {\n    assign a: f32[B, 4;\n"
        "    op relu(x, >> a;\n    loop l (i in 0..\n    op neg(x) >> b;\n    c = op exp(\n"
        "    return c;\n}\nblock other { op tanh(q) >> x; return; }\n"
    )
    analysis = Analysis(text, "p.oi")
    made = {d.symbol.name: d.symbol.kind for d in analysis.words.definitions}
    assert made == {
        "x": "variable", "z": "variable", "entry": "block", "a": "variable", "i": "index",
        "c": "variable", "other": "block",
    }  # fmt: skip
    assert [r.name for r in analysis.words.regions] == ["dynamic", "entry", "other"]
    codes = {d.code for d in analysis.findings.diagnostics}
    assert len(codes) >= 2


@pytest.mark.parametrize(
    "text",
    [
        "block entry { " + "loop l (i in 0..1) { " * 3000,
        "block entry { " + 'scope "s" { ' * 3000 + "}" * 3000,
        "block entry { " + "op f(" * 3000,
        "block entry { " + "a, " * 3000 + "= op f(x); return; }",
        "constant { W: f32" + "[" * 3000,
        "/*" * 3000,
    ],
    ids=["loops", "scopes", "calls", "names", "brackets", "comments"],
)
def test_deep_texts(text: str) -> None:
    analysis = Analysis(text, "p.oi")
    assert analysis.findings.diagnostics
    complete(analysis, len(text))
    hover(analysis, len(text) // 2)
    navigation.outline(analysis)
    navigation.references(analysis, len(text) // 2)


def test_sizes_of_the_text() -> None:
    """`size heads = 4;` is a definition; its uses lead there."""
    text = "size heads = 4;\ndynamic { x: f32[B, heads]; }\nblock entry { return x; }\n"
    analysis = Analysis(text, "p.oi")
    made = navigation.definition(analysis, text.index("heads]"))
    assert made is not None
    assert text[made.whole.start : made.whole.stop] == "size heads = 4"
    found = hover(analysis, text.index("heads]"))
    assert found is not None
    assert "size heads = 4" in found.text
    assert "heads" in [entry.name for entry in navigation.outline(analysis)]


def test_new_forms_are_read() -> None:
    """Numbers as operands, amounts that are names, unquoted names of tensors."""
    text = (
        "constant { W: f32[4] @ref(a.b.c); }\ndynamic { x: f32[T]; }\npersistent { step: i32; }\n"
        "block entry {\n    h = op mul(x, 0.5);\n    cache.increment T step;\n    return h;\n}\n"
    )
    words = Words(Source(text))
    kinds = {word.text: words.symbol(word).kind for word in words.words}
    assert kinds["T"] == "size"
    assert kinds["step"] == "variable"
    assert "unknown" not in kinds.values()
    assert "a" not in kinds


def test_definitions_are_temporaries() -> None:
    """Several at once, of a read too, also where a `;` is missing."""
    text = (
        "persistent { K(l): f32[4] @table; }\ndynamic { x: f32[2, 4]; }\nblock entry {\n"
        "    left, right = op split(x, axis=0)\n    k = cache.read K[0]\n    return left, k;\n}\n"
    )
    analysis = Analysis(text, "p.oi")
    made = {d.symbol.name: d.memory for d in analysis.words.definitions if d.memory}
    assert made == {
        "K": "persistent",
        "x": "dynamic",
        **dict.fromkeys(("left", "right", "k"), "temporary"),
    }
    assert all(analysis.words.symbol(w).kind != "unknown" for w in analysis.words.words)
