"""The ONNX graph that an export writes: nodes, constants, weights, and sizes as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openinfer.compiler.importers.onnx.element_types import NUMBERS
from openinfer.dialects.ops.base import TensorSpec
from openinfer.runtime.files import AnyPath, write_file
from openinfer.runtime.sizes import Size, SizeLike
from openinfer.runtime.storage import AnyArray, storage_dtype
from openinfer.runtime.tensors import Tensor

OPSET = 21
IR_VERSION = 10
OUTSIDE = 1 << 30
"""Bytes of weights from which they lie beside the model: a protocol buffer ends at 2 GiB."""
_PAGE = 4096


class NoForm(Exception):
    """ONNX has no form for a part of the program; the text says which part and why."""


@dataclass(frozen=True)
class Value:
    """A tensor of the graph, with the type that the program gives it."""

    name: str
    dtype: str
    dims: tuple[Size, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype, self.dims, self.name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions as numbers. Raises NoForm where only inputs tell."""
        found = [dim.constant for dim in self.dims]
        if None in found:
            raise NoForm(f"its shape {[str(dim) for dim in self.dims]} must be known")
        return tuple(n for n in found if n is not None)


@dataclass
class GraphWriter:
    """Writes one graph. Names are those of the program, with numbers where it writes one again."""

    nodes: list[Any] = field(default_factory=list[Any])
    inputs: list[Value] = field(default_factory=list[Value])
    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    names: set[str] = field(default_factory=set[str])
    scope: str = ""
    """In front of the names of nodes: `layers.0/attention`."""
    _sizes: dict[Size, str] = field(default_factory=dict[Size, str])
    _constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], str]
    )

    def fresh(self, stem: str) -> str:
        """A name that is free."""
        name, number = stem, 1
        while name in self.names:
            number += 1
            name = f"{stem}_{number}"
        self.names.add(name)
        return name

    def node(self, op: str, *inputs: str, stem: str = "", **attributes: Any) -> str:
        """A node with one output: its name."""
        return self.several(op, *inputs, stems=[stem or op.lower()], **attributes)[0]

    def several(self, op: str, *inputs: str, stems: Sequence[str], **attributes: Any) -> list[str]:
        """A node with an output for each stem. An input "" is left out."""
        from onnx import helper

        outputs = [self.fresh(stem) for stem in stems]
        given = {key: value for key, value in attributes.items() if value is not None}
        name = f"{self.scope}/{outputs[0]}" if self.scope else outputs[0]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **given))
        return outputs

    # Constants

    def weight(self, name: str, tensor: Tensor) -> str:
        """A tensor of the model, under its own name."""
        if name not in self.tensors:
            self.names.add(name)
            self.tensors[name] = tensor
        return name

    def constant(self, values: Any, dtype: str) -> str:
        """A small tensor."""
        tensor = Tensor.from_values(dtype, np.asarray(values))
        key = (dtype, tensor.shape, tensor.storage.tobytes())
        if key not in self._constants:
            self._constants[key] = name = self.fresh("constant")
            self.tensors[name] = tensor
        return self._constants[key]

    def ints(self, values: Sequence[int]) -> str:
        return self.constant(np.asarray(values, np.int64), "i64")

    # Sizes

    def size(self, size: SizeLike) -> str:
        """A size as an i64 tensor of shape [1]; those that inputs fix are read off their shapes.

        Raises NoForm for one that no input fixes.
        """
        size = Size.of(size)
        if size.constant is not None:
            return self.ints([size.constant])
        if size not in self._sizes:
            self._sizes[size] = self._computed(size)
        return self._sizes[size]

    def shape(self, dims: Sequence[SizeLike]) -> str:
        """Sizes as a 1-D i64 tensor."""
        sizes = [Size.of(dim) for dim in dims]
        numbers = [size.constant for size in sizes]
        if None not in numbers:
            return self.ints([n for n in numbers if n is not None])
        parts = [self.size(size) for size in sizes]
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0, stem="shape")

    def _computed(self, size: Size) -> str:
        total = ""
        for monomial, coefficient in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(self.ints([coefficient]))
            product = factors[0]
            for factor in factors[1:]:
                product = self.node("Mul", product, factor, stem="size")
            total = self.node("Add", total, product, stem="size") if total else product
        return total

    def _atom(self, atom: Any) -> str:
        kind, *operands = atom
        if kind == "name":
            return self._named(str(operands[0]))
        if kind == "floordiv":
            # Of sizes, which are not negative, ONNX rounds as we do.
            return self.node("Div", *map(self.size, operands), stem="size")
        return self.node({"max": "Max", "min": "Min"}[kind], *map(self.size, operands), stem="size")

    def _named(self, name: str) -> str:
        for value in self.inputs:
            for axis, dim in enumerate(value.dims):
                if dim.single_name == name:
                    return self.node("Shape", value.name, start=axis, end=axis + 1, stem=name)
        raise NoForm(f"size {name} is fixed by no input")

    # The end

    def finish(self, name: str, results: Sequence[tuple[str, Value]]) -> Exported:
        """The model with its results under the names that the program gives them."""
        current = [value.name for _, value in results]
        given: set[str] = set()

        def rename(old: str, new: str) -> None:
            self.names.add(new)
            current[:] = [new if used == old else used for used in current]
            for node in self.nodes:
                for uses in (node.input, node.output):
                    for place, used in enumerate(uses):
                        if used == old:
                            uses[place] = new

        for place, (wanted, _) in enumerate(results):
            if current[place] != wanted:
                if any(wanted in node.output for node in self.nodes):
                    rename(wanted, self.fresh(wanted))
                own = current[place]
                if own not in given and any(own in node.output for node in self.nodes):
                    rename(own, wanted)
                else:
                    # An input, a weight, or a value that is a result already.
                    self.nodes.append(_identity(own, wanted))
                    current[place] = wanted
            given.add(wanted)
        outputs = [Value(wanted, value.dtype, value.dims) for wanted, value in results]
        return Exported(name, self.nodes, self.inputs, outputs, self.tensors)


