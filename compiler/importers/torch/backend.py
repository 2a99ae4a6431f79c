"""`torch.compile(module, backend="openinfer")`: graphs that Dynamo captured, by the same way as `from_torch`.

Parameters and buffers come as inputs of such a graph; here they are the module's again, so that their memory
is borrowed once. A program is made for the sizes that may vary, and again for inputs that it does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openinfer.compiler.importers.torch.captured import (
    as_module,
    fixed_floats,
    fixed_numbers,
    is_static,
    number_of,
    varying,
    views_of_inputs,
)
from openinfer.compiler.importers.torch.export import short
from openinfer.compiler.importers.torch.exported import functional, import_functional
from openinfer.compiler.importers.torch.library import torch
from openinfer.compiler.importers.torch.refusals import Refusal, error_of
from openinfer.lowering.graph.imports.provenance import Provenance
from openinfer.runtime.devices import checked_device
from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.options import checked_threads
from openinfer.runtime.tensors import Tensor

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Modes of PyTorch's own backend, which say how long to search: here all are the same."""
OPTIONS = ("device", "precision", "strict_math", "target", "tuning", "fallback")
"""Options that are those of `openinfer.compile`; `threads` is that of `make_executor`."""
KEPT = 64
"""Programs that a graph keeps, for inputs that it was called with."""


def openinfer(
    graph: Any,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., tuple[Any, ...]]:
    """A backend of `torch.compile`, for inference: results carry no gradients.

    `options` are those of `openinfer.compile` (`device`, `precision`, `strict_math`, `target`, `tuning`,
    `fallback`), and `threads`. Raises UnsupportedError OI1500 with everything that cannot be imported,
    InputError OI1509 for an option or mode that there is not, OI0730 for an unknown device.
    """
    if mode is not None and mode not in MODES:
        raise InputError(
            "OI1509", f"there is no mode {mode!r}", hint=f"the modes are {', '.join(MODES)}"
        )
    given = dict(options or {})
    for name in given:
        if name not in (*OPTIONS, "threads"):
            raise InputError(
                "OI1509",
                f"there is no option {name!r}",
                hint=f"the options are {', '.join((*OPTIONS, 'threads'))}",
            )
    if "device" in given:
        checked_device(given["device"])
    checked_threads(given.get("threads"))
    return _Compiled(graph, example_inputs, given)


