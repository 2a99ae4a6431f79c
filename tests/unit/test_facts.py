"""A dump is the whole program: what goes on from it repeats no option and loses no line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.compiler import pipeline, registry
from openinfer.compiler.api import Graph
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.manifest_of import manifest_of
from openinfer.compiler.text import module_text
from openinfer.compiler.tools.openinfer_opt import main
from openinfer.lowering.cpu.emit_llvm import emit_llvm
from openinfer.lowering.facts import Facts
from openinfer.lowering.locations import location_of
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.devices.description import DeviceDescription
from openinfer.runtime.errors import InputError, StepError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.microarchitecture import Microarchitecture
from openinfer.runtime.program import HOST, Program
from openinfer.runtime.target import TARGETS
from openinfer.runtime.tuning import Tile, Tuning
from openinfer.runtime.tuning_device import DeviceProduct, DeviceTile

Capture = pytest.CaptureFixture[str]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LEVELS = [phase.name for phase in pipeline.PIPELINES["cpu"]]
NATIVE = cpu_unavailable_reason() is None
native = pytest.mark.skipif(not NATIVE, reason="no native code here")

TILED = Tuning("avx2", "", {"?x64x64 f32": Tile(1, 5, 16)})
BUILDS = {
    "plain": PipelineOptions(target_name="avx2"),
    "generic": PipelineOptions(target_name="generic"),
    "strict": PipelineOptions(target_name="avx2", strict_math=True),
    "bf16": PipelineOptions(target_name="avx512", precision="bf16"),
    "tuned": PipelineOptions(target_name="avx2", tuning=TILED),
    "observed": PipelineOptions(target_name="avx2", observe=True),
    "traced": PipelineOptions(target_name="avx2", trace=True),
    "host": PipelineOptions(precision="bf16"),
}

PROGRAM = """\
dynamic { x: f32[B, 64]; i: i64; }
persistent { n: i32; K(t): f32[64] @table; }
volatile { y: f32[B, 64]; z: f32[64]; W: f32[64, 64] @init(0.5); }
block entry {
    assign h: f32[B, 64];
    assign p: f32[B, 64];
    op matmul(x, W) >> h;
    op softmax(h) >> p;
    loop l (k in 0..3) {
        op matmul(p, W) >> h;
        op softmax(h) >> p;
    }
    op sum_axis(p, axes=[0]) >> z;
    cache.write z >> K[n];
    cache.increment n;
    cache.read K[i] >> z;
    op add(p, h) >> y;
    return y, z;
}
"""


@cache
def built(build: str) -> dict[str, str]:
    """`levels_of` the program above in one of the builds."""
    return levels_of(BUILDS[build], PROGRAM)


def levels_of(options: PipelineOptions, text: str) -> dict[str, str]:
    """The text of each level of a program, as a dump has it, and its LLVM IR."""
    found: dict[str, str] = {}
    context = registry.make_context()
    module = Graph(text, "p.oi").module.clone()

    def keep(level: str, reached: ModuleOp) -> None:
        found[level] = module_text(reached, context)

    pipeline.run(module, context, options=options, on_phase=keep)
    found["llvm-ir"] = emit_llvm(module, Facts.of(module).target)
    return found


def read(text: str) -> ModuleOp:
    source = parse_ir(text, "dump.mlir", registry.make_context())
    source.verify()
    return source.module


def resumed(text: str, level: str) -> ModuleOp:
    """The module of level `llvm` that the text of a level becomes, without any option."""
    module = read(text)
    pipeline.run(module, registry.make_context(), start=level)
    return module


def _no_host() -> None:
    raise AssertionError("the host was asked for")


@pytest.mark.parametrize("build", BUILDS)
def test_what_goes_on_from_a_level_is_what_was_not_stopped(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same LLVM IR, with the lines of the program in its comments, and nobody asks the host."""
    if build == "host" and not NATIVE:
        pytest.skip("no native code here")
    levels = built(build)
    # A traced build names nodes instead.
    assert build == "traced" or "; p.oi:7" in levels["llvm-ir"]
    monkeypatch.setattr("openinfer.runtime.devices.cpu.codegen.host_target", _no_host)
    for level in LEVELS:
        module = resumed(levels[level], level)
        assert emit_llvm(module, Facts.of(module).target) == levels["llvm-ir"], level


