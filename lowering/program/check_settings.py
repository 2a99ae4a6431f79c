"""Checks of the settings of an op, with everything filled in that is known before a run."""

from __future__ import annotations

from openinfer.dialects.foreign_words import NOTHING, VALUES
from openinfer.dialects.graph import AssignOp, OpOp, VariableOp
from openinfer.dialects.graph.syntax import OPEN
from openinfer.dialects.opset import NameRef, OpSpec, Setting
from openinfer.lowering.program.check_package import PackageChecks
from openinfer.lowering.program.metadata_settings import with_metadata
from openinfer.lowering.program.scalar_settings import number_dtype, refused
from openinfer.lowering.program.view import dtype_of, written_settings
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size


class SettingChecks(PackageChecks):
    """What a bare name or a size in a setting stands for."""

    scope: tuple[str, ...] = ()
    """The indices of the loops around the node at hand."""

    def settings(self, node: OpOp, spec: OpSpec) -> dict[str, object] | None:
        """The settings with everything filled in that is known now; None after a report."""
        found: dict[str, object] = {}
        good = True
        written = with_metadata(spec, written_settings(node), self.metadata_named)
        for name, value in written.items():
            setting = spec.setting(name)
            kind = setting.kind if setting else ""
            if kind in ("dtype", "dtypes"):
                found[name] = value
                continue
            if isinstance(value, NameRef) and setting is not None:
                value = self.named(value, name, kind, node)
                good = good and value is not None and self.suits(node, spec, setting, value)
            found[name] = self.filled(value)
            if kind in ("ints", "numbers", "padding", "size"):
                good = self.means_something(name, kind, found[name], node) and good
        return found if good else None

    def metadata_named(self, name: str) -> object | None:
        """A metadata entry, unless the name means something else of the program here."""
        view = self.view
        if name in self.scope or name in view.sizes or name in view.input_sizes:
            return None
        return None if view.declaration(name) is not None else view.metadata(name)

    def means_something(self, setting: str, kind: str, value: object, node: OpOp) -> bool:
        """Whether every name in a list or an expression stands for something; reports others."""
        view, good = self.view, True
        for item in value if isinstance(value, tuple) else (value,):
            names = item.names if isinstance(item, Size) else ()
            if isinstance(item, NameRef):
                names = (item.name,)
            for name in sorted(names):
                known = name in self.scope or name in view.input_sizes or name in view.sizes
                op = None if known else view.declaration(name)
                if op is not None and kind != "numbers" and not isinstance(value, NameRef):
                    good = self.is_count(setting, name, op, node) and good
                if not known and op is None:
                    self.error(
                        "OI0328",
                        node,
                        (),
                        f"setting {setting} names {name}, which is no scalar variable, size or "
                        "metadata number",
                        self.near(name, [*self.names.all, *view.sizes]),
                    )
                    good = False
        return good

    def is_count(self, setting: str, name: str, op: VariableOp | AssignOp, node: OpOp) -> bool:
        """Whether a variable in a list or an expression is an integer scalar; reports others."""
        one = all(d.substitute(self.view.sizes).constant == 1 for d in op.sizes)
        dtype = DTYPES.get(dtype_of(op))
        if one and (dtype is None or dtype.is_integer):
            return True
        self.error(
            "OI0306",
            node,
            (),
            f"setting {setting} names {name}, which is no integer scalar",
            "declare it as an integer without dimensions",
            ("declared here", op),
        )
        return False

    def suits(self, node: OpOp, spec: OpSpec, setting: Setting, value: object) -> bool:
        """Whether a variable has a dtype that the setting takes; reports where it has not."""
        op = self.view.declaration(value.name) if isinstance(value, NameRef) else None
        if op is None or not isinstance(value, NameRef) or value.name in self.scope:
            return True
        if op.dtype.data == OPEN:
            return True
        found = [self.view.declaration(ref.variable.data) for ref in node.reads()]
        dtypes = [dtype_of(operand) for operand in found if operand is not None]
        computed = number_dtype(spec, dtypes, written_settings(node))
        wanted = refused(setting, dtype_of(op), computed)
        if wanted is not None:
            self.error(
                "OI0304",
                node,
                (),
                f"setting {setting.name} names {value}, which is {dtype_of(op)}",
                f"it takes {wanted}",
                ("declared here", op),
            )
        return wanted is None

    def named(self, value: NameRef, setting: str, kind: str, node: OpOp) -> object | None:
        """What a bare name in a setting stands for; None after reporting that it is nothing."""
        name, view = value.name, self.view
        op = view.declaration(name)
        if name in self.scope or name in view.input_sizes or op is not None:
            return value
        if name in view.sizes:
            return view.sizes[name]
        entry = view.metadata(name)
        if isinstance(entry, bool | int | float | str):
            return entry
        hint = f'a string stands in quotes: {setting}="{name}"' if kind == "string" else None
        if name in NOTHING:
            hint = f"leave `{setting}` out: it has a default"
        elif name in VALUES:
            hint = f"write `{setting}={VALUES[name]}`"
        self.error(
            "OI0328",
            node,
            (),
            f"setting {setting} names {name}, which is no scalar variable, size or metadata entry",
            hint or self.near(name, [*self.names.all, *view.sizes]),
        )
        return None

    def filled(self, value: object) -> object:
        """Sizes with what is known of their names."""
        if isinstance(value, tuple):
            return tuple(self.filled(item) for item in value)
        if isinstance(value, NameRef) and value.name in self.view.sizes:
            return self.view.sizes[value.name]
        if isinstance(value, Size):
            size = value.substitute(
                {n: v for n, v in self.view.sizes.items() if n not in self.scope}
            )
            return size if size.constant is None else size.constant
        return value
