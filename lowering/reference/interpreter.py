"""Runs one step of a program, node by node, on NumPy value arrays."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence

import numpy as np
from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    BarrierOp,
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
from openinfer.dialects.opset import NameRef, OpError, find
from openinfer.lowering.reference.contents import Contents
from openinfer.lowering.reference.nodes import NodeInfo, block_info, body_of, form_of, kind_of
from openinfer.lowering.reference.program import ProgramView, dtype_of, written_settings
from openinfer.lowering.reference.twins import IndexFault, evaluate
from openinfer.runtime.errors import StepError, UnsupportedError
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.trace import Event

Key = tuple[str, tuple[int, ...]]
"""A variable, with the indices of a prefix-table member."""
Steps = Generator[Event, None, bool]
"""Events of some nodes; the result says whether a `return` was met."""


class StepRun:
    """The state of one step: values by name, loop indices, and the generator that runs it."""

    def __init__(
        self,
        view: ProgramView,
        contents: Contents,
        inputs: Mapping[str, AnyArray],
        sizes: Mapping[str, int],
        persistent: Mapping[Key, AnyArray],
    ) -> None:
        """`inputs` and `persistent` are value arrays; neither is ever written into."""
        self.view = view
        self.contents = contents
        self.sizes = dict(sizes)
        self.values: dict[Key, AnyArray] = {(name, ()): a for name, a in inputs.items()}
        self.persistent: dict[Key, AnyArray] = dict(persistent)
        """A copy: the executor takes it over when the step ends well."""
        self.indices: dict[str, int] = {}
        self.settings: dict[str, object] = {}
        """The settings of the op that ran last, for its event."""

    def run(self) -> Generator[Event, None, None]:
        """Runs `entry`."""
        yield from self.block("entry")

    # Control flow

    def block(self, name: str) -> Steps:
        op = self.view.blocks[name]
        info = block_info(op)
        yield self.event(op, info, kind="BlockEnter")
        yield from self.nodes(body_of(op))
        yield self.event(op, info, kind="BlockExit")
        return False

    def nodes(self, nodes: Sequence[Operation]) -> Steps:
        for node in nodes:
            if (yield from self.node(node)):
                return True
        return False

    def node(self, node: Operation) -> Steps:
        """Runs one node. Raises StepError that names it."""
        info = self.view.nodes[node]
        try:
            match node:
                case LoopOp():
                    return (yield from self.loop(node, info))
                case ScopeOp():
                    return (yield from self.nodes(body_of(node)))
                case BranchOp():
                    return (yield from self.branch(node, info))
                case _:
                    yield self.simple(node, info)
                    return isinstance(node, ReturnOp)
        except StepError as error:
            raise _located(error, info) from error.__cause__
        except IndexFault as error:
            raise _located(StepError("OI0601", error.message, hint=error.hint), info) from error
        except OpError as error:
            raise _located(StepError("OI0602", error.message, hint=error.hint), info) from error
        except MemoryError as error:
            failure = StepError("OI0604", "not enough memory", hint="use smaller sizes")
            raise _located(failure, info) from error

    def loop(self, node: LoopOp, info: NodeInfo) -> Steps:
        start, stop = self.size(node.start.data), self.size(node.stop.data)
        name = node.index.data
        yield self.event(node, info, description=f"{info.text}: {name} in {start}..{stop}")
        shadowed = self.indices.get(name)
        try:
            for index in range(start, stop):
                self.indices[name] = index
                if (yield from self.nodes(body_of(node))):
                    return True
        finally:
            self.indices.pop(name, None)
            if shadowed is not None:
                self.indices[name] = shadowed
        return False

    def branch(self, node: BranchOp, info: NodeInfo) -> Steps:
        target = node.then_block.data
        params: tuple[str, ...] = ()
        if node.condition is not None and node.else_block is not None:
            params = (self.name_of(node.condition),)
            if not self.scalar(node.condition):
                target = node.else_block.data
        yield self.event(node, info, params=params)
        # A called block sees no loop index of its caller, and its `return` ends only itself.
        outer, self.indices = self.indices, {}
        try:
            yield from self.block(target)
        finally:
            self.indices = outer
        return False

    # Nodes

    def simple(self, node: Operation, info: NodeInfo) -> Event:
        """A node without nodes of its own."""
        match node:
            case OpOp():
                return self.op(node, info)
            case AssignOp():
                self.assign(node)
                return self.event(node, info, output=(node.variable.data,))
            case TransferOp():
                self.write(node.target, self.read(node.source), dtype_of_ref(self, node.source))
                source, target = self.name_of(node.source), self.name_of(node.target)
                return self.event(node, info, params=(source,), output=(target,))
            case ReturnOp():
                return self.event(node, info, params=node.names)
            case BarrierOp() | DepOp():
                return self.event(node, info)
            case _:
                raise UnsupportedError(
                    "OI0701", f"`{form_of(node)}` is not available in this version ({info.text})"
                )

    def assign(self, node: AssignOp) -> None:
        """Zeros at the first `assign` of a step, and again when its shape has changed."""
        if any(d.single_name == "_" for d in node.sizes):
            return
        key, shape = (node.variable.data, ()), self.shape(node.sizes)
        if key not in self.values or self.values[key].shape != shape:
            self.values[key] = self.contents.zeros(dtype_of(node), shape)

    def op(self, node: OpOp, info: NodeInfo) -> Event:
        name = node.op_name.data
        settings = self.evaluated(node)
        arrays = [self.read(ref) for ref in node.inputs]
        dtypes = [dtype_of_ref(self, ref) for ref in node.inputs]
        outputs = [dtype_of_ref(self, ref) for ref in node.outputs]
        begin = _now()
        results = evaluate(name, arrays, dtypes, settings, outputs)
        duration = _now() - begin
        params = tuple(self.name_of(ref) for ref in node.inputs)
        targets = tuple(self.name_of(ref) for ref in node.outputs)
        shapes = {n: a.shape for n, a in zip(params, arrays)}
        for ref, array, dtype in zip(node.outputs, results, outputs):
            self.write(ref, array, dtype)
        return Event(
            kind_of(node),
            info.block,
            info.index,
            info.uuid,
            name,
            info.text,
            params,
            targets,
            {**shapes, **{n: a.shape for n, a in zip(targets, results)}},
            {**dict(zip(params, dtypes)), **dict(zip(targets, outputs))},
            settings,
            begin,
            duration,
            info.location,
        )

    def event(
        self,
        node: Operation,
        info: NodeInfo,
        *,
        params: tuple[str, ...] = (),
        output: tuple[str, ...] = (),
        description: str | None = None,
        kind: str | None = None,
    ) -> Event:
        """The event of a node that is not an op."""
        shapes: dict[str, tuple[int, ...]] = {}
        dtypes: dict[str, str] = {}
        for name in (*params, *output):
            array = self.values.get((name, ()))
            op = self.view.declaration(name)
            if array is not None and op is not None:
                shapes[name], dtypes[name] = array.shape, dtype_of(op)
        return Event(
            kind or kind_of(node),
            info.block,
            info.index,
            info.uuid,
            description=description or info.text,
            params=params,
            output=output,
            shapes=shapes,
            dtypes=dtypes,
            start_ns=_now(),
            location=info.location,
        )

    # Values

    def read(self, ref: RefAttr) -> AnyArray:
        """The value array of a use."""
        return self.value(ref.variable.data, tuple(self.size(s) for s in ref.sizes))

    def value(self, name: str, indices: tuple[int, ...] = ()) -> AnyArray:
        """The present value of a variable; its first content when nothing has touched it."""
        key = (name, indices)
        op = self.view.declaration(name)
        kept = isinstance(op, VariableOp) and op.memory.data == "persistent"
        store = self.persistent if kept else self.values
        if key not in store:
            if op is None:
                raise StepError("OI0603", f"{name} is not declared")
            if any(d.single_name == "_" for d in op.sizes):
                raise StepError(
                    "OI0602",
                    f"{name} has an open dimension and was not written yet",
                    hint="write it before it is read",
                )
            shape = self.shape(op.sizes)
            if isinstance(op, VariableOp):
                store[key] = self.contents.first(op, indices, shape)
            else:
                store[key] = self.contents.zeros(dtype_of(op), shape)
        return store[key]

    def write(self, ref: RefAttr, array: AnyArray, dtype: str) -> None:
        """Stores a result; its shape must be the declared one, evaluated now."""
        name = ref.variable.data
        op = self.view.declaration(name)
        if op is None:
            raise StepError("OI0603", f"{name} is not declared")
        wanted = [None if d.single_name == "_" else self.size(d) for d in op.sizes]
        fits = len(wanted) == array.ndim and all(
            w is None or w == n for w, n in zip(wanted, array.shape)
        )
        if not fits:
            declared = ", ".join(str(d) for d in op.sizes)
            raise StepError(
                "OI0602",
                f"{ref.text} is declared {dtype}[{declared}] = "
                f"{['_' if w is None else w for w in wanted]}, the value has shape "
                f"{list(array.shape)}",
                hint="declare the output with the shape that the op gives",
            )
        self.values[(name, tuple(self.size(s) for s in ref.sizes))] = array

    def scalar(self, ref: RefAttr) -> int:
        """The one element of a bool or integer variable."""
        array = self.read(ref)
        if array.size != 1:
            raise StepError(
                "OI0605",
                f"{ref.text} has shape {list(array.shape)} where one element is needed",
                hint="a condition is a bool or integer of one element",
            )
        return int(array.reshape(-1)[0])

    def name_of(self, ref: RefAttr) -> str:
        """The use as a trace shows it: `W[l=0]`."""
        if not ref.indices.data:
            return ref.variable.data
        slots: list[str] = []
        for size in ref.sizes:
            constant = size.constant is not None
            slots.append(str(size) if constant else f"{size}={self.size(size)}")
        return f"{ref.variable.data}[{', '.join(slots)}]"

    # Numbers

    def shape(self, dims: Sequence[Size]) -> tuple[int, ...]:
        """The extents of a declaration now. Raises StepError for a negative one."""
        extents = tuple(self.size(d) for d in dims)
        for dim, extent in zip(dims, extents):
            if extent < 0:
                raise StepError("OI0603", f"dimension {dim} is {extent}")
        return extents

    def size(self, size: Size) -> int:
        """The value of a size expression over sizes, loop indices and integer scalars."""
        if size.constant is not None:
            return size.constant
        values = {name: self.number(name, str(size)) for name in size.names}
        try:
            return size.evaluate(values)
        except ZeroDivisionError:
            shown = ", ".join(f"{n} = {v}" for n, v in sorted(values.items()))
            raise StepError("OI0603", f"{size} divides by zero ({shown})") from None

    def number(self, name: str, where: str) -> int:
        """The integer that a name stands for: loop index, scalar variable, size."""
        if name in self.indices:
            return self.indices[name]
        if name in self.sizes:
            return self.sizes[name]
        if self.view.declaration(name) is None:
            raise StepError("OI0603", f"{name} in `{where}` has no value")
        return self.scalar(RefAttr.of(name))

    def evaluated(self, node: OpOp) -> dict[str, object]:
        """The settings of a node with every name and size replaced by its value."""
        spec = find(node.op_name.data)
        found: dict[str, object] = {}
        for name, value in written_settings(node).items():
            setting = spec.setting(name) if spec else None
            dtype = setting is not None and setting.kind in ("dtype", "dtypes")
            found[name] = value if dtype else self.plain(value)
        return found

    def plain(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(self.plain(item) for item in value)
        if isinstance(value, Size):
            return self.size(value)
        if isinstance(value, NameRef):
            return self.named(value.name)
        return value

    def named(self, name: str) -> object:
        """What a bare name in a setting stands for now."""
        if name in self.indices:
            return self.indices[name]
        op = self.view.declaration(name)
        if op is not None:
            array = self.value(name)
            if array.size != 1:
                raise StepError("OI0605", f"{name} has shape {list(array.shape)}, not one element")
            return array.reshape(-1)[0].item()
        if name in self.sizes:
            return self.sizes[name]
        value = self.view.metadata(name)
        if isinstance(value, bool | int | float | str):
            return value
        raise StepError("OI0603", f"{name} has no value")


def dtype_of_ref(run: StepRun, ref: RefAttr) -> str:
    """The declared dtype of a use. Raises StepError when it is not declared."""
    op = run.view.declaration(ref.variable.data)
    if op is None:
        raise StepError("OI0603", f"{ref.variable.data} is not declared")
    return dtype_of(op)


def detached(array: AnyArray, inputs: Mapping[str, AnyArray]) -> AnyArray:
    """The array, copied when it may share memory with what the caller lent for the step."""
    if any(np.may_share_memory(array, borrowed) for borrowed in inputs.values()):
        return array.copy()
    return array


class NodeStepError(StepError):
    """A StepError that names its node already."""

    def __init__(self, error: StepError, info: NodeInfo) -> None:
        super().__init__(error.code, f"{info}: {error.message}", hint=error.hint)
        self.location = info.location
        self.node_index = info.index
        self.node_uuid = info.uuid


def _located(error: StepError, info: NodeInfo) -> StepError:
    """The error with its node in front, once: nodes inside of loops are passed unchanged."""
    return error if isinstance(error, NodeStepError) else NodeStepError(error, info)


def _now() -> int:
    return time.perf_counter_ns()