def test_builds_differ() -> None:
    """None of the builds above is another one under another name."""
    names = [name for name in BUILDS if NATIVE or name != "host"]
    assert len({built(name)["llvm-ir"] for name in names}) == len(names)


@pytest.mark.parametrize("name", ["mlp", "guard"])
def test_examples_go_on_as_they_were(name: str) -> None:
    with oi.open_model(EXAMPLES / f"{name}.oinf") as package:
        options = PipelineOptions(package=package, target_name="avx2", trace=True)
        text = (EXAMPLES / f"{name}.oi").read_text()
        levels = levels_of(options, text)
    for level in LEVELS:
        module = resumed(levels[level], level)
        assert emit_llvm(module, Facts.of(module).target) == levels["llvm-ir"], level


# Lines.


@pytest.mark.parametrize("build", ["plain", "traced", "observed"])
def test_every_location_comes_back(build: str) -> None:
    context = registry.make_context()
    module = Graph(PROGRAM, "p.oi").module.clone()
    compared: list[str] = []

    def compare(level: str, reached: ModuleOp) -> None:
        again = read(module_text(reached, context))
        pairs = list(zip(reached.walk(), again.walk(), strict=True))
        assert [(o.name, o.location) for o, _ in pairs] == [(o.name, o.location) for _, o in pairs]
        compared.append(level)

    pipeline.run(module, context, options=BUILDS[build], on_phase=compare)
    assert compared == LEVELS


def test_a_dump_says_a_line_once_for_each_node() -> None:
    lines = built("plain")["nn"].splitlines()
    product = [line for line in lines if 'loc("p.oi":7:5)' in line]
    assert len(product) == 1
    assert sum("loc(" in line for line in lines) < len(lines) / 2


EDITED = """\
func.func @f(%a: i32, %e: i1) -> i32 {
  %b = arith.addi %a, %a : i32 loc("p.oi":1:2)
  %c = arith.muli %b, %a : i32
  scf.if %e {
    %f = arith.subi %c, %a : i32
    %g = arith.addi %f, %a : i32 loc("p.oi":3:4)
  } loc("p.oi":5:6)
  scf.if %e {
  }
  %d = arith.muli %c, %a : i32 loc(unknown)
  func.return %d : i32
}
func.func @g() {
  func.return
}
"""


def test_an_op_without_a_location_has_that_of_the_op_before() -> None:
    """Also behind an `if`, and for terminators that nobody writes; what a function holds ends with it."""
    found = [(op.name, str(location_of(op))) for op in read(EDITED).walk()]
    assert found == [
        ("builtin.module", "None"),
        ("func.func", "None"),
        ("arith.addi", "p.oi:1:2"),
        ("arith.muli", "p.oi:1:2"),
        ("scf.if", "p.oi:5:6"),
        ("arith.subi", "p.oi:1:2"),
        ("arith.addi", "p.oi:3:4"),
        ("scf.yield", "p.oi:5:6"),
        ("scf.if", "p.oi:5:6"),
        ("scf.yield", "p.oi:5:6"),
        ("arith.muli", "None"),
        ("func.return", "None"),
        ("func.func", "None"),
        ("func.return", "None"),
    ]


# What only running shows.


@cache
def program_from(level: str, traced: bool) -> Program:
    """The program compiled as a whole (`level` is empty) or on from the text of a level."""
    from openinfer.runtime.devices.cpu.codegen import compile_llvm_text

    options = replace(PipelineOptions(), trace=traced)
    context = registry.make_context()
    module = Graph(PROGRAM, "p.oi").module.clone()
    if level:
        pipeline.run(module, context, stop=level, options=options)
        module = resumed(module_text(module, context), level)
    else:
        pipeline.run(module, context, options=options)
    target = Facts.of(module).target
    code = compile_llvm_text(emit_llvm(module, target), target)
    program = Program(manifest_of(module, "cpu", "p.oi", None), {HOST: code}, None)
    if not traced:
        program.make_traced = lambda: program_from(level, True)
    return program


