"""Checks of caches in modules that no frontend has seen."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, UnitAttr

import openinfer as oi
from openinfer.dialects import graph
from openinfer.lowering.reference.simulator import Simulator


def variable(name: str, *indices: str, dims: tuple[Any, ...] = (), **options: Any) -> Any:
    return graph.VariableOp(name, "persistent", "f32", dims, indices, options)


def findings(*ops: Any) -> list[str]:
    names = {op.variable.data for op in ops if isinstance(op, graph.VariableOp)}
    assert names
    with pytest.raises(oi.ProgramError) as caught:
        Simulator(ModuleOp(list(ops)))
    return sorted(d.code for d in caught.value.diagnostics)


def names_of(*names: str) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])


def entry(*nodes: Any) -> Any:
    return graph.BlockOp("entry", [*nodes, graph.ReturnOp()])


def ref(name: str, *slots: Any) -> graph.RefAttr:
    return graph.RefAttr.of(name, slots, bracketed=bool(slots))


FULL = graph.SliceAttr(StringAttr(""), StringAttr(""))


def test_declarations_from_ir() -> None:
    table, two = UnitAttr(), names_of("i", "j")
    assert findings(
        variable("a", "i", "j", dims=(2, 3), auto_dim=names_of("j", "i")),
        variable("b", "i", "j", dims=(2,), auto_dim=two),
        variable("c", "i", dims=(2,), auto_dim=names_of("k")),
        variable("d", "i"),
        variable("e", "i", dims=(2,), auto_dim=names_of("i"), table=table),
        variable("f", "i", dims=("_",), auto_dim=names_of("i")),
        graph.VariableOp("g", "volatile", "f32", (), ("i",), {"table": table}),
        entry(),
    ) == ["OI0252"] * 3 + ["OI0255"] * 2 + ["OI0257"] * 2 + ["OI0305"]


def test_nodes_from_ir() -> None:
    table = {"table": UnitAttr()}
    declared = (
        variable("K", "l", "t", dims=(2,), **table),
        variable("A", "i", "j", dims=(2, 3), auto_dim=names_of("i", "j")),
        variable("C", "l", "i", dims=(2,), auto_dim=names_of("i"), **table),
        graph.VariableOp("flag", "persistent", "bool"),
        graph.VariableOp("s", "persistent", "f32"),
        graph.VariableOp("v", "volatile", "f32", (2,)),
        graph.VariableOp("w", "volatile", "i32", (2,)),
        graph.VariableOp("m", "volatile", "f32", (2, 3)),
    )

    def check(node: Any, *codes: str) -> None:
        ops = [op.clone() for op in declared]
        assert findings(*ops, entry(node)) == list(codes), node

    read, write = graph.CacheReadOp, graph.CacheWriteOp
    check(read(ref("v"), ref("v")), "OI0221")
    check(read(ref("nothing"), ref("v")), "OI0210")
    check(read(ref("K", 0, 0, 0), ref("v")), "OI0230")
    check(read(ref("K", "zz", 0), ref("v")), "OI0210")
    check(read(ref("K", "i", 0), ref("v")), "OI0210")
    check(read(ref("K", -1, 0), ref("v")), "OI0309")
    check(read(ref("K", 0, 0), ref("w")), "OI0312")
    check(read(ref("K", 0), ref("v")), "OI0312")
    check(read(ref("A"), ref("v")), "OI0312")
    check(read(ref("K", 0, 0), ref("s")), "OI0221", "OI0312")
    check(write(ref("v"), ref("K")), "OI0234")
    check(write(ref("m"), ref("C", FULL, 0)), "OI0234")
    check(write(ref("m"), ref("A", FULL, FULL)), "OI0236")
    part = graph.SliceAttr(graph.SizeAttr.of(0), graph.SizeAttr.of(1))
    check(write(ref("v"), ref("A", 0, part)), "OI0236")
    check(write(ref("m"), ref("K", 0, part)), "OI0312")
    check(write(ref("K", 0, 0), ref("K", 0, 0)), "OI0221")
    check(graph.CacheStepOp("K", 1), "OI0222")
    check(graph.CacheStepOp("flag", 1), "OI0223")
    check(graph.CacheResetOp(ref("K", part)), "OI0235")
    check(graph.CacheResetOp(ref("C", 0, 0)), "OI0235")
    check(graph.OpOp("neg", [ref("K", 0, 0)], [ref("v")]), "OI0221")
    check(graph.OpOp("neg", [ref("v")], [ref("s")]), "OI0221")
    check(graph.YieldOp(["K"]), "OI0230", "OI0267")
    check(graph.AwaitOp(["nothing"]), "OI0210", "OI0262")


def test_what_may_be_right_is_not_refused() -> None:
    oi.Simulator(
        """
        dynamic { x: f32[N]; n: i64; }
        persistent { K(t): f32[N] @table; A(i, j): f32[2, 3] @auto_dim(i, j); }
        volatile { y: f32[4]; z: f32[4, N]; w: f32[N, N]; }
        block entry {
          assign t: f32[n, N]; assign m: f32[2, 5]; assign row: f32[5]; assign one: f32[_];
          cache.read K[0..n] >> t; cache.read K[0..n] >> z; cache.read K[1..5] >> z;
          cache.read K[..] >> w; cache.write w >> K[0..N]; cache.read K[0..-1] >> z;
          cache.read A[0, 2] >> m; cache.read A[0, ] >> row; cache.read K[n - 1] >> one;
          return;
        }
        """
    )
