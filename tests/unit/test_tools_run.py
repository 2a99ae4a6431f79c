"""`openinfer run | compare | inspect | devices | cache`: inputs, output, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import openinfer
from openinfer.compiler.api import Graph, program_key
from openinfer.compiler.tools.openinfer import main
from openinfer.compiler.tools.running import Session, warn_of_cache
from openinfer.compiler.tools.tolerance import Difference, difference
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.cache import About, cache_key, default_cache
from openinfer.runtime.errors import InputError, ProgramError, UnsupportedError
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.tensors import Tensor

Capture = pytest.CaptureFixture[str]
StandIn = Callable[[str], None]

PROGRAM = """\
dynamic { x: f32[B, D]; n: i32[B]; flag: bool; }
volatile { W: f32[D, 2] @init(0.5); t: f32[B, 2]; y: f32[B, 2]; z: i32[B]; }
block entry {
  op matmul(x, W) >> t;
  op relu(t) >> y;
  op add(n, n) >> z;
  return;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM)
    return path


def run_json(capsys: Capture, *arguments: str | Path) -> dict[str, dict[str, object]]:
    command = ["run", *map(str, arguments), "--executor", "simulator", "--json"]
    assert main(command) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)["outputs"]


def test_drawn_inputs(program: Path, capsys: Capture) -> None:
    outputs = run_json(capsys, program)
    assert outputs["y"]["shape"] == [8, 2]
    assert outputs["z"]["dtype"] == "i32"
    assert set(np.asarray(outputs["z"]["values"]).tolist()) <= {0, 2}
    assert run_json(capsys, program) == outputs
    assert run_json(capsys, program, "--seed", "1") != outputs
    assert run_json(capsys, program, "--steps", "2") != outputs


def test_sizes(program: Path, capsys: Capture) -> None:
    outputs = run_json(capsys, program, "--size", "B=3", "--size", "D=5")
    assert outputs["y"]["shape"] == [3, 2]


def test_given_inputs(program: Path, tmp_path: Path, capsys: Capture) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "x.npy", array)
    outputs = run_json(capsys, program, "--input", f"x={tmp_path}/x.npy", "--input", "n=1,2,3")
    assert outputs["y"]["values"] == np.repeat(array.sum(1, keepdims=True) / 2, 2, 1).tolist()
    assert outputs["z"]["values"] == [2, 4, 6]


def test_text_inputs_take_the_declared_shape(program: Path, capsys: Capture) -> None:
    for text in ("x=1,2,3,4,5,6", "x=[[1,2,3],[4,5,6]]"):
        outputs = run_json(capsys, program, "--size", "D=3", "--input", text)
        assert outputs["y"]["values"] == [[3.0, 3.0], [7.5, 7.5]]


def test_special_values_are_json(program: Path, capsys: Capture) -> None:
    outputs = run_json(capsys, program, "--size", "D=1", "--input", "x=nan,inf,1")
    assert outputs["y"]["values"] == [["NaN"] * 2, ["Infinity"] * 2, [0.5] * 2]


