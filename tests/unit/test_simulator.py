"""The simulator: memory kinds, control flow, weights, inputs, iteration, traces, failing steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from xdsl.dialects.builtin import ModuleOp

import openinfer as oi
from openinfer.dialects import graph
from openinfer.lowering.program.nodes import number_nodes
from openinfer.lowering.reference.simulator import Simulator
from openinfer.runtime.executor import BaseExecutor
from openinfer.runtime.tensors import Tensor
from openinfer.runtime.trace import chrome_trace, trace_json


def executor(text: str, model: Any = None, **sizes: int) -> BaseExecutor:
    return oi.Simulator(oi.graph(text), model, sizes=sizes or None).make_executor()


def package(folder: Path, config: dict[str, Any] | None = None, **tensors: Any) -> Any:
    """A `.safetensors` package with a config.json beside it."""
    save_file({n.replace("__", "."): t for n, t in tensors.items()}, folder / "model.safetensors")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return oi.open_model(folder / "model.safetensors")


def floats(*values: Any) -> Any:
    return np.array(values, dtype=np.float32)


DOUBLE = """
dynamic { x: f32[N]; }
volatile { y: f32[N]; }
block entry { op add(x, x) >> y; return; }
"""


# Memory kinds


def test_step_and_fetch():
    ex = executor(DOUBLE)
    ex.insert(x=floats(1, 2))
    ex.step()
    np.testing.assert_array_equal(ex.fetch("y"), floats(2, 4))
    # A size that only inputs fix is a run-time value.
    assert ex.run(x=np.zeros(5, np.float32))["y"].shape == (5,)


def test_volatile_restarts_and_init():
    ex = executor(
        """
        volatile { n: i32 @init(5); m: i32; }
        constant { one: i32 @init(1); }
        block entry { op add(n, one) >> n; op add(m, n) >> m; return; }
        """
    )
    assert ex.fetch("n") == 5
    for _ in range(2):
        out = ex.run()
        assert (out["n"], out["m"]) == (6, 6)


def test_temporaries_start_at_zero_and_keep_their_value_in_the_step():
    ex = executor(
        """
        constant { one: i32 @init(1); }
        volatile { y: i32; }
        block entry {
          loop again (i in 0..3) { assign t: i32; op add(t, one) >> t; }
          branch copy;
          return;
        }
        block copy { transfer t >> y; return; }
        """
    )
    assert ex.run()["y"] == 3
    assert ex.run()["y"] == 3


def test_returned_values():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        block entry {
          assign a: f32[N]; assign b: bool;
          op neg(x) >> a; op is_finite(x) >> b;
          return a, b;
        }
        """
    )
    out = ex.run(x=floats(1))
    assert list(out) == ["a", "b"]
    assert out["b"] == np.True_
    np.testing.assert_array_equal(ex.fetch("a"), floats(-1))


