"""Packed buffers in machine code: every access at every place, with guards around the buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from openinfer.compiler.registry import make_context
from openinfer.lowering.cpu.jit import compile_loops, parse_module
from openinfer.lowering.cpu.schedules.clear_tails import ClearTails
from openinfer.runtime.devices.cpu.codegen import host_target
from openinfer.runtime.dtypes import DTYPES
from openinfer.runtime.errors import CompileError
from openinfer.runtime.storage import to_storage, to_values
from openinfer.runtime.target import named_target
from openinfer.runtime.tensors import Tensor

Array = np.ndarray[Any, Any]
WIDTHS = (4, 2, 1)
_KNOWN = ("generic", "avx2", "avx512")
TARGETS = _KNOWN[: _KNOWN.index(host_target().name) + 1]
GUARD = 16
"""Bytes of a pattern before and behind each buffer."""


class Guarded:
    """A packed tensor in the middle of bytes that must stay as they are."""

    def __init__(self, width: int, count: int, seed: int = 0) -> None:
        self.dtype = DTYPES[f"u{width}"]
        rng = np.random.default_rng([width, count, seed])
        stored = self.dtype.nbytes(count)
        self.bytes = rng.integers(0, 256, stored + 2 * GUARD).astype(np.uint8)
        self.before = self.bytes.copy()
        self.tensor = Tensor(self.dtype, (count,), self.bytes[GUARD : GUARD + stored])

    def values(self) -> Array:
        return self.tensor.values()

    def check(self, expected: Array) -> None:
        """The elements are the expected ones, all other bits what they were."""
        np.testing.assert_array_equal(self.values(), expected)
        wanted = self.before.copy()
        stored = to_storage(self.dtype, expected.astype(np.uint8))
        used = expected.size * self.dtype.bits % 8
        if used:  # The rest of the last byte.
            rest = np.uint8(0xFF << used & 0xFF)
            stored[-1] |= self.before[GUARD + stored.size - 1] & rest
        wanted[GUARD : GUARD + stored.size] = stored
        np.testing.assert_array_equal(self.bytes, wanted)


def _copy(width: int, lanes: int, count: int, *, masked: bool) -> str:
    """A function that moves `lanes` elements from a place of x to a place of y."""
    kind, vector = f"memref<{count}xi{width}>", f"vector<{lanes}xi{width}>"
    if masked:
        body = f"""
          %m = vector.create_mask %n : vector<{lanes}xi1>
          %z = arith.constant dense<{"true" if width == 1 else -1}> : {vector}
          %v = vector.maskedload %x[%i], %m, %z : {kind}, vector<{lanes}xi1>, {vector} into {vector}
          %w = vector.shuffle %v, %v [{", ".join(map(str, range(lanes)))}] : {vector}, {vector}
          vector.maskedstore %y[%j], %m, %w : {kind}, vector<{lanes}xi1>, {vector}"""
    else:
        body = f"""
          %v = vector.load %x[%i] : {kind}, {vector}
          vector.store %v, %y[%j] : {kind}, {vector}"""
    return f"""func.func @f(%x: {kind}, %y: {kind}, %i: index, %j: index, %n: index) {{
      {body}
      func.return
    }}"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", WIDTHS)
