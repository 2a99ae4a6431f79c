"""ATen's ops as programs: families of them in one module each, on both executors, at two shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch_imports import Function, check, torch

F = torch.nn.functional
NAN = float("nan")


def arithmetic(x: Any, y: Any) -> dict[str, Any]:
    i, j = (x * 3).to(torch.int64), (y * 2).to(torch.int32) + (y >= 0)
    j = torch.where(j == 0, 1, j)
    odd = torch.where(x > 1, NAN, x)
    return {
        "scaled_sum": torch.add(x, y, alpha=2.5),
        "scaled_difference": torch.sub(i, 7, alpha=2),
        "from_number": 3 - x,
        "int_by_float": i * 0.5,
        "float_and_int": x * i,
        "ints": i + j,
        "quotient": i / 4,
        "down": torch.div(i, j, rounding_mode="floor"),
        "toward_zero": torch.div(i, j, rounding_mode="trunc"),
        "float_down": torch.div(x, 0.3, rounding_mode="floor"),
        "remainder": i % j,
        "remainder_of_floats": x % 0.7,
        "remainder_negative": x % -0.7,
        "fmod": torch.fmod(x, 0.7),
        "fmod_int": torch.fmod(i, 3),
        "square": x**2,
        "cube": x**3,
        "power": x.abs() ** 1.7,
        "powers": x.abs() ** y,
        "int_power": i**5,
        "largest": torch.maximum(odd, y),
        "smallest": torch.minimum(y, odd),
        "largest_number": torch.fmax(odd, y),
        "largest_int": torch.maximum(i, j.long()),
        "less": x < i,
        "equal": i == 2,
        "both": (x > 0) & (y > 0),
        "bits": (i | 5) ^ 3,
        "not_bits": ~i,
        "shifted": (i << 2) >> 1,
        "logical": torch.logical_xor(x, y > 0),
        "chosen": torch.where(x > 0, i, y),
        "chosen_number": torch.where(x > 0, 1.0, y),
        "filled": x.masked_fill(x > 0, float("-inf")),
        "limited": x.clamp(-0.5, 0.5),
        "limited_ints": i.clamp(min=-1),
        "limited_by_tensors": torch.clamp(x, y - 1, y + 1),
        "product_added": torch.addcmul(x, x, y, value=0.5),
        "between": torch.lerp(x, y, 0.3),
        "logs_added": torch.logaddexp(x, y),
        "angle": torch.atan2(x, y),
        "many": x * x.shape[0] + x.shape[1] / 3,
        "f16": x.half() * 2 + y.half(),
        "bf16_and_f32": x.bfloat16() * y,
    }


def functions(x: Any, y: Any) -> dict[str, Any]:
    i = (x * 3).to(torch.int32)
    wild = torch.where(x > 1, float("inf"), torch.where(x < -1, NAN, x))
    halves = (x * 4).round() / 2
    names = "abs neg exp exp2 expm1 sin cos tan atan tanh erf sigmoid floor ceil trunc sign frac"
    found = {name: getattr(torch, name)(x) for name in f"{names} sinh cosh square".split()}
    positive = x.abs() + 0.1
    for name in "log log2 log10 log1p sqrt rsqrt reciprocal".split():
        found[name] = getattr(torch, name)(positive)
    names = "silu mish selu softplus hardswish hardsigmoid relu relu6 gelu elu celu leaky_relu"
    for name in f"{names} logsigmoid".split():
        found[name] = getattr(F, name)(x)
    inside = x.clamp(-0.99, 0.99)
    return found | {
        "asin": inside.asin(),
        "acos": inside.acos(),
        "gelu_tanh": F.gelu(x, approximate="tanh"),
        "softplus_beta": F.softplus(x, beta=2.0),
        "elu_alpha": F.elu(x, alpha=0.7),
        "hardtanh": F.hardtanh(x, -0.3, 0.4),
        "threshold": F.threshold(x, 0.1, 20.0),
        "glu": F.glu(x, 1),
        "prelu": F.prelu(x, torch.tensor([0.3])),
        "rounded": halves.round(),
        "sqrt_of_int": i.abs().sqrt(),
        "sign_of_int": i.sign(),
        "is_nan": wild.isnan(),
        "is_inf": wild.isinf(),
        "is_finite": wild.isfinite(),
        "numbers": torch.nan_to_num(wild, nan=3.0),
        "hardshrink": F.hardshrink(x),
        "softshrink": F.softshrink(x),
        "tanhshrink": F.tanhshrink(x),
        "softsign": F.softsign(x),
        "to_int": (x * 5).to(torch.int8),
        "to_bool": i.bool(),
    }


def shapes(x: Any, y: Any) -> dict[str, Any]:
    b, n = x.shape
    cube = x.reshape(b, n // 2, 2)
    left, right = cube.chunk(2, -1)
    parts = x.split([1, 2, 3], 1)
    one, two = cube.unbind(2)
    written = x.clone()
    written[:, 1:3] = 7
    written[:, 0] = y[:, 1]
    return {
        "view": x.view(-1),
        "flat": cube.flatten(1),
        "turned": cube.transpose(0, 2),
        "permuted": cube.permute(2, 0, 1),
        "matrix": x.T,
        "wide": x[:, None].expand(b, 3, n),
        "repeated": x.repeat(2, 3),
        "repeated_by_size": x.repeat(b, 1),
        "interleaved": x.repeat_interleave(3, 1),
        "joined": torch.cat([x, y, x.long()], 1),
        "stacked": torch.stack([x, y], 1),
        "left": left,
        "right": right,
        "second": parts[1],
        "one": one,
        "two": two,
        "middle": x[:, 1:-1],
        "last": x[:, -1],
        "tail": x[:, -3:],
        "far": x[:, 2:1000],
        "nothing": x[:, 4:2],
        "steps": x[:, 1::2],
        "flipped": x.flip(1),
        "rolled": x.roll(1, 1),
        "lower": x.tril(),
        "upper": x.triu(1),
        "padded": F.pad(x, (1, 2), value=3.0),
        "cut": F.pad(x, (-1, 1)),
        "mirrored": F.pad(x, (2, 1), mode="reflect"),
        "edge": F.pad(x[None], (2, 1), mode="replicate"),
        "around": F.pad(x[None], (2, 1), mode="circular"),
        "windows": x.unfold(1, 3, 2),
        "diagonal": x[:2, :4].diagonal(1),
        "differences": x.diff(dim=1),
        "written": written,
        "squeezed": x[:, None].squeeze(1),
        "shuffled": F.pixel_shuffle(torch.stack([x, y, x, y])[None], 2),
        "like": torch.zeros_like(x) + torch.ones(n) + torch.full((b, 1), 2.0),
        "grid": torch.stack(torch.meshgrid(torch.arange(b), torch.arange(n), indexing="ij")),
        "eye": torch.eye(n) @ x.T,
        "range": torch.arange(2, n, 3) + torch.arange(5, 1, -1).sum(),
        "halves": torch.arange(0, 2, 0.5),
        "down": torch.arange(n - 1, -n, -1.0),
        "down_by_halves": torch.arange(n, 0, -0.5),
        "line": torch.linspace(0, 1, 5),
        "window": torch.hann_window(6),
    }


def reductions(x: Any, y: Any) -> dict[str, Any]:
    i = (x * 3).to(torch.int32)
    values, places = x.max(1)
    top, where = x.topk(2, 1, largest=False)
    ordered, order = x.sort(1, descending=True)
    variance, mean = torch.var_mean(x, 1)
    return {
        "sum": x.sum(),
        "sum_of_ints": i.sum(1),
        "count": (x > 0).sum(0),
        "mean": x.mean((0, 1), keepdim=True),
        "prod": x.prod(1),
        "amax": x.amax(1),
        "amin": x.amin(),
        "values": values,
        "places": places,
        "argmin": x.argmin(),
        "argmax": x.argmax(0, keepdim=True),
        "any": (x > 2).any(1),
        "all": (x > -9).all(),
        "var": x.var(1),
        "std": x.std(0, correction=0),
        "variance": variance,
        "its_mean": mean,
        "logsumexp": x.logsumexp(1),
        "softmax": x.softmax(0),
        "softmax_of_half": x.half().softmax(1, dtype=torch.float32),
        "log_softmax": x.log_softmax(1),
        "cumsum": i.cumsum(1),
        "cumprod": x.cumprod(0),
        "norm": x.norm(dim=1),
        "norm_1": torch.linalg.vector_norm(x, 1, 1),
        "norm_inf": torch.linalg.vector_norm(x, float("inf")),
        "norm_3": torch.linalg.vector_norm(x, 3, 0),
        "normalised": F.normalize(x, dim=1),
        "top": top,
        "where": where,
        "ordered": ordered,
        "order": order,
        "argsort": y.argsort(0),
        "nonzero": (x > 0).count_nonzero(),
        "extremes": torch.stack([x.max(), x.min()]),
    }


def indexing(x: Any, y: Any) -> dict[str, Any]:
    b, n = x.shape
    index = (x * 100).long() % n
    rows = torch.arange(b)
    negative = torch.tensor([-1, 0, -2])
    written = x.clone()
    written[:, torch.tensor([0, 2])] = y[:, :2]
    masked = x.clone()
    masked[masked > 0.5] = 9.0
    grown = x.clone().index_put((rows, torch.zeros_like(rows)), torch.tensor(1.0), accumulate=True)
    cube = torch.stack([x, y, x + y])
    return {
        "gather": x.gather(1, index),
        "gather_fewer": x.gather(1, index[:1, :3]),
        "select": x.index_select(1, torch.tensor([3, 1])),
        "embedding": F.embedding(index[:, :2], y.T),
        "bags": F.embedding_bag(index[:, :2], y.T),
        "weighted_bags": F.embedding_bag(
            index[:, :2], y.T, mode="sum", per_sample_weights=x[:, :2]
        ),
        "rows": x[torch.tensor([1, 0, 1])],
        "from_the_end": x[:, negative],
        "computed": x[:, index[0] - n],
        "pairs": x[rows, rows],
        "apart": cube[torch.tensor([0, 2])[:, None], :, torch.tensor([1, 3])],
        "behind": cube[:, torch.tensor([[0, 1]]), torch.tensor([[2, 3]])],
        "last_of_each": x[rows, index[:, 0]],
        "spread": x[torch.arange(b)[:, None, None], torch.arange(n)[None, None, :]],
        "written": written,
        "masked": masked,
        "grown": grown,
        "scattered": x.scatter(1, index[:, :1], y[:, :1]),
        "scattered_number": x.scatter(1, index[:, :1], 5.0),
        "copied": x.index_copy(0, torch.tensor([1]), y[:1]),
        "index_added": x.index_add(1, torch.tensor([1, 1]), y[:, :2]),
        "one_hot": F.one_hot(index[:, 0], 6),
        "buckets": torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
    }


def products(x: Any, y: Any) -> dict[str, Any]:
    n = x.shape[1]
    cube = torch.stack([x, y])
    return {
        "matmul": x @ y.T,
        "batched": torch.bmm(cube, cube.transpose(1, 2)),
        "broadcast": cube @ y.T,
        "vector": x @ y[0],
        "row": y[0] @ x.T,
        "dot": torch.dot(x[0], y[0]),
        "outer": torch.outer(x[0], y[1]),
        "addmm": torch.addmm(x[:, :1], x, y.T, beta=0.5, alpha=2.0),
        "baddbmm": torch.baddbmm(cube[:, :, :1], cube, cube.transpose(1, 2)),
        "einsum": torch.einsum("bi,bj->bij", x, y),
        "linear": F.linear(x, y, y[:, 0]),
        "layer_norm": F.layer_norm(x, (6,)),
        "layer_norm_of_all": F.layer_norm(cube[:, :2, :6], (2, 6), eps=0.1),
        "rms_norm": F.rms_norm(x, (6,)),
        "group_norm": F.group_norm(x, 2, torch.arange(6.0), torch.ones(6)),
        "bias_alone": F.layer_norm(x, (6,), None, torch.arange(6.0)),
        "instance_norm": F.instance_norm(cube),
        "batch_norm": F.batch_norm(x, torch.arange(6.0), torch.arange(6.0) + 1, eps=0.01),
        "attention": F.scaled_dot_product_attention(cube, cube, cube, scale=0.3),
        "causal": F.scaled_dot_product_attention(
            cube[:, :, None], cube[:, :, None], cube[:, :, None]
        ),
        "top_left": F.scaled_dot_product_attention(
            cube[None],
            torch.cat([cube, cube], 1)[None],
            torch.cat([cube, cube], 1)[None],
            is_causal=True,
        ),
        "masked": F.scaled_dot_product_attention(x[None], y[None], y[None], attn_mask=x @ y.T),
        "some_masked": F.scaled_dot_product_attention(
            x[None], y[None], y[None], attn_mask=torch.eye(x.shape[0], dtype=torch.bool)
        ),
        "bilinear": F.bilinear(x, y, torch.ones(2, 6, 6)) / n,
    }


FAMILIES: list[Callable[..., dict[str, Any]]] = [
    arithmetic,
    functions,
    shapes,
    reductions,
    indexing,
    products,
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_family(family: Callable[..., dict[str, Any]]) -> None:
    generator = torch.Generator().manual_seed(3)

    def pair(rows: int) -> dict[str, Any]:
        return {name: torch.randn(rows, 6, generator=generator) for name in ("x", "y")}

    names = {"x": ("B",), "y": ("B",)}
    imported = check(Function(family), pair(3), names, [pair(4)], compiled=False, tolerance=2e-5)
    assert imported.calls
