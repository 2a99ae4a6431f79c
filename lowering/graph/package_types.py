"""The types that a package gives to what a program declares without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from openinfer.dialects.graph import VariableOp
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.locations import location_of
from openinfer.lowering.program.sources import member_indices, package_name, pattern_of
from openinfer.runtime.errors import Diagnostic
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.tensors import Tensor

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


def type_in(
    package: Package | None, variable: VariableOp, sizes: Mapping[str, int]
) -> TensorSpec | None:
    """The type of the tensor, metadata entry or size that a declaration names; None for nothing.

    `sizes` are those of the package and of the caller. Raises UnsupportedError for a tensor of a
    dtype that our table lacks.
    """
    pattern = pattern_of(variable)
    if package is None:
        return TensorSpec.of("i64") if package_name(variable) in sizes else None
    if pattern is not None:
        members = (name for name in package.tensors if member_indices(pattern, name) is not None)
        name = next(members, None)
    else:
        name = package_name(variable)
    if name is None:
        return None
    if name in package.tensors:
        info = package.tensors[name]
        return TensorSpec.of(info.dtype.name, info.shape)
    value = package.metadata.get(name) if pattern is None else None
    if isinstance(value, Tensor):
        return TensorSpec.of(value.dtype.name, value.shape)
    if isinstance(value, ScalarValue):
        return TensorSpec.of(str(value.dtype))
    return TensorSpec.of("i64") if name in sizes and pattern is None else None


def in_blocks(variable: VariableOp, dtype: str) -> Diagnostic:
    """Why a declaration cannot take over the type of a tensor of a block format."""
    name = variable.variable.data
    return Diagnostic(
        "OI0315",
        f"{name} has the type `_`, but its tensor of the model is {dtype}: nothing is computed in it",
        location_of(variable),
        hint=f"declare it as f32 or f16 with its dimensions and `@dtype({dtype})`, which unpacks it when it "
        "is loaded",
    )


def missing(package: Package | None, variable: VariableOp) -> Diagnostic:
    """Why a package does not say the type of a declaration."""
    wanted = pattern_of(variable) or package_name(variable)
    if package is None:
        message = f"the program names {wanted!r} of a model, but no model was given"
        hint = "give one: `--model FILE`, or open_model(FILE) from Python"
    elif pattern_of(variable) is not None:
        message, hint = f"{wanted!r} matches no tensor of the model", None
    elif wanted in package.metadata:
        message = f"{wanted!r} of the model is no number and no tensor"
        hint = "a setting names such an entry directly, without a declaration"
    else:
        message = f"the model has no tensor, metadata entry or size {wanted!r}"
        hint = "`openinfer inspect MODEL` lists what it has"
    code = "OI0326" if pattern_of(variable) is not None else "OI0325"
    return Diagnostic(code, message, location_of(variable), hint=hint)
