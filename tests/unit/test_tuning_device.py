"""Measured tiles of devices: tables, what a tile must satisfy, their way into kernels, the measurement."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import VectorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocaOp

import openinfer as oi
from openinfer.compiler import pipeline, registry
from openinfer.compiler.api import program_key
from openinfer.compiler.tools import tuning_device
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.tuning_device import (
    Choice,
    DeviceFinding,
    DeviceShape,
    DeviceTuner,
    choices_for,
    shapes_of,
    table,
)
from openinfer.compiler.tools.tuning_steps import ProgramSteps, StepTimes
from openinfer.lowering.options import PipelineOptions
from openinfer.lowering.places import KNOWN_BLOCK_SIZE
from openinfer.lowering.vulkan.schedules.tile_choice import (
    why_no_matrix_tile,
    why_no_tile,
    why_no_workgroup_tile,
)
from openinfer.runtime.devices import device_of
from openinfer.runtime.devices.description import PLAIN, DeviceDescription
from openinfer.runtime.devices.vulkan.step_clock import StepClock
from openinfer.runtime.tuning_device import (
    COMMITTED,
    DeviceProduct,
    DeviceTable,
    DeviceTile,
    Measured,
    identity_of,
    own_path,
    tiles_of,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def short_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device of the tests has no clock that comes up."""
    monkeypatch.setattr(DeviceTuner, "spin_up", 0.0)


H200 = DeviceDescription(subgroup=32, shared_memory=49152, invocations=1024, matrices=True)
ASKED = DeviceProduct(64, 96, 80, "f32")
TILE = DeviceTile(32, 32, 16, 4, 4)
OTHER = DeviceTile(64, 32, 8, 8, 4)
PROGRAM = """
dynamic { x: f32[B, 96]; w: f32[96, 80]; v: f32[64, 80]; }
volatile { z: f32[B, 64]; }
block entry {
    assign h: f32[B, 80];
    op matmul(x, w) >> h;
    op matmul(h, v, transpose_b=true) >> z;
    return;
}
"""


def row(tile: DeviceTile | None, driver: str = "a driver") -> Measured:
    return Measured(tile, driver, "2026-11-24", 2.5, 1.5, "as seen")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


# Tables.


def test_a_file_says_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    other = DeviceProduct(128, 384, 1536, "f16", transposed=True, matrices=True)
    found = DeviceTable({"a": {ASKED: row(TILE), other: row(None)}, 'b "c"': {}})
    found.save(path)
    assert DeviceTable.load(path) == found
    assert DeviceTable.load(path).rows_of("none") == {}
    more = found.with_row("a", other, row(OTHER)).with_row("d", ASKED, row(TILE))
    assert more.rows_of("a") == {ASKED: row(TILE), other: row(OTHER)}
    assert more.rows_of("d") == {ASKED: row(TILE)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "the file is no object"),
        ("{}", "has format None"),
        ('{"format": 1, "devices": []}', "`devices` is no object"),
        ('{"format": 1, "devices": {"a": 3}}', "the rows of 'a' is no object"),
        ('{"format": 1, "devices": {"a": {"4x4 f32": {}}}}', "names no product: '4x4 f32'"),
        ('{"format": 1, "devices": {"a": {"04x4x4 f32": {}}}}', "names no product"),
        ('{"format": 1, "devices": {"a": {"4x4x4 f32": {}}}}', "5 or 6 numbers"),
        ('{"format": 1, "devices": {"a": {"4x4x4 f32": {"tile": [1, 2, 3, 4, 0]}}}}', "from 1 to"),
        ('{"format": 1, "devices": {"a": {"4x4x4 f32": {"tile": [1, 2, 3, 4, true]}}}}', "from 1"),
        ('{"format": 1, "devices": {"a": {"4x4x4 f32": {"tile": null}}}}', "are texts"),
        (
            '{"format": 1, "devices": {"a": {"4x4x4 f32":'
            ' {"tile": null, "driver": "", "date": "", "best_us": NaN}}}}',
            "no time",
        ),
    ],
)
def test_bad_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(oi.InputError) as caught:
        DeviceTable.load(path)
    assert caught.value.code == "OI0556"
    assert words in caught.value.message