def events(level: str) -> Iterator[tuple[object, ...]]:
    with program_from(level, False).make_executor(trace=True) as executor:
        executor.run(x=np.zeros((2, 64), np.float32), i=np.int64(0))
        for event in executor.trace():
            yield event.kind, event.kernel, event.node_index, event.location, event.places


@native
@pytest.mark.parametrize("level", LEVELS)
def test_the_trace_of_a_resumed_program_names_the_same_lines(level: str) -> None:
    found = list(events(level))
    assert found == list(events(""))
    assert any(str(place) == "p.oi:7:5" for event in found for place in [event[3]])


@native
@pytest.mark.parametrize("level", LEVELS)
def test_the_error_of_a_resumed_program_names_the_same_line(level: str) -> None:
    def message(start: str) -> str:
        with program_from(start, False).make_executor() as executor:
            with pytest.raises(StepError) as caught:
                executor.run(x=np.zeros((2, 64), np.float32), i=np.int64(-7))
        return str(caught.value)

    assert message(level) == message("")
    assert "p.oi:16" in message(level)


# Options of a module that is bound.


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    program = folder / "p.oi"
    program.write_text(
        "dynamic { x: f32[B, 4]; }\nvolatile { y: f32[B, 4]; }\n"
        "block entry { op exp(x) >> y; return; }\n"
    )
    flags = ["--size", "B=2", "--target-cpu", "avx2", "--dump-dir", str(folder)]
    assert main([str(program), *flags]) == 0
    return folder


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--strict-math"], "bound without"),
        (["--observe"], "bound without"),
        (["--trace"], "bound without"),
        (["--precision", "bf16"], "bound without"),
        (["--target-cpu", "avx512"], "bound for avx2 (x86-64-v3)"),
        (["--size", "B=3"], "bound with B=2"),
        (["--size", "Q=3"], "bound without"),
        (["--strict"], "binding a program"),
        (["--model", str(EXAMPLES / "mlp.oinf")], "binding a program"),
    ],
)
def test_an_option_that_contradicts_the_module(
    dumps: Path, capsys: Capture, level: str, flags: list[str], found: str
) -> None:
    path = next(dumps.glob(f"0*-{level}.mlir"))
    for command in (["--from", level], ["-p", "cse"]):
        assert main([str(path), *command, *flags]) == 1
        error = capsys.readouterr().err
        assert "error[OI0524]" in error
        assert found in error
        assert "leave it out" in error


@pytest.mark.parametrize("level", LEVELS)
def test_an_option_that_says_the_same(dumps: Path, capsys: Capture, level: str) -> None:
    path = next(dumps.glob(f"0*-{level}.mlir"))
    assert main([str(path), "--from", level]) == 0
    plain = capsys.readouterr().out
    assert main([str(path), "--from", level, "--target-cpu", "avx2", "--size", "B=2"]) == 0
    assert capsys.readouterr().out == plain


def test_the_header_repeats_no_flag(dumps: Path) -> None:
    header = next(dumps.glob("0*-nn.mlir")).read_text().splitlines()[1]
    assert header == "//   openinfer-opt 01-nn.mlir --pipeline cpu --from nn"


