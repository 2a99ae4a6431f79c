"""Every setting of every op, set by a scalar variable of the step: both executors do the same.

The registry is walked, so that a new op or setting is here by itself; an op without a row in `USES`
fails. Where the simulator refuses a program or a step, compiled code refuses it with the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dialects import opset
from openinfer.runtime.tensors import Tensor

X = "f32[2, 4]"
LINE, IMAGE, SMALL = "f32[1, 2, 7]", "f32[1, 2, 7, 7]", "f32[1, 2, 3, 3]"
KERNEL = "f32[2, 2, 3, 3]"
VOLUME, CUBE = "f32[1, 2, 4, 4, 4]", "f32[2, 2, 3, 3, 3]"

Use = tuple[list[str], dict[str, str], list[str]]
"""Operands, the settings that are needed or make others legal, outputs as dtype and rank."""
USES: dict[str, Use] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ([X, X], {}, ["f32 2"])),
    **dict.fromkeys(("abs", "recip", "clamp", "gelu", "relu"), ([X], {}, ["f32 2"])),
    **dict.fromkeys(("fill_nan_like", "softmax", "log_softmax"), ([X], {}, ["f32 2"])),
    **dict.fromkeys(("elu", "celu", "tril", "triu", "cumprod"), ([X], {}, ["f32 2"])),
    **dict.fromkeys(("layer_norm", "rms_norm", "group_norm"), ([X], {}, ["f32 2"])),
    **dict.fromkeys(("slice", "transpose", "sort", "cumsum"), ([X], {}, ["f32 2"])),
    **dict.fromkeys(
        ("sum_axis", "mean_axis", "prod_axis", "max_axis", "min_axis"),
        ([X], {"axes": "[1]"}, ["f32 1"]),
    ),
    **dict.fromkeys(("logsumexp", "var", "std"), ([X], {"axes": "[1]"}, ["f32 1"])),
    **dict.fromkeys(("any", "all"), ([X], {"axes": "[1]"}, ["bool 1"])),
    **dict.fromkeys(("argmax_axis", "argmin_axis"), ([X], {"axis": "1"}, ["i64 1"])),
    **dict.fromkeys(("shl", "shr"), (["i32[3]"], {"bits": "1"}, ["i32 1"])),
    "floor_div": (["i32[3]", "i32[3]"], {}, ["i32 1"]),
    "bit_cast": ([X], {"to": "i32"}, ["i32 2"]),
    "cast": ([X], {"to": "i8"}, ["i8 2"]),
    "fill": ([X], {"value": "1"}, ["f32 2"]),
    "batch_norm": ([X, "f32[4]", "f32[4]"], {}, ["f32 2"]),
    "matmul": (["f32[3, 3]", "f32[3, 3]"], {}, ["f32 2"]),
    "linear": (["f32[3, 3]", "f32[2, 3]"], {}, ["f32 2"]),
    "attention": (["f32[1, 3, 4]"] * 3, {}, ["f32 3"]),
    "gather": ([X, "i64[3]"], {}, ["f32 2"]),
    "rope": (["f32[3, 4]"], {}, ["f32 2"]),
    "concat": (["f32[2, 2]", "f32[2, 2]"], {}, ["f32 2"]),
    "split": ([X], {}, ["f32 2", "f32 2"]),
    "permute": ([X], {"perm": "[1, 0]"}, ["f32 2"]),
    "reshape": ([X], {"shape": "[4, 2]"}, ["f32 2"]),
    "squeeze": (["f32[1, 4]"], {}, ["f32 1"]),
    "unsqueeze": (["f32[4]"], {"axes": "[0]"}, ["f32 2"]),
    "stack": ([X, X], {}, ["f32 3"]),
    "tile": ([X], {"repeats": "[2]"}, ["f32 2"]),
    "roll": ([X], {"shifts": "[1]"}, ["f32 2"]),
    "expand": (["f32[1, 4]"], {"shape": "[2, 4]"}, ["f32 2"]),
    "iota": ([], {"shape": "[2, 4]"}, ["i64 2"]),
    "pad": ([X], {"pads": "[1, 0, 0, 2]"}, ["f32 2"]),
    "flip": ([X], {"axes": "[0]"}, ["f32 2"]),
    "scatter": ([X, "i64[1]", "f32[1, 4]"], {}, ["f32 2"]),
    "gather_elements": ([X, "i64[2, 4]"], {}, ["f32 2"]),
    "scatter_elements": ([X, "i64[1, 4]", "f32[1, 4]"], {}, ["f32 2"]),
    "argsort": ([X], {}, ["i64 2"]),
    "einsum": (["f32[3, 3]", "f32[3, 3]"], {"equation": '"ij,jk->ik"'}, ["f32 2"]),
    "topk": ([X], {"k": "2"}, ["f32 2", "i64 2"]),
    "one_hot": (["i64[3]"], {"depth": "4"}, ["f32 2"]),
    "conv1d": ([LINE, "f32[2, 2, 3]"], {}, ["f32 3"]),
    "conv2d": ([IMAGE, KERNEL], {}, ["f32 4"]),
    "conv_transpose2d": ([SMALL, KERNEL], {"stride": "3"}, ["f32 4"]),
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), ([IMAGE], {"kernel_size": "3"}, ["f32 4"])),
    "conv3d": ([VOLUME, CUBE], {}, ["f32 5"]),
    **dict.fromkeys(
        ("max_pool1d", "avg_pool1d", "lp_pool1d"), ([LINE], {"kernel_size": "3"}, ["f32 3"])
    ),
    "lp_pool2d": ([IMAGE], {"kernel_size": "3"}, ["f32 4"]),
    **dict.fromkeys(
        ("max_pool3d", "avg_pool3d", "lp_pool3d"), ([VOLUME], {"kernel_size": "2"}, ["f32 5"])
    ),
    **{
        f"adaptive_{kind}_pool{axes}d": ([shape], {"output_size": "2"}, [f"f32 {axes + 2}"])
        for kind in ("max", "avg")
        for axes, shape in enumerate((LINE, IMAGE, VOLUME), 1)
    },
    "upsample2d": ([SMALL], {"scale": "2"}, ["f32 4"]),
    "lstm": (["f32[2, 1, 3]", "f32[1, 8, 3]", "f32[1, 8, 2]"], {}, ["f32 3"] * 3),
    "gru": (["f32[2, 1, 3]", "f32[1, 6, 3]", "f32[1, 6, 2]"], {}, ["f32 3"] * 2),
    "rfft": (["f32[8]"], {}, ["f32 2"]),
    "irfft": (["f32[5, 2]"], {}, ["f32 1"]),
    "grid_sample": ([IMAGE, "f32[1, 3, 3, 2]"], {}, ["f32 4"]),
    "quantize_blocks": (["f32[2, 32]"], {}, ["u8 2"]),
    "dequantize_blocks": (["u8[2, 34]"], {}, ["f32 2"]),
    "quantize": ([X], {"dtype": "i8", "scale": "0.5"}, ["i8 2"]),
    "dequantize": (["i8[3]"], {"scale": "0.5"}, ["f32 1"]),
    "instance_norm": ([LINE], {}, ["f32 3"]),
    "multinomial": ([X], {"samples": "3"}, ["i64 2"]),
    "random_uniform": ([], {"shape": "[2, 4]", "dtype": "f32"}, ["f32 2"]),
}
INSTEAD = {("upsample2d", "size"): "scale", ("slice", "start"): "", ("slice", "starts"): ""}
"""Settings that exclude another one of a row above."""
FORMS = {
    "int": ("n",), "size": ("n", "2*n - 3"), "ints": ("n", "[n, one]", "[2*n - 3]"),
    "padding": ("one", "[one, n]"), "numbers": ("n", "[f, n]"), "float": ("f", "n"),
    "number": ("f", "n"), "bool": ("b", "one"), "dtype": ("n",), "dtypes": ("n", "[n, n]"),
    "string": ("n",),
}  # fmt: skip
"""How a variable may stand in a setting of each kind."""
MORE = {
    ("reshape", "shape"): ("[4, n]", "[n, 8/n]", "[-1, n]"), ("expand", "shape"): ("[n, 4]", "[2, n]"),
    ("tile", "repeats"): ("[n, 2]", "[one, n - one]"), ("roll", "shifts"): ("[-7*n]",),
    ("iota", "shape"): ("[n, 2]", "[n*n, one]", "[n*one, 3]"), ("split", "sizes"): ("[n, 2 - n]",),
    ("random_uniform", "shape"): ("[n, 3]",), ("pad", "pads"): ("[one, n, 0, 2]",),
    ("slice", "starts"): ("[n, one]", "[one - 2]"), ("slice", "stops"): ("[n, one]", "[one - 2]"),
    ("upsample2d", "size"): ("[n, 3*one]",), ("conv1d", "padding"): ("[n, one]",),
    ("conv2d", "padding"): ("[n, one, 0, 2*one]",), ("max_pool2d", "padding"): ("[one, 0, 0, n]",),
}  # fmt: skip
"""Lists of the length that a setting wants."""
VALUES = ((2, 1, 0.5, True), (1, 1, 1.5, False), (0, 1, -1.0, True), (3, 2, 0.25, True),
          (-1, 0, float("nan"), False), (2**40, 1, 0.5, True))  # fmt: skip
"""n, one, f and b of each step."""
COMPILED_FIRST = ("OI0304", "OI0322", "OI0323")
"""Codes of mistakes that the compiler may find before a step runs."""


def uses() -> Iterator[Any]:
    for name in opset.names():
        spec = opset.find(name)
        assert spec is not None
        for setting in spec.settings:
            yield pytest.param(name, setting, id=f"{name}-{setting.name}")


def program(name: str, setting: opset.Setting, form: str) -> tuple[str, list[str], list[str]]:
    """The program, and its operands and outputs."""
    operands, base, outputs = USES[name]
    given = {k: v for k, v in base.items() if k != INSTEAD.get((name, setting.name))}
    given[setting.name] = form
    declared = [f"x{i}: {kind};" for i, kind in enumerate(operands)]
    declared += ["n: i64;", "one: i32;", "f: f32;", "b: bool;"]
    results: list[str] = []
    for i, kind in enumerate(outputs):
        dtype, rank = kind.split()
        results.append(f"y{i}: {dtype}[{', '.join('_' * int(rank))}];")
    inputs = [f"x{i}" for i in range(len(operands))]
    written = ", ".join([*inputs, *(f"{k}={v}" for k, v in given.items())])
    names = [f"y{i}" for i in range(len(outputs))]
    text = (
        f"dynamic {{ {' '.join(declared)} }} volatile {{ {' '.join(results)} }} "
        f"block entry {{ op {name}({written}) >> {', '.join(names)}; return; }}"
    )
    return text, operands, names


def tensor(kind: str) -> Tensor:
    dtype, _, dims = kind.partition("[")
    shape = [int(n) for n in dims[:-1].split(",")]
    random = np.random.default_rng(len(kind))
    if dtype[0] == "i":
        return Tensor.from_values(dtype, random.integers(0, 2, shape))
    return Tensor.from_values(dtype, random.standard_normal(shape))


def outcome(executor: Any, given: dict[str, Any], names: list[str]) -> list[Any] | str:
    """The outputs of a step, or the code of its error."""
    try:
        executor.run(**given)
    except oi.OpenInferError as error:
        return error.code
    found = [executor.fetch(name) for name in names]
    return [v.values() if isinstance(v, Tensor) else np.asarray(v) for v in found]


def refusal(make: Any) -> Any:
    """An executor, or the code with which the program is refused."""
    try:
        return make().make_executor()
    except oi.OpenInferError as error:
        return error.code


@pytest.mark.parametrize(("name", "setting"), [*uses()])
def test_a_variable_of_the_step(name: str, setting: opset.Setting) -> None:
    assert name in USES, f"a row for {name} is missing here"
    for form in (*FORMS[setting.kind], *MORE.get((name, setting.name), ())):
        text, operands, names = program(name, setting, form)
        graph = oi.graph(text)
        slow = refusal(lambda graph=graph: oi.Simulator(graph))
        fast = refusal(lambda graph=graph: oi.compile(graph))
        if isinstance(slow, str):
            assert fast == slow, text
            continue
        given: dict[str, Any] = {f"x{i}": tensor(kind) for i, kind in enumerate(operands)}
        for n, one, f, b in VALUES:
            given.update(n=np.int64(n), one=np.int32(one), f=np.float32(f), b=np.array(b))
            want = outcome(slow, given, names)
            if isinstance(fast, str):
                assert isinstance(want, str), (text, fast)
                assert fast in COMPILED_FIRST, (text, want, fast)
                continue
            have = outcome(fast, given, names)
            where = f"{text}\n{n=} {one=} {f=} {b=}"
            if isinstance(want, str) or isinstance(have, str):
                # Of a size that no memory holds, that may be what is said first.
                early = have == "OI0604" and isinstance(want, str) and n > 2**32
                assert early or have == want, where
                continue
            for left, right in zip(have, want):
                np.testing.assert_allclose(left, right, 1e-4, 1e-5, err_msg=where)


def test_every_row_is_an_op() -> None:
    assert set(USES) <= set(opset.names())
    for op, name in (*INSTEAD, *MORE):
        spec = opset.find(op)
        assert spec is not None
        assert spec.setting(name) is not None
