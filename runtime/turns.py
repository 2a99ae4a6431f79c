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
from functools import wraps
from itertools import repeat
from threading import get_ident
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from openinfer.runtime.errors import InputError

_SOMEBODY = -1
"""In place of a thread that has run a later step elsewhere."""
_MOMENT = 0.05
"""Seconds after which a caller that waits looks again, whatever it was told."""

Item = TypeVar("Item")
Given = ParamSpec("Given")
Owner = TypeVar("Owner", bound="_WithTurn")


class Turn:
    """One caller at a time. `for free in turn.taking` takes the token: False where somebody has it."""

    def __init__(self) -> None:
        self.slot: dict[int, object] = {0: True}
        """The token, while nobody has it: `slot[0] = True` gives it back. Another one than True tells
        the next caller that nobody was inside since."""
        taking: Any = map(cast(Any, dict.pop), repeat(self.slot), repeat(0), repeat(False))
        self.taking: Iterator[object] = taking
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


class _WithTurn(Protocol):
    """What has methods that only one caller may be inside of."""

    _turn: Turn


def alone(
    what: str, *, wait: bool = False
) -> Callable[
    [Callable[Concatenate[Owner, Given], Item]], Callable[Concatenate[Owner, Given], Item]
]:
    """Makes a method one that nobody else may be inside of: it raises InputError OI0564, or waits for them.

    No context manager: Ctrl-C may come where its `__exit__` begins, and then nobody gives the token back.
    """

    def decorate(
        method: Callable[Concatenate[Owner, Given], Item],
    ) -> Callable[Concatenate[Owner, Given], Item]:
        @wraps(method)
        def inside(self: Owner, /, *unnamed: Given.args, **named: Given.kwargs) -> Item:
            turn, me = self._turn, get_ident()  # pyright: ignore[reportPrivateUsage]
            while True:
                for free in turn.taking:
                    if not free:
                        break
                    try:
                        turn.user, turn.what = me, what
                        return method(self, *unnamed, **named)
                    finally:
                        # No call before it: Ctrl-C may come where a function begins.
                        turn.slot[0] = True
                        if turn.waiting:
                            turn.wake()
                if not wait or turn.user == me:
                    raise turn.busy(what)
                turn.pause(turn.slot.__len__)

        return inside

    return decorate


class Turns(Generator[Item, None, None]):
    """The items of a generator, of a step that is iterated: each is made in a turn of its own."""

    def __init__(self, items: Generator[Item, None, None], turn: Turn) -> None:
        self._items = items
        self._turn = turn

    @alone("iterate")
    def send(self, value: None, /) -> Item:
        """The next item. Raises InputError OI0564 while somebody is inside."""
        return self._items.send(value)

    @alone("iterate")
    def throw(self, kind: Any, value: Any = None, traceback: Any = None, /) -> Item:
        """See `Generator.throw`."""
        error = kind() if isinstance(kind, type) and value is None else value or kind
        return self._items.throw(error)


def alive(thread: int) -> bool:
    """Whether a thread with this number still runs, one that Python did not start included."""
    return thread in sys._current_frames()  # pyright: ignore[reportPrivateUsage]


def _name(thread: int) -> str:
    names = {known.ident: known.name for known in threading.enumerate()}
    return names.get(thread, f"number {thread}")
