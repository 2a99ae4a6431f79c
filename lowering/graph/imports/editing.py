"""Changes of a module that keep it a program: new ops with their temporaries, ops in place of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    LiteralAttr,
    NameAttr,
    Operand,
    OpOp,
    RefAttr,
    VariableOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.dialects.ops.base import NameRef, OpError, TensorSpec
from openinfer.lowering.graph.imports.provenance import (
    Provenance,
    provenance_of,
    set_provenance,
)
from openinfer.lowering.graph.imports.tensors import tensors
from openinfer.lowering.graph.imports.uses import (
    NAMING,
    WRITTEN,
    Array,
    Uses,
    mentioned,
    written_settings,
)
from openinfer.lowering.graph.settings import attribute_of
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import dtype_of


def literal(value: bool | int | float) -> LiteralAttr:
    """A number as an operand."""
    match value:
        case bool():
            return LiteralAttr(IntegerAttr(int(value), i1))
        case int():
            return LiteralAttr(IntegerAttr(value, i64))
        case _:
            return LiteralAttr(FloatAttr(value, f64))


class Editor:
    """Changes a module and keeps `uses` in step."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.uses = Uses(module)
        self.changed = False
        self._names = {
            *self.uses.variables,
            *self.uses.temporaries,
            *self.uses.readers,
            *self.uses.writers,
        }

    # Names and types

    def fresh(self, stem: str) -> str:
        """A name that nothing has."""
        name, number = stem, 1
        while name in self._names:
            number += 1
            name = f"{stem}_{number}"
        self._names.add(name)
        return name

    def infer(
        self, name: str, operands: Sequence[Operand], settings: Mapping[str, Any]
    ) -> TensorSpec | None:
        """The type of the one result of an op, None where the op does not take these."""
        spec = opset.find(name)
        if spec is None:
            return None
        found = [self.uses.spec(operand) for operand in operands]
        known = [None if one is None else one.dtype for one in found]
        if any(
            one is None and isinstance(operand, RefAttr) for one, operand in zip(found, operands)
        ):
            return None
        try:
            dtypes = opset.literal_dtypes(spec, known)
            specs = [one or TensorSpec(dtype, ()) for one, dtype in zip(found, dtypes)]
            given = {key: self._setting(spec, key, value) for key, value in settings.items()}
            return opset.infer_outputs(spec, specs, given, 1)[0]
        except OpError:
            return None

    # Changes

    def insert(
        self,
        before: Operation,
        name: str,
        operands: Sequence[Operand],
        settings: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
    ) -> RefAttr:
        """A new op in front of another one, with a temporary for its result. Raises TypeError where it does
        not take the operands."""
        type_ = self.infer(name, operands, settings or {})
        if type_ is None:
            raise TypeError(f"{name} does not take {operands} with {settings}")
        result = self.fresh(name)
        assign = AssignOp(result, type_.dtype, type_.dims)
        new = self._op(name, operands, [RefAttr.of(result)], settings or {})
        for op in (assign, new):
            set_provenance(op, provenance or provenance_of(before))
            self._insert(op, before)
        return RefAttr.of(result)

    def fits(
        self, op: OpOp, name: str, operands: Sequence[Operand], settings: Mapping[str, Any]
    ) -> bool:
        """Whether another op gives the type that the one result of `op` is declared with."""
        if len(op.outputs.data) != 1:
            return False
        declared = self.uses.spec(op.outputs.data[0])
        return declared is not None and self.infer(name, operands, settings) == declared

    def redefine(
        self,
        op: OpOp,
        name: str,
        operands: Sequence[Operand],
        settings: Mapping[str, Any] | None = None,
        provenance: Provenance | None = None,
    ) -> OpOp | None:
        """Another op in the place of one, with the same result; None, and no change, where it would have
        another type."""
        if not self.fits(op, name, operands, settings or {}):
            return None
        new = self._op(name, operands, list(op.outputs.data), settings or {})
        if op.hints is not None:
            new.properties["hints"] = op.hints
        set_provenance(new, provenance or provenance_of(op))
        self._insert(new, op)
        self.erase(op)
        return new

    def alias(self, op: OpOp, value: RefAttr) -> bool:
        """Who reads the one result of an op reads `value` instead, which must mean the same there; the op
        is gone. No change where the result is written more than once, or `value` is."""
        (result,) = op.outputs.data
        name = result.variable.data
        if not self.uses.stable(value) or not self.uses.stable(result) or result.indices.data:
            return False
        if name in self.uses.variables or self._named_elsewhere(name):
            return False
        for reader in dict.fromkeys(self.uses.readers[name]):
            self.read_instead(reader, name, value)
        self.erase(op)
        for assign in list(self.uses.temporaries[name]):
            self.erase(assign)
        return True

    def read_instead(self, op: Operation, name: str, value: Operand) -> None:
        """Makes an op take `value` where it takes the variable `name`."""
        self.uses.remove(op)
        for key, old in list(op.properties.items()):
            if key not in WRITTEN:
                op.properties[key] = _with(old, name, value)
        self.uses.add(op)
        self.changed = True

    def set_settings(self, op: OpOp, **settings: Any) -> OpOp | None:
        """The op with some settings changed, None taken out; None where that would change its type."""
        given = {k: v for k, v in {**written_settings(op), **settings}.items() if v is not None}
        return self.redefine(op, op.op_name.data, op.inputs.data, given)

    def erase(self, op: Operation) -> None:
        """Takes an op out of the module."""
        self.uses.remove(op)
        op.detach()
        op.erase()
        self.changed = True

    def constant(
        self, array: Array, dtype: str | None = None, stem: str = "c", ref: str | None = None
    ) -> RefAttr:
        """A new constant of the model, called `ref` there where nothing else is."""
        row = dtype_of(array)
        named = dtype or (row.name if row is not None else str(array.dtype))
        name = self.fresh(stem)
        while name in tensors():
            name = self.fresh(stem)
        tensor = name if ref is None or ref in tensors() else ref
        tensors()[tensor] = array
        declared = VariableOp(name, "constant", named, array.shape, (), {"ref": StringAttr(tensor)})
        places = [op for op in self.module.body.ops if isinstance(op, VariableOp)]
        block = next(op for op in self.module.body.ops if isinstance(op, BlockOp))
        after = [op for op in places if op.memory.data == "constant"] or places
        if after:
            self.module.body.block.insert_op_after(declared, after[-1])
        else:
            self.module.body.block.insert_op_before(declared, block)
        self.uses.add(declared)
        self.changed = True
        return RefAttr.of(name)

    # Parts

    def _insert(self, op: Operation, before: Operation) -> None:
        block = before.parent
        assert block is not None
        block.insert_op_before(op, before)
        self.uses.add(op)
        self.changed = True

    def _op(
        self,
        name: str,
        operands: Sequence[Operand],
        outputs: Sequence[RefAttr],
        settings: Mapping[str, Any],
    ) -> OpOp:
        spec = opset.find(name)
        given = {key: self._setting(spec, key, value) for key, value in settings.items()}
        attributes = {
            key: NameAttr(value.name) if isinstance(value, NameRef) else attribute_of(value)
            for key, value in given.items()
        }
        return OpOp(name, operands, outputs, attributes)

    def _setting(self, spec: opset.OpSpec | None, key: str, value: Any) -> Any:
        setting = spec.setting(key) if spec is not None and key else None
        if setting is not None and setting.kind in ("dtype", "dtypes") and isinstance(value, str):
            return NameRef(value)
        if isinstance(value, list | tuple):
            return tuple(self._setting(spec, "", one) for one in value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, Size) and value.constant is not None:
            return value.constant
        return value

    def _named_elsewhere(self, name: str) -> bool:
        """Whether something names a temporary but as an operand: a size, a setting, a result."""
        return any(not _reads_whole(op, name) for op in self.uses.readers[name])


def _reads_whole(op: Operation, name: str) -> bool:
    """Whether all that an op says of a name is that it takes the variable as an operand."""
    if isinstance(op, NAMING) or not isinstance(op, GraphOp):
        return False
    plain = sum(ref.variable.data == name for ref in op.reads())
    return sum(one == name for one in mentioned(op)) == plain


def _with(value: Attribute, name: str, new: Operand) -> Attribute:
    match value:
        case RefAttr():
            return new if value.variable.data == name else value
        case ArrayAttr():
            return ArrayAttr([_with(item, name, new) for item in value])
        case _:
            return value
