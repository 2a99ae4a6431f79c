"""Derive an op class from one of xDSL's with wider types, other traits, or another syntax.

xDSL looks ops up by name, so a dialect object of the same name that lists the derived class
replaces the original everywhere. The derived class stays a Python subclass: passes and patterns
that match on the original class keep working on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from xdsl.ir import Dialect, Operation, OpTrait, OpTraits
from xdsl.irdl import AttrConstraint, IRDLOperation, RangeOf, VariadicDef
from xdsl.irdl.operations import OperandDef, ResultDef, get_accessors_from_op_def

from openinfer.dialects.late_syntax import give_syntax

_OpT = TypeVar("_OpT", bound=type[IRDLOperation])


def _redefine(
    definitions: list[tuple[str, Any]], changes: Mapping[str, AttrConstraint]
) -> list[tuple[str, Any]]:
    unknown = set(changes) - {name for name, _ in definitions}
    if unknown:
        raise ValueError(f"no such operand or result: {sorted(unknown)}")
    redefined: list[tuple[str, OperandDef | ResultDef]] = []
    for name, definition in definitions:
        if name in changes:
            constraint = changes[name]
            wants_range = isinstance(definition, VariadicDef)
            definition = type(definition)(RangeOf(constraint) if wants_range else constraint)
        redefined.append((name, definition))
    return redefined


def _traits(traits: tuple[OpTrait, ...]) -> OpTraits:
    return OpTraits(lambda: traits)


def extended_op(
    *,
    operands: Mapping[str, AttrConstraint] | None = None,
    results: Mapping[str, AttrConstraint] | None = None,
    traits: tuple[OpTrait, ...] | None = None,
    custom_syntax: bool = False,
    assembly_format: str | None = None,
) -> Callable[[_OpT], _OpT]:
    """Class decorator that turns a plain subclass of an xDSL op into an op definition.

    `operands` and `results` give new constraints by name, `traits` replaces all traits of the
    base. A `verify_` method in the class replaces the base's own check (the constraints are still
    checked). `custom_syntax` says that the class brings its own `parse` and `print`,
    `assembly_format` that it brings a declarative syntax; otherwise the base's syntax stays.
    """

    def decorate(cls: _OpT) -> _OpT:
        base = cls.__bases__[0]
        assert issubclass(base, IRDLOperation)
        definition = base.get_irdl_definition()
        syntax = definition.assembly_format
        has_own_syntax = custom_syntax or assembly_format is not None
        definition = replace(
            definition,
            operands=_redefine(definition.operands, operands or {}),
            results=_redefine(definition.results, results or {}),
            traits=definition.traits if traits is None else _traits(traits),
            assembly_format=None,
        )
        own = dict(cls.__dict__)
        accessors = get_accessors_from_op_def(definition, own.pop("verify_", None))
        for name, value in accessors.items():
            if name not in own:
                setattr(cls, name, value)
        definition.assembly_format = assembly_format if has_own_syntax else syntax
        if definition.assembly_format is not None:
            give_syntax(cls, definition)
        return cls

    return decorate


def add_traits(op: type[Operation], *traits: OpTrait) -> None:
    """Give an xDSL op class traits that it lacks, in place: ops built by xDSL's own code have them
    too. Only for facts that hold for every user of the class, such as memory effects.
    """
    for trait in traits:
        if trait not in op.traits:
            op.traits.add_trait(trait)


def extended_dialect(
    base: Dialect, added: tuple[type[Operation], ...], attributes: tuple[Any, ...] = ()
) -> Dialect:
    """A dialect of the same name in which each op of `added` replaces or joins those of `base`.

    Interfaces are passed on; without them `canonicalize` could not materialise folded constants.
    """
    by_name = {op.name: op for op in base.operations}
    by_name |= {op.name: op for op in added}
    interfaces = list(base._interfaces)  # pyright: ignore[reportPrivateUsage]
    return Dialect(base.name, list(by_name.values()), [*base.attributes, *attributes], interfaces)
