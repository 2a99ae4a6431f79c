"""Name -> "module:Class" for dialects, passes and targets. Importing this imports nothing else.

Adding a dialect, a pass or a target is one line here; `load` turns an entry into the object when it
is first used. A pass, its file and its class share one name (`tests/conventions` checks it):
`fuse-epilogue` is `fuse_epilogue.py` and `FuseEpilogue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openinfer.dialects.table import DIALECTS

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass
    from xdsl.utils.target import Target

PASSES: dict[str, str] = {
    # Any level.
    "verify-dominance": "openinfer.lowering.verify_dominance:VerifyDominance",
    # graph
    "bind-model": "openinfer.lowering.graph.bind_model:BindModel",
    "inline-calls": "openinfer.lowering.graph.inline_calls:InlineCalls",
    "graph-to-nn": "openinfer.lowering.graph.graph_to_nn:GraphToNn",
    # graph, of a foreign model
    "canonicalize-graph": "openinfer.lowering.graph.imports.canonicalize_graph:CanonicalizeGraph",
    "fold-constants": "openinfer.lowering.reference.fold_constants:FoldConstants",
    "lift-index-functions": "openinfer.lowering.graph.imports.lift_index_functions:LiftIndexFunctions",
    "drop-dead": "openinfer.lowering.graph.imports.drop_dead:DropDead",
    "recognize-norms": "openinfer.lowering.graph.imports.recognize_norms:RecognizeNorms",
    "recognize-activations": "openinfer.lowering.graph.imports.recognize_activations:RecognizeActivations",
    "recognize-quantized-linear": "openinfer.lowering.graph.imports.recognize_quantized_linear"
    ":RecognizeQuantizedLinear",
    "recognize-linear": "openinfer.lowering.graph.imports.recognize_linear:RecognizeLinear",
    "recognize-sdpa": "openinfer.lowering.graph.imports.recognize_sdpa:RecognizeSdpa",
    "recognize-rotary": "openinfer.lowering.graph.imports.recognize_rotary:RecognizeRotary",
    "hoist-masks": "openinfer.lowering.graph.imports.hoist_masks:HoistMasks",
    "add-cache": "openinfer.lowering.graph.imports.add_cache:AddCache",
    "compose-views": "openinfer.lowering.graph.imports.compose_views:ComposeViews",
    "merge-heads": "openinfer.lowering.graph.imports.merge_heads:MergeHeads",
    "outline-modules": "openinfer.lowering.graph.imports.outline_modules:OutlineModules",
    "outline-blocks": "openinfer.lowering.graph.imports.outline_blocks:OutlineBlocks",
    "name-parameters": "openinfer.lowering.graph.imports.name_parameters:NameParameters",
    "name-sizes": "openinfer.lowering.graph.imports.name_sizes:NameSizes",
    "name-values": "openinfer.lowering.graph.imports.name_values:NameValues",
    "reuse-names": "openinfer.lowering.graph.imports.reuse_names:ReuseNames",
    "roll-layers": "openinfer.lowering.graph.imports.roll_layers:RollLayers",
    # nn
    "absorb-conversions": "openinfer.lowering.nn.absorb_conversions:AbsorbConversions",
    "merge-equal": "openinfer.lowering.nn.merge_equal:MergeEqual",
    "absorb-transposes": "openinfer.lowering.nn.absorb_transposes:AbsorbTransposes",
    "drop-carried": "openinfer.lowering.nn.drop_carried:DropCarried",
    "hoist-invariants": "openinfer.lowering.nn.hoist_invariants:HoistInvariants",
    "keep-blocks": "openinfer.lowering.nn.keep_blocks:KeepBlocks",
    "keep-narrow": "openinfer.lowering.nn.keep_narrow:KeepNarrow",
    "version-rows": "openinfer.lowering.nn.version_rows:VersionRows",
    "split-formats": "openinfer.lowering.nn.split_formats:SplitFormats",
    "mark-byte-products": "openinfer.lowering.linalg.mark_byte_products:MarkByteProducts",
    "lower-precision": "openinfer.lowering.linalg.lower_precision:LowerPrecision",
    "narrow-state-reads": "openinfer.lowering.nn.narrow_state_reads:NarrowStateReads",
    "recognize-attention": "openinfer.lowering.nn.recognize_attention:RecognizeAttention",
    "recognize-layer-norm": "openinfer.lowering.nn.recognize_layer_norm:RecognizeLayerNorm",
    # linalg
    "bufferize": "openinfer.lowering.buffers.bufferize:Bufferize",
    "expand-composites": "openinfer.lowering.linalg.expand_composites:ExpandComposites",
    "split-concats": "openinfer.lowering.linalg.split_concats:SplitConcats",
    "fuse-elementwise": "openinfer.lowering.linalg.fuse_elementwise:FuseElementwise",
    "fuse-epilogue": "openinfer.lowering.linalg.fuse_epilogue:FuseEpilogue",
    "nn-to-linalg": "openinfer.lowering.linalg.nn_to_linalg:NnToLinalg",
    "store-squares": "openinfer.lowering.linalg.store_squares:StoreSquares",
    "join-products": "openinfer.lowering.linalg.join_products:JoinProducts",
    "delay-norms": "openinfer.lowering.linalg.delay_norms:DelayNorms",
    "fuse-norms": "openinfer.lowering.linalg.fuse_norms:FuseNorms",
    "fuse-matvec": "openinfer.lowering.linalg.fuse_matvec:FuseMatvec",
    "merge-products": "openinfer.lowering.linalg.merge_products:MergeProducts",
    "fuse-pooling": "openinfer.lowering.linalg.fuse_pooling:FusePooling",
    "choose-layouts": "openinfer.lowering.linalg.choose_layouts:ChooseLayouts",
    "stream-weights": "openinfer.lowering.cpu.stream_weights:StreamWeights",
    "tile-batch": "openinfer.lowering.cpu.tile_batch:TileBatch",
    "choose-places": "openinfer.lowering.linalg.choose_places:ChoosePlaces",
    # buffers
    "clear-tails": "openinfer.lowering.cpu.schedules.clear_tails:ClearTails",
    "elide-copies": "openinfer.lowering.buffers.elide_copies:ElideCopies",
    "join-calls": "openinfer.lowering.buffers.join_calls:JoinCalls",
    "write-states": "openinfer.lowering.buffers.write_states:WriteStates",
    "lower-checks": "openinfer.lowering.host.lower_checks:LowerChecks",
    "lower-state": "openinfer.lowering.host.lower_state:LowerState",
    "lower-sizes": "openinfer.lowering.host.lower_sizes:LowerSizes",
    "lower-views": "openinfer.lowering.buffers.lower_views:LowerViews",
    "prepare-constants": "openinfer.lowering.buffers.prepare_constants:PrepareConstants",
    "outline-kernels": "openinfer.lowering.buffers.outline_kernels:OutlineKernels",
    "outline-moves": "openinfer.lowering.buffers.outline_moves:OutlineMoves",
    "place-buffers": "openinfer.lowering.buffers.place_buffers:PlaceBuffers",
    "plan-memory": "openinfer.lowering.buffers.plan_memory:PlanMemory",
    "stamp-kernels": "openinfer.lowering.buffers.stamp_kernels:StampKernels",
    "lower-stamps": "openinfer.lowering.host.lower_stamps:LowerStamps",
    "reuse-buffers": "openinfer.lowering.buffers.reuse_buffers:ReuseBuffers",
    # loops
    "poll-loops": "openinfer.lowering.host.poll_loops:PollLoops",
    "share-loops": "openinfer.lowering.cpu.threads.share_loops:ShareLoops",
    "lower-kernels": "openinfer.lowering.cpu.schedules.lower_kernels:LowerKernels",
    "block-device-sums": "openinfer.lowering.vulkan.schedules.block_device_sums:BlockDeviceSums",
    "block-sums": "openinfer.lowering.cpu.schedules.block_sums:BlockSums",
    "lower-transfers": "openinfer.lowering.host.lower_transfers:LowerTransfers",
    # null
    "record-calls": "openinfer.lowering.null.record_calls:RecordCalls",
    # vulkan
    "lower-device-kernels": "openinfer.lowering.vulkan.schedules.lower_device_kernels:LowerDeviceKernels",
    "convert-to-spirv": "openinfer.lowering.vulkan.to_spirv.convert_to_spirv:ConvertToSpirv",
    "lower-dispatches": "openinfer.lowering.vulkan.lower_dispatches:LowerDispatches",
    # cpu
    "add-team": "openinfer.lowering.cpu.add_team:AddTeam",
    "add-poll": "openinfer.lowering.cpu.add_poll:AddPoll",
    "add-trace": "openinfer.lowering.cpu.add_trace:AddTrace",
    "add-entry": "openinfer.lowering.cpu.add_entry:AddEntry",
    "convert-to-llvm": "openinfer.lowering.cpu.convert_to_llvm:ConvertToLlvm",
    "expand-packed": "openinfer.lowering.vulkan.expand_packed:ExpandPacked",
    "expand-narrow-floats": "openinfer.lowering.vulkan.expand_narrow_floats:ExpandNarrowFloats",
    "partition-kernels": "openinfer.lowering.cpu.partition_kernels:PartitionKernels",
    "split-kernels": "openinfer.lowering.cpu.threads.split_kernels:SplitKernels",
    "expand-f8": "openinfer.lowering.cpu.expand_f8:ExpandF8",
    "expand-math": "openinfer.lowering.kernels.expand_math:ExpandMath",
    # From xDSL, as they are.
    "canonicalize": "xdsl.transforms.canonicalize:CanonicalizePass",
    "control-flow-hoist": "xdsl.transforms.control_flow_hoist:ControlFlowHoistPass",
    "convert-linalg-to-loops": "xdsl.transforms.convert_linalg_to_loops:ConvertLinalgToLoopsPass",
    "convert-scf-to-cf": "xdsl.transforms.convert_scf_to_cf:ConvertScfToCf",
    "cse": "openinfer.lowering.cse:Cse",
    "dce": "openinfer.lowering.dce:Dce",
    "licm": "xdsl.transforms.loop_invariant_code_motion:LoopInvariantCodeMotionPass",
    "linalg-generalize-named-ops": (
        "xdsl.transforms.linalg_generalize_named_ops:LinalgGeneralizeNamedOpsPass"
    ),
    "loop-hoist-memref": "xdsl.transforms.loop_hoist_memref:LoopHoistMemRefPass",
    "lower-affine": "xdsl.transforms.lower_affine:LowerAffinePass",
    "reconcile-unrealized-casts": (
        "xdsl.transforms.reconcile_unrealized_casts:ReconcileUnrealizedCastsPass"
    ),
    "scf-for-loop-flatten": "xdsl.transforms.scf_for_loop_flatten:ScfForLoopFlattenPass",
    "scf-for-loop-range-folding": (
        "xdsl.transforms.scf_for_loop_range_folding:ScfForLoopRangeFoldingPass"
    ),
    "scf-for-loop-unroll": "xdsl.transforms.scf_for_loop_unroll:ScfForLoopUnrollPass",
}

BACKENDS: dict[str, str] = {
    "cpu": "openinfer.compiler.backends.cpu:CPU",
    "null": "openinfer.compiler.backends.null:NULL",
    "vulkan": "openinfer.compiler.backends.vulkan:VULKAN",
}
"""By the name of the device (`openinfer.runtime.devices`)."""

TARGETS: dict[str, str] = {
    "asm": "openinfer.lowering.cpu.llvm_target:AssemblyTarget",
    "glsl": "openinfer.lowering.emit.glsl_target:GlslTarget",
    "llvm-ir": "openinfer.lowering.cpu.llvm_target:LlvmIrTarget",
    "mlir": "xdsl.targets.mlir:MLIRTarget",
    "spirv": "openinfer.lowering.vulkan.spirv_target:SpirvTarget",
    "spirv-text": "openinfer.lowering.vulkan.spirv_target:SpirvTextTarget",
}
BINARY_TARGETS = frozenset({"spirv"})
"""Targets whose output is bytes: each of its characters stands for one."""
TARGET_PHASES = {"glsl": "threads"}
"""Targets that write an earlier phase than the last one of a pipeline."""


def load(entry: str) -> Any:
    """The object that "module:Class" names. Raises ImportError, AttributeError."""
    import importlib

    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)


def loader(entry: str) -> Callable[[], Any]:
    """A function of no arguments that loads `entry` when it is called."""
    return lambda: load(entry)


def dialect_loaders() -> dict[str, Callable[[], Dialect]]:
    """Every dialect by name, imported when its loader is called."""
    return {name: loader(entry) for name, entry in DIALECTS.items()}


def pass_loaders() -> dict[str, Callable[[], type[ModulePass]]]:
    """Every pass by name, imported when its loader is called."""
    return {name: loader(entry) for name, entry in PASSES.items()}


def target_loaders() -> dict[str, Callable[[], type[Target]]]:
    """Every output format of `openinfer-opt -t` by name."""
    return {name: loader(entry) for name, entry in TARGETS.items()}


def make_context(allow_unregistered: bool = False) -> Context:
    """An xDSL context that knows our dialects; each is imported when an op of it is met."""
    from xdsl.context import Context

    context = Context(allow_unregistered)
    for name, factory in dialect_loaders().items():
        context.register_dialect(name, factory)
    return context
