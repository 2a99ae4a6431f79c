"""`openinfer inspect PROGRAM`: facts, control flow as text and picture, memory plan."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer
from openinfer.compiler.tools.inspecting.facts import byte_size
from openinfer.compiler.tools.inspecting.flow import FlowGraph, flow_of
from openinfer.compiler.tools.inspecting.pictures import dot_text, mermaid_text
from openinfer.compiler.tools.inspecting.text import bytes_text
from openinfer.compiler.tools.openinfer import main
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.sizes import Size

Capture = pytest.CaptureFixture[str]

PROGRAM = """\
dynamic { x: f32[B, D]; packed: i4[B, 3]; }
constant {
  W(l): f32[D, D] @pattern("layers.{l}.w");
  bias: f32[D];
  eps: f32;
}
volatile { y: f32[B, D]; h: f32[_, D]; z: f16[E] @init(0.5); ok: bool; }
persistent {
  n: i32 @init(3);
  K(l, t): f16[D] @table @fixed(l=2, t=8);
  T(t): f32[D] @table;
  A(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=4, j=1);
}
block entry {
  assign t: f32[B, D];
  cache.increment n;
  loop layers (l in 0..depth) {
    scope "dense" {
      op matmul(x, W[l]) >> t;
      op add(t, bias) >> y;
    }
    branch ok grow keep;
  }
  yield y;
  barrier;
  await y;
  dep after(add) before(relu);
  op relu(y) >> y;
  return y;
}
block grow { cache.write y >> T[n]; return; }
block keep { return; }
block worker { await y; op add(y, x) >> y; yield y; }
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM.replace("cache.write y >> T[n];", "cache.write bias >> T[n];"))

    tensors = {f"layers.{layer}.w": np.zeros((4, 4), np.float32) for layer in range(3)}
    openinfer.write_oinf(
        _content({**tensors, "bias": np.zeros(4, np.float32)}), tmp_path / "p.oinf"
    )
    return path


def _content(tensors: dict[str, Any]) -> object:
    from dataclasses import make_dataclass

    from openinfer.runtime.packages.values import SizeVar, TensorSpec

    fields: dict[str, Any] = {
        "depth": SizeVar(3),
        "eps": 0.5,
        **{name.replace(".", "_"): TensorSpec(value, name=name) for name, value in tensors.items()},
    }
    return make_dataclass("Model", fields)(**fields)


