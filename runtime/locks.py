"""Locks that the child of a fork finds free: the threads that had them are not there any more."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_forked: list[Callable[[], object]] = []
_namespace: Callable[[type], Any] = type.__dict__["__dict__"].__get__


def new_lock() -> threading.RLock:
    """A lock that its thread may take again. What it guards must be right wherever a thread stops."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def after_fork(work: Callable[[], object]) -> None:
    """Lets a child do some work, once for each fork, when its locks are free."""
    _forked.append(work)


def _renew() -> None:
    lost = [lock for lock in list(_locks) if not lock.acquire(blocking=False)]
    held = {id(lock) for lock in lost}
    for lock in list(_locks):
        if id(lock) in held:
            lock._at_fork_reinit()
        else:
            lock.release()
    if lost:
        _renew_properties()
    for work in _forked:
        work()


def _renew_properties() -> None:
    """Before Python 3.12 a cached property has a lock, which somebody has who parses a program, say.

    The properties are found through their classes: the collector does not list frozen objects,
    and servers freeze theirs before they fork.
    """
    seen: set[type] = set()
    classes: list[type] = [object]
    while classes:
        owner = classes.pop()
        if owner in seen:
            continue
        seen.add(owner)
        # A metaclass may have ways of its own to answer; `type` only looks.
        classes.extend(type.__subclasses__(owner))
        for found in list(_namespace(owner).values()):
            if issubclass(type(found), cached_property):
                lock: Any = getattr(found, "lock", None)
                if lock is not None and not lock._is_owned():
                    lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
