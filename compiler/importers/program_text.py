"""The text of an imported program: short forms, paragraphs by module, comments if wished."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.compiler.frontend import parse_text
from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.frontend.nesting import Nested, Telling, nested_operands
from openinfer.compiler.frontend.printer import Style, print_program, statement_text
from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CacheReadOp,
    CallOp,
    LoopOp,
    OpOp,
    PackageSizeOp,
    ReturnOp,
    ScopeOp,
    TransferOp,
    VariableOp,
)
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.name_values import give_names, scopes
from openinfer.lowering.graph.imports.names_of import read_names, taken_names, written_names
from openinfer.lowering.graph.imports.provenance import provenance_of
from openinfer.lowering.graph.infer_types import with_types
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.sizes import Size, SizeLike

_WEIGHTS = ("_w", "_b", "_weight", "_bias")
_NUMBER = re.compile(r"(_?\d+)+$")
_FEWEST = 2
"""A module with fewer statements stands in the paragraph of another."""


def program_text(
    module: ModuleOp,
    package: Package | None = None,
    *,
    comments: bool = False,
    title: str = "",
) -> str:
    """The text of a module whose ops know where they come from, in the layout of `openinfer fmt`. The package
    says the shapes that the module leaves open."""
    implied = _implied(module)
    while True:
        style = Style(short=True, implied=implied)
        wrong = _other_types(module, print_program(module, style), implied, package)
        if not wrong:
            break
        implied -= wrong
    module, style = _with_operands(module, Style(short=True, implied=implied), package)
    layout = _Paragraphs(comments, style)
    for block in module.body.ops:
        if isinstance(block, BlockOp):
            layout.read(list(block.body.block.ops))
    layout.declarations([op for op in module.body.ops if isinstance(op, VariableOp)])
    text = print_program(module, replace(style, above=layout.placed().get))
    head = "".join(f"// {line}\n" for line in title.splitlines())
    return formatted(f"{head}\n{text}" if head else text, "imported")


# Ops that are operands


def _with_operands(
    module: ModuleOp, plain: Style, package: Package | None
) -> tuple[ModuleOp, Style]:
    """A copy of the module, and its style with the ops that a person would write as operands; both as they
    are where nothing can be proven equal. What stays has the names that the others leave free."""
    read = {
        op.target.variable.data
        for op in module.walk()
        if isinstance(op, CacheReadOp) and not op.target.bracketed.data
    }
    before = print_program(module, plain)
    # Entries of a table that are read where they stand have a length that no declaration says.
    for own in dict.fromkeys([frozenset(plain.implied) | read, frozenset(plain.implied)]):
        changed, style = _nested(module, plain, own)
        text = print_program(changed, style) if style.nested else ""
        if style.nested and _reads_the_same(module, before, text, package):
            return changed, style
    return module, plain


def _nested(module: ModuleOp, plain: Style, own: frozenset[str]) -> tuple[ModuleOp, Style]:
    """A copy of the module where the temporaries in `own` may become operands, and its style."""
    changed = module.clone()
    nested = nested_operands(changed, own, *_taste(changed, plain))
    inside = {one for inner in nested.values() for one in inner.values()}
    hidden: dict[str, set[str]] = {}
    for scope, blocks in scopes(changed).items():
        ops = [op for block in blocks for op in block.walk()]
        shown = {
            name
            for op in ops
            if op not in inside and not op.regions and not isinstance(op, AssignOp)
            for name in written_names(op)
        }
        hidden[scope] = {n for op in ops if op in inside for n in written_names(op)} - shown
    names = give_names(changed, hidden)
    implied = {names.get(name, name) for name in hidden[""] | set(plain.implied)}
    return changed, Style(short=True, implied=implied, nested=nested)


def _taste(module: ModuleOp, style: Style) -> tuple[Telling, Callable[[Operation, Nested], int]]:
    """Which names tell a reader something, and how long lines are. A name tells nothing where it says no more
    than the op, its weights, or a number behind another name."""
    constants = {
        op.variable.data
        for op in module.body.ops
        if isinstance(op, VariableOp) and op.memory.data == "constant"
    }

    names = taken_names(module)

    def telling(op: OpOp | CacheReadOp, reader: Operation) -> bool:
        (result,) = op.writes()
        name = result.variable.data
        words = op.op_name.data.removesuffix("_axis") if isinstance(op, OpOp) else ""
        operands = {ref.variable.data for ref in op.reads()}
        weights = {f"{name}{ending}" for ending in _WEIGHTS} & constants & operands
        bare = _NUMBER.sub("", name)
        others = {_NUMBER.sub("", one) for one in written_names(reader)}
        numbered = (bare != name and bare in names) or bare in others
        return not (isinstance(op, CacheReadOp) or weights or bare == words or numbered)

    def length(op: Operation, nested: Nested) -> int:
        depth, parent = 0, op.parent_op()
        while parent is not None and not isinstance(parent, ModuleOp):
            depth, parent = depth + 1, parent.parent_op()
        return 4 * depth + len(statement_text(op, replace(style, nested=nested)))

    return telling, length


def _reads_the_same(module: ModuleOp, first: str, second: str, package: Package | None) -> bool:
    """Whether two texts with the sizes of a module mean the same."""
    sizes = [op for op in module.body.ops if isinstance(op, PackageSizeOp)]
    known = {op.size.data: op.value.data.constant or 0 for op in sizes}
    read: list[ModuleOp] = []
    for text in (first, second):
        parsed = parse_text(text).module
        if parsed is None:
            return False
        try:
            parsed = with_types(parsed, package, known)
        except ProgramError:
            return False
        if parsed.body.block.first_op is not None:
            new = [op.clone() for op in sizes]
            parsed.body.block.insert_ops_before(new, parsed.body.block.first_op)
        read.append(parsed)
    return same_program(read[0], read[1])


def reads_as(module: ModuleOp, text: str, package: Package) -> bool:
    """Whether a text means what a module does that has no names yet."""
    parsed = parse_text(text).module
    if parsed is None:
        return False
    try:
        parsed = with_types(parsed, package, package.sizes)
    except ProgramError:
        return False
    if parsed.body.block.first_op is not None:
        sizes = [PackageSizeOp(name, value) for name, value in package.sizes.items()]
        parsed.body.block.insert_ops_before(sizes, parsed.body.block.first_op)
    return same_program(module, parsed)


# Types that go without saying


def _implied(module: ModuleOp) -> set[str]:
    """Temporaries that are written by an op before anything else is done with them."""
    seen: set[str] = set()
    found: set[str] = set()
    for block in scopes(module)[""]:
        for op in block.walk():
            if op.regions or isinstance(op, AssignOp):
                continue
            if isinstance(op, OpOp | CacheReadOp | CallOp):
                written = {ref.variable.data for ref in op.writes() if not ref.bracketed.data}
                if not written & (read_names(op) | seen):
                    found |= written
                seen |= written
            seen |= read_names(op) | written_names(op)
    assigned = [op for op in module.walk() if isinstance(op, AssignOp)]
    return found & {op.variable.data for op in assigned}


def _other_types(
    module: ModuleOp, text: str, implied: Collection[str], package: Package | None
) -> set[str]:
    """Implied temporaries that get another type than they have; all where the text is refused."""
    parsed = parse_text(text).module
    if parsed is None:
        return set(implied)
    sizes = {
        op.size.data: op.value.data.constant or 0
        for op in module.body.ops
        if isinstance(op, PackageSizeOp)
    }
    try:
        parsed = with_types(parsed, package, sizes)
    except ProgramError:
        return set(implied)
    ours, theirs = _types(module, sizes), _types(parsed, sizes)
    return {name for name in implied if ours[name] != theirs.get(name)}


def _types(
    module: ModuleOp, sizes: Mapping[str, SizeLike]
) -> dict[str, tuple[str, tuple[Size, ...]]]:
    return {
        op.variable.data: (op.dtype.data, tuple(dim.substitute(sizes) for dim in op.sizes))
        for op in module.walk()
        if isinstance(op, AssignOp)
    }


# Paragraphs and comments


@dataclass
class _Paragraphs:
    comments: bool
    style: Style
    lines: dict[Operation, list[str]] = field(default_factory=dict[Operation, list[str]])

    def placed(self) -> dict[Operation, list[str]]:
        """The lines above statements, above the declarations of what these write where there are any."""
        found: dict[Operation, list[str]] = {}
        for op, lines in self.lines.items():
            first = above = op
            while isinstance(above.prev_op, AssignOp):
                above = above.prev_op
                first = first if above.variable.data in self.style.implied else above
            found[first] = lines
        return found

    def declarations(self, ops: Sequence[VariableOp]) -> None:
        """An empty line between single tensors and the families of a loop."""
        before: VariableOp | None = None
        for op in ops:
            same = before is not None and before.memory == op.memory
            if same and before is not None and _table(op) != _table(before):
                self.lines[op] = [""]
            before = op

    def read(self, ops: Sequence[Operation], prefix: str = "") -> None:
        """Paragraphs of a body: what one part of the module at `prefix` does; bodies of loops in it, too."""
        inside = {one for inner in self.style.nested.values() for one in inner.values()}
        shown = [op for op in ops if not isinstance(op, AssignOp | VariableOp) and op not in inside]
        common = prefix or _common_prefix([provenance_of(op).module for op in shown])
        groups = _joined([_group(provenance_of(op).module, common) for op in shown], shown)
        said = ""
        for place, (op, group) in enumerate(zip(shown, groups)):
            lines: list[str] = []
            previous = shown[place - 1] if place else None
            if previous is not None and (
                group != groups[place - 1]
                or isinstance(op, LoopOp | ScopeOp)
                or isinstance(previous, LoopOp | ScopeOp)
            ):
                if not isinstance(op, ReturnOp):
                    lines.append("")
            if self.comments and isinstance(op, OpOp | LoopOp | TransferOp | CallOp):
                for comment in dict.fromkeys(map(_comment, self._parts(op))):
                    if comment and comment != said:
                        lines.append(f"// {comment}")
                        said = comment
            if lines:
                self.lines[op] = lines
            if isinstance(op, LoopOp | ScopeOp):
                inner = list(op.body.block.ops)
                self.read(inner, _loop_prefix(inner))

    def _parts(self, op: Operation) -> list[Operation]:
        """What a line says, in the order in which it is computed."""
        inner = self.style.nested.get(op, {})
        return [*(part for place in sorted(inner) for part in self._parts(inner[place])), op]


def _table(op: VariableOp) -> bool:
    return bool(op.indices.data)


def _loop_prefix(ops: Sequence[Operation]) -> str:
    """The path of the layer that a loop is made of: `encoder.layer.{l}`."""
    paths = [provenance_of(op).module for op in ops]
    for path in paths:
        head, mark, _ = path.partition("{l}")
        if mark:
            return f"{head}{mark}"
    return ""


def _common_prefix(paths: Sequence[str]) -> str:
    """The module that all others lie in."""
    split = [path.split(".") for path in paths if path]
    if not split:
        return ""
    common: list[str] = []
    for column in zip(*split):
        if len(set(column)) > 1:
            break
        common.append(column[0])
    return ".".join(common)


def _group(path: str, prefix: str) -> str:
    """The part of the module at `prefix` that a path leads to; nothing for that module itself."""
    if not path or path == prefix:
        return ""
    rest = path.removeprefix(f"{prefix}.") if prefix else path
    return rest.partition(".")[0]


def _joined(groups: Sequence[str], ops: Sequence[Operation]) -> list[str]:
    """Groups where single statements stand with what is behind them, and what has no module with what is
    before it."""
    runs: list[tuple[str, int, bool]] = []
    start = 0
    while start < len(groups):
        stop = start + 1
        whole = isinstance(ops[start], LoopOp | ScopeOp)
        while not whole and stop < len(groups) and groups[stop] in (groups[start], ""):
            if isinstance(ops[stop], LoopOp | ScopeOp):
                break
            stop += 1
        runs.append((groups[start], stop - start, whole))
        start = stop
    found: list[str] = []
    for place, (name, count, whole) in enumerate(runs):
        following = runs[place + 1] if place + 1 < len(runs) else None
        if count < _FEWEST and not whole:
            if following is not None and not following[2] and following[1] >= _FEWEST:
                name = following[0]
            elif found and not runs[place - 1][2]:
                name = found[-1]
        found += [name] * count
    return found


def _comment(op: Operation) -> str:
    """Where a statement comes from: path of its module, and the source line."""
    provenance = provenance_of(op)
    parts: list[str] = []
    if provenance.module:
        parts.append(provenance.module)
    if provenance.kind:
        parts.append(f"({provenance.kind})")
    if provenance.file and not isinstance(op, LoopOp):
        file = provenance.file.replace("\\", "/").rpartition("/")[2]
        parts.append(f"{file}:{provenance.line}")
    return " ".join(parts)
