"""THE table of diagnostics codes: code → (title, explanation); makes `docs/diagnostics.md`.

Larger parts keep their rows beside their code (`codes.py` of the frontend, the checker, the tools
and the simulator); those of the runtime and the lowering stand here, since the runtime never needs
them.
"""

from __future__ import annotations

from typing import Final

from openinfer.compiler.frontend.codes import CODES as FRONTEND
from openinfer.compiler.importers.onnx.file_codes import CODES as ONNX_FILES
from openinfer.compiler.importers.onnx.import_codes import CODES as ONNX_IMPORTS
from openinfer.compiler.importers.torch.codes import CODES as TORCH
from openinfer.compiler.llm.codes import CODES as LANGUAGE_MODELS
from openinfer.compiler.tools.codes import CODES as TOOLS
from openinfer.lowering.program.codes import CODES as PROGRAM
from openinfer.lowering.reference.codes import CODES as REFERENCE

_PACKAGES: Final[dict[str, tuple[str, str]]] = {
    "OI0401": (
        "package cannot be opened",
        "The path is missing, no regular file, not readable, or a folder without a model.",
    ),
    "OI0402": (
        "unknown kind of package",
        "The first bytes are not those of `.oinf`, `.safetensors` or `.gguf`.",
    ),
    "OI0403": (
        "damaged `.oinf` header",
        "The message names the field. Write the package anew from its source.",
    ),
    "OI0404": (
        "damaged `.oinf` table",
        "An entry of a table contradicts the file; the message names table, entry and field.",
    ),
    "OI0405": (
        "damaged tensor data",
        "The bytes of a tensor do not form values of its dtype and shape.",
    ),
    "OI0407": ("no such tensor", "The package has no tensor of that name."),
    "OI0408": ("tensor without data", "The package declares the tensor, but holds no data for it."),
    "OI0409": ("damaged `.safetensors` file", "The message names what contradicts the format."),
    "OI0410": (
        "unusable `config.json`",
        "The configuration beside a `.safetensors` file is no JSON object with usable values.",
    ),
    "OI0411": ("package closed", "Tensors are read before the package is closed."),
    "OI0412": (
        "no part of a package",
        "An entry has a name, type or value that packages do not hold.",
    ),
    "OI0413": (
        "file of a defective writer",
        "The original's Python writer for version 2 of `.oinf` places quantisation records where "
        "it does not write them, unless only the last tensor has one. Write the model again.",
    ),
    "OI0414": (
        "package changed while it was open",
        "Packages are mapped: their bytes are read from the file when they are needed. Somebody wrote "
        "into the file or cut it off. Replace a package by renaming a new file, never in place, or open "
        "it with `copy=True` (`--copy-model`).",
    ),
    "OI0415": (
        "package cannot be copied into memory",
        "`copy=True` reads the whole file into memory, which has no room for it.",
    ),
    "OI0416": (
        "unusable index of a model in several files",
        "`model.safetensors.index.json` says in which file of its folder each tensor lies. It is no such "
        "JSON, names a file elsewhere, or its files hold other tensors than it says: each must be listed "
        "once, where it is.",
    ),
    "OI0417": (
        "several models in a folder",
        "A folder stands for the one model in it: `model.safetensors` or its index, else the only index, "
        "`.safetensors`, `.oinf` or `.gguf` file that is no part of another. Give the path of the one that "
        "is meant.",
    ),
    "OI0418": (
        "damaged `.gguf` file",
        "An entry of the file contradicts the format or the length of the file; the message names entry and "
        "field. Fetch the file again.",
    ),
    "OI0419": (
        "parts of a `.gguf` model disagree",
        "A model in several files, `NAME-00001-of-00003.gguf`, says in each what part it is, and in the "
        "first how many tensors there are. A part is missing, has another's name, or is of another model.",
    ),
    "OI0422": (
        "a weight does not fit f16",
        'With `precision="q8"` weights in blocks that no kernel of the device reads are rounded to f16. '
        "One has values beyond 65504, or values that are not finite. Without that precision they are f32.",
    ),
}

