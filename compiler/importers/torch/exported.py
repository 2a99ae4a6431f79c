"""An `ExportedProgram` becomes a program: its inputs, tensors and sizes, its nodes, its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openinfer.compiler.importers.graph_writer import NO_NAMES, GraphWriter, Imported, Value
from openinfer.compiler.importers.torch import load_handlers
from openinfer.compiler.importers.torch.dynamic import Dynamic
from openinfer.compiler.importers.torch.handlers import HANDLERS, cast_to
from openinfer.compiler.importers.torch.library import dtype_name, only_errors, torch
from openinfer.compiler.importers.torch.places import provenance_of_node
from openinfer.compiler.importers.torch.reader import Reader
from openinfer.compiler.importers.torch.refusals import Refusal, Refused, error_of
from openinfer.compiler.importers.torch.sizes import Symbols, expression_of
from openinfer.lowering.graph.imports.provenance import Provenance
from openinfer.runtime.errors import InputError, UnsupportedError
from openinfer.runtime.sizes import Size
from openinfer.runtime.tensors import as_tensor

_DEFAULT_NAMES = "B L M N P Q R S T U V W".split()
_INFINITE = 1 << 48
"""No size is that large (`runtime/sizes.py`)."""
_CONSTANT_SMALL = 1 << 12
"""A tensor that a module makes itself, with at most this many bytes, is one with all equal ones."""


def functional(exported: Any) -> Any:
    """The export without writes in place, composite ops kept; ops that nobody takes in PyTorch's own smaller
    ones, each by itself.

    Raises UnsupportedError OI1504 for a tensor that is written in place but no buffer of the module.
    """
    load_handlers()
    _refuse_written_constants(exported)
    library = torch()
    table = library.export.default_decompositions()
    tried: set[Any] = set()
    program = exported
    while True:
        # A pass over the graph takes longest of an import: the first one already has the smaller ops.
        unknown = {
            node.target
            for node in _all_nodes(program.graph_module)
            if node.op == "call_function"
            and isinstance(node.target, library._ops.OpOverload)
            and str(node.target) not in (*HANDLERS, "aten.sym_size.int")
            and not node.target._schema.is_mutable
            and node.target not in tried
            and node.target in table
        }
        if not unknown and program is not exported:
            return program
        tried |= unknown
        with only_errors():
            program = program.run_decompositions({op: table[op] for op in unknown})


def _all_nodes(module: Any) -> list[Any]:
    """The nodes of a graph and of those that it calls."""
    found: list[Any] = []
    for part in module.modules():
        if hasattr(part, "graph"):
            found += list(part.graph.nodes)
    return found


def _refuse_written_constants(exported: Any) -> None:
    kinds = torch().export.graph_signature.InputKind
    constants = {
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind == kinds.CONSTANT_TENSOR
    }
    found: list[Refusal] = []
    for node in exported.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or not schema.is_mutable:
            continue
        for argument, given in zip(schema.arguments, node.args):
            if argument.is_write and str(given) in constants:
                call = str(node.target).removesuffix(".default")
                reason = f"writes into {given}, which is no buffer of the module"
                hint = "register_buffer(...) makes it state; or export without a cache, with stateful=True"
                found.append(Refusal(call, reason, hint, provenance_of_node(node)))
    if found:
        raise error_of(found, "the model")


def import_exported(
    exported: Any, dynamic: Dynamic | None = None, source: str = "the model"
) -> Imported:
    """The program that an `ExportedProgram` describes, not readable yet, and its tensors, which are borrowed.

    Raises UnsupportedError OI1500 with everything that cannot be imported.
    """
    return import_functional(functional(exported), dynamic, source)


def import_functional(
    program: Any,
    dynamic: Dynamic | None = None,
    source: str = "the model",
    *,
    written_inputs: bool = False,
) -> Imported:
    """The same for an export that is `functional`. `written_inputs`: the new content of inputs that the
    module writes is a result, in front of the others; otherwise they are refused."""
    return _Import(program, dynamic or Dynamic(), source, written_inputs).run()


class _Import:
    def __init__(self, program: Any, dynamic: Dynamic, source: str, written_inputs: bool) -> None:
        self.program = program
        self.signature = program.graph_signature
        self.kinds = torch().export.graph_signature
        self.dynamic, self.limits = dynamic.names, dynamic.limits
        self.source = source
        self.written_inputs = written_inputs
        self.symbols = Symbols()
        self.placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        self.user = [
            node.name
            for node, spec in zip(self.placeholders, self.signature.input_specs)
            if spec.kind == self.kinds.InputKind.USER_INPUT
        ]
        self.output_names = self._result_names()
        sizes = [name for axes in self.dynamic.values() for name in axes if name]
        results = [name for name in self.output_names if name]
        self.g = GraphWriter(reserved=[*self.user, *results, *sizes, *_DEFAULT_NAMES])
        self.reader = Reader(self.g, self.symbols)
        self.written: dict[str, Value] = {}
        """Persistent variables of buffers that the module writes."""

    def run(self) -> Imported:
        self._name_sizes()
        same = self._same_tensors()
        for node, spec in zip(self.placeholders, self.signature.input_specs):
            with self.g.at(Provenance(call="placeholder")):
                try:
                    self.reader.bind(node, self._placeholder(node, spec, same))
                except Refused as error:
                    self._refuse(str(node.name), error)
        returned = self.reader.read(self.program.graph)
        outputs = self._finish(returned)
        if self.reader.refusals:
            raise error_of(self.reader.refusals, self.source)
        return self.g.finish(outputs, source=self.source, calls=self.reader.calls)

    def _refuse(self, what: str, error: Refused) -> None:
        self.reader.refusals.append(Refusal(what, error.reason, error.hint, Provenance()))

    # Sizes

    def _name_sizes(self) -> None:
        """Symbols get the names that the user gave, else letters, in the order of the inputs' axes."""
        taken = {name for names in self.dynamic.values() for name in names if name}
        taken |= {*self.user, *(name for name in self.output_names if name)}
        letters = (name for name in _DEFAULT_NAMES if name not in taken)
        derived: list[tuple[Any, Size]] = []
        self.dims: dict[str, list[Size]] = {}
        for node in self.placeholders:
            if node.name not in self.user or not hasattr(node.meta["val"], "shape"):
                continue
            names = list(self.dynamic.get(node.name, ()))
            dims: list[Size] = []
            for axis, extent in enumerate(node.meta["val"].shape):
                given = names[axis] if axis < len(names) else None
                expression = expression_of(extent)
                if expression.is_Integer:
                    dims.append(Size.of(int(expression)))
                    continue
                known = expression.is_Symbol and self.symbols.knows(str(expression))
                if known:
                    size = self.symbols.of_expression(expression)
                    if given and size.single_name != given:
                        raise InputError(
                            "OI1503",
                            f"sizes {size} and {given} must be equal in this model",
                            hint=f"call both {size}",
                        )
                else:
                    size = Size.name(given or next(letters))
                    if expression.is_Symbol:
                        self.symbols.define(str(expression), size)
                    else:
                        derived.append((expression, size))
                dims.append(size)
            self.dims[node.name] = dims
        for expression, size in derived:
            self._define_derived(expression, size)
        self._bound_sizes()

    def _bound_sizes(self) -> None:
        """What sizes may be: what the user says, and what PyTorch found that the module asks for.

        0 and 1 are the numbers that an export always takes for fixed, and no limits of the module.
        """
        for symbol, found in self.program.range_constraints.items():
            if not self.symbols.knows(str(symbol)):
                continue  # A number that data gives.
            size = self.symbols.size_of(str(symbol))
            low, high = self.limits.get(str(size), (None, None))
            least, most = (_limit(one) for one in (found.lower, found.upper))
            if least is not None and least > 2:
                low = max(low or 0, least)
            if most is not None:
                high = most if high is None else min(high, most)
            if low is not None or high is not None:
                self.g.bound(size, low, high)

    def _define_derived(self, expression: Any, size: Size) -> None:
        """An input's axis `4*s0` is a size N of its own, and s0 is N/4."""
        symbols = [one for one in expression.free_symbols if not self.symbols.knows(str(one))]
        if len(symbols) != 1:
            return
        (symbol,) = symbols
        factor = expression.coeff(symbol)
        rest = expression - factor * symbol
        if not factor.is_Integer or rest.has(symbol):
            return
        offset = self.symbols.of_expression(rest)
        self.symbols.define(str(symbol), (size - offset) // int(factor))

    # Inputs

    def _same_tensors(self) -> dict[str, str]:
        """For each name of a tensor that of the first one with the same memory: tied weights are one."""
        seen: dict[tuple[object, ...], str] = {}
        found: dict[str, str] = {}
        for name, tensor in self.program.state_dict.items():
            key = (
                tensor.data_ptr(),
                tuple(tensor.shape),
                tuple(tensor.stride()),
                str(tensor.dtype),
            )
            alone = tensor.numel() == 0 or tensor.data_ptr() == 0
            found[name] = name if alone else seen.setdefault(key, name)
        return found

    def _tensor_of(self, spec: Any, same: Mapping[str, str]) -> tuple[str, Any]:
        name = str(spec.target)
        states = self.program.state_dict
        if name in states:
            name = same[name]
            return name, states[name]
        return name, self.program.constants[name]

    def _placeholder(self, node: Any, spec: Any, same: Mapping[str, str]) -> Any:
        kinds = self.kinds.InputKind
        if spec.kind == kinds.USER_INPUT:
            return self._input(node)
        if spec.kind == kinds.TOKEN:
            # The order of effects, which a program keeps anyway.
            return None
        if spec.kind not in (kinds.PARAMETER, kinds.BUFFER, kinds.CONSTANT_TENSOR):
            raise Refused(f"an input of kind {spec.kind.name}")
        name, tensor = self._tensor_of(spec, same)
        array, dtype = borrowed(tensor)
        if spec.target in self.signature.buffers_to_mutate.values():
            # The module may be used beside its program, and writes its own.
            begin = array.copy() if hasattr(array, "copy") else borrowed(tensor.clone())[0]
            state = self.g.state(name, dtype, tuple(tensor.shape), name, begin)
            self.written[str(spec.target)] = state
            return self.g.read_state(state)
        if spec.kind == kinds.CONSTANT_TENSOR and tensor.nbytes <= _CONSTANT_SMALL:
            return self.reader.constant(array)
        value = self.g.weight(name, array, dtype, tuple(tensor.shape))
        whole = not tensor.is_floating_point() and dtype != "bool"
        if whole and (tensor.numel() == 0 or int(tensor.min()) >= 0):
            self.reader.nonnegative.add(value.name)
        return value

    def _input(self, node: Any) -> Any:
        value = node.meta["val"]
        if value is None or isinstance(value, bool | int | float | str):
            return None
        if not isinstance(value, torch().Tensor):
            raise Refused(
                f"an input that is a {type(value).__name__}",
                "give it as a tensor, or as a fixed number",
            )
        dtype = dtype_name(value.dtype)
        if dtype is None:
            raise Refused(f"an input of {value.dtype}, which is no dtype of the language")
        return self.g.input(node.name, dtype, self.dims[node.name])

    # Results

    def _result_names(self) -> list[str | None]:
        """What each result of the module is called: the keys of a dictionary or dataclass, else numbers."""
        spec = self.program.call_spec.out_spec
        library = torch()
        leaves = library.utils._pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
        paths = library.utils._pytree.tree_flatten_with_path(leaves)[0]
        found: dict[int, str] = {}
        for path, leaf in paths:
            parts = [
                str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
                for key in path
            ]
            text = "_".join(parts)
            found[leaf] = text if text and not text[0].isdigit() else f"output_{text}".rstrip("_")
        names: list[str | None] = []
        number = 0
        for out in self.signature.output_specs:
            is_user = out.kind == self.kinds.OutputKind.USER_OUTPUT
            if is_user:
                names.append(found.get(number))
            else:
                names.append(f"{out.target}_new" if self._returns(out) else None)
            number += is_user
        taken = {*self.user, *(name for axes in self.dynamic.values() for name in axes if name)}
        for place, name in enumerate(names):
            while name is not None and (name in taken or name in NO_NAMES):
                name = f"{name}_out"
            names[place] = name
            if name is not None:
                taken.add(name)
        return names

    def _returns(self, spec: Any) -> bool:
        """Whether a result is the new content of an input, and asked for."""
        return self.written_inputs and spec.kind == self.kinds.OutputKind.USER_INPUT_MUTATION

    def _finish(self, returned: list[Any]) -> list[tuple[str, Value]]:
        """Writes the states that the module wrote, and lists its results."""
        outputs: list[tuple[str, Value]] = []
        kinds = self.kinds.OutputKind
        for raw, spec, name in zip(returned, self.signature.output_specs, self.output_names):
            try:
                if spec.kind == kinds.BUFFER_MUTATION:
                    state = self.written[str(spec.target)]
                    self.g.write_state(cast_to(self.g, self.reader.tensor(raw), state.dtype), state)
                elif self._returns(spec):
                    outputs.append((name or "output", self.reader.tensor(raw)))
                elif spec.kind == kinds.USER_OUTPUT:
                    if raw is None or isinstance(raw, bool | int | float | str):
                        continue
                    outputs.append((name or "output", self._result(raw)))
                elif spec.kind != kinds.TOKEN:
                    raise Refused(
                        "the module writes into its input", "return the new value instead"
                    )
            except Refused as error:
                if error.reason != "what it reads was refused":
                    self._refuse(f"result {name or spec.target}", error)
        return outputs

    def _result(self, raw: Any) -> Value:
        """A result; one that is a size becomes a number."""
        meta = self.reader.meta(raw)
        if isinstance(meta, torch().SymInt):
            return self.reader.size_value(self.symbols.size(meta))
        return self.reader.tensor(raw)


def _limit(value: Any) -> int | None:
    """A limit as a number; None for infinity and what PyTorch writes for it."""
    return int(value) if value.is_Integer and abs(int(value)) < _INFINITE else None


def borrowed(tensor: Any) -> tuple[Any, str]:
    """A tensor of PyTorch as what a package takes, without a copy where it is contiguous, and its dtype."""
    dtype = dtype_name(tensor.dtype)
    if dtype is None:
        raise Refused(f"a tensor of {tensor.dtype}, which is no dtype of the language")
    if tensor.device.type != "cpu":
        raise UnsupportedError(
            "OI1505",
            f"a tensor of the model lies on {tensor.device}",
            hint="move the module first: module.cpu()",
        )
    whole = tensor.detach().contiguous()
    if dtype in ("bf16", "f8", "f8e4m3"):
        return as_tensor(whole, dtype), dtype
    return whole.numpy(), dtype
