"""One pass: made of its text, applied, and what it leaves checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from openinfer.compiler import registry
from openinfer.compiler.suggest import near
from openinfer.compiler.timings import Timings
from openinfer.runtime.errors import CompileError, InputError, OpenInferError

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

PassCallback = Callable[[str, "ModulePass", "ModuleOp", float], None]
"""Called after every pass: phase, pass, module, seconds."""


def build_passes(spec: str) -> tuple[ModulePass, ...]:
    """The passes of a text `a,b{x=1}`. Raises InputError OI0512 for an unknown pass or option."""
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    try:
        specs = tuple(parse_pipeline(spec))
    except ArgSpecParseError as error:
        raise InputError(
            "OI0512", f"{error}".strip(), hint="write 'pass{option=value},…'"
        ) from None
    built: list[ModulePass] = []
    for item in specs:
        if item.name not in registry.PASSES:
            raise InputError(
                "OI0512",
                f"there is no pass '{item.name}'",
                hint=near(item.name, registry.PASSES, "passes"),
            )
        cls: type[ModulePass] = registry.load(registry.PASSES[item.name])
        try:
            # Reading the types of options takes longer than many a pass.
            given = item.parameters or cls.required_fields()
            built.append(cls.from_spec(item) if given else cls())
        except Exception as error:
            from xdsl.passes import get_pass_option_infos

            options = ", ".join(
                f"{info.name.replace('_', '-')}: {info.expected_type}"
                for info in get_pass_option_infos(cls)
            )
            raise InputError(
                "OI0512",
                f"bad options for pass '{item.name}': {error}",
                hint=f"its options are {options}" if options else "it has no options",
            ) from None
    return tuple(built)


def run_pass(
    item: ModulePass,
    module: ModuleOp,
    context: Context,
    phase: str = "",
    on_pass: PassCallback | None = None,
    timings: Timings | None = None,
) -> None:
    """Applies one pass and names it in whatever goes wrong inside."""
    begin = time.perf_counter()
    try:
        item.apply(context, module)
    except CompileError as error:
        if error.code != "OI0962" or error.message.startswith("pass '"):
            raise
        raise CompileError(
            "OI0962", f"pass '{item.name}' failed at {error.message}", hint=_REPORT
        ) from error
    except OpenInferError:
        raise
    except Exception as error:
        from xdsl.utils.exceptions import PassFailedException, VerifyException

        from openinfer.compiler.blame import blamed_op, describe

        op = blamed_op(error)
        where = f" at {describe(op)}" if op is not None else ""
        kind = (
            ""
            if isinstance(error, (PassFailedException, VerifyException))
            else (f"{type(error).__name__}: ")
        )
        raise CompileError(
            "OI0962", f"pass '{item.name}' failed{where}: {kind}{error}", hint=_REPORT
        ) from error
    seconds = time.perf_counter() - begin
    if timings is not None:
        timings.add(phase, item.name, seconds)
    if on_pass is not None:
        on_pass(phase, item, module, seconds)


_REPORT = "--traceback shows where in the compiler; --dump-dir the IR before it"


def check_module(module: ModuleOp) -> None:
    """Verifies a module and the dominance of its uses.

    Raises CompileError OI0963 with the place of the op that does not verify.
    """
    from xdsl.utils.exceptions import VerifyException

    from openinfer.lowering.verify_dominance import DominanceError, verify_dominance
    from openinfer.lowering.verifying import verify

    try:
        verify(module)
        verify_dominance(module)
    except DominanceError as error:
        raise _verification_failure(error, error.op) from error
    except (VerifyException, ValueError) as error:
        from openinfer.compiler.blame import unverified_op

        raise _verification_failure(error, unverified_op(module)) from error


def check_after(module: ModuleOp, when: str) -> None:
    try:
        check_module(module)
    except CompileError as error:
        raise CompileError(error.code, f"{when}: {error.message}", hint=error.hint) from error


def _verification_failure(error: Exception, op: object) -> CompileError:
    from xdsl.ir import Operation

    from openinfer.compiler.blame import describe

    place = f"{describe(op)}: " if isinstance(op, Operation) else ""
    return CompileError("OI0963", f"the IR does not verify: {place}{error}")