_ARRAYS: Final[dict[str, tuple[str, str]]] = {
    "OI0541": ("wrong dtype", "The array or value has another dtype than the declaration."),
    "OI0542": ("wrong shape", "The array has another shape than the declaration."),
    "OI0543": ("no value of the dtype", "A value cannot be represented in the dtype."),
    "OI0544": (
        "not an array",
        "Arrays are NumPy arrays, tensors, numbers, lists, or objects with DLPack or the buffer "
        "protocol, in CPU memory.",
    ),
    "OI0546": (
        "a temporary after the step",
        "`assign` temporaries can be fetched only while a step is iterated.",
    ),
    "OI0548": (
        "matrices of different shapes",
        "A table of growing matrices can be fetched as a whole only while all have one shape.",
    ),
    "OI0547": (
        "no such member",
        "The index lies outside of the members of a prefix table, or of the entries of a cache.",
    ),
    "OI0551": (
        "snapshot of another program",
        "A snapshot is restored where every persistent variable has the name, dtype, indices and "
        "shape that it has in the program. Nothing was changed.",
    ),
    "OI0552": (
        "unusable limit of state",
        "`max_state_bytes` is a number of bytes from 1 to 2^56.",
    ),
    "OI0580": (
        "wrong arguments of a native function",
        "The arrays do not fit the types of a function that was compiled for a test.",
    ),
}

_STEPPING: Final[dict[str, tuple[str, str]]] = {
    "OI0549": (
        "cache inside a compiled step",
        "While a compiled program is iterated, tables and growing matrices have no value of "
        "their own; what `cache.read` takes from them has. The simulator shows them.",
    ),
    "OI0561": (
        "expression does not parse",
        "Conditions of breakpoints, and what `print` and `watch` take, are the small expressions "
        "of `docs/debugging.md`. The message shows the column.",
    ),
    "OI0562": (
        "expression without a value",
        "A name is unknown or has no value at this point of the step, an index is outside, or "
        "one value is needed where there are many.",
    ),
    "OI0563": (
        "no such place",
        "A breakpoint names a block, op, line or node that the program does not have, or nothing.",
    ),
    "OI0564": (
        "two threads in one executor",
        "`insert`, `step`, `fetch` and all else but `run` are for one thread at a time: this call found "
        "another thread inside, and did nothing. Make an executor for each thread; they share code and "
        "weights. Or let the threads call `run`, which is one whole: inputs, step, results.",
    ),
    "OI0565": (
        "inputs or results of another thread",
        "Inputs that a thread has inserted are for its own step, and what a step leaves behind is for the "
        "thread that ran it: another thread would get numbers that are not its own. State and constants "
        "are everybody's, and what a thread leaves that has ended is for whoever comes next.",
    ),
}

_UNSUPPORTED: Final[dict[str, tuple[str, str]]] = {
    "OI0710": ("target or element type that no kernel is made for", "See `openinfer devices`."),
    "OI0711": (
        "op without code for a dtype",
        "The compiled program cannot compute the op in this dtype; cast around it.",
    ),
    "OI0712": (
        "bound that only a step knows",
        "The compiled program needs loop bounds and slices of sizes, not of run-time values.",
    ),
    "OI0713": ("statement not in compiled programs", "The simulator runs it."),
    "OI0715": ("indices on something else", "Only prefix tables are indexed in an op."),
    "OI0716": ("write to a prefix table", "The members of a prefix table cannot be written."),
    "OI0717": ("size as operand", "An op reads variables, not sizes or loop indices."),
    "OI0719": (
        "dimension from a variable",
        "An input has its shape before a step runs; a scalar has its value only in it. Name a size of "
        "its own for the dimension, which the input then fixes, or write `_`.",
    ),
    "OI0720": (
        "setting without a value",
        "The compiled program needs the setting's value when it is compiled.",
    ),
    "OI0721": ("op not in compiled programs", "The simulator has every op."),
    "OI0518": ("unusable number of threads", "A step runs on 1 to 1024 threads."),
    "OI0731": (
        "loaded program cannot be iterated or traced",
        "These run further builds of the program; `openinfer compile --observed --traced` and "
        "`Program.save(path, observed=True, traced=True)` put them into the file.",
    ),
    "OI0736": (
        "compiled program without its text",
        "The simulator runs the text of a program, which this file does not hold.",
    ),
    "OI0732": (
        "precision not implemented",
        "Operands of products are rounded to bf16 or not at all.",
    ),
    "OI0735": (
        "no snapshots here",
        "The executor cannot give or take the content of persistent variables.",
    ),
    "OI0741": (
        "version of a package not readable",
        "The file is of a version or byte order of GGUF that openinfer does not read: versions 2 and 3, "
        "little-endian, are read.",
    ),
    "OI0742": ("dtype of a package unknown", "The package holds a dtype that openinfer lacks."),
    "OI0743": ("dtype not in `.oinf`", "The `.oinf` format has no id for the dtype."),
    "OI0744": (
        "tensor cannot be quantised",
        "`openinfer quantize` takes weights in F32, F16 and BF16, with finite values that a scale in F16 can "
        "hold.",
    ),
    "OI0760": (
        "damaged SPIR-V words",
        "The words of a device kernel are no instructions: they were cut off, edited, or written by "
        "another tool.",
    ),
    "OI0761": (
        "malformed SPIR-V module",
        "The instructions of a device kernel break a rule of modules, functions, blocks, ids or types.",
    ),
    "OI0762": (
        "no SPIR-V module to write",
        "`openinfer-opt -t spirv` writes the one `spirv.module` of its input, which says what it `requires`, "
        "and in which values are computed in front of their uses.",
    ),
    "OI0763": (
        "SPIR-V that the dialect does not hold",
        "The words are a module, but the `spirv` dialect has no form for a part of it.",
    ),
    "OI0764": (
        "no device kernel to write as GLSL",
        "`openinfer-opt -t glsl` writes the device kernels of its input, as they are behind "
        "`lower-device-kernels` and before `convert-to-spirv`.",
    ),
    "OI0765": (
        "no text in GLSL",
        "A device kernel has an op or a type that `openinfer-opt -t glsl` does not know; its SPIR-V, "
        "`-t spirv-text`, has it.",
    ),
    "OI0770": (
        "no Vulkan device",
        "The package `vulkan`, the loader, a driver of version 1.3, or a feature of the device is missing; "
        "a device that computes on the processor is taken only when it is named.",
    ),
    "OI0771": ("unknown Vulkan device", "The name is that of no device; the message lists them."),
    "OI0772": ("kernel refused by the driver", "The driver makes no pipeline of a device kernel."),
    "OI0773": (
        "beyond a limit of the Vulkan device",
        "A buffer is larger than what a kernel may be given, or a kernel has too many workgroups, or needs "
        "what the device does not have or more than it has (invocations of a workgroup, shared memory, push "
        "constants, buffers): the program was compiled for another one, or edited.",
    ),
    "OI0774": (
        "call of the Vulkan driver failed",
        "The device was lost, works for more than a minute, or has no memory left for the driver's own "
        "needs. A program makes its kernels and weights anew on a new device; what executors kept on a lost "
        "one is gone, and they say so.",
    ),
    "OI0776": (
        "device without a clock",
        "Tiles are measured by timestamps of the device, which it does not have. The defaults of its limits "
        "hold.",
    ),
    "OI0781": (
        "no native code on this machine",
        "llvmlite is missing or does not know this processor. The simulator runs everywhere.",
    ),
}

