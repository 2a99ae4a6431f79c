"""Definitions and readers of names, and changes that keep a module a program."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.dialects.graph import OpOp, RefAttr
from openinfer.lowering.graph.imports.editing import Editor, literal
from openinfer.lowering.graph.imports.tensors import using_tensors
from openinfer.lowering.graph.imports.uses import kind, settings_of
from openinfer.runtime.sizes import Size

TEXT = """
dynamic { x: f32[B, 4]; }
constant { w: f32[4]; two: f32 @init(2); }
block entry {
    a = op mul(x, two);
    assign h: f32[B, 4];
    transfer a >> h;
    loop rounds (i in 0..3) {
        b = op add(h, w);
        transfer b >> h;
    }
    c = op reshape(h, shape=[B, 2, 2]);
    y = op swish(c);
    return y;
}
"""
W = np.arange(4, dtype=np.float32)


def module() -> ModuleOp:
    return oi.graph(TEXT).module


def run(program: ModuleOp, **tensors: np.ndarray) -> np.ndarray:
    """The result of one step."""
    executor = oi.Simulator(oi.graph(print_program(program)), tensors).make_executor()
    executor.insert(x=np.ones((2, 4), np.float32))
    executor.step()
    return np.asarray(executor.fetch("y"))


def test_what_is_written_once_has_a_definition() -> None:
    uses = Editor(module()).uses
    found = uses.definition(RefAttr.of("y"))
    assert found is not None
    assert kind(found) == "silu"
    assert uses.definition(RefAttr.of("y"), "gelu") is None
    assert uses.definition(RefAttr.of("h")) is None
    assert not uses.stable(RefAttr.of("h"))
    reshape = uses.definition(RefAttr.of("c"), "reshape")
    assert reshape is not None
    assert len(settings_of(reshape)["shape"]) == 3
    assert uses.read_once(RefAttr.of("a"))
    assert not uses.read_once(RefAttr.of("h"))


def test_content_of_constants() -> None:
    uses = Editor(module()).uses
    with using_tensors({"w": W}):
        assert uses.number(RefAttr.of("two")) == 2.0
        assert uses.number(literal(3)) == 3
        assert uses.number(RefAttr.of("x")) is None
        program = oi.graph(TEXT.replace("w: f32[4]", 'w: f32[4] @ref("w")')).module
        uses = Editor(program).uses
        assert uses.number(RefAttr.of("w")) is None
        np.testing.assert_array_equal(uses.content(RefAttr.of("w")), W)


def test_changes_keep_a_program() -> None:
    program = module()
    before = run(program, w=W)
    editor = Editor(program)
    activation = editor.uses.definition(RefAttr.of("y"))
    assert isinstance(activation, OpOp)
    # y = silu(c) as c * sigmoid(c); another type is refused.
    gate = editor.insert(activation, "sigmoid", [RefAttr.of("c")])
    assert editor.redefine(activation, "mul", [RefAttr.of("x"), gate]) is None
    assert editor.redefine(activation, "mul", [RefAttr.of("c"), gate]) is not None
    np.testing.assert_allclose(run(program, w=W), before, rtol=1e-6)
    # What a loop changes is no other name for what was there before it.
    copied = editor.uses.definition(RefAttr.of("b"))
    assert copied is not None
    assert not editor.alias(copied, RefAttr.of("h"))
    reshaped = editor.uses.definition(RefAttr.of("c"))
    assert reshaped is not None
    same = editor.insert(reshaped, "reshape", [RefAttr.of("h")], {"shape": [Size.name("B"), 2, 2]})
    assert editor.alias(reshaped, same)
    np.testing.assert_allclose(run(program, w=W), before, rtol=1e-6)
