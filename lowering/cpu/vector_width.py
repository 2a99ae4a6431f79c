"""How many elements a vector register of the compilation's target holds."""

from __future__ import annotations

from xdsl.dialects.builtin import FixedBitwidthType, IndexType
from xdsl.ir import Attribute, Operation

from openinfer.dialects.nn.elements import is_packed
from openinfer.lowering.facts import Facts
from openinfer.runtime.errors import CompileError

PACKED_LANES = 16


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
    return Facts.of(op).target.vector_bits // bits_of(element)
