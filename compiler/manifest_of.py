"""Reads the manifest of a program off the interface of its lowered module."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from openinfer.dialects.nn import interface_of
from openinfer.lowering.facts import Facts
from openinfer.lowering.interface import as_data
from openinfer.lowering.state_layout import layout_of
from openinfer.runtime.manifest import Manifest, WeightRow
from openinfer.runtime.rows import row_of
from openinfer.runtime.version import openinfer_version

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package

_FIELDS = frozenset(row.name for row in fields(Manifest))
_WEIGHT_FIELDS = frozenset(row.name for row in fields(WeightRow))
_LISTS = ("variables", "returns", "outputs", "frame", "plan", "nodes")
"""What has no default in a manifest, and may be missing where a program has none."""


def manifest_of(module: ModuleOp, device: str, name: str, package: Package | None) -> Manifest:
    """The manifest of a module of level `threads` or `llvm`."""
    facts = Facts.of(module)
    entries = {key: as_data(value) for key, value in interface_of(module).items()}
    cells = layout_of(module).states
    data: dict[str, Any] = {
        **{key: [] for key in _LISTS},
        "arena": "0",
        "offsets": {},
        **{key: value for key, value in entries.items() if key in _FIELDS},
        "name": name,
        "version": openinfer_version(),
        "device": device,
        "target": facts.target.key,
        "strict_math": facts.strict_math,
        "subgroup": facts.device_description.subgroup,
        "package": package.header_hash() if package is not None else None,
        "package_path": str(package.path) if package is not None else None,
        "sizes": entries.get("fixed", {}),
        "runtime_sizes": entries.get("sizes", []),
        "states": [
            {**row, "cell": cells[row["name"]].cell} if row["name"] in cells else row
            for row in entries.get("states", [])
        ],
        "weights": [
            {key: value for key, value in row.items() if key in _WEIGHT_FIELDS} | {"nbytes": nbytes}
            for row, nbytes in zip(entries.get("weights", []), entries.get("weight_bytes", []))
        ],
    }
    return row_of(Manifest, data)
