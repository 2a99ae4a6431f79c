"""Checks of declarations against the package: sizes have a source, tensors and metadata agree."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from openinfer.dialects.graph import AssignOp, VariableOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.lowering.program.check_declarations import DeclarationChecks
from openinfer.lowering.program.names import Names
from openinfer.lowering.program.places import Part, Place, Places
from openinfer.lowering.program.report import Report
from openinfer.lowering.program.size_bounds import size_bounds
from openinfer.lowering.program.sources import package_name, pattern_of, sparse_family, stored_dtype
from openinfer.lowering.program.view import ProgramView, dtype_of
from openinfer.runtime.dtypes import DTYPES, PACKAGE_DTYPES
from openinfer.runtime.sizes import Size
from openinfer.runtime.storage import holds_all_of, value_range
from openinfer.runtime.suggest import did_you_mean

MAX_NOTES = 8
"""So many other places of one cause are shown."""


class PackageChecks(DeclarationChecks):
    """The same checks with the package and the given sizes at hand, and those that need them."""

    def __init__(self, view: ProgramView) -> None:
        super().__init__(Names.bound(view), Report(), Places())
        self.view = view
        self.learned: dict[str, tuple[Size, ...]] = {}
        """Shapes of variables with open dimensions, as their first write gives them."""
        self.sourceless: dict[str, list[VariableOp | AssignOp]] = {}
        """Sizes that nothing fixes, with the declarations that name them."""
        self.untyped: set[str] = set()
        """The variables of those declarations: what nodes do with them is not checked."""

    # Sizes.

    def sources_of(self, op: VariableOp | AssignOp) -> None:
        """Every size of a declaration must have a source; see `sizes_without_source`."""
        for dim in op.sizes:
            for used in sorted(dim.names - {OPEN}):
                if not self.known_size(used) and not self.is_scalar(used):
                    self.sourceless.setdefault(used, []).append(op)
                    self.untyped.add(op.variable.data)

    def sources_of_bounds(self, module: ModuleOp) -> None:
        """Every size that a bound asks for has a source, too. Names of variables are reported elsewhere."""
        known = [*self.view.sizes, *self.view.input_sizes]
        for op, row in size_bounds(module).items():
            for name in sorted(row.names.difference(known, self.sourceless, {OPEN})):
                if self.names.find(name) is None:
                    message = (
                        f"`{name}` in the bound `{op.text}` is no size of the model or of an input"
                    )
                    self.error("OI0290", op, (), message, self.near(name, known))

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
            notes = [(f"{op.variable.data} names it, too", op) for op in others]
            self.error(
                "OI0324",
                first,
                (),
                f"size {name} of {first.variable.data} has no value: {sources}",
                f"{guess}{hint}: sizes={{'{name}': …}} (--size {name}=…)",
                *notes[:MAX_NOTES],
            )

    def known_size(self, name: str) -> bool:
        """Whether a name is a size, or the index of a loop: of which one is checked elsewhere."""
        view = self.view
        return name in view.sizes or name in view.input_sizes or name in self.names.loop_indices

    def is_scalar(self, name: str) -> bool:
        """Whether a name is that of an integer variable of one element."""
        variable = self.names.find(name)
        return variable is not None and variable.maybe_integer and variable.scalar

    def size_without_variable(self, name: str, place: Place, part: Part, what: str) -> None:
        """A name in an index or a bound that is nothing. Dimensions and settings have own codes."""
        if part[0] in ("dims", "settings") or name in self.growing or self.known_size(name):
            return
        self.report.error(
            "OI0210",
            place,
            f"`{name}` in {what} is no size, loop index or integer scalar",
            fix=self.near(name, self.names.all),
        )

    # What declarations name.

    def package(self, variable: VariableOp) -> None:
        """The declaration must agree with the tensors that it names."""
        name, view = variable.variable.data, self.view
        pattern = pattern_of(variable)
        if variable.memory.data == "dynamic":
            return
        infos = view.linked_tensors(variable)
        for info in infos:
            self.tensor(variable, info.name, info.dtype_name, info.shape)
        tensors = view.package.tensors if view.package is not None else {}
        if (sparse := sparse_family(variable, tensors)) is not None:
            self.error("OI0327", variable, (), *sparse)
        if infos:
            return
        if view.takes_metadata(variable):
            self.metadata_number(variable)
        if pattern is not None:
            missing = "needs a model" if view.package is None else "matches no tensor of the model"
            message = f"@pattern {pattern!r} of {name} {missing}"
            self.error("OI0326", variable, (), message, self.near(pattern, tensors))
        elif variable.option("ref") is not None and variable.option("init") is None:
            wanted = package_name(variable)
            if view.metadata(wanted) is None and wanted not in view.sizes:
                self.error(
                    "OI0325",
                    variable,
                    (),
                    f"@ref of {name} names {wanted!r}, which the model does not have",
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
            self.error(
                "OI0320",
                variable,
                (),
                f"{variable.variable.data} is declared {declared}, but metadata {wanted!r} of the "
                f"model is {shown}",
                "declare a dtype that holds it, or give the variable another name",
            )

    def tensor(self, variable: VariableOp, tensor: str, dtype: str, shape: tuple[int, ...]) -> None:
        name = variable.variable.data
        if self.view.package is not None and tensor not in self.view.package.tensors:
            what = f"metadata {tensor!r}"
        else:
            what = f"tensor {tensor!r}"
        self.held_dtype(variable, what, dtype)
        dims = [d.substitute(self.view.sizes) for d in variable.sizes]
        wrong = len(dims) != len(shape) or any(
            d.constant is not None and d.constant != extent for d, extent in zip(dims, shape)
        )
        if wrong:
            shown = ", ".join(str(d) for d in variable.sizes)
            used = sorted({n for d in variable.sizes for n in d.names if n in self.view.sizes})
            where = ", ".join(f"{n} = {self.view.sizes[n]}" for n in used)
            self.error(
                "OI0321",
                variable,
                (),
                f"{name} is declared [{shown}]{f' with {where}' if where else ''}, but {what} "
                f"of the model has shape {list(shape)}",
                "make the declaration fit the model",
            )

    def held_dtype(self, variable: VariableOp, what: str, found: str) -> None:
        """What the package holds is what the declaration says, or what `@dtype` does."""
        name, declared, stored = variable.variable.data, dtype_of(variable), stored_dtype(variable)
        if declared not in DTYPES:
            return  # reported already
        row = PACKAGE_DTYPES.get(found)
        held = row is not None and holds_all_of(DTYPES[declared], row)
        part: Part = ("options", "dtype") if stored is not None else ()
        if row is None:
            self.error(
                "OI0320",
                variable,
                (),
                f"{what} of the model is {found}, which openinfer does not compute with",
                f"convert it to one of: {', '.join(PACKAGE_DTYPES)}",
            )
        elif stored == OPEN and not held:
            self.error(
                "OI0256",
                variable,
                part,
                f"{declared} does not hold all values of {found}, which {what} of the model is",
                "declare it as f32 or f16" if row.block is not None else f"declare it as {found}",
            )
        elif stored is not None and found != stored != OPEN:
            fix = f"write `@dtype({found})`, or `@dtype(_)` for whatever the model holds"
            message = f"@dtype({stored}) of {name}, but {what} of the model is {found}"
            self.error("OI0320", variable, part, message, fix if found != declared else "remove it")
        elif stored is None and found != declared:
            fix = f"declare it as {found}, and write `op cast({name}, to={declared}) >> …;` where needed"
            if row.block is not None:
                fix = "add" if held else "declare it as f32 or f16, and add"
                fix += f" `@dtype({found})`, which unpacks it when it is loaded"
            elif held:
                fix = f"add `@dtype({found})`, which converts it when it is loaded, or {fix}"
            message = f"{name} is declared {declared}, but {what} of the model is {found}"
            self.error("OI0320", variable, part, message, fix)

    @staticmethod
    def near(name: str, known: Iterable[str]) -> str | None:
        names = list(known)
        return did_you_mean(name, names).rstrip() or (
            f"there are: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}" if names else None
        )
