"""Checks of uses: the variable is declared, is used as declared, and may be written."""

from __future__ import annotations

from xdsl.ir import Operation

from openinfer.dialects.graph import RefAttr, SizeAttr, VariableOp
from openinfer.dialects.opset import TensorSpec
from openinfer.lowering.graph.sources import pattern_of
from openinfer.lowering.locations import location_of
from openinfer.lowering.reference.check_settings import SettingChecks
from openinfer.lowering.reference.program import dtype_of


class ReferenceChecks(SettingChecks):
    """What nodes read and write by name."""

    def reference(self, ref: RefAttr, node: Operation) -> TensorSpec | None:
        """The type of a use, or None after reporting why there is none."""
        name = ref.variable.data
        if not self.known(name, node):
            return None
        op = self.view.declaration(name)
        assert op is not None
        slots = [i.data for i in op.indices] if isinstance(op, VariableOp) else []
        if len(ref.indices) != len(slots) or (not slots and ref.bracketed.data):
            form = f"{name}[{', '.join(slots)}]" if slots else name
            self.report("OI0230", f"{ref.text}: {name} is used as {form}", node)
            return None
        for index in ref.indices:
            if isinstance(index, SizeAttr):
                self.size_names(index.data, node, f"the index of {ref.text}")
            else:
                self.report("OI0232", f"{ref.text}: a slice belongs to cache.read", node)
                return None
        if isinstance(op, VariableOp) and slots:
            if op.memory.data == "persistent":
                self.report(
                    "OI0221",
                    f"{ref.text}: entries of persistent {name} are read with cache.read",
                    node,
                    f"cache.read {ref.text} >> …;",
                )
                return None
            self.member(ref, op, node)
        if name in self.untyped:
            return None  # Reported once, as a size without a value.
        dims = self.learned.get(name) or tuple(d.substitute(self.view.sizes) for d in op.sizes)
        return TensorSpec(dtype_of(op), dims)

    def member(self, ref: RefAttr, variable: VariableOp, node: Operation) -> None:
        """A constant index of a prefix table must exist in the package."""
        if self.view.package is None or pattern_of(variable) is None:
            return
        extents = self.view.extents(variable)
        for size, extent, index in zip(ref.sizes, extents, variable.indices):
            value = size.substitute(self.view.sizes).constant
            if value is not None and extent and not 0 <= value < extent:
                self.report(
                    "OI0327",
                    f"{ref.text}: {index.data} = {value}, but the model has "
                    f"{variable.variable.data} for {index.data} in 0..{extent}",
                    node,
                    "use an index that the model has",
                    (f"@pattern {pattern_of(variable)!r}", location_of(variable)),
                )

    def target(self, ref: RefAttr, node: Operation) -> TensorSpec | None:
        """The type of what a node writes; reports a memory kind that may not be written."""
        spec = self.reference(ref, node)
        variable = self.view.variables.get(ref.variable.data)
        if variable is None or variable.memory.data == "volatile":
            return spec
        how = {
            "dynamic": "it belongs to the caller",
            "constant": "constants are never written",
            "persistent": "it is written by cache.write",
        }[variable.memory.data]
        self.report(
            "OI0220",
            f"{ref.variable.data} is {variable.memory.data}: {how}",
            node,
            "write to a volatile variable or a temporary",
            ("declared here", location_of(variable)),
        )
        return None
