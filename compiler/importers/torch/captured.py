"""A graph that Dynamo captured as a module that `torch.export` takes: weights are its own again, numbers are
sizes or fixed, results that are views of inputs are left to PyTorch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openinfer.compiler.importers.torch.library import only_errors, torch

_PARTS = re.compile(r"\['([^']+)'\]|\.([A-Za-z_]\w*)")


def is_static(node: Any, value: Any) -> bool:
    """Whether an input of a graph is a parameter or buffer of the module."""
    if not isinstance(value, torch().Tensor):
        return False
    described = node.meta.get("tensor_dict") or {}
    return isinstance(value, torch().nn.Parameter) or "_dynamo_static_input_type" in described


def varying(node: Any, value: Any) -> list[int]:
    """The axes whose extent Dynamo leaves open."""
    shape = getattr(node.meta.get("example_value"), "shape", value.shape)
    return [axis for axis, extent in enumerate(shape) if not isinstance(extent, int)]


def fixed_numbers(placeholders: Sequence[Any], inputs: Sequence[int]) -> list[int]:
    """The places of numbers that the graph reads and that are no extent of an input: a program is made for
    each of their values. Strides and offsets are such numbers, too, but nothing reads those."""
    sizes = _sizes_of([placeholders[place] for place in inputs])
    return [
        place
        for place, node in enumerate(placeholders)
        if node.users
        and not isinstance(node.meta.get("example_value"), torch().Tensor)
        and str(node.meta.get("example_value")) not in sizes
    ]


def fixed_floats(placeholders: Sequence[Any]) -> list[int]:
    """The places of floats of which the graph needs the number, as the epsilon of a norm: a program is made
    for each of their values. Dynamo passes floats as tensors; those that only meet tensors stay so."""
    return [
        place
        for place, node in enumerate(placeholders)
        if getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        and not all(_meets_a_tensor(user) for item in node.users for user in item.users)
    ]


_MEETINGS = ("add", "sub", "mul", "truediv", "div")


def _meets_a_tensor(node: Any) -> bool:
    name = getattr(node.target, "__name__", node.target)
    return name in _MEETINGS and isinstance(node.meta.get("example_value"), torch().Tensor)


def number_of(argument: Any) -> Any:
    """A number that is an argument of a graph; floats come as tensors."""
    return argument.item() if isinstance(argument, torch().Tensor) else argument


def as_module(
    graph: Any,
    weights: Mapping[int, Any],
    inputs: Sequence[int],
    numbers: Mapping[int, Any],
    results: Sequence[Any],
) -> tuple[Any, dict[str, int]]:
    """The graph as a module of these inputs and results that has its weights, under the names of the user's
    module; with the place of each name. Sizes that come as inputs are read from the shapes of tensors."""
    with only_errors():
        module = torch().fx.GraphModule(graph, copy.deepcopy(graph.graph))
    nodes = module.graph.nodes
    placeholders = [node for node in nodes if node.op == "placeholder"]
    (output,) = [node for node in nodes if node.op == "output"]
    by_name = {node.name: node for node in nodes}
    output.args = (tuple(by_name[node.name] for node in results),)
    sizes = _sizes_of([placeholders[place] for place in inputs])
    last = placeholders[-1] if placeholders else None
    names: dict[str, int] = {}
    for place, node in enumerate(placeholders):
        if place in inputs:
            continue
        if not node.users:
            pass
        elif place in numbers:
            _fix(node, numbers[place])
        else:
            with module.graph.inserting_after(last):
                if place in weights:
                    name = _register(module, _name(node), weights[place])
                    names[name] = place
                    other = module.graph.get_attr(name)
                else:
                    tensor, axis = sizes[str(node.meta["example_value"])]
                    other = module.graph.call_method("size", (tensor, axis))
            other.meta = dict(node.meta)
            node.replace_all_uses_with(other)
            last = other if node is last else last
        module.graph.erase_node(node)
    module.graph.lint()
    return torch().fx.GraphModule(module, module.graph), names


def _fix(node: Any, number: Any) -> None:
    """Puts a number in place of an input, or of what is read of it."""
    library = torch()
    for user in list(node.users):
        if user.op == "call_method" and user.target == "item":
            _fix(user, number)
            user.graph.erase_node(user)
            continue
        user.args, user.kwargs = library.fx.node.map_arg(
            (user.args, user.kwargs), lambda one: number if one is node else one
        )


def views_of_inputs(graph: Any) -> tuple[set[str], Callable[..., tuple[Any, ...]] | None]:
    """The results that lie in the memory of an input, and what computes them: PyTorch, by the graph's own
    views. Who writes into such a result writes the input."""
    nodes = list(graph.graph.nodes)
    (output,) = [node for node in nodes if node.op == "output"]
    borrowed = {_memory(node) for node in nodes if node.op == "placeholder"} - {None}
    wanted = [
        node
        for node in output.args[0]
        if hasattr(node, "meta") and _memory(node) in borrowed and _only_views(node, borrowed)
    ]
    if not wanted:
        return set(), None
    made = torch().fx.Graph()
    known: dict[Any, Any] = {}

    def written(node: Any) -> Any:
        if node not in known:
            source = _unchanged(node)
            if source is not None:
                known[node] = written(source)
            else:
                for one in node.all_input_nodes:
                    written(one)
                known[node] = made.node_copy(node, written)
        return known[node]

    for node in nodes:
        if node.op == "placeholder":
            written(node)
    made.output(tuple(written(node) for node in wanted))
    return {node.name for node in wanted}, torch().fx.GraphModule(graph, made)


def _memory(node: Any) -> int | None:
    """A number for the memory that a tensor of the graph lies in."""
    value = node.meta.get("example_value")
    return value.untyped_storage()._cdata if isinstance(value, torch().Tensor) else None


def _unchanged(node: Any) -> Any:
    """The operand that a node hands on: where it writes in place, it was written already."""
    first = node.args[0] if node.op != "placeholder" and node.args else None
    if (
        first is None
        or not hasattr(first, "meta")
        or _memory(node) is None
        or _memory(first) != _memory(node)
    ):
        return None
    own, other = node.meta["example_value"], first.meta["example_value"]
    same = (own.shape, own.stride(), own.storage_offset(), own.dtype) == (
        *(other.shape, other.stride()),
        *(other.storage_offset(), other.dtype),
    )
    return first if same else None


def _only_views(node: Any, borrowed: set[int | None]) -> bool:
    """Whether a node is made of inputs by views and sizes alone."""
    source = _unchanged(node)
    if source is not None:
        return _only_views(source, borrowed)
    memory = _memory(node)
    if isinstance(node.meta.get("example_value"), tuple | list):
        return False
    if memory is not None and memory not in borrowed:
        return False
    return all(_only_views(one, borrowed) for one in node.all_input_nodes)


def _sizes_of(tensors: Sequence[Any]) -> dict[str, tuple[Any, int]]:
    """For each symbol the axis of an input that it is."""
    found: dict[str, tuple[Any, int]] = {}
    for node in tensors:
        for axis, extent in enumerate(node.meta["example_value"].shape):
            found.setdefault(str(extent), (node, axis))
    return found


def _name(node: Any) -> str:
    """`L['self']._modules['layer']._modules['0']._parameters['weight']` as `layer.0.weight`."""
    source: Any = getattr(node.meta.get("grapharg"), "source", None)
    name: Any = getattr(source, "name", "")
    text = str(name() if callable(name) else name)
    parts = [one or other for one, other in _PARTS.findall(text)]
    kept = [part for part in parts if part not in ("self", "_modules", "_parameters", "_buffers")]
    return ".".join(kept) or str(node.name)


def _register(module: Any, name: str, tensor: Any) -> str:
    """Gives a module a tensor under a dotted name; the name, with a number where it is taken."""
    *path, last = name.split(".")
    target = module
    for part in path:
        if not hasattr(target, part):
            target.add_module(part, torch().nn.Module())
        target = getattr(target, part)
    key, number = last, 1
    while hasattr(target, key):
        number += 1
        key = f"{last}_{number}"
    if isinstance(tensor, torch().nn.Parameter):
        target.register_parameter(key, tensor)
    else:
        target.register_buffer(key, tensor)
    return ".".join([*path, key])
