"""Diagnostics codes of the tools, the pipeline and the runtime's options.

code → (title, explanation), for the table in `compiler/diagnostic_codes.py`.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI0510": (
        "unknown pipeline",
        "`--pipeline` names none of the pipelines of `compiler/pipeline.py`.",
    ),
    "OI0511": (
        "unknown or misplaced phase",
        "`--from` or `--to` names no phase of the pipeline, or `--to` stands before `--from`.",
    ),
    "OI0512": (
        "unknown pass or option",
        "A pass of `-p` is not in `compiler/registry.py`, or its options do not fit it. Write "
        "`-p 'first,second{option=value}'`.",
    ),
    "OI0513": (
        "not a text",
        "The file is not UTF-8, or is not the text of a program: a model, a compiled program, IR.",
    ),
    "OI0514": (
        "program cannot be read",
        "The `.oi` file is missing, may not be read, or is longer than any program: 64 MiB.",
    ),
    "OI0515": (
        "wrong level of IR",
        "A pipeline starts from what `--from` says: a module of that level, or a program when it "
        "is left out. The files of `--dump-dir` name the right one in their first lines.",
    ),
    "OI0516": (
        "unknown precision",
        "`precision` names what operands of matrix products are rounded to: bf16, or q8 for products with "
        "weights in blocks; f32 rounds nothing.",
    ),
    "OI0528": (
        "precision with strict mathematics",
        '`precision="bf16"` rounds the operands of products, which `strict_math` forbids: a '
        "compilation has one of them.",
    ),
    "OI0517": ("bad size", "A size is a whole number of elements, from 0 to 2^48."),
    "OI0522": (
        "input file cannot be read",
        "`--input NAME=FILE.npy` takes an array that `numpy.save` wrote, without Python objects.",
    ),
    "OI0524": (
        "option of a module that is bound",
        "A dump says what it was bound with: target, strict mathematics, precision, sizes and their like. "
        "What goes on from it repeats no option, and cannot take another one. Bind the program again.",
    ),
    "OI0531": (
        "attribute of a module that says nothing",
        "The attributes `openinfer.…` of a module are the facts that passes read (`lowering/facts.py`). One "
        "that no pass knows, or with a value that means nothing, is refused, since it would be ignored.",
    ),
    "OI0533": (
        "no part of a program that is built",
        "A call of `GraphBuilder` gives what no program text holds: a name that is none or is taken, an "
        "operand that is no variable of this program, a value that no setting takes.",
    ),
    "OI0534": (
        "no such entry of the cache",
        "`openinfer cache remove` takes the keys that `openinfer cache list` shows, or enough of their "
        "beginnings to mean one each.",
    ),
    "OI0532": (
        "tile that cannot be",
        "A table of measured tiles (`docs/vulkan.md`) has a tile for a product that a kernel of the device "
        "cannot be made of: the message says why. It was written by hand, or for a device with other limits.",
    ),
    "OI0525": (
        "wrong kind of argument",
        "A function of the Python interface was given something else than a program, an opened "
        "package or a path.",
    ),
    "OI0527": (
        "IR without interface",
        "From level `nn` on, `nn.interface` says what the function `@step` takes and gives.",
    ),
    "OI0529": (
        "no content to pack",
        "`openinfer pack` was given a module, name or arguments that make no dataclass instance.",
    ),
    "OI0519": (
        "input text is no value",
        "`--input` takes numbers (`x=1,2,3`), nested lists (`x=[[1,2],[3,4]]`) or a `.npy` file.",
    ),
    "OI0530": (
        "bad environment variable",
        "The variables that openinfer reads stand in `runtime/options.py`, with their values.",
    ),
    "OI0553": (
        "executor without a trace",
        "The plain build of a compiled program leaves no events, so that it costs nothing. "
        "`make_executor(trace=True)` runs the traced build, whose `tracing` can be switched.",
    ),
    "OI0554": (
        "trace cannot be written",
        "The formats are `json` (`docs/trace.md`) and `chrome`, which Perfetto opens.",
    ),
    "OI0555": (
        "not a trace",
        "The file is no trace of format `json`: the message names the entry and the field. "
        "`openinfer run --trace FILE` writes such files, `docs/trace.md` describes them.",
    ),
    "OI0556": (
        "no measured schedules",
        "The file that `tuning` names cannot be read or written, or is none that `openinfer tune` "
        "wrote: the message names what is wrong with it.",
    ),
    "OI0557": (
        "file cannot be read or written",
        "A file that a command line names is missing, is a folder, or may not be read or written.",
    ),
    "OI0730": ("unknown device", "`openinfer devices` lists the devices of this build."),
    "OI0733": (
        "device cannot run here",
        "`openinfer devices` says why. The simulator runs wherever Python and NumPy do.",
    ),
    "OI0738": (
        "device does not support an op",
        "`--no-fallback` and `compile(fallback=False)` forbid that the host runs what a device cannot; "
        "the message names each such op and the reason.",
    ),
    "OI0739": (
        "no machine computes an op",
        "An op that only an edited IR can have so far: the host has no kernel for it.",
    ),
    "OI0734": (
        "optional library missing",
        "A command needs a library or program that openinfer does not; the fix names what to "
        "install.",
    ),
    "OI0737": (
        "benchmarks not here",
        "The workloads of `openinfer bench` lie in the repository, not in the installed package. "
        "Clone it and install it from there with `pip install -e '.[bench]'`.",
    ),
    "OI0801": (
        "compiled program cannot be read or written",
        "The file that `openinfer.load` was given is missing or may not be read, or "
        "`Program.save` cannot write where it was told to.",
    ),
    "OI0961": (
        "IR text does not parse",
        "The text is neither our IR nor that of a dialect that openinfer registers; the caret "
        "shows where the reader stopped.",
    ),
    "OI0962": (
        "a pass failed",
        "A pass of the compiler stopped with an error that is not the program's. Please report "
        "it with the program; `--dump-dir` shows the IR before it.",
    ),
    "OI0590": (
        "wrong command line",
        "A command, an option or its value is not one that there is, or two of them do not go together. "
        "The exit code is 2; `--help` behind a command shows what it takes.",
    ),
    "OI0591": (
        "unexpected failure",
        "openinfer failed in a way that it has no message for. This is a bug: `--traceback` shows where, "
        "please report it.",
    ),
    "OI0963": (
        "IR does not verify",
        "An op breaks a rule of its dialect, or a value is used where its definition may not have "
        "run. In IR that a person wrote this is a mistake of the text; after a phase of a "
        "pipeline it is a bug of the compiler.",
    ),
    "OI0964": (
        "op that its phase should have lowered",
        "Each phase of `compiler/pipeline.py` says what it leaves. This is a bug of the compiler.",
    ),
}
