"""Fills in the types that a program leaves open: `_` of declarations and temporaries, buffers.

A declaration of type `_` takes dtype and shape from the package, a temporary from the op or the
variable whose value it gets first. It is run twice: when a program was read, without a package, and
when one is bound to it; what is still open then is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    BlockOp,
    CacheReadOp,
    CacheWriteOp,
    LoopOp,
    OpOp,
    RefAttr,
    SizeAttr,
    SliceAttr,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import OPEN
from openinfer.dialects.opset import (
    SIZE_KINDS,
    NameRef,
    OpError,
    OpSpec,
    TensorSpec,
    find,
    infer_outputs,
)
from openinfer.lowering.graph.package_types import in_blocks, missing, type_in
from openinfer.lowering.locations import call_notes, location_of
from openinfer.lowering.program.buffer_declarations import (
    BUFFER,
    Entry,
    entry_of,
    is_buffer,
    usual_entry,
    valued,
)
from openinfer.lowering.program.call_names import around
from openinfer.lowering.program.literals import operand_dtypes
from openinfer.lowering.program.metadata_settings import with_metadata
from openinfer.lowering.program.size_definitions import (
    TooLargeError,
    definition_problems,
    definitions,
    expressions,
    has_definitions,
    put_definitions_in,
    put_in,
)
from openinfer.lowering.program.view import ProgramView, dtype_of, written_settings
from openinfer.runtime.dtypes import BLOCK_DTYPES
from openinfer.runtime.errors import Diagnostic, Note, ProgramError
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.sizes import Size

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


_NUMBERS = ("int", "float", "number", "bool")
"""Kinds of settings whose value may decide what an op gives."""


def has_open_types(module: ModuleOp) -> bool:
    """Whether anything is left to fill in."""
    return any(
        isinstance(op, AssignOp | VariableOp)
        and (_is_open(op) or is_buffer(op) or _has_open_shape(op))
        for op in module.walk()
    )


def infer_types(module: ModuleOp) -> None:
    """Fills in what the program itself decides. Changes the module; never fails."""
    if has_open_types(module):
        _Inference(module, None, {}, final=False).run()


def with_types(
    module: ModuleOp, package: Package | None, sizes: Mapping[str, int], *, in_place: bool = False
) -> ModuleOp:
    """The module with all types filled in, and with what it defines as sizes put in where it is named:
    itself when nothing was open, else a changed copy.

    `sizes` are those that the caller gave. Raises ProgramError for a type that follows neither from
    the program nor from the package.
    """
    defines = has_definitions(module)
    if not defines and not has_open_types(module):
        return module
    closed = module if in_place else module.clone()
    if defines:
        held = package.sizes if package else {}
        put_definitions_in(closed, {**held, **sizes})
        if problems := definition_problems(closed, held, sizes):
            raise ProgramError(problems)
    problems = _Inference(closed, package, sizes, final=True).run()
    if problems:
        raise ProgramError(problems)
    return closed


def _is_open(op: AssignOp | VariableOp) -> bool:
    return op.dtype.data == OPEN


def _has_open_shape(op: AssignOp | VariableOp) -> bool:
    """Whether the package, or the caller, may say a dimension that a declaration leaves open."""
    return (
        isinstance(op, VariableOp)
        and op.memory.data != "persistent"
        and any(dim.single_name == OPEN for dim in op.sizes)
    )


@dataclass
class _Inference:
    module: ModuleOp
    package: Package | None
    given: Mapping[str, int]
    final: bool
    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    refused: dict[str, tuple[OpOp, OpError]] = field(
        default_factory=dict[str, tuple[OpOp, OpError]]
    )
    """Why the op that gives a temporary its type was refused."""
    changed: bool = False

    def run(self) -> list[Diagnostic]:
        """Fills in all that follows; in the end says what does not."""
        self.sizes = {**(self.package.sizes if self.package else {}), **self.given}
        self.values = {name: Size.of(value) for name, value in self.sizes.items()}
        self.solved = not self.final
        """Whether `values` has the sizes that follow from tensors of the package."""
        if not self.final:
            self.values = expressions(definitions(self.module))
        blocks = [op for op in self.module.body.ops if isinstance(op, BlockOp)]
        blocks.sort(key=lambda block: block.block_name.data != "entry")
        self.nodes = [node for block in blocks for node in block.walk()]
        self.variables = {
            op.variable.data: op for op in self.module.body.ops if isinstance(op, VariableOp)
        }
        self.temporaries: dict[str, list[AssignOp]] = {}
        for node in self.nodes:
            if isinstance(node, AssignOp):
                self.temporaries.setdefault(node.variable.data, []).append(node)
        self.entries: dict[str, Entry] = {}
        """The dimensions of the entries of a buffer, and the size that counts its slots."""
        if self.final:
            for variable in self.variables.values():
                self.declaration(variable)
        self.settle()
        for variable in self.variables.values():
            # What no write decides is decided by the usual order of dimensions.
            if is_buffer(variable) and variable.variable.data not in self.entries:
                if self.final or not (self.waits() or self.refused):
                    self.entries[variable.variable.data] = usual_entry(variable.sizes)
                    self.settle()
        self.finish_buffers()
        if self.final:
            self.report()
        return self.problems

    def waits(self) -> bool:
        """Whether the package may still decide something."""
        return any(_is_open(variable) for variable in self.variables.values())

    def settle(self) -> None:
        """One look at every node after the other, until nothing new follows."""
        self.changed = True
        while self.changed:
            self.changed = False
            for node in self.nodes:
                self.node(node)

    # Declarations.

    def declaration(self, variable: VariableOp) -> None:
        """A declaration whose type the package says, or whose shape the caller does."""
        if variable.memory.data == "dynamic":
            # A size of its own, which no program can name.
            name = variable.variable.data
            variable.properties["dims"] = _dims(
                [
                    Size.name(f"{name}.{axis}") if dim.single_name == OPEN else dim
                    for axis, dim in enumerate(variable.sizes)
                ]
            )
            return
        if not _is_open(variable):
            if _has_open_shape(variable):
                found = type_in(self.package, variable, self.sizes)
                if found is not None and found.rank == len(variable.sizes):
                    dims = zip(variable.sizes, found.dims)
                    variable.properties["dims"] = _dims(
                        [have if own.single_name == OPEN else own for own, have in dims]
                    )
            return
        found = type_in(self.package, variable, self.sizes)
        if found is None:
            self.problems.append(missing(self.package, variable))
            return
        if found.dtype in BLOCK_DTYPES:
            self.problems.append(in_blocks(variable, found.dtype))
            return
        variable.properties["dtype"] = StringAttr(found.dtype)
        variable.properties["dims"] = _dims(found.dims)

    # Nodes.

    def node(self, node: Operation) -> None:
        match node:
            case OpOp():
                if any(self.is_open(ref) for ref in node.outputs):
                    self.op(node)
            case TransferOp():
                if self.is_open(node.target):
                    self.learn(node.target, self.type_of(node.source))
            case CacheReadOp():
                self.buffer(node.source, node.target)
                if self.is_open(node.target):
                    self.learn(node.target, self.value_of(node.source))
            case CacheWriteOp():
                self.buffer(node.target, node.source)
            case _:
                pass

    def is_open(self, ref: RefAttr) -> bool:
        assigned = self.temporaries.get(ref.variable.data)
        return assigned is not None and _is_open(assigned[0])

    def learn(self, ref: RefAttr, found: TensorSpec | None) -> None:
        """The type of a temporary, for all of its assigns."""
        if found is None:
            return
        # What follows from an open dimension is open.
        open_ = Size.name(OPEN)
        found = replace(found, dims=tuple(open_ if OPEN in d.names else d for d in found.dims))
        for op in self.temporaries[ref.variable.data]:
            if _is_open(op):
                op.properties["dtype"] = StringAttr(found.dtype)
                op.properties["dims"] = _dims(found.dims)
        self.changed = True

    def type_of(self, ref: RefAttr) -> TensorSpec | None:
        """The type of a plain use, of a member of a family too; None when it is still open."""
        name = ref.variable.data
        op = self.variables.get(name) or next(iter(self.temporaries.get(name, ())), None)
        if op is None or _is_open(op) or (isinstance(op, VariableOp) and op.option("table")):
            return None
        return TensorSpec(dtype_of(op), op.sizes, ref.text)

    def op(self, node: OpOp) -> None:
        """The outputs of an op whose operands all have a type."""
        try:
            found = self.results(node)
        except OpError as error:
            for ref in node.outputs:
                self.refused[ref.variable.data] = (node, error)
            return
        for ref, type_ in zip(node.outputs, found):
            if self.is_open(ref):
                self.learn(ref, type_)

    def results(self, node: OpOp) -> Sequence[TensorSpec]:
        """What an op gives; nothing while an operand is open. Raises OpError."""
        spec = find(node.op_name.data)
        known = self.operands(node, spec) if spec is not None else None
        if spec is None or known is None:
            return ()
        settings = self.settings(node, spec)
        try:
            return infer_outputs(spec, known, settings, len(node.outputs))
        except OpError as first:
            # Sizes with other names may have one value.
            self.solve()
            exact = [replace(o, dims=tuple(self.valued(d) for d in o.dims)) for o in known]
            settings = {name: self.setting(spec, name, value) for name, value in settings.items()}
            try:
                return infer_outputs(spec, exact, settings, len(node.outputs))
            except OpError:
                raise first from None

    def solve(self) -> None:
        """The sizes that follow from the shapes of tensors, found when they are first needed."""
        if not self.solved:
            self.solved = True
            view = ProgramView.of(self.module, self.package, self.given)
            self.values = {name: Size.of(value) for name, value in view.sizes.items()}

    def valued(self, size: Size) -> Size:
        """A size with what is known of its names."""
        try:
            return put_in(size, self.values)
        except (TooLargeError, ZeroDivisionError):
            return size  # An error elsewhere.

    def setting(self, spec: OpSpec, name: str, value: object) -> object:
        """A setting with what is known of the sizes in it."""
        if isinstance(value, tuple):
            return tuple(self.setting(spec, name, item) for item in value)
        if isinstance(value, Size):
            return self.valued(value)
        row = spec.setting(name)
        if isinstance(value, NameRef) and row is not None and row.kind in SIZE_KINDS:
            return self.valued(Size.name(value.name)) if value.name in self.values else value
        return value

    def operands(self, node: OpOp, spec: OpSpec) -> list[TensorSpec] | None:
        """The types of the operands; None when one is still open, or a literal has none."""
        found: dict[RefAttr, TensorSpec] = {}
        for ref in node.reads():
            type_ = self.type_of(ref)
            if type_ is None:
                return None
            found[ref] = type_
        try:
            dtypes = operand_dtypes(spec, node.inputs.data, lambda ref: found[ref].dtype)
        except OpError:
            return None
        return [
            found[operand] if isinstance(operand, RefAttr) else TensorSpec(dtype, (), operand.text)
            for operand, dtype in zip(node.inputs, dtypes)
        ]

    def settings(self, node: OpOp, spec: OpSpec) -> dict[str, object]:
        """The settings with what the package says instead of names, sizes of shapes excepted."""
        found = with_metadata(spec, written_settings(node), self.metadata)
        for name, value in found.items():
            setting = spec.setting(name)
            if isinstance(value, NameRef) and setting is not None and setting.kind in _NUMBERS:
                found[name] = self.number(node, value)
        return found

    def number(self, node: OpOp, value: NameRef) -> object:
        """The size or the metadata entry that a setting names; the name where it is none."""
        loops = {outer.index.data for outer in around(node) if isinstance(outer, LoopOp)}
        if value.name in loops or value.name in self.variables or value.name in self.temporaries:
            return value
        known = self.sizes.get(value.name, self.metadata(value.name))
        return known if isinstance(known, int | float) else value

    def metadata(self, name: str) -> object:
        """A metadata entry, unless the program has a variable or size of that name."""
        if self.package is None or name in self.sizes:
            return None
        if name in self.variables or name in self.temporaries:
            return None
        value = self.package.metadata.get(name)
        return value.value if isinstance(value, ScalarValue) else value

    # Caches.

    def value_of(self, ref: RefAttr) -> TensorSpec | None:
        """The type of what a cache access reads; extents that only a step knows are `_`."""
        variable = self.variables.get(ref.variable.data)
        if variable is None:
            return None
        name, dims = ref.variable.data, variable.sizes
        if is_buffer(variable):
            if name not in self.entries:
                return None
            dims = self.entries[name][0]
        auto = variable.option("auto_dim")
        grown = len(auto.data) if isinstance(auto, ArrayAttr) else 0
        count = len(variable.indices) - grown
        slots = list(ref.indices)
        lengths = [self.length_of(slot) for slot in slots[:count] if isinstance(slot, SliceAttr)]
        lengths += [Size.name(OPEN)] * max(0, count - len(slots))
        if grown:
            parts = slots[count:]
            singles = sum(isinstance(slot, SizeAttr) for slot in parts)
            kept = grown if singles == grown else grown - singles
            dims = (Size.name(OPEN),) * kept
        return TensorSpec(dtype_of(variable), (*lengths, *dims))

    def length_of(self, slot: SliceAttr) -> Size:
        """How many entries a slice has: known where both ends are numbers or sizes, else `_`."""
        start, stop = slot.start, slot.stop
        if not isinstance(start, SizeAttr) or not isinstance(stop, SizeAttr):
            return Size.name(OPEN)
        indices = {node.index.data for node in self.nodes if isinstance(node, LoopOp)}
        late = self.variables.keys() | self.temporaries.keys() | indices
        known = start.data.nonnegative and stop.data.nonnegative  # Others may count from the end.
        known = known and not (start.data.names | stop.data.names) & late
        return stop.data - start.data if known else Size.name(OPEN)

    def buffer(self, cache: RefAttr, other: RefAttr) -> None:
        """What goes into or comes out of a slot decides what the entries of a buffer are."""
        name = cache.variable.data
        variable = self.variables.get(name)
        if variable is None or not is_buffer(variable) or name in self.entries:
            return
        value = self.type_of(other)
        if (
            value is None
            or len(cache.indices) != 1
            or not isinstance(cache.indices.data[0], SizeAttr)
        ):
            return
        values = self.sizes if self.final else {}
        entry = entry_of(variable.sizes, value.dims, values)
        if entry is not None:
            self.entries[name] = entry
            self.changed = True

    def finish_buffers(self) -> None:
        """Buffers become tables. One whose bound is a name waits for the value of that name."""
        for name, (dims, bound) in self.entries.items():
            variable = self.variables[name]
            limit = valued(bound, self.sizes).constant if bound is not None else None
            if bound is not None and limit is None and not self.final:
                continue
            options = dict(variable.options.data)
            other = options.pop("other")
            assert isinstance(other, DictionaryAttr)
            kept = {key: value for key, value in other.data.items() if key != BUFFER}
            options["table"] = UnitAttr()
            if limit is not None:
                index = variable.indices.data[0].data
                options["fixed"] = DictionaryAttr({index: IntegerAttr(limit, i64)})
            if kept:
                options["other"] = DictionaryAttr(kept)
            if bound is not None and bound.names:
                # The name of the bound still stands in the program, for sizes that are given.
                variable.attributes["slots"] = SizeAttr(bound)
            variable.properties["options"] = DictionaryAttr(options)
            variable.properties["dims"] = _dims(dims)

    # What is left.

    def other_shapes(self, node: OpOp) -> tuple[Note, ...]:
        """Where a name that the node reads is given another shape than the one that it keeps."""
        names = {ref.variable.data for ref in node.reads()} & self.temporaries.keys()
        notes: list[Note] = []
        for writer in self.nodes:
            if not isinstance(writer, OpOp) or names.isdisjoint(
                ref.variable.data for ref in writer.outputs
            ):
                continue
            try:
                found = self.results(writer)
            except OpError:
                continue  # An error of its own.
            for ref, gives in zip(writer.outputs, found):
                own = self.type_of(ref) if ref.variable.data in names else None
                if own is not None and self.differ(own, gives):
                    name = writer.op_name.data
                    text = (
                        f"{name} gives {gives} here, but {ref.text} stays {own}: take another name"
                    )
                    notes.append(Note(text, location_of(writer)))
        return tuple(notes)

    def differ(self, one: TensorSpec, other: TensorSpec) -> bool:
        """Whether two shapes are of different ranks, or have different numbers on an axis."""
        if len(one.dims) != len(other.dims):
            return True
        pairs = [
            (self.valued(a).constant, self.valued(b).constant) for a, b in zip(one.dims, other.dims)
        ]
        return any(a != b for a, b in pairs if a is not None and b is not None)

    def report(self) -> None:
        """The temporaries that are still open; those behind an error say nothing of their own."""
        behind = bool(self.problems)
        for name, assigned in self.temporaries.items():
            if not _is_open(assigned[0]):
                continue
            if name in self.refused:
                node, error = self.refused[name]
                message = f"the type of `{name}` cannot be inferred: {error.message}"
                self.problems.append(
                    Diagnostic(
                        "OI0329",
                        message,
                        location_of(node),
                        notes=(*self.other_shapes(node), *call_notes(node)),
                        hint=error.hint,
                    )
                )
                behind = True
        if behind:
            return
        for name, assigned in self.temporaries.items():
            if _is_open(assigned[0]):
                self.problems.append(
                    Diagnostic(
                        "OI0329",
                        f"the type of `{name}` does not follow from what is written to it",
                        location_of(assigned[0]),
                        hint=f"write `assign {name}: TYPE;` before it",
                    )
                )


def _dims(dims: Sequence[Size]) -> ArrayAttr[SizeAttr]:
    return ArrayAttr([SizeAttr(dim) for dim in dims])
