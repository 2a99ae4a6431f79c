"""The programs of the three OpenInfer documents: each is read, and what is complete runs.

The documents are no part of this repository: without them beside it these tests skip. A piece that
lacks declarations gets them here; `docs/language.md` says what is read liberally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.compiler.frontend import parse_text, print_program
from openinfer.runtime.packages.oinf_writer import OinfContent

FIRST = "openinfer-readme-first-edition.md"
SECOND = "openinfer-readme-second-edition.md"
ARCHITECTURE = "openinfer-architecture.rst"

WORDS = re.compile(
    r"graph!|^\s*(?:block|op|inputs|outputs|dynamic|volatile|constants?|persistent|state|loop"
    r"|scope|assign|cache\.\w+|\w+ = op)\b",
    re.M,
)
F32 = np.float32


@dataclass
class Piece:
    """A program text of a document: `needle` finds it, `before` and `after` complete it."""

    file: str
    needle: str
    before: str = ""
    after: str = ""
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    tensors: dict[str, Any] = field(default_factory=dict[str, Any])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: tuple[dict[str, Any], ...] = ()
    """The inputs of each step; no steps: the text is only read."""
    check: Callable[[oi.Executor], None] | None = None
    """Looks at the executor after the last step."""


def close(executor: oi.Executor, name: str, wanted: Any) -> None:
    np.testing.assert_allclose(executor.fetch(name), wanted, rtol=1e-5, atol=1e-6)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, F32)


X3 = np.array([1, -2, 3], F32)
A3 = np.array([0.5, 4, -1], F32)
W4 = np.arange(16, dtype=F32).reshape(4, 4) / 8
X24 = np.arange(8, dtype=F32).reshape(2, 4) - 3
W = 'volatile { W(l): f32[D, D] @pattern("W.{l}"); } '
X = "dynamic { x: f32[B, D]; } "
BD = {"B": 2, "D": 4}
RELU = "dynamic { x: f32[B]; } block entry { assign h: f32[B]; transfer x >> h;"
SCALE = {"scale": oi.ScalarValue(2.5, "f32")}
KV = """persistent { step: i32; K(l, t): f16[H, Dh] @table; V(l, t): f16[H, Dh] @table; }
volatile { k: f16[H, Dh]; v: f16[H, Dh] @init(2.0); }
block entry { loop layers (l in 0..2) {"""


def after_cache_operations(executor: oi.Executor) -> None:
    assert executor.fetch("step") == 0
    assert executor.fetch("K").shape[0] == 0
    assert np.asarray(executor.fetch("V"))[0, 0, 0, 0] == 2.0


def after_decoding(executor: oi.Executor) -> None:
    assert executor.fetch("step") == 2
    assert executor.fetch("K").shape == (10, 2, 2, 2)
    assert executor.fetch("V").dtype == np.float16


PIECES = [
    Piece(
        FIRST,
        "fn main() -> anyhow::Result<()> {",
        sizes={"B": 3},
        metadata=SCALE,
        steps=({"x": X3},),
        check=lambda e: close(e, "y", 5 * X3),
    ),
    Piece(
        FIRST,
        "image : f32 [B, 3, H, W];",
        after="block entry { return logits; }",
        sizes={"B": 1, "H": 2, "W": 2, "C": 5},
        steps=({"image": ones(1, 3, 2, 2), "step": 0},),
        check=lambda e: close(e, "logits", np.zeros((1, 5))),
    ),
    Piece(
        FIRST,
        "    b = op add(a=a, b=bias);\n    return b;\n}\n```\n\nBlocks:",
        before="inputs { x: f32[B, D]; w: f32[D, D]; bias: f32[D]; } ",
        sizes=BD,
        steps=({"x": X24, "w": W4, "bias": ones(4)},),
        check=lambda e: close(e, "b", X24 @ W4 + 1),
    ),
    Piece(
        FIRST,
        "loop layers (l in 0..num_layers) {\n    block body {",
        before="inputs { x: f32[B, D]; } block entry { h = op add(a=x, b=x); ",
        after="return h; }",
        sizes={**BD, "num_layers": 2},
        tensors={"W.0": W4, "W.1": np.eye(4, dtype=F32)},
        steps=({"x": X24},),
        check=lambda e: close(e, "h", np.maximum(2 * X24 @ W4, 0)),
    ),
    Piece(
        FIRST,
        "effect write(cache, index=step, value=h);",
        before="inputs { h: f32[B, D]; step: i32 []; } ",
        sizes={**BD, "T": 8},
        steps=({"h": X24, "step": 1}, {"h": 2 * X24, "step": 2}),
        check=lambda e: close(e, "h2", X24),
    ),
    Piece(
        FIRST,
        'with { fuse = true, placement = "gpu" };',
        before="inputs { x: f32[B, D]; w: f32[D, D]; } block entry { ",
        after="return a; }",
        sizes=BD,
        steps=({"x": X24, "w": W4},),
        check=lambda e: close(e, "a", X24 @ W4),
    ),
    Piece(
        FIRST,
        "    barrier;\n    b = op add(a=a, b=bias);",
        before="inputs { x: f32[B, D]; w: f32[D, D]; bias: f32[D]; } ",
        sizes=BD,
        steps=({"x": X24, "w": W4, "bias": ones(4)},),
        check=lambda e: close(e, "b", X24 @ W4 + 1),
    ),
    Piece(
        FIRST,
        'scope "attention" {',
        before="inputs { q: f32[T, D]; k: f32[T, D]; v: f32[T, D]; wo: f32[D, D]; } block entry { ",
        after="return b; }",
        sizes={"T": 2, "D": 4},
        steps=({"q": 0 * X24, "k": X24, "v": X24, "wo": W4},),
        check=lambda e: close(e, "b", np.tile(X24.mean(0), (2, 1)) @ W4),
    ),
    Piece(
        FIRST,
        "let (g, y) = graph! {",
        sizes={"B": 3},
        metadata=SCALE,
        steps=({"x": X3},),
        check=lambda e: close(e, "y", 5 * X3),
    ),
    Piece(
        SECOND,
        "let g = graph! {\n        dynamic {",
        sizes={"B": 3},
        tensors={"a": A3},
        steps=({"x": X3},),
        check=lambda e: close(e, "y", 5 * (X3 + A3)),
    ),
    Piece(
        SECOND,
        "    alpha: f32;\n}",
        after="block entry { return; }",
        sizes={"B": 3, "H": 2, "Dh": 2},
        tensors={"a": A3},
        metadata={"alpha": oi.ScalarValue(0.5, "f32")},
        steps=({"x": X3},),
        check=lambda e: close(e, "alpha", 0.5),
    ),
    Piece(
        SECOND,
        "constants {\n  alpha:",
        after="block entry { return; }",
        metadata={
            n: oi.ScalarValue(v, "f32") for n, v in (("alpha", 1), ("beta", 2), ("gamma", 3))
        },
        steps=({},),
        check=lambda e: close(e, "bias", 3.0),
    ),
    Piece(
        SECOND,
        "op relu(h, negative_slope=0.0, clamp_min=0.0, clamp_max=inf) >> h;",
        before=RELU,
        after="return h; }",
        sizes={"B": 3},
        steps=({"x": X3},),
        check=lambda e: close(e, "h", np.maximum(X3, 0)),
    ),
    Piece(
        SECOND,
        "// LeakyReLU",
        before=RELU,
        after="return h; }",
        sizes={"B": 3},
        steps=({"x": X3},),
        check=lambda e: close(e, "h", np.maximum(X3, 0)),
    ),
    Piece(
        SECOND,
        'volatile {\n  W(l): f32[D, D] @pattern("W.{l}");\n}',
        after="block entry { return; }",
        sizes={"D": 4},
        tensors={"W.0": W4},
        steps=({},),
    ),
    Piece(
        SECOND,
        'QKV(layer, head): f16[D, 3*D] @pattern("attn.{head}.qkv.{layer}");',
        after="block entry { return; }",
        sizes={"D": 2},
        tensors={"attn.1.qkv.0": np.zeros((2, 6), np.float16)},
    ),
    Piece(
        SECOND,
        "    assign a: f32[B, D];\n    op matmul(x, w) >> a;",
        before="dynamic { x: f32[B, D]; w: f32[D, D]; } volatile { bias: f32[D]; } ",
        sizes=BD,
        tensors={"bias": ones(4)},
        steps=({"x": X24, "w": W4},),
    ),
    Piece(
        SECOND,
        "assign h: f32[B, D];\nop matmul(x, w) >> h;",
        before="dynamic { x: f32[B, D]; w: f32[D, D]; } block entry { ",
        after="return h; }",
        sizes=BD,
        steps=({"x": X24, "w": W4},),
        check=lambda e: close(e, "h", X24 @ W4),
    ),
    Piece(
        SECOND,
        "loop layers (l in 0..num_layers) {\n    op matmul",
        before=X + W + "block entry { assign h: f32[B, D]; transfer x >> h; ",
        after="return h; }",
        sizes={**BD, "num_layers": 2},
        tensors={"W.0": W4, "W.1": np.eye(4, dtype=F32)},
        steps=({"x": X24},),
        check=lambda e: close(e, "h", np.maximum(X24 @ W4, 0)),
    ),
    Piece(
        SECOND,
        "    A(i): f32[D] @table;",
        after="block entry { return; }",
        sizes={"D": 2, "H": 2, "Dh": 2},
        steps=({},),
    ),
    Piece(
        SECOND,
        "    C(l, i, j): f32[D, H] @table @auto_dim(i, j);\n}",
        after="""block entry {
            assign row: f32[_]; assign whole: f32[_, _]; assign grown: f32[_, _];
            assign many: f32[_, _, _];
            cache.read A[2, 1] >> grown;
            cache.read A[0..D+i, ] >> whole;
            cache.read A[, 0..H+j] >> whole;
            cache.read A[0..D+i, 0..H+j] >> whole;
            cache.read A[1, ] >> row;
            cache.read A[, 1] >> row;
            cache.read A[] >> whole;
            cache.read B[1024, 256] >> grown;
            loop l (l in 0..4) { cache.read C[l, 1, 1] >> whole; }
            cache.read C[0..4, i, j] >> many;
            cache.read A[2, 1] >> grown;
            return many, grown;
        }""",
        sizes={"D": 3, "H": 2},
        steps=({},),
        check=lambda e: np.testing.assert_array_equal(
            [e.fetch("many").shape, (*e.fetch("grown").shape, 0)], [(4, 4, 3), (5, 3, 0)]
        ),
    ),
    Piece(
        SECOND,
        "    cache: f16[H, Dh];",
        after="block entry { return; }",
        sizes={"B": 3, "H": 2, "Dh": 2},
        metadata={"alpha": oi.ScalarValue(0.5, "f32")},
        steps=({"x": X3},),
    ),
    Piece(
        SECOND,
        "    cache: f16[H, H];",
        after="block entry { cache.increment step; return; }",
        sizes={"H": 2},
        steps=({}, {}),
        check=lambda e: close(e, "step", 2),
    ),
    Piece(
        SECOND,
        "// Example of KV[H, Dh] matrix",
        after="block entry { return; }",
        sizes={"D": 3, "H": 2, "Dh": 2},
        steps=({},),
    ),
    Piece(
        SECOND,
        "cache.increment 5 step;",
        before=KV,
        after="} cache.write v >> V[0, 0]; return; }",
        sizes={"H": 2, "Dh": 3},
        steps=({},),
        check=after_cache_operations,
    ),
    Piece(
        SECOND,
        "  barrier;\n  op relu(h) >> h;",
        before=X + W,
        sizes=BD,
        tensors={"W.0": W4},
        steps=({"x": X24},),
    ),
    Piece(
        SECOND,
        "dep after(matmul) before(cache.write);",
        before=X + W + "persistent { step: i32; K(l, t): f32[B, D] @table; } ",
        sizes=BD,
        tensors={"W.0": W4},
        steps=({"x": X24},),
        check=lambda e: close(e, "K", (X24 @ W4)[None, None]),
    ),
    Piece(
        SECOND,
        "op attn(h, k, v, W[l]) >> h;",
        sizes={"B": 2, "D": 4, "H": 2, "Dh": 2},
        tensors={f"W.{layer}": W4 + layer for layer in range(10)},
        steps=({"x": X24}, {"x": X24 + 1}),
        check=after_decoding,
    ),
    Piece(
        SECOND,
        "branch cond ok bad;",
        before=X + W,
        sizes=BD,
        tensors={"W.0": W4},
        steps=({"x": X24}, {"x": np.full((2, 4), np.nan, F32)}),
    ),
    Piece(SECOND, "yield x; //x not available anymore to entry", before=W),
    Piece(
        ARCHITECTURE,
        "let g = graph! {",
        sizes=BD,
        tensors={"W": W4},
        steps=({"x": X24},),
        check=lambda e: close(e, "y", X24 @ W4),
    ),
]
"""Every program text; the yield example is read only: it multiplies an i32 vector into a f32 matrix."""

IDS = [f"{piece.file.split('-')[-2]}-{number}" for number, piece in enumerate(PIECES)]


@pytest.fixture(scope="module")
def documents(repository: Path) -> Path:
    folder = repository.parent / "shared" / "spec" / "source-docs"
    if not folder.is_dir():
        pytest.skip("the OpenInfer documents are not beside the repository")
    return folder


def fences(text: str) -> Iterator[tuple[int, str]]:
    """The Rust pieces of a document, with where each starts."""
    for match in re.finditer(
        r"```rust\n(.*?)```|code-block:: rust\n\n((?:   .*\n|\n)+)", text, re.S
    ):
        yield match.start(), match[1] or match[2]


def program_of(piece: str) -> str:
    """`graph! { … }` out of the Rust around it, else the piece as it is."""
    start = re.search(r"(?:let [^=;]*= )?graph! \{", piece)
    if start is None:
        return piece
    depth = 0
    for place in range(start.end() - 1, len(piece)):
        depth += {"{": 1, "}": -1}.get(piece[place], 0)
        if depth == 0:
            return piece[start.start() : place + 1] + ";"
    raise AssertionError("graph! { never ends")


def text_of(piece: Piece, folder: Path) -> str:
    text = (folder / piece.file).read_text(encoding="utf-8")
    at = text.index(piece.needle)
    found = next(body for start, body in fences(text) if start <= at + 8 < start + len(body) + 12)
    return f"{piece.before}{program_of(found)}{piece.after}"


@pytest.mark.parametrize("piece", PIECES, ids=IDS)
def test_is_read(piece: Piece, documents: Path) -> None:
    text = text_of(piece, documents)
    result = parse_text(text, piece.file)
    assert result.module is not None, result.render()
    again = parse_text(print_program(result.module))
    assert again.module is not None, again.render()
    assert again.module.is_structurally_equivalent(result.module)


def compiled(text: str, model: oi.Package) -> oi.Executor:
    """An executor of the compiled program; skips where the compiler lacks a form."""
    try:
        return oi.compile(text, model).make_executor()
    except (oi.ProgramError, oi.UnsupportedError) as error:
        if error.code.startswith("OI07"):
            pytest.skip(f"compiled programs: {error.message}")
        raise


@pytest.mark.parametrize("executor", ["simulator", "compiled"])
@pytest.mark.parametrize("piece", [p for p in PIECES if p.steps], ids=lambda p: p.needle[:24])
def test_runs(piece: Piece, executor: str, documents: Path, tmp_path: Path) -> None:
    text = text_of(piece, documents)
    path = tmp_path / "model.oinf"
    oi.write_oinf(OinfContent(dict(piece.sizes), dict(piece.metadata), dict(piece.tensors)), path)
    with oi.open_model(path) as model:
        if executor == "simulator":
            running = oi.Simulator(text, model).make_executor()
        else:
            running = compiled(text, model)
        with running:
            for inputs in piece.steps:
                running.insert(**inputs)
                running.step()
            if piece.check is not None:
                piece.check(running)


def test_every_program_has_a_row(documents: Path) -> None:
    missing: list[str] = []
    for file in (FIRST, SECOND, ARCHITECTURE):
        text = (documents / file).read_text(encoding="utf-8")
        known = [text.index(p.needle) for p in PIECES if p.file == file]
        for start, body in fences(text):
            if WORDS.search(body) and not any(
                start <= k + 8 < start + len(body) + 12 for k in known
            ):
                missing.append(f"{file}: {body.strip()[:60]!r}")
    assert not missing, "\n".join(missing)
