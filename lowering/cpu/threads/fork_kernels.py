"""Threads for a step that only one of them can follow: single kernels, and sections, are shared.

A step that looks at its data (state, sizes that it fixes itself, branches, checks) is run by the lead
alone. Where it comes to a kernel that is worth it, the workers help with that kernel: it is cut into
chunks as in `share-loops`, its arguments go into a job, and the lead waits until all chunks are done.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    i8,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.lowering.cpu.threads.outline_rounds import outline_rounds
from openinfer.lowering.cpu.to_llvm.types import argument_parts
from openinfer.lowering.kernels.builder import LoopBuilder
from openinfer.lowering.kernels.units import is_elsewhere
from openinfer.lowering.locations import give_location
from openinfer.lowering.operations import operations_of
from openinfer.lowering.step_arguments import StepArguments, add_arguments
from openinfer.runtime.sizes import THREADS
from openinfer.runtime.slots import Slot, SlotKind

FORK = "openinfer_fork_"
"""What the function that hands a kernel to the team is called, in front of the kernel's name."""
SHARED = "_shared"
"""What the shared form of a kernel is called, behind its name."""
WORTH = 1 << 14
"""Elements of the largest buffer of a kernel from which on its chunks are worth a microsecond."""
MAX_SECTIONS = 64
ERROR_BYTES = 32
JOB_ENDS = 3
"""Words of a job behind the arguments: team, ticket, thread."""


def fork_step(module: ModuleOp, step: FuncOp, team: MemRefType[Attribute]) -> list[FuncOp]:
    """Rewrites a step, and gives the kernels that are to be made shared ones.

    Adds what the step needs to its arguments: the team, the job, the number of threads.
    Leaves a step without a kernel worth sharing as it is, and gives nothing.
    """
    sections = _outline_sections(module, step)
    functions = {f.sym_name.data: f for f in module.body.ops if isinstance(f, FuncOp)}
    calls: list[tuple[CallOp, FuncOp]] = []
    for op in operations_of(step):
        if isinstance(op, CallOp):
            kernel = functions[op.callee.string_value()]
            if kernel.sym_name.data in sections or _worth_sharing(kernel):
                calls.append((op, kernel))
    kernels = list(dict.fromkeys(kernel for _, kernel in calls))
    if not kernels:
        return []
    words = 1 + max(_words(kernel) for kernel in kernels) + JOB_ENDS
    job = MemRefType(i64, [words + 1])
    wanted = (
        (Slot(SlotKind.TEAM), team),
        (Slot(SlotKind.JOB, number=words), job),
        (Slot(SlotKind.SIZE, THREADS), IndexType()),
    )
    arguments = add_arguments(step, wanted)
    shared: list[FuncOp] = []
    for kernel in kernels:
        if kernel.sym_name.data not in sections and not is_elsewhere(kernel):
            outline_rounds(module, kernel)
        clone = kernel.clone()
        clone.properties["sym_name"] = StringAttr(kernel.sym_name.data + SHARED)
        module.body.block.add_op(clone)
        shared.append(clone)
        types = [*kernel.function_type.inputs, job, team]
        module.body.block.add_op(FuncOp.external(FORK + kernel.sym_name.data, types, []))
    for call, kernel in calls:
        _fork(call, kernel, arguments, always=kernel.sym_name.data in sections)
    return shared


def _words(kernel: FuncOp) -> int:
    """How many words the arguments of a kernel take."""
    return sum(
        len(argument_parts(type)) if isinstance(type, MemRefType) else 1
        for type in kernel.function_type.inputs
    )


def _worth_sharing(kernel: FuncOp) -> bool:
    """Whether a kernel has a parallel loop, and may have buffers that are large enough."""
    if kernel.is_declaration and not is_elsewhere(kernel):
        return False
    if not any("openinfer.parallel" in op.attributes for op in operations_of(kernel)):
        return False
    return any(
        _static_elements(type) is None or (_static_elements(type) or 0) >= WORTH
        for type in kernel.function_type.inputs
    )


def _static_elements(type: Attribute) -> int | None:
    """Elements of a buffer; None when only the run knows."""
    if not isinstance(type, MemRefType):
        return 0
    total = 1
    for extent in type.get_shape():
        if extent == DYNAMIC_INDEX:
            return None
        total *= extent
    return total


