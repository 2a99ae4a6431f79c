"""`precision="bf16"`: what it changes in results, memory, manifests and tools, and what it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer as oi
from openinfer.compiler.api import compile as compile_with
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as opt_main
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.manifest import Manifest
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.target import describe_target, named_target

pytestmark = pytest.mark.skipif(
    cpu_unavailable_reason() is not None,
    reason=cpu_unavailable_reason() or "machine code runs here",
)

Array = np.ndarray[Any, Any]
LEVELS = ("generic", "avx2", "avx512")
TARGETS = LEVELS[: LEVELS.index(host_target().name) + 1] if not cpu_unavailable_reason() else ()

DOTS = bool(TARGETS) and host_target().bf16_dot
needs_dots = pytest.mark.skipif(
    not DOTS, reason="this processor has no instruction for pairs of bf16"
)

MLP = """
dynamic { x: f32[B, 37]; }
constant { W1: f32[37, 50]; b1: f32[50]; W2: f32[9, 50]; }
volatile { y: f32[B, 9]; s: f32[B, 37]; }
block entry {
    assign h: f32[B, 50];
    op matmul(x, W1) >> h;
    op add(h, b1) >> h;
    op gelu(h) >> h;
    op matmul(h, W2, transpose_b=true) >> y;
    op exp(x) >> s;
    return y, s;
}
"""

BLOCK = """
dynamic { x: f32[B, L, 32]; seen: bool[B, 1, 1, L]; }
constant { W: f32[32, 32]; }
volatile { y: f32[B, L, 32]; z: f32[L, L]; }
block entry {
    assign q: f32[B, L, 32];
    assign q4: f32[B, L, 2, 16];
    assign t: f32[B, 2, L, 16];
    assign o: f32[B, 2, L, 16];
    assign o4: f32[B, L, 2, 16];
    assign a: f32[B, L, 32];
    assign f: f32[L, 32];
    op matmul(x, W) >> q;
    op reshape(q, shape=[B, L, 2, 16]) >> q4;
    op transpose(q4, perm=[0, 2, 1, 3]) >> t;
    op attention(t, t, t, seen) >> o;
    op transpose(o, perm=[0, 2, 1, 3]) >> o4;
    op reshape(o4, shape=[B, L, 32]) >> a;
    op matmul(a, W, transpose_b=true) >> a;
    op add(a, x) >> y;
    op reshape(y, shape=[L, 32]) >> f;
    op matmul(f, f, transpose_b=true) >> z;
    return y, z;
}
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, oi.Package]:
    random = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("precision")

    def written(name: str, **shapes: tuple[int, ...]) -> oi.Package:
        tensors = {n: random.standard_normal(s).astype(np.float32) / 6 for n, s in shapes.items()}
        oi.write_oinf(OinfContent({}, {}, dict(tensors)), folder / f"{name}.oinf")
        return oi.open_model(folder / f"{name}.oinf")

    return {
        "mlp": written("mlp", W1=(37, 50), b1=(50,), W2=(9, 50)),
        "block": written("block", W=(32, 32)),
    }


def drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def results(program: Any, threads: int = 1, **inputs: Array) -> dict[str, Array]:
    with program.make_executor(threads) as executor:
        return {name: np.array(value) for name, value in executor.run(**inputs).items()}


def near(found: Array, expected: Array, relative: float = 1e-2) -> bool:
    return bool(np.abs(found - expected).max() <= relative * np.abs(expected).max())


@needs_dots
def test_products_are_near_and_all_else_is_the_same(packages: dict[str, oi.Package]) -> None:
    model = packages["mlp"]
    plain = oi.compile(MLP, model)
    program = oi.compile(MLP, model, precision="bf16")
    assert (plain.manifest.precision, plain.manifest.rounded_products) == ("f32", 0)
    assert (program.manifest.precision, program.manifest.rounded_products) == ("bf16", 2)
    bytes_of = {row.variable: row.nbytes for row in plain.manifest.weights}
    for row in program.manifest.weights:
        half = row.variable.startswith("W")
        # 37 rows are 19 pairs.
        wanted = bytes_of[row.variable] * (
            38 / 37 / 2 if row.variable == "W1" else 0.5 if half else 1
        )
        assert row.nbytes == wanted
    for rows in (1, 12):
        x = drawn(rows, 37)
        expected = results(oi.Simulator(MLP, model), x=x)
        found = results(program, x=x)
        assert near(found["y"], expected["y"])
        assert not np.array_equal(found["y"], results(plain, x=x)["y"])
        np.testing.assert_array_equal(found["s"], results(plain, x=x)["s"])
        np.testing.assert_array_equal(found["y"], results(program, 2, x=x)["y"])
    loaded = Manifest.from_json(program.manifest.to_json())
    assert (loaded.precision, loaded.rounded_products) == ("bf16", 2)