def test_a_row_of_the_device_and_the_rows_of_its_user_which_win(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, third = replace(ASKED, rows=128), replace(ASKED, rows=256)
    committed = DeviceTable({"a": {ASKED: row(TILE), second: row(TILE), third: row(TILE)}})
    monkeypatch.setattr("openinfer.runtime.tuning_device._committed", lambda: committed)
    assert tiles_of("a") == {ASKED: TILE, second: TILE, third: TILE}
    assert tiles_of("unknown") == {}
    # What was measured here wins, also where that was the default.
    DeviceTable({"a": {ASKED: row(OTHER), second: row(None)}, "b": {}}).save(own_path("a"))
    assert tiles_of("a") == {ASKED: OTHER, third: TILE}
    file = folder / "more.json"
    DeviceTable({"a": {third: row(OTHER)}, "unknown": {ASKED: row(TILE)}}).save(file)
    assert tiles_of("a", file) == {ASKED: OTHER, third: OTHER}
    assert tiles_of("unknown", file) == {ASKED: TILE}
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    assert tiles_of("a") == {ASKED: TILE, second: TILE, third: TILE}
    assert own_path("a") != own_path("A")


def test_what_openinfer_has_of_devices_can_be() -> None:
    rows = DeviceTable.load(COMMITTED).rows_of("NVIDIA H200")
    assert {(p.rows, p.depth, p.columns) for p in rows} >= {(128, 384, 1536), (128, 1536, 384)}
    for product, one in rows.items():
        assert one.driver
        assert one.date
        assert one.tile is not None
        assert product.matrices != product.workgroup
        if product.workgroup:
            assert why_no_workgroup_tile(one.tile, H200) is None
        else:
            assert why_no_matrix_tile(one.tile, product.transposed, H200) is None


# What a tile must satisfy.


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((128, 128, 32, 64, 64), None),
        ((128, 192, 32, 64, 48), None),
        ((16, 32, 128, 16, 16, 4), None),
        ((128, 128, 32, 48, 64), "no multiples of 48x64"),
        ((32, 32, 64, 8, 16), "no multiples of 16"),
        ((32, 32, 48, 16, 16, 2), "48 steps over 2 subgroups"),
        ((32, 32, 40, 16, 16), "40 steps over 1 subgroups"),
        ((256, 256, 32, 32, 32), "it takes 2048 invocations, the device has 1024"),
        ((96, 64, 32, 32, 32), "its 192 invocations are no power of two"),
        (
            (16, 128, 32, 16, 32, 2),
            "16 rows by 32 steps in accesses of 8 are no multiple of its 256",
        ),
        ((128, 16, 32, 32, 16, 2), "16 columns by 32 steps"),
        ((128, 128, 128, 64, 64), "bytes of shared memory of 49152"),
        ((128, 128, 32, 128, 64), "more than 24 matrices"),
        ((64, 96, 64, 32, 48, 2), None),
    ],
)
def test_tiles_of_matrices(numbers: tuple[int, ...], words: str | None) -> None:
    reason = why_no_matrix_tile(DeviceTile(*numbers), True, H200)
    assert (reason is None) == (words is None)
    assert words is None or words in str(reason)