def _identity(name: str, wanted: str) -> Any:
    from onnx import helper

    return helper.make_node("Identity", [name], [wanted], name=wanted)


@dataclass
class Exported:
    """A program as an ONNX model."""

    name: str
    nodes: list[Any]
    inputs: list[Value]
    outputs: list[Value]
    tensors: dict[str, Tensor]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def proto(self) -> Any:
        """The ModelProto, with copies of the tensors in it."""
        model = self._model()
        for name, tensor in self.tensors.items():
            entry = self._entry(model, name, tensor)
            entry.raw_data = _bytes_of(tensor).tobytes()
        return model

    def write(self, path: AnyPath) -> list[Path]:
        """Writes the model; its tensors beside it in `NAME.data` where they are many. Gives the files.

        Raises OSError.
        """
        path = Path(path)
        if self.nbytes < OUTSIDE:
            write_file(path, [self.proto().SerializeToString()])
            return [path]
        beside = path.with_name(path.name + ".data")
        model, offset = self._model(), 0
        for name, tensor in self.tensors.items():
            entry = self._entry(model, name, tensor)
            entry.data_location = 1
            for key, value in (
                ("location", beside.name),
                ("offset", offset),
                ("length", tensor.nbytes),
            ):
                entry.external_data.add(key=key, value=str(value))
            offset += _padded(tensor.nbytes)
        write_file(beside, (p for tensor in self.tensors.values() for p in _pieces(tensor)))
        write_file(path, [model.SerializeToString()])
        return [path, beside]

    def _model(self) -> Any:
        from onnx import helper

        graph = helper.make_graph(
            self.nodes,
            self.name,
            [_info(value) for value in self.inputs],
            [_info(value) for value in self.outputs],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="openinfer",
        )

    @staticmethod
    def _entry(model: Any, name: str, tensor: Tensor) -> Any:
        return model.graph.initializer.add(
            name=name, data_type=element_number(tensor.dtype.name), dims=tensor.shape
        )


def element_number(dtype: str) -> int:
    """`TensorProto.DataType` of a dtype. Raises NoForm for what only we have."""
    if dtype not in NUMBERS:
        raise NoForm(f"ONNX has no dtype {dtype}")
    return NUMBERS[dtype]


def _info(value: Value) -> Any:
    from onnx import helper

    dims = [str(dim) if dim.constant is None else dim.constant for dim in value.dims]
    return helper.make_tensor_value_info(value.name, element_number(value.dtype), dims)


def _bytes_of(tensor: Tensor) -> AnyArray:
    stored = np.asarray(tensor.storage, storage_dtype(tensor.dtype), order="C")
    return stored.reshape(-1).view(np.uint8)


def _padded(nbytes: int) -> int:
    return -(-nbytes // _PAGE) * _PAGE


def _pieces(tensor: Tensor) -> list[Any]:
    return [_bytes_of(tensor).data, bytes(_padded(tensor.nbytes) - tensor.nbytes)]
