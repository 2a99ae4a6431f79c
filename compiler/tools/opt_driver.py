"""The driver behind `openinfer-opt`: xDSL's, with our dialects, passes, pipelines and programs.

Output goes to stdout, everything else (diagnostics, timing, dumps between passes) to stderr.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, NoReturn

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.xdsl_opt_main import xDSLOptMain

from openinfer.compiler import passes, pipeline, registry
from openinfer.compiler.arguments import check_precision, checked_sizes
from openinfer.compiler.ir_text import parse_ir
from openinfer.compiler.levels import phase_of
from openinfer.compiler.start_level import check_start, settle_options
from openinfer.compiler.suggest import near
from openinfer.compiler.text import module_text
from openinfer.compiler.timings import Timings
from openinfer.compiler.tools.arguments import parse_sizes, usage_error
from openinfer.compiler.tools.phase_dumps import PhaseDumps
from openinfer.compiler.tools.program_argument import (
    STDIN,
    STDIN_NAME,
    package_beside,
    read_stdin,
)
from openinfer.compiler.tools.report import (
    BAD_INPUT,
    FINE,
    UsageError,
    diagnostics_of,
    findings_json,
    guard,
    know_source,
    render,
)
from openinfer.lowering.facts import is_bound
from openinfer.lowering.options import PipelineOptions, current, using
from openinfer.runtime.devices import DEFAULT_DEVICE, DEVICES
from openinfer.runtime.errors import Diagnostic, InputError, ProgramError
from openinfer.runtime.files import TEXT_LIMIT, read_all

if TYPE_CHECKING:
    from openinfer.compiler.frontend import ParseResult

SEPARATOR = "// -----"
TARGET_CPUS = ("host", "generic", "avx2", "avx512")

_EXAMPLES = """\
examples:
  openinfer-opt mlp.oi                                  the program as the graph dialect
  openinfer-opt mlp.oi --to nn                          … lowered to the nn level
  openinfer-opt mlp.oi --pipeline cpu --dump-dir D      … to llvm, one file per phase in D
  openinfer-opt D/01-nn.mlir --pipeline cpu --from nn   … resumed from a (changed) phase file
  openinfer-opt x.mlir -p 'canonicalize,cse'            some passes on any IR
  generate | openinfer-opt - --to nn                    any of these from standard input
