"""What a context asked its device for in earlier steps, as tables for machine code (`submit_again.ll`).

A step that asks for the same again needs no Python: numbers and bytes are put where the commands look for
them, the commands are handed in and waited for. What is known is a tree. Its root is a step that asked for
nothing since its last wait, each branch a piece (`pieces.py`), and a branch behind which the host waits has
the commands of all pieces up to there. Machine code goes along it, until a record comes that is on no branch:
that and all up to the next wait is Python's part, which then knows a branch more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from openinfer.runtime.devices.vulkan.commands import SECONDS, SPIN, CommandPool, Recording
from openinfer.runtime.devices.vulkan.driver import number_of
from openinfer.runtime.devices.vulkan.logical import Allocation
from openinfer.runtime.devices.vulkan.native import NativeDevice, address
from openinfer.runtime.devices.vulkan.pieces import Asked, Piece
from openinfer.runtime.devices.vulkan.record import TO_HOST
from openinfer.runtime.storage import AnyArray

_CALLS: Final = ("", "vkQueueSubmit", "vkGetFenceStatus", "vkWaitForFences", "vkResetFences")
"""The calls of the driver that machine code notes the failure of."""
MOST_MOVES: Final = 4
"""What is known of one loose piece with different moves: those of a text that grows never come twice."""
_LANES: Final = 8
"""Words that are compared at the same time."""


class _Step(ctypes.Structure):
    """`%Step` of the machine code."""

    _fields_ = (
        ("taken", ctypes.c_void_p),
        ("root", ctypes.c_void_p),
        ("device", ctypes.c_void_p),
        ("numbers", ctypes.c_void_p),
        ("staging", ctypes.c_void_p),
        ("fence", ctypes.c_uint64),
        ("spin", ctypes.c_int64),
        ("patience", ctypes.c_int64),
        ("logged", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("call", ctypes.c_int64),
        ("result", ctypes.c_int64),
    )


class _Known(ctypes.Structure):
    """`%Known` of the machine code."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        ("same", ctypes.c_void_p),
        ("numbers", ctypes.c_int64),
        ("sources", ctypes.c_void_p),
        ("room", ctypes.c_void_p),
        ("base", ctypes.c_int64),
        ("firsts", ctypes.c_int64),
        ("first_rows", ctypes.c_void_p),
        ("groups", ctypes.c_int64),
        ("group_rows", ctypes.c_void_p),
        ("moves", ctypes.c_int64),
        ("move_rows", ctypes.c_void_p),
        ("taken", ctypes.c_void_p),
        ("submission", ctypes.c_void_p),
        ("sizes", ctypes.c_int64),
        ("size_rows", ctypes.c_void_p),
        ("window", ctypes.c_int64),
    )


@dataclass
class _Branch:
    """A record that may follow."""

    piece: Piece
    same: AnyArray
    """The bits of the record that have to stay the same."""
    record: AnyArray
    words: _Known
    kept: list[Any]
    """What the words point to."""

    def is_for(self, words: AnyArray) -> bool:
        """Whether a record of the same piece has the same moves."""
        return not ((words ^ self.record) & self.same).any()


@dataclass
class _Taken:
    """What was asked for since the last wait."""

    asked: tuple[Asked, ...] = ()
    used: int = 0
    """Numbers of it."""
    staged: int = 0
    """Bytes of it in the staging buffer."""
    first: Any = field(default_factory=ctypes.c_void_p)
    """`%Taken` of the machine code: where its first branch is."""
    branches: list[_Branch] = field(default_factory=list[_Branch])

    @property
    def address(self) -> int:
        """Where machine code finds it."""
        return ctypes.addressof(self.first)

    def behind(self, one: Asked) -> _Taken:
        """This, and a piece more."""
        used = one.numbers + len(one.piece.sources)
        return _Taken((*self.asked, one), used, one.staged + one.piece.moves(one.words)[1])

    def branches_of(self, piece: Piece) -> list[_Branch]:
        """Those of a piece: a loose one has some for moves that differ."""
        return [one for one in self.branches if one.piece is piece]


