"""Diagnostics codes of the checker of programs.

code → (title, explanation), for the table in `compiler/diagnostic_codes.py`.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI0201": (
        "variable declared twice",
        "All memory sections share one space of names.",
    ),
    "OI0202": ("block defined twice", "Every block has its own name."),
    "OI0205": (
        "temporary assigned twice",
        "A temporary is assigned once in a block. Another block may assign it too, with the same "
        "type.",
    ),
    "OI0206": (
        "temporary hides a variable",
        "Temporaries and declared variables share one space of names.",
    ),
    "OI0207": ("index named twice", "The indices of a declaration have different names."),
    "OI0210": (
        "undefined variable",
        "The name is declared in no memory section and assigned in no block.",
    ),
    "OI0211": (
        "temporary used before its assign",
        "Followed from `entry`, the program reaches this use before any `assign` of the name.",
    ),
    "OI0212": ("undefined block", "`branch` names a block that does not exist."),
    "OI0213": ("no block `entry`", "Every step starts in the block `entry`."),
    "OI0214": (
        "unknown op",
        "The registry has no op of this name. `docs/ops.md` lists all of them.",
    ),
    "OI0215": (
        "unknown setting",
        "The op has no setting of this name; the fix lists those it has.",
    ),
    "OI0216": ("missing setting", "The op has a setting without a default, and it is not given."),
    "OI0217": ("wrong number of operands", "The op takes more or fewer operands."),
    "OI0218": ("wrong number of outputs", "The op has more or fewer results than are named."),
    "OI0220": (
        "write to memory that the graph may not write",
        "`dynamic` variables are set by the caller only; `constant` variables never change.",
    ),
    "OI0221": (
        "persistent memory used without `cache.*`",
        "Persistent variables are written with `cache.*`, which works on no others. Their value is "
        "read by name or with `cache.read`, entries of a table with `cache.read` only.",
    ),
    "OI0222": (
        "counting something that is no scalar",
        "`cache.increment` and `cache.decrement` work on persistent scalars.",
    ),
    "OI0223": (
        "counting in a dtype that does not count",
        "`cache.increment` and `cache.decrement` work on floats, and on integers of 8 bits or more.",
    ),
    "OI0230": (
        "wrong number of indices",
        "A use names one index for each index of the declaration.",
    ),
    "OI0231": (
        "indices on a variable without indices",
        "Brackets select an entry of a variable that is declared with indices. They do not slice "
        "a tensor: `op slice` does.",
    ),
    "OI0232": (
        "slice outside of a cache",
        "Cache operations take slices, and what is read: `x[0..4]` as an operand. The entry of a family of "
        "tensors and what is written take none.",
    ),
    "OI0233": (
        "an entry as output",
        "The tensors of an indexed variable can be read, not written.",
    ),
    "OI0234": (
        "write of several slices",
        "`cache.write` takes single indices and at most one slice; with `@auto_dim`, single table "
        "indices only.",
    ),
    "OI0235": (
        "reset of a slice",
        "`cache.reset` takes a whole variable, an entry, or the first indices of entries. Of a "
        "matrix that grows, only the whole is reset.",
    ),
    "OI0236": (
        "write of a range of a matrix",
        "Of a matrix that grows, `cache.write` stores the whole, one row or one column.",
    ),
    "OI0238": (
        "slice that ends before it starts",
        "Slices are half-open: `a..b` has `b - a` entries.",
    ),
    "OI0239": (
        "index beyond its bound",
        "`@fixed(i=N)` allows the indices below N, and with `@auto_dim` counts up to N.",
    ),
    "OI0240": (
        "block without end",
        "Every block ends in `return` or `yield`.",
    ),
    "OI0241": (
        "unreachable statement",
        "Nothing behind a `return` runs.",
    ),
    "OI0242": (
        "value returned outside of `entry`",
        "Blocks share all variables; only `entry` returns values, to the caller of the step.",
    ),
    "OI0243": (
        "returns differ",
        "All value-returning `return`s of `entry` name the same list.",
    ),
    "OI0244": (
        "cycle of branches",
        "A branch calls a block that returns; a block that calls itself, directly or through "
        "others, would never end.",
    ),
    "OI0245": ("block never called", "No chain of branches leads from `entry` to this block."),
    "OI0246": ("name given twice", "A list of outputs or returned values names a variable twice."),
    "OI0247": (
        "misplaced yield or await",
        "In `entry`, `yield` gives values to the blocks that await them and `await` takes them "
        "back. Such a block starts with its only `await` and ends with its only `yield`.",
    ),
    "OI0248": (
        "call of a consumer",
        "A block that starts with `await` runs when its values are yielded; `branch` cannot call "
        "it.",
    ),
    "OI0249": (
        "use of a yielded value",
        "Between `yield` and `await`, entry and the blocks that it calls neither read nor write the "
        "value.",
    ),
    "OI0250": (
        "unknown attribute",
        "Kept and printed, but it means nothing. An error with `--strict`.",
    ),
    "OI0251": (
        "unknown hint",
        "Kept and printed, but it means nothing. An error with `--strict`.",
    ),
    "OI0252": (
        "attribute does not fit",
        "The attribute or the indices do not fit the memory kind or the other attributes: `@init`, "
        "`@ref` and `@pattern` are for memory that the package or the program fills, `@table`, "
        "`@auto_dim` and `@fixed` for persistent memory.",
    ),
    "OI0254": (
        "pattern and indices differ",
        "`{index}` in a pattern stands for an index of the declaration, and each index occurs.",
    ),
    "OI0255": (
        "indices and attributes do not fit",
        "The indices of a table come first, then those of `@auto_dim` in its order; `@table` is "
        "there exactly when indices of a table are. A buffer has neither.",
    ),
    "OI0256": (
        "dtype of the package is wider",
        "`@dtype` converts what the package holds when it is loaded: floats and block formats to floats, "
        "rounded once, and whole numbers to what holds all of them. Everything else is a choice that `op "
        "cast` makes.",
    ),
    "OI0257": (
        "bad index list",
        "`@auto_dim` and `@fixed` name indices of the declaration, each once; `@auto_dim` one for "
        "each dimension.",
    ),
    "OI0258": (
        "loop index hides a variable or a size",
        "A loop index may hide another loop's index, but neither a variable nor a size.",
    ),
    "OI0259": (
        "hint of the wrong kind",
        "`fuse` and `no_reorder` are true or false, `placement` and `group` are strings.",
    ),
    "OI0260": (
        "index of the caller's loop",
        "A called block does not see the loop indices of its caller: it may be called from "
        "anywhere. Pass the index in an integer variable, or write the statements into the loop.",
    ),
    "OI0261": (
        "value yielded twice",
        "A value is awaited before it is yielded again, and all values of a consumer before it "
        "runs again.",
    ),
    "OI0262": (
        "await without yield",
        "Entry awaits what it has yielded on every way to the `await`.",
    ),
    "OI0263": (
        "two consumers write one value",
        "At most one of the blocks that await a value may write it.",
    ),
    "OI0264": (
        "two blocks at the same time",
        "While a consumer runs, neither it nor another consumer nor entry writes a variable that "
        "the other one touches; else the result would depend on who is first. A read that makes a "
        "table larger and one that depends on its size are such a pair, too.",
    ),
    "OI0265": (
        "consumer that never runs",
        "A consumer runs when entry has yielded all values that it awaits.",
    ),
    "OI0266": (
        "value not awaited",
        "Entry awaits all that it has yielded before it returns.",
    ),
    "OI0267": (
        "value that cannot be yielded",
        "`yield` takes temporaries, volatile, constant and dynamic variables. Persistent ones are "
        "read into a temporary first.",
    ),
    "OI0268": ("value that nobody awaits", "No block starts with an `await` of the value."),
    "OI0269": (
        "consumer that gives back something else",
        "A consumer yields exactly the values that it awaits.",
    ),
    "OI0270": (
        "program that expands without end",
        "A branch is a call, and a compiled step holds a called block once for each place that calls "
        "it. Blocks that call the next one twice double it with each level; the error names the "
        "innermost block that is too large. Calls may add 20,000 nodes to those of the program. Or "
        "the loops of the program change the shapes in each other so often that they cannot be "
        "compiled.",
    ),
    "OI0271": (
        "nested too deeply by its calls",
        "Loops, scopes and conditional branches, those of called blocks included, may nest 64 deep. "
        "Blocks that call each other without a condition are no nesting: a chain of them has any "
        "length.",
    ),
    "OI0273": (
        "call that does not fit its block",
        '`y = branch conv(x, "layer1.0", stride=2);` gives each parameter of `block conv(x, path, '
        "stride=1)` that has no value of its own, once, and takes as many values as the block returns. A "
        "block without parameters is called without parentheses: `branch NAME;`.",
    ),
    "OI0274": (
        "block with parameters that does what it cannot",
        "A block with parameters sees its parameters, its own temporaries and constants, and what the "
        "program declares; it writes no parameter, ends in its only `return`, and neither yields nor "
        "awaits. Names of parameters are those of nothing else in the program.",
    ),
    "OI0275": (
        "argument that cannot stand where the block needs it",
        "What a block is given stands wherever the block names its parameter: a text in the braces of a "
        "tensor's name, a number or size in settings and expressions, a variable, number or size as an "
        "operand. An expression that is an operand divides by numbers only.",
    ),
    "OI0283": (
        "literal without a dtype",
        "A number among the operands has the dtype that the operands beside it have. At least one of them is "
        "a variable, and operands that have a dtype of their own, such as indices, are no literals.",
    ),
    "OI0284": (
        "literal of another kind",
        "Beside integers a literal is an integer, beside floats a number, beside bools `true` or `false`.",
    ),
    "OI0285": (
        "literal that does not fit",
        "The dtype that the operands beside a literal give it does not hold its value; a float is rounded, "
        "but what would become infinite is an error.",
    ),
    "OI0286": (
        "bad definition of a size",
        "`size NAME = EXPRESSION;` names a size once, and no variable has its name. The expression is made "
        "of numbers and sizes and does not lead back to its own name.",
    ),
    "OI0287": (
        "size with two values",
        "A size that the program defines has another value in the model, or was given one. Equal values are "
        "fine.",
    ),
    "OI0288": (
        "division with a remainder",
        "A division in the definition of a size comes out even, as in `size head = hidden / heads;`. To "
        "round down, write the expression where it is used: there, `/` rounds.",
    ),
    "OI0290": (
        "bad bound of a size",
        "`size 1 <= L <= 512;` at the top of a program says what the size L may be, limits included; one of "
        "them may be missing. The limits are made of numbers and sizes, the lower one stands first.",
    ),
    "OI0301": ("unknown dtype", "`docs/language.md` lists the dtypes."),
    "OI0302": (
        "@init of the wrong kind",
        "A float takes any number, an integer takes an integer, a bool takes true, false, 0 or 1.",
    ),
    "OI0303": ("value out of range", "The value of @init cannot be represented in the dtype."),
    "OI0304": (
        "setting of the wrong kind",
        "The value does not fit the setting; the fix says what the setting is.",
    ),
    "OI0305": (
        "impossible size",
        "A dimension is negative, a size is divided by zero, `_` is part of an expression or of a "
        "matrix that grows, or a tensor has more elements than any memory holds.",
    ),
    "OI0306": (
        "size is no integer scalar",
        "A variable that stands in an index or a bound must be one integer.",
    ),
    "OI0307": (
        "condition is no single bool",
        "The condition of a branch has one element, a bool or an integer.",
    ),
    "OI0308": (
        "setting is no scalar",
        "A variable that a setting names must be a scalar.",
    ),
    "OI0309": ("negative index", "Indices count from 0."),
    "OI0310": (
        "size with the name of a tensor",
        "A dimension names a size that is called like a variable. The variable is no integer "
        "scalar, so the size is meant.",
    ),
    "OI0311": ("integer too large", "Integers in settings are signed 64-bit numbers."),
    "OI0312": (
        "move between different types",
        "`transfer`, `cache.read` and `cache.write` copy: dtype and shape are equal on both sides.",
    ),
    "OI0313": ("dtype not supported", "The op does not take operands of this dtype."),
    "OI0314": (
        "type that is not written",
        "The type `_` of a constant or volatile variable is that of its tensor in the package, the "
        "one of a temporary that of its first value. Dynamic and persistent variables have nothing "
        "to take it from, and `_` has no dimensions.",
    ),
    "OI0315": (
        "dtype of packages alone",
        "The block formats of GGUF (`q8_0`, `q4_k`, …) are what a package holds; nothing is computed in "
        "them. A constant may have such a type: it stands for f32 values. Elsewhere `@dtype` says that the "
        "package holds such a tensor.",
    ),
    "OI0320": (
        "dtype differs from the model",
        "A declaration and the tensor of the package that it names have different dtypes.",
    ),
    "OI0321": (
        "shape differs from the model",
        "A declaration and the tensor of the package that it names have different shapes.",
    ),
    "OI0322": (
        "operands do not fit the op",
        "The shapes or dtypes of the operands break the rule of the op; the note shows all of "
        "them. Dimensions must be provably equal, or 1 where the op broadcasts.",
    ),
    "OI0323": (
        "output declared with another type",
        "The op gives another dtype or shape than its output is declared with. Only float dtypes "
        "may differ: the op then rounds once to the declared one.",
    ),
    "OI0324": (
        "size without a value",
        "Neither the model, nor the given sizes, nor the shape of an input fixes the size.",
    ),
    "OI0325": (
        "@ref names nothing",
        "The package has no tensor, metadata entry or size of that name. `@init` beside it says what "
        "stands in for it.",
    ),
    "OI0326": (
        "@pattern matches nothing",
        "There is no package, or none of its tensors fits the pattern.",
    ),
    "OI0327": (
        "no such member",
        "A constant index of a prefix table lies outside what the package has. Members may begin behind 0, "
        "`layer.1.w`, where loops and numbers say which are read; an index that only a step knows counts "
        'from 0: `@pattern("layer.{l + 1}.w")`. Members between may be missing, but not nearly all: a table '
        "has at most 65536 places, or 64 for each of its tensors, if that is more.",
    ),
    "OI0328": (
        "setting names nothing",
        "A bare name in a setting is a scalar variable, a size, a loop index or a metadata entry.",
    ),
    "OI0329": (
        "type that cannot be inferred",
        "A temporary of type `_`, such as `y = op …` defines, takes the type of the first value "
        "that is written to it. The type of the operands is not known, or the op refuses them.",
    ),
}
