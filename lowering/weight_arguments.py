"""The weight arguments of `@step` and their rows, while a pass changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, SSAValue

from openinfer.dialects import nn
from openinfer.lowering.interface import Weight, input_count, read_weights, write_weights
from openinfer.lowering.locations import give_location


class WeightArguments:
    """The weights of a step: `finish` writes their rows, and drops those that nobody reads any more."""

    def __init__(self, module: ModuleOp, function: FuncOp) -> None:
        self.module, self.function = module, function
        self.block = function.body.block
        self.rows = read_weights(module)
        self.first = input_count(module)
        self._stacked: dict[tuple[int, ...], SSAValue] = {}

    def source(self, value: SSAValue) -> tuple[int, nn.MemberOp | None] | None:
        """The number of the weight that a value is (a member of), if any."""
        member = value.owner if isinstance(value.owner, nn.MemberOp) else None
        root = member.family if member is not None else value
        if isinstance(root, BlockArgument) and root.block is self.block:
            number = root.index - self.first
            if 0 <= number < len(self.rows):
                return number, member
        return None

    def add(self, weight: Weight, kind: Attribute, hint: str) -> SSAValue:
        """A new argument and its row."""
        argument = self.block.insert_arg(kind, self.first + len(self.rows))
        argument.name_hint = hint
        self.rows.append(weight)
        return argument

    def can_stack(self, values: Sequence[SSAValue]) -> bool:
        """Whether some values are weights, or members of the same place, of one type and layout."""
        found = [self.source(value) for value in values]
        if any(one is None for one in found) or len({value.type for value in values}) > 1:
            return False
        known = [one for one in found if one is not None]
        rows = [self.rows[number] for number, _ in known]
        forms = {(row.members, row.layout, row.prepare, not row.sources) for row in rows}
        places = {tuple(member.indices) if member is not None else None for _, member in known}
        return len(forms) == 1 and rows[0].sources != () and len(places) == 1

    def stack(self, values: Sequence[SSAValue]) -> SSAValue:
        """Such values one behind the other, here as they are where the first one is made."""
        found = [one for one in map(self.source, values) if one is not None]
        numbers = tuple(number for number, _ in found)
        _, member = found[0]
        rows = [self.rows[number] for number in numbers]
        dims = nn.dims_of(values[0])
        element = nn.element_of(values[0])
        if numbers not in self._stacked:
            # Member by member, as a family lies.
            sources = tuple(
                source for together in zip(*(row.sources for row in rows)) for source in together
            )
            members = (*rows[0].members, len(values))
            kind = nn.tensor_type(element, [*members, *dims])
            root = member.family if member is not None else values[0]
            hint = f"{root.name_hint or rows[0].variable}_and_others"
            new = replace(rows[0], sources=sources, members=members)
            self._stacked[numbers] = self.add(new, kind, hint)
        argument = self._stacked[numbers]
        if member is None:
            return argument
        kind = nn.tensor_type(element, [len(values), *dims])
        made = nn.MemberOp(argument, list(member.indices), kind)
        give_location(member.location, made)
        block = member.parent_block()
        assert block is not None
        block.insert_op_before(made, member)
        return made.member

    def finish(self) -> None:
        """Drops what nobody reads, and writes the rows."""
        kept: list[Weight] = []
        for number, weight in reversed(list(enumerate(self.rows))):
            argument = self.block.args[self.first + number]
            if argument.uses:
                kept.insert(0, weight)
            else:
                self.block.erase_arg(argument)
        self.rows = kept
        self.function.update_function_type()
        write_weights(self.module, self.rows)
