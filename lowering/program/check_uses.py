"""Checks of uses of variables: names, sizes, reads, writes, indices, outside of cache operations."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation

from openinfer.dialects.foreign_words import NOTHING, VALUES
from openinfer.dialects.graph import RefAttr, SizeAttr, SliceAttr
from openinfer.dialects.graph.syntax import LITERAL_WORDS, OPEN
from openinfer.lowering.locations import call_notes
from openinfer.lowering.program.names import TEMPORARY, Names, Variable
from openinfer.lowering.program.places import Part, Place, Places
from openinfer.lowering.program.report import Report, did_you_mean
from openinfer.runtime.sizes import Size


class UseChecks:
    """Looks up names and checks how they are used."""

    def __init__(self, names: Names, report: Report, places: Places) -> None:
        self.names = names
        self.report = report
        self.places = places

    def error(
        self,
        code: str,
        node: Operation,
        part: Part,
        message: str,
        fix: str | None = None,
        *notes: tuple[str, Place | None],
    ) -> None:
        """A finding about a part of an op."""
        calls = [(note.message, note.location) for note in call_notes(node)]
        place = self.places.of(node, part)
        self.report.error(code, place, message, fix=fix, notes=[*notes, *calls])

    def declared(self, variable: Variable, text: str = "declared here") -> tuple[str, Place]:
        """The note that shows the declaration of a variable."""
        return text, self.places.of(variable.op, ("name",))

    def typed(self, variable: Variable, text: str = "declared here") -> tuple[str, Place]:
        """The note that shows the type that a variable is declared with."""
        return text, self.places.of(variable.op, ("type",))

    def variable(self, name: str, node: Operation, part: Part) -> Variable | None:
        """The variable of a name; reports an undefined one."""
        found = self.names.find(name)
        if found is None and name not in self.places.unreadable:
            if name in self.names.loop_indices:
                message = f"`{name}` is a loop index, not a variable"
                fix: str | None = "it may stand in brackets, dimensions and bounds"
            else:
                message = f"undefined variable `{name}`"
                fix = _advice(name, self.names)
            self.report.error_once("OI0210", name, self.places.of(node, part), message, fix=fix)
        return found

    def listed(self, names: Sequence[str], node: Operation) -> None:
        """The plain variable names that a node lists, each once."""
        seen: set[str] = set()
        for position, name in enumerate(names):
            part = ("names", position)
            variable = self.variable(name, node, part)
            if variable is not None and variable.indices:
                self.index_count(variable, node, part, 0)
            if name in seen:
                self.error("OI0246", node, part, f"`{name}` is named twice", "remove one of them")
            seen.add(name)

    def read(self, ref: RefAttr, node: Operation, part: Part) -> Variable | None:
        """A variable that a node reads."""
        variable = self.use(ref, node, part)
        if variable is not None and variable.memory == "persistent" and variable.indices:
            self.error(
                "OI0221",
                node,
                part,
                f"the entries of `{variable.name}` are read with `cache.read` only",
                f"cache.read {variable.name}[{', '.join(variable.indices)}] >> TEMPORARY;",
                self.declared(variable),
            )
        return variable

    def write(self, ref: RefAttr, node: Operation, part: Part) -> Variable | None:
        """A variable that a node writes."""
        variable = self.use(ref, node, part)
        if variable is None:
            return None
        name = variable.name
        if variable.memory in ("dynamic", "constant"):
            who = "only the caller sets it" if variable.memory == "dynamic" else "it never changes"
            self.error(
                "OI0220",
                node,
                part,
                f"cannot write to {variable.memory} `{name}`: {who}",
                "write to a volatile variable or a temporary",
                self.declared(variable),
            )
        elif variable.memory == "persistent":
            self.error(
                "OI0221",
                node,
                part,
                f"persistent `{name}` is written with `cache.*` only",
                f"cache.write VALUE >> {name};",
                self.declared(variable),
            )
        elif variable.indices and ref.indices.data:
            self.error(
                "OI0233",
                node,
                part,
                f"an entry of `{name}` cannot be an output",
                "write to a variable without indices",
                self.declared(variable),
            )
        return variable

    def use(self, ref: RefAttr, node: Operation, part: Part) -> Variable | None:
        """A variable with its indices, outside of caches."""
        variable = self.variable(ref.variable.data, node, (*part, "name"))
        table = variable is not None and variable.memory == "persistent" and bool(variable.indices)
        for position, slot in enumerate(ref.indices):
            if isinstance(slot, SliceAttr):
                if not table:
                    self.error(
                        "OI0232",
                        node,
                        (*part, position),
                        "a slice is for `cache.read` and `cache.write` only",
                        "select one entry, or use `op slice`",
                    )
                return variable
            self.index(slot, node, (*part, position))
        if variable is None or table:
            return variable
        if ref.bracketed.data and not variable.indices:
            self.no_indices(variable, node, part)
        else:
            self.index_count(variable, node, part, len(ref.indices))
        return variable

    def index(self, slot: Attribute, node: Operation, part: Part) -> None:
        """An expression that selects one entry."""
        assert isinstance(slot, SizeAttr)
        self.size(slot.data, node, part, "an index")
        value = self.known(slot.data)
        if value is not None and value < 0:
            self.error("OI0309", node, part, f"an index cannot be {value}", "indices count from 0")

    def no_indices(self, variable: Variable, node: Operation, part: Part) -> None:
        self.error(
            "OI0231",
            node,
            part,
            f"`{variable.name}` is declared without indices",
            "remove the brackets, or select a part with `op slice`",
            self.declared(variable, f"declared here, as {variable.what}"),
        )

    def index_count(self, variable: Variable, node: Operation, part: Part, count: int) -> None:
        """As many indices as the declaration has."""
        wanted = len(variable.indices)
        if count != wanted:
            self.error(
                "OI0230",
                node,
                part,
                f"`{variable.name}` has {wanted} {'index' if wanted == 1 else 'indices'}, "
                f"got {count}",
                f"write `{variable.name}[{', '.join(variable.indices)}]`",
                self.declared(variable),
            )

    # Sizes.

    def known(self, size: Size) -> int | None:
        """The value of an expression, if one is known before a run."""
        return size.substitute(self.names.sizes).constant

    def size(self, size: Size, node: Operation, part: Part, what: str) -> None:
        """The names in one expression: sizes, loop indices and integer scalars."""
        for name, place in self.places.names_in(node, part, size):
            if name == OPEN:
                self.report.error(
                    "OI0305", place, "`_` stands alone as a dimension", fix="name the size"
                )
                return
            variable = None if name in self.names.loop_indices else self.names.find(name)
            if variable is None:
                self.size_without_variable(name, place, part, what)
            elif not (variable.maybe_integer and variable.scalar):
                self.no_size(variable, place, what)

    def no_size(self, variable: Variable, place: Place, what: str) -> None:
        """A variable in a size expression that is no integer scalar."""
        note = self.typed(variable, f"declared here, as {variable.what}")
        if what == "a dimension":
            # A tensor `D` of shape [D, H] is common enough in models.
            self.report.error(
                "OI0310",
                place,
                f"`{variable.name}` here is the size of that name; the variable is no integer scalar",
                fix="give one of them another name",
                notes=[note],
                severity="warning",
            )
            return
        self.report.error(
            "OI0306",
            place,
            f"`{variable.name}` is used as {what}, so it must be an integer scalar",
            fix="declare it as an integer without dimensions, or give the size another name",
            notes=[note],
        )

    def size_without_variable(self, name: str, place: Place, part: Part, what: str) -> None:
        """A name that no variable has. Without a package it may be a size of that package."""

    def dims(self, op: Operation, sizes: Sequence[Size], *, declared: bool = False) -> None:
        """Each dimension: a size, not negative; `_` stands alone.

        In a memory section (`declared`) no temporary has a value yet.
        """
        for axis, dim in enumerate(sizes):
            part = ("dims", axis)
            if dim.single_name == OPEN:
                continue
            for name, place in self.places.names_in(op, part, dim) if declared else ():
                variable = self.names.find(name)
                if variable is None or name in self.names.loop_indices:
                    continue
                if variable.memory == TEMPORARY and variable.maybe_integer and variable.scalar:
                    self.report.error(
                        "OI0211",
                        place,
                        f"temporary `{name}` has no value where variables are declared",
                        fix="declare the size in `volatile { … }` or `persistent { … }`",
                        notes=[self.declared(variable, "it is assigned here")],
                    )
            self.size(dim, op, part, "a dimension")
            if dim.constant is not None and dim.constant < 0:
                self.error("OI0305", op, part, f"a dimension cannot be {dim}", "use 0 or more")


def is_full(slot: Attribute) -> bool:
    """Whether a slot is empty or `..`."""
    return isinstance(slot, SliceAttr) and not bounds_of(slot)


def bounds_of(slot: Attribute) -> list[Size]:
    """The expressions in a slot."""
    parts = [slot.start, slot.stop] if isinstance(slot, SliceAttr) else [slot]
    return [part.data for part in parts if isinstance(part, SizeAttr)]


def _advice(name: str, names: Names) -> str | None:
    """What to write for a name that no variable has."""
    if name in VALUES:
        return f"as an operand, write `{VALUES[name]}`"
    if name in NOTHING:
        return f"leave it out: what is optional is not given, there is no `{name}`"
    if name in LITERAL_WORDS:
        return "literals are operands of ops: `op …(x, …) >> …;`"
    return did_you_mean(name, names.all, f"declare it, or write `assign {name}: TYPE;`")
