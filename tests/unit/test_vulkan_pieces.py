"""Records of steps taken apart: what stays the same, and the numbers that do not."""

from __future__ import annotations

import numpy as np

from openinfer.runtime.devices.vulkan.pieces import PieceLaunch, PieceMove, read_piece
from openinfer.runtime.devices.vulkan.record import COPY, TO_DEVICE, TO_HOST
from openinfer.runtime.manifest import CallRow

ROWS = [
    CallRow(TO_DEVICE, ["x"]),
    CallRow("add_0", ["x", "y"], writes=[1], places=[0, 1], elements=[4, 4], words=3),
    CallRow(TO_HOST, ["y"]),
    CallRow(COPY, ["y"]),
]
ADDRESS = 5 << 40


def record(host: int = 1000, groups: int = 2, word: int = 7, nbytes: int = 64) -> np.ndarray:
    """x to the device, a kernel, y back, and within the device."""
    return np.array(
        [
            *(0, host, ADDRESS, nbytes),
            *(1, groups, 1, 1, ADDRESS, nbytes, ADDRESS + 128, nbytes, 0, 0, word),
            *(2, ADDRESS + 128, host + 8, nbytes),
            *(3, ADDRESS, ADDRESS + 256, nbytes),
        ],
        np.int64,
    )


def test_a_record_is_taken_apart() -> None:
    piece = read_piece(record(), ROWS, 1)
    first, launch, back, inside = piece.calls
    assert isinstance(first, PieceMove)
    assert (first.device, first.host, first.nbytes, first.staged) == ((ADDRESS,), 1, 64, 0)
    assert isinstance(launch, PieceLaunch)
    assert launch.buffers == ((ADDRESS, 64), (ADDRESS + 128, 64))
    assert record()[piece.sources].tolist() == [2, 1, 1, 0, 0, 7]
    assert piece.groups.tolist() == [0, 1, 2]
    assert isinstance(back, PieceMove)
    assert (back.device, back.host, back.staged) == ((ADDRESS + 128,), 17, 64)
    assert isinstance(inside, PieceMove)
    assert (inside.device, inside.host) == ((ADDRESS, ADDRESS + 256), None)
    assert piece.staged == 128


def test_numbers_and_the_places_of_the_host_may_differ() -> None:
    piece = read_piece(record(), ROWS, 1)
    assert piece.is_like(record(host=2000, groups=9, word=-1))


def test_bytes_and_device_memory_may_not() -> None:
    piece = read_piece(record(), ROWS, 1)
    assert not piece.is_like(record(nbytes=68))
    for place in (0, 2, 4, 8, 10, 15, 16, 19):
        other = record()
        other[place] += 1
        assert not piece.is_like(other), place


def test_moves_of_no_bytes_are_none() -> None:
    piece = read_piece(record(nbytes=0), ROWS, 1)
    assert [type(call) for call in piece.calls] == [PieceLaunch]
    assert piece.staged == 0
