"""Functions of a compiled program that are written by hand, in `.mlir` files beside the passes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from xdsl.context import Context
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from openinfer.dialects.extensions import get_all_dialects


def declared_functions(module: ModuleOp) -> dict[str, llvm.FuncOp]:
    """The functions of a module at level `llvm` by name, with a body or without."""
    return {f.sym_name.data: f for f in module.body.ops if isinstance(f, llvm.FuncOp)}


def lacks_body(module: ModuleOp, name: str) -> bool:
    """Whether the module calls a function of this name that has no body yet."""
    function = declared_functions(module).get(name)
    return function is not None and not function.body.blocks


def add_written(module: ModuleOp, file: str, step: str = "openinfer_step") -> None:
    """Adds the functions of a file, which call `step` where they say @openinfer_step.

    Those that the module only declares get their bodies; what the file only declares is declared once.
    """
    declared = declared_functions(module)
    for function in _functions_of(file, step):
        old = declared.get(function.sym_name.data)
        if old is not None:
            if not function.body.blocks:
                continue
            old.detach()
            old.erase()
        module.body.block.add_op(function.clone())


@cache
def _functions_of(file: str, step: str) -> tuple[llvm.FuncOp, ...]:
    """Read once: for a small program a text costs as much as all passes together."""
    text = files("openinfer.lowering.cpu").joinpath(file).read_text(encoding="utf-8")
    context = Context()
    for name, dialect in get_all_dialects().items():
        context.register_dialect(name, dialect)
    module = Parser(context, text.replace("@openinfer_step", f"@{step}")).parse_module()
    return tuple(function for function in module.body.ops if isinstance(function, llvm.FuncOp))
