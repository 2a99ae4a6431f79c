"""What a module says of its own compilation: the target, strict mathematics, tiles and their like.

`bind-model` writes it once, as attributes of the module; passes read it with `Facts.of`. So a dump is the
whole program: what goes on from it needs no option repeated. An absent attribute means the plain thing.

    builtin.module attributes {openinfer.target = "avx2", openinfer.strict_math} { … }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

from openinfer.dialects.nn.interface import TARGET
from openinfer.runtime.devices import DEFAULT_DEVICE, checked_device, kind_of
from openinfer.runtime.devices.description import (
    MOST_INVOCATIONS,
    MOST_SHARED,
    SUBGROUPS,
    DeviceDescription,
)
from openinfer.runtime.devices.description import PLAIN as PLAIN_DEVICE
from openinfer.runtime.errors import CompileError, InputError
from openinfer.runtime.microarchitecture import DEFAULT as USUAL
from openinfer.runtime.microarchitecture import Microarchitecture
from openinfer.runtime.quick_dataclass import dataclass
from openinfer.runtime.target import TARGETS, TargetDescription, named_target
from openinfer.runtime.tuning import Tile
from openinfer.runtime.tuning_device import MOST, DeviceProduct, DeviceTile, DeviceTiles

PREFIX = "openinfer."
DEVICE = "openinfer.device"
"""The machine that kernels are made for; absent for the CPU."""
BF16_DOT = "openinfer.bf16_dot"
"""The target multiplies pairs of bf16 in one instruction: short for that feature."""

DEVICE_TILES = "openinfer.device_tiles"
"""Measured tiles of products on the device."""

_PLAIN = TARGETS["generic"]
_DESCRIBED = ("triple", "cpu", "last_cache", "features")
"""Fields of a target description that a module repeats where they are not those of its kind. The
longest text comes last."""
_OF_DEVICE = ("subgroup", "shared_memory", "invocations", "alignment")
"""Numbers of a device description that a module says where they are not the plain ones."""
_MAY = ("matrices", "f64", "workgroup_matrices")
"""What a device description says that kernels may do."""
_FLAGS = ("strict_math", "observed", "traced", "no_fallback")


@dataclass(frozen=True)
class Facts:
    """The choices of a compilation that passes ask for."""

    target: TargetDescription = _PLAIN
    """The processor, with all that LLVM is told of it."""
    strict_math: bool = False
    """No reassociation, contraction or approximation (`docs/numerics.md`)."""
    precision: str | None = None
    """What operands of products are rounded to, "bf16" or "q8"; None: they are as declared."""
    tiles: Mapping[str, Tile] = field(default_factory=lambda: MappingProxyType({}))
    """Measured tiles of products, by `product_key`."""
    observed: bool = False
    """The build whose every node can be watched: no buffer reuse."""
    traced: bool = False
    """The build that stamps a clock around its kernels."""
    no_fallback: bool = False
    """What the device does not support is an error, the host does not run it."""
    device: str = DEFAULT_DEVICE
    """The machine that kernels are made for, as `openinfer.runtime.devices` names it."""
    device_description: DeviceDescription = PLAIN_DEVICE
    """What kernels of that machine may use."""

    @staticmethod
    def of(op: Operation) -> Facts:
        """The facts of the module that `op` is, or stands in.

        Raises InputError OI0531 for attributes that say nothing sensible, UnsupportedError OI0710 for
        an unknown target, CompileError OI0962 for an op outside of every module.
        """
        module: Operation | None = op
        while (parent := module.parent_op()) is not None:
            module = parent
        if not isinstance(module, ModuleOp):
            raise CompileError("OI0962", f"'{op.name}' stands in no module, which has its facts")
        known = _KNOWN.get(module)
        # Attributes are values: where nothing was replaced, they are the same objects.
        if known is None or known[0] != module.attributes:
            known = (dict(module.attributes), _read(module.attributes))
            _KNOWN[module] = known
        return known[1]

    def write(self, module: ModuleOp) -> None:
        """Says these facts in `module`, instead of those that it says now."""
        for name in [n for n in module.attributes if n.startswith(PREFIX)]:
            del module.attributes[name]
        module.attributes.update(self._attributes())

    def _attributes(self) -> dict[str, Attribute]:
        """The attributes that mean these facts; none for what is plain."""
        found: dict[str, Attribute] = {TARGET: StringAttr(self.target.name)}
        if self.device != DEFAULT_DEVICE:
            found[DEVICE] = StringAttr(self.device)
        described = self.device_description
        for name in _OF_DEVICE:
            if getattr(described, name) != getattr(PLAIN_DEVICE, name):
                found[PREFIX + name] = IntegerAttr(getattr(described, name), i64)
        for name in _MAY:
            if getattr(described, name):
                found[PREFIX + name] = UnitAttr()
        if described.tiles:
            pairs = sorted(described.tiles.items())
            found[DEVICE_TILES] = DictionaryAttr(
                {str(p): DenseArrayBase.from_list(i64, tile.numbers) for p, tile in pairs}
            )
        for name in _FLAGS:
            if getattr(self, name):
                found[PREFIX + name] = UnitAttr()
        if self.precision is not None:
            found[PREFIX + "precision"] = StringAttr(self.precision)
        if self.tiles:
            rows = {key: _tile_attribute(tile) for key, tile in sorted(self.tiles.items())}
            found[PREFIX + "tiles"] = DictionaryAttr(rows)
        kind = named_target(self.target.name)
        for name in _DESCRIBED:
            value: str | int = getattr(self.target, name)
            if value != getattr(kind, name):
                number = isinstance(value, int)
                found[PREFIX + name] = IntegerAttr(value, i64) if number else StringAttr(value)
        if numbers := self.target.measured.numbers:
            rows = {name: IntegerAttr(value, i64) for name, value in numbers.items()}
            found[PREFIX + "measured"] = DictionaryAttr(rows)
        return found


_KNOWN: WeakKeyDictionary[ModuleOp, tuple[dict[str, Attribute], Facts]] = WeakKeyDictionary()
"""What was read of each module, and from which attributes."""


def is_bound(module: ModuleOp) -> bool:
    """Whether `bind-model` has written facts into a module, or somebody who wrote it by hand."""
    return any(name.startswith(PREFIX) for name in module.attributes)


def _read(attributes: Mapping[str, Attribute]) -> Facts:
    """The facts that the attributes of a module mean."""
    said = {n.removeprefix(PREFIX): a for n, a in attributes.items() if n.startswith(PREFIX)}
    target = named_target(_text(said, "target") or _PLAIN.name)
    described: dict[str, str | int | None] = {
        "triple": _text(said, "triple"),
        "cpu": _text(said, "cpu"),
        "features": _text(said, "features"),
        "last_cache": _number(said, "last_cache"),
    }
    target = replace(target, **{n: v for n, v in described.items() if v is not None})  # pyright: ignore
    target = replace(target, measured=_measured(said))
    if _flag(said, "bf16_dot"):
        target = target.with_bf16_dot()
    precision = _text(said, "precision")
    if precision not in (None, "bf16", "q8"):
        raise _refused("precision", f'is "{precision}"', 'expected "bf16" or "q8"')
    flags = {name: _flag(said, name) for name in _FLAGS}
    device = kind_of(checked_device(_text(said, "device") or DEFAULT_DEVICE))
    facts = Facts(
        target,
        precision=precision,
        tiles=_tiles(said),
        device=device,
        device_description=_described_device(said),
        **flags,
    )
    if said:
        raise _refused(min(said), "is none that passes know", "take it out, or mend its name")
    return facts


def _described_device(said: dict[str, Attribute]) -> DeviceDescription:
    subgroup = _number(said, "subgroup")
    if subgroup is not None and subgroup not in SUBGROUPS:
        raise _refused(
            "subgroup", f"is {subgroup}", f"write one of {', '.join(map(str, SUBGROUPS))}"
        )
    shared = _number(said, "shared_memory")
    least = PLAIN_DEVICE.shared_memory
    if shared is not None and not least <= shared <= MOST_SHARED:
        raise _refused("shared_memory", f"is {shared}", f"write {least} to {MOST_SHARED} bytes")
    invocations, fewest = _number(said, "invocations"), PLAIN_DEVICE.invocations
    if invocations is not None and not fewest <= invocations <= MOST_INVOCATIONS:
        raise _refused("invocations", f"is {invocations}", f"write {fewest} to {MOST_INVOCATIONS}")
    alignment, coarsest = _number(said, "alignment"), PLAIN_DEVICE.alignment
    if alignment is not None and alignment not in (1 << n for n in range(coarsest.bit_length())):
        raise _refused("alignment", f"is {alignment}", f"write a power of two up to {coarsest}")
    return DeviceDescription(
        subgroup or 1,
        shared or least,
        invocations or fewest,
        _flag(said, "matrices"),
        alignment or coarsest,
        _flag(said, "f64"),
        _flag(said, "workgroup_matrices"),
        _device_tiles(said),
    )


def _measured(said: dict[str, Attribute]) -> Microarchitecture:
    """`{ahead = 1024 : i64, panels = 2 : i64}`."""
    value = said.pop("measured", None)
    if value is None:
        return USUAL
    rows = value.data if isinstance(value, DictionaryAttr) else {"{…}": value}
    numbers = {
        name: row.value.data if isinstance(row, IntegerAttr) else str(row)
        for name, row in rows.items()
    }
    try:
        return Microarchitecture.of(numbers)
    except ValueError as error:
        raise _refused("measured", f"says that {error}", "write {ahead = 512 : i64}") from None


def _device_tiles(said: dict[str, Attribute]) -> DeviceTiles:
    """`{"128x384x1536 f16 transposed matrices" = array<i64: 32, 64, 192, 32, 16, 2>}`."""
    value = said.pop("device_tiles", None)
    found: dict[DeviceProduct, DeviceTile] = {}
    for key, row in value.data.items() if isinstance(value, DictionaryAttr) else ():
        product = DeviceProduct.of(key)
        numbers = list(row.get_values()) if isinstance(row, DenseArrayBase) else None
        tile = DeviceTile.of(numbers)
        if product is None or tile is None:
            break
        found[product] = tile
    else:
        if value is None or isinstance(value, DictionaryAttr):
            return found
    fix = (
        'write {"64x512x96 f32 transposed" = array<i64: 64, 32, 16, 4, 4>}: rows, columns and depth, '
        f"rows and columns of each, from 1 to {MOST}"
    )
    raise _refused("device_tiles", f"is {value}", fix)


def _refused(name: str, found: str, fix: str) -> InputError:
    return InputError("OI0531", f"the attribute '{PREFIX}{name}' of the module {found}", hint=fix)


def _flag(said: dict[str, Attribute], name: str) -> bool:
    value = said.pop(name, None)
    if value is not None and not isinstance(value, UnitAttr):
        raise _refused(name, f"is {value}", "it is there or not, without a value")
    return value is not None


def _text(said: dict[str, Attribute], name: str) -> str | None:
    value = said.pop(name, None)
    if value is not None and not isinstance(value, StringAttr):
        raise _refused(name, f"is {value}", "write a text in quotes")
    return value.data if value is not None else None


def _number(said: dict[str, Attribute], name: str) -> int | None:
    value = said.pop(name, None)
    if value is not None and not isinstance(value, IntegerAttr):
        raise _refused(name, f"is {value}", "write a number")
    return value.value.data if value is not None else None


def _tile_attribute(tile: Tile) -> DenseArrayBase:
    """`[rows, vectors]`, and the block of the contraction where there is one."""
    depth = [] if tile.depth is None else [tile.depth]
    return DenseArrayBase.from_list(i64, [tile.rows, tile.vectors, *depth])


def _tiles(said: dict[str, Attribute]) -> Mapping[str, Tile]:
    value = said.pop("tiles", None)
    if value is None:
        return MappingProxyType({})
    found: dict[str, Tile] = {}
    for key, row in value.data.items() if isinstance(value, DictionaryAttr) else ():
        numbers = row.get_values() if isinstance(row, DenseArrayBase) else ()
        if len(numbers) not in (2, 3) or any(n < 0 or n % 1 for n in numbers):
            break
        rows, vectors, *depth = map(int, numbers)
        if not rows or not vectors:
            break
        found[key] = Tile(vectors, rows, depth[0] if depth else None)
    else:
        if isinstance(value, DictionaryAttr):
            return MappingProxyType(found)
    fix = 'write {"4x64x32 f32" = array<i64: rows, vectors>}, with the depth as a third number'
    raise _refused("tiles", f"is {value}", fix)
