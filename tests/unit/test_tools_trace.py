"""`openinfer trace` and `run --trace`: tables by every key, JSON, and the page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.trace_page import page
from openinfer.compiler.tools.trace_profile import KEYS, Profile, duration
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
    """Checks that elements are closed, and collects attributes and texts by element."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def texts_of(self, tag: str) -> list[str]:
        return [text for element, text in self.texts if element == tag]

    @property
    def bars(self) -> list[tuple[str, float, float, int]]:
        """Of each bar of the timeline: name, left and right end in percent, and height."""
        styles = [attributes["style"] for tag, attributes in self.elements if tag == "span"]
        boxes = [dict(part.split(":") for part in style.split(";") if part) for style in styles]
        ends = [(float(b["left"][:-1]), float(b["width"][:-1]), int(b["top"][:-2])) for b in boxes]
        names = zip(self.texts_of("span"), ends, strict=True)
        return [(name, left, left + width, top) for name, (left, width, top) in names]


def read_page(text: str) -> _Reader:
    """The page, of which nothing runs and which fetches nothing."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    used = {tag for tag, _ in reader.elements}
    named = {name for _, attributes in reader.elements for name in attributes}
    assert not used & {"script", "link", "img", "iframe", "object"}
    assert named <= {"lang", "charset", "name", "content", "id", "class", "style", "title", "open"}
    (style,) = reader.texts_of("style")
    assert not any(word in style for word in ("url(", "@import", "//"))
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
    reader = read_page(target.read_text())
    assert reader.texts_of("summary") == [f"by {key}" for key in KEYS]
    cells = reader.texts_of("td")
    # A row of the tables by node and by line: the kernel, the place, the text of the program.
    assert {"1-2 matmul_0", "p.oi:5-6", "matmul+relu", "entry/layer"} <= set(cells)
    assert "op matmul(x, w) >> y; op relu(y) >> y;" in cells
    assert {"matmul+relu", "exp", "entry"} <= {name for name, *_ in reader.bars}
    titles = [attributes["title"] for tag, attributes in reader.elements if tag == "span"]
    (product,) = [title for title in titles if title.startswith("matmul+relu ")]
    assert product.splitlines()[1:] == [
        "matmul_0", "layer", "op matmul(x, w) >> y; op relu(y) >> y",
        "x: f32[8, 8], w: f32[8, 8], y: f32[8, 8]", f"{program}:5 {program}:6",
    ]  # fmt: skip


def test_nothing_in_a_trace_becomes_html() -> None:
    evil = '</style><img src=x onerror=alert(1)>"&<!--'
    reader = read_page(page(Profile.of([hostile(evil)], {evil: evil}), evil))
    assert reader.texts_of("span") == [evil]
    assert reader.texts_of("h1") == [evil]


def test_page_of_nothing() -> None:
    read_page(page(Profile.of([]), "empty"))
    timeless = [Event("Return", "entry", 0, "u", duration_ns=0)]
    assert "No node took time." in read_page(page(Profile.of(timeless), "p")).texts_of("p")


def test_the_timeline_shows_the_work_of_the_last_step() -> None:
    """Neither earlier steps nor what the host does around the nodes takes room from them."""

    def step(number: int, start: int) -> list[Event]:
        def event(kind: str, block: str, at: int, time: int = 0) -> Event:
            return Event(kind, block, 0, "u", start_ns=start + at, duration_ns=time, step=number)

        return [
            event("BlockEnter", "entry", 0),
            event("Loop", "entry", 1_000, 60),
            event("BlockEnter", "inner", 1_060),
            event("Barrier", "inner", 1_070, 40),
            event("BlockExit", "inner", 1_080),
            event("Yield", "entry", 1_150, 50),
            event("BlockExit", "entry", 9_000),
        ]

    reader = read_page(page(Profile.of([*step(0, 0), *step(1, 1_000_000)]), "p"))
    assert sorted(reader.bars) == [
        ("Barrier", 35.0, 55.0, 44),
        ("Loop", 0.0, 30.0, 22),
        ("Yield", 75.0, 100.0, 22),
        ("entry", 0.0, 100.0, 0),
        ("inner", 30.0, 40.0, 22),
    ]
    assert any(text.startswith("Step 1, 200ns.") for text in reader.texts_of("p"))


def test_long_steps_are_cut_on_the_timeline_only() -> None:
    events = [Event("OpExecute", "entry", 0, "u", start_ns=i, duration_ns=1) for i in range(20_003)]
    reader = read_page(page(Profile.of(events), "long"))
    assert len(reader.bars) == 20_000
    assert any("; 3 more bars are not drawn." in text for text in reader.texts_of("p"))
    assert "20003" in reader.texts_of("td")


def test_numbers_of_any_length_make_a_page() -> None:
    events = [Event("OpExecute", "entry", 0, "u", start_ns=0, duration_ns=10**n) for n in (0, 300)]
    assert len(read_page(page(Profile.of(events), "p")).bars) == 2


def test_durations() -> None:
    shown = [duration(n) for n in (0, 999, 1000, 12_340, 123_400, 5_000_000, 2e9)]
    assert shown == ["0ns", "999ns", "1.00us", "12.3us", "123us", "5.00ms", "2.00s"]
