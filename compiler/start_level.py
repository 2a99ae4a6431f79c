"""Whether a module is what a pipeline is to start from: its level, and the options it was bound with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openinfer.lowering.facts import Facts, is_bound
from openinfer.lowering.legality import illegal_ops
from openinfer.lowering.program.check import check_bound
from openinfer.runtime.errors import InputError, ProgramError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from openinfer.compiler.pipeline import Phase
    from openinfer.lowering.options import PipelineOptions

STEP = "step"
"""The function of a program from level `nn` on."""


def check_start(
    module: ModuleOp, phases: Sequence[Phase], start: str | None, stated: str | None = None
) -> None:
    """Raises InputError OI0515 when a module is not of level `start`, OI0527 without interface,
    ProgramError with every mistake of a program that goes on from level `graph`.

    `phases` are all of the pipeline; start None means a program as the frontend built it. `stated` is
    the level that the file says it holds: many a module is legal on more than one.
    """
    first = start if start is not None else phases[0].name
    # Only what the pipeline of programs starts with is known.
    if phases[0].name != "graph":
        return
    found = levels_of(module, phases)
    if first not in found:
        level = next(phase.leaves for phase in phases if phase.name == first)
        assert level is not None
        raise _wrong_level(module, found, start, stated, illegal_ops(module, level)[0][1])
    if stated != first and stated in found:
        # The loops of level threads are legal before they were shared, too.
        raise _wrong_level(module, found, start, stated, "its first line says so")
    if first == "graph":
        _check_bound(module, start)
        if start is not None and (problems := check_bound(module)):
            raise ProgramError(problems)
    else:
        _check_interface(module, first)


def levels_of(module: ModuleOp, phases: Sequence[Phase]) -> list[str]:
    """The levels that a module may be of, the highest first; empty for a mixture of levels."""
    return [
        phase.name
        for phase in phases
        if phase.leaves is None or not illegal_ops(module, phase.leaves)
    ]


def _wrong_level(
    module: ModuleOp, found: list[str], start: str | None, stated: str | None, reason: str
) -> InputError:
    asked = f"not of level {start}" if start is not None else "not the IR of a program"
    if not found:
        return InputError(
            "OI0515",
            f"this is a module of no level, and {asked}: {reason}",
            hint="compiler/pipeline.py says what each level may hold; -p runs passes on any IR",
        )
    best = stated if stated in found and stated != start else found[0]
    bound = best != "graph" or is_bound(module)
    return InputError(
        "OI0515",
        f"this is a module of level {best}, {asked}: {reason}",
        hint=f"use --from {best}" if bound else "leave --from out",
    )


def _check_bound(module: ModuleOp, start: str | None) -> None:
    """A module of level `graph` says what its package holds; the frontend's does not yet."""
    if start is not None and not is_bound(module):
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


def settle_options(
    module: ModuleOp, options: PipelineOptions, *, binds: bool, named_host: bool = False
) -> None:
    """Makes sure that what options ask for is what the module says, which is what passes read.

    A module that says nothing, written by hand, says it from now on, unless `bind-model` is to run on it.
    Options that are left at their defaults ask for nothing; `named_host` says that the target "host" was
    asked for. Raises InputError OI0524 where options contradict a module that is bound.
    """
    from openinfer.lowering.graph.bind_model import chosen_facts

    names_target = options.target_name != "host" or named_host
    if not is_bound(module):
        if not binds and (names_target or chosen_facts(options, "generic") != Facts()):
            chosen_facts(options, None if names_target else "generic").write(module)
        return
    said = Facts.of(module)
    chosen = chosen_facts(options, None if names_target else said.target.name)
    if names_target:
        target = chosen.target.with_bf16_dot() if said.target.bf16_dot else chosen.target
        if target != said.target:
            found = f"for {said.target.name} ({said.target.cpu})"
            raise _contradiction(f"the target {options.target_name} is", found)
    for asked, wanted, same in (
        ("strict mathematics are", chosen.strict_math, said.strict_math),
        ("the watched build is", chosen.observed, said.observed),
        ("the traced build is", chosen.traced, said.traced),
        ("errors instead of a fallback are", chosen.no_fallback, said.no_fallback),
        (
            f"products in {chosen.precision} are",
            chosen.precision is not None,
            chosen.precision == said.precision,
        ),
        ("measured tiles are", bool(chosen.tiles), chosen.tiles == said.tiles),
    ):
        if wanted and not same:
            raise _contradiction(asked, "without")
    fixed = _fixed_sizes(module)
    for name, value in options.sizes.items():
        if fixed.get(name) != value:
            found = f"with {name}={fixed[name]}" if name in fixed else "without"
            raise _contradiction(f"the size {name}={value} is", found)


def _contradiction(asked: str, found: str) -> InputError:
    return InputError(
        "OI0524",
        f"{asked} asked for, but the module was bound {found}",
        hint="give the option when the program is bound to its model, or leave it out",
    )


def _fixed_sizes(module: ModuleOp) -> dict[str, int]:
    """The sizes that the package and the caller fixed when a module was bound."""
    from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr

    from openinfer.dialects.graph import PackageSizeOp
    from openinfer.dialects.nn import InterfaceOp, interface_of

    found: dict[str, int] = {}
    for op in module.body.ops:
        if isinstance(op, PackageSizeOp):
            number = op.value.data.constant
            if number is not None:
                found[op.size.data] = number
        elif isinstance(op, InterfaceOp):
            rows = interface_of(module).get("fixed")
            for name, value in rows.data.items() if isinstance(rows, DictionaryAttr) else ():
                assert isinstance(value, IntegerAttr)
                found[name] = value.value.data
    return found
