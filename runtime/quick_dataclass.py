"""`dataclass` as in the standard library, in a tenth of the time for each class.

The one of the standard library writes six methods as text and compiles them when a class is made: half a
millisecond for each of hundreds of classes, most of which a process never makes an object of. Here
`__init__` is compiled when the first object is made, and the others are closures over the names of the
fields. Everything else is as there: `fields`, `replace`, `is_dataclass`, inheritance in both directions,
equality and hashes. Two things come with the first object, not with the class: its signature, and the error
for a field without a default behind one that has some. Options that need more (`order`, `slots`, `kw_only`,
…) go to the standard library.
"""

from __future__ import annotations

import dataclasses
from abc import update_abstractmethods
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: Any = None, /, **options: bool) -> Any:
        """See `dataclasses.dataclass`."""
        if cls is None:
            return lambda cls: _made(cls, options)
        return _made(cls, options)


_library_dataclass: Any = dataclasses.dataclass
"""Taken here, since `dialects/quick_xdsl.py` has others take this module's."""
_Fields = dict[str, "dataclasses.Field[Any]"]
_OWN = {"init", "frozen", "eq", "repr"}
"""Options that are understood here."""
_FIELD: Any = getattr(dataclasses, "_FIELD", None)
"""What a field is marked as that is no class variable."""
_INITVAR: Any = getattr(dataclasses, "_FIELD_INITVAR", None)
"""And one that is an argument alone."""


def _made(cls: Any, options: Mapping[str, bool]) -> Any:
    added = _added_fields(cls) if options.keys() <= _OWN and _FIELD is not None else None
    fields: _Fields = {}
    for base in cls.__mro__[-1:0:-1]:
        fields.update(getattr(base, "__dataclass_fields__", {}))
    if added is None or any(map(_is_of_library, fields.values())):
        return _library_dataclass(**options)(cls)
    fields.update(added)
    frozen, equal = options.get("frozen", False), options.get("eq", True)
    made, shown = options.get("init", True), options.get("repr", True)
    own = cls.__dict__
    for name, field in added.items():
        if isinstance(own.get(name), dataclasses.Field):
            if field.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, field.default)
    cls.__dataclass_fields__ = fields
    # Of a base that the standard library made, class variables are there, too.
    fields = {name: field for name, field in fields.items() if _is_field(field)}
    cls.__dataclass_params__ = _parameters(made, frozen, equal, shown)
    methods: dict[str, Any] = {
        "__match_args__": tuple(name for name, field in fields.items() if field.init)
    }
    if made:
        methods["__init__"] = _init_later(cls, fields)
    if shown:
        methods["__repr__"] = _repr([name for name, field in fields.items() if field.repr])
    explicit_hash = own.get("__hash__", dataclasses.MISSING)
    if equal:
        if explicit_hash is dataclasses.MISSING or (explicit_hash is None and "__eq__" in own):
            hashed = [n for n, f in fields.items() if (f.compare if f.hash is None else f.hash)]
            cls.__hash__ = _hash(hashed) if frozen else None
        methods["__eq__"] = _eq(_key([name for name, field in fields.items() if field.compare]))
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _frozen(cls, fields)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return update_abstractmethods(cls)


def _added_fields(cls: Any) -> _Fields | None:
    """The fields that a class itself declares; None where the standard library has to look at them."""
    fields: _Fields = {}
    for name, kind in cls.__annotations__.items():
        if _is_special(kind):
            return None
        if _is_class_variable(kind):
            if isinstance(cls.__dict__.get(name), dataclasses.Field):
                return None
            continue
        default: Any = getattr(cls, name, dataclasses.MISSING)
        field = default
        if not isinstance(default, dataclasses.Field):
            if default.__class__.__hash__ is None or hasattr(default, "__set__"):
                return None
            field = dataclasses.field(default=default)
        if field.kw_only is True:
            return None
        field.name, field.type, field.kw_only = name, kind, False
        field._field_type = _FIELD
        fields[name] = field
    return fields


def _is_special(kind: object) -> bool:
    """Whether the annotation is no plain field's: that of an argument alone, or the mark before keywords."""
    if isinstance(kind, str):
        return "InitVar" in kind or "KW_ONLY" in kind
    special = kind is dataclasses.KW_ONLY or kind is dataclasses.InitVar
    return special or isinstance(kind, dataclasses.InitVar)


def _is_class_variable(kind: object) -> bool:
    if isinstance(kind, str):
        return kind.startswith(("ClassVar", "typing.ClassVar"))
    return kind is ClassVar or get_origin(kind) is ClassVar


def _is_of_library(field: Any) -> bool:
    """Whether an inherited field is one that only the standard library understands."""
    return field.kw_only is True or field._field_type is _INITVAR


def _is_field(field: Any) -> bool:
    return field._field_type is _FIELD


@cache
def _parameters(made: bool, frozen: bool, equal: bool, shown: bool) -> Any:
    """What the standard library notes of such a class, for those that inherit from it."""
    kind: Any = _library_dataclass(init=made, frozen=frozen, eq=equal, repr=shown)(
        type("Sample", (), {})
    )
    return kind.__dataclass_params__


def _init_later(cls: Any, fields: _Fields) -> Callable[..., None]:
    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        init = _init(cls, fields)
        if cls.__dict__.get("__init__") is __init__:
            cls.__init__ = init
        init(self, *arguments, **named)

    return __init__


def _init(cls: Any, fields: _Fields) -> Callable[..., None]:
    """Compiles `__init__`."""
    space: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    store = "_set(self, {0!r}, {1})" if cls.__dataclass_params__.frozen else "self.{0} = {1}"
    parameters, lines = ["self"], list[str]()
    for name, field in fields.items():
        value = name
        if field.default_factory is not dataclasses.MISSING:
            space[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}()"
            if field.init:
                parameters.append(f"{name}=_missing")
                value = f"{value} if {name} is _missing else {name}"
        elif not field.init:
            # Either the class has its value, or somebody else gives it one.
            continue
        elif field.default is not dataclasses.MISSING:
            space[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(store.format(name, value))
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n    {body}", space)
    init = space["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


def _key(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of some fields."""
    if not names:
        return lambda self: ()
    if len(names) == 1:
        one = attrgetter(names[0])
        return lambda self: (one(self),)
    return attrgetter(*names)


def _eq(key: Callable[[Any], object]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return key(self) == key(other)
        return NotImplemented

    return __eq__


def _hash(names: list[str]) -> Callable[[Any], int]:
    key = _key(names)

    def __hash__(self: Any) -> int:
        return hash(key(self))

    if len(names) == 1:
        # One call less for the many classes with one field.
        one = attrgetter(names[0])

        def __hash__(self: Any) -> int:
            return hash((one(self),))

    return __hash__


def _repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _frozen(cls: Any, fields: _Fields) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__
