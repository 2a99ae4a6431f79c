"""Metadata of a package in a program: constants and settings, on both executors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.packages.oinf_writer import OinfContent

PROGRAM = """\
dynamic {{ x: {dtype}[3]; }}
constant {{ {constant}; }}
volatile {{ y: {dtype}[3]; }}
block entry {{ {node}; return; }}
"""


@pytest.fixture
def model(tmp_path: Path) -> oi.Package:
    metadata: dict[str, Any] = {
        "bits": oi.Bitset([1, 0, 1]),
        "count": oi.ScalarValue(3, "i64"),
        "flag": True,
        "floats": [1.0, 2.0, 3.5],
        "axis": oi.ScalarValue(1, "i32"),
        "pads": oi.TensorSpec([1, 0, 0, 2], "i32"),
        "grid": np.arange(6, dtype=np.float32).reshape(2, 3),
        "huge": oi.ScalarValue(2**64 - 1, "u64"),
        "inf": math.inf,
        "ints": [1, 2, 300],
        "mode": "tanh",
        "packed": oi.TensorSpec([1, -8, 7], "i4"),
        "ratio": 0.25,
        "taken": 7.0,
        "words": "né ü",
    }
    tensors = {"taken": np.full(3, 2.0, np.float32)}
    oi.write_oinf(OinfContent({"D": 3}, metadata, tensors), tmp_path / "m.oinf")
    return oi.open_model(tmp_path / "m.oinf")


def both(text: str, model: oi.Package, x: Any) -> Any:
    """The simulator's result, which the compiled program agrees with."""
    results = [
        program.make_executor().run(x=x)["y"]
        for program in (oi.Simulator(text, model), oi.compile(text, model))
    ]
    np.testing.assert_allclose(results[0], results[1], rtol=2e-5)
    return results[0]


@pytest.mark.parametrize(
    ("dtype", "constant", "node", "expected"),
    [
        ("f32", "floats: f32[3]", "op add(x, floats) >> y", [2, 4, 6.5]),
        ("f32", 'f: f32[D] @ref("floats")', "op mul(x, f) >> y", [1, 4, 10.5]),
        ("i16", "ints: i16[3]", "op add(x, ints) >> y", [2, 4, 303]),
        ("f32", "ratio: f32", "op mul(x, ratio) >> y", [0.25, 0.5, 0.75]),
        ("f32", "ratio: f32[3]", "op mul(x, ratio) >> y", [0.25, 0.5, 0.75]),
        ("f64", "ratio: f64", "op mul(x, ratio) >> y", [0.25, 0.5, 0.75]),
        ("f32", "inf: f32", "op mul(x, inf) >> y", [math.inf, math.inf, math.inf]),
        ("i32", "count: i32", "op add(x, count) >> y", [4, 5, 6]),
        ("u64", "huge: u64", "op mul(x, huge) >> y", [2**64 - 1, 2**64 - 2, 2**64 - 3]),
        ("i32", "D: i32", "op add(x, D) >> y", [4, 5, 6]),
        ("bool", "bits: bool[3]", "op and(x, bits) >> y", [True, False, True]),
        ("bool", "flag: bool", "op and(x, flag) >> y", [True, True, True]),
        # A tensor comes before metadata of its name.
        ("f32", "taken: f32[3]", "op add(x, taken) >> y", [3, 4, 5]),
    ],
)
def test_constants(
    dtype: str, constant: str, node: str, expected: list[Any], model: oi.Package
) -> None:
    x = np.array([1, 2, 3], DTYPES[dtype].storage)
    text = PROGRAM.format(dtype=dtype, constant=constant, node=node)
    assert both(text, model, x).tolist() == expected


