"""What `run` and `compare` share: a program, its package, its inputs, an executor."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from openinfer.compiler.api import Graph, Simulator, compile
from openinfer.compiler.arguments import checked_sizes
from openinfer.compiler.timings import timed
from openinfer.compiler.tools.arguments import (
    add_device,
    add_model,
    add_no_fallback,
    add_program,
    parse_sizes,
)
from openinfer.compiler.tools.program_argument import (
    PACKAGE_SUFFIXES,
    STDIN_NAME,
    ProgramArgument,
)
from openinfer.compiler.tools.progress import waiting
from openinfer.compiler.tools.report import AdvisedError, UsageError
from openinfer.runtime.devices import DEFAULT_DEVICE, SIMULATOR, device_of
from openinfer.runtime.errors import OpenInferError, UnsupportedError
from openinfer.runtime.options import checked_threads

if TYPE_CHECKING:
    from openinfer.runtime.executor import BaseExecutor
    from openinfer.runtime.packages.base import Package
    from openinfer.runtime.tensors import Tensor


def add_program_arguments(
    parser: argparse.ArgumentParser, *, simulator: bool = True, device: str | None = None
) -> None:
    """The arguments of every command that runs a program; `device` is the default one.

    `simulator`: whether it may run on the simulator alone.
    """
    add = parser.add_argument
    add_program(parser, compiled=True)
    add_model(parser)
    add_device(parser, simulator=simulator, default=device)
    add(
        "--copy-model",
        action="store_true",
        help="read the package into memory: it may change while it is in use",
    )
    add(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="x=FILE.npy, x=1,2,3 or x=[[1,2],[3,4]]; inputs not given are drawn",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of drawn inputs (default 0)")
    add("--steps", type=int, default=1, metavar="K", help="run K steps (default 1)")
    add("--threads", type=int, metavar="N", help="threads (default: the CPUs that may be used)")
    add("--strict", action="store_true", help="unknown hints, constants without content are errors")
    add("--strict-math", action="store_true", help="no reassociation, no fused multiply-add")
    add_no_fallback(parser)
    add(
        "--precision",
        metavar="DTYPE",
        help="bf16 or q8: compiled products round their operands to it",
    )
    add("--tuning", metavar="FILE", help="what `openinfer tune` measured; cache: as it kept it")


def _compiled_session(args: argparse.Namespace, given: dict[str, str]) -> Session:
    """A session for a program that was compiled beforehand."""
    from openinfer.compiler.tools.compiled_session import (
        CompiledSession,
        compiled_parts,
        open_program,
    )

    for option, asked in (
        ("precision", args.precision is not None),
        ("tuning", args.tuning is not None),
        ("strict-math", args.strict_math),
        ("no-fallback", args.no_fallback),
    ):
        if asked:
            raise UsageError(
                f"--{option} is decided when a program is compiled",
                "give it to `openinfer compile`",
            )
    if args.strict:
        raise UsageError("--strict is about program texts", "give it to `openinfer compile`")
    program = open_program(args.program.path, args.model, copy=args.copy_model)
    device = args.device or program.device
    if device != SIMULATOR:
        program = program.for_device(device)
    graph, package, sizes = compiled_parts(program, checked_sizes(parse_sizes(args.size)))
    rest = (given, args.seed, args.steps, args.threads, args.strict)
    precision = program.manifest.precision
    return CompiledSession(graph, package, sizes, *rest, precision, device=device, program=program)


def read_program(program: ProgramArgument) -> Graph:
    """The parsed program; its warnings go to stderr."""
    graph = program.graph()
    show_warnings(graph)
    return graph


def show_warnings(graph: Graph) -> None:
    """Prints the warnings of a program to stderr; parses it."""
    warnings = graph.warnings
    if warnings:
        from openinfer.compiler.diagnostics import render

        print(render(warnings, {graph.file: graph.text}).rstrip("\n"), file=sys.stderr)


@dataclass
class Session:
    """A program with its package and what the command line says of its run."""

    graph: Graph
    package: Package | None
    sizes: dict[str, int]
    given: dict[str, str]
    """Inputs of the command line as text, by name."""
    seed: int
    steps: int
    threads: int | None
    strict: bool
    precision: str | None = None
    tuning: str | None = None
    strict_math: bool = False
    device: str = DEFAULT_DEVICE
    """What the program runs on, the simulator included."""
    fallback: bool = True
    """Whether the host runs what the device does not support."""
    _warned: bool = False

    @staticmethod
    def of(args: argparse.Namespace) -> Session:
        """Opens program and package. Raises UsageError, InputError, PackageError."""
        if args.steps < 1:
            raise UsageError("--steps takes a number from 1")
        if args.threads is not None and args.threads < 1:
            raise UsageError("--threads takes a number from 1")
        checked_threads(args.threads)
        if args.seed < 0:
            raise UsageError("--seed takes a number from 0")
        given = _assignments(args.input, "--input", "x=x.npy or x=1,2,3")
        if args.program.is_compiled() or args.program.is_level:
            return _compiled_session(args, given)
        graph = args.program.graph()
        if args.strict:
            graph = graph.strictly
        path = args.model if args.model is not None else args.program.package_beside()
        package = None
        if path is not None:
            from openinfer.runtime.packages import open_model

            package = open_model(path, copy=args.copy_model)
        sizes = checked_sizes(parse_sizes(args.size))
        return Session(
            graph,
            package,
            sizes,
            given,
            args.seed,
            args.steps,
            args.threads,
            args.strict,
            args.precision,
            args.tuning,
            args.strict_math,
            args.device or DEFAULT_DEVICE,
            not args.no_fallback,
        )

    @property
    def simulated(self) -> bool:
        """Whether the program runs on the simulator."""
        return self.device == SIMULATOR

    def executor(self, trace: bool | None = None) -> BaseExecutor:
        """An executor on the device of the command line; for `trace` see `compiled`."""
        return self.simulator() if self.simulated else self.compiled(trace)

    def simulator(self) -> BaseExecutor:
        """An executor with the reference semantics."""
        try:
            simulator = Simulator(self.graph, self.package, self.sizes, self.strict)
            executor = simulator.make_executor(self.threads)
        except OpenInferError as error:
            raise advised(error, self.graph, self.package) from error
        self._show_warnings()
        return executor

    def compiled(self, trace: bool | None = None) -> BaseExecutor:
        """An executor of the compiled program, from the cache when it is there.

        With `trace` its steps leave events (None: as the environment asks).
        """
        check_available(self.device, "`openinfer run --device simulator` runs it node by node")
        try:
            with waiting(f"compiling {self.graph.file}"):
                program = compile(
                    self.graph,
                    self.package,
                    self.device,
                    sizes=self.sizes,
                    precision=self.precision,
                    tuning=self.tuning,
                    strict=self.strict,
                    strict_math=self.strict_math,
                    fallback=self.fallback,
                )
                executor = program.make_executor(self.threads, trace=trace)
        except OpenInferError as error:
            raise advised(error, self.graph, self.package) from error
        self._show_warnings()
        warn_of_cache()
        return executor

    def inputs(self, executor: BaseExecutor, step: int) -> dict[str, Tensor]:
        """Every dynamic variable: as given, else drawn from the seed, the name and the step."""
        from openinfer.compiler.tools.values import drawn_inputs

        return drawn_inputs(executor, self.given, self.sizes, self.seed, step)

    def _show_warnings(self) -> None:
        # A program that came from the cache was not parsed, and is not parsed for its warnings.
        if self.graph.parsed and not self._warned:
            self._warned = True
            show_warnings(self.graph)


def check_available(device: str, hint: str) -> None:
    """Raises UnsupportedError OI0733 where a device cannot run here."""
    reason = device_of(device).unavailable_reason()
    if reason is not None:
        raise UnsupportedError("OI0733", reason, hint=hint)


@contextmanager
def passes_timed(wanted: bool) -> Generator[None]:
    """Prints to stderr what the passes inside of a `with` block cost."""
    if not wanted:
        yield
        return
    with timed() as timings:
        yield
    if timings.rows:
        print(timings.table(), file=sys.stderr)
    else:
        print("nothing was compiled: the program came from the cache", file=sys.stderr)


def advised(error: OpenInferError, graph: Graph, package: Package | None) -> Exception:
    """The error, with what a program without a package may miss; mistakes of a text as they are."""
    if package is not None or not graph.parsed:
        return error
    if graph.file == STDIN_NAME:
        return AdvisedError(error, "no model package was given; --model FILE names one")
    stem = graph.file.removesuffix(".oi").removesuffix(".json")
    looked = " or ".join(f"{stem}{suffix}" for suffix in PACKAGE_SUFFIXES)
    return AdvisedError(
        error, f"no model package was given, and there is no {looked}; --model FILE names one"
    )


@cache
def warn_of_cache() -> None:
    """Says once why compiled programs are not kept, if they are not."""
    from openinfer.runtime.cache import default_cache

    problem = default_cache().problem()
    if problem is not None:
        message = f"warning: compiled programs are not kept: {problem}"
        fix = "set OPENINFER_CACHE_DIR to a folder of your own, or OPENINFER_CACHE=off"
        print(f"{message}\n  fix: {fix}", file=sys.stderr)


def results(executor: BaseExecutor, names: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """The results of the last step (or the named variables) as tensors."""
    from openinfer.runtime.tensors import Tensor, as_tensor

    found: dict[str, Tensor] = {}
    for name in names or executor.results:
        value = executor.fetch(name)
        dtype = executor.variables[name].dtype
        found[name] = value if isinstance(value, Tensor) else as_tensor(value, dtype, name=name)
    return found


def short_line(name: str, value: Tensor) -> str:
    """`y: f32[4, 10] = {0.125, 1.3 ... 0.0001234, 2.1}`."""
    from openinfer.runtime.tensors import format_truncated

    shape = ", ".join(str(extent) for extent in value.shape)
    return f"{name}: {value.dtype}[{shape}] = {format_truncated(value)}"


def tensor_json(value: Tensor) -> dict[str, Any]:
    """dtype, shape and values; non-finite floats become "NaN", "Infinity", "-Infinity"."""
    return {
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "values": _json_values(value.values().tolist()),
    }


def _json_values(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_values(item) for item in value]
    if isinstance(value, float):
        if value != value:
            return "NaN"
        if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
    return value


def output_files(texts: list[str]) -> Mapping[str, str]:
    """`["y=y.npy"]` as a dict. Raises UsageError."""
    files = _assignments(texts, "--output", "y=y.npy")
    for name, path in files.items():
        if not path.endswith(".npy"):
            raise UsageError(f"--output {name}={path} is no .npy file", "write y=FILE.npy")
    return files


def _assignments(texts: list[str], flag: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise UsageError(f"bad {flag} '{text}'", f"write {flag} {example}")
        if name.strip() in found:
            raise UsageError(f"{flag} {name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found
