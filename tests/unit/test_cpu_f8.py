"""8-bit floats in machine code: arithmetic, functions and masked stores on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.lowering.cpu.jit import compile_loops, parse_module
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.storage import round_values, to_storage, to_values
from openinfer.runtime.target import named_target

Array = np.ndarray[Any, Any]
FORMATS = {"f8": "f8E5M2", "f8e4m3": "f8E4M3FN"}
_KNOWN = ("generic", "avx2", "avx512")
TARGETS = _KNOWN[: _KNOWN.index(host_target().name) + 1]


def _codes(dtype: str) -> tuple[Array, Array]:
    """All bytes and their values."""
    codes = np.arange(256).astype(np.uint8)
    return codes, to_values(DTYPES[dtype], codes, (256,))


def _run(dtype: str, body: str, target: str, *arrays: Array) -> None:
    """A loop over vectors of 16: `body` makes %r of %a."""
    kind, vector = f"memref<256x{FORMATS[dtype]}>", f"vector<16x{FORMATS[dtype]}>"
    text = f"""func.func @f(%x: {kind}, %y: {kind}) {{
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %c256 = arith.constant 256 : index
      scf.for %i = %c0 to %c256 step %c16 {{
        %a = vector.load %x[%i] : {kind}, {vector}
        {body.replace("VECTOR", vector).replace("TYPE", FORMATS[dtype])}
        vector.store %r, %y[%i] : {kind}, {vector}
      }}
      func.return
    }}"""
    compile_loops(text, "f", target=named_target(target))(*arrays)


def _agree(dtype: str, found: Array, expected: Array) -> None:
    have = to_values(DTYPES[dtype], found, (256,))
    want = round_values(DTYPES[dtype], expected)
    np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
def test_arithmetic_is_rounded_once(dtype: str, target: str) -> None:
    codes, values = _codes(dtype)
    out = np.zeros(256, np.uint8)
    with np.errstate(all="ignore"):
        _run(dtype, "%r = arith.mulf %a, %a : VECTOR", target, codes, out)
        _agree(dtype, out, values * values)
        body = "%c = arith.constant dense<3.0> : VECTOR %r = arith.divf %a, %c : VECTOR"
        _run(dtype, body, target, codes, out)
        _agree(dtype, out, values / np.float32(3))
        _run(dtype, "%r = arith.negf %a : VECTOR", target, codes, out)
        _agree(dtype, out, -values)
        _run(dtype, "%r = vector.fma %a, %a, %a : VECTOR", target, codes, out)
        _agree(dtype, out, (values.astype(np.float64) * values + values).astype(np.float32))


@pytest.mark.parametrize("dtype", FORMATS)
def test_functions_choices_and_comparisons(dtype: str) -> None:
    codes, values = _codes(dtype)
    out = np.zeros(256, np.uint8)
    target = host_target().name
    _run(dtype, "%r = math.sqrt %a : VECTOR", target, codes, out)
    with np.errstate(all="ignore"):
        _agree(dtype, out, np.sqrt(values))
    _run(
        dtype,
        """%c = arith.constant dense<1.5> : VECTOR
           %t = arith.cmpf olt, %a, %c : VECTOR
           %r = arith.select %t, %c, %a : vector<16xi1>, VECTOR""",
        target,
        codes,
        out,
    )
    _agree(dtype, out, np.where(values < 1.5, np.float32(1.5), values))
    _run(
        dtype,
        """%m = vector.reduction <add>, %a : VECTOR into TYPE
           %r = vector.broadcast %m : TYPE to VECTOR""",
        target,
        np.tile(to_storage(DTYPES[dtype], np.array([1.0, 0.25], np.float32)), 128),
        out,
    )
    np.testing.assert_array_equal(to_values(DTYPES[dtype], out, (256,)), np.full(256, 10.0))


@pytest.mark.parametrize("dtype", FORMATS)
def test_integers_and_bits(dtype: str) -> None:
    """Conversions of scalars, and the bits of a value."""
    kind = FORMATS[dtype]
    text = f"""func.func @f(%x: memref<256x{kind}>, %i: index, %n: memref<3xi32>) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %a = memref.load %x[%i] : memref<256x{kind}>
      %w = arith.fptosi %a : {kind} to i32
      memref.store %w, %n[%c0] : memref<3xi32>
      %k = memref.load %n[%c1] : memref<3xi32>
      %b = arith.sitofp %k : i32 to {kind}
      memref.store %b, %x[%i] : memref<256x{kind}>
      %s = arith.bitcast %a : {kind} to i8
      %e = arith.extsi %s : i8 to i32
      memref.store %e, %n[%c2] : memref<3xi32>
      func.return
    }}"""
    run = compile_loops(text, "f")
    codes, values = _codes(dtype)
    for place in (0x35, 0x3F, 0xC1):
        numbers = np.array([0, 27, 0], np.int32)
        run(codes, place, numbers)
        assert numbers.tolist() == [int(values[place]), 27, int(np.int8(np.uint8(place)))]
        assert to_values(DTYPES[dtype], codes[place : place + 1], ()) == round_values(
            DTYPES[dtype], 27.0
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", FORMATS)
def test_masked_stores_touch_nothing_else(dtype: str, target: str) -> None:
    """LLVM joins a truncation and a masked store; what it makes of one lane must stay in it."""
    kind, lanes = FORMATS[dtype], 16
    for count in (0, 1, 2, 7, 15, 16):
        for known in (True, False):
            number = (
                f"%n = arith.constant {count} : index"
                if known
                else "%n = arith.addi %m, %m : index"
            )
            if not known and count % 2:
                number = "%c1 = arith.constant 1 : index %p = arith.addi %m, %m : index " + (
                    "%n = arith.addi %p, %c1 : index"
                )
            text = f"""func.func @f(%x: memref<16xf32>, %y: memref<48x{kind}>, %m: index) {{
              %c0 = arith.constant 0 : index
              %c8 = arith.constant 8 : index
              {number}
              %a = vector.load %x[%c0] : memref<16xf32>, vector<16xf32>
              %b = arith.truncf %a : vector<16xf32> to vector<16x{kind}>
              %k = vector.create_mask %n : vector<16xi1>
              vector.maskedstore %y[%c8], %k, %b : memref<48x{kind}>, vector<16xi1>, vector<16x{kind}>
              func.return
            }}"""
            x = np.linspace(-3, 3, lanes, dtype=np.float32)
            out = np.full(48, 0x55, np.uint8)
            compile_loops(text, "f", target=named_target(target))(x, out, count // 2)
            expected = np.full(48, 0x55, np.uint8)
            expected[8 : 8 + count] = to_storage(DTYPES[dtype], x)[:count]
            np.testing.assert_array_equal(out, expected)


def test_nothing_of_the_type_is_left() -> None:
    from openinfer.compiler.registry import make_context
    from openinfer.lowering.cpu.expand_f8 import ExpandF8

    module = parse_module(
        """memref.global "private" constant @g : memref<3xf8E5M2> = dense<[1.0, 2.0, -0.5]>
        func.func private @h(f8E5M2) -> f8E5M2
        func.func @f(%x: memref<2x?xf8E4M3FN, strided<[?, 1], offset: ?>>, %v: f8E5M2) -> f8E5M2 {
          %g = memref.get_global @g : memref<3xf8E5M2>
          %r = func.call @h(%v) : (f8E5M2) -> f8E5M2
          func.return %r : f8E5M2
        }"""
    )
    ExpandF8().apply(make_context(), module)
    module.verify()
    text = str(module)
    assert "f8E" not in text
    assert "memref<2x?xi8, strided<[?, 1], offset: ?>>" in text
    assert "dense<[60, 64, -72]>" in text