def test_packed_arrays(model: oi.Package) -> None:
    text = (
        "dynamic { x: i8[3]; } constant { packed: i4[3]; } volatile { y: i8[3]; }"
        "block entry { assign z: i8[3]; op cast(packed, to=i8) >> z; op add(x, z) >> y; return; }"
    )
    executor = oi.Simulator(text, model).make_executor()
    assert np.asarray(executor.run(x=np.zeros(3, np.int8))["y"]).tolist() == [1, -8, 7]


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("op gelu(x, approximate=mode) >> y", None),
        ("op relu(x, negative_slope=ratio) >> y", [-0.25, 2, -0.75]),
        ("op relu(x, clamp_max=count, negative_slope=0) >> y", [0, 2, 0]),
    ],
)
def test_settings(node: str, expected: list[float] | None, model: oi.Package) -> None:
    text = PROGRAM.format(dtype="f32", constant="k: f32 @init(0)", node=node)
    found = both(text, model, np.array([-1, 2, -3], np.float32))
    if expected is None:
        quoted = text.replace("mode", '"tanh"')
        expected = both(quoted, model, np.array([-1, 2, -3], np.float32)).tolist()
    assert found.tolist() == expected


IN_LISTS = [
    ("pad(x, pads=[axis, 0, 0, 2]) >> y", "f32[3, 5]"),
    ("pad(x, pads=[axis, 2 - 2*axis, 0, axis + 1]) >> y", "f32[3, 5]"),
    ("pad(x, pads=pads) >> y", "f32[3, 5]"),
    ("sum_axis(x, axes=[axis]) >> y", "f32[2]"),
    ("sum_axis(x, axes=[axis, axis - 1]) >> y", "f32"),
    ("reshape(x, shape=[count, 2*axis]) >> y", "f32[3, 2]"),
    ("slice(x, starts=[0, axis], stops=[2, count]) >> y", "f32[2, 2]"),
    ("permute(x, axes=[axis, 0]) >> y", "f32[3, 2]"),
    ("pad(x, pads=pads) >> t; op relu(t) >> y", "f32[3, 5]"),
    ("upsample2d(i, scale=[1.0, axis]) >> y", "f32[1, 1, 2, 2]"),
]


@pytest.mark.parametrize(("node", "output"), IN_LISTS)
def test_numbers_in_lists_and_arrays_as_lists(node: str, output: str, model: oi.Package) -> None:
    text = f"""dynamic {{ x: f32[2, 3]; }} volatile {{ y: {output}; i: f32[1, 1, 2, 2] @init(2); }}
        block entry {{ {"assign t: _;" if "t;" in node else ""} op {node}; return; }}"""
    found = both(text, model, np.arange(6, dtype=np.float32).reshape(2, 3))
    plain = text.replace("pads=pads", "pads=[1, 0, 0, 2]").replace("axis", "1")
    plain = plain.replace("sum_1", "sum_axis").replace("count", "3")
    again = both(plain, model, np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(found, again)


def test_what_the_program_declares_hides_metadata(model: oi.Package) -> None:
    """A variable, a size or the index of a loop of that name is meant."""
    text = """dynamic { x: f32[4]; ratio: f32; } volatile { y: f32[4]; }
        block entry {
          op fill(y, value=ratio) >> y;
          loop n (count in 1..3) { assign t: f32[4]; op fill(t, value=count) >> t;
            op add(y, t) >> y; }
          op slice(y, starts=[0], stops=[4]) >> y;
          return;
        }"""
    for program in (oi.Simulator(text, model), oi.compile(text, model)):
        run = program.make_executor().run
        found: Any = run(x=np.ones(4, np.float32), ratio=np.float32(10))["y"]
        assert found.tolist() == [13] * 4


@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        ("pad(x, pads=[nothing, 0])", "OI0328", "names nothing"),
        ("pad(x, pads=[nothing + 1, 0])", "OI0328", "names nothing"),
        ("pad(x, pads=floats)", "OI0304", "integers"),
        ("pad(x, pads=[ratio, 0])", "OI0304", "integers"),
        ("pad(x, pads=[mode, 0])", "OI0328", "names mode"),
        ("fill(x, value=ints)", "OI0328", "names ints"),
    ],
)
def test_what_no_list_takes(node: str, code: str, message: str, model: oi.Package) -> None:
    text = PROGRAM.format(dtype="f32", constant="k: f32", node=f"op {node} >> y")
    for make in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError, match=message) as caught:
            make(text, model)
        assert code in str(caught.value)


