"""`openinfer debug`: through a pseudo-terminal, from a pipe, and from the command line."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.tools.debugging.commands import Commands
from openinfer.compiler.tools.debugging.completion import complete
from openinfer.compiler.tools.debugging.session import DebugSession
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.running import Session
from openinfer.runtime.host import cpu_unavailable_reason

Capture = pytest.CaptureFixture[str]

PROGRAM = """\
dynamic { x: f32[B, 4]; }
volatile { W: f32[4, 4] @init(0.5); y: f32[B, 4]; ok: bool; }
persistent { n: i32 @init(0); K(l): f32[B, 4] @table; }
block entry {
  cache.increment n;
  assign h: f32[B, 4];
  op matmul(x, W) >> h;
  scope "stack" {
    loop layers (l in 0..3) {
      op add(h, x) >> h;
      cache.write h >> K[l];
    }
  }
  op is_finite(h) >> ok;
  branch ok good bad;
  return y;
}
block good {
  op relu(h) >> y;
  return;
}
block bad { return; }
"""

ONES = "x=[[1,1,1,1],[1,1,1,1]]"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    path = tmp_path / "failing.oi"
    path.write_text(
        "dynamic { i: i32; x: f32[4]; }\nvolatile { y: f32[]; z: f32[4]; }\nblock entry {\n"
        "  op relu(x) >> z;\n  op gather(z, i, axis=0) >> y;\n  return y;\n}\n"
    )
    return path


BLOCKS = """\
dynamic { x: f32[4]; }
block half(v, by=0.5) {
  h = op mul(v, by);
  h = op add(h, v);
  return h;
}
block twice(v) {
  h = branch half(v);
  y = branch half(h, by=2.0);
  return y;
}
block entry {
  h = op neg(x);
  loop rounds (r in 0..2) {
    h = branch twice(h);
  }
  z = op relu(h);
  return h, z;
}
"""


# Commands of the command line


def run(path: Path, *commands: str, options: tuple[str, ...] = ("--input", ONES)) -> int:
    lines = [word for command in commands for word in ("--command", command)]
    return main(["debug", str(path), *options, *lines])


def test_steps_in_blocks_with_parameters(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "blocks.oi"
    path.write_text(BLOCKS)
    given = ("--input", "x=[1,2,3,4]", "--json")
    commands = ["break twice", "continue", "where", "print h", "step", "finish", "finish", "next",
                "until relu", "end", "delete 1", "tbreak 15", "continue"]  # fmt: skip
    assert run(path, *commands, options=given) == 0
    replies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    stops = [reply["stop"]["event"] for reply in replies if "stop" in reply]
    assert [(stop["line"], stop["op"]) for stop in stops] == [
        (3, "mul"),  # `twice` begins: in the block that it calls first
        (4, "add"),
        (3, "mul"),  # `half` is done; the next call of it follows
        (3, "mul"),  # `twice` is done; the loop calls it again, which is a breakpoint
        (4, "add"),
        (17, "relu"),
        (3, "mul"),  # a call is where its block begins
    ]
    frames = next(reply["frames"] for reply in replies if "frames" in reply)
    assert [(one["block"], one.get("call")) for one in frames] == [
        ("half", "half(h)"), ("twice", "twice(h)"), ("entry", None),
    ]  # fmt: skip
    assert [one["around"] for one in frames] == [[], [], ["loop rounds (r in 0..2): r = 0"]]
    shown = next(reply for reply in replies if reply.get("expression") == "h")
    assert shown["values"] == [-0.5, -1, -1.5, -2]


PARAMETERS = """\
dynamic { x: f32[4, 6]; n: i32; }
constant { W(k): f32[6] @pattern("w.{k}"); }
block part(h, path, rows, low=-0.5, wide=true) {
  constant { w: f32[6] @ref("{path}.w"); }
  loop i (k in 0..2) { h_more = op add(h, w); }
  y = op clamp(h_more, min=low);
  y = op slice(y, start=0, stop=rows);
  return y;
}
block both(h, one, at) {
  y = branch part(h, "a", at + 1);
  z = op mul(y, one);
  return z;
}
block entry {
  loop k (k in 0..2) { y = branch both(x, W[k], n / 2); }
  return y;
}
"""


@pytest.mark.parametrize("device", ["simulator", "cpu"])
def test_parameters_are_printed(tmp_path: Path, capsys: Capture, device: str) -> None:
    """What they stand for where the call is written: a variable, an entry, an expression, a number."""
    if device == "cpu" and cpu_unavailable_reason() is not None:
        pytest.skip("no compiled device here")
    path = tmp_path / "parts.oi"
    path.write_text(PARAMETERS)
    rows = {f"w.{k}": np.full(6, k + 2, np.float32) for k in range(2)}
    oi.write_oinf(rows | {"a.w": np.ones(6, np.float32)}, tmp_path / "parts.oinf")
    inputs = np.arange(24, dtype=np.float32).reshape(4, 6)
    options = ("--input", f"x={inputs.tolist()}", "--input", "n=5", "--json", "--device", device)
    names = ["h[1, :2]", "rows", "low", "wide", "w[0]", "path", "k", "h"]
    commands = ["until clamp", *(f"print {name}" for name in names[:5]), "break mul if one.max == 3",
                "continue", "print one[0]", "print at * 10", "print k", "print h[3]"]  # fmt: skip
    assert run(path, *commands, options=options) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    values = [row["values"] for row in shown if "expression" in row]
    assert values == [[6.0, 7.0], 3, -0.5, True, 1.0, 3.0, 20, 1, list(range(18, 24))]
    assert next(row for row in shown if row.get("expression") == "h[1, :2]")["memory"] == "dynamic"
    assert run(path, "until clamp", "print path", options=options) == 2
    assert 'path stands for \\"a\\" in this call' in capsys.readouterr().out


def test_stops_and_values(program: Path, capsys: Capture) -> None:
    assert run(program, "break 7", "continue", "print h", "p h[0, 1..3]", "p h.max * 2") == 0
    out = capsys.readouterr().out
    for text in (
        "breakpoint 1: line 7\n",
        "p.oi:7: step 0, block entry, node 2\n  op matmul(x, W) >> h\n",
        "  h: f32[2, 4] = {2, 2, 2, 2, 2, 2, 2, 2}",
        "h: f32[2, 4], temporary\n  min 2, max 2, mean 2, std 0, nan 0, inf 0\n",
        "h[0, 1..3]: f32[2], temporary",
        "h.max * 2 = 4",
    ):
        assert text in out


def test_print_takes_a_slice_or_all(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wide.oi"
    path.write_text(
        "dynamic { x: f32[3, 40]; }\nvolatile { y: f32[3, 40]; }\n"
        "block entry { op neg(x) >> y; return y; }\n"
    )
    given = json.dumps([[row * 100 + column for column in range(40)] for row in range(3)])
    commands = ("s 2", "p y", "p y[1, :4]", "p y[:2, 1..3]", "p y all", "p y[0] - 1 all")
    assert run(path, *commands, options=("--input", f"x={given}")) == 0
    out = capsys.readouterr().out
    assert "y: f32[3, 40], volatile\n  min -239, max -0," in out
    assert "  {-0, -1 ... -238, -239}\n" in out
    assert "y[1, :4]: f32[4], volatile" in out
    assert "  [-100., -101., -102., -103.]\n" in out
    assert "  [[  -1.,   -2.],\n   [-101., -102.]]\n" in out
    # Only in `p y all`, not in the short forms.
    assert [out.count(f" -{number}.") for number in range(201, 239)] == [1] * 38
    assert "y[0] - 1: [40]\n  [ -1.," in out


def test_print_all_in_json(program: Path, capsys: Capture) -> None:
    options = ("--input", ONES, "--json")
    assert run(program, "s 3", "p h all", "p any(h) and all(h)", options=options) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[-2]["expression"] == "h"
    assert rows[-2]["values"] == [[2.0] * 4] * 2
    assert rows[-1]["values"] is True


def test_where_shows_blocks_loops_and_source(program: Path, capsys: Capture) -> None:
    assert run(program, "break add if l == 2", "c", "where", "break good", "c", "n", "where") == 0
    out = capsys.readouterr().out
    assert '     in scope "stack"\n     in loop layers (l in 0..3): l = 2\n' in out
    assert "=>  10        op add(h, x) >> h;" in out
    assert "#0 block good" in out
    assert "#1 block entry, node 8" in out
    assert "=> " in out.partition("#1")[2]


def test_step_next_finish_until_end(program: Path, capsys: Capture) -> None:
    moves = ("s 3", "n", "s 2", "finish", "until good", "n 2", "end", "p n")
    assert run(program, *moves) == 0
    out = capsys.readouterr().out
    texts = re.findall(r"^  ((?:op|loop|cache\.\w+|branch|enter|end|return)\b.*)$", out, re.M)
    assert texts == [
        "op matmul(x, W) >> h",
        "loop layers (l in 0..3): l in 0..3",
        "cache.write h >> K[l]",
        "op is_finite(h) >> ok",
        "enter block good",
        "return",
    ]
    assert "step 0 ended\n  y: f32[2, 4] = {5, 5, 5, 5, 5, 5, 5, 5}\n" in out
    assert "n: i32[], persistent\n  {1}\n" in out


def test_several_steps_and_restart(program: Path, capsys: Capture) -> None:
    options = ("--input", ONES, "--steps", "3")
    commands = ("tbreak if step == 1", "c", "info b", "c", "p n", "restart", "p n", "c", "c")
    assert run(program, *commands, options=options) == 0
    out = capsys.readouterr().out
    ended = re.findall(r"step (\d) ended", out)
    assert ended == ["0", "1", "2", "0", "1", "2", "3"]
    assert "step 1, block entry\n  enter block entry" in out
    assert "no breakpoints, watches or displays" in out
    assert "{3}" in out
    assert "{0}" in out.partition("state is reset")[2]


def test_watch_display_info_and_delete(program: Path, capsys: Capture) -> None:
    commands = (
        "b matmul", "c", "watch h.max", "display y", "display n + 1", "c", "c", "info breakpoints",
        "d 2", "info state", "info vars", "info sizes", "display", "d", "c",
    )  # fmt: skip
    assert run(program, *commands) == 0
    out = capsys.readouterr().out
    assert out.count("watch 2: h.max\n") == 3
    assert "h.max: 2 -> 3" in out
    assert "h.max: 3 -> 4" in out
    assert "y: f32[2, 4] = {0, 0, 0, 0, 0, 0, 0, 0}" in out
    assert "n + 1 = 2" in out
    assert "2: watch h.max, hit 2 times" in out
    assert "persistent:\n  n: i32" in out
    assert "K: f32[1, 2, 4] = {3, 3, 3, 3, 3, 3, 3, 3}" in out
    assert "B = 2" in out
    assert "3 deleted" in out
    assert "step 0 ended" in out


def test_list_and_help(program: Path, capsys: Capture) -> None:
    assert run(program, "b 7", "list", "l", "list good", "list 1", "help", "help break", "h c") == 0
    out = capsys.readouterr().out
    assert "   * 7    op matmul(x, W) >> h;" in out
    assert "    18  block good {" in out
    assert "break [PLACE] [if EXPR]" in out
    assert "continue: run to a breakpoint" in out


def test_breakpoints_of_all_kinds(program: Path, capsys: Capture) -> None:
    commands = (
        "break good", "b op add", "b block bad", "b node 2", "b cache.write", "b p.oi:7",
        "b 8 if n == 1", "b if h.max > 3", "tb line 7", "info b",
    )  # fmt: skip
    assert run(program, *commands) == 0
    out = capsys.readouterr().out
    for text in (
        "1: breakpoint block good,", "2: breakpoint op add,", "3: breakpoint block bad,",
        "4: breakpoint node 2,", "5: breakpoint op cache.write,", "6: breakpoint line p.oi:7,",
        "7: breakpoint line 8 if n == 1,", "8: breakpoint if h.max > 3,",
        "9: breakpoint line 7 (once),",
    ):  # fmt: skip
        assert text in out
    # A line without nodes is the next one that has some.
    assert run(program, "b 2") == 0
    assert "breakpoint 1: line 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("foo", "there is no command `foo`"),
        ("brek 3", "did you mean 'break'"),
        ("tx", "there is no command `tx`"),
        ("step x", "`x` is no number from 1"),
        ("finish now", "`finish` takes nothing"),
        ("break", "there is no current line"),
        ("break 99", "nothing runs at or after line 99"),
        ("break gud", "no block, op or line is `gud`"),
        ("break block gud", "the program has no block gud"),
        ("break node x", "`x` is no node"),
        ("break 7 8", "is no place"),
        ("break if h.mx > 1", "`.mx` is no property"),
        ("break if g > 1", "is named g"),
        ("watch", "watch what?"),
        ("watch q", "is named q"),
        ("display (", "error[OI0561]"),
        ("delete 7", "there is no breakpoint, watch or display 7"),
        ("info", "info what?"),
        ("info z", "info z?"),
        ("list nowhere", "neither a line nor a block"),
        ("print", "the last node wrote nothing"),
        ("print h", "lives only inside a step"),
        ("help foo", "there is no command `foo`"),
    ],
)
def test_mistakes_of_commands(command: str, message: str, program: Path, capsys: Capture) -> None:
    assert run(program, command, "continue") == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "step 0" not in captured.out
    assert "Traceback" not in captured.err


def test_mistakes_of_arguments(program: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["debug", str(tmp_path / "absent.oi")]) == 1
    assert "absent.oi" in capsys.readouterr().err
    assert run(program, "c", options=("--steps", "0")) == 2
    assert run(program, "c", options=("--input", "q=1")) == 2
    assert "no dynamic variable is named 'q'" in capsys.readouterr().err
    bad = tmp_path / "bad.oi"
    bad.write_text(PROGRAM.replace("matmul", "matmull"))
    assert run(bad, "c") == 1
    assert "did you mean" in capsys.readouterr().err


def test_a_failing_step(failing: Path, capsys: Capture) -> None:
    options = ("--input", "i=7", "--input", "x=1,2,3,4")
    assert run(failing, "c", "list", "until 4", "p z", "c", options=options) == 1
    captured = capsys.readouterr()
    assert captured.out.count("step 0 failed; state is as before it") == 2
    assert "error[OI0601]" in captured.out
    assert "=>  5    op gather(z, i, axis=0) >> y;" in captured.out
    assert "z: f32[4], volatile" in captured.out
    assert "Traceback" not in captured.out + captured.err


def test_json(program: Path, capsys: Capture) -> None:
    commands = ("b matmul", "c", "p h", "p h[0, 0]", "where", "info vars", "watch n", "list", "c")
    assert run(program, *commands, options=("--json", "--input", ONES)) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["command"] for row in rows] == list(commands)
    assert rows[0]["set"] == {"number": 1, "kind": "breakpoint", "text": "op matmul"}
    stop = rows[1]["stop"]
    assert (stop["reason"], stop["event"]["line"], rows[1]["entries"]) == ("breakpoint", 7, [1])
    assert rows[2]["stats"] == {"min": 2.0, "max": 2.0, "mean": 2.0, "std": 0.0, "nan": 0, "inf": 0}
    assert rows[2]["dtype"] == "f32"
    assert rows[3]["values"] == 2.0
    assert rows[4]["frames"][0]["block"] == "entry"
    assert {row["name"] for row in rows[5]["variables"]} == {"x", "W", "y", "ok", "n", "K", "h"}
    assert rows[8]["ended"][0]["outputs"]["y"]["shape"] == [2, 4]
    assert run(program, "p q", options=("--json",)) == 2
    row = json.loads(capsys.readouterr().out)
    assert "is named q" in row["error"]


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")
def test_the_compiled_program(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(
        "dynamic { x: f32[B, 4]; }\nvolatile { W: f32[4, 4] @init(0.5); y: f32[B, 4]; }\n"
        "block entry {\n  op matmul(x, W) >> y;\n  op add(y, x) >> y;\n  return y;\n}\n"
    )
    options = ("--executor", "cpu", "--input", ONES)
    commands = ("b add", "tb matmul", "c", "p y", "c", "p y.max", "p x.max", "where", "c")
    assert run(path, *commands, options=options) == 0
    out = capsys.readouterr().out
    assert "y: f32[2, 4], volatile\n  min 2, max 2" in out
    assert "y.max = 3" in out
    assert "x.max = 1" in out
    assert "=>" in out
    assert "step 0 ended\n  y: f32[2, 4] = {3, 3, 3, 3, 3, 3, 3, 3}" in out


# From a pipe


def test_piped_commands(program: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# a comment\nbreak good\n\ncontinue\nprint h.max\nquit\nnonsense\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert main(["debug", str(program), "--input", ONES]) == 0
    out = capsys.readouterr().out
    assert "enter block good" in out
    assert "h.max = 5" in out
    monkeypatch.setattr("sys.stdin", io.StringIO("continue\nnonsense\ncontinue\n"))
    assert main(["debug", str(program), "--input", ONES]) == 2
    captured = capsys.readouterr()
    assert captured.out.count("ended") == 1
    assert "there is no command `nonsense`" in captured.err


def test_commands_then_the_pipe(
    program: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("c\n"))
    assert run(program, "b good", options=("--interactive", "--input", ONES)) == 0
    assert "enter block good" in capsys.readouterr().out


# Completion


@pytest.fixture
def commands(program: Path) -> Iterator[Commands]:
    import argparse

    from openinfer.compiler.tools.commands import debug

    parser = argparse.ArgumentParser()
    debug.add_arguments(parser)
    session = Session.of(parser.parse_args([str(program)]))
    with session.simulator() as executor:
        yield Commands(DebugSession(session, executor, session.graph.outline))


@pytest.mark.parametrize(
    ("text", "length", "found"),
    [
        ("pri", 3, ["print"]),
        ("", 0, None),
        ("print ", 0, None),
        ("print h", 1, ["h"]),
        ("p y.m", 1, ["max", "mean", "min"]),
        ("p max(", 0, None),
        ("break go", 2, ["good"]),
        ("break block ", 0, ["entry", "good", "bad"]),
        ("break op mat", 3, ["matmul"]),
        ("b good if is", 2, ["isfinite", "isinf", "isnan"]),
        ("watch K", 1, ["K"]),
        ("info ", 0, ["breakpoints", "sizes", "state", "vars"]),
        ("help tb", 2, ["tbreak"]),
        ("list b", 1, ["bad"]),
        ("delete ", 0, []),
        ("nonsense x", 0, []),
    ],
)
def test_completion(text: str, length: int, found: list[str] | None, commands: Commands) -> None:
    replaced, names = complete(commands, text)
    assert replaced == length
    assert names == found if found is not None else len(names) > 5


# Through a pseudo-terminal


class Terminal:
    """A child process behind a pseudo-terminal that answers as a terminal does."""

    def __init__(self, *command: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Tests that run in the background ignore it, and so would their children.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [sys.executable, *command])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.text = ""
        """What came since the last `expect`, without escape sequences."""
        self.seen = ""
        """Everything that came, without escape sequences."""
        self._tail = b""

    def send(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def expect(self, wanted: str, timeout: float = 60) -> str:
        """Waits for a text and gives what came up to its end."""
        end = time.monotonic() + timeout
        while wanted not in self.text:
            if time.monotonic() > end or not self._read(end - time.monotonic()):
                raise AssertionError(f"{wanted!r} did not come; there was:\n{self.text}")
        before, _, self.text = self.text.partition(wanted)
        return before + wanted

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(timeout, 0))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # Linux: the child has closed its side.
            return False
        if b"\x1b[6n" in data:
            # Asked where the cursor is: prompt_toolkit waits for the answer.
            self.send("\x1b[1;1R")
        data = self._tail + data
        # An escape sequence, or a character, that is cut in two waits for its rest.
        cut = re.search(rb"(\x1b(\[[0-9;?]*)?|[\xc0-\xff][\x80-\xbf]{0,2})$", data)
        self._tail = data[cut.start() :] if cut else b""
        text = data[: cut.start()] if cut else data
        plain = re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>78])", "", text.decode(errors="replace"))
        self.text += plain.replace("\r", "")
        self.seen += plain.replace("\r", "")
        return bool(data)

    def until(self, met: Callable[[str, float], bool], timeout: float = 60) -> None:
        """Waits until the child is as asked: its state, as Linux tells it (S: it waits for something), and
        the seconds that it has worked since this call."""
        begin, end = None, time.monotonic() + timeout
        while time.monotonic() < end:
            words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            worked = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            begin = worked if begin is None else begin
            if met(words[0], worked - begin):
                return
            time.sleep(0.02)
        raise AssertionError("the child went another way")

    def finished(self, timeout: float = 60) -> int:
        """Reads to the end and gives the exit code."""
        end = time.monotonic() + timeout
        while self._read(end - time.monotonic()):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pid:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            os.close(self.fd)


TOOL = ("-m", "openinfer.compiler.tools.openinfer", "debug")
# prompt_toolkit moves over the space behind it instead of writing one.
PROMPT = "(openinfer)"


def test_terminal_session(program: Path) -> None:
    pytest.importorskip("prompt_toolkit")
    with Terminal(*TOOL, str(program), "--input", ONES) as terminal:
        terminal.expect("on the simulator; `help` lists the commands")
        terminal.expect(PROMPT)
        terminal.send("break matmul\r")
        terminal.expect("breakpoint 1: op matmul")
        terminal.send("continue\r")
        terminal.expect("op matmul(x, W) >> h")
        terminal.expect("h: f32[2, 4] = {2, 2, 2, 2, 2, 2, 2, 2}")
        # Tab completes commands and variable names.
        terminal.expect(PROMPT)
        terminal.send("pri\t")
        terminal.expect("print")
        terminal.send(" h.sh\t")
        terminal.expect("h.shape")
        terminal.send("\r")
        terminal.expect("h.shape: [2] = {2, 4}")
        # A mistake is shown and forgotten.
        terminal.send("print q\r")
        terminal.expect("is named q")
        # An empty line repeats.
        terminal.send("next\r")
        terminal.expect("loop layers (l in 0..3)")
        terminal.send("\r")
        terminal.expect("op is_finite(h) >> ok")
        # Ctrl-C drops what was typed.
        terminal.expect(PROMPT)
        terminal.send("nonsense\x03")
        terminal.expect(PROMPT)
        terminal.send("where\r")
        terminal.expect("=>  14")
        terminal.send("continue\r")
        terminal.expect("step 0 ended")
        terminal.expect(PROMPT)
        terminal.send("quit\r")
        assert terminal.finished() == 0
        assert "Traceback" not in terminal.seen


def test_terminal_interrupt(tmp_path: Path) -> None:
    """Ctrl-C stops a running step after its present node; Ctrl-D leaves."""
    path = tmp_path / "long.oi"
    path.write_text(
        "dynamic { x: f32[4]; }\nvolatile { y: f32[4]; }\nblock entry {\n"
        "  loop a (i in 0..1000000000) { op add(y, x) >> y; }\n  return y;\n}\n"
    )
    with Terminal(*TOOL, str(path)) as terminal:
        terminal.expect(PROMPT)
        terminal.send("tbreak add\r")
        terminal.expect("breakpoint 1")
        terminal.send("continue\r")
        terminal.expect("i = 0")
        terminal.expect(PROMPT)
        terminal.send("continue\r")
        terminal.until(lambda state, worked: worked > 0.3)
        terminal.send("\x03")
        terminal.expect("interrupted")
        terminal.expect("block entry, node 1, i = ")
        terminal.expect(PROMPT)
        terminal.send("\x04")
        assert terminal.finished() == 0
        assert "Traceback" not in terminal.seen


def test_terminal_without_prompt_toolkit(program: Path) -> None:
    code = (
        "import sys; sys.modules['prompt_toolkit'] = None\n"
        "from openinfer.compiler.tools.openinfer import main\n"
        f"sys.exit(main(['debug', {str(program)!r}, '--input', {ONES!r}]))"
    )
    with Terminal("-c", code) as terminal:
        terminal.expect(PROMPT)
        terminal.send("tb good\n")
        terminal.expect("breakpoint 1: block good")
        terminal.expect(PROMPT)
        terminal.send("contin\t\n")
        terminal.expect("enter block good")
        terminal.expect(PROMPT)
        terminal.send("half")
        terminal.expect("half")
        # readline looks for signals only while it waits.
        terminal.until(lambda state, worked: state == "S")
        terminal.send("\x03")
        terminal.expect(PROMPT)
        terminal.send("p h.max\n")
        terminal.expect("h.max = 5")
        terminal.send("brek\n")
        terminal.expect("there is no command `brek`")
        terminal.expect(PROMPT)
        terminal.send("\x04")
        assert terminal.finished() == 0
        assert "Traceback" not in terminal.seen
