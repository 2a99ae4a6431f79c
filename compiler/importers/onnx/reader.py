"""ModelProto → a program of level `graph`: nodes in order, each by the handler of its operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.compiler.importers.graph_writer import GraphWriter, Imported, Value
from openinfer.compiler.importers.onnx.bodies import body_of
from openinfer.compiler.importers.onnx.content import content_of
from openinfer.compiler.importers.onnx.families import HANDLERS
from openinfer.compiler.importers.onnx.items import (
    Array,
    Item,
    of_content,
    of_value,
    our_dtype,
    use_ml_dtypes,
    write_content,
)
from openinfer.compiler.importers.onnx.model_file import ModelFile, load_model
from openinfer.compiler.importers.onnx.node import Import, Node, Result
from openinfer.compiler.importers.onnx.origin import provenance
from openinfer.compiler.importers.onnx.protos import (
    array_of,
    attribute_value,
    element_dtype,
)
from openinfer.compiler.importers.onnx.refusals import (
    ATTRIBUTE,
    DAMAGED,
    LIMIT,
    OPERATOR,
    RULE,
    TYPE,
    Refusal,
    Refusals,
    guarded,
)
from openinfer.dialects.ops.base import OpError
from openinfer.lowering.graph.imports.tensors import FOLD_LIMIT
from openinfer.runtime.files import AnyPath
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import Tensor

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

NEWEST = 28
"""The newest operator set that handlers know."""
MAX_DEPTH = 32
"""Functions and branches inside of each other."""


@dataclass
class OnnxProgram:
    """An imported model, and what its inputs and outputs are called in the program."""

    imported: Imported
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])


def read_model(
    source: AnyPath | bytes | ModelProto,
    *,
    folder: AnyPath | None = None,
    values: Mapping[str, Any] | None = None,
) -> OnnxProgram:
    """The program of a model: a file, its bytes or a ModelProto, whose external data lies in `folder`.

    `values` give some inputs for good, as arrays: shapes follow from them. Raises RefusedModel with
    everything that cannot be imported, PackageError and UnsupportedError for a damaged file.
    """
    file = load_model(source, folder=folder)
    use_ml_dtypes()
    return _ModelReader(file, values or {}).read()


class _ModelReader:
    """One import."""

    def __init__(self, file: ModelFile, values: Mapping[str, Any]) -> None:
        self.file = file
        self.model: ModelProto = file.proto
        self.source = file.name
        self.values = values
        self.refusals = Refusals()
        self.versions = {_domain(one.domain): one.version for one in self.model.opset_import}
        self.functions = {(_domain(one.domain), one.name): one for one in self.model.functions}

    def read(self) -> OnnxProgram:
        graph = self.model.graph
        constants = {one.name for one in graph.initializer}
        inputs = [
            one for one in graph.input if one.name not in constants and one.name not in self.values
        ]
        names = unique_names([one.name for one in inputs], set())
        outputs = unique_names([one.name for one in graph.output], set(names.values()))
        reserved = [*names.values(), *outputs.values()]
        sizes = SizeNames(reserved, _size_texts(inputs))
        g = GraphWriter([*reserved, *sizes.names.values()])
        shared = Import(self.refusals, self.file)
        reader = GraphReader(shared, g, self.versions, self.functions)
        for info in inputs:
            self._guard(
                info.name, lambda info=info: self._input(reader, info, names[info.name], sizes)
            )
        for name, array in self.values.items():
            reader.define(name, reader.constant(name, np.asarray(array)))
        reader.read_graph(graph)
        self.refusals.raise_all(f"{self.source}: ")
        results: list[tuple[str, Value]] = []
        for info in graph.output:
            item = reader.lookup(info.name)
            if item is None:
                reader.refuse(Refusal(DAMAGED, f"nothing computes the output {info.name}"), "")
                continue
            self._guard(
                info.name,
                lambda name=outputs[info.name], item=item: results.append((name, item.value)),
            )
        self.refusals.raise_all(f"{self.source}: ")
        imported = g.finish(results, source=self.source, calls=len(graph.node))
        return OnnxProgram(imported, names, outputs)

    def _guard(self, name: str, work: Any) -> None:
        try:
            guarded(work)
        except Refusal as refusal:
            self.refusals.add(refusal, name)

    def _input(
        self, reader: GraphReader, info: ValueInfoProto, name: str, sizes: SizeNames
    ) -> None:
        reader.define(info.name, None)
        if not info.type.HasField("tensor_type"):
            raise Refusal(TYPE, f"input {info.name} is no tensor")
        kind = info.type.tensor_type
        dtype = element_dtype(kind.elem_type, f"input {info.name}")
        if not kind.HasField("shape"):
            raise Refusal(DAMAGED, f"input {info.name} has no shape: its rank must be known")
        dims = [sizes.of(info.name, place, dim) for place, dim in enumerate(kind.shape.dim)]
        value = reader.g.input(name, dtype, dims)
        reader.define(info.name, of_value(info.name, value, frozenset([info.name])))


class Incomplete(Refusal):
    """A node whose parts were refused: the report has the reasons."""

    def __init__(self) -> None:
        super().__init__(DAMAGED, "incomplete")


class SizeNames:
    """What the open dimensions of inputs are called: as the model does, else B, L, or by the input."""

    def __init__(self, taken: Sequence[str], texts: Sequence[str]) -> None:
        self._taken = set(taken)
        self.names = unique_names(list(dict.fromkeys(texts)), self._taken)
        self._taken |= set(self.names.values())

    def of(self, name: str, place: int, dim: Any) -> Size:
        """The size of one dimension of an input."""
        if dim.HasField("dim_value"):
            if dim.dim_value < 0:
                raise Refusal(DAMAGED, f"input {name} has a dimension of {dim.dim_value}")
            return Size.of(dim.dim_value)
        text = dim.dim_param
        key = text or f"{name}.{place}"
        if key not in self.names:
            self.names[key] = unique_names([f"{name}_{place}"], self._taken)[f"{name}_{place}"]
            self._taken.add(self.names[key])
        return Size.name(self.names[key])


def _size_texts(inputs: Sequence[ValueInfoProto]) -> list[str]:
    return [
        dim.dim_param for info in inputs for dim in info.type.tensor_type.shape.dim if dim.dim_param
    ]


class GraphReader:
    """Reads a graph, and those inside of it; names of an inner graph hide those around it."""

    def __init__(
        self,
        shared: Import,
        g: GraphWriter,
        versions: Mapping[str, int],
        functions: Mapping[tuple[str, str], FunctionProto],
        outer: GraphReader | None = None,
        path: str = "",
    ) -> None:
        self.shared = shared
        self.g = g
        self.versions = versions
        self.functions = functions
        self.outer = outer
        self.path = path
        self.depth: int = 0 if outer is None else outer.depth + 1
        self._items: dict[str, Item | None] = {}
        if self.depth > MAX_DEPTH:
            raise Refusal(
                LIMIT, f"functions and branches lie more than {MAX_DEPTH} deep in each other"
            )

    # Names

    def define(self, name: str, item: Item | None) -> None:
        """Gives a name its item; None for one that could not be imported."""
        self._items[name] = item

    def lookup(self, name: str) -> Item | None:
        """The item of a name; None where its node was refused. Raises Refusal for one that nobody defines."""
        reader: GraphReader | None = self
        while reader is not None:
            if name in reader._items:
                return reader._items[name]
            reader = reader.outer
        raise Refusal(DAMAGED, f"nothing defines {name}", "nodes must stand in order")

    def refuse(self, refusal: Refusal, place: str) -> None:
        """Keeps a refusal for the report."""
        self.shared.refusals.add(refusal, place)

    def constant(self, name: str, array: Any) -> Item:
        """An item for an array or a tensor of the file: known to the import if it is small, else a weight."""
        if isinstance(array, Tensor) and array.nbytes <= FOLD_LIMIT:
            array = array_of(array)
        if isinstance(array, Tensor):
            return self._weight(name, array, array.dtype.name, array.shape)
        dtype = our_dtype(array)
        if dtype is None:
            raise Refusal(TYPE, f"{name} has elements of {array.dtype}, which openinfer lacks")
        if array.nbytes <= FOLD_LIMIT:
            return of_content(name, np.asarray(array), dtype, self._write_content)
        return self._weight(name, array, dtype, array.shape)

    def _weight(self, name: str, array: Any, dtype: str, shape: Sequence[int]) -> Item:
        dims = tuple(Size.of(extent) for extent in shape)

        def weight(item: Item) -> Value:
            return self.g.weight(self._ref(item.name), array, dtype, dims)

        return Item(name, dtype, dims, None, None, weight)

    def content(self, array: Array, dtype: str, name: str = "") -> Item:
        """An item for a content that the import computed."""
        return of_content(name, array, dtype, self._write_content)

    def _write_content(self, item: Item) -> Value:
        """Equal contents that are no initializers are one constant: exporters write them again and again."""
        content = item.content
        if item.weight or content is None or content.dtype == object or content.nbytes > 1 << 16:
            return write_content(self.g, item, self._ref(item.name))
        key = item.dtype, content.shape, content.tobytes()
        constants = self.shared.constants
        if key not in constants:
            constants[key] = write_content(self.g, item, self._ref(item.name))
        return constants[key]

    def _ref(self, name: str) -> str:
        """A name in the package that nothing else has: inner graphs may use one twice."""
        stem = name or "constant"
        ref, number = stem, 1
        while ref in self.g.tensors:
            number += 1
            ref = f"{stem}_{number}"
        return ref

    # Graphs and nodes

    def results_of(self, graph: GraphProto) -> list[Item]:
        """The results of a graph inside of a node. Raises Refusal."""
        before = len(self.shared.refusals.found)
        self.read_graph(graph)
        results = [self.lookup(info.name) for info in graph.output]
        if len(self.shared.refusals.found) > before:
            raise Incomplete()
        return [one for one in results if one is not None]

    def inner(self, path: str = "") -> GraphReader:
        """A reader for a graph inside of this one."""
        return GraphReader(
            self.shared, self.g, self.versions, self.functions, self, path or self.path
        )

    def read_graph(self, graph: GraphProto) -> None:
        """Reads initializers and nodes."""
        for proto in graph.initializer:
            self._try(proto.name, [proto.name], lambda proto=proto: self._initializer(proto))
        if graph.sparse_initializer:
            self.refuse(Refusal(TYPE, "sparse initializers are not supported"), "")
        for proto in graph.node:
            self.read_node(proto)

    def _initializer(self, proto: TensorProto) -> None:
        element_dtype(proto.data_type, f"tensor {proto.name}")
        item = self.constant(proto.name, self.shared.file.tensor(proto))
        item.weight = True
        self.define(proto.name, item)

    def _array(self, proto: TensorProto) -> Array:
        """The elements of a tensor in an attribute."""
        element_dtype(proto.data_type, "an attribute")
        return array_of(self.shared.file.tensor(proto))

    def read_node(self, proto: NodeProto) -> None:
        """Reads one node; where that fails its outputs are unknown, and the refusal is kept."""
        self._try(
            proto.name or next(iter(proto.output), ""), proto.output, lambda: self._node(proto)
        )

    def _try(self, place: str, outputs: Sequence[str], work: Any) -> None:
        try:
            guarded(work)
        except Refusal as refusal:
            if not isinstance(refusal, Incomplete):
                self.refuse(refusal, f"{self.path}.{place}" if self.path else place)
            for name in outputs:
                self.define(name, None)

    def _node(self, proto: NodeProto) -> None:
        inputs: list[Item | None] = []
        for name in proto.input:
            item = self.lookup(name) if name else None
            if name and item is None:
                # The reason was told where it was refused.
                for output in proto.output:
                    self.define(output, None)
                return
            inputs.append(item)
        while inputs and inputs[-1] is None:
            inputs.pop()
        domain = _domain(proto.domain)
        attributes = {one.name: attribute_value(one, self._array) for one in proto.attribute}
        version = self.versions.get(domain, NEWEST if domain == "" else 1)
        node = Node(
            proto.op_type, domain, version, attributes, inputs, list(proto.output), self, proto
        )
        with self.g.at(provenance(proto, self.path)):
            results = self.run(node)
        self._define_results(node, results)

    def _define_results(self, node: Node, results: Sequence[Result]) -> None:
        used = frozenset().union(*(one.inputs for one in node.inputs if one is not None))
        for place, name in enumerate(node.outputs):
            if not name:
                continue
            result = results[place] if place < len(results) else None
            if result is None:
                raise Refusal(ATTRIBUTE, f"{node.op} does not give its output {place} here")
            if isinstance(result, Value):
                result = of_value(name, result, used)
                self._foldable(node, place, result)
            elif result.inputs != used or not result.name:
                # A sequence stays one.
                result = replace(result, name=result.name or name, inputs=result.inputs | used)
            self.define(name, result)

    def _foldable(self, node: Node, place: int, result: Item) -> None:
        """Constants in, a constant out: computed by the simulator if somebody needs the content."""
        if result.inputs or any(
            one is not None and one.content is None and one.fold is None for one in node.inputs
        ):
            return
        if node.op in RANDOM or not node.inputs:
            return
        result.fold = lambda: fold(node, place)

    def run(self, node: Node) -> Sequence[Result]:
        """The results of a node. Raises Refusal."""
        _check_version(node)
        known = content_of(node)
        if known is not None:
            return known
        function = self.functions.get((node.domain, node.op))
        if function is not None:
            return self.call(node, function)
        handler = HANDLERS.get((node.domain, node.op))
        try:
            if handler is None:
                function = body_of(node)
                if function is None:
                    raise Refusal(OPERATOR, _unknown(node))
                return self.call(node, function)
            results = handler(node)
        except OpError as error:
            raise Refusal(RULE, f"{node.op}: {error.message}", error.hint) from error
        if left := node.left():
            raise Refusal(ATTRIBUTE, f"{node.op} with the attribute {left[0]} is not supported")
        return list(results) if isinstance(results, Sequence) else [results]

    def call(self, node: Node, function: FunctionProto) -> Sequence[Result]:
        """The body of a function in place of its call; ops know that they come from there."""
        from openinfer.compiler.importers.onnx.bodies import with_attributes

        versions = {
            **self.versions,
            **{_domain(one.domain): one.version for one in function.opset_import},
        }
        path = ".".join(part for part in (self.path, node.proto.name or node.op) if part)
        reader = GraphReader(self.shared, self.g, versions, self.functions, self, path)
        for place, name in enumerate(function.input):
            reader.define(name, node.inputs[place] if place < len(node.inputs) else None)
        absent = {name for place, name in enumerate(function.input) if not node.there(place)}
        before = len(self.shared.refusals.found)
        for proto in with_attributes(function, node, absent):
            reader.read_node(proto)
        results = [
            reader.lookup(name) if node.wants(place) else None
            for place, name in enumerate(function.output)
        ]
        if len(self.shared.refusals.found) > before:
            raise Incomplete()
        return results


RANDOM = frozenset(
    (
        "RandomUniform",
        "RandomNormal",
        "RandomUniformLike",
        "RandomNormalLike",
        "Bernoulli",
        "Multinomial",
        "Dropout",
    )
)
"""Operators whose results are drawn anew in each step."""


def fold(node: Node, place: int) -> Array | None:
    """The content of a result of constants, by the simulator; None for one that is too large."""
    from openinfer.compiler.importers.onnx.folding import simulated

    contents = [None if one is None else one.numbers() for one in node.inputs]
    if any(one is not None and found is None for one, found in zip(node.inputs, contents)):
        return None

    def write(g: GraphWriter) -> Value:
        shared = Import(node.reader.shared.refusals, node.reader.shared.file)
        reader = GraphReader(shared, g, node.reader.versions, node.reader.functions)
        items = [
            None if one is None or found is None else reader.content(found, one.dtype, one.name)
            for one, found in zip(node.inputs, contents)
        ]
        again = Node(
            node.op,
            node.domain,
            node.version,
            node.attributes,
            items,
            node.outputs,
            reader,
            node.proto,
        )
        result = reader.run(again)[place]
        assert result is not None
        return result if isinstance(result, Value) else result.value

    return simulated(write)


def unique_names(names: Sequence[str], taken: set[str]) -> dict[str, str]:
    """What a program calls these, all different."""
    found: dict[str, str] = {}
    used = set(taken)
    for name in names:
        stem = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name) or "v"
        stem = f"v{stem}" if stem[0].isdigit() else stem
        clean, number = stem, 1
        while clean in used:
            number += 1
            clean = f"{stem}_{number}"
        used.add(clean)
        found[name] = clean
    return found


def _check_version(node: Node) -> None:
    """Refuses an operator that changed after the newest set that handlers know."""
    if node.domain != "" or node.version <= NEWEST:
        return
    from onnx import defs

    if (
        defs.has(node.op, node.version)
        and defs.get_schema(node.op, node.version).since_version > NEWEST
    ):
        raise Refusal(
            OPERATOR,
            f"{node.op} of operator set {node.version} is not supported; sets up to {NEWEST} are",
            "onnx.version_converter.convert_version may bring the model to an older one",
        )


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _unknown(node: Node) -> str:
    where = f" of the domain {node.domain}" if node.domain else ""
    return f"operator {node.op}{where} is not supported"
