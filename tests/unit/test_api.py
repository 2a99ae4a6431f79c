"""`import openinfer as oi`: arguments are checked, strictness, sizes, models, missing libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.api import Graph
from openinfer.runtime.cache import Cache
from openinfer.runtime.host import cpu_unavailable_reason

TEXT = """\
dynamic { x: f32[B, D]; }
volatile { y: f32[B, D]; }
block entry { op relu(x) >> y; return; }
"""
HINTED = TEXT.replace(">> y;", ">> y with { fuze = true };")
WEIGHTED = """\
dynamic { x: f32[B, 2]; }
constant { w: f32[2]; }
volatile { y: f32[B, 2]; }
block entry { op add(x, w) >> y; return; }
"""

native = pytest.mark.skipif(cpu_unavailable_reason() is not None, reason="no native code here")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENINFER_CACHE_DIR", str(tmp_path / "cache"))


def wrong(call: Callable[..., object], *arguments: object, **named: object) -> oi.InputError:
    """The InputError of a call that a type checker would refuse."""
    with pytest.raises(oi.InputError) as caught:
        call(*cast(Any, arguments), **cast(Any, named))
    assert caught.value.hint
    return caught.value


def package(folder: Path, name: str, **arrays: object) -> oi.Package:
    @dataclass
    class Content:
        tensors: dict[str, object]

    path = folder / name
    oi.write_oinf(Content(dict(arrays)), path)
    return oi.open_model(path)


# Strictness


@native
def test_strict_is_looked_at_before_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    program = oi.graph(HINTED)
    oi.compile(program)  # a warning, and an entry in the cache
    asked: list[str] = []

    def get(_: Cache, key: str) -> None:
        asked.append(key)

    monkeypatch.setattr(Cache, "get", get)
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(program, strict=True)
    assert caught.value.code == "OI0251"
    assert not asked


def test_strict_simulator() -> None:
    oi.Simulator(HINTED)
    with pytest.raises(oi.ProgramError) as caught:
        oi.Simulator(HINTED, strict=True)
    assert caught.value.code == "OI0251"


@native
def test_strict_programs_compile() -> None:
    oi.compile(TEXT, strict=True).make_executor().run(x=np.ones((2, 3), np.float32))


# Kinds of arguments


def test_programs_are_texts() -> None:
    assert wrong(oi.graph, None).code == "OI0525"
    assert "bytes" in wrong(oi.compile, b"block").message
    assert wrong(oi.Simulator, 3).code == "OI0525"
    assert wrong(oi.graph_file, None).code == "OI0525"


def test_models_are_opened(tmp_path: Path) -> None:
    for call in (oi.compile, oi.Simulator):
        error = wrong(call, oi.graph(TEXT), "mlp.oinf")
        assert error.code == "OI0525"
        assert "model is a str" in error.message
        assert "open_model" in (error.hint or "")
        assert "PosixPath" in wrong(call, oi.graph(TEXT), tmp_path).message
    assert "model is a str" in wrong(oi.load, tmp_path / "p.oip", "x").message
    assert wrong(oi.load, 3).code == "OI0525"


@native
def test_load_refuses_another_model(tmp_path: Path) -> None:
    model = package(tmp_path, "a.oinf", w=np.ones(2, np.float32))
    other = package(tmp_path, "b.oinf", v=np.ones(3, np.float32))
    path = tmp_path / "p.oip"
    oi.compile(WEIGHTED, model).save(path)
    with pytest.raises(oi.ArtefactError) as caught:
        oi.load(path, other)
    assert caught.value.code == "OI0805"
    with oi.load(path, model).make_executor() as executor:
        results = executor.run(x=np.ones((1, 2), np.float32))
    assert np.asarray(results["y"]).tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("threads", [0, -1, 1025, 1_000_000, "a", 2.5, True])
def test_threads(threads: object) -> None:
    simulator = oi.Simulator(TEXT)
    assert wrong(simulator.make_executor, threads=threads).code == "OI0518"
    if cpu_unavailable_reason() is None:
        assert wrong(oi.compile(TEXT).make_executor, threads).code == "OI0518"


def test_simulator_takes_threads() -> None:
    for threads in (None, 1, np.int64(4)):
        oi.Simulator(TEXT).make_executor(threads=cast(Any, threads)).close()


# Sizes


@pytest.mark.parametrize("make", [oi.compile, oi.Simulator])
@pytest.mark.parametrize(
    ("sizes", "code", "part"),
    [
        ({"B": 2**48 + 1}, "OI0517", "more than any memory"),
        ({"B": 10**24}, "OI0517", "more than any memory"),
        ({"B": True}, "OI0517", "not a number"),
        ({"B": -1}, "OI0517", "negative"),
        ({3: 4}, "OI0517", "size 3"),
        ("B=4", "OI0517", "sizes is a str"),
        ({"BB": 4}, "OI0523", "no size BB"),
        ({"b": 4}, "OI0523", "no size b"),
    ],
)
def test_bad_sizes(make: Callable[..., object], sizes: object, code: str, part: str) -> None:
    if make is oi.compile and cpu_unavailable_reason() is not None:
        pytest.skip("no native code here")
    error = wrong(make, TEXT, sizes=sizes)
    assert error.code == code
    assert part in error.message
    if code == "OI0523":
        assert "did you mean B?" in (error.hint or "")


def test_sizes_may_stand_anywhere() -> None:
    text = """\
