"""The contexts in which callers of `run` work while somebody is inside the first one of an executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

from openinfer.runtime.locks import new_lock

Context = TypeVar("Context")


class Beside(Generic[Context]):
    """Made when they are first needed; a thread gets the one that it had before, if it can."""

    def __init__(self, make: Callable[[], Context], most: int) -> None:
        """There are never more than `most`."""
        self.all: list[Context] = []
        self.free: dict[int, Context] = {}
        """By the thread that was the last one inside; a negative number for none."""
        self.inside: dict[int, Context] = {}
        """By the thread that is inside."""
        self._make = make
        self._most = most
        self._lock = new_lock()
        self._steps: dict[int, int] = {}
        """For a thread that has a context here: steps of the first one when the thread came last."""

    def taking(self, thread: int, *, own: bool = False) -> Iterator[Context | None]:
        """One context, for a `for` loop (`Turn`); None where none is free, or not the thread's `own`."""
        keys = () if own else list(self.free)
        key = thread if thread in self.free or not keys else keys[0]
        taken: Any = map(cast(Any, dict.pop), (self.free,), (key,), (None,))
        return taken

    def give_back(self, context: Context, thread: int) -> None:
        """The thread has left the context, which it finds again if nobody else takes it."""
        if any(context is known for known in self.all):
            self.free[-id(context) if thread in self.free else thread] = context

    def add(self) -> bool:
        """Makes another context, if that may be."""
        with self._lock:
            if len(self.all) >= self._most:
                return False
            context = self._make()
            self.all.append(context)
        self.free[-id(context)] = context
        return True

    def stays(self, thread: int, steps: int) -> bool:
        """Whether a thread that has a context here goes on with it though the first one is free: others
        use that, who have finished so many `steps` with it.

        One whose results lie there, or that is laid out for their sizes, is left to them; but one that
        nobody uses has the team of threads.
        """
        if thread not in self.free:
            return False
        before, self._steps[thread] = self._steps.get(thread), steps
        return before != steps

    def clear(self) -> list[Context]:
        """Forgets the contexts, and gives those that nobody is inside of."""
        self.all = []
        self._steps.clear()
        found: list[Context] = []
        while True:
            for _, context in map(cast(Any, dict.popitem), [self.free] if self.free else []):
                found.append(context)
                break
            else:
                return found
