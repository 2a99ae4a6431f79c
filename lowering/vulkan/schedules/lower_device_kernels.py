"""The pass `lower-device-kernels`: kernels of the device become compute shaders, calls become launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import gpu
from xdsl.dialects.builtin import (
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    i32,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from openinfer.dialects import nn
from openinfer.dialects.nn.interface import interface_of
from openinfer.lowering.buffers.verify_places import verify_places
from openinfer.lowering.kernels.builder import Index, LoopBuilder
from openinfer.lowering.kernels.inserted import keep_location
from openinfer.lowering.places import KNOWN_BLOCK_SIZE, on_host
from openinfer.lowering.step_arguments import StepArguments
from openinfer.lowering.vulkan.schedules.attention import lower_attention
from openinfer.lowering.vulkan.schedules.attention_parts import divide_keys
from openinfer.lowering.vulkan.schedules.block_bytes import (
    lower_dequantize_blocks,
    lower_quantize_blocks,
)
from openinfer.lowering.vulkan.schedules.check_indices import lower_check_indices
from openinfer.lowering.vulkan.schedules.convolution import lower_conv
from openinfer.lowering.vulkan.schedules.cumsum import lower_cumsum
from openinfer.lowering.vulkan.schedules.element_indices import (
    lower_gather_elements,
    lower_scatter_elements,
)
from openinfer.lowering.vulkan.schedules.elementwise import lower_fill, lower_generic
from openinfer.lowering.vulkan.schedules.experts import lower_expert_matmul
from openinfer.lowering.vulkan.schedules.extremes import lower_extreme
from openinfer.lowering.vulkan.schedules.few_rows_of_blocks import read_blocks_of_few_rows
from openinfer.lowering.vulkan.schedules.forms import choose_forms
from openinfer.lowering.vulkan.schedules.fourier import lower_irfft, lower_rfft
from openinfer.lowering.vulkan.schedules.gather import lower_gather
from openinfer.lowering.vulkan.schedules.grid import Grid
from openinfer.lowering.vulkan.schedules.matmul import (
    lower_matmul,
    lower_matvec,
    lower_row_matmul,
)
from openinfer.lowering.vulkan.schedules.movement import lower_concat, lower_slice
from openinfer.lowering.vulkan.schedules.norms import lower_layer_norm, lower_rms_norm
from openinfer.lowering.vulkan.schedules.recurrence import lower_recurrence
from openinfer.lowering.vulkan.schedules.resample import lower_resample
from openinfer.lowering.vulkan.schedules.scatter import lower_scatter
from openinfer.lowering.vulkan.schedules.side_by_side import side_by_side
from openinfer.lowering.vulkan.schedules.softmax import lower_softmax
from openinfer.lowering.vulkan.schedules.sort import lower_sort
from openinfer.lowering.vulkan.schedules.unpack_blocks import lower_unpack_blocks
from openinfer.lowering.vulkan.schedules.wide import mark_aligned, mark_exact
from openinfer.lowering.vulkan.schedules.windows import lower_fold, lower_pool, lower_unfold
from openinfer.runtime.sizes import Size
from openinfer.runtime.slots import SlotKind

RULES: dict[str, Callable[[LoopBuilder, Operation], Grid]] = {
    FillOp.name: lower_fill,
    GenericOp.name: lower_generic,
    nn.MatmulOp.name: lower_matmul,
    nn.MatvecOp.name: lower_matvec,
    nn.UnpackBlocksOp.name: lower_unpack_blocks,
    nn.QuantizeBlocksOp.name: lower_quantize_blocks,
    nn.DequantizeBlocksOp.name: lower_dequantize_blocks,
    nn.RowMatmulOp.name: lower_row_matmul,
    nn.ExpertMatmulOp.name: lower_expert_matmul,
    nn.SoftmaxOp.name: lower_softmax,
    nn.AttentionOp.name: lower_attention,
    nn.LayerNormOp.name: lower_layer_norm,
    nn.RmsNormOp.name: lower_rms_norm,
    nn.SliceOp.name: lower_slice,
    nn.ConcatOp.name: lower_concat,
    nn.GatherOp.name: lower_gather,
    nn.CheckIndicesOp.name: lower_check_indices,
    nn.ScatterOp.name: lower_scatter,
    nn.GatherElementsOp.name: lower_gather_elements,
    nn.ScatterElementsOp.name: lower_scatter_elements,
    nn.SortOp.name: lower_sort,
    nn.CumsumOp.name: lower_cumsum,
    nn.ReduceOp.name: lower_extreme,
    nn.UnfoldOp.name: lower_unfold,
    nn.FoldOp.name: lower_fold,
    nn.PoolOp.name: lower_pool,
    nn.ResampleOp.name: lower_resample,
    nn.ConvOp.name: lower_conv,
    nn.LstmOp.name: lower_recurrence,
    nn.GruOp.name: lower_recurrence,
    nn.RfftOp.name: lower_rfft,
    nn.IrfftOp.name: lower_irfft,
}
"""The schedule of every op that has a device kernel."""


@dataclass(frozen=True)
class LowerDeviceKernels(ModulePass):
    """Turns each kernel of the device into what one invocation does, and its calls into launches.

    Before:
        func.call @softmax_0(%h, %y) : (memref<?x32xf32>, memref<?x32xf32>) -> ()
        …
        func.func private @softmax_0(%h: memref<?x32xf32>, %y: memref<?x32xf32>) {
          nn.softmax(%h) outs(%y) {axis = 1 : i64} : …
          func.return }
    After:
        gpu.launch_func @softmax_0 blocks (%n, 1, 1) threads (64, 1, 1) args(%h, %y)
        …
        func.func private @softmax_0(%h: memref<?x32xf32>, %y: memref<?x32xf32>)
            attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
          %i = …                                   // the number of the invocation
          scf.if %inside { … }
          func.return }

    A size that a kernel asks for becomes an argument of it.

    Requires: `plan-memory`, and sizes not lowered. Leaves: kernels of the host as they are.
    """

    name: ClassVar[str] = "lower-device-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        step = functions.get("step")
        if step is None:
            return
        verify_places(step)
        for name, found in _calls(step).items():
            read_blocks_of_few_rows(functions, name, found)
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        for name, found in _calls(step).items():
            kernels = _kernels_of(functions[name])
            if len(kernels) == 1:
                choose_forms(functions[name], kernels[0], found)
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        for name, found in _calls(step).items():
            kernels = _kernels_of(functions[name])
            if len(kernels) == 1:
                divide_keys(step, functions[name], kernels[0], found)
        functions = {f.sym_name.data: f for f in op.body.ops if isinstance(f, FuncOp)}
        moving = _moving_arena(step)
        for name, found in _calls(step).items():
            mark_exact(functions[name], found, moving)
            _lower(functions[name], found)


def _calls(step: FuncOp) -> dict[str, list[CallOp]]:
    """The calls of each kernel of the device."""
    found: dict[str, list[CallOp]] = {}
    for inner in step.walk():
        if isinstance(inner, CallOp) and not on_host(inner):
            found.setdefault(inner.callee.string_value(), []).append(inner)
    return found


def _moving_arena(step: FuncOp) -> SSAValue | None:
    """The memory of the device's buffers, where it grows with the sizes of steps, and is elsewhere then."""
    module = step.parent_op()
    assert isinstance(module, ModuleOp)
    size = interface_of(module).get("device_arena")
    if not isinstance(size, StringAttr) or Size.of(size.data).constant is not None:
        return None
    return StepArguments(step).get(SlotKind.DEVICE_ARENA)


