"""Constants that nothing fills: neither the model nor `@init`. They are zeros, rarely on purpose."""

from __future__ import annotations

from openinfer.dialects.graph import VariableOp
from openinfer.lowering.locations import location_of
from openinfer.lowering.near_tensors import near_tensors
from openinfer.lowering.program.sources import package_name
from openinfer.lowering.program.view import ProgramView
from openinfer.runtime.errors import Diagnostic


def unfilled_constants(view: ProgramView) -> list[VariableOp]:
    """The constants that are zeros for want of a tensor, a metadata entry, a size or `@init`."""
    return [
        variable
        for variable in view.variables.values()
        if view.takes_metadata(variable)
        and variable.option("init") is None
        and not view.linked_tensors(variable)
        and view.metadata(package_name(variable)) is None
        and package_name(variable) not in view.sizes
    ]


def used_tensors(view: ProgramView) -> set[str]:
    """The tensors of the package that declarations name."""
    return {info.name for v in view.variables.values() for info in view.linked_tensors(v)}


def unfilled_errors(view: ProgramView) -> list[Diagnostic]:
    """What `strict` makes of them: errors, each at its declaration."""
    package = view.package
    model = "no model was given" if package is None else "the model has no tensor of that name"
    known = [] if package is None else list(package.tensors)
    used = used_tensors(view)
    found: list[Diagnostic] = []
    for variable in unfilled_constants(view):
        name = variable.variable.data
        found.append(
            Diagnostic(
                "OI0330",
                f"nothing fills constant {name}: {model}, and it has no @init",
                location_of(variable),
                hint=f"{near_tensors(name, known, used)}@ref names its tensor, @init(0) says that "
                "zeros are meant",
            )
        )
    return found
