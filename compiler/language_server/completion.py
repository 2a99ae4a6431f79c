"""What may stand at a place of a program, told from the words before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from openinfer.compiler.frontend.lexer import Token
from openinfer.compiler.frontend.parse_nodes import SECTION_WORDS
from openinfer.compiler.language_server import terms
from openinfer.compiler.language_server.analysis import Analysis
from openinfer.compiler.language_server.hover import default_text, op_text, setting_doc, signature
from openinfer.compiler.language_server.operand_reader import DEFINING
from openinfer.compiler.language_server.symbols import Definition
from openinfer.dialects import opset
from openinfer.dialects.opset import SIZE_KINDS, Setting
from openinfer.runtime.dtypes import DTYPES

_OPENING = {")": "(", "]": "[", "}": "{"}
_REFS = ("transfer", "yield", "await", "return", "read", "write", "reset")
"""Words behind which variables stand."""
_READ_ONLY = ("dynamic", "constant")


@dataclass(frozen=True)
class Item:
    """One proposal."""

    label: str
    kind: str
    """"op", "setting", "variable", "parameter", "size", "block", "keyword", "attribute", "dtype", "value" or
    "hint"."""
    detail: str = ""
    doc: str = ""
    insert: str = ""
    """What is written if it is not the label."""


def complete(analysis: Analysis, offset: int) -> list[Item]:
    """The proposals for the name that ends at a place, or that begins there."""
    return _Completion(analysis, offset).items()


class _Completion:
    def __init__(self, analysis: Analysis, offset: int) -> None:
        self.analysis = analysis
        self.words = analysis.words
        self.offset = offset
        tokens = self.words.tokens
        before = [token for token in tokens if token.span.stop <= offset and token.kind != "end"]
        self.inside = next((t for t in tokens if t.span.start < offset < t.span.stop), None)
        if self.inside is None and before and before[-1].kind == "bad":
            self.inside = before[-1]
        if before and before[-1].kind == "name" and before[-1].span.stop == offset:
            before.pop()
        elif (
            self.inside is not None and self.inside.kind != "name" and before[-1:] == [self.inside]
        ):
            before.pop()
        self.before = before

    def previous(self, count: int = 1) -> Token | None:
        """The token so many before the name that is typed."""
        return self.before[-count] if count <= len(self.before) else None

    def text(self, count: int = 1) -> str:
        """Its text; that of a string is empty."""
        token = self.previous(count)
        return "" if token is None or token.kind in ("string", "bad") else token.text

    def items(self) -> list[Item]:
        inside = self.inside
        if inside is not None and inside.kind in ("string", "bad") and '"' in inside.text:
            return self.in_string()
        if (inside is not None and inside.kind != "name") or self.in_comment():
            return []
        last = self.text()
        if last == "@":
            return [_attribute(name) for name in terms.ATTRIBUTES]
        if last == "." and self.text(2) == "cache":
            return [Item(name, "keyword", doc=doc) for name, doc in terms.CACHE.items()]
        if last == ".":
            return []
        around = self.words.region_at(self.offset)
        if not around:
            return self.at_top()
        enclosing = self.enclosing()
        if around[-1].kind == "section":
            return self.in_section(enclosing)
        return self.in_block(enclosing)

    def in_comment(self) -> bool:
        """Whether the place is in a comment: comments leave no tokens."""
        start = self.before[-1].span.stop if self.before else 0
        gap = self.analysis.source.text[start : self.offset]
        line = gap.rpartition("\n")[2]
        return "//" in line or gap.count("/*") > gap.count("*/")

    def in_string(self) -> list[Item]:
        """Names of tensors, in `@ref` and `@pattern`; behind a brace what may stand between braces."""
        text = self.analysis.source.text[: self.offset]
        if (
            text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")[-1:]
            == "{"
        ):
            return [*self.parameters(), *self.indices()]
        if self.text() != "(" or self.text(2) not in ("ref", "pattern"):
            return []
        tensors = self.analysis.findings.tensors
        return [Item(tensor.name, "value", tensor.type) for tensor in tensors]

    def enclosing(self) -> tuple[str, int]:
        """The innermost bracket around the place that this statement opens, and its token; "" and 0."""
        closed: list[str] = []
        for place in range(len(self.before) - 1, -1, -1):
            token = self.before[place]
            if token.kind == ";" and not closed:
                return "", 0
            if token.kind in _OPENING:
                closed.append(_OPENING[token.kind])
            elif closed and token.kind == closed[-1]:
                closed.pop()
            elif token.kind in ("(", "[", "{") and not closed:
                if token.kind == "{" and (place == 0 or self.before[place - 1].text != "with"):
                    return "", 0
                return token.kind, place
        return "", 0

    # The parts of a program.

    def at_top(self) -> list[Item]:
        found = [Item(word, "keyword", doc=terms.SECTIONS[word]) for word in SECTION_WORDS]
        return [*found, *(Item(word, "keyword", doc=doc) for word, doc in terms.TOP.items())]

    def in_section(self, enclosing: tuple[str, int]) -> list[Item]:
        bracket, place = enclosing
        if bracket == "[":
            return self.size_items()
        if bracket == "(":
            name, sign = self.before[place - 1].text, self.before[place - 2].text
            if sign != "@":
                return []
            return {
                "dtype": _dtypes(),
                "init": _values("true", "false", "inf", "nan"),
                "auto_dim": self.slots(),
                "fixed": self.slots(),
            }.get(name, [])
        return _dtypes() if self.text() == ":" else []

    def in_block(self, enclosing: tuple[str, int]) -> list[Item]:
        bracket, place = enclosing
        opener = self.before[place - 1].text if bracket and place else ""
        if bracket == "{":
            return _values("true", "false") if self.text() == "=" else _hints()
        call = self.op_of(place) if bracket == "(" else None
        if call is not None:
            return self.in_call(call, place)
        if bracket == "(" and place > 1 and self.before[place - 2].text == "branch":
            return self.in_block_call(opener, place)
        if bracket == "[":
            return [*self.indices(), *self.size_items(), *self.scalars()]
        if bracket == "(":
            if opener in ("after", "before"):
                return _ops()
            return self.size_items() if self.text() in ("in", "..", "(", "+", "*") else []
        last = self.text()
        if last == "op":
            return _ops()
        if last == ":":
            return _dtypes()
        if last == ">>":
            return self.variables(written=True)
        if last == "branch" or (last and self.text(2) == "branch"):
            blocks = self.blocks()
            return [*blocks, *self.scalars()] if last == "branch" else blocks
        if last in ("increment", "decrement"):
            return self.variables(memory="persistent")
        if last == "=":
            return [_keyword(word) for word in DEFINING]
        if self.at_start():
            return [*map(_keyword, terms.STATEMENTS), *self.variables(written=True)]
        if last in (*_REFS, ",") or self.previous_kind() == "name":
            return self.variables()
        return []

    def previous_kind(self) -> str:
        token = self.previous()
        return token.kind if token is not None else ""

    def at_start(self) -> bool:
        """Whether a statement begins here."""
        last = self.previous()
        if last is None or last.kind in (";", "{", "}"):
            return True
        # Behind a statement whose `;` is missing.
        gap = self.analysis.source.text[last.span.stop : self.offset]
        return "\n" in gap and last.kind in ("name", ")", "]", "int")

    # The call of an op.

    def op_of(self, place: int) -> str | None:
        """The op whose parenthesis this is."""
        if place < 2 or self.before[place - 1].kind != "name":
            return None
        return self.before[place - 1].text if self.before[place - 2].text == "op" else None

    def in_call(self, op: str, place: int) -> list[Item]:
        spec = opset.find(op)
        if self.text() == "=":
            setting = spec.setting(self.text(2)) if spec is not None else None
            return self.setting_values(setting)
        if self.text() not in ("(", ",", ")", "]") and self.previous_kind() not in ("name", "int"):
            return []
        inside = self.before[place + 1 :]
        given = {token.text for token, sign in pairwise(inside) if sign.text == "="}
        settings = [s for s in spec.settings if s.name not in given] if spec is not None else []
        items = [_setting(setting) for setting in settings]
        # Operands come before settings.
        return items if given else [*self.variables(), *items]

    def in_block_call(self, block: str, place: int) -> list[Item]:
        """The arguments of `branch BLOCK(…)`."""
        if self.text() == "=":
            return [*self.variables(), *self.indices(), *self.size_items()]
        inside = self.before[place + 1 :]
        given = {token.text for token, sign in pairwise(inside) if sign.text == "="}
        items = [
            Item(d.symbol.name, "parameter", self.written(d), insert=f"{d.symbol.name}=")
            for d in self.words.parameters(block)
            if d.symbol.name not in given
        ]
        if given:
            return items
        return [*self.variables(), *items, *self.indices(), *self.size_items()]

    def written(self, definition: Definition) -> str:
        """A definition as it is written."""
        return self.analysis.source.text[definition.whole.start : definition.whole.stop]

    def parameters(self) -> list[Item]:
        """The parameters of the block that the place is in."""
        made = self.words.parameters(self.words.local_at(self.offset))
        return [Item(d.symbol.name, "parameter", self.written(d)) for d in made]

    def setting_values(self, setting: Setting | None) -> list[Item]:
        if setting is None:
            return [*self.scalars(), *self.size_items(), *_dtypes()]
        if setting.choices:
            return [Item(f'"{choice}"', "value") for choice in setting.choices]
        if setting.kind == "bool":
            return _values("true", "false")
        if "dtype" in setting.kind:
            return _dtypes()
        found = [*self.indices(), *self.size_items()]
        return found if setting.kind in SIZE_KINDS else [*self.scalars(), *found]

    # Names of the program.

    def variables(self, *, written: bool = False, memory: str = "") -> list[Item]:
        """Variables and temporaries; with `written`, those that a statement may write."""
        local = self.words.local_at(self.offset)
        items: dict[str, Item] = {}
        if local and not written and not memory:
            items = {item.label: item for item in self.parameters()}
        for made in self.words.definitions:
            name = made.symbol.name
            if made.symbol.kind != "variable" or made.name.start <= self.offset <= made.name.stop:
                continue
            if (written and made.memory in _READ_ONLY) or (memory and made.memory != memory):
                continue
            # A block with parameters has variables of its own; of others it sees those of the program.
            if made.symbol.owner != local and (made.symbol.owner or not made.is_declared):
                continue
            items.setdefault(name, Item(name, "variable", self.type_of(made), made.memory))
        return list(items.values())

    def type_of(self, made: Definition) -> str:
        """The type of a variable, as far as it is known, in a block with parameters that of one call."""
        known = self.analysis.findings
        symbol = made.symbol
        calls = known.locals.get((symbol.owner, symbol.name), {}).values()
        variable = next(iter(calls), None) if symbol.owner else known.variables.get(symbol.name)
        return variable.type if variable is not None else made.type_text

    def scalars(self) -> list[Item]:
        """Variables without dimensions, and those whose type is not known."""
        return [item for item in self.variables() if "[" not in item.detail]

    def indices(self) -> list[Item]:
        found = self.words.indices_at(self.offset)
        return [Item(d.symbol.name, "size", "loop index") for d in found]

    def slots(self) -> list[Item]:
        """The indices of the declaration that the place is in."""
        made = [d for d in self.words.definitions if d.symbol.kind == "slot"]
        name = next(
            (d.symbol.name for d in reversed(self.words.definitions)
             if d.symbol.kind == "variable" and d.name.start < self.offset), "")  # fmt: skip
        return [Item(d.symbol.name, "size", "index") for d in made if d.symbol.owner == name]

    def size_items(self) -> list[Item]:
        values: Mapping[str, tuple[int | None, str]] = self.analysis.findings.sizes
        at = self.words.at(self.offset)
        typed = at.text if at is not None else ""
        items: list[Item] = []
        for name in dict.fromkeys((*self.words.sizes(), *values)):
            if name == typed and name not in values:
                continue  # what is being typed is no size yet
            value = values.get(name, (None, ""))[0]
            items.append(Item(name, "size", f"= {value}" if value is not None else "size"))
        return items

    def blocks(self) -> list[Item]:
        found = [d for d in self.words.definitions if d.symbol.kind == "block"]
        return [
            Item(
                d.symbol.name, "block", d.type_text, insert=f"{d.symbol.name}(" * bool(d.type_text)
            )
            for d in found
            if d.symbol.name != "entry"
        ]


def _ops() -> list[Item]:
    found: list[Item] = []
    for name in opset.names():
        spec = opset.find(name)
        assert spec is not None
        found.append(Item(name, "op", signature(spec), op_text(spec)))
    return found


def _setting(setting: Setting) -> Item:
    default = default_text(setting)
    detail = f"default {default}" if default else "required" if setting.required else setting.kind
    return Item(setting.name, "setting", detail, setting_doc(setting), f"{setting.name}=")


def _attribute(name: str) -> Item:
    insert = name if name in terms.ATTRIBUTES_WITHOUT_ARGUMENTS else f"{name}("
    return Item(name, "attribute", doc=terms.ATTRIBUTES[name], insert=insert)


def _hints() -> list[Item]:
    return [Item(name, "hint", doc=doc, insert=f"{name} = ") for name, doc in terms.HINTS.items()]


def _keyword(word: str) -> Item:
    return Item(word, "keyword", doc=terms.STATEMENTS[word])


def _values(*words: str) -> list[Item]:
    return [Item(word, "value") for word in words]


def _dtypes() -> list[Item]:
    return [
        *(Item(row.name, "dtype", f"{row.kind}, {row.bits} bit") for row in DTYPES.values()),
        Item("_", "dtype", "from what fills it"),
    ]


def labels(items: Iterable[Item]) -> list[str]:
    """The names of proposals."""
    return [item.label for item in items]
