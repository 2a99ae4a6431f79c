"""`openinfer lsp` through the protocol: a real process, frames over its streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lsp_client import Client

import openinfer
from openinfer.compiler.tools.openinfer import main

PROGRAM = """\
// A small program.
dynamic { x: f32[B, D]; }
constant {
    W(l): f32[D, D] @pattern("layer.{l}.w");
    bias: f32[D];
}
persistent { n: i32 @init(0); }
volatile { y: f32[B, D]; }

block entry {
    h = op matmul(x, W[0]);
    loop layers (l in 0..layers) {
        op layer_norm(h, bias, bias, eps=1e-6) >> h;
        op matmul(h, W[l]) >> h;
    }
    branch finish;
    cache.increment n;
    return y;
}
block finish {
    op add(h, bias) >> y;
    return;
}
"""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = Client()
    yield client
    assert client.logged == []
    assert client.close() == 0


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "p.oi").as_uri()


def place_of(text: str, mark: str, within: int = 0) -> tuple[int, int]:
    """Line and UTF-16 unit of a text in the program, so many characters into it."""
    offset = text.index(mark) + within
    before = text[:offset]
    line = before.rpartition("\n")[2]
    return before.count("\n"), len(line.encode("utf-16-le")) // 2


def text_of(program: str, place: dict[str, Any]) -> str:
    """What a range of one line covers."""
    line = program.split("\n")[place["start"]["line"]].encode("utf-16-le")
    return line[place["start"]["character"] * 2 : place["end"]["character"] * 2].decode("utf-16-le")


# Diagnostics


def test_diagnostics_as_you_type(client: Client, uri: str) -> None:
    assert client.open(uri, PROGRAM) == []
    wrong = PROGRAM.replace("matmul(x,", "matmol(x,").replace("branch finish", "branch finsh")
    wrong = wrong.replace("op add(h, bias) >> y;", "op add(h, bais) >> y")
    client.change(uri, {"text": wrong})
    found = client.published(uri)
    shown = [(d["code"], d["severity"], d["source"], text_of(wrong, d["range"])) for d in found]
    assert ("OI0214", 1, "openinfer", "matmol") in shown
    assert ("OI0210", 1, "openinfer", "bais") in shown
    assert ("OI0111", 1, "openinfer", "") in [(*row[:3], "") for row in shown]
    assert any(row[0].startswith("OI02") and row[3] == "finsh" for row in shown)
    assert (
        "fix: did you mean `matmul`?" in next(d for d in found if d["code"] == "OI0214")["message"]
    )
    client.change(uri, {"text": PROGRAM})
    assert client.published(uri) == []


def test_warnings_and_notes(client: Client, uri: str) -> None:
    text = PROGRAM.replace("bias: f32[D];", "bias: f32[D] @strange; bias: f32[D];")
    found = client.open(uri, text)
    warning = next(d for d in found if d["severity"] == 2)
    assert "strange" in text_of(text, warning["range"])
    twice = next(d for d in found if d["severity"] == 1)
    related = twice["relatedInformation"][0]
    assert related["location"]["range"]["start"]["line"] == 4


def test_places_are_utf16(client: Client, uri: str) -> None:
    """Characters outside of the basic plane are two units, also in edits."""
    text = "block entry {\n    /* 😀𝛼é */ op reul(x) >> y;\n    return;\n}\n"
    found = client.open(uri, text)
    op = next(d for d in found if d["code"] == "OI0214")
    assert text_of(text, op["range"]) == "reul"
    assert op["range"]["start"] == {"line": 1, "character": 19}
    edit = {"range": op["range"], "text": "relu"}
    client.change(uri, edit)
    assert "OI0214" not in [d["code"] for d in client.published(uri)]
    hover = client.at("textDocument/hover", uri, 1, 21)
    assert "op relu(x" in hover["contents"]["value"]
    assert hover["range"]["start"]["character"] == 19


def test_line_ends_of_other_systems(client: Client, uri: str) -> None:
    text = PROGRAM.replace("matmul(x,", "matmol(x,").replace("\n", "\r\n")
    found = client.open(uri, text)
    assert ("OI0214", "matmol") in [(d["code"], text_of(text, d["range"])) for d in found]


# Hover


def hover(client: Client, uri: str, mark: str, within: int = 0, text: str = PROGRAM) -> str:
    answer = client.at("textDocument/hover", uri, *place_of(text, mark, within))
    return answer["contents"]["value"] if answer is not None else ""


def test_hover(client: Client, uri: str) -> None:
    client.open(uri, PROGRAM)
    assert "h: f32[B, D]" in hover(client, uri, "h, bias, bias")
    assert "temporary" in hover(client, uri, "h, bias, bias")
    assert "W(l): f32[D, D]" in hover(client, uri, "W[l]")
    assert hover(client, uri, "W[l]").endswith("constant; starts as tensors layer.{l}.w")
    assert "n: i32" in hover(client, uri, "increment n", 10)
    assert "4 bytes" in hover(client, uri, "increment n", 10)
    assert hover(client, uri, "B, D]; }") == "size `B`, from axis 0 of input x"
    op = hover(client, uri, "layer_norm", 3)
    assert "op layer_norm(x, [weight], [bias], axis=-1, eps=1e-05)" in op
    assert "`eps` (float, default 1e-05)" in op
    assert "y = op layer_norm(x, weight, bias, eps=1e-5);" in op
    assert "setting of `layer_norm`: `eps`" in hover(client, uri, "eps=", 1)
    assert "`l`: loop index" in hover(client, uri, "W[l]", 2)
    assert hover(client, uri, 'w");') == ""
    assert "index of `W`" in hover(client, uri, "{l}", 1)
    assert "one tensor for each index" in hover(client, uri, "@pattern", 2)
    assert "f32`: float, 32 bits" in hover(client, uri, "f32[D, D]", 1)
    assert "adds 1" in hover(client, uri, "increment", 2)
    assert "calls a block" in hover(client, uri, "branch", 1)
    assert hover(client, uri, "// A small", 4) == ""


def test_types_of_before_stay_while_a_statement_is_typed(client: Client, uri: str) -> None:
    """A half statement hides what it names from the checker."""
    client.open(uri, PROGRAM)
    half = PROGRAM.replace("op matmul(h, W[l]) >> h;", "op matmul(h, W[l")
    client.change(uri, {"text": half})
    assert client.published(uri) != []
    assert "h: f32[B, D]" in hover(client, uri, "h, bias, bias", 0, half)
    client.change(uri, {"text": half.replace("h = op", "other = op")})
    assert "other: " in hover(client, uri, "other", 0, half.replace("h = op", "other = op"))


def test_hover_explains_codes(client: Client, uri: str) -> None:
    text = PROGRAM.replace("matmul(x,", "matmol(x,").replace("// A small", "// OI0210: a small")
    client.open(uri, text)
    assert "**OI0214: " in hover(client, uri, "matmol", 2, text)
    assert "did you mean `matmul`" in hover(client, uri, "matmol", 2, text)
    assert "**OI0210: " in hover(client, uri, "OI0210", 2, text)


# Completion


def completed(client: Client, uri: str, text: str) -> dict[str, dict[str, Any]]:
    """The proposals where `|` stands."""
    line, unit = place_of(text, "|")
    client.open(uri, text.replace("|", ""))
    items = client.at("textDocument/completion", uri, line, unit)
    return {item["label"]: item for item in items}


@pytest.mark.parametrize(
    ("old", "new", "some", "none"),
    [
        ("op add(h, bias) >> y;", "op |", {"add", "matmul", "softmax"}, {"h", "assign"}),
        ("op add(h, bias) >> y;", "op lay|", {"layer_norm"}, {"h"}),
        ("h = op matmul(x, W[0]);", "h = |", {"op"}, {"matmul"}),
        ("h = op matmul(x, W[0]);", "h = op mat|", {"matmul"}, {"h"}),
        ("eps=1e-6) >> h;", "|) >> h;", {"eps", "axis"}, {"add"}),
        ("bias, eps=1e-6) >> h;", "|", {"eps", "axis", "h", "bias", "W", "x", "y"}, {"add"}),
        ("eps=1e-6) >> h;", "eps=1e-6, | ) >> h;", {"axis"}, {"eps", "h"}),
        ("op matmul(h, W[l]) >> h;", "op matmul(h, W[|]) >> h;", {"l", "layers", "n"}, {"x"}),
        ("op matmul(h, W[l]) >> h;", "op gelu(h, approximate=|", {'"tanh"'}, {"h"}),
        ("op matmul(h, W[l]) >> h;", "op cast(h, to=|", {"f16", "i8"}, {"h"}),
        ("op matmul(h, W[l]) >> h;", "op sum_axis(h, keepdims=|", {"true", "false"}, {"h"}),
        ("op matmul(h, W[l]) >> h;", "op reshape(h, shape=[|", {"B", "D", "l"}, {"x", "add"}),
        ("op matmul(h, W[l]) >> h;", "op matmul(h, W[l]) >> |", {"h", "y", "n"}, {"x", "bias"}),
        ("op matmul(h, W[l]) >> h;", "|", {"op", "assign", "loop", "cache", "h"}, {"matmul", "x"}),
        ("branch finish;", "branch |", {"finish", "n"}, {"entry", "h"}),
        ("cache.increment n;", "cache.|", {"read", "write", "reset", "increment"}, {"h"}),
        ("cache.increment n;", "cache.increment |", {"n"}, {"h", "x"}),
        ("cache.increment n;", "cache.read |", {"n", "h"}, {"add"}),
        ("return y;", "return |", {"y", "h", "n"}, {"op"}),
        ("return y;", "assign t: |", {"f32", "i64", "bool", "_"}, {"h"}),
        ("return y;", "assign t: f32[|", {"B", "D", "n"}, {"h", "f32"}),
        ("bias: f32[D];", "bias: |", {"f32", "bf16"}, {"h"}),
        ("bias: f32[D];", "bias: f32[|", {"B", "D"}, {"f32"}),
        ("bias: f32[D];", "bias: f32[D] @|", {"init", "ref", "pattern", "table", "dtype"}, {"h"}),
        ("bias: f32[D];", "bias: f32[D] @dtype(|", {"f16"}, {"true"}),
        ("bias: f32[D];", "bias: f32[D] @init(|", {"true", "inf"}, {"f16"}),
        ("bias: f32[D];", "T(t): f32[D] @fixed(|", {"t"}, {"f16", "l"}),
        ("{ n: i32", "| { n: i32", set(), {"op"}),
        ("persistent {", "|\npersistent {", {"dynamic", "block", "size"}, {"op", "h"}),
        ("op add(h, bias) >> y;", "op add(h, bias) >> y with { |", {"fuse", "group"}, {"h"}),
        ("op add(h, bias) >> y;", "dep after(|", {"add", "matmul"}, {"h"}),
        ("op add(h, bias) >> y;", "// op |", set(), {"add"}),
        ("op add(h, bias) >> y;", "/* op |", set(), {"add"}),
        ("0..layers", "0..|", {"B", "D"}, {"add", "h"}),
    ],
)
def test_completion(
    client: Client, uri: str, old: str, new: str, some: set[str], none: set[str]
) -> None:
    found = completed(client, uri, PROGRAM.replace(old, new))
    assert some <= found.keys()
    assert not none & found.keys()


def test_completion_says_types_and_defaults(client: Client, uri: str) -> None:
    found = completed(client, uri, PROGRAM.replace("bias, eps=1e-6", "|"))
    assert found["eps"]["detail"] == "default 1e-05"
    assert found["eps"]["insertText"] == "eps="
    assert found["h"]["detail"] == "f32[B, D]"
    assert found["h"]["documentation"]["value"] == "temporary"
    ops = completed(client, uri, PROGRAM.replace("op add(h, bias) >> y;", "op |"))
    assert ops["matmul"]["detail"].startswith("matmul(a, b, acc=…")
    assert "`[..., M, K]` by `[..., K, N]`" in ops["matmul"]["documentation"]["value"]


# Navigation


@pytest.mark.parametrize(
    ("mark", "within", "definition"),
    [
        ("matmul(h,", 7, "h = op"),
        ("W[l]", 0, "W(l)"),
        ("W[l]", 2, "l in"),
        ("{l}", 1, "l): f32"),
        ("finish;", 2, "finish {"),
        ("0..layers", 5, "layers) {"),
        ("D, D]", 0, "D]; }"),
        ("x, W[0]", 0, "x: f32"),
    ],
)
def test_definition(client: Client, uri: str, mark: str, within: int, definition: str) -> None:
    client.open(uri, PROGRAM)
    found = client.at("textDocument/definition", uri, *place_of(PROGRAM, mark, within))
    line, unit = place_of(PROGRAM, definition)
    assert found["uri"] == uri
    assert found["range"]["start"] == {"line": line, "character": unit}


def test_no_definition(client: Client, uri: str) -> None:
    client.open(uri, PROGRAM)
    assert client.at("textDocument/definition", uri, *place_of(PROGRAM, "matmul", 2)) is None


def test_symbols(client: Client, uri: str) -> None:
    client.open(uri, PROGRAM)
    found = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    names = [symbol["name"] for symbol in found]
    assert names == ["dynamic", "constant", "persistent", "volatile", "entry", "finish"]
    constants = {s["name"]: s["detail"] for s in found[1]["children"]}
    assert constants == {"W": "f32[D, D]", "bias": "f32[D]"}
    entry = {s["name"]: s for s in found[4]["children"]}
    assert entry.keys() == {"h", "layers"}
    assert entry["layers"]["range"]["end"]["line"] == 14


def test_references_and_rename(client: Client, uri: str) -> None:
    client.open(uri, PROGRAM)
    place = place_of(PROGRAM, "W[l]", 2)
    context = {"includeDeclaration": True}
    found = client.at("textDocument/references", uri, *place, context=context)
    assert [spot["range"]["start"]["line"] for spot in found] == [11, 13]
    found = client.at("textDocument/references", uri, *place, context={"includeDeclaration": False})
    assert [spot["range"]["start"]["line"] for spot in found] == [13]
    edited = renamed(client, uri, PROGRAM, "h, bias, bias", "hidden")
    assert edited == PROGRAM.replace("h = op", "hidden = op").replace("(h,", "(hidden,").replace(
        ">> h;", ">> hidden;"
    )
    # The index of the declaration is another one than that of the loop.
    edited = renamed(client, uri, PROGRAM, "l): f32", "k")
    assert 'W(k): f32[D, D] @pattern("layer.{k}.w");' in edited
    assert "loop layers (l in 0..layers)" in edited


def test_rename_keeps_the_tensor_of_a_constant(client: Client, uri: str) -> None:
    client.open(uri, PROGRAM)
    edited = renamed(client, uri, PROGRAM, "bias: f32", "b")
    assert 'b: f32[D] @ref("bias");' in edited
    assert "op add(h, b) >> y;" in edited
    assert client.open(uri, edited) == []


@pytest.mark.parametrize(
    ("mark", "name", "message"),
    [
        ("h, bias, bias", "x", "`x` is in use"),
        ("h, bias, bias", "2h", "is no name"),
        ("entry", "main", "the name is fixed"),
        ("matmul", "product", "only variables"),
    ],
)
def test_no_rename(client: Client, uri: str, mark: str, name: str, message: str) -> None:
    client.open(uri, PROGRAM)
    line, unit = place_of(PROGRAM, mark)
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": unit}}
    answer = client.request("textDocument/rename", {**params, "newName": name})
    assert message in answer["error"]["message"]


def renamed(client: Client, uri: str, text: str, mark: str, name: str) -> str:
    """The text after a rename."""
    edit = client.at("textDocument/rename", uri, *place_of(text, mark), newName=name)
    return applied(text, edit["changes"][uri])


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """A text after edits."""
    lines = text.split("\n")

    def offset(place: dict[str, int]) -> int:
        line = place["line"]
        before = sum(len(row) + 1 for row in lines[:line])
        row = lines[line] if line < len(lines) else ""
        return before + len(row.encode("utf-16-le")[: place["character"] * 2].decode("utf-16-le"))

    for edit in sorted(edits, key=lambda e: offset(e["range"]["start"]), reverse=True):
        start, stop = offset(edit["range"]["start"]), offset(edit["range"]["end"])
        text = text[:start] + edit["newText"] + text[stop:]
    return text


def test_colours(client: Client, uri: str) -> None:
    text = PROGRAM.replace("    op add(h, bias)", "    /* 😀\n too */ op add(h, bias)")
    client.open(uri, text)
    kinds = client.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    data = client.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})["data"]
    line = unit = 0
    found: list[tuple[str, str]] = []
    for place in range(0, len(data), 5):
        lines, units, length, kind, modifiers = data[place : place + 5]
        assert modifiers == 0
        line, unit = line + lines, units if lines else unit + units
        start = {"line": line, "character": unit}
        stop = {"line": line, "character": unit + length}
        found.append((text_of(text, {"start": start, "end": stop}), kinds[kind]))
    assert found[:5] == [
        ("// A small program.", "comment"), ("dynamic", "keyword"), ("x", "variable"),
        ("f32", "type"), ("B", "parameter"),
    ]  # fmt: skip
    for row in (
        ("/* 😀", "comment"), ("too */", "comment"), ("add", "function"), ("eps", "property"),
        ("1e-6", "number"), ('"layer.{l}.w"', "string"), ("pattern", "decorator"),
        ("l", "parameter"), ("finish", "namespace"), ("increment", "keyword"),
    ):  # fmt: skip
        assert row in found


def test_formatting(client: Client, uri: str) -> None:
    options = {"options": {"tabSize": 4, "insertSpaces": True}}
    params = {"textDocument": {"uri": uri}, **options}
    untidy = PROGRAM.replace("    op add(h, bias) >> y;", "  op add( h,bias )>>y;   // 😀")
    client.open(uri, untidy)
    edits = client.ask("textDocument/formatting", params)
    tidy = applied(untidy, edits)
    assert "    op add(h, bias) >> y;  // 😀\n" in tidy
    client.open(uri, tidy)
    assert client.ask("textDocument/formatting", params) == []
    client.open(uri, untidy.replace("return;", "return"))
    assert client.ask("textDocument/formatting", params) == []


# The model


def package(path: Path) -> Path:
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "layer.0.w": np.zeros((4, 4), np.float32),
        "layer.1.w": np.zeros((4, 4), np.float32),
        "bias": np.zeros(4, np.float32),
        "other": np.zeros(5, np.float32),
    }
    openinfer.write_oinf({"layers": 2, "D": 4, **arrays}, path)
    return path


def test_model_of_a_comment(client: Client, tmp_path: Path) -> None:
    package(tmp_path / "m.oinf")
    text = PROGRAM.replace("// A small program.", "// model: m.oinf")
    uri = (tmp_path / "p.oi").as_uri()
    assert client.open(uri, text) == []
    assert hover(client, uri, "0..layers", 4, text) == "size `layers` = 2, from the package"
    assert "shape `[B, 4]`" in hover(client, uri, "h, bias, bias", 0, text)
    assert "2 tensors layer.{l}.w" in hover(client, uri, "W[l]", 0, text)
    wrong = text.replace("bias: f32[D];", 'bias: f32[D] @ref("other");\n    gone: f32[2];')
    found = client.open(uri, wrong)
    assert {(d["code"], d["severity"], d["range"]["start"]["line"]) for d in found} >= {
        ("OI0330", 2, 5),
    } or any("other" in d["message"] for d in found)
    assert any(d["severity"] == 1 and "other" in d["message"] for d in found)
    named = completed(client, uri, text.replace("bias: f32[D];", 'bias: f32[D] @ref("|");'))
    assert named["layer.1.w"]["detail"] == "f32[4, 4]"
    answer = client.request(
        "textDocument/rename",
        {
            "textDocument": {"uri": uri},
            "position": dict(zip(("line", "character"), place_of(text, "0..layers", 4))),
            "newName": "depth",
        },
    )
    assert "a name of the model" in str(answer.get("error", answer))


def test_unfilled_constants_are_warnings(client: Client, tmp_path: Path) -> None:
    package(tmp_path / "p.oinf")  # the one beside the program
    uri = (tmp_path / "p.oi").as_uri()
    text = PROGRAM.replace("    bias: f32[D];", "    bias: f32[D];\n    gone: f32[2];")
    found = client.open(uri, text)
    assert [(d["code"], d["severity"], text_of(text, d["range"])) for d in found] == [
        ("OI0330", 2, "gone")
    ]


def test_model_of_the_options_and_settings(tmp_path: Path) -> None:
    package(tmp_path / "weights.oinf")
    uri = (tmp_path / "p.oi").as_uri()
    client = Client({"model": "weights.oinf", "sizes": {"B": 3}}, tmp_path)
    assert client.open(uri, PROGRAM) == []
    assert "shape `[3, 4]`" in hover(client, uri, "h, bias, bias")
    client._diagnostics.clear()  # pyright: ignore[reportPrivateUsage]
    settings = {"openinfer": {"model": "none.oinf", "sizes": {"no_such": "x"}, "strict": 1}}
    client.tell("workspace/didChangeConfiguration", {"settings": settings})
    found = client.published(uri)
    assert [d["code"][:4] for d in found] == ["OI04"]
    # The text is read all the same.
    assert "h: f32[B, D]" in hover(client, uri, "h, bias, bias")
    assert client.logged == []
    assert client.close() == 0


# Robustness


def test_every_beginning_of_a_program(client: Client, uri: str) -> None:
    """Text as it comes into being, with a question at its end; nothing is written to the log."""
    client.open(uri, "")
    for stop in range(1, len(PROGRAM), 3):
        text = PROGRAM[:stop]
        client.change(uri, {"text": text})
        line, unit = text.count("\n"), len(text.rpartition("\n")[2])
        client.at("textDocument/completion", uri, line, unit)
        client.at("textDocument/hover", uri, line, unit)
        client.at("textDocument/definition", uri, line, max(0, unit - 1))
        client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    client.change(uri, {"text": PROGRAM})
    assert client.published(uri) == []
    assert client.logged == []


def test_strange_requests(client: Client, uri: str) -> None:
    """Places outside of a text, texts that are no programs, broken halves of characters."""
    for text in (
        "",
        "\0\0",
        '"',
        "/*",
        "{" * 500,
        "\ud800 op \udfff",
        "block " * 50,
        "op op op;" * 9,
    ):
        client.open(uri, text)
        for line, unit in ((0, 0), (0, 9999), (9999, 0)):
            client.at("textDocument/hover", uri, line, unit)
            client.at("textDocument/completion", uri, line, unit)
    client.open(uri, PROGRAM)
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert client.open(uri, PROGRAM) == []


def test_an_editor_that_goes_without_a_word() -> None:
    client = Client()
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.process.wait(60) in (0, 1)


def test_without_pygls(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pygls", None)
    assert main(["lsp"]) == 1
    assert "pip install 'openinfer[lsp]'" in capsys.readouterr().err
    assert main(["lsp", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)
