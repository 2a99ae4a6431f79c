"""The comparison of simulator and compiled program: results first, then node by node.

The results of the plain build are compared after every step. The observed build of the same
program is then iterated beside the simulator, and the first node whose output differs is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from openinfer.compiler.tools.running import Session, results
from openinfer.compiler.tools.tolerance import Difference, difference
from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.executor import BaseExecutor, StepNode
from openinfer.runtime.tensors import Tensor, as_tensor


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
                differing = difference(value, found[name], factor)
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
    expected_nodes = reference.iterate()
    # Both step to their end even after a difference, so that the executors stay consistent.
    for node in observed.iterate():
        twin = _twin(expected_nodes, node)
        if twin is None or first is not None:
            continue
        first = _differing(step, twin, node, factor, outcome)
    for _ in expected_nodes:
        pass
    return first


def _twin(nodes: Iterator[StepNode], wanted: StepNode) -> StepNode | None:
    """Runs the simulator up to the node that the compiled event ends with.

    A fused group is one event of the compiled program; its last node carries the outputs.
    """
    for node in nodes:
        same = node.event.node_uuid == wanted.event.node_uuid
        if same and node.event.kind == wanted.event.kind:
            return node
    return None


def _differing(
    step: int, expected: StepNode, found: StepNode, factor: float, outcome: Outcome
) -> Finding | None:
    counted = False
    for name in found.event.output:
        variable = name.partition("[")[0]
        try:
            left = _tensor(expected, variable)
            right = _tensor(found, variable)
        except InputError:
            continue  # A cache has no value by its name alone; its reads are compared.
        outcome.nodes += not counted
        counted = True
        differing: Difference | str | None = difference(left, right, factor)
        if differing is not None:
            event = expected.event
            place = str(event.location) if event.location is not None else ""
            node = event.description or event.op_name or event.kind
            return Finding(step, name, str(differing), node, place)
    return None


def _tensor(node: StepNode, name: str) -> Tensor:
    value = node.fetch(name)
    if isinstance(value, Tensor):
        return value
    return as_tensor(value, node.executor.variables[name].dtype, name=name)
