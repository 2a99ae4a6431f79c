"""The op registry: settings, arity, shape and dtype rules, and the errors that they raise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from openinfer.dialects.opset import (
    ArityError,
    NameRef,
    OpDTypeError,
    OpError,
    OpSpec,
    SettingError,
    ShapeError,
    TensorSpec,
    accepts,
    find,
    infer_outputs,
    names,
    nearest,
    resolve_settings,
)
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.sizes import Size, SizeLike

# The 47 ops of the original, and those that issue 2 names.
ORIGINAL = (
    "add mul sub div floor_div rem fma neg abs recip sign min max clamp floor ceil round trunc and "
    "or xor not shl shr popcount eq ne lt le gt ge is_finite is_nan is_inf is_neg filter sum_axis "
    "mean_axis prod_axis max_axis min_axis argmax_axis argmin_axis cast fill relu matmul"
).split()
MODELS = (
    "exp log sqrt rsqrt pow sin cos tanh erf sigmoid silu gelu softplus softmax log_softmax "
    "layer_norm rms_norm attention attn sdpa embedding gather concat split slice transpose permute "
    "reshape squeeze unsqueeze expand fill_nan_like iota where conv1d conv2d conv_transpose2d "
    "max_pool2d avg_pool2d upsample2d batch_norm group_norm lstm gru rfft irfft rope "
    "scatter pad flip cumsum topk sort one_hot random_uniform quantize dequantize"
).split()


def spec_of(name: str) -> OpSpec:
    spec = find(name)
    assert spec is not None
    return spec


def t(dtype: str, *dims: SizeLike) -> TensorSpec:
    return TensorSpec.of(dtype, dims)


def infer(name: str, operands: Sequence[TensorSpec], outputs: int = 1, **settings: object) -> str:
    found = infer_outputs(spec_of(name), operands, settings, outputs)
    return "; ".join(str(f) for f in found)


def test_every_op_of_the_issue_is_there():
    assert len(ORIGINAL) == 47
    assert [name for name in ORIGINAL + MODELS if find(name) is None] == []


@pytest.mark.parametrize("name", names())
def test_rows_are_well_formed(name: str):
    spec = spec_of(name)
    assert spec.name == name
    assert spec.doc.endswith(".")
    assert set(spec.dtypes) <= set(DTYPES)
    written = [n for s in spec.settings for n in (s.name, *s.aliases)]
    assert len(written) == len(set(written))
    for setting in spec.settings:
        assert setting.doc
        if not setting.required and setting.default is not None:
            resolved = resolve_settings(
                spec,
                {
                    setting.name: setting.default,
                    **{s.name: 1 for s in spec.settings if s.required and s.kind != "dtype"},
                    **{s.name: "f32" for s in spec.settings if s.required and s.kind == "dtype"},
                },
            )
            assert setting.name in resolved


def test_unknown_names():
    assert find("matmull") is None
    assert nearest("matmull") == "matmul"
    assert nearest("zzzzzz") is None
    assert spec_of("sdpa").name == "attention"


def test_registry_does_not_import_xdsl():
    code = "import sys, openinfer.dialects.opset; assert 'xdsl' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "operands", "settings", "expected"),
    [
        ("add", [t("f32", "B", "D"), t("f32", "D")], {}, "f32[B, D]"),
        ("add", [t("i8", 3), t("i8", 1)], {"acc": NameRef("i32")}, "i32[3]"),
        ("mul", [t("f32", "B", 1, 4), t("f32", "L", 1)], {}, "f32[B, L, 4]"),
        ("sign", [t("f32", 3)], {}, "i8[3]"),
        ("popcount", [t("u4", 3)], {}, "u8[3]"),
        ("lt", [t("f16", 3), t("f16", 1)], {}, "bool[3]"),
        ("is_finite", [t("f32", 3, 4)], {}, "bool[]"),
        ("where", [t("bool", "B", 1), t("f32", "D"), t("f32")], {}, "f32[B, D]"),
        ("filter", [t("i32", 3), t("i32", 3), t("i32", 3)], {}, "i32[3]"),
        ("cast", [t("f32", 3)], {"to": NameRef("i4")}, "i4[3]"),
        ("cast", [t("f32", 3)], {"to": "float8e5m2"}, "f8[3]"),
        ("sum_axis", [t("f32", "B", "D")], {"axes": [-1]}, "f32[B]"),
        ("sum_axis", [t("f32", "B", "D")], {"axis": 0, "keepdims": True}, "f32[1, D]"),
        ("sum_axis", [t("i8", "B", "D")], {"axes": [0, 1], "acc": ["i32", "i64"]}, "i64[]"),
        ("mean_axis", [t("i32", 2, 3)], {"axes": [1], "acc": ["i32", "f32"]}, "f32[2]"),
        ("argmax_axis", [t("f32", "B", "V")], {"axis": -1}, "i64[B]"),
        ("matmul", [t("f32", "B", "L", "D"), t("f32", "D", "3*D")], {}, "f32[B, L, 3*D]"),
        ("matmul", [t("f32", "D", "M"), t("f32", "N", "D")], {"transpose_a": True,
         "transpose_b": True}, "f32[M, N]"),
        ("matmul", [t("bf16", 2, 3), t("f32", 3, 4)], {}, "f32[2, 4]"),
        ("matmul", [t("i4", 2, 3), t("i4", 3, 4)], {"acc": "i32"}, "i32[2, 4]"),
        ("linear", [t("f32", "B", "L", "D"), t("f32", "4*D", "D"), t("f32", "4*D")], {},
         "f32[B, L, 4*D]"),
        ("linear", [t("f16", "D"), t("bf16", "N", "D")], {}, "f32[N]"),
        ("linear", [t("f16", 2, "D"), t("f16", "N", "D"), t("f32", "N")], {}, "f32[2, N]"),
        ("linear", [t("i8", 2, 3), t("i8", 4, 3), t("i32", 4)], {"acc": "i32"}, "i32[2, 4]"),
        ("attention", [t("f32", "B", 8, "L", 64), t("f32", "B", 2, "S", 64),
         t("f32", "B", 2, "S", 32), t("bool", "B", 1, 1, "S")], {}, "f32[B, 8, L, 32]"),
        ("attn", [t("f32", "B", 16), t("f32", "T", 2, 8), t("f32", "T", 2, 8), t("f32", 16, 16)],
         {}, "f32[B, 16]"),
        ("attn", [t("f32", "B", 16), t("f32", 2, 8), t("f32", 2, 8)], {}, "f32[B, 16]"),
        ("attn", [t("f32", "B", "L", "D"), t("f32", "B", "T", "D"), t("f32", "B", "T", "D")],
         {"heads": 4}, "f32[B, L, D]"),
        ("attn", [t("f32", "L", 32), t("f32", "T", 2, 8), t("f32", "T", 2, 6)],
         {"heads": 4}, "f32[L, 24]"),
        ("attn", [t("f32", "L", "4*S"), t("f32", "T", "2*S"), t("f32", "T", "2*S"),
         t("bool", "L", "T")], {"heads": 4, "kv_heads": 2}, "f32[L, 4*S]"),
        ("rope", [t("f16", "B", "L", 32), t("i64", "L")], {"heads": 4}, "f16[B, L, 32]"),
        ("rope", [t("f16", "B", "L", 32), *[t("f32", "L", 3)] * 2], {"heads": 4}, "f16[B, L, 32]"),
        ("gather", [t("f16", "V", "D"), t("i64", "B", "L")], {}, "f16[B, L, D]"),
        ("embedding", [t("f32", 3, 4), t("u8")], {"axis": 1}, "f32[3]"),
        ("concat", [t("f32", "B", "L"), t("f32", "B", 2), t("f32", "B", "L")], {"axis": 1},
         "f32[B, 2*L + 2]"),
        ("slice", [t("f32", "B", "L")], {"axis": 1, "start": 1, "stop": -1}, "f32[B, L - 2]"),
        ("slice", [t("f32", 8, 6)], {"starts": [0, -3], "stops": [4, 6]}, "f32[4, 3]"),
        ("slice", [t("f32", 8)], {"step": 3}, "f32[3]"),
        ("slice", [t("f32", "D")], {"start": Size.of("l*H"), "stop": Size.of("l*H + H")}, "f32[H]"),
        ("transpose", [t("f32", "B", "L", "D")], {}, "f32[B, D, L]"),
        ("transpose", [t("f32", "B", "L", "D")], {"perm": [1, 0, -1]}, "f32[L, B, D]"),
        ("permute", [t("f32", "B", "L")], {"dims": [1, 0]}, "f32[L, B]"),
        ("reshape", [t("f32", "B", "L", 384)], {"shape": [NameRef("B"), NameRef("L"), 12, 32]},
         "f32[B, L, 12, 32]"),
        ("reshape", [t("f32", "B", "L", 384)], {"shape": [-1, 384]}, "f32[B*L, 384]"),
        ("squeeze", [t("f32", 1, "B", 1)], {}, "f32[B]"),
        ("unsqueeze", [t("f32", "B")], {"axes": [0, -1]}, "f32[1, B, 1]"),
        ("expand", [t("f32", 1, "D")], {"shape": [NameRef("B"), -1]}, "f32[B, D]"),
        ("iota", [], {"shape": [NameRef("L")], "dtype": NameRef("i32")}, "i32[L]"),
        ("layer_norm", [t("f16", "B", "D"), t("f32", "D"), t("f32", "D")], {}, "f16[B, D]"),
    ],
)  # fmt: skip
def test_rules(name: str, operands: list[TensorSpec], settings: dict[str, Any], expected: str):
    assert infer(name, operands, **settings) == expected


def test_split_counts_its_outputs():
    assert infer("split", [t("f32", "B", "3*D")], 3, axis=1) == "f32[B, D]; f32[B, D]; f32[B, D]"
    assert infer("split", [t("f32", 5)], 2, sizes=[2, 3]) == "f32[2]; f32[3]"
    with pytest.raises(ShapeError, match="does not divide into 2"):
        infer("split", [t("f32", 5)], 2)


@pytest.mark.parametrize(
    ("name", "operands", "settings", "error", "message"),
    [
        ("add", [t("f32", "B")], {}, ArityError, "add takes 2 operands, got 1"),
        ("concat", [], {}, ArityError, "1 operands or more"),
        ("add", [t("f32", "B"), t("i16", "B")], {}, OpDTypeError, "x is f32 but y is i16"),
        ("add", [t("f32", "B", "D"), t("f32", "D", "B")], {}, ShapeError, "B on one side and"),
        ("exp", [t("i32", 3)], {}, OpDTypeError, "exp does not take i32"),
        ("matmul", [t("f32", "M", "K"), t("f32", "N", "J")], {}, ShapeError, "inner dimensions"),
        ("matmul", [t("f32", 4), t("f32", 4, 4)], {}, ShapeError, "rank 2 or more"),
        ("matmul", [t("f32", 4, 4), t("i32", 4, 4)], {}, OpDTypeError, "a is f32 but b is i32"),
        ("linear", [t("f32", "B", "D"), t("f32", "D", "N")], {}, ShapeError, "takes N"),
        ("linear", [t("f32", "B", "D"), t("f32", 2, "N", "D")], {}, ShapeError, "w is f32[2, N, D]"),
        ("linear", [t("f32", "B", 4), t("f32", 3, 4), t("f32", 4)], {}, ShapeError, "3 outputs"),
        ("linear", [t("i8", 2, 4), t("i8", 3, 4), t("i32", 3)], {}, OpDTypeError, "the bias is i32"),
        ("linear", [t("f32", 2, 4), t("i8", 3, 4)], {}, OpDTypeError, "x is f32 but w is i8"),
        ("linear", [t("bool", 2, 4), t("bool", 3, 4)], {}, OpDTypeError, "does not take bool"),
        ("sum_axis", [t("f32", 4)], {"axes": [1]}, SettingError, "out of range"),
        ("sum_axis", [t("f32", 4)], {"axes": []}, SettingError, "axes is empty"),
        ("sum_axis", [t("f32", 4)], {}, SettingError, "needs the setting axes"),
        ("sum_axis", [t("i32", 4)], {"axes": [0], "acc": "i8"}, SettingError, "does not fit"),
        ("add", [t("i32", 4)] * 2, {"acc": "i32"}, SettingError, "not wider"),
        ("add", [t("f32", 4)] * 2, {"acc": "f64"}, SettingError, "does not fit"),
        ("relu", [t("f32", 4)], {"slope": 1}, SettingError, "no setting 'slope'"),
        ("relu", [t("f32", 4)], {"alpha": 1, "negative_slope": 1}, SettingError, "given twice"),
        ("relu", [t("f32", 4)], {"alpha": "x"}, SettingError, "must be a number"),
        ("gelu", [t("f32", 4)], {"approximate": "fast"}, SettingError, '"none" or "tanh"'),
        ("fill", [t("i8", 4)], {"value": 1.5}, SettingError, "is a float"),
        ("fill", [t("i8", 4)], {"value": 128}, SettingError, "does not fit i8"),
        ("fill", [t("u8", 4)], {"value": -1}, SettingError, "unsigned"),
        ("cast", [t("f32", 4)], {"to": "f33"}, SettingError, "dtype name"),
        ("reshape", [t("f32", 4, 3)], {"shape": [5, 2]}, ShapeError, "12 elements"),
        ("reshape", [t("f32", 4, 3)], {"shape": [-1, 5]}, ShapeError, "does not divide"),
        ("reshape", [t("f32", 4, 3)], {"shape": [-1, -1]}, SettingError, "more than once"),
        ("slice", [t("f32", 4)], {"stop": 5}, ShapeError, "behind the end"),
        ("slice", [t("f32", 4)], {"start": 3, "stop": 2}, ShapeError, "behind stop"),
        ("slice", [t("f32", 4)], {"step": 0}, SettingError, "not positive"),
        ("transpose", [t("f32", 4, 4)], {"perm": [0, 0]}, SettingError, "not an order"),
        ("squeeze", [t("f32", 4, 1)], {"axes": [0]}, ShapeError, "not 1"),
        ("expand", [t("f32", 4)], {"shape": [3]}, ShapeError, "broadcast"),
        ("gather", [t("f32", 4), t("f32", 4)], {}, OpDTypeError, "indices are f32"),
        ("layer_norm", [t("f32", 4, 8), t("f32", 4)], {}, ShapeError, "normalised over"),
        ("attention", [t("f32", 3, 4, 8), t("f32", 2, 4, 8), t("f32", 2, 4, 8)], {}, ShapeError,
         "heads"),
        ("attention", [t("f32", 2, 4, 8)] * 3, {"window": 0}, SettingError, "window=0"),
        ("attention", [t("f32", 4, 8)] * 3, {"heads": 3}, ShapeError, "into 3 heads"),
        ("attention", [t("f32", 4, 8)] * 3, {"heads": 0}, SettingError, "heads=0"),
        ("attention", [t("f32", 4, 8)] * 3, {"kv_heads": 2}, SettingError, "belongs to heads"),
        ("attention", [t("f32", 4, 8)] * 3, {"heads": 4, "kv_heads": 3}, SettingError,
         "no multiple"),
        ("attention", [t("f32", 4, 8), *[t("f32", 4, 2, 2)] * 2], {"heads": 4, "kv_heads": 4},
         ShapeError, "has 2 heads, not 4"),
        ("attention", [t("f32", 4, 8), *[t("f32", 4, 4)] * 2], {"heads": 2}, ShapeError,
         "head size"),
        ("attention", [t("f32", 2, 4, 8), *[t("f32", 4, 8)] * 2], {"heads": 2}, ShapeError,
         "q is f32[2, 4, 8] and k is f32[4, 8]"),
        ("attention", [*[t("f32", 2, 4, 8)] * 3, t("bool", 3, 4)], {"heads": 2}, ShapeError,
         "does not broadcast"),
        ("attention", [t("f32", 3, 8), *[t("f32", 5, 2, 2)] * 2], {}, ShapeError, "split into 2"),
        ("rope", [t("f32", 4, 8)], {"heads": 3}, ShapeError, "into 3 heads"),
        ("rope", [t("f32", 4, 9)], {"heads": 3}, SettingError, "in pairs"),
        ("concat", [t("f32", 2, 3), t("f32", 3, 3)], {"axis": 1}, ShapeError, "does not fit"),
        ("where", [t("f32", 3), t("i8", 3), t("i8", 3)], {}, OpDTypeError, "condition is f32"),
    ],
)  # fmt: skip
def test_refusals(
    name: str,
    operands: list[TensorSpec],
    settings: dict[str, Any],
    error: type[OpError],
    message: str,
):
    with pytest.raises(error) as caught:
        infer(name, operands, **settings)
    assert message in str(caught.value)


def test_a_mask_of_keys_is_told_its_shape():
    operands = [*[t("f32", "B", 4, 8)] * 3, replace(t("bool", "B", 4), name="seen")]
    with pytest.raises(ShapeError) as caught:
        infer("attention", operands, heads=2)
    assert caught.value.hint == "one of keys: `op reshape(seen, shape=[B, 1, 1, 4]) >> …;`"


def test_setting_errors_list_the_settings():
    with pytest.raises(SettingError) as caught:
        resolve_settings(spec_of("relu"), {"negative_slop": 0.5})
    assert caught.value.setting == "negative_slop"
    assert caught.value.hint is not None
    assert "did you mean `negative_slope`?" in caught.value.hint
    assert "clamp_max (number)" in caught.value.hint


def test_settings_keep_names_until_run_time():
    resolved = resolve_settings(spec_of("relu"), {"alpha": NameRef("slope")})
    assert resolved["negative_slope"] == NameRef("slope")
    assert resolve_settings(spec_of("matmul"), {"acc": "f32"})["acc"] == ("f32", "f32")
    shape = resolve_settings(spec_of("reshape"), {"shape": [NameRef("B"), 3]})["shape"]
    assert shape == (Size.name("B"), 3)


def test_accepts_any_two_floats():
    assert accepts("f32", "bf16")
    assert accepts("i8", "i8")
    assert not accepts("i8", "i32")
    assert not accepts("f32", "i32")