dynamic { x: f32[B]; }
volatile { y: f32[B, 2]; z: f32[B]; }
block entry {
  loop k (i in 0..N) { op relu(x) >> z; }
  op fill(y, value=V) >> y;
  return;
}
"""
    executor = oi.Simulator(text, sizes={"N": 2, "V": 3, "B": 1}).make_executor()
    results = executor.run(x=np.ones(1, np.float32))
    assert np.asarray(results["y"]).tolist() == [[3.0, 3.0]]


def makers() -> list[Callable[..., Any]]:
    return [oi.Simulator, *([oi.compile] if cpu_unavailable_reason() is None else [])]


def test_division_by_a_size_that_is_zero() -> None:
    text = "dynamic { x: f32[B]; }\nvolatile { y: f32[B/C]; }\nblock entry { return; }"
    for make in makers():
        with pytest.raises(oi.ProgramError) as caught:
            make(text, sizes={"C": 0})
        (found,) = caught.value.diagnostics
        assert found.code == "OI0305"
        assert found.location is not None
        assert found.location.line == 2
        make(text, sizes={"C": 2})


def test_division_by_a_size_that_an_input_makes_zero() -> None:
    text = """\
dynamic { x: f32[B]; c: f32[C]; }
volatile { y: f32[B/C]; }
block entry { op fill(y, value=1.0) >> y; return; }
"""
    for make in makers():
        executor = make(text).make_executor()
        one = np.ones(1, np.float32)
        executor.insert(x=np.ones(4, np.float32), c=np.ones(0, np.float32))
        with pytest.raises(oi.InputError) as caught:
            executor.step()
        assert caught.value.code == "OI0526"
        assert executor.run(x=np.ones(4, np.float32), c=one)["y"].tolist() == [1.0] * 4


def test_tensors_beyond_all_memory() -> None:
    for make in makers():
        with pytest.raises(oi.ProgramError, match="no memory holds") as caught:
            make(TEXT, sizes={"B": 2**47, "D": 2**47})
        assert caught.value.code == "OI0305"


def test_step_beyond_the_memory() -> None:
    text = "volatile { y: f64[B]; }\nblock entry { op fill(y, value=1.0) >> y; return; }"
    for make in makers():
        with pytest.raises(oi.StepError) as caught:
            make(text, sizes={"B": 2**47}).make_executor().step()
        assert caught.value.code == "OI0604"


# Libraries


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xdsl", None)
    for call in (lambda: oi.compile(TEXT, target="generic"), lambda: Graph(TEXT).check()):
        with pytest.raises(oi.UnsupportedError) as caught:
            call()
        assert caught.value.code == "OI0734"
        assert "pip install xdsl" in (caught.value.hint or "")
