"""The words of the language in one line each: statements, sections, attributes, hints, effects on caches."""

from __future__ import annotations

SECTIONS = {
    "dynamic": "memory that the caller fills before every step",
    "volatile": "memory that starts each step with its content from the package, `@init` or zeros",
    "constant": "memory from the package, else `@init`, else zeros; never written",
    "persistent": "memory that is kept between steps; written by `cache.*` alone",
}
TOP = {
    "block": "a block of statements; a step starts in `block entry`. `block conv(x, path, stride=1)` has "
    "parameters",
    "size": "a size with a value, `size heads = 4;`, or what a size may be, `size 1 <= L <= 512;`",
}
STATEMENTS = {
    "assign": "declares a temporary: zero at the start of the step, `assign h: f32[B, D];`",
    "await": "takes yielded values back: `await a, b;`",
    "barrier": "nothing is moved or fused across it",
    "branch": "calls a block, `branch BLOCK;` or `y = branch BLOCK(x, …);`, or one of two, "
    "`branch CONDITION THEN ELSE;`",
    "cache": "reads or changes persistent memory: `k = cache.read K[l];`, `cache.write k >> K[l];`",
    "dep": "orders two ops: `dep after(OP) before(OP);`",
    "effect": "the first edition's way to read or write a cache: `y = effect read(K, index=i);`",
    "loop": "runs its body for each index: `loop layers (l in 0..n) { … }`",
    "op": "one operation: `y = op matmul(x, W);`, or `op matmul(x, W) >> y;` into a declared `y`",
    "return": "leaves the block; in `entry`, `return a, b;` names the results",
    "scope": 'a named group of statements: `scope "attention" { … }`',
    "transfer": "copies a value: `transfer a >> b;`",
    "yield": "hands values over to the blocks that await them: `yield a, b;`",
}
CACHE = {
    "read": "reads a variable, an entry or a slice of entries: `cache.read K[l, 0..n] >> k;`",
    "write": "stores a value: `cache.write k >> K[l, n];`",
    "increment": "adds 1, or the amount before it, to a scalar: `cache.increment 2 n;`",
    "decrement": "subtracts 1, or the amount before it, from a scalar",
    "reset": "back to the first content: `cache.reset K[0];`",
}
ATTRIBUTES = {
    "init": "every element starts with this number or bool: `@init(0.5)`",
    "ref": 'the tensor or metadata entry of another name: `@ref("fc1.weight")`',
    "pattern": 'one tensor for each index: `@pattern("layer.{l}.w")`',
    "table": "on persistent variables: an entry for each index, made when it is touched",
    "auto_dim": "on persistent variables: dimensions that grow with the indices: `@auto_dim(i, j)`",
    "fixed": "bounds an index of a persistent variable: `@fixed(t=1024)`",
    "dtype": "the package holds this dtype; values are converted when they are loaded: `@dtype(f16)`",
    "layout": "kept as written",
    "quant": "kept as written",
}
ATTRIBUTES_WITHOUT_ARGUMENTS = ("table",)
HINTS = {
    "fuse": "`false`: never fused with its neighbours; `true` is advice",
    "no_reorder": "`true`: the order of the statements is kept",
    "placement": '`"cpu"`: the host computes it on a device with memory of its own',
    "group": "advice: a name that the kernels of the node carry",
}
WORDS = {
    **{word: f"section: {text}" for word, text in SECTIONS.items()},
    **TOP,
    **STATEMENTS,
    "inputs": f"section of the first edition: {SECTIONS['dynamic']}",
    "outputs": f"section of the first edition: {SECTIONS['volatile']}",
    "state": f"section of the first edition: {SECTIONS['persistent']}",
    "constants": f"section: {SECTIONS['constant']}; its name is `constant`",
    "with": "hints for what stands before it: `with { fuse = false }`",
    "in": "the range of a loop index, half-open: `l in 0..n`",
    "after": "of `dep`: the op that comes first",
    "before": "of `dep`: the op that comes second",
    "true": "the bool",
    "false": "the bool",
    "inf": "infinity",
    "nan": "not a number",
    "max": "the larger of two sizes: `max(a, b)`",
    "min": "the smaller of two sizes: `min(a, b)`",
    "buffer": "of the first edition: a table by itself, `K: buffer(f32, [B, T]);`",
    "fmt": 'of the first edition: a name made with indices, `fmt("layer.{l}.w")`',
    "model": 'of the first edition: a tensor of the package, `model["NAME"]`',
}
"""Every keyword."""
