"""Programs that get large or deep when their calls are followed: an error that names the block, or a
result, on both executors; never a hang and never a RecursionError.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from both_executors import agree

import openinfer as oi
from openinfer.compiler.frontend import parse_text
from openinfer.dialects import graph
from openinfer.lowering.program.expansion import MAX_DEPTH, blocks_of, expansions
from openinfer.lowering.program.liveness import Flow, nodes_of

X = np.arange(4, dtype=np.float32)
HEAD = "dynamic { x: f32[4]; c: bool; n: i32; }\nblock entry { assign y: f32[4]; op relu(x) >> y;\n"


def _program(body: str, blocks: str = "") -> str:
    return f"{HEAD}{body}\nreturn y; }}\n{blocks}"


def _levels(count: int, call: str) -> str:
    """Blocks b0 to b`count`, each with `call` of the next one."""
    blocks = [f"block b{i} {{ {call.format(i + 1)} return; }}" for i in range(count)]
    return _program("branch b0;", "\n".join([*blocks, LAST.format(count)]))


LAST = "block b{} {{ op add(y, x) >> y; return; }}\n"
TWICE = "branch b{0}; branch b{0};"


def _refused(text: str) -> str:
    """The message of the one error with which text, simulator and compiler refuse a program."""
    begin = time.process_time()
    found: list[str] = []
    for run in (
        lambda: oi.graph(text).check(),
        lambda: oi.Simulator(text),
        lambda: oi.compile(text),
    ):
        with pytest.raises(oi.ProgramError) as caught:
            run()
        errors = [d for d in caught.value.diagnostics if d.severity == "error"]
        found += [f"{error.code} {error.message}" for error in errors]
    assert time.process_time() - begin < 20
    assert len(set(found)) == 1
    return found[0]


def test_calls_that_double_with_each_level_are_an_error_that_names_the_block() -> None:
    assert "OI0270 block `b28` is" in _refused(_levels(40, TWICE))
    assert "OI0270 block `b987` is" in _refused(_levels(1000, TWICE))
    both = "branch c b{0} b{0};"
    assert "OI0270 block `b27` is" in _refused(_levels(40, both))


def test_a_step_that_only_nearly_expands_too_far_runs() -> None:
    agree(_levels(6, TWICE), [{"x": X, "c": True, "n": 1}])
    agree(_levels(5, "branch c b{0} b{0};"), [{"x": X, "c": True, "n": 1}])


def test_a_chain_of_blocks_has_any_length() -> None:
    agree(_levels(800, "branch b{0};"), [{"x": X, "c": True, "n": 1}])
    oi.Simulator(_levels(5000, "branch b{0};")).make_executor().run(x=X, c=True, n=1)


def test_a_failing_node_at_the_end_of_a_long_chain_is_named() -> None:
    text = _levels(800, "branch b{0};").replace("op add(y, x) >> y;", "op gather(x, n) >> y;")
    text = text.replace("assign y: f32[4]", "assign y: f32").replace("op relu(x) >> y;", "")
    for executor in (oi.Simulator(text).make_executor(), oi.compile(text).make_executor()):
        with pytest.raises(oi.StepError, match=r"in block b800: op gather\(x, n\)"):
            executor.run(x=X, c=True, n=7)


@pytest.mark.parametrize("call", ["branch c b{0} skip;", "loop l (i in 0..1) {{ branch b{0}; }}"])
def test_bodies_nest_as_deep_as_the_limit_and_not_deeper(call: str) -> None:
    deep = _levels(MAX_DEPTH, call) + "block skip { return; }\n"
    agree(deep, [{"x": X, "c": True, "n": 1}])
    deeper = _levels(300, call) + "block skip { return; }\n"
    assert f"OI0271 loops, scopes and conditional branches nest {MAX_DEPTH + 1} deep" in _refused(
        deeper
    )


def test_loops_that_may_return_nest_what_follows_them() -> None:
    leaves = "loop l{0} (i in 0..n) {{ op add(y, x) >> y; return y; }}"
    body = "\n".join(leaves.format(i) for i in range(20))
    agree(_program(body), [{"x": X, "c": True, "n": 0}, {"x": X, "c": True, "n": 2}])
    body = "\n".join(leaves.format(i) for i in range(2000))
    assert "OI0271" in _refused(_program(body))
    dead = "\n".join(leaves.format(i).replace("0..n", "0..2") for i in range(200))
    agree(_program(dead), [{"x": X, "c": True, "n": 0}])


def test_loops_inside_of_loops_take_linear_time() -> None:
    loops = "".join(f"loop l{i} (i{i} in 0..1) {{ " for i in range(31))
    agree(_program(loops + "op add(y, x) >> y;" + " }" * 31), [{"x": X, "c": True, "n": 1}])


def test_a_long_chain_of_elementwise_ops_is_fused_in_linear_time() -> None:
    begin = time.process_time()
    agree(_program("op add(y, x) >> y;\n" * 800), [{"x": X, "c": True, "n": 1}])
    assert time.process_time() - begin < 20  # Half a minute when each op copied all before it.


@pytest.mark.parametrize(
    "text",
    [
        _program("".join(f"loop l{i} (i{i} in 0..1) {{ " for i in range(9000)) + "}" * 9000),
        _program("".join('scope "s" { ' for _ in range(9000)) + "}" * 9000),
        _program("op pad(x, before=" + "[" * 90000 + "]" * 90000 + ", after=[0]) >> y;"),
        _program(f"loop l (i in 0..{'(' * 100_000}1{')' * 100_000}) {{ }}"),
        _program(f"loop l (i in 0..{'+'.join(['1'] * 100_000)}) {{ }}"),
        _program(f"loop l (i in 0..{'n*' * 100_000}1) {{ }}"),
        _program(f"loop l (i in 0..{'-' * 100_000}1) {{ }}"),
        _program(f"loop l (i in 0..{'max(n, ' * 50_000}1{')' * 50_000}) {{ }}"),
        "dynamic { x: f32[" + "(" * 100_000,
    ],
)
def test_deep_texts_are_errors_with_a_code(text: str) -> None:
    result = parse_text(text)
    assert {d.code for d in result.errors} & {"OI0106", "OI0121"}


def test_expansions_are_counted_block_by_block() -> None:
    module = parse_text(_levels(10, TWICE)).module
    assert module is not None
    sizes = expansions(blocks_of(module))
    assert [sizes[f"b{i}"].nodes for i in (10, 9, 8)] == [2, 7, 17]
    assert next(iter(sizes)) == "b10"
    assert list(sizes)[-1] == "entry"


def test_what_is_needed_before_a_loop_and_a_call() -> None:
    text = _program(
        "assign z: f32[4]; loop l (i in 0..n) { op add(y, z) >> z; } branch c a b;",
        "block a { op relu(z) >> y; return; } block b { op relu(y) >> z; return; }",
    )
    module = parse_text(text).module
    assert module is not None
    blocks = blocks_of(module)
    flow = Flow(blocks)
    nodes = nodes_of(blocks["entry"])
    live = flow.live_before(nodes, frozenset(), frozenset({"q"}))
    assert live - {"i"} == {"x", "z", "n", "c", "q"}
    branch = next(op for op in nodes if isinstance(op, graph.BranchOp))
    assert flow.live_before([branch], frozenset({"y", "z"}), frozenset()) == {"y", "z", "c"}
    assert list(flow.written(nodes)) == ["y", "z"]
