"""Runs the nodes of a block in order: control flow, ops, and an event for each node."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from typing import NoReturn, Protocol

import numpy as np
from xdsl.ir import Operation

from openinfer.dialects.graph import (
    AssignOp,
    AwaitOp,
    BarrierOp,
    BranchOp,
    CacheReadOp,
    CacheResetOp,
    CacheStepOp,
    CacheWriteOp,
    DepOp,
    LoopOp,
    OpOp,
    RefAttr,
    ReturnOp,
    ScopeOp,
    TransferOp,
    YieldOp,
)
from openinfer.dialects.opset import OpError, find
from openinfer.lowering.program.literals import operand_dtypes
from openinfer.lowering.program.nodes import NodeInfo, block_info, body_of, form_of, kind_of
from openinfer.lowering.program.value_arrays import narrow
from openinfer.lowering.program.view import dtype_of
from openinfer.lowering.reference.cache_nodes import Done, run_cache_node
from openinfer.lowering.reference.scope import Overlay, Scope, StepData
from openinfer.lowering.reference.twins import IndexFault, evaluate
from openinfer.runtime.errors import StepError, UnsupportedError
from openinfer.runtime.storage import AnyArray
from openinfer.runtime.trace import Event

Steps = Generator[Event | None, None, bool]
"""Events of some nodes, None for waiting; the result says whether the block was left."""
Running = Generator["Event | Running | None", bool | None, bool]
"""The same, or a part that is to run before it goes on: it gets the result of that."""


class Exchange(Protocol):
    """Gives the values that entry yields to consumers, and takes them back."""

    def publish(self, names: Sequence[str]) -> None: ...

    def is_away(self, names: Sequence[str]) -> bool: ...

    def take_back(self, names: Sequence[str]) -> None: ...


class Interpreter(Scope):
    """Runs entry and what it calls, or a consumer."""

    def __init__(
        self, step: StepData, overlay: Overlay | None = None, exchange: Exchange | None = None
    ) -> None:
        """Entry has an exchange, a consumer an overlay."""
        super().__init__(step, overlay)
        self.exchange = exchange

    # Control flow

    def block(self, name: str) -> Steps:
        """Runs a block from its first node to where it is left, and all that it calls.

        What a node holds or calls is a generator more on a stack of our own, so that no depth of
        calls is a depth of recursion.
        """
        running: list[Running] = [self._block(name)]
        left, failure = None, None
        try:
            while running:
                try:
                    found = (
                        running[-1].send(left) if failure is None else running[-1].throw(failure)
                    )
                except StopIteration as end:
                    running.pop()
                    left, failure = end.value, None
                    continue
                except Exception as error:
                    running.pop()
                    left, failure = None, error
                    continue
                left = failure = None
                if isinstance(found, Generator):
                    running.append(found)
                else:
                    yield found
            if failure is not None:
                raise failure
        finally:
            while running:
                running.pop().close()
        return False

    def _block(self, name: str) -> Running:
        op = self.view.blocks[name]
        info = block_info(op)
        yield self.event(op, info, kind="BlockEnter")
        yield self.nodes(body_of(op))
        yield self.event(op, info, kind="BlockExit")
        return False

    def nodes(self, nodes: Sequence[Operation]) -> Running:
        for node in nodes:
            if isinstance(node, LoopOp | ScopeOp | BranchOp | YieldOp | AwaitOp):
                if (yield self.node(node)):
                    return True
                continue
            info = self.view.nodes[node]
            try:
                event = self.simple(node, info)
            except _FAULTS as error:
                _fail(error, info)
            yield event
            if isinstance(node, ReturnOp):
                return True
        return False

    def node(self, node: Operation) -> Running:
        """Runs a node that holds others, calls them, or waits. Raises StepError that names it."""
        info = self.view.nodes[node]
        try:
            match node:
                case LoopOp():
                    return bool((yield self.loop(node, info)))
                case ScopeOp():
                    return bool((yield self.nodes(body_of(node))))
                case BranchOp():
                    return bool((yield self.branch(node, info)))
                case YieldOp():
                    return bool((yield self.yield_(node, info)))
                case _:
                    assert isinstance(node, AwaitOp)
                    return bool((yield self.await_(node, info)))
        except _FAULTS as error:
            _fail(error, info)

    def loop(self, node: LoopOp, info: NodeInfo) -> Running:
        start, stop = self.size(node.start.data), self.size(node.stop.data)
        name = node.index.data
        yield self.event(node, info, description=f"{info.text}: {name} in {start}..{stop}")
        shadowed = self.indices.get(name)
        try:
            for index in range(start, stop):
                self.indices[name] = index
                if (yield self.nodes(body_of(node))):
                    return True
        finally:
            self.indices.pop(name, None)
            if shadowed is not None:
                self.indices[name] = shadowed
        return False

    def branch(self, node: BranchOp, info: NodeInfo) -> Running:
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
            yield self._block(target)
        finally:
            self.indices = outer
        return False

    def yield_(self, node: YieldOp, info: NodeInfo) -> Running:
        """In entry, gives values to the consumers; a consumer ends here."""
        if self.exchange is not None:
            self.exchange.publish(node.names)
        yield self.event(node, info, params=node.names)
        return self.exchange is None

    def await_(self, node: AwaitOp, info: NodeInfo) -> Running:
        """In entry, waits for the consumers; a consumer starts here, with its values there."""
        if self.exchange is not None:
            while self.exchange.is_away(node.names):
                yield None
            self.exchange.take_back(node.names)
        yield self.event(node, info, output=node.names)
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
                self.write(node.target, self.read(node.source), self.dtype_of_ref(node.source))
                source, target = self.name_of(node.source), self.name_of(node.target)
                return self.event(node, info, params=(source,), output=(target,))
            case CacheReadOp() | CacheWriteOp() | CacheStepOp() | CacheResetOp():
                begin = _now()
                done = run_cache_node(self, node)
                return self.done(node, info, done, begin, _now() - begin)
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
        name, base = node.variable.data, self.base(node.sizes)
        self.step.assigned[name] = base
        shape = tuple(extent for extent in base if extent is not None)
        if len(shape) == len(base) and self.shape_of(name) != shape:
            self._store(name, (), self.step.contents.zeros(dtype_of(node), shape))

    def op(self, node: OpOp, info: NodeInfo) -> Event:
        name = node.op_name.data
        settings = self.evaluated(node)
        dtypes = self.operand_dtypes(node)
        arrays = [
            self.read(operand)
            if isinstance(operand, RefAttr)
            else narrow(np.asarray(operand.number), dtype)
            for operand, dtype in zip(node.inputs, dtypes)
        ]
        outputs = [self.dtype_of_ref(ref) for ref in node.outputs]
        begin = _now()
        declared = None if arrays else [self.declared_now(ref) for ref in node.outputs]
        results = evaluate(name, arrays, dtypes, settings, outputs, declared=declared)
        duration = _now() - begin
        params = tuple(self.name_of(ref) for ref in node.reads())
        taken = [i for i, operand in enumerate(node.inputs) if isinstance(operand, RefAttr)]
        targets = tuple(self.name_of(ref) for ref in node.outputs)
        shapes = {n: arrays[i].shape for n, i in zip(params, taken)}
        for ref, array, dtype in zip(node.outputs, results, outputs):
            self.write(ref, array, dtype)
        done = Done(
            params,
            targets,
            {**shapes, **{n: a.shape for n, a in zip(targets, results)}},
            {**{n: dtypes[i] for n, i in zip(params, taken)}, **dict(zip(targets, outputs))},
            settings,
        )
        return self.done(node, info, done, begin, duration, name)

    def operand_dtypes(self, node: OpOp) -> list[str]:
        """The dtype of each operand, that of a literal from those beside it."""
        spec = find(node.op_name.data)
        assert spec is not None
        return operand_dtypes(spec, node.inputs.data, self.dtype_of_ref)

    # Events

    def done(
        self,
        node: Operation,
        info: NodeInfo,
        done: Done,
        begin: int,
        duration: int = 0,
        op_name: str = "",
    ) -> Event:
        """The event of a node that has run."""
        return Event(
            kind_of(node),
            info.block,
            info.index,
            info.uuid,
            op_name,
            info.text,
            done.params,
            done.output,
            done.shapes,
            done.dtypes,
            done.settings,
            begin,
            duration,
            info.location,
            scope=info.scope,
            calls=tuple(map(str, info.calls)),
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
        """The event of a node that computes nothing."""
        shapes: dict[str, tuple[int, ...]] = {}
        dtypes: dict[str, str] = {}
        for name in (*params, *output):
            shape, op = self.shape_of(name), self.view.declaration(name)
            if shape is not None and op is not None:
                shapes[name], dtypes[name] = shape, dtype_of(op)
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
            scope=info.scope,
            calls=tuple(map(str, info.calls)),
        )


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


_FAULTS = (StepError, IndexFault, OpError, MemoryError)


def _fail(error: Exception, info: NodeInfo) -> NoReturn:
    """Raises the StepError of a node that failed. Nodes inside of loops are named already."""
    match error:
        case NodeStepError():
            raise error
        case StepError():
            raise NodeStepError(error, info) from error.__cause__
        case IndexFault():
            failure = StepError("OI0601", error.message, hint=error.hint)
        case OpError():
            failure = StepError("OI0602", error.message, hint=error.hint)
        case _:
            failure = StepError("OI0604", "not enough memory", hint="use smaller sizes")
    raise NodeStepError(failure, info) from error


def _now() -> int:
    return time.perf_counter_ns()
