"""Rows of `nn.interface`: what the manifest's dataclasses become, and what comes back of them."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.parser import Parser

from openinfer.compiler.registry import make_context
from openinfer.dialects.graph import NameAttr, SizeAttr
from openinfer.dialects.nn import PairsAttr, PanelsAttr, update_interface
from openinfer.lowering.interface import Weight, as_attribute, as_data, read_rows
from openinfer.runtime.manifest import (
    BlockRow,
    NodeRow,
    PlanRow,
    RequirementRow,
    StampRow,
    StateRow,
    VariableRow,
)
from openinfer.runtime.sizes import Size

ROWS: list[object] = [
    VariableRow("W", "constant", "f32", ["2*N"], ["W.0", "W.1"], [2], ["l"]),
    VariableRow("c", "constant", "f64", [], value=-0.5),
    VariableRow("n", "constant", "u64", [], value=7, unfilled=True),
    StateRow("K", "f16", ["l", "t"], 1, ["0", "0"], ["", "6"], ["4"], [], True, fixed={"t": 6}),
    StateRow("P", "f32", ["0"], 0, ["3"], [""], [], ["P"], False, 0.5, 3, {}, True, "x", [0, 2]),
    NodeRow("entry", 3, "u", "OpExecute", "add", "op", {}, ["x"], ["y"], "p.oi", 1, 2, "a/b", [0]),
    BlockRow("entry", "u", "p.oi", 1, 2),
    RequirementRow("1", "N", -1, "capacity"),
    StampRow("begin", "matmul_0", [1, 2]),
    PlanRow("y", "64*N", "256", 0, 4),
    Weight("W", ("W.0", "W.1"), (2,), PanelsAttr(32), "prepare_0"),
    Weight("V", ("V",), layout=PairsAttr(16), prepare="prepare_1"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_rows_survive_a_dump(row: object) -> None:
    """Written, printed, parsed and read, every row is what it was."""
    module = ModuleOp([])
    update_interface(module, {"rows": as_attribute([row])})
    read = Parser(make_context(), str(module)).parse_module()
    assert read_rows(read, "rows", type(row)) == [row]


def test_defaults_take_no_room() -> None:
    row = VariableRow("x", "dynamic", "f32", ["B"])
    assert as_data(as_attribute(row)) == {
        "name": "x", "memory": "dynamic", "dtype": "f32", "dims": ["B"],
    }  # fmt: skip


def test_settings_are_their_texts() -> None:
    settings = {"axis": -1, "on": True, "to": NameAttr("f16"), "size": SizeAttr(Size.of("2*N"))}
    row = NodeRow("entry", 0, "u", "OpExecute", "cast", "", dict(settings), [], [], "", 0, 0)
    module = ModuleOp([])
    update_interface(module, {"nodes": as_attribute([row])})
    (read,) = read_rows(module, "nodes", NodeRow)
    assert read.settings == {"axis": -1, "on": True, "to": "f16", "size": "2*N"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": StringAttr("0")}, r"plan\[1\]\.first is '0', not an integer"),
        ({"first": as_attribute(True)}, r"plan\[1\]\.first is True, not an integer"),
        ({"extra": as_attribute(3)}, r"plan\[1\]\.extra is unknown"),
    ],
)
def test_misfits_are_named(change: dict[str, StringAttr], message: str) -> None:
    row = PlanRow("y", "0", "4", 0, 1)
    module = ModuleOp([])
    changed = {**vars(row), **change}
    update_interface(module, {"plan": as_attribute([row, changed])})
    with pytest.raises(ValueError, match=f"^{message}$"):
        read_rows(module, "plan", PlanRow)
