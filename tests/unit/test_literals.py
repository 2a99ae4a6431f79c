"""Numbers as operands: the dtype they have, every executor, and every form that a program is kept in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_executors import agree, tensor
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser

import openinfer as oi
from openinfer.compiler.frontend import parse_program, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.text import module_text
from openinfer.dialects import graph


def reread(module: ModuleOp) -> ModuleOp:
    """A module by way of its text."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(graph.Graph)
    return Parser(context, module_text(module)).parse_module()


PROGRAM = """\
dynamic {
    x: f16[2, 3];
    y: bf16[2, 3];
    k: u8[3];
    c: bool[2, 3];
}

block entry {
    assign a: f16[2, 3];
    op mul(x, 0.1) >> a;
    assign b: f32[2, 3];
    op fma(x, y, 1) >> b;
    assign d: u8[3];
    op sub(k, 0xff) >> d;
    assign e: f16[2, 3];
    op where(c, x, -inf) >> e;
    assign f: bool[2, 3];
    op xor(c, true) >> f;
    assign g: f16[2, 3];
    op pow(2.0, x) >> g;
    return a, b, d, e, f, g;
}
"""
INPUTS = {
    "x": tensor("f16", [2, 3], [0.3, -1.0, 2.0, 0.0, 5.0, -0.25]),
    "y": tensor("bf16", [2, 3], [1.0, 2.0, -3.0, 4.0, 0.5, 6.0]),
    "k": tensor("u8", [3], [0, 1, 255]),
    "c": tensor("bool", [2, 3], [True, False, True, False, True, False]),
}


def test_a_literal_has_the_dtype_of_the_operands_beside_it() -> None:
    with oi.Simulator(PROGRAM).make_executor() as executor:
        found = executor.run(**INPUTS)
    x = INPUTS["x"].values()
    assert np.array_equal(
        found["a"], (x.astype(np.float32) * np.float32(np.float16(0.1))).astype(np.float16)
    )
    assert np.array_equal(found["b"], x.astype(np.float32) * INPUTS["y"].values() + np.float32(1))
    assert np.asarray(found["d"]).tolist() == [1, 2, 0]
    assert np.array_equal(found["e"], np.where(INPUTS["c"].values(), x, np.float16(-np.inf)))
    assert np.array_equal(found["f"], ~INPUTS["c"].values())
    assert found["g"].dtype == np.float16


def test_compiled_programs_agree() -> None:
    agree(PROGRAM, [INPUTS])


def test_the_device_agrees(everything_on_vulkan: None) -> None:
    with oi.Simulator(PROGRAM).make_executor() as executor:
        wanted = executor.run(**INPUTS)
    with oi.compile(PROGRAM, device="vulkan").make_executor() as executor:
        found = executor.run(**INPUTS)
    for name, value in wanted.items():
        assert np.allclose(found[name], value, rtol=2e-3, equal_nan=True), name


def test_text_ir_and_json_keep_literals(tmp_path: Path) -> None:
    module = parse_program(PROGRAM)
    printed = print_program(module)
    assert printed == PROGRAM.replace("0xff", "255")
    assert print_program(reread(module)) == printed
    text = oi.graph(PROGRAM).to_json()
    assert '"Double": 0.1' in text
    assert '"Double": "-inf"' in text
    assert '"Int": 255' in text
    assert '"Bool": true' in text
    assert print_program(oi.graph_json(text).module) == printed
    assert formatted(PROGRAM, "p.oi") == PROGRAM


def test_two_literals_to_choose_from_are_f32() -> None:
    text = "dynamic { c: bool[3]; }\nblock entry { y = op where(c, 1.0, 0); return y; }"
    c = np.array([True, False, True])
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)):
        found = np.asarray(executor.run(c=c)["y"])
        assert found.dtype == np.float32
        assert found.tolist() == [1, 0, 1]


def test_operands_have_names_in_front_of_an_arrow_too() -> None:
    short = "dynamic { x: f32[2]; s: f32; }\nblock entry { y = op quantize(x, scale=0.5, dtype=i8);"
    z = "z = op quantize(x, scale=s, dtype=i8);"
    arrow = "assign w: f32[2]; op sub(y=x, x=s) >> w;"
    text = f"{short} {z} {arrow} return y, z, w; }}"
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor(1)):
        found = executor.run(x=np.array([1, 2], np.float32), s=np.float32(0.25))
        assert np.asarray(found["y"]).tolist() == [2, 4]
        assert np.asarray(found["z"]).tolist() == [4, 8]
        assert np.asarray(found["w"]).tolist() == [-0.75, -1.75]


def test_the_short_form_takes_literals_by_position_and_by_name() -> None:
    text = """dynamic { x: i32[2]; c: bool[2]; }
block entry {
    y = op add(x, 1);
    y = op max(y, y=0);
    y = op mul(a=3, b=y);
    z = op where(condition=c, x=y, y=-1);
    return z;
}
"""
    agree(text, [{"x": tensor("i32", [2], [-5, 4]), "c": tensor("bool", [2], [True, True])}])


def test_a_variable_may_have_the_name_of_a_literal() -> None:
    text = "dynamic { inf: f32[2]; }\nblock entry { y = op add(inf, inf); return y; }\n"
    module = parse_program(text)
    assert 'add("inf", "inf")' in module_text(module)
    assert print_program(reread(module)) == print_program(module)
    with oi.Simulator(text).make_executor() as executor:
        assert np.asarray(executor.run(inf=np.ones(2, np.float32))["y"]).tolist() == [2, 2]


def test_open_types_wait_for_the_package() -> None:
    text = "constant { w: _; }\nblock entry { y = op mul(w, 300); return y; }\n"
    fine = oi.Simulator(text, {"w": np.ones(2, np.int16)})
    assert np.asarray(fine.make_executor().run()["y"]).tolist() == [300, 300]
    with pytest.raises(oi.ProgramError, match=r"OI0285.*300 does not fit into u8"):
        oi.Simulator(text, {"w": np.ones(2, np.uint8)})


def test_events_say_the_literal_and_list_the_variables() -> None:
    text = "dynamic { x: f32[2]; }\nblock entry { y = op mul(x, 0.5); return y; }\n"
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor()):
        with executor:
            executor.insert(x=np.ones(2, np.float32))
            nodes = [node.event for node in executor.iterate() if node.event.op_name == "mul"]
        assert [event.params for event in nodes] == [("x",)]
        assert [event.description for event in nodes] == ["op mul(x, 0.5) >> y"]


def test_the_builder_writes_numbers() -> None:
    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[2]")
    y: Any = g.op("mul", x, 0.5)
    y = g.op("add", y, np.float32(1))
    y = g.op("max", y, -np.inf)
    g.return_(y)
    assert "op mul(x, 0.5)" in str(g)
    assert "1.0)" in str(g)
    with pytest.raises(oi.InputError, match="OI0533"):
        g.op("mul", x, "0.5")
    with oi.Simulator(g.graph()).make_executor() as executor:
        (found,) = executor.run(x=np.ones(2, np.float32)).values()
    assert np.asarray(found).tolist() == [1.5, 1.5]


def test_no_buffer_holds_a_literal() -> None:
    """A literal in a chain is a constant of its kernel."""
    text = """dynamic { x: f32[64]; }
block entry { y = op add(x, 1); y = op mul(y, 0.5); y = op exp(y); return y; }
"""
    program = oi.compile(text)
    level = str(program.show("buffers"))
    assert level.count("func.call @") == 1
    assert "memref<f32>" not in level