def _fork(call: CallOp, kernel: FuncOp, added: Sequence[SSAValue], *, always: bool) -> None:
    """Either the team or this thread alone runs the kernel."""
    team, job, threads = added
    build = LoopBuilder(InsertPoint.before(call))
    several = build.compare("sgt", threads, 1)
    if not always:
        known = [_static_elements(a.type) for a in call.arguments]
        if not any(n is not None and n >= WORTH for n in known):
            large = build.compare("sge", _largest(build, call.arguments), WORTH)
            several = build.insert(arith.AndIOp(several, large))
    name = kernel.sym_name.data
    both = [CallOp(FORK + name, [*call.arguments, job, team], []), call.clone()]
    regions: list[Region] = []
    for op in both:
        give_location(call.location, op)
        op.attributes.update(call.attributes)
        regions.append(Region(Block([op, scf.YieldOp()])))
    choice = scf.IfOp(several, [], regions[0], regions[1])
    give_location(call.location, choice)
    Rewriter.replace_op(call, [choice], [])


def _largest(build: LoopBuilder, arguments: Sequence[SSAValue]) -> SSAValue:
    """Elements of the largest buffer."""
    largest: SSAValue | int = 0
    for argument in arguments:
        if isinstance(argument.type, MemRefType):
            total: SSAValue | int = 1
            for axis in range(argument.type.get_num_dims()):
                extent = build.dim(argument, axis)
                if isinstance(total, int) and isinstance(extent, int):
                    total = total * extent
                else:
                    total = build.mul(total, extent)
            largest = build.maximum(largest, total)
    return build.index(largest)


# Sections -----------------------------------------------------------------------------------------


def one_by_one(op: nn.SectionsOp) -> None:
    """The sections in order, on the thread that comes to them."""
    parent = op.parent_block()
    assert parent is not None
    for region in list(op.bodies):
        for inner in list(region.block.ops):
            inner.detach()
            if not isinstance(inner, nn.EndSectionOp):
                parent.insert_op_before(inner, op)
    Rewriter.erase_op(op)


def side_by_side(op: nn.SectionsOp) -> bool:
    """Whether the sections may run at the same time.

    Those that write state share the undo log, and stamps are written by one thread.
    """
    if op.serial is not None or not 2 <= len(op.bodies) <= MAX_SECTIONS:
        return False
    return not any(isinstance(inner, nn.StampOp | nn.SectionsOp) for inner in _inside(op))


def _inside(op: nn.SectionsOp) -> list[Operation]:
    return [inner for inner in operations_of(op) if inner is not op]


def _outline_sections(module: ModuleOp, step: FuncOp) -> set[str]:
    """Each group of sections becomes a kernel whose parallel loop calls one function after another."""
    names: set[str] = set()
    for op in [o for o in operations_of(step) if isinstance(o, nn.SectionsOp)]:
        if side_by_side(op):
            names.add(_outline(module, step, op, len(names)))
        else:
            one_by_one(op)
    return names


