"""Programs built from Python: every call adds a declaration or a statement to a program's text.

    g = oi.GraphBuilder()
    x = g.dynamic("x", "f32[B, K]")
    w = g.constant("w", "f32[K, N]")
    g.return_(g.op("relu", g.op("matmul", x, w)))
    program = oi.compile(g.graph(), model)

`str(g)` is the text in its canonical layout. What a program may say is decided where texts are checked, and
by nobody else: a mistake that no text could hold is an error here, every other one has its place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from openinfer.compiler.api import Graph
from openinfer.compiler.frontend.text_parts import float_text, string_text
from openinfer.dialects import opset
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.errors import InputError
from openinfer.runtime.sizes import Size

_INDENT = "    "
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[A-Za-z0-9_+\-*/(), ]*\])?", re.A)
_ENDS = ("return", "yield")
Slot = int | str | Size | slice


@dataclass(frozen=True)
class Variable:
    """A variable of a program that is being built; `W[l]` and `K[l, 0:n]` are members and entries."""

    builder: GraphBuilder = field(repr=False)
    text: str
    """As an operand is written: `h`, `W[l]`, `K[l, ..n]`."""

    def __getitem__(self, slots: Slot | tuple[Slot, ...]) -> Variable:
        """A member of a family, an entry or a slice of a cache; `K[()]` is all of it.

        Slots are numbers, sizes, loop indices and slices of them without a step. Raises InputError.
        """
        items = slots if isinstance(slots, tuple) else (slots,)
        texts = [_slot(item) for item in items]
        if len(texts) == 1 and not texts[0]:
            texts = [".."]
        return Variable(self.builder, f"{self.text}[{', '.join(texts)}]")

    def __str__(self) -> str:
        return self.text


class GraphBuilder:
    """A program that is built call by call: declarations, statements, blocks, loops.

    Statements go to the block `entry`, inside of `with g.block(name):` to that one. Temporaries are assigned
    where they are written first, with the type of what is written (`_`), and have names from their op. All
    methods raise InputError OI0533 for what no program text holds: a name that is none or is taken, an
    operand that is no variable of this builder.
    """

    def __init__(self) -> None:
        self._sizes: list[str] = []
        """Lines of sizes that are defined or bounded."""
        self._declared: list[tuple[str, str]] = []
        """Memory kind and line of each declaration."""
        self._blocks: dict[str, tuple[str, list[str]]] = {"entry": ("", [])}
        """Hints and lines."""
        self._block = "entry"
        self._depth = 1
        self._names: set[str] = set()
        self._writable: set[str] = set()
        self._labels: set[str] = set()

    # Declarations

    def dynamic(self, name: str, type: str) -> Variable:
        """An input: `g.dynamic("x", "f32[B, 64]")`."""
        return self._declare("dynamic", name, type, (), {})

    def volatile(
        self, name: str, type: str, *, indices: Sequence[str] = (), **attributes: Any
    ) -> Variable:
        """Memory of a step; `attributes` are those of `constant`."""
        return self._declare("volatile", name, type, indices, attributes)

    def constant(
        self, name: str, type: str = "_", *, indices: Sequence[str] = (), **attributes: Any
    ) -> Variable:
        """A tensor of the model: `g.constant("W", "f32[K, N]", ref="layer.weight", dtype="f16")`.

        `attributes`: `init` (a number or bool), `ref`, `pattern` (texts), `dtype`; others are kept as
        written. With `indices` it stands for a family, `pattern` for its names: `W[0]`.
        """
        return self._declare("constant", name, type, indices, attributes)

    def persistent(
        self, name: str, type: str, *, indices: Sequence[str] = (), **attributes: Any
    ) -> Variable:
        """Memory that survives steps: `g.persistent("K", "f32[D]", indices=["l", "t"], table=True)`.

        `attributes`: `init`, `ref`, `table=True`, `auto_dim=["i", "j"]`, `fixed={"l": 4}`.
        """
        return self._declare("persistent", name, type, indices, attributes)

    def size(self, text: str) -> Size:
        """A named size or an expression over some, to compute with: `g.size("T") + 1`."""
        try:
            return Size.of(text)
        except ValueError as error:
            raise _refused(f"{text!r} is no size: {error}", "write a name, as B") from None

    def define_size(self, name: str, value: int | str | Size) -> Size:
        """Defines a size in the program: `size head = hidden / heads;`."""
        self._take(name)
        self._sizes.append(f"size {name} = {_slot(value)};")
        return Size.name(name)

    def bound_size(
        self,
        size: str | Size,
        least: int | str | Size | None = None,
        most: int | str | Size | None = None,
    ) -> None:
        """Says what a size may be, limits included: `size 1 <= L <= 512;`."""
        parts = [least, size, most]
        if least is None and most is None:
            raise _refused(f"the bound of {size} has no limit", "give least, most or both")
        text = " <= ".join(_slot(part) for part in parts if part is not None)
        self._sizes.append(f"size {text};")

    def name(self, name: str) -> Variable:
        """A name that the model or an enclosing loop gives: of metadata, or of an index."""
        return Variable(self, _checked_name(name))

    # Statements

    def assign(self, name: str, type: str = "_") -> Variable:
        """A temporary, zeros at first."""
        self._take(name)
        self._writable.add(name)
        self._line(f"assign {name}: {_checked_type(type)};")
        return Variable(self, name)

    def op(
        self,
        name: str,
        *operands: Any,
        out: Variable | str | Sequence[Variable | str] | None = None,
        outputs: int | None = None,
        hints: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        """An op of `docs/ops.md`: the variable that it writes, a tuple for several.

        `out` names what is written, a variable or a new temporary; without it there is a new one for each
        of the op's results (`outputs` says how many, where the op does not). An operand may be a number or
        bool: `g.op("mul", x, 0.5)`. Settings are numbers,
        bools, texts, dtypes by name, sizes, variables, and lists.
        """
        spec = opset.find(name)
        _checked_name(name)
        count = outputs or (spec.outputs if spec is not None else 1) or 1
        arguments = [
            self._operand(operand) if _is_no_number(operand) else self._value(operand)
            for operand in operands
        ]
        for key, value in settings.items():
            setting = spec.setting(key) if spec is not None else None
            bare = setting is not None and setting.kind in ("dtype", "dtypes")
            arguments.append(f"{_checked_name(key)}={self._value(value, bare=bare)}")
        if out is None:
            written = [self.assign(self._fresh(name)) for _ in range(count)]
        else:
            several = isinstance(out, Sequence) and not isinstance(out, str)
            written = [self._output(one) for one in (out if several else [out])]  # pyright: ignore[reportArgumentType]
        if not written:
            raise _refused(f"op {name} writes nothing", "give `out` at least one name")
        targets = ", ".join(one.text for one in written)
        self._line(f"op {name}({', '.join(arguments)}) >> {targets}{self._hints(hints)};")
        return written[0] if len(written) == 1 else tuple(written)

    def transfer(self, source: Variable, target: Variable | str) -> Variable:
        """Copies a value."""
        text, written = self._operand(source), self._output(target)
        self._line(f"transfer {text} >> {written};")
        return written

    def cache_read(self, access: Variable, out: Variable | str | None = None) -> Variable:
        """Reads a persistent variable, an entry, or a slice of entries: `g.cache_read(K[l, 0:n])`."""
        text = self._operand(access)
        fallback = self._fresh(text.partition("[")[0].lower())
        written = self._output(fallback if out is None else out)
        self._line(f"cache.read {text} >> {written};")
        return written

    def cache_write(self, value: Variable, access: Variable) -> None:
        """Stores a value: `g.cache_write(k, K[l, step])`."""
        self._line(f"cache.write {self._operand(value)} >> {self._operand(access)};")

    def cache_increment(self, variable: Variable, amount: int | str | Size = 1) -> None:
        """Adds a number or a size to a persistent scalar; a negative number is subtracted."""
        if isinstance(amount, bool) or amount == 0:
            raise _refused(f"{amount!r} is nothing to count by", "give a number that is not 0")
        text = _slot(amount)
        word = "increment"
        if isinstance(amount, int) and amount < 0:
            word, text = "decrement", text.removeprefix("-")
        elif text.startswith("-"):
            text = f"({text})"
        count = "" if text == "1" else f"{text} "
        self._line(f"cache.{word} {count}{self._operand(variable)};")

    def cache_reset(self, access: Variable) -> None:
        """Gives a variable, an entry, or entries their first content again."""
        self._line(f"cache.reset {self._operand(access)};")

    def barrier(self) -> None:
        """Nothing is moved across it."""
        self._line("barrier;")

    def dep(self, after: str, before: str) -> None:
        """`dep after(AFTER) before(BEFORE)`, names of ops or statements."""
        for name in (after, before):
            for part in name.split("."):
                _checked_name(part)
        self._line(f"dep after({after}) before({before});")

    def branch(self, *target: Variable | str) -> None:
        """Calls a block, `g.branch("more")`, or one of two: `g.branch(condition, "yes", "no")`."""
        if len(target) == 1 and isinstance(target[0], str):
            self._line(f"branch {_checked_name(target[0])};")
        elif len(target) == 3:
            blocks = " ".join(_checked_name(name) for name in target[1:])
            self._line(f"branch {self._operand(target[0])} {blocks};")
        else:
            raise _refused(
                "a branch takes a block, or a condition and two blocks",
                'write g.branch(condition, "yes", "no")',
            )

    def yield_(self, *values: Variable) -> None:
        """Hands values over to the blocks that await them."""
        self._line(f"yield {', '.join(map(self._operand, values))};")

    def await_(self, *values: Variable) -> None:
        """Waits for values that another block yields."""
        self._line(f"await {', '.join(map(self._operand, values))};")

    def return_(self, *values: Variable) -> None:
        """Ends a block; in `entry`, `values` are the results of a step."""
        listed = ", ".join(map(self._operand, values))
        self._line(f"return {listed};" if listed else "return;")

    # What holds statements

    @contextmanager
    def block(self, name: str, *, hints: Mapping[str, Any] | None = None) -> Generator[None]:
        """Statements of a further block, which a branch calls; `return;` is added where it lacks an end."""
        if name in self._blocks or self._depth != 1:
            raise _refused(
                f"block {name!r} cannot begin here",
                "a block has a name of its own, and stands in no loop or scope",
            )
        self._blocks[_checked_name(name)] = (self._hints(hints), [])
        outer, self._block = self._block, name
        try:
            yield
        finally:
            self._block = outer

    @contextmanager
    def loop(
        self,
        start: int | str | Size,
        stop: int | str | Size,
        *,
        index: str | None = None,
        name: str | None = None,
        hints: Mapping[str, Any] | None = None,
    ) -> Generator[Size]:
        """A loop: `with g.loop(0, g.size("layers")) as l:`; `l` is its index, a size to compute with."""
        named = index if index is not None else self._fresh("i")
        _checked_name(named)
        label = _checked_name(name) if name is not None else self._label()
        head = f"loop {label} ({named} in {_slot(start)}..{_slot(stop)}){self._hints(hints)}"
        with self._body(head):
            yield Size.name(named)

    @contextmanager
    def scope(self, label: str, *, hints: Mapping[str, Any] | None = None) -> Generator[None]:
        """A named group of statements, for traces and hints."""
        with self._body(f"scope {string_text(label)}{self._hints(hints)}"):
            yield

    # The result

    def graph(self) -> Graph:
        """The program. What is wrong with it is found when it is used, or by its `check()`."""
        return Graph(str(self), "<built>")

    def __str__(self) -> str:
        parts = [f"{line}\n" for line in self._sizes] + ["\n"] * bool(self._sizes)
        section = ""
        for memory, line in self._declared:
            if memory != section:
                parts += ["}\n\n" * bool(section), f"{memory} {{\n"]
                section = memory
            parts.append(f"{_INDENT}{line}\n")
        parts.append("}\n\n" * bool(section))
        for name, (hints, lines) in self._blocks.items():
            ended = bool(lines) and lines[-1].strip(" ;").split(" ")[0] in _ENDS
            end = [] if ended else [f"{_INDENT}return;"]
            body = "".join(f"{line}\n" for line in [*lines, *end])
            parts.append(f"block {name}{hints} {{\n{body}}}\n\n")
        return "".join(parts).rstrip("\n") + "\n"

    def __repr__(self) -> str:
        return f"<builder of {len(self._declared)} declarations, {len(self._blocks)} blocks>"

    # Parts

    def _declare(
        self, memory: str, name: str, type: str, indices: Sequence[str], attributes: dict[str, Any]
    ) -> Variable:
        self._take(name)
        self._writable.add(name)
        listed = f"({', '.join(map(_checked_name, indices))})" if indices else ""
        written = "".join(
            f" {self._attribute(_checked_name(key), value)}"
            for key, value in attributes.items()
            if value is not None and value is not False
        )
        self._declared.append((memory, f"{name}{listed}: {_checked_type(type)}{written};"))
        return Variable(self, name)

    def _attribute(self, name: str, value: Any) -> str:
        match value:
            case True if name != "init":
                return f"@{name}"
            case str() if name == "dtype":
                return f"@{name}({ALIASES.get(value, _checked_name(value))})"
            case Mapping():
                items = [f"{_checked_name(k)}={self._value(v)}" for k, v in value.items()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                return f"@{name}({', '.join(items)})"
            case list() | tuple():
                bare = name == "auto_dim"
                items = [_checked_name(v) if bare else self._value(v) for v in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                return f"@{name}({', '.join(items)})"
            case _:
                return f"@{name}({self._value(value)})"

    def _take(self, name: str) -> None:
        if _checked_name(name) in self._names:
            raise _refused(f"the name {name} is taken", "give another one")
        self._names.add(name)

    def _fresh(self, stem: str) -> str:
        stem, number = stem.rsplit(".", 1)[-1], 1
        name = stem
        while name in self._names:
            name, number = f"{stem}_{number}", number + 1
        return name

    def _label(self) -> str:
        name = f"loop_{len(self._labels)}"
        self._labels.add(name)
        return name

    def _line(self, text: str) -> None:
        self._blocks[self._block][1].append(f"{_INDENT * self._depth}{text}")

    @contextmanager
    def _body(self, head: str) -> Generator[None]:
        self._line(f"{head} {{")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._line("}")

    def _operand(self, value: object) -> str:
        if not isinstance(value, Variable) or value.builder is not self:
            shown = "of another builder" if isinstance(value, Variable) else f"{value!r:.60}"
            raise _refused(
                f"an operand is {shown}, not a variable of this program",
                "declare it, or fill a temporary with it: g.op('fill_nan_like', …), @init",
            )
        return value.text

    def _output(self, value: Variable | str) -> Variable:
        if isinstance(value, Variable):
            self._operand(value)
            return value
        return Variable(self, value) if value in self._writable else self.assign(value)

    def _value(self, value: Any, *, bare: bool = False) -> str:
        match value:
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return float_text(value)
            case str() if bare:
                found = ALIASES.get(value, value)
                return found if found in DTYPES else _checked_name(value)
            case str():
                return string_text(value)
            case Size():
                text = str(value)
                # What begins with the sign of a name is no value.
                return f"0 - {text[1:]}" if text.startswith("-") else text
            case Variable():
                return self._operand(value)
            case list() | tuple():
                return f"[{', '.join(self._value(item, bare=bare) for item in value)}]"  # pyright: ignore[reportUnknownVariableType]
            case _ if hasattr(value, "item"):  # a number of NumPy
                return self._value(value.item())
            case _:
                raise _refused(
                    f"{value!r:.60} is no value of a setting",
                    "settings are numbers, bools, texts, dtypes, sizes, variables, lists",
                )

    def _hints(self, hints: Mapping[str, Any] | None) -> str:
        if not hints:
            return ""
        pairs = ", ".join(f"{_checked_name(k)} = {self._value(v)}" for k, v in hints.items())
        return f" with {{ {pairs} }}"


def _slot(value: Slot) -> str:
    """A place in brackets, or a bound: `2`, `l + 1`, `..n`; empty for all."""
    if isinstance(value, slice):
        if value.step is not None:
            raise _refused("a slice with a step has no text", "leave the step out")
        bounds = ["" if bound is None else _slot(bound) for bound in (value.start, value.stop)]
        return "" if bounds == ["", ""] else "..".join(bounds)
    try:
        if not isinstance(value, int | str | Size) or isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("it is none")
        return str(Size.of(value))
    except ValueError as error:
        raise _refused(f"{value!r:.60} is no size: {error}", "write a number or a name") from None


def _is_no_number(operand: Any) -> bool:
    """Whether an operand is no number of Python or NumPy."""
    scalar = getattr(operand, "shape", None) == ()
    return not isinstance(operand.item() if scalar else operand, int | float)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(f"{name!r:.60} is no name", "names are letters, digits and _")
    return name


def _checked_type(text: object) -> str:
    if not isinstance(text, str) or not _TYPE.fullmatch(text):
        raise _refused(f"{text!r:.60} is no type", 'write it as in programs: "f32[B, 64]"')
    name, bracket, dims = text.partition("[")
    name = ALIASES.get(name, name)
    if not bracket:
        return name
    # Commas in parentheses belong to `max(a, b)`.
    items = re.findall(r"(?:[^,()]|\([^()]*\))+", dims[:-1])
    return f"{name}[{', '.join(_slot(item.strip()) for item in items)}]"


def _refused(message: str, hint: str) -> InputError:
    return InputError("OI0533", message, hint=hint)