def test_a_result_never_aliases_the_callers_array():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        volatile { y: f32[N]; }
        block entry { transfer x >> y; return; }
        """
    )
    array = floats(1, 2)
    ex.insert(x=array)
    ex.step()
    array[:] = 9
    np.testing.assert_array_equal(ex.fetch("y"), floats(1, 2))
    copied = ex.fetch("y")
    assert isinstance(copied, np.ndarray)
    copied[:] = 7
    np.testing.assert_array_equal(ex.fetch("y"), floats(1, 2))


def test_dtypes_that_numpy_lacks():
    ex = executor(
        """
        dynamic { x: bf16[N]; k: i4[N]; }
        volatile { y: bf16[N]; w: f32[N]; j: i4[N]; }
        block entry { op add(x, x) >> y; op add(x, x) >> w; op add(k, k) >> j; return; }
        """
    )
    out = ex.run(x=Tensor.from_values("bf16", [1.0, 3.0]), k=np.array([7, -8], np.int8))
    y, j = out["y"], out["j"]
    assert isinstance(y, Tensor)
    assert isinstance(j, Tensor)
    assert y.dtype.name == "bf16"
    np.testing.assert_array_equal(y.values(), floats(2, 6))
    np.testing.assert_array_equal(out["w"], floats(2, 6))
    np.testing.assert_array_equal(j.values(), np.array([-2, 0], np.int8))


# Control flow


def test_loops_nest_shadow_and_skip():
    ex = executor(
        """
        constant { k: i64 @init(2); }
        volatile { y: i64[3]; z: i64; }
        block entry {
          assign t: i64[1]; assign u: i64;
          loop a (i in 0..k) {
            loop b (i in 0..3) { op add(z, k) >> z; }
            loop c (j in 3..i) { op fill(z, value=0) >> z; }
            op fill(u, value=i) >> u;
            op add(z, u) >> z;
          }
          return;
        }
        """
    )
    # Twice three times +2, plus i = 0, then i = 1: the shadowed index is back behind the loop.
    assert ex.run()["z"] == 13


def test_return_in_a_loop_leaves_the_block():
    ex = executor(
        """
        constant { one: i32 @init(1); }
        volatile { n: i32; m: i32; }
        block entry { branch inner; op add(m, one) >> m; return; }
        block inner {
          loop a (i in 0..5) { op add(n, one) >> n; return; }
          return;
        }
        """
    )
    assert ex.run() == {"n": 1, "m": 1}


def test_branch_is_a_call():
    text = """
    dynamic { c: i32; }
    volatile { y: f32[2]; }
    block entry { branch c yes no; op add(y, y) >> y; return; }
    block yes { op fill(y, value=1.0) >> y; return; }
    block no { op fill(y, value=3.0) >> y; return; }
    """
    ex = executor(text)
    np.testing.assert_array_equal(ex.run(c=2)["y"], floats(2, 2))
    np.testing.assert_array_equal(ex.run(c=0)["y"], floats(6, 6))


def test_sizes_and_loop_indices_in_settings():
    ex = executor(
        """
        dynamic { x: f32[N, H*D]; }
        volatile { y: f32[N, D]; }
        block entry {
          assign part: f32[N, D];
          loop heads (h in 0..H) {
            op slice(x, axis=1, start=h*D, stop=h*D + D) >> part;
            op add(y, part) >> y;
          }
          return;
        }
        """,
        H=3,
        D=2,
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.testing.assert_array_equal(ex.run(x=x)["y"], x.reshape(2, 3, 2).sum(1))


def test_barrier_dep_and_scope_change_nothing():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        volatile { y: f32[N]; }
        block entry {
          scope "s" { op add(x, x) >> y; barrier; }
          dep after(add) before(mul);
          op mul(y, x) >> y;
          return;
        }
        """
    )
    np.testing.assert_array_equal(ex.run(x=floats(3))["y"], floats(18))


# Packages


def test_weights_by_name_ref_and_pattern(tmp_path: Path):
    model = package(
        tmp_path,
        {"layers": 3, "slope": 0.5, "kind": "tanh"},
        bias=floats(1, 1),
        other__name=floats(2, 2),
        W__0=floats(1, 0),
        W__1=floats(0, 1),
        W__2=floats(5, 5),
    )
    text = """
    dynamic { x: f32[D]; }
    constant { bias: f32[D]; b2: f32[D] @ref("other.name"); W(l): f32[D] @pattern("W.{l}"); }
    volatile { y: f32[D]; g: f32[D]; }
    block entry {
      op add(x, bias) >> y;
      op add(y, b2) >> y;
      loop all (l in 0..layers) { op add(y, W[l]) >> y; }
      op add(y, W[layers - 1]) >> y;
      op relu(y, alpha=slope) >> y;
      op gelu(x, approximate=kind) >> g;
      return;
    }
    """
    ex = executor(text, model)
    np.testing.assert_array_equal(ex.run(x=floats(-20, 0))["y"], floats(-3, 14))
    assert [e.params[1] for e in ex.trace() if e.op_name == "add"][2:] == [
        "W[l=0]",
        "W[l=1]",
        "W[l=2]",
        "W[layers - 1=2]",
    ]
    np.testing.assert_array_equal(ex.fetch("W[2]"), floats(5, 5))
    with pytest.raises(oi.InputError, match=r"fetch\('W\[0\]'\)"):
        ex.fetch("W")


