"""Diagnostics codes of the frontend.

code → (title, explanation), for the table in `compiler/diagnostic_codes.py`.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, str]]] = {
    "OI0101": (
        "unexpected character",
        "A character that the language does not use. Names are made of the ASCII letters, digits "
        "and `_`; other letters may stand in strings and comments.",
    ),
    "OI0102": (
        "string does not end",
        "A string starts with a quote and must end with one on the same line.",
    ),
    "OI0103": (
        "comment does not end",
        "`/*` opens a comment that reaches to its `*/`. Comments nest: each `/*` needs its end.",
    ),
    "OI0104": (
        "malformed number",
        "Digits followed by letters, or a number outside of 64 bits. Integers may be decimal, "
        "`0x`, `0o` or `0b`, with `_` between digits; floats need a point or an exponent.",
    ),
    "OI0105": (
        "unknown escape",
        r"In strings, `\n \t \r \0 \\ \" \' \x41 \u{3b1}` are known. Write `\\` for a backslash, "
        r'or use a raw string: `r"a\b"`.',
    ),
    "OI0106": (
        "nested too deeply",
        "Loops, scopes, parentheses and lists may be nested 32 levels deep. Reading stops here.",
    ),
    "OI0107": (
        "too many errors",
        "Only the first errors are shown. One early mistake may have caused many of them.",
    ),
    "OI0110": (
        "something else was expected",
        "The text does not follow the grammar here; the message says what could stand here. The "
        "statement is skipped and reading goes on behind it.",
    ),
    "OI0111": (
        "missing semicolon",
        "Every declaration and every statement without a body ends with `;`.",
    ),
    "OI0112": (
        "expected memory section or block",
        "At the top of a program stand only the memory sections `dynamic`, `volatile`, "
        "`constant`, `persistent`, and blocks, in any order.",
    ),
    "OI0113": (
        "unknown statement",
        "A statement starts with `assign`, `op`, `branch`, `loop`, `scope`, `barrier`, `dep`, "
        "`transfer`, `cache`, `yield`, `await` or `return`.",
    ),
    "OI0114": (
        "operand behind a setting",
        "In an op, all operands come first, then the settings: `op relu(x, clamp_max=6.0) >> y;`.",
    ),
    "OI0115": (
        "bad size expression",
        "A dimension, index or bound is made of names, whole numbers, `+ - * /`, parentheses, "
        "`max(…)` and `min(…)`.",
    ),
    "OI0116": (
        "brace missing",
        "A section, block, loop or scope has no `{`, no `}`, or there is a `}` too many.",
    ),
    "OI0117": (
        "malformed branch",
        "`branch TARGET;` calls one block; `branch CONDITION THEN ELSE;` calls one of two.",
    ),
    "OI0118": (
        "unknown cache operation",
        "There are `cache.read`, `cache.write`, `cache.increment`, `cache.decrement` and "
        "`cache.reset`.",
    ),
    "OI0119": (
        "empty list",
        "Index lists, `yield` and `await` need at least one name.",
    ),
    "OI0120": (
        "brackets and parentheses mixed up",
        "A declaration names its indices in parentheses, `W(l): f32[D, D]`; a use selects an "
        "entry with brackets, `W[l]`.",
    ),
    "OI0121": (
        "size expression too large",
        "An expression has more terms, factors or divisions than any shape needs.",
    ),
    "OI0122": (
        "bad value",
        "A setting, hint or argument is a number, `true`, `false`, `inf`, `nan`, a string, a "
        "name, a size expression, or a list of these in brackets.",
    ),
    "OI0130": (
        "section `constants`",
        "Accepted; the section is called `constant`.",
    ),
    "OI0131": (
        "`pattern` without `@`",
        "Accepted; attributes start with `@`.",
    ),
    "OI0201": (
        "variable declared twice",
        "All memory sections share one space of names.",
    ),
    "OI0202": ("block defined twice", "Every block has its own name."),
    "OI0203": (
        "duplicate attribute",
        "A declaration takes each attribute once.",
    ),
    "OI0204": (
        "duplicate setting",
        "An op takes each setting once; an alias counts as the setting that it stands for.",
    ),
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
    "OI0208": ("duplicate hint", "A `with { … }` takes each hint once."),
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
        "Persistent variables are read with `cache.read` and written with `cache.write`, and "
        "these work on persistent variables only.",
    ),
    "OI0222": (
        "counting something that is no scalar",
        "`cache.increment` and `cache.decrement` work on persistent scalars.",
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
        "Only cache operations take slices.",
    ),
    "OI0233": (
        "an entry as output",
        "The tensors of an indexed variable can be read, not written.",
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
    "OI0253": (
        "malformed attribute",
        "The arguments are not those of the attribute; the fix shows its form.",
    ),
    "OI0254": (
        "pattern and indices differ",
        "`{index}` in a pattern stands for an index of the declaration, and each index occurs.",
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
        "A dimension is negative, a size is divided by zero, `_` is part of an expression, or a "
        "tensor has more elements than any memory holds.",
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
        "transfer between different types",
        "`transfer` copies: dtype and shape are equal on both sides.",
    ),
    "OI0313": ("dtype not supported", "The op does not take operands of this dtype."),
    "OI0701": (
        "form not implemented yet",
        "The form belongs to the language, but this build cannot run it. The fix says what to "
        "write meanwhile.",
    ),
}
