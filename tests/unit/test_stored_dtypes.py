"""`@dtype` on a declaration: what the package holds becomes the declared dtype when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend.printer import print_program
from openinfer.compiler.graph_json.write import module_json
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import holds_all_of
from openinfer.runtime.tensors import Tensor

PROGRAM = """
dynamic { x: f32[B, K]; }
constant { W: f32[K, N] @dtype(f16); }
volatile { y: f32[B, N]; }
block entry { op matmul(x, W) >> y; return y; }
"""
W = np.random.default_rng(0).standard_normal((40, 24)).astype(np.float16)
X = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32)


def results(executor: Any, **inputs: Any) -> Any:
    with executor:
        (found,) = executor.run(**inputs).values()
    return found.values() if isinstance(found, Tensor) else found


def test_weights_are_converted_when_they_are_loaded() -> None:
    wanted = X @ W.astype(np.float32)
    for made in (oi.compile(PROGRAM, {"W": W}), oi.Simulator(PROGRAM, {"W": W})):
        np.testing.assert_allclose(results(made.make_executor(), x=X), wanted, rtol=1e-5, atol=1e-5)


def test_on_a_device() -> None:
    try:
        program = oi.compile(PROGRAM, {"W": W}, "vulkan:0")
        executor = program.make_executor()
    except (oi.UnsupportedError, oi.InputError) as error:
        pytest.skip(str(error))
    np.testing.assert_allclose(
        results(executor, x=X), X @ W.astype(np.float32), rtol=1e-4, atol=1e-4
    )


def test_in_saved_programs(tmp_path: Path) -> None:
    """The file of a program holds the weights as the package does, half as large."""
    wide = np.zeros((512, 512), np.float16)
    wide[:40, :24] = W
    x = np.zeros((3, 512), np.float32)
    x[:, :40] = X
    program = oi.compile(PROGRAM, {"W": wide})
    program.save(tmp_path / "one.oip", embed_weights=True)
    assert (tmp_path / "one.oip").stat().st_size < 512 * 512 * 3
    found = results(oi.load(tmp_path / "one.oip").make_executor(), x=x)
    np.testing.assert_allclose(found[:, :24], X @ W.astype(np.float32), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("declared", "stored", "values", "wanted"),
    [
        ("f16", "f32", [1.0, 1e9, 1 + 2**-11], [1.0, np.inf, 1.0]),
        ("bf16", "f32", [1 + 2**-8, 1 + 3 * 2**-8], [1.0, 1 + 2**-6]),
        ("f32", "bf16", [1.5, -2.0], [1.5, -2.0]),
        ("f32", "f8e4m3", [448.0, -0.5], [448.0, -0.5]),
        ("f8", "f64", [0.3, 1e6], [0.3125, np.inf]),
        ("i64", "i32", [-7, 9], [-7, 9]),
        ("i32", "i4", [-8, 7, 1], [-8, 7, 1]),
        ("f32", "t2", [-1, 0, 1], [-1, 0, 1]),
        ("u8", "bool", [True, False], [1, 0]),
        ("u4", "bool", [True, False, True], [1, 0, 1]),
    ],
)
def test_each_conversion(declared: str, stored: str, values: Any, wanted: Any) -> None:
    """Of constants, volatile and persistent variables, in both executors."""
    model = {"W": oi.TensorSpec(values, stored)}
    for memory in ("constant", "volatile", "persistent"):
        text = (
            f"{memory} {{ W: {declared}[N] @dtype({stored}); }} volatile {{ y: {declared}[N]; }} "
            "block entry { transfer W >> y; return y; }"
        )
        for made in (oi.compile(text, model), oi.Simulator(text, model)):
            executor = made.make_executor()
            first = executor.fetch("W")
            np.testing.assert_array_equal(
                first.values() if isinstance(first, Tensor) else first, wanted
            )
            np.testing.assert_array_equal(results(executor), wanted)


def test_families_and_names() -> None:
    text = """
    constant { W(l): f32[N] @pattern("layer.{l}") @dtype(bf16); g: f64[N] @ref("gain") @dtype(f16); }
    volatile { y: f32[N]; z: f64[N]; }
    block entry { loop all (l in 0..2) { op add(y, W[l]) >> y; } transfer g >> z; return y, z; }
    """
    model = {
        "layer.0": oi.TensorSpec([1.0, 2.0], "bf16"),
        "layer.1": oi.TensorSpec([4.0, 8.0], "bf16"),
        "gain": oi.TensorSpec([0.5, 0.25], "f16"),
    }
    for made in (oi.compile(text, model), oi.Simulator(text, model)):
        with made.make_executor() as executor:
            found = executor.run()
            np.testing.assert_array_equal(found["y"], [5.0, 10.0])
            np.testing.assert_array_equal(found["z"], [0.5, 0.25])
            np.testing.assert_array_equal(executor.fetch("W[1]"), [4.0, 8.0])


def test_one_tensor_in_two_dtypes() -> None:
    text = """
    constant { a: f32[N] @ref("w") @dtype(f16); b: f16[N] @ref("w"); }
    volatile { y: f32[N]; z: f16[N]; }
    block entry { op neg(a) >> y; op neg(b) >> z; return y, z; }
    """
    model = {"w": np.array([1, 2], np.float16)}
    for made in (oi.compile(text, model), oi.Simulator(text, model)):
        with made.make_executor() as executor:
            found = executor.run()
            assert [str(np.asarray(v).dtype) for v in found.values()] == ["float32", "float16"]
            np.testing.assert_array_equal(found["y"], [-1, -2])


def test_the_text_and_graph_json_keep_it() -> None:
    graph = oi.graph(PROGRAM.replace("@dtype(f16)", "@dtype(f8e5m2)"))
    again = oi.graph_json(graph.to_json())
    assert module_json(again.module) == graph.to_json()
    assert "W: f32[K, N] @dtype(f8);" in print_program(again.module)
    assert '{"DType": "F8"}' in module_json(graph.module, indent=None)


@pytest.mark.parametrize(
    ("declaration", "code", "message"),
    [
        ("constant { W: f32[N] @dtype(bf16); }", "OI0320", r"@dtype\(bf16\) of W, but tensor 'W'"),
        ("constant { W: f16[N] @dtype(f32); }", "OI0320", r"@dtype\(f32\) of W(.|\n)*remove it"),
        ("constant { W: f32[N]; }", "OI0320", r"add `@dtype\(f16\)`, which converts"),
        ("constant { W: i32[N] @dtype(f16); }", "OI0256", "i32 does not hold all values of f16"),
        ("constant { W: bool[N] @dtype(i8); }", "OI0256", "bool does not hold"),
        ("constant { W: f16[N] @dtype(i32); }", "OI0256", "f16 does not hold"),
        ("constant { W: f32[N] @dtype(half); }", "OI0301", "unknown dtype `half`"),
        ("constant { W: f32[N] @dtype; }", "OI0253", "takes one dtype"),
        ('constant { W: f32[N] @dtype("f16"); }', "OI0253", "takes one dtype"),
        ("dynamic { W: f32[N] @dtype(f16); }", "OI0252", "@dtype on dynamic"),
    ],
)
def test_mistakes(declaration: str, code: str, message: str) -> None:
    text = f"{declaration} volatile {{ y: i32; }} block entry {{ return y; }}"
    with pytest.raises(oi.ProgramError, match=message) as caught:
        oi.compile(text, {"W": np.ones(4, np.float16)})
    assert code in [found.code for found in caught.value.diagnostics]


def test_what_holds_what_agrees_with_conversions() -> None:
    """Where whole numbers are said to fit, all of a small dtype come back as they were."""
    for stored in DTYPES.values():
        if stored.is_float or stored.bits > 8 or stored.kind == "bitset":
            continue
        low, high = (0, 1) if stored.kind == "bool" else (-128, 255)
        values = []
        for number in range(low, high + 1):
            try:
                Tensor.from_values(stored, [number])
                values.append(number)
            except oi.InputError:
                continue
        for wanted in DTYPES.values():
            if not holds_all_of(wanted, stored):
                continue
            made = oi.open_model({"w": oi.TensorSpec(values, stored)}).tensor_as("w", wanted)
            np.testing.assert_array_equal(np.asarray(made.values(), np.int64), values)