class _Compiled:
    """What Dynamo calls instead of its graph: programs for it, made when inputs need one."""

    def __init__(
        self, graph: Any, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._options = options
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
        (output,) = [node for node in graph.graph.nodes if node.op == "output"]
        self._outputs: list[Any] = list(output.args[0])
        self._views, self._view = views_of_inputs(graph)
        nodes = {one.name: one for one in self._outputs if hasattr(one, "meta")}
        self._computed = [node for name, node in nodes.items() if name not in self._views]
        self._static = [
            place
            for place, (node, value) in enumerate(zip(self._placeholders, example_inputs))
            if is_static(node, value)
        ]
        floats = fixed_floats(self._placeholders)
        self._inputs = [
            place
            for place, value in enumerate(example_inputs)
            if place not in (*self._static, *floats) and isinstance(value, torch().Tensor)
        ]
        self._numbers = sorted([*fixed_numbers(self._placeholders, self._inputs), *floats])
        # Made at the first call: what Dynamo shows here may be without data, and belongs to its own sizes.
        self._programs: list[_Program] = []

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        found = dict(
            zip((one.name for one in self._computed), self._program_for(arguments).run(arguments))
        )
        if self._view is not None:
            # After the program, which may have written the inputs.
            named = [one for one in self._outputs if getattr(one, "name", None) in self._views]
            found |= zip((one.name for one in named), self._view(*arguments))
        return tuple(_result(one, found) for one in self._outputs)

    def _program_for(self, arguments: Sequence[Any]) -> _Program:
        """One that takes these sizes and has these weights."""
        for program in self._programs:
            if program.has(arguments) and program.takes(arguments):
                return program
        self._programs = [one for one in self._programs if one.has(arguments)][-KEPT + 1 :]
        self._programs.append(self._make(arguments))
        return self._programs[-1]

    def _make(self, arguments: Sequence[Any]) -> _Program:
        numbers = {place: number_of(arguments[place]) for place in self._numbers}
        written: set[int] = set()
        while True:
            inputs = sorted([*self._inputs, *written])
            weights = {place: arguments[place] for place in self._static if place not in written}
            module, names = as_module(self._graph, weights, inputs, numbers, self._computed)
            exported = _exported(
                module,
                [self._placeholders[place] for place in inputs],
                [arguments[place] for place in inputs],
            )
            changed = _targets(exported, "BUFFER_MUTATION", "PARAMETER_MUTATION")
            if not changed:
                break
            # What the module writes is no constant: it comes as an input, and is written back.
            written |= {names[name] for name in changed}
        imported = import_functional(exported, None, "the graph", written_inputs=True)
        users = list(exported.graph_signature.user_inputs)
        back = [inputs[users.index(name)] for name in _targets(exported, "USER_INPUT_MUTATION")]
        places = dict(zip(users, inputs))
        fixed = [
            getattr(spec.arg, "value", None)
            for spec in exported.graph_signature.output_specs
            if spec.kind.name == "USER_OUTPUT"
        ]
        return _Program(imported, places, weights, numbers, back, fixed, self._options)


def _exported(module: Any, nodes: Sequence[Any], inputs: Sequence[Any]) -> Any:
    library = torch()
    shapes = tuple(
        {axis: library.export.Dim.AUTO for axis in varying(node, value)}
        for node, value in zip(nodes, inputs)
    )
    memories: set[int] = set()
    examples: list[Any] = []
    for one in inputs:
        memory = one.untyped_storage().data_ptr()
        # PyTorch does not export two examples in one memory; `_refuse_shared` looks at the inputs of a call.
        examples.append(one.detach().clone() if memory in memories else one.detach())
        memories.add(memory)
    try:
        with library.no_grad():
            exported = library.export.export(
                module, tuple(examples), dynamic_shapes=shapes or None, strict=False
            )
    except Exception as error:
        raise UnsupportedError(
            "OI1502",
            f"torch.export refuses the graph: {short(error)}",
            hint="leave this part out: @torch.compiler.disable",
        ) from error
    return functional(exported)


def _targets(exported: Any, *kinds: str) -> list[str]:
    """What results of these kinds are the next content of."""
    return [
        str(one.target) for one in exported.graph_signature.output_specs if one.kind.name in kinds
    ]


class _Program:
    """A compiled program, and the weights that it borrowed, as they were."""

    def __init__(
        self,
        imported: Any,
        places: Mapping[str, int],
        weights: Mapping[int, Any],
        numbers: Mapping[int, Any],
        back: Sequence[int],
        fixed: Sequence[int | float | bool | None],
        options: Mapping[str, Any],
    ) -> None:
        from openinfer.compiler.api import compile as compiled
        from openinfer.compiler.importers.readable import readable

        graph, package, _ = readable(imported)
        given = {name: value for name, value in options.items() if name != "threads"}
        program = compiled(graph, package, **given)
        self._executor = program.make_executor(options.get("threads"))
        rows = {row.name: row for row in program.inputs}
        self._bounds = program.manifest.bounds
        self._rows = [(place, rows[name]) for name, place in places.items() if name in rows]
        self._weights = {
            place: (one, one.data_ptr(), one._version) for place, one in weights.items()
        }
        self._numbers = numbers
        self._back = back
        self._fixed = fixed
        """For each result the number that it always is, or None."""

    def has(self, arguments: Sequence[Any]) -> bool:
        """Whether these are the weights, and nobody wrote into them."""
        return all(
            arguments[place].data_ptr() == pointer and arguments[place]._version == version
            for place, (_, pointer, version) in self._weights.items()
        )

    def takes(self, arguments: Sequence[Any]) -> bool:
        """Whether the program has these numbers and shapes: equal ones of one name, all within bounds."""
        for place, number in self._numbers.items():
            given = number_of(arguments[place])
            # NaN is not equal to itself, and one program is enough for it.
            if given != number and (given == given or number == number):
                return False
        sizes: dict[str, int] = {}
        for place, row in self._rows:
            for dim, extent in zip(row.shape, arguments[place].shape):
                wanted = dim if isinstance(dim, int) else sizes.setdefault(dim, extent)
                if wanted != extent:
                    return False
        return not any(row.violation(sizes) for row in self._bounds)

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """The results as tensors of PyTorch, without a copy; sizes as numbers. Inputs that the graph writes
        get their new content."""
        given: dict[str, Any] = {}
        for place, row in self._rows:
            value = arguments[place]
            if value.requires_grad and torch().is_grad_enabled():
                raise InputError(
                    "OI1506",
                    f"input {row.name} asks for gradients, and programs of openinfer compute none",
                    hint="call the module within torch.no_grad()",
                )
            given[row.name] = value.detach()
        self._refuse_shared(arguments)
        found = [_as_torch(value) for value in self._executor.run(**given).values()]
        with torch().no_grad():
            for place, value in zip(self._back, found):
                arguments[place].copy_(value)
        rest = iter(found[len(self._back) :])
        return [next(rest) if one is None else one for one in self._fixed]

    def _refuse_shared(self, arguments: Sequence[Any]) -> None:
        """Two inputs in one memory are two tensors here: none of them may be written."""
        for place in self._back:
            own = arguments[place].untyped_storage().data_ptr()
            for other, row in self._rows:
                if other != place and arguments[other].untyped_storage().data_ptr() == own:
                    reason = f"the module writes an input that shares its memory with {row.name}"
                    raise error_of(
                        [Refusal("copy_", reason, "give copies: x.clone()", Provenance())],
                        "the graph",
                    )


def _result(output: Any, found: Mapping[str, Any]) -> Any:
    """A result of the graph: one that it does not compute is there already, a size is a number."""
    if not hasattr(output, "meta"):
        return output
    value = found[output.name]
    return int(value) if isinstance(output.meta.get("example_value"), torch().SymInt) else value


def _as_torch(value: Any) -> Any:
    return torch().from_dlpack(value) if isinstance(value, Tensor) else torch().as_tensor(value)
