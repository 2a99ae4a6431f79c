"""Whether a module is of the level from which a pipeline is to start: a wrong `--from` is no bug."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.lowering.legality import LEVELS, illegal_ops, levels_of
from openinfer.runtime.errors import InputError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

STEP = "step"
"""The function of a program from level `nn` on."""


def check_start(
    module: ModuleOp, names: list[str], start: str | None, stated: str | None = None
) -> None:
    """Raises InputError OI0515 when a module is not of level `start`, OI0527 without interface.

    `names` are the phases of the pipeline; start None means a program as the frontend built it.
    `stated` is the level that the file says it holds: many a module is legal on more than one.
    """
    first = start if start is not None else names[0]
    level = LEVELS.get(first)
    # Only what the pipeline of programs starts with is known.
    if level is None or names[0] != "graph":
        return
    illegal = illegal_ops(module, level)
    if illegal:
        raise _wrong_level(module, names, start, stated, illegal[0][1])
    if first == "graph":
        _check_bound(module, start)
    else:
        _check_interface(module, first)


def _wrong_level(
    module: ModuleOp, names: list[str], start: str | None, stated: str | None, reason: str
) -> InputError:
    asked = f"not of level {start}" if start is not None else "not the IR of a program"
    found = [name for name in levels_of(module) if name in names]
    if not found:
        return InputError(
            "OI0515",
            f"this is a module of no level, and {asked}: {reason}",
            hint="lowering/legality.py lists what each level may hold; -p runs passes on any IR",
        )
    best = stated if stated in found and stated != start else found[0]
    bound = best != "graph" or "openinfer.target" in module.attributes
    return InputError(
        "OI0515",
        f"this is a module of level {best}, {asked}: {reason}",
        hint=f"use --from {best}" if bound else "leave --from out",
    )


def _check_bound(module: ModuleOp, start: str | None) -> None:
    """A module of level `graph` says what its package holds; the frontend's does not yet."""
    if start is not None and "openinfer.target" not in module.attributes:
        raise InputError(
            "OI0515",
            "this program does not say what its package holds: it is not of level graph yet",
            hint="leave --from out, and give the package with --model",
        )


def _check_interface(module: ModuleOp, level: str) -> None:
    functions = [op for op in module.body.ops if op.name in ("func.func", "llvm.func")]
    steps = [op for op in functions if getattr(op, "sym_name").data == STEP]  # noqa: B009
    if steps and not any(op.name == "nn.interface" for op in module.body.ops):
        raise InputError(
            "OI0527",
            f"a module of level {level} with a function @{STEP} needs `nn.interface`, which says "
            "what the function takes and gives",
            hint="start from a file that --dump-dir wrote, and keep its nn.interface",
        )
