"""The device `null`: the host half of a step runs, what the device would do is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import compile
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.openinfer_opt import main as optimise

Capture = pytest.CaptureFixture[str]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.oi"))

COUNTER = """
dynamic { x: f32[N, 32]; }
constant { W: f32[32, 16] @init(0.5); }
persistent { n: i32; sum: f32[16]; }
block entry {
    assign y: f32[N, 16]; assign last: f32[16]; assign before: f32[16];
    op matmul(x, W) >> y;
    cache.increment n;
    op sum_axis(y, axes=[0]) >> last;
    cache.read sum >> before;
    op add(before, last) >> last;
    cache.write last >> sum;
    return y, n;
}
"""


def executor_of(text: str, **options: Any) -> Any:
    return oi.compile(text, device="null", **options).make_executor()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example(path: Path, capsys: Capture) -> None:
    found: dict[str, Any] = {}
    for device in ("null", "simulator"):
        arguments = [
            "run",
            str(path),
            "--device",
            device,
            "--steps",
            "2",
            "--size",
            "B=3",
            "--json",
        ]
        if "B" not in path.read_text():
            arguments = [a for a in arguments if a not in ("--size", "B=3")]
        assert main(arguments) == 0
        found[device] = json.loads(capsys.readouterr().out)
    assert found["null"]["calls"]
    assert "calls" not in found["simulator"]
    for name, right in found["simulator"]["outputs"].items():
        value = found["null"]["outputs"][name]
        assert (value["dtype"], value["shape"]) == (right["dtype"], right["shape"])


def test_a_product_and_a_counter() -> None:
    with executor_of(COUNTER) as executor:
        for step in range(1, 4):
            results = executor.run(x=np.ones((step, 32), np.float32))
            assert results["y"].shape == (step, 16)
            assert not results["y"].any()
            # The host counts.
            assert results["n"] == step
            calls = executor.device_calls()
            kernels = [call.kernel for call in calls]
            at = kernels.index("matmul_0")
            assert calls[at - 1] == ("transfer to device", (("x", 128 * step),))
            assert "transfer to host" in kernels[at:]
            assert [nbytes for _, nbytes in calls[at].buffers] == [128 * step, 2048, 64 * step]


def test_the_order_of_calls_in_a_loop(capsys: Capture, tmp_path: Path) -> None:
    program = tmp_path / "loop.oi"
    program.write_text(
        """
        dynamic { x: f32[N, 16]; }
        constant { W: f32[16, 16] @init(0.5); }
        block entry {
            assign y: f32[N, 16];
            transfer x >> y;
            loop twice (i in 0..2) { op matmul(y, W) >> y; op softmax(y, axis=1) >> y; }
            return y;
        }
        """
    )
    assert main(["run", str(program), "--device", "null", "--size", "N=2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "transfer to device: y 128 B"
    kernels = [line.partition(":")[0] for line in lines]
    rounds = [kernel for kernel in kernels if kernel.startswith(("matmul", "softmax"))]
    assert rounds == ["matmul_0", "softmax_0"] * 2
    assert lines[-2:] == ["transfer to host: y 128 B", "y: f32[2, 16] = {0, 0 ... 0, 0}"]


def test_errors_of_the_host_half() -> None:
    text = """
    dynamic { x: f32[N, 64]; k: i64[M]; }
    persistent { K(t): f32[64] @table @fixed(t=4); n: i32; }
    block entry {
        assign y: f32[M, 64]; assign z: f32[N, 64]; assign row: f32[64];
        op softmax(x, axis=1) >> z;
        op gather(z, k) >> y;
        op sum_axis(z, axes=[0]) >> row;
        cache.write row >> K[n];
        cache.increment n;
        return y, n;
    }
    """
    x = np.ones((3, 64), np.float32)
    with executor_of(text) as executor:
        with pytest.raises(oi.StepError, match=r"gather.*9.*3"):
            executor.run(x=x, k=np.array([0, 9]))
        for step in range(4):
            results = executor.run(x=x, k=np.array([0, 2]))
            assert results["y"].shape == (2, 64)
            assert results["n"] == step + 1
        # A step that fails changes nothing, and writes its own record.
        with pytest.raises(oi.StepError, match="4"):
            executor.run(x=x, k=np.array([0, 2]))
        assert executor.fetch("n") == 4
        assert executor.fetch("K[3]").shape == (64,)


def test_the_record_of_a_long_step_ends() -> None:
    text = """
    dynamic { x: f32[N, 64]; }
    block entry {
        assign y: f32[N, 64];
        transfer x >> y;
        loop many (i in 0..30000) { op softmax(y, axis=1) >> y; }
        return y;
    }
    """
    with executor_of(text) as executor:
        executor.run(x=np.ones((2, 64), np.float32))
        calls = executor.device_calls()
        assert str(calls[-1]).endswith(" more")
        assert len(calls) - 1 + int(str(calls[-1]).split()[0]) > 30000


def test_a_saved_program_and_a_plain_one(tmp_path: Path) -> None:
    path = tmp_path / "counter.oip"
    program = oi.compile(COUNTER, device="null")
    program.save(path)
    again = oi.load(path)
    assert again.manifest.device == "null"
    plain = compile(COUNTER, device="null", optimise=False)
    for each in (again, plain):
        with each.make_executor() as executor:
            assert executor.run(x=np.ones((2, 32), np.float32))["n"] == 1
            assert any(call.kernel.startswith("matmul") for call in executor.device_calls())
    assert "device" in program.plan_text()


def test_a_program_without_a_device_kernel() -> None:
    text = "dynamic { a: i64; } block entry { assign b: i64; op add(a, a) >> b; return b; }"
    with executor_of(text) as executor:
        assert executor.run(a=np.int64(4))["b"] == 8
        assert executor.device_calls() == []


def test_traces_and_iterations() -> None:
    program = oi.compile(COUNTER, device="null")
    x = np.ones((2, 32), np.float32)
    with program.make_executor(trace=True) as executor:
        executor.run(x=x)
        assert "matmul" in {event.op_name for event in executor.trace()}
    with program.make_executor() as executor:
        executor.insert(x=x)
        seen = {node.event.op_name: node.event.shapes for node in executor.iterate()}
        assert seen["matmul"]["y"] == (2, 16)
        assert executor.fetch("n") == 1


def test_a_hint_sends_a_node_to_the_host() -> None:
    text = """
    dynamic { x: f32[N, 4]; }
    block entry {
        assign y: f32[N, 4];
        op softmax(x, axis=1) >> y with { placement = "cpu" };
        return y;
    }
    """
    with executor_of(text) as executor:
        assert np.allclose(executor.run(x=np.ones((2, 4), np.float32))["y"], 0.25)
        assert executor.device_calls() == []


@pytest.mark.parametrize("level", ["linalg", "buffers", "kernels"])
def test_levels_resume(level: str, tmp_path: Path) -> None:
    program = str(EXAMPLES[0].with_name("decoder.oi"))
    dumps, whole, again = tmp_path / "levels", tmp_path / "whole.ll", tmp_path / "again.ll"
    line = [program, "--pipeline", "null", "-t", "llvm-ir", "--dump-dir", str(dumps)]
    assert optimise([*line, "-o", str(whole)]) == 0
    (dump,) = dumps.glob(f"*-{level}.mlir")
    line = [str(dump), "--pipeline", "null", "--from", level, "-t", "llvm-ir"]
    assert optimise([*line, "-o", str(again)]) == 0
    texts = [path.read_text().splitlines() for path in (whole, again)]
    assert [line.partition("  ; ")[0] for line in texts[0]] == [
        line.partition("  ; ")[0] for line in texts[1]
    ]


TABLES = """
dynamic { x: f32[N, 64]; k: i64[N]; few: f32[4]; one: i64; }
constant { W: f32[512, 64] @init(0.5); }
block entry {
    assign a: f32[N, 64]; assign b: f32[N, 64]; assign c: f32[];
    op gather(W, k, axis=0) >> a %s;
    op gather(few, one, axis=0) >> c;
    op add(a, x) >> b;
    return b, c;
}
"""


def test_without_fallback_an_op_that_the_device_does_not_support_is_an_error() -> None:
    text = TABLES % ""
    oi.compile(text, device="null")
    oi.compile(text, fallback=False)  # the CPU supports all
    with pytest.raises(oi.UnsupportedError) as raised:
        oi.compile(text, device="null", fallback=False)
    error = raised.value
    assert error.code == "OI0738"
    assert "device null" in error.message
    # What the host computes on every device is no fallback: the second one reads four elements.
    assert error.message.count("nn.gather") == 1
    assert "<graph>:6:5: nn.gather: it checks indices" in error.message
    asked = TABLES % 'with { placement = "cpu" }'
    oi.compile(asked, device="null", fallback=False)


class Tables:
    """A workload of the benchmarks."""

    result = "z"

    def __init__(self, folder: Path) -> None:
        self.program = folder / "tables.oi"
        self.program.write_text(TABLES % "")

    def package(self, folder: Path) -> Path:
        package = folder / "tables.oinf"
        oi.write_oinf(oi.OinfContent(tensors={"unused": np.zeros(1, np.float32)}), package)
        return package

    def sizes(self) -> dict[str, int]:
        return {}

    def start(self, executor: object) -> None:
        pass


def test_no_fallback_of_a_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its command line says is what its programs are compiled with."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks.choices import chosen
    from benchmarks.peers import Setting
    from benchmarks.peers_own import openinfer as ours
    from openinfer.compiler.tools.arguments import CommandParser
    from openinfer.compiler.tools.commands import bench

    parser = CommandParser()
    bench.add_arguments(parser)
    line = ["--workload", "W3", "--peers", "none", "--device", "null"]
    workload: Any = Tables(tmp_path)
    for more, fallback in ([], True), (["--no-fallback"], False):
        choices = chosen(parser.parse_args([*line, *more]))
        assert choices.fallback == fallback
        setting = Setting(tmp_path, 1, device=choices.device, fallback=choices.fallback)
        if fallback:
            ours(workload, setting)
            continue
        with pytest.raises(oi.UnsupportedError) as raised:
            ours(workload, setting)
        assert raised.value.code == "OI0738"


def test_no_fallback_on_the_command_line_and_in_a_dump(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "tables.oi"
    path.write_text(TABLES % "")
    for command in (
        ["run"],
        ["compile", "-o", str(tmp_path / "t.oip")],
        ["inspect", "--kernels"],
        ["inspect", "--plan"],
    ):
        command = [command[0], str(path), *command[1:], "--device", "null"]
        assert main(command) == 0
        capsys.readouterr()
        assert main([*command, "--no-fallback"]) != 0
        said = capsys.readouterr().err
        assert "OI0738" in said
        assert "Traceback" not in said
    for file, says in (("tables.oi", "add --plan or --kernels"), ("t.oip", "openinfer compile")):
        assert main(["inspect", str(tmp_path / file), "--no-fallback"]) != 0
        assert says in capsys.readouterr().err
    assert (
        optimise([str(path), "--pipeline", "null", "--to", "nn", "-o", str(tmp_path / "t.mlir")])
        == 0
    )
    level = (tmp_path / "t.mlir").read_text()
    again = level.replace("openinfer.device =", "openinfer.no_fallback, openinfer.device =")
    assert again != level
    (tmp_path / "t.mlir").write_text(again)
    command = [str(tmp_path / "t.mlir"), "--pipeline", "null", "--from", "nn", "--to", "linalg"]
    assert optimise(command) != 0
    assert "OI0738" in capsys.readouterr().err
