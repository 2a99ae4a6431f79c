"""Imports xDSL so that its classes are made in half of the time.

xDSL makes three hundred data classes and reads the syntax of a hundred ops when it is imported: a tenth of
the time that a small program takes to compile. Here they are made as those of this project are, by
`runtime/quick_dataclass.py` and `late_syntax.py`. Classes of others are made as ever, also those that another
thread imports meanwhile. Where somebody has imported xDSL before, its classes stay as they are: nothing but
time depends on it.
"""

from __future__ import annotations

import dataclasses
import sys
from functools import cache, partial
from importlib import import_module
from threading import RLock
from typing import Any

from openinfer.runtime import quick_dataclass

_CORE = (
    "xdsl.dialects.builtin",
    "xdsl.irdl.declarative_assembly_format",
    "xdsl.dialects.utils",
    "xdsl.parser",
    "xdsl.printer",
    "xdsl.pattern_rewriter",
    "xdsl.passes",
)
"""Modules with data classes of their own, each in front of those that import it. Dialects have only
attributes, whose decorator is one of these modules'."""


_STANDARD: Any = dataclasses.dataclass
_lock = RLock()
"""The first of several threads that compile imports xDSL, the others wait until it is there."""


def import_xdsl() -> None:
    """Imports what every compilation needs of xDSL. Raises ImportError where it is not installed."""
    with _lock:
        if "xdsl.ir" in sys.modules:
            return
        library: Any = dataclasses
        library.dataclass = _dataclass
        try:
            _define_quickly()
            for name in _CORE:
                import_module(name)
        finally:
            library.dataclass = _STANDARD


def _dataclass(cls: Any = None, /, **options: bool) -> Any:
    """`dataclass`, which makes xDSL's classes quickly."""
    if cls is None:
        return partial(_dataclass, **options)
    quick = cls.__module__.startswith("xdsl.")
    return (quick_dataclass.dataclass if quick else _STANDARD)(cls, **options)


def _define_quickly() -> None:
    """Has dialects that are imported from now on read syntax late, and make each constraint once."""
    irdl: Any = import_module("xdsl.irdl")
    from openinfer.dialects.late_syntax import op_definition

    standard = irdl.irdl_op_definition

    def definition(cls: Any) -> Any:
        # Ops of others are made as ever: mistakes in their syntax are found at once.
        return (op_definition if cls.__module__.startswith("xdsl.") else standard)(cls)

    irdl.irdl_op_definition = definition
    attributes: Any = import_module("xdsl.irdl.attributes")
    original = attributes.irdl_to_attr_constraint
    made = cache(original)

    def constraint(irdl: Any, *, allow_type_var: bool = False) -> Any:
        if isinstance(irdl, attributes.AttrConstraint):
            return irdl
        try:
            hash(irdl)
        except TypeError:
            return original(irdl, allow_type_var=allow_type_var)
        return made(irdl, allow_type_var=allow_type_var)

    # An operand of any float type is checked against twenty, which are compared with each other for each op.
    attributes.irdl_to_attr_constraint = constraint
