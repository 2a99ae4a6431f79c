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
    text = PROGRAM.format(dtype="f32", constant="k: f32", node=node)
    found = both(text, model, np.array([-1, 2, -3], np.float32))
    if expected is None:
        quoted = PROGRAM.format(dtype="f32", constant="k: f32", node=node.replace("mode", '"tanh"'))
        expected = both(quoted, model, np.array([-1, 2, -3], np.float32)).tolist()
    assert found.tolist() == expected


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