"""


class OpenInferOptMain(xDSLOptMain):
    """One driver for every level; `run` returns the exit code instead of raising."""

    def __init__(self, args: Sequence[str]) -> None:
        self._dumps: PhaseDumps | None = None
        super().__init__("Reads any level of openinfer's IR and lowers it to any other.", args)

    # Registration: explicit lists, so that no plugin of the environment changes what we do.

    def register_all_dialects(self) -> None:
        for name, factory in registry.dialect_loaders().items():
            self.ctx.register_dialect(name, factory)

    def register_all_passes(self) -> None:
        for name, factory in registry.pass_loaders().items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        self.available_targets.update(registry.target_loaders())

    def register_all_frontends(self) -> None:
        self.available_frontends["mlir"] = self._read_ir
        self.available_frontends["oi"] = self._read_program
        self.available_frontends["json"] = self._read_graph_json

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "openinfer-opt"

        def fail(message: str) -> NoReturn:
            raise usage_error(arg_parser, message)

        # xDSL makes the parser: its mistakes become errors like all others.
        arg_parser.error = fail
        arg_parser.epilog = _EXAMPLES
        arg_parser.formatter_class = argparse.RawDescriptionHelpFormatter
        add = arg_parser.add_argument
        names = ", ".join(pipeline.PIPELINES)
        add("--pipeline", metavar="NAME", help=f"run a named pipeline: {names}")
        add("--to", metavar="PHASE", help="stop after this phase (pipeline: cpu if none is named)")
        add("--from", dest="start", metavar="PHASE", help="the input is what this phase produced")
        add(
            "--dump-dir", type=Path, metavar="DIR", help="write a file per phase, print their names"
        )
        add("--model", type=Path, metavar="FILE", help="the model package (default: beside it)")
        add("--size", action="append", default=[], metavar="NAME=N", help="fix a size (repeatable)")
        add("--target-cpu", choices=TARGET_CPUS, help="the CPU to lower for (default: host)")
        add("--observe", action="store_true", help="the build whose every node can be watched")
        add("--trace", action="store_true", help="the build that stamps a clock around its kernels")
        add("--strict", action="store_true", help="unknown hints and attributes are errors")
        add("--strict-math", action="store_true", help="no approximation, no reassociation")
        add("--precision", metavar="DTYPE", help="bf16 or q8: round the operands of products to it")
        add("--verify-each", action="store_true", help="verify after every pass of a pipeline")
        add("--json", action="store_true", help="errors as JSON on stdout")
        add("--traceback", action="store_true", help="show Python tracebacks of failures")

    # Input.

    def get_input_name(self) -> str:
        return self.args.input_file or STDIN_NAME

    def get_input_stream(self) -> tuple[IO[bytes], str]:
        """All bytes of the input, up to a limit, since a device may have no end, and the frontend for
        them; standard input is looked at for that."""
        name = self.args.input_file
        if name is None:
            data = read_stdin()
            return BytesIO(data), frontend_of(data)
        stream, extension = super().get_input_stream()
        with stream:
            return BytesIO(read_all(stream, TEXT_LIMIT, name)), extension

    def parse_chunk(
        self, chunk: IO[bytes], file_extension: str, start_offset: int = 0
    ) -> ModuleOp | None:
        # Blank lines in front keep the line numbers of a split file right, in every frontend.
        data = b"\n" * start_offset + chunk.read()
        try:
            self._text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                "OI0513",
                f"{self.get_input_name()} is not UTF-8 text: byte {error.start}",
                hint="openinfer-opt reads .oi programs, graph JSON and .mlir text",
            ) from None
        if self.args.input_file is None:
            know_source(STDIN_NAME, self._text)
        return self.available_frontends[file_extension](chunk)

    def _read_ir(self, _: IO[bytes]) -> ModuleOp:
        source = parse_ir(
            self._text,
            self.get_input_name(),
            self.ctx,
            implicit_module=not self.args.no_implicit_module,
        )
        if not self.args.disable_verify:
            source.verify()
        return source.module

    def _read_program(self, _: IO[bytes]) -> ModuleOp:
        from openinfer.compiler.frontend import parse_text

        return self._checked(parse_text(self._text, self.get_input_name(), self.args.strict))

    def _read_graph_json(self, _: IO[bytes]) -> ModuleOp:
        from openinfer.compiler.graph_json.read import parse_json

        return self._checked(parse_json(self._text, self.get_input_name(), self.args.strict))

    def _checked(self, result: ParseResult) -> ModuleOp:
        """The module of a program; its warnings go to stderr. Raises ProgramError."""
        if result.module is None:
            raise ProgramError(result.diagnostics, result.render())
        if result.diagnostics:
            print(result.render().rstrip("\n"), file=sys.stderr)
        module = result.module
        if not self.args.disable_verify:
            passes.check_module(module)
        return module

    # What to do.

    def setup_pipeline(self) -> None:
        args = self.args
        if args.input_file == STDIN:
            args.input_file = None
        try:
            self.passes = passes.build_passes(args.passes)
            staged = args.start or args.to or args.dump_dir
            self.pipeline_name: str | None = args.pipeline or ("cpu" if staged else None)
            if args.to is None and self.pipeline_name is not None:
                args.to = registry.TARGET_PHASES.get(args.target.partition("{")[0])
            if self.pipeline_name is not None:
                pipeline.phases(self.pipeline_name, args.start, args.to)
        except InputError as error:
            raise UsageError(error.message, error.hint) from None
        if args.dump_dir and args.split_input_file:
            raise UsageError("--dump-dir writes the phases of one module, not of a split file")
        if args.frontend is None and args.input_file is not None:
            extension = Path(args.input_file).suffix.removeprefix(".")
            if extension not in self.available_frontends:
                raise UsageError(
                    f"{args.input_file}: no frontend reads '.{extension}' files",
                    near(extension, self.available_frontends, "extensions")
                    + "; -f NAME chooses one",
                )

    def options(self) -> PipelineOptions:
        """What the command line says of the compilation; opens the model package."""
        args = self.args
        check_precision(args.precision, strict_math=args.strict_math)
        sizes = checked_sizes(parse_sizes(args.size))
        path: Path | None = args.model
        name = args.input_file or ""
        if path is None and name.endswith((".oi", ".json")):
            path = package_beside(name)
        package = None
        if path is not None and self.pipeline_name is not None:
            from openinfer.runtime.packages import open_model

            package = open_model(path)
        return PipelineOptions(
            package=package,
            sizes=sizes,
            device=self._device(),
            target_name=args.target_cpu or "host",
            observe=args.observe,
            trace=args.trace,
            strict=args.strict,
            strict_math=args.strict_math,
            precision=args.precision,
        )

    def _device(self) -> str:
        """The device that the pipeline is for."""
        name = (self.pipeline_name or DEFAULT_DEVICE).removesuffix("-plain")
        return name if name in DEVICES else DEFAULT_DEVICE

    def _settle_options(self, prog: ModuleOp) -> None:
        """Raises InputError OI0524 for options that contradict what a module says that is bound."""
        args = self.args
        for name in ("model", "strict"):
            if getattr(args, name) and is_bound(prog):
                raise InputError(
                    "OI0524",
                    f"--{name} is for binding a program to its model, and this module is bound",
                    hint="leave it out, or start from the program",
                )
        starts = self.pipeline_name is not None and args.start is None
        binds = starts or any(item.name == "bind-model" for item in self.passes)
        settle_options(prog, current(), binds=binds, named_host=args.target_cpu == "host")

    def apply_passes(self, prog: ModuleOp) -> None:
        args = self.args
        self._settle_options(prog)
        timings = Timings()
        verify = not args.disable_verify

        def on_pass(phase: str, item: ModulePass, module: ModuleOp, seconds: float) -> None:
            timings.add(phase, item.name, seconds)
            if args.print_between_passes:
                print(f"// IR after {item.name}:", file=sys.stderr)
                print(module_text(module), file=sys.stderr)

        try:
            if self.pipeline_name is not None:
                phases = pipeline.PIPELINES[self.pipeline_name]
                check_start(prog, phases, args.start, phase_of(self._text))
                dumps = PhaseDumps.of(args, self.pipeline_name, self.ctx)
                self._dumps = dumps
                pipeline.run(
                    prog,
                    self.ctx,
                    self.pipeline_name,
                    args.start,
                    args.to,
                    on_phase=dumps.write if dumps is not None else None,
                    on_pass=on_pass,
                    verify=verify,
                    verify_each=args.verify_each,
                )
            for item in self.passes:
                passes.run_pass(item, prog, self.ctx, "", on_pass)
                if verify:
                    passes.check_module(prog)
        finally:
            if args.time_passes:
                print(timings.table(), file=sys.stderr)

    def output_resulting_program(self, prog: ModuleOp) -> str:
        args = self.args
        # The module stands in the last file already, unless it was asked for in another form.
        plainly = args.target == "mlir" and args.output_file is None and not self.passes
        if self._dumps is not None and plainly:
            return "".join(f"{path}\n" for path in self._dumps.files)
        plain = not (args.print_no_properties or args.syntax_highlight)
        if args.target == "mlir" and plain:
            return module_text(
                prog,
                self.ctx,
                all_locations=args.print_debuginfo,
                generic=args.print_op_generic,
            )
        return super().output_resulting_program(prog)

    def run_all(self) -> int:
        """Every chunk of the input, also after one that fails; the exit code."""
        args = self.args
        with using(self.options()):
            chunks, extension = self.prepare_input()
            outputs: list[str] = []
            failures: list[Diagnostic] = []
            failed = False
            for chunk, offset in chunks:
                with chunk:
                    try:
                        module = self.parse_chunk(chunk, extension, offset)
                        assert module is not None
                        self.apply_passes(module)
                        outputs.append(self.output_resulting_program(module))
                    except Exception as error:
                        if args.traceback:
                            raise
                        # xDSL's flags for tests: the message is the output, and the exit code 0.
                        if args.verify_diagnostics or args.parsing_diagnostics:
                            outputs.append(render(error) + "\n")
                            continue
                        failed = True
                        if args.json:
                            failures += diagnostics_of(error)
                        else:
                            print(render(error), file=sys.stderr)
            if failures:
                # One JSON document on stdout: what was lowered beside it is left out.
                print(findings_json(failures))
            elif len(outputs) > 1 and self._binary:
                raise UsageError(
                    f"`-t {args.target}` writes bytes of one input, not of {len(outputs)}"
                )
            elif outputs:
                self._write(f"{SEPARATOR}\n".join(outputs))
        return BAD_INPUT if failed else FINE

    @property
    def _binary(self) -> bool:
        return self.args.target.partition("{")[0] in registry.BINARY_TARGETS

    def _write(self, text: str) -> None:
        if self._binary:
            data = text.encode("latin-1", "backslashreplace")
            if self.args.output_file is None:
                sys.stdout.buffer.write(data)
                sys.stdout.flush()
            else:
                Path(self.args.output_file).write_bytes(data)
            return
        stream = self.prepare_output()
        try:
            stream.write(text)
            stream.flush()
        finally:
            if stream is not sys.stdout:
                stream.close()


_SPACE = re.compile(rb"(?:\xef\xbb\xbf|\s|//[^\n]*\n?)+")
_PROGRAM = re.compile(
    rb"(?:dynamic|volatile|constants?|persistent|inputs|outputs|state)\s*\{|block\s+\w|model\s*:"
    rb"|graph\s*!|let\s+\w"
)


def frontend_of(data: bytes) -> str:
    """The frontend for a text without a name, by how it begins: a program, graph JSON, or IR."""
    start = _SPACE.match(data)
    at = start.end() if start else 0
    if data.startswith(b"{", at) and not data.startswith(b"{-#", at):
        return "json"
    # A comment, too, is something that only programs begin with in this form.
    return "oi" if _PROGRAM.match(data, at) or data.startswith(b"/*", at) else "mlir"


def drive(arguments: Sequence[str]) -> int:
    """Runs `openinfer-opt` with these arguments and returns its exit code."""

    def body() -> int:
        try:
            return OpenInferOptMain(arguments).run_all()
        except ArgSpecParseError as error:
            raise UsageError(str(error).strip()) from None

    return guard(body, traceback="--traceback" in arguments, json="--json" in arguments)
