"""What a piece asks for as commands: kernels with the ranges of bytes that they are given, and copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openinfer.runtime.devices.vulkan.commands import Copy, Dispatch
from openinfer.runtime.devices.vulkan.hazards import Range
from openinfer.runtime.devices.vulkan.kernels import Kernel
from openinfer.runtime.devices.vulkan.logical import Allocation
from openinfer.runtime.devices.vulkan.memory import WORD, VulkanMemory
from openinfer.runtime.devices.vulkan.pieces import Asked, Piece, PieceLaunch, PieceMove
from openinfer.runtime.devices.vulkan.record import TO_DEVICE, TO_HOST
from openinfer.runtime.manifest import CallRow


class PieceCommands:
    """Makes the commands of a program's rows."""

    def __init__(
        self, memory: VulkanMemory, kernels: Mapping[str, Kernel], rows: Sequence[CallRow]
    ) -> None:
        self._memory, self._kernels = memory, kernels
        self._alignment = memory.device.physical.alignment
        self._numbers = {id(row): number for number, row in enumerate(rows)}

    def of(
        self, asked: Asked, calls: Sequence[PieceLaunch | PieceMove], staging: Allocation
    ) -> Iterator[Dispatch | Copy]:
        """The commands of calls of a piece."""
        piece, moves = asked.piece, 0
        for call in calls:
            if isinstance(call, PieceMove):
                if call.nbytes and moves not in asked.straight:
                    yield self.move(call, staging)
                moves += 1
            else:
                row, kernel = self._numbers[id(call.row)], self._kernels[call.row.kernel]
                ranges = [*self.ranges(piece, call)]
                yield Dispatch(row, kernel, ranges, call.numbers, tuple(call.row.groups))

    def move(self, move: PieceMove, staging: Allocation) -> Copy:
        """The command of a move; its place in the staging buffer is that among the bytes of its piece."""
        row = self._numbers[id(move.row)]
        (block, start), *others = [self._memory.at(address) for address in move.device]
        here, nbytes = block.allocation, move.nbytes
        if move.row.kernel == TO_DEVICE:
            return Copy(row, staging, move.staged, here, start, nbytes)
        if move.row.kernel == TO_HOST:
            return Copy(row, here, start, staging, move.staged, nbytes)
        other, to = others[0]
        return Copy(row, here, start, other.allocation, to, nbytes)

    def ranges(self, piece: Piece, call: PieceLaunch) -> Iterator[Range]:
        """What a kernel is given; it is told how far behind the beginning its buffers begin."""
        for number, (address, nbytes) in enumerate(call.buffers):
            block, start = self._memory.at(address)
            whole = block.allocation.nbytes
            if piece.loose and call.loose[number]:
                begin = start - start % piece.window
                end = min(begin + 2 * piece.window, whole)
            else:
                begin = start - start % self._alignment
                end = start + nbytes + -(start + nbytes) % WORD
            if begin >= end:  # An empty buffer: nothing of it is read, but a binding has bytes.
                begin, end = 0, WORD
            yield Range(block.allocation, begin, end, number in call.row.writes)


def staged_copy(
    copy: Copy, staging: Allocation, staged: int
) -> tuple[Allocation, int, Allocation, int, int]:
    """What `Recording.copy` takes, where the bytes of a piece begin at `staged`."""
    first = copy.first + (staged if copy.source is staging else 0)
    start = copy.start + (staged if copy.target is staging else 0)
    return copy.source, first, copy.target, start, copy.nbytes
