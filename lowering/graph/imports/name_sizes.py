"""Numbers that a model's configuration names get these names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from openinfer.dialects.graph import (
    AssignOp,
    LoopOp,
    NameAttr,
    OpOp,
    PackageSizeOp,
    SizeAttr,
    VariableOp,
)
from openinfer.lowering.graph.imports.meaning import same_program
from openinfer.lowering.graph.imports.names_of import all_ops, taken_names
from openinfer.lowering.operations import take_body
from openinfer.runtime.sizes import Size

DIMENSIONS = (
    *("hidden_size", "d_model", "n_embd", "dim", "vocab_size"),
    *("intermediate_size", "ffn_dim", "d_ff", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"),
)
"""Keys of a configuration that name dimensions; of two with one value the first."""
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads")
KV_HEADS = ("num_key_value_heads",)
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers")
SIZES = (*DIMENSIONS, *HEADS, *KV_HEADS, *LAYERS)
"""Keys that become sizes of a program."""
SMALLEST = 32
"""A smaller dimension keeps its number: it may be anything."""


@dataclass(frozen=True)
class NameSizes(ModulePass):
    """Numbers that a model's configuration names get these names, where they are what the name says.

    Before:
        graph.package_size "hidden_size" = 384
        graph.variable w constant f32 [384, 2] {ref = "w"}
    After:
        graph.package_size "hidden_size" = 384
        graph.variable w constant f32 [hidden_size, 2] {ref = "w"}

    Requires: an imported program, with the sizes of its configuration in front.
    Leaves: small numbers, and settings other than shapes and heads: `perm=[0, 2, 1]` has no names.
        Sizes that nothing is called by go.
    """

    name: ClassVar[str] = "name-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        sizes = [one for one in op.body.ops if isinstance(one, PackageSizeOp)]
        taken = taken_names(op)
        known = {
            one.size.data: one.value.data.constant or 0
            for one in sizes
            if one.size.data in SIZES and one.size.data not in taken
        }
        named = op.clone()
        _Sizes(known).put(named)
        used = taken_names(named) | _in_settings(named)
        for one in list(named.body.ops):
            if isinstance(one, PackageSizeOp) and not {one.size.data} & used & known.keys():
                one.detach()
                one.erase()
        if same_program(op, named):
            take_body(op, named)


class _Sizes:
    """The names of numbers, by what they are."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._dimensions = _by_value(known, DIMENSIONS, SMALLEST)
        self._heads = _by_value(known, (*HEADS, *KV_HEADS), 2)
        self._kv_heads = _by_value(known, (*KV_HEADS, *HEADS), 2)
        self._layers = _by_value(known, LAYERS, 2)

    def put(self, module: ModuleOp) -> None:
        for op in all_ops(module):
            match op:
                case VariableOp() if op.memory.data == "constant":
                    op.properties["dims"] = ArrayAttr([self._dim(dim) for dim in op.dims])
                case AssignOp():
                    op.properties["dims"] = ArrayAttr([self._dim(dim) for dim in op.dims])
                case OpOp():
                    settings = {k: self._setting(k, v) for k, v in op.settings.data.items()}
                    op.properties["settings"] = DictionaryAttr(settings)
                case LoopOp() if op.start.data == Size.of(0):
                    name = self._layers.get(op.stop.data.constant or 0)
                    if name is not None:
                        op.properties["stop"] = SizeAttr.of(name)
                case _:
                    pass

    def _dim(self, dim: SizeAttr) -> SizeAttr:
        name = self._dimensions.get(dim.data.constant or 0)
        return SizeAttr.of(name) if name is not None else dim

    def _setting(self, key: str, value: Attribute) -> Attribute:
        if key == "shape" and isinstance(value, ArrayAttr):
            return ArrayAttr([self._number(item, self._dimensions) for item in value])
        if key == "heads":
            return self._number(value, self._heads)
        return self._number(value, self._kv_heads) if key == "kv_heads" else value

    def _number(self, value: Attribute, names: Mapping[int, str]) -> Attribute:
        if isinstance(value, IntegerAttr) and value.value.data in names:
            return NameAttr(names[value.value.data])
        if isinstance(value, SizeAttr) and (value.data.constant or 0) in names:
            return NameAttr(names[value.data.constant or 0])
        return value


def _by_value(known: Mapping[str, int], keys: tuple[str, ...], least: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for key in keys:
        if known.get(key, 0) >= least:
            found.setdefault(known[key], key)
    return found


def _in_settings(module: ModuleOp) -> set[str]:
    found: set[str] = set()

    def gather(value: Attribute) -> None:
        if isinstance(value, NameAttr):
            found.add(value.data)
        elif isinstance(value, ArrayAttr):
            for item in value:
                gather(item)

    for op in all_ops(module):
        if isinstance(op, OpOp):
            for value in op.settings.data.values():
                gather(value)
    return found
