"""Values at which ONNX has rules of its own: numbers that another dtype does not hold, factors that are no
ratio of sizes. ONNX Runtime against the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.exporters.onnx.export import export_onnx
from openinfer.runtime.errors import UnsupportedError

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


def agree(text: str, **feeds: Any) -> None:
    program = oi.graph(text)
    model = export_onnx(program.module, None, sizes={}, file="program").proto()
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    want = oi.Simulator(program).make_executor().run(**feeds)
    for (name, value), have in zip(want.items(), session.run(None, feeds)):
        assert have.dtype == value.dtype, name
        np.testing.assert_allclose(have, value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_casts_of_what_does_not_fit() -> None:
    agree(
        """
        dynamic { x: f32[N]; h: f16[N]; i: i32[N]; j: i64[N]; k: i8[N]; u: u8[N]; }
        block entry {
            a = op cast(x, to=i8);
            b = op cast(x, to=u16, rounding_mode="even");
            c = op cast(h, to=u8);
            d = op cast(i, to=i8);
            e = op cast(i, to=i8, saturate=false);
            f = op cast(i, to=u64);
            g = op cast(j, to=i32);
            m = op cast(j, to=u32);
            n = op cast(k, to=u8);
            o = op cast(u, to=i8);
            p = op cast(u, to=i64);
            return a, b, c, d, e, f, g, m, n, o, p;
        }
        """,
        x=np.array([300, -300, 1e9, 65534.5, 1.5], np.float32),
        h=np.array([300, -300, 60000, -0.5, 1.5], np.float16),
        i=np.array([300, -300, 127, -128, 2**31 - 1], np.int32),
        j=np.array([2**40, -(2**40), 2**31, -1, 7], np.int64),
        k=np.array([-128, -1, 0, 127, 5], np.int8),
        u=np.array([255, 128, 127, 0, 5], np.uint8),
    )


def test_low_bits_of_a_float_are_refused() -> None:
    text = """
        dynamic { x: f32[4]; }
        block entry { y = op cast(x, to=i8, saturate=false); return y; }
    """
    with pytest.raises(UnsupportedError, match="the low bits of a float") as caught:
        export_onnx(oi.graph(text).module, None, sizes={}, file="program")
    assert caught.value.code == "OI1558"


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("sizes", ["9, 7", "H, W"])
def test_factors_that_are_no_ratio_of_sizes(mode: str, sizes: str) -> None:
    agree(
        f"""
        dynamic {{ x: f32[1, 2, {sizes}]; }}
        block entry {{
            a = op upsample2d(x, scale=1.75, mode="{mode}");
            b = op upsample2d(x, scale=[0.625, 2.0], mode="{mode}");
            return a, b;
        }}
        """,
        x=np.random.default_rng(4).standard_normal((1, 2, 9, 7)).astype(np.float32),
    )
