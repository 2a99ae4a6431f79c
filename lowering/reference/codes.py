"""Diagnostics codes of executors, and of failing steps.

code → (title, explanation), for the table in `compiler/diagnostic_codes.py`.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI0330": (
        "constant that nothing fills",
        "The model has no tensor and no metadata of the name of a `constant`, and the constant has no "
        "`@init`, so it is zeros. Mostly the name is misspelt, or the model was not given. "
        "`@ref` names the tensor, `@init(0)` says that zeros are meant. A warning; with `--strict` an "
        "error.",
    ),
    "OI0331": (
        "weights are unpacked",
        "The model holds tensors in a block format that no kernel reads here, because of format, device, "
        "declared dtype or what else reads them: they are unpacked when the program is loaded, and take "
        'the memory of the declared dtype, or of f16, to which `precision="q8"` rounds them where only '
        "products and tables read them. A note, no mistake.",
    ),
    "OI0501": (
        "unknown variable",
        "The program declares no variable, or gives no result, of that name, or an input was given "
        "without one.",
    ),
    "OI0502": ("not an input", "Only dynamic variables are inserted."),
    "OI0503": (
        "wrong shape",
        "The array does not have the declared shape, or two arrays give one size two values.",
    ),
    "OI0505": ("input not set", "Every dynamic variable is inserted before each step."),
    "OI0506": (
        "no value to fetch",
        "Temporaries and inputs have a value only inside a step; a table is fetched by member.",
    ),
    "OI0507": ("executor closed", "The executor was closed; make another one."),
    "OI0508": ("size not fixed", "Nothing that was inserted or given fixes the size."),
    "OI0509": ("step under way", "A step is being iterated; finish or close it first."),
    "OI0520": ("size contradicts the model", "A given size differs from the package's."),
    "OI0521": ("impossible size", "Sizes are numbers from 0 to 2^48."),
    "OI0523": (
        "size that the program does not name",
        "A given size stands in no dimension, index, bound or setting: most likely a misspelling.",
    ),
    "OI0526": (
        "dimension divides by zero",
        "With the sizes of this step, a declared dimension divides by a size that is 0.",
    ),
    "OI0601": (
        "index outside its bound",
        "An index that the data gave lies outside of the tensor or table; nothing was stored.",
    ),
    "OI0602": (
        "shapes do not fit in this step",
        "With the sizes of this step the operands break the rule of the op, or its result does "
        "not have the declared shape.",
    ),
    "OI0603": ("size cannot be computed", "A size is negative, divides by zero, or has no value."),
    "OI0604": ("out of memory", "The step needs more memory than there is."),
    "OI0605": ("not one element", "A condition or a setting needs a value of one element."),
    "OI0606": (
        "cache index outside its bound",
        "An index is negative or beyond the bound of `@fixed`, a slice starts below 0 or ends before "
        "it starts, or a row, column or range lies outside of a matrix as it is now. The message "
        "names variable, index, value and bound; the step has changed nothing.",
    ),
    "OI0607": (
        "matrices that cannot be stacked",
        "A slice over a table of growing matrices stacks them, so all of them must have one shape.",
    ),
    "OI0608": (
        "persistent shape changed",
        "The dimensions of a persistent variable are those of the step that first touched it. With "
        "other sizes, call `reset()` on the executor first.",
    ),
    "OI0609": (
        "too much state",
        "Persistent variables would outgrow `max_state_bytes`, an option of `make_executor` (half of "
        "the machine's memory when it is not given). Nothing was allocated.",
    ),
    "OI0611": (
        "number that no index can be",
        "A bound of a loop, an index, an amount or a dimension, or a number that is computed on the way "
        "to it, is beyond 2^62 - 1, above or below 0.",
    ),
    "OI0612": (
        "size beyond its bound",
        "The program says what a size may be, `size 1 <= L <= 512;`, and a size of the model, one that was "
        "given or the shape of an input is another. The message names size, value and bound.",
    ),
    "OI0901": ("two twins", "Two NumPy twins are registered for one op."),
    "OI0902": (
        "twin and rule differ",
        "The NumPy twin of an op gives another shape than the op's rule in the registry.",
    ),
}
