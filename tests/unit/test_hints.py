"""Hints that name what the program has, in the words of the language."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects.foreign_words import DTYPES as FOREIGN_DTYPES
from openinfer.dialects.foreign_words import SECTIONS, STATEMENTS, VALUES
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import Diagnostic, InputError, ProgramError
from openinfer.runtime.suggest import nearest
from openinfer.runtime.tensors import as_tensor

HEAD = """\
dynamic { x: f32[2, 3]; n: i32; g: f16[2, 3]; m: bool[2, 3]; }
volatile { h: f32[2, 3]; k: f32[2, 3]; }
persistent { step: i32; T: i32; }
"""


def findings(text: str) -> list[Diagnostic]:
    with pytest.raises(ProgramError) as caught:
        oi.Simulator(text)
    return caught.value.diagnostics


def in_block(*statements: str) -> str:
    return HEAD + "block entry {\n" + "\n".join(statements) + "\nreturn;\n}\n"


# Values, names with dots, amounts, words of other languages.


@pytest.mark.parametrize(
    ("statement", "code", "fix"),
    [
        ("op mul(x, [1, 2]) >> h;", "OI0280", "declare the values in `constant { … }`"),
        ('op mul(x, "a") >> h;', "OI0280", "a setting, `name=value`, may be one"),
        ("op mul(x, -2 * n) >> h;", "OI0280", "write one number"),
        ("h = op mul(a=x, b=[1]);", "OI0125", "declare the values in `constant { … }`"),
        ("op and(m, True) >> m;", "OI0210", "as an operand, write `true`"),
        ("transfer inf >> h;", "OI0210", "literals are operands of ops"),
        ("op mul(0.5, 2.0) >> h;", "OI0283", "declare one of them in `constant { … }`"),
        ("op relu(op mul(x, 2)) >> h;", "OI0120", "write `mul(…)`"),
        ("h = op relu(mull(x, 2));", "OI0214", "did you mean `mul`?"),
        ("op lp_pool1d(x, 2) >> h;", "OI0217", "`op lp_pool1d(x, kernel_size=2) >> …;`"),
        ("op gather(x, 1) >> h;", "OI0283", "declare it in `constant { … }`"),
        ("op add(n, 0.5) >> n;", "OI0284", "write an integer, or `op cast(…, to=f32) >> …;`"),
        ("op mul(x, true) >> h;", "OI0284", "write a number, `1.0`"),
        ("op and(m, 0.5) >> m;", "OI0284", "write true or false, `true`"),
        ("op mul(g, 1e6) >> g;", "OI0285", "the values of f16 are -65504 to 65504"),
        (
            "op matmul(x, fc1.weight) >> h;",
            "OI0281",
            'declare `fc1_weight: f32[…] @ref("fc1.weight");`',
        ),
        ("h = op add(a=x, b=l.0.w);", "OI0281", 'declare `l_0_w: f32[…] @ref("l.0.w");`'),
        ("cache.increment x step;", "OI0306", "declare it as an integer without dimensions"),
        ("cache.decrement step 2;", "OI0282", "write `cache.decrement 2 step;`"),
        ("cache.increment step -1;", "OI0282", "write `cache.increment 2 step;`"),
        ("relu(x) >> h;", "OI0113", "an op starts with the word `op`: `op relu(…) >> …;`"),
        ("linear(x, x) >> h;", "OI0113", "an op starts with the word `op`"),
        ("print(x);", "OI0113", "leave it out: `openinfer debug` shows values"),
        ("for i in 0..3 { }", "OI0113", "write `loop NAME (i in 0..n) { … }`"),
        ("op relu(x, negative_slope=True) >> h;", "OI0328", "write `negative_slope=true`"),
        ("op relu(x, clamp_max=Inf) >> h;", "OI0328", "write `clamp_max=inf`"),
        ("op gelu(x, approximate=None) >> h;", "OI0328", "leave `approximate` out"),
        ("op cast(x, to=float16) >> h;", "OI0304", "write `to=f16`"),
        ("assign t: float32[2];", "OI0301", "it is `f32` here"),
        # With the name that the program has, not that of the op's operand.
        ("op add(x, n) >> h;", "OI0322", "cast one of them: `op cast(n, to=f32) >> …;`"),
        ("op concat(x, x, n) >> h;", "OI0322", "cast one of them: `op cast(n, to=f32) >> …;`"),
        ("op matmul(x, m) >> h;", "OI0322", "cast one of them: `op cast(m, to=f32) >> …;`"),
        ("op layer_norm(x, n) >> h;", "OI0322", "it takes floats: `op cast(n, to=f32) >> …;`"),
        ("op layer_norm(x, x) >> h;", "OI0322", "declare x with the shape of the normalised axes"),
        ("op relu(m) >> h;", "OI0313", "i1; `op cast(m, to=f32) >> …;` first"),
        ("op eq(x, x) >> h;", "OI0323", "write `op cast(TEMPORARY, to=f32) >> h;`"),
    ],
)
def test_hints_of_statements(statement: str, code: str, fix: str) -> None:
    found = [d for d in findings(in_block(statement)) if d.code == code]
    assert len(found) == 1
    assert fix in str(found[0].hint)


# Forms of Python, in both forms of a statement.


@pytest.mark.parametrize(
    ("call", "code", "fix"),
    [
        ("torch.matmul(x, x)", "OI0281", "write `matmul(…)`"),
        ("nn.Linear(x, x)", "OI0214", "did you mean `linear`?"),
        ("x.matmul(h)", "OI0281", "write `matmul(x, …)`"),
        ("relu(torch.exp(x))", "OI0281", "write `exp(…)`"),
        ("relu(x) * 2", "OI0110", "operators are ops here: `mul(relu(…), …)`"),
        ("relu(x) if m else x", "OI0110", "the op `where` chooses"),
        ("mul(x, h + 1)", "OI0110", "operators are ops here: `add(h, …)`"),
        ("mul(x, h[0] @ h)", "OI0110", "operators are ops here: `matmul(h[0], …)`"),
        ("softmax(x, axis: 1)", "OI0110", "a setting is written with `=`: `axis=…`"),
        ("relu(x[0:2])", "OI0115", "a range is written with two dots"),
        ("relu(x[:, 1])", "OI0115", "an axis as a whole is left empty: `x[, i]`"),
        ("transpose(x, (1, 0))", "OI0280", "a list is the value of a setting, in brackets"),
        ("transpose(x, perm=(1, 0))", "OI0110", "a list is the value of a setting, in brackets"),
        ("concat([x, h], axis=0)", "OI0280", "give them one after the other"),
        ("relu(x, None)", "OI0210", "leave it out: what is optional is not given"),
        ("relu x", "OI0110", "write `op relu(x, …)`"),
        # The end of what was written is missing, no operator is meant.
        ("relu(x) -> k", "OI0110 OI0111", "op relu(…) >> OUTPUT; end the statement with `;`"),
    ],
)
def test_hints_of_foreign_forms(call: str, code: str, fix: str) -> None:
    for statement in (f"op {call} >> h;", f"h = op {call};"):
        found = [d for d in findings(in_block(statement)) if d.code in code]
        assert len(found) == 1
        assert fix in str(found[0].hint) or str(found[0].hint) in fix


@pytest.mark.parametrize(
    ("statement", "code", "fix"),
    [
        ("h = torch.relu(x);", "OI0123", "write `h = op relu(…);`"),
        ("h = x.matmul(k);", "OI0123", "write `h = op matmul(x, …);`"),
        ("h = x @ k;", "OI0123", "operators are ops here: `matmul(x, …)`"),
        ("h = x if m else k;", "OI0123", "the op `where` chooses"),
        ("torch.relu(x) >> h;", "OI0113", "its name has no dots: `op relu(…) >> …;`"),
    ],
)
def test_hints_of_statements_of_python(statement: str, code: str, fix: str) -> None:
    found = [d for d in findings(in_block(statement)) if d.code == code]
    assert len(found) == 1
    assert fix in str(found[0].hint)


def test_a_module_in_front_hides_no_other_mistake() -> None:
    found = findings(in_block("op torch.relu(y) >> h;"))
    assert [d.code for d in found] == ["OI0281", "OI0210"]


def test_what_the_hint_of_a_literal_says_works() -> None:
    text = HEAD + "constant { c: f32 @init(0.5); } block entry { op mul(x, c) >> h; return; }"
    with oi.Simulator(text).make_executor() as executor:
        x = np.arange(6, dtype="f4").reshape(2, 3)
        executor.insert(x=x, n=np.int32(0), g=x.astype("f2"), m=x > 2)
        executor.step()
        assert np.array_equal(np.asarray(executor.fetch("h")), x / 2)


def test_what_the_hint_of_an_amount_says_works() -> None:
    text = """\