def test_weights_are_read_once_and_only_when_needed(tmp_path: Path):
    model = package(tmp_path, used=floats(1, 2), unused=floats(3, 4))
    read: list[str] = []
    original = model.read

    def counted(name: str) -> Any:
        read.append(name)
        return original(name)

    model.read = counted
    ex = executor(
        """
        constant { used: f32[2]; unused: f32[2]; }
        volatile { y: f32[2]; }
        block entry { op add(used, used) >> y; return; }
        """,
        model,
    )
    assert read == []
    ex.run()
    ex.run()
    assert read == ["used"]


def test_conflicts_with_the_package_show_both_sides(tmp_path: Path):
    model = package(tmp_path, {"D": 2}, w=floats(1, 2, 3), v=floats(1, 2))
    text = """
    constant { w: f32[D]; v: f16[D]; q: f32 @ref("no"); P(l): f32 @pattern("p.{l}"); }
    block entry { return; }
    """
    with pytest.raises(oi.ProgramError) as caught:
        executor(text, model)
    found = [str(d) for d in caught.value.diagnostics]
    assert len(found) == 4
    assert "declared [D] with D = 2" in found[0]
    assert "has shape [3]" in found[0]
    assert "v is declared f16, but tensor 'v' of the model is f32" in found[1]
    assert "'no'" in found[2]
    assert "matches no tensor" in found[3]
    assert all(d.location and d.location.line == 2 for d in caught.value.diagnostics)


def test_sizes_must_not_contradict_the_package(tmp_path: Path):
    model = package(tmp_path, {"D": 2}, w=floats(1, 2))
    with pytest.raises(oi.InputError, match="D is 2 in the model but 3 was given"):
        oi.Simulator(oi.graph(DOUBLE), model, sizes={"D": 3})
    with pytest.raises(oi.InputError, match="negative"):
        oi.Simulator(oi.graph(DOUBLE), None, sizes={"N": -1})


def test_a_missing_member_at_run_time_names_index_and_bound(tmp_path: Path):
    model = package(tmp_path, W__0=floats(1), W__1=floats(2))
    ex = executor(
        """
        dynamic { n: i64; }
        constant { W(l): f32[1] @pattern("W.{l}"); }
        volatile { y: f32[1]; }
        block entry { loop all (l in 0..n) { op add(y, W[l]) >> y; } return; }
        """,
        model,
    )
    with pytest.raises(oi.StepError, match=r"op add\(y, W\[l\]\).*l = 2 of W is outside 0\.\.2"):
        ex.run(n=3)
    assert ex.run(n=2)["y"] == 3


# Checks before a run


def test_all_type_problems_are_reported():
    text = """
    dynamic { x: f32[B, D]; }
    volatile { y: f32[B, D]; z: i32[B, D]; s: f32[E]; }
    block entry {
      op add(x, z) >> y;
      op sum_axis(x, axes=[1]) >> y;
      op cast(x, to=i32) >> y;
      op matmul(x, y) >> y;
      return;
    }
    """
    with pytest.raises(oi.ProgramError) as caught:
        executor(text, None)
    lines = [d.location.line for d in caught.value.diagnostics if d.location]
    assert lines == [3, 5, 6, 7, 8]
    texts = "\n".join(str(d) for d in caught.value.diagnostics)
    assert "size E of s has no value" in texts
    assert "x is f32 but y is i32" in texts
    assert "sum_axis gives f32[B], but y is declared f32[B, D]" in texts
    assert "cast gives i32, but y is declared f32" in texts
    assert "the inner dimensions differ" in texts


def test_modules_that_no_frontend_checked():
    entry = graph.BlockOp(
        "entry",
        [
            graph.TransferOp(graph.RefAttr.of("x"), graph.RefAttr.of("y")),
            graph.OpOp("addd", [graph.RefAttr.of("q")], [graph.RefAttr.of("c")]),
            graph.BranchOp("entry"),
            graph.BranchOp("nowhere"),
        ],
    )
    module = ModuleOp(
        [
            graph.VariableOp("x", "dynamic", "f32", ["N"]),
            graph.VariableOp("y", "volatile", "i32", ["N"]),
            graph.VariableOp("c", "constant", "f32", ["N"]),
            entry,
        ]
    )
    with pytest.raises(oi.ProgramError) as caught:
        Simulator(module)
    codes = sorted(d.code for d in caught.value.diagnostics)
    assert codes == ["OI0210", "OI0212", "OI0214", "OI0220", "OI0240", "OI0244", "OI0312"]


