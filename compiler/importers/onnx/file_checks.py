"""What readers of an ONNX model may rely on: names, attributes and functions go together.

A file is somebody else's. Everything is looked at here, once, without the checker and the shape inference of
the library, which are C++ that was not written for hostile files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import Any

from openinfer.compiler.importers.onnx.file_tensors import check_tensor
from openinfer.compiler.importers.onnx.wire import Span
from openinfer.runtime.errors import PackageError, UnsupportedError

OLDEST_OPSET = 7
"""Operators of older sets are read where they have not changed up to this one."""
NODE_LIMIT = 1_000_000
"""Nodes of a model with its functions put in."""
_CALL_DEPTH = 64

_FIELDS = {
    1: "f",
    2: "i",
    3: "s",
    4: "t",
    5: "g",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    12: "sparse_tensors",
    13: "tp",
    14: "type_protos",
}
"""`AttributeProto.AttributeType` → the field with the value."""
_ONE = {"f", "i", "s", "t", "g", "sparse_tensor", "tp"}
_KINDS = {number: field.upper() for number, field in _FIELDS.items()} | {
    1: "FLOAT",
    2: "INT",
    3: "STRING",
    4: "TENSOR",
    5: "GRAPH",
}

Key = tuple[str, str, str]
"""A function: domain, name, overload."""


def check_model(model: Any, file: str, spans: Mapping[int, Span]) -> dict[str, int]:
    """The operator sets of a ModelProto, by domain; "" is that of ONNX itself, at least `OLDEST_OPSET`.

    Raises PackageError OI1550 to OI1556 and UnsupportedError OI1557, for the first thing that is wrong;
    every message begins with `file` and the place in it.
    """
    import onnx

    if not 3 <= model.ir_version <= onnx.IR_VERSION:
        raise PackageError(
            "OI1551",
            f"{file}: IR version {model.ir_version}; known are 3 to {onnx.IR_VERSION}",
            hint="`pip install -U onnx`, if the file is newer",
        )
    _check_texts(model, file)
    opsets = _opsets(model.opset_import, file)
    if not model.HasField("graph"):
        raise PackageError("OI1550", f"{file}: it has no graph", hint="is it an ONNX file?")
    checker = _Checker(file, _functions(model.functions, file))
    outside = {index: span.stop - span.start for index, span in spans.items()}
    checker.graph(model.graph, opsets, f"{file}: graph", [], outside)
    for (domain, name, _), function in checker.functions.items():
        where = f"{file}: function {domain}.{name}"
        checker.function(function, _opsets(function.opset_import, where), where)
    _check_calls(model, checker.functions, file)
    if "" in opsets:
        opsets[""] = max(opsets[""], OLDEST_OPSET)
    return opsets


def _check_texts(model: Any, file: str) -> None:
    """That texts are texts: the library gives bytes for those that are not UTF-8."""
    pending = [model]
    while pending:
        message = pending.pop()
        for described, value in message.ListFields():
            if described.message_type is not None:
                pending += [value] if hasattr(value, "ListFields") else value
            elif described.type == described.TYPE_STRING:
                texts = [value] if isinstance(value, str | bytes) else value
                for text in texts:
                    if isinstance(text, bytes):
                        kind = described.containing_type.name
                        raise PackageError(
                            "OI1550",
                            f"{file}: `{described.name}` of a {kind} is not UTF-8: {text[:40]!r}",
                            hint="the file was damaged: fetch or write it again",
                        )


def _opsets(imports: Iterable[Any], where: str) -> dict[str, int]:
    import onnx

    found: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if domain in found:
            raise _version(where, f"operator set {domain or 'ai.onnx'!r} is there twice")
        found[domain] = entry.version
    if not found:
        raise _version(where, "no operator set is imported")
    newest = onnx.defs.onnx_opset_version()
    if "" in found and not 1 <= found[""] <= newest:
        raise _version(where, f"operator set {found['']} of ONNX; known are 1 to {newest}")
    return found


def _version(where: str, message: str) -> PackageError:
    return PackageError(
        "OI1551",
        f"{where}: {message}",
        hint="export the model again with another `opset_version`, or `pip install -U onnx`",
    )


def _functions(functions: Iterable[Any], file: str) -> dict[Key, Any]:
    found: dict[Key, Any] = {}
    for function in functions:
        key = (function.domain, function.name, function.overload)
        if key in found:
            raise _graph(f"{file}: function {function.domain}.{function.name}", "it is there twice")
        found[key] = function
    return found


class _Checker:
    """One walk over graphs, functions and the graphs of attributes."""

    def __init__(self, file: str, functions: dict[Key, Any]) -> None:
        self.file = file
        self.functions = functions

    def graph(
        self,
        graph: Any,
        opsets: dict[str, int],
        where: str,
        outer: list[set[str]],
        outside: Mapping[int, int],
        *,
        in_function: bool = False,
    ) -> None:
        """`outside`: lengths of data that was left in the file, by position of the initializer."""
        defined: set[str] = set()
        for value in graph.input:
            _define(value.name, defined, where, "input")
            _check_type(value, where)
        inputs = frozenset(defined)
        initialized: set[str] = set()
        for index, tensor in enumerate(graph.initializer):
            place = f"{where}: initializer {tensor.name[:200]!r}"
            _define(tensor.name, initialized, where, "initializer")
            check_tensor(tensor, place, outside.get(index))
        if len(graph.sparse_initializer):
            raise UnsupportedError(
                "OI1557",
                f"{where}: {len(graph.sparse_initializer)} sparse initializers",
                hint="export the model with dense weights",
            )
        defined = set(inputs) | initialized
        self.nodes(graph.node, opsets, where, [*outer, defined], in_function)
        results: set[str] = set()
        for value in graph.output:
            _define(value.name, results, where, "output")
            if not any(value.name in scope for scope in [*outer, defined]):
                raise _graph(where, f"nothing defines its output {value.name[:200]!r}")

    def function(self, function: Any, opsets: dict[str, int], where: str) -> None:
        defined: set[str] = set()
        for name in function.input:
            _define(name, defined, where, "input")
        self.nodes(function.node, opsets, where, [defined], True)
        for name in function.output:
            if name not in defined:
                raise _graph(where, f"nothing defines its output {name[:200]!r}")

    def nodes(
        self,
        nodes: Any,
        opsets: dict[str, int],
        where: str,
        scopes: list[set[str]],
        in_function: bool,
    ) -> None:
        here = scopes[-1]
        for index, node in enumerate(nodes):
            place = f"{where}: node {index} ({node.op_type[:80]}{_named(node)})"
            domain = "" if node.domain == "ai.onnx" else node.domain
            if domain not in opsets:
                raise _version(place, f"no operator set {domain or 'ai.onnx'!r} is imported")
            for name in node.input:
                if name and not any(name in scope for scope in reversed(scopes)):
                    later = any(name in other.output for other in nodes)
                    raise _graph(
                        place,
                        f"its input {name[:200]!r} is "
                        + ("defined behind it, or by itself" if later else "nowhere defined"),
                        hint="nodes stand in the order in which they run",
                    )
            self.attributes(node, opsets, place, scopes, in_function)
            if (node.domain, node.op_type, node.overload) not in self.functions:
                _check_schema(node, domain, opsets[domain], place)
            for name in node.output:
                if name:
                    _define(name, here, place, "output")

    def attributes(
        self,
        node: Any,
        opsets: dict[str, int],
        where: str,
        scopes: list[set[str]],
        in_function: bool,
    ) -> None:
        found: set[str] = set()
        for attribute in node.attribute:
            place = f"{where}: attribute {attribute.name[:80]!r}"
            if not attribute.name or attribute.name in found:
                raise _node(place, "it is there twice" if attribute.name else "it has no name")
            found.add(attribute.name)
            filled = {
                field
                for field in _FIELDS.values()
                if (attribute.HasField(field) if field in _ONE else len(getattr(attribute, field)))
            }
            if attribute.ref_attr_name:
                if not in_function or filled:
                    raise _node(place, "it refers to an attribute of a function, and there is none")
                continue
            expected = _FIELDS.get(attribute.type)
            if expected is None or filled - {expected} or (expected in _ONE and not filled):
                shown = _KINDS.get(attribute.type, str(attribute.type))
                raise _node(
                    place, f"its type is {shown}, its value {', '.join(sorted(filled)) or 'absent'}"
                )
            if expected in ("sparse_tensor", "sparse_tensors"):
                raise UnsupportedError(
                    "OI1557",
                    f"{place}: a sparse tensor",
                    hint="export the model with dense weights",
                )
            for tensor in [attribute.t] if expected == "t" else attribute.tensors:
                check_tensor(tensor, place)
            for graph in [attribute.g] if expected == "g" else attribute.graphs:
                self.graph(graph, opsets, f"{place}: graph", scopes, {}, in_function=in_function)


def _define(name: str, defined: set[str], where: str, what: str) -> None:
    if not name:
        raise _graph(where, f"an {what} has no name")
    if name in defined:
        raise _graph(where, f"{name[:200]!r}, its {what}, is already defined")
    defined.add(name)


def _named(node: Any) -> str:
    return f" {node.name[:200]!r}" if node.name else ""


def _check_type(value: Any, where: str) -> None:
    if not value.type.HasField("tensor_type"):
        return
    for dim in value.type.tensor_type.shape.dim:
        if dim.HasField("dim_value") and dim.dim_value < 0:
            raise _graph(where, f"a dimension of {value.name[:200]!r} is {dim.dim_value}")


@cache
def _schema(name: str, domain: str, version: int) -> Any:
    """What the operator takes; None for one that `onnx` does not describe."""
    import onnx

    try:
        return onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None


def _check_schema(node: Any, domain: str, version: int, where: str) -> None:
    """Attributes and numbers of operands against the operator's description."""
    if not 0 < version < 1 << 31:
        return
    schema = _schema(node.op_type, domain, version)
    if schema is None or schema.deprecated:
        return
    if not domain and version < OLDEST_OPSET:
        later = _schema(node.op_type, domain, OLDEST_OPSET)
        if later is None or later.since_version != schema.since_version:
            raise _version(
                where, f"as in operator set {version}; it has another form from {OLDEST_OPSET} on"
            )
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, attribute in given.items():
        row = schema.attributes.get(name)
        if row is None:
            known = ", ".join(sorted(schema.attributes)) or "none"
            raise _node(where, f"there is no attribute {name[:80]!r}; known are {known}")
        if not attribute.ref_attr_name and attribute.type != int(row.type.value):
            raise _node(
                where,
                f"attribute {name!r} is {_KINDS.get(attribute.type, attribute.type)}, not {row.type.name}",
            )
    for name, row in schema.attributes.items():
        if row.required and name not in given:
            raise _node(where, f"attribute {name!r} is missing")
    for what, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise _node(where, f"it has {count} {what}, not {wanted}")