_ARTEFACTS: Final[dict[str, tuple[str, str]]] = {
    "OI0802": ("no compiled program", "The file is something else, cut off, or damaged."),
    "OI0803": ("compiled by another version", "Compile the program again."),
    "OI0804": ("package missing", "The program needs the package that it was compiled with."),
    "OI0805": ("other package", "The package has other tensors than the compiled program's."),
    "OI0806": ("other processor", "The program was compiled for instructions that are not here."),
    "OI0807": (
        "no build for this device",
        "The compiled program is for another device: compile its text again with `--device`.",
    ),
    "OI0811": (
        "snapshot file unusable",
        "The file is missing, cannot be written, is damaged, or holds no snapshot.",
    ),
    "OI0812": (
        "no memory for a snapshot",
        "Taking, reading or restoring a snapshot needs memory that is not there. The state is as before.",
    ),
    "OI0813": (
        "no memory for a program",
        "Weights are laid out when the first executor is made, which needs memory that is not there.",
    ),
    "OI0840": ("machine code unusable", "A cached object cannot be linked; it is built again."),
}

_BUG = "This is a bug of the compiler: please report it with the program."

_BUGS: Final[dict[str, tuple[str, str]]] = {
    "OI0573": ("machine code calls what openinfer does not provide", _BUG),
    "OI0931": ("no vector of this element", _BUG),
    "OI0932": ("fill with no number", _BUG),
    "OI0933": ("loop without a bound or an index without code", _BUG),
    "OI0935": ("op without a conversion to SPIR-V", _BUG),
    "OI0951": ("epilogue operand with a strange map", _BUG),
    "OI0952": ("matmul body without end", _BUG),
    "OI0953": ("op built outside of a function", _BUG),
    "OI0955": ("kernel without its scratch buffers", _BUG),
    "OI0980": ("no conversion to the llvm dialect", _BUG),
    "OI0981": ("no LLVM IR for an op", _BUG),
    "OI0982": ("LLVM refuses the IR", _BUG),
    "OI0983": ("function missing", _BUG),
}

CODES: Final[dict[str, tuple[str, str]]] = {
    **FRONTEND,
    **PROGRAM,
    **TOOLS,
    **REFERENCE,
    **LANGUAGE_MODELS,
    **ONNX_FILES,
    **ONNX_IMPORTS,
    **TORCH,
    **_PACKAGES,
    **_ARRAYS,
    **_STEPPING,
    **_UNSUPPORTED,
    **_ARTEFACTS,
    **_BUGS,
}
"""Every code of the project."""
