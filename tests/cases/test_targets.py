"""The case table for the kinds of processor that this one is not: lowered and linked, and run where this one
can; `test_cases.py` has it for this one. An object may call only what openinfer provides
(`runtime/devices/cpu/object_symbols.py`)."""

from __future__ import annotations

from functools import cache

import pytest
from batches import batches_of, first_cases, run_program, text_of
from modes import Outputs, difference, simulate
from table import CASES

import openinfer as oi
from openinfer.compiler.compile import compile_module
from openinfer.dialects.opset import find
from openinfer.lowering.graph import bind_model
from openinfer.lowering.options import PipelineOptions
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.devices.cpu.linking import load_objects
from openinfer.runtime.devices.cpu.object_symbols import PROVIDED, undefined_symbols
from openinfer.runtime.devices.cpu.support import host_can_run
from openinfer.runtime.errors import ArtefactError, CompileError
from openinfer.runtime.host import cpu_unavailable_reason
from openinfer.runtime.target import TARGETS, TargetDescription, named_target

pytestmark = [
    pytest.mark.skipif(cpu_unavailable_reason() is not None, reason=str(cpu_unavailable_reason())),
]

NAMES = first_cases({name: case for name, case in CASES.items() if not case.full})
BATCHES = batches_of(NAMES)
PAIRS = batches_of(
    [
        name
        for name in NAMES
        if {"f32", "f64", "f16", "bf16"} & set(CASES[name].dtypes)
        and (spec := find(CASES[name].op)) is not None
        and spec.name in ("matmul", "attention", "conv1d", "conv2d", "lstm", "gru")
    ]
)
"""What computes in pairs of bf16 where the precision is bf16."""
OTHERS = [
    name for name in TARGETS if cpu_unavailable_reason() is not None or name != host_target().name
]
"""The kinds of processor that this one is not."""


def linked(batch: tuple[str, ...], options: PipelineOptions) -> oi.Program:
    """The program of a batch, whose object has been linked; a failure says which case it is."""
    try:
        program = compile_module(oi.graph(text_of(batch)), None, options)
    except CompileError as error:
        for name in batch if len(batch) > 1 else ():
            try:
                compile_module(oi.graph(text_of((name,))), None, options)
            except CompileError as own:
                pytest.fail(f"{name} for {options.target_name}: {own}")
        pytest.fail(f"{batch} for {options.target_name}: {error}")
    assert set(undefined_symbols(*program.objects)) <= PROVIDED
    load_objects(program.objects, ["openinfer_step"])
    return program


@cache
def simulated(name: str) -> Outputs:
    return simulate(CASES[name])


def run_and_compare(program: oi.Program, batch: tuple[str, ...]) -> None:
    for name, found in run_program(program, batch).items():
        problem = difference(CASES[name], simulated(name), found)
        assert problem is None, f"{name}: {problem}"


@pytest.mark.every_target
@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("number", range(len(BATCHES)), ids=lambda n: f"from-{BATCHES[n][0]}")
def test_cases_link_for_other_targets(number: int, target: str) -> None:
    program = linked(BATCHES[number], PipelineOptions(target_name=target))
    if (reason := host_can_run(target)) is not None:
        pytest.skip(f"linked, not run: {reason}")
    run_and_compare(program, BATCHES[number])


@pytest.mark.parametrize("dots", [True, False], ids=["dots", "plain"])
@pytest.mark.parametrize("number", range(len(PAIRS)), ids=lambda n: f"from-{PAIRS[n][0]}")
def test_products_of_bf16_pairs_link(
    number: int, dots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With precision bf16, for a processor with the instruction for it and for one without."""

    def described(name: str) -> TargetDescription:
        return named_target(name).with_bf16_dot() if dots else named_target(name)

    monkeypatch.setattr(bind_model, "named_target", described)
    options = PipelineOptions(target_name="avx512", precision="bf16")
    program = linked(PAIRS[number], options)
    assert ("+avx512bf16" in program.manifest.target) == dots


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8"])
@pytest.mark.parametrize("target", TARGETS)
def test_moved_floats_of_every_length_link(target: str, dtype: str) -> None:
    """What is moved is cut into vectors, parts of vectors and single elements by its length."""
    lengths = (1, 3, 5, 8, 11, 17, 33)
    inputs = "".join(f"a{n}: {dtype}[{n}]; b{n}: {dtype}[3]; i{n}: i32[3]; " for n in lengths)
    results = "".join(
        f"p{n}: {dtype}[{n + 3}]; c{n}: {dtype}[{n + 3}]; s{n}: {dtype}[{n}]; m{n}: {dtype}[{n}]; "
        for n in lengths
    )
    nodes = "\n".join(
        f"op pad(a{n}, pads=[1, 2]) >> p{n}; op concat(a{n}, b{n}) >> c{n}; "
        f"op scatter(a{n}, i{n}, b{n}) >> s{n}; op where(t, a{n}, a{n}) >> m{n};"
        for n in lengths
    )
    text = f"dynamic {{ {inputs} t: bool; }} volatile {{ {results} }} block entry {{ {nodes} return; }}"
    program = compile_module(oi.graph(text), None, PipelineOptions(target_name=target))
    load_objects(program.objects, ["openinfer_step"])


def test_what_is_not_provided_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: an object that calls something else, and bytes that are none."""
    graph = oi.graph(text_of(BATCHES[0][:1]))
    objects = compile_module(graph, None, PipelineOptions()).objects
    (code,) = [data for data in objects if "syscall" in undefined_symbols(data)]
    for cut in (0, 3, 20, 60, len(code) // 2):
        with pytest.raises(ArtefactError, match="OI0840"):
            undefined_symbols(code[:cut])
    fewer = PROVIDED - {"syscall"}
    monkeypatch.setattr("openinfer.runtime.devices.cpu.object_symbols.PROVIDED", fewer)
    with pytest.raises(CompileError, match="syscall") as refused:
        compile_module(graph, None, PipelineOptions())
    assert refused.value.code == "OI0573"
