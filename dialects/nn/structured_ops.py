"""Products and attention of `nn`."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    bf16,
    f32,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from openinfer.dialects.nn.base import NNOp
from openinfer.dialects.nn.block_types import BlockType
from openinfer.dialects.nn.checks import (
    Dim,
    Dims,
    ceil_div,
    element,
    expect_element,
    expect_floats,
    expect_plain_integers,
    expect_shape,
    fits,
    joined,
    refuse,
    same,
    shape_of,
    stretches,
    text,
)
from openinfer.dialects.nn.epilogues import check_body, check_extras
from openinfer.dialects.nn.layouts import (
    BlocksAttr,
    LayoutAttr,
    PairsAttr,
    PanelsAttr,
    QuadsAttr,
    TilesAttr,
)
from openinfer.dialects.nn.row_ops import row_elements
from openinfer.runtime.blocks import BLOCKS, BlockFormat


@irdl_op_definition
class MatmulOp(NNOp):
    """`[…, M, K] x […, K, N] -> […, M, N]`; leading dimensions broadcast.

    Inputs: `a`, `b`; `extras` are the operands of the epilogue. The body, when there is one, maps one
    element of the product (first argument, in the accumulator's type) and one element of each extra
    operand to the element that is stored; `maps` gives for each extra operand the affine map from
    the indices of the result. With `layout`, `b` lies as `nn.pack` makes it. Scratch on
    buffers: the `panels` `[slots, ceil(N / tile), K, tile]` of a `b` without a layout; of a product in
    blocks a `copy` of some rows, `[threads, rows, steps]` or the other way round with `transpose_a`, and
    their `sums`, `[threads, ceil(N / tile), rows, tile]`.
    A weight in blocks, `[…, N, K]` of `!nn.block`, has `transpose_b`, or the layout `#nn.blocks`; it
    counts with its unpacked values.
    With `precision = "q8"` its left operand is rows of `nn.quantize_rows`; products of integers are added up
    exactly within a block, and blocks in f32, in their order.
    A `streamed` layout comes from memory: no cache holds it from one step to the next.

    Integers are signed, unless there is `unsigned`. With `boolean` they are bytes that hold 0 or 1, and
    an element is whether any product is 1.

    With `precision = "bf16"` both operands are rounded to bf16 and the products are added up in f32,
    by `nn.dot_pairs`: `a` is bf16 already, `b` is rounded where it is packed, and all panels are
    those of `#nn.pairs`. A `b` without a layout needs room for panels.

    With `precision = "i8"` both operands are i8 and sums are i32, by `nn.dot_words`: all panels are those of
    `#nn.quads`, K is known, and a `b` without a layout needs room for panels. Scratch: `starts`, `[slots,
    rows]`, for each row what its sums start from.
    """

    name = "nn.matmul"
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    layout = opt_prop_def(LayoutAttr)
    streamed = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(UnitAttr)
    boolean = opt_prop_def(UnitAttr)
    precision = opt_prop_def(StringAttr)
    maps = opt_prop_def(ArrayAttr[AffineMapAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (2, 2)
    SCRATCH: ClassVar[tuple[str, ...]] = ("panels", "copy", "sums", "starts")
    BODY: ClassVar[bool] = True

    @property
    def left(self) -> SSAValue:
        return self.inputs[0]

    @property
    def right(self) -> SSAValue:
        return self.inputs[1]

    def layout_at(self, index: int) -> LayoutAttr | None:
        return self.layout if index == 1 else None

    @property
    def in_bytes(self) -> bool:
        """Whether the left operand is rows of `nn.quantize_rows`."""
        return self.precision is not None and self.precision.data == "q8"

    @property
    def in_pairs(self) -> bool:
        """Whether both operands are rounded to bf16."""
        return self.precision is not None and self.precision.data == "bf16"

    @property
    def in_quads(self) -> bool:
        """Whether bytes are multiplied and added up four at a time."""
        return self.precision is not None and self.precision.data == "i8"

    def _row_elements(self, nbytes: Dim) -> Dim:
        found = row_elements(nbytes)
        if found is None or self.transpose_a is not None:
            refuse(
                self, f"the left operand of precision q8 is no rows of nn.quantize_rows: {nbytes}"
            )
        return found

    def check(self) -> None:
        a, b = shape_of(self.left), shape_of(self.right)
        if len(a) < 2 or len(b) < 2 + (self.layout is not None):
            refuse(
                self,
                f"operands have at least two dimensions (three with a layout): "
                f"found {text(a)} and {text(b)}",
            )
        result = shape_of(self.output)
        rows, inner = (a[-1], a[-2]) if self.transpose_a is not None else (a[-2], a[-1])
        if self.in_bytes:
            inner = self._row_elements(inner)
        depth, columns, batch = self._right(b, result)
        if not fits(inner, depth):
            refuse(self, f"inner sizes differ, {inner} and {depth}")
        leading = joined(a[:-2], batch)
        if leading is None:
            refuse(self, f"leading dimensions {text(a[:-2])} and {text(batch)} do not broadcast")
        expect_shape(self, "the result", result, (*leading, rows, columns))
        self._check_scratch(depth, columns)
        self._check_elements()
        self._check_precision()
        check_extras(self, self.maps, result)
        check_body(self)

    def _right(self, b: Dims, result: Dims) -> tuple[Dim, Dim, Dims]:
        """K, N and the leading dimensions of the right operand."""
        if self.layout is None:
            if self.streamed is not None:
                refuse(self, "only an operand with a layout is streamed")
            depth, columns = b[:-3:-1] if self.transpose_b is not None else b[-2:]
            return depth, columns, b[:-2]
        if self.transpose_b is not None:
            refuse(self, "an operand with a layout has no transpose_b")
        # Panels do not say how much of the last one, or of the last row of pairs, is padding.
        a = shape_of(self.inputs[0])
        inner = a[-2] if self.transpose_a is not None else a[-1]
        if self.in_bytes:
            inner = self._row_elements(inner)
        columns = result[-1] if result else None
        expected = self.layout.shape((*b[:-3], inner, columns))
        expect_shape(self, f"the right operand in {self.layout}", b, expected)
        return inner, columns, b[:-3]

    def _check_scratch(self, depth: Dim, columns: Dim) -> None:
        panels = self.room("panels")
        if panels is not None:
            self._check_panels(panels, depth, columns)
        blocks = [value for name in ("copy", "sums") if (value := self.room(name)) is not None]
        if not blocks:
            return
        if len(blocks) != 2:
            refuse(self, "blocks have a copy of rows and sums, found one of both")
        copy, sums = (shape_of(value) for value in blocks)
        expect_shape(self, "the copy of rows", copy, (None,) * 3)
        expect_element(self, "the copy of rows", element(blocks[0]), element(self.inputs[0]))
        width = sums[-1] if sums else None
        count = ceil_div(columns, width) if isinstance(width, int) and width > 0 else None
        expect_shape(self, "the buffer of sums", sums, (None, count, None, width))
        if any(not isinstance(size, int) for size in (*copy[1:], *sums[-2:])):
            refuse(self, f"blocks {text(copy)} and {text(sums)} of unknown sizes")

    def _check_panels(self, value: SSAValue, depth: Dim, columns: Dim) -> None:
        found = shape_of(value)
        width = found[-1] if found else None
        each = 2 if self.in_pairs else 4 if self.in_quads else 1
        layout = {1: PanelsAttr, 2: PairsAttr, 4: QuadsAttr}[each]
        expected: Dims = (None, None, ceil_div(depth, each), None)
        if isinstance(width, int) and width >= each:
            expected = layout(width // each).shape((None, depth, columns))
        expect_shape(self, "the scratch buffer", found, expected)
        kind = bf16 if self.in_pairs else element(self.inputs[1])
        expect_element(self, "the scratch buffer", element(value), kind)

    def _check_elements(self) -> None:
        """Floats of any width mix; integers and bools are of one type, and give such.

        The right operand of a float may be small integers, which are converted as they are read.
        """
        a, b, result = element(self.inputs[0]), element(self.inputs[1]), element(self.output)
        floats = isinstance(a, AnyFloat)
        if isinstance(b, BlockType) or isinstance(self.layout, BlocksAttr):
            self._check_blocks(a, b, result)
            return
        mixes = isinstance(b, AnyFloat) or (isinstance(b, IntegerType) and b.width.data in (8, 16))
        if a != b and not (floats and mixes):
            refuse(
                self,
                f"operands have elements {a} and {b}, expected one type, two floats, or a float "
                "and integers of 8 or 16 bits",
            )
        if self.unsigned is not None:
            if self.boolean is not None:
                refuse(self, "unsigned and boolean exclude each other")
            expect_plain_integers(self, "unsigned", self.inputs[:2])
        if self.boolean is not None and (a, result) != (i8, i8):
            refuse(self, f"boolean operands and results are bytes, found {a} and {result}")
        if not self.body and floats is not isinstance(result, AnyFloat):
            refuse(self, f"the result has elements {result}, the product of {a} gives others")

    def _check_blocks(self, a: Attribute, b: Attribute, result: Attribute) -> None:
        """Blocks lie along K, and are read by products of floats."""
        if isinstance(self.layout, BlocksAttr):
            block = self.layout.format
            expect_element(self, f"the right operand in {self.layout}", b, i8)
        else:
            assert isinstance(b, BlockType)
            block = b.format
            if self.layout is not None:
                refuse(self, f"a right operand of {b} does not lie in {self.layout}")
            if self.transpose_b is None:
                refuse(self, f"blocks lie along K: a right operand of {b} has transpose_b")
        a_dims = shape_of(self.inputs[0])
        depth = a_dims[-2] if self.transpose_a is not None else a_dims[-1]
        if self.in_bytes:
            depth = self._row_elements(depth)
            expect_element(self, "the left operand of precision q8", a, i8)
        if not isinstance(depth, int) or depth % block.elements:
            refuse(
                self,
                f"K is {depth}, expected a multiple of the {block.elements} elements of a block",
            )
        floats = self.in_bytes or isinstance(a, AnyFloat)
        if not (floats and (self.body or isinstance(result, AnyFloat))):
            refuse(self, f"blocks are multiplied with floats, found {a} and a result of {result}")

    def _check_precision(self) -> None:
        """Floats up to f32; the left operand is rounded already, and so are panels."""
        in_blocks = isinstance(self.layout, BlocksAttr) or isinstance(
            element(self.inputs[1]), BlockType
        )
        if self.in_bytes or in_blocks:
            if not in_blocks:
                refuse(self, "precision q8 is for a right operand in blocks")
            if not self.in_bytes and self.precision is not None:
                refuse(self, "a right operand in blocks has no precision but q8")
            return
        said = None if self.precision is None else self.precision.data
        own = {None: (PanelsAttr, TilesAttr), "bf16": (PairsAttr,), "i8": (QuadsAttr,)}.get(said)
        if own is None:
            refuse(self, f"precision {said!r} is unknown, expected 'bf16', 'i8' or 'q8'")
        if self.layout is not None and not isinstance(self.layout, own):
            refuse(
                self,
                f"the layout {self.layout} does not belong to precision {said or 'as declared'}",
            )
        if self.precision is None:
            return
        if self.in_quads:
            self._check_quads()
            return
        if self.transpose_a is not None:
            refuse(self, "the left operand of a product of pairs is not transposed")
        rounded = self.inputs[: 2 if self.layout is not None else 1]
        for value in rounded:
            expect_element(self, "an operand of precision bf16", element(value), bf16)
        if element(self.inputs[1]) == f64:
            refuse(self, "the right operand is f64, which precision bf16 leaves alone")

    def _check_quads(self) -> None:
        """Bytes with a sign, a known number of them in a sum of 32 bits."""
        for value in self.inputs[:2]:
            expect_element(self, "an operand of precision i8", element(value), i8)
        if self.transpose_a is not None or self.unsigned is not None or self.boolean is not None:
            refuse(self, "operands of precision i8 have a sign, and the left one is not transposed")
        if not isinstance(shape_of(self.left)[-1], int):
            refuse(self, "a product of precision i8 has a known K")
        kind = self.body[0].block.args[0].type if self.body else element(self.output)
        if kind != i32:
            refuse(self, f"sums of precision i8 are i32, found {kind}")
        starts = self.room("starts")
        if starts is not None:
            expect_element(self, "what sums start from", element(starts), i32)
            expect_shape(self, "what sums start from", shape_of(starts), (None, None))


@irdl_op_definition
class AttentionOp(NNOp):
    """softmax(scale · q kᵀ + mask) v, heads grouped when q has a multiple of k's heads.

    Inputs: q, k, v and, with `masked`, a mask (bool: true attends; float: added) that broadcasts to
    `[batch, heads, q length, k length]`. `layouts` says for q, k, v and the result whether it is `bhld`
    (batch, heads, length, head size) or `blhd`. `window`: a query attends to that many keys up to its
    own position; with `windowed` the step knows how many, the last input (i64, positive, at most 2**30)
    says it. A score s is c · tanh(s / c) before the mask, where `softcap` is c, or with `softcapped`
    the last input, f32 or f64, positive and finite. A query that may attend to nothing gives 0, or with
    `nan_rows` NaN, as a softmax of nothing but -inf does. Scratch on buffers: the `queries` of a block,
    their `scores`, with bf16 also the `values`; or what is found of `parts` of the keys, `[batch,
    heads, parts, 2 + head size]`: the largest score, the sum of the weights, weighted values; and how many
    workgroups have `arrived` at the end of theirs, zeros in front of the op and behind it.

    Keys and values whose elements are bytes are rows of the format `block`, each head a number of blocks.
    Scratch on buffers: `unpacked_keys` and `unpacked_values`, `[threads, k length, head size]`.

    With `precision = "bf16"` q, k and v are bf16, and so are the weights that v is multiplied by; sums
    and softmax are f32. The mask is the same for all queries then, and they are neither causal nor
    windowed.
    """

    name = "nn.attention"
    scale = prop_def(FloatAttr)
    precision = opt_prop_def(StringAttr)
    block = opt_prop_def(StringAttr)
    causal = opt_prop_def(UnitAttr)
    window = opt_prop_def(IntegerAttr)
    windowed = opt_prop_def(UnitAttr)
    masked = opt_prop_def(UnitAttr)
    softcap = opt_prop_def(FloatAttr)
    softcapped = opt_prop_def(UnitAttr)
    nan_rows = opt_prop_def(UnitAttr)
    layouts = prop_def(ArrayAttr[StringAttr])
    ARITY: ClassVar[tuple[int, int | None]] = (3, 6)
    SCRATCH: ClassVar[tuple[str, ...]] = (
        "queries",
        "scores",
        "values",
        "parts",
        "arrived",
        "unpacked_keys",
        "unpacked_values",
    )

    def blocks_of(self, index: int) -> BlockFormat | None:
        """The format of an operand that is blocks of bytes."""
        kind = element(self.inputs[index])
        if self.block is None or index not in (1, 2) or not isinstance(kind, IntegerType):
            return None
        return BLOCKS[self.block.data]

    @property
    def mask(self) -> SSAValue | None:
        return self.inputs[3] if self.masked is not None else None

    @property
    def reach(self) -> SSAValue | None:
        """The window that only the step knows."""
        if self.windowed is None:
            return None
        return self.inputs[-1 if self.softcapped is None else -2]

    @property
    def cap(self) -> SSAValue | None:
        """The cap of scores that only the step knows."""
        return self.inputs[-1] if self.softcapped is not None else None

    def check(self) -> None:
        names = [layout.data for layout in self.layouts]
        if len(names) != 4 or not set(names) <= {"bhld", "blhd"}:
            refuse(self, f"layouts are four of bhld, blhd, found {names}")
        flags = {
            "masked": self.masked,
            "windowed": self.windowed,
            "softcapped": self.softcapped,
        }
        wanted = 3 + sum(flag is not None for flag in flags.values())
        if len(self.inputs) != wanted:
            said = ", ".join(
                f"{'with' if flag is not None else 'without'} {name}"
                for name, flag in flags.items()
            )
            refuse(self, f"{said} there are {wanted} inputs, found {len(self.inputs)}")
        if self.reach is not None:
            if self.window is not None:
                refuse(self, "window and windowed exclude each other")
            expect_element(self, "the window", element(self.reach), i64)
            expect_shape(self, "the window", shape_of(self.reach), ())
        self._check_cap()
        if self.window is not None and self.window.value.data < 1:
            refuse(self, f"window {self.window.value.data} lets no position attend")
        if self.block is not None and self.block.data not in BLOCKS:
            refuse(self, f"{self.block.data} is no format of blocks: {', '.join(BLOCKS)}")
        floats = [value for n, value in enumerate(self.inputs[:3]) if self.blocks_of(n) is None]
        expect_floats(self, (*floats, self.output))
        q, k, v, result = (
            self._dims(value, layout)
            for value, layout in zip((*self.inputs[:3], self.output), names)
        )
        k, v = self._of_blocks(1, k), self._of_blocks(2, v)
        if not (fits(q[0], k[0]) and fits(q[0], v[0])):
            refuse(self, f"batch sizes differ: q {q[0]}, k {k[0]}, v {v[0]}")
        if not fits(k[1], v[1]):
            refuse(self, f"k has {k[1]} heads and v has {v[1]}, expected as many")
        if not _groups(q[1], k[1]):
            refuse(self, f"q has {q[1]} heads and k has {k[1]}, expected a multiple")
        if not fits(k[2], v[2]):
            refuse(self, f"k has length {k[2]} and v has {v[2]}, expected the same")
        if not fits(q[3], k[3]):
            refuse(self, f"q has head size {q[3]} and k has {k[3]}, expected the same")
        expected: Dims = (q[0], q[1], q[2], v[3])
        if not same(result, expected):
            refuse(self, f"the result is {text(result)} in bhld order, expected {text(expected)}")
        self._check_mask((*q[:3], k[2]))
        if self.precision is not None:
            self._check_precision()
        self._check_scratch(q, k)

    def _of_blocks(self, index: int, dims: Dims) -> Dims:
        """The dimensions of an operand, where its heads may be blocks of bytes, in elements."""
        block = self.blocks_of(index)
        if block is None:
            return dims
        size = dims[3]
        if not isinstance(size, int) or size % block.nbytes:
            refuse(self, f"heads are blocks of {block.nbytes} bytes, found {size}")
        return (*dims[:3], size // block.nbytes * block.elements)

    def _check_cap(self) -> None:
        if self.softcap is not None and not 0 < self.softcap.value.data < inf:
            refuse(self, f"softcap {self.softcap.value.data} is not above 0 and finite")
        if self.cap is None:
            return
        if self.softcap is not None:
            refuse(self, "softcap and softcapped exclude each other")
        if element(self.cap) not in (f32, f64):
            refuse(self, f"the cap is {element(self.cap)}, expected f32 or f64")
        expect_shape(self, "the cap", shape_of(self.cap), ())

    def _check_precision(self) -> None:
        if self.precision is not None and self.precision.data != "bf16":
            refuse(self, f"precision {self.precision.data!r} is unknown, expected 'bf16'")
        for value in self.inputs[:3]:
            expect_element(self, "an operand of precision bf16", element(value), bf16)
        limited = (self.causal, self.window, self.windowed)
        varies = self.mask is not None and (1, *shape_of(self.mask))[-2:-1] != (1,)
        if varies or any(setting is not None for setting in limited):
            refuse(self, "with precision bf16 all queries attend to the same keys")
        if self.scratch and len(self.scratch) != 3:
            refuse(self, f"{len(self.scratch)} scratch buffers for precision bf16, expected 3")

    def _dims(self, value: SSAValue, layout: str) -> Dims:
        """Batch, heads, length, head size."""
        dims = shape_of(value)
        if len(dims) != 4:
            refuse(self, f"q, k, v and the result have four dimensions, found {text(dims)}")
        return dims if layout == "bhld" else (dims[0], dims[2], dims[1], dims[3])

    def _check_mask(self, scores: Dims) -> None:
        mask = self.mask
        if mask is not None:
            kind, dims = element(mask), shape_of(mask)
            # In memory a bool is a byte.
            is_bool = isinstance(kind, IntegerType) and kind.width.data in (1, 8)
            if not is_bool and not isinstance(kind, AnyFloat):
                refuse(self, f"the mask has elements {kind}, expected bools or floats")
            if not stretches(dims, scores):
                refuse(
                    self,
                    f"the mask has shape {text(dims)}, expected one that broadcasts to the "
                    f"scores' {text(scores)}",
                )

    def _check_scratch(self, q: Dims, k: Dims) -> None:
        parts = self.room("parts")
        if parts is not None:
            size = None if k[3] is None else k[3] + 2
            expect_shape(self, "the scratch buffer of parts", shape_of(parts), (*q[:2], None, size))
        for name in ("unpacked_keys", "unpacked_values"):
            rows = self.room(name)
            if rows is not None:
                expect_shape(self, f"the buffer {name}", shape_of(rows), (None, k[2], None))
        depth = q[3]
        if self.precision is not None and isinstance(depth, int):
            depth //= 2
        for name, size in (("queries", 1 if depth == 0 else depth), ("scores", k[2])):
            value = self.room(name)
            if value is None:
                continue
            what = f"the scratch buffer of {name}"
            expect_shape(self, what, shape_of(value), (None, size, None))
            if element(value) not in (f32, f64):
                refuse(self, f"{what} has elements {element(value)}, expected f32 or f64")


def _groups(many: Dim, few: Dim) -> bool:
    """Whether heads are equal or may come in groups; a run-time multiple cannot be seen here."""
    if fits(many, few):
        return True
    if isinstance(many, int) and isinstance(few, int):
        return few != 0 and many % few == 0
    return isinstance(few, int) and few != 0