def _outline(module: ModuleOp, step: FuncOp, op: nn.SectionsOp, number: int) -> str:
    arguments = StepArguments(step)
    errors = arguments.get(SlotKind.ERRORS)
    records = arguments.get(SlotKind.SECTION_ERRORS)
    if records is None:
        octets = MemRefType(i8, [MAX_SECTIONS * ERROR_BYTES])
        (records,) = add_arguments(step, [(Slot(SlotKind.SECTION_ERRORS), octets)])
    failing: list[int] = []
    captured: dict[SSAValue, None] = {}
    parts: list[tuple[str, list[SSAValue]]] = []
    for position, region in enumerate(op.bodies):
        own = _captured(region.block)
        name = f"section_{number}_{position}"
        _section_function(module, name, region.block, own, errors)
        used = [v for v in own if v is not errors]
        if errors in own:
            failing.append(position)
        captured.update(dict.fromkeys(used))
        parts.append((name, used))
    kernel = f"sections_{number}"
    values = list(captured)
    block = Block(arg_types=[*(v.type for v in values), records.type])
    for value, argument in zip(values, block.args):
        argument.name_hint = value.name_hint
    block.args[-1].name_hint = "errors"
    mapping = dict(zip(values, block.args))
    build = LoopBuilder(InsertPoint.at_end(block))

    def run(which: SSAValue) -> None:
        for position, (name, used) in enumerate(parts):

            def one(
                position: int = position, name: str = name, used: list[SSAValue] = used
            ) -> None:
                record = _record(build, block.args[-1], position)
                build.do(CallOp(name, [*(mapping[v] for v in used), record], []))

            build.when(build.compare("eq", which, position), one)

    build.loop(0, len(parts), 1, run, parallel=True, hint="section")
    build.do(ReturnOp())
    function = FuncOp(kernel, ([a.type for a in block.args], []), Region(block), "private")
    give_location(op.location, function)
    module.body.block.add_op(function)
    # The first failure in the order of the sections counts.
    build = LoopBuilder(InsertPoint.before(op))
    call = CallOp(kernel, [*values, records], [])
    give_location(op.location, call)
    build.do(call)
    if errors is not None and failing:
        _collect(build, errors, records, failing)
    Rewriter.erase_op(op)
    return kernel


def _record(build: LoopBuilder, records: SSAValue, position: int) -> SSAValue:
    """The error record of one section."""
    start = build.index(ERROR_BYTES * position)
    return build.insert(memref.ViewOp(records, start, [], MemRefType(i64, [4])))


def _captured(block: Block) -> list[SSAValue]:
    """Values from outside that a section uses; constants are said again inside."""
    inside: set[SSAValue] = set(block.args)
    for op in block.walk():
        inside.update(op.results)
        for region in op.regions:
            for inner in region.blocks:
                inside.update(inner.args)
    constants: dict[SSAValue, SSAValue] = {}
    found: dict[SSAValue, None] = {}
    for op in list(block.walk()):
        for i, operand in enumerate(op.operands):
            if operand in inside:
                continue
            owner = operand.owner
            if not isinstance(owner, arith.ConstantOp):
                found[operand] = None
                continue
            if operand not in constants:
                copy = owner.clone()
                first = block.first_op
                assert first is not None
                block.insert_op_before(copy, first)
                constants[operand] = copy.result
                copy.result.name_hint = operand.name_hint
            op.operands[i] = constants[operand]
    return list(found)


def _section_function(
    module: ModuleOp, name: str, block: Block, captured: list[SSAValue], errors: SSAValue | None
) -> None:
    """A section as a function of what it uses, and of an error record of its own."""
    used = [v for v in captured if v is not errors]
    record = MemRefType(i64, [4])
    body = Block(arg_types=[*(v.type for v in used), record])
    mapping: dict[SSAValue, SSAValue] = dict(zip(used, body.args))
    body.args[-1].name_hint = "errors"
    if errors is not None:
        mapping[errors] = body.args[-1]
    for value, argument in zip(used, body.args):
        argument.name_hint = value.name_hint
    for op in list(block.walk()):
        for i, operand in enumerate(op.operands):
            if operand in mapping:
                op.operands[i] = mapping[operand]
    for op in list(block.ops):
        op.detach()
        if isinstance(op, nn.EndSectionOp):
            op.erase()
        else:
            body.add_op(op)
    body.add_op(ReturnOp())
    function = FuncOp(name, ([a.type for a in body.args], []), Region(body), "private")
    module.body.block.add_op(function)


def _collect(
    build: LoopBuilder, errors: SSAValue, records: SSAValue, positions: Sequence[int]
) -> None:
    zero = build.constant(0, i64)
    for position in positions:
        record = _record(build, records, position)
        word = build.load(record, [0])

        def failed(record: SSAValue = record) -> None:
            empty = build.insert(arith.CmpiOp(build.load(errors, [0]), zero, "eq"))

            def take() -> None:
                for place in range(4):
                    build.store(build.load(record, [place]), errors, [place])

            build.when(empty, take)
            build.store(zero, record, [0])

        build.when(build.insert(arith.CmpiOp(word, zero, "ne")), failed)
    any_failed = build.insert(arith.CmpiOp(build.load(errors, [0]), zero, "ne"))
    build.do(nn.LeaveIfOp(any_failed))