def test_a_module_that_says_nothing_takes_the_options(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.mlir"
    path.write_text("func.func @f() { func.return }\n")
    assert main([str(path), "-p", "cse", "--strict-math", "--target-cpu", "avx2"]) == 0
    said = 'builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math} {'
    assert capsys.readouterr().out.startswith(said)
    assert main([str(path), "-p", "cse", "--observe"]) == 0
    said = 'builtin.module attributes {openinfer.target = "generic", openinfer.observed} {'
    assert capsys.readouterr().out.startswith(said)
    assert main([str(path), "-p", "cse"]) == 0
    assert capsys.readouterr().out.startswith("builtin.module {")


def test_options_do_not_replace_what_a_module_says(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.mlir"
    said = "builtin.module attributes {openinfer.strict_math} {"
    path.write_text(f"{said}\n  func.func @f() {{ func.return }}\n}}\n")
    assert main([str(path), "-p", "cse", "--observe"]) == 1
    assert "error[OI0524]" in capsys.readouterr().err
    assert main([str(path), "-p", "cse", "--strict-math"]) == 0
    assert capsys.readouterr().out.startswith(said)


def test_binding_keeps_the_facts_of_a_program(tmp_path: Path, capsys: Capture) -> None:
    """A program that names nothing of a package is bound again without a word of the options."""
    path = tmp_path / "p.mlir"
    path.write_text(
        'builtin.module attributes {openinfer.target = "generic", openinfer.strict_math} {\n'
        "  graph.variable x dynamic f32 [4]\n  graph.variable y volatile f32 [4]\n"
        "  graph.block entry {\n    graph.op exp(x) -> (y)\n    graph.return\n  }\n}\n"
    )
    assert main([str(path), "--to", "nn"]) == 0
    out = capsys.readouterr().out
    assert 'attributes {openinfer.target = "generic", openinfer.strict_math} {' in out


# Attributes.


def test_facts_come_back_as_they_were_written() -> None:
    target = replace(TARGETS["avx512"], cpu="znver5", features="+a,-b", triple="t", last_cache=7)
    target = replace(target, measured=Microarchitecture(panels=2, ahead=0))
    tiles = {"4x64x32 f32": Tile(2, 8, 0), "?x64x32 f32": Tile(1, 5), "9x64x32 f64": Tile(1, 1, 64)}
    product = DeviceProduct(128, 384, 1536, "f16", transposed=True, matrices=True)
    device = DeviceDescription(
        subgroup=32,
        shared_memory=49152,
        invocations=1024,
        matrices=True,
        f64=True,
        tiles={product: DeviceTile(32, 64, 192, 32, 16, 2)},
    )
    for facts in (
        Facts(),
        Facts(target, True, "bf16", tiles, True, True),
        Facts(device="vulkan", device_description=device),
    ):
        module = ModuleOp([])
        facts.write(module)
        assert Facts.of(read(module_text(module))) == facts


def test_facts_follow_the_attributes() -> None:
    module = read("func.func @f() { func.return }")
    function = module.body.block.first_op
    assert function is not None
    assert Facts.of(function) == Facts()
    Facts(strict_math=True).write(module)
    assert Facts.of(function).strict_math
    del module.attributes["openinfer.strict_math"]
    assert not Facts.of(function).strict_math


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("openinfer.strictmath", "is none that passes know"),
        ("openinfer.strict_math = true", "without a value"),
        ('openinfer.precision = "f16"', 'is "f16"'),
        ("openinfer.precision = 3", "text in quotes"),
        ('openinfer.last_cache = "much"', "write a number"),
        ("openinfer.measured = 3 : i64", "is none of panels, ahead"),
        ("openinfer.measured = {panels = 9 : i64}", "`panels` is 9, not 1..4"),
        ('openinfer.measured = {ahead = "far"}', "not 0..1048576"),
        ("openinfer.subgroup = 33 : i64", "write one of 1, 2, 4"),
        ("openinfer.shared_memory = 100 : i64", "write 16384 to"),
        ("openinfer.invocations = 128 : i64", "write 256 to"),
        ("openinfer.matrices = 1 : i64", "without a value"),
        ("openinfer.f64 = true", "without a value"),
        ("openinfer.tiles = 3", "third number"),
        ('openinfer.tiles = {"4x64x32 f32" = array<i64: 3>}', "third number"),
        ('openinfer.tiles = {"4x64x32 f32" = array<i64: 0, 1>}', "third number"),
        ('openinfer.tiles = {"4x64x32 f32" = array<f32: 1.5, 1.0>}', "third number"),
        ("openinfer.device_tiles = 3", "rows, columns and depth"),
        ('openinfer.device_tiles = {"4x64 f32" = array<i64: 1, 1, 1, 1, 1>}', "rows, columns"),
        ('openinfer.device_tiles = {"4x64x32 f32" = array<i64: 1, 1, 1, 1>}', "rows, columns"),
        ('openinfer.device_tiles = {"4x64x32 f32" = array<i64: 1, 1, 1, 1, 0>}', "1 to 4096"),
    ],
)
def test_an_attribute_that_means_nothing_is_refused(attribute: str, said: str) -> None:
    module = read(f"builtin.module attributes {{{attribute}}} {{}}")
    with pytest.raises(InputError) as caught:
        Facts.of(module)
    assert caught.value.code == "OI0531"
    assert said in str(caught.value)
