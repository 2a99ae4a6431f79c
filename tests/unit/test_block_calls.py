"""Blocks with parameters: what calls of them stand for, on both executors, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_executors import agree

import openinfer as oi
from openinfer.compiler.frontend import parse_program, parse_text, print_program
from openinfer.compiler.frontend.layout import formatted
from openinfer.lowering.locations import calls_around, location_of
from openinfer.runtime.packages.memory import MemoryPackage
from openinfer.runtime.packages.oinf_writer import OinfContent

PROGRAM = """
dynamic { x: f32[B, 3, 8, 8]; n: i32; }
constant { fc: f32[5, 4]; }
persistent { seen(t): f32[B, 4] @table; }

block conv_bn(x0, conv, bn, stride=1) {
    constant {
        w: f32[_, _, 3, 3] @ref("{conv}.weight");
        mean: f32[_] @ref("{bn}.running_mean");
        var: f32[_] @ref("{bn}.running_var");
    }

    h = op conv2d(x0, w, stride=stride, padding=1);
    h = op batch_norm(h, mean, var);
    return h;
}

block basic(x1, path, stride=1, low=0.5) {
    h = branch conv_bn(x1, "{path}.conv1", "{path}.bn1", stride=stride);
    h = op max(h, low);
    left = branch conv_bn(h, "{path}.conv2", "{path}.bn2");
    y = op add(left, h);
    return y, left;
}

block note(row, at) { cache.write row >> seen[at..at + 1]; return; }