def test_short_form_and_files(program: Path, tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "y.npy"
    arguments = ["run", str(program), "--executor", "simulator", "--output", f"y={target}"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "y: f32[8, 2] = {" in out
    assert np.load(target).shape == (8, 2)


def test_trace(program: Path, tmp_path: Path, capsys: Capture) -> None:
    for form in ("json", "chrome"):
        target = tmp_path / f"{form}.json"
        arguments = ["run", str(program), "--executor", "simulator", "--trace", str(target)]
        assert main([*arguments, "--trace-format", form]) == 0
        assert json.loads(target.read_text())
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--input", "q=1"], 1, "no dynamic variable is named 'q'"),
        (["--input", "x=absent.npy"], 1, "absent.npy"),
        (["--input", "x=one,two"], 1, "neither numbers nor a .npy file"),
        (["--input", "x=[[1],[2,3]]"], 1, "error[OI05"),
        (["--input", "n=0.5"], 1, "error[OI05"),
        (["--input", "x"], 2, "bad --input 'x'"),
        (["--input", "n=1", "--input", "n=2"], 2, "given twice"),
        (["--output", "y=y.txt"], 2, "no .npy file"),
        (["--output", "q=q.npy"], 1, "no variable is named 'q'"),
        (["--size", "B=x"], 2, "bad size 'B=x'"),
        (["--steps", "0"], 2, "--steps"),
        (["--threads", "0"], 2, "--threads"),
        (["--seed", "-1"], 2, "--seed"),
        (["--model", "absent.oinf"], 1, "absent.oinf"),
    ],
)
def test_mistakes(
    arguments: list[str], code: int, message: str, program: Path, capsys: Capture
) -> None:
    assert main(["run", str(program), "--executor", "simulator", *arguments]) == code
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_bad_program(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.oi"
    path.write_text(PROGRAM.replace("relu", "rellu").replace("(n, n)", "(n, m)"))
    assert main(["run", str(path), "--executor", "simulator"]) == 1
    err = capsys.readouterr().err
    assert err.count("error[") == 2
    assert "^" in err
    assert main(["run", str(tmp_path / "absent.oi")]) == 1
    assert "absent.oi" in capsys.readouterr().err


def test_missing_package_is_named(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM.replace("[D, 2] @init(0.5)", '[D, 2] @ref("w")'))
    assert main(["run", str(path), "--executor", "simulator"]) == 1
    err = capsys.readouterr().err
    assert "p.oinf" in err
    assert "--model" in err


def test_package_beside_is_found(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "p.oi"
    path.write_text(PROGRAM.replace(" @init(0.5)", ""))

    weights = np.full((4, 2), 2.0, dtype=np.float32)
    content = {"W": openinfer.TensorSpec(weights)}
    from openinfer.runtime.packages.oinf_writer import OinfContent

    openinfer.write_oinf(OinfContent(tensors=content), path.with_suffix(".oinf"))
    outputs = run_json(capsys, path, "--input", "x=1,1,1,1")
    assert outputs["y"]["values"] == [[8.0, 8.0]]


class TestCompare:
    """The comparison, with a simulator of a second program in place of the compiled one."""

    @pytest.fixture
    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> StandIn:
        def use(text: str) -> None:
            def compiled(self: Session) -> BaseExecutor:
                return openinfer.Simulator(text, self.package, self.sizes).make_executor()

            monkeypatch.setattr(Session, "compiled", compiled)

        return use

    def test_agree(self, program: Path, stand_in: StandIn, capsys: Capture) -> None:
        stand_in(PROGRAM)
        assert main(["compare", str(program), "--steps", "2"]) == 0
        out = capsys.readouterr().out
        assert "agree: 2 steps" in out
        assert " 0 nodes" not in out

    def test_difference_is_named(self, program: Path, stand_in: StandIn, capsys: Capture) -> None:
        stand_in(PROGRAM.replace("@init(0.5)", "@init(0.25)"))
        assert main(["compare", str(program)]) == 3
        first = capsys.readouterr().out.splitlines()[0]
        assert "matmul" in first
        assert f"{program}:4:" in first

    def test_json(self, program: Path, stand_in: StandIn, capsys: Capture) -> None:
        stand_in(PROGRAM.replace("relu", "abs"))
        assert main(["compare", str(program), "--json"]) == 3
        data = json.loads(capsys.readouterr().out)
        assert not data["agree"]
        assert data["findings"][0]["name"] == "y"

    def test_tolerance_factor(self, program: Path, stand_in: StandIn, capsys: Capture) -> None:
        stand_in(PROGRAM.replace("@init(0.5)", "@init(0.500001)"))
        assert main(["compare", str(program), "--tolerance", "0.001"]) == 3
        assert main(["compare", str(program), "--tolerance", "10"]) == 0
        capsys.readouterr()


def tensor(dtype: str, values: object) -> Tensor:
    return Tensor.from_values(dtype, values)


def test_tolerance() -> None:
    nan, inf = float("nan"), float("inf")
    assert difference(tensor("f32", [1.0, nan, inf]), tensor("f32", [1.00001, nan, inf])) is None
    assert difference(tensor("f32", []), tensor("f32", [])) is None
    worst = difference(tensor("f32", [1.0, 2.0]), tensor("f32", [1.0, 2.1]))
    assert isinstance(worst, Difference)
    assert worst.index == (1,)
    assert "2.1" in str(worst)
    for left, right in (([nan], [1.0]), ([inf], [-inf]), ([1.0], [inf]), ([0.0], [nan])):
        assert difference(tensor("f32", left), tensor("f32", right)) is not None
    assert difference(tensor("i32", [1, 2]), tensor("i32", [1, 2])) is None
    assert difference(tensor("i32", [1, 2]), tensor("i32", [1, 3])) is not None
    assert "f16" in str(difference(tensor("f32", [1.0]), tensor("f16", [1.0])))
    assert "shape" in str(difference(tensor("f32", [1.0]), tensor("f32", [[1.0]])))


def test_inspect(program: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["inspect", str(program)]) == 0
    out = capsys.readouterr().out
    for line in (
        "  B  from axis 0 of input x",
        "  W: f32[D, 2] @init(0.5)",
        "block entry: 1 add, 1 matmul, 1 relu",
    ):
        assert line in out
    assert main(["inspect", str(program), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [size["name"] for size in data["sizes"]] == ["B", "D"]
    assert data["package"] is None
    (tmp_path / "x.oinf").write_bytes(b"OINF\0")
    assert main(["inspect", str(tmp_path / "x.oinf")]) == 1
    assert "x.oinf" in capsys.readouterr().err


def test_devices(capsys: Capture) -> None:
    assert main(["devices", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["simulator"]["available"]
    assert rows["cpu"]["available"] or rows["cpu"]["reason"]
    assert main(["devices"]) == 0
    assert "simulator" in capsys.readouterr().out


def test_devices_elsewhere(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert main(["devices"]) == 0
    assert "cpu        not available: the cpu device needs Linux" in capsys.readouterr().out


def test_devices_without_xdsl(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("openinfer.compiler.arguments.find_spec", lambda name: None)
    assert main(["devices"]) == 0
    assert "simulator  not available: compiling and simulating need" in capsys.readouterr().out


def test_cache_command(capsys: Capture) -> None:
    key = cache_key("test_cache_command")
    default_cache().put(key, b"code", About("mlp.oi", "cpu", "avx2"))
    assert main(["cache", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["key", "size", "age", "target", "program"]
    (row,) = [row for row in rows if row[0] == key[:16]]
    assert row[2:] == ["kB", "0", "s", "cpu", "avx2", "mlp.oi"]
    assert main(["cache", "list", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert "mlp.oi for cpu" in [entry["description"] for entry in entries]
    assert main(["cache", "clear"]) == 0
    assert "removed" in capsys.readouterr().out
    assert default_cache().get(key) is None


def test_one_entry_of_the_cache_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))
    cache = default_cache()
    keys = ["ab" * 32, "ab" * 31 + "cd", "cd" * 32]
    for key in keys:
        assert cache.put(key, b"code", About("mlp.oi", "cpu"))
    assert main(["cache", "remove", "ab"]) == 1
    assert "OI0534" in capsys.readouterr().err
    assert main(["cache", "remove", "ef"]) == 1
    assert "no entry has a key that begins with 'ef'" in capsys.readouterr().err
    assert main(["cache", "remove", "CD", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == [keys[2]]
    assert main(["cache", "remove", keys[0]]) == 0
    assert [entry.key for entry in cache.entries()] == [keys[1]]
    assert main(["cache", "remove"]) == 2
    assert main(["cache", "clear", keys[1]]) == 2
    assert [entry.key for entry in cache.entries()] == [keys[1]]


@pytest.mark.parametrize(
    "command", ["run", "compare", "debug", "inspect", "devices", "cache", "fmt", "check"]
)
def test_help_teaches_by_example(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert f"  openinfer {command}" in out
    assert "--json" in out


def test_unknown_command(capsys: Capture) -> None:
    assert main(["rum"]) == 2
    assert "did you mean 'run'?" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--help"]) == 0
    assert main(["--version"]) == 0


def test_graph_is_parsed_late() -> None:
    graph = openinfer.graph("not a program")
    assert str(graph) == "not a program"
    assert not graph.parsed
    with pytest.raises(ProgramError):
        graph.check()
    good = openinfer.graph(PROGRAM)
    assert good.check() == []
    assert good.parsed


def test_graph_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        openinfer.graph_file(tmp_path / "absent.oi")
    assert caught.value.code == "OI0514"
    (tmp_path / "b.oi").write_bytes(b"\xff\xff")
    with pytest.raises(InputError, match="UTF-8"):
        openinfer.graph_file(tmp_path / "b.oi")


def test_program_key_depends_on_everything() -> None:
    base = PipelineOptions()
    variants = [
        (Graph(PROGRAM), base),
        (Graph(PROGRAM + " "), base),
        (Graph(PROGRAM), PipelineOptions(sizes={"B": 1})),
        (Graph(PROGRAM), PipelineOptions(sizes={"B": 2})),
        (Graph(PROGRAM), PipelineOptions(target_name="avx2")),
        (Graph(PROGRAM), PipelineOptions(precision="bf16")),
        (Graph(PROGRAM), PipelineOptions(strict=True)),
        (Graph(PROGRAM), PipelineOptions(strict_math=True)),
        (Graph(PROGRAM), PipelineOptions(observe=True)),
    ]
    keys = {program_key(graph, options) for graph, options in variants}
    assert len(keys) == len(variants)
    assert program_key(*variants[0]) == program_key(Graph(PROGRAM), PipelineOptions())
    # Where the text lies changes nothing that is compiled.
    assert program_key(*variants[0]) == program_key(Graph(PROGRAM, "other.oi"), PipelineOptions())


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"device": "tpu"}, UnsupportedError),
        ({"target": "avx3"}, UnsupportedError),
        ({"precision": "f8"}, InputError),
        ({"sizes": {"B": -1}}, InputError),
        ({"sizes": {"B": 2.5}}, InputError),
        ({"sizes": {"B": True}}, InputError),
    ],
)
def test_bad_compile_options(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        openinfer.compile(PROGRAM, **options)  # pyright: ignore[reportArgumentType]
    assert getattr(caught.value, "hint")  # noqa: B009


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize("steps", [1, 2])
def test_strict_fails_also_from_the_cache(
    tmp_path: Path, capsys: Capture, command: str, steps: int
) -> None:
    path = tmp_path / "h.oi"
    path.write_text(PROGRAM.replace(">> t;", ">> t with { fuze = true };"))
    for _ in range(steps):
        assert main([command, str(path)]) in (0, 1)  # 1 where there is no native code
    capsys.readouterr()
    assert main([command, str(path), "--strict"]) == 1
    assert "error[OI0251]" in capsys.readouterr().err


@pytest.mark.parametrize("executor", ["cpu", "simulator"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--size", f"B={10**24}"], "OI0517"),
        (["--size", f"B={2**46}"], "OI0604"),
        (["--size", f"B={2**47}", "--size", f"D={2**47}"], "OI0305"),
        (["--size", "Q=4"], "OI0523"),
        (["--threads", "1000000"], "OI0518"),
    ],
)
def test_impossible_requests(
    program: Path, capsys: Capture, executor: str, arguments: list[str], code: str
) -> None:
    if executor == "cpu" and cpu_unavailable_reason() is not None:
        pytest.skip("no native code here")
    assert main(["run", str(program), "--executor", executor, *arguments]) == 1
    error = capsys.readouterr().err
    assert f"error[{code}]" in error
    assert "bug of openinfer" not in error


def test_misspelt_size_has_a_near_name(program: Path, capsys: Capture) -> None:
    assert main(["run", str(program), "--executor", "simulator", "--size", "b=4"]) == 1
    assert "did you mean B?" in capsys.readouterr().err


def test_unusable_cache_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(blocked / "cache"))
    assert main(["cache", "list"]) == 0
    assert f"not in use: {blocked} is no folder" in capsys.readouterr().out
    assert main(["cache", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] == f"{blocked} is no folder"


@pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no native code here")
def test_unusable_cache_is_said_once(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "file"))
    warn_of_cache.cache_clear()
    for _ in range(2):
        assert main(["run", str(program)]) == 0
    assert capsys.readouterr().err.count("compiled programs are not kept") == 1
