"""A model behind the interface of ONNX Runtime: a session with inputs, outputs and `run`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never

import numpy as np

from openinfer.compiler.api import compile as compiled
from openinfer.compiler.importers.onnx.items import Array, numpy_dtype
from openinfer.compiler.importers.onnx.model_file import load_model
from openinfer.compiler.importers.onnx.reader import OnnxProgram, read_model
from openinfer.compiler.importers.onnx.refusals import RefusedModel
from openinfer.compiler.importers.onnx.session_options import (
    DEVICES,
    ModelMetadata,
    Provider,
    SessionOptions,
    chosen_provider,
    lacking,
    metadata_of,
    threads_of,
)
from openinfer.compiler.importers.readable import readable
from openinfer.runtime.errors import InputError
from openinfer.runtime.files import AnyPath
from openinfer.runtime.tensors import dtype_of

if TYPE_CHECKING:
    from openinfer.runtime.executor import BaseExecutor

KEPT = 8
"""Programs that a session keeps, one for each set of values that shapes follow from."""


@dataclass(frozen=True)
class NodeArg:
    """An input or output: `shape` has numbers, names of open dimensions, or None."""

    name: str
    shape: list[int | str | None]
    type: str
    """As ONNX Runtime says it: `tensor(float)`."""


class InferenceSession:
    """Runs a model: `InferenceSession("model.onnx").run(None, {"x": array})`.

    `providers` chooses the device: the first one of them that can run here; without any it is the CPU. Of
    `sess_options`, ours or ONNX Runtime's, `intra_op_num_threads` counts. Inputs that shapes follow from
    (`shape` of a `Reshape`) may change from run to run; each set of their values has a program of its own.

    Raises RefusedModel with everything that cannot be imported, PackageError for a damaged file, InputError
    OI1529 for providers none of which is here, UnsupportedError OI1530 for what a session cannot do.
    """

    def __init__(
        self,
        path_or_bytes: AnyPath | bytes | Any,
        sess_options: object = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[dict[str, Any]] | None = None,
        **_: object,
    ) -> None:
        self._provider = chosen_provider(providers, provider_options)
        self._threads = threads_of(sess_options)
        self._options = SessionOptions() if sess_options is None else sess_options
        self._source = path_or_bytes
        self._model = load_model(path_or_bytes).proto
        constants = {one.name for one in self._model.graph.initializer}
        self._inputs = [
            _described(one) for one in self._model.graph.input if one.name not in constants
        ]
        self._outputs = [_described(one) for one in self._model.graph.output]
        self._shaping: frozenset[str] = frozenset()
        """Inputs whose values a program is made for."""
        self._programs: OrderedDict[tuple[Any, ...], tuple[OnnxProgram, BaseExecutor]] = (
            OrderedDict()
        )
        try:
            self._executor({})
        except RefusedModel as refused:
            if not refused.inputs:
                raise
            self._shaping = refused.inputs

    def get_inputs(self) -> list[NodeArg]:
        """The inputs, in the model's order."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs, in the model's order."""
        return list(self._outputs)

    def get_providers(self) -> list[str]:
        """The provider of this session."""
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """No options, for the provider of this session."""
        return {self._provider: {}}

    def get_session_options(self) -> object:
        """The options that the session was made with."""
        return self._options

    def get_overridable_initializers(self) -> list[NodeArg]:
        """No weight can be fed instead of the model's."""
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        return metadata_of(self._model)

    def io_binding(self) -> Never:
        """Raises UnsupportedError OI1530."""
        raise lacking("buffers bound to it", "give arrays to run")

    def run_with_iobinding(self, iobinding: object, run_options: object = None) -> Never:
        """Raises UnsupportedError OI1530."""
        self.io_binding()

    def run_with_ort_values(
        self, output_names: object, input_dict_ort_values: object, run_options: object = None
    ) -> Never:
        """Raises UnsupportedError OI1530."""
        raise lacking("values of ONNX Runtime", "give arrays to run: value.numpy()")

    def end_profiling(self) -> Never:
        """Raises UnsupportedError OI1530."""
        raise lacking("profile", "`openinfer trace` shows what a step does")

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: object = None,
    ) -> list[Array]:
        """The outputs called `output_names`, all of them for None or an empty list.

        Raises InputError OI1529 for names that the model lacks and inputs that are missing, and what an
        executor raises for a wrong dtype or shape.
        """
        del run_options
        known = [one.name for one in self._outputs]
        wanted = list(output_names or known)
        self._check("output", wanted, known)
        self._check("input", input_feed, [one.name for one in self._inputs])
        missing = [one.name for one in self._inputs if one.name not in input_feed]
        if missing:
            raise InputError(
                "OI1529", f"the inputs {', '.join(missing)} are missing", hint="feed all inputs"
            )
        program, executor = self._executor(input_feed)
        given = {inner: input_feed[name] for name, inner in program.inputs.items()}
        found = executor.run(**given)
        return [_as_array(found[program.outputs[name]]) for name in wanted]

    def _check(
        self, kind: str, names: Sequence[str] | Mapping[str, Any], known: Sequence[str]
    ) -> None:
        for name in names:
            if name not in known:
                raise InputError(
                    "OI1529", f"the model has no {kind} {name!r}", hint=f"it has {', '.join(known)}"
                )

    def _compiled(self, program: OnnxProgram) -> BaseExecutor:
        graph, package, _ = readable(program.imported)
        return compiled(graph, package, DEVICES[self._provider]).make_executor(self._threads)

    def _executor(self, feeds: Mapping[str, Any]) -> tuple[OnnxProgram, BaseExecutor]:
        """The program for these values of inputs that shapes follow from."""
        while True:
            values = {name: np.asarray(feeds[name]) for name in sorted(self._shaping & set(feeds))}
            key = tuple(
                (name, one.dtype.str, one.shape, one.tobytes()) for name, one in values.items()
            )
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
            try:
                program = read_model(self._source, values=values)
            except RefusedModel as refused:
                more = refused.inputs & set(feeds) - self._shaping
                if not more:
                    raise
                self._shaping |= more
                continue
            self._programs[key] = program, self._compiled(program)
            if len(self._programs) > KEPT:
                self._programs.popitem(last=False)[1][1].close()
            return self._programs[key]


def _as_array(value: Any) -> Array:
    """A result as NumPy has it; narrow floats and integers as ml_dtypes has them."""
    row = dtype_of(value)
    array = np.asarray(value)
    return array if row is None else array.astype(numpy_dtype(row.name), copy=False)


_TYPES = {"FLOAT": "float", "DOUBLE": "double"}


def _described(info: Any) -> NodeArg:
    from onnx import TensorProto

    kind = info.type.tensor_type
    name = TensorProto.DataType.Name(kind.elem_type)
    dims: list[int | str | None] = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
        for dim in kind.shape.dim
    ]
    return NodeArg(info.name, dims, f"tensor({_TYPES.get(name, name.lower())})")