def _check_calls(model: Any, functions: Mapping[Key, Any], file: str) -> None:
    """That functions end, and how many nodes the model has with all of them put in."""
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    try:
        order = list(
            TopologicalSorter({key: set(found[1]) for key, found in calls.items()}).static_order()
        )
    except CycleError as error:
        circle = " -> ".join(f"{key[0]}.{key[1]}" for key in error.args[1][:8])
        raise _endless(file, f"functions call each other: {circle}") from None
    cost: dict[Key, int] = {}
    depth: dict[Key, int] = {}
    for key in order:
        own, called = calls[key]
        cost[key] = min(own + sum(cost[other] for other in called), NODE_LIMIT + 1)
        depth[key] = 1 + max((depth[other] for other in called), default=0)
    own, called = _calls(model.graph.node, functions)
    total = own + sum(cost[other] for other in called)
    if total > NODE_LIMIT:
        raise _endless(file, f"with its functions put in it has more than {NODE_LIMIT} nodes")
    if max(depth.values(), default=0) > _CALL_DEPTH:
        raise _endless(file, f"functions call each other over more than {_CALL_DEPTH} levels")


def _calls(nodes: Iterable[Any], functions: Mapping[Key, Any]) -> tuple[int, list[Key]]:
    """How many nodes these are with those of their graphs, and which functions they call."""
    count = 0
    called: list[Key] = []
    pending = [nodes]
    while pending:
        for node in pending.pop():
            count += 1
            key = (node.domain, node.op_type, node.overload)
            if key in functions:
                called.append(key)
            for attribute in node.attribute:
                pending += [graph.node for graph in attribute.graphs]
                if attribute.HasField("g"):
                    pending.append(attribute.g.node)
    return count, called


def _endless(file: str, message: str) -> PackageError:
    return PackageError("OI1556", f"{file}: {message}", hint="export the model again")


def _graph(where: str, message: str, hint: str = "export the model again") -> PackageError:
    return PackageError("OI1552", f"{where}: {message}", hint=hint)


def _node(where: str, message: str) -> PackageError:
    return PackageError("OI1555", f"{where}: {message}", hint="export the model again")