def test_node_numbers_follow_the_text():
    program = oi.graph(
        """
        volatile { y: f32[1]; }
        block entry { loop a (i in 0..2) { op add(y, y) >> y; } branch b; return; }
        block b { op neg(y) >> y; return; }
        """
    )
    rows = list(number_nodes(program.module).values())
    assert [r.index for r in rows] == list(range(6))
    assert [r.text for r in rows] == [
        "loop a (i in 0..2)",
        "op add(y, y) >> y",
        "branch b",
        "return",
        "op neg(y) >> y",
        "return",
    ]


# Inputs


def test_input_errors_leave_the_executor_usable():
    ex = executor(DOUBLE)
    with pytest.raises(oi.InputError, match="not set: x: f32"):
        ex.step()
    with pytest.raises(oi.InputError, match=r"'X'.*\n.*did you mean x"):
        ex.insert(X=floats(1))
    with pytest.raises(oi.InputError, match="y is volatile"):
        ex.insert(y=floats(1))
    with pytest.raises(oi.InputError, match="expected dtype f32, found float64"):
        ex.insert(x=np.zeros(3))
    with pytest.raises(oi.InputError, match="1 dimensions, found an array of shape"):
        ex.insert(x=np.zeros((2, 2), np.float32))
    with pytest.raises(oi.InputError, match="'q'"):
        ex.fetch("q")
    np.testing.assert_array_equal(ex.run(x=floats(1))["y"], floats(2))
    with pytest.raises(oi.InputError, match="not set"):
        ex.step()


def test_shapes_are_solved_together():
    text = """
    dynamic { x: f32[B, D]; w: f32[2*D, 4]; }
    volatile { y: f32[B, D]; }
    block entry { op add(x, x) >> y; return; }
    """
    ex = executor(text)
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(oi.InputError, match=r"dimension 0 is 5, it must be 2\*D = 6 \(D = 3 from"):
        ex.insert(x=x, w=np.zeros((5, 4), np.float32))
    with pytest.raises(oi.InputError, match="dimension 1 is 3, it must be 4"):
        ex.insert(w=np.zeros((6, 3), np.float32))
    ex.insert(x=x)
    ex.insert(w=np.zeros((8, 4), np.float32))
    with pytest.raises(oi.InputError, match=r"it must be 2\*D = 6"):
        ex.step()
    # The inputs are still there: mending one is enough.
    ex.insert(w=np.zeros((6, 4), np.float32))
    ex.step()


def test_fixed_sizes_are_enforced():
    ex = executor(DOUBLE, N=2)
    with pytest.raises(oi.InputError, match=r"it must be N = 2 \(N = 2 from the model"):
        ex.insert(x=floats(1, 2, 3))


def test_fetch_needs_a_value():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        volatile { y: f32[N]; }
        block entry { assign t: f32[N]; op neg(x) >> t; op neg(t) >> y; return; }
        """
    )
    with pytest.raises(oi.InputError, match="N is not known yet"):
        ex.fetch("y")
    ex.run(x=floats(1))
    with pytest.raises(oi.InputError, match="lives only inside a step"):
        ex.fetch("t")
    with pytest.raises(oi.InputError, match="belongs to the caller"):
        ex.fetch("x")


def test_context_manager_closes():
    with executor(DOUBLE) as ex:
        ex.run(x=floats(1))
    with pytest.raises(oi.InputError, match="closed"):
        ex.run(x=floats(1))


# Iteration and traces


def test_iterate_shows_every_node_and_temporaries():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        volatile { y: f32[N]; }
        block entry { assign t: f32[N]; op add(x, x) >> t; op mul(t, x) >> y; return; }
        """
    )
    ex.insert(x=floats(3))
    seen: list[tuple[str, Any]] = []
    for node in ex.iterate():
        if node.event.kind == "OpExecute":
            seen.append((node.event.description, node.fetch("t")))
            with pytest.raises(oi.InputError, match="being iterated"):
                ex.insert(x=floats(1))
    assert seen == [("op add(x, x) >> t", floats(6)), ("op mul(t, x) >> y", floats(6))]
    assert ex.fetch("y") == 18
    kinds = [e.kind for e in ex.trace()]
    assert kinds == ["BlockEnter", "Assign", "OpExecute", "OpExecute", "Return", "BlockExit"]


