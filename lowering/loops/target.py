"""How many elements a vector register of the compilation's target holds."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType, IndexType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects.nn.elements import is_packed
from openinfer.runtime.errors import CompileError
from openinfer.runtime.target import named_target

PACKED_LANES = 16
TARGET_ATTRIBUTE = "openinfer.target"
"""The module attribute that names the CPU description: "avx512", "avx2" or "generic"."""
BF16_DOT_ATTRIBUTE = "openinfer.bf16_dot"
"""The module attribute that says that the target has the instruction for `nn.dot_pairs`."""


def target_name_of(op: Operation) -> str:
    """The target of the module around `op`; "generic" when the module names none."""
    parent: Operation | None = op
    while parent is not None:
        if isinstance(parent, ModuleOp):
            name = parent.attributes.get(TARGET_ATTRIBUTE)
            if isinstance(name, StringAttr):
                return name.data
        parent = parent.parent_op()
    return "generic"


def bits_of(element: Attribute) -> int:
    """The bits that one element takes in a register; index counts as 64, packed elements as 8.

    Raises CompileError OI0931 for a type that is no element.
    """
    if isinstance(element, IndexType):
        return 64
    if not isinstance(element, FixedBitwidthType):
        raise CompileError("OI0931", f"{element} is no element of a vector")
    return max(8, element.bitwidth)


def lanes_of(op: Operation, element: Attribute) -> int:
    """How many values of type `element` a vector register of the target around `op` holds.

    Of packed integers PACKED_LANES: whole bytes of each of them, and no more than 64 bits.

    Raises UnsupportedError OI0710 when the module names an unknown target.
    """
    if is_packed(element):
        return PACKED_LANES
    return named_target(target_name_of(op)).vector_bits // bits_of(element)
