"""Graph JSON: exact form, stable bytes, round trips, hostile input, and that it runs as its source."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import Graph
from openinfer.compiler.frontend import parse_text, print_program
from openinfer.compiler.graph_json.read import parse_json
from openinfer.compiler.graph_json.write import module_json
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as opt_main
from openinfer.lowering.program.nodes import number_nodes
from openinfer.runtime.dtypes import DTYPES
from tests.sweeps import sweep

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).resolve().parent / "data"
EXAMPLES = [*sorted((ROOT / "examples").glob("*.oi")), ROOT / "examples/minilm/minilm.oi"]

MINIMAL = """\
dynamic { x: f32[B]; }
volatile { a: f32[B]; y: f32[B] @init(5.0); }
block entry {
    assign t0: f32[B];
    op add(x, a) >> t0;
    op mul(y, t0) >> y;
    return;
}
"""

WHOLE = """\
dynamic {
    x: f32[B, D];
    flags: bool[B];
}

constant {
    eps: f32 @ref("norm.eps");
    W(l): f32[D, 3*D] @pattern("W.{l}");
    QKV(layer, head): f16[D, 3*D] @pattern("attn.{head}.qkv.{layer}");
}

volatile {
    y: f32[B, D] @init(-0.5);
    big: u64 @init(18446744073709551615);
    on: bool @init(true);
    low: f32 @init(-inf);
    none: f64 @init(nan);
    t: i64[(D - 1)/3, max(B, 4), (B/2)*(D/3)];
    half: f16[D, 3*D] @init(0.5);
    tagged: f32[B] @layout("rows \\u{3b1}") @quant("q8_0", 32) @mine(axis=1, -inf, [1, 2.5]);
}

persistent {
    step: i32 @init(0);
    K(l, t): f16[H, Dh] @table;
    D2(i, j): f16[D, H] @table @fixed(i=1024, j=256);
    A(i, j): f32[D, H] @auto_dim(i, j);
}

block entry with { no_reorder = true } {
    assign h: f32[B, 3*D];
    assign c: bool;
    assign k: f16[_, H, Dh];
    assign e: f16[H, Dh];
    assign a: f32[_, _];
    assign row: f32[_];
    loop layers (l in 0..num_layers - 1) with { fuse = false } {
        op matmul(x, W[l]) >> h;
        op relu(h, negative_slope=0.25, clamp_max=inf) >> h with { group = "g", placement = "cpu" };
        cache.read K[l, 0..step + 1] >> k;
        cache.read A[step, ] >> row;
        cache.read A[, ..-3] >> a;
        cache.read A[] >> a;
        cache.write e >> K[l, step];
    }
    scope "tail \\"quoted\\" \\\\ α" {
        op is_finite(h) >> c;
        op split(h, axis=1) >> y, h;
    }
    branch c good bad;
    branch good;
    barrier;
    dep after(relu) before(cache.write);
    op reshape(h, shape=[B, 3, D/2, -1, 0 - D + 4]) >> y;
    op cast(h, to=f16) >> h;
    op matmul(h, h, acc=[f32, f32]) >> h;
    op gelu(h, approximate="tanh") >> h;
    cache.increment step;
    cache.decrement 2 step;
    cache.reset K[0];
    cache.reset K;
    yield y, h;
    await y, h;
    return y, h;
}

block good {
    transfer QKV[0, 1] >> half;
    return;
}

