"""The rows, the most important first: what is timed, what a hand-written kernel reached, what is aimed at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.vulkan import chains
from benchmarks.vulkan.chains import Chain
from benchmarks.vulkan.models import Decoder, Encoder

MICROSECONDS, FLOPS, BYTES = "µs", "TFLOP/s", "TB/s"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    title: str
    unit: str
    chain: Callable[[], Chain]
    small: Callable[[], Chain]
    """The same of tiny sizes."""
    peer: Mapping[str, Any]
    """What PyTorch does for it, as `torch_child.py` reads it."""
    goal: float
    """In the unit."""
    work: float = 0.0
    """Operations or bytes of a link."""
    prototypes: Sequence[str] = ()
    """Kernels of the same work written by hand, by the names in `prototypes.py`."""
    together: bool = False
    """Whether it takes all of them, one after the other; else each does the whole work."""

    def value(self, seconds: float) -> float:
        """What is shown of a time."""
        return seconds * 1e6 if self.unit == MICROSECONDS else self.work / seconds * 1e-12

    def ratio(self, seconds: float, value: float) -> float:
        """How many times as fast as one that reaches `value`."""
        own = self.value(seconds)
        return value / own if self.unit == MICROSECONDS else own / value


def _encoder(batch: int, goal: float) -> Row:
    small = Encoder(batch=2, length=16, width=32, inner=64, heads=2, layers=1)
    sizes = Encoder(batch, 128)
    return Row(
        f"minilm-{batch}x128",
        f"MiniLM's encoder, f16, {batch} x 128 tokens",
        MICROSECONDS,
        sizes.chain,
        small.chain,
        {"kind": "encoder", "compile": True, **_fields(sizes)},
        goal,
    )


def _decoder() -> Row:
    sizes = Decoder()
    small = Decoder(width=32, layers=1, heads=2, groups=1, inner=64, vocabulary=40, place=8)
    return Row(
        "decode",
        "decode step, f16: dim 2048 x 16 layers, 32/8 heads, vocabulary 32000, 512 positions",
        MICROSECONDS,
        sizes.chain,
        small.chain,
        {"kind": "decoder", "compile": True, **_fields(sizes)},
        780,
        prototypes=("pers3",),
    )


def _fields(sizes: Any) -> dict[str, int]:
    return {name: getattr(sizes, name) for name in sizes.__dataclass_fields__}


def _product(
    size: int,
    goal: float,
    counts: tuple[int, int],
    prototypes: Sequence[str] = (),
    *,
    turned: bool = False,
    dtype: str = "f16",
) -> Row:
    stored = "nk" if turned else "kn"
    name = f"matmul-{size}-{stored}" if dtype == "f16" else f"{dtype}-matmul-{size}"
    return Row(
        name,
        f"{dtype} product, {size} cubed, right operand {'[N, K]' if turned else '[K, N]'}",
        FLOPS,
        lambda: chains.product(size, turned=turned, counts=counts, dtype=dtype),
        lambda: chains.product(64, turned=turned, counts=(1, 3), dtype=dtype),
        {"kind": "product", "size": size, "turned": turned, "dtype": dtype, "calls": counts[1]},
        goal,
        2.0 * size**3,
        prototypes,
    )


def _attention(
    name: str,
    title: str,
    sizes: tuple[int, int, int, int, int],
    goal: float,
    prototype: str,
    *,
    causal: bool = False,
) -> Row:
    heads, groups, queries, keys, size = sizes
    few = min(queries, 16)
    return Row(
        name,
        title,
        MICROSECONDS,
        lambda: chains.attention(*sizes, counts=(6, 30), causal=causal),
        lambda: chains.attention(
            2, 1, few, 32 if queries < keys else few, 16, (1, 3), causal=causal
        ),
        {
            **{"kind": "attention", "heads": heads, "groups": groups, "queries": queries},
            **{"keys": keys, "size": size, "causal": causal, "calls": 30},
        },
        goal,
        prototypes=(prototype,),
    )


def _few_rows(form: str, title: str, goal: float, prototypes: Sequence[str]) -> Row:
    padded = form in ("qkv", "up")
    inner = 1152 if form == "qkv" else 1536
    return Row(
        f"rows-{form}",
        f"128 rows, f16: {title}",
        MICROSECONDS,
        lambda: chains.rows(form, 128, 384, inner, (6, 30), padded=padded),
        lambda: chains.rows(form, 16, 32, 96, (1, 3), padded=padded),
        {"kind": "rows", "form": form, "length": 128, "width": 384, "inner": inner, "calls": 30},
        goal,
        prototypes=prototypes,
        together=form == "both",
    )


def _matvec(size: int, goal: float, counts: tuple[int, int], prototype: Sequence[str] = ()) -> Row:
    matrices = counts[1]
    return Row(
        f"matvec-{size}",
        f"f16 matrix-vector product, {size} squared, weights not in the cache",
        BYTES,
        lambda: chains.matvec(size, matrices, counts),
        lambda: chains.matvec(64, 3, (1, 3)),
        {"kind": "matvec", "size": size, "matrices": matrices, "calls": matrices},
        goal,
        2.0 * size**2,
        prototype,
    )


def _elementwise() -> Row:
    length, width = 10880, 8192
    return Row(
        "elementwise",
        "f32 sum of two arrays, 1 GB of traffic",
        BYTES,
        lambda: chains.elementwise(length, width, (1, 5)),
        lambda: chains.elementwise(32, 64, (1, 3)),
        {"kind": "elementwise", "length": length, "width": width, "calls": 4},
        4.3,
        12.0 * length * width,
    )


def _softmax(width: int) -> Row:
    length = (1 << 27) // width
    return Row(
        f"softmax-{width}",
        f"f32 softmax of rows of {width}, 1 GB of traffic",
        BYTES,
        lambda: chains.softmax(length, width, (1, 5)),
        lambda: chains.softmax(32, 64, (1, 3)),
        {"kind": "softmax", "length": length, "width": width, "calls": 4},
        4.1,
        8.0 * length * width,
    )


def all_rows() -> list[Row]:
    """In order of importance: a run that is stopped has the first ones."""
    return [
        _encoder(1, 150),
        _decoder(),
        _product(4096, 318, (2, 12), ["cm2_4096"]),
        _attention(
            "attention-12x128x32",
            "f16 attention, 12 heads x 128 x 32",
            (12, 12, 128, 128, 32),
            3.3,
            "att2",
        ),
        _encoder(64, 1170),
        _product(4096, 296, (2, 12), turned=True),
        _few_rows("out", "384 x 384, bias, residual", 3.2, ["s3_384"]),
        _few_rows("qkv", "layer norm, 1152 x 384, bias", 4.9, ["s4_1152"]),
        _few_rows("up", "layer norm, 1536 x 384, bias, GELU", 5.2, ["s4_1536"]),
        _few_rows(
            "both",
            "layer norm, 1536 x 384, GELU, then 384 x 1536, residual",
            10.3,
            ["s4_1536", "s3_1536"],
        ),
        _attention(
            "prefill-512",
            "f16 attention, causal, 512 tokens, 32/8 heads of 64",
            (32, 8, 512, 512, 64),
            16.9,
            "attB",
            causal=True,
        ),
        _attention(
            "query-512",
            "f16 attention, one query over 512, 32/8 heads of 64",
            (32, 8, 1, 512, 64),
            4.1,
            "aC2_512",
        ),
        _attention(
            "query-4096",
            "f16 attention, one query over 4096, 32/8 heads of 64",
            (32, 8, 1, 4096, 64),
            7.2,
            "aC2_4096",
        ),
        _matvec(4096, 3.2, (8, 24), ["gemv_4096"]),
        _matvec(8192, 4.2, (2, 6)),
        _matvec(16384, 4.5, (1, 3)),
        _product(4096, 47, (2, 6), ["f32_4096"], dtype="f32"),
        _product(8192, 327, (1, 3)),
        _product(8192, 282, (1, 3), turned=True),
        _product(1024, 136, (10, 50)),
        _product(1024, 136, (10, 50), turned=True),
        _product(6144, 328, (1, 5), ["khr_6144_n"]),
        _product(6144, 336, (1, 5), ["cm2_6144_t", "khr_6144_t"], turned=True),
        _elementwise(),
        _softmax(1024),
        _softmax(4096),
    ]
