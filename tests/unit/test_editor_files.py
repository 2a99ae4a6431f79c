"""The grammar of editors, against the lexer and the language server; the files of the VS Code extension."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program_texts import PROGRAM_TEXTS, REPOSITORY, ProgramText
from textmate import Grammar

from openinfer.compiler.frontend.parse_nodes import READERS
from openinfer.compiler.frontend.source import Source
from openinfer.compiler.language_server import terms
from openinfer.compiler.language_server.operand_reader import SECTIONS
from openinfer.compiler.language_server.words import Words
from openinfer.compiler.tools.openinfer import COMMANDS
from openinfer.dialects import opset
from openinfer.runtime.dtypes import ALIASES, DTYPES

FOLDER = REPOSITORY / "editors" / "vscode"
GRAMMAR = Grammar(FOLDER / "openinfer.tmLanguage.json")

EXPECTED = {
    "op": ("support.function.op",),
    "setting": ("variable.parameter.setting",),
    "argument": ("variable.parameter.setting",),
    "hint": ("variable.parameter.setting",),
    "attribute": ("entity.other.attribute-name",),
    "dtype": ("storage.type",),
    "keyword": ("keyword.", "storage.modifier", "constant.language", "support.function.size"),
    "cache": ("keyword.other.cache.action",),
    "loop": ("entity.name.label",),
    "block": ("entity.name.function.block", "variable."),
    "parameter": ("variable.",),
    "label": ("entity.name.function.block",),
    "variable": ("variable.",),
    "size": ("variable.", "entity.name.constant.size"),
    "index": ("variable.",),
    "slot": ("variable.",),
}
"""What a name is for the language server → how its scope begins."""


def innermost(scopes: list[tuple[str, ...]], start: int) -> str:
    return scopes[start][-1] if scopes[start] else ""


@pytest.mark.parametrize("program", PROGRAM_TEXTS, ids=lambda program: program.name)
def test_every_token_has_its_colour(program: ProgramText) -> None:
    words = Words(Source(program.text))
    scopes = GRAMMAR.scopes(program.text)
    for token in words.tokens:
        start, stop = token.span
        text = program.text[start:stop]
        outer = scopes[start][0] if start < len(scopes) and scopes[start] else ""
        if token.kind == "string":
            assert all(s and s[0].startswith("string.") for s in scopes[start:stop]), text
        elif token.kind in ("int", "float"):
            assert outer.startswith("constant.numeric"), text
        elif token.kind in ("name", *"=+-*/", ">>", ".."):
            assert outer, text
            # In a comment or string there are no tokens; an unquoted name of a tensor is coloured as one.
            assert not outer.startswith(("comment.", "string.quoted")), text
    for word in words.words:
        symbol = words.symbol(word)
        if symbol.kind in EXPECTED and not program.wrong:
            scope = innermost(scopes, word.span.start)
            assert scope.startswith(EXPECTED[symbol.kind]), (word.text, symbol.kind, scope)


def test_comments_and_strings() -> None:
    text = 'a /* x /* op f() */ " */ b // op " */\n@ref("w\\n{l}\\q") r#"a"b"# c'
    scopes = GRAMMAR.scopes(text)
    assert innermost(scopes, text.index("op f")).startswith("comment.block")
    assert innermost(scopes, text.index('" */ b')).startswith("comment.block")
    assert innermost(scopes, text.index("b //")) == "variable.other.openinfer"
    assert innermost(scopes, text.index('op " */')).startswith("comment.line")
    assert innermost(scopes, text.index("\\n")).startswith("constant.character.escape")
    assert innermost(scopes, text.index("\\q")).startswith("invalid.illegal")
    assert innermost(scopes, text.index("l}")) == "variable.parameter.index.openinfer"
    assert innermost(scopes, text.index('"b"')).startswith("string.quoted.other.raw")
    assert innermost(scopes, len(text) - 1) == "variable.other.openinfer"


def test_an_open_string_ends_with_its_line() -> None:
    scopes = GRAMMAR.scopes('@ref("abc\nblock entry {')
    assert innermost(scopes, 10) == "keyword.other.block.openinfer"


LINES = {
    **{word: f"{word} {{" for word in SECTIONS},
    **{word: f"    {word} h;" for word in ("await", "branch", "return", "transfer", "yield")},
    "assign": "    assign h: f32[B];",
    "barrier": "    barrier;",
    "cache": "    cache.read K[l] >> k;",
    "dep": "    dep after(add) before(matmul);",
    "effect": "    y = effect read(K, index=i);",
    "loop": "    loop l (i in 0..n) {",
    "op": "    op relu(h) >> h;",
    "scope": '    scope "attention" {',
    "block": "block entry {",
    "size": "size heads = 4;",
    "with": "    op relu(h) >> h with { fuse = false };",
    "in": "    loop l (i in 0..n) {",
    "after": "    dep after(add) before(cache.write);",
    "before": "    dep after(add) before(cache.write);",
    "true": "    op f(h, keepdims=true) >> h;",
    "false": "    op f(h, keepdims=false) >> h;",
    "inf": "    op mul(h, -inf) >> h;",
    "nan": "    op mul(h, nan) >> h;",
    "max": "    assign h: f32[max(a, b)];",
    "min": "    assign h: f32[min(a, b)];",
    "buffer": "    K: buffer(f32, [B, T]);",
    "model": '    y = op mul(t, model["scale"]);',
    "fmt": '    y = op mul(t, model[fmt("w.{l}")]);',
}


def test_every_keyword_has_a_line() -> None:
    assert LINES.keys() == terms.WORDS.keys()
    assert LINES.keys() >= READERS.keys()


@pytest.mark.parametrize("word", LINES)
def test_keywords(word: str) -> None:
    line = LINES[word]
    found = re.search(rf"\b{word}\b", line)
    assert found is not None
    scope = innermost(GRAMMAR.scopes(line), found.start())
    assert scope.startswith(EXPECTED["keyword"]), scope


def test_blocks_with_parameters() -> None:
    scopes = GRAMMAR.scopes("block conv(x, path, stride=1) {")
    assert innermost(scopes, 0) == "keyword.other.block.openinfer"
    assert innermost(scopes, 6) == "entity.name.function.block.openinfer"
    line = 'a, b = branch conv(relu(x), "{path}.conv", stride=2);'
    scopes = GRAMMAR.scopes(line)
    assert innermost(scopes, 0) == innermost(scopes, 3) == "variable.other.declaration.openinfer"
    assert innermost(scopes, line.index("branch")) == "keyword.control.flow.openinfer"
    assert innermost(scopes, line.index("conv(")) == "entity.name.function.block.openinfer"
    assert innermost(scopes, line.index("relu")) == "support.function.op.openinfer"
    assert innermost(scopes, line.index("path")) == "variable.parameter.index.openinfer"
    assert innermost(scopes, line.index("stride")) == "variable.parameter.setting.openinfer"


def test_a_bound_of_a_size() -> None:
    scopes = GRAMMAR.scopes("size 1 <= L <= 512;")
    assert innermost(scopes, 0) == "keyword.other.size.openinfer"
    assert innermost(scopes, 7) == "keyword.operator.openinfer"


@pytest.mark.parametrize(
    "line", ["    op add(op, cache) >> loop;", "    transfer block >> return;"]
)
def test_words_of_the_language_may_be_names(line: str) -> None:
    scopes = GRAMMAR.scopes(line)
    for word in ("op,", "cache)", "loop;", "block >>", "return;"):
        if word in line and word != "return;":
            assert innermost(scopes, line.index(word)) == "variable.other.openinfer", word


@pytest.mark.parametrize("dtype", [*DTYPES, *ALIASES])
def test_dtypes(dtype: str) -> None:
    for line in (f"x: {dtype}[B];", f"op cast(x, to={dtype}) >> y;", f"W: f32 @dtype({dtype});"):
        scopes = GRAMMAR.scopes(line)
        assert innermost(scopes, line.index(dtype)) == "storage.type.openinfer", line


def test_dtypes_of_packages() -> None:
    """Also those that only a package holds, and the one that is left to it."""
    for dtype in ("_", "q4_k"):
        line = f"W: f32[4] @dtype({dtype});"
        assert innermost(GRAMMAR.scopes(line), line.index(f"{dtype})")) == "storage.type.openinfer"


def test_new_forms() -> None:
    line = "op mul(h, 0.5) >> h; op add(n, 1) >> n; cache.increment T step; W: _ @ref(a.b.0.c);"
    scopes = GRAMMAR.scopes(line)
    assert innermost(scopes, line.index("0.5")) == "constant.numeric.openinfer"
    assert innermost(scopes, line.index("1)")) == "constant.numeric.openinfer"
    assert innermost(scopes, line.index("T step")) == "variable.other.openinfer"
    assert innermost(scopes, line.index("a.b.0")) == "string.unquoted.openinfer"
    assert innermost(scopes, line.index("0.c")) == "string.unquoted.openinfer"
    line = "h = op add(h, linear(x, W[l]));"
    assert innermost(GRAMMAR.scopes(line), line.index("linear")) == "support.function.op.openinfer"
    for line in ("a, b = op split(x, axis=0);", "a, b= cache.read K[0];", "a, b = effect read(K);"):
        scopes = GRAMMAR.scopes(line)
        assert (
            innermost(scopes, 0) == innermost(scopes, 3) == "variable.other.declaration.openinfer"
        )


def test_no_op_is_listed() -> None:
    """The grammar knows an op by its place, so that new ones need no change here."""
    text = (FOLDER / "openinfer.tmLanguage.json").read_text(encoding="utf-8")
    words = set(re.findall(r"[a-z]\w+", text))
    known = {"min", "max", "fill", "read", "write"}  # sizes, and caches
    assert not {*opset.names()} & (words - known)


# The VS Code extension


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def test_the_extension_names_files_that_exist() -> None:
    package = read("package.json")
    (language,) = package["contributes"]["languages"]
    (grammar,) = package["contributes"]["grammars"]
    for path in (package["main"], language["configuration"], grammar["path"]):
        assert (FOLDER / path).is_file()
    assert grammar["language"] == language["id"]
    assert grammar["scopeName"] == GRAMMAR.data["scopeName"]
    assert language["extensions"] == [f".{kind}" for kind in GRAMMAR.data["fileTypes"]]
    assert read("language-configuration.json")["comments"]["lineComment"] == "//"


def test_the_extension_starts_what_there_is() -> None:
    text = (FOLDER / "extension.js").read_text(encoding="utf-8")
    command = re.search(r'args: \["(\w+)"\]', text)
    assert command is not None
    assert command[1] in COMMANDS
    settings = read("package.json")["contributes"]["configuration"]["properties"]
    assert settings.keys() == {f"openinfer.{n}" for n in ("command", "model", "sizes", "strict")}
    for name in ("model", "sizes", "strict"):
        assert re.search(rf"\b{name}\b", text)


STUBS = """
const sent = [];
const handlers = [];
const values = { model: "m.oinf", sizes: { B: 2 }, strict: false, command: "openinfer" };
const configuration = { ...values, get: (name) => values[name] };
class LanguageClient {
    constructor(...given) { sent.push(["made", given]); }
    start() { sent.push(["start"]); return Promise.resolve(); }
    stop() { sent.push(["stop"]); return Promise.resolve(); }
    sendNotification(...given) { sent.push(["told", given]); }
}
const modules = {
    vscode: { workspace: {
        getConfiguration: () => configuration,
        onDidChangeConfiguration: (handler) => handlers.push(handler),
    } },
    "vscode-languageclient/node": { LanguageClient },
};
const Module = require("module");
const load = Module._load;
Module._load = (name, ...rest) => modules[name] ?? load(name, ...rest);
const extension = require(process.argv[2]);
extension.activate();
handlers[0]({ affectsConfiguration: (name) => name === "openinfer" });
extension.deactivate();
console.log(JSON.stringify(sent));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_extension_runs(tmp_path: Path) -> None:
    """With stubs in place of VS Code: what it gives to the client, and when."""
    script = tmp_path / "stubs.cjs"
    script.write_text(STUBS)
    done = subprocess.run(
        ["node", str(script), str(FOLDER / "extension.js")],
        capture_output=True,
        text=True,
        check=True,
    )
    made, start, told, stop = json.loads(done.stdout)
    _, _, server, options = made[1]
    assert server == {"command": "openinfer", "args": ["lsp"]}
    assert options["initializationOptions"] == {
        "model": "m.oinf",
        "sizes": {"B": 2},
        "strict": False,
    }
    assert (start, stop) == (["start"], ["stop"])
    method, params = told[1]
    assert method == "workspace/didChangeConfiguration"
    assert params["settings"]["openinfer"]["sizes"] == {"B": 2}
