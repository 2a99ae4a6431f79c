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
        "`constant`, `persistent`, sizes (`size heads = 4;`) and blocks, in any order.",
    ),
    "OI0113": (
        "unknown statement",
        "A statement starts with `assign`, `op`, `branch`, `loop`, `scope`, `barrier`, `dep`, "
        "`transfer`, `cache`, `yield`, `await`, `return` or `effect`, or is `NAME = op …;`.",
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
        "entry with brackets, `W[l]`. An op that is an operand is written without `op`: "
        "`op relu(mul(x, 2))`.",
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
    "OI0123": (
        "malformed definition or effect",
        "`y = op NAME(…);` defines a value by an op, `y = cache.read ACCESS;` (or `effect read`) by a cache; "
        "`effect write(CACHE, index=i, value=y);` stores one.",
    ),
    "OI0124": (
        "block inside a loop",
        "The first edition writes the body of a loop as a block in it. Its statements become those "
        "of the loop, so that only its last statement may be `return;`, and hints belong to the "
        "loop.",
    ),
    "OI0125": (
        "bad named operand",
        "In `y = op f(a=x, b=z)` operands are variables or numbers, named as `docs/ops.md` lists them or by "
        "the letters a, b, c in their order; each is given once, and none before it is missing.",
    ),
    "OI0126": (
        "bad name of a tensor",
        '`model["NAME"]` and `model[fmt("NAME.{l}")]` name tensors of the package; in `fmt`, an '
        "index stands in braces. In `@ref(a.b)` a name without quotes has letters, digits, `_` and dots "
        "only.",
    ),
    "OI0130": (
        "section `constants`",
        "Accepted; the section is called `constant`.",
    ),
    "OI0131": (
        "`pattern` without `@`",
        "Accepted; attributes start with `@`.",
    ),
    "OI0140": (
        "not JSON",
        "A graph JSON follows RFC 8259. JSON has no infinity and no NaN: graph JSON writes them as "
        'the strings `"inf"`, `"-inf"` and `"nan"`.',
    ),
    "OI0141": (
        "not a graph",
        "The JSON is read, but is no graph: the message names the path of the value that is of "
        "another kind, missing or unknown. `docs/graph-json.md` describes all of them.",
    ),
    "OI0203": (
        "duplicate attribute",
        "A declaration takes each attribute once.",
    ),
    "OI0204": (
        "duplicate setting",
        "An op takes each setting once; an alias counts as the setting that it stands for.",
    ),
    "OI0208": ("duplicate hint", "A `with { … }` takes each hint once."),
    "OI0253": (
        "malformed attribute",
        "The arguments are not those of the attribute; the fix shows its form.",
    ),
    "OI0280": (
        "a value that is no operand",
        "The operands of an op are variables and numbers. A list or a string is none: declare values in "
        "`constant { … }`; a setting, `name=value`, takes lists and strings as they are.",
    ),
    "OI0281": (
        "a name with dots",
        "Names are made of letters, digits and `_`. A tensor whose name in the package has dots is linked "
        'by `@ref("fc1.weight")`, many of them by `@pattern("layer.{l}.weight")`.',
    ),
    "OI0282": (
        "an amount in the wrong place",
        "`cache.increment 2 n;` and `cache.decrement T + 1 n;` take the amount in front of the variable, 1 "
        "if none is given: a whole number, a size, an integer scalar, or an expression over them.",
    ),
    "OI0289": (
        "an element that is no number of the step",
        "`slots[i]` in an expression is an element of an integer variable with one dimension and no indices, "
        "read in front of the statement. Declarations and definitions of sizes hold no elements: they are "
        "read before a step runs.",
    ),
    "OI0292": (
        "a size of a loop that counts anew",
        "A size that a body defines stands for its expression. Where that has the index of a loop, it means "
        "nothing inside another loop over the same index.",
    ),
    "OI0272": (
        "half of a surrogate pair",
        "The text holds a code from \\ud800 to \\udfff, which is half of a character and cannot be "
        "written to a file. Texts that Python read with `surrogateescape`, or that were cut in the "
        "middle of a character, have such codes.",
    ),
    "OI0701": (
        "form not implemented yet",
        "The form belongs to the language, but this build cannot run it. The fix says what to "
        "write meanwhile.",
    ),
}