def test_vectors_move_from_any_place_to_any_place(width: int, target: str) -> None:
    count = 61
    for lanes in (1, 2, 3, 8, 16, 32):
        run = compile_loops(
            _copy(width, lanes, count, masked=False), "f", target=named_target(target)
        )
        last = count - lanes
        for i, j in {(0, 0), (1, 0), (0, 3), (5, 7), (8, 16), (last, 2), (3, last), (last, last)}:
            x, y = Guarded(width, count), Guarded(width, count, 1)
            expected = y.values().copy()
            expected[j : j + lanes] = x.values()[i : i + lanes]
            run(x.tensor, y.tensor, i, j, 0)
            y.check(expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", WIDTHS)
def test_masked_vectors_touch_nothing_else(width: int, target: str) -> None:
    """The mask leaves out what lies behind the buffer: it is not even read."""
    count, lanes = 21, 16
    run = compile_loops(_copy(width, lanes, count, masked=True), "f", target=named_target(target))
    for n in (0, 1, 2, 7, 15, 16):
        for i, j in {(0, 0), (count - n, 3), (1, count - n)}:
            if i + n > count or j + n > count:
                continue
            x, y = Guarded(width, count), Guarded(width, count, 1)
            expected = y.values().copy()
            expected[j : j + n] = x.values()[i : i + n]
            run(x.tensor, y.tensor, i, j, n)
            y.check(expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_lanes_left_out_of_a_load_keep_the_rest(width: int) -> None:
    kind, vector = f"memref<9xi{width}>", f"vector<8xi{width}>"
    text = f"""func.func @f(%x: {kind}, %y: memref<8xi{width}>, %n: index) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %m = vector.create_mask %n : vector<8xi1>
      %z = arith.constant dense<{"true" if width == 1 else -1}> : {vector}
      %v = vector.maskedload %x[%c1], %m, %z : {kind}, vector<8xi1>, {vector} into {vector}
      vector.store %v, %y[%c0] : memref<8xi{width}>, {vector}
      func.return
    }}"""
    x, y = Guarded(width, 9), Guarded(width, 8, 1)
    compile_loops(text, "f")(x.tensor, y.tensor, 5)
    expected = np.full(8, (1 << width) - 1)
    expected[:5] = x.values()[1:6]
    y.check(expected)


@pytest.mark.parametrize("width", WIDTHS)
def test_single_elements(width: int) -> None:
    kind = f"memref<3x5xi{width}>"
    text = f"""func.func @f(%x: {kind}, %y: {kind}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c5 = arith.constant 5 : index
      scf.for %i = %c0 to %c3 step %c1 {{ scf.for %j = %c0 to %c5 step %c1 {{
        %r = arith.subi %c2, %i : index
        %a = memref.load %x[%r, %j] : {kind}
        memref.store %a, %y[%i, %j] : {kind}
      }} }}
      %b = memref.load %x[%c0, %c1] : {kind}
      memref.store %b, %y[%c2, %c3] : {kind}
      func.return
    }}"""
    x, y = Guarded(width, 15), Guarded(width, 15, 1)
    expected = x.values().reshape(3, 5)[::-1].copy()
    expected[2, 3] = x.values()[1]
    compile_loops(text, "f")(*(Tensor(g.dtype, (3, 5), g.tensor.storage) for g in (x, y)))
    y.check(expected.reshape(-1))


@pytest.mark.parametrize("width", WIDTHS)
def test_copies_gathers_and_static_buffers(width: int) -> None:
    kind, part = f"memref<13xi{width}>", f"memref<7xi{width}, strided<[1], offset: "
    vector = f"vector<4xi{width}>"
    values = np.random.default_rng(width).integers(0, 1 << width, 13)
    listed = ", ".join(
        "true" if width == 1 and v else "false" if width == 1 else str(v) for v in values
    )
    text = f"""
    memref.global "private" constant @numbers : {kind} = dense<[{listed}]>
    func.func @f(%x: memref<?xi{width}>, %y: {kind}, %z: {kind}, %w: memref<4xi{width}>) {{
      %c0 = arith.constant 0 : index
      %g = memref.get_global @numbers : {kind}
      memref.copy %g, %y : {kind} to {kind}
      %t = memref.alloca() : {kind}
      memref.copy %g, %t : {kind} to {kind}
      %a = memref.subview %x[3] [7] [1] : memref<?xi{width}> to {part}3>>
      %b = memref.subview %t[5] [7] [1] : {kind} to {part}5>>
      memref.copy %a, %b : {part}3>> to {part}5>>
      memref.copy %t, %z : {kind} to {kind}
      %p = arith.constant dense<[9, 0, 2, 5]> : vector<4xi32>
      %m = arith.constant dense<[true, true, false, true]> : vector<4xi1>
      %d = arith.constant dense<{"false" if width == 1 else 0}> : {vector}
      %v = vector.gather %x[%c0] [%p], %m, %d
        : memref<?xi{width}>, vector<4xi32>, vector<4xi1>, {vector} into {vector}
      vector.store %v, %w[%c0] : memref<4xi{width}>, {vector}
      func.return
    }}"""
    x, w = Guarded(width, 17), Guarded(width, 4, 3)
    rooms = [Tensor(x.dtype, (13,), np.zeros(x.dtype.nbytes(13), np.uint8)) for _ in range(2)]
    compile_loops(text, "f")(x.tensor, *rooms, w.tensor)
    np.testing.assert_array_equal(rooms[0].values(), values)
    expected = values.copy()
    expected[5:12] = x.values()[3:10]
    np.testing.assert_array_equal(rooms[1].values(), expected)
    w.check(np.array([x.values()[9], x.values()[0], 0, x.values()[5]]))


def test_a_buffer_that_begins_within_a_byte_is_not_passed() -> None:
    kind = "memref<4xi4, strided<[1], offset: 3>>"
    text = f"""
    func.func private @g(%x: memref<4xi4>) {{ func.return }}
    func.func @f(%x: memref<9xi4>) {{
      %a = memref.subview %x[3] [4] [1] : memref<9xi4> to {kind}
      %b = memref.cast %a : {kind} to memref<4xi4>
      func.call @g(%b) : (memref<4xi4>) -> ()
      func.return
    }}"""
    with pytest.raises(CompileError, match="within a byte"):
        compile_loops(text, "f")


def _cleared(width: int, size: str, count: int) -> Tensor:
    """All ones stored into a buffer that held ones, then the rest of its last byte cleared."""
    kind = f"memref<{size}xi{width}>"
    text = f"""func.func @f(%x: {kind}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = memref.dim %x, %c0 : {kind}
      %v = arith.constant {"true" if width == 1 else -1}{"" if width == 1 else f" : i{width}"}
      scf.for %i = %c0 to %n step %c1 {{ memref.store %v, %x[%i] : {kind} }}
      func.return
    }}"""
    module = parse_module(text)
    ClearTails().apply(make_context(), module)
    module.verify()
    dtype = DTYPES[f"u{width}"]
    tensor = Tensor(dtype, (count,), np.full(dtype.nbytes(count), 0xFF, np.uint8))
    compile_loops(module, "f")(tensor)
    return tensor


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 13, 16])
def test_tails_are_cleared(width: int, count: int) -> None:
    for size in (str(count), "?"):
        tensor = _cleared(width, size, count)
        ones = np.full(count, (1 << width) - 1, np.uint8)
        np.testing.assert_array_equal(tensor.storage, to_storage(tensor.dtype, ones))


def _unpacked(width: int, data: bytes, count: int) -> Sequence[int]:
    whole = int.from_bytes(data, "little")
    return [whole >> (k * width) & ((1 << width) - 1) for k in range(count)]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_element_lies_in_the_lowest_bits(width: int) -> None:
    """By arithmetic on one large number, beside the routines that all other tests go by."""
    x = Guarded(width, 29)
    data = x.tensor.storage.tobytes()
    assert to_values(x.dtype, data, (29,)).tolist() == _unpacked(width, data, 29)
