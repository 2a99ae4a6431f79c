"""From a program to an ONNX model: names become values, loops are unrolled, sizes that inputs fix stay open.

    loop layers (l in 0..2) { h = op matmul(h, W[l]); }   →   MatMul(x, W.0) → h    MatMul(h, W.1) → h_2

A program that keeps something from step to step has no ONNX form, nor has one whose way depends on data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from openinfer.compiler.exporters.onnx import elements, heads, moves, recurrent, reductions, spatial
from openinfer.compiler.exporters.onnx.calls import HANDLERS, Call
from openinfer.compiler.exporters.onnx.graph import (
    Exported,
    GraphWriter,
    NoForm,
    Value,
    element_number,
)
from openinfer.compiler.tools.extras import missing_library
from openinfer.dialects import opset
from openinfer.dialects.graph import (
    AssignOp,
    BarrierOp,
    BlockOp,
    BranchOp,
    DepOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    VariableOp,
)
from openinfer.dialects.ops.base import TensorSpec
from openinfer.lowering.graph.bind_model import BindModel
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.graph.settings import substitute_sizes
from openinfer.lowering.locations import location_of
from openinfer.lowering.options import PipelineOptions, using
from openinfer.lowering.program.literals import operand_dtypes
from openinfer.lowering.program.sources import member_name, package_name, pattern_of
from openinfer.runtime.dtypes import dtype as find_dtype
from openinfer.runtime.errors import UnsupportedError
from openinfer.runtime.packages.base import Package
from openinfer.runtime.sizes import Size

__all__ = ["export_onnx"]

MOST_NODES = 200_000
"""Nodes of a model with its loops unrolled."""
_FAMILIES = (elements, heads, moves, recurrent, reductions, spatial)
"""Their handlers are in the table when they are loaded."""


def export_onnx(
    module: ModuleOp,
    package: Package | None,
    *,
    sizes: Mapping[str, int] | None = None,
    file: str = "program",
) -> Exported:
    """A checked program of level `graph` as an ONNX model.

    Sizes of `sizes` and of the package become numbers. Raises ProgramError for what the package does not
    fit, UnsupportedError OI1558 with everything that has no form in ONNX, OI0734 without the library `onnx`.
    """
    if find_spec("onnx") is None:
        raise missing_library("onnx", "import")
    bound = module.clone()
    with using(PipelineOptions(package=package, sizes=dict(sizes or {}))):
        BindModel().apply(Context(), bound)
    return _Walk(Facts.of(bound), package, file).run()


class _Return(Exception):
    """The end of entry."""


class _Walk:
    """One walk through a program in the order of its steps."""

    def __init__(self, facts: Facts, package: Package | None, file: str) -> None:
        self.facts = facts
        self.package = package
        self.file = file
        self.g = GraphWriter()
        self.values: dict[str, Value] = {}
        self.indices: dict[str, int] = {}
        self.scopes: list[str] = []
        self.refused: dict[str, int] = {}
        """What has no form, with how often it was met."""

    def run(self) -> Exported:
        for variable in self.facts.inputs():
            self._input(variable)
        for name, variable in self.facts.variables.items():
            if isinstance(variable, VariableOp) and variable.memory.data == "persistent":
                self._refuse(variable, f"{name} is kept from step to step")
        if not self.refused:
            try:
                self._body(self.facts.blocks["entry"])
            except _Return:
                pass
        results = self._results()
        if self.refused:
            raise self._error()
        return self.g.finish(self.file, results)

    def _input(self, variable: VariableOp) -> None:
        dtype, dims = self.facts.declared(variable)
        name = self.g.fresh(variable.variable.data)
        value = Value(name, dtype, tuple(dims))
        self.values[variable.variable.data] = value
        self.g.inputs.append(value)
        try:
            element_number(dtype)
        except NoForm as error:
            self._refuse(variable, str(error))

    def _results(self) -> list[tuple[str, Value]]:
        names = self.facts.returned() or self.facts.outputs()
        found = [(name, self.values[name]) for name in names if name in self.values]
        if len(found) < len(names) and not self.refused:
            missing = next(name for name in names if name not in self.values)
            self._refuse(None, f"result {missing} is not written on every way")
        return found

    # Statements

    def _body(self, op: Operation) -> None:
        for node in op.regions[0].block.ops:
            try:
                self._node(node)
            except NoForm as error:
                self._refuse(node, str(error))

    def _node(self, node: Operation) -> None:
        match node:
            case OpOp():
                self._op(node)
            case TransferOp():
                value = self._read(node.source)
                self._write(node.target, value)
            case LoopOp():
                self._loop(node)
            case ScopeOp():
                self.scopes.append(node.label.data)
                self._body(node)
                self.scopes.pop()
            case BranchOp():
                if node.condition is not None:
                    raise NoForm("a branch by data")
                self._call(self.facts.blocks[node.then_block.data])
            case ReturnOp():
                raise _Return
            case AssignOp() | DepOp() | BarrierOp():
                pass
            case _:
                raise NoForm(f"`{node.name.removeprefix('graph.').replace('_', '.')}`")

    def _call(self, block: BlockOp) -> None:
        try:
            self._body(block)
        except _Return:
            pass

    def _loop(self, loop: LoopOp) -> None:
        known = {**self.facts.static, **self.indices}
        start, stop = (b.data.substitute(known).constant for b in (loop.start, loop.stop))
        if start is None or stop is None:
            raise NoForm(f"a loop to {loop.stop.data}, which only inputs know")
        index = loop.index.data
        for number in range(start, stop):
            if len(self.g.nodes) > MOST_NODES:
                raise NoForm(f"a loop whose model has more than {MOST_NODES} nodes")
            self.indices[index] = number
            self.scopes.append(f"{loop.loop_name.data}.{number}")
            self._body(loop)
            self.scopes.pop()
        self.indices.pop(index, None)

    def _op(self, node: OpOp) -> None:
        name = node.op_name.data
        spec = opset.find(name)
        assert spec is not None
        found = {ref: self._read(ref) for ref in node.reads()}
        dtypes = operand_dtypes(spec, node.inputs.data, lambda ref: found[ref].dtype)
        operands = [
            found[operand]
            if isinstance(operand, RefAttr)
            else Value(self.g.constant(operand.number, dtype), dtype, ())
            for operand, dtype in zip(node.inputs, dtypes)
        ]
        taken = opset.meeting_dtypes(spec, [value.dtype for value in operands])
        self.g.scope = "/".join(self.scopes)
        operands = [self._as(value, dtype) for value, dtype in zip(operands, taken)]
        written = substitute_sizes(self.facts.settings(node), self.indices)
        targets = [ref.variable.data for ref in node.outputs]
        results = opset.infer_outputs(
            spec, [value.spec for value in operands], written, len(targets), self._declared(targets)
        )
        settings = {
            key: self._sized(value) for key, value in opset.resolve_settings(spec, written).items()
        }
        for key, value in settings.items():
            setting = spec.setting(key)
            if isinstance(value, opset.NameRef) and (setting is None or setting.kind != "dtype"):
                raise NoForm(f"op {name}: {key} is {value.name}, which only the step knows")
        values = self._handled(node, operands, settings, results, targets)
        for ref, value in zip(node.outputs, values):
            self._write(ref, value)

    def _sized(self, value: object) -> object:
        """A setting with the names of sizes as sizes."""
        if isinstance(value, tuple):
            return tuple(self._sized(item) for item in value)
        if isinstance(value, opset.NameRef) and value.name in self.facts.runtime:
            return Size.name(value.name)
        return value

    def _handled(
        self,
        node: OpOp,
        operands: list[Value],
        settings: Mapping[str, Any],
        results: list[TensorSpec],
        targets: list[str],
    ) -> list[Value]:
        """The results; where there is no form, values that nobody made, so that the walk goes on."""
        spec = opset.find(node.op_name.data)
        assert spec is not None
        name, names = spec.name, targets
        try:
            if name not in HANDLERS:
                raise NoForm("it has no form in ONNX")
            for value in (*operands, *results):
                element_number(value.dtype)
            names = HANDLERS[name](Call(self.g, name, operands, settings, results, targets))
        except NoForm as error:
            self._refuse(node, f"op {name}: {error}")
        return [Value(n, result.dtype, result.dims) for n, result in zip(names, results)]

    def _declared(self, targets: Sequence[str]) -> list[TensorSpec] | None:
        found: list[TensorSpec] = []
        for name in targets:
            dtype, dims = self.facts.declared(self.facts.variables[name])
            if dtype == "_" or any(dim.single_name == "_" for dim in dims):
                return None
            found.append(TensorSpec(dtype, tuple(dim.substitute(self.indices) for dim in dims)))
        return found

    # Variables

    def _read(self, ref: RefAttr) -> Value:
        name = ref.variable.data
        variable = self.facts.variables[name]
        if isinstance(variable, VariableOp) and pattern_of(variable) is not None:
            return self._member(variable, ref)
        if name not in self.values:
            if not isinstance(variable, VariableOp):
                raise NoForm(f"{name} is read where nothing may have written it")
            self.values[name] = self._start(variable)
        return self.values[name]

    def _member(self, variable: VariableOp, ref: RefAttr) -> Value:
        pattern = pattern_of(variable)
        assert pattern is not None
        places: dict[str, int] = {}
        for index, size in zip(variable.indices, ref.sizes):
            number = size.substitute({**self.facts.static, **self.indices}).constant
            if number is None:
                raise NoForm(f"{ref.text}, whose member only the step knows")
            places[index.data] = number
        return self._tensor(member_name(pattern, places), variable)

    def _start(self, variable: VariableOp) -> Value:
        """What a variable holds before anything is written to it."""
        if self.facts.tensor_of(variable) is not None:
            return self._tensor(package_name(variable), variable)
        dtype, dims = self.facts.declared(variable)
        number = self.facts.constant_of(variable)
        one = self.g.constant(0 if number is None else number, dtype)
        if not dims:
            return Value(one, dtype, ())
        name = self.g.node("Expand", one, self.g.shape(dims), stem=variable.variable.data)
        return Value(name, dtype, tuple(dims))

    def _tensor(self, name: str, variable: VariableOp) -> Value:
        assert self.package is not None
        dtype, dims = self.facts.declared(variable)
        element_number(dtype)
        key = name if name not in self.g.names else f"{name}.{dtype}"
        if name not in self.g.tensors or self.g.tensors[name].dtype.name != dtype:
            self.g.weight(key, self.package.tensor_as(name, find_dtype(dtype)))
        else:
            key = name
        found = self.g.tensors[key]
        shape = tuple(Size.of(n) for n in found.shape)
        wanted = tuple(dims) if len(dims) == len(shape) else shape
        return Value(
            key, dtype, tuple(w if w.constant is None else s for w, s in zip(wanted, shape))
        )

    def _write(self, ref: RefAttr, value: Value) -> None:
        if ref.indices.data:
            raise NoForm(f"a write to {ref.text}")
        name = ref.variable.data
        dtype = self.facts.declared(self.facts.variables[name])[0]
        self.values[name] = value if dtype == "_" else self._as(value, dtype)

    def _as(self, value: Value, dtype: str) -> Value:
        if value.dtype == dtype:
            return value
        name = self.g.node("Cast", value.name, stem=value.name, to=element_number(dtype))
        return Value(name, dtype, value.dims)

    # Refusals

    def _refuse(self, node: Operation | None, message: str) -> None:
        place = location_of(node) if node is not None else None
        text = f"{place}: {message}" if place is not None else message
        self.refused[text] = self.refused.get(text, 0) + 1

    def _error(self) -> UnsupportedError:
        lines = [
            f"  {n} times: {text}" if n > 1 else f"  {text}" for text, n in self.refused.items()
        ]
        return UnsupportedError(
            "OI1558",
            f"{self.file} has no form in ONNX:\n" + "\n".join(lines[:50]),
            hint="graph JSON and .oi text hold every program: `openinfer export -o graph.json`",
        )
