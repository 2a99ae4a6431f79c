"""`linalg` with memory effects.

xDSL 0.74 says nothing about the effects of linalg ops, so that dead ones stay and equal ones are
not shared. An op on tensors has no effect; an op on buffers reads and writes memory.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.dialects import linalg
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind, Pure

from openinfer.dialects.extensions.extend import add_traits

_READ_AND_WRITE = frozenset(
    (EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE))
)


class EffectsOnBuffers(MemoryEffect):
    """Reads and writes memory if an operand is a memref, else does nothing but compute."""

    @classmethod
    def get_effects(cls, op: Operation) -> Set[EffectInstance]:
        if any(isinstance(operand.type, MemRefType) for operand in op.operands):
            return _READ_AND_WRITE
        return frozenset()


Linalg = linalg.Linalg

for _op in Linalg.operations:
    if _op.name in ("linalg.yield", "linalg.index"):
        add_traits(_op, Pure())
    else:
        add_traits(_op, EffectsOnBuffers())
