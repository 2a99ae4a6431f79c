"""What a machine asks of the passes that all machines share: one record each, found by name.

A pass that is not the machine's own asks here instead of naming a schedule or a target:

    demands = demands_of(module)
    tiling = demands.tiling(op)

An answer depends on the op, its types and the facts of the module around it (`Facts.of`), nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Operation

from openinfer.dialects import nn
from openinfer.dialects.nn.layouts import LayoutAttr
from openinfer.lowering.facts import Facts
from openinfer.lowering.places import on_host
from openinfer.runtime.devices import DEFAULT_DEVICE
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

Widening = nn.MatmulOp | nn.ExpertMatmulOp | nn.AttentionOp | nn.GatherOp
"""Ops whose operands may be narrower than what is computed."""

Packed = nn.MatmulOp | nn.MatvecOp | nn.ExpertMatmulOp | nn.UnpackBlocksOp | nn.ConvOp
"""Ops whose constant operands may be laid out."""

BlockReader = nn.MatmulOp | nn.ExpertMatmulOp | nn.GatherOp | nn.AttentionOp
"""Ops that read the rows of a weight, or of keys and values."""

Composite = nn.AttentionOp | nn.LayerNormOp | nn.RmsNormOp | nn.RotaryOp
"""Ops that a machine may want in parts."""


@dataclass(frozen=True)
class Scratch:
    """A buffer that a kernel works in."""

    name: str
    """One of the op's `SCRATCH`."""
    element: Attribute
    dims: tuple[Size, ...]


@dataclass(frozen=True)
class Tiling:
    """How the constant operand of an op is cut for its kernel."""

    layout: LayoutAttr
    """What `nn.pack` makes of it."""


class Demands:
    """The answers of one machine. These are those of a machine that has nothing of its own."""

    own_memory = True
    """Whether its kernels work in a memory that the host does not, so that buffers are copied."""

    holds_states = False
    """Whether persistent values may lie in its memory: it moves what a step keeps of them."""

    checks_indices = False
    """Whether its kernels look at the indices that it has computed, and note the first that is wrong."""

    versions_rows = False
    """Whether a step of one row gains by kernels whose types say that it is one."""

    most_buffers: int | None = None
    """Buffers that a kernel may have; None for any number."""

    def supports(self, op: Operation) -> str | None:
        """Why the machine cannot run an op of level `linalg`; None where it can. What is fused of ops that
        it can run, in up to `most_buffers`, it can run too."""
        return None

    def whole(self, op: Composite) -> bool:
        """Whether the machine has a kernel for an op that others compute in parts."""
        return False

    def widens(self, op: Widening, operand: int, dtype: Attribute) -> bool:
        """Whether the kernel of an op reads an operand in a narrower dtype, and widens it itself; of a
        gather, whose rows are widened behind it, whether it reads a table in that dtype."""
        return False

    def reads_blocks(self, op: BlockReader, block: str) -> bool:
        """Whether the kernel of an op reads its weight, the right operand, the matrices or the table, in
        the blocks of a format of `BLOCKS`."""
        return False

    def unpacks_blocks(self, op: nn.MatmulOp, block: str) -> bool:
        """Whether a product that does not read blocks may have its weight unpacked in front of it, in each
        step, so that others may read them."""
        return False

    def turns_halves(self, op: nn.MatmulOp, half: int, *, interleaved: bool) -> bool:
        """Whether the kernel of a product of one row stores columns together that are `half` apart, or
        neighbours."""
        return True

    def rounds(self, op: nn.MatmulOp | nn.AttentionOp, weights: Collection[int]) -> bool:
        """Whether an op gains by operands that are rounded to bf16; `weights` are the operands that are
        rounded when the program is loaded."""
        return False

    def adds_fours(self, op: nn.MatmulOp, weight: bool) -> bool:
        """Whether a product of i8 with sums in i32 gains by four products at a time (`nn.dot_words`);
        `weight` says whether its right operand is one."""
        return False

    def rounds_to_bytes(self, op: nn.MatmulOp | nn.ExpertMatmulOp) -> bool:
        """Whether the left operand of a product with a weight in blocks is rounded to blocks of bytes where
        the program is compiled with precision "q8"."""
        return False

    def rounds_to_half(self, op: nn.MatmulOp | nn.AttentionOp) -> bool:
        """Whether the left operand, of f32, of a product with a weight of f16 is rounded to f16 where the
        program is compiled with precision "q8"; so are queries beside keys and values of f16."""
        return False

    def tiling(self, op: Packed) -> Tiling | None:
        """The panels that the kernel of an op wants its constant operand in; None as it stands."""
        return None

    def takes_in(self, product: nn.MatmulOp | nn.ConvOp, consumer: GenericOp) -> bool:
        """Whether the kernel of a product gains by computing an elementwise op that reads its result."""
        return True

    def merges(self, products: Sequence[nn.MatmulOp]) -> bool:
        """Whether one kernel may compute several products of one left operand."""
        return False

    def matvec(self, product: nn.MatmulOp) -> bool:
        """Whether the kernel of a product has few rows, and may take in what stands before and beside it."""
        return False

    def joins(self, products: Sequence[nn.MatmulOp]) -> bool:
        """Whether one kernel computes several products of one left operand, with weights of one type that lie
        one behind the other."""
        return False

    def starts_together(self, kernels: Sequence[nn.NNOp]) -> bool:
        """Whether kernels that do not use what the others write gain by being one."""
        return False

    def reads_squares(self, product: nn.MatmulOp | nn.RowMatmulOp) -> bool:
        """Whether the kernel of a product gains by a left operand in squares, as its weight lies."""
        return False

    def takes_norm(self, product: nn.MatmulOp | nn.RowMatmulOp) -> bool:
        """Whether the kernel of a product computes the norm of the rows of its left operand, too."""
        return False

    def pools(self, conv: nn.ConvOp, pool: nn.PoolOp) -> bool:
        """Whether the kernel of a convolution takes the largest of squares of its sums well."""
        return False

    def scratch(self, op: nn.NNOp) -> list[Scratch]:
        """The scratch buffers that the kernel of an op, here on tensors, works in."""
        return []


DEMANDS: dict[str, str] = {
    "cpu": "openinfer.lowering.cpu.demands:CpuDemands",
    "null": "openinfer.lowering.null.demands:NullDemands",
    "vulkan": "openinfer.lowering.vulkan.demands:VulkanDemands",
}
"""By the name of the device, as `Facts.device` has it."""

_LOADED: dict[str, Demands] = {}


def demands_of(op: Operation) -> Demands:
    """What the machine asks that runs `op`: the device of the module, or the host that it was sent to."""
    name = DEFAULT_DEVICE if on_host(op) else Facts.of(op).device
    if name not in _LOADED:
        module, _, record = DEMANDS[name].partition(":")
        _LOADED[name] = getattr(import_module(module), record)()
    return _LOADED[name]
