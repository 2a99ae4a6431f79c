"""The inference compiler that you can read.

    import openinfer as oi

    model = oi.open_model("mlp.oinf")
    program = oi.compile(oi.graph_file("mlp.oi"), model)
    with program.make_executor() as executor:
        outputs = executor.run(x=array)

Only the names of `__all__` are public. Importing this package loads neither NumPy nor xDSL; the
functions below import what they need when they are called.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openinfer.runtime.errors import (
    ArtefactError,
    CompileError,
    Diagnostic,
    InputError,
    Location,
    ModelWarning,
    OpenInferError,
    PackageError,
    ProgramError,
    StepError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from onnx import ModelProto

    from openinfer.compiler.api import Graph, Simulator
    from openinfer.compiler.graph_builder import GraphBuilder
    from openinfer.compiler.llm.engine import Answer, Engine
    from openinfer.runtime.breakpoints import Breakpoint
    from openinfer.runtime.executor import BaseExecutor as Executor
    from openinfer.runtime.level import Level
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.packages.oinf_writer import OinfContent
    from openinfer.runtime.packages.values import (
        Bitset,
        QuantParams,
        QuantScale,
        QuantZeroPoint,
        ScalarValue,
        SizeVar,
        TensorSpec,
        UninitializedTensor,
    )
    from openinfer.runtime.program import Program
    from openinfer.runtime.signature import SizeRow, ValueRow
    from openinfer.runtime.state import State
    from openinfer.runtime.stepping import Stepper
    from openinfer.runtime.tensors import Tensor

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "ArtefactError",
    "Bitset",
    "Breakpoint",
    "CompileError",
    "Diagnostic",
    "Engine",
    "Executor",
    "Graph",
    "GraphBuilder",
    "InputError",
    "Level",
    "Location",
    "ModelWarning",
    "OinfContent",
    "OpenInferError",
    "Package",
    "PackageError",
    "Program",
    "ProgramError",
    "QuantParams",
    "QuantScale",
    "QuantZeroPoint",
    "ScalarValue",
    "Simulator",
    "SizeRow",
    "SizeVar",
    "State",
    "StepError",
    "Stepper",
    "Tensor",
    "TensorSpec",
    "UninitializedTensor",
    "UnsupportedError",
    "ValueRow",
    "compile",
    "from_onnx",
    "from_torch",
    "graph",
    "graph_file",
    "graph_json",
    "load",
    "load_level",
    "open_model",
    "to_oinf_bytes",
    "write_oinf",
]

# Classes that live behind an import of NumPy or xDSL, fetched when they are first named. Checkers
# and editors take them from the imports above.
_LAZY = {
    "Answer": "openinfer.compiler.llm.engine:Answer",
    "Bitset": "openinfer.runtime.packages.values:Bitset",
    "Breakpoint": "openinfer.runtime.breakpoints:Breakpoint",
    "Engine": "openinfer.compiler.llm.engine:Engine",
    "Executor": "openinfer.runtime.executor:BaseExecutor",
    "Graph": "openinfer.compiler.api:Graph",
    "GraphBuilder": "openinfer.compiler.graph_builder:GraphBuilder",
    "Level": "openinfer.runtime.level:Level",
    "OinfContent": "openinfer.runtime.packages.oinf_writer:OinfContent",
    "Package": "openinfer.runtime.packages.base:Package",
    "Program": "openinfer.runtime.program:Program",
    "QuantParams": "openinfer.runtime.packages.values:QuantParams",
    "QuantScale": "openinfer.runtime.packages.values:QuantScale",
    "QuantZeroPoint": "openinfer.runtime.packages.values:QuantZeroPoint",
    "ScalarValue": "openinfer.runtime.packages.values:ScalarValue",
    "Simulator": "openinfer.compiler.api:Simulator",
    "SizeRow": "openinfer.runtime.signature:SizeRow",
    "SizeVar": "openinfer.runtime.packages.values:SizeVar",
    "State": "openinfer.runtime.state:State",
    "Stepper": "openinfer.runtime.stepping:Stepper",
    "Tensor": "openinfer.runtime.tensors:Tensor",
    "TensorSpec": "openinfer.runtime.packages.values:TensorSpec",
    "UninitializedTensor": "openinfer.runtime.packages.values:UninitializedTensor",
    "ValueRow": "openinfer.runtime.signature:ValueRow",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'openinfer' has no attribute '{name}'")
    from importlib import import_module

    module, _, attribute = _LAZY[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def open_model(model: str | os.PathLike[str] | object, *, copy: bool = False) -> Package:
    """Opens a model package, or makes one of arrays by name.

    A path is that of a `.oinf`, `.safetensors` or `.gguf` file, of the index of a model in several files
    (`model.safetensors.index.json`), or of a folder with one model. The file is mapped into memory; no
    tensor is read yet, and nobody may write into the file while it is in use: replace it by renaming a
    new one. With `copy` it is read into memory as a whole, and may be changed.

    Anything else is content as `write_oinf` takes it, as `{"W": array}` or the `state_dict` of a PyTorch
    module: arrays are borrowed (with `copy` copied), whatever library made them, in memory of the
    processor. Raises PackageError for a file that is missing, damaged or of no known format, and for an
    entry that is no part of a package.
    """
    from openinfer.runtime.packages import open_model as implementation

    return implementation(model, copy=copy)


def graph(text: str) -> Graph:
    """The program with this text. It is parsed on first use; `.check()` parses at once.

    Raises InputError for what is no text.
    """
    from openinfer.compiler.api import graph as implementation

    return implementation(text)


def graph_file(path: str | os.PathLike[str]) -> Graph:
    """The program in a `.oi` file, or in a `.json` file as graph JSON.

    Raises InputError when the file cannot be read.
    """
    from openinfer.compiler.api import graph_file as implementation

    return implementation(path)


def graph_json(source: str | os.PathLike[str]) -> Graph:
    """The program that a graph JSON describes: its text, or the path of a file that holds it.

    `Graph.to_json` is the other direction. Raises InputError when a file cannot be read.
    """
    from openinfer.compiler.api import graph_json as implementation

    return implementation(source)


def compile(
    graph: Graph | str | os.PathLike[str],
    model: Package | Mapping[str, Any] | None = None,
    device: str = "cpu",
    sizes: Mapping[str, int] | None = None,
    precision: str | None = None,
    strict: bool = False,
    strict_math: bool = False,
    target: str | None = None,
    tuning: str | os.PathLike[str] | None = None,
    *,
    fallback: bool = True,
) -> Program:
    """Compiles a program for a device, or takes it from the cache on disk.

    `graph` is what `graph` or `graph_file` gave, a text, or the path of a program as a `Path`.
    `model` is what `open_model` gave, or arrays by name, as `{"W": array}` or a `state_dict`.
    `device` is a row of `openinfer devices`, as "cpu" or "vulkan:1".
    `sizes` fix sizes that the model leaves open; `precision="bf16"` rounds the operands of
    products to bf16 and adds up in f32; `strict` makes unknown hints errors; `strict_math` forbids
    reassociation, contraction and approximate functions; `target` names a CPU other than this one
    ("generic", "avx2", "avx512"); `tuning` names a file of measured schedules that `openinfer tune`
    wrote, or is "cache"; `fallback=False` makes it an error, which names each op and the reason, where
    the host would run what the device does not support.

    Raises ProgramError with every mistake of the text, PackageError for a model that lacks
    something, InputError for a bad option or size, UnsupportedError for what this build does not have.
    """
    from openinfer.runtime.devices import expect

    expect(device)
    from openinfer.compiler.api import compile as implementation

    return implementation(
        graph,
        model,
        device,
        sizes,
        precision,
        strict,
        strict_math,
        target,
        tuning=tuning,
        fallback=fallback,
    )


def from_onnx(
    source: str | os.PathLike[str] | bytes | ModelProto,
    *,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    stateful: bool = False,
) -> tuple[Graph, Package]:
    """The program of an ONNX model, and the package of its weights: `compile(*from_onnx("model.onnx"))`.

    `source` is a path, the bytes of a file, or a `ModelProto`, whose external data lies in `folder`. `values`
    are arrays for inputs that the program is made for, since shapes follow from them. Weights stay in the
    file, which is mapped: nobody may write into it while the program is in use. `stateful` gives a causal
    decoder that was exported without a cache one. Needs the extra `import`.

    Raises ProgramError with everything that cannot be imported, operator by operator; PackageError for a
    damaged file; UnsupportedError without the package `onnx`.
    """
    from openinfer.compiler.importers.onnx.imported import from_onnx as implementation

    return implementation(source, values=values, folder=folder, stateful=stateful)


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    stateful: bool = False,
) -> tuple[Graph, Package]:
    """A module of PyTorch as a program, and its weights as a package.

        graph, package = oi.from_torch(module, (tokens,), dynamic={"tokens": ("B", "L")})
        print(graph)

    `module` is a `torch.nn.Module` in eval mode, an `ExportedProgram`, or the path of a `.pt2` file.
    `example_inputs` is a tuple of tensors, or a dict by the names of `forward`'s parameters; a module needs
    it. `dynamic` names the axes that vary, for each input, None for one that does not: axes of one name are
    equal. `("L", 1, 512)`, or a `torch.export.Dim`, says what an axis may be, None for no limit; limits that
    the module has itself, as the length of a table of positions, are found. The program says both as bounds
    of its sizes. `stateful` makes a program with a cache of a causal decoder that was written without one.

    The package borrows the tensors of the module: nobody may write into them while it is in use.

    Raises UnsupportedError OI1500 with every op that cannot be imported, OI1501 without PyTorch, OI1502 for
    what `torch.export` refuses; InputError for inputs or sizes that do not fit.
    """
    from openinfer.compiler.importers.torch.export import from_torch as implementation

    return implementation(module, example_inputs, dynamic, stateful)


def load(
    path: str | os.PathLike[str],
    model: Package | Mapping[str, Any] | None = None,
    *,
    copy: bool = False,
) -> Program:
    """A compiled program that `Program.save` wrote, with the package of its weights.

    A compiled program is native code: load only what you trust. Works without xDSL; linking the
    code when the first executor is made needs llvmlite. `model` is an opened package, or arrays by name.
    Without it, the package is the one in
    the file, else the one that the program was compiled with, where it was or beside the file; `copy`
    reads it into memory, as `open_model` does.

    Raises ArtefactError for a file that cannot be read, is no compiled program, is damaged or was
    made by another version, and for a package with other tensors.
    """
    from openinfer.runtime.program_io import load_program as implementation

    return implementation(path, model, copy=copy)


def load_level(
    path: str | os.PathLike[str] | Level, model: Package | Mapping[str, Any] | None = None
) -> Program:
    """The program that a level of the IR describes, compiled from there on.

    `path` is a file that `openinfer-opt --dump-dir` or `str(program.show(LEVEL))` wrote, perhaps edited, or
    a `Level` itself; `model` has the weights, as an opened package or arrays by name. The options of the
    compilation are those that the level was made with.

    Raises InputError for a file that holds no level, ProgramError with the place of what is wrong in it,
    ArtefactError where the model is missing or has other tensors.
    """
    from openinfer.compiler.levels import load_level as implementation

    return implementation(path, model)


def to_oinf_bytes(content: object) -> bytes:
    """The bytes of an `.oinf` file; `content` is what `write_oinf` takes. Raises PackageError."""
    from openinfer.runtime.packages.oinf_writer import to_oinf_bytes as implementation

    return implementation(content)


def write_oinf(content: object, path: str | os.PathLike[str]) -> None:
    """Writes a package of weights: `write_oinf({"W": array, "b": array}, "layer.oinf")`.

    In a mapping from names to values, arrays (of any library with DLPack) are tensors, integers are sizes,
    anything else is metadata. A dataclass instance, an `OinfContent` or an opened package can be given, too
    (`docs/packages.md`). Raises PackageError for what the format does not hold.
    """
    from openinfer.runtime.packages.oinf_writer import write_oinf as implementation

    implementation(content, path)