def test_numbers_of_64_bits() -> None:
    """Literals, constants and what they do to u64."""
    text = """dynamic { u: u64[3]; x: f32; }
        constant { k: u64 @init(18446744073709551615); }
        volatile { a: u64[3]; b: u64[3]; c: u64[4]; d: u64[3]; e: u64[2]; f: f64[2]; s: u64; }
        block entry {
          op clamp(u, max=18446744073709551614, min=9223372036854775809) >> a;
          op fill(u, value=18446744073709551615) >> b;
          op pad(u, pads=[0, 1], value=9223372036854775808) >> c;
          op div(u, u, div_by_zero_mask=18446744073709551613) >> d;
          op fill(e, value=18446744073709551611) >> e;
          op fill(f, value=18446744073709551615) >> f;
          op add(k, k) >> s;
          return;
        }"""
    u = np.array([0, 2**63, 2**64 - 1], np.uint64)
    graph = oi.graph(text)
    results: list[Any] = [
        made.make_executor().run(u=u, x=np.float32(0))
        for made in (oi.Simulator(graph), oi.compile(graph))
    ]
    for found in results:
        assert found["a"].tolist() == [2**63 + 1, 2**63 + 1, 2**64 - 2]
        assert found["b"].tolist() == [2**64 - 1] * 3
        assert found["c"].tolist() == [0, 2**63, 2**64 - 1, 2**63]
        assert found["d"].tolist() == [2**64 - 3, 1, 1]
        assert found["e"].tolist() == [2**64 - 5] * 2
        assert found["f"].tolist() == [float(2**64)] * 2
        assert found["s"] == 2**64 - 2


@pytest.mark.parametrize(
    ("constant", "code", "message"),
    [
        ("floats: f32[4]", "OI0321", r"but metadata 'floats' of the model has shape \[3\]"),
        ("floats: f64[3]", "OI0320", "but metadata 'floats' of the model is f32"),
        ("grid: f32[3]", "OI0321", r"metadata 'grid' of the model has shape \[2, 3\]"),
        ("bits: i8[3]", "OI0320", "metadata 'bits' of the model is bool"),
        ("mode: f32", "OI0320", "metadata 'mode' of the model is 'tanh'"),
        ("ratio: i32", "OI0320", r"metadata 'ratio' of the model is 0\.25"),
        ("flag: i32", "OI0320", "metadata 'flag' of the model is true"),
        ("count: bool", "OI0320", "metadata 'count' of the model is 3"),
        ("huge: i64", "OI0320", "metadata 'huge' of the model is 18446744073709551615"),
        ('p: i32 @ref("rati")', "OI0325", "'rati', which the model does not have"),
    ],
)
def test_conflicts(constant: str, code: str, message: str, model: oi.Package) -> None:
    text = PROGRAM.format(dtype="f32", constant=constant, node="op relu(x) >> y")
    for make in (oi.Simulator, oi.compile):
        with pytest.raises(oi.ProgramError, match=message) as caught:
            make(text, model)
        assert [d.code for d in caught.value.diagnostics] == [code]


def test_other_memory_kinds_take_no_metadata(model: oi.Package) -> None:
    text = (
        "dynamic { x: f32[3]; } volatile { ratio: f32[3]; floats: f32[4]; y: f32[3]; }"
        "block entry { op add(x, ratio) >> y; return; }"
    )
    assert both(text, model, np.array([1, 2, 3], np.float32)).tolist() == [1, 2, 3]


def test_packages_give_metadata_arrays_as_tensors(model: oi.Package) -> None:
    assert model.info("grid").shape == (2, 3)
    assert model.tensor("packed").values().tolist() == [1, -8, 7]
    assert model.read("bits").tolist() == [True, False, True]
    assert model.info("taken").shape == (3,)
    assert model.array_info("mode") is None
    with pytest.raises(oi.PackageError, match="no tensor named 'mode'"):
        model.read("mode")
