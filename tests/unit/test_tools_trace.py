"""`openinfer trace` and `run --trace`: tables by every key, JSON, and the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import openinfer as oi
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.trace_page import page
from openinfer.compiler.tools.trace_profile import KEYS, Profile, duration
from openinfer.compiler.tools.trace_script import SCRIPT
from openinfer.runtime.errors import Location
from openinfer.runtime.trace import Event

Capture = pytest.CaptureFixture[str]

PROGRAM = """\
dynamic { x: f32[B, 8]; w: f32[8, 8]; }
volatile { y: f32[B, 8]; }
block entry {
    scope "layer" {
        op matmul(x, w) >> y;
        op relu(y) >> y;
    }
    barrier;
    op exp(y) >> y;
    return y;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("executor", ["cpu", "simulator"])
def test_tables(program: Path, capsys: Capture, executor: str) -> None:
    arguments = ["trace", str(program), "--executor", executor, "--steps", "3", "--threads", "1"]
    for key in KEYS:
        arguments += ["--by", key]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    for key in KEYS:
        assert f"  {key} " in out
    assert "entry/layer" in out
    assert "in 3 steps" in out
    lines = [line for line in out.splitlines() if "%" in line]
    assert sum("op matmul(x, w) >> y" in line for line in lines) >= 1
    if executor == "cpu":
        # One kernel, one row: nodes 1 and 2 on lines 5 and 6, called once in each step.
        row = next(line for line in lines if "1-2 matmul_0" in line)
        assert "op matmul(x, w) >> y; op relu(y) >> y" in row
        assert row.split()[2] == "3"
        assert any("p.oi:5-6" in line for line in lines)
        assert any("matmul+relu" in line for line in lines)


def test_default_table_and_top(program: Path, capsys: Capture) -> None:
    assert main(["trace", str(program), "--executor", "simulator", "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["share", "total", "calls", "mean", "node", "what"]
    assert "in 2 more rows" in out
    assert "took no time of their own" in out


def test_json(program: Path, capsys: Capture) -> None:
    arguments = ["trace", str(program), "--json", "--by", "op", "--by", "line", "--threads", "1"]
    assert main(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["steps"] == 1
    assert 0 < data["busy_ns"] <= data["step_ns"]
    assert list(data["by"]) == ["op", "line"]
    rows = data["by"]["op"]
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert {row["label"] for row in rows} == {"matmul+relu", "exp"}
    lines = {row["label"]: row for row in data["by"]["line"]}
    assert lines["p.oi:5-6"]["places"] == [f"{program}:5:9", f"{program}:6:9"]
    assert lines["p.oi:5-6"]["detail"] == "op matmul(x, w) >> y; op relu(y) >> y;"


def test_a_stored_trace(program: Path, tmp_path: Path, capsys: Capture) -> None:
    stored, saved = tmp_path / "t.json", tmp_path / "s.json"
    arguments = ["--threads", "1", "--steps", "2"]
    assert main(["run", str(program), *arguments, "--trace", str(stored)]) == 0
    capsys.readouterr()
    assert main(["trace", str(stored), "--by", "line"]) == 0
    out = capsys.readouterr().out
    # The text of the line comes from the file that the trace names.
    assert "op exp(y) >> y;" in out
    assert "in 2 steps" in out
    program.unlink()
    assert main(["trace", str(stored), "--by", "line"]) == 0
    assert "p.oi:5-6" in capsys.readouterr().out
    program.write_text(PROGRAM)
    assert main(["trace", str(program), *arguments, "--save", str(saved)]) == 0
    assert len(json.loads(saved.read_text())) == len(json.loads(stored.read_text()))
    assert main(["trace", str(saved), "--save", str(stored)]) == 2
    capsys.readouterr()


def test_graph_json_is_a_program(program: Path, tmp_path: Path, capsys: Capture) -> None:
    graph = tmp_path / "g.json"
    assert main(["export", str(program), "-o", str(graph)]) == 0
    assert main(["trace", str(graph), "--executor", "simulator"]) == 0
    assert "op matmul(x, w) >> y" in capsys.readouterr().out


def test_chrome_is_for_perfetto(program: Path, tmp_path: Path, capsys: Capture) -> None:
    stored = tmp_path / "t.json"
    arguments = ["run", str(program), "--trace", str(stored), "--trace-format", "chrome"]
    assert main([*arguments, "--executor", "simulator"]) == 0
    assert main(["trace", str(stored)]) == 1
    assert "OI0555" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code"), [("[]", 0), ("[3]", 1), ("nonsense", 1), ("{}", 1), ("\udcff", 1)]
)
def test_other_files(text: str, code: int, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["trace", str(path)]) == code
    assert "Traceback" not in capsys.readouterr().err
    assert main(["trace", str(tmp_path / "none.json")]) == 1
    assert main(["trace", str(path), "--top", "0"]) == 2
    capsys.readouterr()


def test_compiled_trace_of_run(program: Path, tmp_path: Path, capsys: Capture) -> None:
    stored = tmp_path / "t.json"
    assert main(["run", str(program), "--trace", str(stored), "--threads", "2"]) == 0
    capsys.readouterr()
    rows = json.loads(stored.read_text())
    assert [r["kind"] for r in rows] == [
        "BlockEnter", "OpExecute", "Barrier", "OpExecute", "Return", "BlockExit",
    ]  # fmt: skip
    assert rows[1]["nodes"] != []
    assert rows[1]["kernel"] == "matmul_0"


# The page.


class _Reader(HTMLParser):
    """Checks that elements are closed, and collects what could point elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.data: dict[str, str] = {}
        self.elements: list[str] = []
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self._kind = dict(attrs).get("type") or tag
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self.references += [v or "" for n, v in attrs if n in ("src", "href", "action", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.data[self._kind] = self.data.get(self._kind, "") + data


def read_page(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def hostile(text: str) -> Event:
    return Event(
        "OpExecute", "entry", 0, "u", op_name=text, description=text, duration_ns=5,
        location=Location(text, 1, 1), kernel=text, scope=text, shapes={text: (1,)},
    )  # fmt: skip


def test_page(program: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "page.html"
    assert main(["trace", str(program), "--html", str(target), "--threads", "1"]) == 0
    capsys.readouterr()
    text = target.read_text()
    reader = read_page(text)
    # Nothing is fetched: no address, no other file, no style that could name one.
    assert "http" not in text.lower()
    assert "//" not in text.replace("// ", "")
    assert reader.references == []
    assert "url(" not in text
    assert "@import" not in text
    assert not {"link", "img", "iframe", "object"} & set(reader.elements)
    data = json.loads(reader.data["application/json"])
    assert set(data["tables"]) == set(KEYS)
    assert data["events"][0]["kind"] == "BlockEnter"
    (lines,) = data["sources"].values()
    assert "\n".join(lines) == PROGRAM
    assert set(data["lines"][str(program)]) == {"5", "6", "9"}


def test_nothing_in_a_trace_becomes_html() -> None:
    evil = '</script><img src=x onerror=alert(1)>"&<!--'
    text = page(Profile.of([hostile(evil)], {evil: evil}), evil)
    reader = read_page(text)
    assert "img" not in reader.elements
    data = json.loads(reader.data["application/json"])
    assert data["events"][0]["name"] == evil
    assert data["sources"] == {evil: [evil]}


def test_page_of_nothing() -> None:
    read_page(page(Profile.of([]), "empty"))


def test_long_traces_are_cut_on_the_timeline_only() -> None:
    events = [Event("OpExecute", "entry", 0, "u", start_ns=i, duration_ns=1) for i in range(20_003)]
    data = json.loads(read_page(page(Profile.of(events), "long")).data["application/json"])
    assert (len(data["events"]), data["cut"]) == (20_000, 3)
    assert data["tables"]["node"][0]["calls"] == 20_003


# A document of nothing but what the script asks for.
_DOM = """
class Node { constructor() { this.children = []; this.dataset = {}; this.listeners = {};
    this.clientWidth = 900; this.textContent = ""; this.style = { setProperty() {} };
    this.classList = { add() {}, remove() {} }; }
  append(...nodes) { this.children.push(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; }
  get firstChild() { return this.children[0]; }
  addEventListener(name, act) { this.listeners[name] = act; }
  setAttribute() {} scrollIntoView() {} querySelectorAll() { return []; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 900 }; }
  getContext() { return new Proxy({}, { get: () => () => {}, set: () => true }); } }
const nodes = { data: new Node(), canvas: new Node(), detail: new Node(), source: new Node() };
const head = new Node(), body = new Node(), button = new Node();
button.dataset.key = "op";
globalThis.window = new Node();
globalThis.document = { createElement: () => new Node(), getElementById: (id) => nodes[id],
  querySelectorAll: (what) => what === "nav button" ? [button] : [],
  querySelector: (what) => what.includes("thead") ? head : body };
"""
_USE = """
button.listeners.click();
body.children[0].listeners.click();
nodes.canvas.listeners.wheel({ preventDefault() {}, deltaY: 1, clientX: 9, clientY: 9 });
nodes.canvas.listeners.dblclick();
for (let x = 0; x < 900; x++) nodes.canvas.listeners.click({ clientX: x, clientY: 18 + 22 + 5 });
console.log(body.children.length + " " + nodes.detail.textContent);
"""


def test_the_script_runs(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node to run the script of the page")
    executor = oi.Simulator(oi.graph(PROGRAM), sizes={"B": 2}).make_executor()
    import numpy as np

    executor.run(x=np.ones((2, 8), np.float32), w=np.ones((8, 8), np.float32))
    text = page(Profile.of(executor.trace(), {"<graph>": PROGRAM}), "p")
    data = json.dumps(read_page(text).data["application/json"])
    script = tmp_path / "page.js"
    script.write_text(f"{_DOM}\nnodes.data.textContent = {data};\n{{{SCRIPT}\n{_USE}}}")
    done = subprocess.run(
        [node, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 node ")


def test_durations() -> None:
    shown = [duration(n) for n in (0, 999, 1000, 12_340, 123_400, 5_000_000, 2e9)]
    assert shown == ["0ns", "999ns", "1.00us", "12.3us", "123us", "5.00ms", "2.00s"]
