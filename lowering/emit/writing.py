"""What the parts of a kernel's text ask of the text that is being written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from xdsl.ir import Block, Operation, SSAValue

from openinfer.lowering.emit.expressions import Expression
from openinfer.lowering.emit.shader import Buffer, Shader


class Writer(Protocol):
    """The text of a kernel so far. `kernel_text.py` has it, and says what its parts are."""

    shader: Shader
    buffers: dict[SSAValue, Buffer]
    values: dict[SSAValue, Expression]
    lanes: dict[SSAValue, list[SSAValue | Expression]]
    front: list[str]
    layouts: dict[tuple[object, ...], str]

    def statement(self, op: Operation, text: str) -> None: ...
    def line(self, text: str) -> None: ...
    def use(self, value: SSAValue) -> Expression: ...
    def named(self, value: SSAValue) -> Expression: ...
    def local(self, value: SSAValue, expression: Expression, op: Operation) -> Expression: ...
    def settle_reads(self) -> None: ...
    def define(self, value: SSAValue, expression: Expression, op: Operation) -> None: ...
    def function_of(
        self, block: Block, arguments: Mapping[SSAValue, Expression | Buffer]
    ) -> tuple[list[str], Expression]: ...