def test_how_the_right_operand_lies_decides_whether_a_tile_fits() -> None:
    tile = DeviceTile(32, 64, 192, 32, 16, 2)
    assert why_no_matrix_tile(tile, True, H200) is None
    assert "50688 bytes of shared memory" in str(why_no_matrix_tile(tile, False, H200))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((128, 128, 16, 8, 8), "20480 bytes of shared memory of 16384"),
        ((64, 64, 16, 4, 4), None),
        ((64, 64, 8, 4, 4), "64 rows by 8 steps in accesses of 4 are no multiple of its 256"),
        ((32, 32, 16, 4, 4), None),
        ((32, 32, 16, 4, 4, 2), "do not share sums"),
        ((32, 36, 16, 4, 8), "no multiples of 4x8"),
        ((32, 48, 16, 4, 4), "its 96 invocations are no power of two"),
        ((128, 64, 8, 4, 4), "it takes 512 invocations, the device has 256"),
        ((64, 64, 16, 16, 16), "more than 128 sums"),
        ((16, 256, 4, 4, 8), "16 rows by 4 steps in accesses of 4 are no multiple of its 128"),
    ],
)
def test_tiles_without_matrices(numbers: tuple[int, ...], words: str | None) -> None:
    """On what every device has."""
    reason = why_no_tile(DeviceTile(*numbers), 32, PLAIN)
    assert (reason is None) == (words is None)
    assert words is None or words in str(reason)


@pytest.mark.parametrize(("device", "matrices"), [(PLAIN, False), (H200, False), (H200, True)])
def test_what_is_tried_can_be(device: DeviceDescription, matrices: bool) -> None:
    asked = DeviceProduct(8192, 384, 1536, "f16", True, matrices)
    for batch in (128, 8192):
        choices = choices_for(DeviceShape(asked, batch, by_workgroups=matrices), device)
        assert len(choices) > 8
        assert len(set(choices)) == len(choices)
        for choice in choices:
            tile = choice.tile
            assert batch % tile.rows == 0 or batch == asked.rows
            assert choice.product in (asked, replace(asked, matrices=False, workgroup=True))
            if choice.product.workgroup:
                assert why_no_workgroup_tile(tile, device) is None
            elif matrices:
                assert why_no_matrix_tile(tile, True, device) is None
            else:
                assert why_no_tile(tile, 32, device) is None
        by_workgroups = {choice.tile for choice in choices if choice.product.workgroup}
        assert (DeviceTile(128, 192, 64, 64, 48) in by_workgroups) == matrices
    tried = tiles_of_choices(DeviceShape(asked, 128), H200)
    assert (DeviceTile(128, 192, 32, 64, 48) in tried) == matrices


def tiles_of_choices(shape: DeviceShape, device: DeviceDescription) -> list[DeviceTile]:
    return [choice.tile for choice in choices_for(shape, device)]


def test_a_table_says_of_each_form_what_is_quickest() -> None:
    """A row of another form, which would win, goes."""
    asked = DeviceProduct(8192, 384, 1536, "f16", True, True)
    whole = replace(asked, matrices=False, workgroup=True)
    shape = DeviceShape(asked, 8192, by_workgroups=True)
    for choice in (Choice(asked, TILE), Choice(whole, TILE), None):
        kept = {choice.product: TILE} if choice else {}
        assert DeviceFinding(shape, 4.0, 2.0, choice, 9).rows == {
            asked: kept.get(asked),
            whole: kept.get(whole),
        }
    assert str(Choice(whole, TILE)) == f"{TILE}, by workgroups"


# Into kernels.


def test_tiles_are_part_of_the_key() -> None:
    graph = oi.graph(PROGRAM)
    choices: list[dict[DeviceProduct, DeviceTile]] = [{}, {ASKED: TILE}, {ASKED: OTHER}]
    keys = {
        program_key(graph, PipelineOptions(device="null", device_tiles=tiles)) for tiles in choices
    }
    assert len(keys) == 3
    assert len({identity_of(tiles) for tiles in choices}) == 3
    both = {ASKED: TILE, replace(ASKED, rows=9): OTHER}
    assert identity_of(both) == identity_of(dict(reversed(both.items())))
    assert replace(H200, tiles={ASKED: TILE}).key != H200.key
    assert replace(H200, tiles={ASKED: TILE}).within("scalar").tiles == {ASKED: TILE}


