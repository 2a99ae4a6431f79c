"""Inputs and program text of a case."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from edges import edge_rows, edges
from table import Case

from openinfer.dialects.opset import TensorSpec, find, infer_outputs
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import value_range
from openinfer.runtime.tensors import Tensor

_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38)
SMALLEST_NORMAL = 2.0**-126
"""Of f32 and bf16."""
FLUSHED = ("f32", "bf16")


def flushed(values: Any) -> Any:
    """Values as a device reads them that takes subnormal numbers of f32 for zeros."""
    with np.errstate(invalid="ignore"):
        small = np.abs(values) < SMALLEST_NORMAL
    return np.where(small, np.copysign(0, values), values).astype(values.dtype)


def draw_inputs(case: Case, *, flush: bool = False) -> dict[str, Tensor]:
    """The operands `a0`, `a1`, … of a case, the same for the same seed; `flush`: without subnormal numbers of
    f32, and of bf16, which devices compute in it."""
    random = np.random.default_rng([case.seed, *case.op.encode()])
    found: dict[str, Tensor] = {}
    for number, (shape, dtype) in enumerate(zip(case.shapes, case.dtypes)):
        values = _values(case, number, shape, dtype, random)
        if flush and dtype in FLUSHED:
            values = flushed(np.asarray(values))
        found[f"a{number}"] = Tensor.from_values(dtype, values)
    return found


def _values(
    case: Case, number: int, shape: Sequence[int], dtype: str, random: np.random.Generator
) -> Any:
    row = DTYPES[dtype]
    if case.draw == "indices" and number == (0 if case.op == "one_hot" else 1):
        axis = int(case.settings.get("axis", 0))
        bound = int(case.settings.get("depth", 0)) or case.shapes[0][axis]
        most = value_range(row)
        assert most is not None
        return random.integers(0, min(bound, most[1] + 1), shape)
    if case.draw == "experts" and number == 2:
        return random.integers(0, case.shapes[1][0], shape)
    if case.draw == "edges":
        return edges(dtype, number, shape)
    if case.draw == "edge rows":
        return edge_rows(dtype, shape)
    if row.kind == "bool":
        return random.random(shape) < 0.6
    if row.is_float:
        return _floats(case.draw, number, shape, random)
    if row.name == "t1":  # It has no 0.
        return 2 * random.integers(0, 2, shape) - 1
    bounds = value_range(row)
    assert bounds is not None
    low, high = max(bounds[0], -9), min(bounds[1], 9)
    if case.draw == "extreme":
        choices = [bounds[0], bounds[1], 0, min(bounds[1], 1), max(bounds[0], -1)]
        return np.array(choices, row.value)[random.integers(0, 5, shape)]
    if case.draw == "wide":
        low, high = max(bounds[0], -1000), min(bounds[1], 1000)
    if case.draw == "small":
        low, high = max(bounds[0], -1), min(bounds[1], 1)
    values = random.integers(low, high + 1, shape)
    if case.draw == "nonzero":
        return np.where(values == 0, 1 if bounds[1] else -1, values)
    if case.draw == "zeros":
        return np.where(random.random(shape) < 0.5, 0, values)
    return values


def _floats(draw: str, number: int, shape: Sequence[int], random: np.random.Generator) -> Any:
    if draw == "special":
        count = int(np.prod(shape))
        chosen = np.resize(np.array(_SPECIAL), count)
        # The second operand meets the first one in another order.
        return np.roll(chosen, 3 * number).reshape(shape)
    values = random.standard_normal(shape)
    match draw:
        case "positive":
            return np.abs(values) + 0.1
        case "nonzero":
            return np.where(np.abs(values) < 0.1, 0.5, values)
        case "zeros":
            return np.where(random.random(shape) < 0.5, 0.0, values)
        case "variance":
            return np.abs(values) + 0.1 if number == 2 else values
        case "gaps" if number == 0:
            chosen = random.integers(0, 30, shape)
            for place, value in enumerate((np.nan, np.inf, -np.inf, -0.0)):
                values = np.where(chosen == place, value, values)
            return values
        case "wide":
            return values * 30
        case "halves":
            return random.integers(-9, 10, shape) / 2
        case "small":
            return random.integers(-1, 2, shape).astype(np.float64)
        case _:
            return values


def program_text(case: Case) -> str:
    """A program of one op node that writes `r0`, `r1`, …"""
    return batch_text([case], [""])


def batch_text(cases: Sequence[Case], suffixes: Sequence[str]) -> str:
    """A program of one op node for each case; the names of a case end with its suffix."""
    inputs: list[str] = []
    outputs: list[str] = []
    nodes: list[str] = []
    for case, suffix in zip(cases, suffixes, strict=True):
        for lines, more in zip((inputs, outputs, nodes), _node(case, suffix)):
            lines += more
    return "\n".join(
        [
            f"dynamic {{ {' '.join(inputs)} }}" if inputs else "",
            f"volatile {{ {' '.join(outputs)} }}",
            "block entry {",
            *nodes,
            "  return;",
            "}",
            "",
        ]
    )


def _node(case: Case, suffix: str) -> tuple[list[str], list[str], list[str]]:
    """Inputs, outputs and statements of a case."""
    spec = find(case.op)
    assert spec is not None
    dims = [[str(extent) for extent in shape] for shape in case.shapes]
    if case.runtime and dims and dims[0]:
        first, dims[0][0] = dims[0][0], "N"
        # Operands that share the extent share the name, so that the shapes still fit.
        for position, shape in enumerate(case.shapes[1:], 1):
            if shape and len(shape) == len(case.shapes[0]) and dims[position][0] == first:
                dims[position][0] = "N"
    for position, names in enumerate(case.names):
        dims[position] = list(names)
    operands = [TensorSpec.of(dtype, d) for dtype, d in zip(case.dtypes, dims)]
    results = infer_outputs(spec, operands, case.settings, case.outputs)
    inputs = [f"a{i}{suffix}: {_declared(o)};" for i, o in enumerate(operands)]
    outputs = [
        f"r{i}{suffix}: {_declared(TensorSpec(case.out or r.dtype, r.dims))};"
        for i, r in enumerate(results)
    ]
    arguments = [f"a{i}{suffix}" for i in range(len(operands))]
    nodes: list[str] = []
    if case.inplace is not None:
        nodes.append(f"  transfer a{case.inplace}{suffix} >> r0{suffix};")
        arguments[case.inplace] = f"r0{suffix}"
    arguments += [f"{name}={_literal(value)}" for name, value in case.settings.items()]
    targets = ", ".join(f"r{i}{suffix}" for i in range(case.outputs))
    nodes.append(f"  op {case.op}({', '.join(arguments)}) >> {targets};")
    return inputs, outputs, nodes


def _declared(spec: TensorSpec) -> str:
    # A quotient or an extreme is left open: taken from the value that is written.
    dims = ", ".join("_" if "(" in str(d) else str(d) for d in spec.dims)
    return f"{spec.dtype}[{dims}]" if dims else spec.dtype


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_literal(v) for v in value)}]"
    if isinstance(value, str) and value not in DTYPES:
        return f'"{value}"'
    return str(value)
