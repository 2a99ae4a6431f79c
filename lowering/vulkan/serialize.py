"""A `spirv.module` as words, with the ids and the order of MLIR's serializer."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    IntegerAttr,
    NoneType,
)
from xdsl.ir import Block, Operation, SSAValue

from openinfer.dialects.spirv.control_flow_ops import (
    BranchConditionalOp,
    BranchOp,
    LoopOp,
    SelectionOp,
    SwitchOp,
)
from openinfer.dialects.spirv.global_ops import (
    GlobalVariableOp,
    SpecConstantCompositeOp,
    SpecConstantOp,
)
from openinfer.dialects.spirv.structure_ops import (
    VERSIONS,
    EntryPointOp,
    ExecutionModeOp,
    SpirvFuncOp,
    SpirvModuleOp,
)
from openinfer.lowering.vulkan.write_op import OpWriter
from openinfer.lowering.vulkan.write_sections import string_words
from openinfer.runtime.spirv.instructions import CAPABILITIES
from openinfer.runtime.spirv.words import MAGIC

GENERATOR = 22
"""What MLIR registered; its words and ours are the same."""


def serialize(module: SpirvModuleOp) -> bytes:
    """The words of a verified module, little-endian."""
    return _Serializer(module).words()


class _Serializer(OpWriter):
    """Writes a module: what stands in it, functions, their blocks."""

    def __init__(self, module: SpirvModuleOp) -> None:
        super().__init__()
        self.module = module
        self.missing: list[tuple[int, SSAValue]] = []

    def words(self) -> bytes:
        """All of the module."""
        version = self.module.vce_triple
        assert version is not None, "a module says which version it needs"
        for capability in version.capabilities:
            self.put("capabilities", "Capability", CAPABILITIES[capability.data][0])
        for extension in version.extensions:
            self.put("extensions", "Extension", *string_words(extension.data))
        models = self.module.addressing_model.data, self.module.memory_model.data
        self.put("memory_model", "MemoryModel", *models)
        for op in self.module.body.block.ops:
            _MODULE[type(op)](self, op)
        number = VERSIONS.index(version.version.data)
        head = [MAGIC, 0x10000 | number << 8, GENERATOR, self.last_id + 1, 0]
        found = head + [word for section in self.sections.values() for word in section]
        return struct.pack(f"<{len(found)}I", *found)

    # What stands in a module

    def global_variable(self, op: GlobalVariableOp) -> None:
        type_id, name = self.type(op.type), self.new_id()
        self.put("names", "Name", name, *string_words(op.sym_name.data))
        self.symbols[op.sym_name.data] = name
        initial = [] if op.initializer is None else [self.symbols[op.initializer.string_value()]]
        self.put("globals", "Variable", type_id, name, op.type.storage_class.data, *initial)
        properties = {key: value for key, value in op.properties.items() if key != "type"}
        self.decorations(name, properties | op.attributes)

    def spec_constant(self, op: SpecConstantOp) -> None:
        name = self.scalar(op.default_value, "SpecConstant")
        spec_id = op.attributes.get("spec_id")
        if isinstance(spec_id, IntegerAttr):
            self.decorate(name, "SpecId", spec_id.value.data)
        self.symbols[op.sym_name.data] = name
        self.put("names", "Name", name, *string_words(op.sym_name.data))

    def spec_composite(self, op: SpecConstantCompositeOp) -> None:
        type_id, name = self.type(op.type), self.new_id()
        parts = [self.symbols[part.string_value()] for part in op.constituents]
        self.put("globals", "SpecConstantComposite", type_id, name, *parts)
        self.symbols[op.sym_name.data] = name
        self.put("names", "Name", name, *string_words(op.sym_name.data))

    def entry_point(self, op: EntryPointOp) -> None:
        name = op.fn.string_value()
        interface = [self.symbols[one.string_value()] for one in op.interface]
        self.put(
            "entry_points",
            "EntryPoint",
            op.execution_model.data,
            self.function_id(name),
            *string_words(name),
            *interface,
        )

    def execution_mode(self, op: ExecutionModeOp) -> None:
        name = self.function_id(op.fn.string_value())
        values = [value.value.data for value in op.values]
        self.put("execution_modes", "ExecutionMode", name, op.execution_mode.data, *values)

    def function(self, op: SpirvFuncOp) -> None:
        type_ = op.function_type
        type_id = self.type(type_)
        result = self.type(type_.outputs.data[0] if len(type_.outputs) else NoneType())
        name = self.function_id(op.sym_name.data)
        self.header, self.body, self.missing = [], [], []
        self.put(self.header, "Function", result, name, op.function_control.data, type_id)
        self.put("names", "Name", name, *string_words(op.sym_name.data))
        first = op.body.blocks[0]
        for argument in first.args:
            argument_type = self.type(argument.type)
            self.values[argument] = self.new_id()
            self.put(self.header, "FunctionParameter", argument_type, self.values[argument])
        # Variables of the function follow this label, wherever their ops stand.
        self.put(self.header, "Label", self.block_id(first))
        self.block(first, label=False, phis=False)
        for block in _reached(first, {first}):
            self.block(block)
        for place, value in self.missing:
            self.body[place] = self.values[value]
        functions = self.sections["functions"]
        functions += self.header
        functions += self.body
        self.put("functions", "FunctionEnd")

    # Blocks

    def op(self, op: Operation) -> None:
        if isinstance(op, SelectionOp):
            self.selection(op)
        elif isinstance(op, LoopOp):
            self.loop(op)
        else:
            super().op(op)

    def block(
        self,
        block: Block,
        *,
        label: bool = True,
        phis: bool = True,
        merge: Callable[[], None] | None = None,
    ) -> None:
        """A block; `merge` puts the merge instruction in front of its branch."""
        if label:
            self.put(self.body, "Label", self.block_id(block))
        if phis and block.args:
            self.phis(block)
        ops = list(block.ops)
        looping = isinstance(block.parent_op(), LoopOp)
        if (
            merge is not None
            and looping
            and any(isinstance(op, LoopOp | SelectionOp) for op in ops)
        ):
            # What follows takes more blocks than this one, which is branched back to and must be merged.
            # That of a selection is merged in the last of them, in front of its condition.
            merge()
            merge = None
            name = self.new_id()
            self.put(self.body, "Branch", name)
            self.put(self.body, "Label", name)
        for op in ops[:-1]:
            self.op(op)
        if merge is not None:
            merge()
        self.op(ops[-1])

    def phis(self, block: Block) -> None:
        """Arguments of a block are phis, with what each block gives that branches to it."""
        region = block.parent_region()
        assert region is not None
        incoming = [
            (_last_label(one), _given(one, block))
            for one in reversed(region.blocks)
            if one.last_op is not None and block in one.last_op.successors
        ]
        for index, argument in enumerate(block.args):
            type_id, name = self.type(argument.type), self.new_id()
            operands = [type_id, name]
            for label, given in incoming:
                value = given[index]
                if value not in self.values:
                    self.missing.append((len(self.body) + 1 + len(operands), value))
                operands += [self.values.get(value, 0), self.block_id(label)]
            self.put(self.body, "Phi", *operands)
            self.values[argument] = name

    def selection(self, op: SelectionOp) -> None:
        if not op.body.blocks:
            return
        for block in op.body.blocks:
            self.block_id(block)
        merge = self.block_id(op.merge)
        self.put(self.body, "Branch", self.block_id(op.header))

        def put() -> None:
            self.put(self.body, "SelectionMerge", merge, op.selection_control.data)

        self.block(op.header, merge=put)
        for block in _reached(op.header, {op.header, op.merge}):
            self.block(block)
        self.put(self.body, "Label", merge)

    def loop(self, op: LoopOp) -> None:
        if not op.body.blocks:
            return
        # The entry only says what the header begins with.
        for block in list(op.body.blocks)[1:]:
            self.block_id(block)
        merge, continuing = self.block_id(op.merge), self.block_id(op.continuing)
        self.put(self.body, "Branch", self.block_id(op.header))

        def put() -> None:
            self.put(self.body, "LoopMerge", merge, continuing, op.loop_control.data)

        self.block(op.header, merge=put)
        for block in _reached(op.header, {op.header, op.continuing, op.merge}):
            self.block(block)
        self.block(op.continuing)
        self.put(self.body, "Label", merge)


def _reached(first: Block, seen: set[Block]) -> Iterator[Block]:
    """Blocks behind one, depth first, without those that were seen."""
    pending = [iter(first.last_op.successors if first.last_op is not None else ())]
    while pending:
        block = next(pending[-1], None)
        if block is None:
            pending.pop()
        elif block not in seen:
            seen.add(block)
            yield block
            if block.last_op is not None:
                pending.append(iter(block.last_op.successors))


def _given(source: Block, target: Block) -> Sequence[SSAValue]:
    """What a block gives to the arguments of another one that it branches to."""
    last = source.last_op
    if isinstance(last, BranchOp):
        return last.block_arguments
    if isinstance(last, SwitchOp):
        # A block that several cases lead to is given the same by each.
        cases = ((block, operands) for _, block, operands in last.cases)
        rows = [(last.default_target, last.default_operands), *cases]
        return next(operands for block, operands in rows if block is target)
    assert isinstance(last, BranchConditionalOp)
    if last.true_target is target:
        return last.true_target_operands
    return last.false_target_operands


def _last_label(block: Block) -> Block:
    """The block whose label is in force at the end of another one: the merge block of the last region in
    it, and of the entry of a loop what the loop stands in."""
    region = block.parent_region()
    owner = region.parent_op() if region is not None else None
    if isinstance(owner, LoopOp) and block is owner.entry:
        around = owner.parent_block()
        assert around is not None
        before: Operation | None = owner.prev_op
        while before is not None:
            if isinstance(before, LoopOp | SelectionOp) and before.body.blocks:
                return before.merge
            before = before.prev_op
        return around
    for op in reversed(list(block.ops)):
        if isinstance(op, LoopOp | SelectionOp) and op.body.blocks:
            return op.merge
    return block


_MODULE: dict[type[Operation], Callable[[_Serializer, Any], None]] = {
    GlobalVariableOp: _Serializer.global_variable,
    SpecConstantOp: _Serializer.spec_constant,
    SpecConstantCompositeOp: _Serializer.spec_composite,
    SpirvFuncOp: _Serializer.function,
    EntryPointOp: _Serializer.entry_point,
    ExecutionModeOp: _Serializer.execution_mode,
}
