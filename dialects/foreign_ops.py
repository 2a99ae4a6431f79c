"""What ops of PyTorch, NumPy and ONNX are called here, or what they are made of.

A row: the foreign names, the statements that do the same (`x` is the first operand, `y` the result), and a
remark. The tests run every row against NumPy.
"""

from __future__ import annotations

from openinfer.runtime.quick_dataclass import dataclass


@dataclass(frozen=True)
class ForeignOp:
    """An op of other frameworks: how it is written here."""

    names: tuple[str, ...]
    """Small letters without `_`, as `fold` makes them."""
    write: str
    """The statements; empty where there is nothing to write."""
    why: str = ""

    @property
    def advice(self) -> str:
        """How to write it, as the fix of a message says it."""
        text = f"write `{self.write}`" if self.write else ""
        return f"{text}: {self.why}" if text and self.why else text or self.why


def fold(name: str) -> str:
    """A name as the table spells it: `LayerNormalization` and `layer_normalization` are one."""
    return name.casefold().replace("_", "")


def _row(names: str, write: str, why: str = "") -> ForeignOp:
    return ForeignOp(tuple(names.split()), write, why)


_WITHOUT_EFFECT = "leave it out, values are just values"
_VALUES = "its shape depends on values, which no op here has"

ROWS = (
    # Arithmetic and functions.
    _row("multiply", "op mul(x, z) >> y;"),
    _row("subtract", "op sub(x, z) >> y;"),
    _row("divide truediv truedivide", "op div(x, z) >> y;"),
    _row("floordivide", "op floor_div(x, z) >> y;"),
    _row("fmod", "op rem(x, z) >> y;", "the sign is that of x"),
    _row("remainder mod modulo", "op floor_mod(x, z) >> y;", "`op rem(x, z)` has the sign of x"),
    _row("power", "op pow(x, z) >> y;"),
    _row("square", "op mul(x, x) >> y;"),
    _row("maximum fmax", "op max(x, z) >> y;"),
    _row("minimum fmin", "op min(x, z) >> y;"),
    _row("negative", "op neg(x) >> y;"),
    _row("absolute fabs", "op abs(x) >> y;"),
    _row("reciprocal", "op recip(x) >> y;"),
    _row("clip hardtanh", "op clamp(x, min=-1, max=1) >> y;"),
    _row("rint", "op round_even(x) >> y;", "`op round(x)` rounds halves away from zero"),
    _row("exp2", "op mul(x, 0.6931472) >> t; op exp(t) >> y;"),
    _row("log2", "op log(x) >> t; op mul(t, 1.442695) >> y;"),
    _row("log10", "op log(x) >> t; op mul(t, 0.4342945) >> y;"),
    _row("arctan", "op atan(x) >> y;"),
    _row("arcsin", "op asin(x) >> y;"),
    _row("arccos", "op acos(x) >> y;"),
    _row("arcsinh", "op asinh(x) >> y;"),
    _row("arccosh", "op acosh(x) >> y;"),
    _row("arctanh", "op atanh(x) >> y;"),
    _row("arctan2", "op atan2(x, z) >> y;"),
    _row("erfc", "op erf(x) >> t; op sub(1, t) >> y;"),
    _row("lerp", "op sub(z, x) >> d; op mul(d, w) >> p; op add(x, p) >> y;"),
    _row("addcmul", "op mul(z, w) >> t; op add(x, t) >> y;", "or `op fma(z, w, x)`, rounded once"),
    # Comparisons, bits.
    _row("equal", "op eq(x, z) >> y;"),
    _row("notequal", "op ne(x, z) >> y;"),
    _row("less", "op lt(x, z) >> y;"),
    _row("lessequal lessorequal", "op le(x, z) >> y;"),
    _row("greater", "op gt(x, z) >> y;"),
    _row("greaterequal greaterorequal", "op ge(x, z) >> y;"),
    _row("logicaland bitwiseand", "op and(x, z) >> y;"),
    _row("logicalor bitwiseor", "op or(x, z) >> y;"),
    _row("logicalxor bitwisexor", "op xor(x, z) >> y;"),
    _row("logicalnot bitwisenot invert", "op not(x) >> y;"),
    _row("leftshift bitwiseleftshift", "op shl(x, bits=2) >> y;"),
    _row("rightshift bitwiserightshift bitshift", "op shr(x, bits=2) >> y;"),
    _row("isnan", "op is_nan(x) >> y;"),
    _row("isinf", "op is_inf(x) >> y;"),
    _row("isfinite", "op is_finite(x) >> y;", "one bool for the whole tensor"),
    _row("signbit", "op is_neg(x) >> y;"),
    _row("maskedfill", "op where(m, -inf, x) >> y;", "m is a bool of the shape of x"),
    # Reductions.
    _row("sum reducesum nansum", "op sum_axis(x, axes=[0]) >> y;"),
    _row("mean reducemean average", "op mean_axis(x, axes=[0]) >> y;"),
    _row("prod reduceprod", "op prod_axis(x, axes=[0]) >> y;"),
    _row("amax reducemax", "op max_axis(x, axes=[0]) >> y;"),
    _row("amin reducemin", "op min_axis(x, axes=[0]) >> y;"),
    _row("argmax", "op argmax_axis(x, axis=0) >> y;"),
    _row("argmin", "op argmin_axis(x, axis=0) >> y;"),
    _row("variance", "op var(x, axes=[0]) >> y;", "NumPy divides by the count: `correction=0`"),
    _row("standarddeviation stddev", "op std(x, axes=[0]) >> y;", "NumPy's has `correction=0`"),
    _row(
        "norm reducel2 linalgnorm vectornorm",
        "op mul(x, x) >> s; op sum_axis(s, axes=[0]) >> t; op sqrt(t) >> y;",
    ),
    _row("reducel1", "op abs(x) >> t; op sum_axis(t, axes=[0]) >> y;"),
    _row("reducesumsquare", "op mul(x, x) >> t; op sum_axis(t, axes=[0]) >> y;"),
    _row("reducelogsumexp", "op logsumexp(x, axes=[0]) >> y;"),
    _row(
        "normalize lpnormalization",
        "op mul(x, x) >> s; op sum_axis(s, axes=[0], keepdims=true) >> t; op sqrt(t) >> n; "
        "op div(x, n) >> y;",
    ),
    # Products.
    _row(
        "dense fullyconnected innerproduct",
        "op linear(x, w, b) >> y;",
        "if w is [in, out] `op matmul(x, w)`, and `op add` for the bias",
    ),
    _row("gemm addmm baddbmm", "op matmul(x, w) >> t; op add(t, b) >> y;"),
    _row("bmm mm dot", "op matmul(x, w) >> y;"),
    _row("mv", "op unsqueeze(w, axes=[1]) >> c; op matmul(x, c) >> t; op squeeze(t, axes=[1]) >> y;"),
    _row(
        "tensordot",
        'op einsum(x, w, equation="ki,kj->ij") >> y;',
        "a letter for each axis; those that the result lacks are summed",
    ),
    _row("outer", "op unsqueeze(x, axes=[1]) >> c; op mul(c, w) >> y;"),
    # Shapes.
    _row("view", "op reshape(x, shape=[4, 3]) >> y;"),
    _row("flatten ravel", "op reshape(x, shape=[-1]) >> y;", "`shape=[2, -1]` keeps the first axis"),
    _row("t mt numpytranspose", "op transpose(x) >> y;", "the last two axes change places"),
    _row("swapaxes swapdims movedim moveaxis", "op permute(x, perm=[1, 0]) >> y;"),
    _row("cat concatenate hstack vstack append", "op concat(x, z, axis=0) >> y;"),
    _row("chunk tensorsplit arraysplit", "op split(x, axis=0) >> y, z;", "one variable for each part"),
    _row(
        "unbind unstack",
        "op split(x, axis=0) >> a, b; op squeeze(a, axes=[0]) >> y; op squeeze(b, axes=[0]) >> z;",
    ),
    _row("narrow stridedslice getitem", "op slice(x, axis=0, start=1, stop=3) >> y;"),
    _row("repeat", "op tile(x, repeats=[2, 1]) >> y;"),
    _row(
        "repeatinterleave",
        "op unsqueeze(x, axes=[1]) >> a; op expand(a, shape=[-1, 2]) >> b; "
        "op reshape(b, shape=[-1]) >> y;",
    ),
    _row("broadcastto broadcast expandas", "op expand(x, shape=[4, 3]) >> y;"),
    _row("expanddims", "op unsqueeze(x, axes=[0]) >> y;"),
    _row("fliplr flipud", "op flip(x, axes=[1]) >> y;"),
    _row(
        "depthtospace pixelshuffle",
        "op reshape(x, shape=[1, 1, 2, 2, 2, 2]) >> a; op permute(a, perm=[0, 1, 4, 2, 5, 3]) >> b; "
        "op reshape(b, shape=[1, 1, 4, 4]) >> y;",
        "channels come first in the reshape, as [C, r, r]",
    ),
    # Indices.
    _row("indexselect take embeddinglookup", "op gather(x, i, axis=0) >> y;"),
    _row("gatherelements takealongaxis", "op gather_elements(x, i, axis=0) >> y;"),
    _row(
        "scatterelements putalongaxis scatterreduce",
        "op scatter_elements(x, i, u, axis=0) >> y;",
        '`reduction="add"` joins instead of replacing',
    ),
    _row("indexadd scatteradd indexput", 'op scatter(x, i, u, axis=0, mode="add") >> y;'),
    _row("trilu", "op triu(x, diagonal=0) >> y;", "or `tril`; attention needs no mask: `causal=true`"),
    _row("nonzero argwhere maskedselect unique", "", _VALUES),
    # Values from nothing.
    _row("arange range", "op iota(shape=[4], start=2, step=3) >> y;", "`dtype=f32` for floats"),
    _row("linspace", "op iota(shape=[5], dtype=f32) >> t; op mul(t, 0.25) >> y;"),
    _row("zeros zeroslike empty", "op fill(y, value=0) >> y;", "temporaries start at zero anyway"),
    _row("ones oneslike", "op fill(y, value=1) >> y;"),
    _row("full fulllike constantofshape", "op fill(y, value=0.5) >> y;"),
    _row(
        "eye eyelike",
        "op iota(shape=[3, 3], axis=0) >> i; op iota(shape=[3, 3], axis=1) >> j; "
        "op eq(i, j) >> m; op cast(m, to=f32) >> y;",
    ),
    _row("rand randomuniform uniform randlike", "op random_uniform(seed=1) >> y;"),
    # Activations.
    _row("leakyrelu", "op relu(x, negative_slope=0.01) >> y;"),
    _row("relu6", "op clamp(x, min=0, max=6) >> y;"),
    _row(
        "hardsigmoid",
        "op mul(x, 0.16666667) >> t; op add(t, 0.5) >> u; op clamp(u, min=0, max=1) >> y;",
    ),
    _row("logsigmoid", "op neg(x) >> n; op softplus(n) >> s; op neg(s) >> y;"),
    _row("softsign", "op abs(x) >> a; op add(a, 1) >> t; op div(x, t) >> y;"),
    _row("glu", "op split(x, axis=-1) >> a, g; op sigmoid(g) >> s; op mul(a, s) >> y;"),
    _row("swiglu", "op split(x, axis=-1) >> g, a; op silu(g) >> s; op mul(s, a) >> y;"),
    _row("gelunew fastgelu", 'op gelu(x, approximate="tanh") >> y;'),
    _row("quickgelu", "op mul(x, 1.702) >> t; op sigmoid(t) >> s; op mul(x, s) >> y;"),
    # Layers.
    _row("layernormalization", "op layer_norm(x, w, b, eps=0.00001) >> y;"),
    _row("rmsnormalization simplifiedlayernormalization", "op rms_norm(x, w) >> y;"),
    _row("batchnormalization batchnorm1d batchnorm2d", "op batch_norm(x, mean, variance, w, b) >> y;"),
    _row("groupnormalization", "op group_norm(x, w, b, groups=2) >> y;"),
    _row("instancenorm instancenormalization", "op instance_norm(x) >> y;"),
    _row(
        "scaleddotproductattention flashattention",
        "op attention(q, k, v) >> y;",
        "`causal=true`, and a fourth operand is the mask",
    ),
    _row(
        "mulmatid gathermm groupedmm moe mixtureofexperts sparsemoe",
        "op expert_linear(x, w, experts) >> y;",
        "experts are chosen before: `op topk(scores, k=2) >> best, experts;`",
    ),
    _row(
        "multiheadattention",
        "op attention(x, k, v, heads=2) >> y;",
        "behind `op linear` for each of the three, and before one more",
    ),
    _row("rotaryembedding applyrotaryposemb rotary", "op rope(x) >> y;"),
    _row("conv convolution", "op conv2d(x, w, padding=1) >> y;", "or `conv1d`, `conv3d`"),
    _row("convtranspose deconv", "op conv_transpose2d(x, w, stride=2) >> y;"),
    _row("maxpool", "op max_pool2d(x, kernel_size=2) >> y;", "`stride` is the kernel's size if not given"),
    _row("lppool", "op lp_pool2d(x, kernel_size=2, p=2) >> y;"),
    _row("avgpool averagepool", "op avg_pool2d(x, kernel_size=2) >> y;"),
    _row(
        "globalaveragepool",
        "op mean_axis(x, axes=[2, 3], keepdims=true) >> y;",
    ),
    _row("globalmaxpool", "op max_axis(x, axes=[2, 3], keepdims=true) >> y;"),
    _row("interpolate resize upsample", "op upsample2d(x, scale=2) >> y;"),
    # Conversions.
    _row("astype to type half float long int double", "op cast(x, to=f16) >> y;"),
    _row("quantizelinear quantizepertensor", "op quantize(x, scale=0.5, dtype=i8) >> y;"),
    _row("dequantizelinear", "op dequantize(x, scale=0.5) >> y;"),
    _row("clone copy identity", "transfer x >> y;"),
    # Nothing to write.
    _row("contiguous detach cpu cuda numpy item requiresgrad", "", _WITHOUT_EFFECT),
    _row("dropout alphadropout", "", "leave it out, inference drops nothing"),
    _row(
        "shape size numel len",
        "",
        "sizes are names: write `B` of `f32[B, D]` in types, loop bounds, indices and settings",
    ),
    _row("print assert", "", "`openinfer debug` shows values and stops where a condition holds"),
)  # fmt: skip

_BY_NAME = {name: row for row in ROWS for name in row.names}


def foreign_op(name: str) -> ForeignOp | None:
    """The row of an op of another framework, None for a name that the table lacks."""
    return _BY_NAME.get(fold(name))