@needs_dots
def test_attention_and_products_of_the_step(packages: dict[str, oi.Package]) -> None:
    model = packages["block"]
    program = oi.compile(BLOCK, model, precision="bf16", sizes={"B": 1})
    assert program.manifest.rounded_products == 4
    for length in (1, 21, 40):
        seen = np.ones((1, 1, 1, length), bool)
        seen[..., length // 2 + 1 :] = False
        x = drawn(1, length, 32)
        expected = results(oi.Simulator(BLOCK, model, {"B": 1}), x=x, seen=seen)
        found = results(program, x=x, seen=seen)
        twice = results(program, 2, x=x, seen=seen)
        for name, value in expected.items():
            assert near(found[name], value), name
            np.testing.assert_array_equal(found[name], twice[name])


@pytest.mark.parametrize(
    ("target", "rows", "count"), [("avx2", 3, 2), ("avx2", 12, 0), ("generic", 3, 0)]
)
def test_without_the_instruction(
    packages: dict[str, oi.Package], target: str, rows: int, count: int
) -> None:
    """Few rows read narrow weights, which is quicker; all else keeps the arithmetic of f32."""
    model, sizes = packages["mlp"], {"B": rows}
    program = oi.compile(MLP, model, precision="bf16", target=target, sizes=sizes)
    plain = oi.compile(MLP, model, target=target, sizes=sizes)
    assert (program.manifest.precision, program.manifest.rounded_products) == ("bf16", count)
    skip_unless_it_runs(target)
    x = drawn(rows, 37)
    expected = results(oi.Simulator(MLP, model, sizes), x=x)["y"]
    found, exact = results(program, x=x)["y"], results(plain, x=x)["y"]
    assert near(found, expected, 1e-2 if count else 1e-5)
    assert np.array_equal(found, exact) == (count == 0)
    assert [row.nbytes for row in program.manifest.weights] != [
        row.nbytes for row in plain.manifest.weights
    ] or not count


def test_strict_math_forbids_it() -> None:
    with pytest.raises(oi.InputError) as caught:
        oi.compile(MLP, precision="bf16", strict_math=True)
    assert caught.value.code == "OI0528"
    assert "`strict_math`" in (caught.value.hint or "")


def test_strict_math_and_declared_dtypes(packages: dict[str, oi.Package]) -> None:
    program = oi.compile(MLP, packages["mlp"], precision="f32", strict_math=True)
    assert program.manifest.precision == "f32"


@needs_dots
def test_without_optimisation(packages: dict[str, oi.Package]) -> None:
    """Precision is what a program computes, not how fast: operands are rounded all the same."""
    model = packages["mlp"]
    program = compile_with(MLP, model, precision="bf16", optimise=False)
    assert program.manifest.rounded_products == 2
    x = drawn(9, 37)
    found, expected = results(program, x=x)["y"], results(oi.Simulator(MLP, model), x=x)["y"]
    assert near(found, expected)
    assert not near(found, expected, 1e-4)


def test_f16_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        oi.compile(MLP, precision="f16")
    assert caught.value.code == "OI0732"
    assert "bf16" in (caught.value.hint or "")


def test_descriptions_of_processors() -> None:
    plain = named_target("avx512")
    assert not plain.bf16_dot
    assert plain.with_bf16_dot().bf16_dot
    assert plain.with_bf16_dot().features == "+avx512bf16"
    off = describe_target(plain.triple, "some", {"avx2": True, "avx512bf16": False, "fma": True})
    assert not off.bf16_dot
    assert off.with_bf16_dot().features == "+avx2,+avx512bf16,+fma"
    assert off.with_bf16_dot().with_bf16_dot() == off.with_bf16_dot()


def test_tools(tmp_path: Path, packages: dict[str, oi.Package], capsys: Any) -> None:
    source, compiled = tmp_path / "mlp.oi", tmp_path / "mlp.oip"
    source.write_text(MLP)
    model = str(packages["mlp"].path)
    given = [str(source), "--model", model, "--size", "B=4"]
    assert main(["compare", *given, "--precision", "bf16"]) == 0
    assert main(["compile", *given, "--precision", "bf16", "-o", str(compiled)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(compiled)]) == 0
    count = 2 if DOTS or host_target().name != "generic" else 0
    said = f"the operands of {count} products in bf16" if count else "no product gains by bf16"
    assert said in capsys.readouterr().out
    assert main(["inspect", str(compiled), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["precision"] == {"operands": "bf16", "products": count}
    assert main(["run", str(compiled), "--precision", "bf16"]) == 2
    assert "openinfer compile" in capsys.readouterr().err
    assert opt_main([str(source), "--model", model, "--to", "nn", "--precision", "bf16"]) == 0
    assert 'precision = "bf16"' in capsys.readouterr().out
