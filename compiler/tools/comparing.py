"""The comparison of simulator and compiled program: results first, then node by node.

The results of the plain build are compared after every step. The observed build of the same
program is then iterated beside the simulator, and the first node whose output differs is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from openinfer.compiler.tools.running import Session, results
from openinfer.compiler.tools.tolerance import Difference, difference
from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.executor import BaseExecutor, StepNode
from openinfer.runtime.tensors import Tensor, as_tensor
from openinfer.runtime.trace import Event


@dataclass(frozen=True)
class Finding:
    """One value that differs."""

    step: int
    name: str
    what: str
    node: str = ""
    """The node as a person writes it; empty for a result of the plain build."""
    place: str = ""

    def text(self) -> str:
        where = f"{self.place}: " if self.place else ""
        node = f"node {self.node}: " if self.node else "result "
        return f"{where}step {self.step}: {node}{self.name}: {self.what}"


@dataclass
class Outcome:
    """What a comparison found."""

    steps: int
    results: int = 0
    """Values of the plain build that were compared."""
    nodes: int = 0
    """Nodes of the observed build whose outputs were compared."""
    findings: list[Finding] = field(default_factory=list[Finding])
    remark: str = ""

    def text(self) -> str:
        lines = [finding.text() for finding in self.findings]
        verdict = "differ" if self.findings else "agree"
        lines.append(
            f"simulator and compiled program {verdict}: {self.steps} steps, "
            f"{self.results} results, {self.nodes} nodes compared"
        )
        if self.remark:
            lines.append(self.remark)
        return "\n".join(lines)

    def json(self) -> dict[str, object]:
        return {
            "agree": not self.findings,
            "steps": self.steps,
            "results": self.results,
            "nodes": self.nodes,
            "findings": [vars(finding) for finding in self.findings],
            "remark": self.remark,
        }


def compare(session: Session, factor: float = 1.0) -> Outcome:
    """Compares the plain build's results, then the observed build node by node."""
    outcome = Outcome(session.steps)
    with session.simulator() as reference, session.compiled() as plain:
        for step in range(session.steps):
            inputs = session.inputs(reference, step)
            for executor in (reference, plain):
                executor.insert(**inputs)
                executor.step()
            expected, found = results(reference), results(plain)
            for name, value in expected.items():
                outcome.results += 1
                differing = difference(value, found[name], factor, session.precision)
                if differing is not None:
                    outcome.findings.append(Finding(step, name, str(differing)))
            if outcome.findings:
                break
    with session.simulator() as reference, session.compiled() as observed:
        try:
            for step in range(session.steps):
                finding = _compare_nodes(session, reference, observed, step, factor, outcome)
                if finding is not None:
                    outcome.findings.insert(0, finding)
                    break
        except UnsupportedError as error:
            outcome.remark = f"nodes were not compared: {error.message}"
    return outcome


def _compare_nodes(
    session: Session,
    reference: BaseExecutor,
    observed: BaseExecutor,
    step: int,
    factor: float,
    outcome: Outcome,
) -> Finding | None:
    inputs = session.inputs(reference, step)
    reference.insert(**inputs)
    observed.insert(**inputs)
    first = None
    twins = _Twins(reference.iterate())
    # Both step to their end even after a difference, so that the executors stay consistent.
    for node in observed.iterate():
        # A temporary has no value in compiled code until something is written to it.
        if first is not None or not node.event.output or node.event.kind == "Assign":
            continue
        expected = twins.of(node.event)
        if expected is not None:
            first = _differing(step, *expected, node, (factor, session.precision), outcome)
    twins.finish()
    return first


Values = dict[str, Tensor]
"""What a node gave, by variable."""


class _Twins:
    """Finds the simulated node for a compiled one.

    Consumers of yielded values may run in another order, so nodes that were passed over are kept
    with what they gave.
    """

    def __init__(self, nodes: Iterator[StepNode]) -> None:
        self._nodes = nodes
        self._passed: dict[tuple[str, str], deque[tuple[Event, Values]]] = {}

    def of(self, wanted: Event) -> tuple[Event, Values] | None:
        """The next execution of a node in the simulator, and its values.

        A fused group is one event of the compiled program; its last node carries the outputs.
        """
        key = (wanted.node_uuid, wanted.kind)
        passed = self._passed.get(key)
        if passed:
            return passed.popleft()
        for node in self._nodes:
            event = node.event
            # A declared temporary has no value that could be compared, with `_` not even a shape.
            if not event.output or event.kind == "Assign":
                continue
            if (event.node_uuid, event.kind) == key:
                return event, _values(node)
            kept = self._passed.setdefault((event.node_uuid, event.kind), deque())
            kept.append((event, _values(node)))
        return None

    def finish(self) -> None:
        """Runs the rest of the step."""
        for _ in self._nodes:
            pass


def _values(node: StepNode) -> Values:
    found: Values = {}
    for name in node.event.output:
        variable = name.partition("[")[0]
        try:
            found[variable] = _tensor(node, variable)
        except InputError:
            continue  # A cache has no value by its name alone; its reads are compared.
    return found


def _differing(
    step: int,
    event: Event,
    expected: Values,
    node: StepNode,
    tolerance: tuple[float, str | None],
    outcome: Outcome,
) -> Finding | None:
    counted = False
    found = _values(node)
    for name in node.event.output:
        variable = name.partition("[")[0]
        if variable not in expected or variable not in found:
            continue
        outcome.nodes += not counted
        counted = True
        differing: Difference | str | None = difference(
            expected[variable], found[variable], *tolerance
        )
        if differing is not None:
            place = str(event.location) if event.location is not None else ""
            text = event.description or event.op_name or event.kind
            return Finding(step, name, str(differing), text, place)
    return None


def _tensor(node: StepNode, name: str) -> Tensor:
    value = node.fetch(name)
    if isinstance(value, Tensor):
        return value
    return as_tensor(value, node.executor.variables[name].dtype, name=name)
