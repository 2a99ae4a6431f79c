"""The facts of a program as JSON data: sizes, memory, state, blocks, ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    LoopOp,
    NameAttr,
    OpOp,
    SizeAttr,
    VariableOp,
    YieldOp,
)
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.nodes import form_of
from openinfer.lowering.program.sources import package_name, pattern_of
from openinfer.lowering.program.view import ProgramView, dtype_of
from openinfer.runtime.dtypes import DTYPES, dtype
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.signature import bounds_of
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


def program_facts(
    module: ModuleOp, package: Package | None, given: Mapping[str, int]
) -> dict[str, Any]:
    """Everything that can be known without running; sizes are filled in as far as they are known.

    Raises InputError for a given size that contradicts the package or that is named nowhere, and
    ProgramError for sizes that cannot be.
    """
    view = ProgramView.of(_typed(module, package, given), package, given)
    variables = [_variable(view, op) for op in view.variables.values()]
    temporaries = [_temporary(view, op) for op in view.temporaries.values()]
    blocks = [_block(op) for op in view.blocks.values()]
    ops = Counter(node.op_name.data for node in view.nodes if isinstance(node, OpOp))
    return {
        "sizes": _sizes(view, given),
        "variables": variables,
        "temporaries": temporaries,
        "bytes": _totals([*variables, *temporaries]),
        "state": [_state(view, op) for op in view.variables.values() if _is_persistent(op)],
        "results": view.results(),
        "blocks": blocks,
        "ops": _by_frequency(ops),
    }


def _typed(module: ModuleOp, package: Package | None, given: Mapping[str, int]) -> ModuleOp:
    """The module with the types that it leaves open, as far as they can be inferred."""
    try:
        return with_types(module, package, given)
    except ProgramError:
        return module  # Shown as open; running it says why.


def _is_persistent(op: VariableOp) -> bool:
    return op.memory.data == "persistent"


def _by_frequency(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# Sizes


def _sizes(view: ProgramView, given: Mapping[str, int]) -> list[dict[str, Any]]:
    """Every name that a dimension uses and that is no variable, with where its value is from."""
    names: dict[str, None] = {}
    for op in [*view.variables.values(), *view.temporaries.values()]:
        own = {i.data for i in op.indices} if isinstance(op, VariableOp) else set[str]()
        for dim in op.sizes:
            names.update(dict.fromkeys(sorted(dim.names - own - {"_"})))
    loops = [node for node in view.nodes if isinstance(node, LoopOp)]
    indices = {loop.index.data for loop in loops}
    for bound in (bound.data for loop in loops for bound in (loop.start, loop.stop)):
        names.update(dict.fromkeys(sorted(bound.names)))
    rows: list[dict[str, Any]] = []
    row: dict[str, Any]
    for name in names:
        if name in view.variables or name in view.temporaries:
            continue
        source = _origin(view, name, given)
        if source is None and name in indices:
            continue
        row = {"name": name, "value": view.sizes.get(name)}
        row["from"] = source or "nothing: give --size"
        if bounds := bounds_of(name, view.bounds):
            row["bounds"] = list(bounds)
        rows.append(row)
    return rows


def _origin(view: ProgramView, name: str, given: Mapping[str, int]) -> str | None:
    package = view.package
    if package is not None and name in package.sizes:
        return "the package"
    if name in given:
        return "--size"
    if name in view.sizes:
        for op in view.variables.values():
            for info in view.linked_tensors(op):
                axes = [axis for axis, dim in enumerate(op.sizes) if dim.single_name == name]
                if axes:
                    return f"axis {axes[0]} of tensor {info.name}"
        return "the package"
    for op in view.variables.values():
        for axis, dim in enumerate(op.sizes):
            if op.memory.data == "dynamic" and dim.single_name == name:
                return f"axis {axis} of input {op.variable.data}"
    return None


# Memory


def _variable(view: ProgramView, op: VariableOp) -> dict[str, Any]:
    is_state = _is_persistent(op) and bool(op.indices.data)
    members = view.extents(op) if op.indices.data and not is_state else []
    count = 1
    for extent in members:
        count *= extent
    row = {
        "name": op.variable.data,
        "memory": op.memory.data,
        "dtype": op.dtype.data,
        "dims": [str(size) for size in op.sizes],
        "shape": _shape(op.sizes, view.sizes),
        "indices": [index.data for index in op.indices],
        "members": members,
        "options": {key: _option(value) for key, value in op.options.data.items()},
        "source": _source(view, op),
        "line": _line(op),
    }
    return row | _bytes(view, op, count if members else 1)


def _temporary(view: ProgramView, op: AssignOp) -> dict[str, Any]:
    row = {
        "name": op.variable.data,
        "memory": "temporary",
        "dtype": op.dtype.data,
        "dims": [str(size) for size in op.sizes],
        "shape": _shape(op.sizes, view.sizes),
        "source": "zeros, each step",
        "line": _line(op),
    }
    return row | _bytes(view, op, 1)


def _line(op: VariableOp | AssignOp | BlockOp) -> int | None:
    place = location_of(op)
    return place.line if place is not None else None


def _shape(dims: Iterable[Size], sizes: Mapping[str, int]) -> list[int | str]:
    """The extents with every known size filled in; text where one is not known."""
    found = [dim.substitute(sizes) for dim in dims]
    return [str(dim) if dim.constant is None else dim.constant for dim in found]


def _bytes(view: ProgramView, op: VariableOp | AssignOp, count: int) -> dict[str, Any]:
    """`bytes`: a number when all sizes are known, else an expression; None for an open one."""
    if any(dim.single_name == "_" for dim in op.sizes) or dtype_of(op) not in DTYPES:
        return {"bytes": None}
    return {"bytes": _plain(byte_size(dtype_of(op), op.sizes).substitute(view.sizes) * count)}


def _plain(size: Size) -> int | str:
    return str(size) if size.constant is None else size.constant


def byte_size(name: str, dims: Iterable[Size]) -> Size:
    """Bytes of a tensor as an expression; sub-byte values are packed. Raises KeyError."""
    row = dtype(name)
    elements = Size.of(1)
    for dim in dims:
        elements = elements * dim
    if row.packed:
        return (elements * row.bits + 7) // 8
    return elements * (row.bits // 8)


def _source(view: ProgramView, op: VariableOp) -> str:
    """Where the first content comes from, in words."""
    memory, name = op.memory.data, package_name(op)
    if memory == "dynamic":
        return "the caller"
    init = op.option("init")
    initial = f"@init({_option(init)})" if init is not None else ""
    if memory == "persistent" and initial:
        return initial
    pattern = pattern_of(op)
    tensors = view.linked_tensors(op)
    if pattern is not None and not tensors:
        return f"tensors {pattern}, of which the package has none"
    if pattern is not None:
        return f"{len(tensors)} tensors {pattern}"
    if tensors:
        without = "" if tensors[0].has_data else ", which has no data"
        return f"tensor {tensors[0].name}{without}"
    if view.metadata(name) is not None:
        return f"metadata {name}"
    if name in view.sizes:
        return f"size {name}"
    if initial:
        return initial
    if memory == "constant":
        return f"tensor {name}, which the package lacks" if view.package else f"tensor {name}"
    return "zeros"


def _option(value: Attribute) -> str:
    """The text of an attribute as a declaration writes it; empty for one without a value."""
    match value:
        case UnitAttr():
            return ""
        case FloatAttr():
            return repr(value.value.data)
        case IntegerAttr():
            return str(value.value.data)
        case SizeAttr():
            return str(value.data)
        case StringAttr():
            return f'"{value.data}"'
        case NameAttr():
            return value.data
        case ArrayAttr():
            return ", ".join(_option(item).strip('"') for item in value.data)
        case DictionaryAttr():
            return ", ".join(f"{key}={_option(item)}" for key, item in value.data.items())
        case _:
            return str(value)


def _totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, int | str]:
    """Bytes by memory kind, as far as declarations say; tables and growing matrices apart."""
    sums: dict[str, Size] = {}
    for row in rows:
        grows = row["memory"] == "persistent" and row["indices"]
        if row["bytes"] is not None and not grows:
            sums[row["memory"]] = sums.get(row["memory"], Size.of(0)) + Size.of(row["bytes"])
    return {memory: _plain(size) for memory, size in sums.items()}


# State


def _state(view: ProgramView, op: VariableOp) -> dict[str, Any]:
    """A persistent variable: what it is, how each index grows, bytes of an entry and at most."""
    grown = _names(op.option("auto_dim"))
    bounds = _bounds(view, op.option("fixed"))
    indices = [index.data for index in op.indices]
    growth = [
        {
            "index": name,
            "grows": "a dimension" if name in grown else "entries",
            "bound": bounds.get(name),
        }
        for name in indices
    ]
    entry = byte_size(dtype_of(op), op.sizes).substitute(view.sizes)
    return {
        "name": op.variable.data,
        "kind": _state_kind(op, grown),
        "entry": f"{op.dtype.data}[{', '.join(str(d) for d in op.sizes)}]",
        "entry_bytes": _plain(entry),
        "indices": growth,
        "most_bytes": _most(op, view, grown, bounds),
        "source": _source(view, op),
    }


def _state_kind(op: VariableOp, grown: list[str]) -> str:
    if len(op.indices) > len(grown):
        return "table of matrices" if grown else "table"
    if grown:
        return "growing matrix"
    return "tensor" if op.sizes else "scalar"


def _most(
    op: VariableOp, view: ProgramView, grown: list[str], bounds: Mapping[str, int | None]
) -> int | str | None:
    """Bytes when every index has reached its bound; None when one has none."""
    dims = [dim.substitute(view.sizes) for dim in op.sizes]
    count = 1
    for name in (index.data for index in op.indices):
        bound = bounds.get(name)
        if bound is None:
            return None
        if name in grown:
            axis = grown.index(name)
            if axis < len(dims):
                dims[axis] = dims[axis] + bound
        else:
            count *= bound
    return _plain(byte_size(dtype_of(op), dims) * count)


def _names(value: Attribute | None) -> list[str]:
    items = value.data if isinstance(value, ArrayAttr) else ()
    return [item.data for item in items if isinstance(item, StringAttr)]


def _bounds(view: ProgramView, value: Attribute | None) -> dict[str, int | None]:
    """`@fixed(i=N)` by index; None for a bound that is not known yet."""
    found: dict[str, int | None] = {}
    for name, item in (value.data if isinstance(value, DictionaryAttr) else {}).items():
        if isinstance(item, IntegerAttr):
            found[name] = item.value.data
        elif isinstance(item, SizeAttr):
            found[name] = item.data.substitute(view.sizes).constant
        else:
            text = getattr(item, "data", None)
            found[name] = view.sizes.get(text) if isinstance(text, str) else None
    return found


# Blocks


def _block(block: BlockOp) -> dict[str, Any]:
    """A block: counts of its nodes by op or form, and the blocks that it calls or feeds."""
    counts: Counter[str] = Counter()
    calls: dict[str, None] = {}
    awaits: dict[str, None] = {}
    yields: dict[str, None] = {}
    for node in block.walk():
        if node is block:
            continue
        counts[node.op_name.data if isinstance(node, OpOp) else form_of(node)] += 1
        match node:
            case BranchOp():
                calls[node.then_block.data] = None
                if node.else_block is not None:
                    calls[node.else_block.data] = None
            case AwaitOp():
                awaits.update(dict.fromkeys(node.names))
            case YieldOp():
                yields.update(dict.fromkeys(node.names))
            case _:
                pass
    return {
        "name": block.block_name.data,
        "line": _line(block),
        "count": counts.total(),
        "nodes": _by_frequency(counts),
        "calls": list(calls),
        "awaits": list(awaits),
        "yields": list(yields),
    }
