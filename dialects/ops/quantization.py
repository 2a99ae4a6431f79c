"""From floats to small integers with a scale and a zero point, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openinfer.dialects.ops.base import (
    FLOATS,
    INTEGERS,
    REQUIRED,
    ArityError,
    OpDTypeError,
    OpSpec,
    Setting,
    SettingError,
    ShapeError,
    TensorSpec,
    dims_text,
    normal_axis,
)
from openinfer.runtime.blocks import BLOCKS
from openinfer.runtime.dtypes import DTYPES

Settings = Mapping[str, object]

CODES = tuple(name for name in INTEGERS if DTYPES[name].bits <= 32)
"""The dtypes that a float is quantised to."""


def _quantize(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    dtype = str(settings["dtype"])
    if dtype not in CODES:
        raise OpDTypeError(f"quantize does not give {dtype}", f"use {', '.join(CODES)}")
    _check_parameters(operands, settings, dtype)
    return [TensorSpec(dtype, operands[0].dims)]


def _dequantize(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    dtype = str(settings["dtype"])
    if dtype not in FLOATS:
        raise OpDTypeError(f"dequantize does not give {dtype}", f"use {', '.join(FLOATS)}")
    _check_parameters(operands, settings, operands[0].dtype)
    return [TensorSpec(dtype, operands[0].dims)]


def _check_parameters(operands: Sequence[TensorSpec], settings: Settings, codes: str) -> None:
    """Scale and zero point: each an operand or a setting, of one element or one for each of `axis`."""
    x = operands[0]
    zero_point = settings["zero_point"]
    if len(operands) > 1 and settings["scale"] is not None:
        raise ArityError("the scale is an operand and a setting", "leave one of them out")
    if len(operands) < 2 and settings["scale"] is None:
        raise ArityError("there is no scale", "give an operand, or the setting scale=…")
    if len(operands) > 2 and zero_point is not None:
        raise ArityError("the zero point is an operand and a setting", "leave one of them out")
    row = DTYPES[codes]
    low = -(1 << (row.bits - 1)) if row.kind == "int" else 0
    high = low + (1 << row.bits) - 1
    if isinstance(zero_point, int) and not low <= zero_point <= high:
        raise SettingError(
            "zero_point", f"zero_point={zero_point} lies outside {codes}, which is {low}..{high}"
        )
    axis = settings["axis"]
    if axis is not None:
        axis = normal_axis(axis, x.rank)
    kinds = (("scale", FLOATS), ("the zero point", INTEGERS))
    for operand, (what, allowed) in zip(operands[1:], kinds):
        if operand.dtype not in allowed:
            wanted = "a float" if allowed is FLOATS else "an integer"
            raise OpDTypeError(f"{what} is {operand.dtype}", f"use {wanted} dtype")
        if all(dim.constant == 1 for dim in operand.dims):
            continue
        if axis is None:
            raise SettingError(
                "axis",
                f"{what} is {operand}: one for each position of an axis that is not named",
                "give axis=…",
            )
        if operand.dims != (x.dims[axis],):
            raise ShapeError(
                f"{what} has shape {dims_text(operand.dims)}, axis {axis} of x {dims_text(x.dims)} "
                f"has {x.dims[axis]} positions",
                "use one element, or one for each position",
            )


def _quantize_blocks(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, block = operands[0], BLOCKS[str(settings["format"])]
    if not x.rank:
        raise ShapeError(
            "x is a scalar", f"its last axis is rows of {block.elements} elements each"
        )
    elements = x.dims[-1].constant
    if elements is not None and elements % block.elements:
        raise ShapeError(
            f"a row of x {dims_text(x.dims)} is no whole number of blocks",
            f"a block of {block.name} holds {block.elements} elements",
        )
    return [TensorSpec("u8", (*x.dims[:-1], x.dims[-1] // block.elements * block.nbytes))]


def _dequantize_blocks(operands: Sequence[TensorSpec], settings: Settings) -> list[TensorSpec]:
    x, block = operands[0], BLOCKS[str(settings["format"])]
    if not x.rank:
        raise ShapeError("x is a scalar", f"its last axis is blocks of {block.nbytes} bytes")
    size = x.dims[-1].constant
    if size is not None and size % block.nbytes:
        raise ShapeError(
            f"a row of x {dims_text(x.dims)} is no whole number of blocks",
            f"a block of {block.name} has {block.nbytes} bytes",
        )
    return [TensorSpec("f32", (*x.dims[:-1], x.dims[-1] // block.nbytes * block.elements))]


BLOCK_FORMATS = ("q8_0",)
"""Formats that a program may round rows to."""
_FORMAT = Setting(
    "format", "string", BLOCK_FORMATS[0], "the format of the blocks", choices=BLOCK_FORMATS
)
_SCALE = Setting("scale", "float", None, "one scale for all, instead of the operand")
_ZERO = Setting("zero_point", "int", None, "one zero point for all, default 0", ("zp",))
_AXIS = Setting("axis", "int", None, "the axis that has a scale for each position", ("dim",))

SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "quantize",
        ("x",),
        _quantize,
        "`round(x / scale) + zero_point`, halves to even, limited to the range of the dtype; NaN "
        "gives the zero point.",
        "quantization",
        FLOATS,
        (
            Setting("dtype", "dtype", REQUIRED, "the dtype of the result", ("to",)),
            _SCALE,
            _ZERO,
            _AXIS,
        ),
        optional=("scale", "zero_point"),
        literals=(("scale", "f32"), ("zero_point", "i32")),
    ),
    OpSpec(
        "dequantize",
        ("x",),
        _dequantize,
        "`(x - zero_point) * scale`, the difference exact, the product in f32 (f64 for an f64 "
        "scale or result).",
        "quantization",
        CODES,
        (
            Setting("dtype", "dtype", "f32", "the dtype of the result", ("to",)),
            _SCALE,
            _ZERO,
            _AXIS,
        ),
        optional=("scale", "zero_point"),
        literals=(("scale", "f32"), ("zero_point", "i32")),
    ),
    OpSpec(
        "quantize_blocks",
        ("x",),
        _quantize_blocks,
        "Rows as blocks of a [`.gguf` format](gguf.md#types-of-tensors), as bytes. `q8_0`: 32 elements x "
        "become d as f16, where d is the largest of abs(x) divided by 127, and 32 integers "
        "`round(x / d)`, halves to even; an element that is not finite makes d NaN.",
        "quantization",
        ("f32", "f16", "bf16"),
        (_FORMAT,),
    ),
    OpSpec(
        "dequantize_blocks",
        ("x",),
        _dequantize_blocks,
        "The f32 values of rows of blocks, exactly; `q8_0`: d times each integer.",
        "quantization",
        ("u8",),
        (_FORMAT,),
    ),
)
