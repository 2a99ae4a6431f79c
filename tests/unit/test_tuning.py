"""Measured tiles: their file, their way into a compilation, the command that measures them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_runs import skip_unless_it_runs

import openinfer as oi
from openinfer.compiler.api import program_key
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.tuning import Finding, Shape, depths_for, shapes_of, table, tiles_for
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.packages.oinf_writer import OinfContent
from openinfer.runtime.target import named_target
from openinfer.runtime.tuning import Tile, Tuning, cached_path, product_key, tuning_for

Capture = pytest.CaptureFixture[str]

PROGRAM = """
dynamic { x: f32[B, 96]; }
constant { W: f32[96, 80]; }
volatile { y: f32[B, 80]; z: f32[B, B]; }
block entry {
    op matmul(x, W) >> y;
    op matmul(x, x, transpose_b=true) >> z;
    return;
}
"""
KEY = "?x96x80 f32"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM, encoding="utf-8")
    weight = np.random.default_rng(0).standard_normal((96, 80), np.float32)
    oi.write_oinf(OinfContent({}, {}, {"W": weight}), tmp_path / "p.oinf")
    return path


def tuned(tile: Tile, target: str = "", key: str = KEY) -> Tuning:
    return Tuning(target or host_target().name, "test", {key: tile})


def test_a_file_says_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    tuning = Tuning("avx2", "a CPU", {KEY: Tile(3, 4), "8x512x64 f32": Tile(2, 6, 256)})
    tuning.save(path)
    assert Tuning.load(path) == tuning
    assert tuning_for(path, "avx2") == tuning
    assert tuning_for(path, "avx512") is None
    assert tuning_for(None, "avx2") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is no object"),
        ("{}", "has format None"),
        ('{"format": 1, "target": "avx2"}', "no target and cpu"),
        ('{"format": 1, "target": "a", "cpu": "", "products": []}', "no object `products`"),
        ('{"format": 1, "target": "a", "cpu": "", "products": {"k": 3}}', "vectors is None"),
        (
            '{"format": 1, "target": "a", "cpu": "", "products": {"k": {"vectors": 2, "rows": 99}}}',
            "rows is 99, not 1..32",
        ),
        (
            '{"format": 1, "target": "a", "cpu": "", "products":'
            ' {"k": {"vectors": true, "rows": 9}}}',
            "vectors is True",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(oi.InputError) as caught:
        oi.compile(oi.graph(PROGRAM), tuning=path)
    assert caught.value.code == "OI0556"
    assert words in caught.value.message


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(oi.InputError, match="OI0556"):
        oi.compile(oi.graph(PROGRAM), tuning=tmp_path / "none.json")
    assert not cached_path("no such target").exists()
    assert tuning_for("cache", "no such target") is None


@pytest.mark.parametrize(
    ("target", "tile"),
    [("generic", Tile(3, 3)), ("avx2", Tile(1, 12)), ("host", Tile(3, 8)), ("host", Tile(4, 4))],
)
def test_every_tile_gives_the_product(
    program: Path, tmp_path: Path, target: str, tile: Tile
) -> None:
    path = tmp_path / "t.json"
    tuned(tile, "" if target == "host" else target).save(path)
    package = oi.open_model(program.with_suffix(".oinf"))
    graph = oi.graph_file(program)
    compiled = oi.compile(graph, package, target=target, tuning=path)
    default = oi.compile(graph, package, target=target)
    lanes = named_target(target if target != "host" else host_target().name).vector_bits // 32
    width = tile.vectors * lanes
    packed = [row.nbytes for row in compiled.manifest.weights]
    assert packed == [-(-80 // width) * width * 96 * 4]
    assert default.parts != compiled.parts
    skip_unless_it_runs(target)
    weight = package.read("W")
    with compiled.make_executor(2) as executor:
        for rows in (1, 5, 33):
            x = np.random.default_rng(rows).standard_normal((rows, 96), np.float32)
            found = executor.run(x=x)
            np.testing.assert_allclose(found["y"], x @ weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("depth", [0, 128, 200])
def test_blocks_of_the_contraction(tmp_path: Path, depth: int) -> None:
    key = product_key(64, 640, 96, "f32")
    path = tmp_path / "t.json"
    tuned(Tile(2, 8, depth), key=key).save(path)
    text = """
    dynamic { x: f32[64, 640]; w: f32[640, 96]; } volatile { y: f32[64, 96]; }
    block entry { op matmul(x, w) >> y; return; }
    """
    random = np.random.default_rng(1)
    x, w = random.standard_normal((64, 640)), random.standard_normal((640, 96))
    with oi.compile(oi.graph(text), tuning=path).make_executor(1) as executor:
        y = executor.run(x=x.astype(np.float32), w=w.astype(np.float32))["y"]
    np.testing.assert_allclose(y, x @ w, rtol=1e-3, atol=1e-3)


def test_a_tuning_is_part_of_the_key(program: Path) -> None:
    graph = oi.graph_file(program)
    keys = {
        program_key(graph, PipelineOptions(tuning=tuning))
        for tuning in (
            *(None, tuned(Tile(2, 6), "avx2"), tuned(Tile(3, 6), "avx2")),
            tuned(Tile(2, 6), "generic"),
        )
    }
    assert len(keys) == 4
    # Where it was measured does not matter.
    one, other = Tuning("avx2", "one", {KEY: Tile(2, 6)}), Tuning("avx2", "b", {KEY: Tile(2, 6)})
    assert one.identity == other.identity


def test_products_of_a_program(program: Path) -> None:
    package = oi.open_model(program.with_suffix(".oinf"))
    options = PipelineOptions(package=package)
    (shape,) = shapes_of(oi.graph_file(program), package, options, {"B": 24})
    # x times itself has as many columns as rows: what only a step knows is not tuned.
    assert shape == Shape(KEY, None, 96, 80, "f32", True, False, (24,))


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512"])
def test_tiles_fit_into_the_registers(name: str) -> None:
    target = named_target(name)
    shape = Shape("k", None, 512, 512, "f32", True, False, (8,))
    tiles = tiles_for(shape, target)
    assert len(tiles) > 3
    for tile in tiles:
        assert tile.rows * tile.vectors + tile.vectors + 2 <= target.registers
    assert depths_for(shape) == []
    assert depths_for(Shape("k", 64, 512, 512, "f32", True, False, (64,))) == [0, 256]


def test_the_table() -> None:
    shape = Shape(KEY, None, 96, 80, "f32", True, False, (1, 24))
    found = [Finding(shape, 10.0, 8.0, Tile(2, 6, 256)), Finding(shape, 5.0, 5.0, None)]
    text = table(found, named_target("avx2"))
    assert "10.0 us      8.0 us  1.250  6x2 by 256" in text
    assert "as by default" in text
    assert "1 of 2 products" in text


def test_the_command(
    program: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openinfer.compiler.tools.tuning.tiles_for", lambda *_: [Tile(2, 6)])
    path = tmp_path / "found.json"
    arguments = ["tune", str(program), "--size", "B=4", "--seconds", "0.001", "-o", str(path)]
    assert main([*arguments, "--json"]) == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [row["product"] for row in data["products"]] == [KEY]
    assert data["output"] == str(path)
    tuning = Tuning.load(path)
    assert tuning.target == host_target().name
    assert set(tuning.tiles) <= {KEY}
    # What was measured of other programs stays.
    Tuning(tuning.target, "", {"1x1x1 f32": Tile(1, 1)}).save(path)
    nothing = tmp_path / "n.oi"
    nothing.write_text("volatile { y: i32; } block entry { return; }", encoding="utf-8")
    assert main(["tune", str(nothing), "-o", str(path)]) == 0
    assert "no matrix product" in capsys.readouterr().out
    assert Tuning.load(path).tiles == {"1x1x1 f32": Tile(1, 1)}
    assert main(["run", str(program), "--tuning", str(path)]) == 0
    assert main(["run", str(program), "--tuning", str(tmp_path / "none.json")]) == 1
    assert "OI0556" in capsys.readouterr().err