def kernels_on(device: DeviceDescription, text: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions of the kernels of a program for a device that need not be here."""
    monkeypatch.setattr(PipelineOptions, "device_description", lambda _: device)
    chosen = options({})
    module = oi.graph(text).module_with(None, {}).clone()
    pipeline.run(module, registry.make_context(), "vulkan", stop="kernels", options=chosen)
    return [f for f in module.walk() if isinstance(f, FuncOp) and KNOWN_BLOCK_SIZE in f.attributes]


def shared_of(kernel: FuncOp) -> list[str]:
    """The shapes of its shared buffers."""
    buffers = [op.memref.type for op in kernel.walk() if isinstance(op, AllocaOp)]
    return ["x".join(map(str, kind.get_shape())) for kind in buffers]


@pytest.mark.parametrize(
    ("name", "batches", "first", "second"),
    [
        ("NVIDIA H200", 1, {"32x25", "64x25"}, {"16x33", "32x33"}),
        # Nobody has measured this: 32 x 32 and 16 x 32, as by default.
        ("NVIDIA H200", 2, {"32x9"}, {"16x17", "32x17"}),
        # One product has a row, the other has none.
        ("NVIDIA H100 80GB HBM3", 64, {"128x9"}, {"128x5"}),
    ],
)
def test_rows_of_openinfer_reach_the_products_of_minilm(
    name: str,
    batches: int,
    first: set[str],
    second: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = f"""
    dynamic {{ x: f16[{batches}, 128, 384]; v: f16[1536, 384]; w: f16[384, 1536]; }}
    volatile {{ y: f16[{batches}, 128, 384]; }}
    block entry {{
        assign h: f16[{batches}, 128, 1536];
        op matmul(x, v, transpose_b=true) >> h;
        op gelu(h) >> h;
        op matmul(h, w, transpose_b=true) >> y;
        return;
    }}
    """
    device = replace(H200, tiles=tiles_of(name))
    found = [shared_of(kernel) for kernel in kernels_on(device, text, monkeypatch)]
    assert [set(shapes) >= wanted for shapes, wanted in zip(found, (first, second))] == [True] * 2


def test_tiles_that_are_tried_take_no_more_shared_memory_than_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a schedule allocates is what the check counts with."""
    asked = DeviceProduct(128, 384, 1536, "f16", True, True)
    text = """
    dynamic { x: f16[128, 384]; w: f16[1536, 384]; } volatile { y: f16[128, 1536]; }
    block entry { op matmul(x, w, transpose_b=true) >> y; return; }
    """
    tiles = tiles_of_choices(DeviceShape(asked, 128), H200)[::6]
    for tile in [*tiles, DeviceTile(128, 192, 32, 64, 48)]:
        (kernel,) = kernels_on(replace(H200, tiles={asked: tile}), text, monkeypatch)
        buffers = [op.memref.type for op in kernel.walk() if isinstance(op, AllocaOp)]
        assert f"{tile.rows}x{tile.depth // 8 + 1}" in shared_of(kernel)
        assert sum(nbytes_of(kind) for kind in buffers) <= H200.shared_memory


def nbytes_of(kind: Any) -> int:
    element = kind.element_type
    size = (
        prod(element.get_shape()) * element.element_type.size
        if isinstance(element, VectorType)
        else element.size
    )
    return prod(kind.get_shape()) * size


def products(rows: int) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    shapes = {"x": (rows, 96), "w": (96, 80), "v": (64, 80)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def test_a_file_of_the_user_changes_the_kernel(folder: Path, vulkan: None) -> None:
    identity = device_of("vulkan").identity()
    assert identity is not None
    device = identity[0]
    default = oi.compile(PROGRAM, device="vulkan", sizes={"B": 64})
    file = folder / "t.json"
    DeviceTable({device: {ASKED: row(OTHER)}}).save(file)
    by_file = oi.compile(PROGRAM, device="vulkan", sizes={"B": 64}, tuning=file)
    DeviceTable({device: {ASKED: row(TILE)}}).save(own_path(device))
    own = oi.compile(PROGRAM, device="vulkan", sizes={"B": 64})
    programs = (default, by_file, own)
    assert len({program.parts["matmul_0.spv"] for program in programs}) == 3
    assert len({program.parts["matmul_1.spv"] for program in programs}) == 1
    given = products(64)
    expected = given["x"] @ given["w"] @ given["v"].T
    for program in programs:
        with program.make_executor() as executor:
            found = executor.run(**given)["z"]
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_a_wrong_row_is_refused_and_not_run(folder: Path, vulkan: None) -> None:
    identity = device_of("vulkan").identity()
    assert identity is not None
    wrong = DeviceTile(32, 48, 16, 4, 4)
    DeviceTable({identity[0]: {ASKED: row(wrong)}}).save(own_path(identity[0]))
    with pytest.raises(oi.InputError) as caught:
        oi.compile(PROGRAM, device="vulkan", sizes={"B": 64})
    assert caught.value.code == "OI0532"
    assert "32x48 by 16, each 4x4 of the product 64x96x80 f32" in caught.value.message
    own_path(identity[0]).write_text("{}")
    with pytest.raises(oi.InputError, match="OI0556"):
        oi.compile(PROGRAM, device="vulkan", sizes={"B": 64})


# The measurement.


def options(sizes: dict[str, int]) -> PipelineOptions:
    return PipelineOptions(device="vulkan", sizes=sizes)


def test_products_of_a_program(vulkan: None) -> None:
    second = DeviceProduct(64, 80, 64, "f32", transposed=True)
    found = shapes_of(oi.graph(PROGRAM), None, options({"B": 64}))
    assert found == [DeviceShape(ASKED, 64), DeviceShape(second, 64)]
    # Of unknown rows, and of few.
    assert shapes_of(oi.graph(PROGRAM), None, options({})) == []
    assert shapes_of(oi.graph(PROGRAM), None, options({"B": 8})) == []


def test_batches_that_share_the_right_operand_are_rows(vulkan: None) -> None:
    text = """
    dynamic { x: f32[4, 32, 96]; w: f32[96, 80]; m: f32[4, 96, 80]; }
    volatile { y: f32[4, 32, 80]; z: f32[4, 32, 80]; }
    block entry { op matmul(x, w) >> y; op matmul(x, m) >> z; return; }
    """
    found = shapes_of(oi.graph(text), None, options({}))
    assert found == [DeviceShape(replace(ASKED, rows=128), 32)]


@pytest.mark.parametrize("asked", [ASKED, DeviceProduct(70, 90, 77, "f16", True)])
@pytest.mark.parametrize(
    "tile", [TILE, OTHER, DeviceTile(32, 64, 32, 2, 4), DeviceTile(32, 32, 32, 2, 4)]
)
def test_tiles_are_right_on_a_device(vulkan: None, asked: DeviceProduct, tile: DeviceTile) -> None:
    """With edges and without."""
    assert DeviceTuner(options({}), 0.01).why_wrong(Choice(asked, tile)) is None


class Told:
    """Steps of a program that take what they are told to."""

    def __init__(self, *times: StepTimes | None) -> None:
        self._times = list(times)

    def against(self, *_: Any) -> StepTimes | None:
        return self._times.pop(0)


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        ([None], TILE),  # There are no steps: the product by itself decides.
        ([StepTimes(100, 99, 1.0), StepTimes(100, 100, 0.5)], TILE),
        ([StepTimes(100, 99.9, 1.0), StepTimes(100, 98, 0.8)], OTHER),
        ([StepTimes(100, 99.99, 1.0), StepTimes(100, 101, 0.0)], None),  # Less than 3 % of it.
        ([StepTimes(100, 90, 0.6), StepTimes(100, 100, 0.5)], None),  # No quicker in most turns.
    ],
)
def test_steps_of_the_program_decide(
    monkeypatch: pytest.MonkeyPatch,
    vulkan: None,
    times: list[StepTimes | None],
    kept: DeviceTile | None,
) -> None:
    """`TILE` takes 5 us by itself, `OTHER` 6, the default 8."""
    first, second = Choice(ASKED, TILE), Choice(ASKED, OTHER)
    alone = {None: 8.0, first: 5.0, second: 6.0}
    monkeypatch.setattr(tuning_device, "choices_for", lambda *_: [first, second])
    monkeypatch.setattr(
        DeviceTuner, "_race", lambda _, asked, choices, *__: {c: alone[c] for c in choices}
    )
    monkeypatch.setattr(DeviceTuner, "why_wrong", lambda *_: None)
    steps: Any = Told(*times)
    found = DeviceTuner(options({}), 0.01, steps).measure(DeviceShape(ASKED, 64))
    assert (found.choice and found.choice.tile) == kept
    assert found.best == alone[found.choice]
    assert (found.steps is None) == (times[0] is None)


