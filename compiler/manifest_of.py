"""Reads the manifest of a program off the attributes of its lowered module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from openinfer.dialects.nn import interface_of
from openinfer.lowering.graph.settings import python_value
from openinfer.lowering.interface import read_weights, strings
from openinfer.lowering.memory.state_layout import layout_of
from openinfer.runtime.manifest import (
    BlockRow,
    Manifest,
    NodeRow,
    PlanRow,
    RequirementRow,
    StampRow,
    StateRow,
    VariableRow,
    WeightRow,
)
from openinfer.runtime.sizes import Size
from openinfer.runtime.version import openinfer_version

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.target import TargetDescription


def manifest_of(
    module: ModuleOp, target: TargetDescription, name: str, package: Package | None
) -> Manifest:
    """The manifest of a module of level `loops` or `llvm`."""
    return Manifest(
        name=name,
        version=openinfer_version(),
        target=target.key,
        package=package.header_hash() if package is not None else None,
        package_path=str(package.path) if package is not None else None,
        sizes={key: _int(value) for key, value in _entries(module, "fixed").items()},
        runtime_sizes=strings(module, "sizes"),
        variables=[_variable(row) for row in _rows(module, "variables")],
        returns=strings(module, "returns"),
        outputs=strings(module, "outputs"),
        offsets={key: _str(value) for key, value in _entries(module, "offsets").items()},
        weights=_weights(module),
        frame=strings(module, "frame"),
        arena=_str(interface_of(module).get("arena", StringAttr("0"))),
        plan=[
            PlanRow(
                _str(row["name"]),
                _str(row["offset"]),
                _str(row["size"]),
                _int(row["first"]),
                _int(row["last"]),
            )
            for row in _rows(module, "plan")
        ],
        nodes=[_node(row) for row in _rows(module, "nodes")],
        requires=[
            RequirementRow(
                _str(row["low"]), _str(row["high"]), _int(row["node"]), _str(row["kind"])
            )
            for row in _rows(module, "requires")
        ],
        states=_states(module),
        late=strings(module, "late"),
        shapes={key: _texts(value) for key, value in _entries(module, "shapes").items()},
        watched=strings(module, "watched"),
        watched_dims={k: _texts(v) for k, v in _entries(module, "watched_dims").items()},
        blocks=[
            BlockRow(
                name=_str(row["name"]),
                uuid=_str(row["uuid"]),
                file=_str(row["file"]),
                line=_int(row["line"]),
                column=_int(row["column"]),
            )
            for row in _rows(module, "blocks")
        ],
        stamps=[
            StampRow(_str(row["phase"]), _str(row["what"]), _ints(row, "nodes"))
            for row in _rows(module, "stamps")
        ],
        precision=_str(interface_of(module).get("precision", StringAttr("f32"))),
        rounded_products=_int(interface_of(module).get("rounded_products", IntegerAttr(0, 64))),
    )


Row = Mapping[str, Attribute]


def _rows(module: ModuleOp, key: str) -> list[Row]:
    value = interface_of(module).get(key)
    rows = value.data if isinstance(value, ArrayAttr) else ()
    return [row.data for row in rows if isinstance(row, DictionaryAttr)]


def _entries(module: ModuleOp, key: str) -> Row:
    value = interface_of(module).get(key)
    return value.data if isinstance(value, DictionaryAttr) else {}


def _str(value: Attribute) -> str:
    assert isinstance(value, StringAttr)
    return value.data


def _int(value: Attribute) -> int:
    assert isinstance(value, IntegerAttr)
    return value.value.data


def _list(row: Row, key: str) -> list[str]:
    value = row.get(key)
    return [_str(item) for item in value] if isinstance(value, ArrayAttr) else []


def _ints(row: Row, key: str) -> list[int]:
    value = row.get(key)
    return [_int(item) for item in value] if isinstance(value, ArrayAttr) else []


def _variable(row: Row) -> VariableRow:
    members = row.get("members")
    value = row.get("value")
    return VariableRow(
        name=_str(row["name"]),
        memory=_str(row["memory"]),
        dtype=_str(row["dtype"]),
        dims=_list(row, "dims"),
        sources=_list(row, "sources"),
        members=[_int(n) for n in members] if isinstance(members, ArrayAttr) else [],
        indices=_list(row, "indices"),
        value=value.value.data if isinstance(value, IntegerAttr | FloatAttr) else None,
        unfilled="unfilled" in row,
    )


def _texts(value: Attribute) -> list[str]:
    return [_str(item) for item in value] if isinstance(value, ArrayAttr) else []


def _dictionary(value: Attribute) -> Row:
    return value.data if isinstance(value, DictionaryAttr) else {}


def _states(module: ModuleOp) -> list[StateRow]:
    layout = layout_of(module)
    found: list[StateRow] = []
    for row in _rows(module, "states"):
        name = _str(row["name"])
        value = row.get("value")
        found.append(
            StateRow(
                name=name,
                dtype=_str(row["dtype"]),
                axes=_list(row, "axes"),
                tables=_int(row["tables"]),
                base=_list(row, "base"),
                limits=_list(row, "limits"),
                entry=_list(row, "entry"),
                sources=_list(row, "sources"),
                value=value.value.data if isinstance(value, IntegerAttr | FloatAttr) else None,
                marks=bool(_int(row["marks"])),
                cell=layout.states[name].cell if name in layout.states else -1,
                fixed={key: _int(v) for key, v in _dictionary(row["fixed"]).items()},
                open="open" in row and bool(_int(row["open"])),
                touched=_str(row["touched"]) if "touched" in row else "",
                late=_ints(row, "late"),
            )
        )
    return found


def _weights(module: ModuleOp) -> list[WeightRow]:
    sizes = interface_of(module).get("weight_bytes")
    nbytes = [_int(n) for n in sizes] if isinstance(sizes, ArrayAttr) else []
    return [
        WeightRow(w.variable, list(w.sources), size, w.prepare)
        for w, size in zip(read_weights(module), nbytes)
    ]


def _settings(value: Attribute | None) -> dict[str, Any]:
    """Settings as JSON holds them; a size expression is its text."""

    def plain(item: object) -> Any:
        if isinstance(item, tuple):
            return [plain(part) for part in item]
        return str(item) if isinstance(item, Size) else item

    entries = value.data if isinstance(value, DictionaryAttr) else {}
    return {name: plain(python_value(v, lambda n: n)) for name, v in entries.items()}


def _node(row: Row) -> NodeRow:
    return NodeRow(
        block=_str(row["block"]),
        index=_int(row["index"]),
        uuid=_str(row["uuid"]),
        kind=_str(row["kind"]),
        op=_str(row["op"]),
        text=_str(row["text"]),
        settings=_settings(row.get("settings")),
        params=_list(row, "params"),
        output=_list(row, "output"),
        file=_str(row["file"]),
        line=_int(row["line"]),
        column=_int(row["column"]),
        scope=_str(row.get("scope", StringAttr(""))),
        loops=_ints(row, "loops"),
    )