block entry {
    h = branch conv_bn(x, "conv1", "bn1");
    a, b = branch basic(relu(h), "first", low=0.25, stride=2);
    loop layers (l in 0..2) { a, b = branch basic(a, "layer.{l}"); }
    m = op mean_axis(add(a, b), axes=[2, 3]);
    y = op matmul(m, fc);
    one = op unsqueeze(y, axes=[0]);
    branch note(one, n);
    z = op neg(seen[n]);
    return y, z;
}
"""


def _weights() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    made = {"fc": rng.standard_normal((5, 4))}
    convs = ["conv1"] + [f"{p}.conv{k}" for p in ("first", "layer.0", "layer.1") for k in (1, 2)]
    for conv in convs:
        made[f"{conv}.weight"] = rng.standard_normal((5, 3 if conv == "conv1" else 5, 3, 3)) * 0.3
        norm = conv.replace("conv", "bn")
        made[f"{norm}.running_mean"] = rng.standard_normal(5)
        made[f"{norm}.running_var"] = rng.uniform(0.5, 1.5, 5)
    return {name: value.astype(np.float32) for name, value in made.items()}


def test_both_executors_agree() -> None:
    rng = np.random.default_rng(4)
    steps = [
        {"x": rng.standard_normal((2, 3, 8, 8)).astype(np.float32), "n": np.int32(t)}
        for t in range(2)
    ]
    agree(PROGRAM, steps, tensors=_weights())


def test_a_call_is_what_its_statements_are() -> None:
    by_hand = """
    dynamic { x: f32[B, 4]; }
    constant { a: f32[4, 4] @ref("one.w"); b: f32[4, 4] @ref("two.w"); }
    block entry {
        h = op relu(linear(x, a), clamp_max=6);
        y = op relu(linear(h, b), clamp_max=3);
        return y;
    }
    """
    called = """
    dynamic { x: f32[B, 4]; }
    block dense(x0, path, top) {
        constant { w: f32[4, 4] @ref("{path}.w"); }
        h = op linear(x0, w);
        h = op relu(h, clamp_max=top);
        return h;
    }
    block entry { h = branch dense(x, "one", 6); y = branch dense(h, path="two", top=3); return y; }
    """
    rng = np.random.default_rng(5)
    made = {n: rng.standard_normal((4, 4)).astype(np.float32) for n in ("one.w", "two.w")}
    x = rng.standard_normal((3, 4)).astype(np.float32)

    package = MemoryPackage(OinfContent({}, {}, made))
    results = [
        oi.Simulator(text, package).make_executor().run(x=x)["y"] for text in (by_hand, called)
    ]
    np.testing.assert_array_equal(np.asarray(results[0]), np.asarray(results[1]))


SIZES = """
size wide = D / parts;
size parts = 3;
dynamic { x: f32[B, D]; n: i32; }
block shift(h, k, by=1) {
    y = op add(h, cast(k, to=f32));
    y = op mul(y, by);
    return y;
}
block both(h, a, b) {
    h1 = op mul(h, 1.0);
    loop inner (l in 0..2) { h1 = op add(h, cast(mul(a, l), to=f32)); }
    y = branch shift(h1, b + 1);
    z = branch shift(y, k=b, by=2);
    return z;
}
block entry {
    y = op mul(x, 1.0);
    loop outer (l in 1..3) {
        y = branch shift(y, l);                 // an index
        y = branch shift(y, 3 - 2*l);
        y = branch shift(y, l / 2);
        y = branch shift(y, n + l);             // a variable
        y = branch both(y, l, l + 1);           // of one call, an argument of another
        y = branch both(y, B, 3*wide);          // sizes
        y = branch shift(y, k=D);
    }
    y = branch shift(y, parts * 2);
    y = branch shift(y, B - B / 2);
    return y;
}
"""


def test_an_index_and_a_size_are_operands() -> None:
    """As i64 without dimensions, also where a loop of the block has an index of that name."""
    x = np.arange(12, dtype=np.float32).reshape(2, 6) / 8

    def shift(y: Any, n: int, by: int = 1) -> Any:
        return (y + n) * by

    def both(y: Any, a: int, b: int) -> Any:
        return shift(shift(y + a, b + 1), b, 2)

    wanted = x
    for i in (1, 2):
        for number in (i, 3 - 2 * i, i // 2, 7 + i):
            wanted = shift(wanted, number)
        wanted = shift(both(both(wanted, i, i + 1), 2, 6), 6)
    wanted = shift(shift(wanted, 6), 1)
    agree(SIZES, [{"x": x, "n": np.int32(7)}])
    found = oi.Simulator(SIZES, None).make_executor().run(x=x, n=np.int32(7))["y"]
    np.testing.assert_array_equal(np.asarray(found), wanted)
    laid_out = formatted(SIZES, "t.oi")
    assert formatted(laid_out, "t.oi") == laid_out
    assert print_program(parse_program(laid_out)) == print_program(parse_program(SIZES))


def test_a_whole_number_is_an_operand_as_an_index_is() -> None:
    """A literal beside operands that have a dtype, else an i64: of `cast`, of two numbers, as an index."""
    text = """
    dynamic { x: f32[3, 4]; }
    block pick(h, n, m=2, s=0.5) {
        a = op add(h, cast(n, to=f32));
        a = op add(a, cast(mul(n, 3), to=f32));
        a = op add(a, cast(sub(m, n), to=f32));
        row = op gather(h, m);
        a = op mul(a, s);
        return a, row;
    }
    block outer(h, k) { a, row = branch pick(h, k); return a, row; }
    block entry {
        a, row = branch outer(x, 1);
        loop once (i in 1..2) { b, other = branch outer(x, i); }
        half = op mul(x, 0.5);
        c, last = branch pick(half, 0, m=1, s=2);
        return a, row, b, other, c, last;
    }
    """
    x = np.arange(12, dtype=np.float32).reshape(3, 4) / 8
    agree(text, [{"x": x}])
    found = oi.Simulator(text, None).make_executor().run(x=x)
    for a, row in (("a", "row"), ("b", "other")):
        np.testing.assert_array_equal(np.asarray(found[a]), (x + 1 + 3 + 1) * 0.5)
        np.testing.assert_array_equal(np.asarray(found[row]), x[2])
    np.testing.assert_array_equal(np.asarray(found["c"]), x + 2)
    np.testing.assert_array_equal(np.asarray(found["last"]), x[1] / 2)


def test_results_are_given_all_at_once() -> None:
    text = """
    dynamic { x: f32[2]; y: f32[2]; }
    block swap(p, q) { return q, p; }
    block turn(p, q, r) { s = op neg(p); return q, r, s; }
    block entry {
        a = op mul(x, 1.0); b = op mul(y, 1.0);
        a, b = branch swap(a, b);
        c = op add(a, b);
        a, b, c = branch turn(a, b, c);
        return a, b, c;
    }
    """
    x, y = np.array([1, 2], np.float32), np.array([5, 7], np.float32)
    found = oi.Simulator(text, None).make_executor().run(x=x, y=y)
    for name, wanted in (("a", x), ("b", x + y), ("c", -y)):
        np.testing.assert_array_equal(np.asarray(found[name]), wanted)


def test_the_text_of_what_a_call_stands_for_reads_the_same() -> None:
    text = print_program(parse_program(PROGRAM))
    assert "branch" not in text
    assert print_program(parse_program(text)) == text
    laid_out = formatted(PROGRAM, "t.oi")
    assert formatted(laid_out, "t.oi") == laid_out
    assert (
        "block conv_bn(x0, conv, bn, stride=1) {\n    constant {\n        w: f32[_, _, 3, 3]"
        in laid_out
    )
    assert print_program(parse_program(laid_out)) == text


def test_statements_keep_the_place_of_the_block() -> None:
    module = parse_program(PROGRAM, "t.oi")
    products = [op for op in module.walk() if "conv2d" in str(op.properties.get("op"))]
    assert {str(location_of(op)) for op in products} == {"t.oi:13:5"}
    calls = [[str(call) for call in calls_around(op.location)] for op in products]
    assert calls[0] == ['conv_bn(x, "conv1", "bn1") at line 29']
    assert calls[1][1] == 'conv_bn(a_relu, "first.conv1", "first.bn1", stride=2) at line 19'
    assert calls[3][0] == 'basic(a, "layer.{l}") at line 31'
    assert [len(one) for one in calls] == [1, 2, 2, 2, 2]


FAILING = """
dynamic { x: f32[4]; n: i32; }
block pick(h, at) { y = op slice(h, start=at, stop=at + 1); return y; }
block both(h, at) { y = branch pick(h, at); z = branch pick(h, at + 1); return y, z; }
block entry { y, z = branch both(relu(x), n); return y, z; }
"""


def test_events_and_mistakes_of_a_step_say_the_calls() -> None:
    around = ("both(y_relu, n) at line 5", "pick(y_relu, n) at line 4")
    for program in (oi.Simulator(FAILING, None), oi.compile(FAILING, None)):
        with program.make_executor(trace=True) as executor:
            executor.run(x=np.ones(4, np.float32), n=np.int32(1))
            event = next(e for e in executor.trace() if "slice" in e.op_name)
            assert event.calls == around
            assert event.scope == "both(y_relu, n)/pick(y_relu, n)"
            assert event.location is not None
            assert event.location.line == 3
        with program.make_executor() as executor, pytest.raises(oi.StepError) as caught:
            executor.run(x=np.ones(4, np.float32), n=np.int32(3))
        assert (
            "in pick(y_relu, n + 1) at line 4 in both(y_relu, n) at line 5 in block entry"
            in str(caught.value)
        )


def test_a_saved_program_knows_the_names_of_its_blocks(tmp_path: Path) -> None:
    text = """
    dynamic { x: f32[4]; }
    block half(v, at, by=0.5) {
        h = op mul(v, by);
        loop a (i in 0..2) { h = op add(h, slice(v, start=i + at, stop=i + at + 1)); }
        return h;
    }
    block entry { loop b (i in 2..3) { h = branch half(x, i); } return h; }
    """
    program = oi.compile(text)
    program.save(tmp_path / "p.oip", observed=True)
    loaded = oi.load(tmp_path / "p.oip")
    assert loaded.outline() == program.outline()
    stepper = oi.Stepper(loaded.make_executor())
    stepper.begin(x=np.ones(4, np.float32))
    stepper.until(oi.Breakpoint(op="add", when="i == 1"))
    found = [float(stepper.evaluate(name).max()) for name in ("v", "by", "at", "i", "h")]
    assert found == [1, 0.5, 2, 1, 2.5]


def test_a_mistake_of_types_says_which_call_it_is_of() -> None:
    text = """
    dynamic { x: f32[4]; y: f32[5]; }
    block sum(a, b) { z = op add(a, b); return z; }
    block entry { a = branch sum(x, x); b = branch sum(x, y); c = branch sum(y, x); return a, b, c; }
    """
    with pytest.raises(oi.ProgramError) as caught:
        oi.compile(text)
    found = caught.value.diagnostics
    assert [one.code for one in found] == ["OI0329"] * 2
    notes = [one.notes[-1].message for one in found]
    assert notes == ["in the call `sum(x, y)`", "in the call `sum(y, x)`"]


HEAD = "dynamic { x: f32[4, 4]; p: f32[4]; }\nsize d = 4;\n"
DENSE = """
block dense(h, path, k=1) {
    constant { w: f32[4, 4] @ref("{path}.w"); }
    y = op linear(h, w);
    return y;
}
"""


@pytest.mark.parametrize(
    ("code", "blocks", "line"),
    [
        ("OI0273", DENSE, 'y = branch dense(x, "a", 1, 2);'),
        ("OI0273", DENSE, "y = branch dense(x);"),
        ("OI0273", DENSE, 'y = branch dense(x, "a", wide=2);'),
        ("OI0273", DENSE, 'y = branch dense(x, "a", path="b");'),
        ("OI0273", DENSE, 'y = branch dense(x, "a", k=1, k=2);'),
        ("OI0273", DENSE, 'y, z = branch dense(x, "a");'),
        ("OI0273", DENSE, "y = op neg(x); branch dense;"),
        ("OI0273", "block plain { return; }\n", "y = op neg(x); branch plain(x); branch plain;"),
        ("OI0212", DENSE, 'y = branch dens(x, "a"); z = branch dense(x, "a");'),
        ("OI0114", DENSE, 'y = branch dense(path="a", x);'),
        ("OI0244", "block f(h) { y = branch f(h); return y; }\n", "y = branch f(x);"),
        ("OI0240", "block f(h) { y = op neg(h); }\n", "y = op neg(x); branch f(x);"),
        ("OI0274", "block f(p) { y = op neg(p); return y; }\n", "y = branch f(x);"),
        ("OI0274", "block f(d) { y = op neg(d); return y; }\n", "y = branch f(x);"),
        ("OI0274", "block f(h, h) { y = op neg(h); return y; }\n", "y = branch f(x, x);"),
        ("OI0274", "block f(h) { h = op neg(h); return h; }\n", "y = branch f(x);"),
        (
            "OI0274",
            "block f(h) { y = op add(h, t); return y; }\n",
            "t = op neg(x); y = branch f(x);",
        ),
        ("OI0274", "block f(h) { yield h; return h; }\n", "y = branch f(x);"),
        (
            "OI0274",
            "block f(h) { volatile { v: f32[4]; } y = op neg(h); return y; }\n",
            "y = branch f(x);",
        ),
        (
            "OI0260",
            "block f(h) { y = op slice(h, start=0, stop=l); return y; }\n",
            "loop a (l in 1..2) { y = branch f(x); }",
        ),
        ("OI0275", DENSE, "y = branch dense(x, 0.5);"),
        ("OI0275", "block f(h) { y = op neg(h); return y; }\n", 'y = branch f("a");'),
        (
            "OI0275",
            "block f(h, n) { y = op slice(h, start=0, stop=n + 1); return y; }\n",
            "y = branch f(x, 0.5);",
        ),
        ("OI0275", DENSE, 'y = branch dense(x, "a.{l}");'),
        (
            "OI0275",
            "block f(h, n) { y = op add(h, cast(n, to=f32)); return y; }\n",
            "loop a (l in 1..2) { y = branch f(x, 4 / l); }",
        ),
        (
            "OI0275",
            "dynamic { z: f32[K]; }\nsize M = 4 / K;\n"
            "block f(h, n) { y = op add(h, cast(n, to=f32)); return y; }\n",
            "y = branch f(x, M);",
        ),
        # A float stays a literal.
        (
            "OI0283",
            "block f(h, n) { y = op add(h, cast(n, to=f32)); return y; }\n",
            "y = branch f(x, 0.5);",
        ),
        # A statement stores no number.
        (
            "OI0210",
            "block f(h, n) { return n; }\n",
            "loop a (l in 1..2) { y = branch f(x, l); }",
        ),
        (
            "OI0274",
            'block f(h, path) { constant { w: f32[4] @ref("{paht}.w"); } y = op add(h, w); return y; }\n',
            'y = branch f(x, "a");',
        ),
        ("OI0245", DENSE, "y = op neg(x);"),
        # A block that nothing calls.
        ("OI0214", "block f(h) { y = op frobnicate(h); return y; }\n", "y = op neg(x);"),
        ("OI0217", "block f(h) { y = op add(h); return y; }\n", "y = op neg(x);"),
        ("OI0274", "block f(h) { y = op add(h, wh); return y; }\n", "y = op neg(x);"),
        ("OI0215", "block f(h) { y = op relu(h, slope=0.5); return y; }\n", "y = op neg(x);"),
        ("OI0304", 'block f(h) { y = op softmax(h, axis="a"); return y; }\n', "y = op neg(x);"),
        ("OI0304", "block f(h) { y = op cast(h, to=f33); return y; }\n", "y = op neg(x);"),
        (
            "OI0301",
            "block f(h) { assign y: f33[4]; op neg(h) >> y; return y; }\n",
            "y = op neg(x);",
        ),
        (
            "OI0301",
            "block f(h) { constant { w: f33[4]; } y = op add(h, w); return y; }\n",
            "y = op neg(x);",
        ),
        ("OI0313", "block f(h) { y = op not(x); return y; }\n", "y = op neg(x);"),
    ],
)
def test_mistakes_are_told(code: str, blocks: str, line: str) -> None:
    text = f"{HEAD}{blocks}block entry {{ {line} return y; }}\n"
    found = parse_text(text).diagnostics
    assert code in [one.code for one in found], parse_text(text).render()
    assert all(one.location is not None for one in found)


def test_nothing_is_held_against_what_only_a_call_decides() -> None:
    text = f"""{HEAD}
    block f(h, to, axis, low) {{
        constant {{ w: f32[_, _] @dtype(q8_0); }}
        y = op cast(softmax(h, axis=axis), to=to);
        y = op clamp(y, min=low);
        y = op reshape(y, shape=[low, d]);
        return y;
    }}
    block entry {{ y = op neg(x); return y; }}
    """
    assert [one.code for one in parse_text(text).diagnostics] == ["OI0245"]


@pytest.mark.parametrize(
    ("codes", "text"),
    [
        (["OI0212"], "block entry { y = branch nosuch(x); return y; }"),
        (["OI0212"], "block entry { branch nosuch(x); return x; }"),
        (
            ["OI0202"],
            "block f(h) { return h; } block f { return; }"
            "block entry { y = branch f(x); return y; }",
        ),
        (
            ["OI0110"],
            "block f(h { y = op neg(h); return y; } "
            "block entry { y = branch f(x); return y; }",
        ),
        (
            ["OI0110"],
            "block f( { y = op neg(x); return y; } "
            "block entry { y = branch f(x); return y; }",
        ),
        (
            ["OI0116"],
            "block f(h) y = op neg(h); return y; } "
            "block entry { y = branch f(x); return y; }",
        ),
        (
            ["OI0110"],
            "block f(h) { y = op neg(h); return y; } "
            "block entry { y = branch f(x; return y; }",
        ),
        (
            ["OI0206"],
            "block f(h) { assign x: f32[4]; return h; } "
            "block entry { y = branch f(x); return y; }",
        ),
        (
            ["OI0244"],
            "block f(h) { y = branch g(h); return y; } block g(h) { y = branch f(h); return y; }"
            "block entry { y = branch f(x); return y; }",
        ),
    ],
)  # fmt: skip
def test_unfinished_texts(codes: list[str], text: str) -> None:
    """One mistake, and nothing that only follows from it."""
    result = parse_text(f"dynamic {{ x: f32[4]; }}\n{text}\n")
    assert [one.code for one in result.errors] == codes, result.render()


def test_calls_that_grow_without_end_are_refused() -> None:
    chain = "block b0(h) { y = op neg(h); return y; }\n" + "".join(
        f"block b{k}(h) {{ y = branch b{k - 1}(h); z = branch b{k - 1}(y); return z; }}\n"
        for k in range(1, 40)
    )
    found = parse_text(f"{HEAD}{chain}block entry {{ y = branch b39(x); return y; }}").errors
    assert [one.code for one in found] == ["OI0270"]
    deep = "block b0(h) { y = op neg(h); return y; }\n" + "".join(
        f"block b{k}(h) {{ y = branch b{k - 1}(h); return y; }}\n" for k in range(1, 80)
    )
    found = parse_text(f"{HEAD}{deep}block entry {{ y = branch b79(x); return y; }}").errors
    assert [one.code for one in found] == ["OI0271"]
