"""When the objects of a device end: with their owners, later where work that hangs may still use them.

A driver that has lost a device wants its objects back all the same, and the device behind them. Whoever
makes an object has a token until it is destroyed; the device ends when it is lost and nobody has one.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from openinfer.runtime.devices.vulkan.driver import DEVICE_LOST, VulkanFailure


class Lifetime:
    """That of one device. Finalizers call it from anywhere: what they do are single operations of sets and
    queues."""

    def __init__(self, name: str, end: Callable[[], object]) -> None:
        """`end` destroys the device."""
        self._name = name
        self.lost = False
        """Whether the driver has given it up, or work on it does not end."""
        self.over = False
        """Whether nothing is given back any more: the device has ended, or the process ends."""
        self._numbers = itertools.count()
        self._held: set[int] = set()
        self._running: deque[Callable[[], bool]] = deque()
        """Say whether work goes on that was given up."""
        self._late: deque[tuple[int, Callable[[], object]]] = deque()
        """What is destroyed when it has ended."""
        self._ends = deque([end])

    def hold(self) -> int:
        """A token for an object that is made now. Raises VulkanFailure on a lost device."""
        self._held.add(token := next(self._numbers))
        if self.lost:
            self.release(token, lambda: None)
        self.check()
        return token

    def check(self) -> None:
        """Raises VulkanFailure on a lost device."""
        if self.lost:
            raise VulkanFailure(
                f"{self._name} was lost in an earlier step, with what this executor kept on it",
                DEVICE_LOST,
            )

    def release(self, token: int, destroy: Callable[[], object]) -> None:
        """Destroys what a token was for, now or when nothing uses it any more."""
        if self.over:
            return
        if self._running:
            self._late.append((token, destroy))
            if not self._running:  # Another thread has just seen the end of it.
                self.sweep()
            return
        destroy()
        self._held.discard(token)
        self._end_unused()

    def lose(self, running: Callable[[], bool] | None = None) -> None:
        """Nothing new is made; `running` says whether work goes on all the same."""
        if running is not None:
            self._running.append(running)
        self.lost = True

    def sweep(self) -> bool:
        """Destroys what waits for its end, if that has come; whether nothing waits any more."""
        if any([running() for running in self._running]):
            return False
        self._running.clear()
        while self._late:
            self.release(*self._late.popleft())
        return True

    def _end_unused(self) -> None:
        if self.lost and not self._held and not self._late and self._ends:
            self._ends.pop()()
            self.over = True
