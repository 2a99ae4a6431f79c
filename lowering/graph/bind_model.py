"""Binds a program to its package: sizes, tensors and metadata that it names become IR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    LoopOp,
    NameAttr,
    OpOp,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.lowering.graph.sources import (
    family_extents,
    member_name,
    package_name,
    pattern_of,
    solve_dims,
)
from openinfer.lowering.locations import location_of
from openinfer.lowering.options import current
from openinfer.runtime.dtypes import ALIASES, DTYPES
from openinfer.runtime.errors import Diagnostic, InputError, ProgramError
from openinfer.runtime.sizes import Size
from openinfer.runtime.target import named_target

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package, TensorInfo


@dataclass(frozen=True)
class BindModel(ModulePass):
    """Records what the program may know of its package, so that no later pass opens it.

    Before:
        graph.variable W(l) constant f32 [D, D] {pattern = "W.{l}"}
    After:
        graph.package_size "D" = 4
        graph.package_tensor "W.0" f32 [4, 4]
        graph.variable W(l) constant f32 [D, D] {pattern = "W.{l}"}

    Requires: a checked graph module.
    Leaves: every tensor of the package that a declaration names stands in the module, with the
        declaration's dtype and shape; every size that the package or the caller fixes, too.
    """

    name: ClassVar[str] = "bind-model"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(o, PackageSizeOp | PackageTensorOp) for o in op.body.ops):
            return  # Bound already: a dump that is resumed.
        options = current()
        op.attributes["openinfer.target"] = StringAttr(target_kind(options.target_name))
        _Binder(op, options.package, dict(options.sizes)).bind()


def target_kind(name: str) -> str:
    """The kind of a target name: that of this machine for "host"."""
    if name != "host":
        return named_target(name).name
    from openinfer.runtime.devices.cpu_codegen import host_target

    return host_target().name


class _Binder:
    def __init__(self, module: ModuleOp, package: Package | None, given: dict[str, int]) -> None:
        self.module = module
        self.package = package
        self.given = given
        self.variables = [op for op in module.body.ops if isinstance(op, VariableOp)]
        self.problems: list[Diagnostic] = []
        self.sizes: dict[str, int] = {}
        self.tensors: dict[str, TensorInfo] = {}

    def bind(self) -> None:
        self._take_sizes()
        if self.package is None:
            self._check_no_model()
        linked = list(self._links())
        for variable, info in linked:
            solved = solve_dims(variable.sizes, info.shape, self.sizes)
            self.sizes.update(solved)
        for variable, info in linked:
            self._check(variable, info)
        if self.problems:
            raise ProgramError(self.problems)
        self._insert()

    def _check_no_model(self) -> None:
        """Without a package one message is enough for all tensors that the program names."""
        wanted = [
            v for v in self.variables if v.option("ref") is not None or pattern_of(v) is not None
        ]
        if not wanted:
            return
        names = ", ".join(pattern_of(v) or package_name(v) for v in wanted[:3])
        more = f" and {len(wanted) - 3} more" if len(wanted) > 3 else ""
        self._report(
            wanted[0],
            "OI0326",
            f"the program names tensors of a model ({names}{more}), but no model was given",
            "give one: `--model FILE`, or open_model(FILE) from Python",
        )
        raise ProgramError(self.problems)

    def _take_sizes(self) -> None:
        package = self.package.sizes if self.package is not None else {}
        for name, value in self.given.items():
            if name in package and package[name] != value:
                raise InputError(
                    "OI0520",
                    f"size {name} is {package[name]} in the model but {value} was given",
                    hint=f"leave {name} out of the sizes, or use another model",
                )
            if value < 0:
                raise InputError("OI0521", f"size {name} = {value} is negative")
        known = {**package, **self.given}
        used = self._used_names()
        self.sizes = {name: known[name] for name in sorted(known) if name in used}

    def _used_names(self) -> set[str]:
        used: set[str] = set(self.given)
        for op in self.module.walk():
            if isinstance(op, VariableOp | AssignOp):
                for dim in op.sizes:
                    used |= dim.names
            if isinstance(op, LoopOp):
                used |= op.start.data.names | op.stop.data.names
            if isinstance(op, OpOp):
                for value in op.settings.data.values():
                    used |= set(_names(value))
            if isinstance(op, GraphOp):
                for ref in (*op.reads(), *op.writes()):
                    for index in ref.indices:
                        used |= set(_names(index))
        return used

    def _links(self) -> Iterator[tuple[VariableOp, TensorInfo]]:
        """Each variable with every tensor of the package that it names."""
        tensors = self.package.tensors if self.package is not None else {}
        for variable in self.variables:
            if variable.memory.data == "dynamic":
                continue
            pattern = pattern_of(variable)
            if pattern is not None:
                yield from self._family(variable, pattern, tensors)
                continue
            name = package_name(variable)
            if name in tensors:
                self.tensors[name] = tensors[name]
                yield variable, tensors[name]
            elif variable.option("ref") is not None and not self._has_value(name):
                self._report(
                    variable,
                    "OI0325",
                    f"@ref names {name!r}, which the model does not have",
                    None if self.package is None else self._near(name),
                )

    def _has_value(self, name: str) -> bool:
        return self.package is not None and (
            name in self.package.metadata or name in self.package.sizes
        )

    def _near(self, name: str) -> str | None:
        from openinfer.runtime.packages.base import near_names

        assert self.package is not None
        return near_names(name, self.package.tensors)

    def _family(
        self, variable: VariableOp, pattern: str, tensors: object
    ) -> Iterator[tuple[VariableOp, TensorInfo]]:
        assert self.package is not None
        order = [i.data for i in variable.indices]
        extents = family_extents(pattern, order, self.package.tensors)
        if 0 in extents:
            self._report(
                variable,
                "OI0326",
                f"no tensor of the model matches @pattern {pattern!r}",
                self._near(pattern),
            )
            return
        for indices in _grid(extents):
            name = member_name(pattern, dict(zip(order, indices)))
            if name in self.package.tensors:
                self.tensors[name] = self.package.tensors[name]
                yield variable, self.package.tensors[name]

    def _check(self, variable: VariableOp, info: TensorInfo) -> None:
        declared = ALIASES.get(variable.dtype.data, variable.dtype.data)
        if info.dtype_name != declared:
            self._report(
                variable,
                "OI0320",
                f"{variable.variable.data} is declared {declared}, "
                f"but tensor {info.name!r} of the model is {info.dtype_name}",
                f"declare it as {info.dtype_name} and use `op cast`",
            )
        dims = [dim.substitute(self.sizes) for dim in variable.sizes]
        shown = ", ".join(str(d) for d in variable.sizes)
        wrong = len(dims) != len(info.shape) or any(
            dim.constant is not None and dim.constant != extent
            for dim, extent in zip(dims, info.shape)
        )
        if wrong:
            values = {n: v for d in variable.sizes for n in d.names if (v := self.sizes.get(n))}
            where = ", ".join(f"{n} = {v}" for n, v in sorted(values.items()))
            self._report(
                variable,
                "OI0321",
                f"{variable.variable.data} is declared [{shown}]"
                f"{f' with {where}' if where else ''}, "
                f"but tensor {info.name!r} of the model has shape {list(info.shape)}",
                "make the declaration fit the model",
            )

    def _report(self, op: Operation, code: str, message: str, hint: str | None) -> None:
        self.problems.append(Diagnostic(code, message, location_of(op), hint=hint))

    def _insert(self) -> None:
        new: list[Operation] = [PackageSizeOp(name, v) for name, v in sorted(self.sizes.items())]
        for name in sorted(self.tensors):
            info = self.tensors[name]
            new.append(PackageTensorOp(name, info.dtype_name, info.shape, absent=not info.has_data))
        for name, value in self._values():
            new.append(PackageValueOp(name, value))
        block = self.module.body.block
        if block.first_op is None:
            block.add_ops(new)
        else:
            block.insert_ops_before(new, block.first_op)

    def _values(self) -> Iterator[tuple[str, Attribute]]:
        """Metadata that settings or scalar variables name."""
        if self.package is None:
            return
        wanted = {package_name(v) for v in self.variables if v.memory.data != "dynamic"}
        for op in self.module.walk():
            if isinstance(op, OpOp):
                for value in op.settings.data.values():
                    wanted |= set(_names(value))
        for name in sorted(wanted - set(self.tensors) - set(DTYPES)):
            if name in self.package.metadata:
                attribute = _attribute(self.package.metadata[name])
                if attribute is not None:
                    yield name, attribute
            elif name in self.package.sizes and name not in self.sizes:
                yield name, IntegerAttr(self.package.sizes[name], i64)


def _grid(extents: list[int]) -> Iterator[tuple[int, ...]]:
    from itertools import product

    return product(*(range(extent) for extent in extents))


def _names(value: Attribute) -> Iterator[str]:
    """Every name that occurs in a setting or an index."""
    if isinstance(value, NameAttr):
        yield value.data
    elif isinstance(value, ArrayAttr):
        for item in value:
            yield from _names(item)
    elif isinstance(data := getattr(value, "data", None), Size):
        yield from data.names


def _attribute(value: object) -> Attribute | None:
    """A metadata scalar or string as an attribute; None for arrays, which no setting takes."""
    inner = getattr(value, "value", value)
    match inner:
        case bool():
            return IntegerAttr(int(inner), i1)
        case int():
            return IntegerAttr(inner, i64)
        case float():
            return FloatAttr(inner, f64)
        case str():
            return StringAttr(inner)
        case _:
            return None
