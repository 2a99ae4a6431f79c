"""Checks of what ops compute: shapes and dtypes of operands and outputs, with all sizes at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import Operation

from openinfer.dialects.graph import LoopOp, OpOp, RefAttr, SizeAttr, VariableOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.dialects.opset import (
    ArityError,
    OpError,
    OpSpec,
    SettingError,
    ShapeError,
    TensorSpec,
    accepts,
    infer_outputs,
)
from openinfer.lowering.program.check_caches import Dims
from openinfer.lowering.program.check_settings import SettingChecks
from openinfer.lowering.program.literals import operand_dtypes
from openinfer.lowering.program.names import Variable
from openinfer.lowering.program.places import Part
from openinfer.lowering.program.sources import member_name, pattern_of
from openinfer.lowering.program.view import dtype_of
from openinfer.runtime.sizes import Size


class TypeChecks(SettingChecks):
    """What ops, transfers and cache operations do with types."""

    def loop(self, node: LoopOp) -> None:
        around = self.scope
        self.scope = (*around, node.index.data)
        super().loop(node)
        self.scope = around

    def read(self, ref: RefAttr, node: Operation, part: Part) -> Variable | None:
        variable = super().read(ref, node, part)
        if variable is not None:
            self.member(ref, variable, node)
        return variable

    def member(self, ref: RefAttr, variable: Variable, node: Operation) -> None:
        """A constant index of a prefix table must exist in the package."""
        op = variable.op
        if self.view.package is None or not isinstance(op, VariableOp) or pattern_of(op) is None:
            return
        values: list[int | None] = []
        for slot, there, index in zip(ref.indices, self.view.reach(op), variable.indices):
            value = self.known(slot.data) if isinstance(slot, SizeAttr) else None
            values.append(value)
            if value is not None and there.stop and value not in there:
                values.append(None)
                self.error(
                    "OI0327",
                    node,
                    (),
                    f"{ref.text}: {index} = {value}, but the model has {variable.name} for {index} "
                    f"in {there.start}..{there.stop}",
                    "use an index that the model has",
                    (f"@pattern {pattern_of(op)!r}", op),
                )
        numbers = [value for value in values if value is not None]
        pattern = pattern_of(op)
        if len(numbers) < len(values) or len(numbers) != len(variable.indices) or pattern is None:
            return
        name = member_name(pattern, dict(zip(variable.indices, numbers)))
        if self.view.linked_tensors(op) and name not in self.view.package.tensors:
            self.error(
                "OI0327",
                node,
                (),
                f"{ref.text} is {name}, which the model does not have",
                "use an index that the model has",
                (f"@pattern {pattern!r}", op),
            )

    # Values that are moved.

    def shape(self, variable: Variable) -> Dims | None:
        """The shape of a plain use, as far as it is the same in the whole step."""
        if variable.name in self.untyped:
            return None
        learned = self.learned.get(variable.name)
        if learned is None:
            return variable.dims
        return [None if OPEN in dim.names else dim for dim in learned]

    def differ(self, left: Size, right: Size, *, exact: bool) -> bool:
        steady = self.view.input_sizes
        return exact or (left.names <= steady and right.names <= steady)

    # Ops.

    def op_types(self, node: OpOp, spec: OpSpec) -> None:
        operands = self.operand_types(node, spec)
        if operands is None:
            return
        outputs = [self.spec(ref) for ref in node.outputs]
        inferred = self.infer(node, spec, operands, outputs)
        for ref, have, want in zip(node.outputs, inferred or (), outputs):
            if want is not None:
                self.compare(node.op_name.data, ref, have, want, node)

    def operand_types(self, node: OpOp, spec: OpSpec) -> list[TensorSpec] | None:
        """The types of the operands; None when one is not known."""
        known: dict[RefAttr, TensorSpec] = {}
        for ref in node.reads():
            found = self.spec(ref)
            if found is None:
                return None
            known[ref] = replace(found, name=ref.text)
        dtypes = operand_dtypes(spec, node.inputs.data, lambda ref: known[ref].dtype)
        return [
            known[operand] if isinstance(operand, RefAttr) else TensorSpec(dtype, (), operand.text)
            for operand, dtype in zip(node.inputs, dtypes)
        ]

    def spec(self, ref: RefAttr) -> TensorSpec | None:
        """The type of a use; None where it is wrong, or a size of it has no value."""
        variable = self.names.find(ref.variable.data)
        if variable is None or variable.open or variable.name in self.untyped:
            return None
        dims = self.learned.get(variable.name)
        if dims is None:
            dims = tuple(dim.substitute(self.view.sizes) for dim in variable.op.sizes)
        return TensorSpec(dtype_of(variable.op), dims)

    def infer(
        self,
        node: OpOp,
        spec: OpSpec,
        operands: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec | None],
    ) -> list[TensorSpec] | None:
        given = self.settings(node, spec)
        if given is None:
            return None
        try:
            declared = [output for output in outputs if output is not None]
            whole = declared if len(declared) == len(outputs) else None
            return infer_outputs(spec, operands, given, len(outputs), whole)
        except ShapeError as error:
            if any(OPEN in d.names for o in operands for d in o.dims):
                return None  # Known only when it runs; the interpreter checks again.
            self.refuse(node, operands, error)
        except OpError as error:
            self.refuse(node, operands, error)
        return None

    def refuse(self, node: OpOp, operands: Sequence[TensorSpec], error: OpError) -> None:
        shown = ", ".join(f"{r.text}: {o}" for r, o in zip(node.inputs, operands))
        notes = [(f"operands: {shown}", None)] if shown else []
        message = error.message
        name = node.op_name.data
        if not message.startswith(f"{name} ") and not message.startswith(f"{name}:"):
            message = f"{name}: {message}"
        code = "OI0322"
        if isinstance(error, ArityError | SettingError):
            code = "OI0217" if isinstance(error, ArityError) else "OI0304"
        self.error(code, node, (), message, error.hint, *notes)

    def compare(
        self, name: str, ref: RefAttr, have: TensorSpec, want: TensorSpec, node: Operation
    ) -> None:
        declaration = self.view.declaration(ref.variable.data)
        note = (f"{ref.variable.data} is declared {want}", declaration)
        if len(have.dims) == len(want.dims) and any(d.single_name == OPEN for d in want.dims):
            dims = tuple(h if w.single_name == OPEN else w for h, w in zip(have.dims, want.dims))
            self.learned.setdefault(ref.variable.data, dims)
            want = TensorSpec(want.dtype, dims)
        if not accepts(have.dtype, want.dtype):
            self.error(
                "OI0323",
                node,
                (),
                f"{name} gives {have.dtype}, but {ref.text} is declared {want.dtype}",
                f"declare {ref.variable.data} as {have.dtype}, or let a temporary take the result and "
                f"write `op cast(TEMPORARY, to={want.dtype}) >> {ref.text};`",
                note,
            )
        open_dims = any(OPEN in d.names for d in (*have.dims, *want.dims))
        ranks = len(have.dims), len(want.dims)
        if ranks[0] != ranks[1] or (have.dims != want.dims and not open_dims):
            self.error(
                "OI0323",
                node,
                (),
                f"{name} gives {have}, but {ref.text} is declared {want}",
                "give it another name, or declare the output with the shape that the op gives",
                note,
            )