def test_steps_of_a_program_with_a_tile(folder: Path, vulkan: None) -> None:
    graph = oi.graph(PROGRAM)
    with ProgramSteps(graph, None, options({"B": 64})) as steps:
        times = steps.against([ASKED], (ASKED, TILE), 0.01)
        assert times is not None
        assert min(times.default, times.tile) > 0
        with pytest.raises(oi.InputError, match="OI0532"):
            steps.against([ASKED], (ASKED, DeviceTile(32, 48, 16, 4, 4)), 0.01)
    keeps = oi.graph(
        "dynamic { x: f32[64, 96]; } persistent { s: f32[64, 80] @init(0.0); } constant"
        " { w: f32[96, 80] @init(0.5); } block entry { y = op matmul(x, w); op add(y, s) >> s; return; }"
    )
    with ProgramSteps(keeps, None, options({})) as steps:
        assert steps.against([ASKED], (ASKED, TILE), 0.01) is None
    # Of 64 numbers that are drawn some are 1.
    fails = oi.graph(
        "dynamic { k: i64[64]; } constant { t: f32[1, 80] @init(0.5); }"
        " block entry { y = op gather(t, k); return y; }"
    )
    with ProgramSteps(fails, None, options({})) as steps:
        assert steps.against([ASKED], (ASKED, TILE), 0.01) is None


