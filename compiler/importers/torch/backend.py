"""`torch.compile(module, backend="openinfer")`: graphs that Dynamo captured, by the same way as `from_torch`.

Parameters and buffers come as inputs of such a graph; here they are the module's again, so that their memory
is borrowed once. A program is made for the sizes that may vary, and again for inputs that it does not take.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from openinfer.compiler.importers.torch.exported import import_exported
from openinfer.compiler.importers.torch.library import torch
from openinfer.compiler.importers.torch.refusals import Refusal, error_of
from openinfer.lowering.graph.imports.provenance import Provenance
from openinfer.runtime.errors import InputError
from openinfer.runtime.tensors import Tensor

_PARTS = re.compile(r"\['([^']+)'\]|\.([A-Za-z_]\w*)")


def openinfer(graph: Any, example_inputs: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """A backend of `torch.compile`, for inference: results carry no gradients.

    Raises UnsupportedError OI1500 with everything that cannot be imported.
    """
    return _Compiled(graph, example_inputs)


class _Compiled:
    """What Dynamo calls instead of its graph: programs for it, made when inputs need one."""

    def __init__(self, graph: Any, example_inputs: Sequence[Any]) -> None:
        self._graph = graph
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        (output,) = [node for node in graph.graph.nodes if node.op == "output"]
        self._outputs: list[Any] = list(output.args[0])
        self._static = [
            place
            for place, (node, value) in enumerate(zip(self._placeholders, example_inputs))
            if _is_static(node, value)
        ]
        self._inputs = [
            place
            for place, value in enumerate(example_inputs)
            if place not in self._static and isinstance(value, torch().Tensor)
        ]
        # Made at the first call: what Dynamo shows here may be without data, and belongs to its own sizes.
        self._programs: list[_Program] = []

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        program = self._program_for(arguments)
        found = iter(program.run([arguments[place] for place in self._inputs]))
        return tuple(_result(one, found) for one in self._outputs)

    def _program_for(self, arguments: Sequence[Any]) -> _Program:
        """One that takes these sizes and has these weights."""
        weights = [arguments[place] for place in self._static]
        inputs = [arguments[place] for place in self._inputs]
        for program in self._programs:
            if program.has(weights) and program.takes(inputs):
                return program
        self._programs = [one for one in self._programs if one.has(weights)]
        self._programs.append(self._make(arguments, weights, inputs))
        return self._programs[-1]

    def _make(
        self, arguments: Sequence[Any], weights: Sequence[Any], inputs: Sequence[Any]
    ) -> _Program:
        module = _with_weights(self._graph, dict(zip(self._static, weights)), self._inputs)
        shapes = tuple(
            {axis: torch().export.Dim.AUTO for axis in _varying(self._placeholders[place], value)}
            for place, value in zip(self._inputs, inputs)
        )
        examples = tuple(one.detach() for one in inputs)
        with torch().no_grad():
            exported = torch().export.export(
                module, examples, dynamic_shapes=shapes or None, strict=False
            )
        written = exported.graph_signature.buffers_to_mutate
        if written:
            reason = f"the module writes its buffers {', '.join(written.values())}"
            refusal = Refusal("copy_", reason, "from_torch keeps them as state", Provenance())
            raise error_of([refusal], "the graph")
        imported = import_exported(exported, None, "the graph")
        names = list(exported.graph_signature.user_inputs)
        return _Program(imported, names, weights)


class _Program:
    """A compiled program, and the weights that it borrowed, as they were."""

    def __init__(self, imported: Any, names: Sequence[str], weights: Sequence[Any]) -> None:
        from openinfer.compiler.api import compile as compiled
        from openinfer.compiler.importers.readable import readable

        graph, package, _ = readable(imported)
        program = compiled(graph, package)
        self._executor = program.make_executor()
        rows = {row.name: row for row in program.inputs}
        self._rows = [(place, rows[name]) for place, name in enumerate(names) if name in rows]
        self._weights = [(one, one.data_ptr(), one._version) for one in weights]

    def has(self, weights: Sequence[Any]) -> bool:
        """Whether these are the weights, and nobody wrote into them."""
        return all(
            one.data_ptr() == pointer and one._version == version
            for one, (_, pointer, version) in zip(weights, self._weights)
        )

    def takes(self, inputs: Sequence[Any]) -> bool:
        """Whether the program has these shapes: numbers are equal, and sizes of one name."""
        sizes: dict[str, int] = {}
        for place, row in self._rows:
            for dim, extent in zip(row.shape, inputs[place].shape):
                wanted = dim if isinstance(dim, int) else sizes.setdefault(dim, extent)
                if wanted != extent:
                    return False
        return True

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results as tensors of PyTorch, without a copy; sizes as numbers."""
        given: dict[str, Any] = {}
        for place, row in self._rows:
            value = inputs[place]
            if value.requires_grad and torch().is_grad_enabled():
                raise InputError(
                    "OI1506",
                    f"input {row.name} asks for gradients, and programs of openinfer compute none",
                    hint="call the module within torch.no_grad()",
                )
            given[row.name] = value.detach()
        return [_as_torch(value) for value in self._executor.run(**given).values()]


def _result(output: Any, found: Iterator[Any]) -> Any:
    """A result of the graph: one that it does not compute is there already, a size is a number."""
    if not hasattr(output, "meta"):
        return output
    value = next(found)
    is_size = isinstance(output.meta.get("example_value"), torch().SymInt)
    return int(value) if is_size else value


def _as_torch(value: Any) -> Any:
    return torch().from_dlpack(value) if isinstance(value, Tensor) else torch().as_tensor(value)


def _is_static(node: Any, value: Any) -> bool:
    """Whether an input of a graph is a parameter or buffer of the module."""
    if not isinstance(value, torch().Tensor):
        return False
    described = node.meta.get("tensor_dict") or {}
    return isinstance(value, torch().nn.Parameter) or "_dynamo_static_input_type" in described


def _varying(node: Any, value: Any) -> list[int]:
    """The axes whose extent Dynamo leaves open."""
    shape = getattr(node.meta.get("example_value"), "shape", value.shape)
    return [axis for axis, extent in enumerate(shape) if not isinstance(extent, int)]


def _with_weights(graph: Any, weights: dict[int, Any], inputs: Sequence[int]) -> Any:
    """The graph as a module that has its weights, under the names of the user's module; sizes that come as
    inputs are read from the shapes of tensors."""
    module = torch().fx.GraphModule(graph, copy.deepcopy(graph.graph))
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    sizes = _sizes_of([placeholders[place] for place in inputs])
    for place, node in enumerate(placeholders):
        if place in inputs:
            continue
        with module.graph.inserting_after(placeholders[-1]):
            if place in weights:
                name = _register(module, _name(node), weights[place])
                other = module.graph.get_attr(name)
            else:
                tensor, axis = sizes[str(node.meta["example_value"])]
                other = module.graph.call_method("size", (tensor, axis))
        other.meta = dict(node.meta)
        node.replace_all_uses_with(other)
        module.graph.erase_node(node)
        placeholders[place] = other
    module.graph.lint()
    return torch().fx.GraphModule(module, module.graph)


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
