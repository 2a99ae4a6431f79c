"""Numbers for attributes: equal attributes have one number.

Equality and hashes of attributes walk through all they are made of, while the same few objects stand
on most ops. Each object is hashed once here, after that its identity is enough.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from xdsl.ir import Attribute, SSAValue


class Interned:
    """Numbers that were given out. Keeps the attributes alive, so that identities stay theirs."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[int, Attribute]] = {}
        self._by_value: dict[Attribute, int] = {}

    def number(self, attribute: Attribute) -> int:
        """The number of an attribute and of all that are equal to it."""
        found = self._by_identity.get(id(attribute))
        if found is None:
            number = self._by_value.setdefault(attribute, len(self._by_value))
            found = self._by_identity[id(attribute)] = (number, attribute)
        return found[0]

    def types(self, values: Sequence[SSAValue]) -> Hashable:
        """Equal for values of equal types."""
        number = self.number
        return tuple([number(value.type) for value in values])

    def named(self, attributes: Mapping[str, Attribute]) -> Hashable:
        """Equal for equal dictionaries, in whatever order they were written."""
        if not attributes:
            return ()
        number = self.number
        if len(attributes) == 1:
            ((name, value),) = attributes.items()
            return name, number(value)
        return frozenset([(name, number(value)) for name, value in attributes.items()])
