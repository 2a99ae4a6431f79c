"""What ops do to memory, asked once per class or op: `xdsl.traits.get_effects` walks through all that
an op holds, at every level of nested loops again.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.ir import Operation, SSAValue
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryAllocEffect,
    MemoryEffect,
    MemoryEffectKind,
    MemoryFreeEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoMemoryEffect,
    RecursiveMemoryEffect,
    SymbolOpInterface,
    get_effects,
)

_ALIKE = (
    NoMemoryEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    MemoryAllocEffect,
    MemoryFreeEffect,
)
"""Traits that say the same of every op of a class."""

Found = Set[EffectInstance] | None
"""Effects; None where they are unknown."""


class Effects:
    """Effects of the ops of a module whose loops and branches keep theirs while this is in use."""

    def __init__(self) -> None:
        self._of_class: dict[type[Operation], tuple[Found, bool]] = {}
        self._asked: set[type[Operation]] = set()
        """Classes where each op has an answer of its own."""
        self._of_op: dict[Operation, tuple[Found, bool]] = {}

    def of(self, op: Operation) -> Found:
        """What an op does, with all that it holds."""
        return self.looked_up(op)[0]

    def dead_if_unused(self, op: Operation) -> bool:
        """Whether nobody could tell that an op is missing whose results nobody uses."""
        return self.looked_up(op)[1]

    def looked_up(self, op: Operation) -> tuple[Found, bool]:
        """The answers of `of` and `dead_if_unused`."""
        found = self._of_class.get(type(op))
        if found is not None:
            return found
        kind = type(op)
        if kind not in self._asked:
            traits = op.get_traits_of_type(MemoryEffect)
            if all(isinstance(trait, _ALIKE) for trait in traits):
                found = self._of_class[kind] = self._judged(op, get_effects(op))
                return found
            self._asked.add(kind)
        found = self._of_op.get(op)
        if found is None:
            found = self._of_op[op] = self._judged(op, self._own(op))
        return found

    def _own(self, op: Operation) -> Found:
        traits = op.get_traits_of_type(MemoryEffect)
        if not all(type(trait) is RecursiveMemoryEffect for trait in traits):
            return get_effects(op)
        effects: set[EffectInstance] = set()
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    found = self.of(inner)
                    if found is None:
                        return None
                    effects.update(found)
        return effects

    def _judged(self, op: Operation, effects: Found) -> tuple[Found, bool]:
        """The effects, and whether they end with the op: it reads, or allocates what it holds."""
        dead = (
            effects is not None
            and not op.has_trait(IsTerminator, value_if_unregistered=False)
            and not op.has_trait(SymbolOpInterface, value_if_unregistered=False)
            and all(
                effect.kind is MemoryEffectKind.READ
                or (
                    effect.kind is MemoryEffectKind.ALLOC
                    and isinstance(effect.value, SSAValue)
                    and op.is_ancestor(effect.value.owner)
                )
                for effect in effects
            )
        )
        return effects, dead
