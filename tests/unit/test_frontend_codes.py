"""Every diagnostics code of the frontend: a program that has it, where, and what it says."""

from __future__ import annotations

import pytest

from openinfer.compiler.frontend import parse_text
from openinfer.compiler.frontend.codes import CODES as FRONTEND
from openinfer.lowering.program.codes import CODES as PROGRAM
from openinfer.runtime.errors import Location


def entry(*lines: str, declarations: str = "") -> str:
    """A small program around some statements of entry."""
    memory = "dynamic { x: f32[B]; } volatile { y: f32[B]; n: i32; }"
    return "\n".join([memory, declarations, "block entry {", *lines, "return;", "}"])


def declared(line: str, memory: str = "volatile") -> str:
    """A program around one declaration."""
    return f"{memory} {{\n{line}\n}}\nblock entry {{ return; }}\n"


W = 'constant { W(l): f32[B] @pattern("W.{l}"); }'
V = 'volatile { V(l): f32[B] @pattern("V.{l}"); }'
P = "persistent { s: i32; t: f32[B]; }"
CALLED = "}\nblock b {"
PERSISTENT = "persistent"
M = "M({}): f32[B, B] "
DIMS = "volatile { v: f32[«s]; }"
C = "persistent { c: i4; }"
K = """persistent { K(l): f16[B] @table; K2(l, t): f16[B] @table; M(i, j): f32[B, B] @auto_dim(i, j);
M2(l, i, j): f32[B, B] @table @auto_dim(i, j); F(i): f16[B] @table @fixed(i=4);
G(i, j): f32[B, B] @auto_dim(i, j) @fixed(i=2); }
volatile { k: f16[B]; k2: f16[_, B]; m: f32[_, _]; }"""
IDS = "dynamic { v: i32[B]; }"


def exchange(yielded: str, entry: str, consumer: str = "await y; yield y;", name: str = "c") -> str:
    """A program where entry yields, does something, and awaits again; with one other block."""
    before, after = (f"yield {yielded};", f"await {yielded};") if yielded else ("", "")
    return f"""dynamic {{ x: f32[B]; }}
volatile {{ y: f32[B]; z: f32[B]; w: f32[B]; n: i32; one: f32; all: f32[_]; }}
persistent {{ p: f32[B]; T(i): f32 @table; }}
block entry {{
{before}
{entry}
{after}
return;
}}
block {name} {{
{consumer}
}}
"""


WRITES_Y = "await y; op relu(x) >> y; yield y;"
WRITES_Z = "await y; op relu(x) >> z; yield y;"
MANY = "*".join(["(a+b+c+d+e)"] * 9)

