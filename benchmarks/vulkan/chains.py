"""Programs that do the same work several times over, each time on what the last one found.

Two of them that differ in nothing but how often give the time of one link, whatever stands before and
behind it: the inputs' way to the device, the first operand that is made there, the few numbers that come
back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import openinfer as oi

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]
POOL = 1 << 22
"""Numbers that are drawn; large weights repeat them."""
EPSILON = "1e-5"


@dataclass(frozen=True)
class Chain:
    """A program for each number of links."""

    text: Callable[[int], str]
    weights: Callable[[], dict[str, Array]]
    inputs: Callable[[], dict[str, Array]]
    counts: tuple[int, int] = (0, 1)
    """Of links. The first is 0 where the whole step of the second is what counts."""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    start: Callable[[oi.Executor], None] | None = None
    """Brings the state to where every step starts."""
    padded: Callable[[int], str] | None = None
    """The same with one more copy in each link, where a link has one that is not part of the work: its
    time is taken away."""
    base: str | None = None
    """Of a whole step: what it does beside the work. Its time is taken away."""


class Drawn:
    """Normal numbers; large arrays repeat a pool of them, each from another place."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._pool: Array = self._random.standard_normal(POOL, np.float32)

    def array(self, dtype: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Array:
        """An array of that dtype."""
        count = int(np.prod(shape))
        place = int(self._random.integers(POOL - min(count, POOL // 2)))
        some = self._pool[place:][:count]
        if count > some.size:
            some = np.roll(self._pool, -place)
        numbers = (some * np.float32(scale) + np.float32(mean)).astype(dtype)
        return np.resize(numbers, count).reshape(shape)


def _program(dynamic: str, constants: str, result: str, body: str) -> str:
    return (
        f"dynamic {{ {dynamic} }}\n"
        f"constant {{ {constants} }}\n"
        f"volatile {{ y: {result}; }}\n"
        f"block entry {{\n{body}    return y;\n}}\n"
    )


def _lines(*lines: str) -> str:
    return "".join(f"    {line}\n" for line in lines)


def product(size: int, *, turned: bool, counts: tuple[int, int], dtype: str = "f16") -> Chain:
    """Products of square matrices, the right one stored [K, N], or [N, K] where it is turned."""
    shape, setting = f"{dtype}[{size}, {size}]", ", transpose_b=true" if turned else ""

    def text(count: int) -> str:
        body = _lines(f"assign x: {shape};", "op add(A, s) >> x;")
        body += _lines(f"op matmul(x, W{setting}) >> x;") * count
        body += _lines("op slice(x, axis=0, start=0, stop=1) >> y;")
        row = f"{dtype}[1, {size}]"
        return _program(f"s: {row};", f"A: {shape}; W: {shape};", row, body)

    def weights() -> dict[str, Array]:
        drawn = Drawn(size)
        kind = _numpy(dtype)
        return {
            "A": drawn.array(kind, size, size),
            "W": drawn.array(kind, size, size, scale=size**-0.5),
        }

    return Chain(text, weights, lambda: {"s": Drawn(1).array(_numpy(dtype), 1, size)}, counts)


def matvec(size: int, matrices: int, counts: tuple[int, int]) -> Chain:
    """Products of a row with matrices [N, K], none of them twice in a row."""
    shape, row = f"f16[{size}, {size}]", f"f16[1, {size}]"

    def text(count: int) -> str:
        body = _lines(f"assign x: {row};", "op add(A, s) >> x;")
        for number in range(count):
            body += _lines(f"op matmul(x, W[{number % matrices}], transpose_b=true) >> x;")
        body += _lines("op slice(x, axis=0, start=0, stop=1) >> y;")
        return _program(f"s: {row};", f'A: {row}; W(i): {shape} @pattern("W.{{i}}");', row, body)

    def weights() -> dict[str, Array]:
        drawn = Drawn(size)
        found = {f"W.{i}": drawn.array("f2", size, size, scale=size**-0.5) for i in range(matrices)}
        return {"A": drawn.array("f2", 1, size), **found}

    return Chain(text, weights, lambda: {"s": Drawn(1).array("f2", 1, size)}, counts)


def attention(
    heads: int,
    groups: int,
    queries: int,
    keys: int,
    size: int,
    counts: tuple[int, int],
    *,
    causal: bool = False,
) -> Chain:
    """What attention has found is the next one's queries; keys and values stay."""
    found, held = f"f16[1, {heads}, {queries}, {size}]", f"f16[1, {groups}, {keys}, {size}]"
    setting = ", causal=true" if causal else ""

    def text(count: int) -> str:
        body = _lines(f"assign x: {found};", "op add(Q, s) >> x;")
        body += _lines(f"op attention(x, K, V{setting}) >> x;") * count
        body += _lines("op slice(x, axis=2, start=0, stop=1) >> y;")
        result = f"f16[1, {heads}, 1, {size}]"
        constants = f"Q: {found}; K: {held}; V: {held};"
        return _program(f"s: f16[1, {size}];", constants, result, body)

    def weights() -> dict[str, Array]:
        drawn = Drawn(keys)
        return {
            "Q": drawn.array("f2", 1, heads, queries, size),
            "K": drawn.array("f2", 1, groups, keys, size),
            "V": drawn.array("f2", 1, groups, keys, size),
        }

    return Chain(text, weights, lambda: {"s": Drawn(1).array("f2", 1, size)}, counts)


LAYERS = 6
"""Weights of so many layers follow each other, as in a model."""


def rows(
    form: str, length: int, width: int, inner: int, counts: tuple[int, int], *, padded: bool = False
) -> Chain:
    """Products of few rows, with what stands around them in an encoder.

    form        a link
    out         product width x width, bias, residual
    qkv         layer norm, product inner x width, bias; a copy makes `width` columns of it again
    up          the same with GELU
    both        layer norm, product inner x width with bias and GELU, product width x inner with bias
                and residual
    """
    x, wide = f"f16[{length}, {width}]", f"f16[{length}, {inner}]"
    long = inner * length // width
    norm = _lines(f"op layer_norm(x, g, e, eps={EPSILON}) >> x;")

    def narrow(*, twice: bool) -> str:
        body = _lines(f"op reshape(h, shape=[{long}, {width}]) >> n;")
        if twice:
            more = long - (long - length) // 2
            body += _lines(f"op slice(n, axis=0, start=0, stop={more}) >> m;")
        return body + _lines(
            f"op slice({'m' if twice else 'n'}, axis=0, start=0, stop={length}) >> x;"
        )

    def link(layer: int, *, twice: bool) -> str:
        if form == "out":
            body = _lines(f"op matmul(x, Wo[{layer}], transpose_b=true) >> z;")
            return body + _lines(f"op add(z, bo[{layer}]) >> z;", "op add(z, x) >> x;")
        body = norm + _lines(f"op matmul(x, Wi[{layer}], transpose_b=true) >> h;")
        body += _lines(f"op add(h, bi[{layer}]) >> h;")
        if form != "qkv":
            body += _lines("op gelu(h) >> h;")
        if form != "both":
            return body + narrow(twice=twice)
        body += _lines(f"op matmul(h, Wd[{layer}], transpose_b=true) >> z;")
        return body + _lines(f"op add(z, bo[{layer}]) >> z;", "op add(z, x) >> x;")

    def text(count: int, *, twice: bool = False) -> str:
        body = _lines(f"assign x: {x};", f"assign z: {x};", f"assign h: {wide};")
        body += _lines(f"assign n: f16[{long}, {width}];")
        if twice:
            body += _lines(f"assign m: f16[{long - (long - length) // 2}, {width}];")
        body += _lines("op add(A, s) >> x;")
        for number in range(count):
            body += link(number % LAYERS, twice=twice)
        body += _lines("op slice(x, axis=0, start=0, stop=1) >> y;")
        constants = f"A: {x}; g: f16[{width}]; e: f16[{width}]; "
        for name, shape in _matrices(form, width, inner).items():
            dims = ", ".join(map(str, shape))
            constants += f'{name}(i): f16[{dims}] @pattern("{name}.{{i}}"); '
        row = f"f16[1, {width}]"
        return _program(f"s: {row};", constants, row, body)

    def weights() -> dict[str, Array]:
        drawn = Drawn(width)
        found = {"A": drawn.array("f2", length, width)}
        found["g"] = drawn.array("f2", width, scale=0.1, mean=1)
        found["e"] = drawn.array("f2", width, scale=0.1)
        for name, shape in _matrices(form, width, inner).items():
            for layer in range(LAYERS):
                scale = 0.3 * shape[-1] ** -0.5 if len(shape) == 2 else 0.1
                found[f"{name}.{layer}"] = drawn.array("f2", *shape, scale=scale)
        return found

    return Chain(
        text,
        weights,
        lambda: {"s": Drawn(1).array("f2", 1, width)},
        counts,
        padded=(lambda count: text(count, twice=True)) if padded else None,
    )


def _matrices(form: str, width: int, inner: int) -> dict[str, tuple[int, ...]]:
    """Weights and biases of a layer that a form reads."""
    out = {"Wo": (width, width), "bo": (width,)}
    wide = {"Wi": (inner, width), "bi": (inner,)}
    down = {"Wd": (width, inner), "bo": (width,)}
    return {"out": out, "qkv": wide, "up": wide, "both": {**wide, **down}}[form]


def elementwise(length: int, width: int, counts: tuple[int, int]) -> Chain:
    """The sum of two arrays, written to memory, again and again; barriers keep the sums apart."""
    shape, row = f"f32[{length}, {width}]", f"f32[1, {width}]"

    def text(count: int) -> str:
        body = _lines(f"assign x: {shape};", "op add(A, s) >> x;")
        body += _lines("barrier;", "op add(x, B) >> x;") * count
        body += _lines("op slice(x, axis=0, start=0, stop=1) >> y;")
        return _program(f"s: {row};", f"A: {shape}; B: {shape};", row, body)

    def weights() -> dict[str, Array]:
        drawn = Drawn(width)
        return {name: drawn.array("f4", length, width) for name in "AB"}

    return Chain(text, weights, lambda: {"s": Drawn(1).array("f4", 1, width)}, counts)


def softmax(length: int, width: int, counts: tuple[int, int]) -> Chain:
    """Softmax along the last axis, again and again."""
    shape, row = f"f32[{length}, {width}]", f"f32[1, {width}]"

    def text(count: int) -> str:
        body = _lines(f"assign x: {shape};", "op add(A, s) >> x;")
        body += _lines("op softmax(x, axis=1) >> x;") * count
        body += _lines("op slice(x, axis=0, start=0, stop=1) >> y;")
        return _program(f"s: {row};", f"A: {shape};", row, body)

    def weights() -> dict[str, Array]:
        return {"A": Drawn(width).array("f4", length, width)}

    return Chain(text, weights, lambda: {"s": Drawn(1).array("f4", 1, width)}, counts)


def _numpy(dtype: str) -> str:
    return {"f16": "f2", "f32": "f4"}[dtype]
