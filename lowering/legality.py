"""Whether a module holds only what its level may hold: checked when a phase ends."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, TensorType, UnregisteredOp
from xdsl.ir import Operation

from openinfer.lowering.level import Level
from openinfer.lowering.locations import location_of
from openinfer.lowering.operations import operations
from openinfer.runtime.errors import CompileError


def illegal_ops(module: ModuleOp, level: Level) -> list[tuple[Operation, str]]:
    """Every op that may not remain at a level, each with the reason, in program order."""
    found: list[tuple[Operation, str]] = []
    legal: dict[type[Operation], bool] = {}
    for op in [module, *operations(module.body)]:
        kind = type(op)
        remains = legal.get(kind)
        if remains is None:
            name = _name(op)
            known = name.partition(".")[0] in level.dialects or name in level.ops
            # Every unregistered name has a class of its own.
            remains = legal[kind] = known and name not in level.forbidden
        if not remains:
            found.append((op, f"'{_name(op)}' may not remain"))
        elif not level.tensors:
            for result in op.results:
                if type(result.type) is TensorType:
                    found.append((op, f"'{_name(op)}' still gives a tensor"))
                    break
    return found


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def check_legality(module: ModuleOp, phase: str, level: Level | None) -> None:
    """Raises CompileError OI0964 when a module holds what its phase should have lowered."""
    if level is None:
        return
    found = illegal_ops(module, level)
    if not found:
        return
    lines: list[str] = []
    for op, reason in found[:5]:
        where = location_of(op)
        lines.append(f"{f'{where}: ' if where else ''}{reason}")
    if len(found) > 5:
        lines.append(f"and {len(found) - 5} more")
    raise CompileError(
        "OI0964",
        f"after phase '{phase}': " + "; ".join(lines),
        hint="this is a bug of the compiler: please report it with the program; "
        "--dump-dir shows the phases before it",
    )