def test_leaving_an_iteration_abandons_the_step():
    ex = executor(DOUBLE)
    ex.run(x=floats(1))
    ex.insert(x=floats(5))
    iteration = ex.iterate()
    for node in iteration:
        if node.event.kind == "OpExecute":
            break
    iteration.close()
    np.testing.assert_array_equal(ex.fetch("y"), floats(2))
    np.testing.assert_array_equal(ex.run(x=floats(2))["y"], floats(4))


def test_trace_json_has_its_fields_and_stable_uuids():
    first, second = executor(DOUBLE), executor(DOUBLE)
    for ex in (first, second):
        ex.run(x=floats(1, 2))
    rows = json.loads(trace_json(first.trace()))
    other = json.loads(trace_json(second.trace()))
    assert [r["node_uuid"] for r in rows] == [r["node_uuid"] for r in other]
    op = next(r for r in rows if r["kind"] == "OpExecute")
    assert list(op)[:8] == [
        "block_name",
        "node_index",
        "node_uuid",
        "kind",
        "params",
        "output",
        "micros",
        "shapes",
    ]
    assert (op["params"], op["output"], op["shapes"]) == (["x", "x"], ["y"], {"x": [2], "y": [2]})
    assert len(op["micros"]) == 3
    chrome = json.loads(chrome_trace(first.trace()))["traceEvents"]
    assert [r["ph"] for r in chrome] == ["B", "X", "X", "E"]


def test_trace_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("OPENINFER_TRACE", "full")
    ex = executor(DOUBLE)
    ex.run(x=floats(1))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert "[TRACE] -- 0 " in lines[1]
    assert "[entry] -- op add(x, x) >> y -- (" in lines[1]
    assert "x: f32[1]" in lines[1]
    monkeypatch.setenv("OPENINFER_TRACE", "")
    executor(DOUBLE).run(x=floats(1))
    assert capsys.readouterr().err == ""


# Failing steps


def test_failing_steps_name_node_index_and_bound():
    ex = executor(
        """
        dynamic { ids: i64[N]; }
        constant { table: f32[4, 2] @init(1.5); }
        volatile { y: f32[N, 2]; }
        block entry {
          op gather(table, ids) >> y;
          return;
        }
        """
    )
    ex.run(ids=np.array([0, 3]))
    with pytest.raises(oi.StepError) as caught:
        ex.run(ids=np.array([0, 4, 1]))
    message = str(caught.value)
    assert "<graph>:6:" in message
    assert "node 0 in block entry: op gather(table, ids) >> y" in message
    assert "index 4 at position [1]" in message
    assert "0..4" in message
    # State is as before the step, and the executor works on.
    assert np.shape(ex.fetch("y")) == (2, 2)
    assert ex.run(ids=np.array([2]))["y"].shape == (1, 2)


def test_sizes_of_a_step_can_break_a_rule():
    ex = executor(
        """
        dynamic { x: f32[N]; }
        volatile { y: f32[2]; }
        block entry { op slice(x, start=3, stop=5) >> y; return; }
        """
    )
    np.testing.assert_array_equal(ex.run(x=np.arange(6, dtype=np.float32))["y"], floats(3, 4))
    with pytest.raises(oi.StepError, match="behind the end"):
        ex.run(x=np.arange(4, dtype=np.float32))


def test_reset_forgets():
    ex = executor(DOUBLE)
    ex.insert(x=floats(1))
    ex.reset()
    with pytest.raises(oi.InputError, match="not set"):
        ex.step()
    assert ex.trace() == []
