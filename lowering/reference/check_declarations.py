"""Checks of declarations: sizes have a source, the package agrees; and how findings are kept."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from openinfer.dialects.graph import AssignOp, LoopOp, VariableOp
from openinfer.lowering.graph.sources import package_name, pattern_of
from openinfer.lowering.locations import location_of
from openinfer.lowering.reference.program import ProgramView, dtype_of
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import Diagnostic, Location, Note
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import value_range
from openinfer.runtime.suggest import did_you_mean

MAX_NOTES = 8
"""So many other places of one cause are shown."""
OPEN = "_"
"""A dimension that is taken from the value that is written."""


class DeclarationChecks:
    """Findings of one program so far, and the checks of what it declares."""

    def __init__(self, view: ProgramView) -> None:
        self.view = view
        self.problems: list[Diagnostic] = []
        self.scope: list[str] = []
        """Names of the loop indices around the node that is looked at."""
        self.learned: dict[str, tuple[Size, ...]] = {}
        """Shapes of variables with open dimensions, as their first write gives them."""
        self.sourceless: dict[str, list[VariableOp | AssignOp]] = {}
        """Sizes that nothing fixes, with the declarations that name them."""
        self.untyped: set[str] = set()
        """The variables of those declarations: what nodes do with them is not checked."""

    def report(
        self,
        code: str,
        message: str,
        where: Operation | None,
        hint: str | None = None,
        note: tuple[str, Location | None] | None = None,
    ) -> None:
        notes = (Note(*note),) if note is not None else ()
        place = location_of(where)
        found = Diagnostic(code, message, place, notes=notes, hint=hint)
        if found not in self.problems:
            self.problems.append(found)

    # Declarations

    def declaration(self, op: VariableOp | AssignOp) -> None:
        """Every size of a declaration must have a source; see `sizes_without_source`."""
        name = op.variable.data
        for dim in op.sizes:
            for used in sorted(dim.names):
                if used == OPEN:
                    if dim.single_name != OPEN or getattr(op, "memory", None) is not None:
                        # Only a temporary or a variable that the graph writes can take a shape.
                        self.open_dim(op, dim)
                elif not self.known_size(used):
                    self.sourceless.setdefault(used, []).append(op)
                    self.untyped.add(name)

    def sizes_without_source(self) -> None:
        """One finding for each size that nothing fixes, however many declarations name it."""
        model = self.view.package is not None
        sources = "neither the model, nor the given sizes, nor the shape of an input fixes it"
        hint = "give it"
        if not model:
            sources = "no model was given, and no given size or shape of an input fixes it"
            if any(self.view.takes_metadata(v) for v in self.view.variables.values()):
                hint = "give a model (open_model(FILE), `--model FILE`), or the size"
        known = [*self.view.sizes, *self.view.input_sizes]
        for name, (first, *others) in self.sourceless.items():
            guess = did_you_mean(name, known)
            guess = f"{guess}else " if guess else ""
            known.append(name)
            notes = [Note(f"{op.variable.data} names it, too", location_of(op)) for op in others]
            self.problems.append(
                Diagnostic(
                    "OI0324",
                    f"size {name} of {first.variable.data} has no value: {sources}",
                    location_of(first),
                    notes=tuple(notes[:MAX_NOTES]),
                    hint=f"{guess}{hint}: sizes={{'{name}': …}} (--size {name}=…)",
                )
            )

    def open_dim(self, op: VariableOp | AssignOp, dim: Size) -> None:
        if dim.single_name != OPEN:
            self.report("OI0305", f"`_` stands alone in a dimension, found {dim}", op)

    def known_size(self, name: str) -> bool:
        view = self.view
        if name in view.sizes or name in view.input_sizes:
            return True
        return self.is_index(name) or self.is_scalar(name)

    def is_index(self, name: str) -> bool:
        """True for the index of any loop: which ones are in scope is known only inside bodies."""
        return any(isinstance(n, LoopOp) and n.index.data == name for n in self.view.nodes)

    def is_scalar(self, name: str) -> bool:
        """True for a declared integer variable of one element."""
        op = self.view.declaration(name)
        if op is None or not (DTYPES[dtype_of(op)].is_integer or dtype_of(op) == "bool"):
            return False
        if isinstance(op, VariableOp) and op.indices.data:
            return False
        return all(d.substitute(self.view.sizes).constant == 1 for d in op.sizes)

    def package(self, variable: VariableOp) -> None:
        """The declaration must agree with the tensors that it names."""
        name, view = variable.variable.data, self.view
        pattern = pattern_of(variable)
        if variable.memory.data == "dynamic":
            return
        infos = view.linked_tensors(variable)
        for info in infos:
            self.tensor(variable, info.name, info.dtype_name, info.shape)
        if infos:
            return
        if view.takes_metadata(variable):
            self.metadata_number(variable)
        tensors = view.package.tensors if view.package is not None else {}
        if pattern is not None:
            missing = "needs a model" if view.package is None else "matches no tensor of the model"
            self.report(
                "OI0326", f"@pattern {pattern!r} of {name} {missing}", variable,
                self.near(pattern, tensors),
            )  # fmt: skip
        elif variable.option("ref") is not None:
            wanted = package_name(variable)
            if view.metadata(wanted) is None and wanted not in view.sizes:
                self.report(
                    "OI0325",
                    f"@ref of {name} names {wanted!r}, which the model does not have",
                    variable,
                    self.near(wanted, tensors),
                )

    def metadata_number(self, variable: VariableOp) -> None:
        """A metadata number or bool that fills a constant must be a value of its dtype.

        Floats are rounded to the declared float dtype, as a literal is.
        """
        wanted, declared = package_name(variable), dtype_of(variable)
        value = self.view.metadata(wanted)
        if value is None:
            return
        row = DTYPES[declared]
        if isinstance(value, bool):
            fits = row.kind == "bool"
        elif isinstance(value, int):
            bounds = value_range(row)
            fits = row.kind != "bool" and (bounds is None or bounds[0] <= value <= bounds[1])
            fits = fits and (value != 0 or row.name != "t1")
        else:
            fits = isinstance(value, float) and row.is_float
        if not fits:
            shown = "true" if value is True else "false" if value is False else f"{value!r:.40}"
            self.report(
                "OI0320",
                f"{variable.variable.data} is declared {declared}, but metadata {wanted!r} of the "
                f"model is {shown}",
                variable,
                "declare a dtype that holds it, or give the variable another name",
            )

    def tensor(self, variable: VariableOp, tensor: str, dtype: str, shape: tuple[int, ...]) -> None:
        name, declared = variable.variable.data, dtype_of(variable)
        if self.view.package is not None and tensor not in self.view.package.tensors:
            what = f"metadata {tensor!r}"
        else:
            what = f"tensor {tensor!r}"
        if dtype != declared:
            self.report(
                "OI0320",
                f"{name} is declared {declared}, but {what} of the model is {dtype}",
                variable,
                f"declare it as {dtype}, and write `op cast({name}, to={declared}) >> …;` where needed",
            )
        dims = [d.substitute(self.view.sizes) for d in variable.sizes]
        wrong = len(dims) != len(shape) or any(
            d.constant is not None and d.constant != extent for d, extent in zip(dims, shape)
        )
        if wrong:
            shown = ", ".join(str(d) for d in variable.sizes)
            used = sorted({n for d in variable.sizes for n in d.names if n in self.view.sizes})
            where = ", ".join(f"{n} = {self.view.sizes[n]}" for n in used)
            self.report(
                "OI0321",
                f"{name} is declared [{shown}]{f' with {where}' if where else ''}, but {what} "
                f"of the model has shape {list(shape)}",
                variable,
                "make the declaration fit the model",
            )

    def size_names(self, size: Size, node: Operation, what: str) -> None:
        for name in sorted(size.names):
            if name not in self.scope and not self.known_size(name):
                self.report(
                    "OI0210",
                    f"{name} in {what} is no size, loop index or integer scalar",
                    node,
                    self.near(name, self.names()),
                )

    def known(self, name: str, node: Operation) -> bool:
        if self.view.declaration(name) is not None:
            return True
        self.report("OI0210", f"{name} is not declared", node, self.near(name, self.names()))
        return False

    def names(self) -> list[str]:
        return [*self.view.variables, *self.view.temporaries]

    @staticmethod
    def near(name: str, known: Iterable[str]) -> str | None:
        names = list(known)
        return did_you_mean(name, names).rstrip() or (
            f"there are: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else None
        )
