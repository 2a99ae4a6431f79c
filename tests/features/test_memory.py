"""Memory kinds, attributes and prefix tables: rows 11 to 23 of the feature table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from both import Make, equal, package, plain, refused

import openinfer as oi
from openinfer.compiler.frontend import parse_program, print_program
from openinfer.compiler.frontend.layout import formatted

KINDS = """
dynamic { x: f32[2]; }
volatile { v: f32[2] @init(1); }
constant { c: f32[2] @init(10); }
persistent { p: f32[2] @init(100); }
block entry {
    assign t: f32[2];
    op add(v, x) >> v;
    op add(p, v) >> t;
    cache.write t >> p;
    op add(t, c) >> t;
    return t;
}
"""
X = np.array([1, 2], np.float32)


def test_dynamic_memory_is_given_for_each_step(make: Make) -> None:
    executor = make(KINDS)
    executor.run(x=X)
    with pytest.raises(oi.InputError, match="dynamic variable not set: x"):
        executor.step()
    with pytest.raises(oi.InputError, match="expected dtype f32"):
        executor.insert(x=np.array([1, 2], np.int32))
    with pytest.raises(oi.InputError, match="it must be 2"):
        executor.insert(x=np.zeros(3, np.float32))
    for name, kind in (("v", "volatile"), ("c", "constant"), ("p", "persistent")):
        with pytest.raises(oi.InputError, match=f"{name} is {kind}"):
            executor.insert(**{name: X})
    equal(executor.run(x=X)["t"], [114, 116])


def test_dynamic_memory_is_given_between_steps_only(make: Make) -> None:
    executor = make(KINDS)
    executor.insert(x=X)
    for _ in executor.iterate():
        with pytest.raises(oi.InputError, match="while a step is being iterated"):
            executor.insert(x=X)
    executor.insert(x=X)
    executor.step()
    for statement, code in (
        ("op neg(x) >> x;", "OI0220"),
        ("transfer p >> x;", "OI0220"),
        ("cache.read p >> x;", "OI0220"),
        ("cache.write v >> x;", "OI0221"),
    ):
        finding = refused(KINDS.replace("return t;", f"{statement} return t;"), code)
        assert "`x`" in finding.message
        assert finding.location is not None


def test_volatile_memory_starts_anew_and_persistent_memory_stays(make: Make) -> None:
    executor = make(KINDS)
    equal(executor.run(x=X)["t"], [112, 113])
    equal(executor.fetch("v"), [2, 3])
    equal(executor.fetch("p"), [102, 103])
    equal(executor.run(x=X)["t"], [114, 116])
    equal(executor.fetch("v"), [2, 3])
    equal(executor.fetch("p"), [104, 106])
    executor.reset()
    equal(executor.run(x=X)["t"], [112, 113])


def test_volatile_memory_starts_from_the_package(make: Make, tmp_path: Path) -> None:
    model = package(tmp_path, tensors={"v": np.array([7, 8], np.float32)})
    executor = make("volatile { v: f32[2]; } block entry { op add(v, v) >> v; return; }", model)
    for _ in range(3):
        executor.step()
        equal(executor.fetch("v"), [14, 16])


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("op neg(c) >> c;", "OI0220"),
        ("transfer x >> c;", "OI0220"),
        ("cache.read p >> c;", "OI0220"),
        ("cache.write x >> c;", "OI0221"),
    ],
)
def test_constants_are_read_only(statement: str, code: str) -> None:
    finding = refused(KINDS.replace("return t;", f"{statement} return t;"), code)
    assert "`c`" in finding.message
    assert finding.location is not None
    oi.graph(KINDS).check()


def test_constants_do_not_change_under_the_caller(make: Make, tmp_path: Path) -> None:
    """Neither by a view of them, nor by a value that was made of them."""
    model = package(tmp_path, tensors={"c": X})
    executor = make(
        """
        constant { c: f32[2]; own: f32[2] @init(3); }
        block entry {
            assign t: f32[2];
            transfer c >> t;
            op add(t, own) >> t;
            return t;
        }
        """,
        model,
    )
    for _ in range(2):
        equal(executor.run()["t"], X + 3)
        for name, wanted in (("c", X), ("own", [3, 3])):
            view = executor.fetch(name, copy=False)
            equal(view, wanted)
            if view.flags.writeable:
                view[:] = -1


def test_fetch_gives_copies_at_any_time(make: Make) -> None:
    executor = make(KINDS)
    with pytest.raises(oi.InputError, match="t"):
        executor.fetch("t")
    executor.insert(x=X)
    seen: list[float] = []
    temporary: list[float] = []
    for node in executor.iterate():
        if node.event.op_name == "add":
            temporary.append(float(node.fetch("t")[0]))
        value = node.fetch("v")
        seen.append(float(value[0]))
        value[:] = -1
    assert seen[0] == 1
    assert seen[-1] == 2
    assert temporary == [0, 102, 112]
    equal(executor.fetch("c"), [10, 10])
    fetched = executor.fetch("p")
    fetched[:] = 0
    equal(executor.fetch("p"), [102, 103])
    first, second = (executor.fetch("v", copy=False) for _ in range(2))
    equal(first, [2, 3])
    assert np.shares_memory(first, second)
    assert not np.shares_memory(first, executor.fetch("v"))
    with pytest.raises(oi.InputError, match="x"):
        executor.fetch("x")


def test_names_link_to_the_package_and_conflicts_show_both_sides(
    make: Make, tmp_path: Path
) -> None:
    model = package(tmp_path, tensors={"w": np.full((2, 3), 4, np.float32)})
    text = """
    volatile {{ w: {}; only_here: f32[3] @init(1); }}
    block entry {{ op add(w, only_here) >> w; return; }}
    """
    executor = make(text.format("f32[2, 3]"), model)
    executor.step()
    equal(executor.fetch("w"), np.full((2, 3), 5))
    for type_ in ("f32[3, 2]", "f32[6]", "i32[2, 3]"):
        with pytest.raises(
            oi.ProgramError, match=r"w is declared .*, but tensor 'w' of the model (has|is) "
        ):
            make(text.format(type_), model)


def test_initial_values_of_every_kind_of_number(make: Make) -> None:
    executor = make(
        """
        volatile {
            a: f32[2] @init(5.5); b: f32 @init(-5); c: f16[1] @init(inf); d: bool[2] @init(true);
            e: i4[3] @init(-8); f: u1[3] @init(1); g: i64 @init(-9223372036854775808);
            h: f32[2]; k: bitset[1] @init(255); l: t1[2] @init(-1);
        }
        block entry { return; }
        """
    )
    executor.step()
    wanted = {
        **{"a": [5.5, 5.5], "b": -5, "c": [np.inf], "d": [True, True], "e": [-8] * 3},
        **{"f": [1] * 3, "g": -(2**63), "h": [0, 0], "k": [255], "l": [-1, -1]},
    }
    for name, values in wanted.items():
        equal(executor.fetch(name), values)
    refused("volatile { a: i4 @init(8); } block entry { return; }", "OI0303")


def test_references_name_other_tensors(make: Make, tmp_path: Path) -> None:
    model = package(
        tmp_path, tensors={"weight.0": np.array([1, 2], np.float32), "W": np.float32(3)}
    )
    executor = make(
        """
        constant { W: f32[2] @ref("weight.0"); other: f32 @ref("W"); }
        block entry { assign y: f32[2]; op mul(W, other) >> y; return y; }
        """,
        model,
    )
    equal(executor.run()["y"], [3, 6])


def test_names_of_tensors_with_dots_need_no_quotes(make: Make, tmp_path: Path) -> None:
    names = ("enc.layer.0.w", "0.weight", "h.1.2.c_w", "b.1e5")
    tensors = {name: np.full(2, 2.0**n, np.float32) for n, name in enumerate(names)}
    uses = " ".join(f"w{n}: _ @ref({name});" for n, name in enumerate(names))
    text = f"""
        constant {{ {uses} }}
        block entry {{
            y = op add(w0, w1);
            y = op add(y, w2);
            y = op add(y, w3);
            return y;
        }}
        """
    equal(make(text, package(tmp_path, tensors=tensors)).run()["y"], [15, 15])
    for name in names:
        assert f'@ref("{name}")' in print_program(parse_program(text))
    assert formatted(text, "p.oi").count("@ref(0.weight);") == 1


UNKNOWN = """
volatile { y: f32[2] @layout("nhwc", tile=16) @quant("int8") @linear @init(1); }
block entry { op add(y, y) >> y with { colour = "red" }; return; }
"""


def test_attributes_are_kept_and_unknown_ones_strictly_refused(make: Make) -> None:
    graph = oi.graph(UNKNOWN)
    warned = {w.message for w in graph.check()}
    assert any("linear" in text for text in warned)
    assert any("colour" in text for text in warned)
    assert not any("layout" in text or "quant" in text for text in warned)
    kept = oi.graph_json(graph.to_json())
    for name in ("layout", "nhwc", "tile", "quant", "int8", "linear", "colour", "red"):
        assert re.search(rf'"{name}"', kept.to_json()), name
    with pytest.raises(oi.ProgramError, match="linear"):
        oi.Graph(UNKNOWN, strict=True).check()
    executor = make(UNKNOWN)
    executor.step()
    equal(executor.fetch("y"), [2, 2])


PREFIX = """
dynamic { x: f32[1, D]; }
constant { QKV(layer, head): f32[D, 3*D] @pattern("attn.{head}.qkv.{layer}"); }
volatile { W(l): f32[D, D] @pattern("W.{l}"); }
block entry {
    assign h: f32[1, D]; assign q: f32[1, 3*D]; assign sum: f32[1, 3*D];
    transfer x >> h;
    loop layers (l in 0..layers) {
        op matmul(h, W[l]) >> h;
        loop heads (h2 in 0..2) { op matmul(h, QKV[l, h2]) >> q; op add(sum, q) >> sum; }
    }
    op matmul(h, W[0]) >> h;
    op matmul(h, W[layers - 1]) >> h;
    return h, sum;
}
"""


def test_prefix_tables_by_literal_loop_index_and_expression(make: Make, tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    layers = {f"W.{n}": generator.random((2, 2), np.float32) for n in range(3)}
    parts = {
        f"attn.{head}.qkv.{layer}": generator.random((2, 6), np.float32)
        for head in range(2)
        for layer in range(3)
    }
    model = package(tmp_path, sizevars={"D": 2, "layers": 3}, tensors=layers | parts)
    found = make(PREFIX, model).run(x=np.array([[1, 2]], np.float32))
    h, total = np.array([[1, 2]], np.float32), np.zeros((1, 6), np.float32)
    for layer in range(3):
        h = h @ layers[f"W.{layer}"]
        total += sum(h @ parts[f"attn.{head}.qkv.{layer}"] for head in range(2))
    np.testing.assert_allclose(plain(found["sum"]), total, rtol=1e-5)
    wanted = h @ layers["W.0"] @ layers["W.2"]
    np.testing.assert_allclose(plain(found["h"]), wanted, rtol=1e-5)


def test_prefix_tables_stand_in_memory_of_the_package_only() -> None:
    for memory in ("dynamic", "persistent"):
        text = f'{memory} {{ W(l): f32[2] @pattern("W.{{l}}"); }} block entry {{ return; }}'
        with pytest.raises(oi.ProgramError) as caught:
            oi.graph(text).check()
        found = [d.message for d in caught.value.diagnostics if d.code == "OI0252"]
        assert any(f"@pattern on {memory} `W`" in message for message in found)
    refused('constant { W(l): f32[2] @pattern("W.{k}"); } block entry { return; }', "OI0254")
