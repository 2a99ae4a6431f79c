"""Records of steps taken apart: what stays the same, and the numbers that do not."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.runtime.devices.vulkan.pieces import (
    PieceLaunch,
    PieceMove,
    early_moves,
    read_piece,
    window_of,
)
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
    piece = read_piece(record(), ROWS, 1, 16)
    first, launch, back, inside = piece.calls
    assert isinstance(first, PieceMove)
    assert (first.device, first.host, first.nbytes, first.staged) == ((ADDRESS,), 1, 64, 0)
    assert isinstance(launch, PieceLaunch)
    assert launch.buffers == ((ADDRESS, 64), (ADDRESS + 128, 64))
    assert piece.numbers(record()).tolist() == [2, 1, 1, 0, 0, 7]
    assert piece.groups.tolist() == [0, 1, 2]
    assert isinstance(back, PieceMove)
    assert (back.device, back.host, back.staged) == ((ADDRESS + 128,), 17, 64)
    assert isinstance(inside, PieceMove)
    assert (inside.device, inside.host) == ((ADDRESS, ADDRESS + 256), None)
    assert piece.moves(record())[1] == 128


def test_numbers_and_the_places_of_the_host_may_differ() -> None:
    piece = read_piece(record(), ROWS, 1, 16)
    assert piece.is_like(record(host=2000, groups=9, word=-1))


def test_bytes_and_device_memory_may_not() -> None:
    piece = read_piece(record(), ROWS, 1, 16)
    assert not piece.is_like(record(nbytes=68))
    for place in (0, 2, 4, 8, 10, 15, 16, 19):
        other = record()
        other[place] += 1
        assert not piece.is_like(other), place


def test_moves_that_nothing_stands_in_front_of_are_made_early() -> None:
    """Neither in the piece, nor in others before it: its kernel reads what it moves."""
    first, apart = read_piece(record(), ROWS, 1, 16), read_piece(moved(1024), ROWS, 2, 16)
    assert list(early_moves([], first, 64)) == [(0, ADDRESS)]
    assert list(early_moves([], first, 63)) == []
    assert list(early_moves([first], first, 64)) == []
    assert list(early_moves([first], apart, 64)) == [(0, ADDRESS + 1024)]
    beside = read_piece(moved(192), ROWS, 3, 16)
    assert list(early_moves([beside], first, 64)) == [(0, ADDRESS)]
    assert list(early_moves([first], beside, 64)) == [(0, ADDRESS + 192)]
    # A copy within the device goes there.
    assert list(early_moves([first], read_piece(moved(256), ROWS, 4, 16), 64)) == []
    twice = np.concatenate([record()[:4], record()])
    assert list(early_moves([], read_piece(twice, ROWS, 5, 16), 64)) == [(0, ADDRESS), (1, ADDRESS)]


def test_moves_of_no_bytes_are_none() -> None:
    piece = read_piece(record(nbytes=0), ROWS, 1, 16)
    assert [type(call) for call in piece.calls] == [PieceLaunch]
    assert piece.moves(record(nbytes=0)) == ([], 0)


def moved(by: int, nbytes: int = 64) -> np.ndarray:
    """The same, `by` bytes behind in its block."""
    other = record(nbytes=nbytes)
    other[[2, 8, 10, 16, 20, 21]] += by
    return other


def test_a_loose_piece_lies_anywhere_in_its_windows() -> None:
    window = 1 << 20
    piece = read_piece(record(), ROWS, 1, 16, window)
    assert piece.asks_the_same(record())
    for by in (4, 16, 4096, window - 256):
        assert piece.is_like(moved(by))
        assert not read_piece(record(), ROWS, 1, 16).is_like(moved(by))
        # Elements from the beginning of the window.
        assert piece.numbers(moved(by)).tolist() == [2, 1, 1, by // 4, (by + 128) // 4, 7]
    assert piece.is_like(record(nbytes=window))
    assert not piece.is_like(record(nbytes=window + 4))
    assert not piece.is_like(moved(window))
    assert not piece.is_like(moved(1 << 40))


def test_a_loose_piece_reads_its_moves_anew() -> None:
    piece = read_piece(record(nbytes=0), ROWS, 1, 16, 1 << 20)
    moves, staged = piece.moves(moved(4, nbytes=68))
    assert [(move.device, move.nbytes, move.staged) for move in moves] == [
        ((ADDRESS + 4,), 68, 0),
        ((ADDRESS + 132,), 68, 128),
        ((ADDRESS + 4, ADDRESS + 260), 68, 256),
    ]
    assert staged == 256


def test_a_large_buffer_of_a_loose_piece_lies_where_it_lies() -> None:
    piece = read_piece(record(nbytes=4096), ROWS, 1, 16, 1024)
    (launch,) = [call for call in piece.calls if isinstance(call, PieceLaunch)]
    assert launch.loose == (False, False)
    assert piece.is_like(record(nbytes=4096))
    assert not piece.is_like(record(nbytes=4100))


EXACT = [
    CallRow(TO_DEVICE, ["x"]),
    CallRow("add_0", ["x", "y"], writes=[1], places=[-1, 0], elements=[4, 4], words=3),
    *ROWS[2:],
]


def test_a_buffer_that_is_bound_where_it_begins_has_no_word() -> None:
    words = moved(64)
    assert read_piece(words, ROWS, 1, 256).numbers(words).tolist() == [2, 1, 1, 16, 48, 7]
    words = record()
    words[[12, 13]] = 5, 6
    # The first word is the place of y, the others are what the step says.
    assert read_piece(words, EXACT, 1, 64).numbers(words).tolist() == [2, 1, 1, 0, 6, 7]
    (launch,) = [
        c for c in read_piece(words, EXACT, 1, 64, 1 << 20).calls if isinstance(c, PieceLaunch)
    ]
    assert launch.loose == (False, True)


def test_a_buffer_that_cannot_be_bound_where_it_begins_is_refused() -> None:
    read_piece(moved(64), EXACT, 1, 64)
    with pytest.raises(oi.UnsupportedError, match=r"add_0.*256 bytes") as found:
        read_piece(moved(64), EXACT, 1, 256)
    assert found.value.code == "OI0773"


def test_other_rows_are_another_piece() -> None:
    piece = read_piece(record(), ROWS, 1, 16)
    assert piece.asks_the_same(moved(1 << 41, nbytes=12))
    other = record()
    other[4] = 3
    assert not piece.asks_the_same(other)


def test_windows_fit_bindings() -> None:
    for largest in (1 << 27, (1 << 27) - 1, (1 << 32) - 1, 1 << 31, 4096):
        window = window_of(largest)
        assert window & window - 1 == 0
        assert largest // 4 <= 2 * window <= min(largest, 1 << 31)
