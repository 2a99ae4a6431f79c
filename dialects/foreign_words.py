"""Words of Python and other languages that people write in a program, and what they are here."""

from __future__ import annotations

VALUES = {
    **dict.fromkeys(("True", "TRUE", "yes", "Yes"), "true"),
    **dict.fromkeys(("False", "FALSE", "no", "No"), "false"),
    **dict.fromkeys(("Inf", "INF", "infinity", "Infinity", "INFINITY"), "inf"),
    **dict.fromkeys(("NaN", "NAN", "Nan"), "nan"),
}
"""Values of settings. They are only looked at where no variable has that name."""

NOTHING = ("None", "null", "nil", "NULL", "undefined")
"""What stands for no value: a setting without one is left out."""

DTYPES = {
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (1, 2, 4, 8, 16, 32, 64)},
    **{f"fp{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **dict.fromkeys(("float", "single"), "f32"),
    **dict.fromkeys(("double",), "f64"),
    **dict.fromkeys(("half",), "f16"),
    **dict.fromkeys(("bfloat16", "bfloat", "brain"), "bf16"),
    **dict.fromkeys(("float8", "float8_e5m2", "fp8"), "f8"),
    **dict.fromkeys(("float8_e4m3", "float8_e4m3fn", "f8e4m3fn"), "f8e4m3"),
    **dict.fromkeys(("int", "integer", "short_int"), "i32"),
    **dict.fromkeys(("long", "isize", "index"), "i64"),
    **dict.fromkeys(("size_t", "usize"), "u64"),
    **dict.fromkeys(("short",), "i16"),
    **dict.fromkeys(("char",), "i8"),
    **dict.fromkeys(("byte", "uchar"), "u8"),
    **dict.fromkeys(("boolean", "bool_"), "bool"),
}
"""Names of dtypes elsewhere, and ours."""

SECTIONS = {
    **dict.fromkeys(("input", "in", "arg", "args", "argument", "feed"), "dynamic"),
    **dict.fromkeys(
        ("output", "out", "result", "temp", "tmp", "var", "tensor", "buffer"), "volatile"
    ),
    **dict.fromkeys(
        (
            "weight",
            "weights",
            "param",
            "params",
            "parameter",
            "parameters",
            "const",
            "let",
            "static",
        ),
        "constant",
    ),
    **dict.fromkeys(("cache", "global", "kv_cache"), "persistent"),
}
"""What a declaration outside of a section may begin with, and the section that it belongs to."""

FUNCTIONS = ("def", "fn", "func", "function", "graph", "main", "module", "void", "class", "step")
"""What stands before a body elsewhere."""

STATEMENTS = {
    **dict.fromkeys(("for", "foreach", "while", "repeat"), "loop NAME (i in 0..n) { … }"),
    **dict.fromkeys(("if", "switch", "match"), "branch CONDITION THEN ELSE;"),
    **dict.fromkeys(("else", "elif"), "branch CONDITION THEN ELSE;"),
    **dict.fromkeys(
        ("let", "var", "const", "def", "temp", "tmp", "auto"), "assign NAME: f32[B, D];"
    ),
    **dict.fromkeys(("call", "goto", "invoke", "jump"), "branch BLOCK;"),
    **dict.fromkeys(("copy", "move", "set", "mov"), "transfer SOURCE >> TARGET;"),
    **dict.fromkeys(("read", "load"), "cache.read K[l] >> k;"),
    **dict.fromkeys(("write", "store", "append"), "cache.write k >> K[l];"),
    **dict.fromkeys(("increment", "inc"), "cache.increment n;"),
    **dict.fromkeys(("decrement", "dec"), "cache.decrement n;"),
    **dict.fromkeys(("reset", "clear"), "cache.reset K;"),
    **dict.fromkeys(("wait",), "await NAME;"),
    **dict.fromkeys(("emit",), "yield NAME;"),
    **dict.fromkeys(("fence", "sync"), "barrier;"),
}
"""What a statement may begin with elsewhere, and the statement that does it."""
