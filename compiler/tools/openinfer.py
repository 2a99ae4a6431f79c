"""`openinfer`: the command for people who use programs. A subcommand is a file in `commands/`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from openinfer.compiler.tools.arguments import CommandParser
from openinfer.compiler.tools.report import FINE, USAGE, UsageError, guard, model_warnings
from openinfer.compiler.tools.streams import prepare_streams

COMMANDS = {
    "bench": "race programs against other runtimes, beside the machine's limits",
    "cache": "list, remove or clear the compiled programs on disk",
    "chat": "talk with a language model",
    "check": "say everything that is wrong with a program, without compiling",
    "compare": "run the simulator and the compiled program side by side",
    "compile": "compile a program into a file that runs without the compiler",
    "debug": "step through a program: breakpoints, values, watches",
    "devices": "what can run here, and why the rest cannot",
    "export": "write a program as an ONNX model, as graph JSON, or as text again",
    "fmt": "write programs in their canonical layout",
    "generate": "continue a text with a language model",
    "import": "make a program of an ONNX file or an export of PyTorch",
    "inspect": "show what a model package or a program holds",
    "lsp": "a language server for editors",
    "pack": "write a model package from a Python dataclass or another package",
    "perplexity": "how well a language model predicts a text",
    "program": "print the program that runs a language model",
    "quantize": "write a .gguf model with its weights in a block format",
    "run": "run a program and print its results",
    "serve": "answer requests over HTTP with a language model, in OpenAI's form",
    "trace": "show where the time of a run went, by node, op, scope and line",
    "tune": "measure the tiles of a program's matrix products, and keep the best",
}

_FILES = {"import": "import_model"}
"""Commands that are words of Python have files of other names."""

_EXAMPLES = """\
examples:
  openinfer run examples/mlp.oi                 drawn inputs, the package beside it, short output
  openinfer run mlp.oi --input x=x.npy --output y=y.npy --threads 2
  openinfer compare mlp.oi --size B=3           0: they agree, 3: the first node that differs
  openinfer export mlp.oi -o graph.json         the program as graph JSON, which runs like it
  openinfer compile mlp.oi -o mlp.oip           a file that runs where xDSL is not installed
  openinfer inspect model.safetensors
  openinfer COMMAND --help                      more of a command, by example
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool and returns its exit code."""
    prepare_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        guard(lambda: print(usage()) or FINE, traceback=False)
        return FINE if arguments else USAGE
    if arguments[0] in ("-v", "--version"):
        from openinfer.runtime.version import version_line

        return guard(lambda: print(version_line("openinfer")) or FINE, traceback=False)
    name = arguments[0]
    if name not in COMMANDS:
        from openinfer.compiler.suggest import near

        error = UsageError(f"there is no command '{name}'", near(name, COMMANDS, "commands"))
        return guard(lambda: _fail(error), traceback=False, json="--json" in arguments)
    # Only the command that runs is imported: the others cost nothing.
    command = import_module(f"openinfer.compiler.tools.commands.{_FILES.get(name, name)}")
    parser = CommandParser(
        prog=f"openinfer {name}",
        description=command.__doc__,
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    json = not getattr(command, "JSON_IS_A_FILE", False)
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON, of errors too")
    parser.add_argument("--traceback", action="store_true", help="show Python tracebacks")
    # A prompt may stand behind options; argparse looks for it beside the model else.
    mixed = getattr(command, "OPTIONAL_POSITIONALS", False)
    parse = parser.parse_intermixed_args if mixed else parser.parse_args
    with model_warnings():
        return guard(
            lambda: command.run(parse(arguments[1:])),
            traceback="--traceback" in arguments,
            json=json and "--json" in arguments,
        )


def _fail(error: UsageError) -> int:
    raise error


def usage() -> str:
    """What `openinfer --help` prints."""
    width = max(len(name) for name in COMMANDS)
    lines = ["usage: openinfer COMMAND …", "", "commands:"]
    lines += [f"  {name:{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join([*lines, "", _EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
