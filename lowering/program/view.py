"""A graph module and its package, taken apart once: what checks and interpreter look up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BlockOp,
    BranchOp,
    NameAttr,
    OpOp,
    ReturnOp,
    SizeAttr,
    VariableOp,
)
from openinfer.dialects.opset import NameRef
from openinfer.lowering.program.check_sizes import impossible_sizes, merge_sizes
from openinfer.lowering.program.liveness import Flow
from openinfer.lowering.program.nodes import NodeInfo, body_of, number_nodes
from openinfer.lowering.program.size_bounds import bound_problems, size_bounds
from openinfer.lowering.program.size_definitions import (
    Quotient,
    defined_values,
    definition_problems,
    quotients,
)
from openinfer.lowering.program.sources import (
    Bindings,
    family_extents,
    family_firsts,
    family_members,
    package_name,
    pattern_of,
    solve_dims,
)
from openinfer.runtime.dtypes import ALIASES
from openinfer.runtime.errors import ProgramError
from openinfer.runtime.packages.values import ScalarValue
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.size_bounds import SizeBoundRow
from openinfer.runtime.sizes import Size
from openinfer.runtime.variables import VariableInfo

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package, TensorInfo


@dataclass
class ProgramView:
    """Names of a program and what they stand for."""

    package: Package | None
    variables: dict[str, VariableOp]
    temporaries: dict[str, AssignOp]
    """The first `assign` of each name."""
    blocks: dict[str, BlockOp]
    nodes: dict[Operation, NodeInfo]
    sizes: dict[str, int]
    """Sizes with a value before any input is given."""
    input_sizes: frozenset[str]
    """Sizes that the inputs of a step fix."""
    values: dict[str, object]
    """Metadata scalars and strings by name."""
    quotients: tuple[Quotient, ...] = ()
    """Divisions of sizes that the program defines; they come out even."""
    bounds: tuple[SizeBoundRow, ...] = ()
    """What sizes may be."""

    @staticmethod
    def of(module: ModuleOp, package: Package | None, given: Mapping[str, int]) -> ProgramView:
        """Raises InputError when a given size is impossible, contradicts the package or is named
        nowhere, ProgramError where one leads to a division by zero or a tensor beyond all memory.
        """
        variables: dict[str, VariableOp] = {}
        temporaries: dict[str, AssignOp] = {}
        blocks: dict[str, BlockOp] = {}
        for op in module.body.ops:
            if isinstance(op, VariableOp):
                variables.setdefault(op.variable.data, op)
            elif isinstance(op, BlockOp):
                blocks.setdefault(op.block_name.data, op)
        nodes = number_nodes(module)
        for op in nodes:
            if isinstance(op, AssignOp):
                temporaries.setdefault(op.variable.data, op)
        bound = Bindings.of(module)
        known = {**bound.sizes, **(package.sizes if package else {})}
        sizes = merge_sizes(module, known, given)
        _check_sizes(module, {**defined_values(module, sizes), **sizes})
        values: dict[str, object] = {n: _plain(v) for n, v in bound.values.items()}
        view = ProgramView(
            package, variables, temporaries, blocks, nodes, sizes, frozenset(), values
        )
        view._solve_from_tensors()
        view._define_sizes(module, given)
        _check_sizes(module, view.sizes)
        view.input_sizes = frozenset(
            name
            for variable in variables.values()
            if variable.memory.data == "dynamic"
            for dim in variable.sizes
            if (name := dim.single_name) is not None and name not in view.sizes and name != "_"
        )
        return view

    def _solve_from_tensors(self) -> None:
        """Sizes that follow from the shapes of tensors that declarations name."""
        for variable in self.variables.values():
            for info in self.linked_tensors(variable):
                if len(info.shape) == len(variable.sizes):
                    try:
                        solved = solve_dims(variable.sizes, info.shape, self.sizes)
                    except ZeroDivisionError:
                        continue  # Reported with its place when all sizes are known.
                    solved.pop("_", None)
                    self.sizes.update(solved)

    def _define_sizes(self, module: ModuleOp, given: Mapping[str, int]) -> None:
        """The values of the sizes that the program defines.

        Raises ProgramError OI0287 for one that has another value in the package or was given one, OI0288
        for a division with a remainder, OI0612 for a size beyond its bound.
        """
        if problems := definition_problems(module, self.sizes, given):
            raise ProgramError(problems)
        self.sizes.update(defined_values(module, self.sizes))
        self.quotients = tuple(quotients(module))
        if problems := bound_problems(module, self.sizes):
            raise ProgramError(problems)
        self.bounds = tuple(size_bounds(module).values())

    # Sources

    def linked_tensors(self, variable: VariableOp) -> list[TensorInfo]:
        """The tensors of the package that a declaration names; of a prefix table those that
        are there, row-major in its indices.

        A constant without a tensor may name an array of the metadata.
        """
        if self.package is None or variable.memory.data == "dynamic":
            return []
        tensors = self.package.tensors
        pattern = pattern_of(variable)
        if pattern is None:
            name = package_name(variable)
            if name in tensors:
                return [tensors[name]]
            array = self.package.array_info(name) if self.takes_metadata(variable) else None
            return [array] if array is not None else []
        # Not by way of all places up to the last one: the name of one tensor says how many those are.
        members = family_members(pattern, [i.data for i in variable.indices], tensors)
        return [tensors[name] for _, name in members]

    def extents(self, variable: VariableOp) -> list[int]:
        """How far each index of a prefix table reaches in the package."""
        pattern = pattern_of(variable)
        if pattern is None or self.package is None:
            return [0] * len(variable.indices)
        return family_extents(pattern, [i.data for i in variable.indices], self.package.tensors)

    def reach(self, variable: VariableOp) -> list[range]:
        """From where to where each index of a prefix table goes in the package."""
        pattern, extents = pattern_of(variable), self.extents(variable)
        if pattern is None or self.package is None:
            return [range(extent) for extent in extents]
        order = [i.data for i in variable.indices]
        firsts = family_firsts(pattern, order, self.package.tensors)
        return [range(*ends) for ends in zip(firsts, extents)]

    @staticmethod
    def takes_metadata(variable: VariableOp) -> bool:
        """Whether metadata may fill a variable: constants alone, and no prefix tables."""
        return variable.memory.data == "constant" and pattern_of(variable) is None

    def metadata(self, name: str) -> object | None:
        """A metadata entry as a plain value (bool, int, float, str, Bitset, Tensor), or None."""
        if name in self.values:
            return self.values[name]
        if self.package is None or name not in self.package.metadata:
            return None
        value = self.package.metadata[name]
        return value.value if isinstance(value, ScalarValue) else value

    # Declarations

    def declaration(self, name: str) -> VariableOp | AssignOp | None:
        return self.variables.get(name) or self.temporaries.get(name)

    def infos(self) -> list[VariableInfo]:
        """Every variable and temporary, as executors show them."""
        found = [
            VariableInfo(
                name,
                op.memory.data,
                dtype_of(op),
                op.sizes,
                tuple(i.data for i in op.indices),
                auto_indices(op),
                tuple(fixed_bounds(op).items()),
            )
            for name, op in self.variables.items()
        ]
        for name, op in self.temporaries.items():
            if name not in self.variables:
                found.append(VariableInfo(name, "temporary", dtype_of(op), op.sizes))
        return found

    # Control flow

    def consumers(self) -> dict[str, frozenset[str]]:
        """The blocks that run when what they await is yielded, in text order, with those names."""
        found: dict[str, frozenset[str]] = {}
        for name, block in self.blocks.items():
            nodes = body_of(block)
            if name != "entry" and nodes and isinstance(nodes[0], AwaitOp):
                found[name] = frozenset(nodes[0].names)
        return found

    def returned(self) -> list[str]:
        """The names that `return a, b;` of entry lists."""
        for node, info in self.nodes.items():
            if isinstance(node, ReturnOp) and info.block == "entry" and node.names:
                return list(node.names)
        return []

    def results(self) -> list[str]:
        """What `run` gives back: the returned values, else every volatile that entry writes."""
        returned = self.returned()
        if returned or "entry" not in self.blocks:
            return returned
        names = Flow(self.blocks).written(body_of(self.blocks["entry"]))
        return [n for n in names if n in self.variables and self._is_volatile(n)]

    def _is_volatile(self, name: str) -> bool:
        variable = self.variables[name]
        return variable.memory.data == "volatile" and not variable.indices.data


def _check_sizes(module: ModuleOp, sizes: Mapping[str, int]) -> None:
    problems = impossible_sizes(module, sizes)
    if problems:
        raise ProgramError(problems)


def targets_of(branch: BranchOp) -> list[str]:
    """The blocks that a branch may call."""
    names = [branch.then_block.data]
    if branch.else_block is not None:
        names.append(branch.else_block.data)
    return names


def dtype_of(op: VariableOp | AssignOp) -> str:
    """The declared dtype under its own name."""
    return ALIASES.get(op.dtype.data, op.dtype.data)


def auto_indices(variable: VariableOp) -> tuple[str, ...]:
    """The indices of `@auto_dim`, one for each dimension."""
    option = variable.option("auto_dim")
    names = option.data if isinstance(option, ArrayAttr) else ()
    return tuple(name.data for name in names if isinstance(name, StringAttr))


def fixed_bounds(variable: VariableOp) -> dict[str, int]:
    """The bounds of `@fixed`, by index."""
    option = variable.option("fixed")
    bounds = option.data if isinstance(option, DictionaryAttr) else {}
    return {n: v.value.data for n, v in bounds.items() if isinstance(v, IntegerAttr)}


def _plain(value: Attribute) -> object:
    """A metadata attribute of a bound module as a Python value."""
    match value:
        case IntegerAttr():
            number = value.value.data
            return bool(number) if str(value.type) == "i1" else number
        case FloatAttr() | StringAttr():
            return value.value.data if isinstance(value, FloatAttr) else value.data
        case ArrayAttr():
            return tuple(_plain(item) for item in value)
        case _:
            return None


def setting_value(value: Attribute) -> object:
    """A setting as written: int, float, bool, str, Size, NameRef, or a tuple of these."""
    match value:
        case NameAttr():
            return NameRef(value.data)
        case SizeAttr():
            size: Size = value.data
            return size if size.constant is None else size.constant
        case ArrayAttr():
            return tuple(setting_value(item) for item in value)
        case _:
            return _plain(value)


def written_settings(op: OpOp) -> dict[str, object]:
    """The settings of a node as written."""
    return {name: setting_value(value) for name, value in op.settings.data.items()}
