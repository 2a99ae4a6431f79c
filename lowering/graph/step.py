"""The step that is being translated: an object for each question that is asked on the way."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from openinfer.dialects.graph import RefAttr
from openinfer.lowering.facts import Facts as CompilationFacts
from openinfer.lowering.graph.contents import Contents
from openinfer.lowering.graph.dynamic_sizes import DynamicSizes
from openinfer.lowering.graph.elements import Elements
from openinfer.lowering.graph.program_facts import Facts
from openinfer.lowering.graph.requirements import Requirements
from openinfer.lowering.graph.scope import Scope
from openinfer.lowering.graph.size_values import SizeValues
from openinfer.lowering.graph.stamps import Stamps
from openinfer.lowering.graph.state_access import stored_value
from openinfer.lowering.graph.step_builder import StepBuilder
from openinfer.lowering.graph.variables import Variables
from openinfer.lowering.graph.yielded import Yielded
from openinfer.lowering.program.size_bounds import least_and_most
from openinfer.runtime.sizes import Size


class Step:
    """What is asked while nodes are translated, and who answers.

    | asked | answers |
    |---|---|
    | what does the program say? | `facts` |
    | where does this op go, which place, node and hints has it? | `builder` |
    | what does a watched or traced build show? | `stamps` |
    | which sizes does the step compute? | `sizes` |
    | what must hold of sizes, and when is it checked? | `requirements` |
    | what does a tensor of one element say? | `elements` |
    | what is a size expression here? | `values` |
    | what is there before anything is written? | `contents` |
    | what does a name hold here? | `variables` |
    | what was yielded, and which consumers are to run? | `yielded` |
    """

    def __init__(self, module: ModuleOp) -> None:
        compilation = CompilationFacts.of(module)
        self.facts = facts = Facts.of(module)
        self.builder = b = StepBuilder(facts.nodes, traced=compilation.traced)
        self.stamps = Stamps(b, observed=compilation.observed)
        self.sizes = DynamicSizes(b, facts.runtime)
        self.requirements = Requirements(
            b,
            self.sizes,
            facts.runtime,
            self._index,
            least_and_most(facts.bounds.values(), facts.static),
        )
        self.elements = Elements(b, self.requirements)
        self.values = SizeValues(
            facts, b, self.sizes, self.requirements, self.elements, self._variable
        )
        self.contents = Contents(facts, b, self.requirements)
        self.variables = Variables(
            facts, b, self.sizes, self.requirements, self.values, self.contents, self._stored
        )
        self.yielded = Yielded()

    # Those that were made earlier ask later ones by these.

    def _index(self, size: Size, scope: Scope, failure: str) -> SSAValue:
        return self.values.index(size, scope, failure)

    def _variable(self, name: str, scope: Scope) -> SSAValue:
        return self.variables.value_of(name, scope)

    def _stored(self, name: str, scope: Scope) -> SSAValue:
        return stored_value(self, name, scope)

    # What several of them answer together

    def condition(self, ref: RefAttr, scope: Scope) -> SSAValue:
        """What a branch asks, as an `i1`."""
        return self.elements.truth(self.variables.read(ref, scope), ref.text)
