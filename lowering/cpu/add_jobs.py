"""What hands single kernels to the team: a job is the number of a kernel and its arguments."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects import llvm
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, i1, i8, i64
from xdsl.dialects.llvm import LinkageAttr, LLVMFunctionType
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from openinfer.dialects.extensions.llvm_atomics import StoreOp
from openinfer.lowering.cpu.add_entry import slot_of
from openinfer.lowering.cpu.team_text import JOB
from openinfer.lowering.cpu.threads.fork_kernels import FORK, JOB_ENDS, SHARED
from openinfer.lowering.cpu.to_llvm.types import POINTER

LEAD = "openinfer_lead"


def fork_functions(module: ModuleOp) -> list[llvm.FuncOp]:
    """The functions that hand a kernel to the team; they have no body yet."""
    return [
        f
        for f in module.body.ops
        if isinstance(f, llvm.FuncOp) and f.sym_name.data.startswith(FORK) and not f.body.blocks
    ]


def add_jobs(module: ModuleOp) -> None:
    """Gives the forks their bodies, adds the function that runs a job, and declares the lead's."""
    functions = {f.sym_name.data: f for f in module.body.ops if isinstance(f, llvm.FuncOp)}
    forks = fork_functions(module)
    # A fork takes the arguments of its kernel, the job and the team.
    words = 1 + max(len(f.function_type.inputs) - 2 for f in forks) + JOB_ENDS
    kernels: list[llvm.FuncOp] = []
    for number, fork in enumerate(forks):
        kernels.append(functions[fork.sym_name.data.removeprefix(FORK) + SHARED])
        made = _fork(fork, number, words)
        fork.detach()
        fork.erase()
        module.body.block.add_op(made)
    module.body.block.add_op(_job(kernels, words))
    if LEAD not in functions:
        lead = LLVMFunctionType([POINTER, POINTER])
        module.body.block.add_op(llvm.FuncOp(LEAD, lead, LinkageAttr("external")))


def _fork(fork: llvm.FuncOp, number: int, words: int) -> llvm.FuncOp:
    block = Block(arg_types=list(fork.function_type.inputs))
    *arguments, job, team = block.args
    job.name_hint, team.name_hint = "job", "team"
    builder = Builder(InsertPoint.at_end(block))
    values: list[tuple[int, SSAValue]] = [(0, _constant(builder, number))]
    values += [(1 + i, argument) for i, argument in enumerate(arguments)]
    values += [(words - 3, team), (words - 1, _constant(builder, 0))]
    for place, value in values:
        if value.type == i1:
            value = builder.insert(llvm.ZExtOp(value, i8)).res
        builder.insert(StoreOp(value, slot_of(builder, job, place), 8))
    builder.insert(llvm.CallOp(LEAD, job, team))
    builder.insert(llvm.ReturnOp.create())
    return llvm.FuncOp(
        fork.sym_name.data, fork.function_type, LinkageAttr("internal"), body=Region(block)
    )


def _job(kernels: list[llvm.FuncOp], words: int) -> llvm.FuncOp:
    """Runs the kernel whose number a job holds."""
    first = Block(arg_types=[POINTER])
    frame = first.args[0]
    frame.name_hint = "frame"
    region = Region(first)
    builder = Builder(InsertPoint.at_end(first))
    which = builder.insert(llvm.LoadOp(frame, i64, 8)).dereferenced_value
    for number, kernel in enumerate(kernels):
        call, following = Block(), Block()
        region.add_block(call)
        region.add_block(following)
        same = builder.insert(llvm.ICmpOp(which, _constant(builder, number), IntegerAttr(0, i64)))
        builder.insert(llvm.CondBrOp(same.res, call, [], following, []))
        builder = Builder(InsertPoint.at_end(call))
        inputs = list(kernel.function_type.inputs)
        count = len(inputs) - JOB_ENDS
        places = [*range(1, 1 + count), words - 3, words - 2, words - 1]
        values = [_load(builder, frame, p, t) for p, t in zip(places, inputs)]
        output = kernel.function_type.output
        result = builder.insert(llvm.CallOp(kernel.sym_name.data, *values, return_type=output))
        assert result.returned is not None
        builder.insert(StoreOp(result.returned, slot_of(builder, frame, words), 8))
        builder.insert(llvm.ReturnOp.create())
        builder = Builder(InsertPoint.at_end(following))
    builder.insert(llvm.ReturnOp.create())
    return llvm.FuncOp(JOB, LLVMFunctionType([POINTER]), LinkageAttr("internal"), body=region)


def _load(builder: Builder, frame: SSAValue, place: int, type: Attribute) -> SSAValue:
    narrow = isinstance(type, IntegerType) and type.bitwidth < 8
    loaded = builder.insert(llvm.LoadOp(slot_of(builder, frame, place), i8 if narrow else type, 8))
    value = loaded.dereferenced_value
    return builder.insert(llvm.TruncOp(value, type)).res if narrow else value


def _constant(builder: Builder, number: int) -> SSAValue:
    return builder.insert(llvm.ConstantOp(IntegerAttr(number, i64), i64)).result
