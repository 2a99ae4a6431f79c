"""Checks of declarations: names, dtype, dimensions, indices, and every attribute."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, IntegerAttr, StringAttr

from openinfer.dialects import foreign_words
from openinfer.dialects.graph import AssignOp, BlockOp, NameAttr, SizeAttr, VariableOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.program.buffer_declarations import BUFFER, is_buffer
from openinfer.lowering.program.check_nodes import NodeChecks
from openinfer.lowering.program.literals import number_of, wanted_values
from openinfer.lowering.program.names import Variable, walk
from openinfer.lowering.program.places import Part
from openinfer.lowering.program.report import did_you_mean
from openinfer.lowering.program.sources import PLACEHOLDER, stored_dtype
from openinfer.lowering.program.view import auto_indices, fixed_bounds
from openinfer.runtime.dtypes import BLOCK_DTYPES, DTYPES, PACKAGE_DTYPES, DType
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import holds_all_of

ATTRIBUTES = ("init", "ref", "pattern", "table", "auto_dim", "fixed", "dtype", "layout", "quant")
"""The attributes that mean something."""
_KEPT = ("layout", "quant", BUFFER)
_LINKS = ("init", "ref", "pattern", "dtype")
_TABLES = ("table", "auto_dim", "fixed")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


class DeclarationChecks(NodeChecks):
    """Checks of what a program declares, in memory sections and by `assign`."""

    # Names.

    def blocks_once(self, blocks: list[BlockOp]) -> None:
        for block in blocks:
            name = block.block_name.data
            first = self.names.blocks[name]
            if first is not block:
                self.error(
                    "OI0202",
                    block,
                    ("name",),
                    f"block `{name}` is defined twice",
                    "rename one of them",
                    ("first defined here", self.places.of(first, ("name",))),
                )

    def temporaries_once(self, block: BlockOp) -> None:
        """Each temporary once in a block, and with one type in all blocks."""
        own: dict[str, Variable] = {}
        for node in walk(block):
            if not isinstance(node, AssignOp):
                continue
            variable = Variable(node, self.names.sizes)
            name = variable.name
            if name in self.names.variables:
                declared = self.names.find(name)
                assert declared is not None
                self.error(
                    "OI0206",
                    node,
                    ("name",),
                    f"temporary `{name}` has the name of a declared variable",
                    "give the temporary another name, or remove the assign to use the variable",
                    self.declared(declared, f"declared here, as {declared.what}"),
                )
                continue
            first = self.names.find(name)
            if name in own:
                self.error(
                    "OI0205",
                    node,
                    ("name",),
                    f"temporary `{name}` is assigned twice in this block",
                    "remove the second assign, or rename it",
                    self.declared(own[name], "first assigned here"),
                )
            elif first is not None and not _same_type(first, variable):
                self.error(
                    "OI0205",
                    node,
                    ("name",),
                    f"temporary `{name}` has another type in another block",
                    "temporaries are visible in all blocks: rename one of them",
                    self.typed(first, "the other type is here"),
                )
            own[name] = variable

    # Types.

    def assign(self, node: AssignOp) -> None:
        self.type(Variable(node, self.names.sizes))
        super().assign(node)

    def type(self, variable: Variable) -> None:
        """The dtype is a known one, or `_` where something else says what it is."""
        op, name = variable.op, variable.op.dtype.data
        if name in BLOCK_DTYPES:
            what = f"`{name}` is a dtype of packages: nothing is computed in it"
            fix = "declare it as f32 or f16"
            if isinstance(op, VariableOp) and variable.memory != "dynamic":
                fix += f", and add `@dtype({name})`, which unpacks it when it is loaded"
            self.error("OI0315", op, ("type", "dtype"), what, fix)
        elif variable.dtype is None and name != OPEN:
            fix = dtype_advice(name)
            self.error("OI0301", op, ("type", "dtype"), f"unknown dtype `{name}`", fix)
        if not variable.open:
            return
        if variable.memory in ("dynamic", "persistent"):
            self.error(
                "OI0314",
                op,
                ("type",),
                f"a {variable.memory} variable cannot have the type `_`: nothing else says what it "
                "is",
                "write its dtype and dimensions, for example `f32[B, D]`",
            )
        elif op.sizes:
            self.error(
                "OI0314",
                op,
                ("type",),
                "the type `_` has no dimensions: they are taken over together with the dtype",
                "write `_`, or a dtype with dimensions",
            )

    # Declarations of memory sections.

    def declaration(self, op: VariableOp) -> None:
        """One declaration of a memory section."""
        variable = Variable(op, self.names.sizes)
        first = self.names.find(variable.name)
        if first is not None and first.op is not op:
            self.error(
                "OI0201",
                op,
                ("name",),
                f"variable `{variable.name}` is declared twice",
                "remove or rename one of them",
                self.declared(first, f"first declared here, as {first.what}"),
            )
        self.type(variable)
        self.dims(op, op.sizes, declared=True)
        self.indices(op)
        for name in op.options.data:
            if name != "other":
                self.attribute(name, op, variable)
        other = op.option("other")
        for name in other.data if isinstance(other, DictionaryAttr) else ():
            if name not in _KEPT:
                self.report.unknown(
                    "OI0250",
                    self.places.of(op, ("options", name)),
                    f"unknown attribute `@{name}` is kept, but means nothing here",
                    fix=did_you_mean(name, ATTRIBUTES, f"known are {', '.join(ATTRIBUTES)}"),
                )
        if op.option("ref") is not None and op.option("pattern") is not None:
            self.error(
                "OI0252",
                op,
                ("options", "pattern"),
                "@ref and @pattern exclude each other",
                "@ref names one tensor, @pattern one for each index: remove one of them",
                ("@ref stands here", self.places.of(op, ("options", "ref"))),
            )

    def indices(self, op: VariableOp) -> None:
        """The indices of a declaration: named once, and explained by an attribute."""
        seen: dict[str, int] = {}
        for position, index in enumerate(op.indices):
            if (first := seen.get(index.data)) is not None:
                self.error(
                    "OI0207",
                    op,
                    ("indices", position),
                    f"index `{index.data}` is named twice",
                    "rename one of them",
                    ("first named here", self.places.of(op, ("indices", first))),
                )
            seen[index.data] = position
        if op.indices.data and not is_buffer(op):
            self.explained(op)
        if op.memory.data == "persistent" and op.option("auto_dim") is not None:
            self.matrix(op)

    def explained(self, op: VariableOp) -> None:
        """Indices need an attribute that says what they select."""
        name, memory, options = op.variable.data, op.memory.data, op.options.data
        if memory == "dynamic":
            self.error(
                "OI0252",
                op,
                ("name",),
                f"dynamic variable `{name}` cannot have indices",
                f"give `{name}` one more dimension",
            )
        elif memory == "persistent" and not options.keys() & {"table", "auto_dim"}:
            self.error(
                "OI0252",
                op,
                ("name",),
                f"persistent `{name}` has indices, so it must say what they select",
                "add `@table` or `@auto_dim(…)`",
            )
        elif memory in ("volatile", "constant") and not options.keys() & {"pattern", "ref"}:
            indices = "".join(f".{{{index.data}}}" for index in op.indices)
            self.error(
                "OI0252",
                op,
                ("name",),
                f"`{name}` stands for several tensors of the package, but nothing says their names",
                f'add `@pattern("{name}{indices}")`',
            )

    def matrix(self, op: VariableOp) -> None:
        """Table indices first, then those of `@auto_dim`, in its order."""
        name, named = op.variable.data, auto_indices(op)
        indices = [index.data for index in op.indices]
        if not named or set(named) - set(indices) or len(set(named)) != len(named):
            return  # reported already
        rest = [index for index in indices if index not in named]
        if indices != [*rest, *named]:
            self.error(
                "OI0255",
                op,
                ("options", "auto_dim"),
                f"the indices of @auto_dim come last in `{name}({', '.join(indices)})`, in their "
                "order",
                f"write `{name}({', '.join([*rest, *named])})`",
            )
        elif rest and op.option("table") is None:
            self.error(
                "OI0255",
                op,
                ("name",),
                f"`{rest[0]}` of `{name}` is not in @auto_dim, so it selects an entry of a table",
                "add `@table`, or name the index in @auto_dim",
            )
        elif not rest and op.option("table") is not None:
            self.error(
                "OI0255",
                op,
                ("options", "table"),
                f"@auto_dim takes all indices of `{name}`, so none is left for @table",
                "remove @table, or add an index in front",
            )
        for axis, dim in enumerate(op.sizes):
            if dim.single_name == OPEN:
                self.error(
                    "OI0305",
                    op,
                    ("dims", axis),
                    "a dimension that grows needs a size to start from, found `_`",
                    "write the size, or 0",
                )

    def attribute(self, key: str, op: VariableOp, variable: Variable) -> None:
        """One attribute: where it may stand, and what it says."""
        part: Part = ("options", key)
        name, memory = variable.name, variable.memory
        if key in _TABLES and memory != "persistent":
            self.error(
                "OI0252",
                op,
                part,
                f"@{key} is for persistent memory, `{name}` is {memory}",
                "move the declaration to `persistent { … }`, or remove the attribute",
            )
        elif key in _LINKS and memory == "dynamic":
            self.error(
                "OI0252",
                op,
                part,
                f"@{key} on dynamic `{name}`, which only the caller sets",
                "remove the attribute, or declare the variable in `volatile { … }`",
            )
        elif key == "pattern" and memory == "persistent":
            self.error(
                "OI0252",
                op,
                part,
                f"@pattern on persistent `{name}`: tables start empty",
                "declare the tensors of the package in `constant { … }`",
            )
        match key:
            case "init" if variable.open:
                self.error(
                    "OI0314",
                    op,
                    part,
                    f"@init on `{name}` of type `_`, which has no dtype of its own",
                    "write its dtype and dimensions, for example `f32[B, D]`",
                )
            case "init":
                self.init(op, variable.dtype)
            case "dtype":
                self.stored(op, variable.dtype)
            case "ref" if op.indices.data:
                self.error(
                    "OI0252",
                    op,
                    part,
                    f"@ref names one tensor, but `{name}` has indices",
                    'use @pattern("….{' + variable.indices[0] + '}")',
                )
            case "pattern":
                self.pattern(op)
            case "table" if not op.indices.data:
                self.error(
                    "OI0252",
                    op,
                    part,
                    f"@table on `{name}`, which has no indices",
                    f"declare it as `{name}(i): …`",
                )
            case "auto_dim" | "fixed" if not is_buffer(op):
                self.index_arguments(key, op)
            case _:
                pass

    def index_arguments(self, key: str, op: VariableOp) -> None:
        """`@auto_dim(i, j)` and `@fixed(i=4)`."""
        named = auto_indices(op) if key == "auto_dim" else self.bounded(op)
        if not named:
            return  # reported already
        indices, seen = [index.data for index in op.indices], set[str]()
        for position, index in enumerate(named):
            if index not in indices or index in seen:
                problem = "is named twice" if index in seen else "is no index"
                self.error(
                    "OI0257",
                    op,
                    ("options", key, position),
                    f"`{index}` in @{key} {problem} of `{op.variable.data}`",
                    did_you_mean(index, set(indices) - seen, f"indices: {', '.join(indices)}"),
                )
            seen.add(index)
        if key == "auto_dim" and len(named) != len(op.sizes):
            self.error(
                "OI0257",
                op,
                ("options", key),
                f"@auto_dim names {len(named)} of the dimensions, the type has {len(op.sizes)}",
                "name one index for each dimension",
            )

    def bounded(self, op: VariableOp) -> tuple[str, ...]:
        """The indices that `@fixed` names; each bound is known when the program meets its package."""
        option = op.option("fixed")
        bounds = option.data if isinstance(option, DictionaryAttr) else {}
        known = fixed_bounds(op)
        for index, bound in bounds.items():
            part = ("options", "fixed", index)
            if isinstance(bound, SizeAttr | NameAttr):
                size = bound.data if isinstance(bound, SizeAttr) else Size.name(bound.data)
                self.size(size, op, part, "a bound of @fixed")
                if self.names.settled or any(self.names.find(name) for name in size.names):
                    message = (
                        f"the bound {size} of `{index}` in @fixed is not known before the step"
                    )
                    self.error("OI0257", op, part, message, "use a number, or a size of the model")
            elif known.get(index, 0) < 0:
                message = f"the bound of `{index}` in @fixed is {known[index]}"
                self.error("OI0257", op, part, message, "use 0 or more")
        return tuple(bounds)

    def pattern(self, op: VariableOp) -> None:
        value = op.option("pattern")
        if not isinstance(value, StringAttr) or not value.data:
            return  # reported already
        placeholders = [
            known[1] if (known := PLACEHOLDER.fullmatch(f"{{{text}}}")) else text
            for text in _PLACEHOLDER.findall(value.data)
        ]
        indices, name = [index.data for index in op.indices], op.variable.data
        if not indices:
            listed = ", ".join(dict.fromkeys(p for p in placeholders if p.isidentifier())) or "l"
            self.error(
                "OI0254",
                op,
                ("options", "pattern"),
                f"@pattern on `{name}`, which declares no index",
                f"declare it as `{name}({listed}): …`, or use @ref",
            )
            return
        written: Part = ("options", "pattern", 0)
        for placeholder in dict.fromkeys(placeholders):
            if placeholder not in indices:
                self.error(
                    "OI0254",
                    op,
                    written,
                    f"`{{{placeholder}}}` in the pattern is no index of `{name}`",
                    did_you_mean(placeholder, indices, f"its indices are {', '.join(indices)}"),
                )
        for position, index in enumerate(indices):
            if index not in placeholders:
                self.error(
                    "OI0254",
                    op,
                    ("indices", position),
                    f"index `{index}` of `{name}` does not occur in its pattern",
                    f"put `{{{index}}}` where the index stands in the tensor's name",
                    ("the pattern is here", self.places.of(op, written)),
                )

    def stored(self, op: VariableOp, dtype: DType | None) -> None:
        """`@dtype` names a dtype whose values become those of the declaration."""
        name = stored_dtype(op)
        if name is None:
            return  # reported already
        part: Part = ("options", "dtype", 0)
        if name == OPEN:
            return  # What the package holds is compared with the declaration when there is one.
        if name not in PACKAGE_DTYPES:
            self.error("OI0301", op, part, f"unknown dtype `{name}`", dtype_advice(name))
        elif dtype is not None and name in BLOCK_DTYPES and not dtype.is_float:
            self.error(
                "OI0256",
                op,
                part,
                f"{dtype} does not hold all values of {name}",
                "declare it as f32 or f16",
            )
        elif dtype is not None and not holds_all_of(dtype, PACKAGE_DTYPES[name]):
            self.error(
                "OI0256",
                op,
                part,
                f"{dtype} does not hold all values of {name}",
                f"declare it as {name}, and write `op cast({op.variable.data}, to={dtype})`",
            )

    def init(self, op: VariableOp, dtype: DType | None) -> None:
        """The literal of `@init` must be a value of the dtype."""
        value = op.option("init")
        if dtype is None or not isinstance(value, IntegerAttr | FloatAttr):
            return
        literal = number_of(value)
        kind, values = wanted_values(literal, dtype)
        if kind is not None:
            wanted, usage = kind
            self.error(
                "OI0302",
                op,
                ("options", "init", 0),
                f"@init of a variable of dtype {dtype} must be {wanted}",
                f"write `@init({usage})`, or change the dtype",
            )
        elif values is not None:
            self.error(
                "OI0303",
                op,
                ("options", "init", 0),
                f"{literal} does not fit into {dtype}",
                f"the values of {dtype} are {values}",
            )


def dtype_advice(name: str) -> str | None:
    """What to write for a dtype that is not there."""
    ours = foreign_words.DTYPES.get(name)
    if ours is not None:
        return f"it is `{ours}` here"
    return did_you_mean(name, DTYPES, f"known are {', '.join(DTYPES)}")


def _same_type(left: Variable, right: Variable) -> bool:
    return left.dtype == right.dtype and left.dims == right.dims