def facts(path: Path, capsys: Capture, *options: str) -> dict[str, Any]:
    assert main(["inspect", str(path), "--json", *options]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_sizes_and_where_they_come_from(program: Path, capsys: Capture) -> None:
    data = facts(program, capsys)
    assert {row["name"]: (row["value"], row["from"]) for row in data["sizes"]} == {
        "B": (None, "axis 0 of input x"),
        "D": (4, "axis 0 of tensor layers.0.w"),
        "E": (None, "nothing: give --size"),
        "depth": (3, "the package"),
    }
    data = facts(program, capsys, "--size", "E=5", "--size", "B=2")
    assert {r["name"]: r["from"] for r in data["sizes"] if r["from"] == "--size"}.keys() == {
        "B",
        "E",
    }


def test_memory(program: Path, capsys: Capture) -> None:
    rows = {row["name"]: row for row in facts(program, capsys)["variables"]}
    assert (rows["x"]["shape"], rows["x"]["bytes"]) == (["B", 4], "16*B")
    assert rows["packed"]["bytes"] == str((Size.of("12*B") + 7) // 8)
    assert (rows["W"]["members"], rows["W"]["bytes"]) == ([3], 192)
    assert rows["W"]["source"] == "3 tensors layers.{l}.w"
    assert rows["bias"]["source"] == "tensor bias"
    assert rows["eps"]["source"] == "metadata eps"
    assert rows["h"]["bytes"] is None
    assert rows["z"]["source"] == "@init(0.5)"
    assert rows["n"]["source"] == "@init(3)"
    assert rows["y"]["source"] == "zeros"
    assert rows["K"]["line"] == 10
    data = facts(program, capsys, "--size", "B=2", "--size", "E=1")
    assert data["bytes"] == {
        "dynamic": 35,
        "constant": 212,
        "volatile": 35,
        "persistent": 4,
        "temporary": 32,
    }
    assert data["results"] == ["y"]


def test_state(program: Path, capsys: Capture) -> None:
    rows = {row["name"]: row for row in facts(program, capsys)["state"]}
    assert [rows[name]["kind"] for name in ("n", "K", "T", "A")] == [
        "scalar", "table", "table", "growing matrix",
    ]  # fmt: skip
    assert (rows["K"]["entry_bytes"], rows["K"]["most_bytes"]) == (8, 128)
    assert rows["T"]["most_bytes"] is None
    assert rows["T"]["indices"] == [{"index": "t", "grows": "entries", "bound": None}]
    assert rows["A"]["most_bytes"] == (2 + 4) * (3 + 1) * 4


def test_blocks_and_ops(program: Path, capsys: Capture) -> None:
    data = facts(program, capsys)
    assert data["ops"] == {"add": 2, "matmul": 1, "relu": 1}
    entry = data["blocks"][0]
    assert entry["calls"] == ["grow", "keep"]
    assert (entry["yields"], entry["awaits"]) == (["y"], ["y"])
    assert entry["count"] == 13
    assert entry["nodes"]["cache.increment"] == 1
    assert data["program"].endswith("p.oi")
    assert data["package"].endswith("p.oinf")


def test_text(program: Path, capsys: Capture) -> None:
    assert main(["inspect", str(program)]) == 0
    out = capsys.readouterr().out
    for text in (
        "  D      =  4  from axis 0 of tensor layers.0.w\n",
        "constant:  212 bytes\n",
        "3 x [4, 4]  192 bytes  from 3 tensors layers.{l}.w\n",
        "persistent:  4 bytes and what grows\n",
        "  K: table",
        "8 bytes each",
        "l: 2 entries; t: 8 entries",
        "at most 128 bytes",
        "t: grows\n",
        "i: grows by 4 at most; j: grows by 1 at most",
        "24 bytes at first",
        "block entry: 1 add, 1 assign, 1 barrier, 1 branch, 1 cache.increment",
        "  calls grow, keep\n  awaits y\n  yields y\n",
        "ops: 2 add, 1 matmul, 1 relu\n",
    ):
        assert text in out


def test_without_a_package(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text("constant { W: f32[D, 2]; }\nblock entry { return W; }\n")
    data = facts(path, capsys)
    assert data["package"] is None
    assert data["variables"][0]["source"] == "tensor W"
    assert data["sizes"] == [{"name": "D", "value": None, "from": "nothing: give --size"}]
    assert main(["inspect", str(path)]) == 0
    assert "package: none\n" in capsys.readouterr().out


def test_bytes() -> None:
    assert bytes_text(1) == "1 byte"
    assert bytes_text(1000) == "1000 bytes"
    assert bytes_text(1536) == "1.5 KiB"
    assert bytes_text(3 << 30) == "3 GiB"
    assert bytes_text("4*B") == "4*B bytes"
    assert bytes_text(None) == "bytes unknown"
    assert byte_size("i2", [Size.of(5)]).constant == 2
    assert byte_size("bf16", []).constant == 2


# The picture


def picture(text: str) -> FlowGraph:
    return flow_of(openinfer.graph(text).module, "p.oi")


def edges(graph: FlowGraph, kind: str) -> set[tuple[str, str, str]]:
    """First lines of both ends, and the label."""
    lines: dict[str, str] = {}

    def collect(items: list[Any]) -> None:
        for item in items:
            if hasattr(item, "items"):
                collect(item.items)
            else:
                lines[item.id] = item.lines[0]

    collect(graph.blocks)
    return {(lines[e.source], lines[e.target], e.label) for e in graph.edges if e.kind == kind}


def test_flow() -> None:
    graph = picture(PROGRAM.replace("cache.write y >> T[n];", "cache.write bias >> T[n];"))
    assert [cluster.label for cluster in graph.blocks] == [
        "block entry", "block grow", "block keep", "block worker",
    ]  # fmt: skip
    assert edges(graph, "call") == {
        ("branch ok grow keep", "grow", "ok"),
        ("branch ok grow keep", "keep", "not ok"),
    }
    assert edges(graph, "value") == {("yield y", "await y", "y")}
    assert len([e for e in graph.edges if e.kind == "value"]) == 2
    assert edges(graph, "back") == {("branch ok grow keep", "l in 0..depth", "")}
    following = edges(graph, "next")
    assert {
        ("entry", "cache.increment 1 n", ""),
        ("cache.increment 1 n", "l in 0..depth", ""),
        ("l in 0..depth", "op matmul(x, W[l]) >> t", "each"),
        ("op matmul(x, W[l]) >> t", "branch ok grow keep", ""),
        ("l in 0..depth", "yield y", "done"),
        ("yield y", "barrier", ""),
        ("op relu(y) >> y", "return y", ""),
    } <= following
    assert not any(source.startswith("return") for source, _, _ in following)


def test_loops_that_are_empty_or_left() -> None:
    graph = picture(
        "volatile { y: f32; }\nblock entry {\n  loop a (i in 0..2) { }\n"
        '  loop b (j in 0..2) { return; }\n  scope "s" { }\n  return y;\n}\n'
    )
    assert edges(graph, "back") == {("i in 0..2", "i in 0..2", "each")}
    assert ("j in 0..2", "return", "each") in edges(graph, "next")
    assert ("j in 0..2", "return y", "done") in edges(graph, "next")


def test_long_runs_are_cut() -> None:
    nodes = "op add(y, y) >> y;\n" * 30
    graph = picture(f"volatile {{ y: f32; }}\nblock entry {{\n{nodes}return y;\n}}\n")
    (_, run, _) = graph.blocks[0].items
    assert len(run.lines) == 10  # pyright: ignore[reportAttributeAccessIssue]
    assert run.lines[-1] == "… 21 more"  # pyright: ignore[reportAttributeAccessIssue]


def balanced(text: str) -> bool:
    return text.count("{") == text.count("}")


def test_dot(program: Path, capsys: Capture) -> None:
    assert main(["inspect", str(program), "--dot"]) == 0
    out = capsys.readouterr().out
    assert out.startswith('digraph "p.oi" {\n')
    assert balanced(re.sub(r'"[^"]*"', "", out))
    assert 'label="loop layers"; style=dashed;' in out
    assert 'label="scope dense"; style=dotted;' in out
    assert "shape=cylinder" in out
    named = set(re.findall(r"^ *(n\d+) \[", out, re.M))
    used = {name for pair in re.findall(r"(n\d+) -> (n\d+)", out) for name in pair}
    assert used <= named
    assert out.rstrip().endswith("}")


def test_mermaid(program: Path, capsys: Capture) -> None:
    assert main(["inspect", str(program), "--mermaid"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("flowchart TD\n")
    assert out.count("subgraph ") == out.count("  end\n") == 6
    assert 'branch ok grow keep"}' in out
    assert '==>|"not ok"|' in out
    assert "matmul(x, W[l]) #gt;#gt; t<br/>op add" in out


def test_quotes_are_escaped() -> None:
    graph = picture(
        'volatile { y: f32; }\nblock entry { scope "a \\\\ & <b>" { op add(y, y) >> y; } return; }\n'
    )
    label = graph.blocks[0].items[1].label  # pyright: ignore[reportAttributeAccessIssue]
    assert label.startswith("scope a ")
    assert "#amp; #lt;b#gt;" in mermaid_text(graph)
    dot = dot_text(graph)
    assert all(line.count('"') % 2 == 0 for line in dot.replace('\\"', "").splitlines())


def test_svg_without_graphviz(
    program: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "p.svg"
    assert main(["inspect", str(program), "--svg", str(target)]) == 1
    err = capsys.readouterr().err
    assert "error[OI0734]: Graphviz is not installed" in err
    assert "--mermaid" in err
    assert not target.exists()


def test_svg_with_a_stand_in(
    program: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "dot"
    tool.write_text('#!/bin/sh\necho "<svg $1>"\ncat > /dev/null\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    target = tmp_path / "p.svg"
    assert main(["inspect", str(program), "--svg", str(target)]) == 0
    assert target.read_text() == "<svg -Tsvg>\n"
    tool.write_text('#!/bin/sh\ncat > /dev/null\necho "syntax error in line 1" >&2\nexit 1\n')
    assert main(["inspect", str(program), "--svg", str(target)]) == 1
    assert "Graphviz failed: syntax error in line 1" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_svg(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "p.svg"
    assert main(["inspect", str(program), "--svg", str(target)]) == 0
    assert "</svg>" in target.read_text()


# The plan, JSON, mistakes


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")
def test_plan(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(
        "dynamic { x: f32[B, 4]; }\nvolatile { W: f32[4, 4] @init(0.5); y: f32[B, 4]; }\n"
        "block entry {\n  op matmul(x, W) >> y;\n  op softmax(y) >> y;\n  return y;\n}\n"
    )
    plan = facts(path, capsys, "--plan")["plan"]
    assert plan["runtime_sizes"] == {"B": 128}
    assert plan["arena_bytes"] >= plan["lower_bound"] > 0
    assert all(b["offset"] + b["bytes"] <= plan["arena_bytes"] for b in plan["buffers"])
    assert main(["inspect", str(path), "--plan", "--size", "B=2"]) == 0
    out = capsys.readouterr().out
    assert "block entry: 1 matmul, 1 softmax" in out
    assert re.search(r"^arena \d+ bytes, lower bound \d+ bytes", out, re.M)


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no cpu device here")
def test_plan_of_sizes_that_only_the_step_knows(
    tmp_path: Path, repository: Path, capsys: Capture
) -> None:
    """The scratch of an attention over a cache counts with the bound of its length."""
    for kept in ("oi", "oinf"):
        shutil.copy(repository / f"examples/decoder.{kept}", tmp_path)
    path = tmp_path / "decoder.oi"
    plan = facts(path, capsys, "--plan")["plan"]
    assert plan["runtime_sizes"] == {"T": 128}
    assert plan["arena_bytes"] >= plan["lower_bound"] > 0
    assert main(["inspect", str(path), "--plan"]) == 0
    out = capsys.readouterr().out
    assert "times it (T = 128, 128 for what only the step knows)" in out
    compiled = tmp_path / "decoder.oip"
    assert main(["compile", str(path), "-o", str(compiled)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(compiled), "--plan"]) == 0
    assert "for what only the step knows" in capsys.readouterr().out


def test_json_holds_everything(program: Path, capsys: Capture) -> None:
    data = facts(program, capsys, "--dot", "--mermaid")
    assert data["dot"].startswith("digraph")
    assert data["mermaid"].startswith("flowchart")
    assert {edge["kind"] for edge in data["flow"]["edges"]} == {"next", "back", "call", "value"}
    assert data["flow"]["blocks"][0]["label"] == "block entry"


def test_pictures_are_the_same_each_time() -> None:
    text = "volatile { y: f32; }\nblock entry { op add(y, y) >> y; return; }\n"
    assert dot_text(picture(text)) == dot_text(picture(text))


def test_mistakes(program: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["inspect", str(tmp_path / "p.oinf"), "--dot"]) == 2
    assert "are about programs" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "absent.oi")]) == 1
    assert main(["inspect", str(program), "--size", "D=9"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert main(["inspect", str(program), "--size", "D"]) == 2
    bad = tmp_path / "bad.oi"
    bad.write_text(PROGRAM.replace("relu", "rellu"))
    assert main(["inspect", str(bad)]) == 1
    assert "did you mean" in capsys.readouterr().err


def test_the_dtype_of_the_package_is_shown(tmp_path: Path, capsys: Capture) -> None:
    program = tmp_path / "p.oi"
    for dtype in ("f16", "_"):
        program.write_text(f"constant {{ W: f32[N] @dtype({dtype}); }} block entry {{ return W; }}")
        openinfer.write_oinf({"W": np.ones(3, np.float16)}, tmp_path / "p.oinf")
        assert main(["inspect", str(program)]) == 0
        assert f"W: f32[N] @dtype({dtype})  [3]" in capsys.readouterr().out
