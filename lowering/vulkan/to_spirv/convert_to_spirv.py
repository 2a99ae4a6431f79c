"""The pass `convert-to-spirv`: each kernel of the device becomes a module of SPIR-V."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from openinfer.lowering.places import KNOWN_BLOCK_SIZE, is_device_kernel
from openinfer.lowering.vulkan.to_spirv.kernel_body import kernel_module


@dataclass(frozen=True)
class ConvertToSpirv(ModulePass):
    """Turns each function of a device kernel into a `spirv.module` of its name.

    Before:
        func.func private @negate_0(%x: memref<?xf32>, %y: memref<?xf32>)
            attributes {gpu.known_block_size = array<i32: 64, 1, 1>} { … }
    After:
        spirv.module @negate_0 Logical GLSL450 requires #spirv.vce<v1.3, [Shader, …], […]> {
          spirv.GlobalVariable @x_1 bind(0, 1) : !spirv.ptr<…, StorageBuffer>
          …
          spirv.func @negate_0() "None" { … }
          spirv.EntryPoint "GLCompute" @negate_0, @WorkgroupId, @LocalInvocationId
          spirv.ExecutionMode @negate_0 "LocalSize", 64, 1, 1
        }

    Requires: `lower-device-kernels`, `expand-math`.
    Leaves: the launches, which name the modules.
    """

    name: ClassVar[str] = "convert-to-spirv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.body.ops):
            if isinstance(function, FuncOp) and is_device_kernel(function):
                sizes = function.attributes[KNOWN_BLOCK_SIZE]
                assert isinstance(sizes, DenseArrayBase)
                workgroup = [int(size) for size in sizes.get_values()]
                module, _ = kernel_module(function, workgroup)
                Rewriter.replace_op(function, module, [])
