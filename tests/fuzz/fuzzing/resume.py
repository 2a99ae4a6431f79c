"""Compilations that print every level, read the text again and go on with what they have read."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openinfer.compiler import pipeline, registry
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.start_level import check_start
from openinfer.compiler.text import module_text

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp


@contextmanager
def resuming(on: bool) -> Generator[None]:
    """Inside of it, with `on`, `compile` goes through the text of each level."""
    run = pipeline.run
    if on:

        def through_text(
            module: ModuleOp, context: Context, name: str = "cpu", *rest: Any, **more: Any
        ) -> None:
            def read_again(phase: str, done: ModuleOp) -> None:
                # As `openinfer-opt --dump-dir` writes files, and as `--from` reads them.
                text = module_text(done, context)
                source = parse_ir(text, f"{phase}.mlir", registry.make_context())
                source.verify()
                check_start(source.module, pipeline.PIPELINES[name], phase)
                _replace(done, source.module)

            run(module, context, name, *rest, **more, on_phase=read_again)

        pipeline.run = through_text
    try:
        yield
    finally:
        pipeline.run = run


def _replace(module: ModuleOp, read: ModuleOp) -> None:
    for op in list(module.body.block.ops):
        op.detach()
        op.erase(safe_erase=False)
    module.attributes.clear()
    module.attributes.update(read.attributes)
    for op in list(read.body.block.ops):
        op.detach()
        module.body.block.add_op(op)