# code, part of the message, program with `«` where the caret stands
CASES: list[tuple[str, str, str]] = [
    ("OI0101", "unexpected character '$'", entry("«$ barrier;")),
    ("OI0101", "unexpected characters 'éa'", entry("«éa barrier;")),
    ("OI0102", "does not end on its line", declared('y: f32 @ref(«"abc);\nz: f32;')),
    ("OI0103", "never ends", "block entry { return; } «/* /* */"),
    ("OI0104", "neither a number nor a name", entry("assign t: f32[«3d];")),
    ("OI0104", "too large for a 64-bit float", declared("y: f32 @init(«1e999);")),
    ("OI0104", "does not fit into 64 bits", declared("y: u64 @init(«99999999999999999999);")),
    ("OI0105", r"unknown escape `\q`", declared(r'y: f32 @ref("«\q");')),
    ("OI0106", "more than 32 levels", declared(f"y: f32[{'(' * 32}«({'(' * 9}B];")),
    (
        "OI0106",
        "more than 32 levels",
        entry(f"{'loop a (i in 0..1) {' * 31}loop a (i in 0..1) «{{"),
    ),
    ("OI0110", "expected `:` and a type after `t`", entry("assign t «f32;")),
    ("OI0110", "an attribute starts with `@`", declared("y: f32 «init(5);")),
    ("OI0111", "expected `;` after the barrier", entry("barrier«", "barrier;")),
    ("OI0111", "expected `;` after the decl", declared("y: f32[B] @init(5.0)«\nz: f32;")),
    ("OI0112", "expected memory section or block", "«volatil { y: f32; } block entry { return; }"),
    ("OI0113", "unknown statement `retrun`", entry("«retrun;")),
    ("OI0114", "positional args must come before", entry("op relu(clamp_max=6.0, «x) >> y;")),
    ("OI0115", "expected identifier or integer for dimension exp", entry("assign t: f32[«>];")),
    ("OI0115", "expected identifier or integer for loop range", entry('loop k (i in «"a"..4) { }')),
    ("OI0116", "closes nothing", "block entry { return; } «}"),
    ("OI0116", "block `entry` is never closed", "block entry { return;« block b { return; }"),
    ("OI0117", "branch expects one target block, or a cond", entry("«branch n a;")),
    ("OI0118", "unsupported cache operation", entry("«cache.fetch s >> y;")),
    ("OI0119", "at least one index name", declared("y(«): f32;")),
    ("OI0119", "at least one variable after `yield`", entry("yield «;")),
    (
        "OI0120",
        "with brackets, not with parentheses",
        entry("op relu(«W(0)) >> y;", declarations=W),
    ),
    ("OI0120", "stand in parentheses", declared('W«[l]: f32 @pattern("W.{l}");')),
    ("OI0120", "written without `op`", entry("op relu(«op neg(x)) >> y;")),
    (
        "OI0292",
        "the loop here counts anew",
        entry("loop k (i in 0..2) { size a = i; loop m (i in 0..2) { op relu(x[«a..]) >> y; } }"),
    ),
    ("OI0121", "too large", declared(f"y: f32[«{MANY}];")),
    ("OI0122", "unexpected `-` before identifier `n`", entry("op fill(y, value=«-n) >> y;")),
    ("OI0130", "section `constants`", "«constants { c: f32; } block entry { return; }"),
    ("OI0131", "`pattern` without `@`", declared('W(l): f32[D] «pattern("W.{l}");')),
    ("OI0201", "variable `y` is declared twice", declared("y: f32; «y: i32;")),
    ("OI0202", "`entry` is defined twice", "block entry { return; } block «entry { return; }"),
    ("OI0203", "duplicate @init attribute", declared("y: f32 @init(1) «@init(2);")),
    ("OI0204", "(`negative_slope`)", entry("op relu(x, negative_slope=0, «alpha=0) >> y;")),
    ("OI0205", "assigned twice in this block", entry("assign t: f32;", "assign «t: f32;")),
    (
        "OI0205",
        "another type in another block",
        entry("branch b;", "assign t: f32;", "return;", CALLED, "assign «t: f16;"),
    ),
    ("OI0206", "has the name of a declared variable", entry("assign «y: f32;")),
    ("OI0207", "index `l` is named twice", declared('W(l, «l): f32 @pattern("W.{l}");')),
    ("OI0208", "given twice", entry("op relu(x) >> y with { fuse = true, «fuse = false };")),
    ("OI0210", "undefined variable `xx`", entry("op add(x, «xx) >> y;")),
    ("OI0210", "`i` is a loop index", entry("loop k (i in 0..4) { transfer «i >> n; }")),
    ("OI0211", "used before its assign", entry("op relu(«t) >> y;", "assign t: f32[B];")),
    ("OI0212", "undefined block `nowhere`", entry("branch «nowhere;")),
    ("OI0213", "no block `entry`", "block «entri { return; }"),
    ("OI0213", "no block `entry`", "«volatile { y: f32; }"),
    ("OI0214", "unknown op `mathmul`", entry("op «mathmul(x, x) >> y;")),
    ("OI0214", "unknown op `mathmul`", entry("dep after(«mathmul) before(cache.write);")),
    ("OI0215", "has no setting `clamp_maxx`", entry("op relu(x, «clamp_maxx=6.0) >> y;")),
    ("OI0216", "needs the setting `to`", entry("op «cast(x) >> y;")),
    ("OI0217", "takes 2 operands, got 1", entry("op «add(x) >> y;")),
    ("OI0218", "has 1 output, got 2", entry("op relu(x) >> «y, n;")),
    ("OI0220", "cannot write to dynamic `x`", entry("op relu(y) >> «x;")),
    ("OI0221", "read with `cache.read` only", entry("op relu(«K) >> y;", declarations=K)),
    ("OI0221", "written with `cache.*` only", entry("transfer y >> «t;", declarations=P)),
    ("OI0222", "counts a persistent scalar", entry("cache.increment «t;", declarations=P)),
    ("OI0230", "`W` has 1 index, got 2", entry("op relu(«W[0, 1]) >> y;", declarations=W)),
    ("OI0230", "`W` has 1 index, got 0", entry("op relu(«W) >> y;", declarations=W)),
    ("OI0231", "declared without indices", entry("op relu(x) >> «y[0];")),
    ("OI0232", "a slice is for", entry("op relu(x) >> y[«0..2];")),
    ("OI0233", "cannot be an output", entry("op relu(x) >> «V[0];", declarations=V)),
    ("OI0240", "does not end in `return`", "block entry { barrier; «}"),
    ("OI0241", "never runs", entry("return;", "«barrier;")),
    ("OI0242", "only block `entry` returns", entry("branch b;", "return;", CALLED, "return «x;")),
    ("OI0243", "names other values", entry("loop k (i in 0..2) { return x; }", "«return y;")),
    ("OI0244", "entry → b → entry", entry("branch b;", "return;", CALLED, "branch «entry;")),
    ("OI0244", "a cycle of branches: entry → entry", entry("branch «entry;")),
    ("OI0245", "`b` is never called", "block entry { return; } block «b { return; }"),
    ("OI0246", "two outputs of one op are `y`", entry("op split(x) >> y, «y;")),
    ("OI0250", "unknown attribute `@linear`", declared("y: f32 «@linear;")),
    ("OI0251", "unknown hint `fuze`", entry("op relu(x) >> y with { «fuze = true };")),
    ("OI0252", "@table is for persistent memory", declared("y: f32 «@table;")),
    ("OI0252", "only the caller sets", declared("y: f32 «@init(1);", "dynamic")),
    ("OI0252", "exclude each other", declared('W(l): f32 @ref("w") «@pattern("W.{l}");')),
    ("OI0252", "nothing says their names", declared("«W(l): f32;")),
    ("OI0252", "must say what they select", declared("«t(i): f32;", "persistent")),
    ("OI0253", "@init takes one number or bool", declared("y: f32 «@init(1, 2);")),
    ("OI0253", "@ref takes one non-empty string", declared('y: f32 «@ref("");')),
    ("OI0254", "`{k}` in the pattern is no index", declared('W(l): f32 @pattern(«"W.{l}.{k}");')),
    ("OI0254", "does not occur in its pattern", declared('W(l, «m): f32 @pattern("W.{l}");')),
    ("OI0254", "which declares no index", declared('W: f32 «@pattern("W.{l}");')),
    ("OI0256", "i32 does not hold all values of f16", declared("W: i32 @dtype(«f16);")),
    (
        "OI0257",
        "`k` in @fixed is no index",
        declared("t(l): f32 @table @fixed(«k=4);", "persistent"),
    ),
    ("OI0258", "has the name of a volatile", entry("loop k («n in 0..4) { barrier; }")),
    (
        "OI0258",
        "has the name of a size",
        entry("loop k («B in 0..4) { barrier; }", declarations="volatile { z: f32[B]; }"),
    ),
    (
        "OI0258",
        "has the name of a size",
        entry("loop k («i in 0..4) { barrier; }", "loop m (j in 0..i) { barrier; }"),
    ),
    (
        "OI0260",
        "does not see the caller's loop index",
        entry(
            "loop k (i in 0..2) { branch b; }",
            "return;",
            CALLED,
            "op relu(W[«i]) >> y;",
            declarations=W,
        ),
    ),
    (
        "OI0260",
        "`i` is an index of the caller's loop",
        entry("loop k (i in 0..2) { branch b; }", "return;", CALLED, "assign t: f32[«i];"),
    ),
    ("OI0259", "must be true or false", entry("op relu(x) >> y with { fuse = «1 };")),
    (
        "OI0289",
        "has no value before the step",
        "dynamic { x: f32[«s[0]]; }\nblock entry { return; }",
    ),
    ("OI0289", "has 2 dimensions", entry("cache.write k >> K[«m[0]];", declarations=K)),
    ("OI0289", "no variable `q`", entry("cache.write k >> K[«q[0]];", declarations=K)),
    ("OI0289", "has indices", entry("cache.write k >> K[«K[0]];", declarations=K)),
    ("OI0289", "x` are f32", entry("cache.write k >> K[«x[0]];", declarations=K)),
    ("OI0289", "without divisions", entry("cache.write k >> K[v[«n/2]];", declarations=K + IDS)),
    ("OI0280", "found `[1.0]`", entry("op add(x, «[1.0]) >> y;")),
    ("OI0281", "found `fc1.weight`", entry("op add(x, «fc1.weight) >> y;")),
    ("OI0126", "without quotes", declared("y: f32 @ref(«a-b.c);")),
    ("OI0126", "without quotes", declared("y: f32 @ref(«a.b.);")),
    ("OI0282", "takes an amount, then the name", entry("cache.increment «n 2;")),
    (
        "OI0306",
        "used as an amount",
        entry("cache.increment «x m;", declarations="persistent { m: i32; }"),
    ),
    ("OI0283", "no operand of `add` gives the literal a dtype", entry("op add(«1.0, 2) >> y;")),
    ("OI0284", "beside i32 a literal is an integer", entry("op add(n, «1.0) >> n;")),
    ("OI0285", "-4294967296 does not fit into i32", entry("op add(n, «-4294967296) >> n;")),
    ("OI0286", "`a` is defined twice", "size a = 1;\nsize «a = 2;\nblock entry { return; }"),
    ("OI0286", "the name of a dynamic variable", "size «x = 1;\n" + entry()),
    ("OI0286", "found volatile variable `n`", "size s = 2*«n;\n" + entry()),
    ("OI0286", "found `_`", "size s = 2*«_;\n" + entry()),
    ("OI0286", "depends on itself: a → b → a", "size a = «b;\nsize b = a + 1;\n" + entry()),
    ("OI0286", "never negative", "size a = «2 - 3;\n" + entry()),
    ("OI0288", "10 / 4 leaves a remainder", "size a = 2*«(10/4);\n" + entry()),
    ("OI0305", "divides by zero", "size a = 0;\nsize b = «4/a;\n" + entry()),
    ("OI0258", "the name of a size", "size i = 3;\n" + entry("loop k («i in 0..2) { barrier; }")),
    ("OI0257", "is not known before the step", f"size s = 3;\n{K}{entry()}".replace("i=4", "i=«n")),
    ("OI0290", "with one or two `<=`, found `<`", "size L «< 4;\n" + entry()),
    ("OI0290", "with one or two `<=`, found `>=`", "size 4 «>= L;\n" + entry()),
    ("OI0290", "with one or two `<=`, found `<=`", "size 1 <= L <= 4 «<= M;\n" + entry()),
    ("OI0290", "bounds the number 4, no size", "size 1 <= «4;\n" + entry()),
    ("OI0290", "found volatile variable `n`", "size «n <= 4;\n" + entry()),
    ("OI0290", "found `_`", "size L <= «_;\n" + entry()),
    ("OI0290", "no size is what", "size a = 4;\nsize a <= L <= «3;\n" + entry()),
    ("OI0290", "no size is what", "size L <= «-1;\n" + entry()),
    ("OI0290", "at the top of the program", entry("«size D <= 4;")),
    ("OI0305", "a bound divides by zero", "size a = 0;\nsize L <= «4/a;\n" + entry()),
    ("OI0301", "unknown dtype `f23`", declared("y: «f23;")),
    ("OI0302", "must be an integer", declared("y: i32 @init(«1.0);")),
    ("OI0302", "must be a number", declared("y: f32 @init(«true);")),
    ("OI0303", "300 does not fit into i8", declared("y: i8 @init(«300);")),
    ("OI0303", "0 does not fit into t1", declared("y: t1 @init(«0);")),
    ("OI0303", "70000.0 does not fit into f16", declared("y: f16 @init(«70000.0);")),
    ("OI0304", "to must be a dtype name", entry("op cast(x, to=«f33) >> y;")),
    ("OI0304", "is a string", entry("op gelu(x, approximate=«tanh) >> y;")),
    ("OI0305", "a dimension cannot be -1", declared("y: f32[«0-1];")),
    ("OI0305", "divided by zero", declared("y: f32[B/«(2-2)];")),
    ("OI0305", "stands alone", declared("y: f32[«_+1];")),
    ("OI0306", "must be an integer scalar", entry("loop k (i in 0..«y) { barrier; }")),
    ("OI0310", "is the size of that name", declared("D: f32[B, «D];")),
    ("OI0307", "must be one bool or integer", entry("branch «x b b;", "return;", CALLED)),
    ("OI0308", "which is not a scalar", entry("op fill(y, value=«x) >> y;")),
    ("OI0309", "an index cannot be -1", entry("op relu(W[«0-1]) >> y;", declarations=W)),
    ("OI0311", "signed 64-bit", entry("op sum_axis(y, axis=«9223372036854775808) >> y;")),
    ("OI0312", "transfer of dtype f32 into i32", entry("«transfer x >> n;")),
    (
        "OI0313",
        "`relu` does not take bool",
        entry("op relu(«b) >> y;", declarations="constant { b: bool[B]; }"),
    ),
    # The first edition.
    ("OI0123", "expected `op` or `cache.read` after `=`", entry("t = «relu(x);")),
    ("OI0123", "unknown effect `raed`", entry("t = effect «raed(s);", declarations=P)),
    ("OI0123", "is not kept", entry("«effect read(s);", declarations=P)),
    ("OI0123", "needs a value", entry("«effect write(s);", declarations=P)),
    ("OI0123", "only `effect read` gives a value", entry("«t = effect write(s, value=x);")),
    ("OI0123", "argument `at` is unknown", entry("t = effect read(K, «at=0);", declarations=K)),
    ("OI0123", "the index is given twice", entry("k = effect read(«K[0], index=0);")),
    ("OI0124", "may only end it", entry("loop k (i in 0..2) { block b { «return; barrier; } }")),
    (
        "OI0124",
        "takes no hints",
        entry("loop k (i in 0..2) { block b with { «fuse = true } { barrier; } }"),
    ),
    ("OI0125", "operand `x` of `add` is given twice", entry("t = op add(x=x, «a=x);")),
    ("OI0125", "`y` of `add` is given, `x` is not", entry("t = op add(y=«x);")),
    ("OI0125", "it must be a variable", entry("t = op add(x=x, y=«[1.0]);")),
    ("OI0126", "`{l+1}` in `fmt` is no name", entry('t = op relu(model[fmt(«"W.{l+1}")]);')),
    ("OI0126", "without a name", entry('t = op relu(model[«""]);')),
    ("OI0215", "`relu` has no setting `k`", entry("t = op relu(x, «k=x);")),
    # Caches.
    ("OI0223", "cannot count in i4", entry("cache.increment «c;", declarations=C)),
    (
        "OI0234",
        "at most one slice of its table, got 2",
        entry("cache.write k >> «K2[];", declarations=K),
    ),
    (
        "OI0234",
        "a single index of its table, got 1",
        entry("cache.write m >> «M2[0..2, 1, 1];", declarations=K),
    ),
    ("OI0235", "no slices", entry("cache.reset «K[0..2];", declarations=K)),
    ("OI0235", "clears a whole matrix", entry("cache.reset «M2[0, 1];", declarations=K)),
    ("OI0236", "one row or one column", entry("cache.write m >> «M[0..2, ];", declarations=K)),
    ("OI0238", "3..1 ends before", entry("cache.read K[«3..1] >> k2;", declarations=K)),
    ("OI0239", "i = 4 is beyond @fixed", entry("cache.read F[«4] >> k;", declarations=K)),
    ("OI0239", "i = 5 is beyond @fixed", entry("cache.read F[0..«5] >> k2;", declarations=K)),
    ("OI0239", "i = 3 is beyond @fixed", entry("cache.read G[«3, 0] >> m;", declarations=K)),
    ("OI0309", "a slice cannot start at -1", entry("cache.read K[«-1..] >> k2;", declarations=K)),
    ("OI0309", "an index cannot be -1", entry("cache.read K[«-1] >> k;", declarations=K)),
    ("OI0230", "`K` has 1 index, got 2", entry("cache.read «K[0, 1] >> k;", declarations=K)),
    ("OI0230", "`K` has 1 index, got 0", entry("return «K;", declarations=K)),
    ("OI0231", "declared without indices", entry("cache.read «t[0] >> y;", declarations=P)),
    ("OI0312", "cache.read of dtype f16 into f32", entry("«cache.read K[0] >> y;", declarations=K)),
    (
        "OI0312",
        "cache.read of 2 dimensions into 1",
        entry("«cache.read K[] >> k;", declarations=K),
    ),
    (
        "OI0312",
        "cache.write of 1 dimension into 2",
        entry("«cache.write k >> K[..];", declarations=K),
    ),
    (
        "OI0255",
        "come last in `M(i, j)`",
        declared(M.format("i, j") + "«@auto_dim(j, i);", PERSISTENT),
    ),
    ("OI0255", "entry of a table", declared("«M(l, i): f32[B] @auto_dim(i);", PERSISTENT)),
    (
        "OI0255",
        "none is left for @table",
        declared("M(i): f32[B] «@table @auto_dim(i);", PERSISTENT),
    ),
    ("OI0255", "a table by itself", declared("b: buffer(f32, [B]) «@table;", PERSISTENT)),
    ("OI0255", "declares no indices", declared("b(«i): buffer(f32, [B]);", PERSISTENT)),
    ("OI0252", "tables start empty", declared('K(l): f32 @table «@pattern("k.{l}");', PERSISTENT)),
    ("OI0305", "grows needs a size", declared("M(i): f32[«_] @auto_dim(i);", PERSISTENT)),
    ("OI0211", "has no value where variables", entry("assign s: i32;", declarations=DIMS)),
    ("OI0315", "nothing is computed in it", declared("W: «q8_0[32];")),
    ("OI0314", "a dynamic variable cannot", declared("x: «_;", "dynamic")),
    ("OI0314", "has no dimensions", declared("y: «_[B];")),
    # Yield and await.
    ("OI0247", "does not start with `await`", exchange("", "branch b;", "«yield y;", "b")),
    (
        "OI0247",
        "in the middle of block",
        exchange("", "branch b;", "barrier; «await y; return;", "b"),
    ),
    ("OI0247", "awaits a second time", exchange("y", "", "await y; «await y; yield y;")),
    ("OI0247", "`return` in block `c`", exchange("y", "", "await y; «return;")),
    ("OI0247", "`yield` in block `c`", exchange("y", "", "await y; «yield y; yield y;")),
    ("OI0248", "so it cannot be called", exchange("y", "branch «c;", "await y; yield y;")),
    ("OI0249", "entry touches `y`", exchange("y", "op relu(x) >> «y;")),
    (
        "OI0249",
        "block `b` touches",
        exchange("y", "branch b;", "await y; yield y; } block b { op relu(«y) >> z; return;"),
    ),
    ("OI0261", "`y` is yielded twice", exchange("y", "yield «y;")),
    ("OI0261", "yielded again", exchange("", "loop k (i in 0..2) { yield «y; } await y;")),
    (
        "OI0261",
        "would run again with the same `z`",
        exchange("y, z", "await y; «yield y;", "await y, z; yield y, z;"),
    ),
    ("OI0262", "not yielded before", exchange("y", "await y; await «y; yield y;")),
    (
        "OI0262",
        "not yielded on every way",
        exchange("", "yield y; loop k (i in 0..n) { await «y; }"),
    ),
    (
        "OI0263",
        "two consumers",
        exchange("y", "", WRITES_Y + " } block d { await y; op relu(x) >> «y; yield y;"),
    ),
    ("OI0264", "entry reads `z` while", exchange("y", "op relu(«z) >> w;", WRITES_Z)),
    ("OI0264", "entry writes `z` while", exchange("y", "op relu(x) >> «z;", WRITES_Z)),
    (
        "OI0264",
        "`d` writes `z` while",
        exchange("y", "", WRITES_Z + " } block d { await y; op relu(x) >> «z; yield y;"),
    ),
    (
        "OI0264",
        "reads `T` while consumer `c` may read it",
        exchange("y", "cache.read «T[] >> all;", "await y; cache.read T[3] >> one; yield y;"),
    ),
    (
        "OI0264",
        "without awaiting it",
        exchange("y, z", "", "await y; op relu(x) >> «z; yield y;"),
    ),
    ("OI0265", "which `entry` never yields", exchange("y", "", "await y, «z; yield y, z;")),
    (
        "OI0265",
        "never yielded together",
        exchange("y", "await y; yield z; await z; yield y;", "«await y, z; yield y, z;"),
    ),
    ("OI0266", "still yielded when entry returns", exchange("", "yield y; «return;")),
    ("OI0267", "cannot be yielded", exchange("y", "yield «p; await p;")),
    ("OI0268", "no block awaits it", exchange("y", "yield «z; await z;")),
    ("OI0269", "yields other values", exchange("y, z", "", "await y, z; «yield y;")),
]