block bad {
    op fill(y, value=eps) >> y;
    return;
}
"""


def whole_json() -> str:
    result = parse_text(WHOLE, "whole.oi")
    assert result.module is not None, result.render()
    return module_json(result.module)


def read(text: str) -> Graph:
    graph = oi.graph_json(text)
    graph.check()
    return graph


# Form.


def test_the_form_of_the_original() -> None:
    # The structure that the original writes for this program; only its uuids differ each time.
    written = json.loads(oi.graph(MINIMAL).to_json())
    expected = json.loads((DATA / "minimal-graph.json").read_text())
    for block in (*written["blocks"].values(), *expected["blocks"].values()):
        for node in block["nodes"]:
            del node["uuid"]
    assert written == expected


def test_golden_bytes() -> None:
    assert whole_json() + "\n" == (DATA / "whole-graph.json").read_text()


def test_key_order_is_that_of_the_declarations() -> None:
    data = json.loads(oi.graph(MINIMAL).to_json())
    assert list(data) == ["vars", "blocks", "next_index"]
    assert list(data["vars"]) == ["x", "a", "y"]
    assert list(data["vars"]["x"]) == [
        "name", "ref_name", "pattern", "table_indices", "table", "auto_dim", "fixed", "dtype",
        "dims", "kind", "init",
    ]  # fmt: skip


def test_same_source_same_bytes() -> None:
    assert oi.graph(MINIMAL).to_json() == oi.graph(MINIMAL).to_json()
    moved = Graph(MINIMAL, "elsewhere/other.oi")
    assert moved.to_json() == oi.graph(MINIMAL).to_json()
    assert "\n" not in oi.graph(MINIMAL).to_json(indent=None)


def test_uuids_and_indices_are_those_of_the_trace() -> None:
    graph = oi.graph(MINIMAL)
    nodes = json.loads(graph.to_json())["blocks"]["entry"]["nodes"]
    infos = list(number_nodes(graph.module).values())
    assert [(n["index"], n["uuid"]) for n in nodes] == [(i.index, i.uuid) for i in infos]


def test_programs_that_the_original_accepts_have_no_other_keys() -> None:
    text = json.dumps(json.loads(oi.graph(MINIMAL).to_json()))
    for key in ("hints", "attributes", "location", "source", "outputs", "Scope", "Expr", "List"):
        assert f'"{key}"' not in text


# Round trips.


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_round_trip(path: Path) -> None:
    graph = oi.graph_file(path)
    text = graph.to_json()
    again = oi.graph_json(text)
    assert again.to_json() == text
    assert print_program(again.module) == print_program(graph.module)


def test_whole_language_round_trips() -> None:
    text = whole_json()
    again = read(text)
    assert again.to_json() == text
    # The original calls the setting by its alias.
    assert '"name": "alpha"' in text
    source = parse_text(WHOLE, "whole.oi").module
    assert source is not None
    assert print_program(again.module) == print_program(source)


def test_locations_are_kept() -> None:
    text = oi.graph_file(ROOT / "examples/mlp.oi").to_json(locations=True)
    again = read(text)
    assert again.to_json(locations=True) == text
    infos = list(number_nodes(again.module).values())
    assert all(i.location is not None and i.location.file.endswith("mlp.oi") for i in infos)
    # Without them a node stands where the JSON text has it.
    plain = Graph(oi.graph(MINIMAL).to_json(), "plain.json", form="json")
    first = next(iter(number_nodes(plain.module).values())).location
    assert first is not None
    assert first.file == "plain.json"
    assert plain.text.splitlines()[first.line - 1].strip() == "{"


FLOATS = [
    0.0, -0.0, 1.0, 0.1, -1.5, 1e-7, 5e-324, 1.7976931348623157e308, math.pi, 2.0**-149,
    3.4028234663852886e38, math.inf, -math.inf, math.nan,
]  # fmt: skip


def test_every_float_survives() -> None:
    random_floats = np.random.default_rng(3).integers(0, 2**64, 300, np.uint64).view(np.float64)
    for number in [*FLOATS, *(float(f) for f in random_floats)]:
        shown = "nan" if math.isnan(number) else repr(number)
        text = f"volatile {{ y: f64 @init({shown}); }}\nblock entry {{ return; }}\n"
        data = json.loads(oi.graph(text).to_json())
        found = data["vars"]["y"]["init"]["F64"]
        back = json.loads(read(json.dumps(data)).to_json())["vars"]["y"]["init"]["F64"]
        assert found == back
        value = float(found)
        assert np.float64(value).tobytes() == np.float64(number).tobytes() or math.isnan(number)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8", "f8e4m3"])
def test_narrow_floats_are_bits(dtype: str) -> None:
    tag = DTYPES[dtype].json
    step = 1 if DTYPES[dtype].bits == 8 else 37
    for bits in range(0, 2 ** DTYPES[dtype].bits, step):
        data = json.loads(
            oi.graph(f"volatile {{ y: {dtype}; }} block entry {{ return; }}").to_json()
        )
        data["vars"]["y"]["init"] = {tag: {"bits": bits}}
        back = json.loads(read(json.dumps(data)).to_json())["vars"]["y"]["init"]
        # A NaN has many patterns; the others are kept exactly.
        if back != {tag: {"bits": bits}}:
            value = back[tag]["bits"]
            exponent = {"f16": 0x7C00, "bf16": 0x7F80, "f8": 0x7C, "f8e4m3": 0x7F}[dtype]
            assert bits & exponent == exponent
            assert value & exponent == exponent


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i4", range(-8, 8)), ("i2", range(-2, 2)), ("i1", (-1, 0)), ("u4", range(16)),
        ("u2", range(4)), ("u1", (0, 1)), ("t2", (-1, 0, 1)), ("t1", (-1, 1)),
        ("bitset", (0, 7, 255)), ("i64", (-(2**63), 2**63 - 1)), ("u64", (0, 2**64 - 1)),
    ],
)  # fmt: skip
def test_integers(dtype: str, values: range | tuple[int, ...]) -> None:
    for value in values:
        text = f"volatile {{ y: {dtype} @init({value}); }} block entry {{ return; }}"
        written = oi.graph(text).to_json()
        graph = read(written)
        assert graph.to_json() == written
        assert f"@init({value})" in print_program(graph.module)


# What the first runtime wrote.


def edited(change: Callable[[dict[str, Any]], None]) -> str:
    data = json.loads(oi.graph(MINIMAL).to_json())
    change(data)
    return json.dumps(data, indent=1)


def op_of(data: dict[str, Any]) -> dict[str, Any]:
    return data["blocks"]["entry"]["nodes"][1]["kind"]["Op"]


def test_older_forms() -> None:
    def change(data: dict[str, Any]) -> None:
        del data["next_index"]
        data["vars"]["flag"] = {**data["vars"]["a"], "name": "flag", "dtype": "Bool", "dims": []}
        data["vars"]["limit"] = {**data["vars"]["a"], "name": "limit", "dims": []}
        for key in ("ref_name", "pattern", "table_indices", "table", "auto_dim", "fixed"):
            del data["vars"]["x"][key]
        op_of(data)["attrs"] = "None"
        nodes = data["blocks"]["entry"]["nodes"]
        nodes[2]["kind"]["Op"] = {
            "op": "Relu",
            "attrs": {"Relu": {"negative_slope": {"Literal": 0.5}, "clamp_max": {"Var": "limit"}}},
            "inputs": ["t0"],
            "output": "y",
        }
        check = {"op": "IsFinite", "attrs": "None", "inputs": ["x"], "output": "flag"}
        nodes.insert(3, {"index": 9, "uuid": "", "kind": {"Op": check}})

    text = print_program(read(edited(change)).module)
    assert "op relu(t0, negative_slope=0.5, clamp_max=limit) >> y;" in text
    assert "op is_finite(x) >> flag;" in text


def test_accumulate_of_the_first_runtime() -> None:
    def change(data: dict[str, Any]) -> None:
        op_of(data)["attrs"] = {"Accumulate": {"dtype": "F32"}}

    assert "op add(x, a, acc=f32) >> t0;" in print_program(read(edited(change)).module)


def test_sorted_keys_keep_the_order_of_blocks() -> None:
    text = MINIMAL.replace("return;", "branch bad; return;") + "block bad { return; }\n"
    graph = oi.graph(text)
    data = json.loads(graph.to_json())
    shuffled = read(json.dumps(data, sort_keys=True))
    again = json.loads(shuffled.to_json())
    assert list(again["blocks"]) == ["entry", "bad"]
    assert again["blocks"] == data["blocks"]


# Hostile input: (change, what the message says)


def _set(*path: str | int) -> Callable[[Any], Callable[[dict[str, Any]], None]]:
    def make(value: Any) -> Callable[[dict[str, Any]], None]:
        def change(data: dict[str, Any]) -> None:
            target: Any = data
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = value

        return change

    return make


NODE = ("blocks", "entry", "nodes", 1)
REFUSED: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (_set("vars", "x", "dtype")("F33"), 'vars.x.dtype: unknown dtype "F33"'),
    (_set("vars", "x", "dtype")("f32"), 'write "F32"'),
    (_set("vars", "x", "dims")("B"), 'vars.x.dims: dims must be an array, found the string "B"'),
    (_set("vars", "x", "dims")(["B +"]), "vars.x.dims[0]: a dimension: expected"),
    (_set("vars", "x", "dims")(["B C"]), "vars.x.dims[0]: a dimension goes on with `C`"),
    (_set("vars", "x", "dims")([3]), "vars.x.dims[0]: a dimension must be a string, found 3"),
    (_set("vars", "x", "name")("z"), "the variable is called z here and x by its key"),
    (_set("vars", "x", "kind")("Static"), 'unknown kind of memory "Static"'),
    (_set("vars", "x", "speed")(1), 'vars.x: unknown key "speed" of a variable'),
    (_set("vars", "y", "init")({"F64": 1.0}), "the initial value is F64, the variable is F32"),
    (_set("vars", "y", "init")({"F32": None}), "vars.y.init.F32: F32 is null: the original"),
    (_set("vars", "y", "init")({"F32": "huge"}), "F32 must be a number"),
    (_set("vars", "y", "fixed")([["i"]]), "vars.y.fixed[0]: an item of fixed is [NAME, NUMBER]"),
    (_set("vars", "y y")({}), 'vars["y y"]: a variable lacks "name"'),
    (_set("blocks")([]), "blocks: blocks must be an object, found an array"),
    (_set("next_index")(-1), "next_index: next_index must lie in 0.."),
    (_set("extra")(1), 'unknown key "extra" of a graph'),
    (_set(*NODE, "kind")("Op"), "blocks.entry.nodes[1].kind: Op has no content"),
    (_set(*NODE, "kind")({"Opp": {}}), 'unknown kind of node "Opp"'),
    (_set(*NODE, "kind")({"Op": {}}), 'Op: Op lacks "op", "attrs", "inputs", "output"'),
    (_set(*NODE, "kind")({"Barrier": {}}), "Barrier has no content"),
    (_set(*NODE, "kind")({"Return": {"vars": []}}), "Return names at least one variable"),
    (_set(*NODE, "index")("1"), 'nodes[1].index: index must be a whole number, found the string'),
    (_set(*NODE, "kind", "Op", "output")("t0["), "output: output: expected"),
    (_set(*NODE, "kind", "Op", "inputs")(["x y", "a"]), "an input goes on with `y`"),
    (_set(*NODE, "kind", "Op", "inputs")(["x", "a;drop"]), "an input goes on with `;`"),
    (_set(*NODE, "kind", "Op", "attrs")({"items": [{"name": "k"}]}), 'lacks "value"'),
    (
        _set(*NODE, "kind", "Op", "attrs")({"items": [{"name": "k", "value": {"Int": 1.5}}]}),
        "attrs.items[0].value.Int: Int must be a whole number, found 1.5",
    ),
    (
        _set(*NODE, "kind", "Op", "attrs")({"items": [{"name": "k", "value": {"Double": None}}]}),
        "Double is null: the original writes inf, -inf and nan so",
    ),
    (
        _set(*NODE, "kind")({"Branch": {"cond": "x", "then_block": "a", "else_block": None}}),
        "a condition needs two target blocks",
    ),
    (
        _set(*NODE, "kind")({"CacheReset": {"target": {"base": "y", "indices": [{"Single": 3}],
                                                        "bracketed": True}}}),
        "index value must be a name or an object with one key, found 3",
    ),
    (
        _set(*NODE, "kind")({"Loop": {"name": "l", "index": "i-1", "start": "0", "end": "1",
                                      "body": []}}),
        'Loop.index: index must be a name, found the string "i-1"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[m[:40] for _, m in REFUSED])
def test_refused(change: Callable[[dict[str, Any]], None], message: str) -> None:
    text = edited(change)
    result = parse_json(text, "bad.json")
    assert result.module is None
    assert message in result.render()
    for diagnostic in result.errors:
        assert diagnostic.location is not None
        assert diagnostic.location.file == "bad.json"


SYNTAX = [
    ("", "the text ends where a value should stand"),
    ("{", "expected a key in quotes"),
    ('{"a" 1}', "expected `:` behind a key"),
    ('{"a": 1,}', "expected a key in quotes, found `}`"),
    ('{"a": [1 2]}', "expected `,` or `]`, found `2`"),
    ('{"a": 1 "b": 2}', "expected `,` or `}`"),
    ('{"a": 01}', "expected `,` or `}`, found `1`"),
    ('{"a": NaN}', "`NaN` is no JSON"),
    ('{"a": -Infinity}', "`-Infinity` is no JSON"),
    ('{"a": 1e999}', "too large for a 64-bit float"),
    ('{"a": 1' + "0" * 30 + "}", "does not fit into 64 bits"),
    ('{"a": "x\ny"}', "bad string"),
    ('{"a": "x', "bad string"),
    ('{"a": "\\ud800"}', "half of a surrogate pair"),
    ('{"a": 1} {}', "the text goes on behind its value"),
    ('{"vars": {}, "vars": {}}', 'key "vars" is given twice'),
    ("[" * 100000, "nested more than"),
    ("[]", "this is an array, a graph is an object"),
    ('{"a": tru}', "expected a value"),
]


@pytest.mark.parametrize(("text", "message"), SYNTAX, ids=[m[:30] for _, m in SYNTAX])
def test_no_json(text: str, message: str) -> None:
    result = parse_json(text, "bad.json")
    assert result.module is None
    assert message in result.render()


def test_rules_of_the_language_hold_for_json_too() -> None:
    text = edited(_set(*NODE, "kind", "Op", "inputs")(["x", "wieghts"]))
    with pytest.raises(oi.ProgramError) as caught:
        oi.graph_json(text).check()
    assert caught.value.code == "OI0210"
    assert "undefined" in str(caught.value) or "wieghts" in str(caught.value)
    # The caret stands under the name inside of the JSON text.
    line = next(d for d in caught.value.diagnostics).location
    assert line is not None
    assert "wieghts" in text.splitlines()[line.line - 1]


def test_all_mistakes_are_reported() -> None:
    def change(data: dict[str, Any]) -> None:
        data["vars"]["x"]["dtype"] = "F33"
        data["blocks"]["entry"]["nodes"][1]["kind"] = "Stop"
        data["blocks"]["entry"]["nodes"][2]["kind"] = {"Dep": {"after": "a"}}

    assert len(parse_json(edited(change)).errors) == 3


def _mutated(data: Any, chance: random.Random) -> Any:
    """The value with one random part replaced, removed or doubled."""
    wrong: list[Any] = [
        None,
        True,
        -1,
        1.5,
        "",
        "x",
        "W[l",
        [],
        {},
        [[]],
        {"a": {}},
        "\u2028",
        2**63,
    ]
    holders: list[Any] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict | list) and value:
            holders.append(value)
            for item in list(value.values()) if isinstance(value, dict) else value:
                collect(item)

    data = copy.deepcopy(data)
    collect(data)
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else list(range(len(holder))))
    action = chance.randrange(4)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[chance.choice(["name", "kind", "Op", "zzz"])] = holder.pop(key)
    elif action == 2 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    else:
        holder[key] = chance.choice(wrong)
    return data


def test_random_damage_is_refused_or_read() -> None:
    data = json.loads(whole_json())
    chance = random.Random(7)
    refused, count = 0, sweep(120, 400)
    for _ in range(count):
        text = json.dumps(_mutated(data, chance))
        result = parse_json(text, "damaged.json")
        refused += result.module is None
        assert (result.module is None) == bool(result.errors)
        assert all(d.location is not None for d in result.errors)
        if result.module is not None:
            assert parse_json(module_json(result.module)).module is not None
    assert refused > count // 2


def test_random_characters() -> None:
    text = oi.graph(MINIMAL).to_json()
    chance = random.Random(11)
    for _ in range(400):
        place = chance.randrange(len(text))
        damaged = text[:place] + chance.choice('{}[]",:0-x\\\n') + text[place + 1 :]
        result = parse_json(damaged)
        assert (result.module is None) == bool(result.errors)


# Use.


def test_runs_as_its_source(tmp_path: Path) -> None:
    source = oi.graph(MINIMAL)
    path = tmp_path / "minimal.json"
    path.write_text(source.to_json())
    array = np.arange(3, dtype=np.float32)
    expected = oi.Simulator(source, sizes={"B": 3}).make_executor().run(x=array)["y"]
    for graph in (oi.graph_json(source.to_json()), oi.graph_json(path), oi.graph_file(path)):
        found = oi.Simulator(graph, sizes={"B": 3}).make_executor().run(x=array)["y"]
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    compiled = oi.compile(oi.graph_file(path), sizes={"B": 3}).make_executor().run(x=array)["y"]
    np.testing.assert_array_equal(np.asarray(compiled), np.asarray(expected))


def test_strict() -> None:
    text = MINIMAL.replace("@init(5.0)", "@init(5.0) @mine")
    graph = oi.graph_json(oi.graph(text).to_json())
    assert [d.code for d in graph.check()] == ["OI0250"]
    with pytest.raises(oi.ProgramError):
        graph.strictly.check()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, graph = tmp_path / "p.oi", tmp_path / "g.json"
    program.write_text(MINIMAL)
    assert main(["export", str(program), "-o", str(graph)]) == 0
    assert graph.read_text() == oi.graph(MINIMAL).to_json() + "\n"
    assert main(["export", str(graph), "--to", "oi"]) == 0
    assert capsys.readouterr().out == print_program(oi.graph(MINIMAL).module)
    assert main(["run", str(graph), "--size", "B=2", "--executor", "simulator"]) == 0
    assert capsys.readouterr().out.startswith("y: f32[2]")
    assert main(["compare", str(graph), "--size", "B=2"]) == 0
    assert "agree" in capsys.readouterr().out
    assert opt_main([str(graph)]) == 0
    assert "graph.op add(x, a) -> (t0)" in capsys.readouterr().out
    assert main(["export", str(program), "-o", str(tmp_path / "x.txt")]) == 2
    assert main(["export", str(program), "--to", "oi", "--compact"]) == 2
    capsys.readouterr()
    graph.write_text(graph.read_text().replace('"F32"', '"F33"'))
    assert main(["run", str(graph)]) == 1
    assert "g.json:" in capsys.readouterr().err


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(oi.InputError) as caught:
        oi.graph_json(tmp_path / "none.json")
    assert caught.value.code == "OI0514"
    with pytest.raises(oi.InputError) as caught:
        oi.graph_json(3)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "OI0525"
