"""Who is inside an executor, and whose inputs and results it holds.

`run` takes its inputs, runs its step and gives its results in one turn: callers from other threads wait,
or run beside it. All other methods are for one thread at a time, and so is what they leave behind: inputs
wait for a step, results for `fetch`. What would mix two callers is an error.

The token of a turn is taken by an iterator and given back by a store. Both are one step of the
interpreter, so that neither another thread nor Ctrl-C can come between the taking and the `try` that
gives back; a lock takes five times as long, and a call of `list.pop` can lose what it took to Ctrl-C.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import repeat
from threading import get_ident
from types import TracebackType
from typing import Any, TypeVar, cast

from openinfer.runtime.errors import InputError

_SOMEBODY = -1
"""In place of a thread that has run a later step elsewhere."""
_MOMENT = 0.05
"""Seconds after which a caller that waits looks again, whatever it was told."""

Item = TypeVar("Item")


class Turn:
    """One caller at a time. `for free in turn.taking` takes the token: False where somebody has it."""

    def __init__(self) -> None:
        self.slot: dict[int, bool] = {0: True}
        """The token, while nobody has it: `slot[0] = True` gives it back."""
        taking: Any = map(cast(Any, dict.pop), repeat(self.slot), repeat(0), repeat(False))
        self.taking: Iterator[bool] = taking
        self.user = 0
        """The thread that had the token last, or has it."""
        self.what = "run"
        """The method that it is, or was, inside of."""
        self.inserter: int | None = None
        """The thread whose inputs wait for a step."""
        self.stepper: int | None = None
        """The thread that ran the last step."""
        self.waiting = 0
        """Callers that wait for the token."""
        self._given_back = threading.Condition()
        self._known = threading.local()

    def alone(self, what: str) -> Alone:
        """For a `with` block that nobody else may be inside of. Raises InputError OI0564."""
        return Alone(self, what)

    def after_others(self, what: str) -> Alone:
        """For a `with` block that waits until nobody else is inside."""
        return Alone(self, what, wait=True)

    def wake(self) -> None:
        """Tells those who wait that something was given back."""
        with self._given_back:
            self._given_back.notify_all()

    def pause(self, free: Callable[[], object]) -> None:
        """Returns when something was given back, or soon; at once where something is `free`."""
        with self._given_back:
            # Whoever gives something back looks at this afterwards.
            self.waiting += 1
            try:
                if not free():
                    self._given_back.wait(_MOMENT)
            finally:
                self.waiting -= 1

    def busy(self, what: str, user: int | None = None, inside: str | None = None) -> InputError:
        """What `what` raises that found somebody inside; given where it is not the token that they have."""
        user, inside = user or self.user, inside or self.what
        if user == get_ident():
            return InputError(
                "OI0564",
                f"{what} inside of {inside} of the same executor",
                hint="a signal handler or a finaliser calls it: let it set a flag that your loop reads",
            )
        return InputError(
            "OI0564",
            f"{what} while another thread ({_name(user)}) is inside {inside} of this executor",
            hint="make an executor for each thread, or let the threads call `run`, which takes inputs "
            "and gives results in one call",
        )

    # Whose inputs and results there are

    def inserts(self, waiting: bool) -> None:
        """The caller gives inputs; `waiting` says whether others wait already.

        Raises InputError OI0565 where those are of another thread.
        """
        me = get_ident()
        if waiting and self.inserter != me and self.inserter is not None and alive(self.inserter):
            raise InputError(
                "OI0565",
                f"inputs that another thread ({_name(self.inserter)}) has inserted wait for its step",
                hint="make an executor for each thread, or give `run` all inputs of a step",
            )
        self.inserter = me

    def steps(self) -> None:
        """The caller runs a step: what `fetch` reads is its own from now on."""
        self.stepper = get_ident()
        self._known.stepped = True

    def steps_beside(self) -> None:
        """The caller runs a step in another context than the one that has this turn."""
        if self.stepper == get_ident():
            self.stepper = _SOMEBODY
        self._known.stepped = True

    def check_results(self) -> None:
        """Raises InputError OI0565 where the caller has run a step, and another thread one since.

        A thread that has run none reads what others have left, and so does one that reads what a thread
        left that has ended.
        """
        stepper = self.stepper
        if stepper is None or stepper == get_ident() or not getattr(self._known, "stepped", False):
            return
        if stepper == _SOMEBODY or alive(stepper):
            raise InputError(
                "OI0565",
                f"another thread ({_name(stepper)}) has run a step, or reset the executor, since this "
                "one ran a step: what there is to read is not its own",
                hint="take results from what `run` returns, or make an executor for each thread",
            )


class Alone:
    """A `with` block with the token of a turn."""

    __slots__ = ("_turn", "_wait", "_what")

    def __init__(self, turn: Turn, what: str, *, wait: bool = False) -> None:
        self._turn = turn
        self._what = what
        self._wait = wait

    def __enter__(self) -> None:
        turn, me = self._turn, get_ident()
        while True:
            for free in turn.taking:
                if free:
                    # No call from here to the `with` block: Ctrl-C comes behind calls.
                    turn.user = me
                    turn.what = self._what
                    return
                break
            if not self._wait or turn.user == me:
                raise turn.busy(self._what)
            turn.pause(turn.slot.__len__)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # No call before it: Ctrl-C may come where a function begins.
        turn = self._turn
        turn.slot[0] = True
        if turn.waiting:
            turn.wake()


class Turns(Generator[Item, None, None]):
    """The items of a generator, each made in a turn of its own."""

    def __init__(self, items: Generator[Item, None, None], turn: Turn, what: str) -> None:
        self._items = items
        self._turn = turn
        self._what = what

    def send(self, value: None, /) -> Item:
        """The next item. Raises InputError OI0564 while somebody is inside."""
        with self._turn.alone(self._what):
            return self._items.send(value)

    def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Item:
        """See `Generator.throw`."""
        error = kind() if isinstance(kind, type) and value is None else value or kind
        with self._turn.alone(self._what):
            return self._items.throw(error)


def alive(thread: int) -> bool:
    """Whether a thread with this number still runs, one that Python did not start included."""
    return thread in sys._current_frames()  # pyright: ignore[reportPrivateUsage]


def _name(thread: int) -> str:
    names = {known.ident: known.name for known in threading.enumerate()}
    return names.get(thread, f"number {thread}")
