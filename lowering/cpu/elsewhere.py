"""Kernels of a module that another process lowers: which, and what stands in their place meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects import llvm, memref
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from openinfer.lowering.operations import operations_of

ELSEWHERE = "openinfer.elsewhere"
"""Of a declaration: the function has a body, in another process. It is one of the program's own, not one of
those that come from outside."""

LEAST = 300
"""Ops of a kernel from which on it may be lowered elsewhere: it will be a module of its own."""
WORTH = 2000
"""Ops of such kernels from which on another process is worth its start."""
BESIDE = 3300
"""What the first process does besides kernels (the step and its text), in ops of a kernel."""


def shares_of(module: ModuleOp, processes: int) -> list[list[str]]:
    """The names of kernels that further processes should lower, a list for each; none where none is worth it.

    The largest goes to whoever has least to do; the first process, which has no list, has more to do.
    """
    bodies = {f.sym_name.data for f in module.ops if isinstance(f, FuncOp) and f.body.blocks}
    sizes: dict[str, int] = {}
    for function in module.ops:
        if isinstance(function, FuncOp) and function.sym_name.data != "step":
            ops = operations_of(function)
            if len(ops) >= LEAST and _stands_alone(function, ops, bodies):
                sizes[function.sym_name.data] = len(ops)
    if sum(sizes.values()) < WORTH:
        return []
    shares: list[list[str]] = [[] for _ in range(processes)]
    loads = [BESIDE] + [0] * (processes - 1)
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        least = loads.index(min(loads))
        shares[least].append(name)
        loads[least] += sizes[name]
    return [share for share in shares[1:] if share]


def _stands_alone(function: FuncOp, ops: Sequence[Operation], bodies: Iterable[str]) -> bool:
    """Whether a function is a kernel that needs no other function of the program, and none of its data."""
    if function.sym_visibility is None or function.sym_visibility.data != "private":
        return False
    for op in ops:
        if isinstance(op, memref.GetGlobalOp):
            return False
        if isinstance(op, CallOp) and op.callee.string_value() in bodies:
            return False
    return True


def leave_out(module: ModuleOp, names: Iterable[str]) -> dict[str, FuncOp]:
    """Takes functions out of a module, by name, and leaves declarations in their places."""
    chosen = set(names)
    taken: dict[str, FuncOp] = {}
    for function in list(module.ops):
        if isinstance(function, FuncOp) and function.sym_name.data in chosen:
            declared = _declared(function)
            module.body.block.insert_op_before(declared, function)
            function.detach()
            taken[function.sym_name.data] = function
    return taken


def _declared(function: FuncOp) -> FuncOp:
    type = function.function_type
    declared = FuncOp.external(function.sym_name.data, [*type.inputs], [*type.outputs])
    declared.attributes.update(function.attributes)
    declared.attributes[ELSEWHERE] = UnitAttr()
    return declared


def declarations(module: ModuleOp) -> ModuleOp:
    """The functions of a module without their bodies: what `alone` needs of it later."""
    declared = [
        _declared(function) if function.body.blocks else function.clone()
        for function in module.ops
        if isinstance(function, FuncOp)
    ]
    return ModuleOp(list[Operation](declared), attributes=module.attributes)


def alone(functions: Mapping[str, FuncOp], declared: ModuleOp) -> ModuleOp:
    """A module with these functions alone, which may call what `declarations` has found."""
    module = declared.clone()
    for function in list(module.ops):
        if isinstance(function, FuncOp) and function.sym_name.data in functions:
            function.detach()
    module.body.block.add_ops(functions.values())
    return module


def bring_back(converted: ModuleOp, names: Iterable[str], module: ModuleOp) -> None:
    """Puts functions that were converted alone into the places of their declarations, and what they call from
    outside to the end."""
    chosen = set(names)
    places = {f.sym_name.data: f for f in module.ops if isinstance(f, llvm.FuncOp)}
    for function in list(converted.ops):
        if not isinstance(function, llvm.FuncOp):
            continue
        name = function.sym_name.data
        if name in chosen:
            function.detach()
            place = places[name]
            module.body.block.insert_op_before(function, place)
            module.body.block.erase_op(place, safe_erase=False)
        elif name not in places:
            function.detach()
            module.body.block.add_op(function)