class Wrong:
    """An executor that computes one element wrongly."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Wrong:
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.close()

    def run(self, **inputs: Any) -> dict[str, Any]:
        y = np.array(self._inner.run(**inputs)["y"])
        y[-1, -1] += 0.01
        return {"y": y}


def test_a_wrong_result_is_not_timed(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    make = DeviceTuner._executor  # pyright: ignore[reportPrivateUsage]

    good, bad = Choice(ASKED, TILE), Choice(ASKED, OTHER)

    def executor(self: DeviceTuner, asked: DeviceProduct, choice: Choice | None) -> Any:
        made = make(self, asked, choice)
        return Wrong(made) if choice is not None and choice.tile == OTHER else made

    monkeypatch.setattr(DeviceTuner, "_executor", executor)
    monkeypatch.setattr(tuning_device, "choices_for", lambda *_: [bad, good])
    found = DeviceTuner(options({}), 0.01).measure(DeviceShape(ASKED, 64))
    assert found.refused == {bad: "1 of 3072 elements of 64x16x48 f32 are wrong"}
    assert found.choice in (None, good)
    assert found.default > 0
    assert found.tried == 2


def test_the_command_goes_on_where_it_stopped(
    folder: Path, vulkan: None, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    asked: list[str] = []
    stopping = [True]

    def measure(self: DeviceTuner, shape: DeviceShape) -> DeviceFinding:
        if len(asked) == 1 and stopping[0]:
            raise KeyboardInterrupt
        asked.append(str(shape.product))
        return DeviceFinding(shape, 4.0, 2.0, Choice(shape.product, TILE), 1)

    monkeypatch.setattr(DeviceTuner, "measure", measure)
    path, output = folder / "p.oi", folder / "t.json"
    path.write_text(PROGRAM)
    line = ["tune", str(path), "--device", "vulkan", "--size", "B=64", "-o", str(output)]
    assert main(line) not in (0, 1, 2)
    assert asked == ["64x96x80 f32"]
    assert len(next(iter(DeviceTable.load(output).devices.values()))) == 1
    stopping[0] = False
    capsys.readouterr()
    assert main([*line, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["known"], data["left"]) == (1, 0)
    assert asked == ["64x96x80 f32", "64x80x64 f32 transposed"]
    assert main(line) == 0
    assert "2 of 2 products were measured before" in capsys.readouterr().out
    # Another driver has other times.
    text = output.read_text().replace('"driver": "', '"driver": "old ')
    output.write_text(text)
    assert main(line) == 0
    assert len(asked) == 4


def test_the_command_on_a_device(
    folder: Path, vulkan: None, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    choices = [Choice(ASKED, TILE), Choice(ASKED, OTHER)]
    monkeypatch.setattr(tuning_device, "choices_for", lambda *_: choices)
    path = folder / "p.oi"
    path.write_text(PROGRAM)
    line = ["tune", str(path), "--device", "vulkan", "--size", "B=64"]
    line += ["--seconds", "0.01", "--minutes", "0.0001"]
    assert main([*line, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    device, driver = device_of("vulkan").identity() or ("", "")
    assert (data["device"], data["driver"]) == (device, driver)
    (one,) = data["products"]
    assert (one["product"], one["tried"], one["refused"]) == (str(ASKED), 2, {})
    # One product in any case; the other one is for the next call.
    assert (data["known"], data["left"]) == (0, 1)
    found = DeviceTable.load(own_path(device)).rows_of(device)
    assert list(found) == [ASKED]
    assert found[ASKED].driver == driver
    assert found[ASKED].tile == DeviceTile.of(one["tile"])
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "1 of 2 products were measured before" in said
    assert "64x80x64 f32 transposed" in said
    unwritten = ["-o", str(folder / "unwritten.json")]
    assert main([*line[:4], "--seconds", "0.01", *unwritten]) == 0
    said = capsys.readouterr().out
    assert "no matrix product of known sizes" in said
    assert "unwritten.json" not in said
    assert main([*line, "--minutes", "0"]) == 2
    assert "--minutes takes a number above 0" in capsys.readouterr().err
    monkeypatch.setenv("OPENINFER_CACHE", "off")
    assert main(line) == 2
    assert "name a file with -o" in capsys.readouterr().err


def test_a_device_without_a_clock(vulkan: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StepClock, "add", lambda *_: None)
    with pytest.raises(oi.UnsupportedError, match="OI0776"):
        DeviceTuner(options({}), 0.01).measure(DeviceShape(ASKED, 64))


def test_the_table() -> None:
    shape = DeviceShape(ASKED, 64)
    found = [
        DeviceFinding(
            shape,
            10.0,
            8.0,
            Choice(ASKED, TILE),
            9,
            {Choice(ASKED, OTHER): "3 of 9 elements are wrong"},
        ),
        DeviceFinding(shape, 5.0, 5.0, None, 2),
    ]
    text = table(found, "a device")
    assert "10.0 us      8.0 us  1.250      9  32x32 by 16, each 4x4" in text
    assert "1 tiles refused, as 64x32 by 8, each 8x4: 3 of 9 elements are wrong" in text
    assert "as by default" in text
    assert "1 of 2 products have a quicker tile on a device" in text
