"""Products of i8 with sums in i32, four at a time: exact for all bytes, lengths and targets."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi

RANDOM = np.random.default_rng(31)
TARGETS = ("host", "avx2", "generic")


def drawn(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    """Bytes; the first row is -128 everywhere, which no byte is the opposite of."""
    found = RANDOM.integers(-128, 128, shape).astype(np.int8)
    found[0] = -128
    return found


SHAPES = [(3, 300, 70), (9, 67, 33)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("transposed", [False, True])
def test_with_weights(target: str, transposed: bool) -> None:
    names, want = list[str](), dict[str, np.ndarray]()
    weights, feeds = dict[str, np.ndarray](), dict[str, np.ndarray]()
    declared, constants, body = "", "", ""
    for number, (rows, depth, columns) in enumerate(SHAPES):
        x, w = drawn(rows, depth), drawn(columns, depth)
        feeds[f"x{number}"] = x
        weights[f"w{number}"] = w if transposed else np.ascontiguousarray(w.T)
        shape = ", ".join(map(str, weights[f"w{number}"].shape))
        declared += f"x{number}: i8[M{number}, {depth}]; "
        constants += f'w{number}: i8[{shape}] @ref("w{number}"); '
        flag = str(transposed).lower()
        body += f"y{number} = op matmul(x{number}, w{number}, transpose_b={flag}, acc=i32); "
        names.append(f"y{number}")
        want[f"y{number}"] = x.astype(np.int64) @ w.T.astype(np.int64)
    body += f"return {', '.join(names)};"
    text = f"dynamic {{ {declared} }} constant {{ {constants} }} block entry {{ {body} }}"
    found = oi.compile(text, weights, target=target).make_executor().run(**feeds)
    for name in names:
        np.testing.assert_array_equal(np.asarray(found[name]), want[name])


@pytest.mark.parametrize("target", TARGETS)
def test_of_activations(target: str) -> None:
    """Batches that broadcast, and a right operand that is packed in each step."""
    text = """dynamic { x: i8[2, 3, 12, 70]; z: i8[2, 1, 70, 45]; v: i8[2, 3, 50, 70]; }
    block entry {
        y = op matmul(x, z, acc=i32);
        u = op matmul(x, v, transpose_b=true, acc=i32);
        return y, u;
    }"""
    x, z, v = drawn(2, 3, 12, 70), drawn(2, 1, 70, 45), drawn(2, 3, 50, 70)
    found = oi.compile(text, {}, target=target).make_executor().run(x=x, z=z, v=v)
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(np.asarray(found["y"]), wide @ z.astype(np.int64))
    want = wide @ v.astype(np.int64).swapaxes(-1, -2)
    np.testing.assert_array_equal(np.asarray(found["u"]), want)


@pytest.mark.parametrize("dtype", ["f32", "i8"])
def test_threads_share_the_panels_of_a_single_batch(dtype: str) -> None:
    """Two threads pack one right operand, and both read what the other has packed."""
    acc = ", acc=i32" if dtype == "i8" else ""
    text = f"""dynamic {{ x: {dtype}[1, 128, 256]; z: {dtype}[1, 256, 1024]; }}
    block entry {{ y = op matmul(x, z{acc}); return y; }}"""
    executor = oi.compile(text, {}).make_executor(threads=2)
    for _ in range(20):
        x, z = drawn(1, 128, 256), drawn(1, 256, 1024)
        given = "float32" if dtype == "f32" else "int8"
        found = np.asarray(executor.run(x=x.astype(given), z=z.astype(given))["y"])
        np.testing.assert_array_equal(found, x.astype(np.int64) @ z.astype(np.int64))
