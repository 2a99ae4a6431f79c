"""What a block with parameters is given: what differs between the stretches that it stands for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute

from openinfer.dialects.graph import LiteralAttr, OpOp
from openinfer.lowering.graph.imports.names_of import taken_names
from openinfer.lowering.graph.imports.stretches import Alike, Slot, Statements, names_in
from openinfer.lowering.graph.imports.words import component, op_word, safe

_MOST_VALUES = 3
_MOST_TEXTS = 3
_MOST_SETTINGS = 6
"""Parameters of each kind; more are no easier to read than the statements."""
_INDEX = re.compile(r"\{[^{}]*\}")
Place = tuple[int, int]
"""A statement of a stretch, and its slot."""


@dataclass
class Tensor:
    """A constant that a block declares."""

    text: str
    """Its name in the package, with parameters in braces."""
    slots: list[Slot]
    """In each stretch."""


@dataclass
class Parameters:
    """What a block is given, and where it uses that."""

    alike: Alike
    values: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    """What each place gives, and the parameter."""
    texts: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])
    settings: dict[tuple[str, tuple[Hashable, ...]], str] = field(
        default_factory=dict[tuple[str, tuple[Hashable, ...]], str]
    )
    uses: dict[Place, str] = field(default_factory=dict[Place, str])
    """The parameter that stands at a place instead of a value, number or setting."""
    filled: dict[Place, str] = field(default_factory=dict[Place, str])
    """Texts of arguments, with parameters in braces."""
    tensors: dict[Place, Tensor] = field(default_factory=dict[Place, Tensor])
    declared: dict[tuple[str, ...], list[Place]] = field(
        default_factory=dict[tuple[str, ...], list[Place]]
    )
    """Where each constant of the block is used, by its tensors in each stretch."""

    def default(self, key: tuple[str, tuple[Hashable, ...]]) -> Attribute | None:
        """What more than half of the places give, if that means the same everywhere."""
        (value, count), *_ = Counter(key[1]).most_common(1)
        assert isinstance(value, Attribute)
        return None if count * 2 <= len(key[1]) or any(names_in(value)) else value


def parameters_of(program: Statements, alike: Alike) -> Parameters | None:
    """The parameters of a block for stretches that are alike; None where there would be too many, or a tensor
    of one of them is used elsewhere, too."""
    return _Finder(program, alike).find()


class _Finder:
    def __init__(self, program: Statements, alike: Alike) -> None:
        self._program = program
        self._alike = alike
        self._found = Parameters(alike)
        self._outer = {name for block in program.blocks.values() for name in block.parameter_names}
        self._covered = {
            place for start in alike.starts for place in range(start, start + alike.length)
        }
        self._taken = taken_names(program.module, temporaries=False)
        self._texts: list[tuple[Place, tuple[str, ...]]] = []

    def find(self) -> Parameters | None:
        inside = iter(self._alike.wiring)
        first = self._alike.starts[0]
        for number in range(self._alike.length):
            for place in range(len(self._program.statements[first + number].slots)):
                column = [
                    self._program.statements[start + number].slots[place]
                    for start in self._alike.starts
                ]
                wired = column[0].kind == "value" and next(inside) is not None
                if not wired and not self._slot((number, place), column):
                    return None
        self._split_texts()
        found = self._found
        few = len(found.values) <= _MOST_VALUES and len(found.texts) <= _MOST_TEXTS
        return found if few and len(found.settings) <= _MOST_SETTINGS else None

    def _slot(self, place: Place, column: Sequence[Slot]) -> bool:
        """Finds the parameter for what stands at a place; False where there can be none."""
        values = tuple(slot.value for slot in column)
        same = len(set(values)) == 1
        match column[0].kind:
            case "value":
                names = tuple(map(str, values))
                if not (same and names[0] in self._program.variables):
                    name = self._found.values.setdefault(names, f"x{len(self._found.values)}")
                    self._found.uses[place] = name
            case "tensor":
                return self._tensor(place, column, same)
            case "text":
                texts = tuple(map(str, values))
                if not same or "{" in texts[0]:
                    self._texts.append((place, texts))
            case kind:
                value = values[0]
                assert isinstance(value, Attribute)
                if not same or {*names_in(value)} & self._outer:
                    self._setting(place, column[0].name if kind == "setting" else "value", values)
        return True

    def _setting(self, place: Place, name: str, values: tuple[Hashable, ...]) -> None:
        if name == "value":
            values = tuple(v.value if isinstance(v, LiteralAttr) else v for v in values)
        key = (name, values)
        if key not in self._found.settings:
            self._found.settings[key] = self._fresh(name)
        self._found.uses[place] = self._found.settings[key]

    def _tensor(self, place: Place, column: Sequence[Slot], same: bool) -> bool:
        text = str(column[0].value)
        if same and "{" not in text:
            return True  # It stays a constant of the program.
        for slot in column:
            if not self._program.used[slot.name] <= self._covered:
                return False
        names = tuple(str(slot.value) for slot in column)
        self._found.declared.setdefault(names, []).append(place)
        self._found.tensors[place] = Tensor(text, list(column))
        self._texts.append((place, names))
        return True

    # Texts

    def _split_texts(self) -> None:
        """What texts end in is the block's, what they begin with is given."""
        alike = self._alike
        paths = [
            self._program.module_of(start, alike.length) or self._program.path(start, alike.length)
            for start in alike.starts
        ]
        found = [(place, *_split(texts, paths)) for place, texts in self._texts]
        prefixes = dict.fromkeys(prefix for _, prefix, _ in found)
        for prefix in prefixes:
            if len(prefixes) == 1:
                name = "path"
            else:
                name = next(self._word(place, p) for place, p, _ in found if p == prefix)
            self._found.texts[prefix] = self._fresh(name)
        for place, prefix, ending in found:
            text = f"{{{self._found.texts[prefix]}}}{ending}"
            if place in self._found.tensors:
                self._found.tensors[place].text = text
            else:
                self._found.filled[place] = text

    def _word(self, place: Place, prefix: tuple[str, ...]) -> str:
        """A name for a path: what most of its modules are called, without numbers, else the op."""
        words = Counter(re.sub(r"_?\d+$", "", component(one.rpartition(".")[2])) for one in prefix)
        (word, count), *_ = words.most_common(1)
        if count > len(prefix) // 2 and word not in ("v", ""):
            return safe(word)
        op = self._program.statements[self._alike.starts[0] + place[0]].op
        return op_word(op.op_name.data) if isinstance(op, OpOp) else "path"

    def _fresh(self, name: str) -> str:
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}{number}"
        self._taken.add(found)
        return found


def _split(texts: tuple[str, ...], paths: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """What each begins with, and the longest end that all have, from a dot on; where all lie in the module
    that their stretch lies in, the path of that is not cut."""
    shortest = min(texts, key=len)
    count = 0
    while count < len(shortest) and len({text[-count - 1] for text in texts}) == 1:
        count += 1
    # A module in a loop is `layer.{l}`, its tensors may be those of `layer.{l + 1}`.
    pairs = [(_INDEX.sub("{}", text), _INDEX.sub("{}", path)) for text, path in zip(texts, paths)]
    inside = all(path and text.startswith(f"{path}.") for text, path in pairs)
    rest = min(len(text) - len(path) for text, path in pairs)
    ending = shortest[len(shortest) - (min(count, rest) if inside else count) :]
    # Indices of loops around the calls are theirs.
    dot = ending.find(".", ending.rfind("}") + 1)
    ending = ending[dot:] if dot >= 0 else ""
    if len(ending) == len(shortest):
        ending = ""
    return tuple(text[: len(text) - len(ending)] for text in texts), ending
