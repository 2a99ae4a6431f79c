"""What may remain after each phase: one row per level, checked when the phase ends.

A row names whole dialects, then single ops that are allowed although their dialect is not, and
single ops that are not although their dialect is. The table is the contract between the levels: a
pass may rely on the row of the phase before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, TensorType, UnregisteredOp
from xdsl.ir import Operation

from openinfer.lowering.locations import location_of
from openinfer.lowering.rewriting import operations
from openinfer.runtime.errors import CompileError


@dataclass(frozen=True)
class Level:
    """What one phase may leave behind."""

    dialects: frozenset[str]
    ops: frozenset[str] = frozenset()
    """Single ops of other dialects."""
    forbidden: frozenset[str] = frozenset()
    """Single ops of `dialects` that may not remain."""
    tensors: bool = True
    """Whether values may have tensor types."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LEVELS: dict[str, Level] = {
    "graph": Level(_names("builtin graph")),
    "nn": Level(_names("builtin func scf nn arith"), ops=_names("tensor.extract")),
    "linalg": Level(
        _names("builtin func scf linalg tensor arith math nn"),
        # Decided by then: what each element is.
        forbidden=_names("nn.elementwise nn.transpose nn.broadcast nn.fill nn.iota"),
    ),
    "loops": Level(
        _names("builtin func scf memref vector arith math"),
        ops=_names("nn.interface nn.leave_if nn.dot_pairs nn.round_pairs"),
        tensors=False,
    ),
    "llvm": Level(_names("builtin llvm"), ops=_names("nn.interface"), tensors=False),
}


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
        elif not level.tensors and any(isinstance(r.type, TensorType) for r in op.results):
            found.append((op, f"'{_name(op)}' still gives a tensor"))
    return found


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def levels_of(module: ModuleOp) -> list[str]:
    """The levels that a module may be of, the highest first; empty for a mixture of levels."""
    return [name for name, level in LEVELS.items() if not illegal_ops(module, level)]


def check_legality(module: ModuleOp, phase: str) -> None:
    """Raises CompileError OI0964 when a module holds what its phase should have lowered."""
    level = LEVELS.get(phase)
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
