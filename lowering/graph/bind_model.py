"""Binds a program to its package: sizes, tensors and metadata that it names become IR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    StringAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    CacheStepOp,
    LoopOp,
    NameAttr,
    OpOp,
    PackageSizeOp,
    PackageTensorOp,
    PackageValueOp,
    SizeBoundOp,
    SizeOp,
    VariableOp,
)
from openinfer.dialects.graph.syntax import GraphOp
from openinfer.lowering.facts import Facts, is_bound
from openinfer.lowering.graph.infer_types import with_types
from openinfer.lowering.graph.inline_calls import InlineCalls
from openinfer.lowering.graph.settings import attribute_of
from openinfer.lowering.locations import location_of
from openinfer.lowering.options import PipelineOptions, current
from openinfer.lowering.program.check import check_bound, check_program
from openinfer.lowering.program.metadata_settings import as_list
from openinfer.lowering.program.sources import (
    package_name,
    pattern_of,
)
from openinfer.lowering.program.unfilled import unfilled_errors
from openinfer.lowering.program.view import ProgramView
from openinfer.runtime.devices import kind_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import Diagnostic, ProgramError
from openinfer.runtime.sizes import Size
from openinfer.runtime.target import TargetDescription, named_target

if TYPE_CHECKING:
    from openinfer.runtime.packages.base import Package


@dataclass(frozen=True)
class BindModel(ModulePass):
    """Records what the program may know of its package and of the options, so that no later pass asks.

    Before:
        graph.variable W(l) constant f32 [D, D] {pattern = "W.{l}"}
    After:
        builtin.module attributes {openinfer.target = "avx2"} { …
        graph.package_size "D" = 4
        graph.package_tensor "W.0" f32 [4, 4]
        graph.variable W(l) constant f32 [D, D] {pattern = "W.{l}"}

    Requires: level `graph`; every mistake of the program that shows now is reported at once.
    Leaves: no type is open (`infer_types`), and what the program defines as sizes is put in where it is
        named; every tensor of the package that a declaration names
        stands in the module, with the declaration's dtype and shape; every size that the package or
        the caller fixes, too. The module says the facts of the compilation (`lowering/facts.py`).
    """

    name: ClassVar[str] = "bind-model"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        InlineCalls().apply(ctx, op)
        options = current()
        if not is_bound(op):
            chosen_facts(options).write(op)
        if any(isinstance(o, PackageSizeOp | PackageTensorOp) for o in op.body.ops):
            # A dump that is resumed, or somebody wrote what a package would say.
            if problems := check_bound(op):
                raise ProgramError(problems)
            return
        _Binder(op, options.package, options.sizes).bind()


_UI64 = IntegerType(64, Signedness.UNSIGNED)


def chosen_facts(options: PipelineOptions, target_name: str | None = None) -> Facts:
    """What the options of a compilation ask for, the target by another name if one is given.

    This is the only place where "host" becomes a processor.
    """
    target = described_target(target_name or options.target_name)
    tuning = options.tuning
    if tuning is not None and tuning.target == target.name and tuning.machine is not None:
        target = replace(target, measured=tuning.machine)
    return Facts(
        target,
        strict_math=options.strict_math,
        precision=options.precision if options.precision in ("bf16", "q8") else None,
        tiles=tuning.tiles if tuning is not None and tuning.target == target.name else {},
        observed=options.observe,
        traced=options.trace,
        no_fallback=not options.fallback,
        device=kind_of(options.device),
        device_description=options.device_description(),
    )


def described_target(name: str) -> TargetDescription:
    """The processor that a target name means: this machine's own for "host"."""
    if name != "host":
        return named_target(name)
    from openinfer.runtime.devices.cpu.codegen import host_target

    return host_target()


class _Binder:
    """Checks a program against its package, then writes down what it uses of it."""

    def __init__(self, module: ModuleOp, package: Package | None, given: Mapping[str, int]) -> None:
        self.module = module
        self.package = package
        self.given = given
        self.variables = [op for op in module.body.ops if isinstance(op, VariableOp)]

    def bind(self) -> None:
        if self.package is None:
            self._refuse_without_model()
        with_types(self.module, self.package, self.given, in_place=True)
        view = ProgramView.of(self.module, self.package, self.given)
        problems = check_program(self.module, view)
        if not problems and current().strict:
            problems = unfilled_errors(view)
        if problems:
            raise ProgramError(problems)
        used = self._used_names() | set(self.given)
        new: list[Operation] = [
            PackageSizeOp(name, value) for name, value in sorted(view.sizes.items()) if name in used
        ]
        linked = {i.name: i for v in self.variables for i in view.linked_tensors(v)}
        for name, info in sorted(linked.items()):
            absent = not info.has_data
            new.append(PackageTensorOp(name, info.dtype_name, info.shape, absent=absent))
        for name in sorted(self._wanted_values() - set(linked) - set(DTYPES)):
            value = _attribute(view.metadata(name))
            if value is None and view.declaration(name) is None:
                items = as_list(view.metadata(name))
                value = None if items is None else attribute_of(items)
            if value is None and name in view.sizes and name not in used:
                value = IntegerAttr(view.sizes[name], i64)
            if value is not None:
                new.append(PackageValueOp(name, value))
        block = self.module.body.block
        if block.first_op is None:
            block.add_ops(new)
        else:
            block.insert_ops_before(new, block.first_op)

    def _refuse_without_model(self) -> None:
        """Without a package one message is enough for all tensors that the program names."""
        wanted = [
            v
            for v in self.variables
            if pattern_of(v) is not None or (v.option("ref") and v.option("init") is None)
        ]
        if not wanted:
            return
        names = ", ".join(pattern_of(v) or package_name(v) for v in wanted[:3])
        more = f" and {len(wanted) - 3} more" if len(wanted) > 3 else ""
        message = f"the program names tensors of a model ({names}{more}), but no model was given"
        hint = "give one: `--model FILE`, or open_model(FILE) from Python"
        raise ProgramError([Diagnostic("OI0326", message, location_of(wanted[0]), hint=hint)])

    def _used_names(self) -> set[str]:
        """Every name that stands where a size may stand."""
        used: set[str] = set()
        for op in self.module.walk():
            if isinstance(op, VariableOp | AssignOp):
                for dim in op.sizes:
                    used |= dim.names
            if isinstance(op, CacheStepOp):
                used |= op.amount.data.names
            if isinstance(op, SizeOp):
                used |= op.value.data.names
            if isinstance(op, SizeBoundOp):
                for row in (op.size, op.low, op.high):
                    used |= row.data.names if row is not None else set()
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

    def _wanted_values(self) -> set[str]:
        """Names that may be metadata: of settings, and of variables that the package may fill."""
        wanted = {package_name(v) for v in self.variables if ProgramView.takes_metadata(v)}
        for op in self.module.walk():
            if isinstance(op, OpOp):
                for value in op.settings.data.values():
                    wanted |= set(_names(value))
        return wanted


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
    """A metadata scalar or string as an attribute; None for an array."""
    inner = getattr(value, "value", value)
    match inner:
        case bool():
            return IntegerAttr(int(inner), i1)
        case int():
            # Signless attributes hold a number of 2**63 and more as a negative one.
            return IntegerAttr(inner, i64 if inner < 1 << 63 else _UI64)
        case float():
            return FloatAttr(inner, f64)
        case str():
            return StringAttr(inner)
        case _:
            return None