class KnownSteps:
    """Of one context. Machine code looks at `record[-1]` for it while a step runs."""

    def __init__(
        self, native: NativeDevice, pool: CommandPool, numbers: Allocation, staging: Allocation
    ) -> None:
        self._pool, device = pool, pool.device
        self._words = _Step()
        self._words.device, self._words.numbers = native.address, numbers.mapped
        self._words.fence = number_of(pool.fence)
        # A driver that computes on the processor needs it.
        self._words.spin = 0 if device.physical.software else int(SPIN * 1e9)
        self._words.patience = SECONDS * 10**9
        self.stage(staging)
        self._root = _Taken()
        self._all = {self._root.address: self._root}
        self._words.root = self._begins = self._root.address

    @property
    def address(self) -> int:
        """Where machine code finds it."""
        return ctypes.addressof(self._words)

    @property
    def undecided(self) -> bool:
        """Whether machine code, or Python, has taken something that was not waited for."""
        return self._words.taken != self._begins

    @property
    def marks(self) -> Any:
        """How long the undo log was when the last record was handed over, `logged`, and the last one that
        ran, `done`."""
        return self._words

    def begin(self) -> None:
        """Nothing was asked for since the last wait; machine code goes on."""
        self._words.taken = self._begins

    def stage(self, staging: Allocation) -> None:
        """From the next `begin` on bytes are staged there."""
        self._words.staging = staging.mapped

    def stop(self) -> None:
        """Everything up to the next `begin` is Python's part."""
        self._words.taken = None

    def taken(self) -> tuple[list[Asked], int, int] | None:
        """What machine code has taken since the last wait: pieces, numbers and staged bytes of them. All up
        to the next wait is Python's part then. None where it was that before."""
        place, self._words.taken = self._words.taken, None
        if not place:
            return None
        found = self._all[place]
        return list(found.asked), found.used, found.staged

    def check(self) -> None:
        """Raises what the driver said to machine code, as the pool of commands does."""
        call, self._words.call = int(self._words.call), 0
        if call:
            self.stop()
            pending = _CALLS[call] != "vkQueueSubmit"
            self._pool.fail(_CALLS[call], int(self._words.result), pending=pending)

    def forget(self) -> None:
        """Nothing is known any more: commands were given back."""
        self._root.branches.clear()
        self._root.first.value = None
        self._all = {self._root.address: self._root}

    def learn(self, asked: Sequence[Asked], recordings: Sequence[Recording]) -> None:
        """What was asked for between two waits; its commands where the host waits behind it because it reads
        what comes back, else none."""
        taken = self._root
        for number, one in enumerate(asked):
            there = taken.branches_of(one.piece)
            branch = next((found for found in there if found.is_for(one.words)), None)
            last = number == len(asked) - 1
            if branch is None:
                staging = int(self._words.staging)
                branch = _branch(one, staging) if len(there) < MOST_MOVES else None
                if branch is None:
                    return
                if last and recordings:
                    branch.words.taken = self._root.address
                    branch.kept.append(submission := self._pool.submission(recordings))
                    branch.words.submission = number_of(submission[0])
                else:
                    behind = taken.behind(one)
                    branch.words.taken = behind.address
                    self._all[behind.address] = behind
                branch.words.next = taken.first.value
                taken.branches.append(branch)
                taken.first.value = ctypes.addressof(branch.words)
            if not last:
                taken = self._all[branch.words.taken]


def _branch(asked: Asked, staging: int) -> _Branch | None:
    """The tables of a piece; None where machine code does not divide as it would have to. The staging buffer
    lies at `staging`."""
    piece, firsts, count = asked.piece, asked.piece.firsts, len(asked.words)
    units, elements = firsts.units.astype(np.int64), firsts.elements.astype(np.int64)
    if (units & units - 1).any() or (elements & elements - 1).any():
        return None
    shifts = np.round(np.log2(np.maximum(elements, 1))).astype(np.int64)
    rows = np.stack([firsts.numbers, firsts.addresses, units - 1, shifts], axis=1)
    moves = [
        (move.host, place, move.nbytes, move.row.kernel == TO_HOST)
        for number, move in enumerate(asked.moves)
        if (place := _place(asked, number, staging)) is not None
    ]
    same = piece.same_with_moves(asked.moves)
    tables = {
        "words": _padded(asked.words),
        "same": _padded(same),
        "sources": piece.sources.astype(np.int64),
        "room": np.empty(len(piece.sources), np.uint32),
        "first_rows": np.ascontiguousarray(rows, np.int64),
        "group_rows": piece.groups.astype(np.int64),
        "move_rows": np.array(moves, np.int64).reshape(-1, 4),
        "size_rows": piece.sizes.astype(np.int64),
    }
    made = _Known(
        count=count,
        numbers=len(piece.sources),
        base=asked.numbers,
        firsts=len(rows),
        groups=len(piece.groups),
        moves=len(moves),
        sizes=len(piece.sizes),
        window=piece.window,
        **{name: address(table) for name, table in tables.items()},
    )
    return _Branch(piece, same, tables["words"][:count], made, [tables])


def _place(asked: Asked, number: int, staging: int) -> int | None:
    """How far behind the beginning of the staging buffer the host moves bytes from or to; None for what it
    does not move."""
    move = asked.moves[number]
    if move.host is None or not move.nbytes:
        return None
    there = asked.straight.get(number)
    return asked.staged + move.staged if there is None else there - staging


def _padded(words: AnyArray) -> AnyArray:
    """Words, and zeros up to a multiple of what is compared at once."""
    found = np.zeros(len(words) + -len(words) % _LANES, np.int64)
    found[: len(words)] = words
    return found