@pytest.mark.parametrize(("code", "message", "marked"), CASES, ids=lambda v: str(v)[:24])
def test_code(code: str, message: str, marked: str) -> None:
    before, marker, after = marked.partition("«")
    assert marker
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    found = parse_text(before + after).diagnostics
    listing = "\n".join(map(str, found))
    matches = [
        d
        for d in found
        if d.code == code
        and message in d.message
        and d.location == Location("<string>", line, column)
    ]
    assert matches, f"expected {code} at {line}:{column} in\n{marked}\n{listing}"
    assert matches[0].hint or code == "OI0110", "the fix is missing"


@pytest.mark.parametrize(("code", "message", "marked"), CASES, ids=lambda v: str(v)[:24])
def test_no_other_finding(code: str, message: str, marked: str) -> None:
    """One mistake gives one error: what follows from it is not reported again."""
    found = parse_text(marked.replace("«", "")).diagnostics
    errors = [d for d in found if d.severity == "error" and d.code != code]
    assert not errors, "\n".join(map(str, found))


def test_every_frontend_code_has_a_case() -> None:
    covered = {code for code, _, _ in CASES}
    # Tested where they come from.
    elsewhere = {"OI0107", "OI0140", "OI0141", "OI0270", "OI0287", "OI0271", "OI0272", "OI0701"}
    elsewhere |= {"OI0273", "OI0274", "OI0275"}
    with_sizes = {code for code in PROGRAM if "OI0320" <= code <= "OI0329"}
    assert {*FRONTEND, *PROGRAM} - elsewhere - with_sizes == covered


def test_too_many_errors() -> None:
    text = "block entry {\n" + "op nothing() >> y;\n" * 1000 + "return;\n}"
    found = parse_text(text).diagnostics
    assert len(found) == 201
    assert sum(d.code == "OI0107" for d in found) == 1
