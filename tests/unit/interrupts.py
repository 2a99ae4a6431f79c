"""Signals that end a call, and nothing but this call."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")
Handler = Callable[[int, FrameType | None], Any]


def raises(kind: type[BaseException]) -> Handler:
    """A handler that raises such an exception."""

    def handler(number: int, frame: FrameType | None) -> None:
        raise kind

    return handler


def _call(work: Callable[[], Result]) -> Result:
    return work()


def _inside(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _call.__code__:
            return True
        frame = frame.f_back
    return False


def interrupted(
    work: Callable[[], Result], handler: Handler, after: float = 0.3, again: float = 5
) -> Result:
    """What `work` returns, where SIGINTs come to the main thread, which calls this: after so many seconds,
    and every `again` seconds until it ends. Python drops what a handler raises inside of a finaliser or a
    callback of the collector, so one may not be enough.

    The handler is called only while `work` runs. However late a signal comes, it finds nobody who would be
    ended by it: neither the rest of the test nor pytest.
    """
    main = threading.get_ident()
    over = threading.Event()

    def send() -> None:
        wait = after
        while not over.wait(wait):
            wait = again
            signal.pthread_kill(main, signal.SIGINT)

    def guarded(number: int, frame: FrameType | None) -> None:
        if _inside(frame):
            handler(number, frame)

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, guarded)
    try:
        sender.start()
        return _call(work)
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGINT, before)
