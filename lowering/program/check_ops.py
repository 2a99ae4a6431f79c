"""Checks of an op statement against the registry: name, operands, outputs, settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from openinfer.dialects import foreign_words, opset
from openinfer.dialects.graph import LiteralAttr, NameAttr, Operand, OpOp, SizeAttr
from openinfer.lowering.program.check_caches import CacheChecks
from openinfer.lowering.program.literals import literal_advice, wanted_values
from openinfer.lowering.program.names import Variable
from openinfer.lowering.program.places import Part
from openinfer.lowering.program.report import did_you_mean
from openinfer.lowering.program.view import setting_value
from openinfer.runtime.dtypes import ALIASES, DTYPES

_ANY_COUNT = 1 << 30


class OpChecks(CacheChecks):
    """Checks of ops that need no package."""

    def op_name(
        self, name: str, node: Operation, part: Part, others: Sequence[str] = ()
    ) -> opset.OpSpec | None:
        """The registry row of an op name or alias; `others` are names that would also do."""
        spec = opset.find(name)
        if spec is None:
            self.error(
                "OI0214",
                node,
                part,
                f"unknown op `{name}`",
                opset.advice(name) or did_you_mean(name, others, "docs/ops.md lists all ops"),
            )
        return spec

    def registered(self, node: OpOp, operands: Sequence[Variable | None]) -> opset.OpSpec | None:
        """One op statement; `operands` are the variables behind its operands."""
        spec = self.op_name(node.op_name.data, node, ("op",))
        for name, value in node.settings.data.items():
            row = spec.setting(name) if spec is not None else None
            numbers = row is not None and row.kind in ("number", "float")
            self.sizes_in(value, node, ("settings", name), numbers=numbers)
        if spec is None:
            return None
        self.counts(node, spec)
        self.operand_dtypes(node, spec, operands)
        self.settings_of(node, spec)
        return spec

    def operand_dtypes(
        self, node: OpOp, spec: opset.OpSpec, operands: Sequence[Variable | None]
    ) -> None:
        """Whether the op takes the dtype of its first operand, and its literals; None is a variable of which
        nothing is known."""
        first = operands[0] if operands else None
        if first is not None and first.dtype is not None and first.dtype.name not in spec.dtypes:
            advice = opset.cast_advice(spec, _written(node.inputs.data[0]))
            self.error(
                "OI0313",
                node,
                ("inputs", 0),
                f"`{spec.name}` does not take {first.dtype}",
                f"it takes {', '.join(spec.dtypes)}; {advice}",
                self.typed(first),
            )
        self.literals(node, spec, operands)

    def literals(self, node: OpOp, spec: opset.OpSpec, operands: Sequence[Variable | None]) -> None:
        """The literals among the operands, as soon as the dtypes beside them are known."""
        places = [i for i, o in enumerate(node.inputs) if isinstance(o, LiteralAttr)]
        if not places or _settings_advice(node, spec, len(spec.operands) + len(spec.optional)):
            return
        dtypes: list[str | None] = []
        for operand, variable in zip(node.inputs, operands):
            if isinstance(operand, LiteralAttr):
                dtypes.append(None)
            elif variable is None or variable.dtype is None:
                return  # Not known yet, or reported.
            else:
                dtypes.append(variable.dtype.name)
        try:
            found = opset.literal_dtypes(spec, dtypes)
        except opset.OpError as error:
            self.error("OI0283", node, ("inputs", places[0]), error.message, error.hint)
            return
        for place in places:
            literal, dtype = node.inputs.data[place], found[place]
            assert isinstance(literal, LiteralAttr)
            kind, values = wanted_values(literal.number, DTYPES[dtype])
            if kind is None and values is None:
                continue
            message = f"{literal.text} does not fit into {dtype}, which `{spec.name}` gives it here"
            if kind is not None:
                message = f"beside {dtype} a literal is {kind[0]}, found {literal.text}"
            code = "OI0285" if kind is None else "OI0284"
            self.error(code, node, ("inputs", place), message, literal_advice(literal, dtype))

    def counts(self, node: OpOp, spec: opset.OpSpec) -> None:
        least, given = len(spec.operands), len(node.inputs)
        most = _ANY_COUNT if spec.variadic else least + len(spec.optional)
        listed = ", ".join([*spec.operands, *(f"[{name}]" for name in spec.optional)])
        usage = f"{spec.name}({listed}{', …' if spec.variadic else ''})"
        if not least <= given <= most:
            if spec.variadic:
                wanted = f"{least} operands or more"
            else:
                wanted = f"{least} {'operand' if most == 1 else 'operands'}"
                if most > least:
                    wanted = f"{least} to {most} operands"
            self.error(
                "OI0217",
                node,
                ("op",),
                f"`{spec.name}` takes {wanted}, got {given}",
                _settings_advice(node, spec, most) or f"op {usage} >> …;",
            )
        if spec.outputs is not None and len(node.outputs) != spec.outputs:
            self.error(
                "OI0218",
                node,
                ("outputs",),
                f"`{spec.name}` has {spec.outputs} {'output' if spec.outputs == 1 else 'outputs'}, "
                f"got {len(node.outputs)}",
                "name as many variables behind `>>` as the op has outputs",
            )

    def settings_of(self, node: OpOp, spec: opset.OpSpec, parameters: Collection[str] = ()) -> None:
        """The settings of an op; what a setting is that names a parameter only a call says."""
        listed = ", ".join(s.name for s in spec.settings)
        listing = (
            f"settings of `{spec.name}`: {listed}" if listed else f"`{spec.name}` has no settings"
        )
        for name, value in node.settings.data.items():
            row = spec.setting(name)
            if row is None:
                self.error(
                    "OI0215",
                    node,
                    ("settings", name, "name"),
                    f"`{spec.name}` has no setting `{name}`",
                    f"{opset.setting_advice(spec, name)}{listing}",
                )
                continue
            if not (isinstance(value, NameAttr) and value.data in parameters):
                self.setting(node, spec, row, name, value)
        for row in spec.settings:
            if row.required and row.name not in node.settings.data:
                self.error(
                    "OI0216",
                    node,
                    ("op",),
                    f"`{spec.name}` needs the setting `{row.name}`: {row.doc}",
                    f"add `{row.name}=…` ({row.kind})",
                )

    def setting(
        self, node: OpOp, spec: opset.OpSpec, row: opset.Setting, name: str, value: Attribute
    ) -> None:
        """One setting by itself: the form of its value, and what a bare name stands for."""
        part = ("settings", name)
        written = self.places.written.get((node, part), name)
        try:
            # One setting at a time, so that each is reported at its own place.
            alone = replace(spec, settings=(row,))
            opset.resolve_settings(alone, {row.name: setting_value(value)})
        except opset.SettingError as error:
            self.error("OI0304", node, part, error.message, _value_advice(value, row))
            return
        if not isinstance(value, NameAttr) or row.kind in ("dtype", "dtypes"):
            return
        text = value.data
        if text in row.choices:
            fix = f'write `{written}="{text}"`'
            self.error("OI0304", node, part, f"`{written}` is a string", fix)
            return
        variable = self.names.find(text)
        if variable is None and ALIASES.get(text, text) in DTYPES:
            fix = f"{row.name}: {row.doc} ({row.kind})"
            self.error("OI0304", node, part, f"`{written}` is no dtype", fix)
        if variable is not None and not variable.scalar:
            self.error(
                "OI0308",
                node,
                part,
                f"`{written}` is set from `{text}`, which is not a scalar",
                "name a scalar variable, or pass the tensor as an operand",
                self.typed(variable),
            )

    def sizes_in(
        self, value: Attribute, node: Operation, part: Part, *, numbers: bool = False
    ) -> None:
        """Size expressions in a setting, and integers that do not fit; `numbers` may have 64 bits."""
        match value:
            case ArrayAttr(data=items):
                for position, item in enumerate(items):
                    self.sizes_in(item, node, (*part, position))
            case IntegerAttr():
                number = value.value.data
                if number >= 2**63 and not numbers:
                    self.error(
                        "OI0311",
                        node,
                        part,
                        f"{number} does not fit into a signed 64-bit integer",
                        f"the largest is {2**63 - 1}",
                    )
            case SizeAttr(data=size):
                self.size(size, node, part, "a size")
            case _:
                pass


def _written(ref: Operand) -> str:
    """An operand as a hint names it."""
    if isinstance(ref, LiteralAttr):
        return ref.text
    return f"{ref.variable.data}[…]" if ref.bracketed.data else ref.variable.data


def _value_advice(value: Attribute, row: opset.Setting) -> str:
    """What to write where a setting does not take a value."""
    ours = foreign_words.DTYPES.get(value.data) if isinstance(value, NameAttr) else None
    if ours is not None and row.kind in ("dtype", "dtypes"):
        return f"write `{row.name}={ours}`"
    return f"{row.name}: {row.doc} ({row.kind})"


def _settings_advice(node: OpOp, spec: opset.OpSpec, most: int) -> str | None:
    """What to write where numbers behind the last operand are meant as settings that the op needs."""
    more = node.inputs.data[most:]
    needed = [s.name for s in spec.settings if s.required and s.name not in node.settings.data]
    literals = [operand for operand in more if isinstance(operand, LiteralAttr)]
    if spec.variadic or not more or len(literals) != len(more) or len(more) > len(needed):
        return None
    named = ", ".join(f"{name}={o.text}" for name, o in zip(needed, literals, strict=False))
    listed = ", ".join([*spec.operands, named])
    return f"a number behind the operands is a setting: `op {spec.name}({listed}) >> …;`"
