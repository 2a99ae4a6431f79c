"""Operators as functions: bodies that ONNX defines, with the attributes and inputs of a call put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from openinfer.compiler.importers.onnx.refusals import LIMIT, Refusal

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, NodeProto

    from openinfer.compiler.importers.onnx.node import Node

MAX_NODES = 4096
"""Nodes of a function."""
NUMBERS = {
    "f32": 1,
    "u8": 2,
    "i8": 3,
    "u16": 4,
    "i16": 5,
    "i32": 6,
    "i64": 7,
    "bool": 9,
    "f16": 10,
    "f64": 11,
    "u32": 12,
    "u64": 13,
    "bf16": 16,
}
"""Element types of ONNX by our names."""


def body_of(node: Node) -> FunctionProto | None:
    """What ONNX says that an operator computes, as nodes; None for a primitive one."""
    from onnx import TypeProto, defs, helper

    if not defs.has(node.op, node.version, node.domain):
        return None
    schema: Any = defs.get_schema(
        node.op, node.version, node.domain
    )  # its stub lacks the functions
    function: FunctionProto | None = None
    if schema.has_function:
        function = schema.function_body
    elif schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        fit = [one for one in versions if one <= node.version]
        types = [_type_bytes(node, place, TypeProto, helper) for place in range(len(node.inputs))]
        if fit:
            text = schema.get_context_dependent_function_with_opset_version(
                fit[-1], node.proto.SerializeToString(), types
            )
            from onnx import FunctionProto as Kind

            function = Kind.FromString(text) if text else None
    if function is None or not function.node:
        return None
    return _with_defaults(function, schema)


def _type_bytes(node: Node, place: int, kind: type, helper: object) -> bytes:
    from onnx.helper import make_tensor_type_proto

    item = node.inputs[place]
    if item is None:
        return kind().SerializeToString()
    dims = [one.constant if one.constant is not None else str(one) for one in item.dims]
    return make_tensor_type_proto(NUMBERS.get(item.dtype, 1), dims).SerializeToString()


def _with_defaults(function: FunctionProto, schema: Any) -> FunctionProto:
    """The function with the default values of the operator's attributes."""
    from onnx import FunctionProto as Kind

    copy = Kind()
    copy.CopyFrom(function)
    for name in list(copy.attribute):
        default = schema.attributes[name].default_value
        if default.name:
            copy.attribute_proto.append(default)
            copy.attribute.remove(name)
    return copy


def with_attributes(function: FunctionProto, node: Node, absent: set[str]) -> Iterator[NodeProto]:
    """The nodes of a function with the attributes of its call put in, without inputs that are not given."""
    given = {one.name: one for one in function.attribute_proto}
    given.update({one.name: one for one in node.proto.attribute})
    node.ignore(*given)
    if len(function.node) > MAX_NODES:
        raise Refusal(LIMIT, f"the body of {node.op} has more than {MAX_NODES} nodes")
    for proto in function.node:
        yield _filled(proto, given, absent)


def _filled(proto: NodeProto, given: Mapping[str, AttributeProto], absent: set[str]) -> NodeProto:
    from onnx import NodeProto as Kind

    copy = Kind()
    copy.CopyFrom(proto)
    del copy.attribute[:]
    for one in proto.attribute:
        if one.ref_attr_name:
            if one.ref_attr_name in given:
                filled = copy.attribute.add()
                filled.CopyFrom(given[one.ref_attr_name])
                filled.name = one.name
                filled.ref_attr_name = ""
            continue
        kept = copy.attribute.add()
        kept.CopyFrom(one)
        if one.HasField("g"):
            inner = [_filled(each, given, absent) for each in one.g.node]
            del kept.g.node[:]
            kept.g.node.extend(inner)
    for place, name in enumerate(copy.input):
        if name in absent:
            copy.input[place] = ""
    return copy