persistent { step: i32; }
constant { T: i32 @init(3); }
block entry { assign t: i32; op add(step, T) >> t; cache.write t >> step; return; }
"""
    with oi.Simulator(text).make_executor() as executor:
        executor.step()
        executor.step()
        assert int(np.asarray(executor.fetch("step"))) == 6


def test_reading_goes_on_behind_a_value_and_a_dotted_name() -> None:
    text = in_block("op mul(x, [1]) >> h;", "op mul(x, fc.w) >> h;", "op frobnicate(x) >> h;")
    text += "constant { fc.b: f32[3]; }"
    assert [d.code for d in findings(text)] == ["OI0280", "OI0281", "OI0214", "OI0281"]


def test_a_dotted_name_is_reported_once_with_its_lines() -> None:
    found = findings(in_block("op mul(x, fc.w) >> h;", "op add(x, fc.w) >> h;"))
    assert [d.code for d in found] == ["OI0281"]
    assert [note.message for note in found[0].notes] == ["also in line 6"]


def test_a_dotted_declaration_says_ref() -> None:
    (found,) = findings("constant { fc1.weight: f32[2]; } block entry { return; }")
    assert found.message == "a name has no dots, found `fc1.weight`"
    assert found.hint == 'declare `fc1_weight: f32[…] @ref("fc1.weight");`'
    assert found.length == len("fc1.weight")


@pytest.mark.parametrize(
    ("item", "fix"),
    [
        ("input x: f32[2];", "declare it in a section: `dynamic { x: f32[…]; }`"),
        ("dynamic x: f32[2];", "declare it in a section: `dynamic { x: f32[…]; }`"),
        ("x: f32[2];", "declare it in a section: `dynamic { x: f32[…]; }`"),
        ("const w = 3;", "declare it in a section: `constant { w: f32[…]; }`"),
        ("weights { w: f32[2]; }", "write `constant { … }`"),
        ("cache { K: f32[2]; }", "write `persistent { … }`"),
        ("def main() { }", "statements stand in a block: `block entry { … }`"),
        ("op relu(x) >> x;", "statements stand in a block: `block entry { … }`"),
        ("constnt { w: f32[2]; }", "did you mean `constant`?"),
        ("frobnicate { w: f32[2]; }", "volatile { … }  or  block entry { … }"),
    ],
)
def test_hints_outside_of_sections_and_blocks(item: str, fix: str) -> None:
    found = findings(f"{item}\nblock entry {{ return; }}\n")
    assert [(d.code, d.hint) for d in found] == [("OI0112", fix)]


@pytest.mark.parametrize("value", ["True", "None"])
def test_hints_of_init(value: str) -> None:
    (found,) = findings(f"volatile {{ b: bool @init({value}); }} block entry {{ return; }}")
    assert found.hint == f"write `@init({VALUES.get(value, '0')})`"


def test_a_tensor_of_another_dtype_is_cast_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "m.oinf"
    oi.write_oinf({"w": np.zeros(2, np.float16)}, path)
    with oi.open_model(path) as model, pytest.raises(ProgramError) as caught:
        oi.Simulator("constant { w: f32[2]; } block entry { return; }", model)
    assert "write `op cast(w, to=f32) >> …;`" in str(caught.value)


def test_the_words_of_other_languages_lead_to_ours() -> None:
    assert set(FOREIGN_DTYPES.values()) <= set(DTYPES)
    assert not set(FOREIGN_DTYPES) & set(DTYPES)
    assert set(SECTIONS.values()) == {"dynamic", "volatile", "constant", "persistent"}
    for word, ours in STATEMENTS.items():
        found = findings(in_block(f"{word} x;"))
        assert found[0].hint == f"write `{ours}`", word


# Near names.


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("wieghts", ["weights", "x"], ["weights"]),
        ("fc1_weight", ["fc1.weight", "fc1.bias"], ["fc1.weight"]),
        ("HIDDEN", ["hidden"], ["hidden"]),
        ("w3", ["w1", "w2"], []),
        ("x", ["y", "z"], []),
        ("y", ["xy"], []),
        ("input", ["inputs", "output"], ["inputs"]),
        ("layernrm", ["layer_norm", "rms_norm"], ["layer_norm"]),
        ("num_layer", ["num_layers", "num_heads"], ["num_layers"]),
        ("conv", ["conv1d", "conv2d", "concat"], ["conv1d", "conv2d"]),
        ("", ["x"], []),
        ("_", ["x"], []),
        ("x", [], []),
    ],
)
def test_nearest(name: str, known: list[str], meant: list[str]) -> None:
    assert nearest(name, known, 2) == meant


def test_nearest_of_long_names_and_many() -> None:
    many = [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(400)]
    assert nearest("model.layers.7.self_attn.q_porj.weight", many) == [many[7]]
    assert nearest("x" * 100_000, many) == []


# Arrays of torch.


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        ("f32", "tensor.to(torch.float32), or use tensor.detach().cpu().numpy()"),
        ("i64", "tensor.to(torch.int64)"),
        ("bf16", "tensor.to(torch.bfloat16)"),
        ("bool", "tensor.to(torch.bool)"),
        ("i4", 'Tensor.from_values("i4", tensor.detach().cpu().numpy())'),
    ],
)
def test_a_torch_tensor_is_told_in_words_of_torch(dtype: str, hint: str) -> None:
    class Array:
        """As a tensor of torch shows itself; torch is not asked."""

        def __dlpack__(self, **how: Any) -> Any:
            return np.zeros(2).__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return np.zeros(2).__dlpack_device__()

    Array.__module__ = "torch"
    with pytest.raises(InputError, match="OI0541") as caught:
        as_tensor(Array(), dtype, name="x")
    assert hint in str(caught.value.hint)
    assert "astype" not in str(caught.value)
    with pytest.raises(InputError, match="astype") as plain:
        as_tensor(np.zeros(2), "f32", name="x")
    assert "torch" not in str(plain.value)


def test_a_torch_tensor_that_cannot_be_read_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    class Array:
        def __dlpack__(self, **how: Any) -> Any:
            raise BufferError("can't export a tensor that requires gradient")

        def __dlpack_device__(self) -> Any:
            return 1, 0

    Array.__module__ = "torch"
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="OI0544") as caught:
        as_tensor(Array(), "f32", name="x")
    assert caught.value.hint == "give tensor.detach().cpu().numpy()"


def test_real_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    text = "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op relu(x) >> y; return; }"
    with oi.Simulator(text).make_executor() as executor:
        with pytest.raises(InputError, match=r"tensor\.to\(torch\.float32\)"):
            executor.insert(x=torch.zeros(2, dtype=torch.float64))
        with pytest.raises(InputError, match=r"give tensor\.detach\(\)\.cpu\(\)\.numpy\(\)"):
            executor.run(x=torch.zeros(2, requires_grad=True))
        assert not np.asarray(executor.run(x=torch.zeros(2))["y"]).any()