def _kernels_of(function: FuncOp) -> list[Operation]:
    """The ops that a function is the kernel of; several where they are started together (`join-calls`)."""
    return [op for op in function.body.block.ops if op.name in RULES]


def _lower(function: FuncOp, calls: list[CallOp]) -> None:
    sizes = _sizes_as_arguments(function)
    kernels = _kernels_of(function)
    for kernel in kernels:
        mark_aligned(kernel, function, calls)
    if len(kernels) == 1:
        (kernel,) = kernels
        with keep_location(kernel):
            grid = RULES[kernel.name](LoopBuilder(InsertPoint.before(kernel)), kernel)
    else:
        grid = side_by_side(kernels, lambda kernel: RULES[kernel.name])
    sizes += _sizes_as_arguments(function)  # Those that the schedule asked for.
    for call in calls:
        _launch(call, function, sizes, grid)
    for kernel in kernels:
        kernel.detach()
        kernel.erase()
    function.attributes[KNOWN_BLOCK_SIZE] = DenseArrayBase.from_list(i32, [grid.size, 1, 1])


def _sizes_as_arguments(function: FuncOp) -> list[nn.SizeOp]:
    """Makes an argument of each size; what it was before."""
    block = function.body.block
    sizes = [op for op in function.walk() if isinstance(op, nn.SizeOp)]
    for op in sizes:
        (size,) = op.results
        argument = block.insert_arg(size.type, len(block.args))
        argument.name_hint = size.name_hint
        size.replace_all_uses_with(argument)
        op.detach()
    function.update_function_type()
    return sizes


def _launch(call: CallOp, function: FuncOp, sizes: list[nn.SizeOp], grid: Grid) -> None:
    host = LoopBuilder(InsertPoint.before(call))
    with keep_location(call):
        passed = [*call.operands, *(host.insert(size.clone()) for size in sizes)]
        values: dict[SSAValue, SSAValue] = dict(zip(function.body.block.args, passed))

        def value_of(argument: SSAValue) -> SSAValue:
            return values[argument]

        groups = [host.index(extent) for extent in grid.groups(host, value_of)]
        threads: list[Index] = [grid.size, 1, 1]
        launch = gpu.LaunchFuncOp(
            SymbolRefAttr(function.sym_name.data),
            groups,
            [host.index(count) for count in threads],
            kernelOperands=passed,
        )
        host.do(launch)
    Rewriter.erase_op(call)
